// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/rank_map.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace clusterprof::mpi_wrap {
namespace {

void expect_map(const std::vector<std::int32_t>& ranks, bool table) {
  RankMap map{};
  ASSERT_TRUE(map.assign(ranks.data(), static_cast<std::int32_t>(ranks.size())));
  EXPECT_EQ(map.is_table(), table);
  RankMap copy{};
  ASSERT_TRUE(copy.copy(map));
  for (const RankMap* each : {&map, &copy}) {
    ASSERT_EQ(each->size(), static_cast<std::int32_t>(ranks.size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_EQ(each->world_rank(static_cast<std::int32_t>(i)), ranks[i] < 0 ? kUnknownRank : ranks[i]);
    }
    EXPECT_EQ(each->world_rank(-1), kUnknownRank);
    EXPECT_EQ(each->world_rank(each->size()), kUnknownRank);
  }
  map.clear();
  copy.clear();
  EXPECT_EQ(map.size(), 0);
}

TEST(RankMap, RegularGroupsTakeNoMemory) {
  expect_map({}, false);
  expect_map({7}, false);
  expect_map({0, 1, 2, 3}, false);
  expect_map({5, 9, 13}, false);
  expect_map({3, 2, 1, 0}, false);
}

TEST(RankMap, IrregularGroupsAreTables) {
  expect_map({0, 1, 3}, true);
  expect_map({-32766}, true);
  expect_map({4, 3, 2, -32766}, true);
  expect_map({1, 0, -1}, true);
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
