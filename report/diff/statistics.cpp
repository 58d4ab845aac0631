// SPDX-License-Identifier: BSD-3-Clause
#include "report/diff/statistics.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

namespace clusterprof::report {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of at least two values.
double variance_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / static_cast<double>(values.size() - 1);
}

}  // namespace

double student_quantile(double freedom, double confidence) {
  return boost::math::quantile(
      boost::math::complement(boost::math::students_t(freedom), (1 - confidence) / 2));
}

std::optional<Sample> sample_of(std::span<const double> values) {
  if (values.empty()) return {};
  Sample sample;
  sample.runs = values.size();
  sample.mean = mean_of(values);
  sample.min = *std::min_element(values.begin(), values.end());
  sample.max = *std::max_element(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  if (values.size() >= 2) sample.half_width = student_quantile(n - 1) * std::sqrt(variance_of(values) / n);
  return sample;
}

double DifferenceError::half_width(double confidence) const {
  return error == 0 ? 0 : student_quantile(freedom, confidence) * error;
}

std::optional<DifferenceError> error_of_difference(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty() || (a.size() < 2 && b.size() < 2)) return {};
  const auto n_a = static_cast<double>(a.size()), n_b = static_cast<double>(b.size());
  if (a.size() < 2 || b.size() < 2) {
    const std::span<const double> many = a.size() < 2 ? b : a;
    return DifferenceError{std::sqrt(variance_of(many) * (1 / n_a + 1 / n_b)),
                           static_cast<double>(many.size() - 1)};
  }
  const double of_a = variance_of(a) / n_a, of_b = variance_of(b) / n_b, both = of_a + of_b;
  if (both <= 0) return DifferenceError{0, n_a + n_b - 2};
  return DifferenceError{std::sqrt(both), both * both / (of_a * of_a / (n_a - 1) + of_b * of_b / (n_b - 1))};
}

std::optional<double> half_width_of_difference(std::span<const double> a, std::span<const double> b) {
  const std::optional<DifferenceError> error = error_of_difference(a, b);
  return error ? std::optional(error->half_width()) : std::nullopt;
}

}  // namespace clusterprof::report
