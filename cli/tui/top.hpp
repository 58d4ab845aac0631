// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cli/analyze/top.hpp"

namespace clusterprof::cli {

// `clusterprof top` on a terminal, until the user leaves; once if it is asked for, and where there is no
// terminal. The exit status.
int top(const TopOptions& options);

}  // namespace clusterprof::cli
