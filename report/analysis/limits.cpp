// SPDX-License-Identifier: BSD-3-Clause
// Divides every rank's time by what limited it, and notes the lines and functions with most of each. The
// sums are the evidence of bottlenecks.cpp.
#include "report/analysis/limits.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/number_list.hpp"
#include "base/thread_pools.hpp"
#include "report/analysis/channels.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;

// The place with most; of equal ones the first in the tree.
void offer(Limits& to, Limit which, std::uint32_t path, double time_s) {
  const std::size_t limit = index(which);
  const bool more = time_s > to.most_s[limit];
  if (!more && (time_s != to.most_s[limit] || path >= to.most_path[limit])) return;
  to.most_s[limit] = time_s;
  to.most_path[limit] = path;
}

// How many the rank may use; 0: not known.
std::size_t count_processors(const shard::ShardData& head, const shard::Rank& rank) {
  if (const auto bound = parse_number_list(head.strings[rank.affinity])) return bound->size();
  return rank.node < head.nodes.size() ? head.nodes[rank.node].cpus : 0;
}

// A part of `ns`, as `part` is of `whole`.
std::uint64_t scaled(std::uint64_t ns, std::uint64_t part, std::uint64_t whole) {
  return part == whole ? ns
                       : static_cast<std::uint64_t>(static_cast<double>(ns) * static_cast<double>(part) /
                                                    static_cast<double>(whole));
}

}  // namespace

double input_s(const Limits& limits) {
  return std::accumulate(limits.input_idle_s.begin(), limits.input_idle_s.end(),
                         limits.input_io_s + limits.input_relayed_s);
}

double verdict_s(const Limits& limits, Limit limit) {
  double other_s = limit == Limit::kIo ? limits.relayed_io_s + limits.input_io_s : 0;
  if (limit == Limit::kIdle)
    for (std::size_t k = 0; k < kOffCpuKinds; ++k)
      other_s += limits.relayed_idle_s[k] + limits.input_idle_s[k];
  return std::max(0.0, limits.time_s[index(limit)] - other_s) + verdict_workers_s(limits, limit);
}

double verdict_workers_s(const Limits& limits, Limit limit) {
  const double workers_s = limits.workers_s[index(limit)];
  const double all_s = std::accumulate(limits.workers_s.begin(), limits.workers_s.end(), 0.0);
  if (all_s <= 0) return workers_s;
  return workers_s * std::max(0.0, 1 - limits.input_relayed_s / all_s);
}

std::array<double, kOffCpuKinds> verdict_idle_s(const Limits& limits) {
  std::array<double, kOffCpuKinds> idle_s = limits.idle_s;
  for (std::size_t k = 0; k < kOffCpuKinds; ++k)
    idle_s[k] = std::max(0.0, idle_s[k] - limits.relayed_idle_s[k] - limits.input_idle_s[k]);
  return idle_s;
}

Limit limit_of(std::uint8_t cause) {
  switch (cause) {
    case causes::kPython:
      return Limit::kPython;
    case causes::kNative:
    case causes::kKernel:
      return Limit::kCompute;
    case causes::kNativeMemory:
    case causes::kPageFault:
    case causes::kMapping:
      return Limit::kMemory;
    case causes::kIo:
      return Limit::kIo;
    case causes::kMpi:
      return Limit::kMpi;
    case causes::kRunnable:
      return Limit::kRunnable;
    default:
      return Limit::kIdle;
  }
}

std::uint8_t cause_of(const CallPaths& paths, std::uint32_t path, Category category) {
  switch (category) {
    case Category::kPython:
      return causes::kPython;
    case Category::kIo:
      return causes::kIo;
    case Category::kMpi:
      return causes::kMpi;
    case Category::kRunnable:
      return causes::kRunnable;
    case Category::kIdle:
      return static_cast<std::uint8_t>(causes::kIdle + static_cast<std::uint8_t>(off_cpu_of(paths, path)));
    case Category::kSystem:
      if (activity_of(paths, path, Category::kSystem) == Activity::kPageFault) return causes::kPageFault;
      return maps_memory(system_call_of(paths, path)) ? causes::kMapping : causes::kKernel;
    case Category::kNative:
      break;
  }
  return causes::kNative;
}

void add_time(Limits& to, std::uint8_t cause, double time_s) {
  to.time_s[index(limit_of(cause))] += time_s;
  if (cause == causes::kKernel) to.kernel_s += time_s;
  if (cause == causes::kPageFault) to.page_fault_s += time_s;
  if (cause == causes::kMapping) to.mapping_s += time_s;
  if (cause >= causes::kIdle) to.idle_s[cause - causes::kIdle] += time_s;
}

LimitTime::LimitTime(const shard::ShardData& head, const CallPaths& paths, const LocationNumbers& places,
                     const Cells& cells)
    : head_(head),
      paths_(paths),
      places_(places),
      cells_(cells),
      cpu_clock_(head.run.clock == "cpu"),
      input_calls_(paths),
      of_place_(places.size() * kLimits),
      of_function_(paths.functions().size()) {
  find_processes();
}

// The paths of an executed program are below the call that made it. A forked child goes on in the function
// that has forked it, at any line.
void LimitTime::find_processes() {
  makes_processes_.resize(head_.ranks.size());
  of_process_.resize(paths_.size());
  std::set<std::pair<std::uint32_t, std::uint32_t>> forks;  // the path above, and the function
  for (const shard::Process& process : head_.processes) {
    if (process.origin == shard::ProcessOrigin::kRank || process.rank >= head_.ranks.size() ||
        process.path == 0 || process.path >= paths_.size())
      continue;
    makes_processes_[process.rank] = true;
    if (process.origin == shard::ProcessOrigin::kFork)
      forks.emplace(paths_.parent(process.path), paths_.function(process.path));
    else
      of_process_[process.path] = true;
  }
  std::set<std::string> progress;
  for (const ThreadPool& pool : kThreadPools)
    if (pool.kind == PoolKind::kHelper) progress.insert(pool_frame_name(pool));
  is_progress_.resize(paths_.size());
  for (std::uint32_t path = 1; path < paths_.size(); ++path) {
    const std::uint32_t above = paths_.parent(path);
    of_process_[path] =
        of_process_[path] || of_process_[above] || forks.contains({above, paths_.function(path)});
    const shard::Frame* const frame = paths_.frame(path);
    is_progress_[path] = is_progress_[above] ||
                         (above == 0 && frame != nullptr && progress.contains(paths_.text(frame->name)));
  }
}

std::uint64_t LimitTime::Workers::of_awaited(std::uint64_t ns) const {
  return awaited_ns == 0 ? 0 : scaled(ns, relayed_ns(), awaited_ns);
}
std::uint64_t LimitTime::Workers::of_busy(std::uint64_t ns) const {
  return busy_ns == 0 ? 0 : scaled(ns, relayed_ns(), busy_ns);
}

LimitTime::Awaits LimitTime::worker(const RankInput& rank, const shard::Value& value,
                                    const Cause& known) const {
  if (value.main_thread || known.cause >= causes::kIdle || known.cause == causes::kMpi)
    return Awaits::kNothing;
  if (of_process_[value.path]) return makes_processes_[rank.index] ? Awaits::kProcesses : Awaits::kNothing;
  return is_progress_[value.path] ? Awaits::kNothing : Awaits::kThreads;
}

// threads_use_all: while these have nearly all processors that the rank may use, the main thread would gain
// nothing by working, too, whatever it waits for.
LimitTime::WorkersOfRank LimitTime::sum_workers(const RankInput& rank, bool& threads_use_all) const {
  WorkersOfRank workers;
  threads_use_all = false;
  if (!rank.sampled) return workers;
  std::uint64_t ran_ns = 0, main_ns = 0, other_ns = 0;
  for (std::size_t i = 0; i < rank.values.size(); ++i) {
    const shard::Value& value = rank.values[i];
    const Cause& known = causes_[rank.cells[i]];
    if (!known.counts) continue;
    if (value.main_thread) {
      main_ns += value.wall_ns;
      if (known.awaits == Awaits::kAnything) other_ns += value.wall_ns;
      if (known.awaits < Awaits::kAnything) workers[index_of(known.awaits)].awaited_ns += value.wall_ns;
    } else if (const Awaits kind = worker(rank, value, known); kind != Awaits::kNothing) {
      workers[index_of(kind)].busy_ns += value.wall_ns;
      const bool ran = known.cause != causes::kRunnable && known.cause != causes::kIo;
      if (kind == Awaits::kThreads && ran) ran_ns += value.wall_ns;
    }
  }
  if (!makes_processes_[rank.index]) workers[index_of(Awaits::kProcesses)] = {};
  const auto processors = static_cast<double>(count_processors(head_, head_.ranks[rank.index]));
  threads_use_all = processors > 0 && static_cast<double>(ran_ns) >=
                                          thresholds::kBusy * processors * static_cast<double>(main_ns);
  if (threads_use_all) workers[index_of(Awaits::kThreads)].awaited_ns += other_ns;
  return workers;
}

void LimitTime::add_to_place(std::uint32_t place, std::uint8_t cause, std::uint64_t ns) {
  if (place == 0 || ns == 0) return;
  const std::uint32_t at =
      place * static_cast<std::uint32_t>(kLimits) + static_cast<std::uint32_t>(limit_of(cause));
  if (of_place_[at] == 0) touched_places_.push_back(at);
  of_place_[at] += ns;
}

void LimitTime::add_worker(const shard::Value& value, std::uint32_t cell, std::uint8_t cause,
                           std::uint64_t ns) {
  grow(worker_ns_, cells_.size());
  worker_ns_[cell] += ns;
  if (cause == causes::kNativeMemory) {
    worker_memory_ns_.resize(paths_.size());
    worker_memory_ns_[value.path] += ns;
  }
  add_to_place(causes_[cell].place, cause, ns);
}

// Whether the user's innermost function on the path has called what passes data between processes. Every path
// is looked at once, however many there are below it.
bool LimitTime::passes_data(std::uint32_t path) {
  if (passes_data_.empty()) passes_data_.resize(paths_.size());
  std::vector<std::uint32_t> inner;
  std::uint32_t at = path;
  for (; at != 0 && !passes_data_[at]; at = paths_.parent(at)) {
    const shard::Frame* const frame = paths_.frame(at);
    const bool is_python = frame != nullptr && frame->kind == shard::FrameKind::kPython;
    const bool is_native = frame != nullptr && frame->kind == shard::FrameKind::kNative;
    if (frame == nullptr || ((is_python || is_native) && paths_.owner(at) == Owner::kOwn))
      passes_data_[at] = false;
    else if (is_python && is_between_processes(channel_file(paths_.text(frame->file))))
      passes_data_[at] = true;
    if (passes_data_[at]) break;
    inner.push_back(at);
  }
  const bool found = at != 0 && *passes_data_[at];
  for (const std::uint32_t below : inner) passes_data_[below] = found;
  return found;
}

// What a thread that is blocked there waits for. A mutex is held by a thread that does something else: its
// holder may work, but the waiting is what costs.
LimitTime::Awaits LimitTime::awaits(std::uint32_t path) {
  switch (off_cpu_of(paths_, path)) {
    case OffCpu::kChild:
      return Awaits::kProcesses;
    case OffCpu::kJoin:
      return Awaits::kThreads;
    case OffCpu::kLock:
      if (passes_data(path)) return Awaits::kProcesses;
      return waits_for_holder(paths_, path) ? Awaits::kNothing : Awaits::kThreads;
    case OffCpu::kPoll:
      return passes_data(path) ? Awaits::kProcesses : Awaits::kAnything;
    case OffCpu::kPipe:
    case OffCpu::kNetwork:
      return passes_data(path) ? Awaits::kProcesses : Awaits::kNothing;
    case OffCpu::kSleep:
    case OffCpu::kOther:
      return Awaits::kAnything;
    case OffCpu::kGil:
    case OffCpu::kFile:
    case OffCpu::kOpenMp:
      break;
  }
  return Awaits::kNothing;
}

// Of the cells that have been added since.
void LimitTime::find_causes() {
  for (std::size_t cell = causes_.size(); cell < cells_.size(); ++cell) {
    const auto& [path, category] = cells_[cell];
    grow(causes_, cell + 1);
    const bool is_blocked = category == Category::kIdle || category == Category::kIo;
    Awaits what = is_blocked ? awaits(path) : Awaits::kNothing;
    if (what != Awaits::kProcesses && category == Category::kIo) what = Awaits::kNothing;
    causes_.back() = {places_.of(path), cause_of(paths_, path, category),
                      !cpu_clock_ || category != Category::kIdle, what,
                      is_blocked && input_calls_.wait_at(path).channel == Channel::kTake};
  }
}

Limits LimitTime::add(const RankInput& rank, const MemoryUse& memory) {
  Limits limits;
  if (rank.values.empty()) return limits;
  find_causes();
  grow(path_ns_, cells_.size());
  if (memory.any_bound()) {
    memory_ns_.resize(paths_.size());
    helper_memory_ns_.resize(paths_.size());
    bound_.resize(of_function_.size());
  }
  bool threads_use_all = false;
  const WorkersOfRank workers = sum_workers(rank, threads_use_all);
  const bool any_relayed = workers[0].relayed_ns() != 0 || workers[1].relayed_ns() != 0;
  const auto awaited_by = [&](const Cause& known) -> const Workers* {
    if (known.awaits == Awaits::kNothing) return nullptr;
    if (known.awaits != Awaits::kAnything) return &workers[index_of(known.awaits)];
    return threads_use_all ? &workers[index_of(Awaits::kThreads)] : nullptr;
  };
  if (any_relayed) grow(relayed_ns_, cells_.size());
  std::array<std::uint64_t, causes::kCount> charged_ns{}, relayed_ns{}, worker_ns{}, input_ns{};
  std::uint64_t input_relayed_ns = 0, most_input_ns = 0, threads_ns = 0;
  for (std::size_t i = 0; i < rank.values.size(); ++i) {
    const shard::Value& value = rank.values[i];
    const Cause& known = causes_[rank.cells[i]];
    if (!known.counts) continue;
    std::uint8_t cause = known.cause;
    if (cause == causes::kNative && memory.any_bound() && memory.bound(value.path))
      cause = causes::kNativeMemory;
    if (!value.main_thread) {
      if (cause == causes::kNativeMemory && rank.sampled) helper_memory_ns_[value.path] += value.wall_ns;
      const Awaits kind = any_relayed ? worker(rank, value, known) : Awaits::kNothing;
      if (kind == Awaits::kNothing) continue;
      const std::uint64_t part_ns = workers[index_of(kind)].of_busy(value.wall_ns);
      if (part_ns == 0) continue;
      worker_ns[cause] += part_ns;
      if (kind == Awaits::kThreads) threads_ns += part_ns;
      add_worker(value, rank.cells[i], cause, part_ns);
      continue;
    }
    // Without samples it is not known what the rest was.
    const std::uint64_t time_ns = rank.sampled || cause == causes::kMpi ? value.wall_ns : 0;
    path_ns_[rank.cells[i]] += time_ns;
    charged_ns[cause] += time_ns;
    const Workers* const awaited = any_relayed ? awaited_by(known) : nullptr;
    const std::uint64_t part_ns = awaited != nullptr ? awaited->of_awaited(time_ns) : 0;
    if (part_ns != 0) {
      relayed_ns[cause] += part_ns;
      relayed_ns_[rank.cells[i]] += part_ns;
    }
    if (known.takes_input) {
      input_ns[cause] += time_ns - part_ns;
      input_relayed_ns += part_ns;
      if (time_ns > most_input_ns) {
        most_input_ns = time_ns;
        limits.input_path = value.path;
      }
    }
    add_to_place(known.place, cause, time_ns - part_ns);
    if (cause != causes::kNativeMemory || time_ns == 0) continue;
    memory_ns_[value.path] += time_ns;
    const std::uint32_t function = memory.function(value.path);
    if (of_function_[function] == 0) touched_functions_.push_back(function);
    of_function_[function] += time_ns;
  }
  for (std::uint8_t cause = 0; cause < causes::kCount; ++cause)
    add_time(limits, cause, to_seconds(charged_ns[cause]));
  for (std::size_t k = 0; k < kOffCpuKinds; ++k)
    limits.relayed_idle_s[k] = to_seconds(relayed_ns[causes::kIdle + k]);
  limits.relayed_io_s = to_seconds(relayed_ns[causes::kIo]);
  for (std::size_t k = 0; k < kOffCpuKinds; ++k)
    limits.input_idle_s[k] = to_seconds(input_ns[causes::kIdle + k]);
  limits.input_io_s = to_seconds(input_ns[causes::kIo]);
  limits.input_relayed_s = to_seconds(input_relayed_ns);
  for (std::uint8_t cause = 0; cause < causes::kIdle; ++cause)
    limits.workers_s[index(limit_of(cause))] += to_seconds(worker_ns[cause]);
  limits.threads_s = to_seconds(threads_ns);
  find_most(limits);
  end_bound(rank, memory);
  return limits;
}

void LimitTime::find_most(Limits& limits) {
  for (const std::uint32_t at : touched_places_) {
    const auto limit = static_cast<Limit>(at % kLimits);
    offer(limits, limit, places_.path(static_cast<std::uint32_t>(at / kLimits)), to_seconds(of_place_[at]));
    of_place_[at] = 0;
  }
  touched_places_.clear();
}

void LimitTime::end_bound(const RankInput& rank, const MemoryUse& memory) {
  for (const std::uint32_t function : touched_functions_) {
    const double time_s = to_seconds(of_function_[function]);
    of_function_[function] = 0;
    const MemoryUse::Use* const use = memory.of(function);
    if (use != nullptr && time_s > 0) unite(bound_[function], Bound{time_s, rank.position, *use});
  }
  touched_functions_.clear();
}

void LimitTime::find_places(Limits& limits) const {
  std::vector<std::uint64_t> sums_ns(places_.size() * kLimits, 0);
  for (std::size_t cell = 0; cell < path_ns_.size(); ++cell) {
    const std::uint32_t path = cells_[cell].path;
    std::uint64_t* const at = &sums_ns[causes_[cell].place * kLimits];
    const bool native = causes_[cell].cause == causes::kNative;
    const std::uint64_t of_memory_ns = native ? memory_ns(path) : 0;
    at[index(limit_of(causes_[cell].cause))] += path_ns_[cell] - of_memory_ns;
    at[index(Limit::kMemory)] += of_memory_ns;
    if (cell < relayed_ns_.size()) at[index(limit_of(causes_[cell].cause))] -= relayed_ns_[cell];
  }
  for (std::size_t cell = 0; cell < worker_ns_.size(); ++cell) {
    const std::uint32_t path = cells_[cell].path;
    std::uint64_t* const at = &sums_ns[causes_[cell].place * kLimits];
    const bool native = causes_[cell].cause == causes::kNative && !worker_memory_ns_.empty();
    const std::uint64_t of_memory_ns = native ? worker_memory_ns_[path] : 0;
    at[index(limit_of(causes_[cell].cause))] += worker_ns_[cell] - of_memory_ns;
    at[index(Limit::kMemory)] += of_memory_ns;
  }
  for (std::uint32_t place = 1; place < places_.size(); ++place)
    for (std::size_t limit = 0; limit < kLimits; ++limit)
      offer(limits, static_cast<Limit>(limit), places_.path(place),
            to_seconds(sums_ns[place * kLimits + limit]));
}

void LimitTime::describe_functions(const RankOrder& ranks, Analysis& analysis) const {
  std::map<std::uint32_t, std::map<std::uint32_t, std::uint64_t>> functions;  // places by path
  for (std::uint32_t path = 0; path < memory_ns_.size(); ++path)
    if (memory_ns_[path] != 0)
      functions[paths_.function(paths_.counted(path, Category::kNative))][paths_.place(path)] +=
          memory_ns_[path];
  for (const auto& [function, places] : functions) {
    // Another process may have sent the one table without the other, or time of no function.
    if (function >= bound_.size() || bound_[function].position == kNoPosition) continue;
    const Bound& bound = bound_[function];
    const MemoryUse::Use& use = bound.use;
    MemoryRow& row = analysis.memory_functions.emplace_back();
    std::uint64_t sum_ns = 0, most_ns = 0;
    for (const auto& [path, ns] : places) {
      if (ns > most_ns) row.path = path, most_ns = ns;
      sum_ns += ns;
    }
    row.time_s = to_seconds(sum_ns);
    row.rank = ranks.number(bound.position);
    row.rank_time_s = bound.time_s;
    row.by_counters = use.counted && use.cpu_ns != 0;
    if (row.by_counters) {
      row.bandwidth = static_cast<double>(use.misses) * 64 / to_seconds(use.cpu_ns);
      if (use.instructions != 0)
        row.misses_per_kilo = 1000 * static_cast<double>(use.misses) / static_cast<double>(use.instructions);
    }
    const WorkingSet set = estimate_working_set(use.blocks, use.accesses);
    row.working_set_bytes = set.bytes;
    row.working_set_is_more = set.is_more;
    row.accesses = use.accesses;
    if (bound.position >= ranks.ascending.size()) continue;
    const std::uint32_t node = head_.ranks[ranks.ascending[bound.position]].node;
    if (node < head_.nodes.size()) row.cache_bytes = head_.nodes[node].cache_bytes;
  }
  std::stable_sort(analysis.memory_functions.begin(), analysis.memory_functions.end(),
                   [](const MemoryRow& x, const MemoryRow& y) { return x.time_s > y.time_s; });
}

void LimitTime::finish(const RankOrder& ranks, Analysis& analysis) {
  find_causes();
  Limits& sum = analysis.limits;
  for (const RankInfo& rank : analysis.ranks) {
    const Limits& limits = rank.limits;
    for (std::size_t l = 0; l < kLimits; ++l) sum.time_s[l] += limits.time_s[l];
    for (std::size_t l = 0; l < kLimits; ++l) sum.workers_s[l] += limits.workers_s[l];
    sum.threads_s += limits.threads_s;
    for (std::size_t k = 0; k < kOffCpuKinds; ++k) sum.idle_s[k] += limits.idle_s[k];
    for (std::size_t k = 0; k < kOffCpuKinds; ++k) sum.relayed_idle_s[k] += limits.relayed_idle_s[k];
    sum.relayed_io_s += limits.relayed_io_s;
    sum.kernel_s += limits.kernel_s;
    sum.page_fault_s += limits.page_fault_s;
    sum.mapping_s += limits.mapping_s;
  }
  find_places(sum);
  describe_functions(ranks, analysis);
}

}  // namespace clusterprof::report
