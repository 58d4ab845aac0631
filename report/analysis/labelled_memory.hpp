// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "report/analysis/analysis.hpp"
#include "report/analysis/partial_sums.hpp"

namespace clusterprof::report {

// Fills in Analysis::labelled_memory. docs/metrics.md, "Memory by label".
void find_labelled_memory(const shard::ShardData& head, const RankOrder& order, Analysis& analysis);

}  // namespace clusterprof::report
