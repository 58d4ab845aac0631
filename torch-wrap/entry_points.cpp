// SPDX-License-Identifier: BSD-3-Clause
// What stands in front of libtorch's functions. An entry point jumps to where its slot points:
//   first to code that has the slot filled in (clusterprof_c10d_resolve) with all argument registers kept,
//   then to libtorch's function, if nothing is recorded or this libtorch is not known,
//   or to a wrapper, which tells calls.cpp before and after the call.
// A wrapper forwards six argument registers and two words of the stack: no function here has more. None has
// arguments in floating-point registers.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "agent/agent_api.h"
#include "agent/c10d_start.h"
#include "formats/wire/c10d_functions.h"
#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/state.hpp"
#include "torch-wrap/calls.hpp"
#include "torch-wrap/groups.hpp"
#include "torch-wrap/hooks.hpp"
#include "torch-wrap/library.hpp"
#include "torch-wrap/works.hpp"

#if !defined(__x86_64__)
#error "the entry points are written for x86-64"
#endif

namespace clusterprof::torch_wrap {

#define CLUSTERPROF_C10D_SYMBOL(number, symbol, how) symbol,
const char* const kSymbols[kHooks] = {CLUSTERPROF_C10D_HOOKS(CLUSTERPROF_C10D_SYMBOL)};

namespace {

// 0 not yet, else one of these.
enum : int { kPassThrough = 1, kMeasuring = 2 };
int decision;
mpi_wrap::SpinLock deciding;

void* real_functions[kHooks];

// Another thread may have held a lock when this process was forked.
void begin_child() noexcept {
  deciding.unlock();
  forget_operations();
  forget_groups();
}

int decide() noexcept {
  const char* const off = getenv("CLUSTERPROF_NO_MPI");
  if (off != nullptr && off[0] != '\0' && strcmp(off, "0") != 0) return kPassThrough;
  const clusterprof_agent_api* const agent = clusterprof_agent_v1();
  if (agent == nullptr || agent->segment() == nullptr) return kPassThrough;
  mpi_wrap::agent = agent;
  if (!recognise_library()) {
    clusterprof::agent::c10d_not_recorded();
    return kPassThrough;
  }
  return pthread_atfork(nullptr, nullptr, begin_child) == 0 ? kMeasuring : kPassThrough;
}

bool measuring() noexcept {
  const mpi_wrap::LockIf held(deciding, true);
  if (decision == 0) decision = decide();
  return decision == kMeasuring;
}

// The symbol was found here, so something has been linked with it that no loaded library has.
[[noreturn]] void end_without(const char* symbol) noexcept {
  for (const char* const part : {"clusterprof: no loaded library has ", symbol, "\n"})
    [[maybe_unused]] const auto written = write(STDERR_FILENO, part, strlen(part));
  abort();
}

}  // namespace
}  // namespace clusterprof::torch_wrap

using namespace clusterprof::torch_wrap;

extern "C" {

extern void* clusterprof_c10d_slots[];

// A wrapper lies 16 bytes behind the code that its slot points to at first.
[[gnu::used, gnu::visibility("hidden")]] void* clusterprof_c10d_resolve(std::uint32_t hook) noexcept {
  void* const real = library_symbol(kSymbols[hook]);
  if (real == nullptr) end_without(kSymbols[hook]);
  __atomic_store_n(&real_functions[hook], real, __ATOMIC_RELEASE);
  static std::atomic<void*> first[kHooks];
  void* known = first[hook].load(std::memory_order_acquire);
  if (known == nullptr) {
    // Another thread may have filled the slot in since: then `first` is set.
    void* const there = __atomic_load_n(&clusterprof_c10d_slots[hook], __ATOMIC_ACQUIRE);
    if (first[hook].compare_exchange_strong(known, there)) known = there;
  }
  void* const target = measuring() ? static_cast<char*>(known) + 16 : real;
  __atomic_store_n(&clusterprof_c10d_slots[hook], target, __ATOMIC_RELEASE);
  return target;
}

// Returns the function to call.
[[gnu::used, gnu::visibility("hidden")]] void* clusterprof_c10d_enter(std::uint32_t hook,
                                                                      const Registers* arguments) noexcept {
  enter_call(static_cast<Hook>(hook), *arguments);
  return __atomic_load_n(&real_functions[hook], __ATOMIC_ACQUIRE);
}

[[gnu::used, gnu::visibility("hidden")]] void clusterprof_c10d_leave(std::uint32_t hook,
                                                                     const Registers* arguments,
                                                                     std::uint64_t result) noexcept {
  leave_call(static_cast<Hook>(hook), *arguments, result);
}

// The wrappers' personality routine: the unwinder calls it when an exception passes, first to search for who
// handles it, then to clean up.
[[gnu::used, gnu::visibility("hidden")]] int clusterprof_c10d_personality(int, int actions, std::uint64_t,
                                                                          void*, void*) noexcept {
  constexpr int kCleanUpPhase = 2, kContinueUnwinding = 8;
  if ((actions & kCleanUpPhase) != 0) call_was_unwound();
  return kContinueUnwinding;
}
}

// clang-format off
#define ENTRY(number, symbol, how)                                          \
  ".globl " symbol "\n"                                                    \
  ".type " symbol ",@function\n"                                           \
  ".p2align 4\n"                                                           \
  symbol ":\n"                                                             \
  ".cfi_startproc\n"                                                       \
  "jmp *(clusterprof_c10d_slots + 8 * " number ")(%rip)\n"                  \
  ".p2align 4\n"                                                           \
  ".Lclusterprof_c10d_first_" number ":\n"                                   \
  "movl $" number ", %eax\n"                                                \
  "jmp clusterprof_c10d_first_call\n"                                       \
  ".p2align 4\n"                                                           \
  "movl $" number ", %eax\n"                                                \
  "jmp clusterprof_c10d_" how "\n"                                          \
  ".cfi_endproc\n"                                                         \
  ".size " symbol ", . - " symbol "\n"
#define SLOT(number, symbol, how) ".quad .Lclusterprof_c10d_first_" number "\n"
// The hook's number is in eax, which no caller uses for arguments.
#define SAVE_ARGUMENTS                 \
  "pushq %rbp\n"                       \
  ".cfi_def_cfa_offset 16\n"           \
  ".cfi_offset %rbp, -16\n"            \
  "movq %rsp, %rbp\n"                  \
  ".cfi_def_cfa_register %rbp\n"       \
  "subq $80, %rsp\n"                   \
  "movq %rdi, -48(%rbp)\n"             \
  "movq %rsi, -40(%rbp)\n"             \
  "movq %rdx, -32(%rbp)\n"             \
  "movq %rcx, -24(%rbp)\n"             \
  "movq %r8, -16(%rbp)\n"              \
  "movq %r9, -8(%rbp)\n"               \
  "movl %eax, -56(%rbp)\n"             \
  "movl %eax, %edi\n"                  \
  "leaq -48(%rbp), %rsi\n"
#define LOAD_ARGUMENTS                 \
  "movq -48(%rbp), %rdi\n"             \
  "movq -40(%rbp), %rsi\n"             \
  "movq -32(%rbp), %rdx\n"             \
  "movq -24(%rbp), %rcx\n"             \
  "movq -16(%rbp), %r8\n"              \
  "movq -8(%rbp), %r9\n"

__asm__(
    ".pushsection .text.clusterprof_c10d,\"ax\",@progbits\n"
    CLUSTERPROF_C10D_HOOKS(ENTRY)

    ".p2align 4\n"
    ".type clusterprof_c10d_first_call,@function\n"
    "clusterprof_c10d_first_call:\n"
    ".cfi_startproc\n"
    SAVE_ARGUMENTS
    "call clusterprof_c10d_resolve\n"
    "movq %rax, %r11\n"
    LOAD_ARGUMENTS
    "leave\n"
    ".cfi_restore %rbp\n"
    ".cfi_def_cfa %rsp, 8\n"
    "jmp *%r11\n"
    ".cfi_endproc\n"
    ".size clusterprof_c10d_first_call, . - clusterprof_c10d_first_call\n"

    ".p2align 4\n"
    ".type clusterprof_c10d_tell,@function\n"
    "clusterprof_c10d_tell:\n"
    ".cfi_startproc\n"
    SAVE_ARGUMENTS
    "call clusterprof_c10d_enter\n"
    "movq %rax, %r11\n"
    LOAD_ARGUMENTS
    "leave\n"
    ".cfi_restore %rbp\n"
    ".cfi_def_cfa %rsp, 8\n"
    "jmp *%r11\n"
    ".cfi_endproc\n"
    ".size clusterprof_c10d_tell, . - clusterprof_c10d_tell\n"

    ".p2align 4\n"
    ".type clusterprof_c10d_wrap,@function\n"
    "clusterprof_c10d_wrap:\n"
    ".cfi_startproc\n"
    ".cfi_personality 0x1b, clusterprof_c10d_personality\n"  // its distance, in 4 bytes
    SAVE_ARGUMENTS
    "call clusterprof_c10d_enter\n"
    "movq %rax, %r11\n"
    LOAD_ARGUMENTS
    "pushq 24(%rbp)\n"
    "pushq 16(%rbp)\n"
    "call *%r11\n"
    "addq $16, %rsp\n"
    "movq %rax, -64(%rbp)\n"
    "movq %rdx, -72(%rbp)\n"
    "movl -56(%rbp), %edi\n"
    "leaq -48(%rbp), %rsi\n"
    "movq %rax, %rdx\n"
    "call clusterprof_c10d_leave\n"
    "movq -64(%rbp), %rax\n"
    "movq -72(%rbp), %rdx\n"
    "leave\n"
    ".cfi_restore %rbp\n"
    ".cfi_def_cfa %rsp, 8\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size clusterprof_c10d_wrap, . - clusterprof_c10d_wrap\n"
    ".popsection\n"

    ".pushsection .data.clusterprof_c10d_slots,\"aw\",@progbits\n"
    ".p2align 6\n"
    ".globl clusterprof_c10d_slots\n"
    ".hidden clusterprof_c10d_slots\n"
    ".type clusterprof_c10d_slots,@object\n"
    "clusterprof_c10d_slots:\n"
    CLUSTERPROF_C10D_HOOKS(SLOT)
    ".popsection\n");
// clang-format on
