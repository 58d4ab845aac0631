// SPDX-License-Identifier: BSD-3-Clause
// How far the collective operations of a run waited, as the recording tells: docs/whatif.md, "How it is
// replayed".
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/replay_engine.hpp"
#include "aggregator/waits/trace.hpp"

namespace clusterprof::aggregator::whatif {

// By row of Matches::instances. An operation on a communicator waits further than it needs to where most of its
// members that tell did: those that would have left before the others came, or came to the call that completes
// it. entered_ns: when the call of an event began, on the clock of the trace.
std::vector<waits::Reach> reaches_of(const waits::Trace& trace, const waits::Matches& matches,
                                     const std::function<std::int64_t(std::uint32_t)>& entered_ns);

}  // namespace clusterprof::aggregator::whatif
