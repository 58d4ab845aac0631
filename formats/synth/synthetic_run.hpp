// SPDX-License-Identifier: BSD-3-Clause
// Runs that never happened, for tests and measurements at sizes that no test machine has.
#pragma once

#include <cstdint>
#include <memory>

#include "formats/shard/shard_data.hpp"
#include "formats/synth/shape.hpp"
#include "formats/synth/timing.hpp"

namespace clusterprof::synth {

struct Program;  // formats/synth/program.hpp

// Makes the shard of one node (0 to nodes - 1) of an imaginary job. It depends on nothing but its arguments.
//
// The job is an iterative stencil code in Python and C++ on a ring of ranks (Isend, Irecv, Waitall with both
// neighbours, Allreduce). One rank has 1.5 times the work of the others, who wait for it. All ranks have the
// hot call paths; the rest is spread by a power law, and every rank has some of its own. The program reads an
// input in the region "setup". Everything else is in the region "iteration", and the halo exchange in
// "exchange" inside it. It writes a checkpoint ten times.
//
// The times of a rank add up to its elapsed time. Samples find less of MPI than its calls took: nothing of
// MPI_Isend, three quarters of MPI_Waitall. Counters are those of a plausible processor. Time series of ranks
// and of paths add up to what the ranks have.
//
// With events, all iterations are alike: the slow rank is the last to send to its neighbours, who wait for it
// in MPI_Waitall, and the last to enter MPI_Allreduce, where all others wait while it is in Solver.step.
// Every node has a clock of its own, with another origin and drift; their measurements are exact to
// kClockError_ns.
shard::ShardData shard_of_node(const Shape& shape, std::uint32_t node);

// Makes the shards of many nodes, and makes only once what they have in common.
class SyntheticRun {
 public:
  explicit SyntheticRun(const Shape& shape);
  ~SyntheticRun();
  SyntheticRun(const SyntheticRun&) = delete;
  SyntheticRun& operator=(const SyntheticRun&) = delete;
  // Several threads may call this at the same time.
  [[nodiscard]] shard::ShardData shard(std::uint32_t node) const;

 private:
  Shape shape_;
  std::unique_ptr<const Program> program_;
};

}  // namespace clusterprof::synth
