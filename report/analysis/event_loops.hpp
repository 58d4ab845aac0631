// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Fills in Analysis::event_loops. Needs Analysis::run.
void list_event_loops(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis);

// Whether the thread waits here for events of an event loop of Python's: it has nothing to do.
bool is_loop_wait(const CallPaths& paths, std::uint32_t path);

}  // namespace clusterprof::report
