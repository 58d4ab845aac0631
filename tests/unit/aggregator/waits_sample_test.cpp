// SPDX-License-Identifier: BSD-3-Clause
// The analysis of waiting from a sample of the events.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::aggregator::test {
namespace {

// Rank 1 waits for each message of 1000 streams, over channels and tags, none of which has more than 20.
TEST(WaitSampleTest, ScalesUpManyShortStreams) {
  constexpr int kChannels = 40, kTags = 25, kMessages = 20, kWaits = kChannels * kTags * kMessages;
  MadeRun run(2);
  for (std::uint64_t channel = 1; channel <= kChannels; ++channel) run.sizes[100 + channel] = 2;
  std::mt19937_64 random(7);
  std::int64_t now = 0, waited = 0;
  for (std::uint32_t message = 0; message < kMessages; ++message) {
    for (std::uint64_t channel = 101; channel <= 100 + kChannels; ++channel) {
      for (std::int32_t tag = 0; tag < 64 * kTags; tag += 64) {
        const auto late = static_cast<std::int64_t>(kMs / 2 + static_cast<std::int64_t>(random() % kMs));
        run.add(0, {MpiEventKind::kSend, "MPI_Send", "MPI_Send", now + late, now + late + 1000, 1, tag,
                    message, -1, 0, channel});
        run.add(1, {MpiEventKind::kReceive, "MPI_Recv", "MPI_Recv", now, now + late + 1000, 0, tag, message,
                    -1, 0, channel});
        waited += late;
        now += late + 2000;
      }
    }
  }
  for (const std::uint32_t level : {0u, 2u, 4u}) {
    run.level = level;
    const shard::ShardData data = run.analyse();
    const double share = 1.0 / (1u << level);
    EXPECT_EQ(data.wait_analysis.event_level, level);
    EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
    EXPECT_NEAR(static_cast<double>(data.wait_analysis.messages) / kWaits, share, 0.2 * share);
    double found = 0, count = 0;
    for (const shard::WaitState& row : data.wait_states) {
      EXPECT_EQ(data.ranks[row.rank].rank, 1);
      EXPECT_EQ(data.ranks[row.cause_rank].rank, 0);
      found += static_cast<double>(row.wait_ns);
      count += static_cast<double>(row.count);
    }
    EXPECT_NEAR(count / kWaits, 1, 1e-3) << "level " << level;
    EXPECT_NEAR(found / static_cast<double>(waited), 1, 0.02) << "level " << level;
    // The same when the merge has to leave them out.
    run.level = 0;
    std::vector<shard::ShardData> all = run.shards();
    all[0].ranks[0].event_level = all[0].ranks[1].event_level = level;
    EXPECT_EQ(MadeRun::analyse(all), data);
    EXPECT_NEAR(static_cast<double>(data.ranks[1].mpi_wait_ns) / static_cast<double>(waited), 1, 0.02);
  }
}

// Rank 0 waits for rank 1, which waits for rank 2: who is to blame shows only where the messages of both
// pairs were kept from the same iterations.
TEST(WaitSampleTest, FindsRootCausesBehindLateRanks) {
  MadeRun run(3);
  constexpr std::uint32_t kIterations = 6000;
  std::int64_t now = 0;
  for (std::uint32_t i = 0; i < kIterations; ++i) {
    const std::int64_t sent = now + 5 * kMs, passed_on = sent + kMs / 100;
    run.add(2, {MpiEventKind::kSend,
                "MPI_Send",
                "MPI_Send",
                sent,
                sent + 1000,
                1,
                0,
                i,
                -1,
                0,
                1,
                0,
                {{"late", 5 * kMs}}});
    run.receive(1, 2, now, sent + 1000, i);
    run.send(1, 0, passed_on, passed_on + 1000, i);
    run.receive(0, 1, now, passed_on + 1000, i);
    now += 6 * kMs;
  }
  for (const std::uint32_t level : {0u, 3u, 5u}) {
    run.level = level;
    const shard::ShardData data = run.analyse();
    EXPECT_LT(data.wait_analysis.events, kIterations * 4 / (1u << level) * 3 / 2);
    double late = 0, all = 0;
    for (const auto& [row, ns] : roots_of(data)) {
      all += static_cast<double>(ns);
      if (row == "2 late") late += static_cast<double>(ns);
    }
    EXPECT_NEAR(all / (10.0 * kMs * kIterations), 1, 0.01) << "level " << level;
    EXPECT_GT(late / all, 0.9) << "level " << level;
  }
}

// Rank 0 waits in MPI_Waitall for rank 1's message, which has another number than its own to rank 1: a sample
// has both, or only one, of which its own was received 1 ms after it was sent.
TEST(WaitSampleTest, KnowsCallsThatItHasInPartOnly) {
  constexpr std::uint32_t kSteps = 20'000, kApart = 13;
  MadeRun run(2);
  constexpr auto exchange = [](MadeRun& to, std::int32_t rank, std::int64_t received, std::int64_t sent,
                               std::int64_t exit, std::uint32_t step) {
    const std::int32_t other = 1 - rank;
    const std::uint32_t own = step + (rank == 0 ? kApart : 0), others = step + (rank == 0 ? 0 : kApart);
    to.add(rank, {MpiEventKind::kSend, "MPI_Isend", "MPI_Isend", sent, sent + 1000, other, 0, own, -1,
                  wire::kEventNonblocking});
    to.add(rank, {MpiEventKind::kReceive, "MPI_Irecv", "MPI_Waitall", sent + 2000, exit, other, 0, others,
                  received, wire::kEventNonblocking});
    to.add(rank,
           {MpiEventKind::kSendDone, "MPI_Isend", "MPI_Waitall", sent + 2000, exit, other, 0, own, sent});
  };
  for (std::uint32_t i = 0; i < kSteps; ++i) {
    const std::int64_t now = 10 * kMs * i, sent = now + 5 * kMs;
    exchange(run, 0, now, now, sent + 3000, i);
    exchange(run, 1, now + kMs, sent, sent + 3000, i);
  }
  const auto waited = [&run](shard::WaitKind kind) {
    double ns = 0;
    for (const shard::WaitState& row : run.analyse().wait_states)
      if (row.kind == kind) ns += static_cast<double>(row.wait_ns);
    return ns / (kSteps * (5.0 * kMs - 2000));
  };
  for (const std::uint32_t level : {0u, 3u, 6u}) {
    run.level = level;
    run.stretch_period = 0;
    if (level != 0) {
      EXPECT_LT(waited(shard::WaitKind::kLateSender), 0.9) << "nothing tells what is missing";
    }
    run.stretch_period = 1000 * kMs, run.stretch_length = 100 * kMs;
    EXPECT_NEAR(waited(shard::WaitKind::kLateSender), 1, 1e-3) << "level " << level;
    EXPECT_EQ(waited(shard::WaitKind::kLateReceiver), 0) << "level " << level;
  }
}

}  // namespace
}  // namespace clusterprof::aggregator::test
