// SPDX-License-Identifier: BSD-3-Clause
// Memory with labels: what is read of a process, added up over a rank's processes, and put into a shard.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "collector/memory/labelled_reader.hpp"
#include "collector/node/node_state.hpp"
#include "collector/shard/shard_builder.hpp"
#include "formats/shard/tables.hpp"
#include "tests/unit/collector/fake_segment.hpp"
#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

using test::FakeSegment;
using test::view_of;

constexpr std::int64_t kUtcOfStart = 1'700'000'000'000'000'000;

struct LabelledMemoryTest : testing::Test {
  RawLabelledMemory read() {
    const SegmentView view = view_of(fake);
    return read_labelled_memory(view, kUtcOfStart, kStart, kStart + 100 * kMs, drops);
  }
  FakeSegment fake;
  std::map<std::string, std::uint64_t> drops;
};

TEST_F(LabelledMemoryTest, LabelsHaveWhatTheyHeldAtTheLastPeak) {
  wire::MemorySpace& space = fake.memory_space(0, "Host", 4, 900);
  space.peaks = 7;
  space.peak_ns = kStart + 30 * kMs;
  fake.memory_label(20, 0, "has not changed since", 500);
  wire::MemoryLabel& changed = fake.memory_label(21, 0, "has changed", 50);
  changed.saved_peaks = 7;
  changed.saved_bytes = 400;
  wire::MemoryLabel& before = fake.memory_label(22, 0, "has changed before", 0);
  before.saved_peaks = 6;
  before.saved_bytes = 333;
  fake.memory_space(1, "Cuda", 0, 0);  // only for copies
  fake.labelled_memory().copies[1][0].count = 3;
  fake.labelled_memory().copies[1][0].bytes = 30;
  const RawLabelledMemory memory = read();
  ASSERT_EQ(memory.spaces.size(), 1u);
  const RawMemorySpace& host = memory.spaces.at("Host");
  EXPECT_EQ(host.peak_bytes, 900u);
  EXPECT_EQ(host.processes, 1u);
  EXPECT_EQ(host.peak_utc_ns, kUtcOfStart + 30 * static_cast<std::int64_t>(kMs));
  ASSERT_EQ(host.labels.size(), 3u);
  EXPECT_EQ(host.labels.at("has not changed since").space_peak_bytes, 500u);
  EXPECT_EQ(host.labels.at("has changed").space_peak_bytes, 400u);
  EXPECT_EQ(host.labels.at("has changed before").space_peak_bytes, 0u);
  EXPECT_EQ(memory.copies.at({"Cuda", "Host"}).bytes, 30u);
  EXPECT_TRUE(drops.empty());
}

TEST_F(LabelledMemoryTest, NothingIsReadThatIsNotInUse) {
  fake.memory_space(0, "Host", 4, 900);
  fake.header().has_labelled_memory = 0;
  EXPECT_TRUE(read().spaces.empty());
}

TEST_F(LabelledMemoryTest, WhatCannotBeTrueIsLeftOut) {
  fake.memory_space(0, "Host", 4, 900).peak_ns = ~0ull;
  fake.memory_space(1, "Host", 2, 1000).alloc_bytes = ~0ull;  // the same name
  std::memset(fake.memory_space(2, "", 1, 1).name, 'x', wire::kSpaceNameBytes);
  fake.labelled_memory().space_count = 1000;
  fake.labelled_memory().changes = 77;  // killed in the middle
  fake.memory_label(20, 16, "of no space", 5);
  fake.memory_label(21, 0, "more than there was", 5000);
  std::memset(fake.memory_label(22, 0, "", 1).name, 'y', wire::kLabelBytes);
  const RawLabelledMemory memory = read();
  EXPECT_EQ(drops.at("damaged_memory_label"), 1u);
  const RawMemorySpace& host = memory.spaces.at("Host");
  EXPECT_EQ(host.allocations, 6u);
  EXPECT_EQ(host.peak_bytes, 1000u);
  EXPECT_EQ(memory.spaces.at(std::string(wire::kSpaceNameBytes, 'x')).peak_bytes, 1u);
  EXPECT_EQ(host.labels.at("more than there was").space_peak_bytes, 0u) << "the larger peak is of the other";
  EXPECT_EQ(host.labels.count(std::string(wire::kLabelBytes, 'y')), 1u);
  EXPECT_LE(host.peak_utc_ns, kUtcOfStart + 100 * static_cast<std::int64_t>(kMs));
}

RawLabelledMemory memory_of(std::uint64_t peak, std::int64_t utc_ns,
                            const std::map<std::string, std::uint64_t>& then) {
  RawLabelledMemory memory;
  RawMemorySpace& space = memory.spaces["Host"];
  space.processes = 1;
  space.allocations = 10;
  space.peak_bytes = peak;
  space.peak_utc_ns = utc_ns;
  for (const auto& [name, bytes] : then) space.labels[name] = {5, 1, 100, 20, bytes, bytes};
  memory.copies[{"Host", "Host"}] = {1, 8};
  return memory;
}

TEST(LabelledMemoryOfProcesses, TheLargestPeakIsTheRanks) {
  const RawLabelledMemory first = memory_of(70, 1000, {{"a", 30}, {"b", 40}}),
                          second = memory_of(90, 2000, {{"b", 10}, {"c", 80}});
  for (const bool reversed : {false, true}) {
    RawLabelledMemory sum;
    sum.add(reversed ? second : first);
    sum.add(reversed ? first : second);
    const RawMemorySpace& space = sum.spaces.at("Host");
    EXPECT_EQ(space.processes, 2u);
    EXPECT_EQ(space.allocations, 20u);
    EXPECT_EQ(space.peak_bytes, 90u);
    EXPECT_EQ(space.peak_utc_ns, 2000);
    EXPECT_EQ(space.labels.at("a").space_peak_bytes, 0u);
    EXPECT_EQ(space.labels.at("a").peak_bytes, 30u);
    EXPECT_EQ(space.labels.at("b").space_peak_bytes, 10u);
    EXPECT_EQ(space.labels.at("b").peak_bytes, 40u);
    EXPECT_EQ(space.labels.at("b").allocations, 10u);
    EXPECT_EQ(space.labels.at("c").space_peak_bytes, 80u);
    EXPECT_EQ(sum.copies.at({"Host", "Host"}).bytes, 16u);
  }
}

TEST(LabelledMemoryOfProcesses, NamesWithoutEndDoNotGrow) {
  RawLabelledMemory sum;
  for (int process = 0; process < 100; ++process) {
    RawLabelledMemory one;
    for (int i = 0; i < 100; ++i) {
      one.spaces["Host"].labels[std::to_string(process) + "." + std::to_string(i)].allocations = 1;
      one.spaces["space " + std::to_string(process)].allocations = 1;
    }
    sum.add(one);
  }
  EXPECT_LE(sum.spaces.size(), RawLabelledMemory::kMaxSpaces + 1);
  const auto& labels = sum.spaces.at("Host").labels;
  EXPECT_EQ(labels.size(), RawLabelledMemory::kMaxLabels + 1);
  std::uint64_t allocations = 0, in_spaces = 0;
  for (const auto& [name, row] : labels) allocations += row.allocations;
  for (const auto& [name, row] : sum.spaces) in_spaces += row.allocations;
  EXPECT_EQ(allocations, 100u * 100u);
  EXPECT_EQ(in_spaces, 100u);
}

TEST(LabelledMemoryOfNode, ShardsOfLargeJobsHaveTheLargestLabels) {
  constexpr std::uint32_t kLabels = 200;
  for (const std::uint32_t world_size : {1u, 100'000u}) {
    FakeSegment fake;
    fake.header().pid = 100;
    fake.header().world_size = static_cast<std::int32_t>(world_size);
    fake.memory_space(0, "Host", kLabels, kLabels * (kLabels + 1) / 2);
    for (std::uint32_t i = 0; i < kLabels; ++i)
      fake.memory_label(20 + i, 0, "label " + std::to_string(i), i + 1);
    fake.labelled_memory().spaces[0].peaks = 1;
    NodeState state(NodeOptions{"run-1", "n0", {"./solver"}, world_size, 100, "wall"});
    const Instant start = {kStart, kUtcOfStart};
    state.begin(start);
    const auto id = state.announce(std::nullopt, 0, static_cast<std::int32_t>(world_size), 100, start);
    state.hello(id, 100, view_of(fake), start);
    state.gone(id, kStart + 50 * kMs, 0);
    ShardBuilder builder;
    const shard::ShardData data = builder.build(state.snapshot({kStart + 60 * kMs, kUtcOfStart + 60}, true));
    ASSERT_TRUE(shard::validate(data));
    ASSERT_EQ(data.memory_spaces.size(), 1u);
    EXPECT_EQ(data.memory_labels.size(), world_size == 1 ? kLabels : 67u);
    std::uint64_t held = 0;
    for (std::size_t i = 0; i < data.memory_labels.size(); ++i) {
      held += data.memory_labels[i].space_peak_bytes;
      if (i != 0) {
        EXPECT_LT(data.memory_labels[i - 1].name, data.memory_labels[i].name);
      }
    }
    EXPECT_EQ(held, data.memory_spaces[0].peak_bytes);
    EXPECT_EQ(data.memory_labels.front().name, world_size == 1 ? "label 0" : "(other labels)");
  }
}

}  // namespace
}  // namespace clusterprof::collector
