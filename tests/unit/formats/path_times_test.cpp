// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/path_times.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <vector>

namespace clusterprof::shard {
namespace {

using Parents = std::vector<std::uint32_t>;

TEST(KeepLargestPaths, TimeOfSmallPathsGoesToTheNearestKeptPathAbove) {
  //  0 - 1 - 2 - 3   (100, 0, 3, 2)     4 and 5 below 2: 40, 1
  const Parents parents = {0, 0, 1, 2, 2, 2};
  const std::vector<PathWeight> weights = {{0, 100, 1}, {2, 3, 1}, {3, 2, 1}, {4, 40, 1}, {5, 1, 1}};
  EXPECT_EQ(keep_largest_paths(parents, weights, 5), (Parents{0, 2, 3, 4, 5}));
  // 2 has 6 with what is given to it, enough to be kept: 1, which is above, never had any.
  EXPECT_EQ(keep_largest_paths(parents, weights, 3), (Parents{0, 2, 2, 4, 2}));
  EXPECT_EQ(keep_largest_paths(parents, weights, 2), (Parents{0, 0, 0, 4, 0}));
  EXPECT_EQ(keep_largest_paths(parents, weights, 1), (Parents{0, 0, 0, 0, 0}));
}

TEST(KeepLargestPaths, ParentOfManySmallPathsIsKept) {
  // A function, 1, whose hundred lines are small, and one line of another function that is not.
  Parents parents = {0, 0, 0};
  std::vector<PathWeight> weights = {{2, 50, 1}};
  for (std::uint32_t line = 3; line < 103; ++line) {
    parents.push_back(1);
    weights.push_back({line, 1, 1});
  }
  const Parents kept = keep_largest_paths(parents, weights, 10);
  EXPECT_EQ(kept[0], 2u);
  for (std::size_t i = 1; i < kept.size(); ++i) EXPECT_EQ(kept[i], 1u);
}

TEST(PathTimeTable, SumsAreExactForAnyLimit) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Path> paths{Path{}};
    for (std::uint32_t i = 1; i < 400; ++i) {
      const auto parent =
          static_cast<std::uint32_t>(random() % 3 == 0 ? random() % i : i - 1 - random() % std::min(i, 5u));
      paths.push_back({{}, parent, 0});
    }
    PathTimeTable table(paths.size());
    std::array<std::uint64_t, kMaxPathBins> by_bin{};
    std::map<std::uint32_t, std::uint64_t> by_path;
    for (int i = 0; i < 3000; ++i) {
      const auto path =
          static_cast<std::uint32_t>(random() % 3 == 0 ? random() % paths.size() : random() % 40);
      const auto bin = static_cast<std::uint32_t>(random() % kMaxPathBins);
      const std::uint64_t ns = random() % 1'000'000;
      table.add(path, bin, ns);
      by_bin[bin] += ns;
      by_path[path] += ns;
    }
    for (const std::size_t most :
         {std::size_t{1}, std::size_t{100}, std::size_t{900}, std::size_t{100'000}}) {
      const std::vector<PathSeries> rows = table.rows(paths, most);
      EXPECT_LE(rows.size(), std::max<std::size_t>(most, kMaxPathBins));
      auto left = by_bin;
      std::map<std::uint32_t, std::uint64_t> kept;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i != 0) {
          EXPECT_LT(std::pair(rows[i - 1].path, rows[i - 1].bin), std::pair(rows[i].path, rows[i].bin));
        }
        EXPECT_NE(rows[i].wall_ns, 0u);
        left[rows[i].bin] -= rows[i].wall_ns;
        kept[rows[i].path] += rows[i].wall_ns;
      }
      EXPECT_EQ(left, (std::array<std::uint64_t, kMaxPathBins>{}));
      if (most == 100'000) {
        std::erase_if(by_path, [](const auto& of) { return of.second == 0; });
        EXPECT_EQ(kept, by_path);
      }
      // The time of each path went to itself or to a path above it that is kept.
      std::map<std::uint32_t, std::uint64_t> given;
      for (const auto& [path, ns] : by_path) {
        std::uint32_t to = path;
        while (to != 0 && !kept.contains(to)) to = paths[to].parent;
        given[to] += ns;
      }
      EXPECT_EQ(given, kept);
    }
  }
}

TEST(PathTimeTable, EmptyTableHasNoRows) { EXPECT_TRUE(PathTimeTable(1).rows({Path{}}, 10).empty()); }

TEST(PathTimeTable, LimitGrowsWithTheRanks) {
  EXPECT_EQ(max_path_series_rows(0), max_path_series_rows(1));
  EXPECT_GT(max_path_series_rows(64), max_path_series_rows(1));
  EXPECT_EQ(max_path_series_rows(1u << 20), max_path_series_rows(1u << 24));
}

}  // namespace
}  // namespace clusterprof::shard
