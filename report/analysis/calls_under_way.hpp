// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Fills in Analysis::calls_under_way and call_paths_under_way. Needs Analysis::ranks.
void list_calls_under_way(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

// Those of the rank, the main thread's first.
std::span<const CallUnderWayRow> calls_under_way_of(const Analysis& analysis, std::int32_t rank);

// The MPI call in which the rank's main thread was when the rank ended. Null: in none.
const CallUnderWayRow* mpi_call_at_end(const Analysis& analysis, std::int32_t rank);

// What reports name as the place of a path: the user's line, followed by the library function that it called,
// or by the MPI call. Empty for the root.
SourceLocation place_of_path(const CallPaths& paths, std::uint32_t path);
// All frames of a path, the outermost first.
std::vector<SourceLocation> frames_of(const CallPaths& paths, std::uint32_t path);

// Fills in RankInfo::last_seen of all ranks that have a last call path.
void find_last_seen(const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
