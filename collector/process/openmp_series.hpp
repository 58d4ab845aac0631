// SPDX-License-Identifier: BSD-3-Clause
// What a process's OpenMP regions took over time: the columns of shard::kOmpSeries. The process tells sums of
// regions that have ended, and since when the main thread is in one. So what has ended between two looks
// began when the look before saw no region, or with the one that it saw.
#pragma once

#include <cstdint>

#include "collector/charge/time_series.hpp"
#include "formats/shard/openmp_sums.hpp"

namespace clusterprof::collector {

inline constexpr std::uint32_t kOpenMpColumns = static_cast<std::uint32_t>(shard::kOmpSeries.size());

class OpenMpSeries {
 public:
  // How often it is worth looking.
  static constexpr std::uint64_t kEvery_ns = 100'000'000;

  [[nodiscard]] bool is_due(std::uint64_t now_ns) const noexcept { return now_ns >= looked_ns_ + kEvery_ns; }
  // `sums`: of what has ended. `under_way_since_ns`: when the region began in which the main thread is now;
  // 0: it is in none. `start_ns`: of the process. All of the past; the grid has begun.
  void look(TimeGrid& grid, const shard::OmpSums& sums, std::uint64_t under_way_since_ns,
            std::uint64_t start_ns, std::uint64_t now_ns);

  // The amounts in the series are exactly those of the last look.
  [[nodiscard]] const SeriesBlock& block() const noexcept { return block_; }

 private:
  SeriesBlock block_{kOpenMpColumns};
  shard::OmpSums known_;            // that are in the series
  std::uint64_t until_ns_ = 0;      // what has ended by then is in the series
  std::uint64_t in_region_ns_ = 0;  // from until_ns_ to then the main thread was in one region; 0: in none
  std::uint64_t looked_ns_ = 0;
};

}  // namespace clusterprof::collector
