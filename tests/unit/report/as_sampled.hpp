// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <numeric>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::report::testing {

// Ranks that ran as long as their main threads' samples say, so that no time is scaled.
inline shard::ShardData as_sampled(shard::ShardData data) {
  for (shard::Rank& rank : data.ranks) {
    const auto& ns = rank.main_thread_ns;
    const std::uint64_t all_ns = std::accumulate(ns.begin(), ns.end(), std::uint64_t{0});
    if (all_ns != 0) rank.elapsed_ns = all_ns;
  }
  return data;
}

}  // namespace clusterprof::report::testing
