// SPDX-License-Identifier: BSD-3-Clause
// poll() empties the rings, report() puts together what is known. Called by the NodeState, on the thread of
// the server's event loop.
#include "collector/process/process_recorder.hpp"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/thread_pools.hpp"
#include "collector/memory/labelled_reader.hpp"
#include "collector/process/python_note.hpp"
#include "formats/wire/c10d_functions.h"

namespace clusterprof::collector {
namespace {

// That one process can have executed or spawned: more is damage.
constexpr std::uint64_t kMaxUnrecordedPrograms = std::uint64_t{1} << 32;

// Adds the time that a thread has not been charged yet to a report on the present state.
struct ReportSink {
  ProcessReport& report;
  LiveTimes* live;  // null: not for a live file
  const ProcessCharges& charges;
  TimeGrid& grid;
  bool main_thread;
  // For a live file, of a main thread: the MPI call that it is in. A thread that is blocked there has no
  // samples, and its last one may be of what it did long before.
  const RawCallUnderWay* call;
  std::uint64_t in_call_ns = call == nullptr ? 0 : call->lasted_ns;  // that are not charged yet

  void operator()(const ChargeTarget& target, std::uint64_t wall_ns, std::uint64_t cpu_ns) {
    if (live != nullptr) {
      const std::uint64_t in_call = std::min(wall_ns, in_call_ns);
      in_call_ns -= in_call;
      if (in_call != 0) live->add_open(call->path, shard::Category::kMpi, in_call);
      live->add_open(target.path, target.category, main_thread ? wall_ns - in_call : cpu_ns);
    }
    const RawAmount amount{wall_ns, cpu_ns, 0};
    report.values[RawValueKey{live != nullptr ? 0 : target.path, target.category, main_thread}].add(amount);
    if (live == nullptr && target.task != ChargeTarget::kNoRow)
      report.tasks[charges.tasks().key(target.task)].add(amount);
  }
  void counter(const ChargeTarget& target, std::uint32_t index, std::uint64_t value) const {
    const std::vector<std::uint32_t>& known = charges.counter_numbers();
    if (live == nullptr && index < known.size())
      report.counters[RawCounterKey{target.path, known[index]}] += value;
  }
  void paused(std::uint64_t) const {}  // ProcessRecorder::paused_ns is more exact
  // Only the kernel knows this time, and it is not asked for a report on the present state.
  [[nodiscard]] static ChargeTarget runnable(const ChargeTarget& of) { return of; }
  void runnable_in_mpi(const Stretch&, std::uint64_t) const {}
  void spent(const ChargeTarget& target, const Stretch& when, std::uint64_t wall_ns) const {
    if (live != nullptr) return;
    report.open_times.push_back({target.path, when, wall_ns});
    if (main_thread)
      report.main_series.spread(grid, static_cast<std::uint32_t>(target.category), when.begin_ns, when.end_ns,
                                wall_ns);
  }
  // The end of an account has no faults of its own.
  void page_fault_spent(const ChargeTarget& of, const Stretch& when, std::uint64_t wall_ns) const {
    spent(of, when, wall_ns);
  }
  void counted(std::uint32_t index, const Stretch& when, std::uint64_t value) const {
    const std::vector<std::uint32_t>& known = charges.counter_numbers();
    if (live == nullptr && index < known.size())
      report.counter_series.spread(grid, known[index], when.begin_ns, when.end_ns, value);
  }
};

// Without the line that its beginning has cut: half of a secret would not be recognised as one.
std::string stderr_tail(const wire::LastWords& words) {
  constexpr std::uint64_t kRoom = wire::kStderrTailBytes;
  const std::uint64_t all = words.stderr_bytes.load(std::memory_order_relaxed);
  const std::uint64_t kept = std::min(all, kRoom);
  std::string text;
  text.reserve(kept);
  for (std::uint64_t i = all - kept; i < all; ++i) {
    const char c = words.stderr_tail[i % kRoom];
    text += c == 0 ? ' ' : c;
  }
  if (all > kept) text.erase(0, std::min(text.find_first_of("\r\n"), text.size() - 1) + 1);
  return text;
}

// What a slot has, which its process may be writing.
std::string name_in(const char (&name)[16]) { return bounded_text(name, sizeof name); }

shard::ThreadKind kind_of(PoolKind pool) {
  switch (pool) {
    case PoolKind::kOpenMp:
      return shard::ThreadKind::kOpenMp;
    case PoolKind::kHelper:
      return shard::ThreadKind::kHelper;
    case PoolKind::kNative:
      break;
  }
  return shard::ThreadKind::kNative;
}

TimeInMpi::Thread for_time_in_mpi(const RecordedThread& thread) {
  const bool ended = thread.state == RecordedThread::State::kEnded;
  return {thread.tid, thread.main, thread.start_time_ns,
          ended ? std::optional(thread.ended_ns) : std::nullopt};
}

void add_call_under_way(ProcessReport& report, const RawCallUnderWay& call) {
  report.calls_under_way.push_back(call);
  RawCall unfinished;
  unfinished.time_ns = call.lasted_ns;
  unfinished.unfinished = 1;
  report.calls[RawCallKey{call.path, call.channel, call.main_thread}].add(unfinished);
}

}  // namespace

ProcessRecorder::ProcessRecorder(SegmentView segment, RawStore& store, TimeGrid& grid, PathTimes& path_times,
                                 std::uint32_t base)
    : segment_(std::move(segment)),
      store_(store),
      grid_(grid),
      pid_(segment_.header().pid),
      start_(segment_.header().start_mono_ns),
      windows_(segment_.header()),
      slots_(segment_),
      stacks_(segment_, store, drops_, base),
      charges_(store, grid, path_times),
      call_sites_(segment_, store, stacks_, drops_),
      events_(segment_, start_, windows_, call_sites_, drops_),
      time_in_mpi_(segment_, start_, windows_, stacks_, drops_),
      samples_(segment_, store, stacks_, charges_, events_, drops_),
      memory_(segment_, start_, stacks_, drops_),
      tables_(segment_, start_, store, stacks_, call_sites_, charges_, drops_),
      openmp_(segment_, start_, store, stacks_) {
  samples_.ask_for_paths([this](std::int32_t tid) {
    for (const auto& [slot, thread] : threads_)
      if (thread.tid == tid && thread.state == RecordedThread::State::kActive) return thread.last_path;
    return std::uint32_t{0};
  });
}

std::vector<ProcessRecorder::Launched> ProcessRecorder::take_launches(std::uint64_t now_ns, bool all) {
  std::vector<Launched> launched;
  const wire::SegmentHeader& h = header();
  if (h.launches_made.load(std::memory_order_acquire) == 0) return launched;
  for (std::size_t i = 0; i < wire::kLaunches; ++i) {
    const wire::Launch& row = h.launches[i];
    const std::uint64_t number = row.number.load(std::memory_order_acquire);
    if (number == 0 || number == launches_taken_[i]) continue;
    Launched one;
    one.pid = row.pid;
    one.kind = row.kind;
    one.reason = row.reason;
    one.time_ns = row.time_ns;
    one.path_offset = wire::shell_path_offset(row.path);
    one.path_words = wire::shell_path_words(row.path);
    // Read once: the process may change it at any time.
    const std::uint32_t bytes = *const_cast<const volatile std::uint32_t*>(&row.command_bytes);
    one.command.assign(row.command, std::min(bytes, wire::kLaunchCommandBytes));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (row.number.load(std::memory_order_relaxed) != number) continue;
    if (!all && now_ns < one.time_ns + wire::kLaunchSettlesNs) continue;
    launches_taken_[i] = number;
    const bool is_valid = one.pid > 0 && one.reason <= wire::UnrecordedReason::kCount &&
                          one.kind <= wire::CreationKind::kShell && one.time_ns <= now_ns;
    if (is_valid) launched.push_back(std::move(one));
  }
  std::sort(launched.begin(), launched.end(),
            [](const Launched& x, const Launched& y) { return x.time_ns < y.time_ns; });
  return launched;
}

std::optional<std::uint64_t> ProcessRecorder::executes_since_ns(std::uint64_t now_ns) const {
  const wire::SegmentHeader& h = header();
  std::optional<std::uint64_t> since_ns;
  if (h.launches_made.load(std::memory_order_acquire) == 0) return since_ns;
  for (const wire::Launch& row : h.launches) {
    const std::uint64_t number = row.number.load(std::memory_order_acquire);
    const std::int32_t pid = row.pid;
    const std::uint64_t time_ns = row.time_ns;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (number == 0 || row.number.load(std::memory_order_relaxed) != number) continue;
    if (pid == pid_ && time_ns <= now_ns) since_ns = std::max(since_ns.value_or(0), time_ns);
  }
  return since_ns;
}

void ProcessRecorder::turn_off(std::uint64_t now_ns) {
  segment_.header().turned_off_ns.store(now_ns, std::memory_order_release);
}

void ProcessRecorder::want_window(std::uint32_t number, bool open) {
  if (!windows_.are_possible()) return;
  std::atomic<std::uint32_t>& word = segment_.header().window_wanted;
  word.store(wire::window_word(number, open), std::memory_order_release);
  (void)syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool ProcessRecorder::has_done(std::uint32_t number, bool open) const {
  return segment_.header().window_done.load(std::memory_order_acquire) == wire::window_word(number, open);
}

std::size_t ProcessRecorder::count_threads(std::uint64_t now_ns) {
  // Before the first round. Later, those that are new in a round are counted at the next one.
  if (threads_.empty()) return slots_.find(now_ns).size();
  return std::max(threads_.size(), slots_.found().size());
}

double ProcessRecorder::poll(std::uint64_t now_ns) {
  events_.begin_round(now_ns);
  start_.check(grid_.begun() ? std::optional(grid_.start_mono_ns()) : std::nullopt, now_ns);
  windows_.look(segment_.header(), start_, now_ns);
  stacks_.read_descriptions(now_ns);
  double fullest = memory_.poll(now_ns);
  freed_slots_ = 0;
  left_from_ns_ = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::uint32_t>& slots = slots_.find(now_ns);
  // Threads of pools come last: for whom they work is seen from the samples of those that use them.
  for (const bool used : {false, true})
    for (const std::uint32_t slot : slots)
      if (may_be_used(slot) == used) fullest = std::max(fullest, drain(slot, now_ns));
  // The last thread at a barrier writes its record behind its call: others may have gone on long before.
  constexpr std::uint64_t kLateRecordNs = 500'000'000;
  samples_.settle_waits(std::min({read_until_ns_, left_from_ns_, now_ns - std::min(now_ns, kLateRecordNs)}));
  read_until_ns_ = now_ns;
  update_measured_mpi(now_ns);
  update_openmp(now_ns);
  events_.agree_on_level();
  return std::max(fullest, static_cast<double>(freed_slots_) / std::max(1u, segment_.layout().thread_slots));
}

bool ProcessRecorder::may_be_used(std::uint32_t slot) const {
  const auto thread = threads_.find(slot);
  return thread != threads_.end() && samples_.may_be_used(thread->second);
}

std::uint64_t ProcessRecorder::main_thread_still_ns(std::uint64_t now_ns) const {
  for (const std::uint32_t index : slots_.found()) {
    const auto thread = threads_.find(index);
    if (thread == threads_.end() || !thread->second.main ||
        thread->second.state != RecordedThread::State::kActive)
      continue;
    return std::max(thread->second.stay.unmoved_ns(now_ns),
                    TimeInMpi::in_call_ns(segment_.thread_slot(index), now_ns));
  }
  return 0;
}

std::uint64_t ProcessRecorder::finish(std::uint64_t end_ns, std::uint64_t now_ns) {
  slots_.look_again();
  takes_all_ = true;
  poll(now_ns);
  end_ns = std::max({end_ns, start_.not_after(now_ns), latest_record_ns()});
  for (const auto& [slot, thread] : threads_)
    if (thread.state != RecordedThread::State::kNone) end_ns = std::max(end_ns, thread.begin_ns);
  end_ns = std::min(end_ns, now_ns);
  for (const std::uint32_t index : slots_.found()) {
    RecordedThread& thread = threads_[index];
    if (thread.state != RecordedThread::State::kNone) {
      time_in_mpi_.end_thread(for_time_in_mpi(thread), segment_.thread_slot(index), end_ns);
      thread.loops.charge(segment_.thread_slot(index), end_ns, true, store_.tables(), drops_);
      read_names(thread, segment_.thread_slot(index));
      add_loops(ended_loops_, thread, segment_.thread_slot(index), end_ns);
    }
    end_replaced_thread(thread, end_ns);
  }
  samples_.settle_waits(std::numeric_limits<std::uint64_t>::max());
  stacks_.finish(pid_, static_cast<std::int64_t>(segment_.header().start_realtime_ns), end_ns);
  memory_.finish(end_ns);
  update_mpi_counters(end_ns);
  finished_ = true;
  return end_ns;
}

void ProcessRecorder::end_replaced_thread(RecordedThread& thread, std::uint64_t end_ns) {
  if (thread.state == RecordedThread::State::kActive) samples_.end_without_record(thread, end_ns);
  events_.finish(thread.events);
  keep_ended(thread, end_ns);
}

void ProcessRecorder::keep_ended(RecordedThread& thread, std::uint64_t end_ns) {
  if (thread.state == RecordedThread::State::kEnded) end_ns = thread.ended_ns;
  if (thread.state != RecordedThread::State::kNone) {
    ended_threads_.add(row_of(thread, thread.account, end_ns, false));
    samples_.ties().end(thread.ties, end_ns, thread.events.number);
  }
  thread.state = RecordedThread::State::kNone;
}

void ProcessRecorder::read_names(RecordedThread& thread, const wire::ThreadSlot& slot) {
  // The slot may have gone to the next thread.
  if (slot.tid != thread.tid || slot.start_time_ns != thread.start_time_ns) return;
  thread.kernel_name = name_in(slot.name);
  thread.inherited_name = name_in(slot.inherited_name);
  const std::uint32_t bytes = slot.python_name_bytes.load(std::memory_order_acquire);
  if (bytes == 0 || bytes > wire::kThreadNameBytes) return;  // it has none, or it changes at this moment
  std::array<std::uint64_t, wire::kThreadNameBytes / 8> words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = slot.python_name[i].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.python_name_bytes.load(std::memory_order_relaxed) != bytes) return;
  thread.python_name.assign(reinterpret_cast<const char*>(words.data()), bytes);
}

shard::Thread ProcessRecorder::row_of(const RecordedThread& thread, const ThreadAccount& account,
                                      std::uint64_t end_ns, bool runs) {
  using Of = StackResolver::ThreadOf;
  StackResolver::ThreadOrigin origin = thread.origin;
  if (!thread.main && origin.of == Of::kUnknown) origin = stacks_.origin_of_start(thread.start_function);
  const ThreadPool* const pool = origin.of == Of::kPool ? stacks_.pool(origin.pool) : nullptr;
  shard::Thread row;
  row.pid = pid_;
  row.tid = thread.tid;
  if (thread.main) {
    row.kind = shard::ThreadKind::kMain;
  } else if (pool != nullptr) {
    row.kind = kind_of(pool->kind);
  } else if (thread.runs_python || !thread.python_name.empty() || origin.of == Of::kPython) {
    row.kind = shard::ThreadKind::kPython;
  }
  if (runs) row.flags |= shard::Thread::kRuns;
  row.path = thread.start_function != 0 ? stacks_.start_path(thread.start_function, origin.pool) : 0;
  row.top_path = thread.busiest.path();
  row.last_path = thread.last_path;
  row.unmoved_ns = thread.stay.unmoved_ns(end_ns);
  row.unmoved_cpu_ns = thread.stay.cpu_ns();
  row.last_category = thread.stay.category();
  if (grid_.begun()) row.start_utc_ns = grid_.utc_ns(thread.begin_ns);
  row.elapsed_ns = end_ns - std::min(end_ns, thread.begin_ns);
  const std::uint64_t cpu_ns = account.cpu_ns() - std::min(account.cpu_ns(), thread.begin_cpu_ns);
  row.cpu_ns = row.cpu_min_ns = row.cpu_max_ns = std::min(cpu_ns, row.elapsed_ns);
  // A new thread has the kernel's name of the one that made it, which is no name of its own.
  if (!thread.python_name.empty()) {
    row.name = thread.python_name;
  } else if (!thread.kernel_name.empty() && thread.kernel_name != thread.inherited_name) {
    row.name = thread.kernel_name;
  } else if (thread.main) {
    row.name = "main";
  } else if (pool != nullptr) {
    row.name = pool->name;
  }
  return row;
}

void ProcessRecorder::begin_thread(RecordedThread& thread, const wire::ThreadSlot& slot,
                                   std::uint64_t now_ns) {
  thread.start_function = slot.start_function;
  thread.words.clear();
  thread.main = slot.is_main == 1 || thread.tid == pid_;
  thread.state = RecordedThread::State::kActive;
  const std::uint64_t not_before = start_.not_after(now_ns);
  const std::uint64_t begin = std::clamp(thread.start_time_ns, not_before, now_ns);
  thread.account = ThreadAccount(begin, slot.start_cpu_ns, samples_.cpu_clock());
  thread.unsampled_since_cpu_ns = slot.start_cpu_ns;
  thread.begin_ns = begin;
  thread.begin_cpu_ns = slot.start_cpu_ns;
  if (thread.main) start_.begin_recording(begin);
  thread.kernel_name.clear();
  thread.inherited_name.clear();
  thread.python_name.clear();
  read_names(thread, slot);
  thread.runs_python = false;
  thread.origin =
      thread.main ? StackResolver::ThreadOrigin{} : stacks_.origin_of_start(thread.start_function);
  thread.origins_looked_for = 0;
  thread.last_path = 0;
  thread.busiest = {};
  thread.stay = {};
  thread.mutex = thread.last_mutex = {};
  thread.awaits_wake = thread.mutex_may_go_on = false;
  thread.spins.clear();
  thread.places = {};
  thread.sampled = SampledTime(begin, slot.start_cpu_ns);
  thread.events.timeline = GapTimeline(not_before);  // a new thread may already be in its first call
  thread.events.number.reset();
  samples_.ties().begin(thread.ties, thread.main, thread.tid, begin);
  thread.loops = ThreadLoops();
  thread.window_begin_ns = thread.window_end_ns = 0;
  // The window may have been opened since the last look.
  if (windows_.leaves_gaps() && !windows_.is_recorded(begin))
    windows_.look(segment_.header(), start_, std::max(now_ns, begin + 1));
  thread.is_off = windows_.leaves_gaps() && !windows_.is_recorded(begin);
  if (thread.is_off)
    thread.account.end_window(begin, slot.start_cpu_ns, {}, ChargeSink(charges_, thread.main));
}

std::uint64_t ProcessRecorder::taken_until_ns(const RecordedThread& thread, std::uint64_t waiting_bytes,
                                              std::uint64_t now_ns) {
  constexpr std::uint64_t kEver = std::numeric_limits<std::uint64_t>::max(), kMostWaitNs = 1'000'000'000;
  // Edges of windows are taken after the samples before them.
  if (takes_all_ || waiting_bytes > wire::kRingBytes / 4 || windows_.are_possible() ||
      !samples_.may_be_used(thread))
    return kEver;
  return std::max(samples_.user_known_until_ns(thread), now_ns - std::min(now_ns, kMostWaitNs));
}

double ProcessRecorder::drain(std::uint32_t slot_index, std::uint64_t now_ns) {
  wire::ThreadSlot& slot = segment_.thread_slot(slot_index);
  // Ask before the ring is read: if the thread has ended by now, its last record is already in the ring.
  const std::uint32_t state = slot.state.load(std::memory_order_acquire);
  const bool ended = state == static_cast<std::uint32_t>(wire::ThreadState::kEnded);
  if (!ended && state != static_cast<std::uint32_t>(wire::ThreadState::kLive)) return 0;
  const std::uint64_t waiting = slot.ring.write_position.load(std::memory_order_acquire) -
                                slot.ring.read_position.load(std::memory_order_relaxed);
  RecordedThread& thread = threads_[slot_index];
  const std::int32_t tid = slot.tid;
  const std::uint64_t start_ns = slot.start_time_ns;
  if (thread.state != RecordedThread::State::kNone && (thread.tid != tid || thread.start_time_ns != start_ns))
    end_replaced_thread(thread, std::min(start_ns, now_ns));
  if (thread.state == RecordedThread::State::kNone) {
    thread.tid = tid;
    thread.start_time_ns = start_ns;
    samples_.begin_thread(slot_index);
    begin_thread(thread, slot, now_ns);
  }
  const std::uint64_t latest_ns = now_ns + kClockToleranceNs;
  const std::uint64_t waiting_events = events_.waiting(slot_index);
  thread.loops.look(slot);
  if (waiting != 0) {
    // What its samples say of the time between MPI events has to be there before the events.
    const std::uint64_t until_ns = ended || waiting_events != 0 ? std::numeric_limits<std::uint64_t>::max()
                                                                : taken_until_ns(thread, waiting, now_ns);
    const bool sane = wire::ring_drain(
        slot.ring,
        [&](const wire::RecordHeader& record) {
          samples_.take(thread, slot_index, record, slot.ring, latest_ns);
        },
        [&](const wire::RecordHeader& record) {
          if (sample_time_ns(record, slot.ring) <= until_ns) return true;
          left_from_ns_ = std::min(left_from_ns_, until_ns);
          return false;
        });
    if (!sane) {
      drops_.add("damaged_ring");
      thread.words.clear();  // of what was lost
    }
  }
  // What stays is no sign that rings are to be read sooner.
  const std::uint64_t left_bytes = slot.ring.write_position.load(std::memory_order_relaxed) -
                                   slot.ring.read_position.load(std::memory_order_relaxed);
  thread.loops.charge(slot, latest_ns, ended, store_.tables(), drops_);
  samples_.take_window_edges(thread, slot, now_ns);
  // Otherwise the next thread of this slot would get what the ended one leaves in the ring.
  const std::uint64_t latest_event_ns = ended ? latest_ns + kMaxStopNs : latest_ns;
  events_.take(thread.events, slot_index, latest_event_ns, latest_event_ns);
  if (ended) {
    if (thread.state == RecordedThread::State::kActive) samples_.end_without_record(thread, now_ns);
    time_in_mpi_.end_thread(for_time_in_mpi(thread), slot, now_ns);
    read_names(thread, slot);
    add_loops(ended_loops_, thread, slot, now_ns);
    events_.finish(thread.events);
    keep_ended(thread, now_ns);
    slot.state.store(static_cast<std::uint32_t>(wire::ThreadState::kFree), std::memory_order_release);
    ++freed_slots_;
  }
  const auto share = [](std::uint64_t part, std::uint64_t whole) {
    return static_cast<double>(std::min(part, whole)) / static_cast<double>(whole);
  };
  const std::uint64_t taken = waiting - std::min(waiting, left_bytes);
  return std::max(share(taken, wire::kRingBytes), share(waiting_events, wire::kEventRingEvents));
}

void ProcessRecorder::update_measured_mpi(std::uint64_t now_ns) {
  if (!events_.uses_mpi()) return;
  std::uint64_t total_ns = time_in_mpi_.ended_main_ns();
  for (const std::uint32_t index : slots_.found()) {
    const RecordedThread& thread = threads_[index];
    if (thread.main && thread.state != RecordedThread::State::kNone)
      total_ns += time_in_mpi_.of_slot(segment_.thread_slot(index), now_ns);
  }
  const std::uint64_t since_ns = std::max(measured_mpi_until_ns_, start_.not_after(now_ns));
  measured_mpi_until_ns_ = now_ns;
  if (total_ns <= measured_mpi_ns_) return;
  // Time beyond that since then belongs to a call that was noticed late.
  charges_.add_measured_mpi({since_ns, now_ns}, total_ns - measured_mpi_ns_);
  measured_mpi_ns_ = total_ns;
}

void ProcessRecorder::update_openmp(std::uint64_t now_ns) {
  if (!openmp_.is_recorded() || !grid_.begun() || (!takes_all_ && !openmp_series_.is_due(now_ns))) return;
  const auto since_ns = [&]() -> std::uint64_t {
    const auto under_way = openmp_.region_under_way(0, now_ns);
    return under_way ? under_way->since_ns : 0;
  };
  const std::uint64_t before_ns = since_ns();
  const shard::OmpSums sums = openmp_.sums();
  // Another region has begun meanwhile: which of them the sums have is not known.
  const bool is_the_same = since_ns() == before_ns;
  openmp_series_.look(grid_, sums, is_the_same ? before_ns : 0, start_.not_after(now_ns), now_ns);
}

void ProcessRecorder::add_openmp(ProcessReport& report, std::uint64_t now_ns) {
  openmp_.read(report, now_ns);
  if (!openmp_.is_recorded() || !grid_.begun()) return;
  shard::OmpSums sums = openmp_.sums();
  if (const auto under_way = openmp_.region_under_way(report.mpi_ns, now_ns))
    sums.add(OpenMpTables::sums_of(*under_way));
  OpenMpSeries until_now = openmp_series_;
  until_now.look(grid_, sums, 0, start_.not_after(now_ns), now_ns);
  report.openmp_series = until_now.block();
}

void ProcessRecorder::add_loops(std::vector<RawLoop>& loops, const RecordedThread& thread,
                                const wire::ThreadSlot& slot, std::uint64_t now_ns) {
  if (!thread.loops.has_loops() || !grid_.begun()) return;
  const std::uint64_t begin_ns = std::clamp(thread.start_time_ns, start_.not_after(now_ns), now_ns);
  std::uint64_t end_ns =
      thread.state == RecordedThread::State::kEnded ? std::clamp(thread.ended_ns, begin_ns, now_ns) : now_ns;
  if (thread.is_off) end_ns = std::clamp(thread.window_end_ns, begin_ns, end_ns);
  for (RawLoop& loop : thread.loops.report(slot, begin_ns, end_ns, store_.tables(),
                                           [&](std::uint64_t ns) { return grid_.utc_ns(ns); })) {
    if (loops.size() == ProcessReport::kMaxLoops) {
      drops_.add("event_loop_rows");
      continue;
    }
    loop.pid = pid_;
    loop.tid = thread.tid;
    loop.main_thread = thread.main;
    loop.thread = thread.python_name.empty() ? thread.kernel_name : thread.python_name;
    loop.start_utc_ns = grid_.utc_ns(begin_ns);
    loops.push_back(std::move(loop));
  }
}

ProcessReport ProcessRecorder::report(std::uint64_t now_ns, Events which) {
  charges_.read_counter_names(segment_.header());
  ProcessReport report;
  add_identity(report, now_ns);
  add_mpi_state(report, now_ns);
  add_notes(report);
  add_statistics(report);
  add_charges(report, now_ns);
  add_sums(report, now_ns);
  tables_.read(report, now_ns);
  add_memory(report, now_ns);
  add_events(report, which);
  add_unrecorded_threads(report, now_ns);
  add_ended_threads(report);
  if (!finished_) add_living_threads(report, now_ns, nullptr);
  add_openmp(report, now_ns);
  add_drops(report);
  const bool ended_by_itself = (report.exit_flags & wire::kExitStatusKnown) != 0;
  report.last_path = samples_.last_path().find(report.calls_under_way, ended_by_itself, stacks_);
  if (finished_ || report.exit_flags != 0) add_last_words(report);
  return report;
}

ProcessReport ProcessRecorder::live_report(std::uint64_t now_ns, LiveTimes& times) {
  ProcessReport report;
  add_identity(report, now_ns);
  add_mpi_state(report, now_ns);
  add_notes(report);
  add_statistics(report);
  add_live_charges(report, times);
  add_sums(report, now_ns);
  tables_.read_communicators(report);
  report.mpi_ns = time_in_mpi_.ended_main_ns();
  for (const RawCallUnderWay& call : time_in_mpi_.calls_at_end()) add_call_under_way(report, call);
  if (!finished_) add_living_threads(report, now_ns, &times);
  return report;
}

// Nobody else writes to the segment any more, unless the process only says that it ends.
void ProcessRecorder::add_last_words(ProcessReport& report) {
  const wire::LastWords& words = segment_.header().last_words;
  shard::Failure& last = report.last_words.emplace();
  last.signal = static_cast<std::int32_t>(words.fault_signal.load(std::memory_order_acquire));
  if (last.signal != 0 && last.signal != SIGABRT && words.fault_code.load(std::memory_order_relaxed) > 0) {
    last.flags |= shard::Failure::kFault;
    if (words.stack_overflow.load(std::memory_order_relaxed) != 0)
      last.flags |= shard::Failure::kStackOverflow;
    // A general protection fault: an address that no memory can have, or that is not aligned.
    if (words.fault_code.load(std::memory_order_relaxed) == SI_KERNEL)
      last.flags |= shard::Failure::kNoAddress;
    else
      last.address = words.fault_address.load(std::memory_order_relaxed);
    last.instruction = stacks_.place_in_module(words.fault_pc.load(std::memory_order_relaxed));
  } else {
    last.signal = 0;
  }
  if (words.mpi_abort_called.load(std::memory_order_acquire) != 0) {
    last.flags |= shard::Failure::kCalledAbort;
    last.abort_code = words.mpi_abort_code.load(std::memory_order_relaxed);
  }
  last.message = bounded_text(
      words.abort_message,
      std::min(words.abort_message_bytes.load(std::memory_order_relaxed), wire::kAbortMessageBytes));
  last.stderr_tail = stderr_tail(words);
  if (words.stderr_bytes.load(std::memory_order_relaxed) != 0) last.flags |= shard::Failure::kHasStderr;
}

void ProcessRecorder::add_identity(ProcessReport& report, std::uint64_t now_ns) const {
  const wire::SegmentHeader& h = segment_.header();
  report.pid = pid_;
  report.parent_pid = h.parent_pid;
  report.rank = h.rank;
  report.world_size = h.world_size;
  report.processes = 1;
  report.start_mono_ns = start_.recorded_not_after(now_ns);
  // Converted by our own clock, not by what the process says.
  if (grid_.begun()) report.start_utc_ns = grid_.utc_ns(report.start_mono_ns);
  report.end_mono_ns = std::min<std::uint64_t>(h.end_mono_ns.load(std::memory_order_acquire), now_ns);
  report.exit_flags = h.exit_flags.load(std::memory_order_acquire);
  report.exit_status = h.exit_status.load(std::memory_order_relaxed);
  report.fatal_signal = h.fatal_signal.load(std::memory_order_relaxed);
  report.usage = h.usage;
}

void ProcessRecorder::add_mpi_state(ProcessReport& report, std::uint64_t now_ns) const {
  const wire::SegmentHeader& h = segment_.header();
  report.mpi_rank = h.mpi_rank.load(std::memory_order_relaxed);
  report.mpi_size = h.mpi_size.load(std::memory_order_relaxed);
  const std::uint32_t state = h.mpi_state.load(std::memory_order_relaxed);
  report.mpi_state =
      state <= 2 || state == wire::kC10dState ? static_cast<wire::MpiState>(state) : wire::MpiState::kNone;
  const auto since_start = [&](const std::atomic<std::uint64_t>& time) {
    const std::uint64_t ns = time.load(std::memory_order_relaxed);
    return ns > report.start_mono_ns && ns <= now_ns ? ns - report.start_mono_ns : 0;
  };
  report.mpi_init_end_ns = since_start(h.mpi_init_ns);
  report.mpi_finalize_begin_ns = since_start(h.mpi_finalize_ns);
  report.mpi_library = bounded_text(h.mpi_library, sizeof h.mpi_library);
  report.mpi_operations = h.mpi_operations.load(std::memory_order_relaxed);
}

void ProcessRecorder::add_notes(ProcessReport& report) const {
  const wire::SegmentHeader& h = segment_.header();
  if (start_.was_refused()) report.add_note(shard::NoteCode::kStartNotKnown);
  report.python_version = h.python_version.load(std::memory_order_relaxed);
  const auto python = static_cast<wire::PythonState>(h.python_state.load(std::memory_order_acquire));
  report.python_unread = python != wire::PythonState::kActive && python != wire::PythonState::kNone;
  if (const auto note = note_on_python(python, h.python_note.load(std::memory_order_relaxed))) {
    report.python_partly = python == wire::PythonState::kActive;
    const bool has_version =
        *note != shard::NoteCode::kPythonVersionNotTold && *note != shard::NoteCode::kPythonPypy;
    report.add_note(*note, has_version ? report.python_version : 0);
  }
  if (h.annotations_elsewhere != 0)
    report.add_note(shard::NoteCode::kAnnotationsElsewhere, h.annotations_elsewhere);
  if (charges_.left_callers_out() || stacks_.left_callers_out())
    report.add_note(shard::NoteCode::kCallersLeftOut);
  if (h.torch_not_recorded.load(std::memory_order_relaxed) != 0)
    report.add_note(shard::NoteCode::kTorchNotRecorded);
  switch (static_cast<wire::TorchOps>(h.torch_ops.load(std::memory_order_relaxed))) {
    case wire::TorchOps::kNotAsked:
    case wire::TorchOps::kActive:
      break;
    case wire::TorchOps::kNoneSeen:
      if (stacks_.has_module("libtorch_cpu.so")) report.add_note(shard::NoteCode::kTorchOpsNotSeen);
      break;
    case wire::TorchOps::kOtherRelease:
    case wire::TorchOps::kOtherLayout:
      report.add_note(shard::NoteCode::kTorchOpsOtherRelease);
      break;
    case wire::TorchOps::kNoMemory:
      report.add_note(shard::NoteCode::kTorchOpsNoMemory);
      break;
  }
  constexpr std::pair<wire::MemoryNotes, shard::NoteCode> kMemoryNotes[] = {
      {wire::kProgramsOwnMalloc, shard::NoteCode::kMemoryOwnMalloc},
      {wire::kOtherMalloc, shard::NoteCode::kMemoryOtherMalloc},
      {wire::kPythonNotSeen, shard::NoteCode::kMemoryPythonNotSeen},
      {wire::kPythonReplaced, shard::NoteCode::kMemoryPythonReplaced},
      {wire::kNoMemoryWrap, shard::NoteCode::kMemoryNotWrapped},
  };
  const std::uint32_t notes = h.memory.notes.load(std::memory_order_relaxed);
  for (const auto& [bit, code] : kMemoryNotes)
    if ((notes & bit) != 0) report.add_note(code);
}

void ProcessRecorder::add_statistics(ProcessReport& report) const {
  const wire::SegmentHeader& h = segment_.header();
  const SampleStatistics& statistics = samples_.statistics();
  report.threads = h.threads_seen.load(std::memory_order_relaxed);
  report.samples = statistics.samples;
  report.running_samples = statistics.running_samples;
  report.running_ns = statistics.running_ns;
  report.unsampled_threads = statistics.unsampled_threads;
  report.unsampled_cpu_ns = statistics.unsampled_cpu_ns;
  report.knows_page_faults = statistics.knows_page_faults;
  report.handler_costs = statistics.handler_costs;
  report.truncated = h.samples_truncated.load(std::memory_order_relaxed);
  report.merges_tried = h.merges_tried.load(std::memory_order_relaxed);
  report.merges_failed = h.merges_failed.load(std::memory_order_relaxed);
  report.handler_ns = h.handler_ns.load(std::memory_order_relaxed);
  report.counters_multiplexed = h.counters_multiplexed != 0;
  for (std::uint32_t i = 0; i < wire::kUnrecordedReasons; ++i)
    report.unrecorded_programs[i] =
        std::min(h.unrecorded_programs[i].load(std::memory_order_relaxed), kMaxUnrecordedPrograms);
  const std::uint32_t unavailable = std::min(h.unavailable_count, wire::kMaxCounters);
  for (std::uint32_t i = 0; i < unavailable; ++i)
    report.unavailable_counters.emplace(bounded_text(h.unavailable_names[i], wire::kCounterNameBytes),
                                        bounded_text(h.unavailable_reasons[i], wire::kCounterNameBytes));
}

void ProcessRecorder::add_live_charges(ProcessReport& report, LiveTimes& times) {
  std::array<std::array<RawAmount, shard::kCategories>, 2> sums{};
  for (const auto& [key, amount] : charges_.rows()) {
    RawAmount& sum = sums[key.main_thread ? 1 : 0][static_cast<std::size_t>(key.category)];
    sum.wall_ns += amount.wall_ns;
    sum.cpu_ns += amount.cpu_ns;
  }
  for (const bool main : {false, true})
    for (std::size_t c = 0; c < shard::kCategories; ++c)
      if (const RawAmount& sum = sums[main ? 1 : 0][c]; sum.wall_ns != 0 || sum.cpu_ns != 0)
        report.values[RawValueKey{0, static_cast<shard::Category>(c), main}] = sum;
  charges_.take_new(&times);
}

void ProcessRecorder::add_charges(ProcessReport& report, std::uint64_t now_ns) const {
  report.values.reserve(charges_.rows().size());
  for (const ProcessCharges::Row& row : charges_.rows()) report.values.emplace(row.key, row.amount);
  report.counters = charges_.counters();
  report.accesses = charges_.accesses();
  report.mutex_waits = samples_.mutex_waits();
  for (const auto& [slot, thread] : threads_) {
    if (thread.state != RecordedThread::State::kActive) continue;
    if (const std::uint64_t wait_ns = thread.mutex_wait_ns(now_ns, std::nullopt); wait_ns != 0)
      report.mutex_waits[samples_.lock_of(thread)].add({wait_ns, 1, wait_ns});
    for (const Spin& spin : thread.spins) report.mutex_waits[spin.key].add(spin.wait);
  }
  report.tasks = charges_.tasks().amounts();
  report.main_series = charges_.main_series();
  report.counter_series = charges_.counter_series();
}

void ProcessRecorder::add_sums(ProcessReport& report, std::uint64_t now_ns) const {
  report.paused_ns = paused_ns(now_ns);
  report.windows = windows_.windows(now_ns);
  report.leaves_gaps = windows_.leaves_gaps();
  report.mpi_runnable_ns = charges_.mpi_runnable_ns();
  report.knows_run_delay = segment_.header().knows_run_delay == 1 && !samples_.cpu_clock();
}

void ProcessRecorder::add_memory(ProcessReport& report, std::uint64_t now_ns) {
  report.labelled_memory =
      read_labelled_memory(segment_, report.start_utc_ns, report.start_mono_ns, now_ns, report.drops);
  if (!memory_.is_on()) return;
  const wire::MemoryState& state = segment_.header().memory;
  report.memory = memory_.sums(now_ns);
  report.memory_interval_bytes = state.interval_bytes.load(std::memory_order_relaxed);
  report.memory_untracked_bytes = state.untracked_bytes.load(std::memory_order_relaxed);
  report.memory_static_bytes = state.static_bytes.load(std::memory_order_relaxed);
  if (const std::uint64_t lost = state.events_lost.load(std::memory_order_relaxed); lost != 0)
    report.drops["memory_ring_full"] += lost;
}

std::uint64_t ProcessRecorder::paused_ns(std::uint64_t now_ns) const {
  const wire::SegmentHeader& h = segment_.header();
  const std::uint64_t start = start_.recorded_not_after(now_ns);
  std::uint64_t paused = h.paused_ns.load(std::memory_order_acquire);
  const std::uint64_t since = h.paused_since_ns.load(std::memory_order_relaxed);
  if (since != 0 && since < now_ns) paused += now_ns - std::max(since, start);
  if (paused == 0) paused = charges_.paused_ns();
  return std::min(paused, now_ns - start);
}

void ProcessRecorder::add_drops(ProcessReport& report) const {
  const wire::SegmentHeader& h = segment_.header();
  for (std::uint32_t i = 0; i < wire::kDropReasons; ++i) {
    const std::uint64_t count = h.drops[i].load(std::memory_order_relaxed);
    if (count != 0) report.drops[wire::kDropReasonNames[i]] = count;
  }
  for (const auto& [reason, count] : drops_.counts()) report.drops[reason] += count;
}

void ProcessRecorder::add_events(ProcessReport& report, Events which) {
  if (finished_) {
    for (const Events each : {Events::kFew, Events::kAll})
      report.events[static_cast<std::size_t>(each)] = events_.log(each);
  } else {
    if (which == Events::kAll) {
      for (auto& [slot, thread] : threads_) events_.finish(thread.events);
      events_.agree_on_level();
    }
    report.events[static_cast<std::size_t>(which)] = std::make_shared<const EventLog>(*events_.log(which));
  }
  if (const std::uint64_t refused = events_.log(Events::kAll)->refused(); refused != 0)
    report.drops["mpi_event_budget"] += refused;
}

// Threads for which the agent had no slot.
void ProcessRecorder::add_unrecorded_threads(ProcessReport& report, std::uint64_t now_ns) {
  const wire::SegmentHeader& h = segment_.header();
  const std::uint64_t lasted_ns = now_ns - start_.not_after(now_ns);
  const std::uint64_t most_threads = h.threads_seen.load(std::memory_order_relaxed);
  for (const wire::UnrecordedThreads& of : h.unrecorded) {
    const std::uint64_t threads = std::min(of.threads.load(std::memory_order_relaxed), most_threads);
    if (threads == 0) continue;
    std::uint64_t most_ns = 0;
    if (__builtin_mul_overflow(std::min(threads, std::uint64_t{1} << 20), lasted_ns, &most_ns))
      most_ns = std::uint64_t{1} << 58;
    const std::uint64_t cpu_ns = std::min(of.cpu_ns.load(std::memory_order_relaxed), most_ns);
    const std::uint32_t path = stacks_.start_path(of.start_function.load(std::memory_order_relaxed));
    RawAmount& amount = report.values[RawValueKey{path, shard::Category::kNative, false}];
    amount.wall_ns += cpu_ns;  // their waiting time is not known
    amount.cpu_ns += cpu_ns;
    report.unsampled_threads += threads;
    report.unsampled_cpu_ns += cpu_ns;
  }
}

void ProcessRecorder::add_ended_threads(ProcessReport& report) {
  report.thread_table = ended_threads_;
  // Before that, some of a thread's spans would be missing.
  if (finished_) report.thread_spans = samples_.ties().spans();
  report.mpi_ns = time_in_mpi_.ended_main_ns();
  report.mpi_helpers = time_in_mpi_.ended_helpers();
  for (const RawCallUnderWay& call : time_in_mpi_.calls_at_end()) add_call_under_way(report, call);
  report.add_loops(ended_loops_);
}

void ProcessRecorder::add_living_threads(ProcessReport& report, std::uint64_t now_ns, LiveTimes* live) {
  for (const std::uint32_t index : slots_.found()) {
    RecordedThread& thread = threads_[index];
    if (thread.state == RecordedThread::State::kNone) continue;
    const wire::ThreadSlot& slot = segment_.thread_slot(index);
    read_names(thread, slot);
    const TimeInMpi::Thread caller = for_time_in_mpi(thread);
    if (thread.main) report.mpi_ns += time_in_mpi_.of_slot(slot, now_ns);
    report.mpi_helpers.add(time_in_mpi_.of_helper(caller, slot, now_ns));
    const std::optional<RawCallUnderWay> call = time_in_mpi_.call_under_way(caller, slot, now_ns);
    if (call) add_call_under_way(report, *call);
    if (live == nullptr) {
      std::vector<RawLoop> loops;
      add_loops(loops, thread, slot, now_ns);
      report.add_loops(loops);
    }
    if (thread.state == RecordedThread::State::kEnded)
      report.thread_table.add(row_of(thread, thread.account, thread.ended_ns, false));
    if (thread.state != RecordedThread::State::kActive) continue;
    ThreadAccount provisional = thread.account;
    provisional.end(now_ns, std::nullopt, samples_.period_ns(), {}, {},
                    ReportSink{report, live, charges_, grid_, thread.main,
                               live != nullptr && thread.main && call ? &*call : nullptr});
    report.thread_table.add(row_of(thread, provisional, now_ns, true));
  }
}

}  // namespace clusterprof::collector
