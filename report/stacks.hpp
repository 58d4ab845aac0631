// SPDX-License-Identifier: BSD-3-Clause
// What `clusterprof stacks` prints.
#pragma once

#include <string>

#include "report/analysis/stacks.hpp"
#include "report/report.hpp"

namespace clusterprof::report {

// A tree of call paths, the branch with the fewest ranks first, and the verdict. Text as by render_text().
std::string render_stacks_text(const StacksReport& report);
// Schema clusterprof.stacks/1
void render_stacks_json(const StacksReport& report, const JsonSink& sink);

}  // namespace clusterprof::report
