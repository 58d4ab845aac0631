// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof ls`: the runs in a directory, a line each.
#pragma once

#include <string>
#include <vector>

namespace clusterprof::cli {

inline const std::vector<std::string> kListOrders = {"start", "name", "elapsed", "ranks", "efficiency"};

struct ListOptions {
  std::string directory;       // empty: run_root()
  std::string job;             // only runs of this job; empty: all
  std::string sort = "start";  // of kListOrders; smallest (oldest) first, what is not known before all
  bool reverse = false;
  bool json = false;
  std::string colour = "auto";
};

// Merges nothing: of runs that are not merged it shows what their shards' heads say. Returns the exit status.
int list_runs(const ListOptions& options);

}  // namespace clusterprof::cli
