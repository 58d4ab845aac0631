// SPDX-License-Identifier: BSD-3-Clause
// Finds the descriptions of code that compilers make while the program runs, and copies them for the
// collector: the interface by which such compilers tell debuggers (__jit_debug_descriptor). The program
// changes that list at any time, under locks of its own. So it is read through the kernel, which never
// faults, and a copy counts only if the list is as it was before.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Copies what has been registered since the last call to `segment`. Asks the loader if object files were
// loaded: as module_table_refresh, which comes first.
void generated_code_refresh(wire::SegmentHeader* segment) noexcept;

// Searches the file of an object that may have a list without exporting it, if there is one that has not been
// searched. That may take a while: call it from the same thread, but without a lock for which anybody waits.
void generated_code_search_file() noexcept;

// The same as generated_code_refresh for the last time, when the process ends. Does not ask the loader, and
// waits for nobody: any thread, also in a handler of the program.
void generated_code_refresh_at_exit(wire::SegmentHeader* segment) noexcept;

// In the child of a fork: its segment gets everything again.
void generated_code_reset_after_fork() noexcept;

}  // namespace clusterprof::agent
