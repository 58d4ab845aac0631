// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof snapshot RUN`: keeps a profile of now of a run that goes on.
#pragma once

#include <string>

namespace clusterprof::cli {

struct SnapshotOptions {
  std::string run;
  std::string output;  // a new directory; empty: RUN.snapshot-1, -2, ...
};

// The exit status: 0 if there is a snapshot, even if nodes have not answered.
int snapshot(const SnapshotOptions& options);

}  // namespace clusterprof::cli
