// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/stored_analysis.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "cli/analyze/analysis_observer.hpp"
#include "cli/analyze/merge_bar.hpp"

namespace clusterprof::cli {

using profile::ProfileReader;
using shard::ShardData;

Result<ProfileReader> open_profile(const std::filesystem::path& run, aggregator::RankObserver* observer) {
  AnalysisObserver own;
  MergeBarOnStderr bar(false);
  return aggregator::open_run(run, observer != nullptr ? observer : &own,
                              [&](const aggregator::MergeProgress& progress) { bar.update(progress); });
}

Result<AnalysedRun> analysed_run(const std::filesystem::path& run, bool rank_timelines) {
  AnalysisObserver observer(AnalysisObserver::Keep::kAnalysis);
  Result<ProfileReader> profile = open_profile(run, &observer);
  if (!profile) return profile.error();
  if (observer.analysis()) return AnalysedRun{std::move(profile).value(), std::move(*observer.analysis())};
  {
    const Result<std::vector<std::byte>> stored = profile.value().report();
    if (!stored) return stored.error();
    if (std::optional<report::Analysis> analysis = report::decode(stored.value(), rank_timelines))
      return AnalysedRun{std::move(profile).value(), std::move(*analysis)};
  }
  const Result<const ShardData*> head = profile.value().head();
  if (!head) return head.error();
  report::Analysis analysis = report::analyse(*head.value(), *profile.value().rows());
  return AnalysedRun{std::move(profile).value(), std::move(analysis)};
}

Result<report::Analysis> stored_analysis(const std::filesystem::path& run, bool rank_timelines) {
  Result<AnalysedRun> analysed = analysed_run(run, rank_timelines);
  if (!analysed) return analysed.error();
  return std::move(analysed.value().analysis);
}

}  // namespace clusterprof::cli
