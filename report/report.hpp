// SPDX-License-Identifier: BSD-3-Clause
// Explains a merged profile to people (text, banner) and to programs (JSON).
//
// analyse() computes every number once; the renderers only lay them out. Nothing here does I/O,
// throws on odd input or keeps a reference to its arguments. Output depends on nothing but the
// arguments (no locale, no time, no terminal). Reentrant. docs/metrics.md defines every number.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/analysis/analysis_builder.hpp"
#include "report/analysis/held_at.hpp"

namespace clusterprof::report {

struct TextOptions {
  int width = 80;       // columns; below 40 counts as 40
  bool colour = false;  // ANSI colours
  // Of section_names(), or of section_names_of_end(), in their own order; empty: all, some shortened.
  std::vector<std::string> sections;
  std::size_t rows = 15;  // of the long tables
  bool unicode = false;   // block characters where they say more
};

// The names render_text() knows, in the order in which it prints them.
const std::vector<std::string>& section_names();
// Those of them that an analysis of the end of a run has.
const std::vector<std::string>& section_names_of_end();

// Ends with a newline. Valid UTF-8 without control characters other than newline and, with
// `colour`, our own escape sequences, whatever the names in the profile are.
std::string render_text(const Analysis& analysis, const TextOptions& options);
// What was held in memory at one time alone; `sections` do not matter.
std::string render_text(const Analysis& analysis, const HeldAt& held, const TextOptions& options);

// At most 25 lines of at most max(width, 40) columns, for the end of a run. `run_dir` as the
// user would type it. `html`: the page that was made, or how to make it; empty: says nothing of it.
std::string render_banner(const Analysis& analysis, std::string_view run_dir, int width,
                          std::string_view html = {});

// One line of at most 255 characters of printable ASCII, and a newline: for the comment of a batch job, or
// the subject of a mail.
std::string render_oneline(const Analysis& analysis);

// One JSON document (schema clusterprof.report/1, see report/json/report.schema.json), with a
// final newline.
std::string render_json(const Analysis& analysis);
// The same in pieces, as it is made.
using JsonSink = std::function<void(std::string_view)>;
void render_json(const Analysis& analysis, const JsonSink& sink);
// Schema clusterprof.report_at/1.
void render_json(const Analysis& analysis, const HeldAt& held, const JsonSink& sink);

}  // namespace clusterprof::report
