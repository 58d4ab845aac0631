// SPDX-License-Identifier: BSD-3-Clause
// The handler that stays in front of the program's for SIGSEGV and SIGBUS.
#pragma once

#include <signal.h>

namespace clusterprof::agent {

// For SA_SIGINFO. A fault while the thread's guard is armed goes back to where the guard was set
// (sigsafe/guard.h); any other is handed to the program.
void fault_handler(int signal, siginfo_t* info, void* context) noexcept;

}  // namespace clusterprof::agent
