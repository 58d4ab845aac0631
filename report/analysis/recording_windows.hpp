// SPDX-License-Identifier: BSD-3-Clause
// The windows of recording that were opened from outside (`clusterprof start`).
#pragma once

#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

// Since the first rank's start, in order. Windows of different ranks that overlap are one: nodes open them
// within a second or so of each other.
std::vector<RecordingWindow> united_windows(const shard::ShardData& data);

}  // namespace clusterprof::report
