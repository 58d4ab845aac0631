// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/path_times.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::int64_t kBinStart_utc =
    1'700'000'000'000'000'000;  // at the beginning of a bin of up to 2^9 ms

class PathTimesTest : public testing::Test {
 protected:
  PathTimesTest() { times_.grid().begin(kStart, kBinStart_utc); }
  std::uint32_t path(std::uint32_t parent, std::uint32_t frame) {
    return store_.node(parent, store_.frame({RawKind::kNativeExact, 0, frame}));
  }
  static Stretch ms(std::uint64_t begin, std::uint64_t end) {
    return {kStart + begin * kMs, kStart + end * kMs};
  }
  using Table = std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t>;
  Table table(std::span<const PathTime> open = {}) {
    Table found;
    for (const PathTimes::Cell& cell : times_.cells(open).cells) found[{cell.path, cell.bin}] += cell.wall_ns;
    return found;
  }
  RawStore store_;
  PathTimes times_{store_};
};

TEST_F(PathTimesTest, ALongStretchIsSpreadOverItsBins) {
  const std::uint32_t f = path(0, 1), g = path(0, 2);
  times_.spend(f, ms(0, 30), 30 * kMs);
  times_.spend(g, ms(30, 60), 15 * kMs);  // half of it
  times_.spend(g, ms(60, 61), 0);
  EXPECT_EQ(times_.cells({}).axis, (shard::TimeAxis{kMs, kBinStart_utc}));
  Table expected;
  for (std::uint32_t bin = 0; bin < 30; ++bin) expected[{f, bin}] = kMs;
  for (std::uint32_t bin = 30; bin < 60; ++bin) expected[{g, bin}] = kMs / 2;
  EXPECT_EQ(table(), expected);
}

TEST_F(PathTimesTest, BinsGetWiderWithTheRun) {
  const std::uint32_t f = path(0, 1), g = path(f, 2);
  times_.spend(f, ms(0, 64), 64 * kMs);
  EXPECT_EQ(table().size(), 64u);
  times_.spend(g, ms(64, 512), 448 * kMs);
  EXPECT_EQ(times_.cells({}).axis, (shard::TimeAxis{8 * kMs, kBinStart_utc}));
  Table expected;
  for (std::uint32_t bin = 0; bin < 8; ++bin) expected[{f, bin}] = 8 * kMs;
  for (std::uint32_t bin = 8; bin < 64; ++bin) expected[{g, bin}] = 8 * kMs;
  EXPECT_EQ(table(), expected);
}

TEST_F(PathTimesTest, OpenStretchesAreShownButNotKept) {
  const std::uint32_t f = path(0, 1);
  times_.spend(f, ms(0, 2), 2 * kMs);
  const PathTime open[] = {{f, ms(1, 3), kMs}, {path(0, 2), ms(0, 1), 5}};
  EXPECT_EQ(table(open), (Table{{{f, 0}, kMs}, {{f, 1}, kMs + kMs / 2}, {{f, 2}, kMs / 2}, {{2, 0}, 5}}));
  EXPECT_EQ(table(), (Table{{{f, 0}, kMs}, {{f, 1}, kMs}}));
  // It makes bins wider, as everything else does.
  const PathTime late[] = {{f, ms(3, 6400), kMs}};
  EXPECT_EQ(times_.cells(late).axis.bin_ns, 128 * kMs);
}

TEST_F(PathTimesTest, HasNoRowsWithoutTime) {
  PathTimes never(store_);
  never.spend(path(0, 1), ms(0, 10), 10);
  EXPECT_EQ(never.cells({}).axis.bin_ns, 0u);
  EXPECT_TRUE(never.cells({}).cells.empty());
}

TEST_F(PathTimesTest, LimitsRowsAndKeepsSumsExact) {
  // Two functions that have half of all time, the first in the first half of the run, and any number of small
  // ones below a third one.
  const std::uint32_t f = path(0, 1), g = path(0, 2), small = path(0, 3);
  std::mt19937_64 random(5);
  std::uint64_t small_ns = 0, large_ns = 0;
  constexpr std::uint32_t kPaths = 60'000;
  for (std::uint32_t i = 0; i < kPaths; ++i) {
    times_.spend(i < kPaths / 2 ? f : g, ms(i, i + 1), kMs);
    large_ns += kMs;
    const std::uint64_t ns = 1 + random() % kMs;
    times_.spend(path(small, 10 + i), ms(i, i + 1), ns);
    small_ns += ns;
    ASSERT_LE(times_.rows(), PathTimes::kMaxRows);
  }
  const PathTimes::Cells cells = times_.cells({});
  std::uint64_t of_large = 0, of_small = 0;
  for (const PathTimes::Cell& cell : cells.cells) {
    ASSERT_LT(cell.path, store_.tables().nodes.size());
    ASSERT_LT(cell.bin, shard::kMaxPathBins);
    (cell.path == f || cell.path == g ? of_large : of_small) += cell.wall_ns;
    const std::uint64_t half = kPaths / 2 * kMs / cells.axis.bin_ns;
    if (cell.path == f) {
      EXPECT_LE(cell.bin, half + 1);
    }
    if (cell.path == g) {
      EXPECT_GE(cell.bin, half);
    }
    EXPECT_NE(cell.path, 0u);  // what was given up is below the function
  }
  EXPECT_EQ(of_large, large_ns);
  EXPECT_EQ(of_small, small_ns);
}

}  // namespace
}  // namespace clusterprof::collector
