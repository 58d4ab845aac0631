// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "aggregator/waits/unfinished.hpp"
#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::aggregator::test {
namespace {

using Rows = std::map<std::string, std::int64_t>;
using Gap = std::vector<std::pair<std::string, std::int64_t>>;

MadeEvent sends(std::int32_t to, std::int64_t enter, std::int64_t exit, std::uint32_t sequence, Gap gap) {
  return {MpiEventKind::kSend, "MPI_Send", "MPI_Send", enter, exit, to, 0, sequence, -1, 0, 1, 0,
          std::move(gap)};
}
MadeEvent receives(std::int32_t from, std::int64_t enter, std::int64_t exit, std::uint32_t sequence,
                   Gap gap) {
  return {MpiEventKind::kReceive, "MPI_Recv", "MPI_Recv", enter, exit, from, 0, sequence, -1, 0, 1, 0,
          std::move(gap)};
}
MadeEvent barrier_after(std::int64_t enter, std::int64_t exit, std::uint32_t sequence, Gap gap) {
  return {MpiEventKind::kCollective,
          "MPI_Barrier",
          "MPI_Barrier",
          enter,
          exit,
          -1,
          0,
          sequence,
          -1,
          0,
          1,
          0,
          std::move(gap)};
}

TEST(WaitCausesTest, DividesAWaitAmongWhatTheLateRankDid) {
  MadeRun run(2);
  run.add(1, receives(0, 0, 40 * kMs, 0, {}));
  run.add(0, sends(1, 40 * kMs, 40 * kMs, 0, {{"read", 30}, {"parse", 10}}));
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"1 MPI_Recv late_sender 0 read", 30 * kMs},
                                  {"1 MPI_Recv late_sender 0 parse", 10 * kMs}}));
  std::uint64_t count = 0;
  for (const shard::WaitState& row : data.wait_states) count += row.count;
  EXPECT_EQ(count, 1u) << "one wait, in the row of the larger part";
}

TEST(WaitCausesTest, IntervalWithoutSamplesCountsLikeOthersBeforeTheSameCall) {
  MadeRun run(2);
  run.add(1, receives(0, 0, 40 * kMs, 0, {}));
  run.add(1, receives(0, 41 * kMs, 50 * kMs, 1, {}));
  run.add(0, sends(1, 40 * kMs, 41 * kMs, 0, {{"read", 40}}));
  run.add(0, sends(1, 50 * kMs, 51 * kMs, 1, {}));
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"1 MPI_Recv late_sender 0 read", 49 * kMs}}));
}

// Time without samples was still spent outside MPI.
TEST(WaitCausesTest, WithoutAnySamplesTheCallersCodeIsTheCause) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier_after(0, 1 * kMs, 0, {}));
  run.add(0, barrier_after(5 * kMs, 40 * kMs, 1, {}));
  run.add(1, barrier_after(40 * kMs, 41 * kMs, 1, {}));
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Barrier wait_at_barrier 1 calls MPI_Barrier", 35 * kMs}}));
  EXPECT_EQ(roots_of(data), (Rows{{"1 calls MPI_Barrier", 35 * kMs}}));
  EXPECT_EQ(critical_of(data).at("1 calls MPI_Barrier"), 39 * kMs);
}

// Rank 0 delays 1 by 30 ms, and by that 1 delays 2, although it works no longer than 2.
TEST(WaitCausesTest, FollowsAChainOfDelaysToItsRoot) {
  MadeRun run(3);
  for (std::int32_t r = 0; r < 3; ++r) run.add(r, barrier_after(0, 1 * kMs, 0, {}));
  run.add(0, sends(1, 36 * kMs, 36 * kMs, 0, {{"late", 30}, {"step", 5}}));
  run.add(1, receives(0, 6 * kMs, 36 * kMs, 0, {{"step", 5}}));
  run.add(1, sends(2, 41 * kMs, 41 * kMs, 0, {{"step", 5}}));
  run.add(2, receives(1, 11 * kMs, 41 * kMs, 0, {{"step", 10}}));
  const shard::ShardData data = run.analyse();
  const Rows waits = waits_of(data);
  EXPECT_EQ(waits.at("1 MPI_Recv late_sender 0 late") + waits.at("1 MPI_Recv late_sender 0 step"), 30 * kMs);
  // While rank 2 waited, rank 1 itself waited for 25 of the ms.
  EXPECT_EQ(waits.at("2 MPI_Recv late_sender 1 MPI_Recv"), 25 * kMs);
  EXPECT_EQ(waits.at("2 MPI_Recv late_sender 1 step"), 5 * kMs);
  EXPECT_EQ(roots_of(data), (Rows{{"0 late", 60 * kMs}}));
  ASSERT_EQ(data.root_causes.size(), 1u);
  EXPECT_EQ(data.root_causes[0].waiting_ranks, 2u);
}

TEST(WaitCausesTest, ChargesARankInAChainForItsOwnDelay) {
  MadeRun run(3);
  for (std::int32_t r = 0; r < 3; ++r) run.add(r, barrier_after(0, 1 * kMs, 0, {}));
  run.add(0, sends(1, 36 * kMs, 36 * kMs, 0, {{"late", 30}, {"step", 5}}));
  run.add(1, receives(0, 6 * kMs, 36 * kMs, 0, {{"step", 5}}));
  run.add(1, sends(2, 51 * kMs, 51 * kMs, 0, {{"own", 10}, {"step", 5}}));
  run.add(2, receives(1, 11 * kMs, 51 * kMs, 0, {{"step", 10}}));
  EXPECT_EQ(roots_of(run.analyse()), (Rows{{"0 late", 60 * kMs}, {"1 own", 10 * kMs}}));
}

// Ranks 1 and 2 have both waited 20 ms for rank 0 since they last met. That made neither of them later than
// the other: rank 1 is late by the 10 ms that it works more, and by nothing else.
TEST(WaitCausesTest, WaitsThatBothRanksSharedDoNotMakeOneLate) {
  MadeRun run(3);
  for (std::int32_t r = 0; r < 3; ++r) run.add(r, barrier_after(0, 1 * kMs, 0, {}));
  run.add(0, sends(1, 21 * kMs, 21 * kMs, 0, {{"late", 20}}));
  run.add(0, sends(2, 21 * kMs, 21 * kMs, 0, {}));
  run.add(1, receives(0, 1 * kMs, 21 * kMs, 0, {}));
  run.add(2, receives(0, 1 * kMs, 21 * kMs, 0, {}));
  run.add(1, sends(2, 41 * kMs, 41 * kMs, 0, {{"step", 10}, {"extra", 10}}));
  run.add(2, receives(1, 31 * kMs, 41 * kMs, 0, {{"step", 10}}));
  EXPECT_EQ(roots_of(run.analyse()), (Rows{{"0 late", 40 * kMs}, {"1 extra", 10 * kMs}}));
}

// Rank 1 is late since it waited for rank 0 twice, 20 and 10 ms, and worked 10 ms more: one cause that came
// in two parts.
TEST(WaitCausesTest, AddsUpPartsOfTheSameCause) {
  MadeRun run(3);
  for (std::int32_t r = 0; r < 3; ++r) run.add(r, barrier_after(0, 1 * kMs, 0, {}));
  run.add(0, sends(1, 21 * kMs, 21 * kMs, 0, {{"late", 20}}));
  run.add(0, sends(1, 41 * kMs, 41 * kMs, 1, {{"late", 20}}));
  run.add(1, receives(0, 1 * kMs, 21 * kMs, 0, {}));
  run.add(1, receives(0, 31 * kMs, 41 * kMs, 1, {{"step", 10}}));
  run.add(1, sends(2, 51 * kMs, 51 * kMs, 0, {{"extra", 10}}));
  run.add(2, receives(1, 11 * kMs, 51 * kMs, 0, {{"step", 10}}));
  const Rows roots = roots_of(run.analyse());
  EXPECT_NEAR(static_cast<double>(roots.at("0 late")), 20e6 + 10e6 + 40e6 * 30 / 40, 1e3);
  EXPECT_NEAR(static_cast<double>(roots.at("1 extra")), 40e6 * 10 / 40, 1e3);
}

// A message that a rank sends just before it waits for a neighbour does not hide what made that one late.
TEST(WaitCausesTest, MessageUnderWayIsNoInteraction) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier_after(0, 1 * kMs, 0, {}));
  run.add(0, sends(1, 11 * kMs, 11 * kMs, 0, {{"step", 10}}));
  run.add(0, receives(1, 12 * kMs, 41 * kMs, 0, {}));
  run.add(1, sends(0, 41 * kMs, 41 * kMs, 0, {{"extra", 30}, {"step", 10}}));
  run.add(1, receives(0, 42 * kMs, 43 * kMs, 0, {}));
  const Rows roots = roots_of(run.analyse());
  EXPECT_NEAR(static_cast<double>(roots.at("1 extra")), 29e6, 1e5);
}

TEST(WaitCausesTest, ChargesARankThatWasBusyWhenARequestArrived) {
  MadeRun run(2);
  run.add(0, sends(1, 10 * kMs, 10 * kMs, 0, {{"ask", 10}}));
  run.add(0, receives(1, 11 * kMs, 91 * kMs, 0, {}));
  run.add(1, receives(0, 80 * kMs, 80 * kMs, 0, {{"busy", 80}}));
  run.add(1, sends(0, 90 * kMs, 90 * kMs, 0, {{"answer", 10}}));
  const Rows roots = roots_of(run.analyse());
  EXPECT_NEAR(static_cast<double>(roots.at("1 busy")), 79e6 * 70 / 80, 1e6);
  EXPECT_NEAR(static_cast<double>(roots.at("1 answer")), 79e6 * 10 / 80, 1e6);
}

// What rank 1 did before the barrier_after made others wait there. It is not the reason for waits after the
// barrier_after, even though rank 0 interacted with another rank in between, and even if rank 0 waits from
// the end of the barrier_after on.
TEST(WaitCausesTest, CountsOnlyTheTimeSinceTheLastInteraction) {
  for (const std::int64_t step : {0, 10}) {
    MadeRun run(3);
    const std::int64_t met = 30 * kMs, waits = met + step * kMs, ends = waits + 20 * kMs;
    for (const std::int32_t r : {0, 2}) run.add(r, barrier_after(0, met, 0, {}));
    run.add(1, barrier_after(met, met, 0, {{"setup", 30}}));
    run.add(0, sends(2, met, met, 0, {}));
    run.add(2, receives(0, met, met, 0, {}));
    run.add(0, receives(1, waits, ends, 0, step == 0 ? Gap{} : Gap{{"step", step}}));
    run.add(1, sends(0, ends, ends, 0, step == 0 ? Gap{{"extra", 20}} : Gap{{"step", step}, {"extra", 20}}));
    EXPECT_EQ(roots_of(run.analyse()), (Rows{{"1 setup", 60 * kMs}, {"1 extra", 20 * kMs}})) << step;
  }
}

// In a broadcast, two ranks interact if one of them is its root. A third rank that comes later changes
// nothing.
TEST(WaitCausesTest, BroadcastIsAnInteractionWithItsRoot) {
  for (std::int32_t root = 0; root < 3; ++root) {
    MadeRun run(3);
    const auto broadcast = [&](std::int32_t rank, std::int64_t enter, Gap gap) {
      run.add(rank, {MpiEventKind::kCollective, "MPI_Bcast", "MPI_Bcast", enter * kMs, enter * kMs, root, 0,
                     1, -1, 0, 1, 0, std::move(gap)});
    };
    for (std::int32_t r = 0; r < 3; ++r) run.add(r, barrier_after(0, 1 * kMs, 0, {}));
    broadcast(0, 21, {{"other", 20}});
    broadcast(1, 21, {{"extra", 20}});
    broadcast(2, root == 2 ? 2 : 35, {});
    run.add(0, receives(1, 22 * kMs, 41 * kMs, 0, {}));
    run.add(1, sends(0, 41 * kMs, 41 * kMs, 0, {{"more", 20}}));
    const Rows roots = roots_of(run.analyse());
    const auto of = [&](const char* name) {
      const auto found = roots.find(name);
      return found == roots.end() ? 0.0 : static_cast<double>(found->second);
    };
    EXPECT_NEAR(of("1 extra"), root == 2 ? 9.5e6 : 0, 1e5) << "root " << root;
    EXPECT_NEAR(of("1 more"), root == 2 ? 9.5e6 : 19e6, 1e5) << "root " << root;
  }
}

// Ranks 0 and 2 have a communicator of their own.
TEST(WaitCausesTest, CollectiveWithoutTheLateRankIsNoInteraction) {
  MadeRun run(3);
  run.sizes[2] = 2;
  for (std::int32_t r = 0; r < 3; ++r) run.add(r, barrier_after(0, 1 * kMs, 0, {}));
  for (const std::int32_t r : {0, 2}) {
    MadeEvent between = barrier_after(21 * kMs, 21 * kMs, 0, {{"step", 20}});
    between.channel = 2;
    run.add(r, between);
  }
  run.add(0, receives(1, 21 * kMs, 41 * kMs, 0, {}));
  run.add(1, sends(0, 41 * kMs, 41 * kMs, 0, {{"step", 20}, {"extra", 20}}));
  EXPECT_EQ(roots_of(run.analyse()), (Rows{{"1 extra", 20 * kMs}}));
}

TEST(WaitCausesTest, AnyOperationOfACallIsAnInteraction) {
  MadeRun run(3);
  run.add(2, sends(0, 0, 0, 0, {}));
  for (const std::int32_t from : {2, 1}) {
    MadeEvent part = receives(from, 0, 30 * kMs, 0, {});
    part.op = part.site = "MPI_Waitall";
    run.add(0, part);
  }
  run.add(1, sends(0, 30 * kMs, 30 * kMs, 0, {{"setup", 30}}));
  run.add(0, receives(1, 30 * kMs, 50 * kMs, 1, {}));
  run.add(1, sends(0, 50 * kMs, 50 * kMs, 1, {{"extra", 20}}));
  EXPECT_EQ(roots_of(run.analyse()), (Rows{{"1 setup", 30 * kMs}, {"1 extra", 20 * kMs}}));
}

// Rank 1 comes late at the same moment at which it leaves the call in which the two interacted.
TEST(WaitCausesTest, CallThatEndsWhenTheLateRankComesIsAnInteraction) {
  for (const bool collective : {false, true}) {
    MadeRun run(2);
    if (collective) {
      run.add(0, barrier_after(30 * kMs, 30 * kMs, 0, {{"setup", 30}}));
      run.add(1, barrier_after(30 * kMs, 50 * kMs, 0, {{"read", 30}}));
    } else {
      run.add(0, receives(1, 30 * kMs, 30 * kMs, 0, {{"setup", 30}}));
      run.add(1, sends(0, 30 * kMs, 50 * kMs, 0, {{"read", 30}}));
    }
    run.add(0, receives(1, 30 * kMs, 50 * kMs, 1, {}));
    run.add(1, sends(0, 50 * kMs, 50 * kMs, 1, {}));
    EXPECT_FALSE(roots_of(run.analyse()).contains("1 read")) << "collective: " << collective;
  }
}

TEST(WaitCausesTest, DividesTheSmallestOfManyCausesAmongTheOthers) {
  MadeRun run(2);
  Gap gap;
  for (int i = 1; i <= 20; ++i) gap.emplace_back("part " + std::to_string(i), i);
  run.add(0, receives(1, 0, 210 * kMs, 0, {}));
  run.add(1, sends(0, 210 * kMs, 210 * kMs, 0, gap));
  const Rows roots = roots_of(run.analyse());
  EXPECT_EQ(roots.size(), 16u);
  for (int i = 5; i <= 20; ++i)
    EXPECT_NEAR(static_cast<double>(roots.at("1 part " + std::to_string(i))), 210e6 * i / 200, 1e3);
}

TEST(WaitCausesTest, BlamesTheStragglerBeforeABarrier) {
  MadeRun run(8);
  for (std::uint32_t round = 0; round < 10; ++round) {
    const std::int64_t begin = round * 50 * kMs;
    for (std::int32_t r = 0; r < 8; ++r) {
      const std::int64_t extra = r == 3 ? 30 : 0;
      run.add(r, barrier_after(begin + (10 + extra) * kMs, begin + 40 * kMs, round,
                               extra != 0 ? Gap{{"step", 10}, {"load", 30}} : Gap{{"step", 10}}));
    }
  }
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(roots_of(data), (Rows{{"3 load", 7 * 10 * 30 * kMs}}));
  EXPECT_EQ(data.root_causes[0].waiting_ranks, 7u);
  std::int64_t all = 0;
  for (const auto& [row, ns] : waits_of(data)) all += ns;
  EXPECT_EQ(all, 7 * 10 * 30 * kMs);
}

// Two ranks by hand: rank 0 works 10, sends, works 20; rank 1 works 4, receives, works 6, and both meet.
TEST(IdealNetworkTest, ReplayOfTwoRanksHasTheLengthComputedByHand) {
  MadeRun run(2);
  run.send(0, 1, 10 * kMs, 13 * kMs);  // the transfer takes 3
  run.collective(0, "MPI_Barrier", 33 * kMs, 35 * kMs, 0);
  run.receive(1, 0, 4 * kMs, 15 * kMs);
  run.collective(1, "MPI_Barrier", 21 * kMs, 35 * kMs, 0);
  run.ends[0] = 40 * kMs;  // 5 after the last call
  run.ends[1] = 36 * kMs;
  const shard::ShardData data = run.analyse();
  // The offset between node time and event clock lets rank 1 end with its last event, so 1 of the 5 is before
  // the first event. Rank 0: 10, 30 at the barrier_after; rank 1: 10, 16. Out of it at 30, with 5 to go.
  EXPECT_EQ(data.wait_analysis.ideal_ns, 35u * kMs);
}

TEST(IdealNetworkTest, SynchronousSendsAndRootsWait) {
  MadeRun run(2);
  run.add(0,
          {MpiEventKind::kSend, "MPI_Ssend", "MPI_Ssend", 0, 21 * kMs, 1, 0, 0, -1, wire::kEventSynchronous});
  run.collective(0, "MPI_Reduce", 26 * kMs, 52 * kMs, 0, 0);
  run.receive(1, 0, 20 * kMs, 21 * kMs);
  run.collective(1, "MPI_Reduce", 51 * kMs, 52 * kMs, 0, 0);
  // Ssend until 20, 5 of work, then waits for the 30 of rank 1: 50.
  EXPECT_EQ(run.analyse().wait_analysis.ideal_ns, 50u * kMs);
}

// Each rank posts its receive, then sends synchronously: only the posting may be waited for.
TEST(IdealNetworkTest, SynchronousSendsInBothDirectionsWaitForPostedReceivesOnly) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) {
    const std::int64_t begin = (r == 0 ? 5 : 9) * kMs;
    run.add(r, {MpiEventKind::kSend, "MPI_Ssend", "MPI_Ssend", begin, 10 * kMs, 1 - r, 0, 0, -1,
                wire::kEventSynchronous});
    run.add(r, {MpiEventKind::kReceive, "MPI_Irecv", "MPI_Wait", 12 * kMs, 13 * kMs, 1 - r, 0, 0, begin - 1,
                wire::kEventNonblocking});
  }
  // Rank 0 goes on when 1 has posted, at 9; both do 2 more.
  EXPECT_EQ(run.analyse().wait_analysis.ideal_ns, 11u * kMs);
}

// Places are the other way round than ranks, and the first place comes last but one.
TEST(IdealNetworkTest, ScanWaitsForLowerRanksOnly) {
  MadeRun run(4);
  const std::int64_t enter[] = {50, 10, 40, 20};  // by rank; rank r has place 3 - r
  for (std::int32_t r = 0; r < 4; ++r) {
    const std::int64_t at = enter[r] * kMs;
    run.add(r, {MpiEventKind::kCollective, "MPI_Scan", "MPI_Scan", at, 60 * kMs, -1, 3 - r, 0});
    run.ends[r] = (60 + 10 * r) * kMs;  // what is left to do
  }
  // Out of it at 20 (rank 3), 40 (2), 40 (1), 50 (0); then 30, 20, 10 and 0 more.
  EXPECT_EQ(run.analyse().wait_analysis.ideal_ns, 60u * kMs);
}

TEST(IdealNetworkTest, ScanOfManyRanksWaitsForLowerRanksOnly) {
  constexpr std::int32_t kRanks = 4000;
  MadeRun run(kRanks);
  for (std::int32_t r = 0; r < kRanks; ++r) run.collective(r, "MPI_Exscan", kMs + (kRanks - r), 2 * kMs, 0);
  EXPECT_EQ(run.analyse().wait_analysis.ideal_ns, static_cast<std::uint64_t>(kMs + kRanks));
}

TEST(IdealNetworkTest, WithoutWaitingTheRunIsAsLongAsUsefulTime) {
  MadeRun run(2);
  run.begins[1] = 7 * kMs;  // started later: not the network's doing
  run.send(0, 1, 10 * kMs, 30 * kMs);
  run.receive(1, 0, 60 * kMs, 70 * kMs);
  EXPECT_EQ(run.analyse().wait_analysis.ideal_ns, 60u * kMs);
}

// The barrier takes 30 for nothing. A helper thread of rank 0 then sends in the middle of what the main
// thread does.
TEST(IdealNetworkTest, HelperThreadsBeginWithTheirMainThread) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.collective(r, "MPI_Barrier", 10 * kMs, 40 * kMs, 0);
  MadeEvent helps{MpiEventKind::kSend, "MPI_Send", "MPI_Send", 60 * kMs, 60 * kMs, 1};
  helps.thread = 1;
  run.add(0, helps);
  run.ends[0] = 80 * kMs;
  run.receive(1, 0, 40 * kMs, 61 * kMs);
  EXPECT_EQ(run.analyse().wait_analysis.ideal_ns, 50u * kMs) << "not 60";
}

TEST(IdealNetworkTest, IsNotKnownWhereEventsWereLost) {
  MadeRun run(2);
  run.send(0, 1, 10 * kMs, 30 * kMs);
  run.receive(1, 0, 60 * kMs, 70 * kMs);
  std::vector<shard::ShardData> shards = run.shards();
  EXPECT_NE(MadeRun::analyse(shards).wait_analysis.ideal_ns, 0u);
  shards[0].drops.push_back({1, "mpi_event_ring_full", 3});
  EXPECT_EQ(MadeRun::analyse(shards).wait_analysis.ideal_ns, 0u);
}

TEST(CriticalPathTest, GoesToTheRankThatWasWaitedFor) {
  MadeRun run(2);
  run.add(0, barrier_after(30 * kMs, 31 * kMs, 0, {{"long", 30}}));
  run.add(1, barrier_after(10 * kMs, 32 * kMs, 0, {{"short", 10}}));
  run.add(0, receives(1, 36 * kMs, 62 * kMs, 0, {{"wait for it", 5}}));
  run.add(1, sends(0, 60 * kMs, 61 * kMs, 0, {{"middle", 28}}));
  run.ends[0] = 70 * kMs;
  run.ends[1] = 61 * kMs;
  const shard::ShardData data = run.analyse();
  // Back from 70: 8 of rank 0 without samples and 2 of its receive; rank 1's middle from 60 to 32, 2 of its
  // barrier_after; rank 0's long one.
  EXPECT_EQ(critical_of(data), (Rows{{"0 ?", 8 * kMs},
                                     {"0 MPI_Recv", 2 * kMs},
                                     {"1 middle", 28 * kMs},
                                     {"1 MPI_Barrier", 2 * kMs},
                                     {"0 long", 30 * kMs}}));
}

// A helper thread of rank 0 sends what rank 1 waits for. The main thread is in no call then.
TEST(CriticalPathTest, GoesOnInTheMainThreadWhereAHelperThreadBegan) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.collective(r, "MPI_Barrier", 10 * kMs, 40 * kMs, 0);
  MadeEvent helps{MpiEventKind::kSend, "MPI_Send", "MPI_Send", 60 * kMs, 60 * kMs, 1};
  helps.thread = 1;
  run.add(0, helps);
  run.receive(1, 0, 40 * kMs, 61 * kMs);
  run.ends[0] = 60 * kMs;
  run.ends[1] = 70 * kMs;
  EXPECT_EQ(critical_of(run.analyse()), (Rows{{"1 ?", 9 * kMs},
                                              {"1 MPI_Recv", 1 * kMs},
                                              {"0 ?", 20 * kMs},
                                              {"0 MPI_Barrier", 30 * kMs},
                                              {"0 calls MPI_Barrier", 10 * kMs}}));
}

// Now the main thread waits in a second barrier. It has made the other one before that.
TEST(CriticalPathTest, AHelperThreadBeganBeforeTheCallOfTheMainThread) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.collective(r, "MPI_Barrier", 10 * kMs, 40 * kMs, 0);
  run.collective(0, "MPI_Barrier", 45 * kMs, 75 * kMs, 1);
  run.receive(1, 0, 40 * kMs, 61 * kMs);
  run.collective(1, "MPI_Barrier", 70 * kMs, 75 * kMs, 1);
  MadeEvent helps{MpiEventKind::kSend, "MPI_Send", "MPI_Send", 60 * kMs, 60 * kMs, 1};
  helps.thread = 1;
  helps.gap = {{"prepare", 10 * kMs}};
  run.add(0, helps);
  run.ends[1] = 80 * kMs;
  EXPECT_EQ(critical_of(run.analyse()), (Rows{{"1 ?", 5 * kMs},
                                              {"1 MPI_Barrier", 5 * kMs},
                                              {"1 calls MPI_Barrier", 9 * kMs},
                                              {"1 MPI_Recv", 1 * kMs},
                                              {"0 prepare", 15 * kMs},
                                              {"0 calls MPI_Barrier", 15 * kMs},
                                              {"0 MPI_Barrier", 30 * kMs}}));
}

// Nobody knows what was before the window and behind it, and the last event is not where a rank ends.
TEST(CriticalPathTest, HasOnlyWhatWasRecorded) {
  MadeRun run(2);
  run.add(0, barrier_after(130 * kMs, 131 * kMs, 0, {{"long", 30}}));
  run.add(1, barrier_after(110 * kMs, 132 * kMs, 0, {{"short", 10}}));
  run.add(0, receives(1, 136 * kMs, 162 * kMs, 0, {{"wait for it", 5}}));
  run.add(1, sends(0, 160 * kMs, 161 * kMs, 0, {{"middle", 28}}));
  run.ends[0] = 270 * kMs;
  run.ends[1] = 261 * kMs;
  std::vector<shard::ShardData> shards = run.shards();
  shards[0].recording_windows = {{0, 100 * kMs, 164 * kMs}, {1, 100 * kMs, 161 * kMs}};
  EXPECT_EQ(critical_of(MadeRun::analyse(shards)), (Rows{{"0 ?", 2 * kMs},
                                                         {"0 MPI_Recv", 2 * kMs},
                                                         {"1 middle", 28 * kMs},
                                                         {"1 MPI_Barrier", 2 * kMs},
                                                         {"0 long", 30 * kMs}}));
  // Nor is it shown over time: what is left of each step is what was recorded of it.
  const std::vector<shard::TimeWindow> steps = MadeRun::analyse(shards).time_windows;
  ASSERT_EQ(steps.size(), 64u);
  const auto length_ns = [](const shard::TimeWindow& step) { return step.end_ns - step.begin_ns; };
  double left_ns = 0, useful_ns = 0;
  for (const shard::TimeWindow& step : steps) {
    left_ns += static_cast<double>(length_ns(step)) - static_cast<double>(step.startup_ns);
    useful_ns += step.useful_mean_ns;
  }
  EXPECT_NEAR(left_ns, 64e6, 1e3);
  EXPECT_EQ(steps.front().startup_ns, length_ns(steps.front()));
  EXPECT_EQ(steps.back().startup_ns, length_ns(steps.back()));
  EXPECT_EQ(steps.front().useful_mean_ns, 0);
  EXPECT_NEAR(useful_ns, (30e6 + 10e6 + 5e6 + 28e6 + 2e6) / 2, 1e3)
      << "rank 0 has 2 ms more before its window ends";
}

// Both ranks read their input for 540 ms in a pause. Then there are ten steps of 10 ms, in which rank 1 works
// for 9 ms and rank 0 for 5.
TEST(CriticalPathTest, HasNoPauses) {
  MadeRun run(2);
  for (std::uint32_t i = 0; i < 10; ++i)
    for (std::int32_t r = 0; r < 2; ++r) {
      const std::int64_t begin = (540 + 10 * std::int64_t{i}) * kMs, work = (r == 0 ? 5 : 9) * kMs;
      MadeEvent barrier = barrier_after(begin + work, begin + 10 * kMs, i, {{"work", work}});
      if (i == 0) barrier.paused_ns = barrier.resumed = begin;
      run.add(r, barrier);
    }
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(critical_of(data),
            (Rows{{"0 MPI_Barrier", kMs}, {"1 MPI_Barrier", 9 * kMs}, {"1 work", 90 * kMs}}));
  EXPECT_EQ(data.wait_analysis.ideal_ns, 0u) << "there is nothing to compare it with";
  ASSERT_EQ(data.time_windows.size(), 64u);
  for (std::size_t i = 0; i < data.time_windows.size(); ++i) {
    const shard::TimeWindow& window = data.time_windows[i];
    EXPECT_NEAR(static_cast<double>(window.startup_ns), i < 54 ? 10e6 : 0, 10);
    EXPECT_NEAR(window.useful_max_ns, i < 54 ? 0 : 9e6, 10);
    EXPECT_NEAR(window.useful_mean_ns, i < 54 ? 0 : 7e6, 10);
  }
}

// 30 ms before the call, 49 ms behind the last one, and 5 ms of a program that was executed before.
TEST(CriticalPathTest, HasNoPausesThatNoEventTellsOf) {
  MadeRun run(1);
  MadeEvent barrier = barrier_after(50 * kMs, 51 * kMs, 0, {{"work", 10}});
  barrier.paused_ns = 30 * kMs;
  barrier.resumed = 40 * kMs;
  run.add(0, barrier);
  run.ends[0] = 100 * kMs;
  run.other_pauses[0] = 54 * kMs;
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(critical_of(data), (Rows{{"0 MPI_Barrier", kMs}, {"0 work", 15 * kMs}}));
  double useful_ns = 0, left_ns = 0;
  for (const shard::TimeWindow& window : data.time_windows) {
    useful_ns += window.useful_mean_ns;
    left_ns += static_cast<double>(window.end_ns - window.begin_ns) - static_cast<double>(window.startup_ns);
  }
  EXPECT_NEAR(useful_ns, 15e6, 1e3);
  EXPECT_NEAR(left_ns, 16e6, 1e3);
}

// A helper thread has pauses of its own: with --only-regions it may be outside of all regions alone.
TEST(RootCausesTest, EachThreadHasItsOwnPauses) {
  MadeRun run(2);
  MadeEvent first = sends(1, 10 * kMs, 11 * kMs, 0, {}), second = sends(1, 51 * kMs, 52 * kMs, 1, {});
  first.thread = second.thread = 1;
  second.gap = {{"help", 10 * kMs}};
  second.paused_ns = 30 * kMs;
  second.resumed = 46 * kMs;
  run.add(0, sends(1, 1 * kMs, 1 * kMs, 2, {}));
  run.add(0, first);
  run.add(0, second);
  run.add(1, receives(0, 12 * kMs, 12 * kMs, 0, {}));
  run.add(1, receives(0, 12 * kMs, 52 * kMs, 1, {}));
  // From 12 to 16 and from 46 to 51 it was not paused.
  EXPECT_EQ(waits_of(run.analyse()),
            (Rows{{"1 MPI_Recv late_sender 0 ?", 30 * kMs}, {"1 MPI_Recv late_sender 0 help", 9 * kMs}}));
}

// Rank 0 has the same work as rank 1, and pauses for 30 ms in between.
TEST(RootCausesTest, WhatHappenedInAPauseIsNotKnown) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.collective(r, "MPI_Barrier", 10 * kMs, 11 * kMs, 0);
  MadeEvent late = barrier_after(43 * kMs, 44 * kMs, 1, {{"work", 2 * kMs}});
  late.paused_ns = 30 * kMs;
  late.resumed = 42 * kMs;
  run.add(0, late);
  run.add(1, barrier_after(13 * kMs, 44 * kMs, 1, {{"work", 2 * kMs}}));
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"1 MPI_Barrier wait_at_barrier 0 ?", 29 * kMs},
                                  {"1 MPI_Barrier wait_at_barrier 0 work", 1 * kMs}}));
  EXPECT_EQ(roots_of(data), (Rows{{"0 ?", 30 * kMs}}));
}

// Of a run on standby: 100 ms before the window and 20 in a pause in it were not recorded.
TEST(RootCausesTest, AWindowMayHaveAPause) {
  MadeRun run(2);
  run.add(0, barrier_after(110 * kMs, 151 * kMs, 0, {{"short", 10}}));
  MadeEvent late = barrier_after(150 * kMs, 151 * kMs, 0, {{"long", 30}});
  late.paused_ns = 20 * kMs;
  late.resumed = 140 * kMs;
  run.add(1, late);
  std::vector<shard::ShardData> shards = run.shards();
  shards[0].run.standby = true;
  for (shard::MpiEvent& event : shards[0].mpi_events) event.mpi_ns += 100 * kMs;
  for (std::uint32_t r = 0; r < 2; ++r) {
    shards[0].recording_windows.push_back({r, 100 * kMs, 151 * kMs});
    shards[0].ranks[r].standby_ns = 100 * kMs;
    shards[0].ranks[r].paused_ns += 100 * kMs;
  }
  EXPECT_EQ(waits_of(MadeRun::analyse(shards)), (Rows{{"0 MPI_Barrier wait_at_barrier 1 ?", 20 * kMs},
                                                      {"0 MPI_Barrier wait_at_barrier 1 long", 20 * kMs}}));
}

// Rank 1 began its work before the window, and 100 ms of it were not recorded.
TEST(RootCausesTest, TheFirstWaitOfAWindowIsChargedToTheWorkInIt) {
  MadeRun run(2);
  run.add(0, barrier_after(110 * kMs, 151 * kMs, 0, {{"short", 10}}));
  run.add(1, barrier_after(150 * kMs, 151 * kMs, 0, {{"long", 50}}));
  std::vector<shard::ShardData> shards = run.shards();
  shards[0].run.standby = true;
  for (shard::MpiEvent& event : shards[0].mpi_events) event.mpi_ns += 100 * kMs;
  for (std::uint32_t r = 0; r < 2; ++r) {
    shards[0].recording_windows.push_back({r, 100 * kMs, 151 * kMs});
    shards[0].ranks[r].standby_ns = 100 * kMs;
  }
  const shard::ShardData data = MadeRun::analyse(shards);
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Barrier wait_at_barrier 1 long", 40 * kMs}}));
  EXPECT_EQ(roots_of(data), (Rows{{"1 long", 40 * kMs}}));
}

// A light run tells how long a rank was outside MPI, but not when outside of its windows: for 150 of the 200
// ms before its first event, of which 40 were recorded.
TEST(CriticalPathTest, AtTheEdgeOfAWindowOfALightRunMpiHasItsShare) {
  MadeRun run(1);
  MadeEvent barrier = barrier_after(200 * kMs, 201 * kMs, 0, {{"work", 100}});
  barrier.other_calls_ns = 50 * kMs;
  run.add(0, barrier);
  std::vector<shard::ShardData> shards = run.shards();
  shards[0].recording_windows = {{0, 160 * kMs, 201 * kMs}};
  const shard::ShardData light = MadeRun::analyse(shards);
  EXPECT_EQ(critical_of(light), (Rows{{"0 work", 30 * kMs}, {"0 MPI_Barrier", 1 * kMs}, {"0 ?", 10 * kMs}}));
  double useful_ns = 0;
  for (const shard::TimeWindow& step : light.time_windows) useful_ns += step.useful_mean_ns;
  EXPECT_NEAR(useful_ns, 30e6, 1e3);
}

// The second window has no MPI call, so the last event is one of the first window. A run on standby tells: 60
// s were left out before it, and not 296.
TEST(CriticalPathTest, TheLastWindowMayHaveNoEvent) {
  constexpr std::int64_t kS = 1000 * kMs;
  MadeRun run(2);
  run.add(0, barrier_after(61 * kS, 63 * kS, 0, {{"short", 1}}));
  run.add(1, barrier_after(62 * kS, 63 * kS, 0, {{"long", 2}}));
  for (std::int32_t r = 0; r < 2; ++r) {
    run.add(r, barrier_after(64 * kS - kMs, 64 * kS, 1, {{"last", 1}}));
    run.ends[r] = 400 * kS;
  }
  std::vector<shard::ShardData> shards = run.shards();
  shards[0].run.standby = true;
  for (shard::MpiEvent& event : shards[0].mpi_events) event.mpi_ns += 60 * kS;
  for (std::uint32_t r = 0; r < 2; ++r) {
    shards[0].recording_windows.push_back({r, 60 * kS, 64 * kS});
    shards[0].recording_windows.push_back({r, 300 * kS, 304 * kS});
    shards[0].ranks[r].standby_ns = 392 * kS;
    shards[0].ranks[r].mpi_init_end_ns = kS;
  }
  EXPECT_EQ(critical_of(MadeRun::analyse(shards)),
            (Rows{{"0 ?", 4 * kS}, {"0 MPI_Barrier", kS + kMs}, {"0 last", kS - kMs}, {"1 long", 2 * kS}}));
}

TEST(CriticalPathTest, MpiTimeBeforeTheFirstEventIsThatOfInit) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier_after(30 * kMs, 31 * kMs, 0, {{"load", 10}}));
  std::vector<shard::ShardData> shards = run.shards();
  shard::ShardData& data = shards[0];
  shard::PathInterner interner(data);
  const std::uint32_t init =
      interner.path(0, interner.frame({shard::FrameKind::kMpi, false, interner.string("MPI_Init_thread")}));
  for (std::uint32_t r = 0; r < 2; ++r) {
    data.mpi_calls.push_back({r, init, shard::kNone, 1, 20 * kMs, 20 * kMs, 20 * kMs, 0, 0});
    data.mpi_events[r].mpi_ns += 20 * kMs;
    data.ranks[r].mpi_ns += 20 * kMs;
  }
  EXPECT_EQ(critical_of(MadeRun::analyse(shards)),
            (Rows{{"0 MPI_Init_thread", 20 * kMs}, {"0 load", 10 * kMs}, {"0 MPI_Barrier", 1 * kMs}}));
}

// The late rank was in a call that has no event. The others waited for that call, not for the next one.
TEST(RootCausesTest, CallsWithoutEventsAreCharged) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.collective(r, "MPI_Barrier", 0, kMs, 0);
  run.add(0, {MpiEventKind::kCollective,
              "MPI_Barrier",
              "MPI_Barrier",
              11 * kMs,
              62 * kMs,
              -1,
              0,
              1,
              -1,
              0,
              1,
              0,
              {{"work", 10 * kMs}}});
  run.add(1, {MpiEventKind::kCollective,
              "MPI_Barrier",
              "MPI_Barrier",
              61 * kMs,
              62 * kMs,
              -1,
              0,
              1,
              -1,
              0,
              1,
              0,
              {{"work", 10 * kMs}, {"MPI_Get", 50 * kMs}}});
  const shard::ShardData data = run.analyse();
  // What it did in the 60 ms before is taken to lie evenly there; rank 0 waited for the last 50 of them.
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Barrier wait_at_barrier 1 MPI_Get", 41'666'667},
                                  {"0 MPI_Barrier wait_at_barrier 1 work", 8'333'333}}));
  EXPECT_EQ(roots_of(data), (Rows{{"1 MPI_Get", 50 * kMs}}));
  const Rows critical = critical_of(data);
  EXPECT_NEAR(static_cast<double>(critical.at("1 MPI_Get")), 50e6, 1e6);
}

// Only the longest of the calls between two events has a row. The next call, a barrier_after, was not under
// way then.
TEST(RootCausesTest, TheLongestCallWithoutAnEventStandsForTheOthers) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.collective(r, "MPI_Barrier", 0, kMs, 0);
  MadeEvent barrier_after{MpiEventKind::kCollective, "MPI_Barrier", "MPI_Barrier", kMs, 62 * kMs};
  barrier_after.sequence = 1;
  run.add(0, barrier_after);
  barrier_after.enter = barrier_after.start = 61 * kMs;
  barrier_after.gap = {{"MPI_Win_lock", 45 * kMs}};
  barrier_after.other_calls_ns = 15 * kMs;
  run.add(1, barrier_after);
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Barrier wait_at_barrier 1 MPI_Win_lock", 60 * kMs}}));
  EXPECT_EQ(roots_of(data), (Rows{{"1 MPI_Win_lock", 60 * kMs}}));
}

// Rank 2 is in no call, rank 1 waits for its message, rank 0 in a barrier_after for rank 1 and 2.
TEST(UnfinishedCallsTest, WaitForTheMissingRanks) {
  MadeRun run(3);
  for (std::int32_t r = 0; r < 3; ++r) run.collective(r, "MPI_Barrier", 0, kMs, 0);
  std::vector<shard::ShardData> shards = run.shards();
  shard::ShardData& data = shards[0];
  shard::PathInterner interner(data);
  const auto path = [&](const char* op) {
    return interner.path(0, interner.frame({shard::FrameKind::kMpi, false, interner.string(op)}));
  };
  const auto under_way = [&](std::uint32_t rank, const char* op, std::uint32_t sequence, std::int32_t peer,
                             std::uint64_t ms) {
    data.calls_under_way.push_back({rank, 100, true, path(op), 0, sequence, peer, 7, -1, 0, ms * kMs});
    data.ranks[rank].mpi_ns += ms * kMs;
  };
  under_way(0, "MPI_Barrier", 1, -1, 800);
  under_way(1, "MPI_Recv", shard::kNone, 2, 500);
  const shard::ShardData merged = MadeRun::analyse(shards);
  EXPECT_EQ(waits_of(merged), (Rows{{"0 MPI_Barrier wait_at_barrier 2 ?", 800 * kMs},
                                    {"1 MPI_Recv late_sender 2 ?", 500 * kMs}}));
  EXPECT_EQ(roots_of(merged), (Rows{{"2 ?", 1300 * kMs}}));
  EXPECT_EQ(merged.root_causes.at(0).waiting_ranks, 2u);
  EXPECT_EQ(merged.ranks[0].mpi_wait_ns, 800u * kMs);
  EXPECT_EQ(merged.ranks[1].mpi_wait_ns, 500u * kMs);
}

TEST(UnfinishedCallsTest, BlameBothRanksThatWaitForEachOther) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.collective(r, "MPI_Barrier", 0, kMs, 0);
  std::vector<shard::ShardData> shards = run.shards();
  shard::ShardData& data = shards[0];
  shard::PathInterner interner(data);
  const std::uint32_t receive =
      interner.path(0, interner.frame({shard::FrameKind::kMpi, false, interner.string("MPI_Recv")}));
  for (std::uint32_t r = 0; r < 2; ++r) {
    data.calls_under_way.push_back(
        {r, 100, true, receive, 0, shard::kNone, static_cast<std::int32_t>(1 - r), 7, -1, 0, 300 * kMs});
    data.ranks[r].mpi_ns += 300 * kMs;
  }
  EXPECT_EQ(roots_of(MadeRun::analyse(shards)), (Rows{{"0 MPI_Recv", 300 * kMs}, {"1 MPI_Recv", 300 * kMs}}));
}

// All calls are the first ones of the run: there is no event.
TEST(UnfinishedCallsTest, AreAnalysedWithoutEvents) {
  MadeRun run(3);
  std::vector<shard::ShardData> shards = run.shards();
  shard::ShardData& data = shards[0];
  shard::PathInterner interner(data);
  const std::uint32_t barrier_after =
      interner.path(0, interner.frame({shard::FrameKind::kMpi, false, interner.string("MPI_Barrier")}));
  for (shard::Rank& rank : data.ranks) rank.flags |= shard::kUsedMpi;
  for (const std::uint32_t r : {0u, 2u}) {
    data.calls_under_way.push_back({r, 100, true, barrier_after, 0, 0, -1, -1, -1, 0, 700 * kMs});
    data.mpi_calls.push_back({r, barrier_after, 0, 0, 700 * kMs, 0, 0, 0, 0, true, 1});
    data.ranks[r].mpi_ns += 700 * kMs;
  }
  const shard::ShardData merged = MadeRun::analyse(shards);
  EXPECT_EQ(waits_of(merged), (Rows{{"0 MPI_Barrier wait_at_barrier 1 ?", 700 * kMs},
                                    {"2 MPI_Barrier wait_at_barrier 1 ?", 700 * kMs}}));
  EXPECT_EQ(roots_of(merged), (Rows{{"1 ?", 1400 * kMs}}));
  EXPECT_TRUE(merged.wait_analysis.done);
  EXPECT_EQ(merged.ranks[0].mpi_wait_ns, 700u * kMs);
  EXPECT_EQ(merged.ranks[1].mpi_wait_ns, 0u);
  for (const shard::Rank& rank : merged.ranks) EXPECT_NE(rank.flags & shard::kWaitKnown, 0u);
}

// Rank 1 waits for its neighbours, of which rank 2 computes and rank 0 waits for rank 1.
TEST(UnfinishedCallsTest, BlameTheRequestWhoseRankIsInNoCall) {
  MadeRun run(3);
  std::vector<shard::ShardData> shards = run.shards();
  shard::ShardData& data = shards[0];
  shard::PathInterner interner(data);
  const std::uint32_t wait_all =
      interner.path(0, interner.frame({shard::FrameKind::kMpi, false, interner.string("MPI_Waitall")}));
  const auto waits = [&](std::uint32_t rank,
                         std::vector<std::pair<shard::PendingKind, std::int32_t>> pending) {
    shard::CallUnderWay call{rank, 100, true, wait_all};
    call.enter_ns = 5, call.lasted_ns = 400 * kMs;
    call.requests = static_cast<std::uint32_t>(pending.size());
    data.calls_under_way.push_back(call);
    for (const auto& [kind, peer] : pending) data.pending_requests.push_back({rank, 100, 5, kind, peer});
    data.ranks[rank].mpi_ns += 400 * kMs;
    data.ranks[rank].flags |= shard::kUsedMpi;
  };
  waits(0, {{shard::PendingKind::kReceive, 1}});
  waits(1,
        {{shard::PendingKind::kReceive, 0}, {shard::PendingKind::kSend, 0}, {shard::PendingKind::kSend, 2}});
  const shard::ShardData merged = MadeRun::analyse(shards);
  EXPECT_EQ(waits_of(merged), (Rows{{"0 MPI_Waitall late_sender 1 MPI_Waitall", 400 * kMs},
                                    {"1 MPI_Waitall late_receiver 2 ?", 400 * kMs}}));
  EXPECT_EQ(roots_of(merged), (Rows{{"2 ?", 800 * kMs}}));
}

// Calls under way of ranks that wait for a message of another one, each for 1 ms.
class ReceivesUnderWay {
 public:
  explicit ReceivesUnderWay(std::int32_t ranks) {
    for (std::int32_t r = 0; r < ranks; ++r) data.ranks.emplace_back().rank = r;
    shard::PathInterner interner(data);
    receive_ = interner.path(0, interner.frame({shard::FrameKind::kMpi, false, interner.string("MPI_Recv")}));
  }
  void add(std::uint32_t rank, std::int32_t from, bool main_thread = true) {
    data.calls_under_way.push_back({rank, main_thread ? 100 : 101, main_thread, receive_, 0, shard::kNone,
                                    from, 7, -1, 0, static_cast<std::uint64_t>(kMs)});
  }
  shard::ShardData data;

 private:
  std::uint32_t receive_ = 0;
};

// Looking at the rest of the chain for each rank would take minutes.
TEST(UnfinishedCallsTest, FollowALongChainOfWaitingRanks) {
  constexpr std::int32_t kRanks = 65'536;
  ReceivesUnderWay run(kRanks);
  for (std::int32_t r = 1; r < kRanks; ++r) run.add(static_cast<std::uint32_t>(r), r - 1);
  waits::add_unfinished_waits(run.data);
  EXPECT_EQ(roots_of(run.data), (Rows{{"0 ?", (kRanks - 1) * kMs}}));
  EXPECT_EQ(run.data.root_causes.at(0).waiting_ranks, kRanks - 1u);
}

// Ranks 0, 1 and 2 wait for each other in a circle; 4 waits for 3, and that for 1.
TEST(UnfinishedCallsTest, OfACircleEachRankIsToBlameForTheOneBehindIt) {
  ReceivesUnderWay run(5);
  run.add(0, 1);
  run.add(1, 2);
  run.add(2, 0);
  run.add(3, 1);
  run.add(4, 3);
  run.add(2, 3, false);  // its chain comes back to rank 2 by way of 1
  run.add(4, 0, false);
  run.add(3, 4, false);  // and this one to rank 3 at once
  waits::add_unfinished_waits(run.data);
  EXPECT_EQ(roots_of(run.data), (Rows{{"0 MPI_Recv", 3 * kMs},     // of 1, 3 and 4
                                      {"1 MPI_Recv", 2 * kMs},     // of 2 and its other thread
                                      {"2 MPI_Recv", 2 * kMs},     // of 0 and the other thread of 4
                                      {"4 MPI_Recv", 1 * kMs}}));  // of the other thread of 3
}

TEST(TimeWindowsTest, LeaveInitAndFinalizeOut) {
  MadeRun run(2);
  // 0..200 ms work, 200..300 MPI_Init, then work; rank 1 is in it from 100 ms on.
  for (std::int32_t r = 0; r < 2; ++r) {
    run.collective(r, "MPI_Barrier", 400 * kMs, 401 * kMs, 0);
    run.ends[r] = 640 * kMs;
  }
  std::vector<shard::ShardData> shards = run.shards();
  shard::ShardData& data = shards[0];
  shard::PathInterner interner(data);
  const std::uint32_t init =
      interner.path(0, interner.frame({shard::FrameKind::kMpi, false, interner.string("MPI_Init")}));
  for (std::uint32_t r = 0; r < 2; ++r) {
    data.ranks[r].mpi_init_end_ns = 300 * kMs;
    const std::uint64_t in_init = (r == 0 ? 100 : 200) * kMs;
    data.mpi_calls.push_back({r, init, shard::kNone, 1, in_init, in_init, in_init, 0, 0});
    data.ranks[r].mpi_ns += in_init;
    for (shard::MpiEvent& event : data.mpi_events)
      if (event.rank == r) event.mpi_ns += in_init;
  }
  const shard::ShardData merged = MadeRun::analyse(shards);
  ASSERT_EQ(merged.time_windows.size(), 64u);
  std::uint64_t startup_ns = 0;
  for (const shard::TimeWindow& window : merged.time_windows) startup_ns += window.startup_ns;
  EXPECT_NEAR(static_cast<double>(startup_ns), 100e6, 100);  // what both were in
  EXPECT_EQ(merged.time_windows[19].startup_ns, 0u);
  EXPECT_NEAR(static_cast<double>(merged.time_windows[20].startup_ns), 10e6, 10);
  EXPECT_EQ(merged.time_windows[30].startup_ns, 0u);
}

TEST(TimeWindowsTest, AddUpToTheWholeRun) {
  MadeRun run(2);
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::int64_t begin = i * 64 * kMs;
    run.collective(0, "MPI_Barrier", begin + 32 * kMs, begin + 64 * kMs, i);
    run.collective(1, "MPI_Barrier", begin + 64 * kMs, begin + 64 * kMs, i);
  }
  const shard::ShardData data = run.analyse();
  ASSERT_EQ(data.time_windows.size(), 64u);
  EXPECT_EQ(data.time_windows[0].begin_ns, 0u);
  EXPECT_EQ(data.time_windows.back().end_ns, 640u * kMs);
  double mean = 0, waited = 0;
  for (const shard::TimeWindow& window : data.time_windows) {
    mean += window.useful_mean_ns;
    waited += static_cast<double>(window.wait_ns);
    EXPECT_NEAR(window.useful_max_ns, 10e6, 10) << "rank 1 works all the time";
  }
  EXPECT_NEAR(mean, 480e6, 100);
  EXPECT_NEAR(waited, 320e6, 100);
  // Windows of 10 ms: rank 0 works from 0 to 32 ms and waits from then on.
  EXPECT_NEAR(static_cast<double>(data.time_windows[0].wait_ns), 0, 10);
  EXPECT_NEAR(static_cast<double>(data.time_windows[3].wait_ns), 8e6, 10);
  EXPECT_NEAR(static_cast<double>(data.time_windows[4].wait_ns), 10e6, 10);
}

}  // namespace
}  // namespace clusterprof::aggregator::test
