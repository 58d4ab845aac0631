// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <optional>
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
  struct NumberRow {
    const FollowedNumber* number;
    std::size_t series;
  };
  std::vector<RunRow> runs;
  std::vector<NumberRow> numbers;
  std::vector<ChangeRow> changes;
  for (std::size_t s = 0; s < history.series.size(); ++s) {
    for (const HistoryRun& run : history.series[s].runs) runs.push_back({&run, s});
    for (const FollowedNumber& number : history.series[s].numbers) numbers.push_back({&number, s});
    for (const HistoryChange& change : history.series[s].changes) changes.push_back({&change, s});
  }
  out.object([&] {
    out("schema", "clusterprof.history/1");
    out("false_alarm", kFalseAlarm);
    out.rows("series", history.series, [&](const HistorySeries& series) {
      out("command", series.command)("ranks", series.ranks)("runs", series.runs.size());
      out("left_out", series.left_out);
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
      out.rows("functions", change.functions, [&](const FunctionChange& function) {
        out("metric", condition_name(function.metric))("file", text_or_null(function.metric.file));
        out("before", function.before)("after", function.after);
      });
      out.rows("settings", change.settings, [&](const SettingChange& setting) {
        out("kind", kKindNames[static_cast<std::size_t>(setting.kind)])("name", text_or_null(setting.name));
        out("before", text_or_null(setting.before))("after", text_or_null(setting.after));
      });
    });
    out.rows("numbers", numbers, [&](const NumberRow& row) {
      const FollowedNumber& number = *row.number;
      std::vector<std::optional<double>> values(history.series[row.series].runs.size());
      for (std::size_t i = 0; i < number.runs.size(); ++i) values[number.runs[i]] = number.values[i];
      out("series", row.series)("metric", condition_name(number.metric));
      out("file", text_or_null(number.metric.file))("unit", name_of(number.unit));
      out("false_alarm", number.test.false_alarm)("values", values);
    });
    out.rows("damaged", history.damaged,
             [&](const HistoryRun& run) { out("run", run.name)("error", run.error); });
  });
  out.finish();
}

}  // namespace clusterprof::report
