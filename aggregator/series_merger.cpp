// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/series_merger.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace clusterprof::aggregator {

using namespace shard;

namespace {

int shift_between(std::uint64_t narrow_ns, std::uint64_t wide_ns) {
  return std::countr_zero(wide_ns / narrow_ns);
}

}  // namespace

std::uint64_t SeriesMerger::bins(std::uint64_t bin_ns) const {
  return end_ns_ == 0 ? 1 : (end_ns_ - 1) / bin_ns - begin_ns_ / bin_ns + 1;
}

void SeriesMerger::put(std::vector<Cell>& cells, const Cell& cell) const {
  if (cells.empty() || cells.back().series != cell.series || cells.back().bin != cell.bin) {
    cells.push_back(cell);
    return;
  }
  std::uint64_t& value = cells.back().value;
  value = series_[cell.series].kind == SeriesKind::kSum ? value + cell.value : std::max(value, cell.value);
}

void SeriesMerger::widen(std::uint64_t bin_ns) {
  const int shift = shift_between(bin_ns_, bin_ns);
  if (shift == 0) return;
  bin_ns_ = bin_ns;
  rows_ = 0;
  std::vector<Cell> wider;
  for (std::vector<Track>* tracks : {&rank_tracks_, &node_tracks_}) {
    for (Track& track : *tracks) {
      wider.clear();
      const std::uint64_t first = track.first_bin >> shift;
      for (const Cell& cell : track.cells)
        put(wider, {cell.series, static_cast<std::uint32_t>(((track.first_bin + cell.bin) >> shift) - first),
                    cell.value});
      track.first_bin = first;
      if (wider.size() != track.cells.size())
        track.cells = std::vector<Cell>(wider.begin(), wider.end());  // gives memory back, assign() would not
      else
        std::copy(wider.begin(), wider.end(), track.cells.begin());
    }
  }
  for (const Track& track : rank_tracks_) rows_ += track.cells.size();
}

template <typename Row>
void SeriesMerger::append(const TimeAxis& axis, const std::vector<Row>& rows, std::uint32_t Row::*owner,
                          const std::vector<std::uint32_t>& new_series, const std::vector<bool>& left_out,
                          std::size_t first_track, std::vector<Track>& tracks) {
  const int shift = shift_between(axis.bin_ns, bin_ns_);
  const std::uint64_t first = static_cast<std::uint64_t>(axis.origin_utc_ns) / axis.bin_ns;
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < rows.size();) {
    const std::uint32_t of = rows[i].*owner;
    cells.clear();
    for (; i < rows.size() && rows[i].*owner == of; ++i) {
      const Row& row = rows[i];
      if (row.value == 0) continue;
      const std::uint64_t bin = ((first + row.bin) >> shift) - (first >> shift);
      put(cells, {new_series[row.series], static_cast<std::uint32_t>(bin), row.value});
    }
    if (!left_out.empty() && left_out[of]) continue;
    tracks[first_track + of] = {first >> shift, std::vector<Cell>(cells.begin(), cells.end())};
  }
}

void SeriesMerger::add(const ShardData& input, std::size_t nodes,
                       const std::vector<std::uint32_t>& new_string, const std::vector<bool>& left_out) {
  std::vector<std::uint32_t> new_series;
  for (Series series : input.series) {
    series.name = new_string[series.name];
    const auto [entry, added] =
        series_index_.try_emplace({series.name, series.kind}, static_cast<std::uint32_t>(series_.size()));
    if (added) series_.push_back(series);
    new_series.push_back(entry->second);
  }
  const std::size_t first_rank = rank_tracks_.size(), first_node = node_tracks_.size();
  rank_tracks_.resize(first_rank + input.ranks.size());
  node_tracks_.resize(first_node + nodes);
  const TimeAxis& axis = input.time_axis;
  if (axis.bin_ns == 0) return;

  const auto origin_ns = static_cast<std::uint64_t>(axis.origin_utc_ns);
  begin_ns_ = bin_ns_ == 0 ? origin_ns : std::min(begin_ns_, origin_ns);
  const auto extend = [&](const auto& row) {
    if (row.value != 0) end_ns_ = std::max(end_ns_, origin_ns + (row.bin + 1) * axis.bin_ns);
  };
  for (const RankSeries& row : input.rank_series)
    if (left_out.empty() || !left_out[row.rank]) extend(row);
  for (const NodeSeries& row : input.node_series) extend(row);
  if (bin_ns_ == 0) bin_ns_ = axis.bin_ns;
  std::uint64_t bin_ns = std::max(bin_ns_, axis.bin_ns);
  while (bins(bin_ns) > TimeAxis::kMaxBins) bin_ns *= 2;
  widen(bin_ns);

  append(axis, input.rank_series, &RankSeries::rank, new_series, left_out, first_rank, rank_tracks_);
  append(axis, input.node_series, &NodeSeries::node, new_series, {}, first_node, node_tracks_);
  for (std::size_t i = first_rank; i < rank_tracks_.size(); ++i) rows_ += rank_tracks_[i].cells.size();
  while (rows_ >= most_rows_ && bins(bin_ns_) > 2 && bin_ns_ < TimeAxis::kWidestBin_ns) widen(2 * bin_ns_);
}

// Appends the track's cells in the form of the result: bins count from the first bin of all tracks, series
// have their new numbers, and cells are in order.
void SeriesMerger::arrange(const std::vector<std::uint32_t>& new_series, const Track& track,
                           std::vector<Cell>& cells) const {
  const std::uint64_t origin = begin_ns_ / bin_ns_;
  for (const Cell& cell : track.cells)
    cells.push_back({new_series[cell.series], static_cast<std::uint32_t>(track.first_bin - origin) + cell.bin,
                     cell.value});
  const auto before = [](const Cell& a, const Cell& b) {
    return std::tie(a.series, a.bin) < std::tie(b.series, b.bin);
  };
  if (!std::is_sorted(cells.begin(), cells.end(), before)) std::sort(cells.begin(), cells.end(), before);
}

void SeriesMerger::finish(const std::vector<std::uint32_t>& new_rank,
                          const std::vector<std::uint32_t>& new_node,
                          const std::vector<std::uint32_t>& new_string, ShardData& out) {
  std::vector<std::uint32_t> order(series_.size());
  std::iota(order.begin(), order.end(), 0u);
  for (Series& series : series_) series.name = new_string[series.name];
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(series_[a].name, series_[a].kind) < std::tie(series_[b].name, series_[b].kind);
  });
  std::vector<std::uint32_t> new_series(series_.size());
  for (const std::uint32_t series : order) {
    new_series[series] = static_cast<std::uint32_t>(out.series.size());
    out.series.push_back(series_[series]);
  }
  series_ = out.series;
  if (bin_ns_ == 0) return;
  out.time_axis = {bin_ns_, static_cast<std::int64_t>(begin_ns_ / bin_ns_ * bin_ns_)};

  std::vector<std::uint32_t> track_of(out.ranks.size(), kNone);
  std::size_t rows = 0;
  for (std::size_t i = 0; i < rank_tracks_.size(); ++i) {
    if (new_rank[i] == kNone) continue;
    track_of[new_rank[i]] = static_cast<std::uint32_t>(i);
    rows += rank_tracks_[i].cells.size();
  }
  out.rank_series.reserve(rows);
  std::vector<Cell> cells;
  for (std::uint32_t rank = 0; rank < track_of.size(); ++rank) {
    if (track_of[rank] == kNone) continue;
    cells.clear();
    Track& track = rank_tracks_[track_of[rank]];
    arrange(new_series, track, cells);
    track = {};
    for (const Cell& cell : cells) out.rank_series.push_back({rank, cell.series, cell.bin, cell.value});
  }

  std::vector<std::vector<std::uint32_t>> tracks_of(out.nodes.size());
  for (std::size_t i = 0; i < node_tracks_.size(); ++i)
    if (new_node[i] != kNone) tracks_of[new_node[i]].push_back(static_cast<std::uint32_t>(i));
  for (std::uint32_t node = 0; node < tracks_of.size(); ++node) {
    cells.clear();
    for (const std::uint32_t track : tracks_of[node]) arrange(new_series, node_tracks_[track], cells);
    std::vector<Cell> united;
    for (const Cell& cell : cells) put(united, cell);
    for (const Cell& cell : united) out.node_series.push_back({node, cell.series, cell.bin, cell.value});
  }
  *this = SeriesMerger(most_rows_);
}

}  // namespace clusterprof::aggregator
