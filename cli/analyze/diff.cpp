// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/diff.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/analyze/history.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "cli/analyze/write_file.hpp"
#include "report/diff/diff.hpp"
#include "report/diff/diff_format.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

Result<std::vector<report::RunFacts>> facts_of(const std::vector<std::string>& runs) {
  std::vector<report::RunFacts> facts;
  for (const std::string& run : runs) {
    const Result<fs::path> directory = run_directory(run);
    if (!directory) return directory.error();
    const Result<report::Analysis> analysis = stored_analysis(directory.value(), false);
    if (!analysis) return analysis.error();
    facts.push_back(report::facts_of(analysis.value(), run));
  }
  return facts;
}

// How earlier runs like A vary: for single runs alone, where it is asked for or a condition needs it.
Result<report::Noise> noise_for(const DiffOptions& options, const std::string& name,
                                const report::RunFacts& a, const report::RunFacts& b, bool is_needed) {
  if (options.history.empty() && !is_needed) return report::Noise();
  fs::path directory = options.history;
  if (directory.empty()) {
    const Result<fs::path> run = run_directory(name);
    if (!run) return run.error();
    std::error_code error;
    directory = fs::canonical(run.value(), error).parent_path();
    if (error) return Error{name + ": cannot be read: " + error.message()};
  }
  report::HistoryRun like;
  like.command = a.command;
  like.ranks = a.ranks;
  return noise_in(directory, like, {b.id});
}

}  // namespace

const char* const kConditionsHelp =
    "CONDITIONS: one or more, separated by commas or \"or\":  METRIC OP VALUE,\n"
    "or METRIC regressed [by N%]: worse by more than earlier runs varied, and by N% at least (2%)\n"
    "  METRIC  elapsed cpu useful_mean useful_max mpi_wait mpi_transfer (times)  max_rss read written "
    "(bytes)\n"
    "          memory_peak node_memory_peak (bytes, with --memory)\n"
    "          parallel load_balance communication serialization transfer (efficiencies)\n"
    "          hybrid openmp openmp_load_balance openmp_scheduling openmp_serialization (with threads)\n"
    "          python native system mpi io idle runnable (time of main threads)\n"
    "          function:NAME total:NAME (self and total time)  line:FILE:LINE\n"
    "          wait:KIND (late_sender, ...)  bottleneck:CLASS  counter:EVENT  derived:NAME\n"
    "          names with blanks, commas, < or > in quotes: function:\"operator<\"\n"
    "  OP      > >= < <=\n"
    "  VALUE   +5% -3%           by how much B differs from A, relative to A\n"
    "          +1.5s -20ms +2pp  the difference itself (pp: points of an efficiency or share)\n"
    "          60s 80% 2GB       what B has\n"
    "Examples: 'elapsed>+5%'  'parallel<80% or function:step>+10%'  'mpi_wait>+2s'\n"
    "With several runs on each side, and for values that samples count, a difference within the noise makes "
    "no condition\n"
    "true (unless --any-difference). Exit status: 0 none is true, 1 one is (or its metric is in no run),\n"
    "2 the expression is wrong.";

int diff(const DiffOptions& options) {
  std::vector<std::string> a = options.runs, b = options.against;
  if (b.empty()) {
    if (a.size() != 2)
      return complain(kBadUsage, a.size() < 2
                                     ? "diff: two runs are compared (see clusterprof diff --help)"
                                     : "diff: more than two runs need --vs before those of the other side "
                                       "(see clusterprof diff --help)");
    b = {a[1]};
    a.pop_back();
  }
  std::vector<report::Condition> conditions;
  if (!options.fail_if.empty()) {
    Result<std::vector<report::Condition>> parsed = report::parse_conditions(options.fail_if);
    if (!parsed) return complain(kBadUsage, "diff: --fail-if: " + parsed.error().message);
    conditions = std::move(parsed.value());
  }
  Result<std::vector<report::RunFacts>> of_a = facts_of(a);
  if (!of_a) return complain(of_a.error());
  Result<std::vector<report::RunFacts>> of_b = facts_of(b);
  if (!of_b) return complain(of_b.error());
  report::Noise noise;
  if (a.size() == 1 && b.size() == 1) {
    const bool is_needed =
        std::any_of(conditions.begin(), conditions.end(), [](const report::Condition& condition) {
          return condition.of == report::Condition::Of::kRegression;
        });
    Result<report::Noise> known = noise_for(options, a[0], of_a.value()[0], of_b.value()[0], is_needed);
    if (!known) return complain(known.error());
    noise = std::move(known).value();
  }
  const report::Diff result = report::compare(std::move(of_a).value(), std::move(of_b).value(), noise);
  const std::vector<report::Judgement> judgements = report::judge(result, conditions, options.any_difference);

  int status = kOk;
  if (!options.html.empty()) {
    const Result<void> written = write_named_file(options.html, report::render_diff_html(result, judgements));
    if (!written) return complain(written.error());
  }
  if (!options.junit.empty()) {
    const Result<void> written = write_named_file(options.junit, report::render_junit(judgements));
    if (!written) return complain(written.error());
  }
  if (options.github) {
    std::error_code error;
    status = print(report::render_github(judgements, fs::current_path(error).string()));
  } else if (options.json) {
    Output output;
    report::render_diff_json(result, judgements, [&](std::string_view piece) { output(piece); });
    status = output.finish();
  } else if (options.html.empty() && options.junit.empty()) {
    report::TextOptions text;
    text.width = columns_of(STDOUT_FILENO);
    text.colour = wants_colour(STDOUT_FILENO, options.colour);
    text.rows = options.top;
    status = print(report::render_diff_text(result, judgements, text));
  }
  if (status != kOk) return status;
  for (const report::Judgement& judgement : judgements)
    if (judgement.holds.value_or(true))
      status = complain(kNothingFound, "diff: " + report::judgement_text(judgement));
  return status;
}

}  // namespace clusterprof::cli
