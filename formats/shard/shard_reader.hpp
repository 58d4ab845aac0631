// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// Reads a whole shard. What comes back is safe to use without further checks: every index is
// in range, paths[0] is the root, parents come before their children, enums have known values.
// A file that is damaged, truncated, of another kind or of a newer major version gives an
// Error of one line that names it. Not thread-safe together with any other use of HDF5.
Result<ShardData> read_shard(const std::filesystem::path& path);

// Only run, nodes, ranks (without affinity and numa_nodes), drops and handler_costs; every other table is
// left empty. Cheap for any size of shard. Checks what it reads as read_shard does.
Result<ShardData> read_shard_summary(const std::filesystem::path& path);

}  // namespace clusterprof::shard
