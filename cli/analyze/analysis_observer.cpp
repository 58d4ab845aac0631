// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/analysis_observer.hpp"

namespace clusterprof::cli {

void AnalysisObserver::begin(const shard::ShardData& head) {
  analysis_.reset();
  builder_.emplace(head);
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
