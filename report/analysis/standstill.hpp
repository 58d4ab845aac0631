// SPDX-License-Identifier: BSD-3-Clause
// Whether a run has come to a standstill: no rank makes progress. docs/design/0023-hang-after.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// How long no rank that runs has made progress, as of the oldest look at one of them; 0: one does, or too
// little is known of one. `told`: nodes whose data are of now. Linear in threads and calls under way.
std::uint64_t standstill_ns(const shard::ShardData& data, const CallPaths& paths,
                            const std::vector<std::string>& told);

}  // namespace clusterprof::report
