// SPDX-License-Identifier: BSD-3-Clause
// Our handler for SIGSEGV and SIGBUS, which runs before the program's.
#pragma once

#include <signal.h>

namespace clusterprof::agent {

// For SA_SIGINFO. A fault while the thread's guard is armed jumps back to where the guard was set
// (sigsafe/guard.h). Any other fault is forwarded to the program.
void fault_handler(int signal, siginfo_t* info, void* context) noexcept;

}  // namespace clusterprof::agent
