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
// That a series of one mean is said to change anywhere.
inline constexpr double kFalseAlarm = 0.001;
// Smaller changes are not told of, however certain they are.
inline constexpr double kLeastChange = 0.02;

struct ChangePoint {
  std::size_t first = 0;         // of the values that are different
  double before = 0, after = 0;  // means, back to the changes around it
  double half_width = 0;         // of the confidence interval of after - before
};

// Ascending. The values are those of runs in the order of time.
std::vector<ChangePoint> find_change_points(std::span<const double> values);

// How runs vary when nothing changes: the standard deviation within the parts between changes, as a share of
// their means. Empty: too few values.
struct RelativeNoise {
  double deviation = 0;
  double freedom = 0;  // degrees of
};
std::optional<RelativeNoise> noise_of(std::span<const double> values,
                                      const std::vector<ChangePoint>& changes);

}  // namespace clusterprof::report
