// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof attach`.
#pragma once

#include "cli/attach/options.hpp"

namespace clusterprof::cli::attach {

// The exit status: 0 if a process was attached to; 1 if none was, for reasons that were said; 2 for a wrong
// command line; 125 if something of ours failed.
int attach(const Options& options);

}  // namespace clusterprof::cli::attach
