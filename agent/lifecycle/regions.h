// SPDX-License-Identifier: BSD-3-Clause
// Regions and pauses of the program.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Prepares a new segment, which has no regions yet. `parents`: in the child of a fork, the segment of its
// parent; the calling thread enters the regions of keep_regions() again, from now on.
void start_regions(wire::SegmentHeader* segment, const wire::SegmentHeader* parents) noexcept;
void keep_regions() noexcept;  // in the child of a fork, before forget_threads()

// A window of recording has begun or ended, so a pause of the main thread may have ended or begun.
void note_window(wire::SegmentHeader* segment, std::uint64_t now_ns) noexcept;

// Called by include/clusterprof.h, also in the program's signal handlers (region_calls.cpp).
void begin_region(const char* name, std::int64_t n) noexcept;
void end_region(const char* name) noexcept;
void pause_recording() noexcept;
void resume_recording() noexcept;

}  // namespace clusterprof::agent
