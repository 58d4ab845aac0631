// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "report/text/section.hpp"

namespace clusterprof::report::text {

// All of the text of an analysis that has Analysis::last.
void print_end_of_run(Report& report);
// Of its sections.
std::vector<std::string> names_of_end_sections();

}  // namespace clusterprof::report::text
