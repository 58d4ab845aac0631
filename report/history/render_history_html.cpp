// SPDX-License-Identifier: BSD-3-Clause
// A history as a self-contained HTML page, and the badge.
#include <fmt/format.h>

#include <algorithm>

#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/history/history_format.hpp"
#include "report/plain_html/chart.hpp"
#include "report/plain_html/document.hpp"

namespace clusterprof::report {
namespace {

using namespace format;
using plain_html::Curve;
using plain_html::escaped;
using plain_html::LineChart;

constexpr std::size_t kMostRuns = 200;
constexpr std::size_t kTicks = 5;
constexpr std::size_t kMostCurves = 5;
// From these efficiencies on a badge is green, and yellow.
constexpr double kGood = 0.8, kFair = 0.6;

std::string chart(const HistorySeries& series, const char* title, const char* y_name, bool percent,
                  std::vector<Curve> curves) {
  LineChart chart;
  chart.title = title;
  chart.y_name = y_name;
  chart.x_name = "run";
  chart.percent = percent;
  chart.curves = std::move(curves);
  const std::size_t step = std::max<std::size_t>(series.runs.size() / kTicks, 1);
  for (std::size_t r = 0; r < series.runs.size(); r += step)
    chart.x_ticks.emplace_back(static_cast<double>(r), date_text(series.runs[r]).substr(0, 10));
  return plain_html::line_chart(chart);
}

template <typename Of>
std::string chart(const HistorySeries& series, const char* title, const char* y_name, bool percent,
                  const Of& of) {
  Curve curve{title, {}, false};
  for (std::size_t r = 0; r < series.runs.size(); ++r)
    if (const std::optional<double> value = of(series.runs[r]); value && series.runs[r].complete)
      curve.points.emplace_back(static_cast<double>(r), *value);
  return chart(series, title, y_name, percent, std::vector<Curve>{std::move(curve)});
}

// Those of a kind that have most in the newest run that tells them.
std::string chart_of(const HistorySeries& series, const char* title, const char* y_name, FollowedKind kind) {
  std::vector<const FollowedNumber*> numbers;
  for (const FollowedNumber& number : series.numbers)
    if (number.metric.kind == kind && !number.values.empty()) numbers.push_back(&number);
  std::stable_sort(numbers.begin(), numbers.end(), [](const FollowedNumber* a, const FollowedNumber* b) {
    return a->values.back() > b->values.back();
  });
  if (numbers.size() > kMostCurves) numbers.resize(kMostCurves);
  std::vector<Curve> curves;
  for (const FollowedNumber* const number : numbers) {
    Curve& curve = curves.emplace_back(Curve{metric_text(number->metric), {}, false});
    for (std::size_t i = 0; i < number->values.size(); ++i)
      curve.points.emplace_back(static_cast<double>(number->runs[i]), number->values[i]);
  }
  return chart(series, title, y_name, kind == FollowedKind::kFinding, std::move(curves));
}

std::string series_section(const HistorySeries& series) {
  std::string out =
      fmt::format("<h2>{}</h2>\n<p class=\"remark\">{}, {}</p>\n", escaped(command_line(series.command)),
                  plural(series.runs.size(), "run"), plural(series.ranks, "rank"));
  out += "<div class=\"charts\">\n";
  out += chart(series, "Elapsed time", "s", false,
               [](const HistoryRun& run) { return std::optional<double>(run.elapsed_s); });
  out += chart(series, "Parallel efficiency", "", true,
               [](const HistoryRun& run) { return run.efficiency.parallel; });
  out += chart(series, "Largest memory of a rank", "bytes", false, [](const HistoryRun& run) {
    return run.max_rss_bytes ? std::optional(static_cast<double>(*run.max_rss_bytes)) : std::nullopt;
  });
  out += chart_of(series, "Self time of functions, per rank", "s", FollowedKind::kSelf);
  out += chart_of(series, "Findings", "", FollowedKind::kFinding);
  out += "</div>\n";
  out +=
      "<div class=\"scroll\"><table>\n<thead><tr><th>since</th><th class=\"text\">what "
      "changed</th></tr></thead>\n<tbody>\n";
  for (const HistoryChange& change : series.changes)
    out += fmt::format("<tr class=\"{}\"><td>{}</td><td class=\"text\">{}</td></tr>\n",
                       is_worse(change) ? "worse" : "better", escaped(date_text(series.runs[change.run])),
                       escaped(change_text(series, change)));
  if (series.changes.empty())
    out += "<tr><td></td><td class=\"text\">No change of any number is certain.</td></tr>\n";
  out += "</tbody></table></div>\n";
  if (const std::string left_out = left_out_text(series); !left_out.empty())
    out += fmt::format("<p class=\"remark\">{}</p>\n", escaped(left_out));
  out +=
      "<div class=\"scroll\"><table>\n<thead><tr><th>start</th><th>elapsed</th>"
      "<th>parallel</th><th>memory</th><th>commit</th><th class=\"text\">run</th>"
      "<th class=\"text\">finding</th></tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < std::min(kMostRuns, series.runs.size()); ++i) {
    const HistoryRun& run = series.runs[series.runs.size() - 1 - i];  // the newest first
    out += fmt::format(
        "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td>"
        "<td class=\"text\">{}</td></tr>\n",
        run.complete ? "" : " class=\"noise\"", escaped(date_text(run)), seconds(run.elapsed_s),
        run.efficiency.parallel ? percent(*run.efficiency.parallel) : "-",
        run.max_rss_bytes ? bytes(static_cast<double>(*run.max_rss_bytes)) : "-",
        escaped(commit_text(run.commit())), escaped(run.name),
        escaped(run.findings.empty() ? std::string("-") : run.findings[0]));
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string render_history_html(const History& history) {
  std::string out = plain_html::head("clusterprof history") + "<h1>clusterprof history</h1>\n";
  // That with the newest run first.
  for (auto series = history.series.rbegin(); series != history.series.rend(); ++series)
    out += series_section(*series);
  if (!history.damaged.empty()) out += "<h2>Not readable</h2>\n";
  for (const HistoryRun& run : history.damaged)
    out += fmt::format("<p class=\"remark\">{}: {}</p>\n", escaped(run.name), escaped(run.error));
  out += plain_html::kEnd;
  return out;
}

std::string render_badge(const HistoryRun& run) {
  const std::optional<double>& share = run.efficiency.parallel;
  const std::string value = share ? fmt::format("{:.0f} %", 100 * *share) : "unknown";
  const char* const colour = !share            ? "#6e7681"
                             : *share >= kGood ? "#2e7d32"
                             : *share >= kFair ? "#9a6700"
                                               : "#c62828";
  constexpr int kLabel = 118, kValue = 62;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"20\" role=\"img\" "
      "aria-label=\"parallel efficiency: {1}\">\n"
      "<title>parallel efficiency: {1}</title>\n"
      "<rect width=\"{2}\" height=\"20\" fill=\"#3b434d\"/>\n"
      "<rect x=\"{2}\" width=\"{3}\" height=\"20\" fill=\"{4}\"/>\n"
      "<g fill=\"#fff\" text-anchor=\"middle\" font-family=\"Verdana,DejaVu Sans,sans-serif\" "
      "font-size=\"11\">\n"
      "<text x=\"{5}\" y=\"14\">parallel efficiency</text>\n<text x=\"{6}\" "
      "y=\"14\">{1}</text>\n</g>\n</svg>\n",
      kLabel + kValue, value, kLabel, kValue, colour, kLabel / 2, kLabel + kValue / 2);
}

}  // namespace clusterprof::report
