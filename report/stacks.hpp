// SPDX-License-Identifier: BSD-3-Clause
// What `clusterprof stacks` prints.
#pragma once

#include <string>
#include <string_view>

#include "report/analysis/stacks.hpp"
#include "report/report.hpp"

namespace clusterprof::report {

// A tree of call paths, the branch with the fewest ranks first, and the verdict. Text as by render_text().
std::string render_stacks_text(const StacksReport& report);
// What is said when a run has come to a standstill for so long (--hang-after): two or three lines that begin
// with "clusterprof: ". `run_dir`: as the user would type it. `ends`: its ranks are ended therefore.
std::string render_standstill(const StacksReport& report, double for_s, std::string_view run_dir, bool ends);
// Schema clusterprof.stacks/1
void render_stacks_json(const StacksReport& report, const JsonSink& sink);

}  // namespace clusterprof::report
