// SPDX-License-Identifier: BSD-3-Clause
// Findings: the problems of a run that a report names first.
#pragma once

#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/path_time.hpp"

namespace clusterprof::report {

// Fills in Analysis::findings from the rest of the analysis. `time` must keep the time of the slowest rank
// separately.
void find_findings(const shard::ShardData& data, const PathTime& time, const CallPaths& paths,
                   Analysis& analysis);

// Failures in the order in which they were found, then findings by severity and possible gain; the first
// kMaxFindings.
void sort_findings(std::vector<Finding>& findings);

}  // namespace clusterprof::report
