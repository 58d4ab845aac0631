// SPDX-License-Identifier: BSD-3-Clause
// Quantities over the time of the run. They are kept in bins whose width doubles whenever the run outgrows
// them, so memory is bounded for any length. Bins are numbered from 1970 on: bin n of width w holds the real
// time [n * w, (n + 1) * w), so the bins of all nodes can be joined.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

// The bins that all series of a node have. Times are of the monotonic clock.
class TimeGrid {
 public:
  static constexpr std::uint32_t kMaxBins = shard::TimeAxis::kMaxBins;
  // Limit of ranks times bins: large jobs have fewer bins, so that their files stay small, but at least
  // kMinBins.
  static constexpr std::uint32_t kMaxCells = 1u << 18, kMinBins = 128;
  explicit TimeGrid(std::uint32_t most_bins = kMaxBins) : most_bins_(most_bins) {}
  void set_ranks(std::uint32_t ranks) {
    most_bins_ = std::clamp(kMaxCells / std::max(ranks, 1u), kMinBins, kMaxBins);
    if (begun_) double_width();
  }

  // Starts the bins at this time. What is reported for earlier times goes into the first bin.
  void begin(std::uint64_t mono_ns, std::int64_t utc_ns) {
    if (begun_ || utc_ns < 0 || static_cast<std::uint64_t>(utc_ns) >= shard::TimeAxis::kEnd_utc_ns) return;
    begun_ = true;
    start_mono_ns_ = mono_ns;
    utc_offset_ns_ = static_cast<std::uint64_t>(utc_ns) - mono_ns;
    first_ = last_ = bin(mono_ns);
    next_bin_mono_ns_ = begin_of(last_ + 1);
  }
  // A process started earlier. Moves the start back, unless the difference is too large to be true.
  void reach_back(std::uint64_t mono_ns) {
    constexpr std::uint64_t kMax_ns = 10'000'000'000;
    const std::uint64_t start_utc_ns = start_mono_ns_ + utc_offset_ns_;
    if (!begun_ || mono_ns >= start_mono_ns_) return;
    const std::uint64_t back_ns = start_mono_ns_ - mono_ns;
    if (back_ns > kMax_ns || back_ns > start_utc_ns) return;
    start_mono_ns_ = mono_ns;
    first_ = bin(mono_ns);
    double_width();
  }
  [[nodiscard]] bool begun() const noexcept { return begun_; }
  [[nodiscard]] std::uint64_t start_mono_ns() const noexcept { return start_mono_ns_; }
  // Whether begin() was called.
  [[nodiscard]] std::int64_t utc_ns(std::uint64_t mono_ns) const noexcept {
    return static_cast<std::int64_t>(mono_ns + utc_offset_ns_);
  }

  // Makes sure that there is a bin for this time.
  void reach(std::uint64_t mono_ns) {
    if (mono_ns < next_bin_mono_ns_ || !begun_) return;
    last_ = bin(mono_ns);
    double_width();
  }

  [[nodiscard]] std::uint64_t width_ns() const noexcept {
    return shard::TimeAxis::kFirstBin_ns << doublings_;
  }
  [[nodiscard]] std::uint32_t doublings() const noexcept { return doublings_; }
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
  [[nodiscard]] std::uint64_t last() const noexcept { return last_; }
  // The number of the bin that contains a time, and the time at which a bin starts.
  [[nodiscard]] std::uint64_t bin(std::uint64_t mono_ns) const noexcept {
    return (mono_ns + utc_offset_ns_) / shard::TimeAxis::kFirstBin_ns >> doublings_;
  }
  [[nodiscard]] std::uint64_t begin_of(std::uint64_t number) const noexcept {
    return number * width_ns() - utc_offset_ns_;
  }

 private:
  // Until there are not too many bins.
  void double_width() {
    while (last_ - first_ >= most_bins_) {
      ++doublings_;
      first_ >>= 1;
      last_ >>= 1;
    }
    next_bin_mono_ns_ = begin_of(last_ + 1);
  }

  bool begun_ = false;
  std::uint32_t most_bins_;
  std::uint32_t doublings_ = 0;
  std::uint64_t start_mono_ns_ = 0;
  std::uint64_t utc_offset_ns_ = 0;  // modulo 2^64
  std::uint64_t first_ = 0, last_ = 0;
  std::uint64_t next_bin_mono_ns_ = 0;
};

// Some series over the bins of a TimeGrid, from the first bin that is not empty. Adjusts to changes of the
// grid whenever it is used.
class SeriesBlock {
 public:
  SeriesBlock() = default;
  // maximum_columns: a bit for each column that is a level (a maximum, not a sum).
  explicit SeriesBlock(std::uint32_t columns, std::uint32_t maximum_columns = 0)
      : columns_(columns), maxima_(maximum_columns) {}

  // Spreads an amount over [begin_ns, end_ns] in proportion to the overlap with each bin. The sum is exact.
  void spread(TimeGrid& grid, std::uint32_t column, std::uint64_t begin_ns, std::uint64_t end_ns,
              std::uint64_t amount) {
    if (amount == 0 || !grid.begun()) return;
    if (begin_ns >= current_begin_ns_ && end_ns <= current_end_ns_ && doublings_ == grid.doublings() &&
        column < columns_) {
      rows_[current_row_ + column] += amount;
      return;
    }
    spread_over_bins(grid, column, begin_ns, end_ns, amount);
  }
  // Sets a level that held during [begin_ns, end_ns].
  void level(TimeGrid& grid, std::uint32_t column, std::uint64_t begin_ns, std::uint64_t end_ns,
             std::uint64_t value);
  // Adds another block with the same grid and columns.
  void add(SeriesBlock other);

  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return rows_.capacity() * sizeof(std::uint64_t); }
  // Calls visit(column, bin, value) for values that are not 0. The grid's first bin is 0.
  template <typename Visit>
  void for_each(const TimeGrid& grid, Visit&& visit) {
    follow(grid.doublings());
    for (std::uint32_t column = 0; column < columns_; ++column) {
      for (std::size_t row = 0; row * columns_ < rows_.size(); ++row) {
        const std::uint64_t value = rows_[row * columns_ + column];
        if (value != 0) visit(column, static_cast<std::uint32_t>(begin_ + row - grid.first()), value);
      }
    }
  }

 private:
  void spread_over_bins(TimeGrid& grid, std::uint32_t column, std::uint64_t begin_ns, std::uint64_t end_ns,
                        std::uint64_t amount);
  void follow(std::uint32_t doublings);
  void set_columns(std::uint32_t columns);
  std::uint64_t* row(std::uint64_t bin);
  void merge(std::uint64_t& into, std::uint64_t value, std::uint32_t column) const noexcept {
    if (column < 32 && (maxima_ >> column & 1u) != 0) {
      into = std::max(into, value);
    } else {
      into += value;
    }
  }

  std::uint32_t columns_ = 0, maxima_ = 0;
  std::uint32_t doublings_ = 0;
  std::uint64_t begin_ = 0;          // bin of the first row
  std::vector<std::uint64_t> rows_;  // one after the other
  // The row that was used last.
  std::uint64_t current_begin_ns_ = 1, current_end_ns_ = 0;
  std::size_t current_row_ = 0;
};

}  // namespace clusterprof::collector
