// SPDX-License-Identifier: BSD-3-Clause
// SIGSEGV and SIGBUS: guarded reads of ours end here, everything else is the program's.
// Runs in handlers; the rules of sigsafe/RULES.md hold.
#include "agent/lifecycle/fault_handler.h"

#include <ucontext.h>

#include "agent/lifecycle/program_action.h"
#include "agent/sigsafe/thread_context.h"

namespace clusterprof::agent {
namespace {

// Of stack, that guarded code uses at most, by far.
constexpr std::uintptr_t kMostGuardedBytes = 64 * 1024;

}  // namespace

void fault_handler(int signal, siginfo_t* info, void* context) noexcept {
  GuardState& guard = t_context.guard;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto guard_sp = reinterpret_cast<std::uintptr_t>(guard.jump[2]);
  const auto sp = static_cast<std::uintptr_t>(registers[REG_RSP]);
  // The frame that set the guard is gone: a handler of the program jumped out of it.
  if (guard.armed != 0 && is_left(t_context, guard_sp, sp)) guard.armed = 0;
  if (guard.armed != 0 && info->si_code > 0 && guard_sp - sp < kMostGuardedBytes) {
    // What __builtin_longjmp would load. Returning from the handler with these registers also gives
    // the thread its signal mask and its stack back.
    registers[REG_RBP] = reinterpret_cast<greg_t>(guard.jump[0]);
    registers[REG_RIP] = reinterpret_cast<greg_t>(guard.jump[1]);
    registers[REG_RSP] = reinterpret_cast<greg_t>(guard.jump[2]);
    return;
  }
  forward_signal(signal, info, context);
}

}  // namespace clusterprof::agent
