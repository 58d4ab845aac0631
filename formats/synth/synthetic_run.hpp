// SPDX-License-Identifier: BSD-3-Clause
// Runs that never happened, for tests and measurements at sizes no test machine has.
#pragma once

#include <cstdint>
#include <memory>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::synth {

struct Shape {
  std::uint32_t nodes = 1;
  std::uint32_t ranks_per_node = 1;
  std::uint32_t paths = 200;  // call paths all ranks can have, about
  // 0: a rank has most of them, and some that no other has, so that a run of many ranks has many. Else at
  // least so many per rank: the hottest are everywhere, the others the fewer ranks have them the rarer they
  // are, by a power law, and some belong to a part of the grid and its few ranks. Of all ranks together there
  // are `paths`, of each node its shard has those of its ranks.
  std::uint32_t paths_per_rank = 0;
  std::uint64_t seed = 1;
  std::uint32_t events = 0;    // MPI events per rank, about; 0: 1200 iterations without any
  std::uint32_t bins = 128;    // of the time series, at most (1024); 0 for none
  std::uint32_t counters = 4;  // at most that
};

// Of the MPI events of an iteration: two MPI_Isend, MPI_Waitall with two sends and two receives,
// MPI_Allreduce.
inline constexpr std::uint32_t kEventsPerIteration = 7;

// The shard of one node (0 .. nodes-1) of an imaginary job: an iterative stencil code in Python
// and C++ on a ring of ranks (Isend, Irecv, Waitall with both neighbours, Allreduce), one rank of
// which has 1.5 times the work of the others, who wait for it. All ranks have the hot call
// paths; the rest is spread by a power law, and every rank has some of its own. Times of a rank
// add up to its elapsed time. Samples find less of MPI than its calls took: nothing of MPI_Isend, three
// quarters of MPI_Waitall. It reads an input in the region "setup"; the rest is in "iteration", the halo
// exchange in "exchange" inside that, and writes a checkpoint ten times. Counters are those of a
// processor that has some. Time series, of ranks and of
// paths, add up to what the ranks have. Depends on nothing but its arguments.
//
// With events, all iterations are alike: the slow rank is the last to send to its neighbours, who wait for it
// in MPI_Waitall, and the last to enter MPI_Allreduce, where all others wait; it is in Solver.step then.
// Every node has a clock of its own, with another origin and drift; the measurements of both are exact to
// kClockError_ns.
shard::ShardData shard_of_node(const Shape& shape, std::uint32_t node);

// The same for many nodes: makes once what they have in common.
class SyntheticRun {
 public:
  explicit SyntheticRun(const Shape& shape);
  ~SyntheticRun();
  SyntheticRun(const SyntheticRun&) = delete;
  SyntheticRun& operator=(const SyntheticRun&) = delete;
  // Reentrant.
  [[nodiscard]] shard::ShardData shard(std::uint32_t node) const;

  struct Program;

 private:
  Shape shape_;
  std::unique_ptr<const Program> program_;
};

// The rank that all others wait for.
std::uint32_t slowest_rank(const Shape& shape);

// One iteration of a rank, in nanoseconds since it began for all. It begins with work in Solver.step and ends
// with MPI_Allreduce; between MPI_Waitall and that lies work in Solver.residual.
struct Iteration {
  std::uint64_t isend = 0, call = 0;  // enter of the first MPI_Isend; length of each of both
  std::uint64_t waitall = 0, waitall_exit = 0;
  std::uint64_t allreduce = 0, end = 0;  // its exit
};
Iteration iteration_of(const Shape& shape, std::uint32_t rank);
std::uint64_t iterations(const Shape& shape);

inline constexpr std::uint64_t kClockError_ns = 500;

}  // namespace clusterprof::synth
