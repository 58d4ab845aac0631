// SPDX-License-Identifier: BSD-3-Clause
// Reading the calling thread's counters.
#pragma once

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// What the kernel has accounted to a thread since its start.
struct ThreadUse {
  std::uint64_t cpu_ns, minor_faults, major_faults, switches;
};

// Writes the values of the calling thread's counters and returns how many: g_process.counter_count, or fewer
// if the thread lacks some, or 0. `use` is what the caller already knows; null: the kernel is asked. If the
// descriptors of an event set are no longer its own, the set is given up and counted as a loss. PAPI_read of
// a running event set takes no lock and allocates nothing (it calls read(2) on the perf descriptors).
// Async-signal-safe in that sense; may change errno.
std::uint32_t read_counters(CounterState& counters, const ThreadUse* use, std::uint64_t* values) noexcept;

// For a sample. With ProcessState::counts_mpi: what was counted outside MPI, and nothing while the thread is
// inside. Call in the handler or with kSampleSignal blocked.
std::uint32_t sample_counters(CounterState& counters, const ThreadUse* use, std::uint64_t* values) noexcept;

// Call around an MPI call, with ProcessState::counts_mpi. leave returns the number of values in
// CounterState::call that were counted inside. Not for handlers, which may interrupt these functions.
void enter_mpi_counters(CounterState& counters) noexcept;
std::uint32_t leave_mpi_counters(CounterState& counters) noexcept;

// The kernel's id of the perf event behind a descriptor; 0 if it is not a perf event.
std::uint64_t perf_event_id(int descriptor) noexcept;

}  // namespace clusterprof::agent
