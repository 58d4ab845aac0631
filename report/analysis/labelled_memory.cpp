// SPDX-License-Identifier: BSD-3-Clause
// Memory by the spaces and labels that the program gave, over all ranks.
#include "report/analysis/labelled_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

struct Sums {
  MemorySpaceRow row;
  std::map<std::uint32_t, std::uint64_t> nodes;  // sums of the peaks of their ranks
  std::map<std::string_view, MemoryLabelRow> labels;
};

using SpaceSums = std::map<std::string_view, Sums>;

void add_space(const shard::ShardData& head, const shard::MemorySpace& space, Sums& sums) {
  const shard::Rank& rank = head.ranks[space.rank];
  MemorySpaceRow& row = sums.row;
  row.processes += space.processes;
  row.allocations += space.allocations;
  row.frees += space.frees;
  row.alloc_bytes += space.alloc_bytes;
  row.live_end_bytes += space.live_end_bytes;
  row.unknown_frees += space.unknown_frees;
  row.unknown_bytes += space.unknown_bytes;
  if (space.peak_bytes == 0) return;
  const double at_s = static_cast<double>(space.peak_utc_ns - head.run.start_utc_ns) / 1e9;
  row.ranks.push_back({rank.rank, space.peak_bytes, std::max(at_s, 0.0)});
  row.peaks_bytes += space.peak_bytes;
  sums.nodes[rank.node] += space.peak_bytes;
}

// Row: of one rank, or of all ranks.
template <typename Row>
void add_amounts(MemoryLabelRow& sum, const Row& row) {
  sum.allocations += row.allocations;
  sum.frees += row.frees;
  sum.alloc_bytes += row.alloc_bytes;
  sum.live_end_bytes += row.live_end_bytes;
  sum.space_peak_bytes += row.space_peak_bytes;
  sum.peak_bytes = std::max(sum.peak_bytes, row.peak_bytes);
}

void add_label(const shard::ShardData& head, const shard::MemoryLabel& label, Sums& sums) {
  MemoryLabelRow& row = sums.labels[label.name];
  row.name = label.name;
  add_amounts(row, label);
  ++row.ranks;
  if (row.max_rank >= 0 && label.space_peak_bytes <= row.max_rank_bytes) return;
  row.max_rank = head.ranks[label.rank].rank;
  row.max_rank_bytes = label.space_peak_bytes;
}

// The others are one.
void keep_largest(std::vector<MemoryLabelRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const MemoryLabelRow& a, const MemoryLabelRow& b) {
    return std::tuple(a.space_peak_bytes, a.peak_bytes, a.alloc_bytes) >
           std::tuple(b.space_peak_bytes, b.peak_bytes, b.alloc_bytes);
  });
  if (rows.size() <= kMaxMemoryLabels) return;
  MemoryLabelRow others;
  others.name = shard::kOtherLabelsName;
  const auto has_name = [&](const MemoryLabelRow& row) { return row.name == others.name; };
  const auto kept_end = rows.begin() + static_cast<std::ptrdiff_t>(kMaxMemoryLabels);
  if (const auto known = std::find_if(rows.begin(), kept_end, has_name); known != kept_end)
    std::rotate(known, known + 1, kept_end);  // to where they are added up
  for (std::size_t i = kMaxMemoryLabels - 1; i < rows.size(); ++i) {
    const MemoryLabelRow& row = rows[i];
    add_amounts(others, row);
    others.ranks = std::max(others.ranks, row.ranks);
    if (row.max_rank_bytes < others.max_rank_bytes && others.max_rank >= 0) continue;
    others.max_rank = row.max_rank;
    others.max_rank_bytes = row.max_rank_bytes;
  }
  rows.resize(kMaxMemoryLabels - 1);
  rows.push_back(std::move(others));
}

MemorySpaceRow finished(std::string_view name, Sums sums) {
  MemorySpaceRow row = std::move(sums.row);
  row.name = name;
  row.rank_count = row.ranks.size();
  std::stable_sort(
      row.ranks.begin(), row.ranks.end(),
      [](const MemorySpaceRank& a, const MemorySpaceRank& b) { return a.peak_bytes > b.peak_bytes; });
  if (row.ranks.size() > kMaxSpaceRanks) row.ranks.resize(kMaxSpaceRanks);
  for (const auto& [node, bytes] : sums.nodes)
    if (bytes > row.node_peaks_bytes) row.node = node, row.node_peaks_bytes = bytes;
  for (auto& [label, sum] : sums.labels) row.labels.push_back(std::move(sum));
  keep_largest(row.labels);
  return row;
}

}  // namespace

void find_labelled_memory(const shard::ShardData& head, const RankOrder& order, Analysis& analysis) {
  SpaceSums spaces;
  std::map<std::pair<std::string_view, std::string_view>, MemoryCopiesRow> copies;
  const auto in_order = [&](const auto& table, auto&& use) {
    const ByRank rows = by_rank(table, head.ranks.size());
    for (const std::uint32_t rank : order.ascending)
      for (std::uint32_t i = rows.starts[rank]; i < rows.starts[rank + 1]; ++i) use(table[rows.order[i]]);
  };
  in_order(head.memory_spaces,
           [&](const shard::MemorySpace& space) { add_space(head, space, spaces[space.name]); });
  in_order(head.memory_labels,
           [&](const shard::MemoryLabel& label) { add_label(head, label, spaces[label.space]); });
  in_order(head.memory_copies, [&](const shard::MemoryCopies& of) {
    MemoryCopiesRow& row = copies[{of.to, of.from}];
    row.to = of.to;
    row.from = of.from;
    row.count += of.count;
    row.bytes += of.bytes;
    if (row.max_rank >= 0 && of.bytes <= row.max_rank_bytes) return;
    row.max_rank = head.ranks[of.rank].rank;
    row.max_rank_bytes = of.bytes;
  });
  LabelledMemory& memory = analysis.labelled_memory;
  for (auto& [name, sums] : spaces) memory.spaces.push_back(finished(name, std::move(sums)));
  std::stable_sort(
      memory.spaces.begin(), memory.spaces.end(),
      [](const MemorySpaceRow& a, const MemorySpaceRow& b) { return a.peaks_bytes > b.peaks_bytes; });
  for (auto& [between, row] : copies) memory.copies.push_back(std::move(row));
  std::stable_sort(memory.copies.begin(), memory.copies.end(),
                   [](const MemoryCopiesRow& a, const MemoryCopiesRow& b) { return a.bytes > b.bytes; });
}

}  // namespace clusterprof::report
