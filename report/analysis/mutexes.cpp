// SPDX-License-Identifier: BSD-3-Clause
// Waiting for mutexes, by the lines where threads waited and those where the holders were.
#include "report/analysis/mutexes.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using LockPlace = std::tuple<std::string, std::string, std::uint32_t>;

struct Sum {
  MutexRow row;
  std::uint64_t wait_ns = 0;
  std::set<std::pair<std::uint32_t, std::uint64_t>> mutexes;  // rank, address
  std::map<LockPlace, MutexHolderRow> holders;
};

// A line is one place, whatever it calls to lock a mutex.
SourceLocation line_of(const CallPaths& paths, std::uint32_t path) {
  SourceLocation place = path < paths.size() ? place_of_path(paths, path) : SourceLocation();
  place.called.clear();
  place.op.clear();
  return place;
}

LockPlace lock_place_of(const SourceLocation& place) { return {place.file, place.function, place.line}; }

}  // namespace

void list_mutexes(const shard::ShardData& head, const CallPaths& paths, const RankOrder& order,
                  Analysis& analysis) {
  std::map<LockPlace, std::uint32_t> numbers;
  std::vector<Sum> sums;
  std::vector<std::uint32_t> sum_of(head.mutex_waits.size(), shard::kNone);
  for (std::size_t i = 0; i < head.mutex_waits.size(); ++i) {
    const shard::MutexWait& wait = head.mutex_waits[i];
    if (wait.rank >= head.ranks.size()) continue;
    SourceLocation place = line_of(paths, wait.path);
    const auto [found, is_new] =
        numbers.try_emplace(lock_place_of(place), static_cast<std::uint32_t>(sums.size()));
    if (is_new) sums.emplace_back().row.place = std::move(place);
    sum_of[i] = found->second;
    Sum& sum = sums[found->second];
    sum.wait_ns += wait.wait_ns;
    sum.row.samples += wait.samples;
    if (wait.mutex != 0) sum.mutexes.insert({wait.rank, wait.mutex});
    if (wait.holder_path == 0) continue;
    SourceLocation holder = line_of(paths, wait.holder_path);
    MutexHolderRow& row = sum.holders[lock_place_of(holder)];
    row.place = std::move(holder);
    row.wait_s += to_seconds(wait.wait_ns);
  }
  SpreadTable spread(sums.size());
  const ByRank rows = by_rank(head.mutex_waits, head.ranks.size());
  for (const std::uint32_t rank : order.ascending) {
    for (std::uint32_t i = rows.starts[rank]; i < rows.starts[rank + 1]; ++i)
      if (sum_of[rows.order[i]] != shard::kNone)
        spread.add(sum_of[rows.order[i]], head.mutex_waits[rows.order[i]].wait_ns);
    spread.end_rank(head.ranks[rank].rank);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    MutexRow& row = sums[i].row;
    row.wait_s = to_seconds(sums[i].wait_ns);
    row.mutexes = sums[i].mutexes.size();
    row.spread = spread.spread(i);
    for (auto& [key, holder] : sums[i].holders) row.holders.push_back(std::move(holder));
    std::stable_sort(row.holders.begin(), row.holders.end(),
                     [](const MutexHolderRow& a, const MutexHolderRow& b) { return a.wait_s > b.wait_s; });
    analysis.mutexes.push_back(std::move(row));
  }
  std::stable_sort(analysis.mutexes.begin(), analysis.mutexes.end(),
                   [](const MutexRow& a, const MutexRow& b) { return a.wait_s > b.wait_s; });
}

}  // namespace clusterprof::report
