// SPDX-License-Identifier: BSD-3-Clause
// Finds the causes of waiting: the direct cause (what the late rank did meanwhile) and the root cause (delay
// analysis).
//
// Root causes are found as in Böhme, Geimer, Wolf, Arnold: "Identifying the root causes of wait states in
// large-scale parallel applications". Starting where the two ranks were last synchronised, time that the late
// rank spent on a call path beyond the waiting rank's time there is the late rank's own delay. Time that the
// late rank itself waited is passed on to the ranks that it waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "aggregator/waits/activity.hpp"
#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/trace.hpp"
#include "aggregator/waits/wait_search.hpp"

namespace clusterprof::aggregator::waits {

// To explain one wait, at most this many calls of a rank are looked at: the last ones.
inline constexpr std::uint32_t kMaxCallsBack = 256;
// How many causes of one wait are kept; the time of the others is divided among these.
inline constexpr std::size_t kMaxCauses = 16;

// For how many waits one stands: 1 unless the events are a sample, 0 for one that is left out. Rows are in
// order and have no duplicates.
using Scale = std::function<double(const Wait& wait)>;
[[nodiscard]] std::vector<shard::WaitState> direct_causes(const Trace& trace, const Waits& waits,
                                                          const ActivityReader& activity, const Scale& scale);
[[nodiscard]] std::vector<shard::RootCause> root_causes(const Trace& trace, const Matches& matches,
                                                        const Waits& waits, const ActivityReader& activity,
                                                        const Scale& scale);

}  // namespace clusterprof::aggregator::waits
