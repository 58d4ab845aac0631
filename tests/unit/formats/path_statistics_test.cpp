// SPDX-License-Identifier: BSD-3-Clause
#include "formats/profile/path_statistics.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof::profile {
namespace {

using namespace shard;

TEST(PathStatisticsTest, ByHand) {
  ShardData data;
  PathInterner interner(data);
  const std::uint32_t f = interner.path(0, interner.frame({FrameKind::kPython, false, interner.string("f")}));
  const std::uint32_t g = interner.path(f, interner.frame({FrameKind::kPython, false, interner.string("g")}));
  const std::uint32_t h = interner.path(0, interner.frame({FrameKind::kPython, false, interner.string("h")}));
  data.nodes = {{}};
  for (const std::int32_t number : {7, 3, 5}) {
    Rank rank;
    rank.rank = number;
    data.ranks.push_back(rank);
  }
  const auto value = [&](std::uint32_t rank, std::uint32_t path, std::uint64_t ns, bool main = true) {
    data.values.push_back({rank, path, Category::kPython, main, ns, 0, 1});
  };
  value(0, g, 10);  // rank 7: f 0+10
  value(1, f, 4);   // rank 3: f 4+6
  value(1, g, 4);
  value(1, g, 2, false);
  value(2, f, 1);  // rank 5: f 1
  const std::vector<PathStatistics> s = path_statistics(data);
  ASSERT_EQ(s.size(), data.paths.size());
  EXPECT_EQ(s[f].ranks, 3u);
  EXPECT_EQ(s[f].inclusive, (Spread{21, 1, 10, 5, 3, 201.0})) << "of ranks 3 and 7 with 10 ns the lower";
  EXPECT_EQ(s[f].exclusive, (Spread{5, 0, 4, 7, 3, 17.0}));
  EXPECT_EQ(s[g].ranks, 2u);
  EXPECT_EQ(s[g].inclusive, (Spread{16, 6, 10, 3, 7, 136.0}));
  EXPECT_EQ(s[g].inclusive, s[g].exclusive);
  EXPECT_EQ(s[h], PathStatistics{});
  EXPECT_EQ(s[0].inclusive.sum_ns, 21u);
  EXPECT_EQ(s[0].exclusive.sum_ns, 0u);
}

TEST(PathStatisticsTest, AgreesWithTheDefinition) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const ShardData data = testing::random_shard(seed, {.ranks = {4, 2, 9, 11}});
    const std::vector<PathStatistics> statistics = path_statistics(data);
    for (std::uint32_t path = 0; path < data.paths.size(); ++path) {
      std::map<std::int32_t, std::uint64_t> inclusive;
      for (const Value& value : data.values) {
        std::uint32_t at = value.path;
        while (at != path && at != 0) at = data.paths[at].parent;
        if (at == path) inclusive[data.ranks[value.rank].rank] += value.wall_ns;
      }
      const PathStatistics& s = statistics[path];
      ASSERT_EQ(s.ranks, inclusive.size());
      std::uint64_t sum = 0, largest = 0;
      for (const auto& [rank, ns] : inclusive) {
        sum += ns;
        largest = std::max(largest, ns);
        EXPECT_LE(s.inclusive.min_ns, ns);
      }
      EXPECT_EQ(s.inclusive.sum_ns, sum);
      EXPECT_EQ(s.inclusive.max_ns, largest);
      if (!inclusive.empty()) {
        EXPECT_EQ(inclusive.at(s.inclusive.max_rank), s.inclusive.max_ns);
        EXPECT_EQ(inclusive.at(s.inclusive.min_rank), s.inclusive.min_ns);
      }
    }
  }
}

}  // namespace
}  // namespace clusterprof::profile
