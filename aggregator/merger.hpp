// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "aggregator/series_merger.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Unites the data of several shards (or profiles) of one run. Call paths are the same when
// their ids are. The result does not depend on the order of add() and has the order of rows
// that FORMATS.md promises for a profile.
//
// When several inputs have the same rank (a shard left behind by a collector that died), the
// rank is taken from one of them alone: one that did not lose it, knows how it ended, ran
// longest, in this order. From the others, the rank's rows are left out, with the matrix cells
// in which it is the source. Message sizes are not kept by rank: they are left out with the
// last rank of an input. A note says so.
//
// Time series get an axis that fits all of them, see SeriesMerger. Those of a node that several inputs have
// are added up: a further collector begins when the one before has ended. Path series are added up, see
// PathSeriesMerger. They are not kept by rank either: like message sizes they are left out with an input's
// last rank.
//
// Communicators are those that calls refer to.
//
// Events and the tables made of them are not united: those are WaitAnalyser's. A rank keeps how many
// operations it had and the level of its events.
//
// Inputs must be valid (as read_shard leaves them). Not thread-safe.
class Merger {
 public:
  explicit Merger(std::size_t most_series_rows = kMostSeriesRows);
  ~Merger();
  Merger(const Merger&) = delete;
  Merger& operator=(const Merger&) = delete;

  void add(shard::ShardData input);
  // The same when it is known which of its ranks are taken from elsewhere: that of them is left out at once,
  // and does not count for the axis of time series. left_out: per rank; empty: none is. No other input may
  // have a rank of it that is not. The input's path series take no memory of their own.
  void add(shard::ShardData input, const std::vector<bool>& left_out);
  // The union; the Merger is empty afterwards. Without inputs: an empty ShardData.
  [[nodiscard]] shard::ShardData finish();

 private:
  struct State;
  void add(shard::ShardData input, const std::vector<bool>* left_out);
  std::unique_ptr<State> state_;
};

// a := a united with b. Commutative; associative as long as no rank is left out of an input that has others,
// since what that one said of the run and the nodes stays. For many inputs use one Merger.
void merge_into(shard::ShardData& a, const shard::ShardData& b,
                std::size_t most_series_rows = kMostSeriesRows);

}  // namespace clusterprof::aggregator
