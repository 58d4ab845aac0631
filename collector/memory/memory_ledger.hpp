// SPDX-License-Identifier: BSD-3-Clause
// What lives on the node, by rank and call path, now and when each rank and the node itself had the most. The
// changes that processes tell have times, so the ledger goes through those of all of them in the order of
// time: the peak of the node is that of one instant, and not of the looks of a collector.
//
// Amounts at a peak cost nothing while a peak is followed by a higher one: each row remembers which peak it
// has seen, and keeps what it had there when it next changes. Times are of CLOCK_MONOTONIC. One thread at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "collector/charge/time_series.hpp"
#include "collector/memory/level_series.hpp"
#include "collector/memory/memory_amounts.hpp"

namespace clusterprof::collector {

class MemoryLedger {
 public:
  using RankKey = std::int64_t;
  // Call paths with a series of their own; further ones share that of the root.
  static constexpr std::size_t kMaxSeries = 1u << 12;

  // The axes of the series of ranks and the node, and of those of call paths. Both must outlive this.
  MemoryLedger(TimeGrid& grid, TimeGrid& path_grid) : grid_(grid), path_grid_(path_grid) {}

  // What a process of the rank has told. Not applied until advance() reaches its time.
  void add(RankKey rank, const std::vector<MemoryChange>& changes);
  // What a process that lived in that time has left, which counts as what the rank has at its end. What
  // processes have left that ended before does not any more. The changes that give it back are added besides.
  void leave(RankKey rank, std::uint64_t start_ns, std::uint64_t end_ns, const std::vector<MemoryLeft>& left);
  // All processes have told what happened until then.
  void advance(std::uint64_t until_ns);
  // What was one rank's is another's, if nothing is known of that one. Otherwise false, and nothing changes.
  bool rename(RankKey from, RankKey to);

  // Whether anything was added.
  [[nodiscard]] bool any() const noexcept { return !ranks_.empty() || !pending_.empty(); }
  // What the rank has now.
  [[nodiscard]] std::uint64_t live(RankKey rank) const;

  struct Row {
    RawMemoryKey of;
    std::uint64_t live_end = 0, rank_peak = 0, node_peak = 0;
    MemoryAges left_by_age{};  // of processes that have left it
  };
  struct Peak {
    std::uint64_t bytes = 0, time_ns = 0;  // bytes 0: there was none
  };
  struct RankMemory {
    Peak peak;
    std::uint64_t live_end = 0;
    std::vector<Row> rows;  // those that are not all 0, by path and domain
    SeriesBlock series{1, 1};
  };
  [[nodiscard]] RankMemory rank(RankKey rank) const;
  [[nodiscard]] Peak node_peak() const { return {node_.peak, node_.peak_ns}; }
  [[nodiscard]] const SeriesBlock& node_series() const { return node_.series; }

  // Live bytes of call paths over time, of all ranks together, until that time.
  struct Cell {
    std::uint32_t path = 0, bin = 0;
    std::uint64_t kib_ms = 0;
  };
  [[nodiscard]] std::vector<Cell> cells(std::uint64_t now_ns);

 private:
  struct Account {
    std::uint64_t live = 0, peak = 0, peak_ns = 0, peaks = 0;
    std::uint64_t until_ns = 0;  // that is in the series
    SeriesBlock series{1, 1};
  };
  struct Entry {
    RawMemoryKey of;
    std::uint64_t live = 0, left = 0;
    std::uint64_t at_rank_peak = 0, at_node_peak = 0;
    std::uint64_t rank_peaks = 0, node_peaks = 0;  // of the peaks that these are of
    MemoryAges left_by_age{};
  };
  struct Rank {
    Account account;
    std::uint64_t left_ns = 0;  // when the last of the processes ended that have left something
    std::vector<Entry> entries;
    std::unordered_map<RawMemoryKey, std::uint32_t, RawMemoryKeyHash> index;
  };
  struct Pending {
    std::uint64_t time_ns = 0;
    RankKey rank = 0;
    std::int64_t bytes = 0;
    RawMemoryKey of;
  };
  struct PathLevel {
    std::uint64_t live = 0, until_ns = 0;
    LevelSeries series;
  };

  Entry& entry_of(Rank& rank, RawMemoryKey of) const;
  void apply(const Pending& change);
  void change(Account& account, std::uint64_t time_ns, std::int64_t bytes);
  void reach(Account& account, std::uint64_t time_ns);
  void hold(PathLevel& level, std::uint64_t time_ns);
  PathLevel& level_of(std::uint32_t path);

  TimeGrid& grid_;
  TimeGrid& path_grid_;
  std::map<RankKey, Rank> ranks_;
  Account node_;
  std::unordered_map<std::uint32_t, PathLevel> levels_;  // by path
  std::vector<Pending> pending_;
  std::uint64_t applied_ns_ = 0;
};

}  // namespace clusterprof::collector
