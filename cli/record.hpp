// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cli/identity.hpp"
#include "cli/options.hpp"

namespace clusterprof::cli {

// Records options.command: becomes it by exec. The process that starts the node's collector runs it as a
// child instead and ends as it does. Returns only with an exit status of clusterprof's own.
int record(const Options& options, const Environment& environment);

}  // namespace clusterprof::cli
