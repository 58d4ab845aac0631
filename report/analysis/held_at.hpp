// SPDX-License-Identifier: BSD-3-Clause
// What was held in memory at one time: `clusterprof report --at`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

struct HeldAt {
  double at_s = 0;
  double begin_s = 0, end_s = 0;  // of the bin that the amounts of lines are means of, since the run's start
  std::uint64_t bytes = 0;        // of all lines together
  struct Line {
    std::uint32_t line = 0;  // index into HeldMemory::lines
    std::uint64_t bytes = 0;
  };
  std::vector<Line> lines;  // the largest first
  struct Rank {
    std::int32_t rank = -1;
    std::uint64_t bytes = 0;  // the most in a bin of the timeline, which is narrower
  };
  std::vector<Rank> ranks;  // by rank
};

// No value: it is not known of that time. The analysis must have the timelines of ranks for `ranks`.
std::optional<HeldAt> held_at(const Analysis& analysis, double at_s);

}  // namespace clusterprof::report
