// SPDX-License-Identifier: BSD-3-Clause
// Reading the calling thread's PAPI events.
#pragma once

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// Writes g_process.counter_count values and returns how many: 0 when this thread does not count. The
// event set is given up, and counted as a loss, when its descriptors are no longer its own.
// PAPI_read of a running event set takes no lock and allocates nothing (read(2) of the perf
// descriptors). Async-signal-safe in that sense; leaves errno changed.
std::uint32_t read_counters(CounterState& counters, std::uint64_t* values) noexcept;

// The kernel's id of the perf event behind a descriptor, 0 when it is not one.
std::uint64_t perf_event_id(int descriptor) noexcept;

}  // namespace clusterprof::agent
