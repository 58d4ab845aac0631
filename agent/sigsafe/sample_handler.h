// SPDX-License-Identifier: BSD-3-Clause
// The signal handler that takes a sample of its own thread.
#pragma once

#include <signal.h>

#include "agent/sigsafe/native_stack.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/python_stack.h"
#include "agent/sigsafe/python_task.h"
#include "formats/wire/thread_tie.h"

namespace clusterprof::agent {

// Memory for one stack walk. Not on the stack, since threads may have tiny ones.
struct Scratch {
  NativeStack native;
  PythonStack python;
  TaskStack task;  // of the handler
  // Of the handler: the frame words of the last record that went to the ring, at the end of `sent`.
  std::uint32_t sent_words;
  std::uint32_t sent_flags;  // and what else of it says where the thread was
  std::int16_t sent_syscall;
  std::uint16_t sent_mpi_op;
  // Of the handler: SIGSEGV and SIGBUS that somebody sent while it let faults in; si_signo 0: none.
  siginfo_t sent_faults[2];
  std::uint64_t sent[wire::kMaxFrameWords];
};

// As bits of a mask: the signals that faults raise.
inline constexpr std::uint64_t kFaultSignals = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);

// Not the number of a timer: marks the tick of a thread that dies.
inline constexpr int kLastTick = -1;

// For SA_SIGINFO. Expects all signals to be blocked, except those that faults raise.
void sample_handler(int signal, siginfo_t* info, void* context) noexcept;

// For the handler of faults. True if the signal was sent to a thread that blocks it, while a sample let
// faults in: once the sample blocks them again, it is sent again.
bool keep_sent_fault(const siginfo_t& info) noexcept;

// Start the timer of a thread whose tick is kMonotonic or kCpuClock, at the thread's phase. Any thread, also
// in handlers.
void start_monotonic_timer(const ThreadRecord& record, std::uint64_t now_ns) noexcept;
void start_cpu_timer(const ThreadRecord& record) noexcept;
// Stops the thread's timers until one is started again. Any thread, also in handlers; not for events.
void stop_timers(const ThreadRecord& record) noexcept;

// Continues an event that was paused. (Each refresh would allow one more signal before the event stops.) On
// the thread itself.
void continue_event(ThreadRecord& record) noexcept;

// Writes the last record of a thread, with the last value of its CPU clock. Only if its handler cannot run:
// on the thread with kSampleSignal blocked, or when the thread is gone.
void push_thread_end(ThreadContext& context, std::uint64_t cpu_ns) noexcept;

// Writes what ties the thread to another one; `creator` of kBegan alone. Conditions as for push_thread_end.
void push_thread_tie(ThreadContext& context, wire::ThreadTieKind kind, std::uint64_t begin_ns,
                     std::uint64_t end_ns, std::uint64_t thread, std::int32_t creator) noexcept;

// A thread that existed before the agent takes the context that was made for it. On the thread, with
// kSampleSignal blocked.
void adopt(ThreadContext& context) noexcept;

// Recording of the thread stops or continues. If it stops, the time until now belongs to where the thread was
// last seen, or to `words` if it was not seen since the last of these records. If it continues, the time
// until now belongs to nothing. Conditions as for push_thread_end.
void push_stop(ThreadContext& context, std::uint64_t now_ns, const std::uint64_t* words,
               std::uint32_t count) noexcept;
void push_go_on(ThreadContext& context, std::uint64_t now_ns) noexcept;

// Walks the calling thread's stacks from `registers`, each under a guard. What was found before a fault is
// kept, and the fault is counted. The caller makes sure that no handler uses the same scratch, and that
// SIGSEGV is not blocked.
void walk_stacks(ThreadContext& context, wire::SegmentHeader* segment, const Registers& registers,
                 bool with_native, Scratch& scratch) noexcept;

}  // namespace clusterprof::agent
