// SPDX-License-Identifier: BSD-3-Clause
// What can be said of the end of a run alone: `clusterprof report --last`.
#pragma once

#include <optional>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Of the last `last_s` of `whole`, in whole bins. Has Analysis::last, run, nodes, ranks with their
// categories, category_s, rank_seconds, functions with their times, timeline, windows, and what is known of
// the end: calls under way, hang, failure and findings on these. All else is empty: it is known of the whole
// run only. No value: there is no timeline. `whole` must have the timelines of ranks.
std::optional<Analysis> analyse_end(const shard::ShardData& head, const Analysis& whole, double last_s,
                                    FrameMode frames = FrameMode::kFolded);

}  // namespace clusterprof::report
