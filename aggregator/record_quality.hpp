// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>
#include <tuple>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Of several records of a rank, a merge takes the one with the highest quality.
inline auto record_quality(const shard::Rank& rank, std::string_view node) {
  const bool exit_known = (rank.flags & (shard::kExitStatusKnown | shard::kExitSignalKnown)) != 0;
  // The fields after samples only make the choice independent of the order of inputs.
  return std::tuple((rank.flags & shard::kLost) == 0, exit_known, rank.elapsed_ns, rank.samples, rank.cpu_ns,
                    rank.start_utc_ns, rank.pid, rank.flags, rank.handler_ns, node);
}

}  // namespace clusterprof::aggregator
