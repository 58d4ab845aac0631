// SPDX-License-Identifier: BSD-3-Clause
// Reads shards, whole or in parts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// Reads a whole shard. The result needs no further checks: every index is in range, paths[0] is the root,
// parents come before their children, and enums have known values. A file that is damaged, truncated, or of
// another kind or version gives an Error of one line that names it. Several threads may read at the same
// time.
Result<ShardData> read_shard(const std::filesystem::path& path);

// Reads only run, nodes, ranks (without their texts: affinity, numa_nodes, last_call_path and command), drops
// and handler_costs, and leaves the other tables empty. Cheap for any size of shard. Makes the same checks as
// read_shard().
Result<ShardData> read_shard_summary(const std::filesystem::path& path);

// Reads everything except the matrix tables (rank_rows.hpp), mpi_events and event_gaps, which are left empty.
Result<ShardData> read_shard_head(const std::filesystem::path& path);

// The numbers of rows of these tables, without reading them.
struct LargeTables {
  std::uint64_t values = 0, path_counters = 0, data_accesses = 0, mpi_events = 0, event_gaps = 0;
};
Result<LargeTables> read_large_table_sizes(const std::filesystem::path& path);

// The matrix tables, and what their indices mean: other files number the same things differently.
struct ShardMatrix {
  std::vector<PathId> paths;             // by row of paths
  std::vector<std::int32_t> ranks;       // world rank by row of ranks
  std::vector<std::uint32_t> rank_node;  // row of nodes by row of ranks
  std::vector<std::string> nodes;        // names
  std::vector<std::string> counters;     // names
  MatrixRows rows;                       // by rank, path, ...
};
Result<ShardMatrix> read_shard_matrix(const std::filesystem::path& path);

// Reads the head with mpi_events and event_gaps. With level > 0, keeps only the events that
// event_is_selected() selects at this level, raises Rank::event_level to it, and has no event_stretches.
Result<ShardData> read_shard_events(const std::filesystem::path& path, std::uint32_t level = 0);

}  // namespace clusterprof::shard
