// SPDX-License-Identifier: BSD-3-Clause
#include "report/text/section.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace clusterprof::report::text {

using namespace format;

namespace {

constexpr double kHelperIdleNote = 0.01;  // of the sampled time

}  // namespace

bool Section::asked(std::string_view section) const {
  return std::find(asked_.begin(), asked_.end(), section) != asked_.end();
}

bool Section::worth(bool anything, std::string_view title, std::string_view otherwise) {
  if (anything) return true;
  if (!all_) {
    page_.section(title);
    page_.line(fmt::format("  {}", otherwise));
  }
  return false;
}

void note_the_rest(Page& page, std::size_t shown, std::size_t all) {
  if (all > shown) page.line(fmt::format("  .. and {} more", all - shown), Style::kDim);
}

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string seconds_cell(const Seconds& value, const TimeScale& scale) { return value ? scale(*value) : "-"; }

bool has_idle_helpers(const Analysis& analysis) {
  return analysis.helper_idle_s > kHelperIdleNote * analysis.sampled_s;
}

void note_idle_helpers(Page& page, const Analysis& analysis) {
  if (!has_idle_helpers(analysis)) return;
  page.line(
      fmt::format("  not counted: {} in which helper threads were idle", seconds(analysis.helper_idle_s)),
      Style::kDim);
}

TimeScale scale_of_ranks(const TimeScale& of_sums, double largest_s) {
  const TimeScale scale(largest_s);
  return of_sums.unit() == std::string_view("h") ? scale : of_sums;
}

std::string other_unit(const TimeScale& of_sums, const TimeScale& of_ranks) {
  const std::string unit = of_ranks.unit();
  return unit == of_sums.unit() ? "" : " in " + unit;
}

}  // namespace clusterprof::report::text
