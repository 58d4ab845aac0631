// SPDX-License-Identifier: BSD-3-Clause
// Time series of the imaginary program. Internal to formats/synth.
#pragma once

#include <array>
#include <cstdint>

#include "formats/shard/shard_data.hpp"
#include "formats/synth/program.hpp"
#include "formats/synth/timing.hpp"

namespace clusterprof::synth {

inline constexpr std::array<const char*, 4> kCounters = {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM",
                                                         "PAPI_BR_MSP"};
using Counts = std::array<std::uint64_t, kCounters.size()>;  // in the order of kCounters

// Adds the series of one node to its shard.
class SeriesBuilder {
 public:
  SeriesBuilder(const Shape& shape, const Landmarks& program, std::uint32_t node, shard::ShardData& data,
                shard::PathInterner& interner)
      : shape_(shape), program_(program), node_(node), data_(data), interner_(interner) {}

  // Adds the list of series and the time axis.
  void describe();
  void add_rank(std::uint32_t row, const shard::Rank& rank, const FileTimes& files, const Counts& counts);
  // After all ranks.
  void add_node();
  void add_paths();

 private:
  [[nodiscard]] std::uint64_t start_ns() const;  // of the node
  [[nodiscard]] std::uint32_t bins_of(const shard::TimeAxis& axis) const;
  [[nodiscard]] shard::TimeAxis axis_of(std::uint32_t max_bins) const;

  const Shape& shape_;
  const Landmarks& program_;
  std::uint32_t node_;
  shard::ShardData& data_;
  shard::PathInterner& interner_;
  std::uint32_t bins_ = 0, first_node_series_ = 0;
};

}  // namespace clusterprof::synth
