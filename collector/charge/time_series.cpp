// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/time_series.hpp"

namespace clusterprof::collector {

void SeriesBlock::follow(std::uint32_t doublings) {
  if (doublings_ == doublings) return;
  current_begin_ns_ = 1;
  current_end_ns_ = 0;
  const std::uint32_t steps = doublings - doublings_;
  doublings_ = doublings;
  if (rows_.empty()) return;
  const std::uint64_t begin = begin_ >> steps;
  for (std::size_t from = 0; from * columns_ < rows_.size(); ++from) {
    const std::size_t to = ((begin_ + from) >> steps) - begin;
    if (to == from) continue;
    for (std::uint32_t column = 0; column < columns_; ++column) {
      std::uint64_t& value = rows_[from * columns_ + column];
      merge(rows_[to * columns_ + column], value, column);
      value = 0;
    }
  }
  const std::size_t count = ((begin_ + rows_.size() / columns_ - 1) >> steps) - begin + 1;
  rows_.resize(count * columns_);
  begin_ = begin;
}

void SeriesBlock::set_columns(std::uint32_t columns) {
  std::vector<std::uint64_t> wider(columns_ == 0 ? 0 : rows_.size() / columns_ * columns);
  for (std::size_t from = 0; from < rows_.size(); ++from)
    wider[from / columns_ * columns + from % columns_] = rows_[from];
  rows_.swap(wider);
  columns_ = columns;
  current_begin_ns_ = 1;
  current_end_ns_ = 0;
}

std::uint64_t* SeriesBlock::row(std::uint64_t bin) {
  if (rows_.empty()) begin_ = bin;
  if (bin < begin_) {
    rows_.insert(rows_.begin(), static_cast<std::size_t>(begin_ - bin) * columns_, 0);
    begin_ = bin;
  }
  const auto at = static_cast<std::size_t>(bin - begin_) * columns_;
  if (at >= rows_.size()) rows_.resize(at + columns_);
  return &rows_[at];
}

void SeriesBlock::spread_over_bins(TimeGrid& grid, std::uint32_t column, std::uint64_t begin_ns,
                                   std::uint64_t end_ns, std::uint64_t amount) {
  begin_ns = std::max(begin_ns, grid.start_mono_ns());
  end_ns = std::max(begin_ns, end_ns);
  grid.reach(end_ns == begin_ns ? end_ns : end_ns - 1);
  follow(grid.doublings());
  if (column >= columns_) set_columns(column + 1);
  const std::uint64_t first = grid.bin(begin_ns), last = end_ns == begin_ns ? first : grid.bin(end_ns - 1);
  const std::uint64_t span = end_ns - begin_ns;
  std::uint64_t given = 0;
  for (std::uint64_t bin = first; bin < last; ++bin) {
    const std::uint64_t passed = grid.begin_of(bin + 1) - begin_ns;
    const std::uint64_t until =
        amount == span ? passed
                       : std::min(amount, static_cast<std::uint64_t>(static_cast<double>(amount) *
                                                                     static_cast<double>(passed) /
                                                                     static_cast<double>(span)));
    if (until <= given) continue;
    row(bin)[column] += until - given;
    given = until;
  }
  std::uint64_t* const place = row(last);
  place[column] += amount - given;
  current_row_ = static_cast<std::size_t>(place - rows_.data());
  current_begin_ns_ = std::max(grid.begin_of(last), grid.start_mono_ns());
  current_end_ns_ = grid.begin_of(last + 1);
}

void SeriesBlock::level(TimeGrid& grid, std::uint32_t column, std::uint64_t begin_ns, std::uint64_t end_ns,
                        std::uint64_t value) {
  if (value == 0 || !grid.begun()) return;
  begin_ns = std::max(begin_ns, grid.start_mono_ns());
  end_ns = std::max(begin_ns, end_ns);
  grid.reach(end_ns);
  follow(grid.doublings());
  if (column >= columns_) set_columns(column + 1);
  current_begin_ns_ = 1;  // rows may move
  current_end_ns_ = 0;
  const std::uint64_t last = grid.bin(end_ns == begin_ns ? end_ns : end_ns - 1);
  for (std::uint64_t bin = grid.bin(begin_ns); bin <= last; ++bin) {
    std::uint64_t& place = row(bin)[column];
    place = std::max(place, value);
  }
}

void SeriesBlock::add(SeriesBlock other) {
  if (other.empty()) return;
  const std::uint32_t doublings = std::max(doublings_, other.doublings_);
  follow(doublings);
  other.follow(doublings);
  if (other.columns_ > columns_) set_columns(other.columns_);
  current_begin_ns_ = 1;
  current_end_ns_ = 0;
  for (std::size_t from = 0; from < other.rows_.size(); ++from) {
    if (other.rows_[from] == 0) continue;
    const auto column = static_cast<std::uint32_t>(from % other.columns_);
    merge(row(other.begin_ + from / other.columns_)[column], other.rows_[from], column);
  }
}

}  // namespace clusterprof::collector
