// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/live_state.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "random_shard.hpp"

namespace clusterprof::shard {
namespace {

LiveState state_of(std::uint64_t seed) {
  ShardData whole = testing::random_shard(seed, {.node = 3, .ranks = {4, 5, 9}});
  LiveState state;
  state.sequence = 17;
  state.watch = 2;
  state.memory_used_bytes = 1 << 20;
  state.memory_limit_bytes = 1 << 30;
  state.data.run = std::move(whole.run);
  state.data.run.notes.clear();
  state.data.run.complete = state.data.run.counters_multiplexed = false;
  state.data.strings = std::move(whole.strings);
  state.data.frames = std::move(whole.frames);
  state.data.paths = std::move(whole.paths);
  Node node;
  node.name = whole.nodes.front().name;
  node.as_of_utc_ns = 1'700'000'000'000'000'000;
  node.next_within_ns = 2'000'000'000;
  node.collector = "12.34.machine";
  state.data.nodes = {node};
  state.data.ranks = std::move(whole.ranks);
  for (Rank& rank : state.data.ranks) rank.node = 0;
  state.data.calls_under_way = std::move(whole.calls_under_way);
  state.data.pending_requests = std::move(whole.pending_requests);
  state.data.collective_counts = std::move(whole.collective_counts);
  state.data.communicators = std::move(whole.communicators);
  for (const Thread& from : whole.threads) {
    Thread thread = from;
    thread.path = thread.top_path = 0;
    thread.cpu_min_ns = thread.cpu_max_ns = 0;
    state.data.threads.push_back(thread);
  }
  state.rss_bytes = {1, 0, 3};
  state.times = {{0, Category::kIdle, 5}, {1, Category::kMpi, 7}};
  return state;
}

TEST(LiveState, ComesBackAsItWasWritten) {
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    const LiveState state = state_of(seed);
    const Result<LiveState> read = decode_live(encode_live(state));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read.value().sequence, 17u);
    EXPECT_EQ(read.value().watch, 2u);
    EXPECT_EQ(read.value().memory_used_bytes, state.memory_used_bytes);
    EXPECT_EQ(read.value().memory_limit_bytes, state.memory_limit_bytes);
    EXPECT_EQ(read.value().data, state.data);
    EXPECT_EQ(read.value().rss_bytes, state.rss_bytes);
    EXPECT_EQ(read.value().times, state.times);
  }
}

TEST(LiveState, WhatIsBehindItIsLeftFromALongerOne) {
  std::vector<std::byte> bytes = encode_live(state_of(1));
  bytes.resize(bytes.size() + 100, std::byte{7});
  EXPECT_TRUE(decode_live(bytes));
}

TEST(LiveState, HalfOfOneIsDamaged) {
  const std::vector<std::byte> bytes = encode_live(state_of(2));
  for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 50) {
    const Result<LiveState> read = decode_live({bytes.data(), length});
    ASSERT_FALSE(read) << length;
    EXPECT_EQ(read.error().kind, ErrorKind::kDamaged) << length;
  }
}

// A reader comes while the next one is being written: its beginning is there, and the end of the one before.
TEST(LiveState, TwoMixedAreDamaged) {
  const std::vector<std::byte> old = encode_live(state_of(3));
  LiveState next = state_of(3);
  next.sequence = 18;
  next.data.ranks[1].elapsed_ns += 1;
  const std::vector<std::byte> now = encode_live(next);
  ASSERT_EQ(old.size(), now.size());
  std::size_t refused = 0;
  for (std::size_t done = 1; done < now.size(); done += 64) {
    std::vector<std::byte> mixed = old;
    std::memcpy(mixed.data(), now.data(), done);
    if (mixed == old || mixed == now) continue;
    const Result<LiveState> read = decode_live(mixed);
    ASSERT_FALSE(read) << done;
    EXPECT_EQ(read.error().kind, ErrorKind::kDamaged);
    ++refused;
  }
  EXPECT_GT(refused, 0u);
}

TEST(LiveState, FlippedBitsAreNoticed) {
  const std::vector<std::byte> bytes = encode_live(state_of(4));
  for (std::size_t at = 0; at < bytes.size(); at += 1 + at / 30) {
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{1} << at % 8;
    EXPECT_FALSE(decode_live(damaged)) << at;
  }
}

TEST(LiveState, WhatDoesNotFitTogetherIsRefused) {
  const auto refused = [](const auto& change) {
    LiveState state = state_of(5);
    change(state);
    return !decode_live(encode_live(state));
  };
  EXPECT_FALSE(refused([](LiveState&) {}));
  EXPECT_TRUE(refused([](LiveState& state) { state.rss_bytes.pop_back(); }));
  EXPECT_TRUE(refused(
      [](LiveState& state) { state.times[0].path = static_cast<std::uint32_t>(state.data.paths.size()); }));
  EXPECT_TRUE(
      refused([](LiveState& state) { state.times[0].category = static_cast<Category>(kCategories); }));
  EXPECT_TRUE(refused([](LiveState& state) { state.data.nodes.clear(); }));
  EXPECT_TRUE(refused([](LiveState& state) { state.data.ranks[0].node = 1; }));
}

}  // namespace
}  // namespace clusterprof::shard
