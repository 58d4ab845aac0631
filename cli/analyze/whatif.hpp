// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof whatif`: what changes of a program would gain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace clusterprof::cli {

struct WhatIfOptions {
  std::string run;
  std::vector<std::string> changes;  // empty: the run's own candidates are ranked
  bool json = false;
  std::uint64_t max_events = 0;  // that are replayed; 0: as many as there is memory for
  std::size_t top = 10;
  std::string colour = "auto";
};

// Reads the shards of the run. Returns the exit status.
int whatif(const WhatIfOptions& options);

}  // namespace clusterprof::cli
