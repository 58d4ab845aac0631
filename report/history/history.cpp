// SPDX-License-Identifier: BSD-3-Clause
#include "report/history/history.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "report/analysis/base_name.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {
namespace {

// Functions that are followed: with so much of a run, and at most so many of a run. Callers of nearly
// everything change as the run does.
constexpr double kLeastShare = 0.01, kNearlyAll = 0.9;
constexpr std::size_t kMostFunctions = 30;
constexpr std::size_t kFindings = 3;

std::string_view key_of(const FollowedMetric& metric) {
  if (metric.table != DiffTable::kFunctions) return "value";
  return metric.total ? "total_s" : "self_s";
}

Unit unit_of(const FollowedMetric& metric) {
  if (metric.table == DiffTable::kEfficiency) return Unit::kShare;
  const bool is_bytes =
      metric.table == DiffTable::kRun && (metric.name == "max_rss" || metric.name.ends_with("memory_peak"));
  return is_bytes ? Unit::kBytes : Unit::kSeconds;
}

// The numbers of the complete runs that have it, and which runs these are.
struct Followed {
  std::vector<double> values;
  std::vector<std::size_t> runs;
};
std::map<FollowedMetric, Followed> followed(const HistorySeries& series) {
  std::map<FollowedMetric, Followed> all;
  for (std::size_t r = 0; r < series.runs.size(); ++r) {
    if (!series.runs[r].complete) continue;
    for (const auto& [metric, value] : series.runs[r].metrics) {
      Followed& of = all[metric];
      of.values.push_back(value);
      of.runs.push_back(r);
    }
  }
  return all;
}

// Where a setting has several values (commits of several nodes), the first one counts.
std::vector<SettingChange> setting_changes(const HistoryRun& before, const HistoryRun& after) {
  std::map<std::pair<shard::SettingKind, std::string>, std::pair<std::string, std::string>> values;
  for (const shard::Setting& setting : after.settings)
    if (std::string& value = values[{setting.kind, setting.name}].second; value.empty())
      value = setting.value;
  for (const shard::Setting& setting : before.settings)
    if (std::string& value = values[{setting.kind, setting.name}].first; value.empty()) value = setting.value;
  std::vector<SettingChange> changes;
  for (const auto& [setting, value] : values)
    if (value.first != value.second)
      changes.push_back({setting.first, setting.second, value.first, value.second});
  return changes;
}

void find_changes(HistorySeries& series) {
  for (const auto& [metric, of] : followed(series))
    for (const ChangePoint& point : find_change_points(of.values)) {
      HistoryChange change;
      change.run = of.runs[point.first];
      change.metric = metric;
      change.unit = unit_of(metric);
      change.better = metric.table == DiffTable::kEfficiency ? Better::kHigher : Better::kLower;
      change.point = point;
      change.commit = series.runs[change.run].commit();
      change.settings = setting_changes(series.runs[of.runs[point.first - 1]], series.runs[change.run]);
      series.changes.push_back(std::move(change));
    }
  std::stable_sort(series.changes.begin(), series.changes.end(),
                   [](const HistoryChange& a, const HistoryChange& b) {
                     const auto size = [](const HistoryChange& change) {
                       return std::abs(change.point.after - change.point.before);
                     };
                     return a.run != b.run                     ? a.run < b.run
                            : a.metric.table != b.metric.table ? a.metric.table < b.metric.table
                                                               : size(a) > size(b);
                   });
}

}  // namespace

std::string condition_name(const FollowedMetric& metric) {
  if (metric.table != DiffTable::kFunctions) return metric.name;
  return (metric.total ? "total:" : "function:") + metric.name;
}

std::string HistoryRun::commit() const {
  const bool known = !settings.empty() && settings.front().kind == shard::SettingKind::kCommit;
  return known ? settings.front().value : std::string();
}

HistoryRun history_run(const Analysis& analysis, std::string name) {
  HistoryRun run;
  run.name = std::move(name);
  run.id = analysis.run.id;
  run.command = analysis.run.command;
  run.start_utc_ns = analysis.run.start_utc_ns;
  run.ranks = analysis.run.ranks;
  run.nodes = analysis.run.nodes;
  run.elapsed_s = analysis.run.elapsed_s;
  run.complete = analysis.run.complete && analysis.run.state == RunState::kEnded;
  run.efficiency = analysis.efficiency;
  for (const RankInfo& rank : analysis.ranks)
    if (rank.max_rss_bytes) run.max_rss_bytes = std::max(run.max_rss_bytes.value_or(0), *rank.max_rss_bytes);
  run.settings = analysis.run.settings;
  const format::ShortPaths names(analysis);
  for (const Finding& finding : analysis.findings)
    if (run.findings.size() < kFindings && finding.severity != Severity::kInfo)
      run.findings.push_back(words::headline(finding, names));
  const RunFacts facts = facts_of(analysis, run.name);
  const double ranks = std::max(static_cast<double>(run.ranks), 1.0);
  std::map<FollowedMetric, double> functions;
  for (const FactRow& row : facts.rows) {
    if (row.table != DiffTable::kRun && row.table != DiffTable::kEfficiency &&
        row.table != DiffTable::kFunctions)
      continue;
    const Subject& subject = row.subject;
    FollowedMetric metric{row.table, subject.name, "", false};
    if (row.table == DiffTable::kFunctions) {
      if (subject.kind == shard::FrameKind::kMpi || subject.kind == shard::FrameKind::kKernel) continue;
      metric.file = base_name(subject.file.empty() ? subject.module : subject.file);
    }
    for (const Measured& measured : row.values) {
      if (!measured.value || measured.better == Better::kNeither) continue;
      const double value = *measured.value / (measured.summed ? ranks : 1);
      metric.total = measured.key == "total_s";
      if (row.table != DiffTable::kFunctions)
        run.metrics.emplace_back(metric, value);
      else if (value >= kLeastShare * run.elapsed_s && (!metric.total || value < kNearlyAll * run.elapsed_s))
        functions[metric] += value;
    }
  }
  std::vector<std::pair<FollowedMetric, double>> largest(functions.begin(), functions.end());
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (largest.size() > kMostFunctions) largest.resize(kMostFunctions);
  run.metrics.insert(run.metrics.end(), largest.begin(), largest.end());
  return run;
}

bool is_alike(const HistoryRun& a, const HistoryRun& b) {
  return a.command == b.command && a.ranks == b.ranks;
}

History history(std::vector<HistoryRun> runs) {
  History result;
  std::map<std::pair<std::vector<std::string>, std::uint64_t>, HistorySeries> series;
  std::stable_sort(runs.begin(), runs.end(), [](const HistoryRun& a, const HistoryRun& b) {
    return std::tie(a.start_utc_ns, a.name) < std::tie(b.start_utc_ns, b.name);
  });
  for (HistoryRun& run : runs) {
    if (!run.error.empty()) {
      result.damaged.push_back(std::move(run));
      continue;
    }
    HistorySeries& of = series[{run.command, run.ranks}];
    of.command = run.command;
    of.ranks = run.ranks;
    of.runs.push_back(std::move(run));
  }
  std::sort(result.damaged.begin(), result.damaged.end(),
            [](const HistoryRun& a, const HistoryRun& b) { return a.name < b.name; });
  for (auto& [key, of] : series) {
    find_changes(of);
    result.series.push_back(std::move(of));
  }
  std::stable_sort(result.series.begin(), result.series.end(),
                   [](const HistorySeries& a, const HistorySeries& b) {
                     return a.runs.back().start_utc_ns < b.runs.back().start_utc_ns;
                   });
  return result;
}

Noise noise_of(const HistorySeries& series) {
  Noise noise;
  for (const auto& [metric, of] : followed(series))
    if (const std::optional<RelativeNoise> relative = noise_of(of.values, find_change_points(of.values)))
      noise.push_back(
          {metric.table, metric.name, metric.file, key_of(metric), relative->deviation, relative->freedom});
  return noise;
}

}  // namespace clusterprof::report
