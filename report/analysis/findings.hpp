// SPDX-License-Identifier: BSD-3-Clause
// What a person should be told first. Steps of analyse().
#pragma once

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Fills Analysis::findings from the rest of the Analysis. `charged`: of charged_values(data).
void find_findings(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                   const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
