// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
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

#include "agent/lifecycle/agent.h"
#include "agent/lifecycle/real_function.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"

extern "C" void* __libc_stack_end;

namespace clusterprof::agent {
namespace {

pthread_key_t g_end_key;
bool g_have_end_key = false;

std::int32_t own_tid() noexcept { return static_cast<std::int32_t>(raw_syscall(SYS_gettid)); }

std::uint32_t as_number(RecordState state) noexcept { return static_cast<std::uint32_t>(state); }

bool change_state(ThreadRecord& record, RecordState from, RecordState to) noexcept {
  std::uint32_t expected = as_number(from);
  return record.state.compare_exchange_strong(expected, as_number(to), std::memory_order_acq_rel);
}

// What a thread needs outside its slot, in one piece that is kept for the slot's next thread. Most of
// it is never touched by most threads.
struct ThreadMemory {
  std::uint64_t handler_scratch, call_scratch, path_memo, native_cache, regions, bytes;
};

ThreadMemory thread_memory() noexcept {
  constexpr auto aligned = [](std::uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  ThreadMemory memory = {};
  memory.handler_scratch = 0;
  // Next to what the handler writes last: no further page is touched.
  memory.regions = aligned(sizeof(Scratch));
  memory.native_cache = memory.regions + aligned(sizeof(RegionStack));
  memory.call_scratch = memory.native_cache + aligned(native_cache_bytes());
  memory.path_memo = memory.call_scratch + aligned(sizeof(Scratch));
  memory.bytes = memory.path_memo + aligned(path_memo_bytes());
  return memory;
}

bool make_memory(ThreadRecord& record, ThreadContext& context) noexcept {
  const ThreadMemory layout = thread_memory();
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
  context.path_memo = reinterpret_cast<PathMemo*>(base + layout.path_memo);
  context.regions = reinterpret_cast<RegionStack*>(base + layout.regions);
  context.regions->depth = context.regions->deeper = 0;
  return true;
}

wire::ThreadSlot* slot_at(wire::SegmentHeader* segment, std::uint32_t index) noexcept {
  return reinterpret_cast<wire::ThreadSlot*>(reinterpret_cast<std::uint8_t*>(segment) +
                                             segment->thread_slots_offset) +
         index;
}

// A record whose slot the collector has given back. Null when there is none.
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
    // Since the look at it, another thread may have come, gone, and left it for the collector.
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

clockid_t cpu_clock_of(std::int32_t tid) noexcept {
  constexpr std::uint32_t kPerThread = 4, kScheduler = 2;  // <linux/posix-timers.h>
  return static_cast<clockid_t>(~static_cast<std::uint32_t>(tid) << 3 | kPerThread | kScheduler);
}

void find_stack(ThreadContext& context) noexcept {
  if (own_tid() == getpid()) {
    // pthread_getattr_np would parse /proc/self/maps. The main stack grows down from here, as far
    // as its limit allows.
    constexpr std::uint64_t kPage = 4096, kMostBytes = 1u << 30;
    rlimit limits;
    std::uint64_t bytes = kMostBytes;
    if (getrlimit(RLIMIT_STACK, &limits) == 0 && limits.rlim_cur < kMostBytes) bytes = limits.rlim_cur;
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

void task_file(std::int32_t tid, const char* name, char (&path)[64]) noexcept {
  constexpr char kTasks[] = "/proc/self/task/";
  memcpy(path, kTasks, sizeof kTasks);
  char* to = path + sizeof kTasks - 1;
  char digits[12];
  std::uint32_t count = 0;
  for (auto rest = static_cast<std::uint32_t>(tid); rest != 0; rest /= 10)
    digits[count++] = static_cast<char>('0' + rest % 10);
  while (count != 0) *to++ = digits[--count];
  memcpy(to, name, strnlen(name, 16) + 1);
}

void descriptor_file(std::int32_t tid, std::uint32_t descriptor, char (&path)[64]) noexcept {
  char name[16] = "/fd/", digits[12];
  std::uint32_t length = 4, count = 0;
  do digits[count++] = static_cast<char>('0' + descriptor % 10);
  while ((descriptor /= 10) != 0);
  while (count != 0) name[length++] = digits[--count];
  task_file(tid, name, path);
}

namespace {

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

// Fills what does not depend on who does it. The slot is not live yet.
void prepare_record(ThreadRecord& record, std::int32_t tid) noexcept {
  record.tid = tid;
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
  record.tick_stride.store(1, std::memory_order_relaxed);
  record.usual_cost_ns = record.tick_end_cpu_ns = 0;
  record.transfer_frame.store(0, std::memory_order_relaxed);
  record.held_number.store(-1, std::memory_order_relaxed);
  record.adoptable.store(0, std::memory_order_relaxed);
  record.signalled = false;
  record.known_deaf = false;
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
  slot.is_main = tid == g_process.pid ? 1 : 0;
  memset(slot.name, 0, sizeof slot.name);
  read_name(tid, slot.name);
}

void publish(ThreadRecord& record) noexcept {
  record.slot->state.store(static_cast<std::uint32_t>(wire::ThreadState::kLive), std::memory_order_release);
  record.state.store(as_number(RecordState::kLive), std::memory_order_release);
}

void release(ThreadRecord& record) noexcept {
  record.slot->state.store(static_cast<std::uint32_t>(wire::ThreadState::kEnded), std::memory_order_release);
  record.state.store(as_number(RecordState::kFree), std::memory_order_release);
}

struct ThreadStart {
  void* (*start)(void*);
  thrd_start_t start_c11;
  void* argument;
  bool believes_blocked;  // the signal mask that the thread inherits, as far as the program knows
};

void* run_thread(void* given) {
  const ThreadStart start = *static_cast<ThreadStart*>(given);
  free(given);
  set_believed_block(start.believes_blocked);
  register_this_thread();
  return start.start(start.argument);  // a jump: no frame of ours stays on the thread's stack
}

int run_c11_thread(void* given) {
  const ThreadStart start = *static_cast<ThreadStart*>(given);
  free(given);
  set_believed_block(start.believes_blocked);
  register_this_thread();
  return start.start_c11(start.argument);
}

ThreadStart* make_start(void* (*start)(void*), thrd_start_t start_c11, void* argument) noexcept {
  auto* made = static_cast<ThreadStart*>(malloc(sizeof(ThreadStart)));
  if (made != nullptr) *made = {start, start_c11, argument, believes_sample_signal_blocked()};
  return made;
}

using PthreadCreate = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
constinit std::atomic<PthreadCreate> g_pthread_create = nullptr;

}  // namespace

bool prepare_records(const wire::SegmentHeader* segment) noexcept {
  const std::uint32_t count = segment->thread_slots;
  void* const memory = map_memory(sizeof(ThreadRecord) * count);
  if (memory == nullptr) return false;
  g_process.records = static_cast<ThreadRecord*>(memory);
  g_process.record_count = count;
  g_have_end_key = pthread_key_create(&g_end_key, [](void*) { unregister_this_thread(); }) == 0;
  return true;
}

void register_this_thread() noexcept {
  const CancellationOff no_cancellation;
  ThreadContext& context = t_context;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr || context.slot != nullptr) return;
  segment->threads_seen.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t mask = without_program_block(block_sample_signal());
  note_signal_mask(mask);  // it has inherited
  ThreadContext made = {};
  ThreadRecord* const record = claim_record(segment);
  if (record == nullptr || !make_memory(*record, made)) {
    if (record != nullptr) record->state.store(as_number(RecordState::kFree), std::memory_order_release);
    count_drop(segment, wire::DropReason::kNoThreadSlot);
    restore_signals(mask);
    return;
  }
  find_stack(made);
  prepare_record(*record, own_tid());
  made.slot = record->slot;
  made.record = record;
  context = made;
  start_counters(record->counters);
  if (g_have_end_key) pthread_setspecific(g_end_key, record);
  start_ticks(*record);
  publish(*record);
  restore_signals(mask);
}

void unregister_this_thread() noexcept {
  ThreadContext& context = t_context;
  if (context.slot == nullptr || recording_has_ended()) return;
  const CancellationOff no_cancellation;
  ThreadRecord& record = *context.record;
  const std::uint64_t mask = block_sample_signal();
  const bool is_main = record.tid == g_process.pid;
  if (!hold_record(record)) {  // the watcher will see that the thread is gone
    context = {};
    restore_signals(mask);
    if (is_main) dismiss_watcher();
    return;
  }
  stop_ticks(record);
  push_thread_end(context, clock_ns(CLOCK_THREAD_CPUTIME_ID));
  stop_counters(record.counters);
  read_name(record.tid, record.slot->name);
  context = {};
  release(record);
  restore_signals(mask);
  if (is_main) dismiss_watcher();
}

void attach_existing_threads() noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  struct stat status;
  constexpr nlink_t kDirectories = 2;
  if (stat("/proc/self/task", &status) == 0 && status.st_nlink == kDirectories + 1) return;  // just this one
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr || segment == nullptr) return;
  const std::int32_t self = own_tid();
  while (const dirent* entry = readdir(tasks)) {
    const auto tid = static_cast<std::int32_t>(atoi(entry->d_name));
    if (tid <= 0 || tid == self) continue;
    segment->threads_seen.fetch_add(1, std::memory_order_relaxed);
    ThreadRecord* const record = claim_record(segment);
    ThreadContext made = {};
    if (record == nullptr || !make_memory(*record, made)) {
      if (record != nullptr) record->state.store(as_number(RecordState::kFree), std::memory_order_release);
      count_drop(segment, wire::DropReason::kNoThreadSlot);
      continue;
    }
    prepare_record(*record, tid);
    made.slot = record->slot;
    made.record = record;
    record->prepared = made;
    attach_counters(record->counters, tid);
    record->adoptable.store(1, std::memory_order_release);
    start_ticks(*record);
    publish(*record);
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
  const TransferState transfer = t_context.transfer;  // the fork may have been called by a handler
  t_context = {};
  t_context.transfer = transfer;
}

void bury_thread(ThreadRecord& record) noexcept {
  abandon_ticks(record);
  record.adoptable.store(0, std::memory_order_relaxed);
  record.counters.counts.store(0, std::memory_order_relaxed);
  record.counters.running.store(0, std::memory_order_relaxed);
  ThreadContext gone = {};
  gone.slot = record.slot;
  gone.record = &record;
  const std::uint64_t sampled_ns = record.sampled_cpu_ns.load(std::memory_order_relaxed);
  push_thread_end(gone, record.last_cpu_ns > sampled_ns ? record.last_cpu_ns : sampled_ns);
  release(record);
}

bool hold_record(ThreadRecord& record) noexcept {
  constexpr std::uint32_t kMostMoments = 100'000;  // two seconds at least
  for (std::uint32_t i = 0; i < kMostMoments; ++i) {
    if (change_state(record, RecordState::kLive, RecordState::kClaimed)) return true;
    const std::uint32_t state = record.state.load(std::memory_order_acquire);
    // Only its own thread claims a record that has one.
    if (state == as_number(RecordState::kClaimed)) return true;
    if (state == as_number(RecordState::kFree)) return false;
    // The watcher looks at it; that takes microseconds unless it lost its processor.
    constexpr timespec kMoment = {0, 20'000};
    raw_syscall(SYS_nanosleep, &kMoment, nullptr);
  }
  return false;
}

void leave_record(ThreadRecord& record) noexcept {
  record.state.store(as_number(RecordState::kLive), std::memory_order_release);
}

void refresh_name(ThreadRecord& record) noexcept { read_name(record.tid, record.slot->name); }

int create_unrecorded_thread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                             void* argument) noexcept {
  const PthreadCreate create = real_function(g_pthread_create, "pthread_create");
  return create != nullptr ? create(thread, attributes, start, argument) : ENOSYS;
}

}  // namespace clusterprof::agent

extern "C" {

[[gnu::visibility("default")]] int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                  void* (*start)(void*), void* argument) noexcept {
  using namespace clusterprof::agent;
  ensure_started();
  ThreadStart* const own = g_process.segment.load(std::memory_order_acquire) != nullptr
                               ? make_start(start, nullptr, argument)
                               : nullptr;
  if (own == nullptr) return create_unrecorded_thread(thread, attributes, start, argument);
  const int result = create_unrecorded_thread(thread, attributes, run_thread, own);
  if (result != 0) free(own);
  return result;
}

[[gnu::visibility("default")]] int thrd_create(thrd_t* thread, thrd_start_t start, void* argument) {
  using namespace clusterprof::agent;
  static std::atomic<int (*)(thrd_t*, thrd_start_t, void*)> real;
  auto* const create = real_function(real, "thrd_create");
  if (create == nullptr) return thrd_error;
  ensure_started();
  ThreadStart* const own = g_process.segment.load(std::memory_order_acquire) != nullptr
                               ? make_start(nullptr, start, argument)
                               : nullptr;
  if (own == nullptr) return create(thread, start, argument);
  const int result = create(thread, run_c11_thread, own);
  if (result != thrd_success) free(own);
  return result;
}

}  // extern "C"
