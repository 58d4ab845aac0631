// SPDX-License-Identifier: BSD-3-Clause
#include "report/plain_html/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>

#include "report/plain_html/document.hpp"

namespace clusterprof::report::plain_html {
namespace {

// In units of the drawing, which is scaled to its column.
constexpr double kWidth = 480, kHeight = 300;
constexpr double kLeft = 52, kRight = 12, kTop = 10, kBottom = 40;
constexpr double kNameHeight = 16, kNameWidth = 150;
constexpr int kTicks = 5;
constexpr double kBarHeight = 22, kBarGap = 8;

// 1, 2 or 5 times a power of ten.
double round_step(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= step) return times * power;
  return 10 * power;
}

class Axis {
 public:
  Axis(bool logarithmic, double from, double to) : logarithmic_(logarithmic), from_(from), to_(to) {}

  void include(double value) {
    if (logarithmic_ && value <= 0) return;
    least_ = std::min(least_, value);
    most_ = std::max(most_, value);
  }
  [[nodiscard]] bool is_empty() const { return least_ > most_; }
  // Leaves room where all values are one.
  void finish(bool from_zero) {
    if (logarithmic_) {
      if (most_ <= least_) least_ /= 2, most_ *= 2;
      return;
    }
    if (from_zero) least_ = std::min(0.0, least_);
    if (most_ <= least_) most_ = least_ + 1;
    const double step = round_step((most_ - least_) / kTicks);
    least_ = std::floor(least_ / step) * step;
    most_ = std::ceil(most_ / step) * step;
  }
  [[nodiscard]] double at(double value) const {
    const double share = logarithmic_ ? std::log(value / least_) / std::log(most_ / least_)
                                      : (value - least_) / (most_ - least_);
    return from_ + share * (to_ - from_);
  }
  [[nodiscard]] bool has(double value) const { return !logarithmic_ || value > 0; }
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> result;
    if (logarithmic_) {
      const double step = std::max(1.0, std::ceil(std::log10(most_ / least_) / kTicks));
      for (double power = std::floor(std::log10(least_)); power <= std::log10(most_); power += step)
        for (const double times : {1.0, 2.0, 5.0}) {
          const double value = times * std::pow(10, power);
          if (value >= least_ && value <= most_ && (times == 1 || most_ / least_ < 100))
            result.push_back(value);
        }
      return result;
    }
    const double step = round_step((most_ - least_) / kTicks);
    for (int i = 0; least_ + i * step <= most_ + step / 2; ++i) result.push_back(least_ + i * step);
    return result;
  }

 private:
  bool logarithmic_;
  double from_, to_;
  double least_ = std::numeric_limits<double>::max(), most_ = std::numeric_limits<double>::lowest();
};

class Drawing {
 public:
  explicit Drawing(const LineChart& chart)
      : chart_(chart), x_(chart.log_x, kLeft, kWidth - kRight), y_(chart.log_y, kHeight - kBottom, kTop) {}

  std::string draw() {
    for (const Curve& curve : chart_.curves) include(curve.points);
    for (const Band& band : chart_.bands) include(band.lower), include(band.upper);
    if (x_.is_empty() || y_.is_empty()) return {};
    x_.finish(false);
    y_.finish(chart_.from_zero);
    const std::size_t rows = (chart_.curves.size() + 2) / 3;
    out_ = fmt::format(
        "<figure><figcaption>{0}</figcaption>\n<svg role=\"img\" aria-label=\"{0}\" "
        "viewBox=\"0 0 {1} {2}\">\n",
        escaped(chart_.title), kWidth, kHeight + static_cast<double>(rows) * kNameHeight);
    axes();
    for (const Band& band : chart_.bands) draw_band(band);
    for (std::size_t i = 0; i < chart_.curves.size(); ++i) draw_curve(i);
    out_ += "</svg></figure>\n";
    return std::move(out_);
  }

 private:
  void include(const std::vector<std::pair<double, double>>& points) {
    for (const auto& [x, y] : points) {
      if (!x_.has(x) || !y_.has(y) || !std::isfinite(y)) continue;
      x_.include(x);
      y_.include(y);
    }
  }

  [[nodiscard]] std::string y_text(double value) const {
    return chart_.percent ? fmt::format("{:.3g} %", 100 * value) : fmt::format("{:.4g}", value);
  }

  void axes() {
    for (const double tick : y_.ticks())
      out_ += fmt::format(
          "<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
          kLeft, kWidth - kRight, y_.at(tick), kLeft - 5, y_.at(tick) + 4, y_text(tick));
    const auto x_tick = [&](double value, std::string_view text) {
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x_.at(value),
                          kHeight - kBottom + 15, escaped(text));
    };
    if (chart_.x_ticks.empty())
      for (const double tick : x_.ticks()) x_tick(tick, fmt::format("{:.4g}", tick));
    for (const auto& [value, text] : chart_.x_ticks) x_tick(value, text);
    out_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                        (kLeft + kWidth - kRight) / 2, kHeight - kBottom + 31, escaped(chart_.x_name));
    out_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kLeft + 4, kTop + 10, escaped(chart_.y_name));
  }

  [[nodiscard]] std::string points(const std::vector<std::pair<double, double>>& of) const {
    std::string text;
    for (const auto& [x, y] : of)
      if (x_.has(x) && y_.has(y) && std::isfinite(y))
        text += fmt::format("{:.1f},{:.1f} ", x_.at(x), y_.at(y));
    return text;
  }

  void draw_band(const Band& band) {
    std::vector<std::pair<double, double>> around = band.lower;
    around.insert(around.end(), band.upper.rbegin(), band.upper.rend());
    out_ +=
        fmt::format("<polygon class=\"band c{}\" points=\"{}\"/>\n", band.curve % kColours, points(around));
  }

  void draw_curve(std::size_t i) {
    const Curve& curve = chart_.curves[i];
    const std::size_t colour = i % kColours;
    out_ += fmt::format("<polyline class=\"series c{}{}\" points=\"{}\"/>\n", colour,
                        curve.dashed ? " dashed" : "", points(curve.points));
    if (!curve.dashed)
      for (const auto& [x, y] : curve.points)
        if (x_.has(x) && y_.has(y) && std::isfinite(y))
          out_ += fmt::format("<circle class=\"mark c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", colour,
                              x_.at(x), y_.at(y));
    const double x = kLeft + static_cast<double>(i % 3) * kNameWidth;
    const double y = kHeight + static_cast<double>(i / 3) * kNameHeight + 4;
    out_ += fmt::format(
        "<rect class=\"mark c{}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"{}\"/>"
        "<text class=\"name\" x=\"{}\" y=\"{}\">{}</text>\n",
        colour, x, y - (curve.dashed ? 5 : 8), curve.dashed ? 3 : 9, x + 17, y, escaped(curve.name));
  }

  const LineChart& chart_;
  Axis x_, y_;
  std::string out_;
};

}  // namespace

std::string line_chart(const LineChart& chart) { return Drawing(chart).draw(); }

std::string stacked_bars(const StackedBars& chart) {
  if (chart.bars.empty()) return {};
  const double names = static_cast<double>((chart.parts.size() + 2) / 3) * kNameHeight;
  const double height = static_cast<double>(chart.bars.size()) * (kBarHeight + kBarGap) + kTop;
  std::string out = fmt::format(
      "<figure><figcaption>{0}</figcaption>\n<svg role=\"img\" aria-label=\"{0}\" "
      "viewBox=\"0 0 {1} {2}\">\n",
      escaped(chart.title), kWidth, height + names + kBarGap);
  double y = kTop;
  for (const auto& [label, shares] : chart.bars) {
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 6,
                       y + kBarHeight / 2 + 4, escaped(label));
    double x = kLeft;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double width = std::max(0.0, shares[i]) * (kWidth - kLeft - kRight);
      out += fmt::format(
          "<rect class=\"part c{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\">"
          "<title>{}: {:.1f} %</title></rect>\n",
          i % kColours, x, y, width, kBarHeight, escaped(chart.parts[i]), 100 * shares[i]);
      x += width;
    }
    y += kBarHeight + kBarGap;
  }
  for (std::size_t i = 0; i < chart.parts.size(); ++i) {
    const double x = kLeft + static_cast<double>(i % 3) * kNameWidth;
    const double name_y = height + static_cast<double>(i / 3) * kNameHeight + kBarGap;
    out += fmt::format(
        "<rect class=\"part c{}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"9\"/>"
        "<text class=\"name\" x=\"{}\" y=\"{}\">{}</text>\n",
        i % kColours, x, name_y - 8, x + 17, name_y, escaped(chart.parts[i]));
  }
  return out + "</svg></figure>\n";
}

}  // namespace clusterprof::report::plain_html
