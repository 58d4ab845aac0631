// SPDX-License-Identifier: BSD-3-Clause
// One sample, from the signal to the record in the ring buffer. take_sample does the steps in order; the
// functions that it calls are above it.
#include "agent/sigsafe/sample_handler.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include <cstring>

#include "agent/sigsafe/awaited_words.h"
#include "agent/sigsafe/counters_read.h"
#include "agent/sigsafe/data_address.h"
#include "agent/sigsafe/guard.h"
#include "agent/sigsafe/interrupted_call.h"
#include "agent/sigsafe/python_thread_name.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/spin_lock.h"

namespace clusterprof::agent {
namespace {

[[gnu::noinline]] bool walk_python_guarded(ThreadContext& context, wire::SegmentHeader* segment,
                                           PythonStack& out) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return false;
  walk_python(segment, out);
  guard_leave(context.guard);
  return true;
}

[[gnu::noinline]] bool walk_native_guarded(ThreadContext& context, const Registers& registers,
                                           std::uint64_t low, std::uint64_t high, NativeStack& out) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return false;
  walk_native(registers, low, high, context.native_cache, out);
  guard_leave(context.guard);
  return true;
}

[[gnu::noinline]] void name_thread_guarded(ThreadContext& context, const PythonStack& python) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return;
  if (const std::uint64_t object = find_thread_name(python); object != 0)
    tell_thread_name(object, *context.slot);
  guard_leave(context.guard);
}

[[gnu::noinline]] void find_task_guarded(ThreadContext& context, wire::SegmentHeader& segment,
                                         Scratch& scratch) noexcept {
  if (!clusterprof_guard_enter(context.guard)) {
    count_drop(&segment, wire::DropReason::kFaultInWalk);
    return;
  }
  find_task(segment, scratch.python, scratch.task);
  guard_leave(context.guard);
}

// A name may change, but rarely does.
constexpr std::uint64_t kNameEveryNs = 1'000'000'000;

void look_for_name(ThreadContext& context, const PythonStack& python, std::uint64_t now_ns) noexcept {
  const bool is_due =
      context.python_name_time_ns == 0 || now_ns - context.python_name_time_ns >= kNameEveryNs;
  if (!is_due || python.count == 0 || context.slot->is_main == 1) return;
  context.python_name_time_ns = now_ns;
  name_thread_guarded(context, python);
}

void reset(TaskStack& task) noexcept { task.running = task.awaiting = task.name_bytes = 0; }

void reset(Scratch& scratch) noexcept {
  scratch.native.count = 0;
  scratch.native.truncated = false;
  PythonStack& python = scratch.python;
  python.count = python.entries = 0;
  python.truncated = python.thread_has_state = python.holds_gil = python.gil_known = python.finalizing =
      python.collecting_garbage = python.collects_elsewhere = false;
}

// The most stack that walks use.
constexpr std::uintptr_t kWalkBytes = 6 * 1024;

// False near the end of an alternate stack, beyond which there may be anything. A fault in a walk takes
// another frame of the size of ours, which begins where the thread was, or where the alternate stack begins.
bool has_room_for_walks(const ucontext_t& interrupted) noexcept {
  const auto low = reinterpret_cast<std::uintptr_t>(interrupted.uc_stack.ss_sp);
  const std::uintptr_t bytes = interrupted.uc_stack.ss_size;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const auto sp = static_cast<std::uintptr_t>(interrupted.uc_mcontext.gregs[REG_RSP]);
  const std::uintptr_t frame_bytes = (sp - low < bytes ? sp : low + bytes) - here;
  return here - low >= bytes || here - low >= kWalkBytes + frame_bytes;
}

// Threads that leave all signals to others block these, too, and a fault under a guard would kill them.
// False: one is pending, which somebody sent and the program does not want now.
bool unblock_faults(ThreadContext& context, std::uint64_t blocked) noexcept {
  std::uint64_t pending = 0;
  if (raw_syscall(SYS_rt_sigpending, &pending, sizeof pending) != 0 || (pending & kFaultSignals) != 0)
    return false;
  for (siginfo_t& sent : context.handler_scratch->sent_faults) sent.si_signo = 0;
  context.faults_let_in = static_cast<std::uint16_t>(blocked);
  if (raw_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &blocked, nullptr, sizeof blocked) == 0) return true;
  context.faults_let_in = 0;
  return false;
}

// What was sent to the process has to wait there, since another thread may fetch it.
void send_again(siginfo_t info) noexcept {
  const long process = raw_syscall(SYS_getpid), thread = raw_syscall(SYS_gettid);
  if (info.si_code != SI_TKILL) {
    // That it came from kill(2), only the main thread may say.
    if (info.si_code == SI_USER && thread != process) info.si_code = SI_QUEUE;
    if (raw_syscall(SYS_rt_sigqueueinfo, process, info.si_signo, &info) == 0) return;
  }
  raw_syscall(SYS_rt_tgsigqueueinfo, process, thread, info.si_signo, &info);
}

void block_faults(ThreadContext& context) noexcept {
  const std::uint64_t blocked = context.faults_let_in;
  raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, nullptr, sizeof blocked);
  context.faults_let_in = 0;
  for (const siginfo_t& sent : context.handler_scratch->sent_faults)
    if (sent.si_signo != 0) send_again(sent);
}

enum class Sender { kTimer, kEvent, kWatcher, kLate, kForeign };

// All signals of ours carry the address of their thread's record, or the descriptor of its event.
Sender sender(const siginfo_t& info, ThreadRecord* record) noexcept {
  if (is_of_descriptor(info) && record != nullptr && record->event_descriptor >= 0 &&
      info.si_fd == record->event_descriptor)
    return record->tick == Tick::kTaskClock ? Sender::kTimer : Sender::kEvent;
  const auto* const sent_to = static_cast<const ThreadRecord*>(info.si_value.sival_ptr);
  const bool may_be_ours =
      info.si_code == SI_TIMER || (info.si_code == SI_QUEUE && info.si_pid == g_process.pid);
  if (!may_be_ours || sent_to < g_process.records || sent_to >= g_process.records + g_process.record_count)
    return Sender::kForeign;
  if (sent_to != record) return Sender::kLate;
  if (info.si_code == SI_TIMER) return Sender::kTimer;
  return record->signal_sent.exchange(0, std::memory_order_relaxed) != 0 ? Sender::kWatcher : Sender::kLate;
}

void stop_timer(ThreadRecord& record) noexcept {
  const itimerspec stopped = {};
  raw_syscall(SYS_timer_settime, record.timer_id, 0, &stopped, nullptr);
  itimerspec moved = {};
  moved.it_value.tv_nsec = kMovedNs;
  raw_syscall(SYS_timer_settime, record.wake_timer_id, 0, &moved, nullptr);
  record.timer_off.store(1, std::memory_order_relaxed);
}

// The kernel checks CPU clock timers only at those of its ticks that meet the thread while it runs. On a busy
// machine several periods may have passed until then, or until a pending signal is delivered.
std::uint16_t ticks_of(const siginfo_t& info) noexcept {
  if (info.si_code != SI_TIMER || info.si_overrun <= 0) return 1;
  return info.si_overrun < 0xffff ? static_cast<std::uint16_t>(info.si_overrun + 1) : 0xffff;
}

// A thread whose timer was stopped runs again.
bool is_wake_up(const siginfo_t& info, const ThreadRecord& record) noexcept {
  return info.si_code == SI_TIMER && record.tick == Tick::kMonotonic && record.wake_timer_id >= 0 &&
         info.si_timerid == record.wake_timer_id;
}

void restart_event(ThreadRecord& record) noexcept {
  record.event_waits = false;
  if (record.event_shifted) {
    const std::uint64_t period = g_process.event_period * record.tick_stride.load(std::memory_order_relaxed);
    raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_PERIOD, &period);
    record.event_shifted = false;
  }
  raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_REFRESH, 1);
}

Registers registers_of(const ucontext_t& interrupted) noexcept {
  const auto& from = interrupted.uc_mcontext.gregs;
  const auto value = [&from](int index) { return static_cast<std::uint64_t>(from[index]); };
  return {value(REG_RIP), value(REG_RSP), value(REG_RBP), value(REG_RBX), value(REG_R12),
          value(REG_R13), value(REG_R14), value(REG_R15), value(REG_R10), from};
}

[[gnu::noinline]] bool find_data_guarded(ThreadContext& context, const CodeAt& code,
                                         const std::uint64_t (&registers)[16],
                                         std::uint64_t& address) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return false;
  const bool found = find_data_address(code, registers, context.stack_low, context.stack_high, address);
  guard_leave(context.guard);
  return found;
}

// The address of the data that the thread was about to use, from the instructions at its pc. 0: not known.
std::uint64_t data_address(ThreadContext& context, const ucontext_t& interrupted, bool may_guard) noexcept {
  constexpr std::uint64_t kPageBytes = 4096;
  const auto& from = interrupted.uc_mcontext.gregs;
  const auto value = [&from](int index) { return static_cast<std::uint64_t>(from[index]); };
  const std::uint64_t registers[16] = {value(REG_RAX), value(REG_RCX), value(REG_RDX), value(REG_RBX),
                                       value(REG_RSP), value(REG_RBP), value(REG_RSI), value(REG_RDI),
                                       value(REG_R8),  value(REG_R9),  value(REG_R10), value(REG_R11),
                                       value(REG_R12), value(REG_R13), value(REG_R14), value(REG_R15)};
  const std::uint64_t pc = value(REG_RIP), in_page = pc % kPageBytes;
  const auto* const code = reinterpret_cast<const std::uint8_t*>(pc);
  std::uint64_t address = 0;
  bool found = false;
  if (!may_guard) {  // the page was being executed
    found = find_data_address({code - in_page, code, code - in_page + kPageBytes, pc}, registers,
                              context.stack_low, context.stack_high, address);
  } else if (pc >= kPageBytes) {
    found = find_data_guarded(context, {code - kPageBytes, code, code + kPageBytes, pc}, registers, address);
  }
  return found ? address : 0;
}

struct Instant {
  std::uint64_t time_ns, cpu_ns;
};

// The kernel's own figures for CPU time in the kernel grow by ticks of its clock. So they are not read more
// often than this: the call costs as much as walking 40 frames.
constexpr std::uint64_t kUsageEveryNs = 2'500'000;
constexpr std::uint64_t kStoppedNs = 200'000;

// Of the calling thread.
ThreadUse refresh_usage(ThreadContext& context, const Instant& now) noexcept {
  const std::uint64_t passed_ns = now.time_ns - context.usage_time_ns;
  // Whether it stopped running of its own accord decides what that time is charged to.
  const bool has_stopped = passed_ns >= now.cpu_ns - context.usage_cpu_ns + kStoppedNs;
  if (passed_ns >= kUsageEveryNs || has_stopped) {
    rusage usage;
    if (raw_syscall(SYS_getrusage, RUSAGE_THREAD, &usage) == 0) {
      context.system_ns = static_cast<std::uint64_t>(usage.ru_stime.tv_sec) * 1'000'000'000u +
                          static_cast<std::uint64_t>(usage.ru_stime.tv_usec) * 1000u;
      context.page_faults = static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
      context.major_faults = static_cast<std::uint64_t>(usage.ru_majflt);
      context.switches = static_cast<std::uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw);
      context.voluntary_switches = static_cast<std::uint64_t>(usage.ru_nvcsw);
      context.preemptions = static_cast<std::uint64_t>(usage.ru_nivcsw);
    }
    context.usage_time_ns = now.time_ns;
    context.usage_cpu_ns = now.cpu_ns;
  }
  return {now.cpu_ns, context.page_faults - context.major_faults, context.major_faults, context.switches};
}

void tell_usage(ThreadContext& context, wire::SampleRecord& sample) noexcept {
  sample.flags |= wire::kUsageKnown;
  if (context.voluntary_switches != context.told_voluntary_switches) sample.flags |= wire::kGaveWay;
  context.told_voluntary_switches = context.voluntary_switches;
  const std::uint64_t preemptions = context.preemptions - context.told_preemptions;
  sample.preemptions = static_cast<std::uint16_t>(preemptions < 0xffff ? preemptions : 0xffff);
  context.told_preemptions = context.preemptions;
  sample.system_ns = context.system_ns;
  sample.page_faults = context.page_faults;
}

void tell_waits(const wire::ThreadSlot& slot, wire::SampleRecord& sample) noexcept {
  const wire::MpiCallUnderWay& call = slot.mpi_call;
  const bool in_call = (call.changes.load(std::memory_order_relaxed) & 1) != 0 &&
                       call.state.load(std::memory_order_relaxed) != wire::kCallPaused;
  sample.run_delay_ns = slot.run_delay_ns.load(std::memory_order_relaxed);
  sample.mpi_ns = slot.mpi_time_ns.load(std::memory_order_relaxed);
  const std::uint64_t now_ns = recorded_clock().at(sample.time_ns);
  const std::uint64_t before_ns = call.recorded_before_ns.load(std::memory_order_relaxed);
  if (in_call && before_ns < now_ns) sample.mpi_ns += now_ns - before_ns;
}

// Frames near the thread's start are the same from sample to sample, so a record only says how many of them
// there are. Returns the number of words, counted from the outermost frame, that the last record had too, and
// remembers these words.
std::uint32_t share_with_last(Scratch& scratch, const std::uint64_t* words, std::uint32_t count) noexcept {
  std::uint64_t* const end = scratch.sent + wire::kMaxFrameWords;
  const std::uint32_t most = count < scratch.sent_words ? count : scratch.sent_words;
  std::uint32_t shared = 0;
  while (shared < most && words[count - 1 - shared] == *(end - 1 - shared)) ++shared;
  memcpy(end - count, words, (count - shared) * sizeof *words);
  scratch.sent_words = count;
  return shared;
}

// Writes what is known of the task that runs, and returns the number of words.
std::uint32_t tell_task(const TaskStack& task, std::uint64_t* words, wire::SampleRecord& sample) noexcept {
  sample.task_frames = static_cast<std::uint16_t>(task.running);
  sample.task_name_bytes = 0;
  sample.await_words = 0;
  memset(sample.reserved, 0, sizeof sample.reserved);
  if (task.running == 0) return 0;
  sample.task_name_bytes = static_cast<std::uint8_t>(task.name_bytes);
  const std::uint32_t name_words = wire::task_name_words(task.name_bytes);
  memcpy(words, task.name, name_words * sizeof *words);
  std::uint64_t* at = words + name_words;
  for (std::uint32_t i = 0; i < task.awaiting; ++i) {
    *at++ = wire::kPythonFrameTag | task.frames[i].instruction;
    *at++ = task.frames[i].code_id;
  }
  sample.await_words = static_cast<std::uint16_t>(2 * task.awaiting);
  return static_cast<std::uint32_t>(at - words);
}

// Not clock_gettime: the vdso would only pass it on to the kernel.
std::uint64_t thread_cpu_ns() noexcept {
  timespec time;
  return raw_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time) == 0 ? as_ns(time) : 0;
}

// A sample that had to wait for the end of a call shows that call, not the one that unblocked the signal.
std::int16_t shown_number(const ThreadRecord& record, const InterruptedCall& call) noexcept {
  const std::int32_t held = record.held_number.load(std::memory_order_relaxed);
  const std::int32_t number =
      held >= 0 && (call.number < 0 || call.number == SYS_rt_sigprocmask) ? held : call.number;
  return number <= 0x7fff ? static_cast<std::int16_t>(number) : std::int16_t{-1};
}

void write_sample(ThreadContext& context, wire::SegmentHeader* segment, const ucontext_t& interrupted,
                  const InterruptedCall& call, wire::Trigger trigger, const Instant& now, std::uint16_t ticks,
                  bool may_guard) noexcept {
  wire::ThreadSlot& slot = *context.slot;
  constexpr auto kMaxBytes =
      static_cast<std::uint32_t>(sizeof(wire::SampleRecord) + wire::kMaxCounters * sizeof(std::uint64_t) +
                                 (wire::kMaxFrameWords + wire::kMaxTaskWords) * sizeof(std::uint64_t));
  std::uint64_t position = 0;
  std::uint8_t* const bytes = wire::ring_reserve(slot.ring, kMaxBytes, position);
  if (bytes == nullptr) {
    count_drop(segment, wire::DropReason::kRingFull);
    return;
  }
  auto& sample = *reinterpret_cast<wire::SampleRecord*>(bytes);
  auto* values = reinterpret_cast<std::uint64_t*>(bytes + sizeof sample);
  if (trigger == wire::Trigger::kEvent) context.usage_time_ns = 0;  // what just occurred has to be in it
  const ThreadUse use = refresh_usage(context, now);
  if (context.record->counters.migrations_due) g_process.open_due_event(context.record->counters);
  const std::uint32_t counters = sample_counters(context.record->counters, &use, values);
  const std::uint32_t epoch = segment->module_epoch.load(std::memory_order_acquire);

  Scratch& scratch = *context.handler_scratch;
  reset(scratch.task);
  if (may_guard) {
    walk_stacks(context, segment, registers_of(interrupted), g_process.walk_native_frames, scratch);
    look_for_name(context, scratch.python, now.time_ns);
    if (may_run_task(scratch.python)) find_task_guarded(context, *segment, scratch);
  } else {
    reset(scratch);
    scratch.native.truncated = true;
  }
  if (scratch.native.count == 0 && scratch.python.count == 0) {
    scratch.native.count = 1;
    scratch.native.frames[0].pc = static_cast<std::uint64_t>(interrupted.uc_mcontext.gregs[REG_RIP]);
    scratch.native.frames[0].sp = static_cast<std::uint64_t>(interrupted.uc_mcontext.gregs[REG_RSP]);
    scratch.native.return_slot[0] = 0;
  }
  std::uint32_t flags = call.in_syscall ? wire::kInSyscall : 0u;
  std::uint32_t words = merge_stacks(scratch.native, scratch.python, values + counters,
                                     wire::kMaxFrameWords - kMostSurroundings, flags);
  words += write_surroundings(context, values + counters + words);
  if (context.openmp != nullptr) flags |= std::uint32_t{context.openmp->activity} << wire::kOmpActivityShift;

  sample.data_address = 0;
  sample.mutex_holder = 0;
  if (call.in_syscall) {
    flags |= subject_of(context, call, interrupted, may_guard);
    if (trigger == wire::Trigger::kBlocked) {
      const AwaitedMutex mutex = awaited_mutex(context, call, interrupted, may_guard);
      if (mutex.address != 0) flags |= wire::kAtMutex;
      sample.data_address = mutex.address;
      sample.mutex_holder = mutex.holder;
      if (mutex.address == 0 &&
          (flags & (wire::kOnThread | wire::kWaitingForGil | wire::kOmpActivityBits)) == 0) {
        sample.data_address = awaited_word(call, interrupted);
        if (sample.data_address != 0) {
          flags |= wire::kAtWord;
          note_awaited_word(sample.data_address);
        }
      }
    }
  } else {
    if (trigger != wire::Trigger::kBlocked)
      sample.data_address = data_address(context, interrupted, may_guard);
    if (sample.data_address != 0) flags |= wire::kMemoryOperand;
    // Also of a thread that only lacks a processor: it still waits for the lock.
    if (const std::uint64_t lock = awaited_spin_lock(interrupted); lock != 0) {
      flags |= wire::kAtSpinLock;
      sample.data_address = lock;
      note_awaited_word(lock);
    }
  }

  sample.header.type = wire::kSample;
  sample.header.detail = ticks;
  const std::uint32_t shared = share_with_last(scratch, values + counters, words);
  const std::uint32_t of_task = tell_task(scratch.task, values + counters + words - shared, sample);
  sample.header.bytes = static_cast<std::uint32_t>(sizeof sample + (counters + words - shared + of_task) *
                                                                       sizeof(std::uint64_t));
  sample.time_ns = now.time_ns;
  sample.cpu_ns = now.cpu_ns;
  sample.flags = flags;
  sample.syscall_nr = call.in_syscall ? shown_number(*context.record, call) : std::int16_t{-1};
  sample.mpi_op = static_cast<std::uint16_t>(slot.mpi_op.load(std::memory_order_relaxed));
  sample.frame_words = static_cast<std::uint16_t>(words);
  sample.counter_count = static_cast<std::uint8_t>(counters);
  sample.trigger = trigger;
  sample.shared_words = static_cast<std::uint16_t>(shared);
  sample.module_epoch = epoch;
  sample.handler_ns = context.last_handler_ns;
  scratch.sent_flags = flags & ~(wire::kMemoryOperand | wire::kAtMutex | wire::kAtWord |
                                 wire::kAtSpinLock);  // and without what tell_usage adds
  scratch.sent_syscall = sample.syscall_nr;
  scratch.sent_mpi_op = sample.mpi_op;
  tell_usage(context, sample);
  tell_waits(slot, sample);
  wire::ring_commit(slot.ring, position, sample.header.bytes);

  segment->samples_taken.fetch_add(1, std::memory_order_relaxed);
  if ((flags & (wire::kNativeTruncated | wire::kPythonTruncated)) != 0)
    segment->samples_truncated.fetch_add(1, std::memory_order_relaxed);
  if (scratch.python.count != 0 && g_process.walk_native_frames) {
    segment->merges_tried.fetch_add(1, std::memory_order_relaxed);
    if ((flags & wire::kMergeFailed) != 0) segment->merges_failed.fetch_add(1, std::memory_order_relaxed);
  }
}

// Pushes a record without a walk: with these words or, if the thread has been sampled since the last record
// without a walk, with the words of that sample.
void push_record(ThreadContext& context, wire::SegmentHeader* segment, const Instant& now,
                 wire::Trigger trigger, std::uint32_t flags, const std::uint64_t* words, std::uint32_t count,
                 bool has_usage) noexcept {
  const auto most_bytes = static_cast<std::uint32_t>(sizeof(wire::SampleRecord) +
                                                     (wire::kMaxCounters + count) * sizeof(std::uint64_t));
  std::uint64_t position = 0;
  std::uint8_t* const bytes = wire::ring_reserve(context.slot->ring, most_bytes, position);
  if (bytes == nullptr) {
    count_drop(segment, wire::DropReason::kRingFull);
    return;
  }
  auto& sample = *reinterpret_cast<wire::SampleRecord*>(bytes);
  sample = {};
  auto* values = reinterpret_cast<std::uint64_t*>(bytes + sizeof sample);
  // A thread that is gone has no counters.
  const ThreadUse use = has_usage ? refresh_usage(context, now) : ThreadUse{};
  sample.counter_count = static_cast<std::uint8_t>(sample_counters(context.record->counters, &use, values));
  sample.flags = flags;
  sample.syscall_nr = -1;
  std::uint32_t fresh = 0;
  if (trigger != wire::Trigger::kThreadEnd) {
    Scratch& scratch = *context.handler_scratch;
    if ((flags & wire::kPaused) != 0) {
      scratch.sent_words = 0;
    } else if (scratch.sent_words != 0) {
      sample.frame_words = sample.shared_words = static_cast<std::uint16_t>(scratch.sent_words);
      sample.flags |= scratch.sent_flags;
      sample.syscall_nr = scratch.sent_syscall;
      sample.mpi_op = scratch.sent_mpi_op;
    } else {
      fresh = count;
      memcpy(values + sample.counter_count, words, count * sizeof *words);
      share_with_last(scratch, words, count);
      sample.frame_words = static_cast<std::uint16_t>(count);
    }
  }
  sample.header.type = wire::kSample;
  sample.header.bytes =
      static_cast<std::uint32_t>(sizeof sample + (sample.counter_count + fresh) * sizeof(std::uint64_t));
  sample.time_ns = now.time_ns;
  sample.cpu_ns = now.cpu_ns;
  sample.trigger = trigger;
  sample.module_epoch = segment->module_epoch.load(std::memory_order_relaxed);
  sample.handler_ns = context.last_handler_ns;
  if (has_usage) tell_usage(context, sample);
  tell_waits(*context.slot, sample);
  wire::ring_commit(context.slot->ring, position, sample.header.bytes);
}

constexpr std::uint64_t kRise = 8, kFall = 32, kMaxStride = 1u << 16;

// True if, since its last sample, the thread has had less processor time than that sample took: other threads
// had the processor while the clock of its ticks went on.
bool has_lacked_time(const ThreadRecord& record, const Instant& now) noexcept {
  return record.tick_stride.load(std::memory_order_relaxed) > 1 &&
         now.cpu_ns - record.tick_end_cpu_ns < record.usual_cost_ns;
}

// The CPU time of a handler that began at `begin`. Elapsed time would include what other threads did while
// they had the processor. A short time needs no look at the thread's clock, which costs 0.7 to 2 µs. The
// limit is above what most samples take with cold caches.
std::uint64_t cost_since(const Instant& begin) noexcept {
  constexpr std::uint64_t kShortNs = 25'000;
  const std::uint64_t elapsed_ns = monotonic_ns() - begin.time_ns;
  if (elapsed_ns < kShortNs) return elapsed_ns;
  const std::uint64_t now_cpu_ns = thread_cpu_ns();  // 0: a filter for system calls forbids it
  return now_cpu_ns != 0 && now_cpu_ns - begin.cpu_ns < elapsed_ns ? now_cpu_ns - begin.cpu_ns : elapsed_ns;
}

// Called after a tick's sample that began at `begin` and took `cost_ns`. If each sample took longer than the
// time to the next tick, the program would never run. So as many ticks are skipped as leave it about half of
// its processor time. The number of skipped ticks rises quickly and falls slowly: if the time between samples
// depended on where the last sample was, code that follows deep stacks would be sampled too often.
void leave_time(ThreadRecord& record, bool of_event, const Instant& begin, std::uint64_t cost_ns) noexcept {
  if (of_event && !g_process.event_in_ns) return;  // it counts what the program does, not what we do
  const std::uint64_t period_ns = of_event ? g_process.event_period : tick_period_ns();
  record.tick_end_cpu_ns = begin.cpu_ns + cost_ns;
  if (cost_ns > record.usual_cost_ns) {
    record.usual_cost_ns += (cost_ns - record.usual_cost_ns) / kRise;
  } else {
    record.usual_cost_ns -= (record.usual_cost_ns - cost_ns) / kFall;
  }
  // The clock of an event stands still in the handler.
  const std::uint64_t most_ns = of_event ? period_ns : period_ns / 2;
  const std::uint64_t stride = record.tick_stride.load(std::memory_order_relaxed);
  std::uint64_t wanted = 1 + record.usual_cost_ns / most_ns;
  if (wanted > kMaxStride) wanted = kMaxStride;
  const bool steady = wanted == stride || (wanted < stride && wanted != 1 && 4 * wanted > 3 * stride);
  if (steady) return;
  record.tick_stride.store(static_cast<std::uint32_t>(wanted), std::memory_order_relaxed);
  if (of_event) {
    const std::uint64_t between_ns = wanted * period_ns;
    raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_PERIOD, &between_ns);
  } else if (record.tick == Tick::kCpuClock) {
    start_cpu_timer(record);
  } else if (record.timer_off.load(std::memory_order_relaxed) == 0) {
    start_monotonic_timer(record, monotonic_ns());
  }
}

// Code of ours that was running may be over because the program jumped out of it, from a handler of its own.
void end_what_was_left(ThreadContext& context, ThreadRecord& record, std::uintptr_t sp) noexcept {
  if (context.busy != 0 && busy_is_left(context, sp)) forget_busy(context);
  const std::uintptr_t timed_frame = record.timed.frame.load(std::memory_order_relaxed);
  if (timed_frame != 0 && is_left(context, timed_frame, sp))
    record.timed.frame.store(0, std::memory_order_relaxed);
  // Out of an exec: the watcher may look at the thread again.
  if (context.exec_frame != 0 && is_left(context, context.exec_frame, sp)) {
    context.exec_frame = 0;
    if (record.event_descriptor >= 0) continue_event(record);
    record.state.store(static_cast<std::uint32_t>(RecordState::kLive), std::memory_order_release);
  }
}

struct Choice {
  wire::Trigger trigger;
  bool wanted;  // false: what passed is left to the next sample
};

// For a thread that waits where its last sample found it, and has hardly run since: whether it is in another
// wait there. Going back to the same one, it has given its processor up once.
bool waits_again(ThreadContext& context, const ThreadRecord& record, const Instant& now) noexcept {
  const std::uint64_t before = record.sampled_waits.load(std::memory_order_relaxed);
  context.usage_time_ns = 0;
  refresh_usage(context, now);
  return before != 0 && context.voluntary_switches > before + 1;
}

// For a timer on CLOCK_MONOTONIC, which also fires while the thread waits. Stops the timer if the thread has
// not moved.
Choice choose_at_wall_timer(ThreadContext& context, ThreadRecord& record, const InterruptedCall& call,
                            const ucontext_t& interrupted, const Instant& now) noexcept {
  // Of CPU time alone, what passed is left to the next sample that shows the thread running.
  Choice choice = {wire::Trigger::kWallTimer, g_process.watch_blocked || !call.interrupted};
  const std::uint64_t moved_ns = now.cpu_ns - record.sampled_cpu_ns.load(std::memory_order_relaxed);
  // Of the `syscall` instruction, behind which a call that failed is.
  const auto pc =
      static_cast<std::uint64_t>(interrupted.uc_mcontext.gregs[REG_RIP]) - (call.failed_with_eintr ? 2 : 0);
  const auto sp = static_cast<std::uint64_t>(interrupted.uc_mcontext.gregs[REG_RSP]);
  if (call.interrupted) {
    choice.trigger = wire::Trigger::kBlocked;  // where it waits, not where it ran
    // The second period in the same call: leave the thread alone until it moves.
    if (moved_ns < record.sampled_cost_ns.load(std::memory_order_relaxed) + kMovedNs) {
      stop_timer(record);
      const bool is_there = pc == context.waiting_pc && sp == context.waiting_sp;
      if (is_there && !waits_again(context, record, now)) choice.wanted = false;
    }
  }
  context.waiting_pc = call.interrupted ? pc : 0;
  context.waiting_sp = call.interrupted ? sp : 0;
  return choice;
}

// What the sample stands for, depending on who sent the signal.
Choice choose(Sender from, ThreadContext& context, ThreadRecord& record, InterruptedCall& call,
              const ucontext_t& interrupted, const Instant& now) noexcept {
  if (from == Sender::kWatcher) {
    // The number is not in the code, as in syscall(2).
    if (call.in_syscall && call.number < 0 &&
        record.blocked_pc == static_cast<std::uint64_t>(interrupted.uc_mcontext.gregs[REG_RIP]))
      call.number = record.blocked_number;
    return {wire::Trigger::kBlocked, true};
  }
  if (from == Sender::kEvent) return {wire::Trigger::kEvent, true};
  if (record.tick == Tick::kMonotonic) return choose_at_wall_timer(context, record, call, interrupted, now);
  return {wire::Trigger::kCpuTimer, true};
}

// For whoever asks later whether the thread is still in this wait. Known if they were read for this sample,
// as they are of a thread that has stood still for a while.
void note_waits(const ThreadContext& context, ThreadRecord& record, wire::Trigger trigger,
                const Instant& now) noexcept {
  const bool known = trigger == wire::Trigger::kBlocked && context.usage_time_ns == now.time_ns;
  record.sampled_waits.store(known ? context.voluntary_switches : 0, std::memory_order_relaxed);
  record.sampled_switches.store(known ? context.switches : 0, std::memory_order_relaxed);
}

// The thread has left its wait for a signal that is no sample of it, and goes back to it.
void note_another_wake_up(ThreadRecord& record) noexcept {
  for (std::atomic<std::uint64_t>* const count : {&record.sampled_waits, &record.sampled_switches})
    if (const std::uint64_t before = count->load(std::memory_order_relaxed); before != 0)
      count->store(before + 1, std::memory_order_relaxed);
}

// An event stops with each of its signals. It continues now, unless the thread's call is repeated, which may
// cause the event again: there is only one signal per block.
void let_event_go_on(ThreadRecord& record, Sender from, const InterruptedCall& call,
                     const siginfo_t& info) noexcept {
  if (from == Sender::kEvent && call.interrupted) record.event_waits = true;
  const bool goes_on = record.event_waits ? from == Sender::kTimer && !call.interrupted : true;
  if (goes_on && (is_of_descriptor(info) ||
                  (record.event_waits && perf_event_id(record.event_descriptor) == record.event_id)))
    restart_event(record);
}

// For a signal that is no sample: one that was on its way when the recording or a record ended, or that
// stands in for a tick (stand_in_for_tick). True if the thread waits in the call.
bool let_call_go_on(ucontext_t& interrupted) noexcept {
  const InterruptedCall call = find_interrupted_call(t_context, interrupted, false);
  repeat_interrupted_call(call, t_context.record, interrupted);
  note_cut_transfer(t_context, call, interrupted);
  return call.interrupted;
}

// Returns false when the signal was not one of ours.
bool take_sample(const siginfo_t& info, ucontext_t& interrupted) noexcept {
  ThreadContext& context = t_context;
  if (slot_of(context) == nullptr) adopt(context);
  const Sender from = sender(info, context.slot != nullptr ? context.record : nullptr);
  if (from == Sender::kForeign) return false;
  if (from == Sender::kLate) {
    if (let_call_go_on(interrupted) && context.slot != nullptr) note_another_wake_up(*context.record);
    return true;
  }
  ThreadRecord& record = *context.record;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);

  const Instant now = {monotonic_ns(), thread_cpu_ns()};
  const bool wakes_up = is_wake_up(info, record);
  // If the watcher was first, it starts the timer. Starting it twice could drop a tick (stand_in_for_tick).
  if (wakes_up && record.timer_off.exchange(0, std::memory_order_acq_rel) != 0)
    start_monotonic_timer(record, now.time_ns);
  end_what_was_left(context, record, static_cast<std::uintptr_t>(interrupted.uc_mcontext.gregs[REG_RSP]));
  const bool agent_active = context.busy != 0 || context.guard.armed != 0;
  const bool has_room = !agent_active && has_room_for_walks(interrupted);
  const std::uint64_t blocked_faults = interrupted.uc_sigmask.__val[0] & kFaultSignals;
  const bool unblocked = has_room && blocked_faults != 0 && unblock_faults(context, blocked_faults);
  const bool may_guard = has_room && (blocked_faults == 0 || unblocked);
  InterruptedCall call = find_interrupted_call(context, interrupted, may_guard);
  const Choice choice = choose(from, context, record, call, interrupted, now);

  // Where it waits, it needs no time.
  const bool is_tick = from == Sender::kTimer && info.si_timerid != kLastTick;
  const bool throttled = is_tick && !call.interrupted && has_lacked_time(record, now);
  const bool is_off = recording_is_off();
  const std::uint32_t stride = record.tick_stride.load(std::memory_order_relaxed);
  if (is_tick && !wakes_up && stride > 1 && !is_off)
    count_drop(segment, wire::DropReason::kThrottled, stride - 1);
  const std::uint16_t ticks = is_tick && !wakes_up ? ticks_of(info) : 0;

  if (is_off) {
    // Whoever turned it off may have met this thread while its handler started the timers again.
    stop_timers(record);
    // Whoever turns recording on says so before the timer is started.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!recording_is_off()) {
      if (record.tick == Tick::kMonotonic)
        start_monotonic_timer(record, now.time_ns);
      else if (record.timer_id >= 0)
        start_cpu_timer(record);
    }
  } else if (segment == nullptr || agent_active) {
    count_drop(segment, wire::DropReason::kReentrant);
  } else if (!is_recording(context)) {
    if (from != Sender::kEvent)
      push_record(context, segment, now, choice.trigger, wire::kPaused, nullptr, 0, true);
  } else if (throttled) {
    count_drop(segment, wire::DropReason::kThrottled);
  } else if (choice.wanted) {
    write_sample(context, segment, interrupted, call, choice.trigger, now, ticks, may_guard);
  }
  if (unblocked) block_faults(context);
  repeat_interrupted_call(call, &record, interrupted);
  note_cut_transfer(context, call, interrupted);
  let_event_go_on(record, from, call, info);

  const std::uint64_t cost_ns = cost_since(now);
  const auto told_cost_ns = static_cast<std::uint32_t>(cost_ns < 0xffff'ffffu ? cost_ns : 0xffff'ffffu);
  if (!throttled) context.last_handler_ns = told_cost_ns;
  if (segment != nullptr) segment->handler_ns.fetch_add(cost_ns, std::memory_order_relaxed);
  if (from == Sender::kEvent) {  // nothing of the time is told yet
    record.sampled_cost_ns.fetch_add(told_cost_ns, std::memory_order_relaxed);
    if (call.interrupted) note_another_wake_up(record);
    return true;
  }
  note_waits(context, record, choice.trigger, now);
  record.sampled_running.store(choice.trigger != wire::Trigger::kBlocked, std::memory_order_relaxed);
  record.sampled_cost_ns.store(told_cost_ns, std::memory_order_relaxed);
  const auto& registers = interrupted.uc_mcontext.gregs;
  record.sampled_pc.store(static_cast<std::uint64_t>(registers[REG_RIP]), std::memory_order_relaxed);
  record.sampled_sp.store(static_cast<std::uint64_t>(registers[REG_RSP]), std::memory_order_relaxed);
  record.sampled_cpu_ns.store(now.cpu_ns, std::memory_order_release);
  if (is_tick && !wakes_up && !throttled && !is_off) leave_time(record, is_of_descriptor(info), now, cost_ns);
  return true;
}

}  // namespace

bool keep_sent_fault(const siginfo_t& info) noexcept {
  const ThreadContext& context = t_context;
  if (info.si_code > 0 || (context.faults_let_in >> (info.si_signo - 1) & 1) == 0) return false;
  siginfo_t& sent = context.handler_scratch->sent_faults[info.si_signo == SIGBUS ? 1 : 0];
  if (sent.si_signo == 0) sent = info;  // of the same signal one waits, however many are sent
  return true;
}

void adopt(ThreadContext& context) noexcept {
  context.slot = nullptr;  // of an earlier segment
  const auto tid = static_cast<std::int32_t>(raw_syscall(SYS_gettid));
  const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    ThreadRecord& record = g_process.records[i];
    if (record.adoptable.load(std::memory_order_acquire) == 0 || record.tid != tid) continue;
    record.adoptable.store(0, std::memory_order_relaxed);
    const TransferState transfer = context.transfer;
    context = record.prepared;
    context.transfer = transfer;
    return;
  }
}

void start_monotonic_timer(const ThreadRecord& record, std::uint64_t now_ns) noexcept {
  const std::uint64_t period_ns = tick_period_ns();  // once: the watcher may change it
  const std::uint64_t stride = record.tick_stride.load(std::memory_order_relaxed);
  std::uint64_t first_ns = now_ns - now_ns % period_ns + record.phase_ns;
  if (first_ns <= now_ns) first_ns += period_ns;
  first_ns += (stride - 1) * period_ns;
  const itimerspec times = {as_timespec(stride * period_ns), as_timespec(first_ns)};
  raw_syscall(SYS_timer_settime, record.timer_id, TIMER_ABSTIME, &times, nullptr);
}

void start_cpu_timer(const ThreadRecord& record) noexcept {
  const std::uint64_t period_ns = tick_period_ns();
  const std::uint64_t stride = record.tick_stride.load(std::memory_order_relaxed);
  const itimerspec times = {as_timespec(stride * period_ns),
                            as_timespec((stride - 1) * period_ns + record.phase_ns + 1)};
  raw_syscall(SYS_timer_settime, record.timer_id, 0, &times, nullptr);
}

void stop_timers(const ThreadRecord& record) noexcept {
  const itimerspec stopped = {};
  for (const int timer : {record.timer_id, record.wake_timer_id})
    if (timer >= 0) raw_syscall(SYS_timer_settime, timer, 0, &stopped, nullptr);
}

void walk_stacks(ThreadContext& context, wire::SegmentHeader* segment, const Registers& registers,
                 bool with_native, Scratch& scratch) noexcept {
  reset(scratch);
  if (!walk_python_guarded(context, segment, scratch.python)) {
    scratch.python.truncated = true;
    count_drop(segment, wire::DropReason::kFaultInWalk);
  }
  if (!with_native) return;
  // On an alternate or a coroutine's stack the bounds are not known.
  const bool on_own_stack = registers.rsp >= context.stack_low && registers.rsp < context.stack_high;
  const std::uint64_t low = on_own_stack ? context.stack_low : 0;
  const std::uint64_t high = on_own_stack ? context.stack_high : 0;
  if (!walk_native_guarded(context, registers, low, high, scratch.native)) {
    scratch.native.truncated = true;
    count_drop(segment, wire::DropReason::kFaultInWalk);
  }
}

void sample_handler(int signal, siginfo_t* info, void* context) noexcept {
  const int saved_errno = errno;
  g_handlers.running.fetch_add(1);
  auto& interrupted = *static_cast<ucontext_t*>(context);
  // In this order: whoever ends the recording waits for those that did not see it.
  const bool has_ended = g_handlers.ended.load() != 0;
  const bool ours = has_ended ? is_own(*info) : take_sample(*info, interrupted);
  if (has_ended && ours) let_call_go_on(interrupted);
  g_handlers.running.fetch_sub(1);
  errno = saved_errno;
  if (!ours && g_process.foreign_signal != nullptr) g_process.foreign_signal(signal, info, context);
}

void continue_event(ThreadRecord& record) noexcept {
  const itimerspec stopped = {};
  if (record.wake_timer_id >= 0) raw_syscall(SYS_timer_settime, record.wake_timer_id, 0, &stopped, nullptr);
  if (record.event_waits || perf_event_id(record.event_descriptor) != record.event_id) return;
  if (record.event_spent) {
    raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_REFRESH, 1);
  } else {
    raw_syscall(SYS_ioctl, record.event_descriptor, PERF_EVENT_IOC_ENABLE, 0);
  }
  record.event_spent = false;
}

void push_thread_end(ThreadContext& context, std::uint64_t cpu_ns) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (context.slot == nullptr || segment == nullptr) return;
  // Not asked of a thread that is gone.
  const bool own = &context == &t_context;
  if (own) context.usage_time_ns = 0;
  push_record(context, segment, {monotonic_ns(), cpu_ns}, wire::Trigger::kThreadEnd,
              is_recording(context) ? 0u : wire::kPaused, nullptr, 0, own);
}

void push_thread_tie(ThreadContext& context, wire::ThreadTieKind kind, std::uint64_t begin_ns,
                     std::uint64_t end_ns, std::uint64_t thread, std::int32_t creator) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (context.slot == nullptr || segment == nullptr) return;
  std::uint64_t position = 0;
  std::uint8_t* const bytes = wire::ring_reserve(context.slot->ring, sizeof(wire::ThreadTie), position);
  if (bytes == nullptr) {
    count_drop(segment, wire::DropReason::kRingFull);
    return;
  }
  auto& tie = *reinterpret_cast<wire::ThreadTie*>(bytes);
  tie = {};
  tie.header.bytes = sizeof tie;
  tie.header.type = wire::kThreadTie;
  tie.header.detail = static_cast<std::uint16_t>(kind);
  tie.begin_ns = begin_ns;
  tie.end_ns = end_ns;
  tie.thread = thread;
  tie.creator = creator;
  if (kind == wire::ThreadTieKind::kUnlocked)
    tie.module_epoch = segment->module_epoch.load(std::memory_order_acquire);
  wire::ring_commit(context.slot->ring, position, sizeof tie);
}

void push_stop(ThreadContext& context, std::uint64_t now_ns, const std::uint64_t* words,
               std::uint32_t count) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (context.slot == nullptr || segment == nullptr) return;
  push_record(context, segment, {now_ns, thread_cpu_ns()}, wire::Trigger::kStop, 0, words, count, true);
}

void push_go_on(ThreadContext& context, std::uint64_t now_ns) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (context.slot == nullptr || segment == nullptr) return;
  push_record(context, segment, {now_ns, thread_cpu_ns()}, wire::Trigger::kStop, wire::kPaused, nullptr, 0,
              true);
}

}  // namespace clusterprof::agent
