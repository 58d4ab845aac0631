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

// Writes the values of the calling thread's counters and returns how many: g_process.counter_count, fewer
// where it lacks some, or 0. `use` is what the caller knows; null: the kernel is asked. An event set is given
// up, and counted as a loss, when its descriptors are no longer its own. PAPI_read of a running event set
// takes no lock and allocates nothing (read(2) of the perf descriptors). Async-signal-safe in that sense;
// leaves errno changed.
std::uint32_t read_counters(CounterState& counters, const ThreadUse* use, std::uint64_t* values) noexcept;

// For a sample: with ProcessState::counts_mpi, what was counted outside MPI, and nothing while the thread is
// inside. In the handler, or with kSampleSignal blocked.
std::uint32_t sample_counters(CounterState& counters, const ThreadUse* use, std::uint64_t* values) noexcept;

// Around an MPI call, with ProcessState::counts_mpi. leave returns how many values of CounterState::call are
// what was counted inside. Not in handlers, which may interrupt them.
void enter_mpi_counters(CounterState& counters) noexcept;
std::uint32_t leave_mpi_counters(CounterState& counters) noexcept;

// The kernel's id of the perf event behind a descriptor, 0 when it is not one.
std::uint64_t perf_event_id(int descriptor) noexcept;

}  // namespace clusterprof::agent
