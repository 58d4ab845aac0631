// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "random_profile.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::RankRows;
using shard::ShardData;
using testing::random_profile;

struct Rows {
  std::uint32_t rank = 0;
  std::vector<shard::Value> values;
  std::vector<shard::PathCounter> path_counters;
  std::vector<shard::DataAccess> data_accesses;
  [[nodiscard]] RankRows view() const { return {rank, values, path_counters, data_accesses}; }
};

std::vector<Rows> rows_of(const ShardData& data) {
  std::vector<Rows> ranks;
  shard::InMemoryRows(data).for_each_rank([&](const RankRows& rows) {
    ranks.push_back({rows.rank,
                     {rows.values.begin(), rows.values.end()},
                     {rows.path_counters.begin(), rows.path_counters.end()},
                     {rows.data_accesses.begin(), rows.data_accesses.end()}});
  });
  return ranks;
}

ShardData head_of(ShardData data) {
  data.values.clear();
  data.path_counters.clear();
  data.data_accesses.clear();
  return data;
}

class ShuffledRows final : public shard::RowSource {
 public:
  ShuffledRows(std::vector<Rows> ranks, std::uint64_t seed) : ranks_(std::move(ranks)), random_(seed) {}
  void for_each_rank(const std::function<void(const RankRows&)>& use) const override {
    std::shuffle(ranks_.begin(), ranks_.end(), random_);
    for (const Rows& rows : ranks_) use(rows.view());
  }

 private:
  mutable std::vector<Rows> ranks_;
  mutable std::mt19937_64 random_;
};

class AnyOrder : public ::testing::TestWithParam<int> {};

TEST_P(AnyOrder, AndAnyGroupingGiveTheSameAnalysis) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  const ShardData data = random_profile(seed);
  const ShardData head = head_of(data);
  const Analysis whole = analyse(data);
  const std::string json = render_json(whole);
  const std::vector<std::byte> bytes = encode(whole);
  std::vector<Rows> ranks = rows_of(data);
  std::mt19937_64 random(seed);
  for (std::size_t groups = 1; groups <= 4; ++groups) {
    std::shuffle(ranks.begin(), ranks.end(), random);
    std::vector<AnalysisBuilder> builders;
    for (std::size_t g = 0; g < groups; ++g) builders.emplace_back(head);
    for (const Rows& rows : ranks) builders[random() % groups].add(rows.view());
    // Up a random tree.
    while (builders.size() > 1) {
      std::shuffle(builders.begin(), builders.end(), random);
      const std::vector<std::byte> part = builders.back().state();
      builders.pop_back();
      ASSERT_TRUE(builders[random() % builders.size()].absorb(part).ok());
    }
    if (groups % 2 == 0) {
      EXPECT_EQ(builders.front().finish_encoded(), bytes) << groups << " groups";
      continue;
    }
    const Analysis united = builders.front().finish();
    EXPECT_EQ(render_json(united), json) << groups << " groups";
    EXPECT_EQ(encode(united), bytes) << groups << " groups";
  }
}

TEST_P(AnyOrder, OfRowsGivesTheSameRegions) {
  const ShardData data = random_profile(static_cast<std::uint64_t>(GetParam()));
  const ShuffledRows rows(rows_of(data), 7);
  const ShardData head = head_of(data);
  EXPECT_EQ(render_json(analyse(head, rows)), render_json(analyse(data)));
  EXPECT_FALSE(analyse_region(head, rows, "no such region"));
  for (const char* name : {"r0", "r1", "r2", "r0/r1", "r1/r1"}) {
    const auto in_memory = analyse_region(data, name), elsewhere = analyse_region(head, rows, name);
    ASSERT_EQ(in_memory.has_value(), elsewhere.has_value()) << name;
    if (!in_memory) continue;
    EXPECT_EQ(render_json(*elsewhere), render_json(*in_memory)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Builder, AnyOrder, ::testing::Range(1, 41));

class Absorb : public ::testing::Test {
 protected:
  Absorb() {
    for (const Rows& rows : rows_of(data_)) all_.add(rows.view());
    state_ = all_.state();
  }
  [[nodiscard]] bool absorbs(std::span<const std::byte> state) const {
    AnalysisBuilder builder(data_);
    return builder.absorb(state).ok();
  }

  const ShardData data_ = random_profile(3);
  AnalysisBuilder all_{data_};
  std::vector<std::byte> state_;
};

TEST_F(Absorb, DamagedBytesAreAnError) {
  EXPECT_TRUE(absorbs(state_));
  EXPECT_FALSE(absorbs({}));
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> cut(state_.begin(),
                               state_.begin() + static_cast<std::ptrdiff_t>(random() % state_.size()));
    EXPECT_FALSE(absorbs(cut)) << cut.size() << " bytes";
    std::vector<std::byte> flipped = state_;
    const std::size_t at = i < 64 ? static_cast<std::size_t>(i) : random() % flipped.size();
    flipped[at] ^= static_cast<std::byte>(1u << random() % 8);
    EXPECT_FALSE(absorbs(flipped)) << "byte " << at;
  }
  std::vector<std::byte> longer = state_;
  longer.push_back({});
  EXPECT_FALSE(absorbs(longer));
}

TEST_F(Absorb, OfAnotherRunIsAnError) {
  const ShardData other = random_profile(4);
  AnalysisBuilder builder(other);
  EXPECT_FALSE(builder.absorb(state_).ok());
}

TEST_F(Absorb, TheSameRankTwiceIsAnError) { EXPECT_FALSE(all_.absorb(state_).ok()); }

TEST(Builder, RowsOfNoRankAndNoPathAreIgnored) {
  ShardData data = random_profile(5);
  const std::string before = render_json(analyse(data));
  const auto no_path = static_cast<std::uint32_t>(data.paths.size());
  const auto no_rank = static_cast<std::uint32_t>(data.ranks.size());
  data.values.push_back({0, no_path, shard::Category::kNative, true, 1, 1, 1});
  data.values.push_back({no_rank, 1, shard::Category::kNative, true, 1, 1, 1});
  data.values.push_back({0, 1, static_cast<shard::Category>(99), true, 1, 1, 1});
  data.path_counters.push_back({0, no_path, 0, 1});
  data.path_counters.push_back({0, 1, 99, 1});
  data.path_counters.push_back({no_rank, 1, 0, 1});
  data.data_accesses.push_back({0, no_path, 100, 100, {1, 2, 3, 4}});
  EXPECT_EQ(render_json(analyse(data)), before);
}

}  // namespace
}  // namespace clusterprof::report
