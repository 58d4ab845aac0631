// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// MPI_Init, MPI_Finalize, and those of sessions: they are outside of what efficiencies are of.
[[nodiscard]] bool is_mpi_startup(std::string_view op);
// Works on a file.
[[nodiscard]] bool is_mpi_io(std::string_view op);

// What the ranks' calls say of their main threads' time in MPI, and other threads in MPI:
// RankInfo::startup_s, mpi_io_s, mpi_helper_threads, mpi_helper_elapsed_s, mpi_helper_s, threads_useful_s.
// After describe_ranks().
void describe_mpi_time(const shard::ShardData& data, const CallPaths& paths,
                       const std::vector<std::uint32_t>& ascending, Analysis& analysis);

// Analysis::mpi_calls.
void count_mpi_calls(const shard::ShardData& data, const CallPaths& paths,
                     const std::vector<std::uint32_t>& ascending, Analysis& analysis);

// Sums of the cells between nodes; what is not known last.
[[nodiscard]] std::vector<NodeCell> between_nodes(const shard::ShardData& data,
                                                  const std::vector<shard::MatrixCell>& cells);

// Analysis::matrix, node_matrix, mpi_sizes.
void copy_mpi_tables(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
