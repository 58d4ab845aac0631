// SPDX-License-Identifier: BSD-3-Clause
// Notes when threads wait for events and when they do not: the turns of their event loops (wire::EventLoop).
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

void watch_event_loops() noexcept;

// The descriptor is about to be closed: what this thread does from now on is no turn of a loop on it.
// Async-signal-safe.
void end_event_loop(int descriptor) noexcept;

// For a slot that another thread gets.
void forget_event_loops(wire::ThreadSlot& slot) noexcept;

}  // namespace clusterprof::agent
