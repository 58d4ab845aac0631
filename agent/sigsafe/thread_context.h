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

struct ThreadContext {
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
  // Where on the stack those began that set mpi_depth and busy: the program may jump out of them.
  std::uintptr_t mpi_frame, busy_frame;
  ThreadRecord* record;  // set whenever slot is
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
