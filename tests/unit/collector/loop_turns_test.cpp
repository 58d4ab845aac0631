// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/loop_turns.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "collector/process/thread_loops.hpp"
#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

std::uint64_t of(const std::vector<TurnPart>& parts, std::uint32_t path) {
  for (const TurnPart& part : parts)
    if (part.path == path) return part.ns;
  return 0;
}

std::uint64_t sum(const std::vector<TurnPart>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0},
                         [](std::uint64_t ns, const TurnPart& part) { return ns + part.ns; });
}

TEST(TurnSamples, ChargesCpuTimeToTheSampleAndWaitingToWhereTheThreadWaited) {
  TurnSamples samples;
  samples.add(90 * kMs, 10 * kMs, false, 9);   // before the turn
  samples.add(120 * kMs, 30 * kMs, false, 1);  // 100 to 120: path 1
  samples.add(140 * kMs, 40 * kMs, true, 2);   // to 140: path 2, where it is blocked
  samples.add(440 * kMs, 60 * kMs, false, 3);  // of 300 ms it ran for 20, which are path 3's
  samples.add(460 * kMs, 80 * kMs, false, 3);
  samples.add(600 * kMs, 200 * kMs, false, 9);  // behind it
  const auto parts = samples.divide(100 * kMs, 500 * kMs);
  EXPECT_EQ(sum(parts), 400 * kMs);
  EXPECT_EQ(of(parts, 1), 20 * kMs);
  EXPECT_EQ(of(parts, 2), (20 + 280) * kMs);
  EXPECT_EQ(of(parts, 3), (20 + 20 + 40) * kMs);
  EXPECT_EQ(of(parts, 9), 0u);
  EXPECT_EQ(parts.front().path, 2u);
}

TEST(TurnSamples, OfATurnWithoutSamplesNothingIsKnown) {
  TurnSamples samples;
  samples.add(90 * kMs, 0, false, 9);
  EXPECT_EQ(samples.divide(100 * kMs, 170 * kMs), (std::vector<TurnPart>{{0, 70 * kMs}}));
}

TEST(TurnSamples, WhatIsForgottenIsDividedAsTheRest) {
  TurnSamples samples;
  for (std::uint64_t i = 1; i <= 2 * TurnSamples::kMost; ++i)
    samples.add(i * kMs, i * kMs, false, i <= TurnSamples::kMost ? 1 : i % 4 == 3 ? 3 : 2);
  const auto parts = samples.divide(0, 2 * TurnSamples::kMost * kMs);
  EXPECT_EQ(sum(parts), 2 * TurnSamples::kMost * kMs);
  EXPECT_EQ(of(parts, 1), 0u);
  EXPECT_NEAR(static_cast<double>(of(parts, 2)), 3.0 / 4 * static_cast<double>(sum(parts)), 4e6);
}

TEST(LoopTurns, SmallPartsCountForTheirCallers) {
  // 1 and 2 below 10, 3 below 11; 10 and 11 below 12, which is below the root.
  const auto parent = [](std::uint32_t path) -> std::uint32_t {
    return path == 1 || path == 2 ? 10u : path == 3 ? 11u : path == 10 || path == 11 ? 12u : 0u;
  };
  std::vector<TurnPart> parts = {{3, 50}, {1, 30}, {2, 25}};
  limit_parts(parts, 2, parent);
  EXPECT_EQ(sum(parts), 105u);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0], (TurnPart{10, 55}));
  limit_parts(parts, 1, parent);
  EXPECT_EQ(sum(parts), 105u);
  ASSERT_EQ(parts.size(), 1u);
  std::vector<TurnPart> unknown = {{5, 7}, {0, 3}};
  limit_parts(unknown, 1, parent);
  EXPECT_EQ(unknown, (std::vector<TurnPart>{{0, 10}}));
}

TEST(LoopTurns, KeepsTheLongest) {
  LongestTurns longest;
  for (std::uint64_t i = 0; i < 3 * LongestTurns::kMost; ++i) {
    RawTurn turn;
    turn.begin_ns = i;
    turn.length_ns = 1 + i * 7919 % (3 * LongestTurns::kMost);  // a permutation
    longest.add(std::move(turn));
  }
  ASSERT_EQ(longest.turns().size(), LongestTurns::kMost);
  for (const RawTurn& turn : longest.turns()) EXPECT_GT(turn.length_ns, 2 * LongestTurns::kMost);
}

// A thread's slot as its agent writes it.
class Loops : public testing::Test {
 protected:
  Loops() {
    loop().descriptor = 6;
    loop().turns = 40;
    loop().busy_ns = 500 * kMs;
    loop().idle_ns = 700 * kMs;
  }
  wire::EventLoop& loop() { return slot_->event_loops.loops[1]; }
  void blocked(std::uint64_t begin_ms, std::uint64_t end_ms, wire::Awaited awaited) {
    wire::ThreadLoops& all = slot_->event_loops;
    wire::BlockedTurn& turn = all.blocked[all.blocked_turns % wire::kBlockedTurns];
    turn.begin_ns = begin_ms * kMs;
    turn.end_ns = end_ms * kMs;
    turn.descriptor = 6;
    turn.awaited = static_cast<std::uint32_t>(awaited);
    ++all.blocked_turns;
    ++loop().blocked;
    loop().blocked_ns += (end_ms - begin_ms) * kMs;
    if ((end_ms - begin_ms) * kMs > loop().longest_ns) {
      loop().longest_ns = (end_ms - begin_ms) * kMs;
      loop().longest_began_ns = begin_ms * kMs;
    }
  }
  void look(std::uint64_t now_ms, bool last = false) {
    slot_->event_loops.loops[0].descriptor = 5;  // the first place is taken first
    loops_.look(*slot_);
    loops_.charge(*slot_, now_ms * kMs, last, tables_, drops_);
  }
  std::vector<RawLoop> report(std::uint64_t now_ms) {
    return loops_.report(*slot_, 0, now_ms * kMs, tables_,
                         [](std::uint64_t ns) { return static_cast<std::int64_t>(ns) + 1'000'000'000'000; });
  }
  std::unique_ptr<wire::ThreadSlot> slot_ = std::make_unique<wire::ThreadSlot>();
  RawTables tables_;
  DropCounts drops_;
  ThreadLoops loops_;
};

TEST_F(Loops, ATurnIsChargedOnceAndSaysWhetherItWasAwaited) {
  EXPECT_FALSE(loops_.has_loops());
  look(90);
  EXPECT_TRUE(loops_.has_loops());
  loops_.sample(150 * kMs, 0, true, false, 0);
  blocked(100, 300, wire::Awaited::kYes);
  blocked(310, 400, wire::Awaited::kNo);
  look(1200);
  look(1200);
  const auto all = report(1200);
  ASSERT_EQ(all.size(), 1u) << "a loop of few turns is none";
  EXPECT_EQ(all[0].number, 1u);
  EXPECT_EQ(all[0].turns, 40u);
  EXPECT_EQ(all[0].blocked, 2u);
  EXPECT_EQ(all[0].blocked_ns, 290 * kMs);
  EXPECT_EQ(all[0].longest_utc_ns, 1'000'100'000'000);
  ASSERT_EQ(all[0].longest.size(), 2u);
  EXPECT_EQ(all[0].longest[0].turn.length_ns, 200 * kMs);
  EXPECT_TRUE(all[0].longest[0].turn.awaited);
  EXPECT_FALSE(all[0].longest[1].turn.awaited);
}

TEST_F(Loops, ATurnWaitsUntilItIsKnownWhetherSomethingWasReady) {
  blocked(100, 300, wire::Awaited::kNotKnown);
  look(301);
  EXPECT_TRUE(report(301)[0].longest.empty());
  slot_->event_loops.blocked[0].awaited = static_cast<std::uint32_t>(wire::Awaited::kYes);
  look(302);
  ASSERT_EQ(report(302)[0].longest.size(), 1u);
  EXPECT_TRUE(report(302)[0].longest[0].turn.awaited);
  // Nothing was, if the wait goes on.
  blocked(400, 500, wire::Awaited::kNotKnown);
  look(503);
  ASSERT_EQ(report(503)[0].longest.size(), 2u);
  EXPECT_FALSE(report(503)[0].longest[1].turn.awaited);
}

TEST_F(Loops, CountsTurnsThatWereNotFetchedInTimeAndThoseThatCannotBe) {
  for (std::uint64_t i = 0; i < wire::kBlockedTurns + 9; ++i)
    blocked(100 * i, 100 * i + 60, wire::Awaited::kNo);
  look(100'000);
  EXPECT_GE(drops_.counts().at("event_loop_turns"), 9u);
  EXPECT_EQ(drops_.counts().at("event_loop_turns") + report(100'000)[0].longest.size(),
            wire::kBlockedTurns + 9);
  blocked(200'000, 100, wire::Awaited::kNo);
  look(300'000);
  EXPECT_EQ(drops_.counts().at("damaged_event_loop"), 1u);
}

TEST_F(Loops, WhatIsUnderWayCounts) {
  look(1);
  loop().wait_began_ns = 1250 * kMs;
  EXPECT_EQ(report(1300)[0].idle_ns, 750 * kMs);
  loop().wait_began_ns = 0;
  loop().turn_began_ns = 1270 * kMs;
  EXPECT_EQ(report(1300)[0].blocked, 0u) << "it is not blocked yet";
  const auto all = report(2000);
  EXPECT_EQ(all[0].blocked, 1u);
  EXPECT_EQ(all[0].busy_ns, (500 + 730) * kMs);
  ASSERT_EQ(all[0].longest.size(), 1u);
  EXPECT_TRUE(all[0].longest[0].turn.open);
  EXPECT_EQ(all[0].longest_ns, 730 * kMs);
}

TEST(TurnLengths, AreCountedBelowTheirBound) {
  EXPECT_EQ(wire::turn_bin(0), 0u);
  EXPECT_EQ(wire::turn_bin(99'999), 0u);
  EXPECT_EQ(wire::turn_bin(100'000), 1u);
  EXPECT_EQ(wire::turn_bin(wire::kBlockedTurnNs - 1), 3u);
  EXPECT_EQ(wire::turn_bin(wire::kBlockedTurnNs), 4u) << "a bin begins with blocked turns";
  EXPECT_EQ(wire::turn_bin(20'000'000'000), wire::kTurnBins - 1);
}

}  // namespace
}  // namespace clusterprof::collector
