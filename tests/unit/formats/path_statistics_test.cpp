// SPDX-License-Identifier: BSD-3-Clause
#include "formats/profile/path_statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof::profile {
namespace {

using namespace shard;

TEST(PathStatisticsTest, MatchesAnExampleComputedByHand) {
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
  const std::vector<PathStatistics> s = path_statistics(data).paths;
  ASSERT_EQ(s.size(), data.paths.size());
  EXPECT_EQ(s[f].ranks, 3u);
  EXPECT_EQ(s[f].inclusive, (Spread{21, 1, 10, 5, 3, 201})) << "of ranks 3 and 7 with 10 ns the lower";
  EXPECT_EQ(s[f].exclusive, (Spread{5, 0, 4, 7, 3, 17}));
  EXPECT_EQ(s[g].ranks, 2u);
  EXPECT_EQ(s[g].inclusive, (Spread{16, 6, 10, 3, 7, 136}));
  EXPECT_EQ(s[g].inclusive, s[g].exclusive);
  EXPECT_EQ(s[h], PathStatistics{});
  EXPECT_EQ(s[0].inclusive.sum_ns, 21u);
  EXPECT_EQ(s[0].exclusive.sum_ns, 0u);
}

// The wall time of each rank on each path, by the definition.
struct Times {
  std::map<std::int32_t, std::uint64_t> inclusive, exclusive;
};
std::vector<Times> times_of(const ShardData& data) {
  std::vector<Times> times(data.paths.size());
  for (const Value& value : data.values) {
    const std::int32_t rank = data.ranks[value.rank].rank;
    for (std::uint32_t path = value.path;; path = data.paths[path].parent) {
      times[path].inclusive[rank] += value.wall_ns;
      times[path].exclusive[rank] += path == value.path ? value.wall_ns : 0;
      if (path == 0) break;
    }
  }
  return times;
}

Spread spread_of(const std::map<std::int32_t, std::uint64_t>& times) {
  Spread spread;
  bool first = true;
  for (const auto& [rank, ns] : times) {  // ranks ascend
    spread.sum_ns += ns;
    spread.sum_squares_ns2 += static_cast<Squares>(ns) * ns;
    if (first || ns < spread.min_ns) spread.min_ns = ns, spread.min_rank = rank;
    if (first || ns > spread.max_ns) spread.max_ns = ns, spread.max_rank = rank;
    first = false;
  }
  return spread;
}

PathStatisticsTable by_definition(const ShardData& data) {
  PathStatisticsTable table;
  const std::vector<Times> times = times_of(data);
  for (std::uint32_t path = 0; path < times.size(); ++path) {
    const Times& t = times[path];
    table.paths.push_back(
        {static_cast<std::uint32_t>(t.inclusive.size()), spread_of(t.inclusive), spread_of(t.exclusive)});
    for (const bool exclusive : {false, true}) {
      std::map<std::uint16_t, std::uint32_t> bins;
      for (const auto& [rank, ns] : exclusive ? t.exclusive : t.inclusive) ++bins[quantile_bin(ns)];
      for (const auto& [bin, ranks] : bins) table.quantile_bins.push_back({path, exclusive, bin, ranks});
    }
  }
  return table;
}

// The same data with its paths in preorder; other tables than values are left behind.
ShardData in_preorder(const ShardData& data) {
  std::vector<std::vector<std::uint32_t>> children(data.paths.size());
  for (std::uint32_t path = 1; path < data.paths.size(); ++path)
    children[data.paths[path].parent].push_back(path);
  ShardData ordered;
  ordered.ranks = data.ranks;
  ordered.paths.clear();
  std::vector<std::uint32_t> number(data.paths.size());
  std::vector<std::uint32_t> todo{0};
  while (!todo.empty()) {
    const std::uint32_t path = todo.back();
    todo.pop_back();
    number[path] = static_cast<std::uint32_t>(ordered.paths.size());
    Path moved = data.paths[path];
    moved.parent = number[moved.parent];
    ordered.paths.push_back(moved);
    todo.insert(todo.end(), children[path].begin(), children[path].end());
  }
  ordered.values = data.values;
  for (Value& value : ordered.values) value.path = number[value.path];
  std::sort(ordered.values.begin(), ordered.values.end(), [](const Value& a, const Value& b) {
    return std::tie(a.rank, a.path, a.category, b.main_thread) <
           std::tie(b.rank, b.path, b.category, a.main_thread);
  });
  return ordered;
}

std::vector<std::int32_t> some_ranks(std::size_t count) {
  std::vector<std::int32_t> ranks;
  for (std::size_t i = 0; i < count; ++i) ranks.push_back(static_cast<std::int32_t>((i * 37 + 5) % 1009));
  return ranks;
}

TEST(PathStatisticsTest, AgreesWithTheDefinition) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    // 150 ranks are more than the builder takes together.
    const std::size_t ranks = seed % 10 == 0 ? 150 : 1 + seed % 5;
    ShardData data = testing::random_shard(seed, {.ranks = some_ranks(ranks), .paths = 90, .names = 40});
    if (seed % 3 == 1)
      for (Value& value : data.values) value.wall_ns %= 4;  // equal times, and none
    EXPECT_EQ(path_statistics(data), by_definition(data)) << "seed " << seed;
    const ShardData ordered = in_preorder(data);
    EXPECT_EQ(path_statistics(ordered), by_definition(ordered)) << "in preorder, seed " << seed;
    std::shuffle(data.values.begin(), data.values.end(), std::mt19937(1));
    EXPECT_EQ(path_statistics(data), by_definition(data)) << "shuffled, seed " << seed;
  }
}

TEST(PathStatisticsTest, UnionDoesNotDependOnHowRanksAreDivided) {
  std::mt19937 random(7);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ShardData data = testing::random_shard(seed, {.ranks = some_ranks(40), .paths = 90});
    if (seed % 2 == 0) data = in_preorder(data);
    const PathStatisticsTable whole = by_definition(data);

    std::vector<PathStatisticsBuilder> builders;
    for (auto i = 1 + random() % 6; i > 0; --i) builders.emplace_back(data.paths);
    std::vector<std::uint32_t> order(data.ranks.size());
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random);
    for (const std::uint32_t rank : order) {
      std::vector<Value> values;
      for (const Value& value : data.values)
        if (value.rank == rank) values.push_back(value);
      builders[random() % builders.size()].add(data.ranks[rank].rank, values);
    }
    while (builders.size() > 1) {
      // Any two, through bytes.
      std::shuffle(builders.begin(), builders.end(), random);
      const Result<PathStatisticsTable> table = from_bytes(to_bytes(builders.back().finish()));
      ASSERT_TRUE(table) << table.error().message;
      builders.pop_back();
      builders.front().absorb(table.value());
    }
    EXPECT_EQ(builders.front().finish(), whole) << "seed " << seed;
  }
}

TEST(PathStatisticsTest, RanksWithoutRowsDoNotCount) {
  ShardData data = in_preorder(testing::random_shard(3, {.ranks = some_ranks(300), .paths = 90}));
  std::erase_if(data.values, [](const Value& value) { return value.rank % 150 != 3; });
  EXPECT_EQ(path_statistics(data), by_definition(data));
  data.values.clear();
  EXPECT_EQ(path_statistics(data), by_definition(data));
}

TEST(PathStatisticsTest, SquaresAreExact) {
  ShardData data;
  data.nodes = {{}};
  data.paths.resize(1);
  Squares squares = 0;
  for (std::int32_t number = 0; number < 100; ++number) {
    Rank rank;
    rank.rank = number;
    data.ranks.push_back(rank);
    const std::uint64_t ns = (std::uint64_t{1} << 50) + static_cast<std::uint64_t>(number);
    data.values.push_back({static_cast<std::uint32_t>(number), 0, Category::kPython, true, ns, 0, 1});
    squares += static_cast<Squares>(ns) * ns;
  }
  EXPECT_TRUE(path_statistics(data).paths[0].inclusive.sum_squares_ns2 == squares);
}

TEST(PathStatisticsTest, DamagedBytesAreRefused) {
  const ShardData data = testing::random_shard(1, {.ranks = {0, 1}});
  const std::vector<std::byte> bytes = to_bytes(path_statistics(data));
  for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 8)
    EXPECT_FALSE(from_bytes(std::span(bytes).first(length))) << length;
  std::vector<std::byte> absurd(64, std::byte{0xff});
  EXPECT_FALSE(from_bytes(absurd));
}

TEST(QuantileTest, BinsAreThoseOfTheirDefinition) {
  EXPECT_EQ(quantile_bin(0), 0);
  EXPECT_EQ(quantile_bin_lower_ns(0), 0u);
  std::mt19937_64 random(3);
  std::vector<std::uint64_t> times{1, 2, 3, 4, 5, 6, 7, 8, ~0ull, ~0ull - 1};
  for (int i = 0; i < 100'000; ++i) times.push_back(random() >> random() % 64);
  for (std::uint16_t bin = 1; bin <= quantile_bin(~0ull); ++bin) {
    const std::uint64_t lower = quantile_bin_lower_ns(bin);
    // 2^((bin-1)/8), rounded up.
    const long double exact = std::exp2l((bin - 1) / 8.0L);
    EXPECT_NEAR(static_cast<double>(static_cast<long double>(lower) / std::ceil(exact)), 1.0, 1e-15) << bin;
    times.insert(times.end(), {lower - 1, lower, lower + 1});
  }
  for (const std::uint64_t ns : times) {
    if (ns == 0) continue;
    const std::uint16_t bin = quantile_bin(ns);
    EXPECT_GE(ns, quantile_bin_lower_ns(bin)) << ns;
    if (bin != quantile_bin(~0ull)) {
      EXPECT_LT(ns, quantile_bin_lower_ns(static_cast<std::uint16_t>(bin + 1))) << ns;
    }
  }
}

TEST(QuantileTest, AtMostFivePercentWrong) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    ShardData data;
    data.nodes = {{}};
    std::vector<std::uint64_t> times;
    const auto ranks = static_cast<std::uint32_t>(1 + random() % 300);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      Rank rank;
      rank.rank = static_cast<std::int32_t>(i);
      data.ranks.push_back(rank);
      times.push_back(round % 4 == 0 ? random() % 20 : random() >> (8 + random() % 40));
      data.values.push_back({i, 0, Category::kPython, true, times.back(), 0, 1});
    }
    const PathStatisticsTable table = path_statistics(data);
    std::sort(times.begin(), times.end());
    for (const double share : {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0}) {
      const auto index = static_cast<std::size_t>(std::max(std::ceil(share * ranks), 1.0)) - 1;
      const auto truth = static_cast<double>(times[index]);
      const std::optional<double> found = table.quantile_ns(0, false, share);
      ASSERT_TRUE(found);
      EXPECT_NEAR(*found, truth, 0.05 * truth) << "share " << share << " of " << ranks;
      EXPECT_GE(*found, static_cast<double>(times.front()));
      EXPECT_LE(*found, static_cast<double>(times.back()));
      EXPECT_EQ(found, table.quantile_ns(0, true, share));
    }
    EXPECT_FALSE(table.quantile_ns(1, false, 0.5));
  }
}

}  // namespace
}  // namespace clusterprof::profile
