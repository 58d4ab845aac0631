// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/path_series_merger.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace clusterprof::aggregator {

using namespace shard;

namespace {

std::uint64_t amount(const PathSeries& row) { return row.wall_ns; }
std::uint64_t amount(const MemorySeries& row) { return row.kib_ms; }

}  // namespace

PathSeriesMerger::Bins& PathSeriesMerger::Table::of(std::uint32_t path) {
  if (path >= row_of.size()) row_of.resize(std::max<std::size_t>(path + 1, 2 * row_of.size()), kNone);
  std::uint32_t& place = row_of[path];
  if (place == kNone) {
    place = static_cast<std::uint32_t>(amounts.size());
    paths.push_back(path);
    amounts.push_back({});
  }
  return amounts[place];
}

template <typename Visit>
void PathSeriesMerger::Table::for_each(const std::vector<std::uint32_t>& new_path, Visit&& visit) {
  for (std::uint32_t& path : paths) path = new_path[path];
  std::vector<std::uint32_t> order(paths.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return paths[a] < paths[b]; });
  for (const std::uint32_t row : order)
    for (std::uint32_t bin = 0; bin < kMaxPathBins; ++bin)
      if (amounts[row][bin] != 0) visit(paths[row], bin, amounts[row][bin]);
}

std::uint64_t PathSeriesMerger::bins(std::uint64_t bin_ns) const {
  return end_ns_ == 0 ? 1 : (end_ns_ - 1) / bin_ns - begin_ns_ / bin_ns + 1;
}

void PathSeriesMerger::set_width(std::uint64_t bin_ns) {
  const std::uint64_t first_bin = begin_ns_ / bin_ns;
  if (bin_ns == bin_ns_ && first_bin == first_bin_) return;
  const int shift = bin_ns_ == 0 ? 0 : std::countr_zero(bin_ns / bin_ns_);
  for (Table* const table : {&times_, &memory_}) {
    for (Bins& bins : table->amounts) {
      const Bins before = std::exchange(bins, {});
      for (std::uint64_t bin = 0; bin < before.size(); ++bin)
        if (before[bin] != 0) bins[((first_bin_ + bin) >> shift) - first_bin] += before[bin];
    }
  }
  bin_ns_ = bin_ns;
  first_bin_ = first_bin;
}

void PathSeriesMerger::add(const TimeAxis& axis, const std::vector<PathSeries>& times,
                           const std::vector<MemorySeries>& memory) {
  if (axis.bin_ns == 0) return;
  const auto origin_ns = static_cast<std::uint64_t>(axis.origin_utc_ns);
  begin_ns_ = bin_ns_ == 0 ? origin_ns : std::min(begin_ns_, origin_ns);
  const auto reach = [&](const auto& rows) {
    for (const auto& row : rows)
      if (amount(row) != 0) end_ns_ = std::max(end_ns_, origin_ns + (row.bin + 1) * axis.bin_ns);
  };
  reach(times);
  reach(memory);
  std::uint64_t bin_ns = std::max(bin_ns_, axis.bin_ns);
  while (bins(bin_ns) > kMaxPathBins) bin_ns *= 2;
  set_width(bin_ns);

  const int shift = std::countr_zero(bin_ns_ / axis.bin_ns);
  const std::uint64_t first = origin_ns / axis.bin_ns;
  const auto add_to = [&](Table& table, const auto& rows) {
    for (const auto& row : rows)
      if (amount(row) != 0) table.of(row.path)[((first + row.bin) >> shift) - first_bin_] += amount(row);
  };
  add_to(times_, times);
  add_to(memory_, memory);
}

void PathSeriesMerger::finish(const std::vector<std::uint32_t>& new_path, ShardData& out) {
  if (bin_ns_ != 0) out.path_axis = {bin_ns_, static_cast<std::int64_t>(first_bin_ * bin_ns_)};
  times_.for_each(new_path, [&](std::uint32_t path, std::uint32_t bin, std::uint64_t wall_ns) {
    out.path_series.push_back({path, bin, wall_ns});
  });
  memory_.for_each(new_path, [&](std::uint32_t path, std::uint32_t bin, std::uint64_t kib_ms) {
    out.memory_series.push_back({path, bin, kib_ms});
  });
  *this = {};
}

}  // namespace clusterprof::aggregator
