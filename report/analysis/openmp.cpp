// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/openmp.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::OmpKind;

std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

// Of the team that begins at a line, whatever the number of its threads.
using PlaceKey = std::tuple<std::string, std::string, std::uint32_t, std::string>;
PlaceKey key_of(const SourceLocation& place) {
  return {place.file, place.function, place.line, place.called};
}

std::optional<double> ratio(double part, double whole) {
  return whole > 0 ? std::optional(part / whole) : std::nullopt;
}

// What a parallel region could take over: neither the interpreter's work nor waiting.
bool is_native_work(shard::Category category) {
  return category == shard::Category::kNative || category == shard::Category::kSystem ||
         category == shard::Category::kRunnable;
}

// The parts of the time of teams. Their product is the share of work.
OpenMpEfficiency efficiency_of(double work_s, double serial_s, double imbalance_s, double schedule_s) {
  const double not_late_s = work_s + serial_s, present_s = not_late_s + imbalance_s;
  OpenMpEfficiency efficiency;
  efficiency.serialization = ratio(work_s, not_late_s);
  efficiency.load_balance = ratio(not_late_s, present_s);
  efficiency.scheduling = ratio(present_s, present_s + schedule_s);
  efficiency.parallel = ratio(work_s, present_s + schedule_s);
  return efficiency;
}

// Sums over teams.
struct TeamSums {
  std::uint64_t time_ns = 0, work_ns = 0, end_wait_ns = 0, inner_wait_ns = 0, schedule_ns = 0, thread_ns = 0;
  std::uint64_t one_by_one_ns = 0, loop_schedule_ns = 0;
  double longest_ns = 0;  // of each instance, times the threads of its team
  std::uint64_t count = 0;
  std::uint32_t threads = 0;  // of the largest
  std::vector<OpenMpThreadRow> by_number;

  void add(const shard::OmpRegion& region) {
    time_ns += region.time_ns;
    thread_ns += region.time_ns * region.threads;
    work_ns += less(region.threads_ns, region.wait_ns + region.inner_wait_ns);
    end_wait_ns += region.wait_ns;
    inner_wait_ns += region.inner_wait_ns;
    schedule_ns += region.schedule_ns;
    longest_ns += static_cast<double>(region.longest_ns) * region.threads;
    count += region.count;
    threads = std::max(threads, region.threads);
  }
  void add(const shard::OmpConstruct& construct) {
    if (shard::lets_one_through(construct.kind)) one_by_one_ns += construct.wait_ns;
    loop_schedule_ns += construct.schedule_ns;
  }
  void add(const shard::OmpThread& thread) {
    if (thread.number >= kMaxOpenMpThreads) return;
    while (by_number.size() <= thread.number)
      by_number.push_back({static_cast<std::uint32_t>(by_number.size()), 0, 0});
    const std::uint64_t waited_ns = thread.wait_ns + thread.inner_wait_ns;
    by_number[thread.number].work_s += to_seconds(less(thread.time_ns, waited_ns));
    by_number[thread.number].wait_s += to_seconds(waited_ns);
  }
  // Asking for parts of loops is a part of what a region calls work.
  [[nodiscard]] std::uint64_t asking_ns() const { return std::min(loop_schedule_ns, work_ns); }
  // Of a region, or of a rank in it.
  template <typename Row>
  void tell(Row& row) {
    row.count = count;
    row.threads = threads;
    row.time_s = to_seconds(time_ns);
    row.thread_s = to_seconds(thread_ns);
    row.work_s = to_seconds(work_ns - asking_ns());
    row.wait_s = to_seconds(end_wait_ns + inner_wait_ns);
    row.serial_s = to_seconds(std::min(one_by_one_ns, inner_wait_ns));
    row.schedule_s = to_seconds(schedule_ns + asking_ns());
    row.imbalance = ratio(longest_ns / 1e9, to_seconds(work_ns));
    row.efficiency = efficiency_of(row.work_s, row.serial_s, row.wait_s - row.serial_s, row.schedule_s);
    row.threads_of_team = std::move(by_number);
  }
};

// The sums of rows that become one.
struct RegionSum {
  OpenMpRegionRow row;
  TeamSums all;
  std::map<std::uint32_t, TeamSums> of_rank;
  std::map<std::pair<OmpKind, PlaceKey>, OpenMpConstructRow> constructs;
  std::map<std::pair<OmpKind, PlaceKey>, double> longest_of;  // as TeamSums::longest_ns, in seconds
};

}  // namespace

OpenMpParts openmp_parts(const shard::OmpSums& sums, std::uint32_t threads, std::uint64_t unused_ns,
                         std::uint64_t serial_ns) {
  const std::uint64_t waited_ns = sums.wait_ns + sums.inner_wait_ns;
  const std::uint64_t one_by_one_ns = std::min(sums.one_by_one_ns, sums.inner_wait_ns);
  const std::uint64_t in_regions_ns = less(sums.threads_ns, waited_ns);
  const std::uint64_t asking_ns = std::min(sums.asking_ns, in_regions_ns);
  OpenMpParts parts;
  parts.work_s = to_seconds(in_regions_ns - asking_ns + serial_ns);
  parts.imbalance_s = to_seconds(waited_ns - one_by_one_ns);
  parts.schedule_s = to_seconds(sums.schedule_ns + asking_ns);
  parts.serialization_s =
      to_seconds(serial_ns) * (threads - 1) + to_seconds(unused_ns) + to_seconds(one_by_one_ns);
  return parts;
}

std::uint64_t openmp_serial_ns(const shard::OmpSums& sums, std::uint64_t recorded_ns, std::uint64_t mpi_ns) {
  return less(recorded_ns, sums.region_ns + less(mpi_ns, sums.mpi_ns));
}

void keep_costly(std::vector<OpenMpRegionRank>& ranks, std::size_t most) {
  if (ranks.size() <= most) return;
  std::stable_sort(ranks.begin(), ranks.end(), [](const OpenMpRegionRank& a, const OpenMpRegionRank& b) {
    return a.wait_s + a.schedule_s > b.wait_s + b.schedule_s;
  });
  ranks.resize(most);
  std::sort(ranks.begin(), ranks.end(),
            [](const OpenMpRegionRank& a, const OpenMpRegionRank& b) { return a.rank < b.rank; });
}

OpenMpTime::OpenMpTime(const shard::ShardData& head, const CallPaths& paths)
    : head_(head), paths_(paths), of_rank_(head.ranks.size()) {
  read_ranks();
  if (head_.omp_ranks.empty()) return;
  in_region_.resize(paths_.size());
  for (const shard::OmpRegion& region : head_.omp_regions)
    if (region.path != 0 && region.path < in_region_.size()) in_region_[region.path] = true;
  for (std::uint32_t path = 1; path < in_region_.size(); ++path)
    if (in_region_[paths_.parent(path)]) in_region_[path] = true;
}

void OpenMpTime::read_ranks() {
  for (const shard::OmpRank& row : head_.omp_ranks)
    if (row.rank < of_rank_.size()) of_rank_[row.rank].of = &row;
  const auto is_of_main = [&](const auto& row) {
    return row.rank < of_rank_.size() && shard::OmpSums::counts(row.main, row.level);
  };
  for (const shard::OmpRegion& region : head_.omp_regions)
    if (is_of_main(region)) of_rank_[region.rank].sums.add(region);
  for (const shard::OmpConstruct& construct : head_.omp_constructs)
    if (is_of_main(construct)) of_rank_[construct.rank].sums.add(construct);
  // A team that was needed once or for a moment says nothing about how many threads there are.
  constexpr double kMatters = 0.01;
  for (const shard::OmpRegion& region : head_.omp_regions) {
    if (!is_of_main(region)) continue;
    Rank& rank = of_rank_[region.rank];
    if (static_cast<double>(region.time_ns) >= kMatters * static_cast<double>(rank.sums.region_ns))
      rank.threads = std::max(rank.threads, region.threads);
  }
  for (const shard::OmpRegion& region : head_.omp_regions)
    if (is_of_main(region) && region.threads < of_rank_[region.rank].threads)
      of_rank_[region.rank].unused_ns += region.time_ns * (of_rank_[region.rank].threads - region.threads);
  for (std::uint32_t i = 0; i < of_rank_.size(); ++i) {
    Rank& rank = of_rank_[i];
    const shard::Rank& whole = head_.ranks[i];
    rank.mpi_ns = less(whole.mpi_ns, rank.sums.mpi_ns);
    rank.serial_ns = openmp_serial_ns(rank.sums, less(whole.elapsed_ns, whole.paused_ns), whole.mpi_ns);
  }
}

void OpenMpTime::add(const RankInput& rank) {
  if (rank.index >= of_rank_.size()) return;
  const Rank& here = of_rank_[rank.index];
  if (!here.has_teams()) return;
  const auto counts = [&](const shard::Value& value) {
    return value.main_thread && value.category != shard::Category::kMpi && !in_region_[value.path];
  };
  std::uint64_t sampled_ns = 0;
  for (const shard::Value& value : rank.values)
    if (counts(value)) sampled_ns += value.wall_ns;
  if (sampled_ns == 0) return;
  serial_ns_.resize(paths_.size());
  lost_ns_.resize(paths_.size());
  native_ns_.resize(paths_.size());
  native_of_rank_ns_.resize(of_rank_.size());
  // How long it was is measured; where it was is sampled.
  const double factor = static_cast<double>(here.serial_ns) / static_cast<double>(sampled_ns);
  for (const shard::Value& value : rank.values) {
    if (!counts(value)) continue;
    const auto ns = static_cast<std::uint64_t>(static_cast<double>(value.wall_ns) * factor);
    serial_ns_[value.path] += ns;
    lost_ns_[value.path] += ns * (here.threads - 1);
    if (!is_native_work(value.category)) continue;
    native_ns_[value.path] += ns;
    native_of_rank_ns_[rank.index] += ns;
  }
}

std::vector<OpenMpRegionRow> OpenMpTime::regions(const RankOrder& order) const {
  std::map<std::pair<PlaceKey, bool>, std::size_t> numbers;
  std::vector<RegionSum> sums;
  std::map<std::uint32_t, SourceLocation> places;  // by path
  const auto place_at = [&](std::uint32_t path) -> const SourceLocation& {
    const auto [found, is_new] = places.try_emplace(path);
    if (is_new && path < paths_.size()) found->second = place_of_path(paths_, path);
    return found->second;
  };
  const auto sum_of = [&](std::uint32_t path, bool is_teams) {
    const SourceLocation& place = place_at(path);
    const auto [found, is_new] = numbers.try_emplace({key_of(place), is_teams}, sums.size());
    if (is_new) {
      RegionSum& made = sums.emplace_back();
      made.row.place = place;
      made.row.is_teams = is_teams;
      made.row.level = UINT32_MAX;
    }
    return found->second;
  };
  std::map<std::uint32_t, std::size_t> of_path;
  for (const shard::OmpRegion& region : head_.omp_regions) {
    if (region.rank >= head_.ranks.size()) continue;
    const std::size_t number = sum_of(region.path, region.kind == OmpKind::kTeams);
    of_path[region.path] = number;
    RegionSum& sum = sums[number];
    OpenMpRegionRow& row = sum.row;
    row.level = std::min<std::uint32_t>(row.level, region.level);
    row.unfinished += region.unfinished;
    row.threads_asked = std::max(row.threads_asked, region.asked);
    sum.all.add(region);
    sum.of_rank[region.rank].add(region);
  }
  for (const shard::OmpConstruct& construct : head_.omp_constructs) {
    const auto region = of_path.find(construct.region_path);
    if (construct.rank >= head_.ranks.size() || region == of_path.end()) continue;
    RegionSum& sum = sums[region->second];
    sum.all.add(construct);
    sum.of_rank[construct.rank].add(construct);
    const SourceLocation& place = place_at(construct.path);
    const std::pair key(construct.kind, key_of(place));
    OpenMpConstructRow& row = sum.constructs[key];
    row.kind = construct.kind;
    row.place = place;
    row.count += construct.count;
    row.time_s += to_seconds(construct.time_ns);
    row.wait_s += to_seconds(construct.wait_ns);
    row.schedule_s += to_seconds(construct.schedule_ns);
    row.chunks += construct.chunks;
    row.iterations += construct.iterations;
    row.schedules |= construct.schedules;
    sum.longest_of[key] += to_seconds(construct.longest_ns) * construct.threads;
  }
  for (const shard::OmpThread& thread : head_.omp_threads) {
    const auto region = of_path.find(thread.path);
    if (thread.rank >= head_.ranks.size() || region == of_path.end()) continue;
    sums[region->second].all.add(thread);
    sums[region->second].of_rank[thread.rank].add(thread);
  }
  // How it differs between ranks.
  SpreadTable times(sums.size()), waits(sums.size());
  const ByRank rows = by_rank(head_.omp_regions, head_.ranks.size());
  for (const std::uint32_t rank : order.ascending) {
    for (std::uint32_t i = rows.starts[rank]; i < rows.starts[rank + 1]; ++i) {
      const shard::OmpRegion& region = head_.omp_regions[rows.order[i]];
      const auto number = static_cast<std::uint32_t>(of_path.at(region.path));
      times.add(number, region.time_ns);
      waits.add(number, region.wait_ns + region.inner_wait_ns);
    }
    times.end_rank(head_.ranks[rank].rank);
    waits.end_rank(head_.ranks[rank].rank);
  }

  std::vector<OpenMpRegionRow> result;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    RegionSum& sum = sums[i];
    OpenMpRegionRow& row = sum.row;
    sum.all.tell(row);
    row.end_wait_s = to_seconds(sum.all.end_wait_ns);
    row.spread = times.spread(i);
    row.wait_spread = waits.spread(i);
    for (const std::uint32_t index : order.ascending) {
      const auto of_rank = sum.of_rank.find(index);
      if (of_rank == sum.of_rank.end()) continue;
      OpenMpRegionRank& one = row.ranks.emplace_back();
      one.rank = head_.ranks[index].rank;
      of_rank->second.tell(one);
    }
    keep_costly(row.ranks, kMaxOpenMpRanks);
    for (auto& [key, construct] : sum.constructs) {
      const bool is_shared_out = construct.kind == OmpKind::kLoop || construct.kind == OmpKind::kSections;
      if (is_shared_out)
        construct.imbalance = ratio(sum.longest_of[key], construct.time_s - construct.wait_s);
      row.constructs.push_back(std::move(construct));
    }
    std::stable_sort(
        row.constructs.begin(), row.constructs.end(),
        [](const OpenMpConstructRow& a, const OpenMpConstructRow& b) { return a.wait_s > b.wait_s; });
    result.push_back(std::move(row));
  }
  std::stable_sort(result.begin(), result.end(), [](const OpenMpRegionRow& a, const OpenMpRegionRow& b) {
    return a.thread_s > b.thread_s;
  });
  return result;
}

std::vector<OpenMpSerialRow> OpenMpTime::serial() const {
  std::map<PlaceKey, OpenMpSerialRow> rows;
  for (std::uint32_t path = 0; path < serial_ns_.size(); ++path) {
    if (serial_ns_[path] == 0) continue;
    SourceLocation place = place_of_path(paths_, path);
    place.called.clear();  // a line is one row, whatever it calls
    OpenMpSerialRow& row = rows[key_of(place)];
    row.place = std::move(place);
    row.time_s += to_seconds(serial_ns_[path]);
    row.lost_s += to_seconds(lost_ns_[path]);
    row.native_s += to_seconds(native_ns_[path]);
  }
  std::vector<OpenMpSerialRow> result;
  for (auto& [key, row] : rows) result.push_back(std::move(row));
  std::stable_sort(result.begin(), result.end(), [](const OpenMpSerialRow& a, const OpenMpSerialRow& b) {
    return std::pair(a.lost_s, a.time_s) > std::pair(b.lost_s, b.time_s);
  });
  return result;
}

std::vector<OpenMpRank> OpenMpTime::ranks(const RankOrder& order) const {
  std::vector<OpenMpRank> result;
  for (const std::uint32_t index : order.ascending) {
    const Rank& from = of_rank_[index];
    if (from.of == nullptr) continue;
    OpenMpRank& row = result.emplace_back();
    row.rank = head_.ranks[index].rank;
    row.method = from.of->method;
    row.runtime = from.of->runtime;
    row.other_runtime = (from.of->flags & shard::OmpRank::kOtherRuntime) != 0;
    row.threads = from.threads;
    row.processors = from.of->processors;
    row.region_s = to_seconds(from.sums.region_ns);
    row.serial_s = to_seconds(from.serial_ns);
    if (index < native_of_rank_ns_.size()) row.serial_native_s = to_seconds(native_of_rank_ns_[index]);
    row.mpi_s = to_seconds(from.mpi_ns);
    const std::uint64_t waited_ns = from.sums.wait_ns + from.sums.inner_wait_ns;
    row.wait_s = to_seconds(waited_ns);
    row.work_s = to_seconds(less(from.sums.threads_ns, waited_ns));
  }
  return result;
}

void OpenMpTime::find_efficiency(OpenMp& openmp) const {
  OpenMpParts all;
  for (const Rank& rank : of_rank_)
    if (rank.has_teams()) all.add(rank.parts());
  openmp.work_s = all.work_s;
  openmp.imbalance_s = all.imbalance_s;
  openmp.schedule_s = all.schedule_s;
  openmp.serialization_s = all.serialization_s;
  openmp.efficiency = all.efficiency();
}

std::vector<OpenMpParts> OpenMpTime::parts() const {
  if (head_.omp_ranks.empty()) return {};
  struct Sum {
    TeamSums teams;
    std::uint64_t unused_ns = 0;
  };
  std::map<std::uint32_t, Sum> teams;  // by path
  for (const shard::OmpRegion& region : head_.omp_regions) {
    if (region.rank >= of_rank_.size() || !shard::OmpSums::counts(region.main, region.level)) continue;
    if (region.path >= paths_.size()) continue;
    const Rank& rank = of_rank_[region.rank];
    if (!rank.has_teams()) continue;
    Sum& sum = teams[region.path];
    sum.teams.add(region);
    if (region.threads < rank.threads) sum.unused_ns += region.time_ns * (rank.threads - region.threads);
  }
  for (const shard::OmpConstruct& construct : head_.omp_constructs)
    if (const auto of = teams.find(construct.region_path);
        of != teams.end() && shard::OmpSums::counts(construct.main, construct.level))
      of->second.teams.add(construct);
  std::vector<OpenMpParts> parts(paths_.size());
  for (std::uint32_t path = 0; path < serial_ns_.size(); ++path) {
    parts[path].work_s = to_seconds(serial_ns_[path]);
    parts[path].serialization_s = to_seconds(lost_ns_[path]);
  }
  for (const auto& [path, sum] : teams) {
    OpenMpRegionRank row;
    TeamSums(sum.teams).tell(row);
    parts[path].work_s += row.work_s;
    parts[path].serialization_s += row.serial_s + to_seconds(sum.unused_ns);
    parts[path].imbalance_s += row.wait_s - row.serial_s;
    parts[path].schedule_s += row.schedule_s;
  }
  return parts;
}

OpenMpEfficiency OpenMpParts::efficiency() const {
  return efficiency_of(work_s, serialization_s, imbalance_s, schedule_s);
}

void OpenMpTime::finish(const RankOrder& order, Analysis& analysis) const {
  if (head_.omp_ranks.empty()) return;
  OpenMp& openmp = analysis.openmp.emplace();
  openmp.ranks = ranks(order);
  openmp.regions = regions(order);
  openmp.serial = serial();
  find_efficiency(openmp);
  openmp.hybrid_mpi = analysis.efficiency.parallel;
  openmp.hybrid_openmp = openmp.efficiency.parallel;
  if (openmp.hybrid_openmp) openmp.hybrid_parallel = openmp.hybrid_mpi.value_or(1) * *openmp.hybrid_openmp;
}

}  // namespace clusterprof::report
