// SPDX-License-Identifier: BSD-3-Clause
// The signal handler that takes a sample of its own thread.
#pragma once

#include <signal.h>

#include "agent/sigsafe/native_stack.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/python_stack.h"

namespace clusterprof::agent {

// Room for one stack walk. Not on the stack: threads may have tiny ones.
struct Scratch {
  NativeStack native;
  PythonStack python;
  // Of the handler: the frame words of the last record that went to the ring, at the end of `sent`.
  std::uint32_t sent_words;
  std::uint32_t sent_flags;  // and what else of it says where the thread was
  std::int32_t sent_syscall;
  std::uint16_t sent_mpi_op;
  std::uint64_t sent[wire::kMaxFrameWords];
};

// As bits of a mask: what faults raise.
inline constexpr std::uint64_t kFaultSignals = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);

// The number of no timer: of the tick of a thread that dies.
inline constexpr int kLastTick = -1;

// For SA_SIGINFO. Expects all signals to be blocked, but for the ones that faults raise.
void sample_handler(int signal, siginfo_t* info, void* context) noexcept;

// Start the timer of a thread whose tick is kMonotonic, or kCpuClock, at its phase. Any thread, and in
// handlers.
void start_monotonic_timer(const ThreadRecord& record, std::uint64_t now_ns) noexcept;
void start_cpu_timer(const ThreadRecord& record) noexcept;

// An event that was paused goes on: each refresh would allow one signal more before it stops. On the thread.
void continue_event(ThreadRecord& record) noexcept;

// The last record of a thread, with what its CPU clock said last. Only where its handler cannot run:
// on the thread with kSampleSignal blocked, or when it is gone.
void push_thread_end(ThreadContext& context, std::uint64_t cpu_ns) noexcept;

// A thread that was there before the agent finds the context that was made for it. On the thread, with
// kSampleSignal blocked.
void adopt(ThreadContext& context) noexcept;

// The thread stops being recorded (the time until now is where it was last seen, or where `words` say when it
// was not seen since the last of these records), or goes on (the time until now is nobody's). Like
// push_thread_end.
void push_stop(ThreadContext& context, std::uint64_t now_ns, const std::uint64_t* words,
               std::uint32_t count) noexcept;
void push_go_on(ThreadContext& context, std::uint64_t now_ns) noexcept;

// Walks the calling thread's stacks from `registers`, each under a guard; what was found before a fault
// is kept and the fault counted. The caller makes sure that no handler uses the same scratch, and
// that SIGSEGV is not blocked.
void walk_stacks(ThreadContext& context, wire::SegmentHeader* segment, const Registers& registers,
                 bool with_native, Scratch& scratch) noexcept;

}  // namespace clusterprof::agent
