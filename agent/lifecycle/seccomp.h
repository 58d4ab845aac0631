// SPDX-License-Identifier: BSD-3-Clause
// Filters that the program sets for its own system calls.
#pragma once

namespace clusterprof::agent {

// The program is about to call prctl(PR_SET_SECCOMP) or seccomp(2) with these arguments. Where our calls
// would kill it from then on, nothing of ours goes on in this process.
void before_filter_by_prctl(long mode, long program) noexcept;
void before_filter(long operation, long program) noexcept;

}  // namespace clusterprof::agent
