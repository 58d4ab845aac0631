// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::report {

// Sampled wall time of the rank's main thread in all categories but mpi.
std::uint64_t sampled_outside_mpi_ns(const shard::Rank& rank);

// How much of its elapsed time a rank spent outside MPI, per nanosecond that its main thread's
// samples say so: the factor that lets sampled time and measured MPI time add up to elapsed
// time. 1 for ranks that did not use MPI, under the CPU clock, and without samples outside MPI.
double sampled_scale(const shard::Rank& rank, bool cpu_clock);

// ShardData::values as functions and lines are charged with them (docs/metrics.md, "Functions and
// lines"). For a rank that used MPI, under the wall clock, MPI paths get the time measured at
// their calls instead of the sampled one, and the main thread's other paths are scaled by
// sampled_scale. Rows that refer to no rank or path are left out.
std::vector<shard::Value> charged_values(const shard::ShardData& data);

}  // namespace clusterprof::report
