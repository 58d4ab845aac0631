// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/path_series_merger.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace clusterprof::aggregator {

using namespace shard;

std::uint64_t PathSeriesMerger::bins(std::uint64_t bin_ns) const {
  return end_ns_ == 0 ? 1 : (end_ns_ - 1) / bin_ns - begin_ns_ / bin_ns + 1;
}

void PathSeriesMerger::set_width(std::uint64_t bin_ns) {
  const std::uint64_t first_bin = begin_ns_ / bin_ns;
  if (bin_ns == bin_ns_ && first_bin == first_bin_) return;
  const int shift = bin_ns_ == 0 ? 0 : std::countr_zero(bin_ns / bin_ns_);
  for (Bins& bins : times_) {
    const Bins before = std::exchange(bins, {});
    for (std::uint64_t bin = 0; bin < before.size(); ++bin)
      if (before[bin] != 0) bins[((first_bin_ + bin) >> shift) - first_bin] += before[bin];
  }
  bin_ns_ = bin_ns;
  first_bin_ = first_bin;
}

void PathSeriesMerger::add(const TimeAxis& axis, const std::vector<PathSeries>& rows) {
  if (axis.bin_ns == 0) return;
  const auto origin_ns = static_cast<std::uint64_t>(axis.origin_utc_ns);
  begin_ns_ = bin_ns_ == 0 ? origin_ns : std::min(begin_ns_, origin_ns);
  for (const PathSeries& row : rows)
    if (row.wall_ns != 0) end_ns_ = std::max(end_ns_, origin_ns + (row.bin + 1) * axis.bin_ns);
  std::uint64_t bin_ns = std::max(bin_ns_, axis.bin_ns);
  while (bins(bin_ns) > kMaxPathBins) bin_ns *= 2;
  set_width(bin_ns);

  const int shift = std::countr_zero(bin_ns_ / axis.bin_ns);
  const std::uint64_t first = origin_ns / axis.bin_ns;
  for (const PathSeries& row : rows) {
    if (row.wall_ns == 0) continue;
    if (row.path >= row_of_.size())
      row_of_.resize(std::max<std::size_t>(row.path + 1, 2 * row_of_.size()), kNone);
    std::uint32_t& place = row_of_[row.path];
    if (place == kNone) {
      place = static_cast<std::uint32_t>(times_.size());
      paths_.push_back(row.path);
      times_.push_back({});
    }
    times_[place][((first + row.bin) >> shift) - first_bin_] += row.wall_ns;
  }
}

void PathSeriesMerger::finish(const std::vector<std::uint32_t>& new_path, ShardData& out) {
  if (bin_ns_ != 0) out.path_axis = {bin_ns_, static_cast<std::int64_t>(first_bin_ * bin_ns_)};
  for (std::uint32_t& path : paths_) path = new_path[path];
  std::vector<std::uint32_t> order(paths_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return paths_[a] < paths_[b]; });
  std::size_t rows = 0;
  for (const Bins& bins : times_)
    rows += static_cast<std::size_t>(
        std::count_if(bins.begin(), bins.end(), [](std::uint64_t ns) { return ns != 0; }));
  out.path_series.reserve(rows);
  for (const std::uint32_t row : order)
    for (std::uint32_t bin = 0; bin < kMaxPathBins; ++bin)
      if (times_[row][bin] != 0) out.path_series.push_back({paths_[row], bin, times_[row][bin]});
  *this = {};
}

}  // namespace clusterprof::aggregator
