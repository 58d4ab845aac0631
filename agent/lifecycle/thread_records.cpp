// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/thread_records.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <cstring>

#include "agent/lifecycle/event_loops.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/proc_files.h"
#include "agent/lifecycle/ticks.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

bool change_state(ThreadRecord& record, RecordState from, RecordState to) noexcept {
  std::uint32_t expected = as_number(from);
  return record.state.compare_exchange_strong(expected, as_number(to), std::memory_order_acq_rel);
}

wire::ThreadSlot* slot_at(wire::SegmentHeader* segment, std::uint32_t index) noexcept {
  return reinterpret_cast<wire::ThreadSlot*>(reinterpret_cast<std::uint8_t*>(segment) +
                                             segment->thread_slots_offset) +
         index;
}

void read_name(std::int32_t tid, char (&name)[16]) noexcept {
  if (tid == own_tid()) {
    prctl(PR_GET_NAME, name);
    return;
  }
  char path[64];
  task_file(tid, "/comm", path);
  char text[32];
  const std::uint32_t bytes = read_small_file(path, text, sizeof text);
  if (bytes == 0) return;
  const std::size_t length = bytes - 1 < sizeof name ? bytes - 1 : sizeof name - 1;  // without the newline
  memcpy(name, text, length);
  name[length] = 0;
}

}  // namespace

clockid_t cpu_clock_of(std::int32_t tid) noexcept {
  constexpr std::uint32_t kPerThread = 4, kScheduler = 2;  // <linux/posix-timers.h>
  return static_cast<clockid_t>(~static_cast<std::uint32_t>(tid) << 3 | kPerThread | kScheduler);
}

std::int32_t own_tid() noexcept { return static_cast<std::int32_t>(raw_syscall(SYS_gettid)); }

bool blocks_sample_signal(std::int32_t tid) noexcept {
  char path[64], text[4096];
  task_file(tid, "/status", path);
  if (read_small_file(path, text, sizeof text) == 0) return false;
  constexpr char kBlocked[] = "\nSigBlk:";
  const char* const line = strstr(text, kBlocked);
  return line != nullptr &&
         (strtoull(line + sizeof kBlocked - 1, nullptr, 16) >> (kSampleSignal - 1) & 1) != 0;
}

std::uint32_t as_number(RecordState state) noexcept { return static_cast<std::uint32_t>(state); }

bool allocate_records(const wire::SegmentHeader* segment) noexcept {
  if (g_process.records != nullptr) return true;  // of a process that is attached to again
  const std::uint32_t count = segment->thread_slots;
  void* const memory = map_memory(sizeof(ThreadRecord) * count);
  if (memory == nullptr) return false;
  g_process.records = static_cast<ThreadRecord*>(memory);
  g_process.record_count = count;
  return true;
}

ThreadRecord* claim_record(wire::SegmentHeader* segment) noexcept {
  const std::uint32_t count =
      segment->thread_slots < g_process.record_count ? segment->thread_slots : g_process.record_count;
  for (std::uint32_t i = 0; i < count; ++i) {
    ThreadRecord& record = g_process.records[i];
    wire::ThreadSlot* const slot = slot_at(segment, i);
    if (record.state.load(std::memory_order_relaxed) != as_number(RecordState::kFree) ||
        slot->state.load(std::memory_order_acquire) != static_cast<std::uint32_t>(wire::ThreadState::kFree) ||
        !change_state(record, RecordState::kFree, RecordState::kClaimed))
      continue;
    // Since we looked at the record, another thread may have used it and left it to the collector.
    if (slot->state.load(std::memory_order_acquire) != static_cast<std::uint32_t>(wire::ThreadState::kFree)) {
      record.state.store(as_number(RecordState::kFree), std::memory_order_release);
      continue;
    }
    record.slot = slot;
    std::uint32_t used = g_process.records_used.load(std::memory_order_relaxed);
    while (used < i + 1 &&
           !g_process.records_used.compare_exchange_weak(used, i + 1, std::memory_order_acq_rel)) {
    }
    return &record;
  }
  return nullptr;
}

void fill_record(ThreadRecord& record, const BeginningThread& thread) noexcept {
  const std::int32_t tid = thread.tid;
  record.tid = tid;
  record.number = thread.number;
  record.base_run_delay_ns = thread.earlier_run_delay_ns;
  record.clock_id = cpu_clock_of(tid);
  record.tick = Tick::kNone;
  record.timer_id = record.wake_timer_id = -1;
  record.event_descriptor = -1;
  record.event_spent = record.event_waits = false;
  record.timer_off.store(0, std::memory_order_relaxed);
  record.signal_sent.store(0, std::memory_order_relaxed);
  record.blocked_number = -1;
  record.blocked_pc = 0;
  record.sampled_cost_ns.store(0, std::memory_order_relaxed);
  record.sampled_pc.store(0, std::memory_order_relaxed);
  record.sampled_sp.store(0, std::memory_order_relaxed);
  record.sampled_waits.store(0, std::memory_order_relaxed);
  record.sampled_switches.store(0, std::memory_order_relaxed);
  record.sampled_running.store(true, std::memory_order_relaxed);
  record.tick_stride.store(1, std::memory_order_relaxed);
  record.usual_cost_ns = record.tick_end_cpu_ns = 0;
  record.transfer_frame.store(0, std::memory_order_relaxed);
  record.timed.frame.store(0, std::memory_order_relaxed);
  record.held_number.store(-1, std::memory_order_relaxed);
  record.adoptable.store(0, std::memory_order_relaxed);
  record.signalled = false;
  record.blocks_sample_signal = false;
  const std::uint64_t cpu_ns = clock_ns(record.clock_id);
  record.sampled_cpu_ns.store(cpu_ns, std::memory_order_relaxed);
  record.last_cpu_ns = cpu_ns;

  wire::ThreadSlot& slot = *record.slot;
  slot.tid = tid;
  slot.start_time_ns = record.last_look_ns = monotonic_ns();
  slot.start_cpu_ns = cpu_ns;
  slot.mpi_op.store(0, std::memory_order_relaxed);
  slot.mpi_time_ns.store(0, std::memory_order_relaxed);
  slot.mpi_call.changes.store(0, std::memory_order_relaxed);
  slot.run_delay_ns.store(0, std::memory_order_relaxed);
  slot.window_begin_ns.store(0, std::memory_order_relaxed);
  slot.window_end_ns.store(0, std::memory_order_relaxed);
  slot.start_function = thread.start_function;
  slot.is_main = tid == g_process.pid ? 1 : 0;
  forget_event_loops(slot);
  memset(slot.name, 0, sizeof slot.name);
  read_name(tid, slot.name);
  memset(slot.inherited_name, 0, sizeof slot.inherited_name);
  if (thread.inherited_name != nullptr) {
    memcpy(slot.inherited_name, thread.inherited_name, sizeof slot.inherited_name);
  } else {
    read_name(g_process.pid, slot.inherited_name);
  }
  slot.python_name_bytes.store(0, std::memory_order_relaxed);
}

void publish_record(ThreadRecord& record) noexcept {
  record.slot->state.store(static_cast<std::uint32_t>(wire::ThreadState::kLive), std::memory_order_release);
  record.state.store(as_number(RecordState::kLive), std::memory_order_release);
}

void release_record(ThreadRecord& record) noexcept {
  record.slot->state.store(static_cast<std::uint32_t>(wire::ThreadState::kEnded), std::memory_order_release);
  record.state.store(as_number(RecordState::kFree), std::memory_order_release);
}

void end_vanished_thread(ThreadRecord& record) noexcept {
  abandon_ticks(record);
  record.adoptable.store(0, std::memory_order_relaxed);
  record.counters.counts.store(0, std::memory_order_relaxed);
  record.counters.running.store(0, std::memory_order_relaxed);
  ThreadContext gone = {};
  gone.slot = record.slot;
  gone.record = &record;
  const std::uint64_t sampled_ns = record.sampled_cpu_ns.load(std::memory_order_relaxed);
  push_thread_end(gone, record.last_cpu_ns > sampled_ns ? record.last_cpu_ns : sampled_ns);
  release_record(record);
}

bool claim_own_record(ThreadRecord& record) noexcept {
  constexpr std::uint32_t kMaxMoments = 100'000;  // two seconds at least
  for (std::uint32_t i = 0; i < kMaxMoments; ++i) {
    if (change_state(record, RecordState::kLive, RecordState::kClaimed)) return true;
    const std::uint32_t state = record.state.load(std::memory_order_acquire);
    // Only its own thread claims a record that has one.
    if (state == as_number(RecordState::kClaimed)) return true;
    if (state == as_number(RecordState::kFree)) return false;
    // The watcher is looking at it, which takes microseconds unless it loses its processor.
    constexpr timespec kMoment = {0, 20'000};
    raw_syscall(SYS_nanosleep, &kMoment, nullptr);
  }
  return false;
}

void give_record_back(ThreadRecord& record) noexcept {
  record.state.store(as_number(RecordState::kLive), std::memory_order_release);
}

void refresh_name(ThreadRecord& record) noexcept { read_name(record.tid, record.slot->name); }

}  // namespace clusterprof::agent
