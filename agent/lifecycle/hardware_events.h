// SPDX-License-Identifier: BSD-3-Clause
// Hardware events that the kernel has names for on every processor it knows (PERF_TYPE_HARDWARE), counted
// without PAPI: where PAPI is missing, is the program's, or its libpfm is older than the processor.
#pragma once

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// The kernel's number for an event by PAPI's name of it: a preset ("PAPI_TOT_CYC") or a native event of
// libpfm's generic set ("perf::CYCLES", "cycles"). Only presets that mean the same on every processor have
// one. False: it has none.
bool find_hardware_event(const char* name, std::uint64_t& config) noexcept;

// A group of events of one thread, which the processor counts together. On a failure nothing is left open.
//
// Opens the first `count` of `configs` for a thread (0: the calling one) and starts them. `in_kernel`: also
// what happens in the kernel. Fills CounterState::descriptors, first_id and event_set (the descriptor of the
// first event, for read_event_group in agent/sigsafe). Returns the number of events opened; when that is less
// than `count`, `error` is the error number of the first that could not be, and nothing is open. EINVAL: the
// events before it leave it no counter.
std::uint32_t open_event_group(CounterState& counters, std::int32_t tid, const std::uint64_t* configs,
                               std::uint32_t count, bool in_kernel, int& error) noexcept;

// From a thread that shares the table of descriptors. Descriptors that are no events any more stay as they
// are.
void close_event_group(CounterState& counters) noexcept;

}  // namespace clusterprof::agent
