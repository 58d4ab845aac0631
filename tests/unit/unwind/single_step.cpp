// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/unwind/single_step.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>

#include "agent/discovery/module_table.h"
#include "agent/sigsafe/code_flow.h"
#include "agent/sigsafe/native_stack.h"
#include "tests/unit/unwind/stack_comparison.hpp"

// Sets the trap flag around a call of rdi(rsi).
asm(R"(
  .pushsection .text
  .globl clusterprof_run_stepped
  .type clusterprof_run_stepped, @function
clusterprof_run_stepped:
  .cfi_startproc
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  movq %rdi, %rax
  movq %rsi, %rdi
  pushfq
  .cfi_adjust_cfa_offset 8
  orq $0x100, (%rsp)
  popfq
  .cfi_adjust_cfa_offset -8
  nop
  call *%rax
  pushfq
  .cfi_adjust_cfa_offset 8
  andq $~0x100, (%rsp)
  popfq
  .cfi_adjust_cfa_offset -8
  popq %rbx
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size clusterprof_run_stepped, . - clusterprof_run_stepped
  .popsection
)");
extern "C" void clusterprof_run_stepped(void (*function)(void*), void* data);

namespace clusterprof::agent::test {
namespace {

struct Call {
  std::uint64_t return_address, slot;
};

struct Stepper {
  StepResult result;
  NativeStack stack;
  NativeCache* cache = nullptr;
  std::uint64_t low = 0, high = 0;
  bool started = false;
  std::uint64_t every = 1;
  std::uint64_t last_pc = 0, last_sp = 0;
  // Outermost first. Those that were there before the first step are the first `base`.
  Call calls[4096];
  std::uint32_t count = 0, base = 0;
};

Stepper* g_stepper = nullptr;

_Unwind_Reason_Code add_base(_Unwind_Context* context, void* data) {
  auto& stepper = *static_cast<Stepper*>(data);
  int exact = 0;
  const std::uint64_t pc = _Unwind_GetIPInfo(context, &exact);
  if (pc == 0) return _URC_END_OF_STACK;
  if (!stepper.started) {
    stepper.started = exact != 0 && pc == stepper.last_pc;
    return _URC_NO_REASON;
  }
  // Innermost first for now. The slot of an interrupted frame is not a return address.
  stepper.calls[stepper.count++] = {pc + (exact != 0 ? 1 : 0), exact != 0 ? 0 : _Unwind_GetCFA(context) - 8};
  return _URC_NO_REASON;
}

std::string function_of(std::uint64_t pc) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(pc), &info) == 0 || info.dli_fname == nullptr) return "unknown code";
  const char* const slash = std::strrchr(info.dli_fname, '/');
  return std::string(slash != nullptr ? slash + 1 : info.dli_fname) + " " +
         (info.dli_sname != nullptr ? info.dli_sname : "?");
}

std::string describe(const Stepper& stepper, std::uint64_t pc) {
  char line[256];
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<void*>(pc), &info) != 0;
  std::snprintf(line, sizeof(line), "at %s, offset %#lx\n", function_of(pc).c_str(),
                known ? pc - reinterpret_cast<std::uint64_t>(info.dli_fbase) : 0);
  std::string text = line;
  for (std::uint32_t i = 0; i < 8; ++i) {
    const Call* const expected = i < stepper.count ? &stepper.calls[stepper.count - 1 - i] : nullptr;
    const bool walked = i + 1 < stepper.stack.count;
    std::snprintf(line, sizeof(line), "  expected %#14lx at %#14lx %-40.40s walked %#14lx at %#14lx\n",
                  expected != nullptr ? expected->return_address : 0,
                  expected != nullptr ? expected->slot : 0,
                  expected != nullptr ? function_of(expected->return_address).c_str() : "",
                  walked ? stepper.stack.frames[i + 1].pc : 0, walked ? stepper.stack.return_slot[i + 1] : 0);
    text += line;
  }
  std::snprintf(line, sizeof(line), "  pc %#lx rsp %#lx expected %u frames, walked %u%s\n", pc,
                stepper.last_sp, stepper.count, stepper.stack.count,
                stepper.stack.truncated ? " (truncated)" : "");
  return text + line;
}

// The C++ run time puts a landing pad's address where it once returns to, and then moves rsp there.
bool is_overwritten(const Stepper& stepper) {
  for (std::uint32_t i = stepper.base; i < stepper.count; ++i) {
    std::uint64_t there = 0;
    std::memcpy(&there, reinterpret_cast<const void*>(stepper.calls[i].slot), 8);
    if (there != stepper.calls[i].return_address) return true;
  }
  return false;
}

bool is_subsequence(const Stepper& stepper) {
  std::uint32_t at = stepper.count;
  for (std::uint32_t i = 1; i < stepper.stack.count; ++i) {
    while (at > 0 && stepper.calls[at - 1].return_address != stepper.stack.frames[i].pc) --at;
    if (at-- == 0) return false;
  }
  return stepper.stack.truncated;
}

void check(Stepper& stepper, const Registers& registers, NativeCache* cache) {
  NativeStack& stack = stepper.stack;
  walk_native(registers, stepper.low, stepper.high, cache, stack);
  StepResult& result = stepper.result;
  const std::uint32_t found = stack.count - 1;
  bool right = stack.count != 0 && stack.frames[0].pc == registers.rip && found <= stepper.count;
  for (std::uint32_t i = 0; right && i < found; ++i) {
    const Call& expected = stepper.calls[stepper.count - 1 - i];
    right = stack.frames[i + 1].pc == expected.return_address && stack.return_slot[i + 1] == expected.slot;
  }
  if (is_overwritten(stepper)) {
    ++result.overwritten;
  } else if (right && found == stepper.count && !stack.truncated) {
    ++result.equal;
  } else if (right && stack.truncated) {
    if (result.truncated++ == 0) result.first_truncated = describe(stepper, registers.rip);
    ++result.truncated_in[function_of(registers.rip)];
  } else if (is_subsequence(stepper)) {
    ++result.skipped;
    ++result.truncated_in[function_of(registers.rip)];
  } else {
    if (result.wrong++ == 0) result.first_wrong = describe(stepper, registers.rip);
    ++result.wrong_in[function_of(registers.rip)];
  }
}

void check_derived(Stepper& stepper, const Registers& registers) {
  Module module;
  CfiRow row;
  if (stepper.count <= stepper.base || !find_module(module_table(), registers.rip, module)) return;
  if (!derive_row(registers.rip, module.start, module.end, row)) return;
  std::uint64_t cfa = static_cast<std::uint64_t>(row.cfa_offset);
  switch (row.cfa_register) {
    case kDwarfRsp:
      cfa += registers.rsp;
      break;
    case kDwarfRbp:
      cfa += registers.rbp;
      break;
    default:
      return;
  }
  if (row.cfa_is_loaded) std::memcpy(&cfa, reinterpret_cast<const void*>(cfa), 8);
  ++stepper.result.derived;
  if (cfa - 8 == stepper.calls[stepper.count - 1].slot) ++stepper.result.derived_right;
}

void on_step(int, siginfo_t*, void* data) {
  auto& context = *static_cast<ucontext_t*>(data);
  Stepper& stepper = *g_stepper;
  const Registers registers = registers_of(context);
  if (!stepper.started) {
    stepper.last_pc = registers.rip;
    _Unwind_Backtrace(add_base, &stepper);
    if (!stepper.started) std::abort();
    std::reverse(stepper.calls, stepper.calls + stepper.count);
    stepper.base = stepper.count;
  } else {
    while (stepper.count > stepper.base && registers.rsp > stepper.calls[stepper.count - 1].slot)
      --stepper.count;
    // The return address follows the instruction that put it there: only a call does that.
    std::uint64_t top = 0;
    if (registers.rsp + 8 == stepper.last_sp) {
      std::memcpy(&top, reinterpret_cast<const void*>(registers.rsp), 8);
      if (top > stepper.last_pc && top - stepper.last_pc <= 15 && registers.rip != top &&
          stepper.count < std::size(stepper.calls))
        stepper.calls[stepper.count++] = {top, registers.rsp};
    }
  }
  stepper.last_pc = registers.rip;
  stepper.last_sp = registers.rsp;
  if (++stepper.result.instructions % stepper.every != 0) return;
  check(stepper, registers, stepper.cache);
  check_derived(stepper, registers);
  if (stepper.result.instructions % 16 == 0) check(stepper, registers, nullptr);
}

}  // namespace

std::string StepResult::report() const {
  std::string text = std::to_string(instructions) + " instructions, " + std::to_string(equal) + " equal, " +
                     std::to_string(truncated) + " truncated, " + std::to_string(skipped) + " skipped, " +
                     std::to_string(wrong) + " wrong, " + std::to_string(overwritten) +
                     " overwritten, frame from the code alone right at " + std::to_string(derived_right) +
                     " of " + std::to_string(derived) + "\n";
  for (const auto& [name, count] : wrong_in) text += "  wrong " + std::to_string(count) + " " + name + "\n";
  for (const auto& [name, count] : truncated_in)
    text += "  truncated " + std::to_string(count) + " " + name + "\n";
  return text + first_wrong + first_truncated;
}

StepResult step_through(const std::function<void()>& function, std::uint64_t every) {
  constexpr std::size_t kStackBytes = 1 << 20;
  const auto stepper = std::make_unique<Stepper>();
  const std::unique_ptr<void, void (*)(void*)> cache(std::calloc(1, native_cache_bytes()), std::free);
  stepper->every = every;
  stepper->cache = static_cast<NativeCache*>(cache.get());
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) std::abort();
  pthread_attr_getstack(&attributes, &low, &bytes);
  pthread_attr_destroy(&attributes);
  // As in the agent: on another stack than the thread's the bounds are not known.
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const auto stack_low = reinterpret_cast<std::uint64_t>(low);
  if (here >= stack_low && here < stack_low + bytes) {
    stepper->low = stack_low;
    stepper->high = stack_low + bytes;
  }
  void* const room = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) std::abort();
  stack_t stack{}, stack_before{};
  stack.ss_sp = room;
  stack.ss_size = kStackBytes;
  struct sigaction action {
  }, before{};
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  // Where the caller runs in a handler on an alternate stack already, that one serves.
  const bool own_stack = sigaltstack(&stack, &stack_before) == 0;
  if (sigaction(SIGTRAP, &action, &before) != 0) std::abort();
  g_stepper = stepper.get();
  clusterprof_run_stepped([](void* data) { (*static_cast<const std::function<void()>*>(data))(); },
                          const_cast<std::function<void()>*>(&function));
  g_stepper = nullptr;
  sigaction(SIGTRAP, &before, nullptr);
  if (own_stack) sigaltstack(&stack_before, nullptr);
  munmap(room, kStackBytes);
  return stepper->result;
}

}  // namespace clusterprof::agent::test
