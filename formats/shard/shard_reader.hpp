// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// Reads a whole shard. What comes back is safe to use without further checks: every index is
// in range, paths[0] is the root, parents come before their children, enums have known values.
// A file that is damaged, truncated, of another kind or of a newer major version gives an
// Error of one line that names it. Several threads may read at the same time.
Result<ShardData> read_shard(const std::filesystem::path& path);

// Only run, nodes, ranks (without affinity, numa_nodes and last_call_path), drops and handler_costs; every
// other table is left empty. Cheap for any size of shard. Checks what it reads as read_shard does.
Result<ShardData> read_shard_summary(const std::filesystem::path& path);

// Everything but the matrix tables (rank_rows.hpp), mpi_events and event_gaps, which are left empty.
Result<ShardData> read_shard_head(const std::filesystem::path& path);

// How many rows those tables have; costs next to nothing.
struct LargeTables {
  std::uint64_t values = 0, path_counters = 0, data_accesses = 0, mpi_events = 0, event_gaps = 0;
};
Result<LargeTables> read_large_table_sizes(const std::filesystem::path& path);

// The matrix tables, and what their numbers mean in other files.
struct ShardMatrix {
  std::vector<PathId> paths;             // by row of paths
  std::vector<std::int32_t> ranks;       // world rank by row of ranks
  std::vector<std::uint32_t> rank_node;  // row of nodes by row of ranks
  std::vector<std::string> nodes;        // names
  std::vector<std::string> counters;     // names
  MatrixRows rows;                       // by rank, path, ...
};
Result<ShardMatrix> read_shard_matrix(const std::filesystem::path& path);

// The head with mpi_events and event_gaps. level > 0: only those that event_is_selected() selects at that
// level; the level of the ranks' events becomes that, where it was lower.
Result<ShardData> read_shard_events(const std::filesystem::path& path, std::uint32_t level = 0);

}  // namespace clusterprof::shard
