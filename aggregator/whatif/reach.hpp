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

// Of the operations on a communicator, a member waits further than it needs to where it mostly did: where it
// would have left before the others came, or came to the call that completes it. In an algorithm of several
// steps some members do and others do not. What a member never tells (it is always the last) is as with most
// that do. entered_ns: when the call of an event began, on the clock of the trace.
struct Reaches {
  std::vector<waits::Reach> of_member;  // by row of Matches::members
  std::vector<bool> is_completed_late;  // by row of Matches::instances: a member has kCompleting
};
Reaches reaches_of(const waits::Trace& trace, const waits::Matches& matches,
                   const std::function<std::int64_t(std::uint32_t)>& entered_ns);

}  // namespace clusterprof::aggregator::whatif
