// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// The tables of the analysis of waiting by ranks and places as people name them: fills wait_quality to
// windows of the analysis, whose ranks must be there. `charged`: charged_values(data). docs/metrics.md,
// "Waiting".
void explain_waiting(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                     const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
