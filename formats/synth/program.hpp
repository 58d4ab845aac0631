// SPDX-License-Identifier: BSD-3-Clause
// The call paths of the imaginary program, and which ranks have which of them. Internal to formats/synth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "formats/synth/shape.hpp"

namespace clusterprof::synth {

// Call paths that every rank has.
struct Landmarks {
  std::uint32_t setup, iteration, exchange_region;  // regions
  std::uint32_t step, exchange, isend, waitall, residual, allreduce;
  std::uint32_t load, save, sync;           // callers of I/O
  std::uint32_t reading, writing, syncing;  // system calls below these
};

// Every node's tables begin with these.
struct Program {
  explicit Program(const Shape& shape);

  shard::ShardData tables;  // only strings, frames and paths
  Landmarks landmarks{};
  std::vector<std::uint32_t> shared;  // the hottest first
  // Only if Shape::paths_per_rank is set:
  std::vector<std::uint64_t> chance;  // that a rank has the path, in units of 2^-64; by index into `shared`
  std::vector<double> weight;         // its share of the rank's time; by index into `shared`
  std::vector<std::uint32_t> blocks;  // call paths of parts of the grid, `paths_per_block` for each part
  std::size_t paths_per_block = 0;
};

}  // namespace clusterprof::synth
