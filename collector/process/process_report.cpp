// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/process_report.hpp"

#include <algorithm>
#include <utility>

#include "collector/names/syscalls.hpp"

namespace clusterprof::collector {
namespace {

// To half of what there may be, so that it is not done for every process.
void limit_waits(std::map<RawMutexKey, RawMutexWait>& waits) {
  std::map<RawMutexKey, RawMutexWait> united;
  for (const auto& [key, wait] : waits) {
    RawMutexKey of_place = key;
    of_place.address = key.module != kNoModule ? key.elf_address : 0;
    united[of_place].add(wait);
  }
  constexpr std::size_t kMost = ProcessReport::kMostWaitsOfEnded / 2;
  if (united.size() > kMost) {
    std::vector<std::pair<RawMutexKey, RawMutexWait>> rows(united.begin(), united.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second.wait_ns > b.second.wait_ns; });
    united.clear();
    for (std::size_t i = 0; i < rows.size(); ++i)
      united[i < kMost ? rows[i].first : RawMutexKey()].add(rows[i].second);
  }
  waits = std::move(united);
}

}  // namespace

void ProcessReport::add_note(shard::NoteCode code, std::uint64_t number) {
  if (notes.size() < kMaxNotes) notes.emplace(code, number);
}

void ProcessReport::add_loops(const std::vector<RawLoop>& more) {
  loops.insert(loops.end(), more.begin(), more.end());
  if (loops.size() <= kMaxLoops) return;
  std::stable_sort(loops.begin(), loops.end(),
                   [](const RawLoop& a, const RawLoop& b) { return a.busy_ns > b.busy_ns; });
  drops["event_loop_rows"] += loops.size() - kMaxLoops;
  loops.resize(kMaxLoops);
}

void ProcessReport::begin_with(const ProcessReport& past) {
  const std::uint64_t later_ns = start_mono_ns - std::min(start_mono_ns, past.start_mono_ns);
  for (std::uint64_t* const since_start : {&mpi_init_end_ns, &mpi_finalize_begin_ns})
    if (*since_start != 0) *since_start += later_ns;
  start_mono_ns = past.start_mono_ns;
  start_utc_ns = past.start_utc_ns;
  add_amounts(past, true);
  thread_table.add(past.thread_table);
  thread_table.join_main_threads();
}

void ProcessReport::add_amounts(const ProcessReport& other, bool keep_main_thread) {
  threads += other.threads;
  processes += other.processes;
  samples += other.samples;
  truncated += other.truncated;
  merges_tried += other.merges_tried;
  merges_failed += other.merges_failed;
  handler_ns += other.handler_ns;
  unsampled_threads += other.unsampled_threads;
  unsampled_cpu_ns += other.unsampled_cpu_ns;
  for (std::size_t i = 0; i < unrecorded_programs.size(); ++i)
    unrecorded_programs[i] += other.unrecorded_programs[i];
  if (keep_main_thread) {
    mpi_ns += other.mpi_ns;
    if (mpi_init_end_ns == 0) mpi_init_end_ns = other.mpi_init_end_ns;
    if (mpi_finalize_begin_ns == 0) mpi_finalize_begin_ns = other.mpi_finalize_begin_ns;
    mpi_helpers.add(other.mpi_helpers);
    paused_ns += other.paused_ns;
    if (windows.size() + other.windows.size() <= RecordedWindows::kMost)
      windows.insert(windows.begin(), other.windows.begin(), other.windows.end());
    else if (!windows.empty() && !other.windows.empty())
      windows.front().begin_ns = std::min(windows.front().begin_ns, other.windows.front().begin_ns);
    leaves_gaps = leaves_gaps || other.leaves_gaps;
    mpi_runnable_ns += other.mpi_runnable_ns;
    knows_run_delay = knows_run_delay || other.knows_run_delay;
    if (!last_path) last_path = other.last_path;
    main_series.add(other.main_series);
    openmp_series.add(other.openmp_series);
  }
  counter_series.add(other.counter_series);
  open_times.insert(open_times.end(), other.open_times.begin(), other.open_times.end());
  counters_multiplexed = counters_multiplexed || other.counters_multiplexed;
  running_samples += other.running_samples;
  running_ns += other.running_ns;
  knows_page_faults = knows_page_faults || other.knows_page_faults;
  python_unread = python_unread || other.python_unread;
  python_partly = python_partly || other.python_partly;
  for (const auto& [code, number] : other.notes) add_note(code, number);
  for (std::size_t i = 0; i < HandlerCosts::kBins; ++i)
    handler_costs.counts[i] += other.handler_costs.counts[i];
  for (const auto& [reason, count] : other.drops) drops[reason] += count;
  unavailable_counters.insert(other.unavailable_counters.begin(), other.unavailable_counters.end());
  for (const auto& [other_key, amount] : other.values) {
    RawValueKey key = other_key;
    key.main_thread = key.main_thread && keep_main_thread;
    values[key].add(amount);
  }
  for (const auto& [key, value] : other.counters) counters[key] += value;
  for (const auto& [other_key, call] : other.calls) {
    RawCallKey key = other_key;
    key.main_thread = key.main_thread && keep_main_thread;
    calls[key].add(call);
  }
  for (RawCallUnderWay call : other.calls_under_way) {
    call.main_thread = call.main_thread && keep_main_thread;
    calls_under_way.push_back(call);
  }
  for (const auto& [path, region] : other.regions) regions[path].add(region);
  for (const auto& [path, access] : other.accesses) accesses[path].add(access);
  for (const auto& [key, wait] : other.mutex_waits) mutex_waits[key].add(wait);
  for (const auto& [key, calls_of_file] : other.io) io[key].add(calls_of_file);
  for (const auto& [key, amount] : other.memory) memory[key].add(amount);
  memory_interval_bytes = std::max(memory_interval_bytes, other.memory_interval_bytes);
  memory_untracked_bytes += other.memory_untracked_bytes;
  memory_static_bytes = std::max(memory_static_bytes, other.memory_static_bytes);
  labelled_memory.add(other.labelled_memory);
  add_loops(other.loops);
  for (const auto& [key, amount] : other.tasks) {
    const bool has_room = tasks.size() < 2 * TaskTimes::kMostRows || tasks.contains(key);
    tasks[has_room ? key : RawTaskKey()].add(amount);
  }
  for (const auto& [pair, cell] : other.traffic) {
    traffic[pair].messages += cell.messages;
    traffic[pair].bytes += cell.bytes;
  }
  for (const auto& [member, cell] : other.group_traffic) {
    group_traffic[member].messages += cell.messages;
    group_traffic[member].bytes += cell.bytes;
  }
  for (const auto& [op, bins] : other.sizes) {
    SizeBins& sum = sizes.try_emplace(op).first->second;
    for (std::size_t i = 0; i < bins.size(); ++i) sum[i] += bins[i];
  }
  for (const auto& [identity, info] : other.communicators) {
    CommunicatorInfo& known = communicators.try_emplace(identity, info).first->second;
    if (known.name.empty()) known.name = info.name;
    if (known.number < 0) known.number = info.number;
  }
  for (const auto& [identity, begun] : other.collectives) {
    RawCollectives& known = collectives.try_emplace(identity, begun).first->second;
    if (begun.count > known.count) known = begun;
  }
  mpi_errors.insert(mpi_errors.end(), other.mpi_errors.begin(), other.mpi_errors.end());
  open_requests.insert(open_requests.end(), other.open_requests.begin(), other.open_requests.end());
  mpi_unseen |= other.mpi_unseen;
  openmp.add(other.openmp, keep_main_thread);
  if (!keep_main_thread) return;
  if (thread_spans.empty()) thread_spans = other.thread_spans;
  const auto has_events = [](const ProcessReport& report) {
    return std::any_of(report.events.begin(), report.events.end(),
                       [](const auto& log) { return log != nullptr && log->size() != 0; });
  };
  if (has_events(*this) || (!has_events(other) && mpi_operations > other.mpi_operations)) return;
  events = other.events;
  mpi_operations = other.mpi_operations;
  clocks = other.clocks;
}

void ProcessReport::limit_ended() {
  if (mutex_waits.size() > kMostWaitsOfEnded) limit_waits(mutex_waits);
  if (calls_under_way.size() > kMostCallsOfEnded) {
    drops["calls_under_way_full"] += calls_under_way.size() - kMostCallsOfEnded;
    calls_under_way.resize(kMostCallsOfEnded);
  }
  if (mpi_errors.size() > kMostErrorsOfEnded) {
    for (std::size_t i = kMostErrorsOfEnded; i < mpi_errors.size(); ++i)
      drops["mpi_error_table_full"] += mpi_errors[i].count;
    mpi_errors.resize(kMostErrorsOfEnded);
  }
  if (open_requests.size() > kMostOpenOfEnded) {
    RawOpenRequests others;
    for (std::size_t i = kMostOpenOfEnded - 1; i < open_requests.size(); ++i)
      others.count += open_requests[i].count;
    open_requests.resize(kMostOpenOfEnded - 1);
    open_requests.push_back(others);
  }
}

bool is_wait_for_others(const RawTables& tables, const RawValueKey& key) {
  if (key.category != shard::Category::kIo || key.path == 0) return false;
  std::optional<Descriptor> descriptor;
  RawFrame leaf = tables.frames[tables.nodes[key.path].frame];
  if (leaf.kind == RawKind::kDescriptor) {
    descriptor = static_cast<Descriptor>(leaf.a);
    leaf = tables.frames[tables.nodes[tables.nodes[key.path].parent].frame];
  }
  return leaf.kind == RawKind::kKernel && waits_for_others(static_cast<std::int32_t>(leaf.a), descriptor);
}

void ProcessReport::call_waiting_helpers_idle(const RawTables& tables) {
  std::vector<std::pair<RawValueKey, RawAmount>> idle;
  for (auto& [key, amount] : values) {
    if (key.main_thread || amount.wall_ns <= amount.cpu_ns || !is_wait_for_others(tables, key)) continue;
    RawAmount& blocked = idle.emplace_back(key, RawAmount{}).second;
    blocked.wall_ns = amount.wall_ns - amount.cpu_ns;
    amount.wall_ns = amount.cpu_ns;
    if (blocked.wall_ns >= amount.cpu_ns) std::swap(blocked.samples, amount.samples);
  }
  for (const auto& [key, blocked] : idle) {
    if (const auto rest = values.find(key); rest->second.cpu_ns == 0 && rest->second.samples == 0)
      values.erase(rest);
    values[{key.path, shard::Category::kIdle, false}].add(blocked);
  }
}

}  // namespace clusterprof::collector
