// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Whether this is MPI_Init, MPI_Finalize, one of sessions, or the start of a process group of torch.distributed.
// Efficiencies leave them out.
[[nodiscard]] bool is_mpi_startup(std::string_view op);
// "MPI" or "torch.distributed", whose calls are recorded like MPI's.
[[nodiscard]] std::string_view communication_library(std::string_view op);
// Whether the MPI function works on a file.
[[nodiscard]] bool is_mpi_io(std::string_view op);

// Fills in, from the calls of ranks, the time of main threads and of other threads in MPI:
// RankInfo::startup_s, mpi_io_s, mpi_helper_threads, mpi_helper_elapsed_s, mpi_helper_s, threads_useful_s.
// Needs what describe_ranks() fills in.
void describe_mpi_time(const shard::ShardData& data, const CallPaths& paths,
                       const std::vector<std::uint32_t>& ascending, Analysis& analysis);

// Fills in Analysis::mpi_calls.
void count_mpi_calls(const shard::ShardData& data, const CallPaths& paths,
                     const std::vector<std::uint32_t>& ascending, Analysis& analysis);

// Sums of the matrix between nodes; cells of unknown nodes come last.
[[nodiscard]] std::vector<NodeCell> between_nodes(const shard::ShardData& data,
                                                  const std::vector<shard::MatrixCell>& cells);

// Fills in Analysis::matrix, node_matrix and mpi_sizes.
void copy_mpi_tables(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
