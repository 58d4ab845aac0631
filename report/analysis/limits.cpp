// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/limits.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::kNone;
using shard::Value;

// Time by limit and place, of one rank after the other and of all: finds the places with most.
class PlaceTable {
 public:
  explicit PlaceTable(const CallPaths& paths) : paths_(paths), of_path_(paths.size(), kNone) {}

  void add(Limit limit, std::uint32_t path, double time_s) {
    std::uint32_t& place = of_path_[path];
    if (place == kNone) place = number(paths_.place(path));
    if (place == 0) return;  // not known
    const std::size_t cell = place * kLimits + index(limit);
    if (here_[cell] == 0) touched_.push_back(static_cast<std::uint32_t>(cell));
    here_[cell] += time_s;
  }
  // Gives the places with most to `to`, and starts over.
  void end_rank(Limits& to) {
    for (const std::uint32_t cell : touched_) {
      offer(to, cell, here_[cell]);
      all_[cell] += here_[cell];
      here_[cell] = 0;
    }
    touched_.clear();
  }
  void end(Limits& to) const {
    for (std::uint32_t cell = 0; cell < all_.size(); ++cell) offer(to, cell, all_[cell]);
  }

 private:
  std::uint32_t number(std::uint32_t path) {
    if (path == 0) return 0;
    // Frames are what a place is named by; two paths to one line are one place.
    const auto [known, is_new] =
        of_frame_.try_emplace(paths_.frame(path), static_cast<std::uint32_t>(first_path_.size()));
    if (is_new) {
      first_path_.push_back(path);
      here_.resize(first_path_.size() * kLimits);
      all_.resize(here_.size());
    }
    return known->second;
  }
  void offer(Limits& to, std::uint32_t cell, double time_s) const {
    const std::size_t limit = cell % kLimits;
    const std::uint32_t path = first_path_[cell / kLimits];
    const bool more = time_s > to.most_s[limit];
    if (!more && (time_s != to.most_s[limit] || path >= to.most_path[limit])) return;
    to.most_s[limit] = time_s;
    to.most_path[limit] = path;
  }

  const CallPaths& paths_;
  std::vector<std::uint32_t> of_path_;
  std::unordered_map<const shard::Frame*, std::uint32_t> of_frame_;
  std::vector<std::uint32_t> first_path_{0}, touched_;
  std::vector<double> here_ = std::vector<double>(kLimits), all_ = here_;
};

struct BoundFunction {
  double time_s = 0;
  double rank_time_s = 0;
  std::uint32_t rank = kNone;
  std::map<std::uint32_t, double> places;
};

}  // namespace

Limit LimitCounter::add(const Value& value, double time_s, Limits& to) const {
  Limit limit = Limit::kCompute;
  switch (value.category) {
    case Category::kPython:
      limit = Limit::kPython;
      break;
    case Category::kIo:
      limit = Limit::kIo;
      break;
    case Category::kMpi:
      limit = Limit::kMpi;
      break;
    case Category::kIdle:
      limit = Limit::kIdle;
      to.idle_s[static_cast<std::size_t>(off_cpu_of(paths_, value.path))] += time_s;
      break;
    case Category::kSystem:
      if (activity_of(paths_, value.path, Category::kSystem) == Activity::kPageFault) {
        limit = Limit::kMemory;
        to.page_fault_s += time_s;
      } else if (maps_memory(system_call_of(paths_, value.path))) {
        limit = Limit::kMemory;
        to.mapping_s += time_s;
      } else {
        to.kernel_s += time_s;
      }
      break;
    case Category::kNative:
      if (memory_.any_bound() &&
          memory_.bound(value.rank, paths_.function(paths_.counted(value.path, Category::kNative))))
        limit = Limit::kMemory;
      break;
  }
  to.time_s[index(limit)] += time_s;
  return limit;
}

std::vector<double> main_thread_scales(const shard::ShardData& data, const std::vector<Value>& charged,
                                       const std::vector<std::uint32_t>& ascending,
                                       const Analysis& analysis) {
  std::vector<double> charged_s(data.ranks.size(), 0), scales(data.ranks.size(), 0);
  for (const Value& value : charged)
    if (value.main_thread && value.category != Category::kMpi &&
        static_cast<std::size_t>(value.category) < shard::kCategories)
      charged_s[value.rank] += to_seconds(value.wall_ns);
  for (std::size_t position = 0; position < ascending.size(); ++position) {
    const std::uint32_t rank = ascending[position];
    double known_s = 0;
    for (std::size_t c = 0; c < shard::kCategories; ++c)
      if (c != static_cast<std::size_t>(Category::kMpi))
        known_s += analysis.ranks[position].category_s[c].value_or(0);
    if (charged_s[rank] > 0) scales[rank] = known_s / charged_s[rank];
  }
  return scales;
}

void find_limits(const shard::ShardData& data, const std::vector<Value>& charged, const CallPaths& paths,
                 const MemoryUse& memory, const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  const LimitCounter counter(paths, memory);
  const std::vector<double> scales = main_thread_scales(data, charged, ascending, analysis);
  const bool cpu_clock = data.run.clock == "cpu";
  PlaceTable places(paths);
  std::map<std::uint32_t, BoundFunction> bound;  // by CallPaths::function
  const ByRank values = by_rank(charged, data.ranks.size());
  for (std::size_t position = 0; position < ascending.size(); ++position) {
    const std::uint32_t rank = ascending[position];
    Limits& limits = analysis.ranks[position].limits;
    std::map<std::uint32_t, double> bound_here;
    for (std::uint32_t i = values.starts[rank]; i < values.starts[rank + 1]; ++i) {
      const Value& value = charged[values.order[i]];
      if (!value.main_thread || static_cast<std::size_t>(value.category) >= shard::kCategories) continue;
      if (cpu_clock && value.category == Category::kIdle) continue;
      const double time_s = to_seconds(value.wall_ns) * (value.category == Category::kMpi ? 1 : scales[rank]);
      if (time_s <= 0) continue;
      const Limit limit = counter.add(value, time_s, limits);
      places.add(limit, value.path, time_s);
      if (limit != Limit::kMemory || value.category != Category::kNative) continue;
      const std::uint32_t function = paths.function(paths.counted(value.path, Category::kNative));
      bound_here[function] += time_s;
      bound[function].places[paths.place(value.path)] += time_s;
    }
    places.end_rank(limits);
    for (const auto& [function, time_s] : bound_here) {
      BoundFunction& all = bound[function];
      all.time_s += time_s;
      if (all.rank == kNone || time_s > all.rank_time_s) all.rank = rank, all.rank_time_s = time_s;
    }
    Limits& sum = analysis.limits;
    for (std::size_t l = 0; l < kLimits; ++l) sum.time_s[l] += limits.time_s[l];
    for (std::size_t k = 0; k < kOffCpuKinds; ++k) sum.idle_s[k] += limits.idle_s[k];
    sum.kernel_s += limits.kernel_s;
    sum.page_fault_s += limits.page_fault_s;
    sum.mapping_s += limits.mapping_s;
  }
  places.end(analysis.limits);

  for (const auto& [function, all] : bound) {
    const MemoryUse::Use* const use = memory.of(all.rank, function);
    if (use == nullptr) continue;
    MemoryRow row;
    double most_s = 0;
    for (const auto& [path, time_s] : all.places)
      if (time_s > most_s) row.path = path, most_s = time_s;
    row.time_s = all.time_s;
    row.rank = data.ranks[all.rank].rank;
    row.rank_time_s = all.rank_time_s;
    row.by_counters = use->counted && use->cpu_ns != 0;
    if (row.by_counters) {
      row.bandwidth = static_cast<double>(use->misses) * 64 / to_seconds(use->cpu_ns);
      if (use->instructions != 0)
        row.misses_per_kilo =
            1000 * static_cast<double>(use->misses) / static_cast<double>(use->instructions);
    }
    row.working_set_bytes = use->working_set.bytes;
    row.working_set_is_more = use->working_set.is_more;
    row.accesses = use->accesses;
    const std::uint32_t node = data.ranks[all.rank].node;
    if (node < data.nodes.size()) row.cache_bytes = data.nodes[node].cache_bytes;
    analysis.memory_functions.push_back(row);
  }
  std::stable_sort(analysis.memory_functions.begin(), analysis.memory_functions.end(),
                   [](const MemoryRow& x, const MemoryRow& y) { return x.time_s > y.time_s; });
}

}  // namespace clusterprof::report
