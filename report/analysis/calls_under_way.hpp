// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Fills in Analysis::calls_under_way and call_paths_under_way. Needs Analysis::ranks.
void list_calls_under_way(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

// Fills in RankInfo::last_seen of all ranks that have a last call path.
void find_last_seen(const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
