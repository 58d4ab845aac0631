// SPDX-License-Identifier: BSD-3-Clause
// How ranks share the processors of their nodes, and how wrong a prediction may be because they share them
// differently with a change: docs/whatif.md, "The error".
#pragma once

#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::whatif {

// Per node, that its ranks may run on; 0: not known.
std::vector<double> processors_of_nodes(const shard::ShardData& merged);

// Of a rank's time in MPI, for how much of it the main thread wanted a processor, on it or waiting for one:
// 1 where the library waits in a loop, 0 where it sleeps or no sample tells.
std::vector<double> wanted_in_mpi(const shard::ShardData& merged);

// How long main threads had no processor, on the mean of the ranks; and the other threads of the rank whose
// others had none for longest, on the mean of these.
struct Lacked {
  double main_s = 0, others_s = 0;
};
Lacked lacked_processors(const shard::ShardData& merged);

// What the main threads of a node do with its processors in a run, or in a replay of it.
struct NodeUse {
  double ran_s = 0;   // outside MPI, on a processor
  double wanted = 0;  // the threads that want a processor, on the mean over the run
};

// By what share the waiting for a processor is more or less than it was, if so many threads want one.
// processors: 0 is not known.
double change_of_shortage(double wanted_before, double wanted_after, double processors);

// How late a thread may be each time another one wakes it up: until those that want the same processor have
// had their turn.
double turn_s(const shard::ShardData& merged, const std::vector<double>& processors);

}  // namespace clusterprof::aggregator::whatif
