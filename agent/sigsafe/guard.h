// SPDX-License-Identifier: BSD-3-Clause
// Reads memory that may not be there. At the instant of a sample, CPython structures can be incomplete and
// modules can be unmapped. Checks cannot exclude that, so walks run guarded:
//
//   if (!clusterprof_guard_enter(t_context.guard)) return false;  // a read faulted
//   walk();
//   guard_leave(t_context.guard);
//
// The guarded part has to be a call that the compiler cannot see through: the compiler assumes that reads do
// not jump, and drops the way back if there is nothing else. Use a guard only on the thread itself. Guards do
// not nest. No object with a destructor may live in the guarded part. The SIGSEGV/SIGBUS handler that jumps
// is lifecycle/fault_handler.
#pragma once

#include "agent/sigsafe/thread_context.h"

namespace clusterprof::agent {

// Must be a macro: __builtin_setjmp has to be in the frame that stays.
#define clusterprof_guard_enter(guard) \
  (__builtin_setjmp((guard).jump) == 0 ? ((guard).armed = 1, true) : ((guard).armed = 0, false))

inline void guard_leave(GuardState& guard) noexcept { guard.armed = 0; }

}  // namespace clusterprof::agent
