// SPDX-License-Identifier: BSD-3-Clause
// Binary segmentation: the place where the means of both sides differ most, in units of their error, divides
// a series if that is no chance; then both parts are looked at in the same way.
#include "report/history/change_points.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "report/diff/statistics.hpp"

namespace clusterprof::report {
namespace {

// Fewer degrees of freedom say little about how much runs vary.
constexpr double kLeastFreedom = 4;

struct Part {
  double count = 0, mean = 0;
  double squares = 0;  // around the mean
};

double freedom_of(const Part& before, const Part& after) { return before.count + after.count - 2; }

// Of the difference of both means, by how the values of both sides vary.
double error_of(const Part& before, const Part& after, const ChangeTest& test) {
  const double all = before.count + after.count;
  const double mean = std::abs(before.count * before.mean + after.count * after.mean) / all;
  const double least = std::max(kLeastDeviation * mean, test.least_deviation);
  const double variance =
      std::max((before.squares + after.squares) / freedom_of(before, after), least * least);
  return std::sqrt(variance * (1 / before.count + 1 / after.count));
}

// How many errors both means are apart. Equal values are not.
double distance(const Part& before, const Part& after, const ChangeTest& test) {
  const double difference = std::abs(after.mean - before.mean);
  return difference == 0 ? 0 : difference / error_of(before, after, test);
}

bool is_large(double before, double after) {
  return std::abs(after - before) >= kLeastChange * std::abs(before);
}

// A change as a share of what was before.
double relative_size(const Part& before, const Part& after) {
  const double difference = std::abs(after.mean - before.mean);
  if (difference == 0) return 0;
  return before.mean == 0 ? std::numeric_limits<double>::infinity() : difference / std::abs(before.mean);
}

Part part_of(std::span<const double> values) {
  const std::optional<Sample> sample = sample_of(values);
  if (!sample) return {};
  Part part{static_cast<double>(sample->runs), sample->mean, 0};
  for (const double value : values) part.squares += (value - part.mean) * (value - part.mean);
  return part;
}

class Segmentation {
 public:
  Segmentation(std::span<const double> values, const ChangeTest& test)
      : values_(values), test_(test), sums_{0}, squares_{0} {
    // Sums of small numbers, so that differences of squares keep their digits.
    offset_ = values.empty() ? 0 : values.front();
    for (const double value : values) {
      const double x = value - offset_;
      sums_.push_back(sums_.back() + x);
      squares_.push_back(squares_.back() + x * x);
    }
  }

  std::vector<ChangePoint> find() {
    divide(0, values_.size());
    std::sort(firsts_.begin(), firsts_.end());
    join_small();
    return describe();
  }

 private:
  [[nodiscard]] Part part(std::size_t begin, std::size_t end) const {
    const auto count = static_cast<double>(end - begin);
    const double sum = sums_[end] - sums_[begin];
    return {count, offset_ + sum / count, std::max(0.0, squares_[end] - squares_[begin] - sum * sum / count)};
  }

  void divide(std::size_t begin, std::size_t end) {
    if (end - begin < 2 * kLeastRuns) return;
    double most = 0;
    std::size_t best = begin;
    for (std::size_t middle = begin + kLeastRuns; middle + kLeastRuns <= end; ++middle) {
      const double t = distance(part(begin, middle), part(middle, end), test_);
      if (t <= most) continue;
      most = t;
      best = middle;
    }
    // Parts share what the series has, by their lengths: together they are not more often wrong than it.
    const auto size = static_cast<double>(end - begin);
    const double level = test_.false_alarm * size / static_cast<double>(values_.size());
    const double places = size - 2 * static_cast<double>(kLeastRuns) + 1;
    if (most <= student_quantile(size - 2, 1 - level / places)) return;
    firsts_.push_back(best);
    divide(begin, best);
    divide(best, end);
  }

  // What is too small to be told of is no border either, or the means of other changes would be of a few of
  // the runs that they are said to be of. The smallest goes first: joined parts may differ more from the next
  // one, so that many small steps in one direction are not lost.
  void join_small() {
    if (firsts_.empty()) return;
    std::vector<Part> parts;
    for (std::size_t i = 0; i <= firsts_.size(); ++i) parts.push_back(part(begin_of(i), begin_of(i + 1)));
    while (!firsts_.empty()) {
      std::size_t smallest = 0;
      for (std::size_t i = 1; i < firsts_.size(); ++i)
        if (relative_size(parts[i], parts[i + 1]) < relative_size(parts[smallest], parts[smallest + 1]))
          smallest = i;
      if (is_large(parts[smallest].mean, parts[smallest + 1].mean)) return;
      firsts_.erase(firsts_.begin() + static_cast<std::ptrdiff_t>(smallest));
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(smallest));
      parts[smallest] = part(begin_of(smallest), begin_of(smallest + 1));
    }
  }

  // Where the part begins, by the changes before it.
  [[nodiscard]] std::size_t begin_of(std::size_t index) const {
    return index == 0 ? 0 : index > firsts_.size() ? values_.size() : firsts_[index - 1];
  }

  [[nodiscard]] std::vector<ChangePoint> describe() const {
    std::vector<ChangePoint> changes;
    for (std::size_t i = 0; i < firsts_.size(); ++i) {
      const Part before = part(begin_of(i), firsts_[i]), after = part(firsts_[i], begin_of(i + 2));
      changes.push_back({firsts_[i], before.mean, after.mean,
                         student_quantile(freedom_of(before, after)) * error_of(before, after, test_)});
    }
    return changes;
  }

  std::span<const double> values_;
  ChangeTest test_;
  double offset_ = 0;
  std::vector<double> sums_, squares_;  // of the first so many values
  std::vector<std::size_t> firsts_;
};

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const double> values, const ChangeTest& test) {
  return Segmentation(values, test).find();
}

bool is_change(std::span<const double> before, std::span<const double> after, const ChangeTest& test) {
  const Part a = part_of(before), b = part_of(after);
  if (a.count < 1 || b.count < 1 || freedom_of(a, b) < 1) return false;
  return is_large(a.mean, b.mean) &&
         distance(a, b, test) > student_quantile(freedom_of(a, b), 1 - test.false_alarm);
}

std::optional<RelativeNoise> noise_of(std::span<const double> values, const std::vector<ChangePoint>& changes,
                                      const ChangeTest& test) {
  double squares = 0, least = 0, freedom = 0;
  for (std::size_t i = 0; i <= changes.size(); ++i) {
    const std::size_t begin = i == 0 ? 0 : changes[i - 1].first;
    const std::size_t end = i == changes.size() ? values.size() : changes[i].first;
    const Part part = part_of(values.subspan(begin, end - begin));
    if (part.mean == 0) continue;
    squares += part.squares / (part.mean * part.mean);
    least += (part.count - 1) * test.least_deviation * test.least_deviation / (part.mean * part.mean);
    freedom += part.count - 1;
  }
  if (freedom < kLeastFreedom) return {};
  return RelativeNoise{std::sqrt(std::max(squares, least) / freedom), freedom};
}

}  // namespace clusterprof::report
