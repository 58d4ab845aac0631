// SPDX-License-Identifier: BSD-3-Clause
// Whether a thread that does not run still waits where its last sample found it.
#pragma once

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// The system call that a thread is blocked in, as the kernel tells it.
struct BlockedCall {
  long number;  // -1: it is blocked outside of a call, and there are no arguments
  std::uint64_t arguments[6];
  std::uint64_t stack_pointer, pc;  // the pc is behind the instruction
};

enum class CallState {
  kNotKnown,
  kRuns,  // it could run, and may be waiting for a processor
  kBlocked,
};

// From the text of /proc/self/task/TID/syscall.
CallState parse_call(const char* text, BlockedCall& call) noexcept;

// From the text of /proc/self/task/TID/status: how often the thread has given its processor up to wait for
// something. 0: it is not there.
std::uint64_t parse_waits(const char* status) noexcept;

// Asks the kernel about a thread.
struct AskKernel {
  CallState (*call)(ThreadRecord& record, BlockedCall& call) noexcept;
  // 0: it does not tell. Costs more than the call.
  std::uint64_t (*waits)(const ThreadRecord& record) noexcept;
};

// For a thread that its last sample found blocked: true if it has left that wait. It may be in another one by
// now, and has to be sampled again. `cpu_ns`: its CPU clock. Once the thread is known to have gone back to
// the wait, the clock alone decides; before that, if need be, the kernel is asked.
bool has_moved(ThreadRecord& record, std::uint64_t cpu_ns, const AskKernel& ask) noexcept;

}  // namespace clusterprof::agent
