// SPDX-License-Identifier: BSD-3-Clause
// Whether a trace has all events of a run, so that it can be replayed.
#pragma once

#include <cstdint>

#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/trace.hpp"

namespace clusterprof::aggregator::waits {

// Counts the ranks that have no events but that other ranks may have communicated with.
[[nodiscard]] std::uint32_t count_missing(const Trace& trace, const shard::ShardData& merged);

// Recorded only in windows: what was between two of them is not known.
[[nodiscard]] bool was_recorded_in_windows(const shard::ShardData& merged);

enum class Incomplete : std::uint8_t {
  kNo = 0,
  kSampled,       // the events are a sample
  kMissingRanks,  // ranks have no events
  kWindows,
  kUnderWay,   // calls never returned
  kLost,       // events were lost
  kUnmatched,  // too many operations lack the other side
};
[[nodiscard]] Incomplete why_incomplete(const Trace& trace, const Matches& matches,
                                        const shard::ShardData& merged);
// The same of a trace that is a sample, of which only stretches of time are replayed.
[[nodiscard]] Incomplete why_without_stretches(const Trace& trace, const shard::ShardData& merged);

}  // namespace clusterprof::aggregator::waits
