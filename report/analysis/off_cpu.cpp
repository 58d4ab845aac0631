// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/off_cpu.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "report/analysis/limits.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {

using shard::Category;

void find_off_cpu(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                  const CallPaths& paths, const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  if (data.run.clock == "cpu" || analysis.run.samples == 0) return;
  struct Sum {
    double time_s = 0, main_thread_s = 0, here_s = 0, rank_s = 0;
    std::int32_t max_rank = -1;
    bool touched = false;
  };
  const std::vector<double> scales = main_thread_scales(data, charged, ascending, analysis);
  std::unordered_map<std::uint64_t, Sum> sums;  // by place's frame's first path and kind
  std::unordered_map<const shard::Frame*, std::uint32_t> place_of_frame;
  std::vector<Sum*> touched;
  const ByRank by = by_rank(charged, data.ranks.size());
  for (const std::uint32_t rank : ascending) {
    if (data.ranks[rank].samples == 0) continue;
    touched.clear();
    for (std::uint32_t i = by.starts[rank]; i < by.starts[rank + 1]; ++i) {
      const shard::Value& value = charged[by.order[i]];
      if (value.category != Category::kIdle && value.category != Category::kIo) continue;
      const double time_s = to_seconds(value.wall_ns - std::min(value.wall_ns, value.cpu_ns)) *
                            (value.main_thread ? scales[rank] : 1);
      if (time_s <= 0) continue;
      const OffCpu kind = off_cpu_of(paths, value.path);
      const std::uint32_t place = paths.place(value.path);
      const std::uint32_t first = place_of_frame.try_emplace(paths.frame(place), place).first->second;
      Sum& sum = sums[std::uint64_t{first} << 8 | static_cast<std::uint64_t>(kind)];
      if (!sum.touched) touched.push_back(&sum);
      sum.touched = true;
      sum.time_s += time_s;
      sum.here_s += time_s;
      if (value.main_thread) sum.main_thread_s += time_s;
    }
    for (Sum* const sum : touched) {
      if (sum->max_rank < 0 || sum->here_s > sum->rank_s)
        sum->max_rank = data.ranks[rank].rank, sum->rank_s = sum->here_s;
      sum->here_s = 0;
      sum->touched = false;
    }
  }
  // Paths that end at one line are one row.
  using Key = std::tuple<std::uint64_t, std::string_view, std::uint32_t, std::string_view>;
  struct Row {
    OffCpuRow row;
    double rank_s = 0;
  };
  std::map<Key, Row> rows;
  for (const auto& [at, sum] : sums) {
    const shard::Frame* const frame = paths.frame(static_cast<std::uint32_t>(at >> 8));
    const std::uint64_t kind = at & 0xff;
    Row& to = frame == nullptr ? rows[{kind, {}, 0, {}}]
                               : rows[{kind, paths.text(frame->file), frame->line, paths.text(frame->name)}];
    if (frame != nullptr) to.row.frame_kind = frame->kind;
    to.row.time_s += sum.time_s;
    to.row.main_thread_s += sum.main_thread_s;
    if (to.row.max_rank < 0 ||
        std::tuple(-sum.rank_s, sum.max_rank) < std::tuple(-to.rank_s, to.row.max_rank))
      to.row.max_rank = sum.max_rank, to.rank_s = sum.rank_s;
  }
  auto& result = analysis.off_cpu.emplace();
  for (auto& [key, to] : rows) {
    to.row.kind = static_cast<OffCpu>(std::get<0>(key));
    to.row.file = std::get<1>(key);
    to.row.line = std::get<2>(key);
    to.row.function = std::get<3>(key);
    result.push_back(std::move(to.row));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const OffCpuRow& x, const OffCpuRow& y) { return x.time_s > y.time_s; });
}

}  // namespace clusterprof::report
