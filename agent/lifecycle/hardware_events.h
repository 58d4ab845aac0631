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

// A group is what the processor counts together for one thread. Its descriptors are
// CounterState::descriptors, and event_set is the first of them, which read_event_group in agent/sigsafe
// reads.

// Opens one more event in the group of a thread (0: the calling one), which counts from then on. `in_kernel`:
// also what happens in the kernel. Returns 0 or the error number; EINVAL: the events before it leave it no
// counter.
int add_to_event_group(CounterState& counters, std::int32_t tid, std::uint64_t config,
                       bool in_kernel) noexcept;

// Opens a group of these events. False, and nothing is left open, when one of them could not be opened.
bool open_event_group(CounterState& counters, std::int32_t tid, const std::uint64_t* configs,
                      std::uint32_t count, bool in_kernel) noexcept;

// From a thread that shares the table of descriptors. Descriptors that are no events any more stay as they
// are.
void close_event_group(CounterState& counters) noexcept;

}  // namespace clusterprof::agent
