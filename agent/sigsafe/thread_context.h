// SPDX-License-Identifier: BSD-3-Clause
// What the agent keeps per thread outside shared memory. One thread-local object, initial-exec,
// trivially constructed: reading it in a handler never allocates.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

struct NativeCache;   // native_stack.h: pc -> unwind rule
struct Scratch;       // sample_handler.h: room for one stack walk
struct PathMemo;      // call_path.h: MPI call paths seen on this thread
struct ThreadRecord;  // process_state.h: the private side of the slot

// Guarded reads: while `armed`, a SIGSEGV or SIGBUS on this thread jumps back to the place
// where the guard was set. See guard.h.
struct GuardState {
  volatile std::uint32_t armed;
  void* jump[5];  // __builtin_setjmp buffer
};

// What lifecycle/transfers.cpp wants to know of the signals that came during a call.
struct TransferState {
  volatile std::uint32_t program_handlers;  // of the program's that have returned
  volatile std::uint32_t cut;               // signals of ours that may have ended a transfer in the middle
  // A transfer goes on, in this system call made below this frame; 0: none.
  volatile std::uintptr_t continued_frame;
  volatile std::int64_t continued_number;
};

struct ThreadContext {
  TransferState transfer;       // first: signal_return.cpp; outlives what the others are about
  wire::ThreadSlot* slot;       // null: this thread is not recorded
  volatile std::uint32_t busy;  // > 0: agent code runs on this thread outside the handler
  GuardState guard;
  std::uintptr_t stack_low, stack_high;  // of the thread; both 0 when unknown
  NativeCache* native_cache;
  Scratch* handler_scratch;  // for the handler only
  Scratch* call_scratch;     // for call_path(), outside the handler
  PathMemo* path_memo;
  std::uint32_t last_handler_ns;
  std::uint32_t mpi_depth;
  // kMonotonic: where the last sample found the thread waiting; 0: it ran.
  std::uint64_t waiting_pc, waiting_sp;
  // What getrusage said last, and when that was (CLOCK_MONOTONIC).
  std::uint64_t usage_time_ns, system_ns, page_faults;
  // Where on the stack those began that set mpi_depth and busy: the program may jump out of them.
  std::uintptr_t mpi_frame, busy_frame;
  std::uintptr_t exec_frame;  // of lifecycle/exec.cpp, while it keeps the record to itself; 0: it does not
  ThreadRecord* record;       // set whenever slot is
};

// Agent code outside the handler is over: the program jumped out of it.
inline void forget_busy(ThreadContext& context) noexcept {
  context.busy = 0;
  context.guard.armed = 0;
}

// True when what began at `frame` is over although nobody said so: the stack now ends above it. False when
// either is not on the thread's own stack.
inline bool is_left(const ThreadContext& context, std::uintptr_t frame, std::uintptr_t now) noexcept {
  return frame >= context.stack_low && now < context.stack_high && now > frame;
}

extern thread_local constinit ThreadContext t_context __attribute__((tls_model("initial-exec")));

}  // namespace clusterprof::agent
