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
#include "report/history/seen_findings.hpp"
#include "report/report.hpp"

namespace clusterprof::report {

// That some number of a series of runs is said to change, although none does.
inline constexpr double kFalseAlarm = 0.01;

// A number of a run that is followed. The first three kinds are as `diff` has them.
enum class FollowedKind : std::uint8_t { kRun = 0, kEfficiency, kSelf, kTotal, kFinding };
inline constexpr std::size_t kFollowedKinds = 5;
struct FollowedMetric {
  FollowedKind kind = FollowedKind::kRun;
  std::string name;  // "elapsed", "step"; of a finding its kind, with the function: "delay compute"
  std::string file;  // of a function, or a finding's place: unversioned_name()
  friend bool operator==(const FollowedMetric&, const FollowedMetric&) = default;
  friend auto operator<=>(const FollowedMetric&, const FollowedMetric&) = default;
};
// As conditions name it: "elapsed", "function:step", "total:step". Of findings, which they do not have:
// "finding:delay compute".
std::string condition_name(const FollowedMetric& metric);
inline bool is_function(const FollowedMetric& metric) {
  return metric.kind == FollowedKind::kSelf || metric.kind == FollowedKind::kTotal;
}

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
  std::vector<std::string> findings;  // what the first ones say first
  FindingKinds seen_findings;         // kinds of which one that is not in `metrics` is not there
  std::string version;                // of clusterprof that has recorded it
  double sample_s = 0;                // of a rank's mean time, that one sample stands for; 0: not known
  double threads_s = 0;  // active time of a rank's threads, which functions' times are parts of; 0: not known
  bool has_functions = false;  // one that is not in `metrics` has next to no time, or others have more
  // Functions that call nearly everything, besides those in `metrics`: hash_of(), ascending, and bounded.
  std::vector<std::uint64_t> more_callers;
  // What is summed over ranks: of a rank. Ascending, and bounded (kMost...).
  std::vector<std::pair<FollowedMetric, double>> metrics;
  std::string error;  // why it cannot be read; empty: it could

  [[nodiscard]] std::string commit() const;
};
HistoryRun history_run(const Analysis& analysis, std::string name);
// The same in each build of a version: it is kept.
std::uint64_t hash_of(const FollowedMetric& metric);
// So many functions are kept of a run: by self time, by total time, and, of those that call nearly
// everything, the smallest; and so many findings.
inline constexpr std::size_t kMostSelf = 25, kMostTotal = 25, kMostCallers = 10, kMostFindings = 10;
// And so many HistoryRun::more_callers.
inline constexpr std::size_t kMostHashes = 500;

// So many functions of a series are followed by self time, and so many by total time.
inline constexpr std::size_t kMostFollowed = 100;

struct SettingChange {
  shard::SettingKind kind = shard::SettingKind::kVariable;
  std::string name, before, after;  // empty: there was, or is, none
};

// A number over a series.
struct FollowedNumber {
  FollowedMetric metric;
  Unit unit = Unit::kSeconds;
  Better better = Better::kLower;
  std::vector<double> values;     // of complete runs that tell it
  std::vector<std::size_t> runs;  // indices into HistorySeries::runs, ascending
  ChangeTest test;
  std::vector<ChangePoint> changes;
};

// A function whose time changed where that of the run did.
struct FunctionChange {
  FollowedMetric metric;
  double before = 0, after = 0;
};

struct HistoryChange {
  // Indices into HistorySeries::runs: the first one that is different, and the one before it that tells the
  // number. Runs that are not complete may lie between.
  std::size_t run = 0, run_before = 0;
  FollowedMetric metric;
  Unit unit = Unit::kSeconds;
  Better better = Better::kLower;
  ChangePoint point;
  std::string commit;                     // of that run; empty: not known
  std::vector<SettingChange> settings;    // that differ from the run before
  std::vector<FunctionChange> functions;  // of a time of the run: that changed with it, the most first
};

// Runs of one command on one number of ranks, by start.
struct HistorySeries {
  std::vector<std::string> command;
  std::uint64_t ranks = 0;
  std::vector<HistoryRun> runs;
  std::vector<FollowedNumber> numbers;  // by metric
  std::size_t left_out = 0;  // times of functions that are not followed since kMostFollowed have more
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
