// SPDX-License-Identifier: BSD-3-Clause
// Explains the waiting of a run: which rank waited where and for which rank, the root cause of it, and how
// fast the run would have been on an ideal network. Definitions and formulas: docs/metrics.md.
#pragma once

#include <memory>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Takes the events of all shards of one run, in any order, then fills the tables of the merged data. Shards
// must be valid (as read_shard leaves them). Not thread-safe.
class WaitAnalyser {
 public:
  WaitAnalyser();
  ~WaitAnalyser();
  WaitAnalyser(const WaitAnalyser&) = delete;
  WaitAnalyser& operator=(const WaitAnalyser&) = delete;

  void add(const shard::ShardData& shard);

  // `merged` is the union of the shards (Merger). Fills wait_analysis, wait_states, root_causes,
  // critical_times and time_windows, and mpi_wait_ns of the ranks with kWaitKnown. Ranks are found by world
  // rank, call paths by id. What merged does not have (a rank taken from another shard) is left out.
  void finish(shard::ShardData& merged);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clusterprof::aggregator
