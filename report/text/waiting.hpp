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

// A part of the run. Parts are of equal length, one after the other; some may be left out.
struct TimeSpan {
  double begin_s = 0, end_s = 0;
};
template <typename Windows>
std::vector<TimeSpan> spans_of(const Windows& windows) {
  std::vector<TimeSpan> spans;
  for (const auto& window : windows) spans.push_back({window.begin_s, window.end_s});
  return spans;
}

struct TimeLine {
  std::string_view name;
  std::vector<std::optional<double>> shares;  // of each part; empty: not known
};
// Prints lines that run through the time of all parts, and what the marks in them mean.
void print_time_lines(Page& page, const std::vector<TimeSpan>& parts, const std::vector<TimeLine>& lines,
                      bool with_mpi, bool unicode);

}  // namespace clusterprof::report::text
