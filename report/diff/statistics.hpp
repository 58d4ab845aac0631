// SPDX-License-Identifier: BSD-3-Clause
// Treats several runs of one program as a statistical sample. Formulas: docs/diff.md.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace clusterprof::report {

inline constexpr double kConfidence = 0.95;

// Of Student's distribution: |t| is above it with a probability of 1 - confidence. `freedom` > 0.
double student_quantile(double freedom, double confidence = kConfidence);

struct Sample {
  std::size_t runs = 0;  // at least 1
  double mean = 0, min = 0, max = 0;
  std::optional<double> half_width;  // of the mean's confidence interval; empty for one run
};
std::optional<Sample> sample_of(std::span<const double> values);  // empty: no values

// The standard error of mean(b) - mean(a), with its degrees of freedom; infinite: those of a normal
// distribution.
struct DifferenceError {
  double error = 0, freedom = 0;
  [[nodiscard]] double half_width(double confidence = kConfidence) const;
};
// Welch's where both sides have at least two values; where one has a single value, it is taken to vary as the
// other does. Empty for one value each.
std::optional<DifferenceError> error_of_difference(std::span<const double> a, std::span<const double> b);
std::optional<double> half_width_of_difference(std::span<const double> a, std::span<const double> b);

}  // namespace clusterprof::report
