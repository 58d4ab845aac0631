// SPDX-License-Identifier: BSD-3-Clause
// Statistics over ranks of the time spent on a call path. FORMATS.md, table path_statistics.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::profile {

// Over the ranks that have the path. Wall time, all threads of a rank together.
struct Spread {
  std::uint64_t sum_ns = 0, min_ns = 0, max_ns = 0;
  std::int32_t min_rank = 0, max_rank = 0;  // world ranks; the lowest of several
  double sum_squares_ns2 = 0;
  friend bool operator==(const Spread&, const Spread&) = default;
};

struct PathStatistics {
  std::uint32_t ranks = 0;  // with a value on the path or below it; 0: all else is 0
  Spread inclusive, exclusive;
  friend bool operator==(const PathStatistics&, const PathStatistics&) = default;
};

// One entry per path of `data`, which must be valid; order of its tables does not matter.
std::vector<PathStatistics> path_statistics(const shard::ShardData& data);

}  // namespace clusterprof::profile
