// SPDX-License-Identifier: BSD-3-Clause
#include "formats/profile/path_statistics.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace clusterprof::profile {
namespace {

void add(Spread& spread, bool first, std::int32_t rank, std::uint64_t ns) {
  spread.sum_ns += ns;
  spread.sum_squares_ns2 += static_cast<double>(ns) * static_cast<double>(ns);
  if (first || ns < spread.min_ns || (ns == spread.min_ns && rank < spread.min_rank)) {
    spread.min_ns = ns;
    spread.min_rank = rank;
  }
  if (first || ns > spread.max_ns || (ns == spread.max_ns && rank < spread.max_rank)) {
    spread.max_ns = ns;
    spread.max_rank = rank;
  }
}

}  // namespace

std::vector<PathStatistics> path_statistics(const shard::ShardData& data) {
  std::vector<PathStatistics> statistics(data.paths.size());

  // Values by rank without sorting them.
  std::vector<std::uint64_t> first(data.ranks.size() + 1);
  for (const shard::Value& value : data.values) ++first[value.rank + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::uint32_t> order(data.values.size());
  std::vector<std::uint64_t> next(first.begin(), first.end() - 1);
  for (std::size_t i = 0; i < data.values.size(); ++i)
    order[next[data.values[i].rank]++] = static_cast<std::uint32_t>(i);

  // Ranks in ascending order, so that the sums of squares do not depend on the order of rows.
  std::vector<std::uint32_t> ranks(data.ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0u);
  std::sort(ranks.begin(), ranks.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(data.ranks[a].rank, a) < std::pair(data.ranks[b].rank, b);
  });

  std::vector<std::uint64_t> inclusive(data.paths.size()), exclusive(data.paths.size());
  std::vector<bool> touched(data.paths.size());
  std::vector<std::uint32_t> paths;
  for (const std::uint32_t rank : ranks) {
    paths.clear();
    for (std::uint64_t i = first[rank]; i < first[rank + 1]; ++i) {
      const shard::Value& value = data.values[order[i]];
      exclusive[value.path] += value.wall_ns;
      for (std::uint32_t path = value.path; !touched[path]; path = data.paths[path].parent) {
        touched[path] = true;
        paths.push_back(path);
      }
    }
    // A parent has a smaller index than its children: from the end, each is complete when met.
    std::sort(paths.begin(), paths.end(), std::greater<>());
    const std::int32_t number = data.ranks[rank].rank;
    for (const std::uint32_t path : paths) {
      inclusive[path] += exclusive[path];
      if (path != 0) inclusive[data.paths[path].parent] += inclusive[path];
      PathStatistics& entry = statistics[path];
      const bool is_first = entry.ranks++ == 0;
      add(entry.inclusive, is_first, number, inclusive[path]);
      add(entry.exclusive, is_first, number, exclusive[path]);
      inclusive[path] = exclusive[path] = 0;
      touched[path] = false;
    }
  }
  return statistics;
}

}  // namespace clusterprof::profile
