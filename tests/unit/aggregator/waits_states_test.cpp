// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "aggregator/waits/trace.hpp"
#include "formats/shard/tables.hpp"
#include "formats/wire/c10d_functions.h"
#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::aggregator::test {
namespace {

using Rows = std::map<std::string, std::int64_t>;

TEST(WaitStatesTest, IsNotAnalysedWithoutEvents) {
  MadeRun run(2);
  const shard::ShardData data = run.analyse();
  EXPECT_FALSE(data.wait_analysis.done);
  EXPECT_TRUE(data.wait_states.empty());
  EXPECT_EQ(data.ranks[0].flags & shard::kWaitKnown, 0u);
}

// Rank 1 was outside of its window when it sent the first message and joined the second barrier.
TEST(WaitStatesTest, WhatAPartnerDidOutsideOfItsWindowIsNotMissing) {
  const auto made = [](bool in_windows) {
    MadeRun run(2);
    run.receive(0, 1, 10 * kMs, 31 * kMs, 0);
    run.receive(0, 1, 40 * kMs, 51 * kMs, 1);
    run.send(1, 0, 50 * kMs, 51 * kMs, 1);
    run.collective(0, "MPI_Barrier", 60 * kMs, 80 * kMs, 0);
    run.collective(1, "MPI_Barrier", 75 * kMs, 80 * kMs, 0);
    run.collective(0, "MPI_Barrier", 90 * kMs, 95 * kMs, 1);
    std::vector<shard::ShardData> shards = run.shards();
    if (in_windows) shards[0].recording_windows = {{0, 0, 100 * kMs}, {1, 45 * kMs, 85 * kMs}};
    return run.analyse(shards);
  };
  const shard::ShardData whole = made(false), cut = made(true);
  EXPECT_EQ(whole.wait_analysis.unmatched_messages, 1u);
  EXPECT_EQ(whole.wait_analysis.unmatched_collectives, 1u);
  EXPECT_EQ(cut.wait_analysis.messages, 1u);
  EXPECT_EQ(cut.wait_analysis.unmatched_messages, 0u);
  EXPECT_EQ(cut.wait_analysis.collectives, 1u);
  EXPECT_EQ(cut.wait_analysis.unmatched_collectives, 0u);
  EXPECT_EQ(cut.wait_analysis.ideal_ns, 0u);
  EXPECT_EQ(waits_of(cut), waits_of(whole));
  EXPECT_EQ(waits_of(cut).size(), 2u);
  // With a light recording only waiting in windows is known, with --standby there is no other.
  EXPECT_EQ(cut.ranks[0].flags & shard::kWaitKnown, 0u);
}

TEST(WaitStatesTest, ReceiverWaitsForLateSender) {
  MadeRun run(2);
  run.receive(1, 0, 10 * kMs, 31 * kMs);
  run.add(0, {MpiEventKind::kSend,
              "MPI_Send",
              "MPI_Send",
              30 * kMs,
              31 * kMs,
              1,
              0,
              0,
              -1,
              0,
              1,
              0,
              {{"work", 30}}});
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"1 MPI_Recv late_sender 0 work", 20 * kMs}}));
  ASSERT_EQ(data.wait_states.size(), 1u);
  EXPECT_EQ(data.wait_states[0].count, 1u);
  EXPECT_EQ(data.ranks[1].mpi_wait_ns, 20u * kMs);
  EXPECT_EQ(data.ranks[0].mpi_wait_ns, 0u);
  EXPECT_NE(data.ranks[0].flags & shard::kWaitKnown, 0u);
  EXPECT_TRUE(data.wait_analysis.done);
  EXPECT_EQ(data.wait_analysis.messages, 1u);
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
  EXPECT_EQ(roots_of(data), (Rows{{"0 work", 20 * kMs}}));
  ASSERT_EQ(data.root_causes.size(), 1u);
  EXPECT_EQ(data.root_causes[0].waiting_ranks, 1u);
}

// A send that was cancelled, and the next one, which takes its number.
TEST(WaitStatesTest, OfSendsWithTheSameNumberTheLastIsMatched) {
  MadeRun run(2);
  run.send(0, 1, 5 * kMs, 6 * kMs);
  run.send(0, 1, 30 * kMs, 31 * kMs);
  run.receive(1, 0, 10 * kMs, 31 * kMs);
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(data.ranks[1].mpi_wait_ns, 20u * kMs);
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
}
TEST(WaitStatesTest, ReceiverDoesNotWaitIfTheSendCameFirst) {
  MadeRun run(2);
  run.send(0, 1, 5 * kMs, 6 * kMs);
  run.receive(1, 0, 10 * kMs, 31 * kMs);
  EXPECT_TRUE(run.analyse().wait_states.empty());
}

TEST(WaitStatesTest, SendThatEndedBeforeItsReceiveBeganDidNotWait) {
  MadeRun run(2);
  run.send(0, 1, 0, 40 * kMs, 0);
  run.send(0, 1, 50 * kMs, 51 * kMs, 1);  // buffered
  run.receive(1, 0, 30 * kMs, 40 * kMs, 0);
  run.receive(1, 0, 90 * kMs, 91 * kMs, 1);
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"0 MPI_Send late_receiver 1 calls MPI_Recv", 30 * kMs}}));
}

TEST(WaitStatesTest, ChargesLateReceiverToTheCompletingCall) {
  MadeRun run(2);
  run.add(0, {MpiEventKind::kSend, "MPI_Issend", "MPI_Issend", 0, 1 * kMs, 1, 7, 0, -1,
              wire::kEventSynchronous | wire::kEventNonblocking});
  run.add(0, {MpiEventKind::kSendDone, "MPI_Issend", "MPI_Wait", 10 * kMs, 40 * kMs, 1, 7, 0, 0,
              wire::kEventSynchronous});
  // Posted by an earlier call, in the middle of what is a gap between events.
  run.add(1, {MpiEventKind::kReceive,
              "MPI_Irecv",
              "MPI_Waitall",
              60 * kMs,
              61 * kMs,
              0,
              7,
              0,
              35 * kMs,
              wire::kEventNonblocking,
              1,
              0,
              {{"solve", 5}}});
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"0 MPI_Wait late_receiver 1 solve", 25 * kMs}}));
}

TEST(WaitStatesTest, WaitallWaitsForTheLastOperation) {
  MadeRun run(4);
  for (const auto& [from, at] : {std::pair{1, 20}, std::pair{2, 50}, std::pair{3, 40}}) {
    run.send(from, 0, at * kMs, at * kMs + 1);
    run.add(0, {MpiEventKind::kReceive, "MPI_Irecv", "MPI_Waitall", 10 * kMs, 51 * kMs, from, 0, 0, 1 * kMs,
                wire::kEventNonblocking});
  }
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Waitall late_sender 2 calls MPI_Send", 40 * kMs}}));
  EXPECT_EQ(data.ranks[0].mpi_wait_ns, 40u * kMs);
}

TEST(WaitStatesTest, SendrecvCountsAsOneCall) {
  MadeRun run(3);  // 0 sends to 1, which receives early, and receives from 2, which sends late
  run.add(0, {MpiEventKind::kSend, "MPI_Sendrecv", "MPI_Sendrecv", 10 * kMs, 51 * kMs, 1, 0, 0});
  run.add(0, {MpiEventKind::kReceive, "MPI_Sendrecv", "MPI_Sendrecv", 10 * kMs, 51 * kMs, 2, 0, 0});
  run.receive(1, 0, 20 * kMs, 21 * kMs);
  run.send(2, 0, 50 * kMs, 51 * kMs);
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"0 MPI_Sendrecv late_sender 2 calls MPI_Send", 40 * kMs}}));
}

TEST(WaitStatesTest, MatchesReceivesThatCompleteOutOfOrder) {
  MadeRun run(2);
  run.send(0, 1, 20 * kMs, 21 * kMs, 0);
  run.send(0, 1, 60 * kMs, 61 * kMs, 1);
  // The one posted first is for the first message, but it is asked for last.
  run.add(1, {MpiEventKind::kReceive, "MPI_Irecv", "second", 10 * kMs, 61 * kMs, 0, 0, 0, 2 * kMs,
              wire::kEventNonblocking});
  run.add(1, {MpiEventKind::kReceive, "MPI_Irecv", "first", 62 * kMs, 63 * kMs, 0, 0, 1, 1 * kMs,
              wire::kEventNonblocking});
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"1 second late_sender 0 calls MPI_Send", 49 * kMs},
                                           {"1 second late_sender 0 MPI_Send", 1 * kMs}}));
}

TEST(WaitStatesTest, MatchesWildcardReceivesByTheirStatus) {
  MadeRun run(3);  // both receives take from anyone with any tag; the wrapper knows who it was
  run.add(2, {MpiEventKind::kReceive, "MPI_Recv", "MPI_Recv", 0, 10 * kMs, 1, 5, 0});
  run.add(2, {MpiEventKind::kReceive, "MPI_Recv", "MPI_Recv", 11 * kMs, 30 * kMs, 0, 9, 0});
  run.add(1, {MpiEventKind::kSend, "MPI_Send", "MPI_Send", 10 * kMs, 10 * kMs, 2, 5, 0});
  run.add(0, {MpiEventKind::kSend, "MPI_Send", "MPI_Send", 30 * kMs, 30 * kMs, 2, 9, 0});
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"2 MPI_Recv late_sender 1 calls MPI_Send", 10 * kMs},
                                           {"2 MPI_Recv late_sender 0 calls MPI_Send", 19 * kMs}}));
}

TEST(WaitStatesTest, BlockingProbeWaitsForLateSender) {
  MadeRun run(2);
  run.add(1, {MpiEventKind::kProbe, "MPI_Mprobe", "MPI_Mprobe", 0, 25 * kMs, 0, 0, 0});
  run.add(1, {MpiEventKind::kReceive, "MPI_Mrecv", "MPI_Mrecv", 26 * kMs, 27 * kMs, 0, 0, 0});
  run.send(0, 1, 25 * kMs, 25 * kMs + 1);
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"1 MPI_Mprobe late_sender 0 calls MPI_Send", 25 * kMs}}));
  EXPECT_EQ(data.wait_analysis.messages, 1u);
}

// Two requests of one tag. The receiver asks for the first one's partitions, and waits for the second one.
TEST(WaitStatesTest, PartitionedMessagesWaitForTheirLastPartition) {
  const wire::PartitionedName first = wire::partitioned_name(5, 0), second = wire::partitioned_name(5, 1);
  MadeRun run(2);
  const auto add = [&](std::int32_t rank, MpiEventKind kind, const char* site, std::int64_t enter,
                       std::int64_t exit, const wire::PartitionedName& name, std::uint32_t start_number,
                       std::int64_t start) {
    run.add(rank, {kind, rank == 0 ? "MPI_Psend_init" : "MPI_Precv_init", site, enter * kMs, exit * kMs,
                   1 - rank, name.tag, name.first ^ start_number, start * kMs, wire::kEventNonblocking});
  };
  add(1, MpiEventKind::kProbe, "MPI_Parrived", 2, 11, first, 0, 2);
  add(1, MpiEventKind::kReceive, "MPI_Wait", 12, 31, second, 0, 1);
  add(1, MpiEventKind::kReceive, "MPI_Wait", 32, 33, first, 0, 1);
  add(0, MpiEventKind::kSend, "MPI_Pready", 10, 11, first, 0, 10);
  add(0, MpiEventKind::kSend, "MPI_Pready_range", 30, 31, second, 0, 30);
  add(0, MpiEventKind::kSendDone, "MPI_Wait", 31, 32, second, 0, 30);
  add(0, MpiEventKind::kSendDone, "MPI_Wait", 32, 33, first, 0, 10);
  // The second one once more. Now the receiver starts it too late.
  add(0, MpiEventKind::kSend, "MPI_Pready", 34, 35, second, 1, 34);
  add(0, MpiEventKind::kSendDone, "MPI_Waitall", 36, 51, second, 1, 34);
  add(1, MpiEventKind::kReceive, "MPI_Wait", 50, 51, second, 1, 48);
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"1 MPI_Parrived late_sender 0 calls MPI_Pready", 8 * kMs},
                                  {"1 MPI_Wait late_sender 0 calls MPI_Pready_range", 18 * kMs},
                                  {"0 MPI_Waitall late_receiver 1 calls MPI_Wait", 12 * kMs}}));
  EXPECT_EQ(data.wait_analysis.messages, 3u);
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
}

// From start 4096 on, the numbers of these messages are lower than before.
TEST(WaitStatesTest, PartitionedMessagesKeepTheirNumbers) {
  constexpr std::uint32_t kStarts = 5000;
  const wire::PartitionedName name = wire::partitioned_name(65536, 0);
  ASSERT_LT(name.first ^ 4096u, name.first);
  MadeRun run(2);
  for (std::uint32_t n = 0; n < kStarts; ++n) {
    const std::int64_t at = n * kMs;
    run.add(0, {MpiEventKind::kSend, "MPI_Psend_init", "MPI_Pready", at + 1, at + 2, 1, name.tag,
                name.first ^ n, at + 1, wire::kEventNonblocking});
    run.add(1, {MpiEventKind::kReceive, "MPI_Precv_init", "MPI_Wait", at + kMs / 2, at + kMs / 2 + 1, 0,
                name.tag, name.first ^ n, at, wire::kEventNonblocking});
  }
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), Rows{}) << "each message was there when its receive was asked for";
  EXPECT_EQ(data.wait_analysis.messages, kStarts);
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
}

// The first message is found by MPI_Mprobe, the second by MPI_Improbe, and the third one is received before
// them.
TEST(WaitStatesTest, ReceivesOfMatchedProbesKeepTheNumbersOfWhatWasFound) {
  MadeRun run(2);
  run.send(0, 1, 10 * kMs, 11 * kMs, 0);
  run.send(0, 1, 20 * kMs, 21 * kMs, 1);
  run.send(0, 1, 60 * kMs, 61 * kMs, 2);
  run.add(1, {MpiEventKind::kProbe, "MPI_Mprobe", "MPI_Mprobe", 22 * kMs, 23 * kMs, 0, 0, 0});
  run.add(1, {MpiEventKind::kReceive, "MPI_Recv", "MPI_Recv", 30 * kMs, 61 * kMs, 0, 0, 2});
  run.add(1, {MpiEventKind::kReceive, "MPI_Mrecv", "MPI_Mrecv", 62 * kMs, 63 * kMs, 0, 0, 1});
  run.add(1, {MpiEventKind::kReceive, "MPI_Imrecv", "MPI_Wait", 65 * kMs, 66 * kMs, 0, 0, 0, 64 * kMs,
              wire::kEventNonblocking});
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"1 MPI_Recv late_sender 0 calls MPI_Send", 30 * kMs}}));
  EXPECT_EQ(data.wait_analysis.messages, 3u);
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
}

TEST(WaitStatesTest, KeepsTagsChannelsAndSequencesApart) {
  MadeRun run(2);
  run.sizes[2] = 2;
  const auto pair = [&](std::int32_t tag, std::uint64_t channel, std::int64_t at) {
    run.add(0, {MpiEventKind::kSend, "MPI_Send", "MPI_Send", at * kMs, at * kMs, 1, tag, 0, -1, 0, channel});
  };
  pair(1, 1, 10);
  pair(2, 1, 20);
  pair(1, 2, 30);
  run.add(1, {MpiEventKind::kReceive, "MPI_Recv", "a", 0, 30 * kMs, 0, 1, 0, -1, 0, 2});
  run.add(1, {MpiEventKind::kReceive, "MPI_Recv", "b", 31 * kMs, 32 * kMs, 0, 2, 0, -1, 0, 1});
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"1 a late_sender 0 calls MPI_Send", 30 * kMs}}));
  EXPECT_EQ(data.wait_analysis.messages, 3u);
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 1u);
}

TEST(WaitStatesTest, AllMembersOfBarrierAndNxNWaitForTheLast) {
  MadeRun run(3);
  for (std::int32_t r = 0; r < 3; ++r) run.collective(r, "MPI_Barrier", (10 + 10 * r) * kMs, 31 * kMs, 0);
  // Rank 2 leaves before rank 0 comes, as no data for it was missing.
  run.collective(0, "MPI_Alltoallv", 80 * kMs, 81 * kMs, 1);
  run.collective(1, "MPI_Alltoallv", 50 * kMs, 81 * kMs, 1);
  run.collective(2, "MPI_Alltoallv", 40 * kMs, 60 * kMs, 1);
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Barrier wait_at_barrier 2 calls MPI_Barrier", 20 * kMs},
                                  {"1 MPI_Barrier wait_at_barrier 2 calls MPI_Barrier", 10 * kMs},
                                  {"1 MPI_Alltoallv wait_at_nxn 0 calls MPI_Alltoallv", 30 * kMs},
                                  {"2 MPI_Alltoallv wait_at_nxn 0 calls MPI_Alltoallv", 20 * kMs}}));
  EXPECT_EQ(data.wait_analysis.collectives, 2u);
}

TEST(WaitStatesTest, RootedOperationsAndScanWaitForTheRanksTheyNeed) {
  MadeRun run(3);
  run.collective(0, "MPI_Bcast", 10 * kMs, 41 * kMs, 0, 1);
  run.collective(1, "MPI_Bcast", 40 * kMs, 41 * kMs, 0, 1);
  run.collective(2, "MPI_Bcast", 50 * kMs, 51 * kMs, 0, 1);
  run.collective(0, "MPI_Gatherv", 60 * kMs, 91 * kMs, 1, 0);
  run.collective(1, "MPI_Gatherv", 90 * kMs, 91 * kMs, 1, 0);
  run.collective(2, "MPI_Gatherv", 70 * kMs, 71 * kMs, 1, 0);
  run.collective(0, "MPI_Scan", 120 * kMs, 121 * kMs, 2);
  run.collective(1, "MPI_Scan", 100 * kMs, 121 * kMs, 2);
  run.collective(2, "MPI_Scan", 110 * kMs, 121 * kMs, 2);
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"0 MPI_Bcast late_broadcast 1 calls MPI_Bcast", 30 * kMs},
                                           {"0 MPI_Gatherv early_reduce 1 calls MPI_Gatherv", 30 * kMs},
                                           {"1 MPI_Scan early_scan 0 calls MPI_Scan", 20 * kMs},
                                           {"2 MPI_Scan early_scan 0 calls MPI_Scan", 10 * kMs}}));
}

TEST(WaitStatesTest, RootsMayBeKnownByTheirNumberInTheGroup) {
  // Ranks 1 and 3 have the numbers 1 and 0 in a group of their own; number 0 is the root.
  MadeRun run(4);
  run.sizes[50] = 2;
  const auto broadcast = [&](std::int32_t rank, std::int32_t number, std::int64_t enter, std::int32_t root) {
    MadeEvent event{MpiEventKind::kCollective, "broadcast", "MPI_Bcast", enter, 41 * kMs, root, number};
    event.channel = 50;
    event.flags = wire::kEventPeerInGroup;
    run.add(rank, event);
  };
  broadcast(1, 1, 10 * kMs, 0);
  broadcast(3, 0, 40 * kMs, 0);
  run.collective(0, "MPI_Barrier", 50 * kMs, 51 * kMs, 0);
  run.collective(2, "MPI_Barrier", 50 * kMs, 51 * kMs, 0);
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"1 MPI_Bcast late_broadcast 3 calls MPI_Bcast", 30 * kMs}}));
}

// Members that know each other's numbers on channel 50 only.
class Numbers {
 public:
  explicit Numbers(MadeRun& run) : run_(run) { run_.sizes[50] = 2; }
  void are(std::vector<std::int32_t> ranks) {
    for (std::size_t i = 0; i < ranks.size(); ++i)
      run_.numbers.push_back({ranks[i], 50, static_cast<std::int32_t>(i)});
  }
  void send(std::int32_t rank, std::int32_t to, std::int64_t enter) {
    add(rank, {MpiEventKind::kSend, "send", "MPI_Send", enter, enter + 1 * kMs, to, 7});
  }
  void receive(std::int32_t rank, std::int32_t from, std::int64_t enter, std::int64_t exit) {
    add(rank, {MpiEventKind::kReceive, "recv", "MPI_Recv", enter, exit, from, 7});
  }

 private:
  void add(std::int32_t rank, MadeEvent event) {
    event.channel = 50;
    event.flags = wire::kEventPeerInGroup;
    run_.add(rank, event);
  }
  MadeRun& run_;
};

TEST(WaitStatesTest, OtherSidesOfMessagesMayBeKnownByTheirNumberInTheGroup) {
  // On two nodes; ranks 3 and 1 have the numbers 0 and 1.
  MadeRun run(4, 2);
  Numbers group(run);
  group.are({3, 1});
  run.measure_clock(0, 0, 0, 0, 0);
  run.measure_clock(2, 0, 0, 0, 1000);
  group.send(3, 1, 40 * kMs);
  group.receive(1, 0, 10 * kMs, 41 * kMs);
  const shard::ShardData data = run.analyse();
  const Rows waits = waits_of(data);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits.begin()->first, "1 MPI_Recv late_sender 3 calls MPI_Send");
  EXPECT_NEAR(static_cast<double>(waits.begin()->second), 30 * kMs, 1000) << "the clocks' error";
  EXPECT_EQ(data.wait_analysis.messages, 1u);
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
}

TEST(WaitStatesTest, NumbersInAGroupAreThoseOfRanksThatWereStartedTogether) {
  // Ranks 2 and 3 are 0 and 1 again. Both starts make a group of the same name.
  MadeRun run(4);
  run.restarts = {{2, 1}, {3, 1}};
  Numbers group(run);
  group.are({0, 1});
  group.are({2, 3});
  group.send(0, 1, 20 * kMs);
  group.receive(1, 0, 10 * kMs, 21 * kMs);
  group.send(2, 1, 140 * kMs);
  group.receive(3, 0, 110 * kMs, 141 * kMs);
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const std::int64_t begin = rank < 2 ? 30 * kMs : 150 * kMs;
    MadeEvent event{MpiEventKind::kCollective, "barrier", "MPI_Barrier", begin + rank % 2 * kMs,
                    begin + 2 * kMs,           -1,        rank % 2};
    event.channel = 50;
    run.add(rank, event);
  }
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"1 MPI_Recv late_sender 0 calls MPI_Send", 10 * kMs},
                                  {"3 MPI_Recv late_sender 2 calls MPI_Send", 30 * kMs},
                                  {"0 MPI_Barrier wait_at_barrier 1 calls MPI_Barrier", 1 * kMs},
                                  {"2 MPI_Barrier wait_at_barrier 3 calls MPI_Barrier", 1 * kMs}}));
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
  EXPECT_EQ(data.wait_analysis.unmatched_collectives, 0u);
}

TEST(WaitStatesTest, MessagesToMembersThatNobodyKnowsAreNotLookedAt) {
  MadeRun run(2);
  Numbers group(run);
  group.are({0});
  group.send(0, 1, 20 * kMs);  // of a group whose other member is in a process that is no rank
  group.receive(1, 0, 10 * kMs, 21 * kMs);
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(data.wait_analysis.messages, 1u) << "the receive";
}

TEST(WaitStatesTest, AGroupMayLackTheRootThatItsEventsName) {
  MadeRun run(2);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    MadeEvent event{
        MpiEventKind::kCollective, "broadcast", "MPI_Bcast", (10 + rank) * kMs, 41 * kMs, 7, rank};
    event.flags = wire::kEventPeerInGroup;
    run.add(rank, event);
  }
  EXPECT_EQ(waits_of(run.analyse()), Rows{});
}

TEST(WaitStatesTest, ScansFollowTheRankOrderOfTheCommunicator) {
  MadeRun run(3);  // in which the last rank of the world is the first
  run.add(2, {MpiEventKind::kCollective, "MPI_Scan", "MPI_Scan", 120 * kMs, 121 * kMs, -1, 0, 0});
  run.add(1, {MpiEventKind::kCollective, "MPI_Scan", "MPI_Scan", 100 * kMs, 121 * kMs, -1, 1, 0});
  run.add(0, {MpiEventKind::kCollective, "MPI_Scan", "MPI_Scan", 90 * kMs, 121 * kMs, -1, 2, 0});
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"0 MPI_Scan early_scan 2 calls MPI_Scan", 30 * kMs},
                                           {"1 MPI_Scan early_scan 2 calls MPI_Scan", 20 * kMs}}));
}

TEST(WaitStatesTest, SendrecvWaitsForTheMessageItReceives) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) {
    const std::int64_t enter = (r == 0 ? 10 : 50) * kMs;
    run.add(r, {MpiEventKind::kSend, "MPI_Sendrecv", "MPI_Sendrecv", enter, 51 * kMs, 1 - r, 0, 0});
    run.add(r, {MpiEventKind::kReceive, "MPI_Sendrecv", "MPI_Sendrecv", enter, 51 * kMs, 1 - r, 0, 0});
  }
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"0 MPI_Sendrecv late_sender 1 calls MPI_Sendrecv", 40 * kMs}}));
}

TEST(WaitStatesTest, ChargesNonblockingCollectivesToTheCompletingCall) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) {
    const std::int64_t start = (r == 0 ? 5 : 50) * kMs, enter = (r == 0 ? 20 : 60) * kMs;
    run.add(r,
            {MpiEventKind::kCollectiveStart, "MPI_Iallreduce", "MPI_Iallreduce", start, start + 1, -1, 0, 0});
    run.add(r,
            {MpiEventKind::kCollectiveDone, "MPI_Iallreduce", "MPI_Wait", enter, 61 * kMs, -1, 0, 0, start});
  }
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Wait wait_at_nxn 1 calls MPI_Iallreduce", 30 * kMs}}));
  EXPECT_EQ(data.wait_analysis.collectives, 1u);
  EXPECT_EQ(data.wait_analysis.unmatched_collectives, 0u);
}

TEST(WaitStatesTest, NonblockingCollectiveWithoutItsStartEventIsAnalysed) {
  MadeRun run(2);
  run.add(0,
          {MpiEventKind::kCollectiveDone, "MPI_Ibarrier", "MPI_Wait", 20 * kMs, 61 * kMs, -1, 0, 0, 5 * kMs});
  run.add(
      1, {MpiEventKind::kCollectiveDone, "MPI_Ibarrier", "MPI_Wait", 60 * kMs, 61 * kMs, -1, 0, 0, 45 * kMs});
  EXPECT_EQ(waits_of(run.analyse()), (Rows{{"0 MPI_Wait wait_at_barrier 1 calls MPI_Wait", 25 * kMs}}));
}

TEST(WaitStatesTest, CountsCollectivesThatLackAMember) {
  MadeRun run(3);
  for (std::int32_t r = 0; r < 3; ++r) run.collective(r, "MPI_Barrier", 10 * kMs * r, 20 * kMs, 0);
  run.collective(0, "MPI_Barrier", 30 * kMs, 40 * kMs, 1);  // rank 2's event was lost
  run.collective(1, "MPI_Barrier", 35 * kMs, 40 * kMs, 1);
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(data.wait_analysis.collectives, 2u);
  EXPECT_EQ(data.wait_analysis.unmatched_collectives, 1u);
  EXPECT_EQ(data.wait_analysis.ideal_ns, 0u) << "too much is missing for a replay";
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Barrier wait_at_barrier 2 calls MPI_Barrier", 20 * kMs},
                                  {"1 MPI_Barrier wait_at_barrier 2 calls MPI_Barrier", 10 * kMs}}));
}

TEST(WaitStatesTest, AnalysesCollectivesWithoutMissingRanks) {
  MadeRun run(3);
  for (std::int32_t r = 0; r < 3; ++r) run.collective(r, "MPI_Barrier", 10 * kMs * (r + 1), 31 * kMs, 0);
  run.receive(0, 2, 40 * kMs, 50 * kMs);
  run.left_out[2] = true;
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Barrier wait_at_barrier 1 calls MPI_Barrier", 10 * kMs}}));
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 1u);
  EXPECT_EQ(data.wait_analysis.ideal_ns, 0u);
  EXPECT_EQ(data.run.notes, std::vector{note_of_run(shard::NoteCode::kRanksWithoutEvents, 1)});
}

TEST(WaitStatesTest, CommunicatorOfUnknownSizeHasTheMembersThatAreSeen) {
  MadeRun run(3);
  run.sizes[9] = 0;
  const auto barrier = [&](std::int32_t rank, std::int64_t at, std::uint32_t sequence) {
    run.add(rank, {MpiEventKind::kCollective, "MPI_Barrier", "MPI_Barrier", at * kMs, at * kMs + 30 * kMs, -1,
                   0, sequence, -1, 0, 9});
  };
  barrier(0, 10, 0);
  barrier(2, 20, 0);
  barrier(0, 60, 1);
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"0 MPI_Barrier wait_at_barrier 2 calls MPI_Barrier", 10 * kMs}}));
  EXPECT_EQ(data.wait_analysis.unmatched_collectives, 1u);
}

TEST(WaitStatesTest, ThreadsWaitIndependently) {
  MadeRun run(2);
  run.add(0, {MpiEventKind::kReceive, "MPI_Recv", "main", 0, 20 * kMs, 1, 1, 0});
  run.add(0, {MpiEventKind::kReceive, "MPI_Recv", "helper", 5 * kMs, 30 * kMs, 1, 2, 0, -1, 0, 1, 1});
  run.add(1, {MpiEventKind::kSend, "MPI_Send", "MPI_Send", 20 * kMs, 21 * kMs, 0, 1, 0});
  run.add(1, {MpiEventKind::kSend, "MPI_Send", "MPI_Send", 30 * kMs, 31 * kMs, 0, 2, 0});
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(waits_of(data), (Rows{{"0 main late_sender 1 calls MPI_Send", 20 * kMs},
                                  {"0 helper late_sender 1 calls MPI_Send", 24 * kMs},
                                  {"0 helper late_sender 1 MPI_Send", 1 * kMs}}));
  EXPECT_EQ(data.ranks[0].mpi_wait_ns, 20u * kMs) << "of the main thread";
}

TEST(WaitStatesTest, RankRecordedTwiceIsAnalysedOnce) {
  MadeRun run(2);
  run.receive(1, 0, 10 * kMs, 31 * kMs);
  run.send(0, 1, 30 * kMs, 31 * kMs);
  std::vector<shard::ShardData> shards = run.shards();
  shard::ShardData old = shards[0];  // what a collector that died had seen of both
  old.nodes[0].name = "old";
  for (shard::Rank& rank : old.ranks) rank.elapsed_ns /= 2, rank.flags |= shard::kLost;
  shards.push_back(old);
  const shard::ShardData data = MadeRun::analyse(shards);
  EXPECT_EQ(data.wait_analysis.events, 2u);
  EXPECT_EQ(data.ranks[1].mpi_wait_ns, 20u * kMs);
  EXPECT_EQ(data, MadeRun::analyse(shards, true));
}

TEST(WaitStatesTest, OperationsHaveTheirKindOfSynchronisation) {
  using waits::Sync;
  using waits::sync_of;
  for (const char* op : {"MPI_Barrier", "MPI_Ibarrier", "MPI_Barrier_init", "MPI_Finalize", "MPI_Win_fence"})
    EXPECT_EQ(sync_of(op), Sync::kBarrier) << op;
  for (const char* op :
       {"MPI_Allreduce", "MPI_Ialltoallw_c", "MPI_Allgatherv_init_c", "MPI_Comm_dup", "MPI_Comm_split",
        "MPI_File_write_all", "MPI_Reduce_scatter", "MPI_Ireduce_scatter_block_c"})
    EXPECT_EQ(sync_of(op), Sync::kNxN) << op;
  for (const char* op : {"MPI_Bcast", "MPI_Ibcast_c", "MPI_Iscatterv", "MPI_Scatter_init"})
    EXPECT_EQ(sync_of(op), Sync::kOneToAll) << op;
  for (const char* op : {"MPI_Reduce", "MPI_Ireduce", "MPI_Reduce_init_c", "MPI_Gatherv_c", "MPI_Igather"})
    EXPECT_EQ(sync_of(op), Sync::kAllToOne) << op;
  for (const char* op : {"MPI_Scan", "MPI_Iexscan_c"}) EXPECT_EQ(sync_of(op), Sync::kScan) << op;
}

TEST(WaitStatesTest, KindsOfSynchronisationAgreeWithTheSpecification) {
  const auto said = [](wire::MpiSync sync) -> std::optional<waits::Sync> {
    switch (sync) {
      case wire::MpiSync::kNone:
        break;
      case wire::MpiSync::kBarrier:
        return waits::Sync::kBarrier;
      case wire::MpiSync::kNxN:
        return waits::Sync::kNxN;
      case wire::MpiSync::k1xN:
        return waits::Sync::kOneToAll;
      case wire::MpiSync::kNx1:
        return waits::Sync::kAllToOne;
      case wire::MpiSync::kScan:
        return waits::Sync::kScan;
    }
    return {};
  };
  int collective = 0;
  for (std::uint32_t i = 0; i < wire::kFunctionCount; ++i) {
    const std::optional<waits::Sync> sync = said(wire::function_sync(i));
    if (!sync) continue;
    ++collective;
    EXPECT_EQ(waits::sync_of(wire::function_name(i)), *sync) << wire::function_name(i);
  }
  EXPECT_GT(collective, 160);
}

TEST(WaitStatesTest, MessagesOfARankWithoutANumberStayUnmatched) {
  MadeRun run(2);
  run.receive(1, -1, 10 * kMs, 31 * kMs);
  run.send(0, 1, 30 * kMs, 31 * kMs);
  std::vector<shard::ShardData> shards = run.shards();
  shards[0].ranks[0].rank = -1;
  const shard::ShardData data = MadeRun::analyse(shards);
  EXPECT_TRUE(data.wait_states.empty());
  EXPECT_EQ(data.wait_analysis.unmatched_messages, 2u);
}

// A root that waits for all others in one call, and for which all others wait.
TEST(WaitStatesTest, CallWithThousandsOfOperationsWaitsForTheLast) {
  constexpr std::int32_t kRanks = 3000;
  MadeRun run(kRanks);
  for (std::int32_t r = 1; r < kRanks; ++r) {
    run.send(r, 0, 20 * kMs + r, 21 * kMs);
    run.add(0, {MpiEventKind::kReceive, "MPI_Irecv", "MPI_Waitall", 10 * kMs, 30 * kMs, r, 0, 0, 1 * kMs,
                wire::kEventNonblocking});
  }
  for (std::int32_t r = 1; r < kRanks; ++r) {
    run.add(0, {MpiEventKind::kSend, "MPI_Send_init", "MPI_Startall", 50 * kMs, 51 * kMs, r, 1, 0, -1,
                wire::kEventNonblocking});
    run.add(r, {MpiEventKind::kReceive, "MPI_Recv", "MPI_Recv", 22 * kMs, 52 * kMs, 0, 1, 0});
  }
  const shard::ShardData data = run.analyse();
  EXPECT_EQ(data.ranks[0].mpi_wait_ns, 10u * kMs + kRanks - 1);
  EXPECT_EQ(data.ranks[kRanks - 1].mpi_wait_ns, 28u * kMs);
  EXPECT_EQ(data.wait_analysis.ideal_ns, 40u * kMs + kRanks - 1) << "20 + r, 20 more until the start";
}

// Whatever a formally valid file contains, there is no crash and no endless loop, and the tables can be
// written.
TEST(WaitStatesTest, SurvivesImpossibleEvents) {
  std::mt19937_64 random(7);
  const auto odds = [&](std::uint64_t n) { return random() % n == 0; };
  const auto any = [&] {  // numbers at the limits, and near those that are there
    constexpr std::uint64_t kEdges[] = {0, 1, INT64_MAX, std::uint64_t{1} << 63, UINT64_MAX, 1'000'000};
    return odds(3) ? random() : kEdges[random() % 6] - random() % 2;
  };
  for (int round = 0; round < 300; ++round) {
    MadeRun run(6, 2);
    const std::uint64_t mutate = 1 + random() % 40;
    for (std::uint32_t i = 0; i < 20; ++i) {
      for (std::int32_t r = 0; r < 6; ++r) {
        const std::int64_t at = i * 10 * kMs + r * kMs;
        switch (i % 4) {
          case 0:
            run.collective(r, i % 8 == 0 ? "MPI_Scan" : "MPI_Allreduce", at, at + 3 * kMs, i);
            break;
          case 1:
            run.send(r, (r + 1) % 6, at, at + kMs, i);
            break;
          case 2:
            run.receive(r, (r + 5) % 6, at, at + kMs, i - 1);
            break;
          default:
            run.collective(r, i % 8 == 3 ? "MPI_Bcast" : "MPI_Reduce", at, at + 2 * kMs, i, r % 3);
        }
        if (i % 5 == 0) run.measure_clock(r, (r + 2) % 6, at, 100, 1000);
      }
    }
    std::vector<shard::ShardData> shards = run.shards();
    for (shard::ShardData& data : shards) {
      for (shard::MpiEvent& event : data.mpi_events) {
        if (!odds(mutate)) continue;
        if (odds(3)) event.enter_ns = any();
        if (odds(3)) event.exit_ns = any();
        if (odds(3)) event.start_ns = any();
        if (odds(3)) event.mpi_ns = any();
        if (odds(3)) event.sequence = odds(2) ? 0 : static_cast<std::uint32_t>(any());
        if (odds(3)) event.peer = odds(2) ? static_cast<std::int32_t>(any()) : 3;
        if (odds(3)) event.tag = static_cast<std::int32_t>(any());
        if (odds(3)) event.kind = static_cast<std::uint8_t>(random() % wire::kMpiEventKinds);
        if (odds(3)) event.flags = static_cast<std::uint8_t>(random());
        if (odds(4)) event.thread = static_cast<std::uint32_t>(random() % 3);
        if (odds(4)) event.path = static_cast<std::uint32_t>(random() % data.paths.size());
        if (odds(4)) event.communicator = shard::kNone;
        if (odds(4)) event.op = static_cast<std::uint32_t>(random() % data.strings.size());
        if (event.enter_ns > event.exit_ns) std::swap(event.enter_ns, event.exit_ns);
      }
      std::stable_sort(data.mpi_events.begin(), data.mpi_events.end(), [](const auto& a, const auto& b) {
        return std::tie(a.rank, a.thread, a.exit_ns) < std::tie(b.rank, b.thread, b.exit_ns);
      });
      for (std::uint32_t e = 0; e < data.mpi_events.size(); e += 3)
        data.event_gaps.push_back({e, static_cast<std::uint32_t>(random() % data.paths.size()), any()});
      for (shard::ClockOffset& offset : data.clock_offsets) {
        if (!odds(mutate)) continue;
        if (odds(2)) offset.local_ns = any();
        if (odds(2)) offset.offset_ns = static_cast<std::int64_t>(any());
        if (odds(2)) offset.error_ns = any();
        if (odds(2)) offset.reference_rank = static_cast<std::int32_t>(any());
      }
      for (shard::Rank& rank : data.ranks) {
        if (!odds(mutate)) continue;
        if (odds(2))
          rank.start_utc_ns =
              std::clamp(static_cast<std::int64_t>(any()), shard::kEarliest_utc_ns, shard::kLatest_utc_ns);
        const auto most_ns = static_cast<std::uint64_t>(shard::kLatest_utc_ns - rank.start_utc_ns);
        if (odds(2)) rank.elapsed_ns = any();
        rank.elapsed_ns = std::min(rank.elapsed_ns, most_ns);
        if (odds(2)) rank.mpi_ns = any();
        if (odds(2)) rank.mpi_operations = any();
        if (odds(4)) rank.event_level = static_cast<std::uint32_t>(any());
      }
      for (shard::Communicator& communicator : data.communicators)
        if (odds(mutate)) communicator.size = static_cast<std::uint32_t>(random() % 8);
      const Result<void> valid = shard::validate(data);
      ASSERT_TRUE(valid) << valid.error().message;
    }
    const shard::ShardData data = MadeRun::analyse(shards);
    const Result<void> valid = shard::validate(data);
    EXPECT_TRUE(valid) << "round " << round << ": " << valid.error().message;
    EXPECT_EQ(data, MadeRun::analyse(shards, true)) << "round " << round;
  }
}

}  // namespace
}  // namespace clusterprof::aggregator::test
