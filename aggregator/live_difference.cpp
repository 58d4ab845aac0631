// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/live_difference.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "aggregator/corrected_time.hpp"

namespace clusterprof::aggregator {
namespace {

using shard::Rank;
using shard::ShardData;

std::uint64_t difference(std::uint64_t now, std::uint64_t before) { return now - std::min(now, before); }

bool is_same(const Rank& a, const Rank& b) {
  return a.rank == b.rank && a.pid == b.pid && a.start_utc_ns == b.start_utc_ns;
}

void subtract(Rank& rank, const Rank& before) {
  for (const auto amount : {&Rank::elapsed_ns, &Rank::paused_ns, &Rank::standby_ns, &Rank::cpu_ns,
                            &Rank::mpi_ns, &Rank::mpi_runnable_ns})
    rank.*amount = difference(rank.*amount, before.*amount);
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    rank.main_thread_ns[c] = difference(rank.main_thread_ns[c], before.main_thread_ns[c]);
}

struct IdHash {
  std::size_t operator()(const std::pair<shard::PathId, shard::Category>& key) const {
    return key.first.low ^ static_cast<std::size_t>(key.second);
  }
};

}  // namespace

std::vector<Rank> ranks_since(const ShardData& now, const ShardData* before) {
  ShardData since;  // what correct_ranks() needs
  since.run.clock = now.run.clock;
  since.ranks = now.ranks;
  if (before != nullptr) {
    std::unordered_map<std::int32_t, const Rank*> earlier;
    for (const Rank& rank : before->ranks) earlier.emplace(rank.rank, &rank);
    std::erase_if(since.ranks, [&](Rank& rank) {
      const auto found = earlier.find(rank.rank);
      if (found == earlier.end() || !is_same(rank, *found->second)) return true;
      subtract(rank, *found->second);
      return false;
    });
  }
  correct_ranks(since);
  return std::move(since.ranks);
}

std::vector<PathTime> times_since(const shard::LiveState& now, const shard::LiveState& before) {
  std::vector<PathTime> times;
  if (now.watch != before.watch) return times;
  std::unordered_map<std::pair<shard::PathId, shard::Category>, std::uint64_t, IdHash> earlier;
  for (const shard::LiveTime& row : before.times)
    earlier.emplace(std::pair(before.data.paths[row.path].id, row.category), row.wall_ns);
  for (const shard::LiveTime& row : now.times) {
    const shard::PathId id = now.data.paths[row.path].id;
    const auto found = earlier.find({id, row.category});
    const std::uint64_t ns = difference(row.wall_ns, found == earlier.end() ? 0 : found->second);
    if (ns != 0) times.push_back({id, row.category, ns});
  }
  return times;
}

}  // namespace clusterprof::aggregator
