// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Fills in Analysis::threads and thread_groups. Needs Analysis::run.
void list_threads(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

// The path of the outermost frame of the user's own code; 0: there is none. For a thread: what it runs.
std::uint32_t outermost_own(const CallPaths& paths, std::uint32_t path);

}  // namespace clusterprof::report
