// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <numeric>

#include "formats/shard/tables.hpp"
#include "formats/synth/synthetic_run.hpp"

namespace clusterprof::synth {
namespace {

TEST(SynthTest, TimesAddUp) {
  const Shape shape{.nodes = 3, .ranks_per_node = 4, .paths = 300, .seed = 5};
  std::uint64_t most_useful = 0;
  std::int32_t slowest = -1;
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    const shard::ShardData data = shard_of_node(shape, node);
    EXPECT_TRUE(shard::validate(data));
    ASSERT_EQ(data.ranks.size(), 4u);
    std::vector<std::uint64_t> wall_ns(data.ranks.size());
    for (const shard::Value& value : data.values) wall_ns[value.rank] += value.wall_ns;
    for (std::size_t i = 0; i < data.ranks.size(); ++i) {
      const shard::Rank& rank = data.ranks[i];
      EXPECT_EQ(wall_ns[i], rank.elapsed_ns);
      EXPECT_EQ(std::accumulate(rank.main_thread_ns.begin(), rank.main_thread_ns.end(), std::uint64_t{0}),
                rank.elapsed_ns);
      if (rank.elapsed_ns - rank.mpi_ns > most_useful) {
        most_useful = rank.elapsed_ns - rank.mpi_ns;
        slowest = rank.rank;
      }
    }
  }
  EXPECT_EQ(slowest, static_cast<std::int32_t>(slowest_rank(shape)));
}

TEST(SynthTest, DependsOnTheSeedAlone) {
  const Shape shape{.nodes = 2, .ranks_per_node = 2, .paths = 100, .seed = 5};
  EXPECT_EQ(shard_of_node(shape, 1), shard_of_node(shape, 1));
  Shape other = shape;
  other.seed = 6;
  EXPECT_NE(shard_of_node(shape, 1), shard_of_node(other, 1));
}

TEST(SynthTest, OneRank) {
  const shard::ShardData data = shard_of_node({.nodes = 1, .ranks_per_node = 1, .paths = 3, .seed = 0}, 0);
  EXPECT_TRUE(shard::validate(data));
  EXPECT_TRUE(data.matrix.empty());
}

}  // namespace
}  // namespace clusterprof::synth
