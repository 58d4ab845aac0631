// SPDX-License-Identifier: BSD-3-Clause
// A scaling report as a self-contained HTML page with charts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/diff/diff_format.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/plain_html/chart.hpp"
#include "report/plain_html/document.hpp"
#include "report/scale/scale.hpp"
#include "report/scale/scale_format.hpp"

namespace clusterprof::report {
namespace {

using namespace format;
using plain_html::Curve;
using plain_html::escaped;
using plain_html::LineChart;

constexpr std::size_t kLossesShown = 100;
constexpr std::size_t kSubjectColumns = 100;
constexpr std::size_t kFastest = 6;  // functions in the chart
constexpr std::size_t kChartName = 22;

std::string share_cell(const std::optional<double>& share) { return share ? percent(*share) : "-"; }

struct EfficiencyColumn {
  const char* name;
  std::optional<double> ScaleRow::*value;
};
constexpr EfficiencyColumn kEfficiencies[] = {
    {"global", &ScaleRow::global},
    {"parallel", &ScaleRow::parallel},
    {"load balance", &ScaleRow::load_balance},
    {"serialization", &ScaleRow::serialization},
    {"transfer", &ScaleRow::transfer},
    {"computation", &ScaleRow::computation},
    {"instructions", &ScaleRow::instructions},
    {"IPC", &ScaleRow::ipc},
    {"frequency", &ScaleRow::frequency},
};
constexpr std::size_t kChartedEfficiencies = 6;

class ScalePage {
 public:
  explicit ScalePage(const ScaleReport& report) : r_(report), noun_(noun_of(report.of)) {}

  std::string render() {
    out_ = plain_html::head("clusterprof scale");
    head();
    charts();
    efficiency("Efficiency", r_.sizes);
    predictions();
    losses();
    growth(DiffTable::kFunctions, "Functions, with what they call", r_.functions);
    growth(DiffTable::kLines, "Lines", r_.lines);
    growth(DiffTable::kMpiCalls, "MPI by call site", r_.calls);
    regions();
    out_ += plain_html::kEnd;
    return std::move(out_);
  }

 private:
  void head() {
    out_ += fmt::format("<h1>clusterprof scale: by {}</h1>\n<dl>\n", escaped(noun_));
    for (const ScaledRun& run : r_.runs)
      out_ += fmt::format("<dt>{} {}</dt><dd>{}</dd>\n", size_text(run.size), escaped(noun_),
                          escaped(run_text(run.facts)));
    out_ += fmt::format("<dt>command</dt><dd>{}</dd>\n</dl>\n",
                        escaped(command_line(r_.runs.back().facts.command)));
    for (const std::string& remark : remarks_of(r_))
      out_ += fmt::format("<p class=\"remark\">{}</p>\n", escaped(remark));
  }

  [[nodiscard]] std::vector<std::pair<double, std::string>> x_ticks(bool predicted) const {
    std::vector<std::pair<double, std::string>> ticks;
    for (const ScaleRow& row : r_.sizes) ticks.emplace_back(row.size, size_text(row.size));
    if (predicted)
      for (const PredictedRow& row : r_.predictions) ticks.emplace_back(row.size, size_text(row.size));
    return ticks;
  }

  void charts() {
    out_ += "<h2>Charts</h2>\n<div class=\"charts\">\n";
    out_ += r_.mode ? speedup_chart() : elapsed_chart();
    out_ += efficiency_chart();
    out_ += losses_chart();
    out_ += fastest_chart();
    out_ += "</div>\n";
  }

  [[nodiscard]] LineChart chart(std::string title, std::string y_name, bool predicted) const {
    LineChart chart;
    chart.title = std::move(title);
    chart.x_name = noun_;
    chart.y_name = std::move(y_name);
    chart.log_x = true;
    chart.x_ticks = x_ticks(predicted);
    return chart;
  }

  // The predicted ones follow the largest that was measured.
  template <typename Measured, typename Predicted>
  void add_predicted(LineChart& chart, const char* name, const Measured& measured,
                     const Predicted& predicted) const {
    if (r_.predictions.empty()) return;
    const double last = *measured(r_.sizes.back());
    Curve curve{name, {{r_.sizes.back().size, last}}, true};
    plain_html::Band band{
        {{r_.sizes.back().size, last}}, {{r_.sizes.back().size, last}}, chart.curves.size()};
    for (const PredictedRow& row : r_.predictions) {
      if (row.size <= r_.sizes.back().size) continue;
      curve.points.emplace_back(row.size, predicted(row, row.elapsed_s.value));
      band.lower.emplace_back(row.size, predicted(row, row.elapsed_s.low));
      band.upper.emplace_back(row.size, predicted(row, row.elapsed_s.high));
    }
    chart.curves.push_back(std::move(curve));
    chart.bands.push_back(std::move(band));
  }

  std::string speedup_chart() const {
    LineChart chart = this->chart("Speed-up", "", true);
    chart.log_y = true;
    Curve measured{"measured", {}, false}, ideal{"ideal", {}, true};
    for (const ScaleRow& row : r_.sizes) {
      if (row.speedup) measured.points.emplace_back(row.size, *row.speedup);
      ideal.points.emplace_back(row.size, row.size / r_.sizes.front().size);
    }
    for (const PredictedRow& row : r_.predictions)
      if (row.size > r_.sizes.back().size)
        ideal.points.emplace_back(row.size, row.size / r_.sizes.front().size);
    const bool known = r_.sizes.back().speedup.has_value();
    chart.curves = {std::move(measured), std::move(ideal)};
    if (known)
      add_predicted(
          chart, "predicted", [](const ScaleRow& row) { return row.speedup; },
          [](const PredictedRow& row, double elapsed_s) {
            return row.speedup.value_or(0) * row.elapsed_s.value / std::max(elapsed_s, 1e-9);
          });
    return line_chart(chart);
  }

  std::string elapsed_chart() const {
    LineChart chart = this->chart("Elapsed time", "s", true);
    Curve measured{"measured", {}, false};
    for (const ScaleRow& row : r_.sizes)
      if (row.elapsed_s) measured.points.emplace_back(row.size, row.elapsed_s->mean);
    chart.curves = {std::move(measured)};
    if (r_.sizes.back().elapsed_s)
      add_predicted(
          chart, "predicted", [](const ScaleRow& row) { return std::optional<double>(row.elapsed_s->mean); },
          [](const PredictedRow&, double elapsed_s) { return elapsed_s; });
    return line_chart(chart);
  }

  std::string efficiency_chart() const {
    LineChart chart = this->chart("Efficiency", "", false);
    chart.percent = true;
    for (std::size_t i = 0; i < kChartedEfficiencies; ++i) {
      Curve curve{kEfficiencies[i].name, {}, false};
      for (const ScaleRow& row : r_.sizes)
        if (const std::optional<double>& share = row.*kEfficiencies[i].value)
          curve.points.emplace_back(row.size, *share);
      if (!curve.points.empty()) chart.curves.push_back(std::move(curve));
    }
    return line_chart(chart);
  }

  std::string losses_chart() const {
    struct Part {
      const char* name;
      std::optional<double> ScaleRow::*value;
    };
    static constexpr Part kParts[] = {{"lost to computation", &ScaleRow::lost_to_computation},
                                      {"lost to imbalance", &ScaleRow::lost_to_imbalance},
                                      {"lost to serialization", &ScaleRow::lost_to_serialization},
                                      {"lost to transfer", &ScaleRow::lost_to_transfer},
                                      {"lost to communication", &ScaleRow::lost_to_communication}};
    plain_html::StackedBars chart{"Where the time of all processors goes", {"useful"}, {}};
    std::vector<const Part*> parts;
    for (const Part& part : kParts)
      if (std::any_of(r_.sizes.begin(), r_.sizes.end(),
                      [&](const ScaleRow& row) { return (row.*part.value).has_value(); })) {
        parts.push_back(&part);
        chart.parts.emplace_back(part.name);
      }
    if (parts.empty()) return {};
    for (const ScaleRow& row : r_.sizes) {
      std::vector<double> shares{1};
      for (const Part* part : parts) {
        shares.push_back((row.*part->value).value_or(0));
        shares.front() -= shares.back();
      }
      chart.bars.emplace_back(size_text(row.size), std::move(shares));
    }
    return stacked_bars(chart);
  }

  std::string fastest_chart() const {
    LineChart chart = this->chart("Functions that lose most: a rank's time", "s", false);
    chart.log_y = true;
    for (const GrowthRow& row : r_.functions) {
      if (chart.curves.size() == kFastest) break;
      if (row.loss_s <= 0 || calls_all(row)) continue;
      Curve curve{subject_text(DiffTable::kFunctions, row, kChartName), {}, false};
      for (const SizedValue& time : row.times)
        if (time.value) curve.points.emplace_back(time.size, *time.value);
      chart.curves.push_back(std::move(curve));
    }
    return line_chart(chart);
  }

  void begin_table(std::string_view title, const std::vector<std::string>& columns) {
    out_ += fmt::format("<h2>{}</h2>\n<div class=\"scroll\"><table>\n<thead><tr>", escaped(title));
    for (const std::string& column : columns) out_ += fmt::format("<th>{}</th>", escaped(column));
    out_ += "</tr></thead>\n<tbody>\n";
  }
  void table_row(const std::vector<std::string>& cells, bool named = false) {
    out_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i)
      out_ += fmt::format("<td{}>{}</td>", named && i == 0 ? " class=\"name\"" : "", escaped(cells[i]));
    out_ += "</tr>\n";
  }
  void end_table(std::size_t shown, std::size_t all) {
    out_ += "</tbody>\n</table></div>\n";
    if (all > shown) out_ += fmt::format("<p class=\"more\">and {} more</p>\n", all - shown);
  }

  void efficiency(std::string_view title, const std::vector<ScaleRow>& rows) {
    std::vector<std::string> columns{noun_, "runs", "elapsed", "\u00b1", "speed-up"};
    std::vector<const EfficiencyColumn*> known;
    for (const EfficiencyColumn& column : kEfficiencies)
      if (std::any_of(rows.begin(), rows.end(),
                      [&](const ScaleRow& row) { return (row.*column.value).has_value(); })) {
        known.push_back(&column);
        columns.emplace_back(column.name);
      }
    begin_table(title, columns);
    for (const ScaleRow& row : rows) {
      std::vector<std::string> cells{
          size_text(row.size), std::to_string(row.runs), row.elapsed_s ? seconds(row.elapsed_s->mean) : "-",
          row.elapsed_s && row.elapsed_s->half_width ? seconds(*row.elapsed_s->half_width) : "",
          row.speedup ? fmt::format("{:.2f}", *row.speedup) : "-"};
      for (const EfficiencyColumn* column : known) cells.push_back(share_cell(row.*column->value));
      table_row(cells);
    }
    end_table(0, 0);
  }

  void predictions() {
    if (r_.predictions.empty()) return;
    begin_table("Prediction", {noun_, "elapsed", "from", "to (95 %)", "speed-up", "efficiency"});
    for (const PredictedRow& row : r_.predictions)
      table_row({size_text(row.size), seconds(row.elapsed_s.value), seconds(row.elapsed_s.low),
                 seconds(row.elapsed_s.high), row.speedup ? fmt::format("{:.2f}", *row.speedup) : "-",
                 share_cell(row.efficiency)});
    end_table(0, 0);
  }

  void losses() {
    if (r_.losses.empty()) return;
    const std::string smallest = size_text(r_.sizes.front().size), largest = size_text(r_.sizes.back().size);
    begin_table(fmt::format("Scaling loss by call path, from {} to {} {}", smallest, largest, noun_),
                {"function", "share of a rank's time", "loss", "\u00b1", "at " + smallest, "at " + largest});
    const std::size_t shown = std::min(r_.losses.size(), kLossesShown);
    for (std::size_t i = 0; i < shown; ++i) {
      const LossRow& row = r_.losses[i];
      std::string indent;
      for (std::uint32_t d = 0; d < std::min(row.depth, 30u); ++d) indent += "\u00a0\u00a0";
      table_row(
          {indent + subject_text(row, kSubjectColumns), percent(row.share),
           (row.loss_s < 0 ? "-" : "") + seconds(std::abs(row.loss_s)),
           row.half_width ? seconds(*row.half_width) : "", seconds(row.smallest_s), seconds(row.largest_s)},
          true);
    }
    end_table(shown, r_.losses.size());
  }

  void growth(DiffTable table, std::string_view title, const std::vector<GrowthRow>& all) {
    std::vector<std::pair<std::string, const GrowthRow*>> rows;
    for (const GrowthRow& row : all)
      if (row.loss_s > 0) rows.emplace_back(subject_text(table, row, kSubjectColumns), &row);
    growth_table(title, rows);
  }

  void growth_table(std::string_view title,
                    const std::vector<std::pair<std::string, const GrowthRow*>>& rows) {
    if (rows.empty()) return;
    std::vector<std::string> columns{""};
    for (const ScaleRow& row : r_.sizes) columns.push_back(fmt::format("at {}", size_text(row.size)));
    for (const char* name : {"law", "exponent", "share at "}) columns.emplace_back(name);
    columns.back() += size_text(r_.sizes.back().size);
    columns.emplace_back("10 % at");
    begin_table(title, columns);
    const std::size_t shown = std::min(rows.size(), kLossesShown);
    for (std::size_t i = 0; i < shown; ++i) {
      const GrowthRow& row = *rows[i].second;
      std::vector<std::string> cells{rows[i].first};
      for (const SizedValue& time : row.times) cells.push_back(time.value ? seconds(*time.value) : "-");
      cells.push_back(row.law ? law_text(*row.law) : "-");
      cells.push_back(row.law ? exponents_text(*row.law) : "");
      cells.push_back(share_cell(row.shares[r_.sizes.size() - 1].value));
      cells.push_back(tenth_text(row));
      table_row(cells, true);
    }
    end_table(shown, rows.size());
  }

  void regions() {
    std::vector<std::pair<std::string, const GrowthRow*>> rows;
    for (const RegionScale& region : r_.regions) rows.emplace_back(printable(region.name), &region.growth);
    growth_table("Regions", rows);
    for (const RegionScale& region : r_.regions) efficiency("Region " + printable(region.name), region.rows);
  }

  const ScaleReport& r_;
  std::string noun_;
  std::string out_;
};

}  // namespace

std::string render_scale_html(const ScaleReport& report) { return ScalePage(report).render(); }

}  // namespace clusterprof::report
