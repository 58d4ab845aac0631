// SPDX-License-Identifier: BSD-3-Clause
// Registers a thread: its record and slot, its memory, its stack, its counters, and last the timer or event
// that samples it. Unregistering does the reverse.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/threads.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "agent/lifecycle/cancellation.h"
#include "agent/lifecycle/counters.h"
#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/openmp.h"
#include "agent/lifecycle/proc_files.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/segment.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/thread_records.h"
#include "agent/lifecycle/ticks.h"
#include "agent/lifecycle/watcher.h"
#include "agent/lifecycle/windows.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"
#include "formats/wire/segment.h"

extern "C" void* __libc_stack_end;

namespace clusterprof::agent {
namespace {

pthread_key_t g_end_key;
bool g_have_end_key = false;

// A thread's memory outside its slot, in one piece that is kept for the slot's next thread. Most threads
// never touch most of it.
struct ThreadMemory {
  std::uint64_t handler_scratch, call_scratch, path_memo, native_cache, regions, openmp, bytes;
};

// Of code of ours that a handler of the program's has interrupted.
void keep_what_goes_on(const ThreadContext& from, ThreadContext& to) noexcept {
  to.transfer = from.transfer;
  to.busy = from.busy;
  to.busy_frame = from.busy_frame;
  to.busy_return = from.busy_return;
  to.guard.armed = from.guard.armed;
  for (int i = 0; i < 5; ++i) to.guard.jump[i] = from.guard.jump[i];
}

ThreadMemory thread_memory(bool of_main_thread) noexcept {
  constexpr auto aligned = [](std::uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  ThreadMemory memory = {};
  memory.handler_scratch = 0;
  // Next to what the handler writes last: no further page is touched.
  memory.regions = aligned(sizeof(Scratch));
  memory.openmp = memory.regions + aligned(sizeof(RegionStack));
  memory.native_cache = memory.openmp + aligned(sizeof(OmpState));
  memory.call_scratch = memory.native_cache + aligned(native_cache_bytes());
  memory.path_memo = memory.call_scratch + aligned(sizeof(Scratch));
  memory.bytes = memory.path_memo + aligned(path_memo_bytes(of_main_thread));
  return memory;
}

// `tid`: of the thread that it is for, which may be another one than this.
bool make_memory(ThreadRecord& record, std::int32_t tid, ThreadContext& context) noexcept {
  const bool of_main_thread =
      record.memory == nullptr ? tid == getpid() : record.memory_bytes == thread_memory(true).bytes;
  const ThreadMemory layout = thread_memory(of_main_thread);
  if (record.memory == nullptr) {
    void* const memory = map_memory(layout.bytes);
    if (memory == nullptr) return false;
    record.memory = memory;
    record.memory_bytes = layout.bytes;
  }
  auto* const base = static_cast<std::uint8_t*>(record.memory);
  context.handler_scratch = reinterpret_cast<Scratch*>(base + layout.handler_scratch);
  context.handler_scratch->sent_words = 0;  // the slot's last thread, or the parent, had another ring
  context.native_cache = reinterpret_cast<NativeCache*>(base + layout.native_cache);
  context.call_scratch = reinterpret_cast<Scratch*>(base + layout.call_scratch);
  context.path_memo = make_path_memo(base + layout.path_memo, of_main_thread);
  context.regions = reinterpret_cast<RegionStack*>(base + layout.regions);
  context.regions->depth = context.regions->deeper = 0;
  context.regions->outside = {};
  context.regions->pauses = {};
  context.openmp = reinterpret_cast<OmpState*>(base + layout.openmp);
  reset_openmp(*context.openmp);
  return true;
}

void find_stack(ThreadContext& context) noexcept {
  if (own_tid() == getpid()) {
    // pthread_getattr_np would parse /proc/self/maps. The main stack grows down from here, as far
    // as its limit allows.
    constexpr std::uint64_t kPage = 4096, kMaxBytes = 1u << 30;
    rlimit limits;
    std::uint64_t bytes = kMaxBytes;
    if (getrlimit(RLIMIT_STACK, &limits) == 0 && limits.rlim_cur < kMaxBytes) bytes = limits.rlim_cur;
    context.stack_high = (reinterpret_cast<std::uintptr_t>(__libc_stack_end) + kPage) / kPage * kPage;
    context.stack_low = context.stack_high - bytes;
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    if (here >= context.stack_low && here < context.stack_high) return;
    // The first thread of a process forked by another one runs on that one's stack.
  }
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* low = nullptr;
  std::size_t bytes = 0;
  if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
    context.stack_low = reinterpret_cast<std::uintptr_t>(low);
    context.stack_high = context.stack_low + bytes;
  }
  pthread_attr_destroy(&attributes);
}

}  // namespace

namespace {

// The wait for a processor that the kernel had counted before the thread was recorded. For a thread that is
// just starting, or a child that was just forked, this is only its first wait, for which no file is opened;
// and of the thread that starts the recording it has been read already.
std::uint64_t earlier_run_delay_ns(std::int32_t tid) noexcept {
  char path[64], text[96];
  task_file(tid, "/schedstat", path);
  Schedule schedule = {};
  return read_small_file(path, text, sizeof text) != 0 && parse_schedule(text, schedule)
             ? schedule.run_delay_ns
             : 0;
}

// For a thread without a slot: its CPU time is added when it ends. Only the variable's address matters.
thread_local constinit std::uintptr_t t_unrecorded_start __attribute__((tls_model("initial-exec"))) = 0;

void count_unrecorded_thread(wire::SegmentHeader* segment, std::uintptr_t start_function) noexcept {
  std::uint32_t place = 0;
  for (; place + 1 < wire::kUnrecordedStarts; ++place) {
    std::uint64_t there = 0;
    if (segment->unrecorded[place].start_function.compare_exchange_strong(there, start_function,
                                                                          std::memory_order_acq_rel) ||
        there == start_function)
      break;
  }
  wire::UnrecordedThreads& sum = segment->unrecorded[place];
  sum.cpu_ns.fetch_add(clock_ns(CLOCK_THREAD_CPUTIME_ID), std::memory_order_relaxed);
  sum.threads.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

bool prepare_threads(const wire::SegmentHeader* segment) noexcept {
  if (!allocate_records(segment)) return false;
  if (!g_have_end_key)
    g_have_end_key = pthread_key_create(&g_end_key, [](void*) { unregister_this_thread(); }) == 0;
  return true;
}

void register_this_thread(std::uintptr_t start_function, const char* inherited_name) noexcept {
  const CancellationOff no_cancellation;
  ThreadContext& context = t_context;
  // First: a process that is let go loses its segment, and then its number changes.
  const std::uint32_t generation = __atomic_load_n(&g_process.generation, __ATOMIC_ACQUIRE);
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr || slot_of(context) != nullptr || recording_has_ended()) return;
  // The masks of a program that was not started by us stay as they are.
  if (g_process.attached && (change_mask(SIG_BLOCK, 0) >> (kSampleSignal - 1) & 1) != 0)
    return count_drop(segment, wire::DropReason::kSignalBlocked);
  const auto number =
      static_cast<std::uint32_t>(segment->threads_seen.fetch_add(1, std::memory_order_relaxed));
  const std::uint64_t mask = without_program_block(block_sample_signal());
  note_signal_mask(mask);  // it has inherited
  ThreadContext made = {};
  ThreadRecord* const record = claim_record(segment);
  const std::int32_t tid = own_tid();
  if (record == nullptr || !make_memory(*record, tid, made)) {
    if (record != nullptr) record->state.store(as_number(RecordState::kFree), std::memory_order_release);
    count_drop(segment, wire::DropReason::kNoThreadSlot);
    if (start_function != 0 && g_have_end_key && pthread_setspecific(g_end_key, segment) == 0)
      t_unrecorded_start = start_function;
    restore_signals(mask);
    return;
  }
  find_stack(made);
  const bool has_just_begun = start_function != 0 || generation > 1;
  fill_record(*record,
              {tid, number, start_function, has_just_begun ? 0 : run_delay_at_start_ns(), inherited_name});
  made.slot = record->slot;
  made.record = record;
  made.generation = generation;
  keep_what_goes_on(context, made);
  context = made;
  start_counters(record->counters);
  if (g_have_end_key) pthread_setspecific(g_end_key, record);
  if (!recording_is_off()) start_ticks(*record);
  publish_record(*record);
  tick_in_window(*record);
  restore_signals(mask);
}

void unregister_this_thread() noexcept {
  ThreadContext& context = t_context;
  if (recording_has_ended()) return;
  if (slot_of(context) == nullptr) {
    wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
    if (t_unrecorded_start != 0 && segment != nullptr) count_unrecorded_thread(segment, t_unrecorded_start);
    t_unrecorded_start = 0;
    return;
  }
  const CancellationOff no_cancellation;
  ThreadRecord& record = *context.record;
  const std::uint64_t mask = block_sample_signal();
  const bool is_main = record.tid == g_process.pid;
  if (!claim_own_record(record)) {  // the watcher will see that the thread is gone
    context = {};
    restore_signals(mask);
    if (is_main) stop_watcher_for_good();
    return;
  }
  stop_ticks(record);
  push_thread_end(context, clock_ns(CLOCK_THREAD_CPUTIME_ID));
  stop_counters(record.counters);
  refresh_name(record);
  context = {};
  release_record(record);
  restore_signals(mask);
  if (is_main) stop_watcher_for_good();
}

namespace {

// A thread that waits for signals (sigwait) would be given ours, and the kernel shows those that it waits for
// as not blocked.
bool waits_for_signals(std::int32_t tid) noexcept {
  char path[64], text[256];
  task_file(tid, "/syscall", path);
  return read_small_file(path, text, sizeof text) != 0 && atoi(text) == SYS_rt_sigtimedwait;
}

}  // namespace

bool is_recorded_thread(std::int32_t tid) noexcept {
  const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    const ThreadRecord& record = g_process.records[i];
    if (record.state.load(std::memory_order_acquire) != as_number(RecordState::kFree) && record.tid == tid)
      return true;
  }
  return false;
}

void attach_thread(std::int32_t tid) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr) return;
  if (g_process.attached && (blocks_sample_signal(tid) || waits_for_signals(tid)))
    return count_drop(segment, wire::DropReason::kSignalBlocked);
  const auto number =
      static_cast<std::uint32_t>(segment->threads_seen.fetch_add(1, std::memory_order_relaxed));
  ThreadRecord* const record = claim_record(segment);
  ThreadContext made = {};
  if (record == nullptr || !make_memory(*record, tid, made)) {
    if (record != nullptr) record->state.store(as_number(RecordState::kFree), std::memory_order_release);
    return count_drop(segment, wire::DropReason::kNoThreadSlot);
  }
  fill_record(*record, {tid, number, 0, earlier_run_delay_ns(tid), nullptr});
  made.slot = record->slot;
  made.record = record;
  made.generation = g_process.generation;
  record->prepared = made;
  attach_counters(record->counters, tid);
  record->adoptable.store(1, std::memory_order_release);
  if (!recording_is_off()) start_ticks(*record);
  publish_record(*record);
  tick_in_window(*record);
}

void attach_existing_threads() noexcept {
  struct stat status;
  constexpr nlink_t kDirectories = 2;
  if (stat("/proc/self/task", &status) == 0 && status.st_nlink == kDirectories + 1) return;  // just this one
  DIR* const tasks =
      g_process.segment.load(std::memory_order_acquire) == nullptr ? nullptr : opendir("/proc/self/task");
  if (tasks == nullptr) return;
  const std::int32_t self = own_tid();
  while (const dirent* entry = readdir(tasks)) {
    const auto tid = static_cast<std::int32_t>(atoi(entry->d_name));
    if (tid > 0 && tid != self) attach_thread(tid);
  }
  closedir(tasks);
}

void forget_threads() noexcept {
  const std::uint32_t used = g_process.records_used.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used; ++i) {
    ThreadRecord& record = g_process.records[i];
    record.adoptable.store(0, std::memory_order_relaxed);
    record.counters.counts.store(0, std::memory_order_relaxed);
    record.counters.running.store(0, std::memory_order_relaxed);
    forget_ticks(record);
    record.state.store(as_number(RecordState::kFree), std::memory_order_relaxed);
  }
  g_process.records_used.store(0, std::memory_order_relaxed);
  ThreadContext forked = {};  // the fork may have been called by a handler
  keep_what_goes_on(t_context, forked);
  if (forked.busy != 0) {  // what went on uses these, also where the child is not recorded
    forked.stack_low = t_context.stack_low;
    forked.stack_high = t_context.stack_high;
    forked.native_cache = t_context.native_cache;
    forked.call_scratch = t_context.call_scratch;
    forked.path_memo = t_context.path_memo;
  }
  t_context = forked;
  t_unrecorded_start = 0;
}

}  // namespace clusterprof::agent
