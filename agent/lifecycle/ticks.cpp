// SPDX-License-Identifier: BSD-3-Clause
// Normally a timer on the thread's CPU clock samples it. Performance events are used where such timers are
// too coarse (above 250 Hz of CPU time) or where the user asks for an event. A timer on CLOCK_MONOTONIC is
// used where neither is available.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstring>

#include "agent/lifecycle/options.h"
#include "agent/lifecycle/perf_events.h"
#include "agent/lifecycle/phase.h"
#include "agent/lifecycle/proc_files.h"
#include "agent/sigsafe/counters_read.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint32_t kMaxCpuTimerHz = 250;       // the tick of most kernels
constexpr std::uint64_t kShortestEventNs = 10'000;  // the kernel's own limit

std::uint64_t own_phase_ns(const ThreadRecord& record) noexcept {
  const bool is_rank_itself = g_options.rank >= 0 && g_process.generation == 1;
  return phase_ns(tick_period_ns(), g_options.rank, is_rank_itself ? 0 : g_process.pid, record.number);
}

// Events of threads that vanished. Only the watcher fills an entry.
enum class EntryState : std::uint32_t { kEmpty, kFilled, kTaken };
struct AbandonedEvent {
  std::atomic<EntryState> state;
  int descriptor;
  std::uint64_t id;
};
constinit AbandonedEvent g_abandoned_events[kMaxHighEvents] = {};
constinit std::atomic<std::uint32_t> g_abandoned_count = 0;

void close_abandoned_events(bool are_copies) noexcept {
  if (g_abandoned_count.load(std::memory_order_acquire) == 0) return;
  for (AbandonedEvent& abandoned : g_abandoned_events) {
    EntryState expected = EntryState::kFilled;
    if (!abandoned.state.compare_exchange_strong(expected, EntryState::kTaken, std::memory_order_acq_rel))
      continue;
    if (perf_event_id(abandoned.descriptor) == abandoned.id) raw_syscall(SYS_close, abandoned.descriptor);
    if (!are_copies) forget_high_event();
    g_abandoned_count.fetch_sub(1, std::memory_order_relaxed);
    abandoned.state.store(EntryState::kEmpty, std::memory_order_release);
  }
}

// There are as many entries as there can be events, except for those that a thread is closing at this
// instant.
void abandon_event(int descriptor, std::uint64_t id) noexcept {
  if (descriptor < 0) return;
  for (AbandonedEvent& abandoned : g_abandoned_events) {
    if (abandoned.state.load(std::memory_order_acquire) != EntryState::kEmpty) continue;
    abandoned.descriptor = descriptor;
    abandoned.id = id;
    abandoned.state.store(EntryState::kFilled, std::memory_order_release);
    g_abandoned_count.fetch_add(1, std::memory_order_release);
    return;
  }
}

// Set if the event counts in user mode only, since counting in the kernel takes a permission that we lack.
constinit bool g_event_in_user_mode = false;

// Counts the thread's running time, in the kernel too, or the event that is sampled on instead.
perf_event_attr sampling_event(std::uint64_t first_period) noexcept {
  perf_event_attr event = {};
  event.size = sizeof event;
  event.type = PERF_TYPE_SOFTWARE;
  event.config = PERF_COUNT_SW_TASK_CLOCK;
  event.sample_period = first_period;
  if (g_process.samples_event) {
    const wire::SampleEvent& on = g_options.sample_on.event;
    event.type = on.type;
    event.config = on.config;
    event.config1 = on.config1;
    event.config2 = on.config2;
    if (!g_process.event_in_ns) event.sample_period = on.period;
    if (event.sample_period == 0) {
      event.freq = 1;
      event.sample_freq = g_options.rate_hz;
    }
    event.exclude_kernel = g_event_in_user_mode ? 1 : 0;
  }
  event.wakeup_events = 1;
  event.disabled = 1;
  event.exclude_hv = 1;
  return event;
}

int open_event(std::int32_t tid, std::uint64_t first_period) noexcept {
  perf_event_attr event = sampling_event(first_period);
  const int high = open_high_event(event, tid);
  if (high < 0) return high;
  const f_owner_ex owner = {F_OWNER_TID, tid};
  if (raw_syscall(SYS_fcntl, high, F_SETOWN_EX, &owner) != 0 ||
      raw_syscall(SYS_fcntl, high, F_SETSIG, kSampleSignal) != 0 ||
      raw_syscall(SYS_fcntl, high, F_SETFL, O_ASYNC | O_NONBLOCK) != 0) {
    close_high_event(high);
    return -EIO;
  }
  return high;
}

bool start_event(ThreadRecord& record) noexcept {
  record.event_shifted = g_process.event_in_ns;
  record.event_spent = record.event_waits = false;
  const std::uint64_t phase = g_process.event_in_ns ? own_phase_ns(record) % g_process.event_period : 0;
  record.event_descriptor = open_event(record.tid, phase > kShortestEventNs ? phase : kShortestEventNs);
  if (record.event_descriptor < 0) {
    record.event_descriptor = -1;
    return false;
  }
  record.event_id = perf_event_id(record.event_descriptor);
  if (g_process.tick == Tick::kTaskClock) record.tick = Tick::kTaskClock;
  return raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_REFRESH, 1) == 0;
}

bool has_event(const ThreadRecord& record) noexcept {
  return record.event_descriptor >= 0 && perf_event_id(record.event_descriptor) == record.event_id;
}

// As far as can be told from outside the thread's table of descriptors.
bool may_have_event(const ThreadRecord& record) noexcept {
  if (record.event_descriptor < 0) return false;
  constexpr char kEvent[] = "anon_inode:[perf_event]";
  char path[64], target[sizeof kEvent];
  descriptor_file(record.tid, static_cast<std::uint32_t>(record.event_descriptor), path);
  const long bytes = raw_syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof target);
  if (bytes < 0) return bytes != -ENOENT;
  return bytes == sizeof kEvent - 1 && memcmp(target, kEvent, sizeof kEvent - 1) == 0;
}

// -1: no further timer can be created.
int make_timer(ThreadRecord& record, clockid_t clock) noexcept {
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kSampleSignal;
  event.sigev_value.sival_ptr = &record;
  event._sigev_un._tid = record.tid;
  int id = -1;
  return raw_syscall(SYS_timer_create, clock, &event, &id) == 0 ? id : -1;
}

void delete_timer(int& id) noexcept {
  if (id >= 0) raw_syscall(SYS_timer_delete, id);
  id = -1;
}

bool start_timer(ThreadRecord& record, Tick tick) noexcept {
  record.timer_id = make_timer(record, tick == Tick::kMonotonic ? CLOCK_MONOTONIC : record.clock_id);
  if (record.timer_id < 0) return false;
  if (tick == Tick::kMonotonic) record.wake_timer_id = make_timer(record, record.clock_id);
  record.phase_ns = own_phase_ns(record);
  record.tick = tick;
  arm_timer(record);
  return true;
}

// Context switches and migrations happen in the kernel: without permission to count there, nothing is
// counted.
bool happens_in_kernel(const wire::SampleEvent& on) noexcept {
  return on.type == PERF_TYPE_SOFTWARE &&
         (on.config == PERF_COUNT_SW_CONTEXT_SWITCHES || on.config == PERF_COUNT_SW_CPU_MIGRATIONS);
}

// Sets up g_process for --sample-on if possible. Otherwise the clock samples, and the reason is reported.
void choose_sample_event() noexcept {
  const wire::SampleEvent& on = g_options.sample_on.event;
  g_process.event_in_ns = true;
  g_process.event_period = tick_period_ns();
  if (!g_options.sample_on.resolved) return;
  g_process.samples_event = true;
  g_process.event_in_ns = on.kind == wire::SampleEventKind::kNanoseconds;
  if (on.period != 0) g_process.event_period = on.period;
  int descriptor = open_event(0, g_process.event_period);
  if ((descriptor == -EACCES || descriptor == -EPERM) && !happens_in_kernel(on)) {
    g_event_in_user_mode = true;
    descriptor = open_event(0, g_process.event_period);
  }
  if (descriptor >= 0) return close_high_event(descriptor);
  describe_event_error(-descriptor, g_options.sample_on.reason);
  g_process.samples_event = false;
  g_process.event_in_ns = true;
  g_process.event_period = tick_period_ns();
}

Tick choose_clock() noexcept {
  if (g_process.samples_event && g_options.sample_on.event.kind != wire::SampleEventKind::kOther)
    return Tick::kTaskClock;
  // An event could not be started and stopped by another thread, as windows of recording do.
  if (g_options.standby && g_options.cpu_clock && g_options.rate_hz > kMaxCpuTimerHz) return Tick::kMonotonic;
  if (!g_options.cpu_clock) return g_options.rate_hz < kWallTimerRateHz ? Tick::kCpuClock : Tick::kMonotonic;
  if (g_options.rate_hz <= kMaxCpuTimerHz) return Tick::kCpuClock;
  if (g_process.samples_event) return Tick::kMonotonic;  // a thread has one event
  const int descriptor = open_event(0, tick_period_ns());
  if (descriptor < 0) return Tick::kMonotonic;
  close_high_event(descriptor);
  return Tick::kTaskClock;
}

}  // namespace

Tick choose_tick() noexcept {
  choose_sample_event();
  const Tick tick = choose_clock();
  g_process.uses_events = g_process.samples_event || tick == Tick::kTaskClock;
  return tick;
}

void start_ticks(ThreadRecord& record) noexcept {
  close_abandoned_events(false);
  if (g_process.samples_event && g_process.tick != Tick::kTaskClock && !start_event(record))
    count_drop(g_process.segment.load(std::memory_order_relaxed), wire::DropReason::kCounterFailed);
  if (g_process.tick == Tick::kTaskClock) {
    if (start_event(record) || start_timer(record, Tick::kMonotonic)) return;
  } else if (start_timer(record, g_process.tick)) {
    return;
  }
  count_drop(g_process.segment.load(std::memory_order_relaxed), wire::DropReason::kTimerFailed);
}

void start_timer_ticks(ThreadRecord& record) noexcept {
  if (!start_timer(record, g_process.tick == Tick::kCpuClock ? Tick::kCpuClock : Tick::kMonotonic))
    count_drop(g_process.segment.load(std::memory_order_relaxed), wire::DropReason::kTimerFailed);
}

void arm_timer(const ThreadRecord& record) noexcept {
  if (record.timer_id < 0) return;
  if (record.tick == Tick::kMonotonic) {
    start_monotonic_timer(record, monotonic_ns());
  } else {
    start_cpu_timer(record);
  }
}

bool queue_sample_signal(const ThreadRecord& record) noexcept {
  siginfo_t info = {};
  info.si_signo = kSampleSignal;
  info.si_code = SI_QUEUE;
  info.si_pid = g_process.pid;
  info.si_value.sival_ptr = const_cast<ThreadRecord*>(&record);
  return raw_syscall(SYS_rt_tgsigqueueinfo, g_process.pid, record.tid, kSampleSignal, &info) == 0;
}

void stand_in_for_tick(const ThreadRecord& record) noexcept {
  // Other ticks come only while the thread runs.
  if (record.tick == Tick::kMonotonic && record.timer_off.load(std::memory_order_acquire) == 0)
    queue_sample_signal(record);
}

void restart_ticks(ThreadRecord& record) noexcept {
  if (record.timer_id < 0 || (record.tick != Tick::kCpuClock && record.tick != Tick::kMonotonic)) return;
  record.phase_ns = own_phase_ns(record);
  record.timer_off.store(0, std::memory_order_relaxed);
  arm_timer(record);
}

void stop_ticks(ThreadRecord& record) noexcept {
  close_abandoned_events(false);
  delete_timer(record.timer_id);
  delete_timer(record.wake_timer_id);
  if (has_event(record)) {
    raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_DISABLE, 0);
    close_high_event(record.event_descriptor);
  } else if (record.event_descriptor >= 0) {
    close_high_event(-1);  // it is gone already
  }
  record.event_descriptor = -1;
  record.tick = Tick::kNone;
}

void abandon_ticks(ThreadRecord& record) noexcept {
  delete_timer(record.timer_id);
  delete_timer(record.wake_timer_id);
  abandon_event(record.event_descriptor, record.event_id);
  abandon_event(record.counters.migrations_descriptor, record.counters.migrations_id);
  record.event_descriptor = record.counters.migrations_descriptor = -1;
  record.tick = Tick::kNone;
}

void forget_ticks(ThreadRecord& record) noexcept {
  close_abandoned_events(true);
  // The descriptor is a copy of the parent's and would keep its event alive.
  if (has_event(record)) raw_syscall(SYS_close, record.event_descriptor);
  record.event_descriptor = -1;
  record.timer_id = record.wake_timer_id = -1;  // timers do not survive a fork
  record.tick = Tick::kNone;
  forget_all_high_events();
}

void replace_lost_event(ThreadRecord& record) noexcept {
  // A thread that is in the kernel all the time is not signalled either, and has its event.
  if (record.tick != Tick::kTaskClock || may_have_event(record)) return;
  record.event_descriptor = -1;
  forget_high_event();
  delete_timer(record.wake_timer_id);
  start_timer(record, Tick::kMonotonic);
}

void pause_events(ThreadRecord& record) noexcept {
  if (has_event(record)) raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_DISABLE, 0);
}

void resume_when_left(ThreadRecord& record) noexcept {
  if (record.event_descriptor < 0) return;
  constexpr std::uint64_t kLongNs = 20'000'000;
  if (record.wake_timer_id < 0) record.wake_timer_id = make_timer(record, record.clock_id);
  const itimerspec times = {as_timespec(kLongNs), as_timespec(kLongNs)};
  if (record.wake_timer_id >= 0) raw_syscall(SYS_timer_settime, record.wake_timer_id, 0, &times, nullptr);
}

void resume_events(ThreadRecord& record) noexcept {
  if (record.event_descriptor >= 0) continue_event(record);
}

void revive_event(ThreadRecord& record) noexcept {
  if (t_context.exec_frame != 0 || record.event_waits || !has_event(record)) return;
  // While the thread runs its clock advances, unless the event has stopped.
  std::uint64_t first_ns = 0, second_ns = 0;
  if (record.tick != Tick::kTaskClock) {
    raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_REFRESH, 1);
    return;
  }
  if (raw_syscall(SYS_read, record.event_descriptor, &first_ns, sizeof first_ns) != sizeof first_ns ||
      raw_syscall(SYS_read, record.event_descriptor, &second_ns, sizeof second_ns) != sizeof second_ns ||
      first_ns != second_ns)
    return;
  raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_REFRESH, 1);
}

}  // namespace clusterprof::agent
