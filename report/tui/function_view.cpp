// SPDX-License-Identifier: BSD-3-Clause
// One function: its callers, its callees and its time by rank.
#include <fmt/format.h>

#include <algorithm>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/tui/list_view.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

class FunctionView final : public ListView {
 public:
  FunctionView(const Run& run, std::uint32_t function) : ListView(run), function_(function) {}
  std::string title() const override { return "Function"; }
  std::string keys() const override { return "Enter go there  Esc back"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    const PageFunction& function = run_.data.functions[function_];
    const FunctionSeconds& time = run_.time.functions[function_];
    items_.push_back({{{function_label(function.name, function.kind), Style::kTitle}}, false, {}});
    if (!function.file.empty()) {
      const std::string at = function.line == 0 ? "" : fmt::format(":{}", function.line);
      items_.push_back({{{"  " + printable(function.file) + at, Style::kPlain}},
                        true,
                        {ViewRequest::Kind::kSource, 0, function.file, function.line, {}}});
    }
    if (!function.module.empty()) note(printable(function.module));
    note(fmt::format("self {} ({} %), total {} ({} %){}", seconds(time.self_s), run_.share(time.self_s),
                     seconds(time.total_s), run_.share(time.total_s),
                     run_.group ? ", of " + run_.group_name : ""));
    const Neighbours near = neighbours(run_.data, run_.time, function_);
    std::string share_of = "share of its total time";
    std::string if_none = "nothing that was seen";
    if (near.total_s < kAll * time.total_s) {
      share_of = fmt::format("share of {}; the rest is in smaller call paths", seconds(near.total_s));
      if (near.total_s <= 0) share_of.clear(), if_none = "only in smaller call paths";
    }
    list({"Called by", share_of, if_none}, near.callers, near.total_s, filter);
    list({"Calls", share_of, if_none}, near.callees, near.total_s, filter);
    ranks(function);
  }

 private:
  static constexpr std::size_t kMaxRanks = 10;
  static constexpr double kAll = 0.999;  // of a time, but for rounding

  struct ListWords {
    std::string_view title, remark, if_none;
  };
  void list(const ListWords& words, const std::vector<Neighbour>& rows, double whole_s,
            std::string_view filter) {
    blank_and_title(words.title, words.remark);
    if (rows.empty()) note(words.if_none);
    for (const Neighbour& row : rows) {
      const bool known = row.function != shard::kNone;
      const std::string label = known ? run_.label(run_.data.functions[row.function], kAnyWidth)
                                      : std::string("(the beginning of a thread)");
      if (!matches(label, filter)) continue;
      const double share = whole_s > 0 ? row.total_s / whole_s : 0;
      Spans spans{{cell(seconds(row.total_s), 10) + cell(percent(share), 9), Style::kPlain}};
      append(spans, bar_spans(share, kBar, Style::kPlain));
      spans.push_back({label, known ? kind_style(run_.data.functions[row.function].kind) : Style::kDim});
      items_.push_back(
          {std::move(spans),
           known,
           {known ? ViewRequest::Kind::kFunction : ViewRequest::Kind::kNothing, row.function, {}, 0, {}}});
    }
  }

  void ranks(const PageFunction& function) {
    if (function.row < run_.analysis.functions.size()) {
      const RankSpread& spread = run_.analysis.functions[function.row].active_spread;
      blank_and_title("Ranks", "total time; of the whole run");
      note(fmt::format("least {}, mean {}, most {} on rank {}", seconds(spread.min_s), seconds(spread.mean_s),
                       seconds(spread.max_s), spread.max_rank));
    }
    if (function_ >= run_.data.row_functions) return;
    const std::size_t rows = run_.data.rows.size();
    const float* times = run_.data.function_row_s.data() + std::size_t{function_} * rows;
    std::vector<std::size_t> order(rows);
    for (std::size_t row = 0; row < rows; ++row) order[row] = row;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return times[a] > times[b]; });
    const double most_s = rows == 0 ? 0 : double{times[order[0]]};
    for (std::size_t i = 0; i < std::min(rows, kMaxRanks); ++i) {
      const PageRow& row = run_.data.rows[order[i]];
      const std::string name = row.first_rank == row.last_rank
                                   ? fmt::format("rank {}", row.first_rank)
                                   : fmt::format("ranks {}-{}, mean", row.first_rank, row.last_rank);
      Spans spans{{cell(seconds(double{times[order[i]]}), 10), Style::kPlain}};
      append(spans, bar_spans(most_s > 0 ? double{times[order[i]]} / most_s : 0, 2 * kBar, Style::kPlain));
      spans.push_back({name, Style::kPlain});
      items_.push_back({std::move(spans), false, {}});
    }
    if (rows > kMaxRanks) note(fmt::format("and {} more", rows - kMaxRanks));
  }

  std::uint32_t function_;
};

}  // namespace

std::unique_ptr<View> function_view(const Run& run, std::uint32_t function) {
  return std::make_unique<FunctionView>(run, function);
}

}  // namespace clusterprof::report::tui
