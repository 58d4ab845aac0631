// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "aggregator/series_merger.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Unites the data of several shards (or profiles) of one run. Call paths are the same when their ids are
// equal. The result does not depend on the order of add(); its rows are in the order that FORMATS.md promises
// for a profile.
//
// Several inputs may have the same rank (a collector died and left a shard behind). The rank is then taken
// from one of them alone: preferably one that did not lose it, then one that knows how it ended, then the one
// that ran longest. The rank's rows in the other inputs are left out, with the matrix cells in which it is
// the source. Message sizes are not kept by rank: an input's are left out when all of its ranks are. A note
// says so.
//
// Time series of all inputs are brought onto one axis, see SeriesMerger. Series of a node that several inputs
// have are added up: a second collector begins only when the first has ended. Path series are added up, see
// PathSeriesMerger. They are not kept by rank either, and are left out like message sizes.
//
// The result has only communicators that calls refer to.
//
// Events and the tables made from them are not united here; WaitAnalyser does that. A rank keeps the number
// of its operations and the level of its events.
//
// Inputs must be valid (as read_shard leaves them). Not thread-safe.
class Merger {
 public:
  explicit Merger(std::size_t most_series_rows = kMaxSeriesRows);
  ~Merger();
  Merger(const Merger&) = delete;
  Merger& operator=(const Merger&) = delete;

  void add(shard::ShardData input);
  // Adds an input of which some ranks are known to be taken from other inputs. Their rows are left out at
  // once and do not count for the axis of time series. left_out: per rank of the input; empty: no rank is
  // left out. No other input may have a rank that this one keeps. The input's path series take no memory of
  // their own.
  void add(shard::ShardData input, const std::vector<bool>& left_out);
  // Returns the union and leaves the Merger empty. Without inputs: an empty ShardData.
  [[nodiscard]] shard::ShardData finish();

 private:
  struct State;
  void add(shard::ShardData input, const std::vector<bool>* left_out);
  std::unique_ptr<State> state_;
};

// Sets a to the union of a and b. Commutative. Associative unless some but not all ranks of an input are left
// out, since its data about the run and the nodes stays. For many inputs use one Merger.
void merge_into(shard::ShardData& a, const shard::ShardData& b,
                std::size_t most_series_rows = kMaxSeriesRows);

}  // namespace clusterprof::aggregator
