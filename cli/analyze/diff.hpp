// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof diff`: two runs, or two groups of runs, compared.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace clusterprof::cli {

struct DiffOptions {
  std::vector<std::string> runs;     // A and B, or with `against` all of A
  std::vector<std::string> against;  // all of B
  bool json = false;
  std::string html;     // a file; empty: none
  std::string fail_if;  // conditions; empty: none
  bool any_difference = false;
  std::string history;  // a directory of earlier runs; empty: where A is, if a condition needs to know
  std::string junit;    // a file; empty: none
  bool github = false;  // annotations in place of text
  std::size_t top = 15;
  std::string colour = "auto";
};

// What `--fail-if` takes, for --help.
extern const char* const kConditionsHelp;

// Merges runs that are not merged. Returns the exit status.
int diff(const DiffOptions& options);

}  // namespace clusterprof::cli
