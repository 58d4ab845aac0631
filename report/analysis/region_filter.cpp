// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "report/analysis/call_paths.hpp"
#include "report/analysis/charged_time.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::ShardData;

std::string name_of(const CallPaths& paths, std::uint32_t region) {
  std::string name = paths.text(paths.frame(region)->name);
  for (std::uint32_t up = paths.region(paths.parent(region)); up != 0; up = paths.region(paths.parent(up)))
    name = paths.text(paths.frame(up)->name) + "/" + name;
  return name;
}

// By path: whether it is in the region.
std::vector<bool> paths_inside(const CallPaths& paths, std::string_view name) {
  std::vector<bool> inside(paths.size(), false);
  for (std::uint32_t path = 1; path < paths.size(); ++path)
    inside[path] = inside[paths.parent(path)] || (paths.region(path) == path && name_of(paths, path) == name);
  return inside;
}

template <typename T>
void keep(std::vector<T>& table, const std::vector<bool>& inside) {
  std::erase_if(table, [&](const T& row) { return row.path >= inside.size() || !inside[row.path]; });
}

}  // namespace

std::optional<Analysis> analyse_region(const ShardData& whole, std::string_view name) {
  ShardData data = whole;
  {
    const CallPaths paths(whole);
    const std::vector<bool> inside = paths_inside(paths, name);
    if (std::find(inside.begin(), inside.end(), true) == inside.end()) return {};
    keep(data.values, inside);
    keep(data.mpi_calls, inside);
    keep(data.path_counters, inside);
    keep(data.io_calls, inside);
    keep(data.data_accesses, inside);
    keep(data.region_times, inside);
    keep(data.wait_states, inside);
    keep(data.root_causes, inside);
    keep(data.critical_times, inside);
  }
  // Not known of a part of the run.
  data.matrix.clear();
  data.mpi_sizes.clear();
  data.time_windows.clear();
  data.series.clear();
  data.rank_series.clear();
  data.node_series.clear();
  data.time_axis = {};
  data.wait_analysis.ideal_ns = 0;

  data.counter_values.clear();
  for (const shard::PathCounter& row : data.path_counters)
    data.counter_values.push_back({row.rank, row.counter, row.value});

  // Ranks as if they had done nothing else.
  std::vector<double> scales;
  for (const shard::Rank& rank : whole.ranks) scales.push_back(sampled_scale(rank, whole.run.clock == "cpu"));
  constexpr std::uint32_t kOfTheWhole = shard::kUsageKnown | shard::kIoKnown;
  std::vector<double> outside_mpi_ns(data.ranks.size(), 0);
  for (shard::Rank& rank : data.ranks) {
    rank.flags &= ~kOfTheWhole;
    rank.start_utc_ns = data.run.start_utc_ns;
    rank.main_thread_ns = {};
    rank.samples = rank.mpi_ns = rank.mpi_wait_ns = rank.paused_ns = rank.cpu_ns = 0;
  }
  for (const shard::Value& value : data.values) {
    if (value.rank >= data.ranks.size() || static_cast<std::size_t>(value.category) >= shard::kCategories)
      continue;
    shard::Rank& rank = data.ranks[value.rank];
    rank.samples += value.samples;
    if (!value.main_thread) continue;
    std::uint64_t& sum = rank.main_thread_ns[static_cast<std::size_t>(value.category)];
    sum += value.wall_ns;
    if (value.category != Category::kMpi || (rank.flags & shard::kUsedMpi) == 0)
      outside_mpi_ns[value.rank] +=
          static_cast<double>(value.wall_ns) * (value.category == Category::kMpi ? 1 : scales[value.rank]);
  }
  for (const shard::MpiCall& call : data.mpi_calls)
    if (call.rank < data.ranks.size()) data.ranks[call.rank].mpi_ns += call.time_ns;
  for (const shard::WaitState& state : data.wait_states)
    if (state.rank < data.ranks.size()) data.ranks[state.rank].mpi_wait_ns += state.wait_ns;
  for (std::size_t i = 0; i < data.ranks.size(); ++i)
    data.ranks[i].elapsed_ns = static_cast<std::uint64_t>(outside_mpi_ns[i]) + data.ranks[i].mpi_ns;
  Analysis analysis = analyse(data);
  analysis.run.region = name;
  return analysis;
}

}  // namespace clusterprof::report
