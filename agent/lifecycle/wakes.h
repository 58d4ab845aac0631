// SPDX-License-Identifier: BSD-3-Clause
// Who ends the waits of other threads.
#pragma once

namespace clusterprof::agent {

// Before the first call, which may be in a handler of the program's.
void watch_wakes() noexcept;

// For syscall(2): FUTEX_WAKE of up to so many threads is about to be called.
void note_wakes(long address, long most) noexcept;

}  // namespace clusterprof::agent
