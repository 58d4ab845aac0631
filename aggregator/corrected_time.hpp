// SPDX-License-Identifier: BSD-3-Clause
// Corrects times. A profile stores the corrected times, and whatever shows a run reads and adds up these.
// Time in calls that are timed is the measured time; all other time is sampled. The categories of a rank's
// main thread add up to the rank's recorded time. docs/metrics.md, "One set of numbers".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Corrects all ranks of a shard's head. The sampled times of the main thread are kept in raw_main_thread_ns,
// the corrected ones replace them in main_thread_ns. mpi_ns becomes the sum of the rank's rows in category
// mpi.
void correct_ranks(shard::ShardData& head);

// Corrects rows of values. correct_ranks() must have corrected their ranks before.
class TimeCorrector {
 public:
  explicit TimeCorrector(const shard::ShardData& head);  // refers to it

  // Appends the rank's corrected rows to `corrected`, in the order of RankRows. `rank` is a row of the head's
  // ranks. `values` are all of the rank's rows, in that order, without duplicates. The result has one row in
  // category mpi for each call path with MPI calls, and one row of path 0 for calls that no call path has.
  // cpu_ns and samples do not change.
  void correct(std::uint32_t rank, std::span<const shard::Value> values,
               std::vector<shard::Value>& corrected);
  // How many rows correct() may add to those of the rank.
  [[nodiscard]] std::size_t most_added_rows(std::uint32_t rank) const {
    return rank < head_.ranks.size() ? first_call_[rank + std::size_t{1}] - first_call_[rank] + 1 : 0;
  }

 private:
  struct Call {
    std::uint32_t path = 0;
    bool main_thread = true;
    std::uint64_t time_ns = 0;
  };
  void find_calls(std::uint32_t rank);

  const shard::ShardData& head_;
  bool cpu_clock_;
  std::vector<std::size_t> first_call_;    // by rank, into call_order_
  std::vector<std::uint32_t> call_order_;  // rows of mpi_calls
  std::vector<Call> calls_;                // of the rank at hand, by path, the main thread's first
};

// Corrects the table path_series and keeps its sampled times in raw_wall_ns. The rows of a path and of the
// paths below it then add up to the inclusive time of the path: a path with rows also gets the time of paths
// below it that have none. exclusive_ns: corrected times of all ranks, by path.
void correct_path_series(shard::ShardData& head, std::span<const std::uint64_t> exclusive_ns);
// Undoes correct_path_series().
void restore_path_series(shard::ShardData& head);

// Corrects all rows of data that is in memory, and its path_series. correct_ranks() comes first.
void correct_rows(shard::ShardData& data);
// Corrects ranks and rows.
inline void correct_times(shard::ShardData& data) {
  correct_ranks(data);
  correct_rows(data);
}

}  // namespace clusterprof::aggregator
