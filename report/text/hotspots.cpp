// SPDX-License-Identifier: BSD-3-Clause
// The sections on functions, source lines and the call tree.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/section.hpp"
#include "report/text/sections.hpp"
#include "report/text/tree.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kWideFunctions = 100;  // columns of the page

class HotspotSections : private Section {
 public:
  using Section::Section;

  void hotspots() {
    if (!worth(!a_.functions.empty(), "Hotspots", "There are no samples.")) return;
    const auto all = most_active(a_.functions);
    const std::size_t shown = std::min(rows_, all.size());
    const double active_s = a_.sampled_s - a_.helper_idle_s;
    const TimeScale scale(largest(all, shown, [](const auto& row) { return row.active_total_s; }));
    const TimeScale of_ranks = scale_of_ranks(
        scale, largest(all, shown, [](const FunctionRow& row) { return row.active_spread.max_s; }));
    page_.section("Hotspots", fmt::format("by self time, in {}; all ranks and threads", scale.unit()));
    const bool wide = page_.width() >= kWideFunctions;
    const auto build = [&](std::size_t room) {
      std::vector<Table::Column> columns{{"self"}, {"%"}, {"total"}};
      if (wide) columns.push_back({"cpu"});
      for (const char* const name : {"min", "mean", "max", "@rank"})
        columns.push_back({name, Align::kRight, true});
      columns.push_back({"function", Align::kLeft});
      Table table(std::move(columns));
      for (std::size_t i = 0; i < shown; ++i) {
        const FunctionRow& row = *all[i];
        const RankSpread& spread = row.active_spread;
        std::vector<std::string> cells{scale(row.active_self_s),
                                       fmt::format("{:.1f}", 100 * share_of(row.active_self_s, active_s)),
                                       scale(row.active_total_s)};
        if (wide) cells.push_back(scale(row.cpu_s));
        cells.insert(cells.end(),
                     {of_ranks(spread.min_s), of_ranks(spread.mean_s), of_ranks(spread.max_s),
                      std::to_string(spread.max_rank), room == 0 ? "" : describe(row, paths_, room)});
        table.row(std::move(cells));
      }
      return table;
    };
    build(build(0).room(page_.width())).print(page_);
    note_the_rest(shown, all.size());
    page_.line(std::string(wide ? "  cpu: of self; " : "  ") + "min, mean, max, @rank: of total, per rank" +
                   other_unit(scale, of_ranks),
               Style::kDim);
    note_idle_helpers(page_, a_);
  }

  void lines() {
    if (!worth(!a_.lines.empty(), "Lines", "No source lines are known (compile with -g).")) return;
    const auto all = most_active(a_.lines);
    const std::size_t shown = std::min(rows_, all.size());
    const double active_s = a_.sampled_s - a_.helper_idle_s;
    const TimeScale scale(largest(all, shown, [](const auto& row) { return row.active_total_s; }));
    const TimeScale of_ranks = scale_of_ranks(
        scale, largest(all, shown, [](const LineRow& row) { return row.active_spread.max_s; }));
    page_.section("Lines", fmt::format("by self time, in {}; all ranks and threads", scale.unit()));
    const auto build = [&](std::size_t room) {
      Table table({{"self"},
                   {"%"},
                   {"total", Align::kRight, true},
                   {"min", Align::kRight, true},
                   {"max", Align::kRight, true},
                   {"@rank", Align::kRight, true},
                   {"mostly", Align::kLeft},
                   {"line", Align::kLeft}});
      for (std::size_t i = 0; i < shown; ++i) {
        const LineRow& row = *all[i];
        const std::string place = paths_.place(row.file, row.line, row.is_approximate());
        const std::string function = function_label(row.function, shard::FrameKind::kNative);
        table.row({scale(row.active_self_s),
                   fmt::format("{:.1f}", 100 * share_of(row.active_self_s, active_s)),
                   scale(row.active_total_s), of_ranks(row.active_spread.min_s),
                   of_ranks(row.active_spread.max_s), std::to_string(row.active_spread.max_rank), mostly(row),
                   room == 0 ? "" : place_and_name(place, function, room)});
      }
      return table;
    };
    build(build(0).room(page_.width())).print(page_);
    note_the_rest(shown, all.size());
    page_.line(
        "  self: the line and what it calls in libraries; min, max: of self" + other_unit(scale, of_ranks),
        Style::kDim);
    if (std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown),
                    [](const LineRow* row) { return row->is_approximate(); }))
      page_.line("  ~: this line or one behind it, in code that Python's JIT has made", Style::kDim);
  }

  void tree() {
    if (!worth(!a_.call_tree.empty(), "Call tree", "There are no samples.")) return;
    page_.section("Call tree", "callers above what they call; all ranks and threads");
    print_tree(page_, a_.call_tree, a_.sampled_s - a_.helper_idle_s, paths_, {rows_, !all_});
    note_idle_helpers(page_, a_);
  }

 private:
  // The rows of the longest tables, ordered by active time, because that is where time is spent.
  template <typename Row>
  std::vector<const Row*> most_active(const std::vector<Row>& rows) const {
    std::vector<const Row*> result;
    for (const Row& row : rows)
      if (row.active_self_s > 0) result.push_back(&row);
    std::stable_sort(result.begin(), result.end(),
                     [](const Row* x, const Row* y) { return x->active_self_s > y->active_self_s; });
    return result;
  }

  template <typename Row, typename TimeOf>
  static double largest(const std::vector<const Row*>& rows, std::size_t shown, const TimeOf& time_of) {
    double most_s = 0;
    for (std::size_t i = 0; i < shown; ++i) most_s = std::max(most_s, time_of(*rows[i]));
    return most_s;
  }

  static std::string mostly(const LineRow& row) {
    const ActivitySeconds& active = row.active_activity_s;
    const auto most = std::max_element(active.begin(), active.end());
    return fmt::format("{} {:.0f} %", kActivityTags[static_cast<std::size_t>(most - active.begin())],
                       100 * share_of(*most, row.active_self_s));
  }
};

}  // namespace

void print_hotspots(Report& report) { HotspotSections(report).hotspots(); }
void print_lines(Report& report) { HotspotSections(report).lines(); }
void print_call_tree(Report& report) { HotspotSections(report).tree(); }

}  // namespace clusterprof::report::text
