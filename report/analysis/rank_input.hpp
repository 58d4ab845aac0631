// SPDX-License-Identifier: BSD-3-Clause
// What the stages of an analysis get of one rank. They add up over ranks in integers and decide ties by the
// rank's position, so that the order in which ranks come and how they were divided among builders say
// nothing.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::report {

// A row of ShardData::values as functions and lines are charged with it: docs/metrics.md, "Functions and
// lines".
struct ChargedValue {
  std::uint32_t path = 0;
  shard::Category category = shard::Category::kNative;
  bool main_thread = true;
  std::uint64_t wall_ns = 0, cpu_ns = 0;
  friend bool operator==(const ChargedValue&, const ChargedValue&) = default;
};

// Into tables by call path and category.
constexpr std::size_t cell_of(std::uint32_t path, shard::Category category) {
  return std::size_t{path} * shard::kCategories + static_cast<std::size_t>(category);
}
constexpr std::size_t cell_of(const ChargedValue& value) { return cell_of(value.path, value.category); }

struct RankInput {
  std::uint32_t index = 0;     // row of the head's ranks
  std::uint32_t position = 0;  // among all ranks, by their numbers
  const shard::Rank* of = nullptr;
  bool sampled = false;   // without samples all that is known is MPI
  double main_scale = 0;  // of the main thread's charged time outside MPI: it then adds up to the categories
  std::span<const ChargedValue> charged;
  std::span<const shard::PathCounter> path_counters;
  std::span<const shard::DataAccess> data_accesses;
};

// To the nearest, halves up: llround() of what is not negative, without a call.
inline std::uint64_t round_ns(double ns) {
  constexpr double kMost = 9e18;  // three centuries, in damaged data
  if (!(ns < kMost)) return static_cast<std::uint64_t>(kMost);
  const auto whole = static_cast<std::int64_t>(ns);
  return static_cast<std::uint64_t>(whole + (ns - static_cast<double>(whole) >= 0.5 ? 1 : 0));
}

}  // namespace clusterprof::report
