// SPDX-License-Identifier: BSD-3-Clause
// One helper thread per process. It finds threads that do not run, which the timers on CPU clocks
// cannot see, and does the regular work that must not be done in handlers.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "agent/discovery/attach.h"
#include "agent/discovery/generated_code.h"
#include "agent/discovery/module_table.h"
#include "agent/lifecycle/allocation_record.h"
#include "agent/lifecycle/allocations.h"
#include "agent/lifecycle/cancellation.h"
#include "agent/lifecycle/end_recording.h"
#include "agent/lifecycle/fault_handler.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/proc_files.h"
#include "agent/lifecycle/replaced_calls.h"
#include "agent/lifecycle/same_wait.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/thread_records.h"
#include "agent/lifecycle/ticks.h"
#include "agent/lifecycle/unrecorded_thread.h"
#include "agent/lifecycle/usage.h"
#include "agent/lifecycle/windows.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/python_stack.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kMillisecondNs = 1'000'000, kSecondNs = 1'000'000'000;
// A thread is looked at again after a fraction of the time for which it has done the same. What is too short
// to be seen is then small compared with that time (docs/design/0002).
constexpr std::uint64_t kShortestLookNs = 10 * kMillisecondNs, kLongestLookNs = 100 * kMillisecondNs;
constexpr std::uint64_t kLongestWithoutTimerNs =
    40 * kMillisecondNs;  // nobody else sees that thread come back
constexpr std::uint64_t kSteadyParts = 32;
// A thread that was signalled is left alone for this many of the shortest intervals, or, if there are many
// threads, for one interval per thread. This bounds the cost of signals to a process. With more than
// kManyThreads a signal costs more, since caches hold nothing of a thread that is rarely looked at, and fewer
// signals tell enough: the interval grows up to kLongestRest times.
constexpr std::uint64_t kRestAfterSignal = 4, kManyThreads = 16, kLongestRest = 3;

CLUSTERPROF_WRITTEN_BY_FORKS constinit pthread_mutex_t g_tick = PTHREAD_MUTEX_INITIALIZER;

// The number of the current watcher. A watcher ends when the number has changed. It sleeps on this word.
CLUSTERPROF_WRITTEN_BY_FORKS constinit std::atomic<std::uint32_t> g_current = 0;
// 0: none, -1: it has not begun yet.
CLUSTERPROF_WRITTEN_BY_FORKS constinit std::atomic<std::int32_t> g_watcher_tid = 0;
CLUSTERPROF_WRITTEN_BY_FORKS constinit bool g_dismissed = false;  // under g_presence
CLUSTERPROF_WRITTEN_BY_FORKS constinit pthread_mutex_t g_presence = PTHREAD_MUTEX_INITIALIZER;

// Whether a thread that has a lock does something, or would if it had a processor, or waits for what comes
// from outside. One that waits for another lock may do so for ever.
bool gets_on(std::int32_t tid, std::uint64_t& cpu_ns) noexcept {
  const std::uint64_t before_ns = cpu_ns;
  cpu_ns = clock_ns(cpu_clock_of(tid));
  if (cpu_ns != before_ns) return cpu_ns != 0;
  char path[64], call[256];
  task_file(tid, "/syscall", path);
  return read_small_file(path, call, sizeof call) != 0 &&
         (call[0] < '0' || call[0] > '9' || atoi(call) != SYS_futex);
}

// False: whoever has it waits for a lock itself, such as the loader's, which the calling thread may have.
bool lock_in_time(pthread_mutex_t& mutex) noexcept {
  // First without a look at clocks, which may be a system call that a filter of the program's does not allow.
  constexpr timespec kPast = {0, 0};
  if (pthread_mutex_timedlock(&mutex, &kPast) == 0) return true;
  constexpr std::uint64_t kLookNs = 200 * kMillisecondNs, kLongestNs = 2 * kSecondNs;
  const auto owner = [&mutex] { return __atomic_load_n(&mutex.__data.__owner, __ATOMIC_RELAXED); };
  const std::uint64_t end_ns = monotonic_ns() + kLongestNs;
  std::int32_t tid = owner();
  std::uint64_t cpu_ns = tid != 0 ? clock_ns(cpu_clock_of(tid)) : 0;
  do {
    const timespec until = as_timespec(clock_ns(CLOCK_REALTIME) + kLookNs);
    if (pthread_mutex_timedlock(&mutex, &until) == 0) return true;
    if (const std::int32_t now = owner(); now != tid) {
      tid = now;
      cpu_ns = 0;
    }
  } while (tid != own_tid() && gets_on(tid, cpu_ns) && monotonic_ns() < end_ns);
  return false;
}

// A watcher of a process with windows of recording sleeps on the collector's word instead.
void wake_watcher() noexcept {
  raw_syscall(SYS_futex, &g_current, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment != nullptr && has_windows(segment))
    raw_syscall(SYS_futex, &segment->window_wanted, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// Waits for a bounded time until the kernel has no such thread any more. A watcher that is stuck waiting for
// a lock of the loader ends when it gets the lock. Returns whether there was a watcher.
bool stop_watcher() noexcept {
  constexpr std::uint32_t kMaxMoments = 10'000;
  constexpr timespec kMoment = {0, 20'000};
  g_current.fetch_add(1, std::memory_order_acq_rel);
  if (g_watcher_tid.load(std::memory_order_acquire) == 0) return false;
  for (std::uint32_t i = 0; i < kMaxMoments; ++i) {
    wake_watcher();  // again: it may have been about to sleep
    const std::int32_t tid = g_watcher_tid.load(std::memory_order_acquire);
    if (tid > 0 && raw_syscall(SYS_tgkill, g_process.pid, tid, 0) == -ESRCH) break;
    raw_syscall(SYS_nanosleep, &kMoment, nullptr);
  }
  g_watcher_tid.store(0, std::memory_order_relaxed);
  return true;
}

// The kernel's files about threads. Some stay open, since opening one costs several times what reading it
// does. This is done only if the watcher has its own table of descriptors, and enough of them.
constexpr std::uint32_t kMaxOpenFiles = 256;                            // two for each of 128 threads
CLUSTERPROF_WRITTEN_BY_FORKS constinit std::uint32_t g_files_left = 0;  // that may be opened and kept

void close_task_file(int& descriptor) noexcept {
  if (descriptor < 0) return;
  raw_syscall(SYS_close, descriptor);
  descriptor = -1;
  ++g_files_left;
}

// `descriptor`: of this file, -1 if it is not open.
std::uint32_t read_task_file(int& descriptor, std::int32_t tid, const char* name, char* text,
                             std::uint32_t capacity) noexcept {
  char path[64];
  task_file(tid, name, path);
  if (descriptor < 0 && g_files_left != 0) {
    descriptor = static_cast<int>(raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
    if (descriptor >= 0) --g_files_left;
  }
  if (descriptor < 0) return read_small_file(path, text, capacity);
  const long bytes = raw_syscall(SYS_pread64, descriptor, text, capacity - 1, 0);
  const std::uint32_t used = bytes > 0 ? static_cast<std::uint32_t>(bytes) : 0;
  text[used] = 0;
  if (used == 0) close_task_file(descriptor);
  return used;
}

// The call may have transferred a part of what it was asked to. A signal would end it there, and it would
// return that part only, which many callers do not expect.
bool may_be_half_done(const BlockedCall& call) noexcept {
  constexpr std::uint64_t kAtomicBytes = 4096;  // PIPE_BUF
  switch (call.number) {
    case SYS_write:
    case SYS_sendto:
    case SYS_pwrite64:
      return call.arguments[2] > kAtomicBytes;
    case SYS_recvfrom:
      return (call.arguments[3] & MSG_WAITALL) != 0;
    case SYS_recvmsg:
      return (call.arguments[2] & MSG_WAITALL) != 0;
    case SYS_recvmmsg:
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_vmsplice:
    case SYS_tee:
    case SYS_copy_file_range:
    case SYS_process_vm_readv:
    case SYS_process_vm_writev:
    case SYS_close:  // it would no longer wait for what lingers to be sent
      return true;
    default:
      return false;
  }
}

// True if the call was made by a function of ours that would continue with the rest (transfers.cpp).
bool would_go_on(const ThreadRecord& record, const BlockedCall& call) noexcept {
  switch (call.number) {
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_sendfile:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
      break;
    default:
      return false;
  }
  if (!may_be_called_by(record.transfer_frame.load(std::memory_order_relaxed), call.stack_pointer))
    return false;
  char path[64];
  descriptor_file(record.tid, static_cast<std::uint32_t>(call.arguments[0]), path);
  struct stat file;
  if (raw_syscall(SYS_newfstatat, AT_FDCWD, path, &file, 0) != 0) return false;
  return call.number == SYS_sendfile ? S_ISSOCK(file.st_mode) : is_stream(file);
}

constexpr std::uint64_t kNoTimeout = ~std::uint64_t{0};

// Reads a timespec of another thread, which may wake up and reuse that memory.
std::uint64_t timeout_at(std::uint64_t address) noexcept {
  if (address == 0) return kNoTimeout;
  timespec time = {};
  const iovec here = {&time, sizeof time};
  const iovec there = {reinterpret_cast<void*>(address), sizeof time};
  if (raw_syscall(SYS_process_vm_readv, g_process.pid, &here, 1, &there, 1, 0) != sizeof time) return 0;
  return as_ns(time);
}

// The relative timeout of a call, if repeating the call would start the whole timeout again.
std::uint64_t timeout_ns(const BlockedCall& call) noexcept {
  const auto of_milliseconds = [](std::uint64_t argument) {
    const auto ms = static_cast<std::int32_t>(argument);
    return ms < 0 ? kNoTimeout : static_cast<std::uint64_t>(ms) * kMillisecondNs;
  };
  switch (call.number) {
    case SYS_poll:
      return of_milliseconds(call.arguments[2]);
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return of_milliseconds(call.arguments[3]);
    case SYS_epoll_pwait2:
    case SYS_semtimedop:
      return timeout_at(call.arguments[3]);
    case SYS_futex: {
      constexpr std::uint64_t kCommand = 0x7f, kWait = 0;  // the other commands have an absolute one
      return (call.arguments[1] & kCommand) == kWait ? timeout_at(call.arguments[3]) : kNoTimeout;
    }
    case SYS_rt_sigtimedwait:
      return timeout_at(call.arguments[2]);
    case SYS_io_getevents:
      return timeout_at(call.arguments[4]);
    case SYS_nanosleep:
      return call.arguments[1] == 0 ? timeout_at(call.arguments[0]) : kNoTimeout;
    case SYS_clock_nanosleep:
      return (call.arguments[1] & TIMER_ABSTIME) == 0 && call.arguments[3] == 0
                 ? timeout_at(call.arguments[2])
                 : kNoTimeout;
    default:
      return kNoTimeout;
  }
}

// True if the handler repeats the call with what is left of its timeout.
bool is_timed(const ThreadRecord& record, const BlockedCall& call) noexcept {
  const bool is_poll = call.number == SYS_poll;
  return record.timed.is(call.number, call.arguments[is_poll ? 0 : 1],
                         static_cast<std::int32_t>(call.arguments[is_poll ? 2 : 3]), call.stack_pointer);
}

// If it were repeated, the call would last too long by the part of the timeout that has passed. True if that
// is too much.
bool would_last_too_long(const ThreadRecord& record, const BlockedCall& call,
                         std::uint64_t passed_ns) noexcept {
  constexpr std::uint64_t kAlwaysBearableNs = 60 * kMillisecondNs, kBearablePart = 8;
  return passed_ns > kAlwaysBearableNs && !is_timed(record, call) &&
         passed_ns > timeout_ns(call) / kBearablePart;
}

CallState read_call(ThreadRecord& record, BlockedCall& call) noexcept {
  char text[256];
  if (read_task_file(record.watch.syscall_file, record.tid, "/syscall", text, sizeof text) == 0)
    return CallState::kNotKnown;
  return parse_call(text, call);
}

// The file is long, and rarely needed: it does not stay open.
std::uint64_t read_waits(const ThreadRecord& record) noexcept {
  char path[64], text[8192];
  task_file(record.tid, "/status", path);
  return read_small_file(path, text, sizeof text) != 0 ? parse_waits(text) : 0;
}

constexpr AskKernel kAskKernel = {read_call, read_waits};

// Asks the kernel in which call the thread is blocked. False if it must not be signalled: it could run and
// only waits for a processor, as most threads of an overcommitted node do; or it is executing another
// program, which our signal (unlike a timer's) would reach and kill; or the program would notice that the
// call is repeated.
bool find_blocked_call(ThreadRecord& record, std::uint64_t now_ns) noexcept {
  record.blocked_number = -1;
  record.blocked_pc = 0;
  BlockedCall call = {};
  if (read_call(record, call) != CallState::kBlocked || call.number == SYS_execve ||
      call.number == SYS_execveat)
    return false;
  if (call.number < 0) return true;
  if ((may_be_half_done(call) && !would_go_on(record, call)) ||
      would_last_too_long(record, call, now_ns - record.watch.ran_after_ns))
    return false;
  record.blocked_pc = call.pc;
  record.blocked_number = static_cast<std::int32_t>(call.number);
  return true;
}

// How long the thread could run but had no processor, which its samples report from now on, and how often it
// got one. 0 if the kernel does not tell.
void refresh_schedule(ThreadRecord& record, std::uint64_t cpu_ns) noexcept {
  char text[96];
  Schedule schedule = {};
  if (read_task_file(record.watch.schedule_file, record.tid, "/schedstat", text, sizeof text) != 0)
    parse_schedule(text, schedule);
  record.watch.waited_ns = schedule.run_delay_ns;
  record.watch.runs = schedule.runs;
  record.watch.runs_cpu_ns = cpu_ns;
  if (schedule.run_delay_ns > record.base_run_delay_ns)
    record.slot->run_delay_ns.store(schedule.run_delay_ns - record.base_run_delay_ns,
                                    std::memory_order_relaxed);
}

void signal_thread(ThreadRecord& record) noexcept {
  record.signal_sent.store(1, std::memory_order_release);
  if (!queue_sample_signal(record)) record.signal_sent.store(0, std::memory_order_relaxed);
}

// True if the program has replaced our handler without calling our functions.
bool has_lost_handler() noexcept {
  std::uint64_t action[4] = {};  // the handler comes first
  constexpr std::size_t kMaskBytes = 8;
  return raw_syscall(SYS_rt_sigaction, kSampleSignal, nullptr, action, kMaskBytes) == 0 &&
         action[0] != reinterpret_cast<std::uintptr_t>(sample_handler);
}

// The same for the faults of our walks, which the program's handler would then take for its own. In a process
// that was attached to, the program may know functions of libc that are not ours.
bool has_lost_fault_handler() noexcept {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    std::uint64_t action[4] = {};
    constexpr std::size_t kMaskBytes = 8;
    if (raw_syscall(SYS_rt_sigaction, signal, nullptr, action, kMaskBytes) == 0 &&
        action[0] != reinterpret_cast<std::uintptr_t>(fault_handler))
      return true;
  }
  return false;
}

// Finds out why there are no samples from a thread that runs or that was signalled some time ago. A handler
// of ours that is at work, or libc during a fork, delays it only for a moment.
void look_for_silence(ThreadRecord& record, std::uint64_t now_ns) noexcept {
  constexpr std::uint64_t kSilentNs = 300 * kMillisecondNs;
  const std::uint64_t sampled_ns = record.sampled_cpu_ns.load(std::memory_order_acquire);
  const std::uint64_t silent_ns = record.last_cpu_ns > sampled_ns ? record.last_cpu_ns - sampled_ns : 0;
  const bool runs = silent_ns > kSilentNs && silent_ns > 4 * tick_period_ns();
  const bool sleeps = record.signalled && record.signal_sent.load(std::memory_order_relaxed) != 0 &&
                      now_ns - record.watch.signalled_ns > kSilentNs;
  if (record.blocks_sample_signal || (!runs && !sleeps) ||
      record.held_number.load(std::memory_order_relaxed) >= 0)
    return;
  if (blocks_sample_signal(record.tid) || (runs && has_lost_handler())) {
    record.blocks_sample_signal = true;
    count_drop(g_process.segment.load(std::memory_order_relaxed), wire::DropReason::kSignalBlocked);
  } else if (runs) {
    replace_lost_event(record);
  }
}

enum class Look {
  kSame,       // it ran, or slept, all the time
  kMixed,      // it did something else for a while
  kSignalled,  // it was found asleep, and told to take a sample
};

// True if the thread has only run, and waited for a processor, since it was last found to do something else.
// The kernel counts a wait when it is over.
bool only_lacked_processor(ThreadRecord& record, std::uint64_t cpu_ns, std::uint64_t waited_ns,
                           std::uint64_t now_ns) noexcept {
  constexpr std::uint64_t kLongestWaitNs = 25 * kMillisecondNs;
  WatchState& watch = record.watch;
  const std::uint64_t accounted_ns = cpu_ns - watch.base_cpu_ns + waited_ns - watch.base_waited_ns;
  const bool lacked = watch.base_ns != 0 && accounted_ns + kLongestWaitNs >= now_ns - watch.base_ns;
  if (!lacked) {
    watch.base_ns = now_ns;
    watch.base_cpu_ns = cpu_ns;
    watch.base_waited_ns = waited_ns;
  }
  return lacked;
}

Look look_at(ThreadRecord& record, std::uint64_t now_ns) noexcept {
  timespec time;
  // A clock that is gone: the thread ended without running its destructors.
  if (raw_syscall(SYS_clock_gettime, record.clock_id, &time) != 0) {
    end_vanished_thread(record);
    return Look::kMixed;
  }
  const std::uint64_t cpu_ns = as_ns(time);
  const std::uint64_t ran_ns = cpu_ns - record.last_cpu_ns, elapsed_ns = now_ns - record.last_look_ns;
  if (ran_ns != 0 || record.watch.ran_after_ns == 0) record.watch.ran_after_ns = record.last_look_ns;
  record.last_cpu_ns = cpu_ns;
  record.last_look_ns = now_ns;
  // A thread that slept all the time, or ran, has waited for no processor.
  constexpr std::uint64_t kShortStopNs = 100'000;
  if (ran_ns != 0 && elapsed_ns >= ran_ns + kShortStopNs) refresh_schedule(record, cpu_ns);

  if (record.tick == Tick::kMonotonic) {
    if (record.timer_off.load(std::memory_order_acquire) == 0 || !has_moved(record, cpu_ns, kAskKernel))
      return Look::kSame;
    // The thread's own handler may have been first: only one of the two starts the timer.
    if (record.timer_off.exchange(0, std::memory_order_acq_rel) != 0) arm_timer(record);
    return Look::kMixed;
  }
  if (!g_process.watch_blocked) return Look::kSame;

  if (record.signalled) {
    if (record.signal_sent.load(std::memory_order_acquire) != 0 || !has_moved(record, cpu_ns, kAskKernel))
      return Look::kSame;
    record.signalled = false;
    record.watch.same_since_ns = now_ns;
  }
  const bool kept_running = ran_ns >= elapsed_ns - elapsed_ns / 8;
  if (kept_running) return Look::kSame;
  if (clock_ns(record.clock_id) != cpu_ns || !find_blocked_call(record, now_ns))
    return only_lacked_processor(record, cpu_ns, record.watch.waited_ns, now_ns) ? Look::kSame : Look::kMixed;
  WatchState& watch = record.watch;
  watch.base_ns = 0;
  watch.signalled_runs = watch.runs_cpu_ns == cpu_ns ? watch.runs : 0;
  record.signalled = true;
  signal_thread(record);
  return Look::kSignalled;
}

std::uint64_t shortest_look_ns() noexcept { return std::max(kShortestLookNs, tick_period_ns()); }

// At low rates a look every 100 ms would cost more than the samples.
std::uint64_t longest_look_ns() noexcept {
  constexpr std::uint64_t kPeriods = 4;
  return std::max(kLongestLookNs, kPeriods * tick_period_ns());
}

// Threads that wait for each other's lock are found asleep at nearly every look, which alone cost 0.1 % of a
// processor in light mode. The looks themselves must stay as frequent: a thread in a short sleep is only
// signalled if it was seen running shortly before (would_last_too_long).
std::uint64_t light_rest() noexcept {
  constexpr std::uint64_t kLightRest = 2;
  // In a window of a light run the period is shorter.
  const bool is_light = g_options.light && tick_period_ns() >= wire::sampling_period_ns(g_options.rate_hz);
  return is_light ? kLightRest : 1;
}

// In shortest intervals. `threads`: those that are signalled again and again.
std::uint64_t rest_after_signal(std::uint64_t threads) noexcept {
  if (threads <= kRestAfterSignal) return kRestAfterSignal;
  if (threads <= kManyThreads) return threads;
  return std::min(threads * threads / kManyThreads, kLongestRest * threads);
}

// How long to wait before the next look. `signals`: number of threads that were signalled lately.
std::uint64_t pause_after(ThreadRecord& record, Look look, std::uint64_t now_ns,
                          std::uint32_t signals) noexcept {
  const std::uint64_t shortest_ns = shortest_look_ns();
  if (look != Look::kSame) record.watch.same_since_ns = now_ns;
  if (look == Look::kSignalled) return shortest_ns * rest_after_signal(signals) * light_rest();
  std::uint64_t pause_ns = (now_ns - record.watch.same_since_ns) / kSteadyParts;
  std::uint64_t longest_ns = longest_look_ns();
  if (record.tick == Tick::kMonotonic && record.timer_off.load(std::memory_order_relaxed) != 0)
    longest_ns = kLongestWithoutTimerNs;
  if (pause_ns > longest_ns) pause_ns = longest_ns;
  return pause_ns > shortest_ns ? pause_ns : shortest_ns;
}

// What rarely changes is asked for again when the thread is twice as old.
void refresh_if_due(ThreadRecord& record, std::uint64_t now_ns) noexcept {
  const std::uint64_t age_ns = now_ns - record.slot->start_time_ns;
  if (age_ns < kSecondNs || age_ns < 2 * record.watch.named_at_age_ns) return;
  record.watch.named_at_age_ns = age_ns;
  refresh_name(record);
  look_for_silence(record, now_ns);
}

// Looks at the threads that are due. Returns the time at which the next one is due.
std::uint64_t look_at_those_due() noexcept {
  static std::uint32_t signalled_lately = 0;
  const std::uint64_t shortest_ns = shortest_look_ns();
  std::uint64_t now_ns = monotonic_ns(), next_ns = now_ns + longest_look_ns();
  std::uint32_t signalled = 0;
  const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    ThreadRecord& record = g_process.records[i];
    if (record.state.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(RecordState::kLive))
      continue;
    WatchState& watch = record.watch;
    const bool is_new = watch.tid != record.tid || watch.number != record.number;
    // Those that are nearly due are looked at along with the others.
    const std::uint64_t early_ns =
        watch.pause_ns / 4 > shortest_ns / 2 ? watch.pause_ns / 4 : shortest_ns / 2;
    if (is_new || watch.next_ns <= now_ns + early_ns) {
      auto expected = static_cast<std::uint32_t>(RecordState::kLive);
      if (!record.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(RecordState::kWatched),
                                                std::memory_order_acq_rel))
        continue;
      if (is_new) {
        if (watch.tid != 0) {
          close_task_file(watch.syscall_file);
          close_task_file(watch.schedule_file);
        }
        watch = {};
        watch.tid = record.tid;
        watch.syscall_file = watch.schedule_file = -1;
        watch.number = record.number;
        watch.same_since_ns = now_ns;
      }
      now_ns = monotonic_ns();
      const Look look = look_at(record, now_ns);
      watch.pause_ns = pause_after(record, look, now_ns, signalled_lately);
      watch.next_ns = now_ns + watch.pause_ns;
      if (look == Look::kSignalled) {
        watch.signalled_ns = now_ns;
        watch.rest_ns = watch.pause_ns;
      }
      if (record.state.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(RecordState::kWatched))
        refresh_if_due(record, now_ns);
      expected = static_cast<std::uint32_t>(RecordState::kWatched);  // unless it was buried
      record.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(RecordState::kLive),
                                           std::memory_order_acq_rel);
    }
    if (watch.signalled_ns != 0 && now_ns - watch.signalled_ns < kSecondNs + watch.rest_ns) ++signalled;
    if (watch.next_ns < next_ns) next_ns = watch.next_ns;
  }
  signalled_lately = signalled;
  return next_ns > now_ns + shortest_ns ? next_ns : now_ns + shortest_ns;
}

}  // namespace

// What the watcher opens must not take descriptor numbers that the program expects to get, and the watcher's
// copies of the program's descriptors must not keep pipes open. Returns whether the watcher now has its own
// table.
bool leave_descriptor_table() noexcept {
  constexpr unsigned kAll = ~0u;
  if (raw_syscall(SYS_close_range, 0u, kAll, CLOSE_RANGE_UNSHARE) == 0) return true;
  if (raw_syscall(SYS_unshare, CLONE_FILES) != 0) return false;  // not allowed here
  rlimit limits;
  if (getrlimit(RLIMIT_NOFILE, &limits) != 0) return true;
  constexpr rlim_t kMost = 1u << 16;
  const rlim_t count = limits.rlim_cur < kMost ? limits.rlim_cur : kMost;
  for (rlim_t descriptor = 0; descriptor < count; ++descriptor) raw_syscall(SYS_close, descriptor);
  return true;
}

namespace {

// Sleeps until the time, or until it is told to do something else. While recording is off, there is no time.
void sleep_until(std::uint32_t number, std::uint64_t next_ns) noexcept {
  const std::uint64_t now_ns = monotonic_ns();
  const timespec pause = as_timespec(next_ns > now_ns ? next_ns - now_ns : 0);
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr || !has_windows(segment)) {
    raw_syscall(SYS_futex, &g_current, FUTEX_WAIT_PRIVATE, number, &pause, nullptr, 0);
    return;
  }
  const std::uint32_t done = segment->window_done.load(std::memory_order_relaxed);
  raw_syscall(SYS_futex, &segment->window_wanted, FUTEX_WAIT, done, recording_is_off() ? nullptr : &pause,
              nullptr, 0);
}

// A wake-up that is not urgent is combined with another one.
constexpr unsigned long kTimerSlackNs = 2 * kMillisecondNs;

// Call before the watcher opens or looks at anything.
void prepare() noexcept {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  rlimit descriptors;
  if (leave_descriptor_table() && getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    const rlim_t quarter = descriptors.rlim_cur / 4;
    g_files_left = quarter < kMaxOpenFiles ? static_cast<std::uint32_t>(quarter) : kMaxOpenFiles;
  }
  // The files of the last watcher went with its descriptors.
  pthread_mutex_lock(&g_tick);
  const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) g_process.records[i].watch = {};
  pthread_mutex_unlock(&g_tick);
}

bool is_current(std::uint32_t number) noexcept {
  return g_current.load(std::memory_order_acquire) == number && !recording_has_ended();
}

void* watch(void* given) {
  const auto number = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(given));
  std::int32_t starting = -1;
  g_watcher_tid.compare_exchange_strong(starting, static_cast<std::int32_t>(raw_syscall(SYS_gettid)),
                                        std::memory_order_acq_rel);
  prctl(PR_SET_NAME, "clusterprof");
  leave_out_own_allocations();
  std::uint64_t usage_ns = 0, next_ns = monotonic_ns() + shortest_look_ns();
  bool attach = true;
  // Many children of a fork end sooner, and need none of the rest.
  if (is_current(number)) sleep_until(number, monotonic_ns() + kShortestLookNs);
  if (is_current(number)) prepare();
  while (is_current(number)) {
    sleep_until(number, next_ns);
    if (!is_current(number)) break;

    pthread_mutex_lock(&g_tick);
    wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
    next_ns = monotonic_ns() + longest_look_ns();
    if (segment != nullptr && is_turned_off(segment)) {
      refresh_usage(segment);
      stop_ticks_for_good();
    } else if (segment != nullptr && g_process.attached && has_lost_fault_handler()) {
      count_drop(segment, wire::DropReason::kSignalBlocked);
      refresh_usage(segment);
      stop_ticks_for_good();
    } else if (segment != nullptr && wants_window_change(segment)) {
      if (wants_window(segment)) {  // what was loaded meanwhile
        module_table_refresh(segment);
        attach = !g_options.no_python && python_attach(segment);
      }
      change_window(segment);
      next_ns = monotonic_ns() + shortest_look_ns();
    } else if (segment != nullptr && !recording_is_off()) {
      next_ns = look_at_those_due();
      const bool modules_changed = module_table_refresh(segment);
      if (modules_changed || attach) {
        attach = !g_options.no_python && python_attach(segment);
        watch_python_allocator();
        look_for_unseen_memory(segment);
      }
      generated_code_refresh(segment);
      if (modules_changed && g_process.attached) replace_calls();
      // If it ends within a second, it leaves what it reads and writes to its parent's account, so it tells
      // nothing before it is that old.
      if (usage_ns == 0 && may_leave_io_to_parent(*segment)) usage_ns = segment->start_mono_ns;
      if (monotonic_ns() - usage_ns >= kSecondNs) {
        refresh_usage(segment);
        usage_ns = monotonic_ns();
      }
    }
    pthread_mutex_unlock(&g_tick);
    generated_code_search_file();
  }
  return nullptr;
}

}  // namespace

void start_watcher() noexcept {
  constexpr std::size_t kStackBytes = 256 * 1024;
  generated_code_take_memory_from(
      {[](std::uint64_t bytes) noexcept { return map_memory(bytes); }, unmap_memory});
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  g_watcher_tid.store(-1, std::memory_order_relaxed);
  void* const number =
      reinterpret_cast<void*>(std::uintptr_t{g_current.fetch_add(1, std::memory_order_acq_rel) + 1});
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const std::uint64_t mask = block_all_signals();
  // But the one by which setuid(2) and its kin of libc have every thread change: they wait for the watcher,
  // too.
  constexpr std::uint64_t kSetxidSignal = std::uint64_t{1} << (33 - 1);
  raw_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &kSetxidSignal, nullptr, sizeof kSetxidSignal);
  pthread_t thread;
  if (create_unrecorded_thread(&thread, &attributes, watch, number) != 0) {
    // The program's thread-local data does not fit: the default is what it lives with itself.
    pthread_attr_destroy(&attributes);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (create_unrecorded_thread(&thread, &attributes, watch, number) != 0)
      g_watcher_tid.store(0, std::memory_order_relaxed);
  }
  restore_signals(mask);
  pthread_attr_destroy(&attributes);
}

WatcherStopped::WatcherStopped() noexcept {
  if (g_process.segment.load(std::memory_order_acquire) == nullptr ||
      raw_syscall(SYS_getpid) != g_process.pid)
    return;
  const CancellationOff no_cancellation;
  const int saved_errno = errno;
  locked_ = lock_in_time(g_presence);
  comes_back_ = locked_ && stop_watcher() && !recording_has_ended();
  errno = saved_errno;
}

WatcherStopped::~WatcherStopped() {
  const CancellationOff no_cancellation;
  const int saved_errno = errno;
  if (comes_back_ && !g_dismissed) start_watcher();
  if (locked_) pthread_mutex_unlock(&g_presence);
  errno = saved_errno;
}

void stop_watcher_for_good() noexcept {
  const bool locked = lock_in_time(g_presence);
  g_dismissed = true;
  stop_watcher();
  if (locked) pthread_mutex_unlock(&g_presence);
}

void allow_watcher() noexcept { g_dismissed = false; }

bool pause_watcher() noexcept { return lock_in_time(g_tick); }

void resume_watcher() noexcept { pthread_mutex_unlock(&g_tick); }

void reset_watcher_after_fork() noexcept {
  g_tick = g_presence = PTHREAD_MUTEX_INITIALIZER;
  generated_code_reset_after_fork();
  g_watcher_tid.store(0, std::memory_order_relaxed);
  g_dismissed = false;
  // The files were the parent's watcher's.
  g_files_left = 0;
  const std::uint32_t used = g_process.records_used.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used; ++i) g_process.records[i].watch = {};
}

}  // namespace clusterprof::agent
