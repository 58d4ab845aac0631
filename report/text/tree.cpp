// SPDX-License-Identifier: BSD-3-Clause
#include "report/text/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

constexpr double kSmall = 0.01;       // of the whole: rows with less are not shown
constexpr double kSmallShort = 0.05;  // the same where the tree is one section of many
constexpr double kAlone = 0.98;       // of its caller's time: such a callee is indented less
constexpr std::size_t kMaxRows = 200;
constexpr std::size_t kShortestName = 8;
constexpr std::size_t kWide = 100;  // columns of the page

class TreeText {
 public:
  TreeText(Page& page, const std::vector<CallTreeRow>& rows, double whole_s, const ShortPaths& paths,
           const TreeOptions& options)
      : page_(page),
        rows_(rows),
        paths_(paths),
        whole_s_(whole_s),
        least_s_((options.full ? kSmall : kSmallShort) * whole_s_),
        scale_(largest()),
        bar_width_(page.width() >= kWide           ? 16
                   : page.width() >= kUsualColumns ? 8
                                                   : 0),
        indent_(rows_.size(), 0) {
    choose(options.full ? kMaxRows : options.rows);
  }

  void print() {
    page_.line(fmt::format("  {:>8}  {:>5}  {:>8}  {:{}}  function", "total", "%", "self", "", bar_width_),
               Style::kDim);
    std::vector<std::uint32_t> open;  // shown rows whose callees are being printed
    for (std::uint32_t i = 0; i < rows_.size(); ++i) {
      if (!shown_[i]) continue;
      while (!open.empty() && rows_[i].parent != open.back()) close(open);
      show(i);
      open.push_back(i);
    }
    while (!open.empty()) close(open);
    page_.line(fmt::format("  in {}; bars: of the whole; others: calls that are not shown", scale_.unit()),
               Style::kDim);
    if (std::any_of(rows_.begin(), rows_.end(),
                    [](const CallTreeRow& row) { return row.fold != Fold::kNone; }))
      page_.line("  a call into a library is one row; --all-frames shows what is in it", Style::kDim);
  }

 private:
  double largest() const {
    double most_s = 0;
    for (const CallTreeRow& row : rows_) most_s = std::max(most_s, row.total_s);
    return most_s;
  }

  // A row has at most the time of its caller and stands behind it: the callers of what is chosen are, too.
  void choose(std::size_t most) {
    std::vector<std::uint32_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [this](std::uint32_t x, std::uint32_t y) {
      return rows_[x].total_s > rows_[y].total_s;
    });
    shown_.assign(rows_.size(), false);
    rest_s_.assign(rows_.size(), 0);
    for (std::size_t i = 0; i < rows_.size(); ++i) rest_s_[i] = rows_[i].total_s - rows_[i].self_s;
    for (std::size_t i = 0; i < std::min(most, order.size()); ++i) {
      const CallTreeRow& row = rows_[order[i]];
      if (row.total_s < least_s_) break;
      shown_[order[i]] = true;
      if (row.parent != shard::kNone) rest_s_[row.parent] -= row.total_s;
    }
  }

  void show(std::uint32_t i) {
    const CallTreeRow& row = rows_[i];
    if (row.parent != shard::kNone) {
      const bool alone = row.total_s >= kAlone * rows_[row.parent].total_s;
      indent_[i] = indent_[row.parent] + (alone ? 1 : 2);
    }
    FunctionRow function;
    function.name = row.name, function.file = row.file, function.module = row.module;
    function.line = row.line, function.kind = row.kind;
    const auto most = std::max_element(row.category_s.begin(), row.category_s.end());
    const std::size_t room = room_at(indent_[i]);
    const std::string name =
        row.kind == shard::FrameKind::kRegion
            ? shorten_middle(fmt::format("region {}", printable(row.name)), room)
        : row.fold == Fold::kCalls && row.name.find_first_of(".:") == std::string::npos
            ? shorten_middle(printable(row.name), room)  // a package, by a function without a name
        : row.fold == Fold::kImport ? shorten_middle(fmt::format("import {}", printable(row.name)), room)
                                    : describe(function, paths_, room);
    line(indent_[i], row.total_s, scale_(row.self_s),
         category_style(static_cast<std::size_t>(most - row.category_s.begin())), name);
  }

  // What is called from the last of them and too little to be shown.
  void close(std::vector<std::uint32_t>& open) {
    const std::uint32_t i = open.back();
    open.pop_back();
    if (rest_s_[i] >= least_s_ && rest_s_[i] > 0) line(indent_[i] + 2, rest_s_[i], "", Style::kDim, "others");
  }

  void line(std::size_t indent, double total_s, std::string_view self, Style style, std::string_view name) {
    const double share = whole_s_ > 0 ? total_s / whole_s_ : 0;
    page_.line({{fmt::format("  {:>8}  {:>5.1f}  {:>8}  ", scale_(total_s), 100 * share, self)},
                {pad_right(bar(share, bar_width_), bar_width_), style},
                {std::string(2 + std::min(indent, most_indent()), ' ')},
                {std::string(name)}});
  }

  // Deeper calls stand where these do, so that their names can still be read.
  [[nodiscard]] std::size_t most_indent() const {
    return page_.width() >= kUsualColumns ? page_.width() / 4 : page_.width() / 12;
  }
  [[nodiscard]] std::size_t room_at(std::size_t indent) const {
    const std::size_t used = 31 + bar_width_ + std::min(indent, most_indent());
    return page_.width() > used + kShortestName ? page_.width() - used : kShortestName;
  }

  Page& page_;
  const std::vector<CallTreeRow>& rows_;
  const ShortPaths& paths_;
  double whole_s_, least_s_;
  TimeScale scale_;
  std::size_t bar_width_;
  std::vector<std::size_t> indent_;  // of shown rows
  std::vector<bool> shown_;
  std::vector<double> rest_s_;  // of what is called from a row, what is not shown
};

}  // namespace

void print_tree(Page& page, const std::vector<CallTreeRow>& rows, double whole_s, const ShortPaths& paths,
                const TreeOptions& options) {
  TreeText(page, rows, whole_s, paths, options).print();
}

}  // namespace clusterprof::report::text
