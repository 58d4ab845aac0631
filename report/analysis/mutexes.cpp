// SPDX-License-Identifier: BSD-3-Clause
// Waiting for mutexes, by the lines where threads waited and those where the holders were; and for all locks,
// by lock.
#include "report/analysis/mutexes.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
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

// By the functions between the system call and the line that waits.
std::optional<LockKind> named_kind(const CallPaths& paths, std::uint32_t path) {
  constexpr int kFrames = 16;
  std::optional<LockKind> kind;
  for (int i = 0; i < kFrames && path != 0; ++i, path = paths.parent(path)) {
    const shard::Frame* const frame = paths.frame(path);
    if (frame == nullptr || frame->kind == shard::FrameKind::kPython) break;
    const std::string_view name = paths.text(frame->name);
    const auto says = [&](auto... parts) { return ((name.find(parts) != std::string_view::npos) || ...); };
    if (says("PyThread_acquire_lock", "PyMutex_Lock")) return LockKind::kPython;
    if (kind && *kind != LockKind::kFutex) continue;  // it may be a lock of Python's
    if (says("pthread_spin_lock")) return LockKind::kSpinlock;
    if (says("mutex_lock", "mutex_timedlock", "mutex_clocklock", "lll_lock_wait")) return LockKind::kMutex;
    if (says("cond_wait", "cond_timedwait", "cond_clockwait", "cnd_wait", "cnd_timedwait",
             "condition_variable", "Condvar"))
      kind = LockKind::kCondition;
    else if (says("rwlock", "shared_mutex", "shared_timed_mutex", "RwLock"))
      kind = LockKind::kRwLock;
    else if (says("sem_wait", "sem_timedwait", "sem_clockwait", "semaphore"))
      kind = LockKind::kSemaphore;
    else if (says("pthread_barrier_wait", "std::barrier", "std::latch"))
      kind = LockKind::kBarrier;
    else if (name == "syscall" || says("__atomic_wait", "__platform_wait"))
      kind = LockKind::kFutex;
  }
  return kind;
}

// Nothing: a wait inside of a library, of which neither the kind of lock nor who ended it is known.
std::optional<LockKind> kind_of(const CallPaths& paths, const shard::MutexWait& wait) {
  if (wait.path == 0) return LockKind::kSeveral;  // those for which there was no room
  const std::optional<LockKind> kind = named_kind(paths, wait.path);
  if (!kind && wait.holder_path != 0) return LockKind::kMutex;
  return kind == LockKind::kFutex && wait.holder_path == 0 ? std::nullopt : kind;
}

LockPlace lock_place_of(const SourceLocation& place) { return {place.file, place.function, place.line}; }

using Parts = std::map<LockPlace, MutexHolderRow>;

void add_part(Parts& parts, SourceLocation place, std::uint64_t wait_ns) {
  MutexHolderRow& row = parts[lock_place_of(place)];
  row.place = std::move(place);
  row.wait_s += to_seconds(wait_ns);
}

std::vector<MutexHolderRow> longest_first(Parts parts) {
  std::vector<MutexHolderRow> rows;
  for (auto& [key, row] : parts) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const MutexHolderRow& a, const MutexHolderRow& b) { return a.wait_s > b.wait_s; });
  return rows;
}

struct LockSum {
  LockRow row;
  std::uint64_t wait_ns = 0, longest_ns = 0;
  std::set<std::pair<std::uint32_t, std::uint64_t>> mutexes;  // rank, address
  Parts lines, holders;
};

// One variable is one row, although each rank has one of its own. Others are told apart by rank and address.
std::vector<LockRow> locks_of(const shard::ShardData& head, const CallPaths& paths, const RankOrder& order,
                              const std::vector<std::optional<LockKind>>& kinds) {
  using Key = std::tuple<LockKind, std::string, std::uint32_t, std::uint64_t>;
  std::map<Key, std::uint32_t> numbers;
  std::vector<LockSum> sums;
  std::vector<std::uint32_t> sum_of(head.mutex_waits.size(), shard::kNone);
  for (std::size_t i = 0; i < head.mutex_waits.size(); ++i) {
    const shard::MutexWait& wait = head.mutex_waits[i];
    const std::optional<LockKind> kind = kinds[i];
    if (!kind || wait.rank >= head.ranks.size()) continue;
    const bool is_one = wait.name.empty() && wait.mutex != 0;
    const auto [found, is_new] =
        numbers.try_emplace(Key(*kind, wait.name, is_one ? wait.rank : shard::kNone, is_one ? wait.mutex : 0),
                            static_cast<std::uint32_t>(sums.size()));
    if (is_new) {
      LockRow& made = sums.emplace_back().row;
      made.kind = *kind;
      made.name = wait.name;
      if (is_one) made.rank = head.ranks[wait.rank].rank, made.address = wait.mutex;
    }
    sum_of[i] = found->second;
    LockSum& sum = sums[found->second];
    sum.wait_ns += wait.wait_ns;
    sum.longest_ns = std::max(sum.longest_ns, wait.longest_ns);
    sum.row.waits += wait.samples;
    if (wait.mutex != 0) sum.mutexes.insert({wait.rank, wait.mutex});
    if (wait.path != 0) add_part(sum.lines, line_of(paths, wait.path), wait.wait_ns);
    if (wait.holder_path != 0) add_part(sum.holders, line_of(paths, wait.holder_path), wait.wait_ns);
  }
  SpreadTable spread(sums.size());
  const ByRank rows = by_rank(head.mutex_waits, head.ranks.size());
  for (const std::uint32_t rank : order.ascending) {
    for (std::uint32_t i = rows.starts[rank]; i < rows.starts[rank + 1]; ++i)
      if (sum_of[rows.order[i]] != shard::kNone)
        spread.add(sum_of[rows.order[i]], head.mutex_waits[rows.order[i]].wait_ns);
    spread.end_rank(head.ranks[rank].rank);
  }
  std::vector<LockRow> locks;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    LockRow& row = sums[i].row;
    row.wait_s = to_seconds(sums[i].wait_ns);
    row.longest_s = to_seconds(sums[i].longest_ns);
    row.mutexes = sums[i].mutexes.size();
    row.spread = spread.spread(i);
    row.lines = longest_first(std::move(sums[i].lines));
    row.holders = longest_first(std::move(sums[i].holders));
    locks.push_back(std::move(row));
  }
  std::stable_sort(locks.begin(), locks.end(),
                   [](const LockRow& a, const LockRow& b) { return a.wait_s > b.wait_s; });
  if (locks.size() > kMaxLocks) locks.resize(kMaxLocks);
  return locks;
}

}  // namespace

void list_mutexes(const shard::ShardData& head, const CallPaths& paths, const RankOrder& order,
                  Analysis& analysis) {
  std::vector<std::optional<LockKind>> kinds;
  kinds.reserve(head.mutex_waits.size());
  for (const shard::MutexWait& wait : head.mutex_waits) kinds.push_back(kind_of(paths, wait));
  std::map<LockPlace, std::uint32_t> numbers;
  std::vector<Sum> sums;
  std::vector<std::uint32_t> sum_of(head.mutex_waits.size(), shard::kNone);
  for (std::size_t i = 0; i < head.mutex_waits.size(); ++i) {
    const shard::MutexWait& wait = head.mutex_waits[i];
    if (kinds[i] != LockKind::kMutex || wait.rank >= head.ranks.size()) continue;
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
    add_part(sum.holders, line_of(paths, wait.holder_path), wait.wait_ns);
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
    row.holders = longest_first(std::move(sums[i].holders));
    analysis.mutexes.push_back(std::move(row));
  }
  std::stable_sort(analysis.mutexes.begin(), analysis.mutexes.end(),
                   [](const MutexRow& a, const MutexRow& b) { return a.wait_s > b.wait_s; });
  analysis.locks = locks_of(head, paths, order, kinds);
}

}  // namespace clusterprof::report
