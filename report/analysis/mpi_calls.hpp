// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Analysis::mpi_calls.
void count_mpi_calls(const shard::ShardData& data, const CallPaths& paths,
                     const std::vector<std::uint32_t>& ascending, Analysis& analysis);

// Analysis::matrix, node_matrix, mpi_sizes.
void copy_mpi_tables(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
