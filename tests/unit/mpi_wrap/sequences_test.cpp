// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/sequences.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

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

TEST(SequenceTable, DistinguishesTheLargestRanksAndTags) {
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

constexpr std::uint64_t kWorld = 1;

std::uint64_t messages(std::uint64_t channel, std::int32_t rank, std::int32_t peer, std::int32_t tag) {
  return wire::event_stream(wire::MpiEventKind::kSend, channel, rank, peer, tag);
}

// A level keeps half of what the one before kept, in runs of 32.
TEST(EventSelection, HalvesWithEachLevelAndKeepsRuns) {
  constexpr std::uint32_t kNumbers = 1u << 22;
  const std::uint64_t stream = messages(kWorld, 3, 4, 0);
  double before = kNumbers;
  for (std::uint32_t level = 0; level <= 8; ++level) {
    std::uint32_t kept = 0;
    for (std::uint32_t number = 0; number < kNumbers; ++number) {
      const bool selected = wire::event_is_selected(stream, number, level);
      if (selected) ++kept;
      ASSERT_EQ(selected, wire::event_is_selected(stream, number / 32 * 32, level));
      ASSERT_TRUE(!selected || level == 0 || wire::event_is_selected(stream, number, level - 1));
    }
    if (level == 0) {
      EXPECT_EQ(kept, kNumbers);
    } else {
      EXPECT_NEAR(kept / before, 0.5, 0.1) << "level " << level;
    }
    before = kept;
  }
}

TEST(EventSelection, IsTheSameOnBothSidesAndForAllMembers) {
  using enum wire::MpiEventKind;
  for (const std::int32_t tag : {0, 63, 64, kLargest, wire::kTagWinPost, wire::kTagWinComplete}) {
    const std::uint64_t sent = wire::event_stream(kSend, 77, 5, 12, tag);
    EXPECT_EQ(wire::event_stream(kSendDone, 77, 5, 12, tag), sent);
    EXPECT_EQ(wire::event_stream(kReceive, 77, 12, 5, tag), sent);
    EXPECT_EQ(wire::event_stream(kProbe, 77, 12, 5, tag), sent);
    EXPECT_NE(messages(77, 5, 13, tag), sent);
    EXPECT_NE(messages(78, 5, 12, tag), sent);
  }
  // Ranks and their numbers in the communicator; the root is known to all, but not needed.
  const std::uint64_t member = wire::event_stream(kCollective, 77, 5, -1, 0);
  EXPECT_EQ(wire::event_stream(kCollectiveStart, 77, 900, 3, 640), member);
  EXPECT_EQ(wire::event_stream(kCollectiveDone, 77, 12, 3, 6400), member);
}

// Each start of each request has a name of its own, which no other message has.
TEST(PartitionedName, TellsAllMessagesOfTwoRanksApart) {
  constexpr std::uint32_t kStarts = 5;
  std::set<std::pair<std::int32_t, std::uint32_t>> seen;
  std::size_t count = 0;
  const auto add = [&](std::int32_t tag, std::uint32_t number) {
    const wire::PartitionedName name = wire::partitioned_name(tag, number);
    EXPECT_LT(name.tag, wire::kTagWinComplete);
    for (std::uint32_t start = 0; start < kStarts; ++start) seen.emplace(name.tag, name.first ^ start);
    count += kStarts;
  };
  for (const std::int32_t tag : {0, 1, 63, 64, 65'535, 65'536, 1 << 20, kLargest})
    for (std::uint32_t number = 0; number < 20'000; ++number) add(tag, number);
  EXPECT_EQ(seen.size(), count);
}

// Then they are selected like others: runs of 32 starts, the same of all requests.
TEST(PartitionedName, NumbersTheStartsOfFewRequestsFromZero) {
  for (const std::int32_t tag : {0, 65'535})
    for (const std::uint32_t number : {0u, 1u, 0x3ffeu})
      EXPECT_EQ(wire::partitioned_name(tag, number).first, 0u);
}

// All but the first runs.
TEST(EventSelection, SelectsTheSameRunsOfAllLongStreams) {
  const std::uint64_t streams[] = {wire::event_stream(wire::MpiEventKind::kCollective, kWorld, 0, -1, 0),
                                   messages(kWorld, 0, 1, 0), messages(kWorld, 8000, 12, 1 << 20),
                                   messages(0x1234'5678'9abc'def0u, 7, 6, 4)};
  for (const std::uint32_t level : {1u, 2u, 5u, 10u})
    for (std::uint32_t number = 32; number < 1u << 17; number += 32)
      for (const std::uint64_t stream : streams)
        ASSERT_EQ(wire::event_is_selected(stream, number, level),
                  wire::event_is_selected(streams[0], number, level));
}

// A program all of whose streams are short keeps its share of them, whatever tells them apart.
TEST(EventSelection, KeepsSomeShortStreamsAsAWhole) {
  constexpr std::uint32_t kStreams = 1000, kMessages = 20;
  const struct {
    const char* what;
    std::uint64_t (*stream)(std::int32_t i);
  } programs[] = {
      {"channels", [](std::int32_t i) { return messages(100 + static_cast<std::uint64_t>(i), 3, 4, 0); }},
      {"tags", [](std::int32_t i) { return messages(kWorld, 3, 4, 64 * i); }},
      {"channels and tags",
       [](std::int32_t i) { return messages(static_cast<std::uint64_t>(i) / 50 + 9, 3, 4, 64 * (i % 50)); }},
      {"workers of rank 0", [](std::int32_t i) { return messages(kWorld, 0, i + 1, 7); }},
      {"pairs", [](std::int32_t i) { return messages(kWorld, i / 32, 40 + i % 32, 7); }},
      {"collective operations",
       [](std::int32_t i) {
         return wire::event_stream(wire::MpiEventKind::kCollective, 100 + static_cast<std::uint64_t>(i), 0,
                                   -1, 0);
       }},
  };
  for (const auto& program : programs) {
    for (const std::uint32_t level : {1u, 2u, 4u}) {
      std::uint32_t kept = 0;
      for (std::uint32_t i = 0; i < kStreams; ++i)
        for (std::uint32_t number = 0; number < kMessages; ++number)
          kept +=
              wire::event_is_selected(program.stream(static_cast<std::int32_t>(i)), number, level) ? 1 : 0;
      const double share = 1.0 / (1u << level);
      const double deviation = std::sqrt(share * (1 - share) / kStreams);
      EXPECT_NEAR(kept / double{kStreams * kMessages}, share, 3.5 * deviation)
          << program.what << ", level " << level;
    }
  }
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
