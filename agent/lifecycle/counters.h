// SPDX-License-Identifier: BSD-3-Clause
// Counters of hardware and kernel events.
#pragma once

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// Finds out which events can be counted, and opens PAPI if that is needed. describe_counters tells the
// collector. The calling thread must be the next one that starts its counters.
void open_counters() noexcept;
// The same for a process that cannot use PAPI.
void open_counters_without_papi(const char* reason) noexcept;
// In the child of a fork, instead: it counts what its parent does, without asking what can be counted. False:
// the parent uses PAPI, of which the child needs a copy of its own. By default, migrations are counted from
// the thread's first sample on: their event costs a third of a fork, and most children end before.
bool keep_counters() noexcept;
// In the parent: whether what the child counts depends on how many threads there are.
bool must_know_threads_at_fork() noexcept;
void describe_counters(wire::SegmentHeader* segment) noexcept;
void start_counters(CounterState& counters) noexcept;  // the calling thread's
void stop_counters(CounterState& counters) noexcept;
void attach_counters(CounterState& counters, std::int32_t tid) noexcept;  // of a thread that is there already
void abandon_counters(bool close_library) noexcept;                       // in the child of a fork

}  // namespace clusterprof::agent
