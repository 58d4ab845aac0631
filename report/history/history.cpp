// SPDX-License-Identifier: BSD-3-Clause
#include "report/history/history.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/library_name.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {
namespace {

// Functions are kept of a run with so much of it, and followed if three runs have so much of it. Callers of
// nearly everything change as the run does.
constexpr double kLeastKept = 0.001, kLeastShare = 0.01, kNearlyAll = 0.9;
constexpr std::size_t kFindings = 3;
// Findings come and go where a share passes a limit.
constexpr double kFindingDeviation = 0.01;
constexpr std::size_t kFunctionsNamed = 3;  // at a change
// A function that has so much of a change explains it.
constexpr double kMostOfChange = 0.8;

// In the table of `diff` that has it.
DiffTable table_of(FollowedKind kind) {
  return kind == FollowedKind::kRun          ? DiffTable::kRun
         : kind == FollowedKind::kEfficiency ? DiffTable::kEfficiency
                                             : DiffTable::kFunctions;
}
std::string_view key_of(FollowedKind kind) {
  return kind == FollowedKind::kSelf ? "self_s" : kind == FollowedKind::kTotal ? "total_s" : "value";
}

Unit unit_of(const FollowedMetric& metric) {
  if (metric.kind == FollowedKind::kEfficiency || metric.kind == FollowedKind::kFinding) return Unit::kShare;
  const bool is_bytes =
      metric.kind == FollowedKind::kRun && (metric.name == "max_rss" || metric.name.ends_with("memory_peak"));
  return is_bytes ? Unit::kBytes : Unit::kSeconds;
}

// --- what is kept of a run ---------------------------------------------------------------------------------

using Values = std::vector<std::pair<FollowedMetric, double>>;

// The first ones, by `comes_first`.
template <typename Before>
void keep(Values& values, std::size_t most, const Before& comes_first, Values& kept) {
  std::sort(values.begin(), values.end(), [&](const auto& a, const auto& b) {
    return a.second != b.second ? comes_first(a.second, b.second) : a.first < b.first;
  });
  if (values.size() > most) values.resize(most);
  kept.insert(kept.end(), values.begin(), values.end());
}

void keep_functions(const std::map<FollowedMetric, double>& functions, double elapsed_s, Values& kept) {
  Values self, total, callers;
  for (const auto& [metric, value] : functions) {
    if (value < kLeastKept * elapsed_s) continue;
    const bool is_self = metric.kind == FollowedKind::kSelf;
    (is_self ? self : value < kNearlyAll * elapsed_s ? total : callers).emplace_back(metric, value);
  }
  keep(self, kMostSelf, std::greater<>(), kept);
  keep(total, kMostTotal, std::greater<>(), kept);
  keep(callers, kMostCallers, std::less<>(), kept);
}

void keep_findings(const std::vector<Finding>& findings, Values& kept) {
  std::map<FollowedMetric, double> shares;
  for (const Finding& finding : findings) {
    if (!finding.share || finding.severity == Severity::kInfo) continue;
    const SourceLocation& place = finding.place;
    FollowedMetric metric{FollowedKind::kFinding, name_of(finding.kind), ""};
    if (is_of_a_place(finding.kind) && !place.function.empty()) {
      metric.name += " " + place.function;
      metric.file = unversioned_name(place.file.empty() ? place.module : place.file);
    }
    shares[metric] += *finding.share;
  }
  Values values(shares.begin(), shares.end());
  keep(values, kMostFindings, std::greater<>(), kept);
}

// --- numbers of a series -----------------------------------------------------------------------------------

struct Known {
  std::size_t run = 0;
  double value = 0;
};
using KnownOf = std::map<FollowedMetric, std::vector<Known>>;

KnownOf known_in(const std::vector<HistoryRun>& runs) {
  KnownOf all;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (!runs[r].complete) continue;
    // Runs mostly have the same metrics, in the same order.
    auto at = all.begin();
    for (const auto& [metric, value] : runs[r].metrics) {
      if (at == all.end() || at->first != metric) at = all.try_emplace(metric).first;
      at->second.push_back({r, value});
      ++at;
    }
  }
  return all;
}

// What a function has at most that is not kept of the run, by kind.
class NotKept {
 public:
  explicit NotKept(const HistoryRun& run) {
    std::size_t self = 0, total = 0;
    double least_self = std::numeric_limits<double>::infinity(), least_total = least_self;
    for (const auto& [metric, value] : run.metrics) {
      if (metric.kind == FollowedKind::kSelf) ++self, least_self = std::min(least_self, value);
      if (metric.kind == FollowedKind::kTotal && value < kNearlyAll * run.elapsed_s)
        ++total, least_total = std::min(least_total, value);
    }
    if (self >= kMostSelf) self_s_ = least_self;
    if (total >= kMostTotal) total_s_ = least_total;
  }
  [[nodiscard]] double of(FollowedKind kind) const {
    return kind == FollowedKind::kSelf ? self_s_ : kind == FollowedKind::kTotal ? total_s_ : 0;
  }

 private:
  double self_s_ = 0, total_s_ = 0;
};

bool is_followed(const FollowedMetric& metric, const std::vector<Known>& known,
                 const std::vector<HistoryRun>& runs) {
  if (known.size() < kLeastRuns) return false;
  if (!is_function(metric)) return true;
  std::size_t large = 0, nearly_all = 0;
  for (const Known& one : known) {
    large += one.value >= kLeastShare * runs[one.run].elapsed_s ? 1 : 0;
    nearly_all += one.value >= kNearlyAll * runs[one.run].elapsed_s ? 1 : 0;
  }
  return large >= kLeastRuns && (metric.kind == FollowedKind::kSelf || 2 * nearly_all <= known.size());
}

FollowedNumber number_of(const FollowedMetric& metric, const std::vector<Known>& known,
                         const std::vector<HistoryRun>& runs, const std::vector<NotKept>& not_kept) {
  FollowedNumber number;
  number.metric = metric;
  number.unit = unit_of(metric);
  number.better = metric.kind == FollowedKind::kEfficiency ? Better::kHigher : Better::kLower;
  double sample_s = 0;
  auto next = known.begin();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::optional<double> value;
    if (next != known.end() && next->run == r)
      value = (next++)->value;
    else if (metric.kind == FollowedKind::kFinding || (is_function(metric) && runs[r].has_functions))
      value = not_kept[r].of(metric.kind);
    if (!value || !runs[r].complete) continue;
    number.values.push_back(*value);
    number.runs.push_back(r);
    sample_s = std::max(sample_s, runs[r].sample_s);
  }
  if (is_function(metric)) number.test.least_deviation = sample_s;
  if (metric.kind == FollowedKind::kFinding) number.test.least_deviation = kFindingDeviation;
  return number;
}

// All false alarms together are kFalseAlarm: half of it is for the run's own numbers, so that many functions
// do not hide what happens to the run, and half for functions and findings.
void find_change_points(std::vector<FollowedNumber>& numbers) {
  const auto is_own = [](const FollowedNumber& number) {
    return number.metric.kind == FollowedKind::kRun || number.metric.kind == FollowedKind::kEfficiency;
  };
  const auto own = static_cast<double>(std::count_if(numbers.begin(), numbers.end(), is_own));
  const double others = static_cast<double>(numbers.size()) - own;
  for (FollowedNumber& number : numbers) {
    number.test.false_alarm = kFalseAlarm / 2 / (is_own(number) ? own : others);
    number.changes = find_change_points(number.values, number.test);
  }
}

void follow(HistorySeries& series) {
  std::vector<NotKept> not_kept(series.runs.begin(), series.runs.end());
  for (const auto& [metric, known] : known_in(series.runs))
    if (is_followed(metric, known, series.runs))
      series.numbers.push_back(number_of(metric, known, series.runs, not_kept));
  find_change_points(series.numbers);
}

// --- changes -----------------------------------------------------------------------------------------------

// The values of those runs.
std::vector<double> values_in(const FollowedNumber& number, std::size_t begin, std::size_t end) {
  std::vector<double> values;
  for (std::size_t i = 0; i < number.runs.size(); ++i)
    if (number.runs[i] >= begin && number.runs[i] < end) values.push_back(number.values[i]);
  return values;
}

// Functions whose times changed as that time of the run, with the same runs before and behind. The place is
// known, and the functions share the false alarms.
std::vector<FunctionChange> functions_at(const HistorySeries& series, const FollowedNumber& of,
                                         std::size_t change) {
  const auto run_of = [&](std::size_t value) {
    return value < of.runs.size() ? of.runs[value] : series.runs.size();
  };
  const std::size_t begin = change == 0 ? 0 : run_of(of.changes[change - 1].first);
  const std::size_t middle = run_of(of.changes[change].first);
  const std::size_t end =
      change + 1 == of.changes.size() ? series.runs.size() : run_of(of.changes[change + 1].first);
  const double of_run = of.changes[change].after - of.changes[change].before;
  const auto functions =
      static_cast<double>(std::count_if(series.numbers.begin(), series.numbers.end(),
                                        [](const auto& number) { return is_function(number.metric); }));
  std::vector<FunctionChange> self, total;
  for (const FollowedNumber& number : series.numbers) {
    if (!is_function(number.metric)) continue;
    const std::vector<double> before = values_in(number, begin, middle),
                              after = values_in(number, middle, end);
    ChangeTest test = number.test;
    test.false_alarm = kFalseAlarm / functions;
    if (!is_change(before, after, test)) continue;
    const FunctionChange function{number.metric, sample_of(before)->mean, sample_of(after)->mean};
    if ((function.after > function.before) == (of_run > 0))
      (number.metric.kind == FollowedKind::kSelf ? self : total).push_back(function);
  }
  const auto size = [](const FunctionChange& function) { return std::abs(function.after - function.before); };
  std::stable_sort(self.begin(), self.end(),
                   [&](const FunctionChange& a, const FunctionChange& b) { return size(a) > size(b); });
  if (self.size() > kFunctionsNamed) self.resize(kFunctionsNamed);
  // The innermost that explains it, as far as times tell: what it calls may be a library.
  std::erase_if(total, [&](const FunctionChange& function) {
    return size(function) < kMostOfChange * std::abs(of_run);
  });
  const auto innermost =
      std::min_element(total.begin(), total.end(), [](const FunctionChange& a, const FunctionChange& b) {
        return std::max(a.before, a.after) < std::max(b.before, b.after);
      });
  const bool is_named =
      innermost == total.end() || std::any_of(self.begin(), self.end(), [&](const FunctionChange& function) {
        return function.metric.name == innermost->metric.name &&
               function.metric.file == innermost->metric.file &&
               size(function) >= kMostOfChange * std::abs(of_run);
      });
  if (!is_named) self.insert(self.begin(), *innermost);
  return self;
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
  for (const FollowedNumber& number : series.numbers)
    for (std::size_t c = 0; c < number.changes.size(); ++c) {
      HistoryChange change;
      change.metric = number.metric;
      change.unit = number.unit;
      change.better = number.better;
      change.point = number.changes[c];
      change.run = number.runs[change.point.first];
      change.commit = series.runs[change.run].commit();
      change.settings =
          setting_changes(series.runs[number.runs[change.point.first - 1]], series.runs[change.run]);
      if (number.metric.kind == FollowedKind::kRun && number.unit == Unit::kSeconds)
        change.functions = functions_at(series, number, c);
      series.changes.push_back(std::move(change));
    }
  std::stable_sort(
      series.changes.begin(), series.changes.end(), [](const HistoryChange& a, const HistoryChange& b) {
        const auto size = [](const HistoryChange& change) {
          return std::abs(change.point.after - change.point.before);
        };
        const auto rank = [](const HistoryChange& change) {
          return is_function(change.metric) ? FollowedKind::kSelf : change.metric.kind;
        };
        return a.run != b.run ? a.run < b.run : rank(a) != rank(b) ? rank(a) < rank(b) : size(a) > size(b);
      });
}

}  // namespace

std::string condition_name(const FollowedMetric& metric) {
  switch (metric.kind) {
    case FollowedKind::kRun:
    case FollowedKind::kEfficiency:
      break;
    case FollowedKind::kSelf:
      return "function:" + metric.name;
    case FollowedKind::kTotal:
      return "total:" + metric.name;
    case FollowedKind::kFinding:
      return "finding:" + metric.name;
  }
  return metric.name;
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
  run.sample_s = facts.sampling_period_s / ranks;
  run.has_functions = facts.zero_if_absent[static_cast<std::size_t>(DiffTable::kFunctions)];
  std::map<FollowedMetric, double> functions;
  for (const FactRow& row : facts.rows) {
    const bool of_function = row.table == DiffTable::kFunctions;
    if (row.table != DiffTable::kRun && row.table != DiffTable::kEfficiency && !of_function) continue;
    const Subject& subject = row.subject;
    if (of_function && (subject.kind == shard::FrameKind::kMpi || subject.kind == shard::FrameKind::kKernel))
      continue;
    const std::string file =
        of_function ? unversioned_name(subject.file.empty() ? subject.module : subject.file) : "";
    for (const Measured& measured : row.values) {
      if (!measured.value || measured.better == Better::kNeither) continue;
      const double value = *measured.value / (measured.summed ? ranks : 1);
      const FollowedKind kind = row.table == DiffTable::kRun          ? FollowedKind::kRun
                                : row.table == DiffTable::kEfficiency ? FollowedKind::kEfficiency
                                : measured.key == "total_s"           ? FollowedKind::kTotal
                                                                      : FollowedKind::kSelf;
      FollowedMetric metric{kind, subject.name, file};
      if (of_function)
        functions[std::move(metric)] += value;
      else
        run.metrics.emplace_back(std::move(metric), value);
    }
  }
  keep_functions(functions, run.elapsed_s, run.metrics);
  keep_findings(analysis.findings, run.metrics);
  std::sort(run.metrics.begin(), run.metrics.end());
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
    follow(of);
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
  for (const FollowedNumber& number : series.numbers) {
    const FollowedMetric& metric = number.metric;
    if (metric.kind == FollowedKind::kFinding) continue;
    if (const std::optional<RelativeNoise> relative = noise_of(number.values, number.changes, number.test))
      noise.push_back({table_of(metric.kind), metric.name, metric.file, key_of(metric.kind),
                       relative->deviation, relative->freedom});
  }
  return noise;
}

}  // namespace clusterprof::report
