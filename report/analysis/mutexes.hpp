// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/partial_sums.hpp"

namespace clusterprof::report {

// Fills in Analysis::mutexes and Analysis::locks. docs/metrics.md, "Mutexes".
void list_mutexes(const shard::ShardData& head, const CallPaths& paths, const RankOrder& order,
                  Analysis& analysis);

}  // namespace clusterprof::report
