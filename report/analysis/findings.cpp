// SPDX-License-Identifier: BSD-3-Clause
// Finds the problems of a run from the finished analysis, with severity, possible gain, place and evidence as
// data: looks for each group of findings, joins what belongs together, and sorts. Sentences are made in
// report/words.
#include "report/analysis/findings.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include "report/analysis/finding_groups.hpp"
#include "report/analysis/placement.hpp"

namespace clusterprof::report {
namespace {

using Key = EvidenceKey;
using Kind = FindingKind;

bool is_failure(Kind kind) { return kind <= Kind::kTimeLimit || kind == Kind::kOutOfMemory; }
// Ranks lack processors, so other losses may have the same reason.
bool is_of_processors(Kind kind) {
  return kind == Kind::kWaitingForProcessor || kind == Kind::kSharedProcessors ||
         kind == Kind::kTooManyThreads || kind == Kind::kBusyNode || kind == Kind::kOpenMpThreads ||
         kind == Kind::kOpenMpOneProcessor;
}

// Joins a finding on blocked time to the one on the delay that it caused, where both blame the same function.
void join_with_delays(FindingBuilder& builder) {
  auto& findings = builder.analysis().findings;
  for (auto blocked = builder.blocked_functions.rbegin(); blocked != builder.blocked_functions.rend();
       ++blocked) {
    const auto delay =
        std::find_if(builder.delay_functions.begin(), builder.delay_functions.end(),
                     [&](const FindingBuilder::BlamedFunction& named) {
                       return named.function == blocked->function && named.file == blocked->file;
                     });
    if (delay == builder.delay_functions.end()) continue;
    if (findings[blocked->finding].severity < findings[delay->finding].severity) continue;
    Finding joined = std::move(findings[blocked->finding]);
    findings[delay->finding].action = joined.action;
    findings[delay->finding].joined.push_back({joined.kind, joined.share, joined.rank,
                                               std::move(joined.place), std::move(joined.evidence),
                                               joined.action});
    findings.erase(findings.begin() + static_cast<std::ptrdiff_t>(blocked->finding));
  }
}

// Joins findings on OpenMP's threads, which lack processors, to the one on the waiting for processors.
void join_with_processors(std::vector<Finding>& findings) {
  const auto waiting = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.kind == Kind::kWaitingForProcessor || finding.kind == Kind::kTooManyThreads;
  });
  if (waiting == findings.end() || waiting->action == FindingAction::kFewerRanks) return;
  for (Finding& finding : findings) {
    if (finding.kind != Kind::kOpenMpThreads && finding.kind != Kind::kOpenMpOneProcessor) continue;
    if (waiting->action != FindingAction::kSmallerPool) waiting->action = finding.action;
    waiting->joined.push_back(
        {finding.kind, finding.share, finding.rank, {}, std::move(finding.evidence), finding.action});
  }
  std::erase_if(findings, [](const Finding& finding) {
    return finding.kind == Kind::kOpenMpThreads || finding.kind == Kind::kOpenMpOneProcessor;
  });
}

// Waiting that a finding on late ranks or on a blocked event loop explains is not told again as blocked time.
void leave_out_explained_waiting(std::vector<Finding>& findings) {
  const auto explains = [](const Finding& finding, const Finding& waiting) {
    const SourceLocation* site = nullptr;
    if (finding.kind == Kind::kLateBySamples && finding.site) site = &*finding.site;
    if (finding.kind == Kind::kEventLoopBlocked && waiting.kind == Kind::kBlocked) site = &finding.place;
    return site != nullptr && !site->file.empty() && site->file == waiting.place.file &&
           site->line == waiting.place.line;
  };
  const std::vector<Finding> all = findings;
  std::erase_if(findings, [&](const Finding& waiting) {
    return (waiting.kind == Kind::kBlocked || waiting.kind == Kind::kWaitsForData) &&
           std::any_of(all.begin(), all.end(),
                       [&](const Finding& finding) { return explains(finding, waiting); });
  });
}

// Where ranks share processors, or ranks are missing, these are also reasons for communication and imbalance:
// says so, and rates such findings no worse than their reason.
void explain_by_processors(Analysis& analysis) {
  auto& findings = analysis.findings;
  std::optional<Severity> cause;
  bool missing = false;
  for (const Finding& finding : findings) {
    if (is_of_processors(finding.kind)) cause = std::min(cause.value_or(finding.severity), finding.severity);
    missing = missing || finding.kind == Kind::kRanksMissing;
  }
  if (!cause && !missing) return;
  // Where that time is known, it has been taken out of these.
  const bool known = lacked_share(analysis) > 0;
  for (Finding& finding : findings) {
    const bool without = known && (finding.kind == Kind::kLoadImbalance || finding.kind == Kind::kTransfer ||
                                   finding.kind == Kind::kMpiBesidesWaiting);
    if (without && !missing) continue;
    switch (finding.kind) {
      case Kind::kLoadImbalance:
      case Kind::kSerialization:
      case Kind::kTransfer:
      case Kind::kMutualWaiting:
      case Kind::kMpiBesidesWaiting:
      case Kind::kMpiTime:
        break;
      default:
        continue;
    }
    finding.action = FindingAction::kNone;
    if (cause && !without) {
      finding.severity = std::max(finding.severity, *cause);
      finding.evidence.set(Key::kWaitsForProcessor, 1);
    }
    if (missing) finding.evidence.set(Key::kRanksMissing, analysis.run.missing);
  }
}

// Whether somebody who wants the run to be faster is to read it.
bool is_about_time(Kind kind) {
  return (kind >= Kind::kWaitingForProcessor && kind <= Kind::kBusyNode) || kind == Kind::kImports ||
         (kind >= Kind::kOpenMpImbalance && kind <= Kind::kOpenMpOneProcessor);
}

// Who has a run that failed at once wants to know why, and not how to save some milliseconds of it, which are
// less than a sampling period often.
void leave_out_trifles(Analysis& analysis) {
  auto& findings = analysis.findings;
  const double elapsed_s = analysis.run.elapsed_s;
  const bool fails = std::ranges::any_of(findings, [](const Finding& at) { return is_failure(at.kind); });
  if (!fails || elapsed_s >= thresholds::kFailedAtOnce_s) return;
  std::erase_if(findings, [&](const Finding& finding) {
    return is_about_time(finding.kind) &&
           finding.gain_s.value_or(finding.share.value_or(0) * elapsed_s) < thresholds::kNoticed_s;
  });
}

// Limits gains to the length of the run, drops small gains, and rates estimates no higher than medium.
void limit_gains(Analysis& analysis) {
  for (Finding& finding : analysis.findings) {
    if (finding.gain_s) {
      finding.gain_s = std::min(*finding.gain_s, analysis.run.elapsed_s);
      if (*finding.gain_s < thresholds::kGain * analysis.run.elapsed_s) finding.gain_s.reset();
    }
    if (finding.is_estimate && finding.severity == Severity::kHigh) finding.severity = Severity::kMedium;
  }
}

}  // namespace

void sort_findings(std::vector<Finding>& findings) {
  const auto order = [](const Finding& finding) {
    const bool fails = is_failure(finding.kind);
    return std::tuple(!fails, fails ? Severity::kHigh : finding.severity,
                      fails ? 0 : !is_of_processors(finding.kind), fails ? 0 : -finding.gain_s.value_or(0),
                      fails ? 0 : -finding.share.value_or(0));
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&](const Finding& a, const Finding& b) { return order(a) < order(b); });
  if (findings.size() > thresholds::kMaxFindings) findings.resize(thresholds::kMaxFindings);
}

void find_findings(const shard::ShardData& data, const PathTime& time, const CallPaths& paths,
                   Analysis& analysis) {
  FindingBuilder builder(data, time, paths, analysis);
  find_exhausted_memory(builder);
  find_failures(builder);
  if (analysis.run.was_never_recorded()) return sort_findings(analysis.findings);
  find_delays(builder);
  find_late_ranks_by_samples(builder);
  find_mpi_costs(builder);
  find_mpi_problems(builder);
  find_gil_waits(builder);
  find_python_time(builder);
  find_imports(builder);
  find_memory_costs(builder);
  find_memory_holders(builder);
  find_slow_input(builder);
  find_io_costs(builder);
  find_blocked_time(builder);
  find_blocked_loops(builder);
  find_openmp_costs(builder);
  find_system_calls(builder);
  for (Finding& finding : placement_findings(analysis)) analysis.findings.push_back(std::move(finding));
  join_with_delays(builder);
  name_large_pools(builder);
  advise_fewer_processes(analysis);
  join_with_processors(analysis.findings);
  leave_out_explained_waiting(analysis.findings);
  explain_by_processors(analysis);
  leave_out_trifles(analysis);
  find_measurement_errors(builder);
  limit_gains(analysis);
  sort_findings(analysis.findings);
}

}  // namespace clusterprof::report
