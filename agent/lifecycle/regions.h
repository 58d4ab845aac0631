// SPDX-License-Identifier: BSD-3-Clause
// Regions and pauses of the program.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Who names regions: each has names of its own, and its regions end independently of others'.
struct RegionDomain {
  std::uint64_t hash;  // 0: the program, by include/clusterprof.h
  char name[wire::kRegionDomainBytes];
};
RegionDomain region_domain(const char* name) noexcept;

// A name whose hash is known.
struct RegionName {
  const char* text;
  std::uint64_t hash;
};
RegionName region_name(const char* text) noexcept;

// Prepares a new segment, which has no regions yet. `parents`: in the child of a fork, the segment of its
// parent; the calling thread enters the regions of keep_regions() again, from now on.
void start_regions(wire::SegmentHeader* segment, const wire::SegmentHeader* parents) noexcept;
void keep_regions() noexcept;  // in the child of a fork, before forget_threads()

// A window of recording has begun or ended, so a pause of the main thread may have ended or begun.
void note_window(wire::SegmentHeader* segment, std::uint64_t now_ns) noexcept;

// Called by include/clusterprof.h, also in the program's signal handlers (region_calls.cpp), and by what
// stands for other interfaces (agent/annotations).
void begin_region(const RegionDomain& domain, RegionName name, std::int64_t n) noexcept;
// The innermost region of that name; of any name: that of the domain. Those of the domain inside it end, too.
void end_region(const RegionDomain& domain, RegionName name) noexcept;
void end_region(const RegionDomain& domain) noexcept;
// A range that may end on another thread, so it is on no call path. Returns 0: it will not count.
std::uint64_t start_range(const RegionDomain& domain, RegionName name, std::int64_t n) noexcept;
void stop_range(std::uint64_t range) noexcept;
void pause_recording() noexcept;
void resume_recording() noexcept;

}  // namespace clusterprof::agent
