// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/path_times.hpp"

#include <algorithm>
#include <utility>

#include "formats/shard/path_times.hpp"

namespace clusterprof::collector {

void PathTimes::add_row(std::uint32_t path) {
  if (rows_.size() == kMaxRows) give_up_small_rows();
  if (path >= row_of_.size())
    row_of_.resize(std::max<std::size_t>(store_.tables().nodes.size(), path + std::size_t{1}), shard::kNone);
  if (row_of_[path] != shard::kNone) return;  // it has got a row since, when smaller paths lost theirs
  row_of_[path] = static_cast<std::uint32_t>(rows_.size());
  rows_.push_back({path, 0, SeriesBlock(1)});
}

void PathTimes::give_up_small_rows() {
  std::vector<std::uint32_t> parents;
  parents.reserve(store_.tables().nodes.size());
  for (const RawNode& node : store_.tables().nodes) parents.push_back(node.parent);
  std::vector<shard::PathWeight> weights;
  weights.reserve(rows_.size());
  for (const Row& row : rows_) weights.push_back({row.path, row.wall_ns, 1});
  const std::vector<std::uint32_t> kept = shard::keep_largest_paths(parents, weights, kMaxRows / 2);

  std::vector<Row> before = std::exchange(rows_, {});
  for (const Row& row : before) row_of_[row.path] = shard::kNone;
  for (std::size_t i = 0; i < before.size(); ++i) {
    std::uint32_t& place = row_of_[kept[i]];
    if (place == shard::kNone) {
      place = static_cast<std::uint32_t>(rows_.size());
      rows_.push_back({kept[i], 0, SeriesBlock(1)});
    }
    rows_[place].wall_ns += before[i].wall_ns;
    rows_[place].times.add(std::move(before[i].times));
  }
}

PathTimes::Cells PathTimes::cells(std::span<const PathTime> open) {
  if (!grid_.begun()) return {};
  std::vector<SeriesBlock> not_yet(open.size(), SeriesBlock(1));
  for (std::size_t i = 0; i < open.size(); ++i)
    not_yet[i].spread(grid_, 0, open[i].when.begin_ns, open[i].when.end_ns, open[i].wall_ns);
  Cells all;
  const auto take = [&](std::uint32_t path, SeriesBlock& times) {
    times.for_each(grid_, [&](std::uint32_t, std::uint32_t bin, std::uint64_t wall_ns) {
      all.cells.push_back({path, bin, wall_ns});
    });
  };
  for (Row& row : rows_) take(row.path, row.times);
  for (std::size_t i = 0; i < open.size(); ++i) take(open[i].path, not_yet[i]);
  all.axis = {grid_.width_ns(), static_cast<std::int64_t>(grid_.first() * grid_.width_ns())};
  return all;
}

}  // namespace clusterprof::collector
