// SPDX-License-Identifier: BSD-3-Clause
// What MPI knew of mistakes: errors that calls returned, requests that stayed open, and messages that nobody
// received.
#pragma once

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Fills Analysis::mpi_errors, open_requests and unmatched_messages.
void list_mpi_problems(const shard::ShardData& head, const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
