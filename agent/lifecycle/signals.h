// SPDX-License-Identifier: BSD-3-Clause
// The signals for which our handlers are installed in the kernel, and what the program sees instead.
#pragma once

#include <signal.h>

#include <cstdint>

#include "agent/sigsafe/thread_context.h"

namespace clusterprof::agent {

// Installs our handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT and kSampleSignal. Handlers that the
// program has installed so far are remembered as its own.
void install_handlers() noexcept;

// For a kSampleSignal that we did not send (ProcessState::foreign_signal). Called in a handler.
void forward_foreign_signal(int signal, siginfo_t* info, void* context) noexcept;

// Blocks kSampleSignal for the calling thread around system calls that the kernel undoes and starts again
// when a signal arrives: one that takes longer than a sampling period would never end. The program's signals
// arrive as before, and the program does not notice the block. `number`: the system call, which is shown by a
// sample that had to wait. Async-signal-safe.
struct HeldSignal {
  std::uint64_t unblock_after;  // what was not blocked before
  bool held_before;
  std::int32_t number_before;
};
// `others`: other signals that have to wait, too.
HeldSignal hold_sample_signal(std::int32_t number, std::uint64_t others = 0) noexcept;
void release_sample_signal(const HeldSignal& held) noexcept;
bool holds_sample_signal() noexcept;

class SampleSignalHeld {
 public:
  explicit SampleSignalHeld(std::int32_t number) noexcept : held_(hold_sample_signal(number)) {}
  ~SampleSignalHeld() { release_sample_signal(held_); }
  SampleSignalHeld(const SampleSignalHeld&) = delete;
  SampleSignalHeld& operator=(const SampleSignalHeld&) = delete;

 private:
  const HeldSignal held_;
};

// The program may block kSampleSignal: recorded threads do not really block it, but the program is told that
// they do. For the calling thread: removes the signal from the mask that is set in the kernel, and remembers
// that.
std::uint64_t without_program_block(std::uint64_t mask) noexcept;
bool believes_sample_signal_blocked() noexcept;
bool really_blocks_sample_signal() noexcept;  // and is not sampled
void set_believed_block(bool blocked) noexcept;
void reset_signals_after_fork() noexcept;
void watch_signals() noexcept;

// Permanent: removes our handlers, discards our pending signals, and leaves the program its signals. The
// ticks of all other threads must have stopped.
void restore_program_signals() noexcept;

// A signal that this program ignores is also ignored by a program that it executes, but not if our handler is
// installed for it. Call around an exec that is made below `frame` on the stack. False: there is nothing to
// undo if the exec fails. `outer`: what that needs.
bool ignore_signals_for_exec(std::uintptr_t frame, BusyFrame& outer) noexcept;
void handle_signals_again(const BusyFrame& outer) noexcept;

}  // namespace clusterprof::agent
