// SPDX-License-Identifier: BSD-3-Clause
#include "collector/shard_builder.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <map>
#include <string>
#include <vector>

#include "formats/wire/mpi_functions.h"
#include "tests/unit/collector/fake_segment.hpp"

namespace clusterprof::collector {
namespace {

using test::FakeSegment;
using test::python_word;

constexpr std::uint64_t kStart = FakeSegment::kStart;
constexpr std::uint64_t kMs = 1'000'000;

std::string path_text(const shard::ShardData& data, std::uint32_t path) {
  std::string text;
  for (; path != 0; path = data.paths[path].parent) {
    const shard::Frame& frame = data.frames[data.paths[path].frame];
    std::string part = data.strings[frame.name];
    if (frame.line != 0) part.append(":").append(std::to_string(frame.line));
    if (!text.empty()) part.append(";").append(text);
    text = part;
  }
  return text;
}

// Two ranks with the same program at different addresses.
class Building : public testing::Test {
 protected:
  void rank(FakeSegment& fake, std::int32_t number, std::uint64_t base) {
    fake.header().rank = number;
    fake.header().pid = 100 + number;
    fake.header().world_size = 2;
    fake.module("/nowhere/solver", base, base + 0x1000, base);
    const std::uint64_t code = 50 + static_cast<std::uint64_t>(number);  // ids are addresses: they differ
    fake.code(code, "train.py", "step", 80, {0xe8, 0x02, 0xe8, 0x04});   // two instructions: lines 81, 83
    fake.thread(0, 100 + number, kStart, true);
    FakeSegment::Sample sample;
    const auto add = [&](std::uint64_t ms, std::vector<std::uint64_t> words, std::uint16_t op = 0) {
      sample.time_ns = kStart + ms * kMs;
      sample.cpu_ns = ms * kMs;
      sample.words = std::move(words);
      sample.mpi_op = op;
      fake.sample(0, sample);
    };
    add(10, {base + 0x10, python_word(0), code});
    add(20, {python_word(0), code});
    add(40, {python_word(0), code}, wire::kMPI_Barrier + 1);
    fake.thread_end(0, kStart + 40 * kMs, 40 * kMs);
    fake.header().end_mono_ns = kStart + 40 * kMs;
    fake.communicator(0, 1, 2, number == 0 ? "" : "MPI_COMM_WORLD");
    fake.site(0, wire::kMPI_Barrier, 0, 2, 20 * kMs, 5 * kMs, 15 * kMs, 0, 0, {python_word(0), code});
    fake.peer(0, number, 1 - number, 5, 500);
    fake.size_bin(wire::kMPI_Send, 0, 1);
    fake.size_bin(wire::kMPI_Send, 1, 2);
    fake.size_bin(wire::kMPI_Send, 11, 3);
    fake.header().drops[0] = static_cast<std::uint64_t>(number);
    auto view = SegmentView::open(fake.file(), fake.bytes());
    ASSERT_TRUE(view.ok());
    const auto id = state_.announce(std::nullopt, number, 2, 100 + number, {kStart, 5'000'000'000});
    state_.hello(id, 100 + number, std::move(view).value(), {kStart, 5'000'000'000});
    state_.gone(id, kStart + 41 * kMs, 0);
  }
  NodeState state_{NodeOptions{"run-1", "n0", {"python3", "train.py"}, 0, 100, "wall"}};
};

TEST_F(Building, ExactTables) {
  FakeSegment a, b;
  rank(a, 0, 0x10000);
  rank(b, 1, 0x7f0000);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state_.snapshot({kStart + 50 * kMs, 5'050'000'000}, true));

  EXPECT_EQ(data.run.id, "run-1");
  EXPECT_EQ(data.run.command, (std::vector<std::string>{"python3", "train.py"}));
  EXPECT_TRUE(data.run.complete);
  ASSERT_EQ(data.ranks.size(), 2u);

  // Both ranks have the same three paths, so there are three leaves and one shared parent.
  std::map<std::string, std::vector<std::uint64_t>> wall;
  for (const shard::Value& value : data.values) {
    EXPECT_TRUE(value.main_thread);
    EXPECT_EQ(value.samples, 1u);
    wall[path_text(data, value.path) + " " + shard::kCategoryNames[static_cast<std::size_t>(value.category)]]
        .push_back(value.wall_ns);
  }
  const std::map<std::string, std::vector<std::uint64_t>> expected = {
      {"step:81;solver+0x10 native", {10 * kMs, 10 * kMs}},
      {"step:81 python", {10 * kMs, 10 * kMs}},
      {"step:81;MPI_Barrier mpi", {20 * kMs, 20 * kMs}},
  };
  EXPECT_EQ(wall, expected);
  EXPECT_EQ(data.paths.size(), 4u);
  EXPECT_EQ(data.frames.size(), 3u);
  for (std::size_t i = 1; i < data.paths.size(); ++i) {
    EXPECT_LT(data.paths[i].parent, i);
    EXPECT_EQ(data.paths[i].id, shard::path_id(data.paths[data.paths[i].parent].id,
                                               data.frames[data.paths[i].frame], data.strings));
  }

  ASSERT_EQ(data.mpi_calls.size(), 2u);
  for (const shard::MpiCall& call : data.mpi_calls) {
    EXPECT_EQ(path_text(data, call.path), "step:81;MPI_Barrier");
    EXPECT_EQ(call.communicator, 0u);
    EXPECT_EQ(call.count, 2u);
    EXPECT_EQ(call.time_ns, 20 * kMs);
  }
  ASSERT_EQ(data.communicators.size(), 1u);
  EXPECT_EQ(data.communicators[0].name, "MPI_COMM_WORLD");
  EXPECT_EQ(data.communicators[0].size, 2u);

  ASSERT_EQ(data.matrix.size(), 2u);
  EXPECT_EQ(data.matrix[0].source, 0);
  EXPECT_EQ(data.matrix[0].destination, 1);
  EXPECT_EQ(data.matrix[0].bytes, 500u);
  EXPECT_EQ(data.matrix[1].source, 1);

  std::vector<std::pair<std::uint64_t, std::uint64_t>> sizes;
  for (const shard::MpiSize& size : data.mpi_sizes) {
    EXPECT_EQ(data.strings[size.op], "MPI_Send");
    sizes.emplace_back(size.le_bytes, size.count);
  }
  EXPECT_EQ(sizes, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 2}, {1, 4}, {1024, 6}}));

  ASSERT_EQ(data.drops.size(), 1u);
  EXPECT_EQ(data.drops[0].rank, 1u);
  EXPECT_EQ(data.drops[0].reason, "ring_full");
}

TEST_F(Building, TwiceGivesTheSame) {
  FakeSegment a;
  rank(a, 0, 0x10000);
  ShardBuilder builder;
  const NodeSnapshot snapshot = state_.snapshot({kStart + 50 * kMs, 5'050'000'000}, true);
  const shard::ShardData first = builder.build(snapshot), second = builder.build(snapshot);
  ASSERT_EQ(first.paths.size(), second.paths.size());
  for (std::size_t i = 0; i < first.paths.size(); ++i) EXPECT_EQ(first.paths[i].id, second.paths[i].id);
  EXPECT_EQ(first.values.size(), second.values.size());
}

TEST(ShardBuilder, NodeWithoutRanksIsAValidShard) {
  NodeState state(NodeOptions{"run-1", "n0", {"true"}, 1, 100, "wall"});
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state.snapshot({kStart, 1}, true));
  EXPECT_EQ(data.nodes.size(), 1u);
  EXPECT_EQ(data.paths.size(), 1u);
  EXPECT_TRUE(data.ranks.empty());
}

TEST(ShardBuilder, KernelFramesAndWaitingForTheGil) {
  NodeState state(NodeOptions{"run-1", "n0", {"x"}, 1, 100, "wall"});
  FakeSegment fake;
  fake.thread(0, 100, kStart, true);
  FakeSegment::Sample sample;
  sample.time_ns = kStart + kMs;
  sample.flags = wire::kInSyscall;
  sample.syscall_nr = SYS_read;
  fake.sample(0, sample);
  sample.time_ns = kStart + 2 * kMs;
  sample.flags = wire::kInSyscall | wire::kWaitingForGil;
  sample.syscall_nr = SYS_futex;
  fake.sample(0, sample);
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  state.hello(std::nullopt, 100, std::move(view).value(), {kStart, 1});
  state.poll(kStart + 2 * kMs);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state.snapshot({kStart + 2 * kMs, 1}, false));
  std::map<std::string, std::uint64_t> wall;
  for (const shard::Value& value : data.values) wall[path_text(data, value.path)] += value.wall_ns;
  EXPECT_EQ(wall, (std::map<std::string, std::uint64_t>{{"read", kMs}, {"futex;waiting for the GIL", kMs}}));
  EXPECT_EQ(data.frames[0].kind, shard::FrameKind::kKernel);
}

}  // namespace
}  // namespace clusterprof::collector
