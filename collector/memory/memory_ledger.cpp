// SPDX-License-Identifier: BSD-3-Clause
#include "collector/memory/memory_ledger.hpp"

#include <algorithm>
#include <utility>

namespace clusterprof::collector {
namespace {

std::uint64_t changed(std::uint64_t amount, std::int64_t by) {
  return by >= 0 ? amount + static_cast<std::uint64_t>(by)
                 : amount - std::min(amount, std::uint64_t{0} - static_cast<std::uint64_t>(by));
}

}  // namespace

void MemoryLedger::add(RankKey rank, const std::vector<MemoryChange>& changes) {
  for (const MemoryChange& change : changes)
    pending_.push_back({change.time_ns, rank, change.bytes, change.of});
}

void MemoryLedger::leave(RankKey key, std::uint64_t start_ns, std::uint64_t end_ns,
                         const std::vector<MemoryLeft>& left) {
  if (left.empty()) return;
  Rank& rank = ranks_[key];
  if (start_ns >= rank.left_ns) {
    for (Entry& entry : rank.entries) {
      entry.left = 0;
      entry.left_by_age = {};
    }
  }
  rank.left_ns = std::max(rank.left_ns, end_ns);
  for (const MemoryLeft& from : left) {
    Entry& entry = entry_of(rank, from.of);
    entry.left += from.bytes;
    add_ages(entry.left_by_age, from.by_age);
  }
}

void MemoryLedger::advance(std::uint64_t until_ns) {
  std::stable_sort(pending_.begin(), pending_.end(),
                   [](const Pending& a, const Pending& b) { return a.time_ns < b.time_ns; });
  const auto end = std::find_if(pending_.begin(), pending_.end(),
                                [until_ns](const Pending& change) { return change.time_ns > until_ns; });
  std::for_each(pending_.begin(), end, [this](const Pending& change) { apply(change); });
  pending_.erase(pending_.begin(), end);
  applied_ns_ = std::max(applied_ns_, until_ns);
  reach(node_, applied_ns_);
  for (auto& [key, rank] : ranks_) reach(rank.account, applied_ns_);
}

// The account has had what it has until then.
void MemoryLedger::reach(Account& account, std::uint64_t time_ns) {
  if (time_ns <= account.until_ns) return;
  if (account.until_ns != 0) account.series.level(grid_, 0, account.until_ns, time_ns, account.live);
  account.until_ns = time_ns;
}

void MemoryLedger::change(Account& account, std::uint64_t time_ns, std::int64_t bytes) {
  reach(account, time_ns);
  account.live = changed(account.live, bytes);
  if (account.live <= account.peak) return;
  account.peak = account.live;
  account.peak_ns = time_ns;
  ++account.peaks;
}

MemoryLedger::Entry& MemoryLedger::entry_of(Rank& rank, RawMemoryKey of) const {
  const auto [place, added] = rank.index.try_emplace(of, static_cast<std::uint32_t>(rank.entries.size()));
  if (added) {
    Entry& entry = rank.entries.emplace_back();
    entry.of = of;
    // It had nothing at the peaks there were.
    entry.rank_peaks = rank.account.peaks;
    entry.node_peaks = node_.peaks;
  }
  return rank.entries[place->second];
}

MemoryLedger::PathLevel& MemoryLedger::level_of(std::uint32_t path) {
  if (const auto known = levels_.find(path); known != levels_.end()) return known->second;
  return levels_[levels_.size() < kMaxSeries ? path : 0];
}

void MemoryLedger::hold(PathLevel& level, std::uint64_t time_ns) {
  if (time_ns <= level.until_ns) return;
  level.series.hold(path_grid_, level.until_ns, time_ns, level.live);
  level.until_ns = time_ns;
}

void MemoryLedger::apply(const Pending& from) {
  Rank& rank = ranks_[from.rank];
  Entry& entry = entry_of(rank, from.of);
  if (std::exchange(entry.rank_peaks, rank.account.peaks) != rank.account.peaks)
    entry.at_rank_peak = entry.live;
  if (std::exchange(entry.node_peaks, node_.peaks) != node_.peaks) entry.at_node_peak = entry.live;
  const std::uint64_t before = entry.live;
  entry.live = changed(entry.live, from.bytes);
  if (!is_held(from.of.domain)) return;
  const auto bytes = static_cast<std::int64_t>(entry.live - before);
  change(rank.account, from.time_ns, bytes);
  change(node_, from.time_ns, bytes);
  PathLevel& level = level_of(from.of.path);
  hold(level, from.time_ns);
  level.live = changed(level.live, bytes);
}

bool MemoryLedger::rename(RankKey from, RankKey to) {
  if (ranks_.contains(to)) return false;
  if (auto rank = ranks_.extract(from); !rank.empty()) {
    rank.key() = to;
    ranks_.insert(std::move(rank));
  }
  for (Pending& change : pending_)
    if (change.rank == from) change.rank = to;
  return true;
}

std::uint64_t MemoryLedger::live(RankKey key) const {
  const auto found = ranks_.find(key);
  return found != ranks_.end() ? found->second.account.live : 0;
}

MemoryLedger::RankMemory MemoryLedger::rank(RankKey key) const {
  RankMemory memory;
  const auto found = ranks_.find(key);
  if (found == ranks_.end()) return memory;
  const Rank& rank = found->second;
  memory.peak = {rank.account.peak, rank.account.peak_ns};
  memory.series = rank.account.series;
  for (const Entry& entry : rank.entries) {
    Row row{entry.of, entry.live + entry.left, 0, 0, entry.left_by_age};
    if (is_held(entry.of.domain)) {
      row.rank_peak = entry.rank_peaks == rank.account.peaks ? entry.at_rank_peak : entry.live;
      row.node_peak = entry.node_peaks == node_.peaks ? entry.at_node_peak : entry.live;
      memory.live_end += row.live_end;
    }
    if (row.live_end != 0 || row.rank_peak != 0 || row.node_peak != 0) memory.rows.push_back(row);
  }
  std::sort(memory.rows.begin(), memory.rows.end(), [](const Row& a, const Row& b) { return a.of < b.of; });
  return memory;
}

std::vector<MemoryLedger::Cell> MemoryLedger::cells(std::uint64_t now_ns) {
  std::vector<Cell> cells;
  for (auto& [path, level] : levels_) hold(level, now_ns);  // may make the bins wider
  for (auto& [path, level] : levels_)
    level.series.for_each(path_grid_, [&cells, of = path](std::uint32_t bin, std::uint64_t kib_ms) {
      cells.push_back({of, bin, kib_ms});
    });
  return cells;
}

}  // namespace clusterprof::collector
