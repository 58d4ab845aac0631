// SPDX-License-Identifier: BSD-3-Clause
// How ranks share the processors of their nodes.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "aggregator/whatif/processors.hpp"

namespace clusterprof::aggregator::whatif {
namespace {

constexpr std::uint64_t kSecond_ns = 1'000'000'000;

// Ranks 0 and 1 on the first node, rank 2 on the second one.
shard::ShardData two_nodes(std::initializer_list<const char*> affinities) {
  shard::ShardData data;
  data.strings = {""};
  data.nodes.resize(2);
  data.nodes[0].cpus = 16, data.nodes[1].cpus = 4;
  for (const char* const affinity : affinities) {
    data.strings.emplace_back(affinity);
    shard::Rank& rank = data.ranks.emplace_back();
    rank.node = data.ranks.size() == 3 ? 1 : 0;
    rank.affinity = static_cast<shard::StringIndex>(data.strings.size() - 1);
  }
  return data;
}

TEST(WhatIfProcessors, ThoseThatRanksMayRunOn) {
  EXPECT_EQ(processors_of_nodes(two_nodes({"", "", ""})), (std::vector<double>{16, 4}));
  EXPECT_EQ(processors_of_nodes(two_nodes({"0-3", "2,8", "0"})), (std::vector<double>{5, 1}));
  EXPECT_EQ(processors_of_nodes(two_nodes({"0", "", "0-1"})), (std::vector<double>{16, 2}))
      << "not known of all";
}

TEST(WhatIfProcessors, WhatRanksWantInMpi) {
  shard::ShardData data = two_nodes({"", "", ""});
  const auto sampled = [&](std::uint32_t rank, shard::Category category, bool main, std::uint64_t wall_s,
                           std::uint64_t cpu_s) {
    data.values.push_back({rank, 0, category, main, wall_s * kSecond_ns, cpu_s * kSecond_ns, 1});
  };
  sampled(0, shard::Category::kMpi, true, 6, 2);
  sampled(0, shard::Category::kMpi, true, 2, 2);
  sampled(0, shard::Category::kMpi, false, 90, 0);
  sampled(0, shard::Category::kNative, true, 90, 0);
  data.ranks[0].mpi_runnable_ns = 2 * kSecond_ns;
  sampled(1, shard::Category::kMpi, true, 4, 3);
  data.ranks[1].mpi_runnable_ns = 9 * kSecond_ns;
  EXPECT_EQ(wanted_in_mpi(data), (std::vector<double>{0.75, 1, 0}));
}

TEST(WhatIfProcessors, WhatThreadsLacked) {
  shard::ShardData data = two_nodes({"", "", ""});
  constexpr auto kRunnable = static_cast<std::size_t>(shard::Category::kRunnable);
  data.ranks[0].mpi_runnable_ns = 2 * kSecond_ns;
  data.ranks[0].main_thread_ns[kRunnable] = kSecond_ns;
  data.ranks[2].main_thread_ns[kRunnable] = 3 * kSecond_ns;
  data.ranks[0].threads = 1, data.ranks[1].threads = 5;
  data.values.push_back({0, 0, shard::Category::kRunnable, true, 50 * kSecond_ns, 0, 1});
  data.values.push_back({1, 0, shard::Category::kRunnable, false, 8 * kSecond_ns, 0, 1});
  data.values.push_back({1, 0, shard::Category::kIdle, false, 80 * kSecond_ns, 0, 1});
  const Lacked lacked = lacked_processors(data);
  EXPECT_DOUBLE_EQ(lacked.main_s, 2);
  EXPECT_DOUBLE_EQ(lacked.others_s, 2) << "of each of rank 1's other four";
}

TEST(WhatIfProcessors, MoreThreadsThanProcessorsWait) {
  EXPECT_DOUBLE_EQ(change_of_shortage(4, 4, 2), 0);
  EXPECT_DOUBLE_EQ(change_of_shortage(4, 3, 2), 0.5);
  EXPECT_DOUBLE_EQ(change_of_shortage(4, 1, 2), 1) << "none waits any more";
  EXPECT_DOUBLE_EQ(change_of_shortage(3, 4, 2), 1) << "twice as many";
  EXPECT_DOUBLE_EQ(change_of_shortage(2, 1.5, 4), 0.25) << "they meet by chance";
  EXPECT_DOUBLE_EQ(change_of_shortage(4, 3, 0), 0.25) << "how many processors there are is not known";
  EXPECT_DOUBLE_EQ(change_of_shortage(0, 3, 2), 0);
}

TEST(WhatIfProcessors, AThreadWaitsForTheTurnsOfTheOthers) {
  const shard::ShardData data = two_nodes({"", "", ""});
  EXPECT_DOUBLE_EQ(turn_s(data, {2, 1}), 0.004) << "at least one: other programs are there, too";
  EXPECT_DOUBLE_EQ(turn_s(data, {0.5, 1}), 3 * 0.004);
  EXPECT_DOUBLE_EQ(turn_s(data, {0, 0}), 0.004);
}

}  // namespace
}  // namespace clusterprof::aggregator::whatif
