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

// Where in the path arena the call path of a forward operator is, which a backward operator belongs to.
struct ForwardPlace {
  std::uint64_t packed = 0;  // 0: none
  static ForwardPlace of(std::uint64_t offset, std::uint32_t words) noexcept {
    return {words != 0 ? offset << kWordBits | words : 0};
  }
  [[nodiscard]] std::uint64_t offset() const noexcept { return packed >> kWordBits; }
  [[nodiscard]] std::uint32_t words() const noexcept {
    return static_cast<std::uint32_t>(packed & ((1u << kWordBits) - 1));
  }

 private:
  static constexpr unsigned kWordBits = 12;
  static_assert(wire::kMaxFrameWords < 1u << kWordBits);
};

// Prepares a new segment, which has no regions yet. `parents`: in the child of a fork, the segment of its
// parent; the calling thread enters the regions of keep_regions() again, from now on.
void start_regions(wire::SegmentHeader* segment, const wire::SegmentHeader* parents) noexcept;
void keep_regions() noexcept;  // in the child of a fork, before forget_threads()

// A window of recording has begun or ended, so a pause of the main thread may have ended or begun.
void note_window(wire::SegmentHeader* segment, std::uint64_t now_ns) noexcept;

// Called by include/clusterprof.h, also in the program's signal handlers (region_calls.cpp), and by what
// stands for other interfaces (agent/annotations).
void begin_region(const RegionDomain& domain, RegionName name, std::int64_t n) noexcept;
// The same name with another place is another region.
void begin_region(const RegionDomain& domain, RegionName name, std::int64_t n, ForwardPlace forward) noexcept;
// The innermost region of that name, wherever its place; of any name: that of the domain. Those of the domain
// inside it end, too.
void end_region(const RegionDomain& domain, RegionName name) noexcept;
void end_region(const RegionDomain& domain) noexcept;
// A range that may end on another thread, so it is on no call path. Returns 0: it will not count.
std::uint64_t start_range(const RegionDomain& domain, RegionName name, std::int64_t n) noexcept;
void stop_range(std::uint64_t range) noexcept;
void pause_recording() noexcept;
void resume_recording() noexcept;

}  // namespace clusterprof::agent
