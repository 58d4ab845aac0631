// SPDX-License-Identifier: BSD-3-Clause
// The result of a comparison as text for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/diff/diff.hpp"
#include "report/diff/diff_format.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/table.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {
namespace {

using namespace format;
using namespace text;
using Align = Table::Align;

constexpr std::size_t kWide = 100;
constexpr std::size_t kMaxRunsNamed = 5;
constexpr std::size_t kStayed = 5;
constexpr std::size_t kRoomOfNames = 24, kRoomOfLines = 36;  // columns

class DiffText {
 public:
  DiffText(const Diff& diff, const TextOptions& options)
      : d_(diff),
        rows_(options.rows),
        several_(diff.a.size() > 1 || diff.b.size() > 1 || diff.by_history),
        page_(static_cast<std::size_t>(std::max(options.width, 80)), options.colour) {}

  std::string render(const std::vector<Judgement>& judgements) {
    head();
    for (const DiffTable table :
         {DiffTable::kRun, DiffTable::kEfficiency, DiffTable::kCategories, DiffTable::kBottlenecks})
      quantities(table);
    findings();
    for (const DiffTable table : {DiffTable::kFunctions, DiffTable::kLines, DiffTable::kMpiCalls})
      code(table);
    for (const DiffTable table : {DiffTable::kWaits, DiffTable::kCounters, DiffTable::kDerived,
                                  DiffTable::kMemory, DiffTable::kMemorySpaces, DiffTable::kMemoryLabels})
      quantities(table);
    conditions(judgements);
    return page_.take();
  }

 private:
  void side(const char* name, const std::vector<RunFacts>& runs) {
    for (std::size_t i = 0; i < std::min(runs.size(), kMaxRunsNamed); ++i)
      page_.line(fmt::format("  {}  {}", i == 0 ? name : " ", run_text(runs[i])));
    if (runs.size() > kMaxRunsNamed)
      page_.line(fmt::format("     .. and {} more", runs.size() - kMaxRunsNamed), Style::kDim);
  }

  static std::string command_of(const RunFacts& run) {
    RunInfo info;
    info.command = run.command;
    info.commands = run.commands;
    return command_line(info);
  }

  void head() {
    page_.section("clusterprof diff", "B against A");
    side("A", d_.a);
    side("B", d_.b);
    if (d_.commands_differ) {
      page_.paragraph({"  command of A  "}, command_of(d_.a.front()));
      page_.paragraph({"  command of B  "}, command_of(d_.b.front()));
    } else if (!d_.a.front().command.empty()) {
      page_.paragraph({"  command  "}, command_of(d_.a.front()));
    }
    page_.blank();
    for (const std::string& remark : remarks_of(d_)) page_.paragraph({"  ", Style::kDim}, remark);
  }

  static Style style_of(const ComparedValue& value) {
    switch (verdict_of(value)) {
      case Verdict::kNoise:
        return Style::kDim;
      case Verdict::kBetter:
        return Style::kGood;
      case Verdict::kWorse:
        return Style::kBad;
      default:
        return Style::kPlain;
    }
  }

  static std::string mean_cell(Unit unit, const std::optional<Sample>& sample) {
    return sample ? amount_text(unit, sample->mean) : "-";
  }
  static std::string sample_width_cell(Unit unit, const std::optional<Sample>& sample) {
    return sample && sample->half_width ? amount_text(unit, *sample->half_width) : "";
  }

  static bool is_something(const Comparison& c) { return (c.a && c.a->max != 0) || (c.b && c.b->max != 0); }

  // Rows of one number.
  void quantities(DiffTable table) {
    std::vector<const ComparedRow*> rows;
    for (const ComparedRow& row : d_.of(table))
      if (is_something(row.values[0].fair())) rows.push_back(&row);
    if (rows.empty()) return;
    page_.section(title_of(table));
    const std::size_t most = table >= DiffTable::kMemory ? kRoomOfLines : kRoomOfNames;
    const std::size_t shown = std::min(rows.size(), std::max<std::size_t>(rows_, 10));
    const auto build = [&](std::size_t room) {
      std::vector<Table::Column> columns{{"", Align::kLeft, false, room}, {"A"}};
      if (several_) columns.push_back({"+/-"});
      columns.push_back({"B"});
      if (several_) columns.push_back({"+/-"});
      columns.push_back({"change"});
      if (several_) columns.push_back({"+/-"});
      columns.push_back({"", Align::kLeft});
      Table lines(columns);
      for (std::size_t i = 0; i < shown; ++i) {
        const ComparedValue& value = rows[i]->values[0];
        const Comparison& c = value.fair();
        std::string name = room == 0 ? "" : subject_text(table, *rows[i], room);
        if (room != 0 && value.per_rank) name += "/rank";
        std::vector<std::string> cells{std::move(name), mean_cell(value.unit, c.a)};
        if (several_) cells.push_back(sample_width_cell(value.unit, c.a));
        cells.push_back(mean_cell(value.unit, c.b));
        if (several_) cells.push_back(sample_width_cell(value.unit, c.b));
        cells.push_back(change_cell(value.unit, c));
        if (several_) cells.push_back(width_cell(value.unit, c));
        cells.emplace_back(verdict_text(value));
        lines.row(std::move(cells), style_of(value));
      }
      return lines;
    };
    build(std::min(most, build(0).room_of_first(page_.width()))).print(page_);
    rest(shown, rows.size());
  }

  void rest(std::size_t shown, std::size_t all) {
    if (all > shown) page_.line(fmt::format("  .. and {} more", all - shown), Style::kDim);
  }

  static const ComparedValue* value_of(const ComparedRow& row, std::string_view key) {
    for (const ComparedValue& value : row.values)
      if (value.key == key) return &value;
    return nullptr;
  }

  // Functions, lines, call sites: their time, and where there is room what else is compared of them.
  void code(DiffTable table) {
    std::vector<const ComparedRow*> rows;
    for (const ComparedRow& row : d_.of(table))
      if (row.values[0].fair().difference.value_or(0) != 0) rows.push_back(&row);
    if (rows.empty()) return;
    const std::size_t shown = std::min(rows.size(), rows_);
    const bool wide = page_.width() >= kWide, mpi = table == DiffTable::kMpiCalls;
    const std::string_view other = mpi ? "wait_s" : "total_s";
    double longest = 0;
    for (std::size_t i = 0; i < shown; ++i)
      for (const std::string_view key : {rows[i]->values[0].key, other})
        if (const ComparedValue* const value = value_of(*rows[i], key))
          for (const auto& sample : {value->fair().a, value->fair().b})
            if (sample) longest = std::max(longest, sample->mean);
    const TimeScale scale(longest);
    page_.section(title_of(table), fmt::format("by change of {} time, in {}{}", mpi ? "their" : "self",
                                               scale.unit(), d_.ranks_differ ? " per rank" : ", all ranks"));
    std::vector<Table::Column> columns{{mpi ? "A" : "self A"}, {"B"}, {"change"}, {"%"}};
    if (several_) columns.push_back({"+/-"});
    columns.push_back({"", Align::kLeft});
    if (wide) {
      columns.push_back({mpi ? "wait A" : "total A"});
      columns.push_back({"B"});
    }
    if (wide && mpi) {
      columns.push_back({"calls A"});
      columns.push_back({"B"});
    }
    columns.push_back({table == DiffTable::kLines ? "line" : mpi ? "call site" : "function", Align::kLeft});
    const auto build = [&](std::size_t room) {
      Table lines(columns);
      for (std::size_t i = 0; i < shown; ++i) {
        const ComparedRow& row = *rows[i];
        const ComparedValue& value = row.values[0];
        const Comparison& c = value.fair();
        const auto mean = [&](const std::optional<Sample>& sample) {
          return sample ? scale(sample->mean) : std::string("-");
        };
        std::vector<std::string> cells{mean(c.a), mean(c.b), signed_cell(scale, *c.difference),
                                       percent_cell(c)};
        if (several_) cells.push_back(c.half_width && !c.by_sampling ? scale(*c.half_width) : "");
        cells.emplace_back(mark_of(value));
        if (wide) {
          const ComparedValue* const second = value_of(row, other);
          cells.push_back(second != nullptr ? mean(second->fair().a) : "-");
          cells.push_back(second != nullptr ? mean(second->fair().b) : "-");
        }
        if (wide && mpi) {
          const ComparedValue* const calls = value_of(row, "count");
          cells.push_back(calls != nullptr ? mean_cell(calls->unit, calls->fair().a) : "-");
          cells.push_back(calls != nullptr ? mean_cell(calls->unit, calls->fair().b) : "-");
        }
        cells.push_back(room == 0 ? "" : subject_text(table, row, room));
        lines.row(std::move(cells), style_of(value));
      }
      return lines;
    };
    build(build(0).room(page_.width())).print(page_);
    rest(shown, rows.size());
  }

  static std::string signed_cell(const TimeScale& scale, double difference_s) {
    return (difference_s < 0 ? "-" : "+") + scale(std::abs(difference_s));
  }
  static std::string percent_cell(const Comparison& c) {
    std::string cell = change_cell(Unit::kSeconds, c);
    if (cell.ends_with(" %")) cell.resize(cell.size() - 2);
    return cell;
  }
  static const char* mark_of(const ComparedValue& value) {
    switch (verdict_of(value)) {
      case Verdict::kNoise:
        return "~";
      case Verdict::kWorse:
        return "!";
      default:
        return "";
    }
  }

  void findings() {
    page_.section("Findings");
    if (d_.appeared.empty() && d_.disappeared.empty() && d_.persisting.empty())
      page_.line("  Nothing stands out in either.");
    const auto show = [this](const char* what, Style style, const FindingChange& change, bool in_full) {
      const std::string text = in_full ? words::sentences(change.finding, *change.names)
                                       : words::headline(change.finding, *change.names) + ".";
      page_.paragraph({fmt::format("  {:<6}{:<8}", what, name_of(change.finding.severity)), style},
                      text + runs_of(change));
    };
    for (const FindingChange& change : d_.appeared)
      show("new", change.finding.severity == Severity::kInfo ? Style::kDim : Style::kBad, change, true);
    for (const FindingChange& change : d_.disappeared)
      show("gone", change.finding.severity == Severity::kInfo ? Style::kDim : Style::kGood, change, true);
    for (std::size_t i = 0; i < std::min(d_.persisting.size(), kStayed); ++i)
      show("still", Style::kPlain, d_.persisting[i], false);
    rest(kStayed, d_.persisting.size());
  }

  std::string runs_of(const FindingChange& change) const {
    std::string text;
    if (change.a_share && change.b_share && change.a_runs > 0 && change.b_runs > 0)
      text += fmt::format(" ({} -> {})", percent(*change.a_share), percent(*change.b_share));
    if (several_)
      text +=
          fmt::format(" (A: {} of {}, B: {} of {})", change.a_runs, d_.a.size(), change.b_runs, d_.b.size());
    return text;
  }

  void conditions(const std::vector<Judgement>& judgements) {
    if (judgements.empty()) return;
    page_.section("Conditions");
    for (const Judgement& judgement : judgements)
      page_.paragraph({"  ", judgement.holds.value_or(true) ? Style::kBad : Style::kPlain},
                      judgement_text(judgement));
  }

  const Diff& d_;
  std::size_t rows_;
  bool several_;
  Page page_;
};

}  // namespace

std::string render_diff_text(const Diff& diff, const std::vector<Judgement>& judgements,
                             const TextOptions& options) {
  return DiffText(diff, options).render(judgements);
}

}  // namespace clusterprof::report
