// SPDX-License-Identifier: BSD-3-Clause
// Compares the facts (facts.cpp) of two groups of runs row by row and decides which differences are more
// than noise (statistics.cpp). docs/diff.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/library_name.hpp"
#include "report/diff/diff.hpp"
#include "report/diff/joined_rows.hpp"

namespace clusterprof::report {
namespace {

// Of the times of whole runs, where one run a side does not tell how much runs vary.
constexpr double kLargeDifference = 0.10;

// Without the ranks, whose number may differ.
std::vector<std::vector<std::string>> commands_of(const RunFacts& run) {
  std::vector<std::vector<std::string>> commands;
  for (const CommandRow& row : run.commands) commands.push_back(row.words);
  if (commands.empty()) commands.push_back(run.command);
  return commands;
}

class Comparer {
 public:
  Comparer(Diff& diff, const Noise& noise) : diff_(diff), a_runs_(diff.a.size()) {
    for (const auto* side : {&diff.a, &diff.b})
      for (const RunFacts& run : *side) runs_.push_back(&run);
    for (const RunFacts* run : runs_)
      diff_.ranks_differ = diff_.ranks_differ || run->ranks != runs_[0]->ranks;
    for (const RunFacts* run : runs_)
      diff_.commands_differ = diff_.commands_differ || commands_of(*run) != commands_of(*runs_[0]);
    diff_.by_history = runs_.size() == 2 && !diff_.ranks_differ && !noise.empty();
    if (diff_.by_history)
      for (const NoiseOfRow& row : noise)
        noise_[{row.table, row.name, row.file, std::string(row.key)}] = &row;
  }

  void compare_tables() {
    for (std::size_t t = 0; t < kDiffTables; ++t) compare_table(static_cast<DiffTable>(t));
  }
  void compare_findings();

 private:
  void compare_table(DiffTable table) {
    std::vector<ComparedRow>& result = diff_.tables[static_cast<std::size_t>(table)];
    for (const JoinedRow& joined : join_rows(runs_, table)) {
      ComparedRow row{joined.last().subject, 0, {}};
      for (std::size_t r = 0; r < a_runs_; ++r)
        if (joined.of_run[r] != nullptr) row.line_in_a = joined.of_run[r]->subject.line;
      bool known = false;
      for (const JoinedColumn& column : joined.columns) {
        row.values.push_back(compared(table, row.subject, column));
        known = known || row.values.back().all.a || row.values.back().all.b;
      }
      if (known) result.push_back(std::move(row));
    }
    if ((table >= DiffTable::kFunctions && table <= DiffTable::kWaits) || table >= DiffTable::kMemory)
      sort(result);
  }

  ComparedValue compared(DiffTable table, const Subject& subject, const JoinedColumn& column) const {
    const Measured& m = column.measured;
    ComparedValue value{m.key, m.unit, m.better, comparison(column, false), {}};
    use_history(table, subject, m.key, value.all);
    if (m.summed && diff_.ranks_differ) value.per_rank = comparison(column, true);
    if (table == DiffTable::kRun && m.unit == Unit::kSeconds) {
      set_large(value.all);
      if (value.per_rank) set_large(*value.per_rank);
    }
    return value;
  }

  // A single run on each side varies as earlier ones did.
  void use_history(DiffTable table, const Subject& subject, std::string_view key, Comparison& c) const {
    const bool is_function = table == DiffTable::kFunctions;
    const std::string file =
        is_function ? unversioned_name(subject.file.empty() ? subject.module : subject.file) : "";
    const auto found = noise_.find({table, subject.name, file, std::string(key)});
    if (found == noise_.end() || !c.difference) return;
    const NoiseOfRow& noise = *found->second;
    // A's value alone is as often too small as too large, and what is too small would narrow the interval.
    const double size = (std::abs(c.a->mean) + std::abs(c.b->mean)) / 2;
    c.error = DifferenceError{noise.deviation * size * std::sqrt(2.0), noise.freedom};
    c.half_width = c.error->half_width();
    c.by_history = true;
    c.by_sampling = false;
    c.significant = std::abs(*c.difference) > *c.half_width;
  }

  static void set_large(Comparison& c) {
    c.large = !c.significant && c.relative && std::abs(*c.relative) >= kLargeDifference;
  }

  Comparison comparison(const JoinedColumn& column, bool per_rank) const {
    std::vector<double> a, b;
    double variance = 0;  // of counting samples
    bool counted = column.measured.sampled;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const RunFacts& run = *runs_[r];
      if (!column.values[r] || (per_rank && run.ranks == 0)) continue;
      const double ranks = per_rank ? static_cast<double>(run.ranks) : 1;
      (r < a_runs_ ? a : b).push_back(*column.values[r] / ranks);
      counted = counted && run.sampling_period_s > 0;
      variance += std::max(0.0, *column.values[r]) * run.sampling_period_s / (ranks * ranks);
    }
    Comparison result;
    result.a = sample_of(a);
    result.b = sample_of(b);
    result.b_values = b;
    if (a.empty() || b.empty()) return result;
    result.difference = without_rounding(result.b->mean - result.a->mean, result);
    if (result.a->mean != 0) result.relative = *result.difference / std::abs(result.a->mean);
    result.error = error_of_difference(a, b);
    if (result.error) result.error->error = without_rounding(result.error->error, result);
    for (std::optional<Sample>* side : {&result.a, &result.b})
      if ((*side)->half_width) (*side)->half_width = without_rounding(*(*side)->half_width, result);
    if (!result.error && counted) {
      result.error = DifferenceError{std::sqrt(variance), std::numeric_limits<double>::infinity()};
      result.by_sampling = true;
    }
    if (result.error) result.half_width = result.error->half_width();
    if (result.half_width) result.significant = std::abs(*result.difference) > *result.half_width;
    return result;
  }

  // Sums of equal numbers may differ in their last bits.
  static double without_rounding(double value, const Comparison& of) {
    constexpr double kRounding = 1e-12;
    const double size = std::max(std::abs(of.a->mean), std::abs(of.b->mean));
    return std::abs(value) <= kRounding * size ? 0 : value;
  }

  static void sort(std::vector<ComparedRow>& rows) {
    const auto change = [](const ComparedRow& row) {
      return std::abs(row.values[0].fair().difference.value_or(0));
    };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const ComparedRow& x, const ComparedRow& y) { return change(x) > change(y); });
  }

  Diff& diff_;
  std::size_t a_runs_;
  std::vector<const RunFacts*> runs_;  // of a, then of b
  std::map<std::tuple<DiffTable, std::string, std::string, std::string>, const NoiseOfRow*> noise_;
};

// What findings of different runs must agree in to be about the same thing. Ranks and lines may differ.
using FindingKey =
    std::tuple<FindingKind, std::string, std::string, std::string, std::string, double, double>;

FindingKey key_of(const Finding& finding) {
  const Evidence& evidence = finding.evidence;
  FindingKey key;
  std::get<0>(key) = finding.kind;
  if (is_of_a_place(finding.kind)) {
    const std::string& file = finding.place.file.empty() ? finding.place.module : finding.place.file;
    std::get<1>(key) = finding.place.op;
    std::get<2>(key) = finding.place.function;
    std::get<3>(key) = unversioned_name(file);
    std::get<4>(key) = evidence.name(EvidenceKey::kCall);
  }
  std::get<5>(key) = evidence.number(EvidenceKey::kSignal);
  std::get<6>(key) = evidence.number(EvidenceKey::kStatus);
  return key;
}

void Comparer::compare_findings() {
  using Sums = std::map<std::size_t, double>;  // by run
  struct Seen {
    FindingChange change;
    std::size_t order = 0, last_run = 0;
    Sums shares;
    std::array<Sums, kGainMethodNames.size()> gains_s;  // by method
  };
  std::map<FindingKey, Seen> findings;
  for (std::size_t r = 0; r < runs_.size(); ++r)
    for (const Finding& finding : runs_[r]->findings) {
      const auto [found, is_new] = findings.try_emplace(key_of(finding));
      Seen& seen = found->second;
      if (is_new) seen.order = findings.size();
      if (finding.share) seen.shares[r] += *finding.share;
      if (const std::optional<GainMethod> method = gain_method(finding))
        seen.gains_s[static_cast<std::size_t>(*method)][r] += *finding.gain_s;
      if (!is_new && seen.last_run == r) continue;
      seen.last_run = r;
      seen.change.finding = finding;
      seen.change.names = runs_[r]->names;
      ++(r < a_runs_ ? seen.change.a_runs : seen.change.b_runs);
    }
  std::vector<Seen*> order;
  for (auto& [key, seen] : findings) order.push_back(&seen);
  const auto share = [](const Seen* seen) { return std::max(seen->change.finding.share.value_or(0), 0.0); };
  std::stable_sort(order.begin(), order.end(), [&](const Seen* x, const Seen* y) {
    return std::tuple(-share(x), x->order) < std::tuple(-share(y), y->order);
  });
  const auto mean = [&](const Sums& sums, bool of_a) -> std::optional<double> {
    std::vector<double> values;
    for (const auto& [run, value] : sums)
      if ((run < a_runs_) == of_a) values.push_back(value);
    const std::optional<Sample> sample = sample_of(values);
    return sample ? std::optional(sample->mean) : std::nullopt;
  };
  for (Seen* seen : order) {
    FindingChange& change = seen->change;
    change.a_share = mean(seen->shares, true), change.b_share = mean(seen->shares, false);
    // A run that has the finding twice, by both methods, has no sum.
    std::array<Sums, kGainMethodNames.size()> gains_s = seen->gains_s;
    for (const auto& [run, value] : seen->gains_s[0])
      if (seen->gains_s[1].contains(run)) gains_s[0].erase(run), gains_s[1].erase(run);
    bool of_a = false, of_b = false;
    for (const Sums& sums : seen->gains_s)
      for (const auto& [run, value] : sums) (run < a_runs_ ? of_a : of_b) = true;
    for (std::size_t method = 0; method < gains_s.size() && !change.gain_method; ++method) {
      const std::optional<double> a = mean(gains_s[method], true), b = mean(gains_s[method], false);
      if ((!a && of_a) || (!b && of_b) || (!a && !b)) continue;
      change.a_gain_s = a, change.b_gain_s = b;
      change.gain_method = static_cast<GainMethod>(method);
    }
    change.gains_differ = (of_a || of_b) && !change.gain_method;
    const bool in_a = 2 * change.a_runs > diff_.a.size(), in_b = 2 * change.b_runs > diff_.b.size();
    if (in_a || in_b)
      (in_a && in_b ? diff_.persisting : in_a ? diff_.disappeared : diff_.appeared).push_back(change);
  }
}

}  // namespace

Verdict verdict_of(const ComparedValue& value) {
  const Comparison& c = value.fair();
  if (!c.difference) return Verdict::kUnknown;
  if (!c.significant && !c.large) return Verdict::kUndecided;
  if (c.significant && !*c.significant) return Verdict::kNoise;
  if (value.better == Better::kNeither) return Verdict::kDifferent;
  return (*c.difference < 0) == (value.better == Better::kLower) ? Verdict::kBetter : Verdict::kWorse;
}

Diff compare(std::vector<RunFacts> a, std::vector<RunFacts> b, const Noise& noise) {
  Diff diff;
  diff.a = std::move(a);
  diff.b = std::move(b);
  Comparer comparer(diff, noise);
  comparer.compare_tables();
  comparer.compare_findings();
  for (auto* side : {&diff.a, &diff.b})
    for (RunFacts& run : *side) run.rows = {};
  return diff;
}

}  // namespace clusterprof::report
