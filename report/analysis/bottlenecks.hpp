// SPDX-License-Identifier: BSD-3-Clause
// Which class limits the run, each rank and each hot region, with the evidence.
#pragma once

#include <cstdint>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Analysis::bottlenecks, and RegionRow::bottleneck. Everything but findings must be there.
void find_bottlenecks(const CallPaths& paths, Analysis& analysis);

// Evidence that findings and bottlenecks have in common.

// Of a path with a frame.
SourceLocation place_of(const CallPaths& paths, std::uint32_t path);
// kSleep and the keys after it: what limits.idle_s knows of.
void add_idle_kinds(const Limits& limits, Evidence& evidence);
// kCalls, kCall and kPath.
void add_io_evidence(const Analysis& analysis, const IoCallRow& row, std::uint64_t count, Evidence& evidence);
// What the caches would have to hold, or what the counters say of it.
void add_memory_evidence(const MemoryRow& row, Evidence& evidence);

// By the share of all rank time.
Severity severity_of(double share);

}  // namespace clusterprof::report
