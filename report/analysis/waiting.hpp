// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/path_time.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

// What ranks are charged for the calls from call sites at which they waited.
class ChargedWaits {
 public:
  explicit ChargedWaits(const shard::ShardData& head);

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    table(self.charged_ns_, self.charged_ns_.size());
  }

  // Of the head's wait_states, row by row, the part that is within what their rank is charged for that call:
  // a sample that was scaled may say more. `rows`: to be served in this order.
  [[nodiscard]] std::vector<std::uint64_t> wait_ns(const std::vector<std::uint32_t>& rows) const;

 private:
  [[nodiscard]] std::size_t find(std::uint32_t rank, std::uint32_t path) const;

  const shard::ShardData& head_;
  std::vector<std::uint32_t> starts_, sites_;  // call paths in ascending order, by rank
  std::vector<std::uint64_t> charged_ns_;      // of sites_
};

// The part of a window that efficiencies are of: without what was not recorded, and without MPI_Init and
// MPI_Finalize. 0: too little to tell.
std::uint64_t focus_ns(const shard::TimeWindow& window);

// The tables of the analysis of waiting by ranks and places as people name them: fills wait_quality to
// windows of the analysis, whose ranks must be there. docs/metrics.md, "Waiting".
void explain_waiting(const shard::ShardData& data, const PathTime& time, const ChargedWaits& waits,
                     const CallPaths& paths, Analysis& analysis);

}  // namespace clusterprof::report
