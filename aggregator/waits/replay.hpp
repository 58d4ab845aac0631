// SPDX-License-Identifier: BSD-3-Clause
// How long the run would have taken on an ideal network, what its length depended on, and how it went over
// time.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregator/waits/activity.hpp"
#include "aggregator/waits/delays.hpp"
#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/trace.hpp"
#include "aggregator/waits/wait_search.hpp"

namespace clusterprof::aggregator::waits {

// Elapsed time when transfers take no time and all dependences stay; nothing is lost, so each rank's clock
// advances in useful time only. 0: not known, the events contradict each other. The trace is complete.
[[nodiscard]] std::uint64_t ideal_ns(const Trace& trace, const Matches& matches);

// From the end of the last rank back: at each wait on to the rank that ended it. By rank, then path.
[[nodiscard]] std::vector<shard::CriticalTime> critical_path(const Trace& trace, const Waits& waits,
                                                             const ActivityReader& activity);

// From the first rank's start to the last one's end in up to 64 parts.
[[nodiscard]] std::vector<shard::TimeWindow> time_windows(const Trace& trace, const Waits& waits,
                                                          const Scale& scale);

}  // namespace clusterprof::aggregator::waits
