// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/node_dates.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "formats/shard/tables.hpp"
#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof::aggregator {
namespace {

constexpr std::int64_t kSecond_ns = 1'000'000'000, kDay_ns = 86'400 * kSecond_ns;
constexpr std::int64_t kFirst_utc_ns = 1'790'000'000 * kSecond_ns;

using Corrections = std::map<std::string, std::int64_t>;

// Ranks that used MPI, of nodes that begin and end so many seconds after kFirst_utc_ns.
class Dates {
 public:
  Dates& node(const std::string& name, std::int64_t begin_s, std::int64_t end_s, std::uint32_t restart = 0) {
    return add(name, begin_s, end_s, shard::kUsedMpi, restart);
  }
  Dates& add(const std::string& name, std::int64_t begin_s, std::int64_t end_s, std::uint32_t flags,
             std::uint32_t restart = 0) {
    shard::Rank rank;
    rank.flags = flags;
    rank.restart = restart;
    rank.start_utc_ns = kFirst_utc_ns + begin_s * kSecond_ns;
    rank.elapsed_ns = static_cast<std::uint64_t>((end_s - begin_s) * kSecond_ns);
    dates_.add(name, rank);
    return *this;
  }
  [[nodiscard]] Corrections corrections() const { return dates_.corrections(); }

 private:
  NodeDates dates_;
};

TEST(NodeDatesTest, NodesThatRanAtTheSameTimeAreRight) {
  EXPECT_EQ(Dates().corrections(), Corrections{});
  EXPECT_EQ(Dates().node("a", 0, 100).corrections(), Corrections{});
  EXPECT_EQ(Dates().node("a", 0, 100).node("b", 99, 199).node("c", 190, 600).corrections(), Corrections{});
}

TEST(NodeDatesTest, TheMostNodesHaveTheRightDate) {
  Dates dates;
  dates.node("a", 2, 600)
      .node("b", -86'400, -85'800)
      .node("c", 1, 601)
      .node("d", 86'400 * 366, 86'400 * 366 + 9);
  EXPECT_EQ(dates.corrections(),
            (Corrections{{"b", kDay_ns + kSecond_ns}, {"d", kSecond_ns - 366 * kDay_ns}}));
  // Those with the same wrong date stay together.
  dates.node("a2", 0, 600).node("b", -86'390, -85'700).node("b2", -86'300, -85'700);
  EXPECT_EQ(dates.corrections(), (Corrections{{"b", kDay_ns}, {"b2", kDay_ns}, {"d", -366 * kDay_ns}}));
}

TEST(NodeDatesTest, OfAsManyNodesTheLaterOnesAreRight) {
  EXPECT_EQ(Dates().node("a", 86'400, 86'500).node("b", 0, 100).corrections(), (Corrections{{"b", kDay_ns}}));
}

// Bins of some times the width do no harm.
TEST(NodeDatesTest, NodesThatAreNearEachOtherStay) {
  const auto apart = [](std::int64_t length_s, std::int64_t between_s) {
    return Dates().node("a", 0, 9).node("b", 9 + between_s, 9 + between_s + length_s).corrections().size();
  };
  EXPECT_EQ(apart(600, 600), 0u);
  EXPECT_EQ(apart(600, 601), 1u);
  EXPECT_EQ(apart(10, 60), 0u) << "a minute is little";
  EXPECT_EQ(apart(10, 61), 1u);
}

TEST(NodeDatesTest, RanksThatNeedNotRunAtTheSameTimeSayNothing) {
  EXPECT_EQ(Dates().add("a", 0, 100, 0).add("b", 86'400, 86'500, 0).corrections(), Corrections{});
  EXPECT_EQ(Dates().node("a", 0, 100).node("b", 86'400, 86'500, 1).corrections(), Corrections{})
      << "ranks that were started again on another node";
}

TEST(NodeDatesTest, AllTimesAreMovedAndStayValid) {
  const shard::ShardData before = testing::random_shard(7, {.node = 0, .ranks = {0, 1, 2}});
  ASSERT_TRUE(shard::validate(before));
  shard::ShardData moved = before;
  move_dates(moved, -kDay_ns);
  EXPECT_TRUE(shard::validate(moved));
  EXPECT_EQ(moved.run.start_utc_ns, before.run.start_utc_ns - kDay_ns);
  EXPECT_EQ(moved.nodes[0].start_utc_ns, before.nodes[0].start_utc_ns - kDay_ns);
  EXPECT_EQ(moved.ranks[0].start_utc_ns, before.ranks[0].start_utc_ns - kDay_ns);
  for (const auto& [axis, old] :
       {std::pair(moved.time_axis, before.time_axis), std::pair(moved.path_axis, before.path_axis)}) {
    EXPECT_EQ(axis.bin_ns, old.bin_ns);
    EXPECT_LE(std::abs(axis.origin_utc_ns - (old.origin_utc_ns - kDay_ns)),
              static_cast<std::int64_t>(axis.bin_ns));
  }
  for (const std::int64_t by_ns : {-(std::int64_t{7} << 60), std::int64_t{7} << 60}) {
    shard::ShardData far = before;
    move_dates(far, by_ns);
    EXPECT_TRUE(shard::validate(far)) << by_ns;
  }
}

}  // namespace
}  // namespace clusterprof::aggregator
