// SPDX-License-Identifier: BSD-3-Clause
// Chooses among a few terms as Extra-P does: each is fitted without one size and has to predict that size,
// for all sizes in turn. A. Calotoiu, T. Hoefler, M. Poke, F. Wolf: "Using automated performance modeling to
// find scalability bugs in complex codes", SC 2013. Unlike there, a term is preferred to a constant only if
// its coefficient is certain, and the limits of predictions cover all exponents that the measurements allow.
#include "report/scale/growth_law.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/diff/statistics.hpp"

namespace clusterprof::report {
namespace {

// How much runs vary is known from few runs only. So it is estimated together with what is usual: runs of a
// program on a shared machine vary by so large a share, as if that were known from so many runs.
constexpr double kUsualNoise = 0.05, kUsualFreedom = 4;
// Values that are next to nothing, as of MPI on one rank, vary by a share of the largest one; and where the
// smallest size has one, growth begins there.
constexpr double kSmallest = 0.01;
// That a term's coefficient is above 0 by chance, one side of Student's distribution. With the number of
// terms to choose from this makes one or two constants in a hundred look like growth
// (tests/unit/scale).
constexpr double kCertain = 1 - 2 * 0.002;

constexpr double kExponents[] = {-2,       -1.5,  -1.25, -1,      -0.75, -2.0 / 3, -0.5,
                                 -1.0 / 3, -0.25, 0.25,  1.0 / 3, 0.5,   2.0 / 3,  0.75,
                                 1,        1.25,  1.5,   1.75,    2,     2.5,      3};
// All exponents between those are tried where it is asked what the measurements allow.
constexpr double kStep = 0.05, kMostExponent = 3;
// Of what looks constant: it says nothing about steeper terms that would show only at larger sizes.
constexpr double kMostOfConstant = 1;

double value_of(Term term, double exponent, double size) {
  switch (term) {
    case Term::kConstant:
      return 0;
    case Term::kLog:
      return std::log2(size);
    case Term::kPower:
      return std::pow(size, exponent);
    case Term::kPowerLog:
      return size * std::log2(size);
  }
  return 0;
}

// The means of all sizes with their weights.
struct Points {
  std::vector<double> sizes, means, weights;
  double begin = 0;  // the size from which on terms count; 0: as they are
  std::size_t runs = 0;
  double within = 0;  // weighted squares of the runs' distances from the means of their sizes
};

Points points_of(std::span<const SizeSample> samples) {
  Points points;
  for (const SizeSample& sample : samples) {
    double sum = 0;
    for (const double value : sample.values) sum += value;
    points.sizes.push_back(sample.size);
    points.means.push_back(sum / static_cast<double>(sample.values.size()));
    points.runs += sample.values.size();
  }
  const double largest = *std::max_element(points.means.begin(), points.means.end());
  if (points.means.front() <= kSmallest * largest) points.begin = points.sizes.front();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double deviation = kUsualNoise * std::max(points.means[i], kSmallest * largest);
    const double variance = deviation * deviation + samples[i].variance;
    points.weights.push_back(static_cast<double>(samples[i].values.size()) / variance);
    for (const double value : samples[i].values)
      points.within += (value - points.means[i]) * (value - points.means[i]) / variance;
  }
  return points;
}

struct Fit {
  double constant = 0, coefficient = 0;
  double sum_w = 0, sum_f = 0, sum_ff = 0;
};

// Least squares, with neither part below 0. `skip`: a size that is left out.
Fit fit(const Points& points, const std::vector<double>& terms,
        std::size_t skip = std::numeric_limits<std::size_t>::max()) {
  Fit result;
  double sum_y = 0, sum_fy = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (i == skip) continue;
    const double w = points.weights[i], f = terms[i], y = points.means[i];
    result.sum_w += w;
    result.sum_f += w * f;
    result.sum_ff += w * f * f;
    sum_y += w * y;
    sum_fy += w * f * y;
  }
  const double determinant = result.sum_w * result.sum_ff - result.sum_f * result.sum_f;
  result.constant = sum_y / result.sum_w;
  if (determinant <= 1e-12 * result.sum_w * result.sum_ff) return result;
  const double coefficient = (result.sum_w * sum_fy - result.sum_f * sum_y) / determinant;
  if (coefficient <= 0) return result;
  result.coefficient = coefficient;
  result.constant = (sum_y - coefficient * result.sum_f) / result.sum_w;
  if (result.constant >= 0) return result;
  result.constant = 0;
  result.coefficient = sum_fy / result.sum_ff;
  return result;
}

// What is subtracted from a term that grows, so that it is 0 where growth begins.
double offset_of(const Points& points, Term term, double exponent) {
  return points.begin == 0 || exponent < 0 ? 0 : value_of(term, exponent, points.begin);
}

std::vector<double> terms_of(const Points& points, Term term, double exponent) {
  std::vector<double> terms;
  const double offset = offset_of(points, term, exponent);
  for (const double size : points.sizes) terms.push_back(value_of(term, exponent, size) - offset);
  return terms;
}

double squared_error(const Points& points, const std::vector<double>& terms, const Fit& fit) {
  double sum = points.within;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const double error = points.means[i] - fit.constant - fit.coefficient * terms[i];
    sum += points.weights[i] * error * error;
  }
  return sum;
}

double error_of_prediction(const Points& points, const std::vector<double>& terms) {
  double sum = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const Fit without = fit(points, terms, i);
    const double error = points.means[i] - without.constant - without.coefficient * terms[i];
    sum += points.weights[i] * error * error;
  }
  return sum;
}

struct Candidate {
  Law law;
  Fit fit;
  double offset = 0;  // of the term
  double error = 0;   // squared
};

Candidate fitted(const Points& points, Term term, double exponent) {
  const std::vector<double> terms = terms_of(points, term, exponent);
  Candidate candidate;
  candidate.fit = fit(points, terms);
  candidate.offset = offset_of(points, term, exponent);
  const double constant = candidate.fit.constant - candidate.fit.coefficient * candidate.offset;
  candidate.law = {term, exponent, candidate.fit.coefficient, constant, 0, 0};
  candidate.error = squared_error(points, terms, candidate.fit);
  return candidate;
}

// The term that predicts best what it has not seen; none where nothing grows or falls.
std::optional<Candidate> best_of(const Points& points) {
  std::optional<Candidate> best;
  double least = 0;
  const auto consider = [&](Term term, double exponent) {
    Candidate candidate = fitted(points, term, exponent);
    if (candidate.fit.coefficient <= 0) return;
    const double error = error_of_prediction(points, terms_of(points, term, exponent));
    if (best && error >= least) return;
    least = error;
    best = candidate;
  };
  consider(Term::kLog, 0);
  for (const double exponent : kExponents) consider(Term::kPower, exponent);
  consider(Term::kPowerLog, 1);
  return best;
}

// The exponent of one power of p through all means, with its limits; values of 0 have none.
void find_exponents_of_constant(const Points& points, double scale, double quantile, Law& law) {
  double sum_w = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (std::size_t i = 0; i < points.sizes.size(); ++i) {
    if (points.means[i] <= 0) continue;
    const double x = std::log(points.sizes[i]), y = std::log(points.means[i]);
    const double w = points.weights[i] * points.means[i] * points.means[i];
    sum_w += w;
    sum_x += w * x;
    sum_y += w * y;
    sum_xx += w * x * x;
    sum_xy += w * x * y;
  }
  const double determinant = sum_w * sum_xx - sum_x * sum_x;
  if (determinant <= 0) return;
  const double slope = (sum_w * sum_xy - sum_x * sum_y) / determinant;
  const double half = quantile * std::sqrt(scale * sum_w / determinant);
  law.least_exponent = slope - half;
  law.most_exponent = slope + half;
}

}  // namespace

double Law::at(double size) const {
  return std::max(constant + coefficient * value_of(term, exponent, size), 0.0);
}

FittedLaw::FittedLaw(std::span<const SizeSample> samples) {
  if (samples.size() < kLeastSizes) return;
  const Points points = points_of(samples);
  largest_ = *std::max_element(points.means.begin(), points.means.end());
  if (largest_ <= 0) return;
  const auto runs = static_cast<double>(points.runs);
  // Of the variances that the weights assume.
  const auto scale = [](double error, double freedom) {
    return (error + kUsualFreedom) / (freedom + kUsualFreedom);
  };
  const Candidate constant = fitted(points, Term::kConstant, 0);
  const std::optional<Candidate> best = best_of(points);

  law_ = constant.law;
  if (best) {
    const double t = std::sqrt(std::max(0.0, constant.error - best->error) / scale(best->error, runs - 2));
    if (t > student_quantile(runs - 2 + kUsualFreedom, kCertain)) law_ = best->law;
  }
  const bool grows = law_->term != Term::kConstant;

  // What else the measurements allow: all that is not worse than the best by more than chance explains.
  std::vector<Candidate> tried;
  const double most = grows ? kMostExponent : kMostOfConstant;
  const int steps = static_cast<int>(std::lround(most / kStep));
  for (int i = -steps; i <= steps; ++i)
    tried.push_back(i == 0 ? fitted(points, Term::kLog, 0) : fitted(points, Term::kPower, i * kStep));
  if (grows) tried.push_back(fitted(points, Term::kPowerLog, 1));
  double least = constant.error;
  for (const Candidate& candidate : tried) least = std::min(least, candidate.error);
  scale_ = scale(least, runs - 3);
  quantile_ = student_quantile(runs - 3 + kUsualFreedom);
  const double limit = least + quantile_ * quantile_ * scale_;
  for (const Candidate& candidate : tried)
    if (candidate.error <= limit)
      allowed_.push_back(
          {candidate.law, candidate.offset, candidate.fit.sum_w, candidate.fit.sum_f, candidate.fit.sum_ff});
  if (!grows) {
    find_exponents_of_constant(points, scale_, quantile_, *law_);
    return;
  }
  law_->least_exponent = law_->most_exponent = law_->exponent;
  for (const Allowed& allowed : allowed_) {
    law_->least_exponent = std::min(law_->least_exponent, allowed.law.exponent);
    law_->most_exponent = std::max(law_->most_exponent, allowed.law.exponent);
  }
}

Prediction FittedLaw::predict(double size) const {
  const double value = law_->at(size);
  Prediction prediction{value, value, value};
  const auto reach = [&](double middle, double variance) {
    const double deviation = kUsualNoise * std::max(middle, kSmallest * largest_);
    const double half = quantile_ * std::sqrt(scale_ * (variance + deviation * deviation));
    prediction.low = std::min(prediction.low, middle - half);
    prediction.high = std::max(prediction.high, middle + half);
  };
  reach(value, 0);
  for (const Allowed& allowed : allowed_) {
    const double f = value_of(allowed.law.term, allowed.law.exponent, size) - allowed.offset;
    const double determinant = allowed.sum_w * allowed.sum_ff - allowed.sum_f * allowed.sum_f;
    const double variance =
        determinant <= 0 ? 0 : (allowed.sum_ff - 2 * f * allowed.sum_f + f * f * allowed.sum_w) / determinant;
    reach(allowed.law.at(size), std::max(variance, 0.0));
  }
  prediction.low = std::max(prediction.low, 0.0);
  return prediction;
}

}  // namespace clusterprof::report
