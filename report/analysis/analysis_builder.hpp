// SPDX-License-Identifier: BSD-3-Clause
// Computes the Analysis of a profile, of the whole run or of one region, and stores it as bytes.
//
// Nothing here does I/O, and odd input does not make it throw: indices that point outside their tables are
// ignored (the validation of shards reports them).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

class LineRows;
struct GainCandidate;

// Computes the Analysis of a run whose matrix rows do not fit into memory, one rank at a time. Builders can
// work on different ranks, also in different processes, and then absorb each other. Neither the order of
// ranks nor their division among builders changes a bit of the result, because sums over ranks are sums of
// integers. Memory: the head, the call paths and the analysis, but not the rows.
class AnalysisBuilder {
 public:
  // `head` must outlive the builder. Rows in its matrix tables are ignored.
  explicit AnalysisBuilder(const shard::ShardData& head, FrameMode frames = FrameMode::kFolded);
  ~AnalysisBuilder();
  AnalysisBuilder(AnalysisBuilder&&) noexcept;
  AnalysisBuilder& operator=(AnalysisBuilder&&) noexcept;

  // Adds a rank, at most once. A rank without rows need not be added.
  void add(const shard::RankRows& rows);

  // What was added so far, as bytes for absorb() of a builder in another process of the same program. Both
  // builders need equal heads.
  [[nodiscard]] std::vector<std::byte> state() const;
  // Error: the bytes are damaged or of another run. The builder must not be used any more then.
  [[nodiscard]] Result<void> absorb(std::span<const std::byte> state);

  // Asked by finish() what changes would gain. The analysis that it is given lacks the lines.
  using PredictGains =
      std::function<std::optional<profile::Gains>(const Analysis&, const std::vector<GainCandidate>&)>;
  void predict_with(PredictGains predict);

  // One of the two may be called, once. The second returns what encode() makes of the analysis, without
  // having all of its lines in memory.
  [[nodiscard]] Analysis finish();
  [[nodiscard]] std::vector<std::byte> finish_encoded();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// An analysis as bytes, so that later reports need not compute it again. Only the same version of the program
// can read them: decode() returns nothing for bytes of another version and for damaged ones. Without
// `rank_timelines`, it leaves out Timeline::ranks, which is larger than all the rest and of use only to the
// section "timeline" and to JSON.
std::vector<std::byte> encode(const Analysis& analysis);
// Takes `lines` in place of Analysis::lines.
std::vector<std::byte> encode(const Analysis& analysis, const LineRows& lines);
std::optional<Analysis> decode(std::span<const std::byte> bytes, bool rank_timelines = true);

// The analysis of a whole run.
Analysis analyse(const shard::ShardData& head, const shard::RowSource& rows,
                 FrameMode frames = FrameMode::kFolded);

// The analysis of one region, given by its full name ("epoch/step"). Every time in it was spent in the
// region; what is not recorded by region is left out. Empty: there is no such region.
std::optional<Analysis> analyse_region(const shard::ShardData& head, const shard::RowSource& rows,
                                       std::string_view name, FrameMode frames = FrameMode::kFolded);

}  // namespace clusterprof::report
