// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Fills in Analysis::tasks.
void list_tasks(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
