// SPDX-License-Identifier: BSD-3-Clause
// What `clusterprof top` prints; report/tui/top_screen.hpp shows the same in a terminal.
#pragma once

#include <string>

#include "report/analysis/top.hpp"
#include "report/report.hpp"

namespace clusterprof::report {

// Text as by render_text(). Of options: width and colour.
std::string render_top_text(const Top& top, const TextOptions& options);
// Schema clusterprof.top/1 (top.schema.json)
void render_top_json(const Top& top, const JsonSink& sink);

}  // namespace clusterprof::report
