// SPDX-License-Identifier: BSD-3-Clause
// Binary segmentation: the place where the means of both sides differ most, in units of their error, divides
// a series if that is no chance; then both parts are looked at in the same way.
#include "report/history/change_points.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/diff/statistics.hpp"

namespace clusterprof::report {
namespace {

// Fewer degrees of freedom say little about how much runs vary.
constexpr double kLeastFreedom = 4;

class Segmentation {
 public:
  explicit Segmentation(std::span<const double> values) : values_(values), sums_{0}, squares_{0} {
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
    return describe();
  }

 private:
  [[nodiscard]] double mean(std::size_t begin, std::size_t end) const {
    return (sums_[end] - sums_[begin]) / static_cast<double>(end - begin);
  }
  // Around the mean.
  [[nodiscard]] double squares(std::size_t begin, std::size_t end) const {
    const double sum = sums_[end] - sums_[begin];
    return std::max(0.0, squares_[end] - squares_[begin] - sum * sum / static_cast<double>(end - begin));
  }
  // Of the difference of both means, by how the values of both sides vary.
  [[nodiscard]] double error(std::size_t begin, std::size_t middle, std::size_t end) const {
    const double before = static_cast<double>(middle - begin), after = static_cast<double>(end - middle);
    const double variance = (squares(begin, middle) + squares(middle, end)) / (before + after - 2);
    return std::sqrt(variance * (1 / before + 1 / after));
  }

  void divide(std::size_t begin, std::size_t end) {
    if (end - begin < 2 * kLeastRuns) return;
    double most = 0;
    std::size_t best = begin;
    for (std::size_t middle = begin + kLeastRuns; middle + kLeastRuns <= end; ++middle) {
      const double difference = std::abs(mean(middle, end) - mean(begin, middle));
      // Values that do not vary at all have no error but that of their last digits.
      const double least = 1e-9 * std::abs(offset_) + 1e-300;
      const double t = difference / std::max(error(begin, middle, end), least);
      if (t <= most) continue;
      most = t;
      best = middle;
    }
    const auto places = static_cast<double>(end - begin - 2 * kLeastRuns + 1);
    const auto freedom = static_cast<double>(end - begin - 2);
    if (most <= student_quantile(freedom, 1 - kFalseAlarm / places)) return;
    firsts_.push_back(best);
    divide(begin, best);
    divide(best, end);
  }

  [[nodiscard]] std::vector<ChangePoint> describe() const {
    std::vector<ChangePoint> changes;
    for (std::size_t i = 0; i < firsts_.size(); ++i) {
      const std::size_t begin = i == 0 ? 0 : firsts_[i - 1], middle = firsts_[i];
      const std::size_t end = i + 1 == firsts_.size() ? values_.size() : firsts_[i + 1];
      ChangePoint change{middle, offset_ + mean(begin, middle), offset_ + mean(middle, end), 0};
      change.half_width = student_quantile(static_cast<double>(end - begin - 2)) * error(begin, middle, end);
      changes.push_back(change);
    }
    return changes;
  }

  std::span<const double> values_;
  double offset_ = 0;
  std::vector<double> sums_, squares_;  // of the first so many values
  std::vector<std::size_t> firsts_;
};

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const double> values) {
  std::vector<ChangePoint> changes = Segmentation(values).find();
  std::erase_if(changes, [](const ChangePoint& change) {
    return std::abs(change.after - change.before) < kLeastChange * std::abs(change.before);
  });
  return changes;
}

std::optional<RelativeNoise> noise_of(std::span<const double> values,
                                      const std::vector<ChangePoint>& changes) {
  double squares = 0, freedom = 0;
  for (std::size_t i = 0; i <= changes.size(); ++i) {
    const std::size_t begin = i == 0 ? 0 : changes[i - 1].first;
    const std::size_t end = i == changes.size() ? values.size() : changes[i].first;
    const std::span<const double> part = values.subspan(begin, end - begin);
    const std::optional<Sample> sample = sample_of(part);
    if (!sample || sample->mean == 0) continue;
    for (const double value : part)
      squares += (value - sample->mean) * (value - sample->mean) / (sample->mean * sample->mean);
    freedom += static_cast<double>(part.size()) - 1;
  }
  if (freedom < kLeastFreedom) return {};
  return RelativeNoise{std::sqrt(squares / freedom), freedom};
}

}  // namespace clusterprof::report
