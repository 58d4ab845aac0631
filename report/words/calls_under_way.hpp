// SPDX-License-Identifier: BSD-3-Clause
// Sentences about MPI calls that had not returned: where ranks were in them, and where the ranks were that
// they waited for.
#pragma once

#include <string>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report::words {

struct CallUnderWayText {
  std::vector<std::int32_t> ranks;  // ascending
  // "MPI_Barrier <- step() solver.c:81 for 12.4 s: operation 7 of MPI_COMM_WORLD, without rank 3"; "in no MPI
  // call; last seen in read_input() solver.c:20"
  std::string text;
};

// Ranks in equal calls together, largest groups first; then those in no call that others wait for.
std::vector<CallUnderWayText> calls_under_way(const Analysis& analysis, const format::ShortPaths& names);

}  // namespace clusterprof::report::words
