// SPDX-License-Identifier: BSD-3-Clause
// One helper thread per process. It finds threads that do not run, which the timers on CPU clocks
// cannot see, and does the regular work that must not be done in handlers.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstdlib>
#include <cstring>

#include "agent/lifecycle/agent.h"
#include "agent/sigsafe/python_stack.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/unwind/module_table.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kMillisecondNs = 1'000'000, kSecondNs = 1'000'000'000;
constexpr std::uint64_t kShortestTickNs = 10 * kMillisecondNs, kLongestTickNs = 40 * kMillisecondNs;
constexpr std::uint32_t kQuietTicks = 10;  // with no thread changing, before the tick doubles

constinit pthread_mutex_t g_tick = PTHREAD_MUTEX_INITIALIZER;

// Asks the kernel what the thread is blocked in. False when it is not to be signalled: it could run and only
// waits for a processor, as most threads of an overcommitted node do, or it is executing another program,
// which our signal would outlive (a timer's would not) and which it would kill.
bool find_blocked_call(ThreadRecord& record) noexcept {
  record.blocked_number = -1;
  record.blocked_pc = 0;
  char path[64], text[256];
  task_file(record.tid, "/syscall", path);
  if (read_small_file(path, text, sizeof text) == 0) return false;
  if (text[0] == 'r') return false;  // "running"
  // The number, six arguments, the stack pointer and the pc; or -1, the stack pointer and the pc.
  char* end = nullptr;
  const long number = strtol(text, &end, 10);
  const char* last = strrchr(text, ' ');
  if (end == text || last == nullptr || number == SYS_execve || number == SYS_execveat) return false;
  if (number < 0) return true;
  record.blocked_pc = strtoull(last + 1, nullptr, 16);
  record.blocked_number = static_cast<std::int32_t>(number);
  return true;
}

// Queued with the record's address, by which the handler knows it.
void signal_thread(ThreadRecord& record) noexcept {
  siginfo_t info = {};
  info.si_signo = kSampleSignal;
  info.si_code = SI_QUEUE;
  info.si_pid = g_process.pid;
  info.si_value.sival_ptr = &record;
  record.signal_sent.store(1, std::memory_order_release);
  if (raw_syscall(SYS_rt_tgsigqueueinfo, g_process.pid, record.tid, kSampleSignal, &info) != 0)
    record.signal_sent.store(0, std::memory_order_relaxed);
}

bool has_moved(const ThreadRecord& record, std::uint64_t cpu_ns) noexcept {
  const std::uint64_t sampled_ns = record.sampled_cpu_ns.load(std::memory_order_acquire);
  return cpu_ns > sampled_ns + record.sampled_cost_ns.load(std::memory_order_relaxed) + kMovedNs;
}

// Returns true when the thread went to sleep or came back.
bool look_at(ThreadRecord& record, std::uint64_t now_ns) noexcept {
  timespec time;
  // A clock that is gone: the thread ended without running its destructors.
  if (clock_gettime(record.clock_id, &time) != 0) {
    bury_thread(record);
    return true;
  }
  const std::uint64_t cpu_ns =
      static_cast<std::uint64_t>(time.tv_sec) * kSecondNs + static_cast<std::uint64_t>(time.tv_nsec);
  const std::uint64_t ran_ns = cpu_ns - record.last_cpu_ns, elapsed_ns = now_ns - record.last_look_ns;
  record.last_cpu_ns = cpu_ns;
  record.last_look_ns = now_ns;
  if (!g_process.watch_blocked) return false;

  if (g_process.wall_timers) {
    if (record.timer_off.load(std::memory_order_acquire) == 0 || !has_moved(record, cpu_ns)) return false;
    record.timer_off.store(0, std::memory_order_relaxed);
    arm_timer(record);
    return true;
  }

  if (record.signalled) {
    if (record.signal_sent.load(std::memory_order_acquire) != 0 || !has_moved(record, cpu_ns)) return false;
    record.signalled = false;
  }
  const bool kept_running = ran_ns >= elapsed_ns - elapsed_ns / 8;
  if (kept_running || clock_ns(record.clock_id) != cpu_ns || !find_blocked_call(record)) return false;
  record.signalled = true;
  signal_thread(record);
  return true;
}

bool look_at_all(bool with_names) noexcept {
  bool changed = false;
  const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    ThreadRecord& record = g_process.records[i];
    auto expected = static_cast<std::uint32_t>(RecordState::kLive);
    if (!record.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(RecordState::kWatched),
                                              std::memory_order_acq_rel))
      continue;
    changed = look_at(record, monotonic_ns()) || changed;
    if (with_names &&
        record.state.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(RecordState::kWatched))
      refresh_name(record);
    expected = static_cast<std::uint32_t>(RecordState::kWatched);  // unless it was buried
    record.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(RecordState::kLive),
                                         std::memory_order_acq_rel);
  }
  return changed;
}

// What the watcher opens shall not take the numbers that the program counts on, and its copies of the
// program's descriptors shall not keep pipes open.
void leave_descriptor_table() noexcept {
  constexpr unsigned kAll = ~0u;
  if (raw_syscall(SYS_close_range, 0u, kAll, CLOSE_RANGE_UNSHARE) == 0) return;
  if (raw_syscall(SYS_unshare, CLONE_FILES) != 0) return;  // not allowed here: the table stays shared
  rlimit limits;
  if (getrlimit(RLIMIT_NOFILE, &limits) != 0) return;
  constexpr rlim_t kMost = 1u << 16;
  const rlim_t count = limits.rlim_cur < kMost ? limits.rlim_cur : kMost;
  for (rlim_t descriptor = 0; descriptor < count; ++descriptor) raw_syscall(SYS_close, descriptor);
}

void* watch(void*) {
  prctl(PR_SET_NAME, "clusterprof");
  leave_descriptor_table();
  const std::uint64_t shortest_ns =
      g_process.period_ns > kShortestTickNs ? g_process.period_ns : kShortestTickNs;
  std::uint64_t tick_ns = shortest_ns;
  std::uint64_t usage_ns = monotonic_ns();
  std::uint32_t quiet = 0;
  bool first = true;
  while (true) {
    const timespec pause = {static_cast<time_t>(tick_ns / kSecondNs), static_cast<long>(tick_ns % kSecondNs)};
    raw_syscall(SYS_nanosleep, &pause, nullptr);

    pthread_mutex_lock(&g_tick);
    wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
    bool changed = false;
    if (segment != nullptr) {
      const bool refresh = monotonic_ns() - usage_ns >= kSecondNs;
      changed = look_at_all(refresh);
      const bool modules_changed = module_table_refresh(segment);
      if ((modules_changed || first) && !g_options.no_python) python_attach(segment);
      first = false;
      if (refresh) {
        refresh_usage(segment);
        usage_ns = monotonic_ns();
      }
    }
    pthread_mutex_unlock(&g_tick);

    quiet = changed ? 0 : quiet + 1;
    if (changed) {
      tick_ns = shortest_ns;
    } else if (quiet >= kQuietTicks && tick_ns < kLongestTickNs) {
      tick_ns = tick_ns * 2 < kLongestTickNs ? tick_ns * 2 : kLongestTickNs;
      quiet = 0;
    }
  }
  return nullptr;
}

}  // namespace

void start_watcher() noexcept {
  constexpr std::size_t kStackBytes = 256 * 1024;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const std::uint64_t mask = block_all_signals();
  pthread_t thread;
  if (create_unrecorded_thread(&thread, &attributes, watch, nullptr) != 0) {
    // The program's thread-local data does not fit: the default is what it lives with itself.
    pthread_attr_destroy(&attributes);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    create_unrecorded_thread(&thread, &attributes, watch, nullptr);
  }
  restore_signals(mask);
  pthread_attr_destroy(&attributes);
}

bool pause_watcher() noexcept {
  constexpr long kPatienceNs = 200'000'000;
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kPatienceNs;
  if (until.tv_nsec >= static_cast<long>(kSecondNs)) {
    until.tv_nsec -= static_cast<long>(kSecondNs);
    ++until.tv_sec;
  }
  return pthread_mutex_timedlock(&g_tick, &until) == 0;
}

void resume_watcher() noexcept { pthread_mutex_unlock(&g_tick); }

void reset_watcher_after_fork() noexcept { g_tick = PTHREAD_MUTEX_INITIALIZER; }

}  // namespace clusterprof::agent
