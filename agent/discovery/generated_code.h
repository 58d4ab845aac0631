// SPDX-License-Identifier: BSD-3-Clause
// Finds the descriptions of code that compilers make while the program runs, and copies them for the
// collector: the interface by which such compilers tell debuggers (__jit_debug_descriptor). The program
// changes that list at any time, under locks of its own. So it is read through the kernel, which never
// faults, and a copy counts only if the list is as it was before.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Where the table of what is known comes from. Both are called by whoever looks, see below.
struct GeneratedCodeMemory {
  void* (*map)(std::uint64_t bytes) noexcept;  // zeroes; null: there is none
  void (*unmap)(void* memory, std::uint64_t bytes) noexcept;
};
// Call before the first look.
void generated_code_take_memory_from(GeneratedCodeMemory memory) noexcept;

// That table, for whoever has to know what is ours; null: there is none. Any thread.
const void* generated_code_memory() noexcept;
std::uint64_t generated_code_memory_bytes() noexcept;

// Copies what has been registered since the last call to `segment`. Asks the loader if object files were
// loaded: as module_table_refresh, which comes first. Takes 50 ms at most, and one object more; the rest
// follows at the next call.
void generated_code_refresh(wire::SegmentHeader* segment) noexcept;

// Searches the file of an object that may have a list without exporting it, if there is one that has not been
// searched. That may take a while: call it from the same thread, but without a lock for which anybody waits.
void generated_code_search_file() noexcept;

// The same as generated_code_refresh for the last time, when the process ends; what is left then is counted.
// Does not ask the loader, and waits for nobody: any thread, also in a handler of the program. Does nothing
// once the recording has ended or was given back.
void generated_code_refresh_at_exit(wire::SegmentHeader* segment) noexcept;

// Forgets the segment and gives the table back. Call it before the segment goes, after
// HandlerState::ended is set: waits for a look that is under way, which then ends at its next object. False:
// it has not ended in a second, and the segment must stay.
[[nodiscard]] bool generated_code_give_back() noexcept;

// In the child of a fork: its segment gets everything again.
void generated_code_reset_after_fork() noexcept;

}  // namespace clusterprof::agent
