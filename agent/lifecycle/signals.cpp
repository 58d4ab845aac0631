// SPDX-License-Identifier: BSD-3-Clause
// The signals for which our handlers are installed in the kernel, and what the program sees instead.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include <atomic>

#include "agent/lifecycle/exit.h"
#include "agent/lifecycle/fault_handler.h"
#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/program_action.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/ticks.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/interrupted_call.h"
#include "agent/sigsafe/last_words.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"
#include "agent/sigsafe/spin_wait.h"
#include "formats/wire/segment.h"

using SignalAction = struct sigaction;

// In sigsafe/signal_return.cpp.
extern "C" [[gnu::visibility("hidden")]] const char clusterprof_signal_return[];

extern "C" int __sigaction(int, const SignalAction*, SignalAction*) noexcept;

namespace clusterprof::agent {
namespace {

// sigaction(2) as the kernel has it.
struct KernelAction {
  std::uint64_t handler, flags, restorer, mask;
};

struct HandledSignal {
  int signal;
  void (*handler)(int, siginfo_t*, void*) noexcept;
  SignalAction program;  // under g_lock
};

void lost_event_handler(int signal, siginfo_t* info, void* context) noexcept;

// SIGILL, SIGFPE and SIGABRT: only to know where a program fails that has no handler for them.
constinit HandledSignal g_handled_signals[] = {
    {SIGSEGV, fault_handler, {}},   {SIGBUS, fault_handler, {}},   {SIGILL, forward_signal, {}},
    {SIGFPE, forward_signal, {}},   {SIGABRT, forward_signal, {}}, {kSampleSignal, sample_handler, {}},
    {SIGIO, lost_event_handler, {}}};
constinit std::atomic<bool> g_installed = false;

// The program's signals whose handlers it wants to run with kSampleSignal blocked: bit (signal - 1).
constinit std::atomic<std::uint64_t> g_wanted_blocked = 0;

// As far as the program knows, kSampleSignal is blocked on this thread; and whether it really is blocked,
// because the program uses the signal itself.
thread_local constinit bool t_believes_blocked = false;
thread_local constinit bool t_really_blocked = false;

// We block it for a while, and the program does not know.
thread_local constinit bool t_is_held = false;

using SignalFunction = sighandler_t (*)(int, sighandler_t);
constinit std::atomic<SignalFunction> g_real_signal = nullptr, g_real_bsd_signal = nullptr,
                                      g_real_sysv_signal = nullptr;
constinit std::atomic<int (*)(int, int)> g_real_siginterrupt = nullptr;
constinit std::atomic<int (*)(const sigset_t*, siginfo_t*, const timespec*)> g_real_sigtimedwait = nullptr;
constinit std::atomic<int (*)(int, const sigset_t*, int)> g_real_signalfd = nullptr;

// The program has set a handler that is to run on an alternate stack.
constinit std::atomic<bool> g_alternate_stacks = false;

// Signals for which siginterrupt(3) keeps interrupted calls from being restarted: bit (signal - 1).
constinit std::atomic<std::uint64_t> g_interrupting = 0;

// libc's function that handlers return to.
constinit std::atomic<std::uint64_t> g_libc_return = 0;

constexpr std::uint64_t kSampleBit = std::uint64_t{1} << (kSampleSignal - 1);
constinit std::atomic<std::uint32_t> g_lock = 0;

// May be used in handlers: no signal can arrive while it is held.
class Lock {
 public:
  Lock() noexcept : mask_(change_mask(SIG_SETMASK, kAllSignals)) {
    wait_until([] { return g_lock.exchange(1, std::memory_order_acquire) == 0; });
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

HandledSignal* handled_signal(int signal) noexcept {
  if (signal == SIGIO && !g_process.uses_events) return nullptr;
  for (HandledSignal& entry : g_handled_signals)
    if (entry.signal == signal) return &entry;
  return nullptr;
}

bool only_tells_of_failure(int signal) noexcept {
  return signal == SIGILL || signal == SIGFPE || signal == SIGABRT;
}
bool is_deadly(int signal) noexcept {
  return signal == SIGSEGV || signal == SIGBUS || only_tells_of_failure(signal);
}

bool is_handler(const SignalAction& action) noexcept {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

// All signals are blocked in the sample handler, except those that the thread's own instructions raise: if
// they were blocked, a fault would kill the process.
void fill_sample_mask(sigset_t& mask) noexcept {
  sigfillset(&mask);
  for (const int own : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) sigdelset(&mask, own);
}

// If a handler of the program blocked kSampleSignal, the signal would wait until just after the system call
// that the handler has interrupted. On an alternate stack it has to wait all the same: those are small, and
// have no room for another frame and our handler.
sigset_t mask_in_kernel(const SignalAction& action) noexcept {
  sigset_t mask = action.sa_mask;
  if ((action.sa_flags & SA_ONSTACK) != 0) {
    sigaddset(&mask, kSampleSignal);
  } else {
    sigdelset(&mask, kSampleSignal);
  }
  return mask;
}

void note_alternate_stack(const SignalAction& action) noexcept {
  if (is_handler(action) && (action.sa_flags & SA_ONSTACK) != 0)
    g_alternate_stacks.store(true, std::memory_order_relaxed);
}

void note_handler_mask(int signal, const SignalAction& action) noexcept {
  if (is_handler(action)) note_signal_mask(action.sa_mask.__val[0] | std::uint64_t{1} << (signal - 1));
}

// If the program has a handler, the kernel applies the program's own mask and flags, since our handler calls
// the program's. If it has none, the program must not notice ours.
void install(const HandledSignal& entry, SignalAction* replaced = nullptr) noexcept {
  if (only_tells_of_failure(entry.signal) && entry.program.sa_handler == SIG_IGN) {
    __sigaction(entry.signal, &entry.program, replaced);  // also for programs that it executes
    return;
  }
  SignalAction action = {};
  action.sa_sigaction = entry.handler;
  if (entry.signal == kSampleSignal) {
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    fill_sample_mask(action.sa_mask);
  } else if (is_handler(entry.program)) {
    action.sa_flags = SA_SIGINFO | (entry.program.sa_flags & (SA_ONSTACK | SA_NODEFER | SA_RESTART));
    action.sa_mask = mask_in_kernel(entry.program);
  } else {
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    fill_sample_mask(action.sa_mask);
  }
  __sigaction(entry.signal, &action, replaced);
}

bool is_fault(int signal, const siginfo_t& info) noexcept {
  return is_deadly(signal) && signal != SIGABRT && info.si_code > 0;
}

// True if there is code at the instruction that faulted; false after a jump to a wrong address. A page fault
// says whether it was a fetch; other faults come from addresses that no page can have.
bool has_fetched(const ucontext_t& interrupted) noexcept {
  constexpr greg_t kPageFault = 14, kWasFetch = 0x10;
  const greg_t* const value = interrupted.uc_mcontext.gregs;
  const std::uint64_t unused = static_cast<std::uint64_t>(value[REG_RIP]) >> 47;
  return unused == 0 && !(value[REG_TRAPNO] == kPageFault && (value[REG_ERR] & kWasFetch) != 0);
}

void die_of(int signal, siginfo_t* info, void* context) noexcept {
  const long process = raw_syscall(SYS_getpid);
  if (process == g_process.pid) {  // and not a child of vfork, in the memory of its parent
    const bool can_tell = !is_fault(signal, *info) || has_fetched(*static_cast<const ucontext_t*>(context));
    if (is_deadly(signal) && can_tell) sample_last(context);
    record_end(wire::kFatalSignalKnown, 0, static_cast<std::uint32_t>(signal));
  }
  SignalAction action = {};
  action.sa_handler = SIG_DFL;
  __sigaction(signal, &action, nullptr);
  // A fault comes again on return from the handler; a signal that was sent has to be sent again.
  if (!is_fault(signal, *info))
    raw_syscall(SYS_rt_tgsigqueueinfo, process, raw_syscall(SYS_gettid), signal, info);
}

// A signal that the program ignores must not interrupt anything. Call at the end of a handler.
void hide_from_program(ucontext_t& interrupted) noexcept {
  block_all_signals();  // the return restores the mask
  const InterruptedCall call = find_interrupted_call(t_context, interrupted, false);
  // wait_for_signal has to change what it waits for.
  if (call.number != SYS_rt_sigtimedwait) repeat_interrupted_call(call, t_context.record, interrupted);
  note_cut_transfer(t_context, call, interrupted);
}

// Our handler that was given this context returns as the program's handlers do. The return address is
// directly below the context.
void return_as_programs(void* context) noexcept {
  static_cast<const void**>(context)[-1] = clusterprof_signal_return;
}

// If the signal of one of our events cannot be queued, because the user has too many pending signals, the
// kernel sends SIGIO and does not say why. A program without a handler for SIGIO would die of it.
void lost_event_handler(int signal, siginfo_t* info, void* context) noexcept {
  const bool from_kernel = info->si_code == SI_KERNEL || (info->si_code == SI_USER && info->si_pid == 0);
  bool has_handler = false;
  {
    const Lock lock;
    has_handler = is_handler(handled_signal(signal)->program);
  }
  if (from_kernel && t_context.record != nullptr) revive_event(*t_context.record);
  if (!from_kernel || has_handler) {
    forward_signal(signal, info, context);
  } else {
    hide_from_program(*static_cast<ucontext_t*>(context));
  }
}

// The program uses kSampleSignal itself. From here on it is really blocked, and no sample is taken.
void really_block_sample_signal(ucontext_t& interrupted) noexcept {
  sigaddset(&interrupted.uc_sigmask, kSampleSignal);
  t_really_blocked = true;
  if (slot_of(t_context) == nullptr) return;
  ThreadRecord& record = *t_context.record;
  record.timer_off.store(0, std::memory_order_relaxed);
  stop_timers(record);
  pause_events(record);
}

void sample_again() noexcept {
  if (slot_of(t_context) == nullptr) return;
  arm_timer(*t_context.record);
  resume_events(*t_context.record);
}

}  // namespace

bool is_handled_signal(int signal) noexcept { return handled_signal(signal) != nullptr; }

bool is_signal_return(std::uintptr_t address) noexcept {
  return address == reinterpret_cast<std::uintptr_t>(clusterprof_signal_return) ||
         address == g_libc_return.load(std::memory_order_relaxed);
}

bool handlers_are_installed() noexcept { return g_installed.load(std::memory_order_acquire); }

void exchange_program_action(int signal, const SignalAction* action, SignalAction* old) noexcept {
  HandledSignal* const entry = handled_signal(signal);
  SignalAction before;
  SignalAction next = {};
  if (action != nullptr) next = *action;
  {
    const Lock lock;
    before = entry->program;
    if (!handlers_are_installed()) {  // the process has been let go meanwhile
      __sigaction(signal, action != nullptr ? &next : nullptr, &before);
    } else if (action != nullptr) {
      entry->program = next;
      note_alternate_stack(next);
      note_handler_mask(signal, next);
      install(*entry);
    }
  }
  if (old != nullptr) *old = before;
}

void forward_signal(int signal, siginfo_t* info, void* context) noexcept {
  if (is_fault(signal, *info) || signal == SIGABRT)
    note_fault(signal, *info, *static_cast<const ucontext_t*>(context));
  if (signal == SIGABRT) note_abort_message();
  HandledSignal* const entry = handled_signal(signal);
  SignalAction action;
  {
    const Lock lock;
    action = entry->program;
    if (is_handler(action) && (action.sa_flags & SA_RESETHAND) != 0) entry->program.sa_handler = SIG_DFL;
  }
  if (is_handler(action)) {
    return_as_programs(context);
    if ((action.sa_flags & SA_SIGINFO) != 0) {
      action.sa_sigaction(signal, info, context);
    } else {
      action.sa_handler(signal);
    }
    return;
  }
  // A fault cannot be ignored: the kernel kills.
  if (action.sa_handler == SIG_IGN && !is_fault(signal, *info)) {
    hide_from_program(*static_cast<ucontext_t*>(context));
    return;
  }
  die_of(signal, info, context);
}

void forward_foreign_signal(int signal, siginfo_t* info, void* context) noexcept {
  const bool of_event = g_process.uses_events && is_of_descriptor(*info);
  const long process = raw_syscall(SYS_getpid);  // of a child past libc's fork(), it may be another one
  // If it is really blocked already, the program is letting it through: sigsuspend(2), ppoll(2).
  if (t_believes_blocked && !t_really_blocked && !of_event) {
    really_block_sample_signal(*static_cast<ucontext_t*>(context));
    // It stays pending where it was sent to, because another thread may fetch it.
    long result = -EPERM;
    if (info->si_code == SI_USER && info->si_pid == process) {
      result = raw_syscall(SYS_kill, process, signal);
    } else if (info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TIMER) {
      result = raw_syscall(SYS_rt_sigqueueinfo, process, signal, info);  // SI_QUEUE, or the main thread
    }
    if (result != 0) raw_syscall(SYS_rt_tgsigqueueinfo, process, raw_syscall(SYS_gettid), signal, info);
    hide_from_program(*static_cast<ucontext_t*>(context));
    return;
  }
  // One of ours that came late: its thread, or the program that ran before an exec, is gone.
  const bool own_process = info->si_pid == process;
  const bool maybe_ours = info->si_code == SI_TIMER || (info->si_code == SI_QUEUE && own_process) || of_event;
  if (maybe_ours) {
    const Lock lock;
    if (!is_handler(handled_signal(signal)->program)) return;
  }
  forward_signal(signal, info, context);
}

namespace {

int change_action_locked(int signal, const SignalAction* action, SignalAction* old) noexcept;
int change_other_action(int signal, const SignalAction* action, SignalAction* old) noexcept;

// Takes over handlers that were installed before the agent started. A one-shot handler may be gone before it
// is set again.
void adopt_handlers() noexcept {
  for (int signal = 1; signal <= 64; ++signal) {
    SignalAction action;
    if (handled_signal(signal) == nullptr && __sigaction(signal, nullptr, &action) == 0 &&
        is_handler(action) && (action.sa_flags & SA_RESETHAND) == 0) {
      // In a program that runs, another thread may have set another one since.
      SignalAction replaced;
      if (change_other_action(signal, &action, &replaced) == 0 &&
          replaced.sa_sigaction != action.sa_sigaction)
        change_other_action(signal, &replaced, nullptr);
    }
  }
}

}  // namespace

void install_handlers() noexcept {
  if (handlers_are_installed())
    return;  // of an earlier recording: lifecycle/attached.cpp could not remove them
  const int saved_errno = errno;
  {
    const Lock lock;
    for (HandledSignal& entry : g_handled_signals) {
      if (handled_signal(entry.signal) == nullptr) continue;
      SignalAction replaced = {};
      __sigaction(entry.signal, nullptr, &entry.program);
      install(entry, &replaced);
      if (replaced.sa_sigaction != entry.program.sa_sigaction) {  // a thread of the program has set it since
        entry.program = replaced;
        install(entry);
      }
      note_alternate_stack(entry.program);
      note_handler_mask(entry.signal, entry.program);
    }
    KernelAction ours = {};
    raw_syscall(SYS_rt_sigaction, kSampleSignal, nullptr, &ours, sizeof ours.mask);
    g_libc_return.store(ours.restorer, std::memory_order_relaxed);
    g_installed.store(true, std::memory_order_release);
  }
  adopt_handlers();
  errno = saved_errno;
}

void watch_signals() noexcept {
  real_function(g_real_signal, "signal");
  real_function(g_real_bsd_signal, "bsd_signal");
  real_function(g_real_sysv_signal, "sysv_signal");
  real_function(g_real_siginterrupt, "siginterrupt");
  real_function(g_real_sigtimedwait, "sigtimedwait");
  real_function(g_real_signalfd, "signalfd");
}

// The program's calls of our functions wait meanwhile, and then find no handlers of ours. Past our functions,
// one of its threads may set a handler at any instant: it is not overwritten, or put back at once.
void restore_program_signals() noexcept {
  const Lock lock;
  if (!handlers_are_installed()) return;
  SignalAction ignored = {};
  ignored.sa_handler = SIG_IGN;
  __sigaction(kSampleSignal, &ignored, nullptr);  // what waits is dropped
  for (int signal = 1; signal <= 64; ++signal) {
    SignalAction action;
    if (handled_signal(signal) == nullptr && change_action_locked(signal, nullptr, &action) == 0 &&
        is_handler(action) && (action.sa_flags & SA_RESETHAND) == 0) {
      SignalAction replaced;
      if (__sigaction(signal, &action, &replaced) == 0 && replaced.sa_sigaction != action.sa_sigaction)
        __sigaction(signal, &replaced, nullptr);
    }
  }
  g_installed.store(false, std::memory_order_release);
  for (const HandledSignal& entry : g_handled_signals) {
    if (handled_signal(entry.signal) == nullptr) continue;
    SignalAction now;
    if (__sigaction(entry.signal, nullptr, &now) != 0) continue;
    const bool is_ours =
        entry.signal == kSampleSignal ? now.sa_handler == SIG_IGN : now.sa_sigaction == entry.handler;
    if (is_ours) __sigaction(entry.signal, &entry.program, nullptr);
  }
}

void reset_signals_after_fork() noexcept { store_if_other(g_lock, 0u); }

HeldSignal hold_sample_signal(std::int32_t number, std::uint64_t others) noexcept {
  HeldSignal held = {0, t_is_held, -1};
  if (!handlers_are_installed()) return held;
  ThreadRecord* const record = t_context.record;
  if (record != nullptr) held.number_before = record->held_number.exchange(number, std::memory_order_relaxed);
  t_is_held = true;
  const std::uint64_t wanted = kSampleBit | others;
  held.unblock_after = wanted & ~change_mask(SIG_BLOCK, wanted);
  return held;
}

// If a signal is pending, the handler runs when it is unblocked here.
void release_sample_signal(const HeldSignal& held) noexcept {
  if (held.unblock_after != 0) change_mask(SIG_UNBLOCK, held.unblock_after);
  t_is_held = held.held_before;
  if (t_context.record != nullptr)
    t_context.record->held_number.store(held.number_before, std::memory_order_relaxed);
}

bool holds_sample_signal() noexcept { return t_is_held; }

std::uint64_t without_program_block(std::uint64_t mask) noexcept {
  if ((mask & kSampleBit) != 0 && !t_is_held) t_believes_blocked = true;
  t_really_blocked = false;
  return mask & ~kSampleBit;
}

bool really_blocks_sample_signal() noexcept { return t_really_blocked; }

bool believes_sample_signal_blocked() noexcept { return t_believes_blocked; }

void set_believed_block(bool blocked) noexcept { t_believes_blocked = blocked; }

namespace {

bool others_are_sampled() noexcept {
  const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    const ThreadRecord& record = g_process.records[i];
    const std::uint32_t state = record.state.load(std::memory_order_relaxed);
    const bool live = state == static_cast<std::uint32_t>(RecordState::kLive) ||
                      state == static_cast<std::uint32_t>(RecordState::kWatched);
    if (live && &record != t_context.record) return true;
  }
  return false;
}

}  // namespace

bool ignore_signals_for_exec(std::uintptr_t frame, BusyFrame& outer) noexcept {
  if (!handlers_are_installed()) return false;
  const bool is_vfork_child = raw_syscall(SYS_getpid) != g_process.pid;
  const bool is_sampled = !is_vfork_child && slot_of(t_context) != nullptr;
  bool any = false;
  const Lock lock;
  for (const HandledSignal& entry : g_handled_signals) {
    if (handled_signal(entry.signal) == nullptr || entry.program.sa_handler != SIG_IGN) continue;
    if (only_tells_of_failure(entry.signal)) continue;  // it is ignored already
    // Other threads need the handlers until the exec has succeeded.
    if (entry.signal != SIGIO && !is_vfork_child && others_are_sampled()) continue;
    if (!any && is_sampled) outer = begin_busy(t_context, frame, 0);  // no walks, whose faults would kill
    any = true;
    SignalAction ignored = {};
    ignored.sa_handler = SIG_IGN;
    __sigaction(entry.signal, &ignored, nullptr);
  }
  return any;
}

void handle_signals_again(const BusyFrame& outer) noexcept {
  const Lock lock;
  for (const HandledSignal& entry : g_handled_signals)
    if (handled_signal(entry.signal) != nullptr && entry.program.sa_handler == SIG_IGN) install(entry);
  if (raw_syscall(SYS_getpid) == g_process.pid && slot_of(t_context) != nullptr && t_context.busy != 0)
    end_busy(t_context, outer);
}

namespace {

// True if the kernel must not get the program's action. A child of vfork shares our memory but has its own
// handlers.
bool is_kept_from_kernel(int signal) noexcept {
  return handlers_are_installed() && is_handled_signal(signal) && raw_syscall(SYS_getpid) == g_process.pid;
}

// sigaction(2), except that the handler returns through our function. It is done in one step: if a one-shot
// handler were read and set again, and ran in between, it would be installed again.
int set_action(int signal, const SignalAction* action, SignalAction* old) noexcept {
  constexpr std::uint64_t kHasRestorer = 0x0400'0000;  // SA_RESTORER
  // In a child of vfork. libc's excludes abort(3).
  if (signal == SIGABRT) return __sigaction(signal, action, old);
  const auto ours = reinterpret_cast<std::uint64_t>(clusterprof_signal_return);
  KernelAction next = {}, before = {};
  if (action != nullptr) {
    next.handler = reinterpret_cast<std::uint64_t>(action->sa_handler);
    next.flags = static_cast<std::uint32_t>(action->sa_flags) | kHasRestorer;
    next.restorer = ours;
    next.mask = action->sa_mask.__val[0];
  }
  const long result = raw_syscall(SYS_rt_sigaction, signal, action != nullptr ? &next : nullptr,
                                  old != nullptr ? &before : nullptr, sizeof next.mask);
  if (result != 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  if (old != nullptr) {
    const std::uint64_t restorer =
        before.restorer == ours ? g_libc_return.load(std::memory_order_relaxed) : before.restorer;
    *old = {};
    old->sa_handler = reinterpret_cast<sighandler_t>(before.handler);
    old->sa_flags = static_cast<int>(before.flags);
    old->sa_restorer = reinterpret_cast<void (*)()>(restorer);
    old->sa_mask.__val[0] = before.mask;
  }
  return 0;
}

// The caller holds g_lock, unless this is a child of vfork or nothing is changed.
int change_action_locked(int signal, const SignalAction* action, SignalAction* old) noexcept {
  const bool is_of_libc = signal == 32 || signal == 33;
  if (!handlers_are_installed() || signal < 1 || signal > 64 || is_of_libc)
    return __sigaction(signal, action, old);
  const std::uint64_t bit = std::uint64_t{1} << (signal - 1);
  const bool wanted_before = (g_wanted_blocked.load(std::memory_order_relaxed) & bit) != 0;
  SignalAction next = {};
  bool wants = false;
  if (action != nullptr) {
    next = *action;
    wants = sigismember(&next.sa_mask, kSampleSignal) == 1;
    next.sa_mask = mask_in_kernel(next);
    note_alternate_stack(next);
    note_handler_mask(signal, next);
  }
  if (set_action(signal, action != nullptr ? &next : nullptr, old) != 0) return -1;
  // Not in a child of vfork, which has handlers of its own but our memory.
  if (action != nullptr && wants != wanted_before && raw_syscall(SYS_getpid) == g_process.pid) {
    if (wants) {
      g_wanted_blocked.fetch_or(bit, std::memory_order_relaxed);
    } else {
      g_wanted_blocked.fetch_and(~bit, std::memory_order_relaxed);
    }
  }
  if (old == nullptr) return 0;
  const HandledSignal* const entry = handled_signal(signal);  // in a child of vfork
  if (entry != nullptr && old->sa_sigaction == entry->handler) {
    *old = entry->program;
  } else if (wanted_before) {
    sigaddset(&old->sa_mask, kSampleSignal);
  } else if ((old->sa_flags & SA_ONSTACK) != 0) {
    sigdelset(&old->sa_mask, kSampleSignal);
  }
  return 0;
}

// For a signal that is not handled by us.
int change_other_action(int signal, const SignalAction* action, SignalAction* old) noexcept {
  if (action == nullptr || !handlers_are_installed() || raw_syscall(SYS_getpid) != g_process.pid)
    return change_action_locked(signal, action, old);
  // Pointers of the program's are not followed while the lock is held.
  const SignalAction next = *action;
  SignalAction before = {};
  int result = 0;
  {
    const Lock lock;
    result = change_action_locked(signal, &next, &before);
  }
  if (result == 0 && old != nullptr) *old = before;
  return result;
}

// sigaction(2). Functions of ours do not call each other by the names that they export: in a process that was
// attached to, those are libc's.
int change_action(int signal, const SignalAction* action, SignalAction* old) noexcept {
  if (!is_kept_from_kernel(signal)) return change_other_action(signal, action, old);
  exchange_program_action(signal, action, old);
  return 0;
}

// One of the variants of signal(2).
sighandler_t set_handler(int signal, sighandler_t handler, int flags, bool block_itself,
                         SignalFunction otherwise) noexcept {
  const bool kept = is_kept_from_kernel(signal);
  if (!kept && (!handlers_are_installed() || handler == SIG_ERR)) {
    if (otherwise != nullptr) return otherwise(signal, handler);
    errno = ENOSYS;
    return SIG_ERR;
  }
  SignalAction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (block_itself) sigaddset(&action.sa_mask, signal);
  const bool interrupts = signal >= 1 && signal <= 64 &&
                          (g_interrupting.load(std::memory_order_relaxed) >> (signal - 1) & 1) != 0;
  if (interrupts) action.sa_flags &= ~SA_RESTART;
  SignalAction old;
  if (kept) {
    exchange_program_action(signal, &action, &old);
  } else if (change_other_action(signal, &action, &old) != 0) {
    return SIG_ERR;
  }
  return old.sa_handler;
}

sighandler_t set_sysv_handler(int signal, sighandler_t handler) noexcept {
  return set_handler(signal, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER), false,
                     real_function(g_real_sysv_signal, "sysv_signal"));
}

bool on_alternate_stack() noexcept {
  stack_t stack = {};
  return raw_syscall(SYS_sigaltstack, nullptr, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) != 0;
}

// pthread_sigmask(3), except for kSampleSignal: the thread is still sampled, and the program reads back what
// it has set. Async-signal-safe.
int change_program_mask(int how, const sigset_t* set, sigset_t* old) noexcept {
  constexpr std::uint64_t kOfLibc = std::uint64_t{3} << 31;  // signals 32 and 33
  std::uint64_t next = 0, before = 0;
  const bool hide = handlers_are_installed();
  const bool believed = t_believes_blocked, really_blocked = t_really_blocked;
  const bool has_stacks = hide && g_alternate_stacks.load(std::memory_order_relaxed);
  bool believes = believed;
  if (set != nullptr) {
    next = set->__val[0] & ~kOfLibc;
    if (how != SIG_UNBLOCK) note_signal_mask(next);
    const bool named = (next & kSampleBit) != 0;
    if (hide) {
      believes = how == SIG_SETMASK ? named : named ? how == SIG_BLOCK : believed;
      const bool stays = how != SIG_BLOCK && has_stacks && on_alternate_stack();
      const std::uint64_t bit = stays && how == SIG_SETMASK ? change_mask(SIG_BLOCK, 0) & kSampleBit : 0;
      if (how != SIG_UNBLOCK) {
        next = (next & ~kSampleBit) | (really_blocked && believes ? kSampleBit : bit);
      } else if (stays) {
        next &= ~kSampleBit;
      } else if (has_stacks && !believes) {  // it may have jumped out of a handler
        next |= kSampleBit;
      }
    }
  }
  t_believes_blocked = believes;  // before a pending signal of the program arrives
  t_really_blocked = really_blocked && believes;
  const long result =
      raw_syscall(SYS_rt_sigprocmask, how, set != nullptr ? &next : nullptr, &before, sizeof next);
  if (result != 0) {
    t_believes_blocked = believed;
    t_really_blocked = really_blocked;
    return static_cast<int>(-result);
  }
  if (really_blocked && !believes) sample_again();
  if (has_stacks || t_is_held) before &= ~kSampleBit;  // a running handler may not know
  // The kernel writes no more than these 64 bits either.
  if (old != nullptr) old->__val[0] = before | (believed ? kSampleBit : 0);
  return 0;
}

// The set without kSampleSignal: a thread that waits for all signals must not get ours.
sigset_t without_sample_signal(const sigset_t* set) noexcept {
  sigset_t result = *set;
  if (handlers_are_installed() && !t_really_blocked) sigdelset(&result, kSampleSignal);
  return result;
}

// sigtimedwait(2), without those of our own signals that have been pending since before the signal was really
// blocked. A cancellation point.
int wait_for_signal(const sigset_t* set, siginfo_t* info, const timespec* timeout) {
  constexpr std::uint64_t kSecondNs = 1'000'000'000;
  auto* const function = real_function(g_real_sigtimedwait, "sigtimedwait");
  if (function == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  const std::uint64_t start_ns = timeout != nullptr ? monotonic_ns() : 0;
  timespec left = timeout != nullptr ? *timeout : timespec{};
  for (;;) {
    const bool really_blocked = t_really_blocked;
    const sigset_t wanted = without_sample_signal(set);
    siginfo_t got;
    const int signal = function(&wanted, &got, timeout != nullptr ? &left : nullptr);
    const bool ours = signal == kSampleSignal && is_own(got);
    // Sent during the wait; now it can be fetched.
    const bool came = signal < 0 && errno == EINTR && t_really_blocked && !really_blocked;
    if (!ours && !came) {
      if (signal > 0 && info != nullptr) *info = got;
      return signal;
    }
    if (timeout == nullptr || timeout->tv_sec > 1'000'000'000) continue;
    const std::uint64_t all_ns = static_cast<std::uint64_t>(timeout->tv_sec) * kSecondNs +
                                 static_cast<std::uint64_t>(timeout->tv_nsec);
    const std::uint64_t past_ns = monotonic_ns() - start_ns;
    const std::uint64_t left_ns = all_ns > past_ns ? all_ns - past_ns : 0;
    left = {static_cast<time_t>(left_ns / kSecondNs), static_cast<long>(left_ns % kSecondNs)};
  }
}

}  // namespace
}  // namespace clusterprof::agent

#define CLUSTERPROF_EXPORT [[gnu::visibility("default")]]

extern "C" {

CLUSTERPROF_EXPORT int sigaction(int signal, const SignalAction* action, SignalAction* old) noexcept {
  return clusterprof::agent::change_action(signal, action, old);
}

CLUSTERPROF_EXPORT sighandler_t signal(int signal, sighandler_t handler) noexcept {
  using namespace clusterprof::agent;
  return set_handler(signal, handler, SA_RESTART, true, real_function(g_real_signal, "signal"));
}

CLUSTERPROF_EXPORT sighandler_t bsd_signal(int signal, sighandler_t handler) noexcept {
  using namespace clusterprof::agent;
  return set_handler(signal, handler, SA_RESTART, true, real_function(g_real_bsd_signal, "bsd_signal"));
}

CLUSTERPROF_EXPORT sighandler_t sysv_signal(int signal, sighandler_t handler) noexcept {
  return clusterprof::agent::set_sysv_handler(signal, handler);
}

// The function that signal() becomes in programs that ask for System V semantics.
CLUSTERPROF_EXPORT sighandler_t __sysv_signal(int signal, sighandler_t handler) noexcept {
  return clusterprof::agent::set_sysv_handler(signal, handler);
}

CLUSTERPROF_EXPORT int siginterrupt(int signal, int interrupts) noexcept {
  using namespace clusterprof::agent;
  auto* const function = real_function(g_real_siginterrupt, "siginterrupt");
  SignalAction action;
  if (change_action(signal, nullptr, &action) != 0) return -1;
  const std::uint64_t bit = std::uint64_t{1} << (signal - 1);
  if (interrupts != 0) {
    g_interrupting.fetch_or(bit, std::memory_order_relaxed);
    action.sa_flags &= ~SA_RESTART;
  } else {
    g_interrupting.fetch_and(~bit, std::memory_order_relaxed);
    action.sa_flags |= SA_RESTART;
  }
  if (!handlers_are_installed() && function != nullptr) return function(signal, interrupts);
  return change_action(signal, &action, nullptr);
}

CLUSTERPROF_EXPORT int sigignore(int signal) noexcept {
  SignalAction action = {};
  action.sa_handler = SIG_IGN;
  return clusterprof::agent::change_action(signal, &action, nullptr);
}

CLUSTERPROF_EXPORT sighandler_t sigset(int signal, sighandler_t handler) noexcept {
  using namespace clusterprof::agent;
  sigset_t set, before;
  sigemptyset(&set);
  if (handler == SIG_ERR || sigaddset(&set, signal) != 0) {
    errno = EINVAL;
    return SIG_ERR;
  }
  SignalAction action = {}, old;
  const bool hold = handler == SIG_HOLD;
  action.sa_handler = handler;
  if (change_action(signal, hold ? nullptr : &action, &old) != 0) return SIG_ERR;
  if (const int error = change_program_mask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, &before); error != 0) {
    errno = error;
    return SIG_ERR;
  }
  return sigismember(&before, signal) == 1 ? SIG_HOLD : old.sa_handler;
}

CLUSTERPROF_EXPORT int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return clusterprof::agent::change_program_mask(how, set, old);
}

CLUSTERPROF_EXPORT int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  const int error = clusterprof::agent::change_program_mask(how, set, old);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

CLUSTERPROF_EXPORT int sigwait(const sigset_t* set, int* signal) {
  int result = -1;
  do {
    result = clusterprof::agent::wait_for_signal(set, nullptr, nullptr);
  } while (result < 0 && errno == EINTR);
  if (result < 0) return errno;
  *signal = result;
  return 0;
}

CLUSTERPROF_EXPORT int sigwaitinfo(const sigset_t* set, siginfo_t* info) {
  return clusterprof::agent::wait_for_signal(set, info, nullptr);
}

CLUSTERPROF_EXPORT int sigtimedwait(const sigset_t* set, siginfo_t* info, const timespec* timeout) {
  return clusterprof::agent::wait_for_signal(set, info, timeout);
}

CLUSTERPROF_EXPORT int signalfd(int descriptor, const sigset_t* set, int flags) noexcept {
  using namespace clusterprof::agent;
  const sigset_t others = without_sample_signal(set);
  auto* const function = real_function(g_real_signalfd, "signalfd");
  if (function != nullptr) return function(descriptor, &others, flags);
  errno = ENOSYS;
  return -1;
}

}  // extern "C"
