// SPDX-License-Identifier: BSD-3-Clause
// The end of recording in a process that goes on.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Stops the ticks of all threads. From then on handlers do nothing but have an interrupted call made again,
// and wrappers count nothing, for good. The handlers stay installed: signals may be on their way. Call
// without a watcher at work, or as the watcher. handlers_stay: false if the caller takes the handlers away
// next, so that no signal can stand in for a tick.
void stop_ticks_for_good(bool handlers_stay = true) noexcept;

// Whether the site has turned recording off: on this node, when the process starts; as told by the collector
// later.
bool is_off_on_this_node() noexcept;
bool is_turned_off(const wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
