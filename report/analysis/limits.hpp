// SPDX-License-Identifier: BSD-3-Clause
// What limited the program, second by second: docs/metrics.md, "Bottlenecks".
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/memory.hpp"

namespace clusterprof::report {

constexpr std::size_t index(Limit limit) { return static_cast<std::size_t>(limit); }

// Adds time on one call path to what it was limited by.
class LimitCounter {
 public:
  LimitCounter(const CallPaths& paths, const MemoryUse& memory) : paths_(paths), memory_(memory) {}
  // `value` as charged; the time it counts for, which may be scaled.
  Limit add(const shard::Value& value, double time_s, Limits& to) const;

 private:
  const CallPaths& paths_;
  const MemoryUse& memory_;
};

// By rank index: what main threads' charged time has to be multiplied with to add up to the rank's
// categories.
std::vector<double> main_thread_scales(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                                       const std::vector<std::uint32_t>& ascending, const Analysis& analysis);

// Analysis::limits, RankInfo::limits, Analysis::memory_functions.
void find_limits(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                 const CallPaths& paths, const MemoryUse& memory, const std::vector<std::uint32_t>& ascending,
                 Analysis& analysis);

}  // namespace clusterprof::report
