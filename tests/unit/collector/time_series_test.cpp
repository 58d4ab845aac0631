// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/time_series.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::int64_t kInsideBin_utc = 1'700'000'000'123'456'789;  // not at the beginning of any bin

using Content = std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t>;  // by column and bin
Content content(const TimeGrid& grid, SeriesBlock block) {
  Content found;
  block.for_each(grid, [&](std::uint32_t column, std::uint32_t bin, std::uint64_t value) {
    EXPECT_LT(bin, TimeGrid::kMaxBins);
    EXPECT_TRUE(found.emplace(std::pair(column, bin), value).second);
  });
  return found;
}
std::uint64_t sum(const Content& content) {
  std::uint64_t total = 0;
  for (const auto& [at, value] : content) total += value;
  return total;
}

class TimeSeries : public testing::Test {
 protected:
  TimeSeries() { grid_.begin(kStart, kInsideBin_utc); }
  // How far the first bin had run when the grid began.
  [[nodiscard]] std::uint64_t into_first() const {
    return static_cast<std::uint64_t>(kInsideBin_utc) % grid_.width_ns();
  }
  TimeGrid grid_;
};

TEST_F(TimeSeries, BinsFollowRealTime) {
  grid_.reach(kStart + 3 * kMs);
  EXPECT_EQ(grid_.width_ns(), kMs);
  EXPECT_EQ(grid_.first() * grid_.width_ns(), static_cast<std::uint64_t>(kInsideBin_utc) / kMs * kMs);
  EXPECT_EQ(grid_.last(), grid_.first() + 3);
  grid_.reach(kStart + 5000 * kMs);
  EXPECT_EQ(grid_.width_ns(), 8 * kMs);
  EXPECT_LT(grid_.last() - grid_.first(), 1024u);
  EXPECT_LE(grid_.first() * grid_.width_ns(), static_cast<std::uint64_t>(kInsideBin_utc));
  EXPECT_GT((grid_.first() + 1) * grid_.width_ns(), static_cast<std::uint64_t>(kInsideBin_utc));
}

TEST_F(TimeSeries, AnAmountGoesToTheBinsByOverlap) {
  SeriesBlock block(2);
  block.spread(grid_, 0, kStart, kStart + 100, 100);
  const std::uint64_t first = kMs - into_first();
  block.spread(grid_, 1, kStart, kStart + 3 * kMs, 3 * kMs);
  EXPECT_EQ(content(grid_, block),
            (Content{{{0, 0}, 100}, {{1, 0}, first}, {{1, 1}, kMs}, {{1, 2}, kMs}, {{1, 3}, kMs - first}}));
}

TEST_F(TimeSeries, AmountSmallerThanItsStretchIsSpreadEvenly) {
  SeriesBlock block(1);
  const std::uint64_t first = kMs - into_first();
  block.spread(grid_, 0, kStart + first, kStart + first + 4 * kMs, 4003);
  const Content found = content(grid_, block);
  EXPECT_EQ(sum(found), 4003u);
  for (std::uint32_t bin = 1; bin <= 4; ++bin)
    EXPECT_NEAR(static_cast<double>(found.at({0, bin})), 1000.75, 1.0);
}

TEST_F(TimeSeries, AmountWithoutDurationIsInOneBin) {
  SeriesBlock block(1);
  block.spread(grid_, 0, kStart + 7, kStart + 7, 5);
  block.spread(grid_, 0, kStart + 9, kStart + 2, 6);  // ends before it begins
  EXPECT_EQ(content(grid_, block), (Content{{{0, 0}, 11}}));
}

TEST_F(TimeSeries, AmountsFromBeforeTheStartAreInTheFirstBin) {
  SeriesBlock block(1);
  block.spread(grid_, 0, 0, kStart - 10, 5);
  block.spread(grid_, 0, 0, kStart + 10, 7);
  block.level(grid_, 0, 0, kStart, 1);
  EXPECT_EQ(content(grid_, block), (Content{{{0, 0}, 12}}));
  EXPECT_EQ(grid_.width_ns(), kMs);
}

TEST_F(TimeSeries, NothingIsLostWhenBinsDouble) {
  SeriesBlock block(1), early(1);
  early.spread(grid_, 0, kStart, kStart + 10 * kMs, 10 * kMs);
  std::uint64_t time = kStart;
  std::mt19937_64 random(3);
  while (time < kStart + 3'000'000 * kMs) {
    const std::uint64_t next = time + 1 + random() % (500 * kMs);
    block.spread(grid_, 0, time, next, next - time);
    time = next;
  }
  EXPECT_EQ(sum(content(grid_, block)), time - kStart);
  EXPECT_LE(block.bytes(), 2u * 1024 * 8);
  const Content found = content(grid_, block);
  EXPECT_GT(found.size(), 512u);
  // All time: bins are full but for the first and the last one.
  const std::uint32_t last = found.rbegin()->first.second;
  for (const auto& [at, value] : found) {
    if (at.second != 0 && at.second != last) {
      EXPECT_EQ(value, grid_.width_ns());
    }
  }
  // One that was not touched since follows when it is read.
  EXPECT_EQ(content(grid_, early), (Content{{{0, 0}, 10 * kMs}}));
}

TEST_F(TimeSeries, LevelsKeepTheirMaximum) {
  SeriesBlock block(2, 1u << 1);
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const std::uint64_t at = kStart + i * kMs;
    block.level(grid_, 1, at, at + kMs, 100 + i);
    block.spread(grid_, 0, at, at + kMs, 1);
  }
  const Content found = content(grid_, block);
  std::uint64_t amounts = 0, highest = 0;
  for (const auto& [at, value] : found) {
    if (at.first == 0) amounts += value;
    if (at.first == 1) {
      EXPECT_GT(value, highest);
      highest = value;
    }
  }
  EXPECT_EQ(amounts, 4096u);
  EXPECT_EQ(highest, 100u + 4095u);
}

TEST_F(TimeSeries, ALevelFillsTheBinsItHeldIn) {
  SeriesBlock block(1, 1);
  const std::uint64_t first = kMs - into_first();
  block.level(grid_, 0, kStart + first, kStart + first + 3 * kMs, 9);
  block.level(grid_, 0, kStart + first + kMs, kStart + first + 2 * kMs, 4);
  EXPECT_EQ(content(grid_, block), (Content{{{0, 1}, 9}, {{0, 2}, 9}, {{0, 3}, 9}}));
}

TEST_F(TimeSeries, BlocksAddUpInEitherOrder) {
  SeriesBlock a(1), b(2), late(1);
  a.spread(grid_, 0, kStart, kStart + kMs, 3);
  b.spread(grid_, 1, kStart, kStart + 9000 * kMs, 5);
  late.spread(grid_, 0, kStart + 8000 * kMs, kStart + 8000 * kMs, 7);
  SeriesBlock ab = a, ba = b;
  ab.add(b);
  ab.add(late);
  ba.add(late);
  ba.add(a);
  EXPECT_EQ(content(grid_, ab), content(grid_, ba));
  EXPECT_EQ(sum(content(grid_, ab)), 15u);
  SeriesBlock empty;
  empty.add(ab);
  EXPECT_EQ(content(grid_, empty), content(grid_, ab));
}

TEST_F(TimeSeries, ColumnsAreAllocatedOnFirstUse) {
  SeriesBlock block;
  block.spread(grid_, 0, kStart, kStart + 2 * kMs, 2);
  block.spread(grid_, 3, kStart, kStart, 4);
  block.spread(grid_, 3, kStart, kStart, 4);
  block.spread(grid_, 0, kStart, kStart, 1);
  const Content found = content(grid_, block);
  EXPECT_EQ(sum(found), 11u);
  EXPECT_EQ(found.at({3, 0}), 8u);
}

TEST(TimeSeriesGrid, IsEmptyBeforeTheRunBegins) {
  TimeGrid grid;
  SeriesBlock block(1);
  block.spread(grid, 0, 5, 10, 5);
  block.level(grid, 0, 5, 10, 5);
  EXPECT_TRUE(block.empty());
  EXPECT_FALSE(grid.begun());
  grid.begin(kStart, -1);  // clocks that nobody has set
  EXPECT_FALSE(grid.begun());
  grid.begin(kStart, static_cast<std::int64_t>(shard::TimeAxis::kEnd_utc_ns));
  EXPECT_FALSE(grid.begun());
}

TEST(TimeSeriesGrid, LargeJobsHaveFewerBins) {
  const std::pair<std::uint32_t, std::uint64_t> cases[] = {
      {0, 1024}, {1, 1024}, {256, 1024}, {1024, 256}, {100'000, 128}};
  for (const auto& [ranks, most] : cases) {
    TimeGrid grid;
    SeriesBlock block(1);
    grid.begin(kStart, kInsideBin_utc);
    block.spread(grid, 0, kStart, kStart + 1000 * kMs, 1000 * kMs);  // before it is known
    grid.set_ranks(ranks);
    for (std::uint64_t ms = 1000; ms < 5000; ms += 10) {
      block.spread(grid, 0, kStart + ms * kMs, kStart + (ms + 10) * kMs, 10 * kMs);
      ASSERT_LT(grid.last() - grid.first(), most) << ranks;
    }
    EXPECT_GE(grid.last() - grid.first(), most / 2 - 1) << ranks;
    EXPECT_EQ(sum(content(grid, block)), 5000 * kMs) << ranks;
  }
}

TEST(TimeSeriesGrid, MovesBackForAProcessThatStartedALittleEarlier) {
  TimeGrid grid;
  SeriesBlock block(1);
  grid.begin(20'000 * kMs, kInsideBin_utc);
  block.spread(grid, 0, 20'000 * kMs, 20'500 * kMs, 500 * kMs);
  grid.reach_back(19'000 * kMs);
  EXPECT_EQ(grid.width_ns(), 2 * kMs);
  block.spread(grid, 0, 19'000 * kMs, 20'000 * kMs, 1000 * kMs);
  const Content found = content(grid, block);
  EXPECT_EQ(sum(found), 1500 * kMs);
  EXPECT_EQ(found.begin()->first.second, 0u);
  for (const auto& [at, value] : found) EXPECT_LE(value, 2 * kMs);
  grid.reach_back(1);  // nonsense
  EXPECT_EQ(grid.width_ns(), 2 * kMs);
}

// Same bins, so those of one fit into those of the other.
TEST(TimeSeriesGrid, BinsOfNodesWithDifferentStartsAlign) {
  TimeGrid a, b;
  a.begin(kStart, kInsideBin_utc);
  b.begin(77, kInsideBin_utc + 1234567);
  a.reach(kStart + 100'000 * kMs);
  b.reach(77 + 3000 * kMs);
  EXPECT_EQ(a.width_ns() % b.width_ns(), 0u);
  EXPECT_EQ(a.first() * a.width_ns() % a.width_ns(), 0u);
  EXPECT_EQ(b.first() * b.width_ns() % b.width_ns(), 0u);
}

// A pair of amounts over random stretches, against a straightforward account in nanoseconds.
TEST_F(TimeSeries, AgreesWithASimpleReferenceImplementation) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    TimeGrid grid;
    grid.begin(kStart, kInsideBin_utc + static_cast<std::int64_t>(random() % (1000 * kMs)));
    SeriesBlock block(1);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> stretches;
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t begin = kStart + random() % (4000 * kMs), end = begin + random() % (300 * kMs);
      stretches.emplace_back(begin, end);
      block.spread(grid, 0, begin, end, end - begin);
    }
    std::map<std::uint64_t, std::uint64_t> expected;
    for (const auto& [begin, end] : stretches) {
      for (std::uint64_t bin = grid.bin(begin); end > begin && bin <= grid.bin(end - 1); ++bin) {
        const std::uint64_t from = std::max(begin, grid.begin_of(bin)),
                            to = std::min(end, grid.begin_of(bin + 1));
        expected[bin - grid.first()] += to - from;
      }
    }
    const Content found = content(grid, block);
    for (const auto& [bin, value] : expected)
      EXPECT_EQ(found.at({0, static_cast<std::uint32_t>(bin)}), value);
    EXPECT_EQ(found.size(), expected.size());
  }
}

}  // namespace
}  // namespace clusterprof::collector
