// SPDX-License-Identifier: BSD-3-Clause
// Which class limits the run, each rank and each hot region, with the evidence.
#pragma once

#include <string>
#include <string_view>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/text/format.hpp"

namespace clusterprof::report {

// Analysis::bottlenecks, and RegionRow::bottleneck. Everything but findings must be there.
void find_bottlenecks(const CallPaths& paths, Analysis& analysis);

// For sentences.

// "rank 3 in load_batch() data.py:41"
std::string culprit(const Analysis& analysis, const text::ShortPaths& names, std::int32_t rank,
                    PlaceIndex place);
// "63 ranks", "at least 12 ranks"; the one by its number.
std::string who_waited(const RootCauseRow& cause, std::optional<std::int32_t> only = {});
// "compute() train.py:57"
std::string name_path(const CallPaths& paths, const text::ShortPaths& names, std::uint32_t path);
// "4.20 s sleep, 300 ms lock": kinds that matter, largest first.
std::string idle_kinds(const Limits& limits);
// "12000 fsync calls on out.dat"
std::string io_calls(const Analysis& analysis, const IoCallRow& row, std::uint64_t count);
// "data of about 403 MB (an estimate from 512 accesses); the largest cache holds 33.6 MB"
std::string memory_evidence(const MemoryRow& row);

}  // namespace clusterprof::report
