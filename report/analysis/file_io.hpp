// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Whether the profile is of a recorder that knew of file I/O, series and nodes' hardware: without that, no
// rows means not measured.
bool records_resources(const shard::ShardData& data);

// Analysis::io.
void find_file_io(const shard::ShardData& data, const CallPaths& paths,
                  const std::vector<std::uint32_t>& ascending, Analysis& analysis);

}  // namespace clusterprof::report
