// SPDX-License-Identifier: BSD-3-Clause
// The signals that have a handler of ours in the kernel, and what the program sees instead.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include <atomic>

#include "agent/lifecycle/agent.h"
#include "agent/lifecycle/fault_handler.h"
#include "agent/lifecycle/program_action.h"
#include "agent/lifecycle/real_function.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"

using SignalAction = struct sigaction;

extern "C" int __sigaction(int, const SignalAction*, SignalAction*) noexcept;

namespace clusterprof::agent {
namespace {

struct Taken {
  int signal;
  void (*handler)(int, siginfo_t*, void*) noexcept;
  SignalAction program;  // under g_lock
};

constinit Taken g_taken[] = {
    {SIGSEGV, fault_handler, {}}, {SIGBUS, fault_handler, {}}, {kSampleSignal, sample_handler, {}}};
constinit std::atomic<bool> g_are_taken = false;
constinit std::atomic<std::uint32_t> g_lock = 0;

constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};

std::uint64_t change_mask(int how, std::uint64_t mask) noexcept {
  std::uint64_t before = 0;
  raw_syscall(SYS_rt_sigprocmask, how, &mask, &before, sizeof mask);
  return before;
}

// Usable in handlers: none can come while it is held.
class Lock {
 public:
  Lock() noexcept : mask_(change_mask(SIG_SETMASK, kAllSignals)) {
    while (g_lock.exchange(1, std::memory_order_acquire) != 0) raw_syscall(SYS_sched_yield);
  }
  ~Lock() {
    g_lock.store(0, std::memory_order_release);
    change_mask(SIG_SETMASK, mask_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::uint64_t mask_;
};

Taken* taken(int signal) noexcept {
  for (Taken& entry : g_taken)
    if (entry.signal == signal) return &entry;
  return nullptr;
}

// Everything is blocked in the sample handler, but not what faults raise: blocked, that would kill.
void fill_sample_mask(sigset_t& mask) noexcept {
  sigfillset(&mask);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigdelset(&mask, fault);
}

// For faults the kernel applies the program's own mask, so that its handler runs under it.
void install(const Taken& entry) noexcept {
  SignalAction action = {};
  action.sa_sigaction = entry.handler;
  if (entry.signal == kSampleSignal) {
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    fill_sample_mask(action.sa_mask);
  } else {
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | (entry.program.sa_flags & (SA_NODEFER | SA_RESTART));
    action.sa_mask = entry.program.sa_mask;
  }
  __sigaction(entry.signal, &action, nullptr);
}

bool is_handler(const SignalAction& action) noexcept {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

void die_of(int signal, siginfo_t* info) noexcept {
  record_end(wire::kFatalSignalKnown, 0, static_cast<std::uint32_t>(signal));
  SignalAction action = {};
  action.sa_handler = SIG_DFL;
  __sigaction(signal, &action, nullptr);
  // A fault comes again on return from the handler; a signal that was sent has to be sent again.
  if (info->si_code <= 0)
    raw_syscall(SYS_rt_tgsigqueueinfo, g_process.pid, raw_syscall(SYS_gettid), signal, info);
}

}  // namespace

bool is_taken_signal(int signal) noexcept { return taken(signal) != nullptr; }

bool signals_taken() noexcept { return g_are_taken.load(std::memory_order_acquire); }

void exchange_program_action(int signal, const SignalAction* action, SignalAction* old) noexcept {
  Taken* const entry = taken(signal);
  SignalAction before;
  SignalAction next = {};
  if (action != nullptr) next = *action;
  {
    const Lock lock;
    before = entry->program;
    if (action != nullptr) {
      entry->program = next;
      install(*entry);
    }
  }
  if (old != nullptr) *old = before;
}

void forward_signal(int signal, siginfo_t* info, void* context) noexcept {
  Taken* const entry = taken(signal);
  SignalAction action;
  {
    const Lock lock;
    action = entry->program;
    if (is_handler(action) && (action.sa_flags & SA_RESETHAND) != 0) entry->program.sa_handler = SIG_DFL;
  }
  if (is_handler(action)) {
    if ((action.sa_flags & SA_SIGINFO) != 0) {
      action.sa_sigaction(signal, info, context);
    } else {
      action.sa_handler(signal);
    }
    return;
  }
  // A fault cannot be ignored: the kernel kills.
  if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;
  die_of(signal, info);
}

void forward_foreign_signal(int signal, siginfo_t* info, void* context) noexcept {
  // One of ours that came late: its thread, or the program that ran before an exec, is gone.
  const bool own_process = info->si_pid == g_process.pid;
  const bool maybe_ours = info->si_code == SI_TIMER || (info->si_code == SI_QUEUE && own_process);
  if (maybe_ours) {
    const Lock lock;
    if (!is_handler(taken(signal)->program)) return;
  }
  forward_signal(signal, info, context);
}

void take_signals() noexcept {
  const Lock lock;
  for (Taken& entry : g_taken) {
    __sigaction(entry.signal, nullptr, &entry.program);
    install(entry);
  }
  g_are_taken.store(true, std::memory_order_release);
}

void reset_signals_after_fork() noexcept { g_lock.store(0, std::memory_order_relaxed); }

std::uint64_t block_sample_signal() noexcept {
  return change_mask(SIG_BLOCK, std::uint64_t{1} << (kSampleSignal - 1));
}

std::uint64_t block_all_signals() noexcept { return change_mask(SIG_SETMASK, kAllSignals); }

void restore_signals(std::uint64_t mask) noexcept { change_mask(SIG_SETMASK, mask); }

namespace {

// A child of vfork shares our memory, but its handlers are its own.
bool is_kept_from_kernel(int signal) noexcept {
  return signals_taken() && is_taken_signal(signal) && raw_syscall(SYS_getpid) == g_process.pid;
}

using SignalFunction = sighandler_t (*)(int, sighandler_t);

// signal(2) in one of its flavours.
sighandler_t set_handler(int signal, sighandler_t handler, int flags, bool block_itself,
                         SignalFunction otherwise) noexcept {
  if (!is_kept_from_kernel(signal)) {
    if (otherwise != nullptr) return otherwise(signal, handler);
    errno = ENOSYS;
    return SIG_ERR;
  }
  SignalAction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (block_itself) sigaddset(&action.sa_mask, signal);
  SignalAction old;
  exchange_program_action(signal, &action, &old);
  return old.sa_handler;
}

// Without kSampleSignal: a thread that waits for all signals must not get ours.
sigset_t without_sample_signal(const sigset_t* set) noexcept {
  sigset_t result = *set;
  if (signals_taken()) sigdelset(&result, kSampleSignal);
  return result;
}

}  // namespace
}  // namespace clusterprof::agent

#define CLUSTERPROF_EXPORT [[gnu::visibility("default")]]

extern "C" {

CLUSTERPROF_EXPORT int sigaction(int signal, const SignalAction* action, SignalAction* old) noexcept {
  using namespace clusterprof::agent;
  if (!is_kept_from_kernel(signal)) return __sigaction(signal, action, old);
  exchange_program_action(signal, action, old);
  return 0;
}

CLUSTERPROF_EXPORT sighandler_t signal(int signal, sighandler_t handler) noexcept {
  using namespace clusterprof::agent;
  static std::atomic<SignalFunction> real;
  return set_handler(signal, handler, SA_RESTART, true, real_function(real, "signal"));
}

CLUSTERPROF_EXPORT sighandler_t bsd_signal(int signal, sighandler_t handler) noexcept {
  using namespace clusterprof::agent;
  static std::atomic<SignalFunction> real;
  return set_handler(signal, handler, SA_RESTART, true, real_function(real, "bsd_signal"));
}

CLUSTERPROF_EXPORT sighandler_t sysv_signal(int signal, sighandler_t handler) noexcept {
  using namespace clusterprof::agent;
  static std::atomic<SignalFunction> real;
  return set_handler(signal, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER), false,
                     real_function(real, "sysv_signal"));
}

// What signal() is called in programs that ask for System V semantics.
CLUSTERPROF_EXPORT sighandler_t __sysv_signal(int signal, sighandler_t handler) noexcept {
  return sysv_signal(signal, handler);
}

CLUSTERPROF_EXPORT int sigwait(const sigset_t* set, int* signal) {
  using namespace clusterprof::agent;
  static std::atomic<int (*)(const sigset_t*, int*)> real;
  const sigset_t others = without_sample_signal(set);
  auto* const function = real_function(real, "sigwait");
  return function != nullptr ? function(&others, signal) : ENOSYS;
}

CLUSTERPROF_EXPORT int sigwaitinfo(const sigset_t* set, siginfo_t* info) {
  using namespace clusterprof::agent;
  static std::atomic<int (*)(const sigset_t*, siginfo_t*)> real;
  const sigset_t others = without_sample_signal(set);
  auto* const function = real_function(real, "sigwaitinfo");
  if (function != nullptr) return function(&others, info);
  errno = ENOSYS;
  return -1;
}

CLUSTERPROF_EXPORT int sigtimedwait(const sigset_t* set, siginfo_t* info, const timespec* timeout) {
  using namespace clusterprof::agent;
  static std::atomic<int (*)(const sigset_t*, siginfo_t*, const timespec*)> real;
  const sigset_t others = without_sample_signal(set);
  auto* const function = real_function(real, "sigtimedwait");
  if (function != nullptr) return function(&others, info, timeout);
  errno = ENOSYS;
  return -1;
}

CLUSTERPROF_EXPORT int signalfd(int descriptor, const sigset_t* set, int flags) noexcept {
  using namespace clusterprof::agent;
  static std::atomic<int (*)(int, const sigset_t*, int)> real;
  const sigset_t others = without_sample_signal(set);
  auto* const function = real_function(real, "signalfd");
  if (function != nullptr) return function(descriptor, &others, flags);
  errno = ENOSYS;
  return -1;
}

}  // extern "C"
