// SPDX-License-Identifier: BSD-3-Clause
// How much longer OpenMP regions take with another number of threads. docs/whatif.md, "Numbers of threads".
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::whatif {

// What the time outside MPI that a rank spends on a path is multiplied by. What one rank does in a region
// another one may do outside of all, so that each rank has its own factors.
class ThreadFactors {
 public:
  ThreadFactors() = default;  // changes nothing
  ThreadFactors(const shard::ShardData& merged, double threads);

  // rank, path: rows of the merged tables. 1 outside of regions, and in regions that one thread alone ran.
  [[nodiscard]] float of(std::uint32_t rank, std::uint32_t path) const {
    float factor = 1;
    if (region_.empty()) return factor;
    // The outermost region has the threads.
    for (std::uint32_t region = region_[path]; region != 0; region = around_[region])
      if (const auto found = of_region_.find(std::uint64_t{rank} << 32 | region); found != of_region_.end())
        factor = found->second;
    return factor;
  }
  // No region is recorded with its place that other threads would change.
  [[nodiscard]] bool empty() const { return of_region_.empty(); }

 private:
  // Per path: the innermost path at or above it, and above it, that is a region's of any rank; 0: none.
  std::vector<std::uint32_t> region_, around_;
  std::unordered_map<std::uint64_t, float> of_region_;  // by rank and path
};

}  // namespace clusterprof::aggregator::whatif
