// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

struct WaitsOptions {
  std::size_t rows = 15;
  bool full = true;      // false: only kinds, the first root causes and the quality
  bool unicode = false;  // block characters
};

// Prints the section on waiting. Needs an analysis with one.
void print_waits(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                 const WaitsOptions& options);

// Draws a share (0..1) in each column as a character of one of eight heights, between two bars; `?`: not
// known.
std::string sparkline(const std::vector<std::optional<double>>& shares, bool unicode);

// Shares over the run, each of parts of equal length.
struct TimeLine {
  std::string_view name;
  std::vector<std::optional<double>> shares;
};
// Prints lines of as many shares each, over `length_s`.
void print_time_lines(Page& page, const std::vector<TimeLine>& lines, double length_s, bool unicode);

}  // namespace clusterprof::report::text
