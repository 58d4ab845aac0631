// SPDX-License-Identifier: BSD-3-Clause
// What a node tells whoever watches: time of call paths, the state of its ranks, and how often it looks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "collector/charge/live_times.hpp"
#include "collector/loop/live_watch.hpp"
#include "collector/node/node_state.hpp"
#include "collector/shard/shard_builder.hpp"
#include "formats/wire/mpi_functions.h"
#include "tests/unit/collector/fake_segment.hpp"
#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

using shard::Category;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using test::FakeSegment;

TEST(LiveInterval, StaysBelowAThousandthOfTheNodeAndAboveASecond) {
  EXPECT_EQ(live_interval(nanoseconds(0), 64), seconds(1));
  EXPECT_EQ(live_interval(milliseconds(64), 64), seconds(1));
  EXPECT_EQ(live_interval(milliseconds(128), 64), seconds(2));
  EXPECT_EQ(live_interval(milliseconds(3), 2), milliseconds(1500));
  EXPECT_EQ(live_interval(seconds(10), 2), milliseconds(2500)) << "or the data would be 3 s old";
  EXPECT_EQ(live_interval(milliseconds(1), 0), seconds(1));
}

std::uint64_t time_of(const LiveTimes& times, std::uint32_t path) {
  std::uint64_t sum = 0;
  for (const LiveTimes::Row& row : times.rows())
    if (row.path == path) sum += row.wall_ns;
  return sum;
}

TEST(LiveTimes, OpenTimeCountsOnlyUntilTheNextLook) {
  RawStore store;
  LiveTimes times(store);
  times.begin_look();
  times.add(1, Category::kPython, 100);
  times.add_open(2, Category::kIdle, 30);
  EXPECT_EQ(time_of(times, 1), 100u);
  EXPECT_EQ(time_of(times, 2), 30u);
  times.begin_look();
  times.add(1, Category::kPython, 50);
  times.add_open(2, Category::kIdle, 40);
  EXPECT_EQ(time_of(times, 1), 150u);
  EXPECT_EQ(time_of(times, 2), 40u);
}

TEST(LiveTimes, ARowWithoutNewTimeEndsAndBeginsAgainAtZero) {
  RawStore store;
  LiveTimes times(store);
  times.begin_look();
  times.add(1, Category::kPython, 100);
  for (std::uint64_t look = 0; look < LiveTimes::kLooksWithoutTime; ++look) {
    times.begin_look();
    times.add(2, Category::kPython, 1);
  }
  EXPECT_EQ(time_of(times, 1), 100u);
  times.begin_look();
  EXPECT_EQ(time_of(times, 1), 0u);
  EXPECT_EQ(time_of(times, 2), LiveTimes::kLooksWithoutTime);
  times.add(1, Category::kPython, 7);
  EXPECT_EQ(time_of(times, 1), 7u);
}

TEST(LiveTimes, ManyPathsAreChargedWithoutTheirCallers) {
  RawStore store;
  LiveTimes times(store);
  times.begin_look();
  std::uint32_t last = 0;
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < LiveTimes::kMaxRows + 100; ++i) {
    const std::uint32_t caller = store.node(0, store.frame({RawKind::kPython, 0, i}));
    last = store.leaf(caller, store.frame({RawKind::kPython, 1, i % 3}));
    times.add(last, Category::kPython, 1);
  }
  for (const LiveTimes::Row& row : times.rows()) all += row.wall_ns;
  EXPECT_EQ(all, LiveTimes::kMaxRows + 100);
  EXPECT_LE(times.rows().size(), LiveTimes::kMaxRows + 3);
  EXPECT_EQ(time_of(times, last), 0u);
}

class LiveSnapshot : public testing::Test {
 protected:
  static Instant at(std::uint64_t ms) {
    return {kStart + ms * kMs, 5'000'000'000 + static_cast<std::int64_t>(ms * kMs)};
  }
  LiveSnapshot() {
    fake_.header().pid = 100;
    fake_.header().start_mono_ns = kStart;
    fake_.module("/bin/program", 0x10000, 0x20000, 0x10000);
    fake_.thread(0, 100, kStart, true);
    const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
    auto opened = SegmentView::open(fake_.file(), fake_.bytes());
    if (!opened.ok()) throw std::runtime_error(opened.error().message);
    state_.hello(id, 100, std::move(opened).value(), at(0));
    state_.set_look(id, {.rss_bytes = 4096, .affinity = {}, .numa_nodes = {}});
  }
  // The thread was running at `word` all the time since the sample before.
  void sample(std::uint64_t ms, std::uint64_t word) {
    FakeSegment::Sample sample;
    sample.words = {word};
    sample.time_ns = kStart + ms * kMs;
    sample.cpu_ns = ms * kMs;
    fake_.sample(0, sample);
    state_.poll(at(ms).mono_ns);
  }
  static std::uint64_t sum(const NodeSnapshot& snapshot) {
    std::uint64_t ns = 0;
    for (const LiveTimes::Row& row : snapshot.live_times) ns += row.wall_ns;
    return ns;
  }
  static std::uint64_t main_ns(const NodeSnapshot& snapshot) {
    std::uint64_t ns = 0;
    for (const std::uint64_t part : snapshot.ranks[0].rank.main_thread_ns) ns += part;
    return ns;
  }

  FakeSegment fake_;
  NodeState state_{NodeOptions{"run-1", "n0", {"./program"}, 1, 100, "wall"}};
};

TEST_F(LiveSnapshot, TellsWhatTheShardDoesAndWhatWasDoneSinceSomebodyWatches) {
  sample(1000, 0x10001);
  state_.begin_live(5);
  const NodeSnapshot begin = state_.live_snapshot(at(1000));
  EXPECT_EQ(begin.watch, 5u);
  EXPECT_EQ(sum(begin), 0u) << "what was before is of no interest";
  sample(2500, 0x10101);
  const NodeSnapshot live = state_.live_snapshot(at(2600));
  EXPECT_EQ(sum(live), 1600 * kMs) << "100 ms of it since the last sample";
  const NodeSnapshot whole = state_.snapshot(at(2600), false);
  ASSERT_EQ(live.ranks.size(), 1u);
  EXPECT_EQ(live.ranks[0].rank, whole.ranks[0].rank);
  EXPECT_EQ(main_ns(live), 2600 * kMs);
  EXPECT_EQ(live.ranks[0].rss_bytes, 4096u);
  ASSERT_EQ(live.ranks[0].threads.size(), 1u);
  EXPECT_EQ(live.ranks[0].threads, whole.ranks[0].threads);
}

TEST_F(LiveSnapshot, AThreadThatIsBlockedInACallIsThereWhateverItsLastSampleSaid) {
  sample(1000, 0x10001);
  state_.begin_live(5);
  (void)state_.live_snapshot(at(1000));
  fake_.enter_mpi(0, wire::kMPI_Barrier, kStart + 1200 * kMs, wire::kNoPath, wire::kNoPeer, wire::kNoTag,
                  {0x10201});
  const NodeSnapshot live = state_.live_snapshot(at(2600));
  std::uint64_t in_call_ns = 0;
  for (const LiveTimes::Row& row : live.live_times)
    if (row.category == Category::kMpi) in_call_ns += row.wall_ns;
  EXPECT_EQ(in_call_ns, 1400 * kMs);
  EXPECT_EQ(sum(live), 1600 * kMs);
  // What a sample of later says is charged as it says: the call has ended.
  fake_.leave_mpi(0, kStart + 2700 * kMs);
  sample(2800, 0x10101);
  EXPECT_EQ(sum(state_.live_snapshot(at(2800))), 1800 * kMs);
}

TEST_F(LiveSnapshot, AnotherPeriodBeginsAnew) {
  state_.begin_live(1);
  sample(1000, 0x10001);
  (void)state_.live_snapshot(at(1000));
  state_.end_live();
  sample(2000, 0x10001);
  state_.begin_live(2);
  sample(2300, 0x10001);
  EXPECT_EQ(sum(state_.live_snapshot(at(2300))), 300 * kMs);
}

TEST_F(LiveSnapshot, NamesOnlyWhatItHas) {
  sample(1000, 0x10001);
  sample(2000, 0x10201);
  state_.begin_live(1);
  sample(3000, 0x10101);
  ShardBuilder builder;
  const shard::LiveState state =
      builder.build_live(state_.live_snapshot(at(3000)), [](auto, auto) { return true; });
  ASSERT_EQ(state.data.ranks.size(), 1u);
  EXPECT_EQ(state.rss_bytes, std::vector<std::uint64_t>{4096});
  EXPECT_EQ(state.data.paths.size(), 2u) << "the root and where it is now";
  ASSERT_EQ(state.times.size(), 1u);
  EXPECT_EQ(state.times[0].wall_ns, 1000 * kMs);
  EXPECT_EQ(state.data.threads[0].last_path, state.times[0].path);
  const Result<shard::LiveState> read = shard::decode_live(shard::encode_live(state));
  EXPECT_TRUE(read) << read.error().message;
}

}  // namespace
}  // namespace clusterprof::collector
