// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Analysis::off_cpu: what all threads waited for outside MPI, by kind and line.
void find_off_cpu(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                  const CallPaths& paths, const std::vector<std::uint32_t>& ascending, Analysis& analysis);

}  // namespace clusterprof::report
