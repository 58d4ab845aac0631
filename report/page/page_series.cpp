// SPDX-License-Identifier: BSD-3-Clause
#include "report/page/page_series.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "report/analysis/tables.hpp"
#include "report/analysis/timeline.hpp"

namespace clusterprof::report {
namespace {

constexpr std::size_t kMinBins = 32;  // of however many rows and series

// The values of one rank or node with bins joined.
void join_bins(const std::vector<std::uint64_t>& from, std::size_t join, bool maximum,
               std::vector<double>& to) {
  std::fill(to.begin(), to.end(), 0);
  for (std::size_t bin = 0; bin < from.size() && bin / join < to.size(); ++bin) {
    const auto value = static_cast<double>(from[bin]);
    to[bin / join] = maximum ? std::max(to[bin / join], value) : to[bin / join] + value;
  }
}

// Selects the series for which there is room: those with most rows, on a tie the first.
std::vector<bool> largest(const std::vector<std::size_t>& rows_with, std::size_t most) {
  std::vector<std::size_t> order;
  for (std::size_t series = 0; series < rows_with.size(); ++series)
    if (rows_with[series] != 0) order.push_back(series);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows_with[a] > rows_with[b]; });
  order.resize(std::min(order.size(), most));
  std::vector<bool> kept(rows_with.size(), false);
  for (const std::size_t series : order) kept[series] = true;
  return kept;
}

std::size_t most_series(std::size_t series_cells, std::size_t cells_of_one) {
  return std::max(PageData::kSureSeries, series_cells / std::max<std::size_t>(cells_of_one, 1));
}

std::size_t count_of(const std::vector<std::size_t>& rows_with) {
  return rows_with.size() - static_cast<std::size_t>(std::count(rows_with.begin(), rows_with.end(), 0u));
}

struct Sums {
  std::vector<double> rows;  // x bins; empty: no rank has the series
};

}  // namespace

PathBins path_bins(const shard::ShardData& head) {
  PathBins bins;
  if (head.path_axis.bin_ns == 0) return bins;
  for (const shard::PathSeries& row : head.path_series)
    if (row.bin < shard::kMaxPathBins) bins.count = std::max<std::size_t>(bins.count, row.bin + 1);
  if (bins.count == 0) return bins;
  bins.begin_s = axis_begin_s(head, head.path_axis);
  bins.bin_s = to_seconds(head.path_axis.bin_ns);
  return bins;
}

void add_page_series(const shard::ShardData& head, const Analysis& analysis, const PageOptions& options,
                     PageData& page) {
  if (!analysis.timeline || analysis.timeline->bins == 0) return;
  const Timeline& timeline = *analysis.timeline;
  std::vector<std::size_t> ranks_with(timeline.series.size(), 0), nodes_with(ranks_with);
  for (const TimelineRow& row : timeline.ranks)
    for (const auto& [series, values] : row.values) ++ranks_with[series];
  for (const TimelineRow& row : timeline.nodes)
    for (const auto& [series, values] : row.values) ++nodes_with[series];
  page.all_series = count_of(ranks_with);
  const std::size_t most = most_series(options.series_cells, page.rows.size() * kMinBins);
  const std::size_t count = std::min(page.all_series, most);
  const std::vector<bool> of_ranks = largest(ranks_with, most);

  std::size_t join = 1;
  const auto bins = [&] { return (timeline.bins + join - 1) / join; };
  while (bins() > std::max<std::size_t>(options.bins, 1) ||
         (bins() > kMinBins && bins() * page.rows.size() * count > options.series_cells))
    join *= 2;
  page.bins = bins();
  page.bin_s = timeline.bin_s * static_cast<double>(join);
  page.begin_s = timeline.begin_s;

  const auto is_maximum = [&](std::size_t series) {
    return series < head.series.size() && head.series[series].kind == shard::SeriesKind::kMaximum;
  };
  std::vector<Sums> sums(timeline.series.size());
  std::vector<double> joined(page.bins);
  for (const TimelineRow& row : timeline.ranks) {
    const auto rank = std::lower_bound(analysis.ranks.begin(), analysis.ranks.end(), row.rank,
                                       [](const RankInfo& info, std::int32_t n) { return info.rank < n; });
    if (rank == analysis.ranks.end() || rank->rank != row.rank) continue;
    const std::size_t first =
        page.row_of_rank[static_cast<std::size_t>(rank - analysis.ranks.begin())] * page.bins;
    for (const auto& [series, values] : row.values) {
      if (!of_ranks[series]) continue;
      Sums& sum = sums[series];
      const bool maximum = is_maximum(series);
      if (sum.rows.empty()) sum.rows.assign(page.rows.size() * page.bins, 0);
      join_bins(values, join, maximum, joined);
      for (std::size_t bin = 0; bin < page.bins; ++bin) {
        double& cell = sum.rows[first + bin];
        cell = maximum ? std::max(cell, joined[bin]) : cell + joined[bin];
      }
    }
  }
  for (std::size_t s = 0; s < sums.size(); ++s) {
    if (!of_ranks[s] || sums[s].rows.empty()) continue;
    const Sums& sum = sums[s];
    PageSeries& series = page.series.emplace_back();
    series.name = timeline.series[s];
    series.maximum = is_maximum(s);
    for (std::size_t i = 0; i < sum.rows.size(); ++i)
      series.row_values.push_back(static_cast<float>(
          series.maximum ? sum.rows[i] : sum.rows[i] / static_cast<double>(page.rows[i / page.bins].ranks)));
  }

  if (analysis.nodes.size() > PageData::kMaxNodes) return;
  page.all_node_series = count_of(nodes_with);
  const std::vector<bool> of_nodes =
      largest(nodes_with, most_series(options.series_cells, analysis.nodes.size() * page.bins));
  std::vector<std::size_t> place(of_nodes.size(), 0);  // in page.node_series
  for (std::size_t s = 0; s < of_nodes.size(); ++s) {
    if (!of_nodes[s]) continue;
    place[s] = page.node_series.size();
    PageSeries& series = page.node_series.emplace_back();
    series.name = timeline.series[s];
    series.maximum = is_maximum(s);
    series.row_values.assign(analysis.nodes.size() * page.bins, 0);
  }
  for (const TimelineRow& row : timeline.nodes)
    for (const auto& [of, values] : row.values) {
      if (!of_nodes[of] || row.node >= analysis.nodes.size()) continue;
      PageSeries& series = page.node_series[place[of]];
      join_bins(values, join, series.maximum, joined);
      for (std::size_t bin = 0; bin < page.bins; ++bin)
        series.row_values[row.node * page.bins + bin] = static_cast<float>(joined[bin]);
    }
}

}  // namespace clusterprof::report
