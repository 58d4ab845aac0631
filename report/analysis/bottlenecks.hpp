// SPDX-License-Identifier: BSD-3-Clause
// Classifies what limits the run, each rank and each hot region, with the evidence.
#pragma once

#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Fills in Analysis::bottlenecks and RegionRow::bottleneck. Everything else must be computed already: whether
// the workers that make data are slow is a finding.
void find_bottlenecks(const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
