// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "report/analysis/analysis_builder.hpp"
#include "report/analysis/call_paths.hpp"

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

// Tells for each path whether it is in the region.
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

// Hands out those of a rank's rows whose paths are inside the region.
class RowFilter {
 public:
  explicit RowFilter(const std::vector<bool>& inside) : inside_(inside) {}

  // Valid until the next call.
  shard::RankRows operator()(const shard::RankRows& rows) {
    return {rows.rank, filter(rows.values, values_), filter(rows.path_counters, path_counters_),
            filter(rows.data_accesses, data_accesses_)};
  }

 private:
  template <typename T>
  std::span<const T> filter(std::span<const T> rows, std::vector<T>& kept) const {
    kept.clear();
    for (const T& row : rows)
      if (row.path < inside_.size() && inside_[row.path]) kept.push_back(row);
    return kept;
  }

  const std::vector<bool>& inside_;
  std::vector<shard::Value> values_;
  std::vector<shard::PathCounter> path_counters_;
  std::vector<shard::DataAccess> data_accesses_;
};

// Makes the ranks of `region` look as if they had done only what is in `rows`. This is the first of two
// passes over the rows.
void recount_ranks(const ShardData& whole, const shard::RowSource& rows, const std::vector<bool>& inside,
                   ShardData& region) {
  constexpr std::uint32_t kOfTheWhole = shard::kUsageKnown | shard::kIoKnown;
  for (shard::Rank& rank : region.ranks) {
    rank.flags &= ~kOfTheWhole;
    rank.start_utc_ns = region.run.start_utc_ns;
    rank.main_thread_ns = rank.raw_main_thread_ns = {};
    rank.samples = rank.elapsed_ns = rank.mpi_ns = rank.mpi_wait_ns = rank.paused_ns = rank.cpu_ns = 0;
    rank.standby_ns = 0;
    rank.mpi_helper_threads = 0;  // how long they lived in the region is not known
    rank.mpi_helper_elapsed_ns = rank.mpi_helper_ns = 0;
  }
  region.run.standby = false;  // the region's time is what was recorded of it
  region.recording_windows.clear();
  region.thread_spans.clear();  // of whole threads
  region.span_times.clear();
  region.counter_values.clear();
  RowFilter filter(inside);
  rows.for_each_rank([&](const shard::RankRows& all) {
    if (all.rank >= region.ranks.size()) return;
    const shard::RankRows here = filter(all);
    shard::Rank& rank = region.ranks[here.rank];
    for (const shard::Value& value : here.values) {
      if (static_cast<std::size_t>(value.category) >= shard::kCategories) continue;
      rank.samples += value.samples;
      if (!value.main_thread) continue;
      rank.main_thread_ns[static_cast<std::size_t>(value.category)] += value.wall_ns;
    }
    rank.raw_main_thread_ns = rank.main_thread_ns;
    std::vector<std::optional<std::uint64_t>> amounts(region.counters.size());
    for (const shard::PathCounter& row : here.path_counters)
      if (row.counter < amounts.size()) amounts[row.counter] = amounts[row.counter].value_or(0) + row.value;
    for (std::uint32_t c = 0; c < amounts.size(); ++c)
      if (amounts[c]) region.counter_values.push_back({here.rank, c, *amounts[c]});
  });
  constexpr auto kMpi = static_cast<std::size_t>(Category::kMpi);
  if (whole.run.clock == "cpu") {  // rows say nothing of the time in calls
    for (shard::Rank& rank : region.ranks)
      if ((rank.flags & shard::kUsedMpi) != 0) rank.main_thread_ns[kMpi] = 0;
    for (const shard::MpiCall& call : region.mpi_calls)
      if (call.rank < region.ranks.size() && call.main_thread)
        region.ranks[call.rank].main_thread_ns[kMpi] += call.time_ns;
  }
  for (const shard::WaitState& state : region.wait_states)
    if (state.rank < region.ranks.size()) region.ranks[state.rank].mpi_wait_ns += state.wait_ns;
  for (std::size_t r = 0; r < region.ranks.size(); ++r) {
    shard::Rank& rank = region.ranks[r];
    if ((rank.flags & shard::kUsedMpi) != 0) rank.mpi_ns = rank.main_thread_ns[kMpi];
    for (const std::uint64_t ns : rank.main_thread_ns) rank.elapsed_ns += ns;
    // Where in MPI a rank lacked a processor is not known: at least so much of it was in the region.
    const std::uint64_t elsewhere_ns = whole.ranks[r].mpi_ns - std::min(whole.ranks[r].mpi_ns, rank.mpi_ns);
    rank.mpi_runnable_ns -= std::min(rank.mpi_runnable_ns, elsewhere_ns);
  }
}

}  // namespace

std::optional<Analysis> analyse_region(const ShardData& whole, const shard::RowSource& rows,
                                       std::string_view name, FrameMode frames) {
  const std::vector<bool> inside = paths_inside(CallPaths(whole), name);
  if (std::find(inside.begin(), inside.end(), true) == inside.end()) return {};
  ShardData region = whole;
  region.values.clear();
  region.path_counters.clear();
  region.data_accesses.clear();
  keep(region.mpi_calls, inside);
  keep(region.calls_under_way, inside);
  keep(region.mpi_errors, inside);
  keep(region.open_requests, inside);
  keep(region.unmatched_messages, inside);
  keep(region.io_calls, inside);
  keep(region.region_times, inside);
  keep(region.mutex_waits, inside);
  keep(region.omp_regions, inside);
  keep(region.omp_threads, inside);
  std::erase_if(region.omp_constructs, [&](const shard::OmpConstruct& row) {
    return row.region_path >= inside.size() || !inside[row.region_path];
  });
  if (region.omp_regions.empty()) region.omp_ranks.clear();
  keep(region.path_series, inside);
  keep(region.memory_sites, inside);
  keep(region.memory_series, inside);
  keep(region.wait_states, inside);
  keep(region.root_causes, inside);
  keep(region.critical_times, inside);
  // Not known for a part of the run.
  region.matrix.clear();
  region.event_loops.clear();
  region.loop_blocks.clear();
  region.task_times.clear();
  region.threads.clear();
  region.mpi_sizes.clear();
  region.memory_spaces.clear();
  region.memory_labels.clear();
  region.memory_copies.clear();
  region.time_windows.clear();
  region.series.clear();
  region.rank_series.clear();
  region.node_series.clear();
  region.time_axis = {};
  region.wait_analysis.ideal_ns = 0;
  for (shard::MemoryRank& rank : region.memory_ranks)
    rank = {.rank = rank.rank, .interval_bytes = rank.interval_bytes};
  for (shard::Node& node : region.nodes) {
    node.group = {};
    node.held_peak_bytes = 0;
    node.held_peak_utc_ns = 0;
  }

  recount_ranks(whole, rows, inside, region);
  AnalysisBuilder builder(region, frames);
  RowFilter filter(inside);
  rows.for_each_rank([&](const shard::RankRows& all) { builder.add(filter(all)); });
  Analysis analysis = builder.finish();
  analysis.run.region = name;
  return analysis;
}

}  // namespace clusterprof::report
