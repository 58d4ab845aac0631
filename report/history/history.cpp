// SPDX-License-Identifier: BSD-3-Clause
#include "report/history/history.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
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

// What times of functions are parts of. They are sums over threads, which elapsed time is not.
double time_of_threads_s(const HistoryRun& run) { return run.threads_s > 0 ? run.threads_s : run.elapsed_s; }

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

void keep_functions(const std::map<FollowedMetric, double>& functions, HistoryRun& run) {
  Values self, total, callers;
  const double all_s = time_of_threads_s(run);
  for (const auto& [metric, value] : functions) {
    if (value < kLeastKept * all_s) continue;
    const bool is_self = metric.kind == FollowedKind::kSelf;
    (is_self ? self : value < kNearlyAll * all_s ? total : callers).emplace_back(metric, value);
  }
  Values all_callers = callers;
  keep(self, kMostSelf, std::greater<>(), run.metrics);
  keep(total, kMostTotal, std::greater<>(), run.metrics);
  keep(callers, kMostCallers, std::less<>(), run.metrics);
  for (const auto& caller : all_callers)
    if (run.more_callers.size() < kMostHashes &&
        std::find(callers.begin(), callers.end(), caller) == callers.end())
      run.more_callers.push_back(hash_of(caller.first));
  std::sort(run.more_callers.begin(), run.more_callers.end());
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

struct MetricHash {
  std::size_t operator()(const FollowedMetric& metric) const { return hash_of(metric); }
};

KnownOf known_in(const std::vector<HistoryRun>& runs) {
  // Sorted at the end: thousands of runs have a hundred numbers each, mostly the same ones.
  std::unordered_map<FollowedMetric, std::vector<Known>, MetricHash> all;
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (runs[r].complete)
      for (const auto& [metric, value] : runs[r].metrics) all[metric].push_back({r, value});
  KnownOf sorted;
  for (auto& [metric, known] : all) sorted.emplace(metric, std::move(known));
  return sorted;
}

// The kind of a followed finding, whose name begins with it; empty: of another version.
std::optional<FindingKind> finding_kind(const FollowedMetric& metric) {
  const std::string_view name = std::string_view(metric.name).substr(0, metric.name.find(' '));
  const auto* const found = std::find(kFindingKindNames.begin(), kFindingKindNames.end(), name);
  if (found == kFindingKindNames.end()) return {};
  return static_cast<FindingKind>(found - kFindingKindNames.begin());
}

// By kind: the oldest version that has recorded what a finding comes from, as far as the series shows. What
// older ones have recorded may not show it.
using OldestVersions = std::array<std::optional<std::vector<std::uint64_t>>, kFindingKinds>;
OldestVersions oldest_versions(const std::vector<HistoryRun>& runs) {
  OldestVersions oldest;
  for (const HistoryRun& run : runs) {
    if (!run.complete) continue;
    const std::vector<std::uint64_t> version = version_numbers(run.version);
    for (const auto& [metric, value] : run.metrics) {
      if (metric.kind != FollowedKind::kFinding) continue;
      const std::optional<FindingKind> kind = finding_kind(metric);
      if (!kind) continue;
      auto& known = oldest[static_cast<std::size_t>(*kind)];
      if (!known || version < *known) known = version;
    }
  }
  return oldest;
}

// A number, with what it is found by in runs that it is not kept of.
struct Sought {
  const FollowedMetric& metric;
  std::uint64_t hash = hash_of(metric);
  std::optional<FindingKind> finding =
      metric.kind == FollowedKind::kFinding ? finding_kind(metric) : std::nullopt;
};

// What a run tells of numbers that are not kept of it.
class NotKept {
 public:
  // Both must outlive this.
  NotKept(const HistoryRun& run, const OldestVersions& oldest)
      : run_(&run), oldest_(&oldest), version_(version_numbers(run.version)) {
    std::size_t self = 0, total = 0;
    double least_self = std::numeric_limits<double>::infinity(), least_total = least_self;
    for (const auto& [metric, value] : run.metrics) {
      if (metric.kind == FollowedKind::kSelf) ++self, least_self = std::min(least_self, value);
      if (metric.kind == FollowedKind::kTotal && value < kNearlyAll * time_of_threads_s(run))
        ++total, least_total = std::min(least_total, value);
    }
    if (self >= kMostSelf) self_s_ = least_self;
    if (total >= kMostTotal) total_s_ = least_total;
  }

  // The most that it has; empty: that is not known.
  [[nodiscard]] std::optional<double> of(const Sought& sought) const {
    switch (sought.metric.kind) {
      case FollowedKind::kRun:
      case FollowedKind::kEfficiency:
        break;
      case FollowedKind::kSelf:
        return run_->has_functions ? std::optional(self_s_) : std::nullopt;
      case FollowedKind::kTotal:
        // One that calls nearly everything there has grown rather than gone.
        return run_->has_functions && !may_call_nearly_all(sought.hash) ? std::optional(total_s_)
                                                                        : std::nullopt;
      case FollowedKind::kFinding:
        return would_show(sought.finding) ? std::optional(0.0) : std::nullopt;
    }
    return {};
  }

 private:
  [[nodiscard]] bool would_show(const std::optional<FindingKind>& kind) const {
    if (!kind || !run_->seen_findings[static_cast<std::size_t>(*kind)]) return false;
    const auto& oldest = (*oldest_)[static_cast<std::size_t>(*kind)];
    return !oldest || *oldest <= version_;
  }
  [[nodiscard]] bool may_call_nearly_all(std::uint64_t hash) const {
    const std::vector<std::uint64_t>& callers = run_->more_callers;
    return callers.size() >= kMostHashes || std::binary_search(callers.begin(), callers.end(), hash);
  }

  const HistoryRun* run_;
  const OldestVersions* oldest_;
  std::vector<std::uint64_t> version_;
  double self_s_ = 0, total_s_ = 0;
};

// In how many runs a function is among HistoryRun::more_callers, by hash.
using CallerRuns = std::unordered_map<std::uint64_t, std::size_t>;
CallerRuns caller_runs(const std::vector<HistoryRun>& runs) {
  CallerRuns result;
  for (const HistoryRun& run : runs)
    if (run.complete)
      for (const std::uint64_t hash : run.more_callers) ++result[hash];
  return result;
}

// The share that three runs have of a function at least; empty: it is not followed.
std::optional<double> followed_share(const Sought& sought, const std::vector<Known>& known,
                                     const std::vector<HistoryRun>& runs, const CallerRuns& callers) {
  if (known.size() < kLeastRuns) return {};
  std::vector<double> shares;
  std::size_t nearly_all = 0;
  for (const Known& one : known) {
    const double all_s = time_of_threads_s(runs[one.run]);
    shares.push_back(all_s > 0 ? one.value / all_s : 0);
    nearly_all += one.value >= kNearlyAll * all_s ? 1 : 0;
  }
  std::nth_element(shares.begin(), shares.begin() + (kLeastRuns - 1), shares.end(), std::greater<>());
  const double share = shares[kLeastRuns - 1];
  if (share < kLeastShare) return {};
  if (sought.metric.kind == FollowedKind::kSelf) return share;
  const auto more = callers.find(sought.hash);
  const std::size_t not_kept = more == callers.end() ? 0 : more->second;
  if (2 * (nearly_all + not_kept) > known.size() + not_kept) return {};
  return share;
}

FollowedNumber number_of(const Sought& sought, const std::vector<Known>& known,
                         const std::vector<HistoryRun>& runs, const std::vector<NotKept>& not_kept) {
  const FollowedMetric& metric = sought.metric;
  FollowedNumber number;
  number.metric = metric;
  number.unit = unit_of(metric);
  number.better = metric.kind == FollowedKind::kEfficiency ? Better::kHigher : Better::kLower;
  double sample_s = 0;
  auto next = known.begin();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (!runs[r].complete) continue;
    const bool is_kept = next != known.end() && next->run == r;
    const std::optional<double> value = is_kept ? std::optional((next++)->value) : not_kept[r].of(sought);
    if (!value) continue;
    number.values.push_back(*value);
    number.runs.push_back(r);
    sample_s = std::max(sample_s, runs[r].sample_s);
  }
  if (is_function(metric)) number.test.least_deviation = sample_s;
  if (metric.kind == FollowedKind::kFinding) number.test.least_deviation = kFindingDeviation;
  return number;
}

// All false alarms together are kFalseAlarm: half of it is for the run's own numbers, so that many functions
// do not hide what happens to the run, and half for functions and findings. Functions that are left out
// count: which these are is chosen by the same values.
void find_change_points(std::vector<FollowedNumber>& numbers, std::size_t left_out) {
  const auto is_own = [](const FollowedNumber& number) {
    return number.metric.kind == FollowedKind::kRun || number.metric.kind == FollowedKind::kEfficiency;
  };
  const auto own = static_cast<double>(std::count_if(numbers.begin(), numbers.end(), is_own));
  const double others = static_cast<double>(numbers.size() + left_out) - own;
  for (FollowedNumber& number : numbers) {
    number.test.false_alarm = kFalseAlarm / 2 / (is_own(number) ? own : others);
    number.changes = find_change_points(number.values, number.test);
  }
}

void follow(HistorySeries& series) {
  const OldestVersions oldest = oldest_versions(series.runs);
  std::vector<NotKept> not_kept;
  not_kept.reserve(series.runs.size());
  for (const HistoryRun& run : series.runs) not_kept.emplace_back(run, oldest);
  const CallerRuns callers = caller_runs(series.runs);
  struct Candidate {
    Sought sought;
    const std::vector<Known>* known;
    double share;
  };
  const KnownOf all = known_in(series.runs);
  std::vector<Candidate> self, total;
  for (const auto& [metric, known] : all) {
    const Sought sought{metric};
    if (!is_function(metric)) {
      if (known.size() >= kLeastRuns)
        series.numbers.push_back(number_of(sought, known, series.runs, not_kept));
    } else if (const auto share = followed_share(sought, known, series.runs, callers)) {
      (metric.kind == FollowedKind::kSelf ? self : total).push_back({sought, &known, *share});
    }
  }
  for (std::vector<Candidate>* candidates : {&self, &total}) {
    if (candidates->size() > kMostFollowed) series.left_out += candidates->size() - kMostFollowed;
    std::vector<const Candidate*> chosen;
    for (const Candidate& candidate : *candidates) chosen.push_back(&candidate);
    std::stable_sort(chosen.begin(), chosen.end(),
                     [](const Candidate* a, const Candidate* b) { return a->share > b->share; });
    if (chosen.size() > kMostFollowed) chosen.resize(kMostFollowed);
    for (const Candidate* candidate : chosen)
      series.numbers.push_back(number_of(candidate->sought, *candidate->known, series.runs, not_kept));
  }
  std::sort(series.numbers.begin(), series.numbers.end(),
            [](const FollowedNumber& a, const FollowedNumber& b) { return a.metric < b.metric; });
  find_change_points(series.numbers, series.left_out);
}

// --- changes -----------------------------------------------------------------------------------------------

// The values of the runs from `begin` to before `end`.
std::span<const double> values_in(const FollowedNumber& number, std::size_t begin, std::size_t end) {
  const auto at = [&](std::size_t run) {
    return static_cast<std::size_t>(std::lower_bound(number.runs.begin(), number.runs.end(), run) -
                                    number.runs.begin());
  };
  return std::span(number.values).subspan(at(begin), at(end) - at(begin));
}

// The mean of what times of functions are parts of, in those runs; empty: not known.
std::optional<double> mean_of_threads_s(const HistorySeries& series, std::size_t begin, std::size_t end) {
  std::vector<double> values;
  for (std::size_t r = begin; r < end; ++r)
    if (series.runs[r].complete && series.runs[r].has_functions)
      values.push_back(time_of_threads_s(series.runs[r]));
  const std::optional<Sample> sample = sample_of(values);
  return sample ? std::optional(sample->mean) : std::nullopt;
}

// How much longer a function has to take that explains a change. Times of functions are of all threads
// together, so elapsed time is compared as what all threads took longer, unless that is less.
double explaining_s(const HistorySeries& series, const FollowedNumber& of, double of_run_s, std::size_t begin,
                    std::size_t middle, std::size_t end) {
  double size_s = std::abs(of_run_s);
  const std::optional<double> before_s = mean_of_threads_s(series, begin, middle),
                              after_s = mean_of_threads_s(series, middle, end);
  if (of.metric.name == "elapsed" && before_s && after_s)
    size_s = std::max(size_s, std::abs(*after_s - *before_s));
  return kMostOfChange * size_s;
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
  const double functions =
      static_cast<double>(series.left_out) +
      static_cast<double>(std::count_if(series.numbers.begin(), series.numbers.end(),
                                        [](const auto& number) { return is_function(number.metric); }));
  std::vector<FunctionChange> self, total;
  for (const FollowedNumber& number : series.numbers) {
    if (!is_function(number.metric)) continue;
    const std::span<const double> before = values_in(number, begin, middle),
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
  const double least_s = explaining_s(series, of, of_run, begin, middle, end);
  std::erase_if(total, [&](const FunctionChange& function) { return size(function) < least_s; });
  const auto innermost =
      std::min_element(total.begin(), total.end(), [](const FunctionChange& a, const FunctionChange& b) {
        return std::max(a.before, a.after) < std::max(b.before, b.after);
      });
  const bool is_named =
      innermost == total.end() || std::any_of(self.begin(), self.end(), [&](const FunctionChange& function) {
        return function.metric.name == innermost->metric.name &&
               function.metric.file == innermost->metric.file && size(function) >= least_s;
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
      change.run_before = number.runs[change.point.first - 1];
      change.commit = series.runs[change.run].commit();
      change.settings = setting_changes(series.runs[change.run_before], series.runs[change.run]);
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

std::uint64_t hash_of(const FollowedMetric& metric) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // 64-bit FNV-1a
  const auto add = [&](char c) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ull;
  };
  add(static_cast<char>(metric.kind));
  for (const char c : metric.name) add(c);
  add('\0');
  for (const char c : metric.file) add(c);
  return hash;
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
  run.threads_s = (analysis.sampled_s - analysis.helper_idle_s) / ranks;
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
  keep_functions(functions, run);
  keep_findings(analysis.findings, run.metrics);
  run.seen_findings = seen_findings(analysis);
  run.version = analysis.run.version;
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
