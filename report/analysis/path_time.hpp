// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/cells.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

// Charged time of all ranks by call path, category and kind of thread. Sums over all ranks are computed from
// it once all ranks are added.
class PathTime {
 public:
  // `separate_rank`: the rank whose time is also kept by itself. `cells`: must outlive this.
  PathTime(const Cells& cells, std::optional<std::int32_t> separate_rank)
      : cells_(cells), separate_rank_(separate_rank) {}

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    for (auto& group : self.groups_) table.by_cell(group);
    table.by_cell(self.separate_rank_ns_);
    table.by_cell(self.cpu_ns_);
  }

  [[nodiscard]] const Cells& cells() const { return cells_; }
  // The following take the number of a cell, and return 0 for kNone.
  [[nodiscard]] std::uint32_t cell(std::uint32_t path, shard::Category category) const {
    return cells_.find(path, category);
  }
  [[nodiscard]] std::uint64_t main_ns(std::uint32_t cell) const { return sum(cell, {0, 1, 2, 3}).main_ns; }
  [[nodiscard]] std::uint64_t helper_ns(std::uint32_t cell) const {
    return sum(cell, {0, 1, 2, 3}).helper_ns;
  }
  // What was observed by samples or calls. Of ranks without samples, only the calls: what their threads did
  // otherwise is not known.
  [[nodiscard]] std::uint64_t observed_main_ns(std::uint32_t cell) const { return observed(cell).main_ns; }
  [[nodiscard]] std::uint64_t observed_helper_ns(std::uint32_t cell) const {
    return observed(cell).helper_ns;
  }
  // Of the main threads of ranks that used MPI; of the separate rank.
  [[nodiscard]] std::uint64_t mpi_ranks_ns(std::uint32_t cell) const { return sum(cell, {1, 3}).main_ns; }
  [[nodiscard]] std::uint64_t separate_rank_ns(std::uint32_t cell) const {
    return cell < separate_rank_ns_.size() ? separate_rank_ns_[cell] : 0;
  }
  // CPU time of all threads.
  [[nodiscard]] std::uint64_t cpu_ns(std::uint32_t cell) const {
    return cell < cpu_ns_.size() ? cpu_ns_[cell] : 0;
  }

 private:
  static constexpr std::size_t kUsedMpi = 1, kUnsampled = 2;  // of the number of a group
  struct Times {
    std::uint64_t main_ns = 0, helper_ns = 0;
    friend void unite(Times& into, const Times& from) {
      into.main_ns += from.main_ns;
      into.helper_ns += from.helper_ns;
    }
  };
  [[nodiscard]] Times sum(std::uint32_t cell, std::initializer_list<std::size_t> groups) const {
    Times times;
    for (const std::size_t group : groups)
      if (cell < groups_[group].size()) unite(times, groups_[group][cell]);
    return times;
  }
  [[nodiscard]] Times observed(std::uint32_t cell) const {
    if (cell >= cells_.size()) return {};
    return cells_[cell].category == shard::Category::kMpi ? sum(cell, {0, 1, 2, 3}) : sum(cell, {0, 1});
  }

  const Cells& cells_;
  std::optional<std::int32_t> separate_rank_;
  // By cell; shorter where the last cells have no time.
  std::array<std::vector<Times>, 4> groups_;
  std::vector<std::uint64_t> separate_rank_ns_, cpu_ns_;
};

}  // namespace clusterprof::report
