// SPDX-License-Identifier: BSD-3-Clause
// The text of `clusterprof report --last`: only what is known of the end of a run alone.
#include "report/text/end_of_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "report/format/characters.hpp"
#include "report/text/resources.hpp"
#include "report/text/section.hpp"
#include "report/words/end_of_run.hpp"
#include "report/words/findings.hpp"
#include "report/words/run_state.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

class EndSections : private Section {
 public:
  EndSections(Report& report, const EndOfRun& last)
      : Section(report), last_(last), unicode_(report.options.unicode) {}

  void print() {
    page_.section(fmt::format("clusterprof report  {}", printable(a_.run.id)), words::stretch(last_));
    for (const auto& [name, print] : kSections)
      if (all_ || asked(name)) (this->*print)();
    if (!all_) return;
    page_.blank();
    page_.paragraph({"  "}, words::what_is_left_out(last_));
  }

  static std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const auto& [name, print] : kSections) names.emplace_back(name);
    return names;
  }

 private:
  void summary() {
    const RunInfo& run = a_.run;
    for (const std::string& line : command_lines(run, 1)) page_.line(fmt::format("  {}", line));
    page_.line(fmt::format("  {}, {}", ranks_and_nodes(run), words::state(run)));
    for (const Finding& finding : a_.findings)
      page_.paragraph({fmt::format("  {:<8}", name_of(finding.severity)), severity_style(finding.severity)},
                      words::sentences(finding, paths_));
    categories();
  }

  void categories() {
    page_.section("Main threads by category",
                  fmt::format("{} of rank time in all", seconds(a_.rank_seconds)));
    for (const std::size_t c : kBarOrder) {
      if (!a_.category_s[c]) continue;
      const double share = share_of(*a_.category_s[c], a_.rank_seconds);
      page_.line(fmt::format("  {:<8}{:>8}  {:>9}", shard::kCategoryNames[c], percent(share),
                             seconds(*a_.category_s[c])));
    }
  }

  // Those that did most outside MPI, and were waited for, come first.
  void ranks() {
    std::vector<const RankInfo*> all;
    for (const RankInfo& rank : a_.ranks) all.push_back(&rank);
    std::stable_sort(all.begin(), all.end(), [](const RankInfo* x, const RankInfo* y) {
      return x->useful_s.value_or(0) > y->useful_s.value_or(0);
    });
    double longest_s = 0;
    for (const RankInfo* rank : all) longest_s = std::max(longest_s, rank->elapsed_s);
    const TimeScale scale(longest_s);
    page_.section("Ranks", fmt::format("in {}, the most useful time first", scale.unit()));
    std::vector<Table::Column> columns{{"rank"}, {"elapsed"}};
    for (std::size_t c = 0; c < shard::kCategories; ++c)
      columns.push_back({shard::kCategoryNames[c], Table::Align::kRight, true});
    Table table(std::move(columns));
    const std::size_t shown = std::min(rows_, all.size());
    for (std::size_t i = 0; i < shown; ++i) {
      std::vector<std::string> cells{std::to_string(all[i]->rank), scale(all[i]->elapsed_s)};
      for (std::size_t c = 0; c < shard::kCategories; ++c)
        cells.push_back(seconds_cell(all[i]->category_s[c], scale));
      table.row(std::move(cells));
    }
    table.print(page_);
    note_the_rest(shown, all.size());
  }

  void functions() {
    const std::size_t shown = std::min(rows_, a_.functions.size());
    if (shown == 0) return;
    double longest_s = 0;
    for (std::size_t i = 0; i < shown; ++i) longest_s = std::max(longest_s, a_.functions[i].total_s);
    const TimeScale scale(longest_s);
    page_.section("Hotspots", fmt::format("by self time, in {}; all ranks and threads", scale.unit()));
    const auto build = [&](std::size_t room) {
      Table table({{"self"}, {"%"}, {"total"}, {"function", Table::Align::kLeft}});
      for (std::size_t i = 0; i < shown; ++i) {
        const FunctionRow& row = a_.functions[i];
        table.row({scale(row.self_s), fmt::format("{:.1f}", 100 * share_of(row.self_s, a_.sampled_s)),
                   scale(row.total_s), room == 0 ? "" : describe(row, paths_, room)});
      }
      return table;
    };
    build(build(0).room(page_.width())).print(page_);
    note_the_rest(shown, a_.functions.size());
  }

  void timeline() { print_timeline(page_, a_, {rows_, true, unicode_}); }

  static constexpr std::pair<const char*, void (EndSections::*)()> kSections[] = {
      {"summary", &EndSections::summary},
      {"ranks", &EndSections::ranks},
      {"hotspots", &EndSections::functions},
      {"timeline", &EndSections::timeline}};

  const EndOfRun& last_;
  const bool unicode_;
};

}  // namespace

std::vector<std::string> names_of_end_sections() { return EndSections::names(); }

void print_end_of_run(Report& report) { EndSections(report, *report.analysis.last).print(); }

}  // namespace clusterprof::report::text
