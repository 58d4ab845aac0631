// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "report/text/section.hpp"

namespace clusterprof::report::text {

// All of the text of an analysis that has Analysis::last.
void print_end_of_run(Report& report);

}  // namespace clusterprof::report::text
