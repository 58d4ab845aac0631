// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/merger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "formats/profile/profile_writer.hpp"
#include "formats/shard/tables.hpp"
#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof::aggregator {
namespace {

using namespace shard;

// Five shards of four nodes: one node has two, as after a second collector.
std::vector<ShardData> shards_of_a_run(std::uint64_t seed) {
  std::vector<ShardData> shards;
  shards.push_back(testing::random_shard(seed * 10 + 0, {.node = 0, .ranks = {0, 1, 2}}));
  shards.push_back(testing::random_shard(seed * 10 + 1, {.node = 1, .ranks = {5, 3}}));
  shards.push_back(testing::random_shard(seed * 10 + 2, {.node = 1, .ranks = {4}}));
  shards.push_back(testing::random_shard(seed * 10 + 3, {.node = 2, .ranks = {9, 8, 7, 6}}));
  shards.push_back(testing::random_shard(seed * 10 + 4, {.node = 3, .ranks = {}}));
  return shards;
}

ShardData united(const std::vector<ShardData>& shards, const std::vector<std::size_t>& order) {
  Merger merger;
  for (const std::size_t i : order) merger.add(shards[i]);
  return merger.finish();
}

std::vector<std::size_t> in_order(const std::vector<ShardData>& shards) {
  std::vector<std::size_t> order(shards.size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

TEST(MergerTest, OrderDoesNotMatter) {
  const testing::TemporaryDirectory directory;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const std::vector<ShardData> shards = shards_of_a_run(seed);
    std::vector<std::size_t> order = in_order(shards);
    const ShardData first = united(shards, order);
    const Result<void> valid = validate(first);
    ASSERT_TRUE(valid) << valid.error().message;
    ASSERT_TRUE(profile::write_profile(first, directory.path() / "first.h5"));
    const auto bytes = testing::read_bytes(directory.path() / "first.h5");
    int permutations = 0;
    do {
      const ShardData other = united(shards, order);
      ASSERT_EQ(other, first);
      if (permutations++ % 20 != 0) continue;  // writing takes longest
      ASSERT_TRUE(profile::write_profile(other, directory.path() / "other.h5"));
      ASSERT_EQ(testing::read_bytes(directory.path() / "other.h5"), bytes);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(permutations, 120);
  }
}

TEST(MergerTest, GroupingDoesNotMatter) {
  std::mt19937 random(3);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<ShardData> parts = shards_of_a_run(seed);
    const ShardData all = united(parts, in_order(parts));
    while (parts.size() > 1) {  // any binary tree of merges, sides swapped at will
      const std::size_t a = random() % parts.size();
      std::size_t b = random() % (parts.size() - 1);
      if (b >= a) ++b;
      merge_into(parts[a], parts[b]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(b));
    }
    EXPECT_EQ(parts[0], all) << "seed " << seed;
  }
}

TEST(MergerTest, UnitedOnceIsUnitedForGood) {
  const std::vector<ShardData> shards = shards_of_a_run(4);
  const ShardData all = united(shards, in_order(shards));
  ShardData again;
  Merger merger;
  merger.add(all);
  EXPECT_EQ(merger.finish(), all);
}

// A value by what it means instead of by indices.
using Meaning = std::tuple<std::int32_t, std::uint64_t, std::uint64_t, Category, bool>;
std::map<Meaning, std::array<std::uint64_t, 3>> meaning(const ShardData& data) {
  std::map<Meaning, std::array<std::uint64_t, 3>> result;
  for (const Value& value : data.values) {
    const PathId& id = data.paths[value.path].id;
    auto& sums = result[{data.ranks[value.rank].rank, id.high, id.low, value.category, value.main_thread}];
    sums[0] += value.wall_ns;
    sums[1] += value.cpu_ns;
    sums[2] += value.samples;
  }
  return result;
}

TEST(MergerTest, NothingIsLost) {
  const std::vector<ShardData> shards = shards_of_a_run(7);
  const ShardData all = united(shards, in_order(shards));
  std::map<Meaning, std::array<std::uint64_t, 3>> expected;
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t> bytes;
  std::uint64_t calls = 0, time_ns = 0, drops = 0, sizes = 0, page_faults = 0;
  for (const ShardData& shard : shards) {
    expected.merge(meaning(shard));
    for (const MatrixCell& cell : shard.matrix) bytes[{cell.source, cell.destination}] += cell.bytes;
    for (const MpiCall& call : shard.mpi_calls) calls += call.count, time_ns += call.time_ns;
    for (const Drop& drop : shard.drops) drops += drop.count;
    for (const MpiSize& size : shard.mpi_sizes) sizes += size.count;
    for (const CounterValue& value : shard.counter_values)
      if (shard.counters[value.counter] == "PAGE-FAULTS") page_faults += value.value;
  }
  EXPECT_EQ(meaning(all), expected);
  for (const MatrixCell& cell : all.matrix)
    EXPECT_EQ(cell.bytes, (bytes.at({cell.source, cell.destination})));
  EXPECT_EQ(all.matrix.size(), bytes.size());
  for (const MpiCall& call : all.mpi_calls) calls -= call.count, time_ns -= call.time_ns;
  for (const Drop& drop : all.drops) drops -= drop.count;
  for (const MpiSize& size : all.mpi_sizes) sizes -= size.count;
  for (const CounterValue& value : all.counter_values)
    if (all.counters[value.counter] == "PAGE-FAULTS") page_faults -= value.value;
  EXPECT_EQ(calls, 0u);
  EXPECT_EQ(time_ns, 0u);
  EXPECT_EQ(drops, 0u);
  EXPECT_EQ(sizes, 0u);
  EXPECT_EQ(page_faults, 0u);
  std::vector<std::int32_t> ranks;
  for (const Rank& rank : all.ranks) ranks.push_back(rank.rank);
  EXPECT_EQ(ranks, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  ASSERT_EQ(all.nodes.size(), 4u);
  EXPECT_EQ(all.nodes[all.ranks[4].node].name, "n1");
  EXPECT_EQ(all.nodes[1].cpu_ns, shards[1].nodes[0].cpu_ns + shards[2].nodes[0].cpu_ns);
}

TEST(MergerTest, PathsAreInPreorderAndOncePerId) {
  const std::vector<ShardData> shards = shards_of_a_run(8);
  const ShardData all = united(shards, in_order(shards));
  std::vector<std::uint32_t> open{0};
  std::map<PathId, int> seen;
  for (std::uint32_t i = 1; i < all.paths.size(); ++i) {
    EXPECT_EQ(++seen[all.paths[i].id], 1);
    while (!open.empty() && open.back() != all.paths[i].parent) open.pop_back();
    ASSERT_FALSE(open.empty()) << "path " << i << " comes after the end of its parent's subtree";
    open.push_back(i);
  }
  EXPECT_TRUE(std::is_sorted(all.strings.begin(), all.strings.end()));
}

// One rank, one call path, one message to rank 9.
ShardData record(const char* node, std::int32_t rank, std::uint64_t elapsed_ns, std::uint32_t flags) {
  ShardData data;
  data.run.id = "r";
  data.run.complete = true;
  Node entry;
  entry.name = node;
  data.nodes = {entry};
  PathInterner interner(data);
  const std::uint32_t path = interner.path(
      0, interner.frame({FrameKind::kPython, false, interner.string(std::string("f_") + node)}));
  Rank row;
  row.rank = rank;
  row.elapsed_ns = elapsed_ns;
  row.flags = flags;
  data.ranks = {row};
  data.values = {{0, path, Category::kPython, true, elapsed_ns, 1, 1}};
  data.matrix = {{rank, 9, 1, elapsed_ns}};
  data.mpi_sizes = {{interner.string("MPI_Send"), 8, elapsed_ns}};
  return data;
}

TEST(MergerTest, ARankIsCountedOnce) {
  const ShardData lost = record("a", 0, 900, kLost);
  const ShardData shorter = record("b", 0, 100, kExitStatusKnown);
  const ShardData longer = record("c", 0, 200, kExitStatusKnown);
  const ShardData other = record("d", 1, 50, kExitStatusKnown);
  const std::vector<ShardData> shards{lost, shorter, longer, other};
  std::vector<std::size_t> order = in_order(shards);
  const ShardData first = united(shards, order);
  do {
    ASSERT_EQ(united(shards, order), first);
  } while (std::next_permutation(order.begin(), order.end()));

  ASSERT_EQ(first.ranks.size(), 2u);
  EXPECT_EQ(first.ranks[0].elapsed_ns, 200u);
  ASSERT_EQ(first.values.size(), 2u);
  EXPECT_EQ(first.values[0].wall_ns, 200u);
  EXPECT_EQ(first.nodes.size(), 2u) << "nodes of records that were left out are left out";
  ASSERT_EQ(first.matrix.size(), 2u);
  EXPECT_EQ(first.matrix[0].bytes, 200u);
  ASSERT_EQ(first.mpi_sizes.size(), 1u);
  EXPECT_EQ(first.mpi_sizes[0].count, 250u);
  ASSERT_EQ(first.run.notes.size(), 1u);
  EXPECT_NE(first.run.notes[0].find("rank 0 was recorded more than once"), std::string::npos);

  ShardData left = lost, right = longer;  // ((lost shorter) (longer other)): by pairs as well
  merge_into(left, shorter);
  merge_into(right, other);
  merge_into(left, right);
  EXPECT_EQ(left, first);
}

TEST(MergerTest, SameIdFromAnotherDirectoryIsOnePath) {
  const auto with_module = [](const char* module, std::int32_t rank) {
    ShardData data;
    data.nodes = {{}};
    PathInterner interner(data);
    const std::uint32_t path = interner.path(
        0, interner.frame({FrameKind::kNative, false, interner.string("f"), 0, interner.string(module)}));
    Rank row;
    row.rank = rank;
    data.ranks = {row};
    data.values = {{0, path, Category::kNative, true, 5, 5, 1}};
    return data;
  };
  ShardData a = with_module("/scratch/b/lib.so", 0);
  ShardData b = with_module("/scratch/a/lib.so", 1);
  ShardData ab = a, ba = b;
  merge_into(ab, b);
  merge_into(ba, a);
  EXPECT_EQ(ab, ba);
  ASSERT_EQ(ab.paths.size(), 2u);
  ASSERT_EQ(ab.frames.size(), 1u);
  EXPECT_EQ(ab.strings[ab.frames[0].module], "/scratch/a/lib.so");
}

TEST(MergerTest, CommandOfTheLowestRank) {
  ShardData a = record("a", 7, 1, 0), b = record("b", 2, 1, 0);
  a.run.command = {"a.out"};
  b.run.command = {"z.out"};
  merge_into(a, b);
  EXPECT_EQ(a.run.command, std::vector<std::string>{"z.out"});
}

TEST(MergerTest, EventsAreLeftToTheAnalysis) {
  ShardData shard = testing::random_shard(5, {.ranks = {0, 1}});
  ASSERT_FALSE(shard.mpi_events.empty());
  shard.ranks[1].event_level = 3;
  shard.ranks[1].mpi_operations = 12345;
  shard.mpi_events[0].communicator = static_cast<std::uint32_t>(shard.communicators.size());
  shard.communicators.push_back({4711, 5, ""});  // of events alone
  Merger merger;
  merger.add(shard);
  const ShardData merged = merger.finish();
  EXPECT_TRUE(merged.mpi_events.empty());
  EXPECT_TRUE(merged.event_gaps.empty());
  EXPECT_TRUE(merged.wait_states.empty());
  EXPECT_FALSE(merged.wait_analysis.done);
  EXPECT_EQ(merged.ranks[1].event_level, 3u);
  EXPECT_EQ(merged.ranks[1].mpi_operations, 12345u);
  EXPECT_EQ(merged.communicators.size(), 2u);
  EXPECT_TRUE(validate(merged));
}

TEST(MergerTest, WithoutInputs) {
  Merger merger;
  const ShardData data = merger.finish();
  EXPECT_TRUE(validate(data));
  EXPECT_TRUE(data.ranks.empty());
  EXPECT_FALSE(data.run.complete);
}

}  // namespace
}  // namespace clusterprof::aggregator
