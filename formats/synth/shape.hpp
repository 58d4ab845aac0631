// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace clusterprof::synth {

// The size of an imaginary run.
struct Shape {
  std::uint32_t nodes = 1;
  std::uint32_t ranks_per_node = 1;
  std::uint32_t paths = 200;  // call paths that ranks can have, about
  // 0: every rank has most of the paths, and some that no other rank has, so a run of many ranks has many
  // paths. Otherwise every rank has at least this many. The hottest paths are in all ranks; the rarer a path,
  // the fewer ranks have it, by a power law; some paths belong to a part of the grid and its few ranks. All
  // ranks together have `paths`, and the shard of a node has the paths of its ranks.
  std::uint32_t paths_per_rank = 0;
  std::uint64_t seed = 1;
  std::uint32_t events = 0;    // MPI events per rank, about; 0: 1200 iterations without any event
  std::uint32_t bins = 128;    // of the time series, at most 1024; 0: no time series
  std::uint32_t counters = 4;  // at most 4
};

// The MPI events of one iteration: two MPI_Isend, MPI_Waitall with two sends and two receives, MPI_Allreduce.
inline constexpr std::uint32_t kEventsPerIteration = 7;

}  // namespace clusterprof::synth
