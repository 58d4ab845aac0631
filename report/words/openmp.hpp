// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report::words {

// How it was recorded where that is not as everywhere: ranks that used another run time as well, or whose
// tool kept us out.
std::vector<std::string> openmp_remarks(const OpenMp& openmp);

}  // namespace clusterprof::report::words
