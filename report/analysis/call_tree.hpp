// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/path_time.hpp"

namespace clusterprof::report {

// Fills in Analysis::call_tree from the sums over all ranks.
void find_call_tree(const PathTime& time, const CallPaths& paths, Analysis& analysis);

// Fills in Analysis::task_tree and tasks_s from the times of asyncio's tasks.
void find_task_tree(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

// Fills in HeldMemory::tree.
void find_memory_tree(const std::vector<shard::MemorySite>& sites, const CallPaths& paths,
                      HeldMemory& memory);

}  // namespace clusterprof::report
