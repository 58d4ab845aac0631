// SPDX-License-Identifier: BSD-3-Clause
// Where a series of numbers, one for each run of a program, changes its mean. docs/history.md.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace clusterprof::report {

// A change needs so many runs before and behind it.
inline constexpr std::size_t kLeastRuns = 3;
// Smaller changes are not told of, however certain they are.
inline constexpr double kLeastChange = 0.02;
// Runs vary by so much of their mean at least: a few that agree exactly do not tell that all would.
inline constexpr double kLeastDeviation = 0.005;

// How certain a change has to be, and what is known of how the values vary, besides the values.
struct ChangeTest {
  double false_alarm = 0.001;  // that a series of one mean is said to change anywhere
  double least_deviation = 0;  // in the values' unit: of times that are counted, what they are counted in
};

struct ChangePoint {
  std::size_t first = 0;         // of the values that are different
  double before = 0, after = 0;  // means, back to the changes around it
  double half_width = 0;         // of the confidence interval of after - before
};

// Ascending. The values are those of runs in the order of time.
std::vector<ChangePoint> find_change_points(std::span<const double> values, const ChangeTest& test = {});

// What find_change_points() asks of a change, for a place that is known. Both sides need a value, and one of
// them two.
bool is_change(std::span<const double> before, std::span<const double> after, const ChangeTest& test);

// How runs vary when nothing changes: the standard deviation within the parts between changes, as a share of
// their means. Empty: too few values.
struct RelativeNoise {
  double deviation = 0;
  double freedom = 0;  // degrees of
};
std::optional<RelativeNoise> noise_of(std::span<const double> values, const std::vector<ChangePoint>& changes,
                                      const ChangeTest& test = {});

}  // namespace clusterprof::report
