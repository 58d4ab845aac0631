// SPDX-License-Identifier: BSD-3-Clause
// Finds out which system call a signal interrupted, and repeats it so that the program never sees EINTR
// because of one of our signals. SA_RESTART does not cover nanosleep, poll, select, epoll_wait, timed futex
// waits, msgrcv and others.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstdint>

#include "agent/sigsafe/thread_context.h"

namespace clusterprof::agent {

struct InterruptedCall {
  bool in_syscall;   // the pc is at or right behind a `syscall` instruction
  bool interrupted;  // the call was waiting: it failed with EINTR, or is about to be restarted
  bool failed_with_eintr;
  bool succeeded;       // with a result above 0
  std::int32_t number;  // -1 unknown
};

// Finds the call by the code bytes around the pc. At the `syscall` instruction, the number is in rax (the
// kernel went back there for a restart). After it, the number is in the instruction that loaded rax.
// may_guard: SIGSEGV is not blocked, so reading beyond the page of the pc can be guarded. Async-signal-safe.
InterruptedCall find_interrupted_call(ThreadContext& context, const ucontext_t& interrupted,
                                      bool may_guard) noexcept;

// Makes the thread repeat the call when the handler returns. Sleeps that report the remaining time continue
// with it, and so do calls of which `record` (null: there is none) knows when they have to be over. Other
// relative timeouts start again, so there may be only one signal per block. The call is not
// repeated if its number is not known, or if a signal of the program is pending or has just been handled:
// then the EINTR is the program's own. All signals must be blocked. Async-signal-safe.
void repeat_interrupted_call(const InterruptedCall& call, const ThreadRecord* record,
                             ucontext_t& interrupted) noexcept;

// What the call works on: wire::kOnFile, kOnSocket or kOnPipe, by its descriptor; kOnThread if it waits for
// the end of a thread, as pthread_join(3) does; 0 if that is not known. Does not ask a file server.
// Async-signal-safe.
std::uint32_t subject_of(ThreadContext& context, const InterruptedCall& call, const ucontext_t& interrupted,
                         bool may_guard) noexcept;

// A mutex of glibc's that the call waits for, and the thread that has it. Address 0: it is none, or has no
// holder that is known. Async-signal-safe.
struct AwaitedMutex {
  std::uint64_t address;
  std::int32_t holder;
};
AwaitedMutex awaited_mutex(ThreadContext& context, const InterruptedCall& call, const ucontext_t& interrupted,
                           bool may_guard) noexcept;

// The word that another thread has to wake it for; 0: it is no such call. Async-signal-safe.
std::uint64_t awaited_word(const InterruptedCall& call, const ucontext_t& interrupted) noexcept;

// For lifecycle/transfers.cpp: our signal may have ended the call after a part was transferred. All signals
// must be blocked. Async-signal-safe.
void note_cut_transfer(ThreadContext& context, const InterruptedCall& call,
                       const ucontext_t& interrupted) noexcept;

}  // namespace clusterprof::agent
