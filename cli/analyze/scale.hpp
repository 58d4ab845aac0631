// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof scale`: runs of one program at several sizes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace clusterprof::cli {

struct ScaleOptions {
  std::vector<std::string> runs;
  std::string by = "ranks";
  std::vector<double> at;  // sizes to predict; empty: two, four and eight times the largest
  bool json = false;
  std::string html;  // a file; empty: none
  std::size_t top = 15;
  std::string colour = "auto";
};

// Merges runs that are not merged. Returns the exit status.
int scale(const ScaleOptions& options);

}  // namespace clusterprof::cli
