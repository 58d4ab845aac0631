// SPDX-License-Identifier: BSD-3-Clause
// Whose fault waiting was: at once (what the late rank did meanwhile), and in the end (delay analysis).
//
// The end is found as in Böhme, Geimer, Wolf, Arnold: "Identifying the root causes of wait states in
// large-scale parallel applications": since the two ranks were last synchronised, what the late one spent
// more than the waiting one on a call path is its own delay; what it waited itself is passed on to those it
// waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "aggregator/waits/activity.hpp"
#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/trace.hpp"
#include "aggregator/waits/wait_search.hpp"

namespace clusterprof::aggregator::waits {

// No more calls than this are looked at on a rank to explain one wait: the last ones.
inline constexpr std::uint32_t kMaxCallsBack = 256;
// Causes kept of one wait; the time of others is divided among these.
inline constexpr std::size_t kMaxCauses = 16;

// scale(rank, path): what a wait at that call site stands for (1 unless the events are a sample). Rows are in
// order and have no duplicates.
using Scale = std::function<double(std::uint32_t rank, std::uint32_t path)>;
[[nodiscard]] std::vector<shard::WaitState> direct_causes(const Trace& trace, const Waits& waits,
                                                          const ActivityReader& activity, const Scale& scale);
[[nodiscard]] std::vector<shard::RootCause> root_causes(const Trace& trace, const Matches& matches,
                                                        const Waits& waits, const ActivityReader& activity,
                                                        const Scale& scale);

}  // namespace clusterprof::aggregator::waits
