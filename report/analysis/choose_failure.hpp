// SPDX-License-Identifier: BSD-3-Clause
// Finds the rank that failed first, and why (failure.hpp).
#pragma once

#include <optional>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// "0x10"
std::string address_text(std::uint64_t address);

// Ended by a signal or with another status than 0.
bool failed(const RankInfo& rank);
// Failed by itself, and was not ended by a launcher.
bool failed_by_itself(const RankInfo& rank);
// It was running when its node was last heard of, and the node has not said that it ended.
bool is_silent(const RankInfo& rank, const Analysis& analysis);

// The note that says that the launcher ended, if it did so before any rank had failed by itself: it is the
// reason then. null: it is not.
const NoteRecord* launcher_that_ended_first(const Analysis& analysis);

// The analysis has all ranks, calls under way and the hang already. A deadlock counts unless it followed a
// failure. No value: nothing has failed, or it is not known which rank was the first. It may be kNode for a
// node that is still running: find_run_state() removes it then.
std::optional<Failure> choose_failure(const shard::ShardData& head, const CallPaths& paths,
                                      const Analysis& analysis);

}  // namespace clusterprof::report
