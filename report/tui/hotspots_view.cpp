// SPDX-License-Identifier: BSD-3-Clause
// Functions by time.
#include <fmt/format.h>

#include <algorithm>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

class HotspotsView final : public View {
 public:
  explicit HotspotsView(const Run& run) : run_(run) {}

  std::string title() const override { return "Hotspots"; }
  std::string keys() const override { return "s sort  r reverse  Enter callers, callees, ranks"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    for (std::uint32_t f = 0; f < run_.data.functions.size(); ++f) {
      const PageFunction& function = run_.data.functions[f];
      if (run_.time.functions[f].total_s <= 0) continue;
      if (matches(printable(function.name), filter) || matches(printable(function.file), filter) ||
          matches(printable(function.module), filter))
        items_.push_back(f);
    }
    std::stable_sort(items_.begin(), items_.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (sort_ == kByName) return reversed_ ? name(a) > name(b) : name(a) < name(b);
      return reversed_ ? key(a) < key(b) : key(a) > key(b);
    });
    double most_s = 0;
    for (const FunctionSeconds& time : run_.time.functions) most_s = std::max(most_s, time.total_s);
    scale_ = TimeScale(most_s);
  }
  std::size_t size() const override { return items_.size(); }

  Spans heading(std::size_t columns) const override {
    const auto mark = [&](const char* title, int sort) {
      return cell(fmt::format("{}{}", sort_ == sort ? (reversed_ ? "^" : "v") : "", title));
    };
    std::string line = mark(fmt::format("self {}", scale_.unit()).c_str(), kBySelf) + cell("%", 6) +
                       mark("total", kByTotal) + cell("%", 6) + mark("imbal.", kByImbalance);
    if (columns >= 90) line += pad_right("", kBar + 1);
    return {{line + (sort_ == kByName ? (reversed_ ? "^function" : "vfunction") : "function"), Style::kDim}};
  }

  Spans render(std::size_t item, std::size_t columns) const override {
    const std::uint32_t f = items_[item];
    const FunctionSeconds& time = run_.time.functions[f];
    const FunctionRow* row = row_of(f);
    const std::string numbers =
        time_cell(scale_, time.self_s) + cell(run_.share(time.self_s), 6) + time_cell(scale_, time.total_s) +
        cell(run_.share(time.total_s), 6) +
        cell(row != nullptr && row->active_spread.mean_s > 0
                 ? fmt::format("{:.2f}", row->active_spread.max_s / row->active_spread.mean_s)
                 : "-");
    Spans spans{{numbers, Style::kPlain}};
    std::size_t used = format::columns(numbers);
    if (columns >= 90) {
      append(spans, bar_spans(run_.time.all_s() > 0 ? time.self_s / run_.time.all_s() : 0, kBar,
                              kind_style(run_.data.functions[f].kind)));
      used += kBar + 1;
    }
    spans.push_back({run_.label(run_.data.functions[f], rest_of(columns, used)),
                     kind_style(run_.data.functions[f].kind)});
    return spans;
  }

  ViewRequest open(std::size_t item) override {
    return {ViewRequest::Kind::kFunction, items_[item], {}, 0, {}};
  }
  bool letter(std::string_view text, std::size_t& item) override {
    if (text == "s") sort_ = (sort_ + 1) % kSorts;
    if (text == "r") reversed_ = !reversed_;
    if (text != "s" && text != "r") return false;
    item = 0;
    return true;
  }

 private:
  enum { kBySelf, kByTotal, kByImbalance, kByName, kSorts };

  const FunctionRow* row_of(std::uint32_t f) const {
    const std::uint32_t row = run_.data.functions[f].row;
    return row < run_.analysis.functions.size() ? &run_.analysis.functions[row] : nullptr;
  }
  const std::string& name(std::uint32_t f) const { return run_.data.functions[f].name; }
  double key(std::uint32_t f) const {
    const FunctionSeconds& time = run_.time.functions[f];
    if (sort_ == kBySelf) return time.self_s;
    if (sort_ == kByTotal) return time.total_s;
    // What balance would save comes before what is uneven and short.
    const FunctionRow* row = row_of(f);
    return row == nullptr ? 0 : row->active_spread.max_s - row->active_spread.mean_s;
  }

  const Run& run_;
  std::vector<std::uint32_t> items_;
  int sort_ = kBySelf;
  bool reversed_ = false;
  TimeScale scale_{1};
};

}  // namespace

std::unique_ptr<View> hotspots_view(const Run& run) { return std::make_unique<HotspotsView>(run); }

}  // namespace clusterprof::report::tui
