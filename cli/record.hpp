// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cli/identity.hpp"
#include "cli/options.hpp"

namespace clusterprof::cli {

// Records options.command: replaces this process by it with exec. The process that starts the node's
// collector instead runs the command as a child and ends with its status. Returns only with an exit status of
// clusterprof's own.
int record(const Options& options, const Environment& environment);

}  // namespace clusterprof::cli
