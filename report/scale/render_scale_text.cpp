// SPDX-License-Identifier: BSD-3-Clause
// A scaling report as text for a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "report/diff/diff_format.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/scale/scale.hpp"
#include "report/scale/scale_format.hpp"
#include "report/text/cells.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report {
namespace {

using namespace format;
using namespace text;
using Align = Table::Align;

constexpr double kNarrow = 0.8;  // efficiencies below are marked
constexpr std::size_t kMostSizesInShares = 4;

std::string percent_cell(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f}", 100 * *share) : "-";
}

class ScaleText {
 public:
  ScaleText(const ScaleReport& report, const TextOptions& options)
      : r_(report),
        rows_(options.rows),
        noun_(printable(noun_of(report.of))),
        page_(static_cast<std::size_t>(std::max(options.width, 80)), options.colour) {}

  std::string render() {
    head();
    efficiency("Efficiency", r_.sizes);
    predictions();
    losses();
    growth(DiffTable::kFunctions, "Functions, with what they call", "function", r_.functions);
    growth(DiffTable::kLines, "Lines", "line", r_.lines);
    growth(DiffTable::kMpiCalls, "MPI by call site", "call site", r_.calls);
    regions();
    return page_.take();
  }

 private:
  void head() {
    page_.section("clusterprof scale", fmt::format("by {}", noun_));
    std::string sizes;
    for (const ScaleRow& row : r_.sizes) sizes += (sizes.empty() ? "" : ", ") + size_text(row.size);
    page_.paragraph({"  "}, fmt::format("{}, {} {}", plural(r_.runs.size(), "run"), sizes, noun_));
    if (const std::vector<std::string>& command = r_.runs.back().facts.command; !command.empty())
      page_.paragraph({"  command  "}, command_line(command));
    page_.blank();
    for (const std::string& remark : remarks_of(r_)) page_.paragraph({"  ", Style::kDim}, remark);
  }

  template <typename Of>
  static bool any(const std::vector<ScaleRow>& rows, const Of& of) {
    return std::any_of(rows.begin(), rows.end(), [&](const ScaleRow& row) { return of(row).has_value(); });
  }

  // Shares in per cent; columns that no size knows are left out.
  void efficiency(std::string_view title, const std::vector<ScaleRow>& rows) {
    struct Column {
      const char* name;
      std::optional<double> ScaleRow::*value;
    };
    static constexpr Column kColumns[] = {
        {"global", &ScaleRow::global},        {"parallel", &ScaleRow::parallel},
        {"balance", &ScaleRow::load_balance}, {"serial.", &ScaleRow::serialization},
        {"transfer", &ScaleRow::transfer},    {"comput.", &ScaleRow::computation},
        {"instr.", &ScaleRow::instructions},  {"IPC", &ScaleRow::ipc},
        {"freq.", &ScaleRow::frequency}};
    page_.section(title, "in %");
    std::vector<Table::Column> columns{{noun_}, {"elapsed"}};
    const bool repeated =
        std::any_of(rows.begin(), rows.end(), [](const ScaleRow& row) { return row.runs > 1; });
    const bool speedup = any(rows, [](const ScaleRow& row) { return row.speedup; });
    if (repeated) columns.push_back({"+/-"});
    if (speedup) columns.push_back({"speed-up"});
    for (const Column& column : kColumns)
      if (any(rows, [&](const ScaleRow& row) { return row.*column.value; })) columns.push_back({column.name});
    Table table(columns);
    for (const ScaleRow& row : rows) {
      std::vector<std::string> cells{size_text(row.size), row.elapsed_s ? seconds(row.elapsed_s->mean) : "-"};
      if (repeated)
        cells.push_back(row.elapsed_s && row.elapsed_s->half_width ? seconds(*row.elapsed_s->half_width)
                                                                   : "");
      if (speedup) cells.push_back(row.speedup ? fmt::format("{:.2f}", *row.speedup) : "-");
      for (const Column& column : kColumns)
        if (any(rows, [&](const ScaleRow& any_row) { return any_row.*column.value; }))
          cells.push_back(percent_cell(row.*column.value));
      table.row(std::move(cells), row.global.value_or(1) < kNarrow ? Style::kWarning : Style::kPlain);
    }
    table.print(page_);
  }

  void predictions() {
    if (r_.predictions.empty()) return;
    page_.section("Prediction", "a run would take, with a probability of 95 %");
    Table table({{noun_}, {"elapsed"}, {"from"}, {"to"}, {"speed-up"}, {"efficiency, %"}});
    for (const PredictedRow& row : r_.predictions)
      table.row({size_text(row.size), seconds(row.elapsed_s.value), seconds(row.elapsed_s.low),
                 seconds(row.elapsed_s.high), row.speedup ? fmt::format("{:.2f}", *row.speedup) : "-",
                 percent_cell(row.efficiency)});
    table.print(page_);
  }

  void losses() {
    const std::string smallest = size_text(r_.sizes.front().size), largest = size_text(r_.sizes.back().size);
    page_.section("Scaling loss by call path",
                  fmt::format("from {} to {} {}, in % of a rank's time", smallest, largest, noun_));
    if (r_.losses.empty()) {
      page_.line("  Nothing loses as much as half a per cent.");
      return;
    }
    const bool repeated = std::any_of(r_.losses.begin(), r_.losses.end(),
                                      [](const LossRow& row) { return row.half_width.has_value(); });
    std::vector<Table::Column> columns{{"loss"}, {"in time"}};
    if (repeated) columns.push_back({"+/-"});
    columns.push_back({fmt::format("at {}", smallest)});
    columns.push_back({fmt::format("at {}", largest)});
    columns.push_back({"function", Align::kLeft});
    const std::size_t shown = std::min(r_.losses.size(), std::max<std::size_t>(2 * rows_, 10));
    print_table(page_, columns, [&](Table& table, std::size_t room) {
      for (std::size_t i = 0; i < shown; ++i) {
        const LossRow& row = r_.losses[i];
        const std::size_t indent = std::min<std::size_t>(row.depth, room / 3);
        std::vector<std::string> cells{fmt::format("{:.1f}", 100 * row.share),
                                       (row.loss_s < 0 ? "-" : "") + seconds(std::abs(row.loss_s))};
        if (repeated) cells.push_back(row.half_width ? seconds(*row.half_width) : "");
        cells.push_back(seconds(row.smallest_s));
        cells.push_back(seconds(row.largest_s));
        cells.push_back(room == 0 ? "" : std::string(indent, ' ') + subject_text(row, room - indent));
        const bool noise = row.half_width && std::abs(row.loss_s) <= *row.half_width;
        table.row(std::move(cells), noise ? Style::kDim : Style::kPlain);
      }
    });
    note_the_rest(page_, shown, r_.losses.size());
  }

  static bool is_worth(const GrowthRow& row) { return row.loss_s > 0 && !calls_all(row); }

  void growth(DiffTable table, std::string_view title, const char* what, const std::vector<GrowthRow>& all) {
    std::vector<const GrowthRow*> rows;
    for (const GrowthRow& row : all)
      if (is_worth(row)) rows.push_back(&row);
    if (rows.empty()) return;
    growth_table(title, what, rows,
                 [table](const GrowthRow& row, std::size_t room) { return subject_text(table, row, room); });
  }

  // The largest size that was run, and the next ones.
  [[nodiscard]] std::vector<std::size_t> sizes_of_shares() const {
    std::vector<std::size_t> sizes;
    const std::size_t first = r_.sizes.size() - 1;
    for (std::size_t i = first; i < std::min(first + kMostSizesInShares, first + 1 + r_.predictions.size());
         ++i)
      sizes.push_back(i);
    return sizes;
  }

  template <typename Name>
  void growth_table(std::string_view title, const char* what, const std::vector<const GrowthRow*>& rows,
                    const Name& name) {
    const std::size_t shown = std::min(rows.size(), rows_);
    double longest = 0;
    for (std::size_t i = 0; i < shown; ++i)
      for (const SizedValue& time : rows[i]->times) longest = std::max(longest, time.value.value_or(0));
    const TimeScale scale(longest);
    page_.section(title, fmt::format("by loss; a rank's time in {}; shares of the run in %", scale.unit()));
    std::vector<Table::Column> columns{{fmt::format("at {}", size_text(r_.sizes.front().size))},
                                       {fmt::format("at {}", size_text(r_.sizes.back().size))},
                                       {"law", Align::kLeft},
                                       {"exponent", Align::kRight, true}};
    const std::vector<std::size_t> sizes = sizes_of_shares();
    const bool laws = r_.refused == Refusal::kNone;
    for (const std::size_t i : sizes)
      columns.push_back({fmt::format("% {}", size_text(size_at(i))), Align::kRight, i != sizes.front()});
    if (laws) columns.push_back({"10 % at", Align::kRight, true});
    columns.push_back({what, Align::kLeft});
    print_table(page_, columns, [&](Table& table, std::size_t room) {
      for (std::size_t i = 0; i < shown; ++i) {
        const GrowthRow& row = *rows[i];
        const auto time = [&](const SizedValue& value) { return value.value ? scale(*value.value) : "-"; };
        std::vector<std::string> cells{time(row.times.front()), time(row.times.back()),
                                       row.law ? law_text(*row.law) : "-",
                                       row.law ? exponents_text(*row.law) : ""};
        for (const std::size_t s : sizes)
          cells.push_back(s < row.shares.size() && row.shares[s].value
                              ? fmt::format("{:.1f}", 100 * *row.shares[s].value)
                              : "-");
        if (laws) cells.push_back(tenth_text(row));
        cells.push_back(room == 0 ? "" : name(row, room));
        table.row(std::move(cells));
      }
    });
    note_the_rest(page_, shown, rows.size());
  }

  // Of the shares of a row: sizes that were run, then those that are predicted.
  [[nodiscard]] double size_at(std::size_t index) const {
    return index < r_.sizes.size() ? r_.sizes[index].size : r_.predictions[index - r_.sizes.size()].size;
  }

  void regions() {
    std::vector<const GrowthRow*> rows;
    for (const RegionScale& region : r_.regions) rows.push_back(&region.growth);
    if (rows.empty()) return;
    growth_table("Regions", "region", rows, [](const GrowthRow& row, std::size_t room) {
      return shorten_middle(printable(row.subject.name), room);
    });
    for (const RegionScale& region : r_.regions)
      efficiency(fmt::format("Region {}", printable(region.name)), region.rows);
  }

  const ScaleReport& r_;
  std::size_t rows_;
  std::string noun_;
  Page page_;
};

}  // namespace

std::string render_scale_text(const ScaleReport& report, const TextOptions& options) {
  return ScaleText(report, options).render();
}

}  // namespace clusterprof::report
