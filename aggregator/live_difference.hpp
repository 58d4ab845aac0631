// SPDX-License-Identifier: BSD-3-Clause
// What happened between two states of a run that is watched. Sums since the start of ranks are subtracted,
// and the difference is corrected as a merge corrects the sums of a whole run.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/live_state.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// The ranks of `now` that `before` has, too, as the same processes; or all of them since their start, if
// there is no `before`. Their amounts are differences: elapsed_ns, paused_ns, standby_ns, cpu_ns, mpi_ns,
// mpi_runnable_ns and main_thread_ns, which then adds up to what was recorded of elapsed_ns. A difference
// below 0 is 0: the time since a thread's last sample may be charged elsewhere once the next one comes.
// Samples are those since the start, so that what did not happen lately is 0 and not unknown.
std::vector<shard::Rank> ranks_since(const shard::ShardData& now, const shard::ShardData* before);

// Time of call paths, by id.
struct PathTime {
  shard::PathId path;
  shard::Category category = shard::Category::kNative;
  std::uint64_t wall_ns = 0;
};
// Paths without time in between are left out. Empty if the states cannot be compared.
std::vector<PathTime> times_since(const shard::LiveState& now, const shard::LiveState& before);

}  // namespace clusterprof::aggregator
