// SPDX-License-Identifier: BSD-3-Clause
// What the stages of an analysis get of one rank. They add up integers and decide ties by the rank's
// position, so that the result depends neither on the order of ranks nor on how they were divided among
// builders.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::report {

struct RankInput {
  std::uint32_t index = 0;     // row of the head's ranks
  std::uint32_t position = 0;  // among all ranks, by their numbers
  const shard::Rank* of = nullptr;
  bool sampled = false;                  // without samples all that is known is MPI
  std::span<const shard::Value> values;  // that have a time
  std::span<const std::uint32_t> cells;  // of the values, one by one: their numbers in Cells
  std::span<const shard::PathCounter> path_counters;
  std::span<const shard::DataAccess> data_accesses;
};

}  // namespace clusterprof::report
