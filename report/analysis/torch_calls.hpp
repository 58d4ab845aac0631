// SPDX-License-Identifier: BSD-3-Clause
// Time in torch.distributed, by operation and line of the user's. Where its calls were recorded, the rows are
// these; elsewhere samples say it: call paths through a function of torch.distributed, or through native code
// of it that is known by name. Definitions: docs/metrics.md, "torch.distributed".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

class TorchTime {
 public:
  TorchTime(const shard::ShardData& head, const CallPaths& paths);

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    table.append(self.times_);
  }

  // Fills in Analysis::torch. Needs Analysis::run, ranks, mpi_calls and mpi_watched.
  void finish(const RankOrder& ranks, Analysis& analysis) const;

 private:
  // An operation at a line.
  struct Call {
    std::string_view op, file, function;
    std::uint32_t line = 0;
    TorchKind kind = TorchKind::kCollective;
    bool waits_for_all = false;
  };
  // What one rank spent in a call.
  struct RankTime {
    std::uint32_t call = 0, position = 0;
    std::uint64_t time_ns = 0, blocked_ns = 0, runnable_ns = 0, samples = 0;
  };

  void find_calls(const shard::ShardData& head, const CallPaths& paths);
  [[nodiscard]] TorchRow row_of(const Call& call, const std::vector<RankTime>& times,
                                const RankOrder& ranks) const;
  void find_late_ranks(const std::vector<RankTime>& times, const RankOrder& ranks, TorchRow& row) const;

  bool cpu_clock_;
  double look_s_;
  std::vector<Call> calls_;
  std::vector<std::uint32_t> call_of_;  // by path, kNone: it is in no call; empty: no path is
  std::vector<RankTime> times_;
  std::vector<RankTime> here_;          // of the rank at hand, by call; without time between ranks
  std::vector<std::uint32_t> touched_;  // calls
};

}  // namespace clusterprof::report
