// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof top RUN`: what the ranks of a running run do now. This part prints it once; cli/tui shows it
// in a terminal until the user leaves.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.hpp"

namespace clusterprof::cli {

struct TopOptions {
  std::string run;
  bool once = false;
  bool json = false;
  std::string colour = "auto";
};

// The run directory that is meant, which need not have a shard yet.
Result<std::filesystem::path> running_directory(const std::string& run);

// Prints it once. Waits some seconds until all nodes have told what they do. The exit status.
int top_once(const TopOptions& options);

}  // namespace clusterprof::cli
