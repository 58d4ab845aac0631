// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "aggregator/waits/clock_model.hpp"
#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::aggregator::test {
namespace {

using waits::ClockPair;

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(ClockPairTest, FitsALineBetweenTheBounds) {
  std::mt19937_64 random(5);
  std::uniform_int_distribution<std::int64_t> when(0, 100 * kSecond), delay(2'000, 400'000);
  const auto ahead = [](std::int64_t ns) {
    return 5'000'000'000'000 + std::llround(75e-6 * static_cast<double>(ns));
  };
  ClockPair pair(0, 100 * kSecond);
  for (int i = 0; i < 50'000; ++i) {
    std::int64_t at = when(random);
    pair.at_least(at, ahead(at) - delay(random));
    at = when(random);
    pair.at_most(at, ahead(at) + delay(random));
  }
  ASSERT_TRUE(pair.fit());
  EXPECT_LT(pair.error_ns(), 6'000);
  for (std::int64_t at = 0; at <= 100 * kSecond; at += kSecond) {
    EXPECT_LE(std::abs(pair.ahead_ns(at) - ahead(at)), pair.error_ns()) << at;
    EXPECT_LE(std::abs(pair.local_ns(at + pair.ahead_ns(at)) - at), 2);
  }
}

TEST(ClockPairTest, InterpolatesTwoMeasurements) {
  ClockPair pair(0, 100 * kSecond);
  for (const auto& [at, ahead] : {std::pair{std::int64_t{0}, 1000}, std::pair{100 * kSecond, 5'001'000}}) {
    pair.at_least(at, ahead - 300);
    pair.at_most(at, ahead + 300);
  }
  ASSERT_TRUE(pair.fit());
  EXPECT_NEAR(static_cast<double>(pair.ahead_ns(50 * kSecond)), 2'501'000, 2);
  EXPECT_NEAR(static_cast<double>(pair.error_ns()), 300, 2);
}

TEST(ClockPairTest, ErrorGrowsWithTheDistanceFromASingleMeasurement) {
  ClockPair pair(0, 100 * kSecond);
  pair.at_least(0, 900);
  pair.at_most(0, 1100);
  ASSERT_TRUE(pair.fit());
  EXPECT_GT(pair.error_ns(), 10'000'000);
}

TEST(ClockPairTest, BoundsOnOneSideGiveNoLine) {
  ClockPair pair(0, kSecond);
  pair.at_least(0, 0);
  pair.at_least(kSecond, 0);
  EXPECT_FALSE(pair.fit());
}

// A clock that is being steered changes its speed now and then, so a single line does not fit.
TEST(ClockPairTest, FitsSeveralLinesToAClockThatChangesItsSpeed) {
  std::mt19937_64 random(6);
  std::uniform_int_distribution<std::int64_t> when(0, 1000 * kSecond), delay(1'000, 50'000);
  const auto ahead = [](std::int64_t ns) {
    const double s = static_cast<double>(ns) / 1e9;
    return std::llround(1e6 + (s < 400 ? 30e3 * s : 30e3 * 400 - 20e3 * (s - 400)));
  };
  ClockPair pair(0, 1000 * kSecond);
  for (int i = 0; i < 100'000; ++i) {
    std::int64_t at = when(random);
    pair.at_least(at, ahead(at) - delay(random));
    at = when(random);
    pair.at_most(at, ahead(at) + delay(random));
  }
  ASSERT_TRUE(pair.fit());
  double worst = 0;
  for (std::int64_t at = 0; at <= 1000 * kSecond; at += kSecond)
    worst = std::max(worst, std::abs(static_cast<double>(pair.ahead_ns(at) - ahead(at))));
  EXPECT_LT(worst, 200'000) << "one line is millions of ns off";
}

// Rank 1, on another node, waits 20 ms for rank 0 in each of many rounds.
MadeRun rounds_on_two_nodes() {
  MadeRun run(2, 1);
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::int64_t begin = i * 100 * kMs;
    run.send(0, 1, begin + 40 * kMs, begin + 40 * kMs + 3'000, 2 * i);
    run.receive(1, 0, begin + 20 * kMs, begin + 40 * kMs + 4'000, 2 * i);
    run.send(1, 0, begin + 60 * kMs, begin + 60 * kMs + 1'000, 2 * i);
    run.receive(0, 1, begin + 60 * kMs + 2'000, begin + 60 * kMs + 5'000, 2 * i);
  }
  return run;
}

TEST(ClockModelTest, CorrectsShiftAndDriftWithoutMeasurements) {
  MadeRun run = rounds_on_two_nodes();
  run.clocks = {{0, 0}, {-3'000'000'000'000, 100e-6}};
  const shard::ShardData data = run.analyse();
  EXPECT_LT(data.wait_analysis.clock_error_ns, 10'000u);
  EXPECT_GT(data.wait_analysis.clock_error_ns, 500u) << "messages of 4 us cannot tell better";
  EXPECT_EQ(data.wait_analysis.clock_violations, 0u);
  EXPECT_NEAR(static_cast<double>(data.ranks[1].mpi_wait_ns), 2000e6, 100 * 5'000);
  EXPECT_EQ(data.ranks[0].mpi_wait_ns, 0u);
}

TEST(ClockModelTest, CorrectsShiftAndDriftWithMeasurements) {
  MadeRun run = rounds_on_two_nodes();
  run.clocks = {{0, 0}, {-3'000'000'000'000, 100e-6}};
  run.measure_clock(1, 0, 0, 150, 400);
  run.measure_clock(1, 0, 9'900 * kMs, -150, 400);
  const shard::ShardData data = run.analyse();
  EXPECT_LE(data.wait_analysis.clock_error_ns, 700u);
  EXPECT_EQ(data.wait_analysis.clock_violations, 0u);
  EXPECT_NEAR(static_cast<double>(data.ranks[1].mpi_wait_ns), 2000e6, 100 * 500);
}

TEST(ClockModelTest, ComparesNodesThroughAnotherNode) {
  MadeRun run(3, 1);
  run.clocks = {{0, 0}, {1'000'000'000, 50e-6}, {-500'000'000, -60e-6}};
  for (const std::int64_t at : {std::int64_t{0}, 1'000 * kMs}) {
    run.measure_clock(1, 0, at, 100, 200);
    run.measure_clock(2, 1, at, -100, 300);
  }
  // Nothing else bounds the clock of node 2.
  run.collective(0, "MPI_Alltoallw", 0, 1'000 * kMs, 0);
  run.collective(1, "MPI_Alltoallw", 600 * kMs, 1'000 * kMs, 0);
  run.collective(2, "MPI_Alltoallw", 700 * kMs, 1'000 * kMs, 0);
  const shard::ShardData data = run.analyse();
  EXPECT_NEAR(static_cast<double>(data.ranks[0].mpi_wait_ns), 700e6, 600);
  EXPECT_NEAR(static_cast<double>(data.ranks[1].mpi_wait_ns), 100e6, 900);
  EXPECT_EQ(data.ranks[2].mpi_wait_ns, 0u);
  EXPECT_NEAR(static_cast<double>(data.wait_analysis.clock_error_ns), 200 + 500, 10);
}

TEST(ClockModelTest, LeavesOutWaitsBetweenNodesBelowTheClockError) {
  MadeRun run(4, 2);
  run.measure_clock(2, 0, 0, 0, 500'000);
  run.measure_clock(2, 0, 1'000 * kMs, 0, 500'000);
  for (std::int32_t r = 0; r < 4; ++r)
    run.add(r, {MpiEventKind::kCollective, "MPI_Alltoallv", "MPI_Alltoallv", 0, 1, -1, 0, 0});
  run.receive(1, 0, 100 * kMs, 101 * kMs);  // same node
  run.send(0, 1, 100 * kMs + 300'000, 100 * kMs + 310'000);
  run.receive(2, 0, 100 * kMs, 101 * kMs);  // other node: below the error
  run.send(0, 2, 100 * kMs + 400'000, 100 * kMs + 410'000);
  run.receive(3, 0, 200 * kMs, 210 * kMs);
  run.send(0, 3, 205 * kMs, 205 * kMs + 10'000);
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(data.ranks[1].mpi_wait_ns, 300'000u);
  EXPECT_EQ(data.ranks[2].mpi_wait_ns, 0u);
  EXPECT_NEAR(static_cast<double>(data.ranks[3].mpi_wait_ns), 5e6, 5e5);
  EXPECT_NEAR(static_cast<double>(data.wait_analysis.clock_error_ns), 500e3, 10e3);
}

TEST(ClockModelTest, NotesClocksThatCannotBeCompared) {
  MadeRun run(2, 1);
  run.clocks = {{0, 0}, {77 * kSecond, 0}};
  run.send(0, 1, 30 * kMs, 31 * kMs);
  run.receive(1, 0, 0, 31 * kMs);
  const shard::ShardData data = run.analyse();
  EXPECT_TRUE(data.wait_states.empty());
  EXPECT_EQ(data.wait_analysis.clock_error_ns, shard::kClocksApart);
  EXPECT_EQ(data.run.notes, std::vector{note_of_run(shard::NoteCode::kClocksApart, 1)});
}

TEST(ClockModelTest, WinStartBeforeWinPostIsNoClockViolation) {
  MadeRun run = rounds_on_two_nodes();
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::int64_t at = (20'000 + 10 * i) * kMs;
    run.add(0, {MpiEventKind::kSend, "MPI_Win_post", "MPI_Win_post", at + 5 * kMs, at + 6 * kMs, 1,
                wire::kTagWinPost, i});
    run.add(1, {MpiEventKind::kReceive, "MPI_Win_start", "MPI_Win_start", at, at + 1'000, 0,
                wire::kTagWinPost, i});
  }
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(data.wait_analysis.clock_violations, 0u);
  EXPECT_LT(data.wait_analysis.clock_error_ns, 30'000u);
}

// A clock that jumps is not a line. Contradictions are counted.
TEST(ClockModelTest, CountsClockViolations) {
  MadeRun run(2, 1);
  run.measure_clock(1, 0, 0, 0, 100);
  run.measure_clock(1, 0, 1'000 * kMs, 0, 100);
  for (std::uint32_t i = 0; i < 10; ++i) {
    run.send(0, 1, (i * 100 + 50) * kMs, (i * 100 + 50) * kMs + 1'000, i);
    const std::int64_t wrong = i == 5 ? 20 * kMs : 0;  // received before it was sent
    run.receive(1, 0, (i * 100 + 40) * kMs - wrong, (i * 100 + 50) * kMs + 2'000 - wrong, i);
  }
  const shard::ShardData data = run.analyse();
  EXPECT_GE(data.wait_analysis.clock_violations, 1u);
  EXPECT_GT(data.wait_analysis.worst_violation_ns, static_cast<std::uint64_t>(5 * kMs));
}

// More measured pairs of nodes than are kept.
TEST(ClockModelTest, CopesWithMoreMeasuredPairsThanAreKept) {
  MadeRun run(24, 1);
  for (std::int32_t r = 0; r < 24; ++r) {
    run.clocks[static_cast<std::size_t>(r)] = {r * 1'000'000, 0};
    run.collective(r, "MPI_Barrier", (10 + r) * kMs, 40 * kMs, 0);
    for (std::int32_t other = 0; other < 24; ++other)
      for (const std::int64_t at : {std::int64_t{0}, 40 * kMs})
        if (other != r) run.measure_clock(r, other, at, 0, 500);
  }
  const shard::ShardData data = run.analyse();
  EXPECT_LT(data.wait_analysis.clock_error_ns, 3'000u);
  EXPECT_NEAR(static_cast<double>(data.ranks[0].mpi_wait_ns), 23e6, 3'000);
}

}  // namespace
}  // namespace clusterprof::aggregator::test
