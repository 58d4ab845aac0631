// SPDX-License-Identifier: BSD-3-Clause
// Hardware events for which the kernel has a generic name on every processor that it supports
// (PERF_TYPE_HARDWARE). They are counted without PAPI if PAPI is missing, if the program uses it itself, or
// if its libpfm is older than the processor.
#pragma once

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// The kernel's number of an event, by PAPI's name for it: a preset ("PAPI_TOT_CYC") or a native event of
// libpfm's generic set ("perf::CYCLES", "cycles"). Only presets that mean the same on every processor have a
// number. False: the event has none.
bool find_hardware_event(const char* name, std::uint64_t& config) noexcept;

// A group is a set of events that the processor counts together for one thread. CounterState::descriptors
// holds its descriptors. event_set is the first of them; read_event_group in agent/sigsafe reads it.

// Opens one more event in the group of a thread (0: the calling one); it counts from then on. `in_kernel`:
// also count in kernel mode. Returns 0 or the error number. EINVAL: the earlier events leave no hardware
// counter for it.
int add_to_event_group(CounterState& counters, std::int32_t tid, std::uint64_t config,
                       bool in_kernel) noexcept;

// Opens a group of these events. False if one of them could not be opened; then none stays open.
bool open_event_group(CounterState& counters, std::int32_t tid, const std::uint64_t* configs,
                      std::uint32_t count, bool in_kernel) noexcept;

// Call from a thread that shares the table of descriptors. Descriptors that are no longer events are left
// alone.
void close_event_group(CounterState& counters) noexcept;

}  // namespace clusterprof::agent
