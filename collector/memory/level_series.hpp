// SPDX-License-Identifier: BSD-3-Clause
// A level over the bins of a TimeGrid, as its integral: bins of different grids can be joined by adding, and
// what lies in one bin is divided by its length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collector/charge/time_series.hpp"

namespace clusterprof::collector {

class LevelSeries {
 public:
  // The level was that many bytes during [begin_ns, end_ns].
  void hold(TimeGrid& grid, std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t bytes) {
    begin_ns = std::max(begin_ns, grid.start_mono_ns());
    if (bytes == 0 || begin_ns >= end_ns || !grid.begun()) return;
    grid.reach(end_ns - 1);
    follow(grid.doublings());
    const std::uint64_t last = grid.bin(end_ns - 1);
    for (std::uint64_t bin = grid.bin(begin_ns); bin <= last; ++bin) {
      const std::uint64_t until = bin == last ? end_ns : grid.begin_of(bin + 1);
      place(bin) += static_cast<double>(bytes) * static_cast<double>(until - begin_ns);
      begin_ns = until;
    }
  }

  // Calls visit(bin, kib_ms) for bins that are not empty. The grid's first bin is 0.
  template <typename Visit>
  void for_each(const TimeGrid& grid, Visit&& visit) {
    constexpr double kUnit = 1024.0 * 1e6;  // KiB times ms, of bytes times ns
    follow(grid.doublings());
    for (std::size_t i = 0; i < sums_.size(); ++i)
      if (const auto sum = static_cast<std::uint64_t>(std::min(sums_[i] / kUnit, 0x1p62) + 0.5); sum != 0)
        visit(static_cast<std::uint32_t>(begin_ + i - grid.first()), sum);
  }

 private:
  void follow(std::uint32_t doublings) {
    const std::uint32_t steps = doublings - doublings_;
    doublings_ = doublings;
    if (steps == 0 || sums_.empty()) return;
    const std::uint64_t begin = begin_ >> steps;
    std::vector<double> wider(((begin_ + sums_.size() - 1) >> steps) - begin + 1);
    for (std::size_t i = 0; i < sums_.size(); ++i) wider[((begin_ + i) >> steps) - begin] += sums_[i];
    sums_ = std::move(wider);
    begin_ = begin;
  }
  double& place(std::uint64_t bin) {
    if (sums_.empty()) begin_ = bin;
    if (bin < begin_) {
      sums_.insert(sums_.begin(), static_cast<std::size_t>(begin_ - bin), 0);
      begin_ = bin;
    }
    const auto at = static_cast<std::size_t>(bin - begin_);
    if (at >= sums_.size()) sums_.resize(at + 1);
    return sums_[at];
  }

  std::uint32_t doublings_ = 0;
  std::uint64_t begin_ = 0;  // bin of the first sum
  std::vector<double> sums_;
};

}  // namespace clusterprof::collector
