// SPDX-License-Identifier: BSD-3-Clause
// Adds up the time of asyncio's tasks by name and coroutine.
#include "report/analysis/tasks.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "report/analysis/tables.hpp"

namespace clusterprof::report {

void list_tasks(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis) {
  using Key = std::tuple<std::uint32_t, std::string_view, std::uint32_t>;  // rank's row, name, function
  std::map<Key, std::pair<std::uint64_t, std::uint64_t>> sums;             // wall, CPU
  for (const shard::TaskTime& task : data.task_times) {
    if (task.rank >= data.ranks.size() || task.task_path >= paths.size()) continue;
    auto& [wall_ns, cpu_ns] = sums[{task.rank, task.name, paths.function(task.task_path)}];
    wall_ns += task.wall_ns;
    cpu_ns += task.cpu_ns;
  }
  for (const auto& [key, sum] : sums) {
    const auto& [rank, name, function] = key;
    TaskRow& row = analysis.tasks.emplace_back();
    row.rank = data.ranks[rank].rank;
    row.name = name;
    if (function != shard::kNone) {
      const shard::Frame& frame = *paths.functions()[function];
      row.coroutine = paths.function_name(function);
      row.file = paths.text(frame.file);
      row.line = frame.function_line;
    }
    row.time_s = to_seconds(sum.first);
    row.cpu_s = to_seconds(sum.second);
  }
  std::stable_sort(analysis.tasks.begin(), analysis.tasks.end(),
                   [](const TaskRow& a, const TaskRow& b) { return a.time_s > b.time_s; });
  if (analysis.tasks.size() > thresholds::kMaxTasks) analysis.tasks.resize(thresholds::kMaxTasks);
}

}  // namespace clusterprof::report
