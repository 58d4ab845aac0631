// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/process_recorder.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collector/names/perf_map.hpp"
#include "formats/wire/mpi_functions.h"

namespace clusterprof::collector {
namespace {

constexpr std::uint64_t kSlotSearchIntervalNs = 1'000'000'000;
constexpr std::uint64_t kClockToleranceNs = 1'000'000'000;
constexpr std::uint64_t kMaxStopNs = 60'000'000'000;  // of the collector, in the midst of a round
constexpr std::size_t kMaxCachedStacks = 1u << 15;
constexpr std::size_t kMaxPending = 1u << 15;  // of a kind
constexpr std::uint64_t kCodeSearchIntervalNs = 1'000'000'000;
constexpr std::size_t kMaxAccesses = 1u << 16;
constexpr std::uint32_t kMaxTextBytes = 1u << 16;
constexpr std::size_t kEventBudget = 1u << 18, kFewEvents = 1u << 12;  // unless told
constexpr std::size_t kFewestTargets = 1024, kMostTargets = 16384;     // powers of two

constexpr std::uint32_t kNoSite = 0xffff'ffffu;
constexpr std::uint64_t kMaxClockErrorNs = 1'000'000'000'000;

std::uint64_t row_number(const RawValueKey& key) {
  static_assert(shard::kCategories <= 8);
  return (std::uint64_t{key.path} << 4) | (static_cast<std::uint64_t>(key.category) << 1) |
         (key.main_thread ? 1u : 0u);
}

// None also where the two do not fit: the program can write over them.
std::optional<shard::NoteCode> note_on_python(wire::PythonState state, std::uint32_t note) {
  using shard::NoteCode;
  if (state == wire::PythonState::kActive) {
    if (note == static_cast<std::uint32_t>(wire::PythonNote::kNativeMissing))
      return NoteCode::kPythonNativeMissing;
    if (note == static_cast<std::uint32_t>(wire::PythonNote::kGarbageUnknown))
      return NoteCode::kPythonGarbageUnknown;
    return std::nullopt;
  }
  if (state != wire::PythonState::kUnsupported && state != wire::PythonState::kCheckFailed)
    return std::nullopt;
  switch (static_cast<wire::PythonNote>(note)) {
    case wire::PythonNote::kVersionNotSupported:
      return NoteCode::kPythonVersionNotSupported;
    case wire::PythonNote::kFreeThreaded:
      return NoteCode::kPythonFreeThreaded;
    case wire::PythonNote::kWithoutOffsets:
      return NoteCode::kPythonWithoutOffsets;
    case wire::PythonNote::kOffsetsWrong:
      return NoteCode::kPythonOffsetsWrong;
    case wire::PythonNote::kSymbolMissing:
      return NoteCode::kPythonSymbolMissing;
    case wire::PythonNote::kOtherLayout:
      return NoteCode::kPythonOtherLayout;
    case wire::PythonNote::kCodeNotFound:
      return NoteCode::kPythonCodeNotFound;
    case wire::PythonNote::kFramesNotFound:
      return NoteCode::kPythonFramesNotFound;
    default:
      return NoteCode::kPythonVersionNotTold;
  }
}

bool is_mpi(ModuleRole role) { return role == ModuleRole::kMpiWrapper || role == ModuleRole::kMpiLibrary; }

}  // namespace

// Adds charges to the tables of a process.
struct ProcessRecorder::Sink {
  ProcessRecorder& recorder;
  bool main_thread;

  void operator()(const ChargeTarget& target, std::uint64_t wall_ns, std::uint64_t cpu_ns) const {
    const std::uint32_t row = target.row != ChargeTarget::kNoRow
                                  ? target.row
                                  : recorder.value_row({target.path, target.category, main_thread});
    RawAmount& amount = recorder.values_[row].amount;
    amount.wall_ns += wall_ns;
    amount.cpu_ns += cpu_ns;
  }
  [[nodiscard]] ChargeTarget fault_target(const ChargeTarget& of) const {
    RawStore& store = recorder.store_;
    return recorder.charge_target({store.leaf(of.path, store.frame({RawKind::kPageFault, 0, 0})),
                                   shard::Category::kSystem, main_thread});
  }
  void page_fault(const ChargeTarget& of, std::uint64_t wall_ns, std::uint64_t cpu_ns) const {
    (*this)(fault_target(of), wall_ns, cpu_ns);
  }
  void counter(const ChargeTarget& target, std::uint32_t index, std::uint64_t value) const {
    const std::vector<std::uint32_t>& known = recorder.counter_index_;
    if (index < known.size()) recorder.counters_[RawCounterKey{target.path, known[index]}] += value;
  }
  void paused(std::uint64_t wall_ns) const {
    if (main_thread) recorder.paused_ns_ += wall_ns;
  }
  [[nodiscard]] ChargeTarget runnable(const ChargeTarget& of) const {
    return recorder.charge_target({of.path, shard::Category::kRunnable, main_thread});
  }
  void runnable_in_mpi(const Stretch& when, std::uint64_t wall_ns) const {
    if (!main_thread) return;
    recorder.mpi_runnable_ns_ += wall_ns;
    recorder.main_series_.spread(recorder.grid_, ProcessReport::kMpiRunnable, when.begin_ns, when.end_ns,
                                 wall_ns);
  }
  void spent(const ChargeTarget& target, const Stretch& when, std::uint64_t wall_ns) const {
    recorder.path_times_.spend(target.path, when, wall_ns);
    if (main_thread)
      recorder.main_series_.spread(recorder.grid_, static_cast<std::uint32_t>(target.category), when.begin_ns,
                                   when.end_ns, wall_ns);
  }
  void page_fault_spent(const ChargeTarget& of, const Stretch& when, std::uint64_t wall_ns) const {
    spent(fault_target(of), when, wall_ns);
  }
  void counted(std::uint32_t index, const Stretch& when, std::uint64_t value) const {
    const std::vector<std::uint32_t>& known = recorder.counter_index_;
    if (index < known.size())
      recorder.counter_series_.spread(recorder.grid_, known[index], when.begin_ns, when.end_ns, value);
  }
};

// The same to a report as of now.
struct ProcessRecorder::ReportSink {
  ProcessReport& report;
  const std::vector<std::uint32_t>& counter_index;
  TimeGrid& grid;
  bool main_thread;

  void operator()(const ChargeTarget& target, std::uint64_t wall_ns, std::uint64_t cpu_ns) const {
    RawAmount& amount = report.values[RawValueKey{target.path, target.category, main_thread}];
    amount.wall_ns += wall_ns;
    amount.cpu_ns += cpu_ns;
  }
  void counter(const ChargeTarget& target, std::uint32_t index, std::uint64_t value) const {
    if (index < counter_index.size())
      report.counters[RawCounterKey{target.path, counter_index[index]}] += value;
  }
  void paused(std::uint64_t) const {}  // known better, see ProcessRecorder::paused_ns
  // Without the kernel's word, which an account as of now does not have, there is no such time.
  [[nodiscard]] static ChargeTarget runnable(const ChargeTarget& of) { return of; }
  void runnable_in_mpi(const Stretch&, std::uint64_t) const {}
  void spent(const ChargeTarget& target, const Stretch& when, std::uint64_t wall_ns) const {
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
    if (index < counter_index.size())
      report.counter_series.spread(grid, counter_index[index], when.begin_ns, when.end_ns, value);
  }
};

ProcessRecorder::ProcessRecorder(SegmentView segment, RawStore& store, TimeGrid& grid, PathTimes& path_times)
    : segment_(std::move(segment)), store_(store), grid_(grid), path_times_(path_times) {
  wire::SegmentHeader& h = segment_.header();
  pid_ = h.pid;
  start_mono_ns_ = h.start_mono_ns;
  cpu_clock_ = h.clock == 1;
  period_ns_ = wire::sampling_period_ns(std::max<std::uint32_t>(h.rate_hz, 1));
  targets_.resize(kFewestTargets);
  for (std::shared_ptr<EventLog>& log : events_) log = std::make_shared<EventLog>(kEventBudget);
  set_event_budget(kEventBudget, kFewEvents);
  h.collector_alive.store(1, std::memory_order_release);
}

ProcessRecorder::~ProcessRecorder() { store_.give_rows_back(rows_taken_); }

// Counters are opened after the greeting; a sample that has them was committed after their names.
void ProcessRecorder::read_counter_names() {
  const wire::SegmentHeader& h = segment_.header();
  const std::uint32_t counters = std::min(h.counter_count, wire::kMaxCounters);
  for (auto i = static_cast<std::uint32_t>(counter_index_.size()); i < counters; ++i) {
    counter_index_.push_back(store_.counter(bounded_text(h.counter_names[i], wire::kCounterNameBytes)));
  }
}

double ProcessRecorder::poll(std::uint64_t now_ns) {
  const wire::SegmentHeader& h = segment_.header();
  uses_mpi_ = uses_mpi_ || h.mpi_operations.load(std::memory_order_relaxed) != 0 ||
              h.mpi_state.load(std::memory_order_relaxed) != 0;
  agree_on_event_level();
  check_start(now_ns);
  read_modules();
  settle_pending(now_ns);
  find_slots(now_ns);
  double fullest = 0;
  ended_threads_ = 0;
  for (const std::uint32_t slot : slots_) fullest = std::max(fullest, drain(slot, now_ns));
  update_measured_mpi(now_ns);
  agree_on_event_level();
  return std::max(fullest,
                  static_cast<double>(ended_threads_) / std::max(1u, segment_.layout().thread_slots));
}

void ProcessRecorder::finish(std::uint64_t end_ns) {
  next_slot_search_ns_ = 0;
  poll(end_ns);
  for (const std::uint32_t index : slots_) {
    Thread& thread = threads_[index];
    if (thread.state != Thread::State::kNone) {
      end_mpi(thread, segment_.thread_slot(index), end_ns);
    }
    if (thread.state == Thread::State::kActive) {
      end_account(thread, end_ns, std::nullopt, nullptr, {});
    }
    finish_events(thread);
    thread.state = Thread::State::kNone;
  }
  read_modules();
  next_code_search_ns_ = 0;
  settle_pending(end_ns);
  name_pending();
  update_mpi_counters(end_ns);
  finished_ = true;
}

// As TimeGrid::reach_back() does, which has been asked: a little before the collector's own beginning, or
// since then, but not in the future.
void ProcessRecorder::check_start(std::uint64_t now_ns) {
  if (start_ != Start::kUnchecked) return;
  const bool too_early = grid_.begun() && start_mono_ns_ < grid_.start_mono_ns();
  start_ = too_early || start_mono_ns_ > now_ns ? Start::kRefused : Start::kBelieved;
  if (start_ == Start::kRefused) start_mono_ns_ = now_ns;
}

void ProcessRecorder::read_modules() {
  const auto& layout = segment_.layout();
  const std::uint64_t used = std::min(segment_.header().module_arena_used.load(std::memory_order_acquire),
                                      layout.module_arena_bytes);
  bool changed = false;
  while (modules_read_ < used) {
    wire::ModuleEntry entry;
    const std::uint64_t offset = modules_read_;
    const bool sane = segment_.copy(layout.module_arena_offset, used, offset, &entry, sizeof entry) &&
                      entry.entry_bytes >= sizeof entry && entry.entry_bytes % 8 == 0 &&
                      entry.entry_bytes <= used - offset &&
                      entry.path_bytes <= entry.entry_bytes - sizeof entry &&
                      entry.path_bytes <= kMaxTextBytes && entry.build_id_bytes <= sizeof entry.build_id &&
                      entry.start <= entry.end;
    if (!sane) {
      count_drop("damaged_module");
      modules_read_ = layout.module_arena_bytes;  // where the next entry begins cannot be known
      break;
    }
    std::string path(entry.path_bytes, '\0');
    if (!segment_.copy(layout.module_arena_offset, used, offset + sizeof entry, path.data(), path.size()))
      break;
    const std::vector<std::uint8_t> build_id(entry.build_id, entry.build_id + entry.build_id_bytes);
    const std::uint32_t module = store_.module(path, build_id);
    mappings_.push_back({entry.start, entry.end, entry.load_bias, entry.epoch, module,
                         store_.tables().modules[module]->role});
    modules_read_ += entry.entry_bytes;
    changed = true;
  }
  if (!changed) return;
  new_modules_ = true;
  std::stable_sort(mappings_.begin(), mappings_.end(),
                   [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
  mappings_reach_.resize(mappings_.size());
  std::uint64_t reach = 0;
  for (std::size_t i = 0; i < mappings_.size(); ++i) {
    mappings_reach_[i] = reach = std::max(reach, mappings_[i].end);
  }
}

// Where the agent puts it, and looks for it (describe_code).
ProcessRecorder::CodeState ProcessRecorder::find_code(std::uint64_t code_id) {
  if (codes_.contains(code_id)) return CodeState::kKnown;
  const auto& layout = segment_.layout();
  const auto* const slots = segment_.table<wire::CodeSlot>(layout.code_slots_offset);
  const std::uint32_t probes = std::min(wire::kCodeProbes, layout.code_slots);
  if (code_id == 0) return CodeState::kNever;
  for (std::uint32_t probe = 0; probe < probes; ++probe) {
    const wire::CodeSlot& slot = slots[(code_id % layout.code_slots + probe) % layout.code_slots];
    const std::uint64_t key = slot.key.load(std::memory_order_acquire);
    if (key == 0) return CodeState::kNotYet;
    if (key != code_id) continue;
    const std::uint64_t place = slot.entry_offset.load(std::memory_order_acquire);
    if (place == 0) return CodeState::kNotYet;
    if (place == wire::kNoCodeEntry) return CodeState::kNever;
    codes_.emplace(code_id, read_code(place - 1));
    return CodeState::kKnown;
  }
  return CodeState::kNever;
}

std::uint32_t ProcessRecorder::read_code(std::uint64_t offset) {
  const auto& layout = segment_.layout();
  const std::uint64_t arena = layout.code_arena_offset, bytes = layout.code_arena_bytes;
  const std::uint32_t version = segment_.header().python_version.load(std::memory_order_relaxed);
  wire::CodeEntry entry;
  const bool sane = segment_.copy(arena, bytes, offset, &entry, sizeof entry) &&
                    entry.filename_bytes <= kMaxTextBytes && entry.name_bytes <= kMaxTextBytes &&
                    entry.line_table_bytes <= bytes &&
                    // Checked before memory is asked for.
                    std::uint64_t{entry.filename_bytes} + entry.name_bytes + entry.line_table_bytes <=
                        bytes - offset - sizeof entry;
  if (!sane) {
    count_drop("damaged_code");
    return store_.code(CodeInfo{"", "<damaged>", 0, version, {}});
  }
  CodeInfo info{std::string(entry.filename_bytes, '\0'), std::string(entry.name_bytes, '\0'),
                entry.first_line, version, std::vector<std::uint8_t>(entry.line_table_bytes)};
  std::uint64_t at = offset + sizeof entry;
  const auto take = [&](void* to, std::size_t size) {
    const bool taken = segment_.copy(arena, bytes, at, to, size);
    at += size;
    return taken;
  };
  if (!take(info.file.data(), info.file.size()) || !take(info.name.data(), info.name.size()) ||
      !take(info.line_table.data(), info.line_table.size()))
    count_drop("damaged_code");
  return store_.code(std::move(info));
}

void ProcessRecorder::settle_pending(std::uint64_t now_ns) {
  if (!pending_regions_.empty()) settle_regions();
  if (new_modules_ && !pending_addresses_.empty()) settle_addresses();
  new_modules_ = false;
  if (pending_codes_.empty()) return;
  // An entry is complete some time after it was made room for, perhaps much later where the thread lost its
  // processor.
  const std::uint64_t used = segment_.header().code_arena_used.load(std::memory_order_acquire);
  if (used == codes_used_ && now_ns < next_code_search_ns_) return;
  codes_used_ = used;
  next_code_search_ns_ = now_ns + kCodeSearchIntervalNs;
  settle_codes();
}

void ProcessRecorder::settle_regions() {
  std::erase_if(pending_regions_, [this](const auto& pending) {
    const std::optional<std::uint32_t> name = region_name(static_cast<std::uint32_t>(pending.first.value));
    if (name) store_.resolve_pending(store_.tables().frames[pending.second].a, {RawKind::kRegion, *name, 0});
    return name.has_value();
  });
}

void ProcessRecorder::settle_addresses() {
  std::erase_if(pending_addresses_, [this](const auto& pending) {
    const auto& [key, frame] = pending;
    const Mapping* const mapping = find_mapping(key.value - key.instruction, key.epoch);
    if (mapping == nullptr) return false;
    const RawKind kind =
        key.instruction == 0 /* see pending_frame */ ? RawKind::kNativeExact : RawKind::kNativeReturn;
    store_.resolve_pending(store_.tables().frames[frame].a,
                           {kind, mapping->module, key.value - mapping->load_bias});
    return true;
  });
}

void ProcessRecorder::settle_codes() {
  std::uint64_t code_id = 0;
  CodeState state = CodeState::kNever;
  std::erase_if(pending_codes_, [&](const auto& pending) {
    const auto& [key, frame] = pending;
    if (key.value != code_id) state = find_code(code_id = key.value);  // they are sorted by it
    if (state == CodeState::kKnown)
      store_.resolve_pending(store_.tables().frames[frame].a,
                             {RawKind::kPython, codes_.at(code_id), key.instruction});
    return state != CodeState::kNotYet;
  });
}

// What lies in no object file: code made at run time, whose maker may have said what it is.
void ProcessRecorder::name_pending() {
  std::vector<std::uint64_t> addresses;
  for (const auto& [key, frame] : pending_addresses_) addresses.push_back(key.value - key.instruction);
  if (addresses.empty()) return;
  const auto names = read_perf_map(perf_map_path(pid_),
                                   static_cast<std::int64_t>(segment_.header().start_realtime_ns), addresses);
  for (const auto& [key, frame] : pending_addresses_) {
    const auto name = names.find(key.value - key.instruction);
    if (name == names.end()) continue;
    store_.resolve_pending(store_.tables().frames[frame].a, {RawKind::kNamed, store_.name(name->second), 0});
  }
}

void ProcessRecorder::find_slots(std::uint64_t now_ns) {
  // A thread is counted a moment before its slot shows it: look more than once.
  constexpr int kSearches = 3;
  const std::uint64_t seen = segment_.header().threads_seen.load(std::memory_order_acquire);
  if (seen != threads_seen_) slot_searches_ = kSearches;
  if (slot_searches_ == 0 && now_ns < next_slot_search_ns_) return;
  if (slot_searches_ > 0) --slot_searches_;
  threads_seen_ = seen;
  next_slot_search_ns_ = now_ns + kSlotSearchIntervalNs;
  const auto& layout = segment_.layout();
  slots_.clear();
  segment_.for_each_touched(layout.thread_slots_offset, layout.thread_slots, sizeof(wire::ThreadSlot),
                            [&](std::uint32_t i) { slots_.push_back(i); });
}

std::uint64_t ProcessRecorder::mpi_ns_of(const wire::ThreadSlot& slot, std::uint64_t now_ns) const {
  std::uint64_t total = slot.mpi_time_ns.load(std::memory_order_relaxed);
  const wire::MpiCallUnderWay& call = slot.mpi_call;
  const bool inside = call.changes.load(std::memory_order_acquire) % 2 == 1;
  const std::uint64_t entered = call.enter_ns.load(std::memory_order_relaxed);
  if (inside && entered < now_ns && call.paused.load(std::memory_order_relaxed) == 0)
    total += now_ns - std::max(entered, std::min(start_mono_ns_, now_ns));
  return total;
}

HelperThreads ProcessRecorder::helper_of(const Thread& thread, const wire::ThreadSlot& slot,
                                         std::uint64_t now_ns) const {
  if (thread.main) return {};
  if (thread.state == Thread::State::kDone) now_ns = std::min(now_ns, thread.said_goodbye_ns);
  const std::uint64_t begin = std::clamp(thread.start_time_ns, std::min(start_mono_ns_, now_ns), now_ns);
  const std::uint64_t mpi_ns = std::min(mpi_ns_of(slot, now_ns), now_ns - begin);
  return mpi_ns == 0 ? HelperThreads{} : HelperThreads{1, now_ns - begin, mpi_ns};
}

std::optional<RawCallUnderWay> ProcessRecorder::call_under_way(const Thread& thread,
                                                               const wire::ThreadSlot& slot,
                                                               std::uint64_t now_ns) {
  constexpr int kTries = 4;  // a thread that changes it all the time hangs nowhere
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const auto& layout = segment_.layout();
  const auto is_rank = [](std::int32_t rank) {
    return rank >= wire::kAnyPeer && rank < static_cast<std::int32_t>(shard::kMaxWorldSize);
  };
  const wire::MpiCallUnderWay& record = slot.mpi_call;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t changes = record.changes.load(std::memory_order_acquire);
    if (changes % 2 == 0) return {};
    RawCallUnderWay call;
    call.tid = thread.tid;
    call.main_thread = thread.main;
    call.channel = record.channel.load(kRelaxed);
    call.op = record.op.load(kRelaxed);
    call.sequence = record.sequence.load(kRelaxed);
    call.peer = record.peer.load(kRelaxed);
    call.tag = record.tag.load(kRelaxed);
    call.root = record.root.load(kRelaxed);
    call.enter_ns = record.enter_ns.load(kRelaxed);
    const std::uint64_t path_offset = record.path_offset.load(kRelaxed);
    const std::uint32_t path_words = record.path_words.load(kRelaxed);
    const std::uint32_t communicator = record.communicator.load(kRelaxed);
    const bool paused = record.paused.load(kRelaxed) != 0;
    call.requests = record.requests.load(kRelaxed);
    const std::uint32_t kinds = record.pending_kinds.load(kRelaxed);
    for (std::uint32_t p = 0; p < wire::kMostPending; ++p) {
      const wire::PendingKind kind = wire::pending_kind(kinds, p);
      if (kind != wire::PendingKind::kNone)
        call.pending.push_back({kind, record.pending_peers[p].load(kRelaxed)});
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (record.changes.load(kRelaxed) != changes) continue;
    if (paused || call.enter_ns >= now_ns) return {};
    const std::optional<std::uint32_t> path =
        call.op < layout.mpi_ops ? arena_path(path_offset, path_words, call.op + 1u) : std::nullopt;
    const bool peers_are_ranks =
        std::all_of(call.pending.begin(), call.pending.end(),
                    [&](const RawCallUnderWay::Pending& pending) { return is_rank(pending.peer); });
    if (!path || !is_rank(call.peer) || !is_rank(call.root) || !peers_are_ranks) {
      count_drop("damaged_mpi_call");
      return {};
    }
    call.path = *path;
    call.enter_ns = std::max(call.enter_ns, std::min(start_mono_ns_, now_ns));
    call.lasted_ns = now_ns - call.enter_ns;
    // As for its call site: several communicators may share a row of the table.
    if (communicator < layout.communicators) {
      const auto& row = segment_.table<wire::MpiCommunicator>(layout.communicators_offset)[communicator];
      if (row.ready.load(std::memory_order_acquire) == 1) call.channel = row.identity;
    }
    return call;
  }
  return {};
}

void ProcessRecorder::end_mpi(const Thread& thread, const wire::ThreadSlot& slot, std::uint64_t now_ns) {
  if (thread.main) ended_main_mpi_ns_ += mpi_ns_of(slot, now_ns);
  ended_helpers_.add(helper_of(thread, slot, now_ns));
  constexpr std::size_t kMostCallsAtEnd = 4096;  // a process may end threads in calls without end
  if (const auto call = call_under_way(thread, slot, now_ns)) {
    if (calls_at_end_.size() < kMostCallsAtEnd)
      calls_at_end_.push_back(*call);
    else
      count_drop("calls_under_way_full");
  }
}

void ProcessRecorder::update_measured_mpi(std::uint64_t now_ns) {
  if (!uses_mpi_) return;
  std::uint64_t total = ended_main_mpi_ns_;
  for (const std::uint32_t index : slots_) {
    const Thread& thread = threads_[index];
    if (thread.main && thread.state != Thread::State::kNone)
      total += mpi_ns_of(segment_.thread_slot(index), now_ns);
  }
  const std::uint64_t since = std::max(measured_mpi_until_ns_, std::min(start_mono_ns_, now_ns));
  measured_mpi_until_ns_ = now_ns;
  if (total <= measured_mpi_ns_) return;
  // What is more than the time since then belongs to a call that was noticed late.
  main_series_.spread(grid_, ProcessReport::kMeasuredMpi, since, now_ns, total - measured_mpi_ns_);
  measured_mpi_ns_ = total;
}

double ProcessRecorder::drain(std::uint32_t slot_index, std::uint64_t now_ns) {
  wire::ThreadSlot& slot = segment_.thread_slot(slot_index);
  // Before the ring is read: when the thread had ended by now, so had its last record been written.
  const std::uint32_t state = slot.state.load(std::memory_order_acquire);
  if (state != static_cast<std::uint32_t>(wire::ThreadState::kLive) &&
      state != static_cast<std::uint32_t>(wire::ThreadState::kEnded)) {
    return 0;
  }
  const std::uint64_t waiting = slot.ring.write_position.load(std::memory_order_acquire) -
                                slot.ring.read_position.load(std::memory_order_relaxed);
  Thread& thread = threads_[slot_index];
  const std::int32_t tid = slot.tid;
  const std::uint64_t start = slot.start_time_ns;
  if (thread.state != Thread::State::kNone && (thread.tid != tid || thread.start_time_ns != start)) {
    if (thread.state == Thread::State::kActive) {
      end_account(thread, std::min(start, now_ns), std::nullopt, nullptr, {});
    }
    finish_events(thread);
    thread.state = Thread::State::kNone;
  }
  if (thread.state == Thread::State::kNone) {
    thread.tid = tid;
    thread.start_time_ns = start;
    thread.start_function = slot.start_function;
    thread.words.clear();
    thread.main = slot.is_main == 1 || tid == pid_;
    thread.state = Thread::State::kActive;
    const std::uint64_t not_before = std::min(start_mono_ns_, now_ns);
    const std::uint64_t begin = std::clamp(start, not_before, now_ns);
    thread.account = ThreadAccount(begin, slot.start_cpu_ns, cpu_clock_);
    thread.unsampled_since_cpu_ns = slot.start_cpu_ns;
    thread.sampled = SampledTime(begin, slot.start_cpu_ns);
    thread.timeline = GapTimeline(not_before);  // a thread may have been noticed in its first call only
    thread.event_number.reset();
  }
  const std::uint64_t latest = now_ns + kClockToleranceNs;
  const std::uint64_t waiting_events = waiting_in_event_ring(slot_index);
  if (waiting != 0) {
    if (!wire::ring_drain(slot.ring, [&](const wire::RecordHeader& record) {
          take_sample(thread, slot_index, record, slot.ring, latest);
        })) {
      count_drop("damaged_ring");
      thread.words.clear();  // of what was lost
    }
  }
  const bool ended = state == static_cast<std::uint32_t>(wire::ThreadState::kEnded);
  // What an ended thread leaves in the ring would be taken for its successor's.
  const std::uint64_t latest_event = ended ? latest + kMaxStopNs : latest;
  take_events(thread, slot_index, latest_event, latest_event);
  if (ended) {
    if (thread.state == Thread::State::kActive) {
      end_account(thread, now_ns, std::nullopt, nullptr, {});
    }
    end_mpi(thread, slot, now_ns);
    finish_events(thread);
    thread.state = Thread::State::kNone;
    slot.state.store(static_cast<std::uint32_t>(wire::ThreadState::kFree), std::memory_order_release);
    ++ended_threads_;
  }
  const auto share = [](std::uint64_t part, std::uint64_t whole) {
    return static_cast<double>(std::min(part, whole)) / static_cast<double>(whole);
  };
  return std::max(share(waiting, wire::kRingBytes), share(waiting_events, wire::kEventRingEvents));
}

std::uint64_t ProcessRecorder::waiting_in_event_ring(std::uint32_t slot_index) const {
  if (!uses_mpi_ || slot_index >= segment_.layout().mpi_event_rings) return 0;
  const wire::MpiEventRing& ring = segment_.mpi_event_ring(slot_index);
  return ring.written.load(std::memory_order_acquire) - ring.read.load(std::memory_order_relaxed);
}

void ProcessRecorder::take_events(Thread& thread, std::uint32_t slot_index, std::uint64_t until_ns,
                                  std::uint64_t latest_ns) {
  const std::uint64_t waiting = waiting_in_event_ring(slot_index);
  if (waiting == 0) return;
  wire::MpiEventRing& ring = segment_.mpi_event_ring(slot_index);
  std::uint64_t read = ring.read.load(std::memory_order_relaxed);
  if (waiting > wire::kEventRingEvents) {
    count_drop("damaged_mpi_event_ring");
    ring.read.store(read + waiting, std::memory_order_release);
    return;
  }
  for (const std::uint64_t end = read + waiting; read != end; ++read) {
    wire::MpiEvent event;
    std::memcpy(&event, &ring.events[read & (wire::kEventRingEvents - 1)], sizeof event);
    // Also when this process was stopped since it looked at the clock.
    if (event.exit_ns > until_ns && event.exit_ns <= latest_ns + kMaxStopNs) break;
    if (!is_sane(thread, event, latest_ns)) {
      count_drop("damaged_mpi_event");
      continue;
    }
    if (!thread.event_number) thread.event_number = event_threads_++;
    thread.timeline.event(event, [&](const wire::MpiEvent& kept, std::span<const GapPart> gap) {
      keep_event(thread, kept, gap);
    });
  }
  ring.read.store(read, std::memory_order_release);
}

bool ProcessRecorder::is_sane(const Thread& thread, const wire::MpiEvent& event,
                              std::uint64_t latest_ns) const {
  const auto& layout = segment_.layout();
  const std::uint64_t earliest = std::min(start_mono_ns_, latest_ns);
  return static_cast<std::uint8_t>(event.kind) < wire::kMpiEventKinds && event.op < layout.mpi_ops &&
         event.op < wire::kMpiFunctionCount &&
         (event.site == kNoSite || event.site < wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops)) &&
         event.peer >= -1 && event.peer < static_cast<std::int32_t>(shard::kMaxWorldSize) &&
         event.communicator_size <= shard::kMaxWorldSize && event.enter_ns >= earliest &&
         event.enter_ns <= event.exit_ns && event.exit_ns <= latest_ns &&
         event.exit_ns >= thread.timeline.last_exit_ns() && event.start_ns >= earliest &&
         event.start_ns <= event.exit_ns && event.mpi_ns <= event.enter_ns - earliest &&
         event.between_ns <= event.enter_ns - earliest &&
         (event.between_ns == 0 ||
          event.between_site < wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops));
}

void ProcessRecorder::keep_event(Thread& thread, const wire::MpiEvent& event, std::span<const GapPart> gap) {
  KeptEvent kept;
  kept.enter_ns = event.enter_ns;
  kept.exit_ns = event.exit_ns;
  kept.start_ns = event.start_ns;
  kept.mpi_ns = event.mpi_ns;
  kept.channel = event.channel;
  kept.bytes = event.bytes;
  kept.sequence = event.sequence;
  kept.peer = event.peer;
  kept.tag = event.tag;
  kept.op = event.op;
  kept.kind = static_cast<std::uint8_t>(event.kind);
  kept.flags = event.flags;
  kept.communicator_size = event.communicator_size;
  const std::int32_t rank = segment_.header().mpi_rank.load(std::memory_order_relaxed);
  // Calls without an event are a part of the gap, too.
  std::array<GapPart, GapTimeline::kMostParts + 1> parts;
  if (event.between_ns != 0 && gap.size() < parts.size()) {
    const auto end = std::copy(gap.begin(), gap.end(), parts.begin());
    *end = {event_path(event.between_site, event.op), event.between_ns};
    gap = {parts.data(), gap.size() + 1};
  }
  bool wanted = !gap.empty();
  for (const std::shared_ptr<EventLog>& log : events_) {
    log->set_rank(rank);
    wanted = wanted || log->selects(kept);
  }
  if (!wanted) return;
  kept.path = event_path(event.site, event.op);
  for (const std::shared_ptr<EventLog>& log : events_) log->add(*thread.event_number, kept, gap);
}

void ProcessRecorder::finish_events(Thread& thread) {
  thread.timeline.flush(
      [&](const wire::MpiEvent& event, std::span<const GapPart> gap) { keep_event(thread, event, gap); });
}

void ProcessRecorder::set_event_budget(std::size_t all, std::size_t few) {
  events_[static_cast<std::size_t>(Events::kAll)]->set_budget(all);
  events_[static_cast<std::size_t>(Events::kFew)]->set_budget(std::min(all, few));
  agree_on_event_level();
}

// The wrappers and we both raise it.
void ProcessRecorder::agree_on_event_level() {
  EventLog& all = *events_[static_cast<std::size_t>(Events::kAll)];
  EventLog& few = *events_[static_cast<std::size_t>(Events::kFew)];
  std::atomic<std::uint32_t>& shared = segment_.header().mpi_event_level;
  std::uint32_t theirs = shared.load(std::memory_order_relaxed);
  all.raise_level(theirs);
  few.raise_level(all.level());
  while (theirs < all.level() &&
         !shared.compare_exchange_weak(theirs, all.level(), std::memory_order_relaxed)) {
  }
}

void ProcessRecorder::read_clocks(ProcessReport& report, std::uint64_t now_ns) const {
  const wire::SegmentHeader& h = segment_.header();
  for (const wire::ClockMeasurement* const clock : {&h.clock_at_init, &h.clock_at_finalize}) {
    if (clock->ready.load(std::memory_order_acquire) != 1) continue;
    const ClockReading reading{clock->reference_rank, clock->local_ns, clock->offset_ns, clock->error_ns};
    const bool sane = reading.reference_rank >= 0 &&
                      reading.reference_rank < static_cast<std::int32_t>(shard::kMaxWorldSize) &&
                      reading.local_ns >= std::min(start_mono_ns_, now_ns) &&
                      reading.local_ns <= now_ns + kClockToleranceNs && reading.error_ns <= kMaxClockErrorNs;
    if (sane) {
      report.clocks.push_back(reading);
    } else {
      ++report.drops["damaged_clock_measurement"];
    }
  }
}

void ProcessRecorder::take_sample(Thread& thread, std::uint32_t slot_index, const wire::RecordHeader& record,
                                  const wire::Ring& ring, std::uint64_t latest_ns) {
  // The ring can be rewritten while it is read: what is used is copied first, and no more of it than lies
  // inside the ring.
  const auto* const from = reinterpret_cast<const std::uint8_t*>(&record);
  const auto offset = static_cast<std::uint32_t>(from - ring.data);
  const std::uint32_t room = wire::kRingBytes - offset;
  wire::SampleRecord sample;
  if (room < sizeof sample) {
    count_drop("damaged_record");
    return;
  }
  std::memcpy(&sample, from, sizeof sample);
  if (sample.header.bytes < sizeof sample) {
    count_drop("damaged_record");
    return;
  }
  if (sample.header.type != wire::kSample) return;  // of a later minor version
  const std::uint32_t fresh_words = std::uint32_t{sample.frame_words} - sample.shared_words;
  if (sample.counter_count > wire::kMaxCounters || sample.frame_words > wire::kMaxFrameWords ||
      sample.shared_words > std::min<std::size_t>(sample.frame_words, thread.words.size()) ||
      sizeof sample + 8u * (sample.counter_count + fresh_words) > std::min(sample.header.bytes, room)) {
    count_drop("damaged_record");
    thread.words.clear();  // what comes next builds on this one
    return;
  }
  std::array<std::uint64_t, wire::kMaxCounters> counters;
  std::memcpy(counters.data(), from + sizeof sample, 8u * sample.counter_count);
  const std::span<const std::uint64_t> counter_values(counters.data(), sample.counter_count);
  if (sample.counter_count > counter_index_.size()) read_counter_names();
  const Sink sink{*this, thread.main};
  const std::uint64_t time = std::min(sample.time_ns, latest_ns);
  // What the thread wrote before this sample.
  take_events(thread, slot_index, time, latest_ns);
  const auto spent = [&](std::uint64_t begin_ns, std::uint64_t end_ns, const Whereabouts& where) {
    thread.timeline.spent(begin_ns, end_ns, where);
  };
  const auto keep = [&](const wire::MpiEvent& event, std::span<const GapPart> gap) {
    keep_event(thread, event, gap);
  };

  KernelUse kernel{sample.system_ns, sample.page_faults};
  kernel.gave_way = (sample.flags & wire::kGaveWay) != 0;
  if (segment_.header().knows_run_delay == 1) kernel.run_delay_ns = sample.run_delay_ns;
  kernel.mpi_ns = sample.mpi_ns;
  const bool paused = (sample.flags & wire::kPaused) != 0;
  if (sample.trigger == wire::Trigger::kThreadEnd) {
    if (thread.state == Thread::State::kActive) {
      if (paused) thread.account.pause(time, sample.cpu_ns, false, {}, counter_values, sink);
      end_account(thread, time, sample.cpu_ns, (sample.flags & wire::kUsageKnown) != 0 ? &kernel : nullptr,
                  counter_values);
      thread.sampled.end(time, spent);
      thread.timeline.sampled_until(time, keep);
    }
    thread.state = Thread::State::kDone;
    thread.said_goodbye_ns = time;
    return;
  }
  if (thread.state != Thread::State::kActive) return;
  if (paused) {
    const bool waits = sample.trigger == wire::Trigger::kBlocked;
    thread.words.clear();
    thread.unsampled_since_cpu_ns = sample.cpu_ns;
    thread.account.pause(time, sample.cpu_ns, waits, kernel, counter_values, sink);
    thread.sampled.sample(time, sample.cpu_ns, waits, {}, spent);
    thread.timeline.sampled_until(time, keep);
    return;
  }

  // What is shared stays at the end.
  std::vector<std::uint64_t>& words = thread.words;
  const auto old = static_cast<std::ptrdiff_t>(words.size() - sample.shared_words);
  if (old < fresh_words) {
    words.insert(words.begin(), static_cast<std::size_t>(fresh_words - old), 0);
  } else {
    words.erase(words.begin(), words.begin() + (old - fresh_words));
  }
  if (fresh_words != 0)
    std::memcpy(words.data(), from + sizeof sample + 8u * sample.counter_count, 8u * fresh_words);

  StackContext context;
  context.mpi_op = sample.mpi_op;
  context.in_syscall = (sample.flags & wire::kInSyscall) != 0;
  context.waiting_for_gil = (sample.flags & wire::kWaitingForGil) != 0;
  context.collecting_garbage = (sample.flags & wire::kCollectingGarbage) != 0;
  if ((sample.flags & wire::kOnFile) != 0) {
    context.descriptor = Descriptor::kFile;
  } else if ((sample.flags & wire::kOnSocket) != 0) {
    context.descriptor = Descriptor::kSocket;
  } else if ((sample.flags & wire::kOnPipe) != 0) {
    context.descriptor = Descriptor::kPipe;
  } else if ((sample.flags & wire::kOnThread) != 0) {
    context.descriptor = Descriptor::kThread;
  }
  context.syscall_nr = sample.syscall_nr;
  context.epoch = sample.module_epoch;
  const ChargeTarget target = charge_target(words.data(), sample.frame_words, context, thread.main);
  if (thread.main) note_last_path(words, target.path, time);
  if (sample.trigger == wire::Trigger::kEvent) {
    thread.account.event(time, (sample.flags & wire::kGaveWay) != 0, target, counter_values, sink);
    return;
  }

  // Who is in the interpreter's take_gil waits, also where a tick finds it awake there: the CPU time of that
  // is the price of the hand-over, and no part of being idle.
  const bool blocked =
      (sample.trigger == wire::Trigger::kBlocked && context.in_syscall) || context.waiting_for_gil;
  kernel.in_syscall = context.in_syscall;
  kernel.may_fault =
      target.category == shard::Category::kPython || target.category == shard::Category::kNative;
  knows_page_faults_ = knows_page_faults_ || sample.system_ns != 0 || sample.page_faults != 0;
  const ThreadAccount::Charged charged =
      thread.account.sample(time, sample.cpu_ns, blocked, kernel, target, counter_values, sink);
  const double lacked = charged.runnable_share;
  thread.sampled.sample(
      time, sample.cpu_ns, blocked, {target.path, context.mpi_op == 0},
      [&](std::uint64_t begin_ns, std::uint64_t end_ns, const Whereabouts& where) {
        thread.timeline.spent(begin_ns, end_ns, where, 1 - lacked);
        if (lacked > 0)
          thread.timeline.spent(
              begin_ns, end_ns,
              {runnable_path(where.path), runnable_path(where.before_call), runnable_path(where.after_call)},
              lacked);
      });
  thread.timeline.sampled_until(time, keep);
  if (sample.trigger == wire::Trigger::kStop) return;  // no sample
  const bool is_fault = 2 * charged.page_fault_ns > charged.cpu_ns;
  const std::uint32_t row = is_fault ? sink.fault_target(target).row : target.row;
  values_[row].amount.samples += 1;
  ++samples_;
  if (!blocked) {
    ++running_samples_;
    const bool wall_timer = sample.trigger == wire::Trigger::kWallTimer;
    running_ns_ += wall_timer ? charged.wall_ns : charged.cpu_ns;
    thread.unsampled_since_cpu_ns = sample.cpu_ns;
    if (target.category == shard::Category::kNative) note_access(target.row, sample);
  }
  if (sample.handler_ns != 0) handler_costs_.add(sample.handler_ns);
}

void ProcessRecorder::note_access(std::uint32_t row, const wire::SampleRecord& sample) {
  if (access_of_row_.size() <= row)
    access_of_row_.resize(std::max<std::size_t>(values_.capacity(), row + 1), FlatIndex::kAbsent);
  std::uint32_t& place = access_of_row_[row];
  if (place == FlatIndex::kAbsent) {
    if (accesses_.size() >= kMaxAccesses) return;
    place = static_cast<std::uint32_t>(accesses_.size());
    accesses_.push_back({row, {}});
  }
  RawAccess& amount = accesses_[place].amount;
  ++amount.samples;
  if ((sample.flags & wire::kMemoryOperand) == 0) return;
  knows_addresses_ = true;
  ++amount.accesses;
  const std::uint64_t bit = mix(sample.data_address / shard::DataAccess::kBlockBytes) % 256;
  amount.blocks[bit / 64] |= std::uint64_t{1} << bit % 64;
}

void ProcessRecorder::remember(std::uint64_t hash, std::uint32_t row) {
  RememberedTarget* place = &targets_[(hash >> 1) & (targets_.size() - 1)];
  if (place->hash != 0 && ++targets_replaced_ > targets_.size() && targets_.size() < kMostTargets) {
    std::vector<RememberedTarget> old(2 * targets_.size());
    old.swap(targets_);
    for (const RememberedTarget& entry : old)
      if (entry.hash != 0) targets_[(entry.hash >> 1) & (targets_.size() - 1)] = entry;
    targets_replaced_ = 0;
    place = &targets_[(hash >> 1) & (targets_.size() - 1)];
  }
  *place = {hash, row};
}

std::uint32_t ProcessRecorder::find_row(const RawValueKey& key) const noexcept {
  return value_rows_.find(row_number(key));
}

bool ProcessRecorder::has_room_for_row() {
  const StoreLimits& limits = store_.limits();
  const std::size_t cost = 1 + counter_index_.size();  // it may have one of each counter
  if (values_.size() < limits.process_rows && store_.take_rows(cost)) {
    rows_taken_ += cost;
    return true;
  }
  return values_.size() < limits.fewest_rows;
}

std::uint32_t ProcessRecorder::value_row(RawValueKey key) {
  if (const std::uint32_t row = find_row(key); row != FlatIndex::kAbsent) return row;
  if (!has_room_for_row()) {
    key.path = store_.shorten(key.path);
    if (const std::uint32_t row = find_row(key); row != FlatIndex::kAbsent) return row;
    if (short_rows_ >= store_.limits().short_rows) {
      key.path = store_.shortest();
      if (const std::uint32_t row = find_row(key); row != FlatIndex::kAbsent) return row;
    }
    ++short_rows_;
  }
  note_left_out(key.path);
  const auto row = static_cast<std::uint32_t>(values_.size());
  values_.push_back({key, {}});
  value_rows_.insert(row_number(key), row);
  return row;
}

void ProcessRecorder::note_left_out(std::uint32_t path) { left_out_ = left_out_ || store_.is_short(path); }

ChargeTarget ProcessRecorder::charge_target(const RawValueKey& key) {
  const std::uint32_t row = value_row(key);
  return {values_[row].key.path, key.category, row};
}

ChargeTarget ProcessRecorder::charge_target(const std::uint64_t* words, std::uint32_t count,
                                            const StackContext& context, bool main_thread) {
  // The exact address of the leaf is different almost every time, but hot loops are small.
  const std::uint64_t bits =
      (std::uint64_t{context.epoch} << 32) | (std::uint64_t{context.mpi_op} << 16) |
      (context.in_syscall ? 1u : 0u) | (context.waiting_for_gil ? 2u : 0u) |
      (context.collecting_garbage ? 4u : 0u) | (main_thread ? 8u : 0u) |
      (context.descriptor ? 16u + (static_cast<std::uint32_t>(*context.descriptor) << 5) : 0u);
  const std::uint64_t seed = bits ^ mix(static_cast<std::uint32_t>(context.syscall_nr));
  const std::uint64_t hash = XXH3_64bits_withSeed(words, 8ull * count, seed) | 1;  // 0: nothing remembered
  const RememberedTarget& remembered = targets_[(hash >> 1) & (targets_.size() - 1)];
  if (remembered.hash == hash) {
    const RawValueKey& key = values_[remembered.row].key;
    return {key.path, key.category, remembered.row};
  }

  const Stack stack = resolve_stack(words, count, context);
  ChargeTarget target{stack.path, stack.in_interpreter ? shard::Category::kPython : shard::Category::kNative};
  if (context.mpi_op != 0) {
    target.category = shard::Category::kMpi;
  } else if (context.waiting_for_gil) {
    target.category = shard::Category::kIdle;
  } else if (context.in_syscall) {
    target.category = syscall_category(context.syscall_nr);
  } else if (context.collecting_garbage) {
    target.category = shard::Category::kPython;
  }
  target = charge_target({target.path, target.category, main_thread});
  if (stack.settled) remember(hash, target.row);
  return target;
}

const ProcessRecorder::Mapping* ProcessRecorder::find_mapping(std::uint64_t pc, std::uint32_t epoch) const {
  // Of several that were mapped there at different times: the newest one that the sample could know,
  // else the first that came after it (the sample was taken before the agent had described it).
  const Mapping* best = nullptr;
  auto it = std::upper_bound(mappings_.begin(), mappings_.end(), pc,
                             [](std::uint64_t value, const Mapping& m) { return value < m.start; });
  for (std::size_t i = static_cast<std::size_t>(it - mappings_.begin()); i-- > 0;) {
    if (mappings_reach_[i] <= pc) break;
    const Mapping& m = mappings_[i];
    if (pc >= m.end) continue;
    if (best == nullptr) {
      best = &m;
      continue;
    }
    const bool known = m.epoch <= epoch, best_known = best->epoch <= epoch;
    const bool better = known != best_known      ? known
                        : m.epoch != best->epoch ? (known ? m.epoch > best->epoch : m.epoch < best->epoch)
                                                 : m.end - m.start < best->end - best->start;
    if (better) best = &m;
  }
  return best;
}

ProcessRecorder::Stack ProcessRecorder::resolve_stack(const std::uint64_t* words, std::uint32_t count,
                                                      const StackContext& context) {
  // The leaf changes, its callers repeat: they are looked up together, under a hash.
  std::optional<StackFrame> leaf;
  if (count > 0 && (words[0] & wire::kFrameTagMask) == 0 && !context.call_site) {
    leaf = native_frame(words[0], true, context.epoch);
    ++words;
    --count;
  }
  std::uint64_t seed = (std::uint64_t{context.epoch} << 32) | (std::uint64_t{context.mpi_op} << 8) |
                       (context.collecting_garbage ? 128u : 0u) | (context.call_site ? 64u : 0u);
  if (leaf) seed |= 1u + static_cast<std::uint64_t>(leaf->role);
  const std::uint64_t hash = XXH3_64bits_withSeed(words, 8ull * count, seed);
  Stack stack;
  if (const std::uint32_t found = stack_cache_.find(hash); found != FlatIndex::kAbsent) {
    stack = stacks_[found];
  } else {
    bool settled = true;
    stack = build_stack(leaf, words, count, context, settled);
    stack.settled = settled;
    if (settled) {
      if (stacks_.size() >= kMaxCachedStacks) {
        stack_cache_.clear();
        stacks_.clear();
      }
      stack_cache_.insert(hash, static_cast<std::uint32_t>(stacks_.size()));
      stacks_.push_back(stack);
    }
  }
  const auto extend = [&](const RawFrame& frame) {
    stack.path = store_.leaf(stack.path, store_.frame(frame));
  };
  if (stack.leaf_shown) stack.path = store_.leaf(stack.path, leaf->frame);
  if (leaf) stack.settled = stack.settled && leaf->settled;
  if (context.mpi_op != 0) {
    extend({RawKind::kMpi, context.mpi_op - 1, 0});
  } else {
    if (context.in_syscall) extend({RawKind::kKernel, static_cast<std::uint32_t>(context.syscall_nr), 0});
    if (context.in_syscall && context.descriptor)
      extend({RawKind::kDescriptor, static_cast<std::uint32_t>(*context.descriptor), 0});
    if (context.waiting_for_gil) extend({RawKind::kGilWait, 0, 0});
  }
  return stack;
}

std::uint32_t ProcessRecorder::interpreter_module() const {
  // The library before the program that was linked to it: where both are mapped, that is where the code is.
  std::uint32_t found = kNoModule;
  for (const Mapping& mapping : mappings_) {
    if (mapping.role != ModuleRole::kInterpreter) continue;
    const std::string_view path = store_.tables().modules[mapping.module]->path;
    if (found == kNoModule || path.find("/libpython") != std::string_view::npos) found = mapping.module;
  }
  return found;
}

ProcessRecorder::StackFrame ProcessRecorder::native_frame(std::uint64_t word, bool exact,
                                                          std::uint32_t epoch) {
  const std::uint64_t look_up = exact || word == 0 ? word : word - 1;
  const Mapping* mapping = find_mapping(look_up, epoch);
  if (mapping == nullptr) {
    read_modules();  // described after this round began?
    mapping = find_mapping(look_up, epoch);
  }
  if (mapping == nullptr) {
    return {pending_frame(word, exact ? 0 : 1, epoch, shard::FrameKind::kNative), false, ModuleRole::kProgram,
            false};
  }
  const RawKind kind = exact ? RawKind::kNativeExact : RawKind::kNativeReturn;
  return {store_.frame({kind, mapping->module, word - mapping->load_bias}), false, mapping->role, true};
}

ProcessRecorder::StackFrame ProcessRecorder::python_frame(std::uint64_t code_id, std::uint32_t instruction) {
  switch (find_code(code_id)) {
    case CodeState::kKnown:
      return {store_.frame({RawKind::kPython, codes_.at(code_id), instruction}), true, {}, true};
    case CodeState::kNever:
      return {store_.unknown(shard::FrameKind::kPython), true, {}, true};
    case CodeState::kNotYet:
      break;
  }
  return {pending_frame(code_id, instruction, 0, shard::FrameKind::kPython), true, {}, false};
}

std::optional<std::uint32_t> ProcessRecorder::region_name(std::uint32_t index) {
  if (const auto found = region_names_.find(index); found != region_names_.end()) return found->second;
  const wire::Region& region = segment_.table<wire::Region>(segment_.layout().regions_offset)[index];
  if (region.ready.load(std::memory_order_acquire) != 1) return std::nullopt;
  return region_names_[index] = store_.name(bounded_text(region.name, sizeof region.name));
}

ProcessRecorder::StackFrame ProcessRecorder::region_frame(std::uint32_t index) {
  const std::optional<std::uint32_t> name = region_name(index);
  if (!name) return {pending_frame(index, 0, 0, shard::FrameKind::kRegion), false, {}, false};
  return {store_.frame({RawKind::kRegion, *name, 0}), false, {}, true};
}

std::optional<std::uint32_t> ProcessRecorder::region_path(std::uint32_t index) {
  const auto* const regions = segment_.table<wire::Region>(segment_.layout().regions_offset);
  // Up to one whose path is known, and down again.
  std::vector<std::uint32_t> chain;
  std::uint32_t path = 0;
  for (std::uint32_t at = index; at != wire::kNoRegion; at = regions[at].parent) {
    if (at >= segment_.layout().regions || chain.size() >= shard::kMostRegionDepth || !region_name(at))
      return std::nullopt;
    if (const auto known = region_paths_.find(at); known != region_paths_.end()) {
      path = known->second;
      break;
    }
    chain.push_back(at);
  }
  std::size_t depth = chain.size();
  for (std::uint32_t at = path; at != 0; at = store_.tables().nodes[at].parent) ++depth;
  if (depth > shard::kMostRegionDepth) return std::nullopt;
  for (std::size_t i = chain.size(); i-- > 0;) {
    const std::uint32_t inner =
        store_.region(path, store_.frame({RawKind::kRegion, *region_name(chain[i]), 0}));
    if (inner == path) return std::nullopt;  // no room
    region_paths_[chain[i]] = path = inner;
  }
  return path;
}

std::uint32_t ProcessRecorder::pending_frame(std::uint64_t value, std::uint32_t instruction,
                                             std::uint32_t epoch, shard::FrameKind kind) {
  Pending& pending = kind == shard::FrameKind::kPython   ? pending_codes_
                     : kind == shard::FrameKind::kRegion ? pending_regions_
                                                         : pending_addresses_;
  const PendingKey key{value, instruction, kind == shard::FrameKind::kNative ? epoch : 0};
  if (const auto found = pending.find(key); found != pending.end()) return found->second;
  // Code made at run time can have any number of addresses.
  const std::optional<std::uint32_t> frame =
      pending.size() < kMaxPending ? store_.add_pending(kind) : std::nullopt;
  if (!frame) return store_.unknown(kind);
  pending.emplace(key, *frame);
  return *frame;
}

ProcessRecorder::Stack ProcessRecorder::build_stack(const std::optional<StackFrame>& leaf,
                                                    const std::uint64_t* words, std::uint32_t count,
                                                    const StackContext& context, bool& settled) {
  frames_.clear();  // leaf first
  region_frames_.clear();
  if (leaf) frames_.push_back(*leaf);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t tag = words[i] & wire::kFrameTagMask;
    const auto number = static_cast<std::uint32_t>(words[i]);
    if (tag == wire::kRegionFrameTag && number < segment_.layout().regions &&
        region_frames_.size() < shard::kMostRegionDepth) {
      region_frames_.push_back(region_frame(number));
      settled = settled && region_frames_.back().settled;
      continue;
    }
    if (!region_frames_.empty()) {  // nothing is around regions
      count_drop("damaged_record");
      break;
    }
    if (tag == wire::kPythonFrameTag && i + 1 < count) {
      frames_.push_back(python_frame(words[i + 1], number));
      ++i;
    } else if (tag == 0) {
      frames_.push_back(native_frame(words[i], false, context.epoch));
    } else {
      count_drop("damaged_record");
      break;
    }
    settled = settled && frames_.back().settled;
  }

  std::size_t first = 0;  // what is nearer the leaf is not shown
  if (context.mpi_op != 0) {
    // The wrapper that counts as "in MPI" is the outermost one; what it was called through (the
    // implementation's Fortran bindings) belongs to the call.
    std::size_t wrapper = frames_.size();
    for (std::size_t i = 0; i < frames_.size(); ++i) {
      if (!frames_[i].python && frames_[i].role == ModuleRole::kMpiWrapper) wrapper = i;
    }
    if (wrapper != frames_.size()) {
      first = wrapper + 1;
    } else if (!context.call_site) {
      // The walk did not pass the wrapper: cut what is recognisably MPI or below it.
      for (std::size_t i = 0; i < frames_.size() && !frames_[i].python; ++i) {
        if (is_mpi(frames_[i].role)) first = i + 1;
      }
      const auto in_system = [&] {
        return first < frames_.size() && !frames_[first].python && frames_[first].role == ModuleRole::kSystem;
      };
      if (first == 0) {
        while (in_system()) ++first;
      }
    }
    while (first < frames_.size() && !frames_[first].python && is_mpi(frames_[first].role)) ++first;
  }

  Stack stack;
  std::size_t python = first;
  bool only_interpreter = true;
  for (; python < frames_.size() && !frames_[python].python; ++python) {
    const ModuleRole role = frames_[python].role;
    only_interpreter = only_interpreter && role != ModuleRole::kProgram && role != ModuleRole::kMpiLibrary;
  }
  stack.in_interpreter = python < frames_.size() && only_interpreter;

  const auto is_own = [](const StackFrame& frame) {
    return !frame.python && (frame.role == ModuleRole::kAgent || frame.role == ModuleRole::kMpiWrapper);
  };
  stack.leaf_shown = leaf && first == 0 && !is_own(*leaf);
  const std::size_t callers = std::max<std::size_t>(first, leaf ? 1 : 0);
  for (std::size_t i = region_frames_.size(); i-- > 0;)
    stack.path = store_.region(stack.path, region_frames_[i].frame);
  const bool garbage = context.collecting_garbage && context.mpi_op == 0;
  path_frames_.clear();
  const auto collection = [&] {
    path_frames_.push_back(store_.frame({RawKind::kGarbage, interpreter_module(), 0}));
  };
  if (garbage && python >= frames_.size()) collection();  // without a Python frame to hang it below
  for (std::size_t i = frames_.size(); i-- > callers;) {
    if (!is_own(frames_[i])) path_frames_.push_back(frames_[i].frame);
    if (garbage && i == python) collection();
  }
  // The path ends with a collection and the function it set in.
  const std::size_t end =
      stack.leaf_shown ? path_frames_.size()
                       : path_frames_.size() - std::min<std::size_t>(path_frames_.size(), garbage ? 2 : 1);
  for (std::size_t i = 0; i < path_frames_.size(); ++i)
    stack.path =
        i < end ? store_.node(stack.path, path_frames_[i]) : store_.leaf(stack.path, path_frames_[i]);
  return stack;
}

std::optional<std::uint32_t> ProcessRecorder::arena_path(std::uint64_t offset, std::uint32_t count,
                                                         std::uint32_t mpi_op) {
  const auto& layout = segment_.layout();
  std::array<std::uint64_t, wire::kMaxFrameWords> words;
  StackContext context;
  context.mpi_op = mpi_op;
  context.call_site = true;
  context.epoch = 0xffff'ffffu;
  if (count > words.size() ||
      !segment_.copy(layout.path_arena_offset, layout.path_arena_bytes, offset, words.data(), 8ull * count))
    return std::nullopt;
  const std::uint32_t path = resolve_stack(words.data(), count, context).path;
  note_left_out(path);
  return path;
}

std::uint32_t ProcessRecorder::site_path(std::uint32_t site_index, std::uint16_t op) {
  const auto [path, unseen] = site_paths_.try_emplace(site_index, 0);
  if (!unseen) return path->second;
  const auto& layout = segment_.layout();
  const wire::MpiSite& site = segment_.table<wire::MpiSite>(layout.mpi_sites_offset)[site_index];
  if (site_index >= layout.mpi_sites)
    return path->second = store_.leaf(store_.node(0, store_.frame({RawKind::kOtherSites, 0, 0})),
                                      store_.frame({RawKind::kMpi, op, 0}));
  std::optional<std::uint32_t> found = arena_path(site.path_offset, site.path_words, op + 1u);
  if (!found) {
    count_drop("damaged_mpi_site");
    found = arena_path(0, 0, op + 1u);
  }
  return path->second = found.value_or(0);
}

std::uint32_t ProcessRecorder::event_path(std::uint32_t site_index, std::uint16_t op) {
  const auto& layout = segment_.layout();
  if (site_index < wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops)) {
    const wire::MpiSite& site = segment_.table<wire::MpiSite>(layout.mpi_sites_offset)[site_index];
    if (site.key.load(std::memory_order_acquire) != 0 && site.ready.load(std::memory_order_acquire) == 1) {
      const std::uint16_t of_call = site.op;
      if (of_call < layout.mpi_ops) return site_path(site_index, of_call);
    }
  }
  return store_.leaf(0, store_.frame({RawKind::kMpi, op, 0}));
}

void ProcessRecorder::read_tables(ProcessReport& report) {
  const auto& layout = segment_.layout();

  std::vector<std::uint64_t> identities(layout.communicators, 0);
  const auto* const communicators = segment_.table<wire::MpiCommunicator>(layout.communicators_offset);
  segment_.for_each_touched(
      layout.communicators_offset, layout.communicators, sizeof(wire::MpiCommunicator), [&](std::uint32_t i) {
        if (communicators[i].ready.load(std::memory_order_acquire) != 1) return;
        const std::uint64_t identity = communicators[i].identity;
        if (identity == 0) return;
        identities[i] = identity;
        report.communicators.try_emplace(
            identity, CommunicatorInfo{communicators[i].size,
                                       bounded_text(communicators[i].name, sizeof communicators[i].name)});
      });

  const bool counts = segment_.header().counts_mpi_sites == 1;
  const auto* const site_counters = segment_.table<wire::MpiSiteCounters>(layout.mpi_site_counters_offset);
  const auto* const sites = segment_.table<wire::MpiSite>(layout.mpi_sites_offset);
  segment_.for_each_touched(
      layout.mpi_sites_offset, wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops), sizeof(wire::MpiSite),
      [&](std::uint32_t i) {
        const wire::MpiSite& site = sites[i];
        if (site.key.load(std::memory_order_acquire) == 0 || site.ready.load(std::memory_order_acquire) != 1)
          return;
        const std::uint16_t op = site.op;
        if (op >= layout.mpi_ops) {
          ++report.drops["damaged_mpi_site"];
          return;
        }
        const std::uint32_t path = site_path(i, op);
        const std::uint32_t communicator = site.communicator;
        const std::uint64_t identity = communicator < identities.size() ? identities[communicator] : 0;
        report.calls[RawCallKey{path, identity, site.helper_thread == 0}].add(
            RawCall{site.count, site.time_ns, site.min_ns, site.max_ns, site.sent_bytes, site.recv_bytes, 0});
        if (!counts) return;
        for (std::size_t c = 0; c < counter_index_.size(); ++c) {
          if (const std::uint64_t value = site_counters[i].values[c]; value != 0)
            report.counters[RawCounterKey{path, counter_index_[c]}] += value;
        }
      });

  const auto* const peers = segment_.table<wire::MpiPeer>(layout.mpi_peers_offset);
  segment_.for_each_touched(
      layout.mpi_peers_offset, layout.mpi_peers, sizeof(wire::MpiPeer), [&](std::uint32_t i) {
        const std::uint64_t key = peers[i].key.load(std::memory_order_acquire);
        if (key == 0) return;
        // Both parts are the rank plus 2, so that no pair has key 0.
        const auto rank_of = [](std::uint32_t part) { return static_cast<std::int32_t>(part - 2u); };
        const std::int32_t source = rank_of(static_cast<std::uint32_t>(key >> 32));
        const std::int32_t destination = rank_of(static_cast<std::uint32_t>(key));
        if (source < -1 || destination < -1) {
          ++report.drops["damaged_mpi_peer"];
          return;
        }
        RawTraffic& cell = report.traffic[{source, destination}];
        cell.messages += peers[i].messages;
        cell.bytes += peers[i].bytes;
      });

  const auto* const sizes = segment_.table<wire::MpiSizeBins>(layout.mpi_sizes_offset);
  segment_.for_each_touched(
      layout.mpi_sizes_offset, layout.mpi_ops, sizeof(wire::MpiSizeBins), [&](std::uint32_t op) {
        SizeBins bins;
        std::memcpy(bins.data(), sizes[op].bins, sizeof bins);
        if (std::any_of(bins.begin(), bins.end(), [](std::uint64_t n) { return n != 0; }))
          report.sizes[op] = bins;
      });
}

void ProcessRecorder::read_regions(ProcessReport& report) {
  const auto& layout = segment_.layout();
  const auto* const regions = segment_.table<wire::Region>(layout.regions_offset);
  segment_.for_each_touched(
      layout.regions_offset, layout.regions, sizeof(wire::Region), [&](std::uint32_t i) {
        const wire::Region& region = regions[i];
        if (region.ready.load(std::memory_order_acquire) != 1) return;
        const std::uint64_t count = region.count.load(std::memory_order_relaxed);
        if (count == 0) return;
        const std::optional<std::uint32_t> path = region_path(i);
        if (!path) {
          ++report.drops["damaged_region"];
          return;
        }
        report.regions[*path].add(RawRegion{count, region.time_ns.load(std::memory_order_relaxed),
                                            region.min_ns.load(std::memory_order_relaxed),
                                            region.max_ns.load(std::memory_order_relaxed),
                                            region.max_n.load(std::memory_order_relaxed)});
      });
}

// index < layout().io_files. The one for all others where it is not described.
std::uint32_t ProcessRecorder::io_file(std::uint32_t index) {
  if (const auto known = io_files_.find(index); known != io_files_.end()) return known->second;
  const auto& layout = segment_.layout();
  const wire::IoFile& file = segment_.table<wire::IoFile>(layout.io_files_offset)[index];
  if (file.ready.load(std::memory_order_acquire) != 1) return 0;
  FileInfo info{std::string(), file.device, file.file_system};
  const std::uint32_t path_bytes = file.path_bytes;
  const std::uint64_t path_offset = file.path_offset;
  if (path_bytes <= kMaxTextBytes) info.path.resize(path_bytes);
  if (path_bytes > kMaxTextBytes || !segment_.copy(layout.path_arena_offset, layout.path_arena_bytes,
                                                   path_offset, info.path.data(), path_bytes)) {
    count_drop("damaged_io_file");
    info.path.clear();
  }
  info.path.resize(std::strlen(info.path.c_str()));
  return io_files_[index] = store_.file(info);
}

std::uint32_t ProcessRecorder::io_site_path(std::uint32_t index) {
  const auto [path, unseen] = io_site_paths_.try_emplace(index, 0);
  if (!unseen) return path->second;
  const wire::IoSite& site = segment_.table<wire::IoSite>(segment_.layout().io_sites_offset)[index];
  const std::uint16_t mpi_op = site.mpi_op;
  const bool sane = mpi_op <= segment_.layout().mpi_ops && mpi_op <= wire::kMpiFunctionCount;
  const std::optional<std::uint32_t> found =
      sane ? arena_path(site.path_offset, site.path_words, mpi_op) : std::nullopt;
  if (!found) count_drop("damaged_io_site");
  return path->second = found.value_or(0);
}

void ProcessRecorder::read_io(ProcessReport& report) {
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::IoSite>(layout.io_sites_offset);
  segment_.for_each_touched(
      layout.io_sites_offset, layout.io_sites, sizeof(wire::IoSite), [&](std::uint32_t i) {
        const wire::IoSite& site = sites[i];
        if (site.key.load(std::memory_order_acquire) == 0 || site.ready.load(std::memory_order_acquire) != 1)
          return;
        const std::uint32_t file = site.file;
        const auto operation = static_cast<std::uint8_t>(site.operation);
        if (file >= layout.io_files || operation >= wire::kIoOperations) {
          ++report.drops["damaged_io_site"];
          return;
        }
        const RawIo amount{
            site.count.load(std::memory_order_relaxed), site.failed.load(std::memory_order_relaxed),
            site.bytes.load(std::memory_order_relaxed), site.time_ns.load(std::memory_order_relaxed),
            site.max_ns.load(std::memory_order_relaxed)};
        if (amount.count == 0) return;
        report.io[{io_site_path(i), io_file(file), static_cast<wire::IoOperation>(operation)}].add(amount);
      });
  // By file only: the root stands for the callers.
  const auto* const amounts = segment_.table<wire::IoAmount>(layout.io_amounts_offset);
  segment_.for_each_touched(layout.io_amounts_offset, layout.io_files * wire::kIoOperations,
                            sizeof(wire::IoAmount), [&](std::uint32_t i) {
                              const wire::IoAmount& from = amounts[i];
                              const RawIo amount{from.count.load(std::memory_order_relaxed),
                                                 from.failed.load(std::memory_order_relaxed),
                                                 from.bytes.load(std::memory_order_relaxed),
                                                 from.time_ns.load(std::memory_order_relaxed),
                                                 from.max_ns.load(std::memory_order_relaxed)};
                              if (amount.count == 0) return;
                              const auto operation = static_cast<wire::IoOperation>(i % wire::kIoOperations);
                              report.io[{0, io_file(i / wire::kIoOperations), operation}].add(amount);
                            });
}

void ProcessRecorder::update_mpi_counters(std::uint64_t now_ns) {
  if (segment_.header().counts_mpi_sites != 1) return;
  read_counter_names();
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::MpiSite>(layout.mpi_sites_offset);
  const auto* const counted = segment_.table<wire::MpiSiteCounters>(layout.mpi_site_counters_offset);
  std::array<std::uint64_t, wire::kMaxCounters> sums{};
  segment_.for_each_touched(layout.mpi_sites_offset, wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops),
                            sizeof(wire::MpiSite), [&](std::uint32_t i) {
                              if (sites[i].ready.load(std::memory_order_acquire) != 1) return;
                              for (std::size_t c = 0; c < counter_index_.size(); ++c)
                                sums[c] += counted[i].values[c];
                            });
  const std::uint64_t since = std::max(counted_in_mpi_until_ns_, std::min(start_mono_ns_, now_ns));
  for (std::size_t c = 0; c < counter_index_.size(); ++c) {
    if (sums[c] <= counted_in_mpi_[c]) continue;
    counter_series_.spread(grid_, counter_index_[c], since, now_ns, sums[c] - counted_in_mpi_[c]);
    counted_in_mpi_[c] = sums[c];
  }
  counted_in_mpi_until_ns_ = now_ns;
}

std::uint32_t ProcessRecorder::runnable_path(std::uint32_t path) {
  return path == kNoPath ? kNoPath : store_.leaf(path, store_.frame({RawKind::kRunnable, 0, 0}));
}

std::uint32_t ProcessRecorder::start_path(std::uint64_t start_function) {
  if (start_function == 0 || (start_function & wire::kFrameTagMask) != 0) return 0;
  StackContext context;
  context.epoch = segment_.header().module_epoch.load(std::memory_order_acquire);
  return resolve_stack(&start_function, 1, context).path;
}

void ProcessRecorder::end_account(Thread& thread, std::uint64_t time_ns, std::optional<std::uint64_t> cpu_ns,
                                  const KernelUse* kernel, std::span<const std::uint64_t> counters) {
  ThreadAccount::End how;
  how.kernel = kernel;
  if (!thread.account.has_samples()) how.start_path = start_path(thread.start_function);
  const std::optional<std::uint64_t> unsampled =
      thread.account.end(time_ns, cpu_ns, period_ns_, how, counters, Sink{*this, thread.main});
  // Ticks begin at a random phase, so what a thread runs after its last sample is what others run less than a
  // period before their first one.
  if (cpu_ns && *cpu_ns > thread.unsampled_since_cpu_ns)
    running_ns_ += *cpu_ns - thread.unsampled_since_cpu_ns;
  // Of a thread that did not tell what it ran, nothing is known.
  if (!unsampled || !cpu_ns) return;
  ++unsampled_threads_;
  unsampled_cpu_ns_ += *unsampled;
}

void ProcessRecorder::add_unrecorded_threads(ProcessReport& report, std::uint64_t now_ns) {
  const wire::SegmentHeader& h = segment_.header();
  const std::uint64_t lasted_ns = now_ns - std::min(start_mono_ns_, now_ns);
  const std::uint64_t most_threads = h.threads_seen.load(std::memory_order_relaxed);
  for (const wire::UnrecordedThreads& of : h.unrecorded) {
    const std::uint64_t threads = std::min(of.threads.load(std::memory_order_relaxed), most_threads);
    if (threads == 0) continue;
    std::uint64_t most_ns = 0;
    if (__builtin_mul_overflow(std::min(threads, std::uint64_t{1} << 20), lasted_ns, &most_ns))
      most_ns = std::uint64_t{1} << 58;
    const std::uint64_t cpu_ns = std::min(of.cpu_ns.load(std::memory_order_relaxed), most_ns);
    const std::uint32_t path = start_path(of.start_function.load(std::memory_order_relaxed));
    RawAmount& amount = report.values[RawValueKey{path, shard::Category::kNative, false}];
    amount.wall_ns += cpu_ns;  // how long they waited is not known
    amount.cpu_ns += cpu_ns;
    report.unsampled_threads += threads;
    report.unsampled_cpu_ns += cpu_ns;
  }
}

std::uint64_t ProcessRecorder::paused_ns(std::uint64_t now_ns) const {
  const wire::SegmentHeader& h = segment_.header();
  const std::uint64_t start = std::min(start_mono_ns_, now_ns);
  std::uint64_t paused = h.paused_ns.load(std::memory_order_acquire);
  const std::uint64_t since = h.paused_since_ns.load(std::memory_order_relaxed);
  if (since != 0 && since < now_ns) paused += now_ns - std::max(since, start);
  if (paused == 0) paused = paused_ns_;
  return std::min(paused, now_ns - start);
}

ProcessReport ProcessRecorder::report(std::uint64_t now_ns, Events which) {
  const wire::SegmentHeader& h = segment_.header();
  ProcessReport report;
  report.pid = pid_;
  report.parent_pid = h.parent_pid;
  report.rank = h.rank;
  report.world_size = h.world_size;
  report.mpi_rank = h.mpi_rank.load(std::memory_order_relaxed);
  report.mpi_size = h.mpi_size.load(std::memory_order_relaxed);
  report.start_mono_ns = std::min(start_mono_ns_, now_ns);
  // Not by what the process says of the clock.
  if (grid_.begun()) report.start_utc_ns = grid_.utc_ns(report.start_mono_ns);
  if (start_ == Start::kRefused) report.add_note(shard::NoteCode::kStartNotKnown);
  report.end_mono_ns = std::min<std::uint64_t>(h.end_mono_ns.load(std::memory_order_acquire), now_ns);
  report.exit_flags = h.exit_flags.load(std::memory_order_acquire);
  report.exit_status = h.exit_status.load(std::memory_order_relaxed);
  report.fatal_signal = h.fatal_signal.load(std::memory_order_relaxed);
  const std::uint32_t mpi_state = h.mpi_state.load(std::memory_order_relaxed);
  report.mpi_state = mpi_state <= 2 ? static_cast<wire::MpiState>(mpi_state) : wire::MpiState::kNone;
  const auto since_start = [&](const std::atomic<std::uint64_t>& time) {
    const std::uint64_t ns = time.load(std::memory_order_relaxed);
    return ns > report.start_mono_ns && ns <= now_ns ? ns - report.start_mono_ns : 0;
  };
  report.mpi_init_end_ns = since_start(h.mpi_init_ns);
  report.mpi_finalize_begin_ns = since_start(h.mpi_finalize_ns);
  report.python_version = h.python_version.load(std::memory_order_relaxed);
  const auto python = static_cast<wire::PythonState>(h.python_state.load(std::memory_order_acquire));
  report.python_unread = python != wire::PythonState::kActive && python != wire::PythonState::kNone;
  if (const auto note = note_on_python(python, h.python_note.load(std::memory_order_relaxed))) {
    report.python_partly = python == wire::PythonState::kActive;
    report.add_note(*note, *note == shard::NoteCode::kPythonVersionNotTold ? 0 : report.python_version);
  }
  if (left_out_) report.add_note(shard::NoteCode::kCallersLeftOut);
  report.mpi_library = bounded_text(h.mpi_library, sizeof h.mpi_library);
  report.usage = h.usage;
  report.threads = h.threads_seen.load(std::memory_order_relaxed);
  report.processes = 1;
  report.samples = samples_;
  report.truncated = h.samples_truncated.load(std::memory_order_relaxed);
  report.merges_tried = h.merges_tried.load(std::memory_order_relaxed);
  report.merges_failed = h.merges_failed.load(std::memory_order_relaxed);
  report.handler_ns = h.handler_ns.load(std::memory_order_relaxed);
  const std::uint32_t unavailable = std::min(h.unavailable_count, wire::kMaxCounters);
  for (std::uint32_t i = 0; i < unavailable; ++i) {
    report.unavailable_counters.emplace(bounded_text(h.unavailable_names[i], wire::kCounterNameBytes),
                                        bounded_text(h.unavailable_reasons[i], wire::kCounterNameBytes));
  }
  read_counter_names();
  report.counters = counters_;
  report.counters_multiplexed = h.counters_multiplexed != 0;
  read_tables(report);
  read_regions(report);
  read_io(report);
  for (std::uint32_t i = 0; i < wire::kDropReasons; ++i) {
    const std::uint64_t count = h.drops[i].load(std::memory_order_relaxed);
    if (count != 0) report.drops[wire::kDropReasonNames[i]] = count;
  }
  for (const auto& [reason, count] : own_drops_) report.drops[reason] += count;
  report.mpi_operations = h.mpi_operations.load(std::memory_order_relaxed);
  read_clocks(report, now_ns);
  if (finished_) {
    std::copy(events_.begin(), events_.end(), report.events.begin());
  } else {
    if (which == Events::kAll) {
      for (auto& [slot, thread] : threads_) finish_events(thread);
      agree_on_event_level();
    }
    const auto index = static_cast<std::size_t>(which);
    report.events[index] = std::make_shared<const EventLog>(*events_[index]);
  }
  if (const std::uint64_t refused = events_[static_cast<std::size_t>(Events::kAll)]->refused(); refused != 0)
    report.drops["mpi_event_budget"] += refused;

  report.values.reserve(values_.size());
  for (const Value& value : values_) report.values.emplace(value.key, value.amount);
  if (knows_addresses_)
    for (const Access& access : accesses_) report.accesses[values_[access.row].key.path].add(access.amount);
  report.main_series = main_series_;
  report.counter_series = counter_series_;
  report.paused_ns = paused_ns(now_ns);
  report.running_samples = running_samples_;
  report.running_ns = running_ns_;
  report.knows_page_faults = knows_page_faults_;
  report.handler_costs = handler_costs_;
  report.mpi_runnable_ns = mpi_runnable_ns_;
  report.knows_run_delay = h.knows_run_delay == 1 && !cpu_clock_;
  report.unsampled_threads = unsampled_threads_;
  report.unsampled_cpu_ns = unsampled_cpu_ns_;
  add_unrecorded_threads(report, now_ns);
  report.mpi_ns = ended_main_mpi_ns_;
  report.mpi_helpers = ended_helpers_;
  const auto add_unfinished = [&report](const RawCallUnderWay& call) {
    report.calls_under_way.push_back(call);
    RawCall unfinished;
    unfinished.time_ns = call.lasted_ns;
    unfinished.unfinished = 1;
    report.calls[RawCallKey{call.path, call.channel, call.main_thread}].add(unfinished);
  };
  for (const RawCallUnderWay& call : calls_at_end_) add_unfinished(call);
  report.last_path = last_path(report.calls_under_way);
  if (finished_) return report;
  for (const std::uint32_t index : slots_) {
    const Thread& thread = threads_[index];
    if (thread.state != Thread::State::kNone) {
      const wire::ThreadSlot& slot = segment_.thread_slot(index);
      if (thread.main) report.mpi_ns += mpi_ns_of(slot, now_ns);
      report.mpi_helpers.add(helper_of(thread, slot, now_ns));
      if (const auto call = call_under_way(thread, slot, now_ns)) add_unfinished(*call);
    }
    if (thread.state != Thread::State::kActive) continue;
    ThreadAccount provisional = thread.account;
    provisional.end(now_ns, std::nullopt, period_ns_, {}, {},
                    ReportSink{report, counter_index_, grid_, thread.main});
  }
  report.last_path = last_path(report.calls_under_way);
  return report;
}

void ProcessRecorder::note_last_path(std::span<const std::uint64_t> words, std::uint32_t path,
                                     std::uint64_t time_ns) {
  constexpr std::size_t kMostOutermost = 256;  // the module, what is called at the end, threads that fork
  last_seen_ = Seen{path, time_ns};
  std::optional<std::uint64_t> outermost;  // its code
  for (std::size_t i = 0; i < words.size(); ++i)
    if ((words[i] & wire::kFrameTagMask) == wire::kPythonFrameTag && i + 1 < words.size())
      outermost = words[++i];
  if (!outermost) return;
  if (last_seen_below_.size() < kMostOutermost || last_seen_below_.contains(*outermost))
    last_seen_below_[*outermost] = Seen{path, time_ns};
}

// A call that is under way is later than the last sample of a thread that blocks in it. Of a Python process
// that ended by itself, what its program did last counts, and not what the interpreter did after it.
std::optional<std::uint32_t> ProcessRecorder::last_path(
    const std::vector<RawCallUnderWay>& calls_under_way) const {
  for (const RawCallUnderWay& call : calls_under_way)
    if (call.main_thread && (!last_seen_ || call.enter_ns > last_seen_->time_ns)) return call.path;
  if (!last_seen_) return {};
  const wire::SegmentHeader& header = segment_.header();
  if ((header.exit_flags.load(std::memory_order_acquire) & wire::kExitStatusKnown) == 0)
    return last_seen_->path;
  const Seen* last = nullptr;
  for (const auto& [code_id, seen] : last_seen_below_) {
    const auto code = codes_.find(code_id);
    if (code == codes_.end() || store_.tables().codes[code->second]->name != "<module>") continue;
    if (last == nullptr || seen.time_ns > last->time_ns) last = &seen;
  }
  return last != nullptr ? last->path : last_seen_->path;
}

}  // namespace clusterprof::collector
