// SPDX-License-Identifier: BSD-3-Clause
// Makes the timelines of ranks and nodes from the stored series. Measured MPI time replaces sampled time,
// and each rank's categories over time add up to those of the report. docs/metrics.md, "Over time".
#include "report/analysis/timeline.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>

#include "formats/shard/openmp_sums.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::SeriesKind;
using shard::ShardData;
using shard::TimeAxis;

std::string_view name_of(const ShardData& data, std::uint32_t series) {
  const shard::StringIndex name = data.series[series].name;
  return name < data.strings.size() ? std::string_view(data.strings[name]) : std::string_view();
}

// Sums and maxima of nodes' series.
void add_node_series(const ShardData& data, Analysis& analysis) {
  struct Sum {
    std::uint64_t sum = 0, most = 0;
  };
  std::map<std::pair<std::uint32_t, std::string_view>, Sum> sums;
  for (const shard::NodeSeries& row : data.node_series) {
    if (row.node >= analysis.nodes.size() || row.series >= data.series.size()) continue;
    Sum& sum = sums[{row.node, name_of(data, row.series)}];
    sum.sum += row.value;
    sum.most = std::max(sum.most, row.value);
  }
  for (std::uint32_t n = 0; n < analysis.nodes.size(); ++n) {
    NodeInfo& node = analysis.nodes[n];
    const auto sum = [&](std::string_view name) -> std::optional<std::uint64_t> {
      const auto known = sums.find({n, name});
      return known == sums.end() ? std::optional<std::uint64_t>() : known->second.sum;
    };
    if (const auto busy = sum("cpu_busy_ns"); busy && node.cpus != 0 && node.elapsed_s > 0)
      node.busy = std::min(1.0, to_seconds(*busy) / (node.elapsed_s * node.cpus));
    if (const auto used = sums.find({n, "memory_used_bytes"}); used != sums.end())
      node.memory_used_bytes = used->second.most;
    node.received_bytes = sum("network_received_bytes");
    node.sent_bytes = sum("network_sent_bytes");
    node.disk_read_bytes = sum("disk_read_bytes");
    node.disk_written_bytes = sum("disk_written_bytes");
  }
}

// Puts rows of (owner, series, bin, value) into one TimelineRow per owner.
template <typename Row, typename OwnerOf>
std::map<std::uint32_t, TimelineRow> rows_by_owner(const ShardData& data, const std::vector<Row>& table,
                                                   std::uint32_t join, const OwnerOf& owner_of) {
  std::map<std::uint32_t, TimelineRow> rows;
  // The table is sorted by owner and series. If it is damaged, existing rows are looked up again.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> bins;
  std::vector<std::uint64_t>* at = nullptr;
  std::pair<std::uint32_t, std::uint32_t> last;
  for (const Row& row : table) {
    const auto owner = owner_of(row);
    if (!owner || row.series >= data.series.size() || row.bin >= TimeAxis::kMaxBins) continue;
    const std::pair key(*owner, row.series);
    if (at == nullptr || key != last) at = &bins[key], last = key;
    const std::uint32_t bin = row.bin / join;
    if (at->size() <= bin) at->resize(bin + 1);
    std::uint64_t& value = (*at)[bin];
    value =
        data.series[row.series].kind == SeriesKind::kMaximum ? std::max(value, row.value) : value + row.value;
  }
  for (auto& [key, values] : bins) rows[key.first].values.emplace_back(key.second, std::move(values));
  return rows;
}

// By series: OpenMP's sums are shown as efficiencies (openmp_windows.cpp).
std::vector<bool> shown_series(const ShardData& data) {
  std::vector<bool> shown(data.series.size(), true);
  for (std::uint32_t s = 0; s < data.series.size(); ++s)
    for (const auto& [name, field] : shard::kOmpSeries)
      if (name_of(data, s) == name) shown[s] = false;
  return shown;
}

// How many bins have to be joined into one, so that all rows together have at most kMaxTimelineCells.
std::uint32_t bins_to_join(const ShardData& data, const std::vector<bool>& shown) {
  std::vector<std::uint64_t> ends(TimeAxis::kMaxBins, 0);  // series of an owner by their last bin
  const auto count = [&](const auto& table, auto owner) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      const bool last = i + 1 == table.size() || table[i + 1].*owner != table[i].*owner ||
                        table[i + 1].series != table[i].series;
      const bool counts = table[i].series < shown.size() && shown[table[i].series];
      if (last && counts && table[i].bin < ends.size()) ++ends[table[i].bin];
    }
  };
  count(data.rank_series, &shard::RankSeries::rank);
  count(data.node_series, &shard::NodeSeries::node);
  std::uint32_t join = 1;
  const auto cells = [&] {
    std::uint64_t sum = 0;
    for (std::uint32_t bin = 0; bin < ends.size(); ++bin) sum += ends[bin] * (bin / join + 1);
    return sum;
  };
  while (join < TimeAxis::kMaxBins && cells() > kMaxTimelineCells) join *= 2;
  return join;
}

// Index of the series, or none.
std::optional<std::uint32_t> series_named(const ShardData& data, std::string_view name) {
  for (std::uint32_t s = 0; s < data.series.size(); ++s)
    if (name_of(data, s) == name) return s;
  return std::nullopt;
}

using CategorySeries = std::array<std::optional<std::uint32_t>, shard::kCategories>;

// A rank that waits without running has few samples, which show too little MPI. So in each bin, MPI gets the
// time that its calls measured, and the other categories share the rest as samples say. Time that does not
// fit into a bin goes into the next ones.
void put_measured_mpi(const CategorySeries& categories, std::uint32_t measured, bool scales,
                      TimelineRow& row) {
  constexpr auto kMpi = static_cast<std::size_t>(shard::Category::kMpi);
  std::array<std::vector<std::uint64_t>*, shard::kCategories> of{};
  std::vector<std::uint64_t> calls;
  std::size_t bins = 0;
  const auto is_measured = [&](const auto& series) { return series.first == measured; };
  if (const auto found = std::find_if(row.values.begin(), row.values.end(), is_measured);
      found != row.values.end()) {
    calls = std::move(found->second);
    row.values.erase(found);
  }
  if (calls.empty() || !scales || !categories[kMpi]) return;
  const auto has_mpi = [&](const auto& series) { return series.first == *categories[kMpi]; };
  if (std::find_if(row.values.begin(), row.values.end(), has_mpi) == row.values.end()) {
    row.values.emplace_back(*categories[kMpi], std::vector<std::uint64_t>());
    std::sort(row.values.begin(), row.values.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  for (auto& [series, values] : row.values) {
    for (std::size_t c = 0; c < categories.size(); ++c)
      if (categories[c] == series) of[c] = &values;
    bins = std::max(bins, values.size());
  }
  std::vector<std::uint64_t>& mpi = *of[kMpi];
  if (bins == 0) {  // no samples
    mpi = std::move(calls);
    return;
  }
  mpi.resize(std::max(mpi.size(), bins));
  std::uint64_t left = 0;
  for (std::size_t bin = 0; bin < mpi.size(); ++bin) {
    if (bin < calls.size()) left += calls[bin];
    std::uint64_t others = 0;
    for (std::size_t c = 0; c < of.size(); ++c)
      if (c != kMpi && of[c] != nullptr && bin < of[c]->size()) others += (*of[c])[bin];
    if (others == 0) {
      left -= std::min(left, mpi[bin]);
      continue;
    }
    const std::uint64_t all = others + mpi[bin];
    mpi[bin] = std::min(left, all);
    left -= mpi[bin];
    const double kept = static_cast<double>(all - mpi[bin]) / static_cast<double>(others);
    for (std::size_t c = 0; c < of.size(); ++c)
      if (c != kMpi && of[c] != nullptr && bin < of[c]->size())
        (*of[c])[bin] = static_cast<std::uint64_t>(static_cast<double>((*of[c])[bin]) * kept + 0.5);
  }
  while (!mpi.empty() && mpi.back() == 0) mpi.pop_back();
}

// Divides `total_ns` into whole nanoseconds in proportion to `shape`.
std::vector<std::uint64_t> divided(double total_ns, const std::vector<double>& shape) {
  const double sum = std::accumulate(shape.begin(), shape.end(), 0.0);
  std::vector<std::uint64_t> parts;
  if (!(sum > 0)) return parts;
  double so_far = 0;
  std::uint64_t given = 0;
  for (const double value : shape) {
    so_far += value;
    const auto end = static_cast<std::uint64_t>(total_ns * std::min(1.0, so_far / sum) + 0.5);
    parts.push_back(end - std::min(end, given));
    given = std::max(given, end);
  }
  while (!parts.empty() && parts.back() == 0) parts.pop_back();
  return parts;
}

// Series say when a category had its time; the rank's totals say how much. If no bin saw the category, its
// time is spread over the rank's life.
void agree_with_rank(const CategorySeries& categories, const OptionalCategorySeconds& category_s,
                     const std::vector<double>& recorded, TimelineRow& row) {
  for (std::size_t c = 0; c < categories.size(); ++c) {
    if (!categories[c]) continue;
    const std::uint32_t series = *categories[c];
    std::vector<double> shape;
    const auto found = std::find_if(row.values.begin(), row.values.end(),
                                    [&](const auto& values) { return values.first == series; });
    if (found != row.values.end()) {
      shape.assign(found->second.begin(), found->second.end());
      row.values.erase(found);
    }
    if (std::all_of(shape.begin(), shape.end(), [](double value) { return value == 0; })) shape = recorded;
    std::vector<std::uint64_t> values = divided(category_s[c].value_or(0) * 1e9, shape);
    if (!values.empty()) row.values.emplace_back(series, std::move(values));
  }
  std::sort(row.values.begin(), row.values.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

}  // namespace

std::vector<double> recorded_in_bins(const ShardData& data, const shard::Rank& rank, std::uint32_t join) {
  const double bin_ns = static_cast<double>(data.time_axis.bin_ns) * join;
  const double begin_ns = static_cast<double>(
      static_cast<std::int64_t>(static_cast<std::uint64_t>(rank.start_utc_ns) -
                                static_cast<std::uint64_t>(data.time_axis.origin_utc_ns)));
  const double end_ns = begin_ns + static_cast<double>(rank.elapsed_ns);
  std::vector<double> parts;
  for (std::size_t bin = 0; bin < TimeAxis::kMaxBins / join; ++bin) {
    const double from_ns = static_cast<double>(bin) * bin_ns;
    if (from_ns >= end_ns) break;
    parts.push_back(std::max(0.0, std::min(end_ns, from_ns + bin_ns) - std::max(begin_ns, from_ns)));
  }
  return parts;
}

std::string category_series(std::size_t category) {
  return std::string(shard::kCategoryNames[category]) + "_ns";
}

double axis_begin_s(const ShardData& data, const TimeAxis& axis) {
  std::int64_t start = data.run.start_utc_ns;
  if (!data.ranks.empty())
    start = std::min_element(data.ranks.begin(), data.ranks.end(), [](const auto& x, const auto& y) {
              return x.start_utc_ns < y.start_utc_ns;
            })->start_utc_ns;
  // In a damaged file, times may be so far apart that their difference overflows.
  const auto begin_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(axis.origin_utc_ns) -
                                                  static_cast<std::uint64_t>(start));
  return static_cast<double>(begin_ns) / 1e9;
}

void find_timeline(const ShardData& data, const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  if (data.time_axis.bin_ns == 0) return;
  add_node_series(data, analysis);
  Timeline& timeline = analysis.timeline.emplace();
  const std::vector<bool> shown = shown_series(data);
  const std::uint32_t join = bins_to_join(data, shown);
  for (std::uint32_t s = 0; s < data.series.size(); ++s) timeline.series.emplace_back(name_of(data, s));
  timeline.bin_s = to_seconds(data.time_axis.bin_ns) * join;
  timeline.begin_s = axis_begin_s(data, data.time_axis);

  auto ranks = rows_by_owner(data, data.rank_series, join, [&](const shard::RankSeries& row) {
    const bool is_shown = row.rank < data.ranks.size() && row.series < shown.size() && shown[row.series];
    return is_shown ? std::optional(row.rank) : std::optional<std::uint32_t>();
  });
  CategorySeries categories;
  for (std::size_t c = 0; c < categories.size(); ++c) categories[c] = series_named(data, category_series(c));
  const std::optional<std::uint32_t> measured = series_named(data, shard::kMeasuredMpiSeries);
  const auto is_known = [](const std::optional<std::uint32_t>& series) { return series.has_value(); };
  const bool any = measured || std::any_of(categories.begin(), categories.end(), is_known);
  for (std::size_t c = 0; any && c < categories.size(); ++c) {
    if (categories[c] || analysis.category_s[c].value_or(0) == 0) continue;  // no sample saw any
    categories[c] = static_cast<std::uint32_t>(timeline.series.size());
    timeline.series.push_back(category_series(c));
  }
  for (std::size_t position = 0; position < ascending.size(); ++position) {
    const std::uint32_t rank = ascending[position];
    TimelineRow row;
    if (const auto found = ranks.find(rank); found != ranks.end()) row = std::move(found->second);
    if (measured) put_measured_mpi(categories, *measured, data.run.clock != "cpu", row);
    if (any)
      agree_with_rank(categories, analysis.ranks[position].category_s,
                      recorded_in_bins(data, data.ranks[rank], join), row);
    if (row.values.empty()) continue;
    row.rank = data.ranks[rank].rank;
    timeline.ranks.push_back(std::move(row));
  }
  auto nodes = rows_by_owner(data, data.node_series, join, [&](const shard::NodeSeries& row) {
    return row.node < data.nodes.size() ? std::optional(row.node) : std::optional<std::uint32_t>();
  });
  for (auto& [node, row] : nodes) {
    row.node = node;
    timeline.nodes.push_back(std::move(row));
  }
  for (const auto* rows : {&timeline.ranks, &timeline.nodes})
    for (const TimelineRow& row : *rows)
      for (const auto& [series, values] : row.values) timeline.bins = std::max(timeline.bins, values.size());
}

}  // namespace clusterprof::report
