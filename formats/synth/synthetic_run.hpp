// SPDX-License-Identifier: BSD-3-Clause
// Runs that never happened, for tests and measurements at sizes no test machine has.
#pragma once

#include <cstdint>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::synth {

struct Shape {
  std::uint32_t nodes = 1;
  std::uint32_t ranks_per_node = 1;
  std::uint32_t paths = 200;  // call paths all ranks can have, about
  std::uint64_t seed = 1;
};

// The shard of one node (0 .. nodes-1) of an imaginary job: an iterative stencil code in Python
// and C++ on a ring of ranks (Isend, Irecv, Waitall with both neighbours, Allreduce), one rank of
// which has 1.5 times the work of the others, who wait for it. All ranks have the hot call
// paths; the rest is spread by a power law, and every rank has some of its own. Times of a rank
// add up to its elapsed time. Depends on nothing but its arguments.
shard::ShardData shard_of_node(const Shape& shape, std::uint32_t node);

// The rank that all others wait for.
std::uint32_t slowest_rank(const Shape& shape);

}  // namespace clusterprof::synth
