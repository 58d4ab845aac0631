// SPDX-License-Identifier: BSD-3-Clause
// Part of --hang-after: a collector whose ranks have not moved for long runs this to look at all nodes.
#pragma once

#include <cstdint>
#include <string>

namespace clusterprof::cli {

inline constexpr const char* kHangName = "hang.txt";  // in the run directory

struct HangVerbOptions {
  std::string run;
  std::uint64_t after_s = 0;
  bool end_ranks = false;
};

// Has all nodes write their shards. If no rank makes progress, says so on stderr, once in a run, writes what
// `clusterprof stacks` prints to RUN/hang.txt, and tells all collectors. The exit status: 0 if that is so, 1
// if a rank makes progress or may do so.
int look_for_hang(const HangVerbOptions& options);

}  // namespace clusterprof::cli
