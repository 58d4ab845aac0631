// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/sequences.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "formats/wire/mpi_event.h"

namespace clusterprof::mpi_wrap {
namespace {

constexpr std::int32_t kLargest = std::numeric_limits<std::int32_t>::max();

TEST(SequenceTable, AgreesWithStdMapWhileItGrows) {
  SequenceTable table{};
  std::map<std::tuple<std::int32_t, std::int32_t, Direction>, std::uint32_t> expected;
  std::mt19937 random(3);
  for (std::uint32_t step = 0; step < 200'000; ++step) {
    const auto peer = static_cast<std::int32_t>(random() % 300),
               tag = static_cast<std::int32_t>(random() % 20);
    const auto direction = static_cast<Direction>(random() % 2);
    std::uint32_t* const next = table.next(peer, tag, direction);
    ASSERT_NE(next, nullptr);
    ASSERT_EQ((*next)++, (expected[{peer, tag, direction}]++));
    ASSERT_EQ(table.size(), expected.size());
  }
  EXPECT_EQ(expected.size(), 300u * 20 * 2);
  table.clear();
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(*table.next(1, 1, Direction::kSent), 0u);
}

TEST(SequenceTable, TellsTheLimitsOfRanksAndTagsApart) {
  SequenceTable table{};
  std::uint32_t count = 0;
  for (const std::int32_t peer : {0, 1, kLargest - 1, kLargest}) {
    for (const std::int32_t tag : {0, 1, kLargest - 1, kLargest, wire::kTagWinPost, wire::kTagWinComplete}) {
      for (const Direction direction : {Direction::kSent, Direction::kReceived}) {
        std::uint32_t* const next = table.next(peer, tag, direction);
        ASSERT_EQ(*next, 0u) << peer << ' ' << tag;
        *next = ++count;
      }
    }
  }
  EXPECT_EQ(table.size(), count);
}

// A program that never uses a tag twice does not fill the memory.
TEST(SequenceTable, StopsGrowing) {
  SequenceTable table{};
  for (std::uint32_t tag = 0; tag < SequenceTable::kMost; ++tag) {
    std::uint32_t* const next = table.next(3, static_cast<std::int32_t>(tag), Direction::kSent);
    ASSERT_NE(next, nullptr) << tag;
    *next = tag;
  }
  EXPECT_EQ(table.next(3, SequenceTable::kMost, Direction::kSent), nullptr);
  EXPECT_EQ(table.next(3, 7, Direction::kReceived), nullptr);
  EXPECT_EQ(table.size(), SequenceTable::kMost);
  EXPECT_EQ(*table.next(3, 7, Direction::kSent), 7u);
  table.clear();
  EXPECT_EQ(*table.next(3, SequenceTable::kMost, Direction::kSent), 0u);
}

TEST(SequenceTable, FewKeysNeedNoMemoryOfTheirOwn) {
  SequenceTable table{};
  for (std::int32_t tag = 0; tag < 8; ++tag) *table.next(3, tag, Direction::kSent) = 7;
  SequenceTable same;  // bytes alone are all there is
  std::memcpy(static_cast<void*>(&same), &table, sizeof table);
  EXPECT_EQ(*same.next(3, 5, Direction::kSent), 7u);
}

// Both sides decide by the number alone; a level keeps half of what the one before kept, in runs of 32.
TEST(EventSelection, HalvesWithEachLevelAndKeepsRuns) {
  constexpr std::uint32_t kNumbers = 1u << 22;
  double before = kNumbers;
  for (std::uint32_t level = 0; level <= 8; ++level) {
    std::uint32_t kept = 0;
    for (std::uint32_t number = 0; number < kNumbers; ++number) {
      const bool selected = wire::event_is_selected(number, level);
      if (selected) ++kept;
      ASSERT_EQ(selected, wire::event_is_selected(number / 32 * 32, level));
      ASSERT_TRUE(!selected || level == 0 || wire::event_is_selected(number, level - 1));
    }
    if (level == 0) {
      EXPECT_EQ(kept, kNumbers);
    } else {
      EXPECT_NEAR(kept / before, 0.5, 0.1) << "level " << level;
    }
    before = kept;
  }
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
