// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/unwind/stack_comparison.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "agent/discovery/module_table.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace clusterprof::agent::test {
namespace {

struct ReferenceFrame {
  std::uint64_t pc, cfa;
  bool exact;  // interrupted by a signal
};

struct Reference {
  std::uint32_t count = 0;
  ReferenceFrame frames[kMaxNativeFrames + 64];
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* data) {
  auto& reference = *static_cast<Reference*>(data);
  int before = 0;
  const std::uint64_t pc = _Unwind_GetIPInfo(context, &before);
  if (pc == 0 || reference.count == std::size(reference.frames)) return _URC_END_OF_STACK;
  reference.frames[reference.count++] = {pc, _Unwind_GetCFA(context), before != 0};
  return _URC_NO_REASON;
}

struct Bounds {
  std::uint64_t low = 0, high = 0;
};

Bounds stack_bounds() {
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) std::abort();
  pthread_attr_getstack(&attributes, &low, &bytes);
  pthread_attr_destroy(&attributes);
  return {reinterpret_cast<std::uint64_t>(low), reinterpret_cast<std::uint64_t>(low) + bytes};
}

std::string name_of(std::uint64_t pc) {
  Dl_info info{};
  char text[512];
  if (dladdr(reinterpret_cast<void*>(pc), &info) == 0 || info.dli_fname == nullptr) {
    std::snprintf(text, sizeof(text), "%#lx", pc);
  } else {
    const char* const slash = std::strrchr(info.dli_fname, '/');
    std::snprintf(text, sizeof(text), "%#lx %s+%#lx %s", pc, slash != nullptr ? slash + 1 : info.dli_fname,
                  pc - reinterpret_cast<std::uint64_t>(info.dli_fbase),
                  info.dli_sname != nullptr ? info.dli_sname : "");
  }
  return text;
}

std::string show(const NativeStack& ours, const Reference& reference, std::uint32_t skip) {
  std::string text = "ours (" + std::to_string(ours.count) + (ours.truncated ? ", truncated)" : ")") + ":\n";
  for (std::uint32_t i = 0; i < ours.count && i < 24; ++i) text += "  " + name_of(ours.frames[i].pc) + "\n";
  text += "libgcc (" + std::to_string(reference.count - skip) + "):\n";
  for (std::uint32_t i = skip; i < reference.count && i < skip + 24; ++i)
    text += "  " + name_of(reference.frames[i].pc) + "\n";
  return text;
}

enum class Outcome { kEqual, kReferenceStopped, kDifferent };

// ours.frames[1...] against reference.frames[skip + 1...]; the leaf is the same by construction.
Outcome compare(const NativeStack& ours, const Reference& reference, std::uint32_t skip) {
  const std::uint32_t expected = reference.count - skip;
  for (std::uint32_t k = 1; k < ours.count && k < expected; ++k) {
    const ReferenceFrame& frame = reference.frames[skip + k];
    if (ours.frames[k].pc != frame.pc + (frame.exact ? 1 : 0) || ours.frames[k].sp != frame.cfa)
      return Outcome::kDifferent;
  }
  if (ours.count == expected || ours.count == kMaxNativeFrames) return Outcome::kEqual;
  return ours.count > expected ? Outcome::kReferenceStopped : Outcome::kDifferent;
}

// Whether the interrupted instruction is one of SignalComparison::rbp_was_popped.
bool leaves_realigned_stack(std::uint64_t rip) {
  constexpr unsigned char kLea[] = {0x49, 0x8d, 0x62, 0xf8};
  const auto* const code = reinterpret_cast<const unsigned char*>(rip);
  if (code[0] == 0xc3) return std::memcmp(code - sizeof(kLea), kLea, sizeof(kLea)) == 0;
  return code[0] == kLea[0] && std::memcmp(code, kLea, sizeof(kLea)) == 0;
}

struct Sampler {
  SignalComparison result;
  NativeStack ours;
  Reference reference;
  NativeCache* cache = nullptr;
  Bounds bounds;
  timer_t timer{};
  std::uint32_t count_before = 0;  // frames of the step before
  std::uint64_t callers_before[16] = {};
  bool have_difference = false, have_stopped = false;
  NativeStack different_ours, stopped_ours;
  Reference different_reference, stopped_reference;
  std::uint32_t different_skip = 0, stopped_skip = 0;
};

thread_local Sampler* t_sampler = nullptr;
thread_local sigjmp_buf* t_guard = nullptr;

void on_fault(int number) {
  if (t_guard == nullptr) {
    signal(number, SIG_DFL);
    return;  // and fault again
  }
  siglongjmp(*t_guard, 1);
}

// What the agent's guard does. False: a read faulted.
template <typename Function>
bool guarded(Function&& function) {
  sigjmp_buf jump;
  if (sigsetjmp(jump, 1) != 0) {
    t_guard = nullptr;
    return false;
  }
  t_guard = &jump;
  function();
  t_guard = nullptr;
  return true;
}

void on_signal(int, siginfo_t*, void* data) {
  Sampler* const sampler = t_sampler;
  if (sampler == nullptr) return;
  const int saved_errno = errno;
  const auto& context = *static_cast<ucontext_t*>(data);
  const Registers registers = registers_of(context);
  const bool walked = guarded([&] {
    walk_native(registers, sampler->bounds.low, sampler->bounds.high, sampler->cache, sampler->ours);
  });
  sampler->reference.count = 0;
  const bool referred = guarded([&] { _Unwind_Backtrace(add_frame, &sampler->reference); });
  std::uint32_t skip = 0;
  while (skip < sampler->reference.count &&
         !(sampler->reference.frames[skip].exact && sampler->reference.frames[skip].pc == registers.rip))
    ++skip;
  ++sampler->result.samples;
  sampler->result.frames += sampler->ours.count;
  if (sampler->ours.truncated && !leaves_realigned_stack(registers.rip)) ++sampler->result.truncated;
  const bool below_stack =
      skip + 1 < sampler->reference.count && sampler->reference.frames[skip + 1].cfa <= registers.rsp;
  if (sampler->ours.truncated && (!referred || below_stack)) {
    ++sampler->result.wrong_cfi;
    errno = saved_errno;
    return;
  }
  if (walked && leaves_realigned_stack(registers.rip)) {
    ++sampler->result.rbp_was_popped;
    errno = saved_errno;
    return;
  }
  switch (walked ? compare(sampler->ours, sampler->reference, skip) : Outcome::kDifferent) {
    case Outcome::kEqual:
      ++sampler->result.equal;
      break;
    case Outcome::kReferenceStopped:
      ++sampler->result.reference_stopped;
      if (!sampler->have_stopped) {
        sampler->have_stopped = true;
        sampler->stopped_ours = sampler->ours;
        sampler->stopped_reference = sampler->reference;
        sampler->stopped_skip = skip;
      }
      break;
    case Outcome::kDifferent:
      ++sampler->result.different;
      if (!sampler->have_difference) {
        sampler->have_difference = true;
        sampler->different_ours = sampler->ours;
        sampler->different_reference = sampler->reference;
        sampler->different_skip = skip;
      }
      break;
  }
  errno = saved_errno;
}

int sampling_signal() { return SIGRTMAX - 1; }

constexpr std::uint64_t kTrapFlag = 1 << 8;
volatile std::uint64_t g_most_steps = 0;

void clear_when_done(greg_t& flags) {
  if (t_sampler == nullptr || t_sampler->result.samples >= g_most_steps)
    flags &= ~static_cast<greg_t>(kTrapFlag);
}

void on_step(int number, siginfo_t* info, void* data) {
  greg_t& flags = static_cast<ucontext_t*>(data)->uc_mcontext.gregs[REG_EFL];
  Sampler* const sampler = t_sampler;
  const std::uint64_t popped = sampler != nullptr ? sampler->result.rbp_was_popped : 0;
  on_signal(number, info, data);
  if (sampler != nullptr) {
    // One step does not change who called: that is how we know that ours is right where libgcc is not.
    const NativeStack& ours = sampler->ours;
    const bool is_popped = sampler->result.rbp_was_popped != popped;
    if (is_popped && !ours.truncated && ours.count != sampler->count_before) ++sampler->result.different;
    for (std::uint32_t k = 1; k < ours.count && k < std::size(sampler->callers_before); ++k) {
      // Where the walk ended early, the last frame may be what the wrong rule led to.
      const bool is_known = !ours.truncated || k + 1 < ours.count;
      if (is_popped && is_known && ours.frames[k].pc != sampler->callers_before[k])
        ++sampler->result.different;
      if (!is_popped) sampler->callers_before[k] = ours.frames[k].pc;
    }
    if (is_popped) return clear_when_done(flags);
    sampler->count_before = ours.count;
  }
  clear_when_done(flags);
}

// Into t_sampler.
void make_sampler() {
  auto* const sampler = new Sampler;
  sampler->cache = static_cast<NativeCache*>(std::calloc(1, native_cache_bytes()));
  sampler->bounds = stack_bounds();
  Reference warm;  // libgcc may allocate the first time
  _Unwind_Backtrace(add_frame, &warm);
  t_sampler = sampler;
}

SignalComparison take_result() {
  Sampler* const sampler = t_sampler;
  t_sampler = nullptr;
  SignalComparison result = sampler->result;
  if (sampler->have_difference)
    result.first_difference =
        show(sampler->different_ours, sampler->different_reference, sampler->different_skip);
  if (sampler->have_stopped)
    result.first_stopped = show(sampler->stopped_ours, sampler->stopped_reference, sampler->stopped_skip);
  std::free(sampler->cache);
  delete sampler;
  return result;
}

}  // namespace

Registers registers_of(const ucontext_t& context) {
  const auto at = [&](int number) { return static_cast<std::uint64_t>(context.uc_mcontext.gregs[number]); };
  Registers out{};
  out.rip = at(REG_RIP), out.rsp = at(REG_RSP), out.rbp = at(REG_RBP), out.rbx = at(REG_RBX);
  out.r12 = at(REG_R12), out.r13 = at(REG_R13), out.r14 = at(REG_R14), out.r15 = at(REG_R15);
  out.r10 = at(REG_R10);
  out.interrupted = context.uc_mcontext.gregs;
  return out;
}

__attribute__((noinline)) std::string compare_here() {
  auto ours = std::make_unique<NativeStack>();
  auto reference = std::make_unique<Reference>();
  const Bounds bounds = stack_bounds();
  // Room for several walks: the second finds everything in the cache.
  const std::unique_ptr<void, void (*)(void*)> cache(std::calloc(1, native_cache_bytes()), std::free);
  _Unwind_Backtrace(add_frame, reference.get());
  for (int walk = 0; walk < 2; ++walk) {
    ucontext_t context;
    if (getcontext(&context) != 0) return "getcontext failed";
    walk_native(registers_of(context), bounds.low, bounds.high, static_cast<NativeCache*>(cache.get()),
                *ours);
    if (compare(*ours, *reference, 0) != Outcome::kEqual) return show(*ours, *reference, 0);
    if (ours->truncated && ours->count < kMaxNativeFrames) return "truncated\n" + show(*ours, *reference, 0);
    for (std::uint32_t k = 1; k < ours->count; ++k) {
      const std::uint64_t slot = ours->return_slot[k];
      if (slot != 0 && *reinterpret_cast<const std::uint64_t*>(slot) != ours->frames[k].pc)
        return "return_slot does not hold the return address\n" + show(*ours, *reference, 0);
    }
  }
  return "";
}

void start_sampling(unsigned hertz, bool alternate_stack) {
  make_sampler();
  Sampler* const sampler = t_sampler;
  if (alternate_stack) {
    constexpr std::size_t kBytes = 256 << 10;
    stack_t stack{};
    stack.ss_sp = std::malloc(kBytes);
    stack.ss_size = kBytes;
    if (sigaltstack(&stack, nullptr) != 0) std::abort();
  }
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | (alternate_stack ? SA_ONSTACK : 0);
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, SIGSEGV);
  signal(SIGSEGV, on_fault);
  if (sigaction(sampling_signal(), &action, nullptr) != 0) std::abort();
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = sampling_signal();
  event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
  if (timer_create(CLOCK_MONOTONIC, &event, &sampler->timer) != 0) std::abort();
  const long period_ns = 1'000'000'000L / static_cast<long>(hertz);
  itimerspec spec{};
  spec.it_interval.tv_nsec = spec.it_value.tv_nsec = period_ns;
  if (timer_settime(sampler->timer, 0, &spec, nullptr) != 0) std::abort();
}

std::uint64_t samples_so_far() { return *static_cast<volatile std::uint64_t*>(&t_sampler->result.samples); }

SignalComparison stop_sampling() {
  timer_delete(t_sampler->timer);
  return take_result();
}

SignalComparison compare_at_each_instruction(std::uint64_t most, const std::function<void()>& work) {
  make_sampler();
  g_most_steps = most;
  struct sigaction action {};
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, SIGSEGV);
  signal(SIGSEGV, on_fault);
  if (sigaction(SIGTRAP, &action, nullptr) != 0) std::abort();
  asm volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" ::"i"(kTrapFlag) : "memory", "cc");
  work();
  g_most_steps = 0;  // this one is the last
  return take_result();
}

}  // namespace clusterprof::agent::test

// For python_stack_check.py, through ctypes.
extern "C" {

void unwind_check_start(unsigned hertz) {
  clusterprof::agent::module_table_refresh(nullptr);
  clusterprof::agent::test::start_sampling(hertz, false);
}

void unwind_check_modules() { clusterprof::agent::module_table_refresh(nullptr); }

std::uint64_t unwind_check_samples() { return clusterprof::agent::test::samples_so_far(); }

// counts: samples, equal, reference stopped, different, truncated, wrong CFI.
void unwind_check_stop(std::uint64_t* counts) {
  const auto result = clusterprof::agent::test::stop_sampling();
  counts[0] = result.samples;
  counts[1] = result.equal;
  counts[2] = result.reference_stopped;
  counts[3] = result.different;
  counts[4] = result.truncated;
  counts[5] = result.wrong_cfi;
  if (!result.first_difference.empty()) std::fprintf(stderr, "%s", result.first_difference.c_str());
  if (!result.first_stopped.empty()) std::fprintf(stderr, "%s", result.first_stopped.c_str());
}
}
