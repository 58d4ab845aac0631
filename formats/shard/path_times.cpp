// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/path_times.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace clusterprof::shard {
namespace {

constexpr std::size_t kRowsPerRank = 256, kMinRows = 8192, kMaxRows = 1u << 16;

// The paths that have time and all above them, parents first.
class WeightedTree {
 public:
  WeightedTree(std::span<const std::uint32_t> parents, std::span<const PathWeight> weights) {
    std::vector<std::uint32_t> place(parents.size(), kNone);  // in nodes_
    std::vector<std::uint32_t> paths{0};
    place[0] = 0;
    for (const PathWeight& weight : weights)
      for (std::uint32_t path = weight.path; place[path] == kNone; path = parents[path]) {
        place[path] = 0;
        paths.push_back(path);
      }
    std::sort(paths.begin(), paths.end());
    for (std::size_t i = 0; i < paths.size(); ++i) place[paths[i]] = static_cast<std::uint32_t>(i);
    for (const std::uint32_t path : paths) nodes_.push_back({path, place[parents[path]], 0, 0});
    for (const PathWeight& weight : weights) {
      node_of_.push_back(place[weight.path]);
      Node& node = nodes_[place[weight.path]];
      node.wall_ns += weight.wall_ns;
      node.bins |= weight.bins;
      total_ns_ += weight.wall_ns;
    }
  }

  // The bins of those that are kept when a path needs that time.
  std::size_t bins_of_kept(std::uint64_t least_ns) {
    scratch_ = nodes_;
    std::size_t bins = 0;
    for (std::size_t i = scratch_.size(); --i != 0;) {
      const Node& node = scratch_[i];
      if (node.wall_ns >= least_ns) {
        bins += static_cast<std::size_t>(std::popcount(node.bins));
        continue;
      }
      Node& parent = scratch_[node.parent];
      parent.wall_ns += node.wall_ns;
      parent.bins |= node.bins;
    }
    return bins + static_cast<std::size_t>(std::popcount(scratch_[0].bins));
  }

  // The least time that leaves no more than max_bins, to a sixteenth.
  std::uint64_t least_time(std::size_t max_bins) {
    if (bins_of_kept(0) <= max_bins) return 0;
    std::uint64_t too_little = 0, enough = total_ns_ + 1;  // the root alone
    while (enough - too_little > 1 + too_little / 16) {
      const auto middle = static_cast<std::uint64_t>(
          std::sqrt((static_cast<double>(too_little) + 1) * static_cast<double>(enough)));
      const std::uint64_t least_ns = std::clamp(middle, too_little + 1, enough - 1);
      (bins_of_kept(least_ns) <= max_bins ? enough : too_little) = least_ns;
    }
    return enough;
  }

  std::vector<std::uint32_t> targets(std::uint64_t least_ns) {
    bins_of_kept(least_ns);  // leaves the times that decide
    std::vector<std::uint32_t> target(nodes_.size(), 0);
    for (std::size_t i = 1; i < nodes_.size(); ++i)
      target[i] = scratch_[i].wall_ns >= least_ns ? nodes_[i].path : target[nodes_[i].parent];
    std::vector<std::uint32_t> of_weights;
    of_weights.reserve(node_of_.size());
    for (const std::uint32_t node : node_of_) of_weights.push_back(target[node]);
    return of_weights;
  }

 private:
  struct Node {
    std::uint32_t path, parent;  // parent: in nodes_
    std::uint64_t wall_ns, bins;
  };
  std::vector<Node> nodes_, scratch_;
  std::vector<std::uint32_t> node_of_;  // by weight
  std::uint64_t total_ns_ = 0;
};

}  // namespace

std::size_t max_path_series_rows(std::size_t ranks) {
  return std::clamp(kRowsPerRank * ranks, kMinRows, kMaxRows);
}

std::vector<std::uint32_t> keep_largest_paths(std::span<const std::uint32_t> parents,
                                              std::span<const PathWeight> weights, std::size_t max_bins) {
  WeightedTree tree(parents, weights);
  return tree.targets(tree.least_time(max_bins));
}

void PathTimeTable::add(std::uint32_t path, std::uint32_t bin, std::uint64_t wall_ns) {
  std::uint32_t& row = row_of_[path];
  if (row == kNone) {
    row = static_cast<std::uint32_t>(times_.size());
    times_.push_back({});
    paths_.push_back(path);
  }
  times_[row][bin] += wall_ns;
}

std::vector<PathSeries> PathTimeTable::rows(const std::vector<Path>& paths, std::size_t max_rows) const {
  std::vector<PathWeight> weights;
  for (std::size_t row = 0; row < times_.size(); ++row) {
    PathWeight& weight = weights.emplace_back();
    weight.path = paths_[row];
    for (std::uint32_t bin = 0; bin < kMaxPathBins; ++bin) {
      weight.wall_ns += times_[row][bin];
      weight.bins |= std::uint64_t{times_[row][bin] != 0} << bin;
    }
  }
  std::vector<std::uint32_t> parents;
  parents.reserve(paths.size());
  for (const Path& path : paths) parents.push_back(path.parent);
  const std::vector<std::uint32_t> target = keep_largest_paths(parents, weights, max_rows);
  PathTimeTable kept(paths.size());
  for (std::size_t row = 0; row < times_.size(); ++row)
    for (std::uint32_t bin = 0; bin < kMaxPathBins; ++bin)
      if (times_[row][bin] != 0) kept.add(target[row], bin, times_[row][bin]);
  std::vector<PathSeries> table;
  for (std::uint32_t path = 0; path < kept.row_of_.size(); ++path) {
    if (kept.row_of_[path] == kNone) continue;
    const Bins& bins = kept.times_[kept.row_of_[path]];
    for (std::uint32_t bin = 0; bin < kMaxPathBins; ++bin)
      if (bins[bin] != 0) table.push_back({path, bin, bins[bin]});
  }
  return table;
}

}  // namespace clusterprof::shard
