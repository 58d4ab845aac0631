// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/memory.hpp"

namespace clusterprof::report {

// "epoch/step"
std::string region_name(const RegionRow& region);

// Analysis::regions but for their verdict.
void find_regions(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                  const CallPaths& paths, const MemoryUse& memory,
                  const std::vector<std::uint32_t>& ascending, Analysis& analysis);

}  // namespace clusterprof::report
