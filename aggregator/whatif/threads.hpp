// SPDX-License-Identifier: BSD-3-Clause
// How much longer OpenMP regions take with another number of threads. docs/whatif.md, "Numbers of threads".
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::whatif {

// By path of `merged`, what its time outside MPI is multiplied by: 1 outside of regions. Empty: no region is
// recorded with its place.
std::vector<float> factors_of_threads(const shard::ShardData& merged, double threads);

}  // namespace clusterprof::aggregator::whatif
