// SPDX-License-Identifier: BSD-3-Clause
// What collective operations move between ranks although they address no single rank: rooted and reducing
// operations, and gathers to all.
#pragma once

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Fills in Analysis::collectives, collective_matrix and collective_node_matrix. docs/metrics.md,
// "Communication", has the formulas.
void count_collectives(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
