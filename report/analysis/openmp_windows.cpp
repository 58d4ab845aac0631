// SPDX-License-Identifier: BSD-3-Clause
// OpenMP's efficiencies over time. Series say when, by the formulas of the whole run for each bin; how much
// is what the rank's tables say. docs/metrics.md, "OpenMP".
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "report/analysis/openmp.hpp"
#include "report/analysis/tables.hpp"
#include "report/analysis/timeline.hpp"

namespace clusterprof::report {
namespace {

using shard::ShardData;

constexpr std::size_t kMostWindows = 64;  // where the analysis of waiting has none

constexpr std::array kParts = {&OpenMpParts::work_s, &OpenMpParts::imbalance_s, &OpenMpParts::schedule_s,
                               &OpenMpParts::serialization_s};

// One bin of a rank.
struct Bin {
  shard::OmpSums sums;
  std::uint64_t mpi_ns = 0, sampled_ns = 0;
};
using Field = std::uint64_t Bin::*;

// What each series is of a bin; one of the two, or neither.
struct Columns {
  std::vector<std::optional<std::uint64_t shard::OmpSums::*>> sums;
  std::vector<std::optional<Field>> others;
  bool any = false;

  explicit Columns(const ShardData& data) : sums(data.series.size()), others(data.series.size()) {
    for (std::size_t s = 0; s < data.series.size(); ++s) {
      const shard::StringIndex index = data.series[s].name;
      const std::string_view name = index < data.strings.size() ? data.strings[index] : std::string_view();
      for (const auto& [of, field] : shard::kOmpSeries)
        if (name == of) sums[s] = field, any = true;
      if (name == shard::kMeasuredMpiSeries) others[s] = &Bin::mpi_ns;
      for (std::size_t c = 0; c < shard::kCategories; ++c)
        if (name == category_series(c)) others[s] = &Bin::sampled_ns;
    }
  }
};

// Parts of the run, one after the other.
class Windows {
 public:
  Windows(const ShardData& data, double end_s) {
    for (const shard::TimeWindow& window : data.time_windows)
      if (window.end_ns > window.begin_ns)
        rows_.push_back({to_seconds(window.begin_ns), to_seconds(window.end_ns), 0, 0, 0, 0, {}, {}, {}});
    if (!rows_.empty() || !(end_s > 0)) return;
    const double bins = end_s / to_seconds(data.time_axis.bin_ns);
    const auto count = static_cast<std::size_t>(std::clamp(bins, 1.0, static_cast<double>(kMostWindows)));
    const auto edge = [&](std::size_t i) {
      return end_s * static_cast<double>(i) / static_cast<double>(count);
    };
    for (std::size_t i = 0; i < count; ++i) rows_.push_back({edge(i), edge(i + 1), 0, 0, 0, 0, {}, {}, {}});
  }

  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::vector<OpenMpWindow> take() { return std::move(rows_); }

  // Adds what was between two times. What lies outside of all windows goes into the nearest one.
  void add(double from_s, double to_s, const OpenMpParts& parts) {
    const double length_s = to_s - from_s;
    auto row = std::upper_bound(rows_.begin(), rows_.end() - 1, from_s,
                                [](double time, const OpenMpWindow& window) { return time < window.end_s; });
    for (double done_s = 0;; ++row) {
      const bool is_last = row + 1 == rows_.end() || to_s <= row->end_s;
      const double until_s = is_last ? length_s : std::max(done_s, row->end_s - from_s);
      const double share = length_s > 0 ? (until_s - done_s) / length_s : 1;
      row->work_s += share * parts.work_s;
      row->imbalance_s += share * parts.imbalance_s;
      row->schedule_s += share * parts.schedule_s;
      row->serialization_s += share * parts.serialization_s;
      if (is_last) return;
      done_s = until_s;
    }
  }

 private:
  std::vector<OpenMpWindow> rows_;
};

}  // namespace

void OpenMpTime::find_windows(Analysis& analysis) const {
  if (!analysis.openmp || head_.time_axis.bin_ns == 0) return;
  const Columns columns(head_);
  if (!columns.any) return;
  std::int64_t start_utc_ns = head_.run.start_utc_ns;
  for (std::size_t i = 0; i < head_.ranks.size(); ++i)
    start_utc_ns = i == 0 ? head_.ranks[i].start_utc_ns : std::min(start_utc_ns, head_.ranks[i].start_utc_ns);
  const auto begin_of = [&](const shard::Rank& rank) {
    return to_seconds(static_cast<std::uint64_t>(rank.start_utc_ns) -
                      static_cast<std::uint64_t>(start_utc_ns));
  };
  double end_s = 0;
  for (const shard::Rank& rank : head_.ranks)
    end_s = std::max(end_s, begin_of(rank) + to_seconds(rank.elapsed_ns));
  Windows windows(head_, end_s);
  if (windows.empty()) return;

  const double bin_s = to_seconds(head_.time_axis.bin_ns);
  const double axis_s = axis_begin_s(head_, head_.time_axis);
  const ByRank rows = by_rank(head_.rank_series, head_.ranks.size());
  for (std::uint32_t r = 0; r < of_rank_.size(); ++r) {
    const Rank& rank = of_rank_[r];
    if (!rank.has_teams()) continue;
    const shard::Rank& whole = head_.ranks[r];
    const std::vector<double> lived_ns = recorded_in_bins(head_, whole, 1);
    std::vector<Bin> bins(lived_ns.size());
    for (std::uint32_t i = rows.starts[r]; i < rows.starts[r + 1]; ++i) {
      const shard::RankSeries& row = head_.rank_series[rows.order[i]];
      if (row.series >= head_.series.size() || row.bin >= shard::TimeAxis::kMaxBins) continue;
      if (row.bin >= bins.size()) bins.resize(row.bin + 1);
      if (const auto field = columns.sums[row.series]) bins[row.bin].sums.*(*field) += row.value;
      if (const auto field = columns.others[row.series]) bins[row.bin].*(*field) += row.value;
    }
    std::vector<OpenMpParts> parts(bins.size());
    OpenMpParts all;
    for (std::size_t b = 0; b < bins.size(); ++b) {
      const Bin& bin = bins[b];
      // Samples tell how much of a bin the recording was paused.
      const std::uint64_t recorded_ns = whole.paused_ns != 0  ? bin.sampled_ns
                                        : b < lived_ns.size() ? static_cast<std::uint64_t>(lived_ns[b])
                                                              : 0;
      const std::uint64_t teams_ns = bin.sums.region_ns * rank.threads;
      const std::uint64_t unused_ns = teams_ns - std::min(teams_ns, bin.sums.team_ns);
      parts[b] = openmp_parts(bin.sums, rank.threads, unused_ns,
                              openmp_serial_ns(bin.sums, recorded_ns, bin.mpi_ns));
      all.add(parts[b]);
    }
    const OpenMpParts sum = rank.parts();
    const double begin_s = begin_of(whole), stop_s = begin_s + to_seconds(whole.elapsed_ns);
    for (std::size_t b = 0; b < bins.size(); ++b) {
      for (const auto part : kParts)
        if (all.*part > 0) parts[b].*part *= sum.*part / (all.*part);
      const double from_s = axis_s + static_cast<double>(b) * bin_s;
      const double first_s = std::max(from_s, begin_s), last_s = std::min(from_s + bin_s, stop_s);
      if (first_s < last_s)
        windows.add(first_s, last_s, parts[b]);
      else
        windows.add(from_s, from_s + bin_s, parts[b]);
    }
    // Of what no bin has seen it is not known when it was.
    OpenMpParts unseen;
    for (const auto part : kParts)
      if (!(all.*part > 0)) unseen.*part = sum.*part;
    windows.add(begin_s, stop_s, unseen);
  }

  OpenMp& openmp = *analysis.openmp;
  auto with_mpi = analysis.windows.begin();
  for (OpenMpWindow& window : windows.take()) {
    window.efficiency =
        OpenMpParts{window.work_s, window.imbalance_s, window.schedule_s, window.serialization_s}
            .efficiency();
    while (with_mpi != analysis.windows.end() && with_mpi->begin_s < window.begin_s) ++with_mpi;
    const bool has_mpi = with_mpi != analysis.windows.end() && with_mpi->begin_s == window.begin_s;
    // Nobody was outside MPI, or nothing was recorded.
    if (!window.efficiency.parallel && !has_mpi) continue;
    if (has_mpi) window.hybrid_mpi = with_mpi->parallel;
    if (window.efficiency.parallel && (has_mpi || !openmp.hybrid_mpi))
      window.hybrid_parallel = window.hybrid_mpi.value_or(1) * *window.efficiency.parallel;
    if (has_mpi) {
      with_mpi->hybrid_parallel = window.hybrid_parallel;
      with_mpi->openmp_parallel = window.efficiency.parallel;
    }
    openmp.windows.push_back(window);
  }
  const auto is_known = [](const OpenMpWindow& window) { return window.efficiency.parallel.has_value(); };
  if (std::none_of(openmp.windows.begin(), openmp.windows.end(), is_known)) openmp.windows.clear();
}

}  // namespace clusterprof::report
