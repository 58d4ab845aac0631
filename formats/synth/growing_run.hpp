// SPDX-License-Identifier: BSD-3-Clause
// Runs of a program whose functions take times that follow known laws of the number of ranks, on one node.
#pragma once

#include <array>
#include <cstdint>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::synth {

struct GrowingShape {
  std::uint32_t ranks = 1;
  std::uint64_t seed = 1;  // of the noise: another one is another run of the same program
  double noise = 0.05;     // standard deviation of each function's time, as a share of it
  bool weak = false;       // the work of each rank stays the same, not that of all together
};

// A function of the program; all ranks spend the same time in it.
struct GrowingPart {
  const char* name;
  double exponent;  // of the number of ranks, in the term that grows or falls; 0 also of a logarithm
  double (*rank_s)(double ranks);
};
// `solve` shrinks unless scaling is weak. `reduce` calls MPI_Allreduce, where it spends all of its time.
inline constexpr std::size_t kGrowingParts = 8;
extern const std::array<GrowingPart, kGrowingParts> kGrowing;
inline constexpr double kWeakSolve_s = 60;

shard::ShardData growing_run(const GrowingShape& shape);

}  // namespace clusterprof::synth
