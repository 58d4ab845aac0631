// SPDX-License-Identifier: BSD-3-Clause
// Messages that nobody received, and all that makes it unknown whether one was.
#include <gtest/gtest.h>

#include <functional>
#include <tuple>
#include <vector>

#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::aggregator::test {
namespace {

// Sender, receiver, tag, count.
using Row = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::uint64_t>;

class UnmatchedTest : public ::testing::Test {
 protected:
  // Rank 0 sends five messages to rank 2, which receives two; one to rank 1, which receives it.
  UnmatchedTest() {
    for (std::uint32_t i = 0; i < 5; ++i) send(0, 2, 7, i);
    for (std::uint32_t i = 0; i < 2; ++i) receive(2, 0, 7, i);
    send(0, 1, 7, 0);
    receive(1, 0, 7, 0);
  }

  void send(std::int32_t rank, std::int32_t to, std::int32_t tag, std::uint32_t sequence) {
    add({MpiEventKind::kSend, "MPI_Send", "MPI_Send", 0, 0, to, tag, sequence}, rank);
  }
  void receive(std::int32_t rank, std::int32_t from, std::int32_t tag, std::uint32_t sequence) {
    add({MpiEventKind::kReceive, "MPI_Recv", "MPI_Recv", 0, 0, from, tag, sequence}, rank);
  }
  void add(MadeEvent event, std::int32_t rank) {
    event.enter = now_ += kMs;
    event.exit = now_ += kMs;
    run_.add(rank, event);
  }

  // All ranks have called MPI_Init and MPI_Finalize, but for what `change` does.
  std::vector<Row> unmatched(const std::function<void(shard::ShardData&)>& change = [](auto&) {}) {
    std::vector<shard::ShardData> shards = run_.shards();
    for (shard::Rank& rank : shards[0].ranks) {
      rank.mpi_init_end_ns = 1;
      rank.mpi_finalize_begin_ns = 1000 * kMs;
    }
    change(shards[0]);
    const shard::ShardData data = MadeRun::analyse(shards);
    std::vector<Row> rows;
    std::uint64_t all = 0;
    for (const shard::UnmatchedMessages& row : data.unmatched_messages) {
      EXPECT_EQ(name_of(data, row.path), "MPI_Send");
      EXPECT_EQ(row.communicator, 0u);
      rows.emplace_back(data.ranks[row.rank].rank, data.ranks[row.receiver].rank, row.tag, row.count);
      all += row.count;
    }
    EXPECT_EQ(data.wait_analysis.unreceived_messages, all);
    return rows;
  }
  static shard::OpenRequests open(std::uint8_t kind, std::int32_t peer, std::int32_t tag,
                                  std::uint32_t communicator = 0) {
    shard::OpenRequests row;
    row.rank = 2;
    row.communicator = communicator;
    row.kind = kind;
    row.peer = peer;
    row.tag = tag;
    row.count = 1;
    return row;
  }

  const std::vector<Row> three_{{0, 2, 7, 3}};
  MadeRun run_{3};
  std::int64_t now_ = 0;
};

TEST_F(UnmatchedTest, AreTheLastMessagesThatHaveNoReceive) {
  EXPECT_EQ(unmatched(), three_);
  send(1, 0, 4, 0);
  send(0, 2, 3, 0);
  EXPECT_EQ(unmatched(), (std::vector<Row>{{0, 2, 3, 1}, {0, 2, 7, 3}, {1, 0, 4, 1}}));
}

TEST_F(UnmatchedTest, AreNotKnownUnlessBothRanksHaveFinalised) {
  for (const std::uint32_t rank : {0u, 2u})
    EXPECT_TRUE(unmatched([&](auto& data) { data.ranks[rank].mpi_finalize_begin_ns = 0; }).empty());
  EXPECT_EQ(unmatched([](auto& data) { data.ranks[1].mpi_finalize_begin_ns = 0; }), three_);
  EXPECT_TRUE(unmatched([](auto& data) { data.ranks[2].flags |= shard::kLost; }).empty());
  EXPECT_TRUE(unmatched([](auto& data) { data.nodes[0].as_of_utc_ns = 1; }).empty());
}

TEST_F(UnmatchedTest, AreNotKnownWhereAReceiveMayBeUnseen) {
  EXPECT_TRUE(unmatched([](auto& data) { data.ranks[2].flags |= shard::kReceivesUnseen; }).empty());
  EXPECT_EQ(unmatched([](auto& data) { data.ranks[0].flags |= shard::kReceivesUnseen; }), three_);
  EXPECT_TRUE(unmatched([](auto& data) { data.ranks[0].flags |= shard::kSendsUnsure; }).empty());
  EXPECT_TRUE(unmatched([](auto& data) { data.ranks[2].event_level = 1; }).empty());
  EXPECT_TRUE(unmatched([](auto& data) { data.drops.push_back({2, "mpi_event_ring_full", 1}); }).empty());
  EXPECT_EQ(unmatched([](auto& data) { data.drops.push_back({2, "ring_full", 1}); }), three_);
  EXPECT_TRUE(unmatched([](auto& data) { ++data.ranks[2].mpi_operations; }).empty());
  EXPECT_TRUE(unmatched([](auto& data) { data.run.standby = true; }).empty());
  EXPECT_TRUE(unmatched([](auto& data) { data.recording_windows = {{2, 0, 10}}; }).empty());
}

// A receive that was posted may have got the message.
TEST_F(UnmatchedTest, AreNotKnownWhereAReceiveIsOpen) {
  const auto with = [&](const shard::OpenRequests& row) {
    return unmatched([&](auto& data) {
      data.communicators.push_back({99, 3, ""});
      data.open_requests.push_back(row);
    });
  };
  constexpr auto kReceive = static_cast<std::uint8_t>(shard::PendingKind::kReceive);
  constexpr auto kSend = static_cast<std::uint8_t>(shard::PendingKind::kSend);
  EXPECT_TRUE(with(open(kReceive, 0, 7)).empty());
  EXPECT_TRUE(with(open(kReceive, shard::CallUnderWay::kAnyRank, shard::CallUnderWay::kAnyTag)).empty());
  EXPECT_TRUE(with(open(shard::OpenRequests::kOther, shard::CallUnderWay::kNoRank,
                        shard::CallUnderWay::kNoTag, shard::kNone))
                  .empty());
  EXPECT_EQ(with(open(kReceive, 1, 7)), three_);
  EXPECT_EQ(with(open(kReceive, 0, 8)), three_);
  EXPECT_EQ(with(open(kReceive, 0, 7, 1)), three_) << "of another communicator";
  EXPECT_EQ(with(open(kSend, 0, 7)), three_);
}

TEST_F(UnmatchedTest, AreNotKnownWhereTheTwoSidesAreNumberedDifferently) {
  receive(2, 0, 8, 0);  // which nobody has sent
  EXPECT_TRUE(unmatched().empty());
}

TEST_F(UnmatchedTest, AreNotThoseBeforeOneThatWasReceived) {
  receive(2, 0, 7, 4);  // the receives of 2 and 3 were not seen
  EXPECT_TRUE(unmatched().empty());
}

TEST_F(UnmatchedTest, AreNoSynchronisationOfWindows) {
  add({MpiEventKind::kSend, "MPI_Win_post", "MPI_Send", 0, 0, 2, wire::kTagWinPost, 0}, 1);
  EXPECT_EQ(unmatched(), three_);
}

}  // namespace
}  // namespace clusterprof::aggregator::test
