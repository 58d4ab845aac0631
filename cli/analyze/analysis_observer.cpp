// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/analysis_observer.hpp"

#include "cli/analyze/gains.hpp"

namespace clusterprof::cli {

void AnalysisObserver::begin(const shard::ShardData& head) {
  analysis_.reset();
  gains_.reset();
  builder_.emplace(head);
  builder_->predict_with(
      [this](const report::Analysis& analysis, const std::vector<report::GainCandidate>& candidates) {
        gains_ = predict_while_merging(run_, analysis, candidates);
        return gains_;
      });
}

void AnalysisObserver::add(const shard::RankRows& rows) { builder_->add(rows); }

aggregator::Bytes AnalysisObserver::state() const { return builder_->state(); }

Result<void> AnalysisObserver::absorb(std::span<const std::byte> state) { return builder_->absorb(state); }

aggregator::Bytes AnalysisObserver::finish() {
  aggregator::Bytes bytes;
  if (keep_ == Keep::kAnalysis) {
    analysis_ = builder_->finish();
    bytes = report::encode(*analysis_);
  } else {
    bytes = builder_->finish_encoded();
  }
  builder_.reset();
  return bytes;
}

}  // namespace clusterprof::cli
