// SPDX-License-Identifier: BSD-3-Clause
// Compares two runs, or two groups of runs, of one program: by how much the numbers of their reports differ,
// and whether that is more than noise. Definitions: docs/diff.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/diff/statistics.hpp"
#include "report/format/names.hpp"
#include "report/report.hpp"

namespace clusterprof::report {

enum class Unit : std::uint8_t { kSeconds, kShare, kCount, kBytes, kPlain };
inline constexpr std::array<const char*, 5> kUnitNames = {"s", "share", "count", "bytes",
                                                          "other"};  // in JSON
constexpr const char* name_of(Unit unit) { return kUnitNames[static_cast<std::size_t>(unit)]; }
enum class Better : std::uint8_t { kLower, kHigher, kNeither };

enum class DiffTable : std::uint8_t {
  kRun = 0,
  kEfficiency,
  kCategories,
  kBottlenecks,
  kFunctions,
  kLines,
  kMpiCalls,
  kWaits,
  kCounters,
  kDerived,
  kMemory,
  kMemorySpaces,
  kMemoryLabels
};
inline constexpr std::size_t kDiffTables = 13;
inline constexpr std::array<const char*, kDiffTables> kDiffTableNames = {
    "run",   "efficiency", "categories", "bottlenecks", "functions",     "lines",        "mpi_calls",
    "waits", "counters",   "derived",    "memory",      "memory_spaces", "memory_labels"};

// What is compared. A number is of one run; `key` names it within its row.
struct Measured {
  std::string_view key;  // a constant
  Unit unit = Unit::kSeconds;
  Better better = Better::kLower;
  bool summed = false;   // over ranks
  bool sampled = false;  // counted in samples, with their error
  std::optional<double> value;
};

// What a row is about. In text and JSON that of the last run that has it.
struct Subject {
  std::string name;  // of a function, an MPI operation, a kind, a counter, a memory space, a label
  std::string file, module, function;
  std::string space;  // of labels
  std::uint32_t line = 0;
  std::uint32_t start = 0;  // of lines and MPI calls: where the function starts; 0 unknown
  shard::FrameKind kind = shard::FrameKind::kNative;
};

struct FactRow {
  DiffTable table = DiffTable::kRun;
  Subject subject;
  std::vector<Measured> values;
};

// What is kept of a run for the comparison.
struct RunFacts {
  std::string name;  // as the user calls it
  std::string id, version, region;
  std::vector<std::string> command;
  std::vector<CommandRow> commands;  // as in RunInfo
  std::int64_t start_utc_ns = 0;
  std::size_t ranks = 0, nodes = 0;
  double sampling_period_s = 0;  // 0 not known
  bool complete = false;
  RunState state = RunState::kEnded;
  std::optional<double> as_of_s;                   // of one that runs: how old its data are
  std::array<bool, kDiffTables> zero_if_absent{};  // by table: a row that it does not have is 0, not unknown
  std::vector<FactRow> rows;
  std::vector<Finding> findings;
  std::shared_ptr<const format::ShortPaths> names;  // for those who make sentences of the findings
};
// Whose time functions and lines have. That of main threads adds up to what ranks took, however many other
// threads computed meanwhile.
enum class TimeOf : std::uint8_t { kAllThreads = 0, kMainThreads };
RunFacts facts_of(const Analysis& analysis, std::string name, TimeOf whose = TimeOf::kAllThreads);

// How much a number of single runs varies, by earlier runs of the program: standard deviation as a share of
// the mean, with its degrees of freedom.
struct NoiseOfRow {
  DiffTable table = DiffTable::kRun;
  std::string name, file;  // Subject::name; of functions with unversioned_name() of their file
  std::string_view key;    // of the value, a constant
  double deviation = 0, freedom = 0;
};
using Noise = std::vector<NoiseOfRow>;

struct Comparison {
  std::optional<Sample> a, b;
  std::optional<double> difference;  // of the means, b - a
  std::optional<double> relative;    // of a; empty also when that is 0
  // Half the width of the difference's confidence interval: by the runs; of single runs by how earlier ones
  // varied, or else, where samples were counted, by their error alone.
  std::optional<double> half_width;
  std::optional<DifferenceError> error;  // what half_width comes from
  bool by_sampling = false, by_history = false;
  std::optional<bool> significant;  // the interval does not hold 0; empty: there is none
  bool large = false;               // without an interval: more than runs of one program usually differ by
  std::vector<double> b_values;     // of each run of b that has it
};

struct ComparedValue {
  std::string_view key;
  Unit unit = Unit::kSeconds;
  Better better = Better::kLower;
  Comparison all;
  std::optional<Comparison> per_rank;  // of what is summed over ranks, where runs differ in their number
  // What to judge by: per rank where there is that.
  [[nodiscard]] const Comparison& fair() const { return per_rank ? *per_rank : all; }
};

enum class Verdict : std::uint8_t { kUnknown, kUndecided, kNoise, kBetter, kWorse, kDifferent };
Verdict verdict_of(const ComparedValue& value);

struct ComparedRow {
  Subject subject;
  std::uint32_t line_in_a = 0;  // where a line of a function was; 0 unknown or not there
  std::vector<ComparedValue> values;
};

// A finding that runs agree in but for its numbers: of one kind, at one place in the program.
struct FindingChange {
  Finding finding;  // of the last run that has it, the first of this kind and place
  std::shared_ptr<const format::ShortPaths> names;  // of that run
  std::size_t a_runs = 0, b_runs = 0;
  // Means over the runs that have it and know that; of a run that has it more than once, the sum.
  std::optional<double> a_share, b_share, a_gain_s, b_gain_s;
  // Of both gains. They are of the runs that know them by this method alone: a gain by replay is not
  // comparable with one by sums. gains_differ: both sides have gains, but none by one method.
  std::optional<GainMethod> gain_method;
  bool gains_differ = false;
};

struct Diff {
  std::vector<RunFacts> a, b;  // without their rows
  bool ranks_differ = false, commands_differ = false;
  bool by_history = false;  // of single runs: intervals are by how earlier runs varied
  std::array<std::vector<ComparedRow>, kDiffTables> tables;  // the long ones: largest difference first
  std::vector<FindingChange> appeared, disappeared,
      persisting;  // in most runs of b alone, of a alone, of both

  [[nodiscard]] const std::vector<ComparedRow>& of(DiffTable table) const {
    return tables[static_cast<std::size_t>(table)];
  }
};

// Each side has at least one run. `noise`: of runs of the same command and size; it counts where all runs are
// of that size.
Diff compare(std::vector<RunFacts> a, std::vector<RunFacts> b, const Noise& noise = {});

// --- conditions ------------------------------------------------------------------------------

// A regression that says nothing else is at least so large a part of A: runs that agree to the last page of
// memory do not tell that one page more is one.
inline constexpr double kLeastRegression = 0.02;

// "elapsed>+5%": docs/diff.md has the grammar.
struct Condition {
  enum class Op : std::uint8_t { kAbove, kAtLeast, kBelow, kAtMost };
  // kRegression: it has become worse, by more than noise, and at least by `value` of A.
  enum class Of : std::uint8_t { kRelativeChange, kChange, kLevel, kRegression };
  std::string text;
  std::string metric, name;  // "function", "step"
  Op op = Op::kAbove;
  Of of = Of::kLevel;
  double value = 0;  // shares as 0..1, times in seconds
};
Result<std::vector<Condition>> parse_conditions(std::string_view expression);

// Why it cannot be said whether a condition is true.
enum class Undecided : std::uint8_t {
  kNoiseUnknown = 0,  // of a regression: how much runs vary is not known
  kOnlySampling,      // likewise, but for the error of counting samples, which is the least of it
  kRunsDisagree       // of a level: some runs of b are above it and some below, and so may be their mean
};
inline constexpr std::array<const char*, 3> kUndecidedNames = {"noise_unknown", "only_sampling",
                                                               "runs_disagree"};  // in JSON
constexpr const char* name_of(Undecided reason) { return kUndecidedNames[static_cast<std::size_t>(reason)]; }

struct Judgement {
  Condition condition;
  std::optional<bool> holds;                 // empty: the runs do not have that
  bool within_noise = false;                 // it would hold, but the difference is no more than noise
  std::optional<Undecided> undecided;        // then it does not hold, and that is not certain
  std::size_t b_runs = 0, b_runs_alike = 0;  // that have it; of them, that fulfil it by themselves
  std::string_view key;                      // of what was compared
  std::string subject;                       // "step() train.py"; empty for metrics of the run
  std::string file;                          // of the subject; empty: none
  std::uint32_t line = 0;
  Unit unit = Unit::kSeconds;
  bool per_rank = false;
  Comparison comparison;
};
// Half widths of differences are those of all judgements together: that any of them does not hold the true
// difference has a probability of 1 - kConfidence at most (Bonferroni). `any_difference`: holds even when it
// is within the noise.
std::vector<Judgement> judge(const Diff& diff, const std::vector<Condition>& conditions, bool any_difference);

// --- renderers -------------------------------------------------------------------------------

// As render_text(); `verdicts` may be empty.
std::string render_diff_text(const Diff& diff, const std::vector<Judgement>& judgements,
                             const TextOptions& options);
// clusterprof.diff/1: report/json/diff.schema.json.
void render_diff_json(const Diff& diff, const std::vector<Judgement>& judgements, const JsonSink& sink);
// A page of its own, without scripts, that needs nothing else.
std::string render_diff_html(const Diff& diff, const std::vector<Judgement>& judgements);
// Annotations of GitHub Actions, a line each. Files below `root`, an absolute path, are named from there.
std::string render_github(const std::vector<Judgement>& judgements, std::string_view root);
// JUnit's XML, as GitLab and others read it: a test case for each judgement.
std::string render_junit(const std::vector<Judgement>& judgements);

}  // namespace clusterprof::report
