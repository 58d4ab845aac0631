// SPDX-License-Identifier: BSD-3-Clause
// Of a run whose events are a sample: the stretches of time of which all ranks have all events, as a trace of
// its own. Each thread has a lane per stretch.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregator/waits/clock_model.hpp"
#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/trace.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::whatif {

// With fewer there is no telling how much stretches differ.
inline constexpr std::size_t kFewestStretches = 3;

// On the one clock of an adjusted trace.
struct TimeSpan {
  std::int64_t begin_ns = 0, end_ns = 0;
  [[nodiscard]] std::int64_t length_ns() const { return end_ns - begin_ns; }
};

// Those that are complete on all ranks and lie between their first and last events, in order. `recorded`: as
// TraceBuilder has them. Of each, what all ranks have in common, less what clocks may be wrong by.
[[nodiscard]] std::vector<TimeSpan> complete_stretches(const waits::Trace& adjusted,
                                                       const std::vector<shard::EventStretch>& recorded,
                                                       const waits::ClockModel& clocks,
                                                       const shard::ShardData& merged);

// How much of the run the stretches, of which there are two or more, stand for: at least the time from the
// first event to the last. Beside the stretches events are a sample, so earlier and later ones may be missing.
// They can be as far away as the nearest stretch without any event, or as the distance of two stretches. Half
// of that time is counted, and the length may be wrong by as much.
struct Represented {
  std::int64_t length_ns = 0, error_ns = 0;
};
[[nodiscard]] Represented represented_by(const waits::Trace& adjusted,
                                         const std::vector<shard::EventStretch>& recorded,
                                         const waits::ClockModel& clocks, const shard::ShardData& merged,
                                         const std::vector<TimeSpan>& stretches);

struct StretchTrace {
  waits::Trace trace;                     // lanes by stretch, then rank and thread
  std::vector<std::uint32_t> stretch_of;  // per lane
  std::vector<bool> is_counted;           // per first event of a call: it was entered within its stretch
};

// Each lane begins at the begin of its stretch or, if it was in a call then, with that call; and it ends with
// the first call that ended after the stretch. Takes the tables of `adjusted` that are no events.
[[nodiscard]] StretchTrace trace_of_stretches(waits::Trace adjusted, const std::vector<TimeSpan>& stretches);

// Matches the events. Operations that cross the border of a stretch depend on nothing: they take what they
// took.
[[nodiscard]] waits::Matches match_within_stretches(StretchTrace& stretches);

// Half the width of a 95 % interval of the mean of what single stretches say, of which there are three or
// more; they are this share of the whole.
[[nodiscard]] double error_of_mean(const std::vector<double>& of_stretches, double share);

}  // namespace clusterprof::aggregator::whatif
