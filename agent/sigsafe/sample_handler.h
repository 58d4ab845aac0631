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
  std::uint64_t sent[wire::kMaxFrameWords];
};

// For SA_SIGINFO. Expects all signals to be blocked, but for the ones that faults raise.
void sample_handler(int signal, siginfo_t* info, void* context) noexcept;

// Starts the timer of a thread whose tick is kMonotonic, at its phase. Any thread, and in handlers.
void start_monotonic_timer(const ThreadRecord& record, std::uint64_t now_ns) noexcept;

// An event that was paused goes on: each refresh would allow one signal more before it stops. On the thread.
void continue_event(ThreadRecord& record) noexcept;

// The last record of a thread, with what its CPU clock said last. Only where its handler cannot run:
// on the thread with kSampleSignal blocked, or when it is gone.
void push_thread_end(ThreadContext& context, std::uint64_t cpu_ns) noexcept;

// Walks the calling thread's stacks from `registers`, each under a guard; what was found before a fault
// is kept and the fault counted. The caller makes sure that no handler uses the same scratch, and
// that SIGSEGV is not blocked.
void walk_stacks(ThreadContext& context, wire::SegmentHeader* segment, const Registers& registers,
                 bool with_native, Scratch& scratch) noexcept;

}  // namespace clusterprof::agent
