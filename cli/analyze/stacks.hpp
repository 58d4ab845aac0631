// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof stacks RUN`: where all ranks and threads are, or were last, and who waits for whom.
#pragma once

#include <string>

namespace clusterprof::cli {

struct StacksOptions {
  std::string run;
  bool json = false;
};

// The exit status.
int stacks(const StacksOptions& options);

}  // namespace clusterprof::cli
