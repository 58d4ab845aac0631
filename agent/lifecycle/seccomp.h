// SPDX-License-Identifier: BSD-3-Clause
// Filters that the program sets for its own system calls.
#pragma once

namespace clusterprof::agent {

// Call before the program's prctl(PR_SET_SECCOMP) or seccomp(2) with these arguments. If the filter would
// kill the process for one of our system calls, recording of this process ends.
void before_filter_by_prctl(long mode, long program) noexcept;
void before_filter(long operation, long program) noexcept;

// True if a filter has ended the recording of this process, or of one that it was forked from: from then on
// we make no system call.
bool filter_has_ended_recording() noexcept;

}  // namespace clusterprof::agent
