// SPDX-License-Identifier: BSD-3-Clause
// Who ends the waits of other threads.
#pragma once

#include "agent/lifecycle/next_function.h"

namespace clusterprof::agent {

// Finds the functions behind ours: a first call may be in a handler of the program's, or while another thread
// holds the loader's lock and waits for what the call ends.
void watch_wakes(const NextFunctions& functions) noexcept;

// For syscall(2): FUTEX_WAKE of up to so many threads is about to be called.
void note_wakes(long address, long most) noexcept;

}  // namespace clusterprof::agent
