// SPDX-License-Identifier: BSD-3-Clause
// Line charts and stacked bars as SVG inside a page of document.hpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace clusterprof::report::plain_html {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by x, ascending
  bool dashed = false;                            // else with a mark at each point
};
struct Band {  // between two curves
  std::vector<std::pair<double, double>> lower, upper;
  std::size_t curve = 0;  // whose colour it has
};
struct LineChart {
  std::string title, x_name, y_name;
  bool log_x = false, log_y = false;  // then only points above 0 are drawn
  bool percent = false;               // y is a share
  bool from_zero = true;              // of y, where it is not logarithmic
  std::vector<Curve> curves;          // at most as many as there are colours (kColours)
  std::vector<Band> bands;
  std::vector<std::pair<double, std::string>> x_ticks;  // empty: chosen
};
inline constexpr std::size_t kColours = 8;

// A figure with its title and names. Empty without a point.
std::string line_chart(const LineChart& chart);

struct StackedBars {
  std::string title;
  std::vector<std::string> parts;  // names, at most kColours
  // A bar for each label; shares of 1, by part.
  std::vector<std::pair<std::string, std::vector<double>>> bars;
};
std::string stacked_bars(const StackedBars& chart);

}  // namespace clusterprof::report::plain_html
