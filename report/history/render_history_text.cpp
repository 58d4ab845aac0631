// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/history/history_format.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report {
namespace {

using namespace format;
using namespace text;
using Align = Table::Align;

void print_changes(const HistorySeries& series, Page& page) {
  for (std::size_t i = 0; i < series.changes.size(); ++i) {
    const HistoryChange& change = series.changes[i];
    const HistoryRun& run = series.runs[change.run];
    if (i == 0 || series.changes[i - 1].run != change.run)
      page.line({{fmt::format("  since {} ({})", date_text(run), printable(run.name)), Style::kTitle}});
    page.paragraph({"    ", is_worse(change) ? Style::kBad : Style::kGood}, change_text(series, change));
  }
  if (series.changes.empty()) page.line("  No change of any number is certain.", Style::kDim);
  if (const std::string left_out = left_out_text(series); !left_out.empty())
    page.paragraph({"  ", Style::kDim}, left_out);
}

void print_runs(const HistorySeries& series, std::size_t rows, Page& page) {
  Table table({{"start", Align::kLeft},
               {"elapsed"},
               {"eff.", Align::kRight},
               {"memory", Align::kRight, true},
               {"commit", Align::kLeft, true},
               {"run", Align::kLeft},
               {"finding", Align::kLeft}});
  const std::size_t shown = std::min(rows, series.runs.size());
  for (std::size_t r = series.runs.size() - shown; r < series.runs.size(); ++r) {
    const HistoryRun& run = series.runs[r];
    table.row({date_text(run), seconds(run.elapsed_s),
               run.efficiency.parallel ? percent(*run.efficiency.parallel) : "-",
               run.max_rss_bytes ? bytes(static_cast<double>(*run.max_rss_bytes)) : "-",
               commit_text(run.commit()), run.name,
               run.complete ? (run.findings.empty() ? std::string("-") : run.findings[0])
                            : std::string("(incomplete)")},
              run.complete ? Style::kPlain : Style::kDim);
  }
  table.print(page);
  if (shown < series.runs.size())
    page.line(fmt::format("  and {} before", plural(series.runs.size() - shown, "run")), Style::kDim);
}

}  // namespace

std::string render_history_text(const History& history, const TextOptions& options) {
  Page page(static_cast<std::size_t>(std::max(options.width, 80)), options.colour);
  for (const HistorySeries& series : history.series) {
    page.section(command_line(series.command),
                 fmt::format("{}, {}", plural(series.runs.size(), "run"), plural(series.ranks, "rank")));
    print_changes(series, page);
    page.blank();
    print_runs(series, options.rows, page);
  }
  if (!history.damaged.empty()) page.section("Not readable");
  for (const HistoryRun& run : history.damaged) page.paragraph({"  "}, run.name + ": " + run.error);
  return page.take();
}

}  // namespace clusterprof::report
