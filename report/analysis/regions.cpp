// SPDX-License-Identifier: BSD-3-Clause
// Sums up time, counters and instances of the regions that the program named.
#include "report/analysis/regions.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "report/analysis/mpi_calls.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {

using shard::Category;
using shard::kCategories;

std::string region_name(const RegionRow& region) {
  std::string out;
  for (const std::string& name : region.names) out += (out.empty() ? "" : "/") + name;
  return out;
}

namespace {

// Domains in which libraries name what they do, whoever uses them; in lower case.
constexpr std::string_view kLibraryDomains[] = {
    "nccl",   "rccl", "cublas",  "cudnn",  "cusolver", "cusparse", "cufft", "cutensor", "nvshmem", "cccl",
    "thrust", "cub",  "libcudf", "librmm", "tbb",      "onednn",   "dnnl",  "ipp",      "mkl",     "pytorch"};

bool is_of_library(std::string_view domain) {
  std::string lower(domain);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return std::any_of(std::begin(kLibraryDomains), std::end(kLibraryDomains),
                     [&](std::string_view library) { return lower.starts_with(library); });
}

}  // namespace

RegionTime::RegionTime(const shard::ShardData& head, const CallPaths& paths, const LocationNumbers& places)
    : head_(head),
      paths_(paths),
      places_(places),
      cpu_clock_(head.run.clock == "cpu"),
      of_path_(paths.size(), 0),
      is_startup_(paths.size(), false),
      parent_(1),
      names_(1),
      domains_(1),
      first_path_(1) {
  // By what is around it, name and domain, and the line of a forward operator.
  using Key = std::tuple<std::uint32_t, std::string_view, std::string_view, std::string_view, std::uint32_t>;
  std::map<Key, std::uint32_t> children;
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    const std::uint32_t region = paths.region(path);
    if (region == 0) continue;
    if (region != path) {
      of_path_[path] = of_path_[region];
      const shard::Frame& frame = *paths.frame(path);
      is_startup_[path] = frame.kind == shard::FrameKind::kMpi && is_mpi_startup(paths.text(frame.name));
      continue;
    }
    const std::uint32_t parent = of_path_[paths.parent(path)];
    const shard::Frame& frame = *paths.frame(path);
    const std::string_view name = paths.text(frame.name);
    const std::string_view domain = paths.text(frame.module);
    const auto [known, is_new] =
        children.try_emplace({parent, name, domain, paths.text(frame.file), frame.line},
                             static_cast<std::uint32_t>(parent_.size()));
    of_path_[path] = known->second;
    if (!is_new) continue;
    std::vector<std::string> names = names_[parent];
    names.emplace_back(name);
    names_.push_back(std::move(names));
    domains_.emplace_back(domain);
    first_path_.push_back(path);
    parent_.push_back(parent);
  }
  rank_totals_.resize(parent_.size());
  touched_ = TouchedTree(parent_.size());
}

void RegionTime::add(const RankInput& rank) {
  if (parent_.size() == 1) return;
  const auto parent_of = [this](std::uint32_t region) { return parent_[region]; };
  for (const shard::Value& value : rank.values) {
    const std::uint32_t region = of_path_[value.path];
    const bool in_mpi = value.category == Category::kMpi;
    if (region == 0 || (!rank.sampled && !in_mpi)) continue;
    if (cpu_clock_ && value.category == Category::kIdle) continue;
    touched_.touch(region, parent_of);
    RankTotals& here = rank_totals_[region];
    (in_mpi ? here.mpi_ns : value.main_thread ? here.main_ns : here.helper_ns) += value.wall_ns;
    if (value.main_thread && value.category == Category::kRunnable) here.runnable_ns += value.wall_ns;
    if (value.main_thread && in_mpi && is_startup_[value.path]) here.startup_ns += value.wall_ns;
  }
  touched_.drain([&](std::uint32_t region) {
    const RankTotals here = rank_totals_[region];
    rank_totals_[region] = {};
    RankTotals& up = rank_totals_[parent_[region]];
    up.main_ns += here.main_ns;
    up.helper_ns += here.helper_ns;
    up.mpi_ns += here.mpi_ns;
    up.runnable_ns += here.runnable_ns;
    up.startup_ns += here.startup_ns;
    const std::uint64_t outside_ns = here.main_ns + here.helper_ns;
    const std::uint64_t useful_ns = outside_ns - here.runnable_ns;
    const double useful_s = to_seconds(useful_ns);
    const double time_s = to_seconds(outside_ns + here.mpi_ns);
    if (time_s <= 0) return;
    sums_.resize(parent_.size());
    unite(sums_[region], Sum{useful_ns, 1, useful_s, time_s, to_seconds(here.startup_ns), rank.position});
  });
  rank_totals_[0] = {};
}

// What was measured at the ends of regions.
void RegionTime::sum_instances(const RankOrder& ranks, std::vector<RegionRow>& rows) const {
  std::vector<std::uint64_t> time_ns(rows.size()), min_ns(rows.size()), max_ns(rows.size());
  const ByRank times = by_rank(head_.region_times, head_.ranks.size());
  SpreadTable measured(rows.size());
  for (const std::uint32_t rank : ranks.ascending) {
    for (std::uint32_t i = times.starts[rank]; i < times.starts[rank + 1]; ++i) {
      const shard::RegionTime& time = head_.region_times[times.order[i]];
      if (time.path >= of_path_.size() || of_path_[time.path] == 0) continue;
      if (paths_.region(time.path) != time.path || time.count == 0) continue;
      const std::uint32_t at = of_path_[time.path] - 1;
      RegionRow& row = rows[at];
      min_ns[at] = row.count == 0 ? time.min_ns : std::min(min_ns[at], time.min_ns);
      if (row.count == 0 || time.max_ns > max_ns[at]) {
        max_ns[at] = time.max_ns;
        row.max_n = time.max_n >= 0 ? std::optional(time.max_n) : std::optional<std::int64_t>();
      }
      row.count += time.count;
      time_ns[at] += time.time_ns;
      measured.add(at, time.time_ns);
    }
    measured.end_rank(head_.ranks[rank].rank);
  }
  for (std::size_t at = 0; at < rows.size(); ++at) {
    rows[at].spread = measured.spread(at);
    if (rows[at].count == 0) continue;
    rows[at].time_s = to_seconds(time_ns[at]);
    rows[at].min_s = to_seconds(min_ns[at]);
    rows[at].max_s = to_seconds(max_ns[at]);
  }
}

// What was sampled, and what limited it.
void RegionTime::sum_time(const PathTime& time, const LimitTime& limits, std::vector<RegionRow>& rows) const {
  struct Time {
    std::array<std::uint64_t, kCategories> category_ns{};
    std::array<std::uint64_t, causes::kCount> cause_ns{};
  };
  std::vector<Time> sums(parent_.size());
  std::map<std::tuple<std::uint32_t, std::uint32_t, Limit>, std::uint64_t> of_places;
  for (std::uint32_t path = 1; path < of_path_.size(); ++path) {
    if (of_path_[path] == 0) continue;
    for (std::size_t c = 0; c < kCategories; ++c) {
      const auto category = static_cast<Category>(c);
      if (cpu_clock_ && category == Category::kIdle) continue;
      const std::uint32_t cell = time.cell(path, category);
      if (cell == shard::kNone) continue;
      const std::uint64_t all_ns = limits.main_ns(cell) + time.observed_helper_ns(cell);
      const bool native = category == Category::kNative;
      const std::uint64_t memory_ns = native ? limits.memory_ns(path) + limits.helper_memory_ns(path) : 0;
      sums[of_path_[path]].category_ns[c] += all_ns;
      const auto add = [&](std::uint8_t cause, std::uint64_t ns) {
        if (ns == 0) return;
        sums[of_path_[path]].cause_ns[cause] += ns;
        if (const std::uint32_t place = places_.of(path); place != 0)
          for (std::uint32_t at = of_path_[path]; at != 0; at = parent_[at])
            of_places[{at, place, limit_of(cause)}] += ns;
      };
      add(limits.cause(cell), all_ns - memory_ns);
      add(causes::kNativeMemory, memory_ns);
    }
  }
  for (auto at = static_cast<std::uint32_t>(sums.size()); at-- > 1;) {
    Time& up = sums[parent_[at]];
    RegionRow& row = rows[at - 1];
    for (std::size_t c = 0; c < kCategories; ++c) {
      const std::uint64_t ns = sums[at].category_ns[c];
      up.category_ns[c] += ns;
      row.category_s[c] = to_seconds(ns);
      row.sampled_s += to_seconds(ns);
    }
    for (std::uint8_t cause = 0; cause < causes::kCount; ++cause) {
      up.cause_ns[cause] += sums[at].cause_ns[cause];
      add_time(row.limits, cause, to_seconds(sums[at].cause_ns[cause]));
    }
  }
  for (const auto& [key, ns] : of_places) {
    const auto& [at, place, limit] = key;
    Limits& of = rows[at - 1].limits;
    if (to_seconds(ns) <= of.most_s[index(limit)]) continue;
    of.most_s[index(limit)] = to_seconds(ns);
    of.most_path[index(limit)] = places_.path(place);
  }
}

void RegionTime::sum_counts(const PathCounts& counts, std::vector<RegionRow>& rows) const {
  using Sums = std::vector<std::optional<std::uint64_t>>;  // by region
  const auto add = [](Sums& sums, std::uint32_t region, std::uint64_t amount) {
    sums[region] = sums[region].value_or(0) + amount;
  };
  for (std::uint32_t c = 0; c < counts.counters(); ++c) {
    Sums all(parent_.size()), outside_mpi(parent_.size());
    for (std::uint32_t path = 1; path < of_path_.size(); ++path) {
      if (of_path_[path] == 0) continue;
      const std::optional<std::uint64_t> amount = counts.amount(c, path);
      if (!amount) continue;
      add(all, of_path_[path], *amount);
      if (paths_.frame(path)->kind != shard::FrameKind::kMpi) add(outside_mpi, of_path_[path], *amount);
    }
    for (auto at = static_cast<std::uint32_t>(all.size()); at-- > 1;) {
      if (!all[at]) continue;
      add(all, parent_[at], *all[at]);
      rows[at - 1].counters.emplace_back(c, *all[at]);
      if (!outside_mpi[at]) continue;
      add(outside_mpi, parent_[at], *outside_mpi[at]);
      rows[at - 1].counters_outside_mpi.emplace_back(c, *outside_mpi[at]);
    }
  }
}

void RegionTime::sum_memory(std::vector<RegionRow>& rows) const {
  if (head_.memory_ranks.empty()) return;
  std::vector<RegionMemory> sums(parent_.size());
  const auto add = [](RegionMemory& into, const auto& from) {
    into.alloc_bytes += from.alloc_bytes;
    into.live_end_bytes += from.live_end_bytes;
    into.rank_peak_bytes += from.rank_peak_bytes;
    into.node_peak_bytes += from.node_peak_bytes;
    into.copy_bytes += from.copy_bytes;
  };
  for (const shard::MemorySite& site : head_.memory_sites)
    if (site.path < of_path_.size() && site.domain != shard::MemoryDomain::kFile)
      add(sums[of_path_[site.path]], site);
  for (auto at = static_cast<std::uint32_t>(sums.size()); at-- > 1;) {
    add(sums[parent_[at]], sums[at]);
    rows[at - 1].memory = sums[at];
  }
}

void RegionTime::sum_openmp(const OpenMpTime& openmp, std::vector<RegionRow>& rows) const {
  const std::vector<OpenMpParts> of_paths = openmp.parts();
  if (of_paths.empty()) return;
  std::vector<OpenMpParts> sums(parent_.size());
  for (std::uint32_t path = 1; path < of_path_.size(); ++path) sums[of_path_[path]].add(of_paths[path]);
  for (auto at = static_cast<std::uint32_t>(sums.size()); at-- > 1;) {
    sums[parent_[at]].add(sums[at]);
    rows[at - 1].openmp = sums[at].efficiency();
  }
}

void RegionTime::finish(const PathTime& time, const LimitTime& limits, const PathCounts& counts,
                        const OpenMpTime& openmp, const RankOrder& ranks, Analysis& analysis) const {
  if (parent_.size() == 1) return;
  std::vector<RegionRow>& rows = analysis.regions;
  rows.resize(parent_.size() - 1);
  for (std::size_t at = 0; at < rows.size(); ++at) {
    rows[at].names = names_[at + 1];
    rows[at].domain = domains_[at + 1];
    rows[at].is_of_library = is_of_library(rows[at].domain);
    const shard::Frame& frame = *paths_.frame(first_path_[at + 1]);
    rows[at].forward_file = paths_.text(frame.file);
    rows[at].forward_line = frame.line;
  }
  sum_instances(ranks, rows);
  sum_time(time, limits, rows);
  sum_counts(counts, rows);
  sum_memory(rows);
  sum_openmp(openmp, rows);

  const bool any_mpi = analysis.efficiency.load_balance.has_value();
  for (std::size_t at = 0; at < rows.size(); ++at) {
    RegionRow& row = rows[at];
    if (analysis.rank_seconds > 0) row.share = row.sampled_s / analysis.rank_seconds;
    if (at + 1 < sums_.size() && sums_[at + 1].ranks != 0) {
      const Sum& sum = sums_[at + 1];
      row.max_useful_s = sum.max_useful_s;
      row.longest_s = sum.longest_s;
      // As for the run: what a rank waited there longer than others is a loss.
      row.focus_s = sum.longest_s - std::min(sum.least_startup_s, sum.longest_s);
      row.slowest_rank = ranks.number(sum.position);
      row.mean_useful_s = to_seconds(sum.useful_ns) / static_cast<double>(sum.ranks);
    }
    if (any_mpi && row.max_useful_s.value_or(0) > 0 && row.focus_s.value_or(0) > 0) {
      row.efficiency.load_balance = *row.mean_useful_s / *row.max_useful_s;
      row.efficiency.communication = *row.max_useful_s / *row.focus_s;
      row.efficiency.parallel = *row.efficiency.load_balance * *row.efficiency.communication;
    }
    if (row.openmp.parallel) row.hybrid_parallel = row.efficiency.parallel.value_or(1) * *row.openmp.parallel;
    row.derived = derive(derived_input(analysis, row.counters, row.longest_s.value_or(0)));
  }
}

}  // namespace clusterprof::report
