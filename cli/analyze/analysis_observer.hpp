// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>

#include "aggregator/run_directory.hpp"
#include "report/report.hpp"

namespace clusterprof::cli {

// Makes the report's analysis while a run is merged, so that nobody has to read the rows again for it.
class AnalysisObserver final : public aggregator::RankObserver {
 public:
  enum class Keep { kNothing, kAnalysis };
  explicit AnalysisObserver(Keep keep = Keep::kNothing) : keep_(keep) {}

  void begin(const shard::ShardData& head) override;
  void add(const shard::RankRows& rows) override;
  [[nodiscard]] aggregator::Bytes state() const override;
  [[nodiscard]] Result<void> absorb(std::span<const std::byte> state) override;
  [[nodiscard]] aggregator::Bytes finish() override;

  // With kAnalysis, after a merge: what finish() found. Empty when there was none.
  [[nodiscard]] std::optional<report::Analysis>& analysis() { return analysis_; }

 private:
  Keep keep_;
  std::optional<report::AnalysisBuilder> builder_;
  std::optional<report::Analysis> analysis_;
};

}  // namespace clusterprof::cli
