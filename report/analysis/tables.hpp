// SPDX-License-Identifier: BSD-3-Clause
// Walking the tables of a profile rank by rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

inline double to_seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }
// Converts each element.
template <typename From, typename To>
void give_seconds(const From& from_ns, To& to_s) {
  for (std::size_t i = 0; i < from_ns.size(); ++i) to_s[i] = to_seconds(from_ns[i]);
}

// Indices of Ts by rank index, in table order within a rank; others than 0..ranks-1 left out.
// Starts[r] .. starts[r + 1] are those of rank r.
struct ByRank {
  std::vector<std::uint32_t> starts, order;
};
template <typename T>
ByRank by_rank(const std::vector<T>& table, std::size_t ranks) {
  ByRank result;
  result.starts.assign(ranks + 1, 0);
  for (const T& row : table)
    if (row.rank < ranks) ++result.starts[row.rank + 1];
  std::partial_sum(result.starts.begin(), result.starts.end(), result.starts.begin());
  result.order.resize(result.starts.back());
  std::vector<std::uint32_t> next(result.starts.begin(), result.starts.end() - 1);
  for (std::uint32_t i = 0; i < table.size(); ++i)
    if (table[i].rank < ranks) result.order[next[table[i].rank]++] = i;
  return result;
}

// The name that more than half of the time is of; empty: none.
inline std::string most_of(const std::map<std::string, std::uint64_t>& ns_by_name) {
  std::uint64_t all = 0;
  for (const auto& [name, ns] : ns_by_name) all += ns;
  for (const auto& [name, ns] : ns_by_name)
    if (ns > all / 2) return name;
  return {};
}

// Sums of one quantity for many keys (functions, lines, call sites) over ranks that come one
// after the other in ascending rank number: totals and the distribution over ranks.
class SpreadTable {
 public:
  explicit SpreadTable(std::size_t keys) : cells_(keys) {}

  void add(std::uint32_t key, std::uint64_t ns) {
    Cell& cell = cells_[key];
    if (!cell.touched) touched_.push_back(key);
    cell.touched = true;
    cell.here += ns;
  }
  void end_rank(std::int32_t rank) {
    for (const std::uint32_t key : touched_) {
      Cell& cell = cells_[key];
      if (cell.ranks == 0 || cell.here > cell.max) cell.max = cell.here, cell.max_rank = rank;
      cell.min = cell.ranks == 0 ? cell.here : std::min(cell.min, cell.here);
      cell.total += cell.here;
      ++cell.ranks;
      cell.here = 0;
      cell.touched = false;
    }
    touched_.clear();
    if (rank_count_++ == 0) first_rank_ = rank;
  }
  [[nodiscard]] std::uint64_t total(std::size_t key) const { return cells_[key].total; }
  [[nodiscard]] RankSpread spread(std::size_t key) const {
    const Cell& cell = cells_[key];
    RankSpread result;
    if (rank_count_ == 0) return result;
    result.min_s = cell.ranks == rank_count_ ? to_seconds(cell.min) : 0;
    result.mean_s = to_seconds(cell.total) / static_cast<double>(rank_count_);
    result.max_s = to_seconds(cell.max);
    result.max_rank = cell.max == 0 ? first_rank_ : cell.max_rank;
    return result;
  }

 private:
  struct Cell {
    std::uint64_t here = 0, total = 0, min = 0, max = 0;
    std::uint32_t ranks = 0;
    std::int32_t max_rank = -1;
    bool touched = false;
  };
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> touched_;
  std::uint32_t rank_count_ = 0;
  std::int32_t first_rank_ = -1;
};

}  // namespace clusterprof::report
