// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/live_difference.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/unit/report/profile_builder.hpp"

namespace clusterprof::aggregator {
namespace {

using shard::Category;
using shard::LiveState;
using shard::Rank;
using shard::ShardData;

using report::testing::kMs;
constexpr auto kPython = static_cast<std::size_t>(Category::kPython);
constexpr auto kNative = static_cast<std::size_t>(Category::kNative);
constexpr auto kMpi = static_cast<std::size_t>(Category::kMpi);

Rank rank_of(std::int32_t number, std::uint64_t elapsed_ms) {
  Rank rank;
  rank.rank = number;
  rank.pid = 100 + number;
  rank.start_utc_ns = 7;
  rank.flags = shard::kUsedMpi;
  rank.elapsed_ns = elapsed_ms * kMs;
  rank.samples = elapsed_ms / 10;
  return rank;
}

std::uint64_t sum(const Rank& rank) {
  return std::accumulate(rank.main_thread_ns.begin(), rank.main_thread_ns.end(), std::uint64_t{0});
}

TEST(RanksSince, AreDifferencesThatAddUpToTheWindow) {
  ShardData before, now;
  before.ranks = {rank_of(3, 10'000)};
  before.ranks[0].main_thread_ns[kPython] = 6000 * kMs;
  before.ranks[0].main_thread_ns[kMpi] = 3900 * kMs;  // by samples
  before.ranks[0].mpi_ns = 4000 * kMs;                // as it was measured
  now.ranks = {rank_of(3, 15'000)};
  now.ranks[0].main_thread_ns[kPython] = 8000 * kMs;
  now.ranks[0].main_thread_ns[kNative] = 900 * kMs;
  now.ranks[0].main_thread_ns[kMpi] = 6050 * kMs;
  now.ranks[0].mpi_ns = 6000 * kMs;
  const std::vector<Rank> since = ranks_since(now, &before);
  ASSERT_EQ(since.size(), 1u);
  EXPECT_EQ(since[0].elapsed_ns, 5000 * kMs);
  EXPECT_EQ(sum(since[0]), 5000 * kMs);
  EXPECT_EQ(since[0].main_thread_ns[kMpi], 2000 * kMs);
  // 3 s outside MPI, of which samples saw 2000 and 900 ms.
  EXPECT_NEAR(static_cast<double>(since[0].main_thread_ns[kPython]), 3e9 * 2000 / 2900, 1);
  EXPECT_NEAR(static_cast<double>(since[0].main_thread_ns[kNative]), 3e9 * 900 / 2900, 1);
  EXPECT_EQ(since[0].samples, 1500u) << "so that 0 is known";
  EXPECT_EQ(now.ranks[0].elapsed_ns, 15'000 * kMs);
}

TEST(RanksSince, ATimeThatHasBecomeLessIsNone) {
  ShardData before, now;
  before.ranks = {rank_of(0, 1000)};
  before.ranks[0].flags = 0;
  before.ranks[0].main_thread_ns[kNative] = 800 * kMs;  // of it 300 since the last sample
  now.ranks = {rank_of(0, 1500)};
  now.ranks[0].flags = 0;
  now.ranks[0].main_thread_ns[kNative] = 600 * kMs;
  now.ranks[0].main_thread_ns[kPython] = 700 * kMs;
  const std::vector<Rank> since = ranks_since(now, &before);
  ASSERT_EQ(since.size(), 1u);
  EXPECT_EQ(since[0].main_thread_ns[kNative], 0u);
  EXPECT_EQ(since[0].main_thread_ns[kPython], 500 * kMs);
}

TEST(RanksSince, OtherProcessesAreNotCompared) {
  ShardData before, now;
  before.ranks = {rank_of(0, 1000), rank_of(1, 1000), rank_of(2, 1000)};
  now.ranks = {rank_of(0, 1500), rank_of(1, 1500), rank_of(3, 1500)};
  now.ranks[1].pid = 9;  // it was started again
  const std::vector<Rank> since = ranks_since(now, &before);
  ASSERT_EQ(since.size(), 1u);
  EXPECT_EQ(since[0].rank, 0);
  EXPECT_EQ(ranks_since(now, nullptr).size(), 3u) << "since their start";
  EXPECT_EQ(ranks_since(now, nullptr)[2].elapsed_ns, 1500 * kMs);
}

TEST(RanksSince, PausedTimeIsLeftOut) {
  ShardData before, now;
  before.ranks = {rank_of(0, 1000)};
  now.ranks = {rank_of(0, 3000)};
  for (ShardData* const data : {&before, &now}) data->ranks[0].flags = 0;
  now.ranks[0].paused_ns = 500 * kMs;
  now.ranks[0].main_thread_ns[kNative] = 1400 * kMs;
  EXPECT_EQ(sum(ranks_since(now, &before)[0]), 1500 * kMs);
}

LiveState state_with(std::vector<shard::PathId> ids, std::vector<shard::LiveTime> times,
                     std::uint64_t watch = 1) {
  LiveState state;
  state.watch = watch;
  for (const shard::PathId& id : ids) state.data.paths.push_back({id, 0, 0});
  state.times = std::move(times);
  return state;
}

TEST(TimesSince, PathsAreTheSameByTheirId) {
  const shard::PathId a{1, 1}, b{2, 2}, c{3, 3};
  const LiveState before =
      state_with({a, b}, {{1, Category::kPython, 100}, {1, Category::kMpi, 10}, {2, Category::kIdle, 50}});
  const LiveState now = state_with({b, c, a}, {{1, Category::kIdle, 50},
                                               {2, Category::kNative, 30},
                                               {3, Category::kPython, 160},
                                               {3, Category::kMpi, 10}});
  const std::vector<PathTime> times = times_since(now, before);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].path, c) << "it had no time before";
  EXPECT_EQ(times[0].wall_ns, 30u);
  EXPECT_EQ(times[1].path, a);
  EXPECT_EQ(times[1].category, Category::kPython);
  EXPECT_EQ(times[1].wall_ns, 60u);
  EXPECT_TRUE(times_since(now, state_with({a}, {}, 2)).empty()) << "counted from another beginning";
}

}  // namespace
}  // namespace clusterprof::aggregator
