// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/teams.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>

namespace clusterprof::aggregator::whatif {
namespace {

// Of a region's time: threads that wait less for each other within it have one phase.
constexpr double kLeastInnerWait = 0.02;

std::uint64_t team_key(std::uint32_t rank, std::uint32_t region) {
  return std::uint64_t{rank} << 32 | region;
}

template <typename Row>
bool is_outermost_of_main(const Row& row) {
  return row.main != 0 && row.level == 0 && row.threads != 0 && row.path != 0;
}

bool is_omp_wait(const shard::Frame& frame, const std::vector<std::string>& strings) {
  static constexpr std::array kNames = {shard::kOmpBarrierName,  shard::kOmpTasksName,   shard::kOmpLockName,
                                        shard::kOmpCriticalName, shard::kOmpOrderedName, shard::kOmpIdleName};
  return frame.kind == shard::FrameKind::kKernel &&
         std::find(kNames.begin(), kNames.end(), std::string_view(strings[frame.name])) != kNames.end();
}

// Calls take(first, end) for rows that follow each other and have the same rank.
template <typename Row, typename Take>
void for_each_rank_of(const std::vector<Row>& rows, const Take& take) {
  for (std::size_t first = 0, end = 0; first < rows.size(); first = end) {
    while (end < rows.size() && rows[end].rank == rows[first].rank) ++end;
    take(first, end);
  }
}

}  // namespace

Teams::Teams(const shard::ShardData& merged)
    : region_of_(merged.paths.size()), phase_of_(merged.paths.size()), is_waiting_(merged.paths.size()) {
  std::vector<bool> is_region(merged.paths.size());
  for (const shard::OmpRegion& row : merged.omp_regions) {
    if (!is_outermost_of_main(row) || row.path >= merged.paths.size()) continue;
    is_region[row.path] = true;
    const auto [entry, added] =
        row_of_.try_emplace(team_key(row.rank, row.path), static_cast<std::uint32_t>(teams_.size()));
    if (added) teams_.emplace_back();
    Team& team = teams_[entry->second];
    team.rank = row.rank;
    team.region = row.path;
    team.threads = std::max(team.threads, std::min(row.threads, shard::kMaxOmpThreads));
    team.time_ns += static_cast<double>(row.time_ns);
    team.mpi_ns += static_cast<double>(std::min(row.mpi_ns, row.time_ns));
    team.longest_ns += static_cast<double>(std::min(row.longest_ns, row.time_ns));
    team.work_ns += static_cast<double>(row.threads_ns - row.wait_ns - row.inner_wait_ns);
    team.inner_wait_ns += static_cast<double>(row.inner_wait_ns);
    team.schedule_ns += static_cast<double>(row.schedule_ns);
  }
  for (std::uint32_t path = 1; path < merged.paths.size(); ++path) {
    const std::uint32_t parent = merged.paths[path].parent;
    region_of_[path] = region_of_[parent] != 0 ? region_of_[parent] : is_region[path] ? path : 0;
    // What is between two barriers is on other lines of the region's body.
    phase_of_[path] = phase_of_[parent] != 0                              ? phase_of_[parent]
                      : region_of_[path] != 0 && region_of_[path] != path ? path
                                                                          : 0;
    const std::uint32_t frame = merged.paths[path].frame;
    is_waiting_[path] =
        is_waiting_[parent] || (frame != shard::kNone && is_omp_wait(merged.frames[frame], merged.strings));
  }
  if (teams_.empty()) return;
  find_members_by_thread(merged);
  find_members_by_number(merged);
}

Teams::Team* Teams::team_at(std::uint32_t rank, std::uint32_t path) {
  if (path >= region_of_.size() || region_of_[path] == 0 || is_waiting_[path]) return nullptr;
  const auto found = row_of_.find(team_key(rank, region_of_[path]));
  return found == row_of_.end() ? nullptr : &teams_[found->second];
}

bool Teams::knows(std::uint32_t rank, std::uint32_t region) const {
  const auto found = row_of_.find(team_key(rank, region));
  return found != row_of_.end() && !teams_[found->second].members.empty();
}

// Where the threads of a rank are told apart.
void Teams::find_members_by_thread(const shard::ShardData& merged) {
  for_each_rank_of(merged.span_times, [&](std::size_t first, std::size_t end) {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, double> times;  // team, thread, path
    for (std::size_t i = first; i < end; ++i) {
      const shard::SpanTime& row = merged.span_times[i];
      if (const Team* const team = team_at(row.rank, row.path); team != nullptr)
        times[{static_cast<std::uint32_t>(team - teams_.data()), row.thread, row.path}] +=
            static_cast<double>(row.wall_ns);
    }
    const std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>* before = nullptr;
    for (const auto& [key, ns] : times) {
      const auto& [row, thread, path] = key;
      Team& team = teams_[row];
      if (before == nullptr || std::get<0>(*before) != row || std::get<1>(*before) != thread)
        team.members.push_back({thread == 0, {}});
      team.members.back().parts.push_back({path, phase_of_[path], ns});
      before = &key;
    }
  });
}

// Otherwise what the others do is known of all together, and how much each number had to do.
void Teams::find_members_by_number(const shard::ShardData& merged) {
  const auto lacks_members = [](const Team& team) { return team.members.empty(); };
  if (std::none_of(teams_.begin(), teams_.end(), lacks_members)) return;
  std::vector<std::array<std::map<std::uint32_t, double>, 2>> times(
      teams_.size());  // by path; [0]: of others
  for (const shard::Value& value : merged.values)
    if (const Team* const team = team_at(value.rank, value.path);
        team != nullptr && team->members.empty() && value.category != shard::Category::kMpi)
      times[static_cast<std::size_t>(team - teams_.data())][value.main_thread ? 1 : 0][value.path] +=
          static_cast<double>(value.wall_ns);
  std::vector<std::map<std::uint32_t, double>> work(teams_.size());  // by number
  for (const shard::OmpThread& row : merged.omp_threads) {
    if (!is_outermost_of_main(row) || row.number == 0) continue;
    if (const auto found = row_of_.find(team_key(row.rank, row.path)); found != row_of_.end())
      work[found->second][row.number] += static_cast<double>(row.time_ns - row.wait_ns - row.inner_wait_ns);
  }
  for (std::size_t t = 0; t < teams_.size(); ++t) {
    Team& team = teams_[t];
    if (!team.members.empty() || (times[t][0].empty() && times[t][1].empty())) continue;
    const auto add = [&](bool main, double share) {
      Member& member = team.members.emplace_back();
      member.main = main;
      for (const auto& [path, ns] : times[t][main ? 1 : 0])
        member.parts.push_back({path, phase_of_[path], ns * share});
    };
    add(true, 1);
    double all = 0;
    for (const auto& [number, ns] : work[t]) all += ns;
    if (all > 0) {
      for (const auto& [number, ns] : work[t]) add(false, ns / all);
    } else {
      for (std::uint32_t i = 1; i < team.threads; ++i) add(false, 1.0 / (team.threads - 1));
    }
  }
}

std::unordered_map<std::uint64_t, double> Teams::factors(const Factor& factor,
                                                         const std::vector<Balance>& balances) const {
  // What is balanced, by rank (kNone: of all), region and phase; and among how many threads.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, double> pool;
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> threads;
  const auto balance_of = [&](std::uint32_t path) -> const Balance* {
    for (const Balance& balance : balances)
      if (balance.inside[path]) return &balance;
    return nullptr;
  };
  const auto owner = [](const Balance& balance, const Team& team) {
    return balance.over_ranks ? shard::kNone : team.rank;
  };
  if (!balances.empty())
    for (const Team& team : teams_) {
      for (const std::uint32_t rank : {team.rank, shard::kNone}) threads[{rank, team.region}] += team.threads;
      for (const Member& member : team.members)
        for (const Part& part : member.parts)
          if (const Balance* const balance = balance_of(part.path); balance != nullptr)
            pool[{owner(*balance, team), team.region, part.phase}] +=
                part.ns * factor(team.rank, member.main, part.path);
    }
  std::unordered_map<std::uint64_t, double> found;
  for (const Team& team : teams_) {
    if (team.members.empty() || team.time_ns <= team.mpi_ns) continue;
    std::map<std::uint32_t, double> balanced;  // by phase: that each thread gets
    double balanced_ns = 0;
    for (const std::uint32_t rank : {team.rank, shard::kNone})
      for (auto row = pool.lower_bound({rank, team.region, 0});
           row != pool.end() && std::get<0>(row->first) == rank && std::get<1>(row->first) == team.region;
           ++row) {
        const double ns = row->second / threads.at({rank, team.region});
        balanced[std::get<2>(row->first)] += ns;
        balanced_ns += ns;
      }
    // How long the thread works that works longest: in all, and in each phase.
    struct Times {
      double before_ns = 0, after_ns = 0;
    };
    Times whole, all;  // all: of the threads together
    std::map<std::uint32_t, Times> phases;
    for (const Member& member : team.members) {
      Times own{0, balanced_ns};
      std::map<std::uint32_t, Times> of_phase;
      for (const auto& [phase, ns] : balanced) of_phase[phase].after_ns = ns;
      for (const Part& part : member.parts) {
        const double after_ns =
            balance_of(part.path) != nullptr ? 0 : part.ns * factor(team.rank, member.main, part.path);
        Times& here = of_phase[part.phase];
        here.before_ns += part.ns;
        here.after_ns += after_ns;
        own.before_ns += part.ns;
        own.after_ns += after_ns;
      }
      const auto keep_longest = [](Times& longest, const Times& times) {
        longest.before_ns = std::max(longest.before_ns, times.before_ns);
        longest.after_ns = std::max(longest.after_ns, times.after_ns);
      };
      keep_longest(whole, own);
      for (const auto& [phase, times] : of_phase) keep_longest(phases[phase], times);
      all.before_ns += own.before_ns;
      all.after_ns += own.after_ns;
    }
    if (whole.before_ns <= 0) continue;
    // Samples say who does how much, the run time says how long that took. In each instance another thread
    // may be the last: that is in longest_ns, and where work is balanced there is none of it.
    const double scale = team.longest_ns > 0 ? team.longest_ns / whole.before_ns : 1;
    const double mean_scale = team.work_ns > 0 ? team.work_ns / all.before_ns : scale;
    const double share = all.after_ns > 0 ? std::min(balanced_ns * team.threads / all.after_ns, 1.0) : 0;
    // If threads wait for each other within the region, it takes between what the last thread does in all,
    // and what the last thread of each phase does: as far between the two as it did.
    Times each;
    for (const auto& [phase, times] : phases) {
      each.before_ns += times.before_ns;
      each.after_ns += times.after_ns;
    }
    double apart = 0;
    if (team.inner_wait_ns > kLeastInnerWait * team.time_ns * team.threads &&
        each.before_ns > whole.before_ns) {
      const double work_ns = std::max(team.time_ns - team.schedule_ns / team.threads, 0.0) / scale;
      apart = std::clamp((work_ns - whole.before_ns) / (each.before_ns - whole.before_ns), 0.0, 1.0);
    }
    const double before_ns = whole.before_ns + apart * (each.before_ns - whole.before_ns);
    const double after_ns = whole.after_ns + apart * (each.after_ns - whole.after_ns);
    const double changed_ns = team.time_ns - scale * before_ns +
                              (scale * (1 - share) + std::min(mean_scale, scale) * share) * after_ns;
    found[team_key(team.rank, team.region)] =
        std::max(changed_ns - team.mpi_ns, 0.0) / (team.time_ns - team.mpi_ns);
  }
  return found;
}

}  // namespace clusterprof::aggregator::whatif
