// SPDX-License-Identifier: BSD-3-Clause
// SIGSEGV and SIGBUS: faults of our guarded reads end here; all others are forwarded to the program. Runs in
// signal handlers: the rules of sigsafe/RULES.md apply.
#include "agent/lifecycle/fault_handler.h"

#include <ucontext.h>

#include "agent/lifecycle/program_action.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/sample_handler.h"
#include "agent/sigsafe/thread_context.h"

// Defined by the linker: the start of this object, and the end of its code.
extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start[];
extern "C" [[gnu::visibility("hidden")]] const char etext[];

namespace clusterprof::agent {
namespace {

// An ample bound on the stack that guarded code uses.
constexpr std::uintptr_t kMaxGuardedBytes = 64 * 1024;

bool is_agent_code(std::uintptr_t address) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(__ehdr_start);
  return address - begin < reinterpret_cast<std::uintptr_t>(etext) - begin;
}

// True if guarded code made the read, either itself or in a function that it called: libc's memcpy, or one of
// the interpreter's. Such a function has put little on the stack beyond its return address. A handler of the
// program may have interrupted the guarded code (where that is not inside a handler of ours): then the search
// meets the address that this handler returns to first, which is not a call of ours.
bool is_of_guarded_code(std::uintptr_t pc, std::uintptr_t sp, std::uintptr_t guard_sp) noexcept {
  constexpr std::uintptr_t kWord = sizeof(std::uintptr_t), kMaxWords = 32;
  if (is_agent_code(pc)) return true;
  for (std::uintptr_t at = sp; at < guard_sp && at < sp + kMaxWords * kWord; at += kWord) {
    const auto word = *reinterpret_cast<const std::uintptr_t*>(at);
    if (is_signal_return(word)) return false;
    if (is_agent_code(word)) return true;
  }
  return false;
}

}  // namespace

void fault_handler(int signal, siginfo_t* info, void* context) noexcept {
  GuardState& guard = t_context.guard;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto guard_sp = reinterpret_cast<std::uintptr_t>(guard.jump[2]);
  const auto sp = static_cast<std::uintptr_t>(registers[REG_RSP]);
  const auto pc = static_cast<std::uintptr_t>(registers[REG_RIP]);
  // The frame that set the guard is gone: a handler of the program jumped out of it.
  if (guard.armed != 0 && is_left(t_context, guard_sp, sp)) guard.armed = 0;
  if (guard.armed != 0 && info->si_code > 0 && guard_sp - sp < kMaxGuardedBytes &&
      is_of_guarded_code(pc, sp, guard_sp)) {
    // What __builtin_longjmp would load. Returning from the handler with these registers also gives
    // the thread its signal mask and its stack back.
    registers[REG_RBP] = reinterpret_cast<greg_t>(guard.jump[0]);
    registers[REG_RIP] = reinterpret_cast<greg_t>(guard.jump[1]);
    registers[REG_RSP] = reinterpret_cast<greg_t>(guard.jump[2]);
    return;
  }
  if (!keep_sent_fault(*info)) forward_signal(signal, info, context);
}

}  // namespace clusterprof::agent
