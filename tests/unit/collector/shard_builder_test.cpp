// SPDX-License-Identifier: BSD-3-Clause
#include "collector/shard/shard_builder.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/shard/tables.hpp"
#include "formats/wire/mpi_functions.h"
#include "tests/unit/collector/fake_segment.hpp"
#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

using test::FakeSegment;
using test::python_word;
using test::region_word;

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

// What multiprocessing starts its workers with says nothing about the program.
TEST_F(Building, WorkersAreBelowTheCallThatMadeThem) {
  FakeSegment parent, worker;
  parent.header().rank = 0;
  parent.header().pid = 500;
  parent.code(70, "train.py", "start", 5, {0xe8, 0x02});
  parent.thread(0, 500, kStart, true);
  auto view = SegmentView::open(parent.file(), parent.bytes());
  ASSERT_TRUE(view.ok());
  const auto id = state_.announce(std::nullopt, 0, 1, 500, {kStart, 5'000'000'000});
  state_.hello(id, 500, std::move(view).value(), {kStart, 5'000'000'000});
  worker.header().rank = 0;
  worker.header().pid = 501;
  worker.header().parent_pid = 500;
  worker.header().creation = parent.creation(wire::CreationKind::kExec, {python_word(0), 70});
  worker.code(80, "<string>", "<module>", 1);
  worker.code(81, "work.py", "work", 20, {0xe8, 0x02});
  worker.thread(0, 501, kStart, true);
  FakeSegment::Sample sample;
  sample.time_ns = kStart + 30 * kMs;
  sample.cpu_ns = 30 * kMs;
  sample.words = {python_word(0), 81, python_word(0), 80};
  worker.sample(0, sample);
  worker.thread_end(0, kStart + 30 * kMs, 30 * kMs);
  auto opened = SegmentView::open(worker.file(), worker.bytes());
  ASSERT_TRUE(opened.ok());
  const auto child = state_.hello(std::nullopt, 501, std::move(opened).value(), {kStart, 5'000'000'000});
  state_.gone(child, kStart + 31 * kMs, 0);

  ShardBuilder builder;
  const shard::ShardData data = builder.build(state_.snapshot({kStart + 50 * kMs, 5'050'000'000}, false));
  std::set<std::string> paths;
  for (const shard::Value& value : data.values)
    if (value.rank == 0 && !value.main_thread) paths.insert(path_text(data, value.path));
  EXPECT_EQ(paths, std::set<std::string>{"start:6;work:21"});
  const auto row = std::find_if(data.processes.begin(), data.processes.end(),
                                [](const shard::Process& process) { return process.pid == 501; });
  ASSERT_NE(row, data.processes.end());
  EXPECT_EQ(row->rank, 0u);
  EXPECT_EQ(path_text(data, row->path), "start:6");
  EXPECT_EQ(path_text(data, row->top_path), "start:6;work:21");
}

// In code that the interpreter's JIT has made.
TEST_F(Building, ApproximateLinesAreToldApart) {
  FakeSegment fake;
  fake.header().rank = 0;
  fake.header().pid = 500;
  fake.code(70, "train.py", "step", 80, {0xe8, 0x02, 0xe8, 0x04});
  fake.thread(0, 500, kStart, true);
  FakeSegment::Sample sample;
  std::uint64_t ms = 0;
  for (const std::uint64_t word :
       {python_word(0), python_word(0) | wire::kApproximateLine, python_word(1) | wire::kApproximateLine}) {
    ms += 10;
    sample.time_ns = kStart + ms * kMs;
    sample.cpu_ns = ms * kMs;
    sample.words = {word, 70};
    fake.sample(0, sample);
  }
  // A code object that is not described, and has no lines.
  sample.time_ns = kStart + 40 * kMs;
  sample.cpu_ns = 40 * kMs;
  sample.words = {python_word(0) | wire::kApproximateLine, 71};
  fake.sample(0, sample);
  fake.thread_end(0, kStart + 40 * kMs, 40 * kMs);
  fake.header().end_mono_ns = kStart + 40 * kMs;
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  const auto id = state_.announce(std::nullopt, 0, 1, 500, {kStart, 5'000'000'000});
  state_.hello(id, 500, std::move(view).value(), {kStart, 5'000'000'000});
  state_.gone(id, kStart + 41 * kMs, 0);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state_.snapshot({kStart + 50 * kMs, 5'050'000'000}, true));
  std::map<std::string, std::uint64_t> samples;
  for (const shard::Value& value : data.values) {
    const shard::Frame& frame = data.frames[data.paths[value.path].frame];
    samples[(frame.line_approximate ? "~" : "") + path_text(data, value.path)] += value.samples;
  }
  EXPECT_EQ(samples["step:81"], 1u);
  EXPECT_EQ(samples["~step:81"], 1u);
  EXPECT_EQ(samples["~step:83"], 1u);
  EXPECT_EQ(samples["step:83"], 0u);
  for (const shard::Frame& frame : data.frames) EXPECT_TRUE(frame.line != 0 || !frame.line_approximate);
}

TEST_F(Building, LivesOfThreadsAreDividedWhereTheyMakeAndJoinOthers) {
  using wire::ThreadTieKind;
  constexpr std::uint64_t kPthread = 0x7f00'1234'5700;
  FakeSegment fake;
  fake.header().rank = 0;
  fake.header().pid = 500;
  fake.header().module_epoch = 1;
  fake.module("/nowhere/solver", 0x10000, 0x20000, 0x10000);
  fake.thread(0, 500, kStart, true);
  fake.thread(1, 501, kStart + 10 * kMs);
  const auto sample = [&](std::uint32_t slot, std::uint64_t ms, std::uint64_t cpu_ms, std::uint64_t pc) {
    FakeSegment::Sample s;
    s.time_ns = kStart + ms * kMs;
    s.cpu_ns = cpu_ms * kMs;
    s.words = {pc};
    fake.sample(slot, s);
  };
  sample(0, 10, 10, 0x10100);
  fake.tie(0, ThreadTieKind::kCreated, kStart + 10 * kMs, kStart + 11 * kMs);
  sample(0, 30, 30, 0x10110);
  fake.tie(0, ThreadTieKind::kJoined, kStart + 30 * kMs, kStart + 60 * kMs, kPthread);
  fake.thread_end(0, kStart + 80 * kMs, 50 * kMs);
  fake.tie(1, ThreadTieKind::kBegan, kStart + 10 * kMs, kStart + 10 * kMs, kPthread, 500);
  sample(1, 58, 48, 0x10200);
  fake.thread_end(1, kStart + 58 * kMs, 48 * kMs);
  fake.header().end_mono_ns = kStart + 80 * kMs;
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  const auto id = state_.announce(std::nullopt, 0, 1, 500, {kStart, 5'000'000'000});
  state_.hello(id, 500, std::move(view).value(), {kStart, 5'000'000'000});
  state_.gone(id, kStart + 81 * kMs, 0);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state_.snapshot({kStart + 90 * kMs, 5'090'000'000}, true));
  ASSERT_EQ(data.thread_spans.size(), 4u);
  EXPECT_EQ(data.thread_spans[0], (shard::ThreadSpan{0, 0, 0, 1, shard::SpanEnd::kCreate, kStart,
                                                     kStart + 10 * kMs, kStart + 11 * kMs}));
  EXPECT_EQ(data.thread_spans[1], (shard::ThreadSpan{0, 0, 1, 1, shard::SpanEnd::kJoin, kStart + 11 * kMs,
                                                     kStart + 30 * kMs, kStart + 60 * kMs}));
  EXPECT_EQ(data.thread_spans[2].number, 2u);
  EXPECT_EQ(data.thread_spans[3].thread, 1u);
  EXPECT_EQ(data.thread_spans[3].number, 0u);
  EXPECT_EQ(data.thread_spans[3].how, shard::SpanEnd::kEnd);
  ASSERT_FALSE(data.span_times.empty());
  const shard::SpanTime& last = data.span_times.back();
  EXPECT_EQ(last.thread, 1u);
  EXPECT_EQ(path_text(data, last.path), "solver+0x200");
  EXPECT_EQ(last.wall_ns, 48 * kMs);
}

TEST_F(Building, ThreadsOfAPoolAreBelowItsName) {
  FakeSegment fake;
  fake.header().rank = 0;
  fake.header().pid = 500;
  fake.header().module_epoch = 1;
  fake.module("/nowhere/solver", 0x10000, 0x20000, 0x10000);
  fake.module("/nowhere/libgomp.so.1", 0x20000, 0x30000, 0x20000);
  fake.thread(0, 500, kStart, true);
  fake.thread(1, 501, kStart);
  fake.slot(1).start_function = 0x20010;
  FakeSegment::Sample sample;
  sample.time_ns = kStart + 30 * kMs;
  sample.cpu_ns = 30 * kMs;
  sample.words = {0x10100, 0x20200};
  fake.sample(1, sample);
  fake.thread_end(1, kStart + 30 * kMs, 30 * kMs);
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  const auto id = state_.announce(std::nullopt, 0, 1, 500, {kStart, 5'000'000'000});
  state_.hello(id, 500, std::move(view).value(), {kStart, 5'000'000'000});
  state_.gone(id, kStart + 31 * kMs, 0);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state_.snapshot({kStart + 50 * kMs, 5'050'000'000}, true));
  ASSERT_EQ(data.threads.size(), 2u);
  const shard::Thread& pool = data.threads[1];
  EXPECT_EQ(pool.tid, 501);
  EXPECT_EQ(pool.name, "OpenMP");
  EXPECT_EQ(pool.kind, shard::ThreadKind::kOpenMp);
  EXPECT_EQ(pool.cpu_ns, 30 * kMs);
  EXPECT_EQ(path_text(data, pool.last_path), "[OpenMP threads];solver+0x100");
  EXPECT_EQ(path_text(data, pool.path), "[OpenMP threads];libgomp.so.1+0x10");
  EXPECT_EQ(data.threads[0].name, "main");
  EXPECT_TRUE(shard::validate(data).ok());
}

TEST_F(Building, RegionsOfOpenMpAreRowsByPathAndThread) {
  FakeSegment fake;
  fake.openmp(wire::OmpMethod::kGomp, "libgomp.so.1");
  fake.header().openmp.processors[0] = 0b111;
  // Two calls that no line tells apart are two rows: there is no debug information, so their addresses do.
  for (std::uint32_t i = 0; i < 2; ++i) {
    wire::OmpSite& region = fake.omp_region(1 + i, 2 + i, {0x10100 + i * 0x100});
    region.count = 5 + i;
    region.time_ns = 1000;
    region.longest_ns = 900;
    region.asked = 4;
    for (std::uint32_t number = 0; number < 2 + i; ++number)
      fake.omp_row(10 * i + number, 1 + i, number, 5, 1000 - number, 100).inner_wait_ns = 10;
  }
  fake.omp_construct(5, 1, 2, wire::OmpConstruct::kCritical, 0x10150);
  fake.omp_row(25, 5, 1, 7, 60, 50).schedules = wire::kOmpDynamic;
  rank(fake, 0, 0x10000);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state_.snapshot({kStart + 50 * kMs, 5'050'000'000}, true));
  ASSERT_TRUE(shard::validate(data).ok());
  ASSERT_EQ(data.omp_ranks.size(), 1u);
  EXPECT_EQ(data.omp_ranks[0].method, shard::OmpMethod::kGomp);
  EXPECT_EQ(data.omp_ranks[0].processors, 3u);
  EXPECT_EQ(data.omp_ranks[0].runtime, "libgomp.so.1");
  ASSERT_EQ(data.omp_regions.size(), 2u);
  const shard::OmpRegion& region =
      data.omp_regions[0].threads == 2 ? data.omp_regions[0] : data.omp_regions[1];
  EXPECT_EQ(path_text(data, region.path), "solver+0x100");
  EXPECT_EQ(region.asked, 4u);
  EXPECT_EQ(region.count, 5u);
  EXPECT_EQ(region.threads_ns, 1999u);
  EXPECT_EQ(region.wait_ns, 200u);
  EXPECT_EQ(region.inner_wait_ns, 20u);
  EXPECT_EQ(data.omp_threads.size(), 5u);
  ASSERT_EQ(data.omp_constructs.size(), 1u);
  const shard::OmpConstruct& critical = data.omp_constructs[0];
  EXPECT_EQ(critical.region_path, region.path);
  // What is told of a construct is where its call returns to. The call is before that.
  EXPECT_EQ(path_text(data, critical.path), "solver+0x100;solver+0x14f");
  EXPECT_EQ(critical.kind, shard::OmpKind::kCritical);
  EXPECT_EQ(critical.count, 7u);
  EXPECT_EQ(critical.wait_ns, 50u);
  EXPECT_EQ(critical.schedules, shard::kOmpDynamic);
}

TEST_F(Building, ProducesExactlyTheExpectedTables) {
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

  const auto valid = shard::validate(data);
  ASSERT_TRUE(valid.ok()) << valid.error().message;
  EXPECT_EQ(data.path_axis, (shard::TimeAxis{kMs, 5'000'000'000}));
  std::map<std::string, std::map<std::uint32_t, std::uint64_t>> over_time, of_both;
  for (const shard::PathSeries& row : data.path_series)
    over_time[path_text(data, row.path)][row.bin] = row.wall_ns;
  for (std::uint32_t bin = 0; bin < 40; ++bin)
    of_both[bin < 10 ? "step:81;solver+0x10" : bin < 20 ? "step:81" : "step:81;MPI_Barrier"][bin] = 2 * kMs;
  EXPECT_EQ(over_time, of_both);

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

TEST_F(Building, IsRepeatable) {
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

TEST(ShardBuilder, HasTheLongestBlockedTurnsOfEachLoopAndFewerInALargeJob) {
  for (const auto& [ranks, most] : {std::pair(1u, 256u), std::pair(512u, 64u), std::pair(100'000u, 8u)}) {
    NodeSnapshot snapshot;
    snapshot.run.world_size = ranks;
    snapshot.node.name = "n0";
    RankSnapshot& rank = snapshot.ranks.emplace_back();
    RawLoop& loop = rank.report.loops.emplace_back();
    loop.pid = loop.tid = 100;
    loop.main_thread = true;
    loop.turns = loop.blocked = 300;
    loop.blocked_ns = loop.busy_ns = 300 * 400 * kMs;
    loop.lengths[4] = 300;
    loop.thread = "server";
    for (std::uint64_t i = 0; i < 256; ++i) {
      const std::uint64_t length_ns = (100 + i * 37 % 256) * kMs;  // a permutation
      loop.longest.push_back({static_cast<std::int64_t>(i * 1000 * kMs),
                              {i * 1000 * kMs, length_ns, i % 2 == 0, false, {{0, length_ns}}}});
    }
    ShardBuilder builder;
    const shard::ShardData data = builder.build(snapshot);
    ASSERT_EQ(data.event_loops.size(), 1u);
    EXPECT_EQ(data.event_loops[0].lengths[4], 300u);
    EXPECT_EQ(data.event_loops[0].thread, "server");
    ASSERT_EQ(data.loop_blocks.size(), most);
    for (std::size_t i = 0; i < most; ++i) {
      const shard::LoopBlock& block = data.loop_blocks[i];
      EXPECT_GE(block.turn_ns, (100 + 256 - most) * kMs);
      EXPECT_EQ(block.wall_ns, block.turn_ns);
      EXPECT_EQ(block.flags, block.begin_utc_ns / 1'000'000'000 % 2 == 0 ? shard::LoopBlock::kAwaited : 0);
      if (i != 0) {
        EXPECT_GT(block.begin_utc_ns, data.loop_blocks[i - 1].begin_utc_ns);
      }
    }
  }
}

TEST(ShardBuilder, AddsKernelFramesAndWaitingForTheGil) {
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

TEST(ShardBuilder, InstructionWithoutALineGetsTheFunctionsFirstLine) {
  NodeState state(NodeOptions{"run-1", "n0", {"x"}, 1, 100, "wall"});
  FakeSegment fake;
  fake.thread(0, 100, kStart, true);
  // As the table of a closure: its first instruction has no line, the second one the next line.
  fake.code(50, "a.py", "closure", 80, {0xf8, 0xe8, 0x02});
  FakeSegment::Sample sample;
  for (std::uint64_t i = 0; i < 2; ++i) {
    sample.time_ns = kStart + (i + 1) * kMs;
    sample.words = {python_word(static_cast<std::uint32_t>(i)), 50};
    fake.sample(0, sample);
  }
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  state.hello(std::nullopt, 100, std::move(view).value(), {kStart, 1});
  state.poll(kStart + 2 * kMs);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state.snapshot({kStart + 2 * kMs, 1}, false));
  std::map<std::string, std::uint64_t> wall;
  for (const shard::Value& value : data.values) wall[path_text(data, value.path)] += value.wall_ns;
  EXPECT_EQ(wall, (std::map<std::string, std::uint64_t>{{"closure:80", kMs}, {"closure:81", kMs}}));
}

TEST(ShardBuilder, AddsRegionsFilesAndSeries) {
  using enum wire::IoOperation;
  NodeOptions options{"run-1", "n0", {"x"}, 1, 100, "wall"};
  options.sample_on = "page-faults";
  options.only_regions = true;
  NodeState state(options);
  const Instant start{kStart, 1'700'000'000'000'000'000};
  FakeSegment main, helper;
  const auto fill = [&](FakeSegment& fake, std::uint64_t base, std::uint64_t code) {
    fake.module("/nowhere/solver", base, base + 0x1000, base);
    fake.code(code, "load.py", "read_all", 7);
    fake.region(1, wire::kNoRegion, "epoch", 2, 40 * kMs, 10 * kMs, 30 * kMs, 1);
    fake.region(0, 1, "read", 4, 20 * kMs, kMs, 9 * kMs);
    fake.io_file(1, "/proc/self/stat", 0, 0x9fa0);
    fake.io_file(2, "");
    fake.io_site(0, 1, kRead, 3, 0, 300, 30, 20, {python_word(0), code, test::region_word(1)});
    fake.io_site(1, 2, kWrite, 1, 0, 8, 5, 5, {python_word(0), code, test::region_word(1)});
  };
  fill(main, 0x10000, 50);
  fill(helper, 0x50000, 51);
  helper.header().pid = 101;
  main.header().counter_count = 1;
  std::strcpy(main.header().counter_names[0], "page-faults");
  main.thread(0, 100, kStart, true);
  FakeSegment::Sample sample;
  sample.time_ns = kStart + 10 * kMs;
  sample.cpu_ns = 10 * kMs;
  sample.flags = wire::kMemoryOperand;
  sample.data_address = 99;
  sample.counters = {60};
  sample.words = {0x10010, python_word(0), 50, test::region_word(0), test::region_word(1)};
  main.sample(0, sample);
  sample.time_ns = kStart + 20 * kMs;
  sample.flags = wire::kInSyscall | wire::kOnPipe;
  sample.syscall_nr = SYS_read;
  sample.words = {test::region_word(1)};
  main.sample(0, sample);
  main.thread_end(0, kStart + 20 * kMs, 10 * kMs);

  const auto id = state.announce(std::nullopt, 0, 1, 100, start);
  for (FakeSegment* fake : {&main, &helper}) {
    auto view = SegmentView::open(fake->file(), fake->bytes());
    ASSERT_TRUE(view.ok());
    const bool is_main = fake == &main;
    const auto process = state.hello(is_main ? std::optional(id) : std::nullopt, is_main ? 100 : 101,
                                     std::move(view).value(), start);
    if (!is_main) state.gone(process, kStart + 15 * kMs, 0);
  }
  state.set_look(id, {4096, "0-1", "0"});
  state.update_node_series(kStart, {});
  state.update_node_series(kStart + 10 * kMs, {10 * kMs, 77, 0, 0, 0, 0});
  state.gone(id, kStart + 20 * kMs, 0);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state.snapshot({kStart + 30 * kMs, start.utc_ns + 1}, true));

  EXPECT_EQ(data.run.sample_on, "page-faults");
  EXPECT_TRUE(data.run.only_regions);
  std::map<std::string, std::uint64_t> regions;
  for (const shard::RegionTime& region : data.region_times) {
    EXPECT_EQ(data.frames[data.paths[region.path].frame].kind, shard::FrameKind::kRegion);
    regions[path_text(data, region.path)] = region.count;
  }
  EXPECT_EQ(regions, (std::map<std::string, std::uint64_t>{{"epoch", 4}, {"epoch;read", 8}}));

  // Equal in both processes: rows of the rank.
  ASSERT_EQ(data.io_files.size(), 2u);
  ASSERT_EQ(data.io_calls.size(), 2u);
  for (const shard::IoCall& call : data.io_calls) {
    EXPECT_EQ(path_text(data, call.path), "epoch;read_all");
    const bool read = call.operation == shard::IoOperation::kRead;
    EXPECT_EQ(data.io_files[call.file].path, read ? "/proc/self/stat" : "");
    EXPECT_EQ(data.io_files[call.file].file_system, read ? "proc /proc" : "");
    EXPECT_EQ(call.count, read ? 6u : 2u);
    EXPECT_EQ(call.bytes, read ? 600u : 16u);
    EXPECT_EQ(call.max_ns, read ? 20u : 5u);
  }

  std::map<std::string, std::uint64_t> wall;
  for (const shard::Value& value : data.values) wall[path_text(data, value.path)] += value.wall_ns;
  EXPECT_EQ(wall, (std::map<std::string, std::uint64_t>{{"epoch;read;read_all;solver+0x10", 10 * kMs},
                                                        {"epoch;read;of a pipe or terminal", 10 * kMs}}));
  ASSERT_EQ(data.data_accesses.size(), 1u);
  EXPECT_EQ(path_text(data, data.data_accesses[0].path), "epoch;read;read_all;solver+0x10");
  EXPECT_EQ(data.data_accesses[0].accesses, 1u);

  EXPECT_EQ(data.time_axis.bin_ns, shard::TimeAxis::kFirstBin_ns);
  EXPECT_EQ(data.time_axis.origin_utc_ns, start.utc_ns);
  std::map<std::string, std::map<std::uint32_t, std::uint64_t>> series;
  for (const shard::RankSeries& row : data.rank_series) {
    EXPECT_EQ(row.rank, 0u);
    series[data.strings[data.series[row.series].name]][row.bin] = row.value;
  }
  EXPECT_EQ(series.at("native_ns").size(), 10u);
  EXPECT_EQ(series.at("io_ns").size(), 10u);
  EXPECT_EQ(series.at("io_ns").at(15), kMs);
  EXPECT_EQ(series.at("page-faults").size(), 10u);
  EXPECT_EQ(series.at("page-faults").at(3), 6u);
  EXPECT_EQ(series.at("rss_bytes").at(3), 4096u);
  for (std::size_t i = 1; i < data.rank_series.size(); ++i)
    EXPECT_LT(std::pair(data.rank_series[i - 1].series, data.rank_series[i - 1].bin),
              std::pair(data.rank_series[i].series, data.rank_series[i].bin));
  std::map<std::string, shard::SeriesKind> kinds;
  for (const shard::Series& s : data.series) EXPECT_TRUE(kinds.emplace(data.strings[s.name], s.kind).second);
  EXPECT_EQ(kinds.at("rss_bytes"), shard::SeriesKind::kMaximum);
  EXPECT_EQ(kinds.at("memory_used_bytes"), shard::SeriesKind::kMaximum);
  EXPECT_EQ(kinds.at("cpu_busy_ns"), shard::SeriesKind::kSum);
  EXPECT_EQ(data.node_series.size(), 20u);
  EXPECT_EQ(data.strings[data.ranks[0].affinity], "0-1");
  EXPECT_EQ(data.strings[data.ranks[0].numa_nodes], "0");
}

TEST(ShardBuilder, CountersMayBeNamedLikeOtherSeries) {
  NodeState state(NodeOptions{"run-1", "n0", {"x"}, 1, 100, "wall"});
  const Instant start{kStart, 1'700'000'000'000'000'000};
  FakeSegment fake;
  const std::vector<const char*> names = {
      "rss_bytes", "memory_used_bytes", "native_ns",     "counter:native_ns",
      "cycles",    "mpi_measured_ns",   "openmp_wait_ns"};
  fake.header().counter_count = static_cast<std::uint32_t>(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) std::strcpy(fake.header().counter_names[i], names[i]);
  fake.header().usage.max_rss_bytes = 4096;
  fake.thread(0, 100, kStart, true);
  FakeSegment::Sample sample;
  sample.time_ns = kStart + kMs;
  sample.cpu_ns = kMs;
  sample.counters = {1, 2, 3, 4, 5, 6, 7};
  sample.words = {0x10000};
  fake.header().mpi_state = static_cast<std::uint32_t>(wire::MpiState::kFinalised);
  fake.slot(0).mpi_time_ns = kMs / 2;
  fake.sample(0, sample);
  const auto id = state.announce(std::nullopt, 0, 1, 100, start);
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  state.hello(id, 100, std::move(view).value(), start);
  state.update_node_series(kStart, {});
  state.update_node_series(kStart + kMs, {kMs, 77, 0, 0, 0, 0});
  state.gone(id, kStart + kMs, 0);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state.snapshot({kStart + kMs, start.utc_ns}, true));
  const auto valid = shard::validate(data);
  ASSERT_TRUE(valid.ok()) << valid.error().message;
  std::map<std::string, std::uint64_t> sums;
  for (const shard::RankSeries& row : data.rank_series)
    sums[data.strings[data.series[row.series].name]] += row.value;
  EXPECT_EQ(sums, (std::map<std::string, std::uint64_t>{{"native_ns", kMs},
                                                        {"cpu_user_ns", kMs},  // by its sample
                                                        {"rss_bytes", 4096},
                                                        {"counter:rss_bytes", 1},
                                                        {"counter:memory_used_bytes", 2},
                                                        {"counter:native_ns", 3},
                                                        {"counter:counter:native_ns", 4},
                                                        {"cycles", 5},
                                                        {"mpi_measured_ns", kMs / 2},
                                                        {"counter:mpi_measured_ns", 6},
                                                        {"counter:openmp_wait_ns", 7}}));
  EXPECT_EQ(data.counters, (std::vector<std::string>(names.begin(), names.end())));
}

// Of a node whose one process has come and gone.
shard::ShardData shard_of_ended_process(NodeState& state, FakeSegment& fake) {
  auto view = SegmentView::open(fake.file(), fake.bytes());
  EXPECT_TRUE(view.ok());
  const auto id =
      state.hello(std::nullopt, 100, std::move(view).value(), {kStart, 1'700'000'000'000'000'000});
  state.gone(id, kStart + 2 * kMs, 0);
  ShardBuilder builder;
  shard::ShardData data = builder.build(state.snapshot({kStart + 3 * kMs, 1}, true));
  const auto valid = shard::validate(data);
  EXPECT_TRUE(valid.ok()) << valid.error().message;
  return data;
}

TEST(ShardBuilder, RegionsWithLittleTimeBecomeOneOfTheirDomain) {
  NodeState state(NodeOptions{"run-1", "n0", {"x"}, 1, 100, "wall"});
  FakeSegment fake;
  fake.module("/nowhere/solver", 0x10000, 0x20000, 0x10000);
  fake.region(0, wire::kNoRegion, "epoch", 3, 1000 * kMs, kMs, 900 * kMs);
  for (std::uint32_t i = 1; i <= 300; ++i)
    fake.region(i, i == 2 ? 1 : 0, ("step " + std::to_string(i)).c_str(), 1, i, i, i, -1, "NVTX");
  fake.region(301, 0, "step 1", 5, 1000, 1, 900);  // another one: the program's own
  fake.thread(0, 100, kStart, true);
  FakeSegment::Sample sample;
  sample.time_ns = kStart + kMs;
  sample.cpu_ns = kMs;
  sample.words = {0x10010, region_word(2), region_word(1), region_word(0)};
  ASSERT_TRUE(fake.sample(0, sample));
  const shard::ShardData data = shard_of_ended_process(state, fake);
  ASSERT_EQ(data.region_times.size(), 257u) << "256 names, and the others";
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts;  // by path and domain
  for (const shard::RegionTime& region : data.region_times)
    counts[{path_text(data, region.path), data.strings[data.frames[data.paths[region.path].frame].module]}] =
        region.count;
  EXPECT_EQ(counts.at({"epoch", ""}), 3u);
  EXPECT_EQ(counts.at({"epoch;step 300", "NVTX"}), 1u);
  EXPECT_EQ(counts.at({"epoch;step 1", ""}), 5u);
  EXPECT_EQ(counts.count({"epoch;step 1", "NVTX"}), 0u);
  EXPECT_EQ(counts.at({"epoch;[other regions]", "NVTX"}), 46u);
  ASSERT_FALSE(data.values.empty());
  EXPECT_EQ(path_text(data, data.values[0].path), "epoch;[other regions];solver+0x10")
      << "one inside another one";
}

TEST(ShardBuilder, BackwardOperatorsHaveTheLineOfTheirForwardOne) {
  NodeState state(NodeOptions{"run-1", "n0", {"x"}, 1, 100, "wall"});
  FakeSegment fake;
  fake.module("/usr/lib/libtorch_cpu.so.1.13", 0x10000, 0x20000, 0x10000);
  fake.module("/nowhere/solver", 0x20000, 0x30000, 0x20000);
  fake.code(7, "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", "forward", 114, {0, 0});
  fake.code(8, "/home/a/torch/model.py", "forward", 57, {0, 0});
  fake.code(9, "/home/a/torch/model.py", "forward", 61, {0, 0});
  const auto backward = [&](std::uint32_t index, std::uint64_t count, std::vector<std::uint64_t> words) {
    fake.region(index, wire::kNoRegion, "MmBackward0", count, 100 * count, 100, 100, -1, "PyTorch");
    fake.forward_of(index, words);
  };
  const std::uint64_t torch = 0x10100, solver = 0x20100, other_thread = 0x20200;
  backward(0, 1, {torch, python_word(0), 7, python_word(0), 8, other_thread});
  backward(1, 2, {torch, python_word(0), 8, python_word(2), 9});       // on another path, the same line
  backward(2, 4, {torch, solver, python_word(0), 9, region_word(0)});  // Python's, where there is one
  backward(3, 8, {torch, python_word(0), 7});                          // nobody but PyTorch
  backward(4, 16, {torch, solver});                                    // a file without lines
  backward(5, 32, {torch});
  fake.table<wire::Region>(fake.header().regions_offset)[5].forward_offset = ~std::uint64_t{0};  // damaged
  backward(6, 64, {torch, python_word(0), 77});  // code that is never described
  fake.thread(0, 100, kStart, true);
  const shard::ShardData data = shard_of_ended_process(state, fake);
  std::map<std::pair<std::string, std::uint32_t>, std::uint64_t> counts;  // by file and line
  for (const shard::RegionTime& region : data.region_times) {
    const shard::Frame& frame = data.frames[data.paths[region.path].frame];
    EXPECT_EQ(data.strings[frame.name], "MmBackward0");
    EXPECT_EQ(data.strings[frame.module], "PyTorch");
    EXPECT_TRUE((counts.emplace(std::pair(data.strings[frame.file], frame.line), region.count).second));
  }
  EXPECT_EQ(counts, (std::map<std::pair<std::string, std::uint32_t>, std::uint64_t>{
                        {{"/home/a/torch/model.py", 57}, 1 + 2},
                        {{"/home/a/torch/model.py", 61}, 4},
                        {{"/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", 114}, 8},
                        {{"", 0}, 16 + 32 + 64}}));
}

// With more frames than are kept of those that nobody has described.
TEST(ShardBuilder, RegionInsideAnUndescribedRegionIsKept) {
  NodeState state(NodeOptions{"run-1", "n0", {"x"}, 1, 100, "wall"});
  FakeSegment fake;
  fake.region(1, wire::kNoRegion, "inner");
  fake.thread(0, 100, kStart, true);
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  const auto id =
      state.hello(std::nullopt, 100, std::move(view).value(), {kStart, 1'700'000'000'000'000'000});
  FakeSegment::Sample sample;
  for (std::uint64_t i = 0; i < 34; ++i) {
    sample.time_ns = kStart + (i + 1) * kMs;
    sample.words.clear();
    for (std::uint64_t word = 0; word < 1000; ++word) sample.words.push_back(0x10'0000 + i * 1000 + word);
    ASSERT_TRUE(fake.sample(0, sample));
    state.poll(sample.time_ns);
  }
  sample.time_ns += kMs;
  sample.words = {0x1, region_word(1), region_word(0)};
  ASSERT_TRUE(fake.sample(0, sample));
  state.gone(id, sample.time_ns, 0);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state.snapshot({sample.time_ns, 1}, true));
  const auto valid = shard::validate(data);
  EXPECT_TRUE(valid.ok()) << valid.error().message;
  std::set<std::string> paths;
  for (const shard::Value& value : data.values)
    if (const std::string path = path_text(data, value.path); path.find("inner") != std::string::npos)
      paths.insert(path);
  EXPECT_EQ(paths, std::set<std::string>{"[unknown];inner;[unknown]"});
}

TEST(ShardBuilder, FunctionsWithManyAddressesAreBounded) {
  NodeState state(NodeOptions{"run-1", "n0", {"x"}, 1, 100, "wall"});
  FakeSegment fake;
  fake.module("/nowhere/solver", 0x10000, 0x90000, 0x10000);
  fake.thread(0, 100, kStart, true);
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  const auto id =
      state.hello(std::nullopt, 100, std::move(view).value(), {kStart, 1'700'000'000'000'000'000});
  FakeSegment::Sample sample;
  std::uint64_t pushed = 0;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    sample.time_ns = kStart + ++pushed * kMs;
    sample.cpu_ns = pushed * kMs;
    sample.flags = wire::kMemoryOperand;
    sample.data_address = i << 20;
    sample.words = {0x10000 + i};
    ASSERT_TRUE(fake.sample(0, sample));
    if (i % 500 == 499) state.poll(sample.time_ns);
  }
  state.gone(id, sample.time_ns, 0);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state.snapshot({sample.time_ns, 1}, true));
  std::uint64_t samples = 0;
  std::array<std::uint64_t, 4> blocks{};
  for (const shard::DataAccess& row : data.data_accesses) {
    samples += row.samples;
    for (std::size_t i = 0; i < 4; ++i) blocks[i] |= row.blocks[i];
  }
  EXPECT_EQ(samples, 6000u);
  for (const std::uint64_t part : blocks) EXPECT_EQ(part, ~0ull);
}

}  // namespace
}  // namespace clusterprof::collector
