// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "aggregator/run_directory.hpp"
#include "report/report.hpp"

namespace clusterprof::cli {

// Makes the report's analysis while a run is merged, so that nobody has to read the rows again for it, and
// predicts what changes of the program would gain.
class AnalysisObserver final : public aggregator::RankObserver {
 public:
  enum class Keep { kNothing, kAnalysis };
  // `run` has the shards that are merged.
  explicit AnalysisObserver(std::filesystem::path run, Keep keep = Keep::kNothing)
      : run_(std::move(run)), keep_(keep) {}

  void begin(const shard::ShardData& head) override;
  void add(const shard::RankRows& rows) override;
  [[nodiscard]] aggregator::Bytes state() const override;
  [[nodiscard]] Result<void> absorb(std::span<const std::byte> state) override;
  [[nodiscard]] aggregator::Bytes finish() override;
  [[nodiscard]] std::optional<profile::Gains> gains() override { return gains_; }

  // With kAnalysis, after a merge: what finish() found. Empty when there was none.
  [[nodiscard]] std::optional<report::Analysis>& analysis() { return analysis_; }

 private:
  std::filesystem::path run_;
  Keep keep_;
  std::optional<report::AnalysisBuilder> builder_;
  std::optional<report::Analysis> analysis_;
  std::optional<profile::Gains> gains_;
};

}  // namespace clusterprof::cli
