// SPDX-License-Identifier: BSD-3-Clause
// The shared memory of this process, and its connection to the collector.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Makes the segment and hands it to the collector. Null when the process cannot be recorded. `parents`: in
// the child of a fork, that of the parent; else null.
wire::SegmentHeader* make_segment(const wire::SegmentHeader* parents) noexcept;
void unmap_segment(wire::SegmentHeader* segment) noexcept;
// The same, but leaves zeroed memory there for code of ours that goes on with it, as far as there is memory.
// Never a hole.
void blank_segment(wire::SegmentHeader* segment) noexcept;
// Unmaps the rest, too: for code that only looks whether a path is known.
void blank_header(wire::SegmentHeader* segment) noexcept;
// How long the thread that made the process's first segment had waited for a processor by then; 0 if the
// kernel does not tell.
std::uint64_t run_delay_at_start_ns() noexcept;

// Sends `memory_file` to the collector and keeps the connection open until the process ends. False if there
// is no collector of our own user.
bool greet_collector(int memory_file, std::uint64_t segment_bytes) noexcept;
// Tells the collector why this process cannot be recorded.
void refuse_recording(wire::UnrecordedReason reason) noexcept;
void close_inherited_connection() noexcept;  // in the child of a fork
int collector_connection() noexcept;         // its descriptor; -1: there is none

}  // namespace clusterprof::agent
