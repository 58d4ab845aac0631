// SPDX-License-Identifier: BSD-3-Clause
// Groups of ranks: rows of heat maps, and groups with their own time on every call path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/page/page_data.hpp"

namespace clusterprof::report {

// Returns indices into Analysis::ranks, the most conspicuous rank first (see PageRow); at most `most`.
std::vector<std::uint32_t> find_outliers(const Analysis& analysis, std::size_t most);

// Fills in PageData::rows and row_of_rank.
void divide_into_rows(const Analysis& analysis, const std::vector<std::uint32_t>& outliers, std::size_t most,
                      PageData& page);

// Sums up times of ranks as they are added. When there are more sums than allowed, groups of ranks are
// joined. The result does not depend on the order of ranks.
class GroupTimes {
 public:
  struct Time {
    std::uint32_t key = 0;  // a slot, or a node of the tree
    std::uint64_t all_ns = 0, helper_idle_ns = 0;
  };
  using Times = std::vector<Time>;  // by key, each once

  // `alone`: ranks (indices into Analysis::ranks) that keep a group of their own.
  GroupTimes(const Analysis& analysis, const std::vector<std::uint32_t>& alone, std::size_t most_times);

  // How the given ranks are divided into groups at present. Ranks that are in one group stay together.
  struct Division {
    std::vector<std::uint32_t> group_of;    // by index into the ranks asked for
    std::vector<std::uint32_t> first_rank;  // by group
  };
  [[nodiscard]] Division divide(std::span<const std::uint32_t> ranks) const;
  // Adds times of ranks that are in the same group as `rank`.
  void add(std::uint32_t rank, const Times& times);

  // Renames every key; the new keys may be fewer. From then on the limit is `most_times`.
  void rename(const std::function<std::uint32_t(std::uint32_t)>& new_key, std::size_t most_times);

  // Returns each rank's group, numbered by first appearance, and each group's times.
  [[nodiscard]] std::pair<std::vector<std::uint32_t>, std::vector<const Times*>> groups() const;

 private:
  // A rank's node and its index there.
  struct Place {
    std::uint32_t node = 0, at = 0;
    bool alone = false;
  };
  // Ranks with the same value are in the same group.
  using Group = std::pair<std::uint32_t, std::uint32_t>;
  [[nodiscard]] Group group_of(std::uint32_t rank) const;
  void shrink_to(std::size_t most_times);
  struct Content {
    std::uint32_t rank = 0;  // one of them
    Times times;
  };
  static void unite(Times& into, const Times& from);

  std::vector<Place> places_;
  std::uint32_t shift_ = 0, node_shift_ = 0;  // groups: 2^shift ranks of a node; 2^(shift - node_shift) nodes
  std::uint32_t last_shift_ = 0;              // all are together
  std::size_t most_times_, times_ = 0;
  std::map<Group, Content> contents_;
};

}  // namespace clusterprof::report
