// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/rank_input.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {

// Sampled wall time of the rank's main thread in all categories but mpi.
std::uint64_t sampled_outside_mpi_ns(const shard::Rank& rank);

// How much of its elapsed time a rank spent outside MPI, per nanosecond that its main thread's
// samples say so: the factor that lets sampled time and measured MPI time add up to elapsed
// time. 1 for ranks that did not use MPI, under the CPU clock, and without samples outside MPI.
double sampled_scale(const shard::Rank& rank, bool cpu_clock);

// Gives a rank's values the time that functions and lines are charged with. For a rank that used MPI, under
// the wall clock, MPI paths get the time measured at their calls instead of the sampled one, and the main
// thread's other paths are scaled by sampled_scale.
class TimeCharger {
 public:
  // Refers to it.
  explicit TimeCharger(const shard::ShardData& head);

  // `rank`: row of the head's ranks. Rows that refer to no path or category are left out. Valid until the
  // next call.
  std::span<const ChargedValue> charge(std::uint32_t rank, std::span<const shard::Value> values);
  // MPI paths of the rank get the time measured at their calls.
  [[nodiscard]] bool measures_calls(std::uint32_t rank) const;

 private:
  const shard::ShardData& head_;
  bool cpu_clock_;
  ByRank calls_;
  std::vector<ChargedValue> charged_;
};

}  // namespace clusterprof::report
