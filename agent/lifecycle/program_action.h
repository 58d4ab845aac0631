// SPDX-License-Identifier: BSD-3-Clause
// The program's own action for a signal for which our handler is installed in the kernel, and forwarding such
// a signal as if our handler were not there.
#pragma once

#include <signal.h>

#include <cstdint>

namespace clusterprof::agent {

// SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, kSampleSignal; SIGIO where performance events sample the threads.
bool is_handled_signal(int signal) noexcept;

// True if handlers return to this address. Async-signal-safe.
bool is_signal_return(std::uintptr_t address) noexcept;

// True once install_handlers ran in this process.
bool handlers_are_installed() noexcept;

// sigaction(2) for a signal that we handle. Async-signal-safe.
void exchange_program_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

// Does what the kernel would do without our handler, which is handling this signal: calls the program's
// handler, ignores the signal, or makes the process die of it once our handler has returned.
// Async-signal-safe.
void forward_signal(int signal, siginfo_t* info, void* context) noexcept;

}  // namespace clusterprof::agent
