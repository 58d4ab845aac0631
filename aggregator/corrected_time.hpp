// SPDX-License-Identifier: BSD-3-Clause
// The times that a profile stores, and everything that shows a run reads and adds up: measured where calls
// are timed, sampled elsewhere, and so that the main thread's categories of a rank add up to its recorded
// time. docs/metrics.md, "One set of numbers".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// For all ranks of a shard's head: keeps what samples said of the main thread in raw_main_thread_ns, and puts
// the corrected times into main_thread_ns. mpi_ns becomes what the rank's rows in category mpi add up to.
void correct_ranks(shard::ShardData& head);

// Corrects rows of values, of ranks that correct_ranks() was there before.
class TimeCorrector {
 public:
  explicit TimeCorrector(const shard::ShardData& head);  // refers to it

  // Appends the rank's rows to `corrected`, in the order of RankRows. `rank`: row of the head's ranks;
  // values: all of the rank's, in that order, no two alike. There is then a row in category mpi for each
  // call path with MPI calls, and one of path 0 for calls that no call path has. cpu_ns and samples stay
  // as they were.
  void correct(std::uint32_t rank, std::span<const shard::Value> values,
               std::vector<shard::Value>& corrected);

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

// Corrects table path_series, which has sampled times, and keeps these in raw_wall_ns. A path with rows then
// has, in its own rows and in those of the paths below it together, its inclusive time: its rows get the
// time of those below that have none. exclusive_ns: corrected times of all ranks, by path.
void correct_path_series(shard::ShardData& head, std::span<const std::uint64_t> exclusive_ns);
// Takes that back.
void restore_path_series(shard::ShardData& head);

// Corrects all rows of data that is in memory, and its path_series.
void correct_rows(shard::ShardData& data);
// Ranks and rows.
inline void correct_times(shard::ShardData& data) {
  correct_ranks(data);
  correct_rows(data);
}

}  // namespace clusterprof::aggregator
