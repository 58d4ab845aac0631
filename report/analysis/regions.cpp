// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/regions.hpp"

#include <algorithm>
#include <map>

#include "report/analysis/counters.hpp"
#include "report/analysis/limits.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::kNone;
using shard::Value;

// Gives every path the row of its innermost region.
class RegionTree {
 public:
  RegionTree(const CallPaths& paths, std::vector<RegionRow>& rows) : row_of_path_(paths.size(), kNone) {
    std::map<std::pair<std::uint32_t, std::string_view>, std::uint32_t> children;
    for (std::uint32_t path = 1; path < paths.size(); ++path) {
      const std::uint32_t region = paths.region(path);
      if (region == 0) continue;
      if (region != path) {
        row_of_path_[path] = row_of_path_[region];
        continue;
      }
      const std::uint32_t parent = row_of_path_[paths.parent(path)];
      const std::string_view name = paths.text(paths.frame(path)->name);
      const auto [known, is_new] =
          children.try_emplace({parent, name}, static_cast<std::uint32_t>(rows.size()));
      row_of_path_[path] = known->second;
      if (!is_new) continue;
      std::vector<std::string> names;
      if (parent != kNone) names = rows[parent].names;
      names.emplace_back(name);
      rows.emplace_back().names = std::move(names);
      parents_.push_back(parent);
    }
  }
  // kNone: outside all regions, or no path.
  [[nodiscard]] std::uint32_t row(std::uint32_t path) const {
    return path < row_of_path_.size() ? row_of_path_[path] : kNone;
  }
  [[nodiscard]] std::uint32_t parent(std::uint32_t row) const { return parents_[row]; }

 private:
  std::vector<std::uint32_t> row_of_path_, parents_;
};

// What one region is summed up from.
struct Sum {
  std::uint64_t time_ns = 0, min_ns = 0, max_ns = 0;
  double useful_here_s = 0, mpi_here_s = 0;  // of the rank at hand
  bool here = false;
  double useful_s = 0;
  std::size_t ranks = 0;
  std::map<std::pair<std::uint32_t, Limit>, double> places;  // by paths' frames' first path
  std::map<std::uint32_t, std::uint64_t> counters;
};

}  // namespace

std::string region_name(const RegionRow& region) {
  std::string out;
  for (const std::string& name : region.names) out += (out.empty() ? "" : "/") + name;
  return out;
}

void find_regions(const shard::ShardData& data, const std::vector<Value>& charged, const CallPaths& paths,
                  const MemoryUse& memory, const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  std::vector<RegionRow>& rows = analysis.regions;
  const RegionTree tree(paths, rows);
  if (rows.empty()) return;
  std::vector<Sum> sums(rows.size());
  const LimitCounter counter(paths, memory);
  const std::vector<double> scales = main_thread_scales(data, charged, ascending, analysis);
  const bool cpu_clock = data.run.clock == "cpu";
  const bool any_mpi = analysis.efficiency.load_balance.has_value();

  const ByRank values = by_rank(charged, data.ranks.size());
  const ByRank times = by_rank(data.region_times, data.ranks.size());
  SpreadTable measured(rows.size());
  std::vector<std::uint32_t> touched;
  std::map<const shard::Frame*, std::uint32_t> place_of_frame;
  for (const std::uint32_t rank : ascending) {
    const shard::Rank& of = data.ranks[rank];
    for (std::uint32_t i = times.starts[rank]; i < times.starts[rank + 1]; ++i) {
      const shard::RegionTime& time = data.region_times[times.order[i]];
      const std::uint32_t at = tree.row(time.path);
      if (at == kNone || paths.region(time.path) != time.path || time.count == 0) continue;
      Sum& sum = sums[at];
      RegionRow& row = rows[at];
      sum.min_ns = row.count == 0 ? time.min_ns : std::min(sum.min_ns, time.min_ns);
      if (row.count == 0 || time.max_ns > sum.max_ns) {
        sum.max_ns = time.max_ns;
        row.max_n = time.max_n >= 0 ? std::optional(time.max_n) : std::optional<std::int64_t>();
      }
      row.count += time.count;
      sum.time_ns += time.time_ns;
      measured.add(at, time.time_ns);
    }
    measured.end_rank(of.rank);

    touched.clear();
    for (std::uint32_t i = values.starts[rank]; i < values.starts[rank + 1]; ++i) {
      const Value& value = charged[values.order[i]];
      const std::uint32_t innermost = tree.row(value.path);
      if (innermost == kNone || static_cast<std::size_t>(value.category) >= shard::kCategories) continue;
      if (of.samples == 0 && value.category != Category::kMpi) continue;
      if (cpu_clock && value.category == Category::kIdle) continue;
      const bool in_mpi = value.category == Category::kMpi;
      const double time_s = to_seconds(value.wall_ns) * (value.main_thread && !in_mpi ? scales[rank] : 1);
      if (time_s <= 0) continue;
      const std::uint32_t place = paths.place(value.path);
      const std::uint32_t named =
          place == 0 ? 0 : place_of_frame.try_emplace(paths.frame(place), place).first->second;
      for (std::uint32_t at = innermost; at != kNone; at = tree.parent(at)) {
        RegionRow& row = rows[at];
        Sum& sum = sums[at];
        row.sampled_s += time_s;
        row.category_s[static_cast<std::size_t>(value.category)] += time_s;
        const Limit limit = counter.add(value, time_s, row.limits);
        if (named != 0) sum.places[{named, limit}] += time_s;
        if (!sum.here) touched.push_back(at);
        sum.here = true;
        (in_mpi ? sum.mpi_here_s : sum.useful_here_s) += time_s;
      }
    }
    for (const std::uint32_t at : touched) {
      Sum& sum = sums[at];
      RegionRow& row = rows[at];
      if (!row.max_useful_s || sum.useful_here_s > *row.max_useful_s)
        row.max_useful_s = sum.useful_here_s, row.slowest_rank = of.rank;
      row.longest_s = std::max(row.longest_s.value_or(0), sum.useful_here_s + sum.mpi_here_s);
      sum.useful_s += sum.useful_here_s;
      ++sum.ranks;
      sum.useful_here_s = sum.mpi_here_s = 0;
      sum.here = false;
    }
  }
  for (const shard::PathCounter& row : data.path_counters) {
    if (row.rank >= data.ranks.size() || row.counter >= data.counters.size()) continue;
    for (std::uint32_t at = tree.row(row.path); at != kNone; at = tree.parent(at))
      sums[at].counters[row.counter] += row.value;
  }

  for (std::uint32_t at = 0; at < rows.size(); ++at) {
    RegionRow& row = rows[at];
    const Sum& sum = sums[at];
    if (row.count != 0) {
      row.time_s = to_seconds(sum.time_ns);
      row.min_s = to_seconds(sum.min_ns);
      row.max_s = to_seconds(sum.max_ns);
    }
    row.spread = measured.spread(at);
    if (analysis.rank_seconds > 0) row.share = row.sampled_s / analysis.rank_seconds;
    for (const auto& [place, time_s] : sum.places) {
      const auto& [path, limit] = place;
      if (time_s <= row.limits.most_s[index(limit)]) continue;
      row.limits.most_s[index(limit)] = time_s;
      row.limits.most_path[index(limit)] = path;
    }
    if (sum.ranks != 0) row.mean_useful_s = sum.useful_s / static_cast<double>(sum.ranks);
    if (any_mpi && row.max_useful_s.value_or(0) > 0 && row.longest_s.value_or(0) > 0) {
      row.efficiency.load_balance = *row.mean_useful_s / *row.max_useful_s;
      row.efficiency.communication = *row.max_useful_s / *row.longest_s;
      row.efficiency.parallel = *row.efficiency.load_balance * *row.efficiency.communication;
    }
    row.counters.assign(sum.counters.begin(), sum.counters.end());
    row.derived = derive(derived_input(analysis, row.counters, row.longest_s.value_or(0)));
  }
}

}  // namespace clusterprof::report
