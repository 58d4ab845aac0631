// SPDX-License-Identifier: BSD-3-Clause
// Computes the elapsed time on an ideal network, the critical path, and how the run went over time.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregator/waits/activity.hpp"
#include "aggregator/waits/delays.hpp"
#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/recorded_time.hpp"
#include "aggregator/waits/trace.hpp"
#include "aggregator/waits/wait_search.hpp"

namespace clusterprof::aggregator::waits {

// Returns the elapsed time if transfers took no time, there were no pauses, and all dependences stayed. The
// trace must be complete: no event is lost, and each rank's clock advances in useful time only. 0: not known,
// because the events contradict each other.
[[nodiscard]] std::uint64_t ideal_ns(const Trace& trace, const Matches& matches);

// Walks back from the end of the last rank; at each wait it goes on at the rank that ended the wait. Leaves
// out what was not recorded: outside of windows of recording, and in pauses. Rows by rank, then path.
[[nodiscard]] std::vector<shard::CriticalTime> critical_path(const Trace& trace, const Waits& waits,
                                                             const ActivityReader& activity,
                                                             const RecordedTime& recorded_time);

// Divides the time from the first rank's start to the last rank's end into up to 64 windows. What no rank
// recorded counts as startup.
[[nodiscard]] std::vector<shard::TimeWindow> time_windows(const Trace& trace, const Waits& waits,
                                                          const Scale& scale,
                                                          const RecordedTime& recorded_time);

}  // namespace clusterprof::aggregator::waits
