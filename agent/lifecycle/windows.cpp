// SPDX-License-Identifier: BSD-3-Clause
// Opens and closes windows of recording. The watcher's thread does it, for all threads of the process: none
// of them is interrupted, and none needs to run for it.
#include "agent/lifecycle/windows.h"

#include <sys/syscall.h>

#include "agent/lifecycle/options.h"
#include "agent/lifecycle/regions.h"
#include "agent/lifecycle/ticks.h"
#include "agent/lifecycle/usage.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"

namespace clusterprof::agent {
namespace {

constinit bool g_is_open = false;  // written by the watcher

constexpr auto kRelaxed = std::memory_order_relaxed;

// Calls act(record) for every live thread. A thread that is beginning or ending looks after itself.
template <typename Act>
void for_each_live(Act act) noexcept {
  const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    ThreadRecord& record = g_process.records[i];
    auto expected = static_cast<std::uint32_t>(RecordState::kLive);
    if (!record.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(RecordState::kWatched)))
      continue;
    act(record);
    record.state.store(static_cast<std::uint32_t>(RecordState::kLive), std::memory_order_release);
  }
}

void begin_for(ThreadRecord& record) noexcept {
  const std::uint64_t cpu_ns = clock_ns(record.clock_id);
  if (cpu_ns == 0) return;  // the thread is gone, as the watcher will find
  const std::uint64_t now_ns = monotonic_ns();
  record.last_cpu_ns = cpu_ns;
  record.last_look_ns = now_ns;
  record.sampled_cpu_ns.store(cpu_ns, kRelaxed);
  record.sampled_cost_ns.store(0, kRelaxed);
  record.sampled_waits.store(0, kRelaxed);
  record.sampled_switches.store(0, kRelaxed);
  record.sampled_running.store(true, kRelaxed);
  record.signalled = false;
  WatchState& watch = record.watch;
  watch.next_ns = watch.same_since_ns = now_ns;
  watch.base_ns = watch.ran_after_ns = watch.signalled_ns = 0;
  record.slot->window_begin_cpu_ns.store(cpu_ns, kRelaxed);
  record.slot->window_begin_ns.store(now_ns, std::memory_order_release);
  if (record.tick == Tick::kNone)
    start_timer_ticks(record);
  else
    restart_ticks(record);
}

void end_for(const ThreadRecord& record) noexcept {
  stand_in_for_tick(record);
  stop_timers(record);
  record.slot->window_end_cpu_ns.store(clock_ns(record.clock_id), kRelaxed);
  record.slot->window_end_ns.store(monotonic_ns(), std::memory_order_release);
}

void change_rate(std::uint32_t rate_hz) noexcept {
  g_process.period_ns.store(wire::sampling_period_ns(rate_hz), kRelaxed);
  for_each_live([](ThreadRecord& record) {
    stand_in_for_tick(record);
    restart_ticks(record);
  });
}

void set_phase(wire::SegmentHeader* segment, std::uint32_t phase) noexcept {
  g_process.record_phase.store(phase);  // before the threads' records are looked at, see tick_in_window
  segment->record_phase.store(phase, std::memory_order_release);
}

void open_window(wire::SegmentHeader* segment) noexcept {
  const std::uint64_t now_ns = monotonic_ns();
  segment->window_begin_ns.store(now_ns, kRelaxed);
  if (segment->outside_windows == wire::OutsideWindows::kLight) {
    segment->mpi_events_off.store(0, kRelaxed);
    change_rate(g_options.window_rate_hz);
    return;
  }
  const std::uint32_t phase = g_process.record_phase.load(kRelaxed) + 1;
  const std::uint64_t missed_ns = g_process.record_missed_ns[wire::missed_place(phase - 1)].load(kRelaxed) +
                                  now_ns - g_process.record_off_ns.load(kRelaxed);
  g_process.record_missed_ns[wire::missed_place(phase)].store(missed_ns, kRelaxed);
  segment->record_missed_ns[wire::missed_place(phase)].store(missed_ns, kRelaxed);
  set_phase(segment, phase);
  note_window(segment, now_ns);
  for_each_live(begin_for);
}

void close_window(wire::SegmentHeader* segment) noexcept {
  const std::uint64_t now_ns = monotonic_ns();
  if (segment->outside_windows == wire::OutsideWindows::kLight) {
    segment->mpi_events_off.store(1, kRelaxed);
    change_rate(g_options.rate_hz);
  } else {
    g_process.record_off_ns.store(now_ns, kRelaxed);
    segment->record_off_ns.store(now_ns, kRelaxed);
    set_phase(segment, g_process.record_phase.load(kRelaxed) + 1);
    note_window(segment, now_ns);
    for_each_live(end_for);
    refresh_usage(segment);
  }
  segment->window_end_ns.store(now_ns, std::memory_order_release);
}

}  // namespace

void begin_windows(wire::SegmentHeader* segment, bool forked) noexcept {
  const std::uint64_t now_ns = segment->start_mono_ns;
  const bool open = forked && g_is_open;
  if (!has_windows(segment)) return;
  if (open) segment->window_begin_ns.store(now_ns, kRelaxed);
  if (segment->outside_windows == wire::OutsideWindows::kLight) {
    segment->mpi_events_off.store(open ? 0 : 1, kRelaxed);
    return;
  }
  g_process.record_off_ns.store(now_ns, kRelaxed);
  segment->record_off_ns.store(now_ns, kRelaxed);
  for (auto& missed_ns : g_process.record_missed_ns) missed_ns.store(0, kRelaxed);
  constexpr std::uint32_t kFirstOff = 1, kFirstOn = 2;
  set_phase(segment, open ? kFirstOn : kFirstOff);
}

bool wants_window_change(const wire::SegmentHeader* segment) noexcept {
  return segment->window_wanted.load(std::memory_order_acquire) != segment->window_done.load(kRelaxed);
}

bool wants_window(const wire::SegmentHeader* segment) noexcept {
  return wire::wants_open(segment->window_wanted.load(std::memory_order_acquire));
}

void change_window(wire::SegmentHeader* segment) noexcept {
  const std::uint32_t wanted = segment->window_wanted.load(std::memory_order_acquire);
  const bool open = wire::wants_open(wanted);
  if (open != g_is_open) open ? open_window(segment) : close_window(segment);
  g_is_open = open;
  segment->window_done.store(wanted, std::memory_order_release);
}

void catch_up_window(ThreadRecord& record, std::uint32_t phase) noexcept {
  const std::uint32_t now = g_process.record_phase.load();
  if (now == phase) return;
  auto expected = static_cast<std::uint32_t>(RecordState::kLive);
  if (!record.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(RecordState::kWatched)))
    return;
  if (wire::is_off_phase(now))
    end_for(record);
  else
    begin_for(record);
  record.state.store(static_cast<std::uint32_t>(RecordState::kLive), std::memory_order_release);
}

void tick_in_window(ThreadRecord& record) noexcept {
  // Whoever opens a window does it the other way round: either sees what the other has done.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t phase = g_process.record_phase.load(kRelaxed);
  const bool is_in_window = phase != 0 && !wire::is_off_phase(phase);
  if (record.tick != Tick::kNone || !is_in_window) return;
  auto expected = static_cast<std::uint32_t>(RecordState::kLive);
  if (!record.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(RecordState::kWatched)))
    return;
  if (record.tick == Tick::kNone) begin_for(record);
  record.state.store(static_cast<std::uint32_t>(RecordState::kLive), std::memory_order_release);
}

}  // namespace clusterprof::agent
