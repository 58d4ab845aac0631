// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

// Charged time of all ranks by call path, category and kind of thread. Sums over all ranks are computed from
// it once all ranks are added.
class PathTime {
 public:
  // `separate_rank`: the rank whose time is also kept by itself.
  PathTime(const shard::ShardData& head, std::optional<std::int32_t> separate_rank);

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    for (auto& group : self.groups_) table(group, self.cells_ * 2);
    table(self.separate_rank_ns_, self.cells_);
    table(self.cpu_ns_, self.cells_);
  }

  // For cell_of(path, category).
  [[nodiscard]] std::uint64_t main_ns(std::size_t cell) const { return sum(cell * 2, {0, 1, 2, 3}); }
  [[nodiscard]] std::uint64_t helper_ns(std::size_t cell) const { return sum(cell * 2 + 1, {0, 1, 2, 3}); }
  // What was observed by samples or calls. Of ranks without samples, only the calls: what their threads did
  // otherwise is not known.
  [[nodiscard]] std::uint64_t observed_main_ns(std::size_t cell) const { return observed(cell, 0); }
  [[nodiscard]] std::uint64_t observed_helper_ns(std::size_t cell) const { return observed(cell, 1); }
  // Of the main threads of ranks that used MPI; of the separate rank.
  [[nodiscard]] std::uint64_t mpi_ranks_ns(std::size_t cell) const { return sum(cell * 2, {1, 3}); }
  [[nodiscard]] std::uint64_t separate_rank_ns(std::size_t cell) const {
    return separate_rank_ns_.empty() ? 0 : separate_rank_ns_[cell];
  }
  // CPU time of all threads.
  [[nodiscard]] std::uint64_t cpu_ns(std::size_t cell) const { return cpu_ns_.empty() ? 0 : cpu_ns_[cell]; }
  [[nodiscard]] std::size_t cells() const { return cells_; }

 private:
  static constexpr std::size_t kUsedMpi = 1, kUnsampled = 2;  // of the number of a group
  [[nodiscard]] std::uint64_t sum(std::size_t at, std::initializer_list<std::size_t> groups) const {
    std::uint64_t ns = 0;
    for (const std::size_t group : groups)
      if (!groups_[group].empty()) ns += groups_[group][at];
    return ns;
  }
  [[nodiscard]] std::uint64_t observed(std::size_t cell, std::size_t helper) const {
    const bool mpi = cell % shard::kCategories == static_cast<std::size_t>(shard::Category::kMpi);
    return mpi ? sum(cell * 2 + helper, {0, 1, 2, 3}) : sum(cell * 2 + helper, {0, 1});
  }

  std::size_t cells_;
  std::optional<std::int32_t> separate_rank_;
  std::array<std::vector<std::uint64_t>, 4> groups_;  // by cell, the main thread's first
  std::vector<std::uint64_t> separate_rank_ns_, cpu_ns_;
};

}  // namespace clusterprof::report
