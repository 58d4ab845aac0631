// SPDX-License-Identifier: BSD-3-Clause
// The signals that have a handler of ours in the kernel, and what the program sees instead.
#pragma once

#include <signal.h>

#include <cstdint>

namespace clusterprof::agent {

// Puts our handlers for SIGSEGV, SIGBUS and kSampleSignal in place; what the program has installed so
// far is remembered as its own.
void install_handlers() noexcept;

// For kSampleSignal when it was not sent by us (ProcessState::foreign_signal). In a handler.
void forward_foreign_signal(int signal, siginfo_t* info, void* context) noexcept;

// Blocks kSampleSignal for the calling thread around calls that the kernel undoes when a signal comes, and
// begins anew: when one takes longer than a period, it would never end. The program's signals come as ever,
// and it does not notice. `number`: of the system call, which a sample that has waited shows.
// Async-signal-safe.
struct HeldSignal {
  std::uint64_t unblock_after;  // what was not blocked before
  bool held_before;
  std::int32_t number_before;
};
// `others`: signals that are to wait as well.
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

// The program may block kSampleSignal: recorded threads do not, but the program is told so. Of the calling
// thread: takes the signal out of what it blocks in earnest, and remembers.
std::uint64_t without_program_block(std::uint64_t mask) noexcept;
bool believes_sample_signal_blocked() noexcept;
bool really_blocks_sample_signal() noexcept;  // and is not sampled
void set_believed_block(bool blocked) noexcept;
void reset_signals_after_fork() noexcept;
void watch_signals() noexcept;

// For good: no handler of ours is left, what waits for one is dropped, and the program has its signals to
// itself. All other threads' ticks have stopped.
void restore_program_signals() noexcept;

// What the program ignores, the program that it executes ignores too, but not where the kernel has a handler
// of ours. Around an exec that is made below `frame` on the stack; false: nothing to undo when it fails.
bool ignore_signals_for_exec(const void* frame) noexcept;
void handle_signals_again() noexcept;

}  // namespace clusterprof::agent
