// SPDX-License-Identifier: BSD-3-Clause
// Who holds memory: docs/metrics.md, "Who holds memory".
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Whether memory that lives is lost, judged by when it was allocated: nearly every eighth of the process's
// time but the first has left about as much as the others. What a program loads at its start and what a cache
// keeps are from a few eighths. `interval_bytes`: of sampling.
struct LeakJudgement {
  bool is_leak = false;
  double confidence = 0;         // 0 to 1
  std::uint64_t late_bytes = 0;  // from the second half of the time
};
LeakJudgement judge_leak(const std::array<std::uint64_t, shard::MemorySite::kAges>& live_by_age,
                         std::uint64_t interval_bytes);

// Fills in Analysis::memory. `ascending`: rows of ranks by their numbers.
void find_held_memory(const shard::ShardData& data, const CallPaths& paths,
                      const std::vector<std::uint32_t>& ascending, Analysis& analysis);

}  // namespace clusterprof::report
