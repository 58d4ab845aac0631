// SPDX-License-Identifier: BSD-3-Clause
// What a person should be told first. Steps of analyse().
#pragma once

#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/path_time.hpp"

namespace clusterprof::report {

// Fills Analysis::findings from the rest of the Analysis. `time`: with the slowest rank apart.
void find_findings(const PathTime& time, const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
