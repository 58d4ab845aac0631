// SPDX-License-Identifier: BSD-3-Clause
// The runs of a command over time: what each took, and since when that is different. docs/history.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/diff/diff.hpp"
#include "report/history/change_points.hpp"
#include "report/report.hpp"

namespace clusterprof::report {

// A number of a run that is followed, as `diff` has it: of its tables run, efficiency and functions.
struct FollowedMetric {
  DiffTable table = DiffTable::kRun;
  std::string name;    // "elapsed", "step"
  std::string file;    // of a function: its base name
  bool total = false;  // of a function: with what it calls
  friend bool operator==(const FollowedMetric&, const FollowedMetric&) = default;
  friend auto operator<=>(const FollowedMetric&, const FollowedMetric&) = default;
};
// As conditions name it: "elapsed", "function:step", "total:step".
std::string condition_name(const FollowedMetric& metric);

// What is kept of a run.
struct HistoryRun {
  std::string name;  // of its directory
  std::string id;
  std::vector<std::string> command;
  std::int64_t start_utc_ns = 0;  // 0: not known
  std::uint64_t ranks = 0, nodes = 0;
  double elapsed_s = 0;
  bool complete = false;
  Efficiency efficiency;
  std::optional<std::uint64_t> max_rss_bytes;  // of the rank with most
  std::vector<shard::Setting> settings;
  std::vector<std::string> findings;                       // what the first ones say first
  std::vector<std::pair<FollowedMetric, double>> metrics;  // what is summed over ranks: of a rank
  std::string error;                                       // why it cannot be read; empty: it could

  [[nodiscard]] std::string commit() const;
};
HistoryRun history_run(const Analysis& analysis, std::string name);

struct SettingChange {
  shard::SettingKind kind = shard::SettingKind::kVariable;
  std::string name, before, after;  // empty: there was, or is, none
};

struct HistoryChange {
  std::size_t run = 0;  // the first one that is different: index into HistorySeries::runs
  FollowedMetric metric;
  Unit unit = Unit::kSeconds;
  Better better = Better::kLower;
  ChangePoint point;
  std::string commit;                   // of that run; empty: not known
  std::vector<SettingChange> settings;  // that differ from the run before
};

// Runs of one command on one number of ranks, by start.
struct HistorySeries {
  std::vector<std::string> command;
  std::uint64_t ranks = 0;
  std::vector<HistoryRun> runs;
  std::vector<HistoryChange> changes;  // by run, then the run's own numbers first, then the largest
};

struct History {
  std::vector<HistorySeries> series;  // that with the newest run last
  std::vector<HistoryRun> damaged;    // by name
};
History history(std::vector<HistoryRun> runs);

// Which series a run belongs to.
bool is_alike(const HistoryRun& a, const HistoryRun& b);

// How single runs of a series vary, for compare(). Runs that are not complete do not count.
Noise noise_of(const HistorySeries& series);

// --- renderers -------------------------------------------------------------------------------

// TextOptions::rows: of the newest runs of each series.
std::string render_history_text(const History& history, const TextOptions& options);
// clusterprof.history/1: report/json/history.schema.json.
void render_history_json(const History& history, const JsonSink& sink);
// A page of its own, without scripts, that needs nothing else.
std::string render_history_html(const History& history);
// An SVG image with the parallel efficiency of a run.
std::string render_badge(const HistoryRun& run);

}  // namespace clusterprof::report
