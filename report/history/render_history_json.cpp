// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <vector>

#include "report/history/history.hpp"
#include "report/json/json_writer.hpp"

namespace clusterprof::report {
namespace {

constexpr std::array<const char*, shard::kSettingKinds> kKindNames = {"commit", "module", "compiler",
                                                                      "variable"};

}  // namespace

void render_history_json(const History& history, const JsonSink& sink) {
  JsonWriter out(sink);
  // In both lists the rows of all series follow each other.
  struct RunRow {
    const HistoryRun* run;
    std::size_t series;
  };
  struct ChangeRow {
    const HistoryChange* change;
    std::size_t series;
  };
  std::vector<RunRow> runs;
  std::vector<ChangeRow> changes;
  for (std::size_t s = 0; s < history.series.size(); ++s) {
    for (const HistoryRun& run : history.series[s].runs) runs.push_back({&run, s});
    for (const HistoryChange& change : history.series[s].changes) changes.push_back({&change, s});
  }
  out.object([&] {
    out("schema", "clusterprof.history/1");
    out.rows("series", history.series, [&](const HistorySeries& series) {
      out("command", series.command)("ranks", series.ranks)("runs", series.runs.size());
    });
    out.rows("runs", runs, [&](const RunRow& row) {
      const HistoryRun& run = *row.run;
      out("id", text_or_null(run.id))("run", run.name)("series", row.series);
      out("start_utc", utc_or_null(run.start_utc_ns))("ranks", run.ranks)("nodes", run.nodes);
      out("elapsed_s", run.elapsed_s)("complete", run.complete)("parallel", run.efficiency.parallel);
      out("load_balance", run.efficiency.load_balance)("communication", run.efficiency.communication);
      out("max_rss_bytes", run.max_rss_bytes)("commit", text_or_null(run.commit()))("findings", run.findings);
    });
    out.rows("changes", changes, [&](const ChangeRow& row) {
      const HistoryChange& change = *row.change;
      const HistoryRun& run = history.series[row.series].runs[change.run];
      out("series", row.series)("run", run.name)("at", utc_or_null(run.start_utc_ns));
      out("metric", condition_name(change.metric))("file", text_or_null(change.metric.file));
      out("unit", name_of(change.unit))("before", change.point.before)("after", change.point.after);
      out("half_width", change.point.half_width)("commit", text_or_null(change.commit));
      out.rows("settings", change.settings, [&](const SettingChange& setting) {
        out("kind", kKindNames[static_cast<std::size_t>(setting.kind)])("name", text_or_null(setting.name));
        out("before", text_or_null(setting.before))("after", text_or_null(setting.after));
      });
    });
    out.rows("damaged", history.damaged,
             [&](const HistoryRun& run) { out("run", run.name)("error", run.error); });
  });
  out.finish();
}

}  // namespace clusterprof::report
