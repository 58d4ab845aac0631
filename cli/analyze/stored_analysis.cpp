// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/stored_analysis.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "cli/analyze/analysis_observer.hpp"
#include "cli/analyze/merge_bar.hpp"
#include "report/analysis/gains.hpp"
#include "report/analysis/run_state.hpp"
#include "report/format/names.hpp"

namespace clusterprof::cli {

using profile::ProfileReader;
using shard::ShardData;

namespace {

View view;

// Of a merge that ended at a damaged shard, how to do without it.
Error with_advice(Error error, const std::filesystem::path& run) {
  if (error.kind != ErrorKind::kDamaged) return error;
  error.message += "; without the shards that are damaged: clusterprof merge --partial " +
                   report::format::shell_word(run.string());
  return error;
}

}  // namespace

void choose_view(View chosen) { view = std::move(chosen); }
const View& chosen_view() { return view; }

Result<ProfileReader> open_profile(const std::filesystem::path& run, aggregator::RankObserver* observer) {
  AnalysisObserver own(run);
  MergeBarOnStderr bar(false);
  Result<ProfileReader> profile =
      aggregator::open_run(run, observer != nullptr ? observer : &own,
                           [&](const aggregator::MergeProgress& progress) { bar.update(progress); });
  bar.finish();
  if (!profile) return with_advice(profile.error(), run);
  profile.value().add_own(view.own);
  return profile;
}

namespace {

Result<AnalysedRun> analysed(const std::filesystem::path& run, bool rank_timelines) {
  AnalysisObserver observer(run, AnalysisObserver::Keep::kAnalysis);
  Result<ProfileReader> profile = open_profile(run, &observer);
  if (!profile) return profile.error();
  if (view.is_usual() && observer.analysis())
    return AnalysedRun{std::move(profile).value(), std::move(*observer.analysis())};
  if (view.is_usual()) {
    const Result<std::vector<std::byte>> stored = profile.value().report();
    if (!stored) return stored.error();
    if (std::optional<report::Analysis> analysis = report::decode(stored.value(), rank_timelines))
      return AnalysedRun{std::move(profile).value(), std::move(*analysis)};
  }
  const Result<const ShardData*> head = profile.value().head();
  if (!head) return head.error();
  report::Analysis analysis = report::analyse(*head.value(), *profile.value().rows(), view.frames);
  Result<std::optional<profile::Gains>> gains = profile.value().gains();
  if (!gains) return gains.error();
  if (gains.value()) report::apply_gains(analysis, std::move(*gains.value()));
  return AnalysedRun{std::move(profile).value(), std::move(analysis)};
}

}  // namespace

Result<AnalysedRun> analysed_run(const std::filesystem::path& run, bool rank_timelines, report::Job job) {
  Result<AnalysedRun> result = analysed(run, rank_timelines);
  if (result && report::has_collector_that_ended(result.value().analysis))
    result = analysed(run, rank_timelines);
  if (result) report::find_run_state(result.value().analysis, job);
  return result;
}

Result<report::Analysis> stored_analysis(const std::filesystem::path& run, bool rank_timelines,
                                         report::Job job) {
  Result<AnalysedRun> result = analysed_run(run, rank_timelines, job);
  if (!result) return result.error();
  return std::move(result.value().analysis);
}

}  // namespace clusterprof::cli
