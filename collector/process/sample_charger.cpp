// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/sample_charger.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include "base/thread_pools.hpp"

namespace clusterprof::collector {
namespace {

bool waits_for_events(std::int32_t system_call) {
  constexpr std::int32_t kEpollPwait2 = 441;  // not in the headers of older systems
  return system_call == SYS_epoll_wait || system_call == SYS_epoll_pwait || system_call == kEpollPwait2;
}

StackContext context_of(const wire::SampleRecord& record) {
  StackContext context;
  context.mpi_op = record.mpi_op;
  context.in_syscall = (record.flags & wire::kInSyscall) != 0;
  context.waiting_for_gil = (record.flags & wire::kWaitingForGil) != 0;
  context.collecting_garbage = (record.flags & wire::kCollectingGarbage) != 0;
  if ((record.flags & wire::kOnFile) != 0) {
    context.descriptor = Descriptor::kFile;
  } else if ((record.flags & wire::kOnSocket) != 0) {
    context.descriptor = Descriptor::kSocket;
  } else if ((record.flags & wire::kOnPipe) != 0) {
    context.descriptor = Descriptor::kPipe;
  } else if ((record.flags & wire::kOnThread) != 0) {
    context.descriptor = Descriptor::kThread;
  }
  context.openmp =
      static_cast<wire::OmpActivity>((record.flags & wire::kOmpActivityBits) >> wire::kOmpActivityShift);
  context.syscall_nr = record.syscall_nr;
  context.epoch = record.module_epoch;
  return context;
}

}  // namespace

SampleCharger::SampleCharger(const SegmentView& segment, RawStore& store, StackResolver& stacks,
                             ProcessCharges& charges, MpiEventReader& events, DropCounts& drops)
    : segment_(segment),
      store_(store),
      stacks_(stacks),
      charges_(charges),
      events_(events),
      drops_(drops),
      stack_charges_(stacks, charges),
      period_ns_(wire::sampling_period_ns(std::max<std::uint32_t>(segment.header().rate_hz, 1))),
      cpu_clock_(segment.header().clock == 1) {}

void SampleCharger::take(RecordedThread& thread, std::uint32_t slot, const wire::RecordHeader& record,
                         const wire::Ring& ring, std::uint64_t latest_ns) {
  if (record.type == wire::kThreadTie) return take_tie(thread, record, ring, latest_ns);
  RingSample sample;
  switch (read_record(record, ring, thread.words.size(), sample)) {
    case RecordKind::kSample:
      break;
    case RecordKind::kOther:
      return;
    case RecordKind::kTooShort:
      drops_.add("damaged_record");
      return;
    case RecordKind::kDamagedSample:
      drops_.add("damaged_record");
      thread.words.clear();
      return;
  }
  if (sample.record.counter_count > charges_.counter_numbers().size())
    charges_.read_counter_names(segment_.header());
  const std::uint64_t time_ns = std::min(sample.record.time_ns, latest_ns);
  latest_record_ns_ = std::max(latest_record_ns_, time_ns);
  // First the events that the thread wrote before this sample.
  events_.take(thread.events, slot, time_ns, latest_ns);
  take_window_edges(thread, segment_.thread_slot(slot), time_ns);
  const bool is_paused = (sample.record.flags & wire::kPaused) != 0;
  if (thread.is_off && sample.record.trigger != wire::Trigger::kThreadEnd) {
    // The handler was at work when the window was closed.
    if (!is_paused) thread.words.update(sample);
    return;
  }
  if (sample.record.trigger == wire::Trigger::kThreadEnd) {
    take_end(thread, sample, time_ns);
  } else if (thread.state == RecordedThread::State::kActive) {
    if (is_paused)
      take_pause(thread, sample, time_ns);
    else
      take_stack(thread, slot, sample, time_ns);
  }
  if (thread.runs_python && (is_paused || thread.state != RecordedThread::State::kActive))
    callers_.sample(slot, time_ns, false, 0);
}

void SampleCharger::take_tie(RecordedThread& thread, const wire::RecordHeader& record, const wire::Ring& ring,
                             std::uint64_t latest_ns) {
  wire::ThreadTie tie;
  if (!read_thread_tie(record, ring, tie)) {
    drops_.add("damaged_record");
    return;
  }
  const auto kind = static_cast<wire::ThreadTieKind>(tie.header.detail);
  if (kind == wire::ThreadTieKind::kUnlocked && tie.begin_ns <= latest_ns + kMaxStopNs) {
    Release release = {tie.begin_ns, thread.tid, 0};
    StackContext context;
    context.epoch = tie.module_epoch;
    const std::uint64_t call = tie.end_ns - 1;
    if (tie.end_ns != 0 && (call & wire::kFrameTagMask) == 0)
      release.path = stacks_.resolve({&call, 1}, context).path;
    wakes_.add(tie.thread, release);
  } else if (kind == wire::ThreadTieKind::kWoke || kind == wire::ThreadTieKind::kWokeAll) {
    if (tie.begin_ns <= latest_ns + kMaxStopNs)
      wakes_.add(tie.thread, static_cast<std::uint32_t>(tie.creator),
                 {tie.begin_ns, thread.tid, kind == wire::ThreadTieKind::kWokeAll, false, thread.places});
    else
      drops_.add("damaged_record");
  } else if (!ties_.take(thread.ties, tie, latest_ns + kMaxStopNs)) {
    drops_.add("damaged_record");
  }
}

void SampleCharger::spent(RecordedThread& thread, std::uint64_t begin_ns, std::uint64_t end_ns,
                          const IntervalPaths& paths, double share) {
  thread.events.timeline.spent(begin_ns, end_ns, paths, share);
  if (thread.ties.number) thread.ties.timeline.spent(begin_ns, end_ns, paths, share);
}

void SampleCharger::sampled_until(RecordedThread& thread, std::uint64_t time_ns) {
  events_.sampled_until(thread.events, time_ns);
  ties_.sampled_until(thread.ties, time_ns);
}

KernelUse SampleCharger::kernel_use(const wire::SampleRecord& record) const {
  KernelUse kernel{record.system_ns, record.page_faults};
  kernel.gave_way = (record.flags & wire::kGaveWay) != 0;
  kernel.preemptions = record.preemptions;
  if (segment_.header().knows_run_delay == 1) kernel.run_delay_ns = record.run_delay_ns;
  kernel.mpi_ns = record.mpi_ns;
  return kernel;
}

void SampleCharger::take_end(RecordedThread& thread, const RingSample& sample, std::uint64_t time_ns) {
  const wire::SampleRecord& record = sample.record;
  if (thread.state == RecordedThread::State::kActive) {
    end_waits(thread, time_ns, record.cpu_ns);
    const KernelUse kernel = kernel_use(record);
    if ((record.flags & wire::kPaused) != 0) {
      thread.unsampled_since_cpu_ns = record.cpu_ns;
      thread.account.pause(time_ns, record.cpu_ns, false, {}, sample.counter_values(),
                           ChargeSink(charges_, thread.main));
    }
    end_account(thread, time_ns, record.cpu_ns, (record.flags & wire::kUsageKnown) != 0 ? &kernel : nullptr,
                sample.counter_values());
    thread.sampled.end(time_ns, [&](std::uint64_t begin_ns, std::uint64_t end_ns,
                                    const IntervalPaths& paths) { spent(thread, begin_ns, end_ns, paths); });
    sampled_until(thread, time_ns);
  }
  thread.state = RecordedThread::State::kEnded;
  thread.ended_ns = time_ns;
}

void SampleCharger::take_window_edges(RecordedThread& thread, const wire::ThreadSlot& slot,
                                      std::uint64_t until_ns) {
  // At most one of each since the last look, in either order.
  for (int edges = 0; edges < 2 && thread.state == RecordedThread::State::kActive; ++edges) {
    const std::uint64_t begin_ns = slot.window_begin_ns.load(std::memory_order_acquire);
    const std::uint64_t end_ns = slot.window_end_ns.load(std::memory_order_acquire);
    const bool begins = begin_ns > thread.window_begin_ns && begin_ns <= until_ns;
    const bool ends = end_ns > thread.window_end_ns && end_ns <= until_ns;
    if (!begins && !ends) return;
    if (begins && (!ends || begin_ns < end_ns)) {
      thread.window_begin_ns = begin_ns;
      take_edge(thread, true, begin_ns, slot.window_begin_cpu_ns.load(std::memory_order_relaxed));
    } else {
      thread.window_end_ns = end_ns;
      take_edge(thread, false, end_ns, slot.window_end_cpu_ns.load(std::memory_order_relaxed));
    }
  }
}

void SampleCharger::take_edge(RecordedThread& thread, bool begins, std::uint64_t time_ns,
                              std::uint64_t cpu_ns) {
  thread.is_off = !begins;
  thread.stay = {};
  end_waits(thread, time_ns, cpu_ns);
  const ChargeSink sink(charges_, thread.main);
  if (begins) {
    thread.account.begin_window(time_ns, cpu_ns, sink);
  } else {
    ThreadAccount::End how;
    if (!thread.account.has_samples())
      how.start_path = stacks_.start_path(thread.start_function, thread.origin.pool);
    thread.account.end_window(time_ns, cpu_ns, how, sink);
    if (cpu_ns > thread.unsampled_since_cpu_ns)
      statistics_.running_ns += cpu_ns - thread.unsampled_since_cpu_ns;
  }
  thread.unsampled_since_cpu_ns = cpu_ns;
  thread.sampled.sample(time_ns, cpu_ns, false, {},
                        [&](std::uint64_t begin_ns, std::uint64_t end_ns, const IntervalPaths& paths) {
                          spent(thread, begin_ns, end_ns, paths);
                        });
  sampled_until(thread, time_ns);
}

void SampleCharger::take_pause(RecordedThread& thread, const RingSample& sample, std::uint64_t time_ns) {
  const wire::SampleRecord& record = sample.record;
  const bool blocked = record.trigger == wire::Trigger::kBlocked;
  thread.words.clear();
  thread.stay = {};
  end_waits(thread, time_ns, record.cpu_ns);
  thread.unsampled_since_cpu_ns = record.cpu_ns;
  thread.account.pause(time_ns, record.cpu_ns, blocked, kernel_use(record), sample.counter_values(),
                       ChargeSink(charges_, thread.main));
  thread.sampled.sample(time_ns, record.cpu_ns, blocked, {},
                        [&](std::uint64_t begin_ns, std::uint64_t end_ns, const IntervalPaths& paths) {
                          spent(thread, begin_ns, end_ns, paths);
                        });
  sampled_until(thread, time_ns);
}

void SampleCharger::take_stack(RecordedThread& thread, std::uint32_t slot, const RingSample& sample,
                               std::uint64_t time_ns) {
  const wire::SampleRecord& record = sample.record;
  thread.words.update(sample);
  if ((record.flags & wire::kHasPython) != 0) thread.runs_python = true;
  StackContext context = context_of(record);
  const ChargeSink sink(charges_, thread.main);
  // A thread in the interpreter's take_gil waits, even if a tick finds it awake there: its CPU time is the
  // cost of handing the GIL over, not work.
  const bool blocked =
      (record.trigger == wire::Trigger::kBlocked && context.in_syscall) || context.waiting_for_gil;
  ChargeTarget target = find_target(thread, record.flags, blocked, time_ns, context);
  if (thread.runs_python) callers_.sample(slot, time_ns, blocked, target.path);
  target.task = task_row(thread, sample, context);
  if (thread.main && !holds_places_) last_path_.note(thread.words.words(), target.path, time_ns);
  if (record.trigger == wire::Trigger::kEvent) {
    thread.account.event(time_ns, kernel_use(record), target, sample.counter_values(), sink);
    return;
  }

  KernelUse kernel = kernel_use(record);
  kernel.in_syscall = context.in_syscall;
  kernel.may_fault =
      target.category == shard::Category::kPython || target.category == shard::Category::kNative;
  statistics_.knows_page_faults =
      statistics_.knows_page_faults || record.system_ns != 0 || record.page_faults != 0;
  const ThreadAccount::Charged charged =
      thread.account.sample(time_ns, record.cpu_ns, blocked, kernel, target, sample.counter_values(), sink);
  const double runnable = charged.runnable_share;
  thread.sampled.sample(time_ns, record.cpu_ns, blocked, {target.path, context.mpi_op == 0},
                        [&](std::uint64_t begin_ns, std::uint64_t end_ns, const IntervalPaths& paths) {
                          IntervalPaths at_work = paths;
                          // What is left without the time that it had no processor, has all that it ran.
                          if (runnable < 1) at_work.ran = std::min(paths.ran / (1 - runnable), 1.0);
                          spent(thread, begin_ns, end_ns, at_work, 1 - runnable);
                          if (runnable > 0)
                            spent(thread, begin_ns, end_ns,
                                  {runnable_path(paths.without_call), runnable_path(paths.before_call),
                                   runnable_path(paths.after_call)},
                                  runnable);
                        });
  sampled_until(thread, time_ns);
  if (record.trigger == wire::Trigger::kStop) return;  // no sample
  if (thread.loops.has_loops())
    thread.loops.sample(time_ns, record.cpu_ns, blocked,
                        context.in_syscall && waits_for_events(record.syscall_nr), target.path);
  take_mutex(thread, record, blocked, target, charged, time_ns);
  const PlacesOfThread::Look look = {time_ns, record.cpu_ns, blocked, charged.waited_ns};
  thread.places.note(look, target.path, function_of(target.path));
  count(thread, record, blocked, target, charged);
  if (holds_places_) return;
  know_thread(thread, blocked, target, charged);
  thread.stay.sample(place_of(target, record), time_ns, record.cpu_ns);
}

std::uint64_t RecordedThread::mutex_wait_ns(std::uint64_t until_ns,
                                            std::optional<std::uint64_t> cpu_ns) const noexcept {
  if (mutex.address == 0) return 0;
  const std::uint64_t passed_ns = until_ns > mutex_since_ns ? until_ns - mutex_since_ns : 0;
  const std::uint64_t ran_ns = cpu_ns && *cpu_ns > mutex_since_cpu_ns ? *cpu_ns - mutex_since_cpu_ns : 0;
  return mutex_before_ns + passed_ns - std::min(passed_ns, ran_ns);
}

void SampleCharger::add_mutex_wait(RawMutexKey mutex, const RawMutexWait& wait, std::size_t most) {
  if (mutex_waits_.size() >= most && !mutex_waits_.contains(mutex)) mutex = {};
  mutex_waits_[mutex].add(wait);
}

void SampleCharger::end_mutex_wait(RecordedThread& thread, std::uint64_t time_ns,
                                   std::optional<std::uint64_t> cpu_ns, const SeenWaiting& again) {
  const std::uint64_t wait_ns = thread.mutex_wait_ns(time_ns, cpu_ns);
  if (wait_ns != 0 || thread.mutex_may_go_on) {
    if (thread.awaits_wake)
      wakes_.ended({thread.mutex, thread.tid, thread.mutex_since_ns, time_ns, thread.mutex_before_ns, wait_ns,
                    again.between_ns, again.may_go_on});
    else
      add_mutex_wait(thread.mutex, {wait_ns, 1, wait_ns});
  }
  thread.mutex = {};
  thread.awaits_wake = thread.mutex_may_go_on = false;
}

void SampleCharger::end_waits(RecordedThread& thread, std::uint64_t time_ns,
                              std::optional<std::uint64_t> cpu_ns) {
  end_mutex_wait(thread, time_ns, cpu_ns, {});
  end_spins(thread, time_ns);
}

// Each sample with the next one, if both are of one call path.
void SampleCharger::unite_spins(std::vector<Spin>& spins) {
  std::vector<Spin> united;
  bool may_join = false;
  for (const Spin& spin : spins) {
    if (may_join && united.back().key == spin.key) {
      united.back().seen_ns = spin.seen_ns;
      united.back().wait.add(spin.wait);
      may_join = false;
    } else {
      united.push_back(spin);
      may_join = true;
    }
  }
  spins = std::move(united);
}

// The lock's next release ends the wait, which may be many samples later.
void SampleCharger::end_spins(RecordedThread& thread, std::uint64_t time_ns) {
  for (Spin& spin : thread.spins) {
    spin.end_ns = time_ns;
    wakes_.spun(spin);
  }
  thread.spins.clear();
}

std::map<RawMutexKey, RawMutexWait> SampleCharger::mutex_waits() const {
  std::map<RawMutexKey, RawMutexWait> waits;
  for (const auto& [key, wait] : mutex_waits_) waits[wakes_.of_object(key)].add(wait);
  for (const EndedWait& ended : wakes_.unsettled())
    waits[wakes_.of_object(ended.key)].add({ended.wait_ns, 1, ended.wait_ns});
  for (const Spin& spin : wakes_.unsettled_spins()) waits[spin.key].add(spin.wait);
  return waits;
}

void SampleCharger::settle_waits(std::uint64_t until_ns) {
  wakes_.settle(
      until_ns, [this](const EndedWait& ended, const Wake* wake) { settle(ended, wake); },
      [this](const Spin& spin) {
        RawMutexKey key = spin.key;
        if (const Release* const release = wakes_.find(spin); release != nullptr)
          key.holder_path = release->path;
        // Arrays of spin locks leave room for the others.
        add_mutex_wait(key, spin.wait, kMostMutexWaits / 2);
      });
}

void SampleCharger::settle(const EndedWait& ended, const Wake* wake) {
  if (wake == nullptr) return add_mutex_wait(ended.key, {ended.wait_ns, 1, ended.wait_ns});
  // Until it was woken: what it did then, before it was sampled again, is no part of the wait.
  const std::uint64_t wait_ns = ended.before_ns + wake->time_ns - ended.seen_ns;
  const std::uint64_t begin_ns = wake->time_ns - std::min(wake->time_ns, wait_ns);
  std::uint64_t longest_ns = wait_ns, waits = 1;
  for (const PlacesOfThread::Part& part : wake->places.parts(begin_ns, wake->time_ns)) {
    RawMutexKey key = ended.key;
    key.holder_path = part.path;
    add_mutex_wait(key, {part.time_ns, waits, longest_ns});
    waits = longest_ns = 0;
  }
}

void SampleCharger::take_mutex(RecordedThread& thread, const wire::SampleRecord& record, bool blocked,
                               const ChargeTarget& target, const ThreadAccount::Charged& charged,
                               std::uint64_t time_ns) {
  const bool has_holder = (record.flags & wire::kAtMutex) != 0;
  const bool awaits_wake = (record.flags & wire::kAtWord) != 0;
  const bool waits = blocked && (has_holder || awaits_wake) && target.category == shard::Category::kIdle;
  RawMutexKey key;
  if (waits) {
    const std::uint32_t holder_path =
        has_holder && path_of_thread_ ? path_of_thread_(record.mutex_holder) : 0;
    const StackResolver::DataPlace place = stacks_.data_place(record.data_address);
    key = {target.path, holder_path, record.data_address, place.module, place.elf_address};
  }
  // A tick that came while the handler was at work finds the thread in the wait to which that returns.
  constexpr std::uint64_t kMostOfHandlerNs = 1'000'000;
  const bool is_in_call = (record.flags & wire::kInSyscall) != 0;
  const bool goes_on = !blocked && is_in_call && thread.awaits_wake && target.path == thread.mutex.path &&
                       record.cpu_ns - thread.mutex_since_cpu_ns < kMostOfHandlerNs;
  const bool may_go_on = awaits_wake && thread.awaits_wake && key == thread.mutex;
  if (!goes_on) end_mutex_wait(thread, time_ns, record.cpu_ns, {charged.between_ns, may_go_on});
  if (charged.unseen_wait_ns != 0 && thread.last_mutex.address != 0)
    add_mutex_wait(thread.last_mutex, {charged.unseen_wait_ns, 0, 0});
  take_spin(thread, record, target, charged, time_ns);
  if (!blocked) return;
  thread.last_mutex = {};
  if (!waits) return;
  thread.mutex = key;
  thread.mutex_since_ns = time_ns;
  thread.mutex_since_cpu_ns = record.cpu_ns;
  thread.mutex_before_ns = may_go_on ? 0 : charged.waited_ns;
  thread.awaits_wake = awaits_wake;
  thread.mutex_may_go_on = may_go_on;
  if (has_holder) thread.last_mutex = thread.mutex;
}

void SampleCharger::take_spin(RecordedThread& thread, const wire::SampleRecord& record,
                              const ChargeTarget& target, const ThreadAccount::Charged& charged,
                              std::uint64_t time_ns) {
  // In MPI, what the library does to itself is not told.
  const bool spins = (record.flags & wire::kAtSpinLock) != 0 && target.category == shard::Category::kNative;
  if (!thread.spins.empty() && (!spins || thread.spins.back().key.address != record.data_address))
    end_spins(thread, time_ns);
  if (!spins) return;
  const StackResolver::DataPlace place = stacks_.data_place(record.data_address);
  Spin spin;
  spin.key = {target.path, 0, record.data_address, place.module, place.elf_address};
  spin.tid = thread.tid;
  spin.before_ns = thread.spins.empty() ? 0 : thread.spins.back().seen_ns;
  spin.seen_ns = time_ns;
  const std::uint64_t own_ns = charged.cpu_ns - std::min(charged.cpu_ns, charged.page_fault_ns);
  spin.wait = {own_ns, 1, own_ns};
  if (thread.spins.size() >= kMostSpins) unite_spins(thread.spins);
  if (thread.spins.size() >= kMostSpins) end_spins(thread, time_ns);
  thread.spins.push_back(spin);
}

bool SampleCharger::may_be_used(const RecordedThread& thread) const {
  if (thread.main || thread.runs_python || thread.origin.module == kNoModule) return false;
  const ThreadPool* const pool = stacks_.pool(thread.origin.module);
  return pool == nullptr || pool->kind != PoolKind::kHelper;
}

// Whose thread it is has to be known before the first sample, or be seen from it: its paths begin there.
ChargeTarget SampleCharger::find_target(RecordedThread& thread, std::uint32_t flags, bool blocked,
                                        std::uint64_t time_ns, StackContext& context) {
  constexpr std::uint32_t kMostLooks = 4;  // modules are described a moment after they are used
  using Of = StackResolver::ThreadOf;
  const bool looks =
      !thread.main && thread.origin.of == Of::kUnknown && thread.origins_looked_for < kMostLooks;
  if (looks) {
    ++thread.origins_looked_for;
    thread.origin = stacks_.origin_of_start(thread.start_function);
    // A stack that lacks its beginning begins anywhere.
    if (thread.origin.of == Of::kUnknown && (flags & wire::kNativeTruncated) == 0)
      thread.origin = stacks_.origin_on_path(stacks_.resolve(thread.words.words(), context).path);
  }
  context.pool = thread.origin.pool;
  if (may_be_used(thread)) {
    // What a thread waits for between two uses is nobody's, asleep or in a loop as OpenMP's do.
    if (!blocked && context.openmp == wire::OmpActivity::kNone)
      context.below = callers_.caller(time_ns, thread.origin.module, period_ns_, store_.tables());
    if (context.below != 0) context.pool = thread.origin.module;
  }
  return stack_charges_.target(thread.words.words(), context, thread.main);
}

// The task's own frames, without those of C, below those that await it.
std::uint32_t SampleCharger::task_row(const RecordedThread& thread, const RingSample& sample,
                                      const StackContext& context) {
  std::uint32_t missing = sample.record.task_frames;
  if (missing == 0) return ChargeTarget::kNoRow;
  task_words_.clear();
  const std::span<const std::uint64_t> words = thread.words.words();
  for (std::size_t i = 0; i + 1 < words.size() && missing != 0; ++i) {
    if ((words[i] & wire::kFrameTagMask) != wire::kPythonFrameTag) continue;
    task_words_.insert(task_words_.end(), {words[i], words[i + 1]});
    ++i;
    --missing;
  }
  if (missing != 0) return ChargeTarget::kNoRow;
  const std::size_t own = task_words_.size();
  task_words_.resize(own + sample.record.await_words);
  if (sample.record.await_words != 0)
    std::memcpy(task_words_.data() + own, sample.await_words, 8u * sample.record.await_words);
  StackContext of_task;
  of_task.epoch = context.epoch;
  of_task.pool = context.pool;
  char name[wire::kTaskNameBytes];  // the process may be writing it
  std::memcpy(name, sample.task_name, sample.record.task_name_bytes);
  const std::uint32_t path = stacks_.resolve(task_words_, of_task).path;
  const auto from_coroutine = std::span<const std::uint64_t>(task_words_).subspan(own - 2);
  return charges_.tasks().row(path, stacks_.resolve(from_coroutine, of_task).path,
                              {name, sample.record.task_name_bytes});
}

// The exact address differs from sample to sample: what was called from one place is counted as one.
std::uint32_t SampleCharger::function_of(std::uint32_t path) const {
  const RawTables& tables = store_.tables();
  const bool is_exact = path != 0 && tables.frames[tables.nodes[path].frame].kind == RawKind::kNativeExact;
  const std::uint32_t parent = tables.nodes[path].parent;
  return is_exact && parent != 0 ? parent : path;
}

void SampleCharger::know_thread(RecordedThread& thread, bool blocked, const ChargeTarget& target,
                                const ThreadAccount::Charged& charged) const {
  thread.last_path = target.path;
  const std::uint32_t counted_as = function_of(target.path);
  if (!blocked && target.category != shard::Category::kIdle) {
    thread.busiest.add(counted_as, target.path, charged.wall_ns);
  } else if (target.category == shard::Category::kIo) {
    thread.busiest.add(counted_as, target.path, period_ns_);
  }
}

// Instructions of one function are places of one caller: how far they are apart tells whether it is a loop.
Place SampleCharger::place_of(const ChargeTarget& target, const wire::SampleRecord& record) const {
  const RawTables& tables = store_.tables();
  const std::uint32_t path = target.path;
  const RawFrame& leaf = tables.frames[tables.nodes[path].frame];
  Place place;
  place.path = path;
  place.category = target.category;
  if (path == 0 || (leaf.kind != RawKind::kNativeExact && leaf.kind != RawKind::kPython)) return place;
  place.path = tables.nodes[path].parent;
  place.code = (std::uint64_t{leaf.a} + 1) << 1 | (leaf.kind == RawKind::kPython ? 1 : 0);
  place.is_native = leaf.kind == RawKind::kNativeExact;
  place.instruction = place.is_native ? leaf.b : static_cast<std::uint32_t>(leaf.b);
  if (place.is_native && (record.flags & wire::kMemoryOperand) != 0) place.data = record.data_address;
  // From Python 3.11 on, instructions have their caches behind them.
  constexpr std::uint32_t kPython311 = 0x030b'0000;
  const bool has_caches = segment_.header().python_version.load(std::memory_order_relaxed) >= kPython311;
  place.loop = place.is_native ? Place::kNativeLoopBytes
               : has_caches    ? Place::kPythonLoopUnits
                               : Place::kPythonLoopUnitsWithoutCaches;
  return place;
}

void SampleCharger::count(RecordedThread& thread, const wire::SampleRecord& record, bool blocked,
                          const ChargeTarget& target, const ThreadAccount::Charged& charged) {
  const bool is_fault = 2 * charged.page_fault_ns > charged.cpu_ns;
  charges_.add_sample(is_fault ? ChargeSink(charges_, thread.main).fault_target(target).row : target.row);
  if (target.task != ChargeTarget::kNoRow) charges_.tasks().add_sample(target.task);
  ++statistics_.samples;
  if (!blocked) {
    ++statistics_.running_samples;
    const bool wall_timer = record.trigger == wire::Trigger::kWallTimer;
    statistics_.running_ns += wall_timer ? charged.wall_ns : charged.cpu_ns;
    thread.unsampled_since_cpu_ns = record.cpu_ns;
    if (target.category == shard::Category::kNative)
      charges_.add_access(target.row, (record.flags & wire::kMemoryOperand) != 0, record.data_address);
  }
  if (record.handler_ns != 0) statistics_.handler_costs.add(record.handler_ns);
}

void SampleCharger::end_without_record(RecordedThread& thread, std::uint64_t time_ns) {
  end_waits(thread, time_ns, std::nullopt);
  end_account(thread, time_ns, std::nullopt, nullptr, {});
}

// `kernel`: the thread itself has reported its end.
void SampleCharger::end_account(RecordedThread& thread, std::uint64_t time_ns,
                                std::optional<std::uint64_t> cpu_ns, const KernelUse* kernel,
                                std::span<const std::uint64_t> counters) {
  ThreadAccount::End how;
  how.kernel = kernel;
  if (!thread.account.has_samples())
    how.start_path = stacks_.start_path(thread.start_function, thread.origin.pool);
  const std::optional<std::uint64_t> unsampled =
      thread.account.end(time_ns, cpu_ns, period_ns_, how, counters, ChargeSink(charges_, thread.main));
  // Ticks begin at a random phase: on average, the time that threads run after their last sample makes up for
  // first samples that came after less than a period.
  if (cpu_ns && *cpu_ns > thread.unsampled_since_cpu_ns)
    statistics_.running_ns += *cpu_ns - thread.unsampled_since_cpu_ns;
  // Nothing is known of a thread that did not report its running time.
  if (!unsampled || !cpu_ns) return;
  ++statistics_.unsampled_threads;
  statistics_.unsampled_cpu_ns += *unsampled;
}

std::uint32_t SampleCharger::runnable_path(std::uint32_t path) {
  return path == kNoPath ? kNoPath : store_.leaf(path, store_.frame({RawKind::kRunnable, 0, 0}));
}

}  // namespace clusterprof::collector
