// SPDX-License-Identifier: BSD-3-Clause
// What the program has installed for a signal whose handler in the kernel is ours, and handing such
// a signal on as if ours were not there.
#pragma once

#include <signal.h>

#include <cstdint>

namespace clusterprof::agent {

// SIGSEGV, SIGBUS, kSampleSignal; SIGIO where performance events sample the threads.
bool is_handled_signal(int signal) noexcept;

// Is it what handlers return to? Async-signal-safe.
bool is_signal_return(std::uintptr_t address) noexcept;

// True once install_handlers ran in this process.
bool handlers_are_installed() noexcept;

// sigaction(2) for a signal that we handle. Async-signal-safe.
void exchange_program_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

// Does what the kernel would do with a signal that is being handled by us: calls the program's handler,
// ignores it, or makes the process die of it once the handler has returned. Async-signal-safe.
void forward_signal(int signal, siginfo_t* info, void* context) noexcept;

}  // namespace clusterprof::agent
