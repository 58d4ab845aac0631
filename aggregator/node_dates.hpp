// SPDX-License-Identifier: BSD-3-Clause
// Nodes with a wrong date: their time series would be so far from the others' that the bins of all became as
// wide as minutes or days.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Compares when the ranks of the nodes ran. The ranks of an MPI run do so at the same time.
class NodeDates {
 public:
  // A node is apart from the others if there is a longer time between them than this, and than the others'
  // time from the first start to the last end.
  static constexpr std::int64_t kLeastApart_ns = 60'000'000'000;

  void add(const std::string& node, const shard::Rank& rank);

  // By the node's name, how much later its times would have been with the date of the others: as if its first
  // rank had started with theirs. Nodes that ran at the same time stay together; those that are the most have
  // the right date, and of as many the later ones. Empty if the ranks need not have run at the same time.
  [[nodiscard]] std::map<std::string, std::int64_t> corrections() const;

 private:
  struct Span {
    std::int64_t begin_utc_ns = 0, end_utc_ns = 0;
  };
  std::map<std::string, Span> spans_;
  std::set<std::uint32_t> restarts_;  // of the ranks
};

// Adds to all times that count from 1970. Bins are moved as a whole.
void move_dates(shard::ShardData& data, std::int64_t by_ns);

}  // namespace clusterprof::aggregator
