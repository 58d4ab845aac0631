// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/live_state.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
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

constexpr std::size_t kHeadBytes = 6 * sizeof(std::uint64_t);

// As somebody would forge a state. The header: magic, layout, sequence, bytes behind it, their checksum, that
// of all this.
std::vector<std::byte> with_right_checksums(std::vector<std::byte> bytes) {
  std::uint64_t head[kHeadBytes / sizeof(std::uint64_t)];
  std::memcpy(head, bytes.data(), sizeof head);
  head[3] = bytes.size() - sizeof head;
  head[4] = XXH3_64bits(bytes.data() + sizeof head, head[3]);
  head[5] = XXH3_64bits(head, 5 * sizeof *head);
  std::memcpy(bytes.data(), head, sizeof head);
  return bytes;
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

// Found is the byte that a truth value is in.
TEST(LiveState, AByteThatIsNoTruthValueIsRefused) {
  LiveState state = state_of(5);
  ASSERT_FALSE(state.data.frames.empty());
  ASSERT_FALSE(state.data.calls_under_way.empty());
  for (bool* const value :
       {&state.data.run.only_regions, &state.data.run.standby, &state.data.frames.back().inlined,
        &state.data.frames.back().line_approximate, &state.data.calls_under_way.back().main_thread}) {
    *value = false;
    std::vector<std::byte> bytes = encode_live(state);
    *value = true;
    const std::vector<std::byte> other = encode_live(state);
    ASSERT_EQ(bytes.size(), other.size());
    const auto at = std::mismatch(bytes.begin() + kHeadBytes, bytes.end(), other.begin() + kHeadBytes).first;
    ASSERT_NE(at, bytes.end());
    ASSERT_EQ(*at, std::byte{0});
    *at = std::byte{2};
    const Result<LiveState> read = decode_live(with_right_checksums(bytes));
    ASSERT_FALSE(read) << at - bytes.begin();
    EXPECT_EQ(read.error().kind, ErrorKind::kDamaged);
    EXPECT_NE(read.error().message.find("truth value"), std::string::npos) << read.error().message;
  }
}

std::uint64_t peak_bytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
}

// The last nine tables of an empty state are those from the nodes on, a number of rows each.
TEST(LiveState, AForgedNumberOfRowsTakesNoMemoryForThem) {
  constexpr std::uint64_t kRows = std::uint64_t{1} << 23;
  std::vector<std::byte> bytes = encode_live(LiveState());
  const std::size_t at = bytes.size() - 9 * sizeof kRows;
  std::memcpy(bytes.data() + at, &kRows, sizeof kRows);
  bytes.resize(bytes.size() + kRows);  // as many as there might be if each took one byte
  bytes = with_right_checksums(std::move(bytes));
  const std::uint64_t before_bytes = peak_bytes();
  const Result<LiveState> read = decode_live(bytes);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("does not fit its length"), std::string::npos) << read.error().message;
  EXPECT_LT(peak_bytes() - before_bytes, kRows * sizeof(Node) / 4);
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
  EXPECT_FALSE(refused([](LiveState& state) { state.data.run.world_size = kMaxWorldSize; }));
  EXPECT_TRUE(refused([](LiveState& state) { state.data.run.world_size = kMaxWorldSize + 1; }));
}

}  // namespace
}  // namespace clusterprof::shard
