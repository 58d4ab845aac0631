// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

// Bins of all ranks and series that a report holds; with more ranks bins are joined.
inline constexpr std::uint64_t kMaxTimelineCells = 4'000'000;

// Where the first bin of an axis begins, since the first rank's start.
double axis_begin_s(const shard::ShardData& data, const shard::TimeAxis& axis);

// How much of each bin of the time axis, `join` of them together, lies between a rank's start and its end, in
// nanoseconds.
std::vector<double> recorded_in_bins(const shard::ShardData& data, const shard::Rank& rank,
                                     std::uint32_t join);

// "python_ns": the name of a category's series.
std::string category_series(std::size_t category);

// Analysis::timeline, and what series say of whole nodes. Of each rank a category's bins add up to the
// rank's category_s, so analysis.ranks and category_s have to be there.
void find_timeline(const shard::ShardData& data, const std::vector<std::uint32_t>& ascending,
                   Analysis& analysis);

}  // namespace clusterprof::report
