// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof history`: the runs of a command over time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "report/history/history.hpp"

namespace clusterprof::cli {

struct HistoryOptions {
  std::string what;  // a directory of runs, a run, or the name of a program; empty: run_root()
  bool json = false;
  std::string html;   // a file; empty: none
  std::string badge;  // likewise
  std::size_t top = 15;
  std::string colour = "auto";
};

// Merges runs that are not merged. Returns the exit status.
int history(const HistoryOptions& options);

// How earlier runs in that directory vary that are like `of`, without those of the run ids given.
// Merges nothing. Empty: too few are known.
Result<report::Noise> noise_in(const std::filesystem::path& directory, const report::HistoryRun& of,
                               const std::vector<std::string>& without);

}  // namespace clusterprof::cli
