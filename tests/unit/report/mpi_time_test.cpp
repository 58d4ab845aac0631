// SPDX-License-Identifier: BSD-3-Clause
// What the analysis computes from MPI calls besides their own table: startup, MPI-IO, threads, collectives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "profile_builder.hpp"
#include "report/analysis/mpi_calls.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::kMs;
using testing::ProfileBuilder;

// Two ranks of 10 s: 1 s and 2 s in MPI_Init, the rest outside.
TEST(MpiTime, EfficienciesLeaveTheStartOfMpiOut) {
  ProfileBuilder b(2);
  const auto main = b.native("main", "a.out", "a.c", 3);
  const auto init = b.path({main, b.mpi("MPI_Init")}), finalize = b.path({main, b.mpi("MPI_Finalize")});
  const auto barrier = b.path({main, b.mpi("MPI_Barrier")});
  b.called(0, init, 1, 900);
  b.called(0, finalize, 1, 100);
  b.called(1, init, 1, 2000);
  b.called(0, barrier, 10, 500);
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(*a.ranks[0].startup_s, 1);
  EXPECT_DOUBLE_EQ(*a.ranks[1].startup_s, 2);
  EXPECT_DOUBLE_EQ(*a.ranks[0].category_s[static_cast<std::size_t>(Category::kMpi)], 1.5);
  EXPECT_DOUBLE_EQ(a.startup_s, 1);  // the other second of rank 1 it waited for rank 0
  EXPECT_DOUBLE_EQ(a.focus_s, 9);
  EXPECT_DOUBLE_EQ(*a.efficiency.communication, 8.5 / 9);
  EXPECT_DOUBLE_EQ(*a.efficiency.load_balance, 8.25 / 8.5);
  EXPECT_NEAR(*a.efficiency.parallel, 8.25 / 9, 1e-12);
}

// The same run within one region, and a region that only one rank starts MPI in.
TEST(MpiTime, EfficienciesOfRegionsLeaveTheStartOfMpiOut) {
  ProfileBuilder b(2);
  const auto all = b.region("all"), main = b.native("main", "a.out", "a.c", 3);
  const auto init = b.path({all, main, b.mpi("MPI_Init")}),
             finalize = b.path({all, main, b.mpi("MPI_Finalize")});
  const auto barrier = b.path({all, main, b.mpi("MPI_Barrier")});
  b.called(0, init, 1, 900);
  b.called(0, finalize, 1, 100);
  b.called(1, init, 1, 2000);
  b.called(0, barrier, 10, 500);
  for (std::uint32_t r = 0; r < 2; ++r)
    b.sampled(r, b.path({all, main}), Category::kNative, r == 0 ? 8500 : 8000);
  const Analysis run = analyse(b.data);
  ASSERT_EQ(run.regions.size(), 1u);
  const RegionRow& region = run.regions[0];
  EXPECT_NEAR(*region.longest_s, 10, 1e-9);
  EXPECT_NEAR(*region.focus_s, 9, 1e-9);
  EXPECT_NEAR(*region.efficiency.communication, *run.efficiency.communication, 1e-9);
  EXPECT_NEAR(*region.efficiency.parallel, 8.25 / 9, 1e-9);
  const std::optional<Analysis> alone = analyse_region(b.data, "all");
  ASSERT_TRUE(alone);
  EXPECT_NEAR(*alone->efficiency.parallel, *region.efficiency.parallel, 1e-9) << "report --region";

  b.data.mpi_calls.erase(b.data.mpi_calls.begin() + 2);  // rank 1's
  const Analysis one = analyse(b.data);
  EXPECT_NEAR(*one.regions[0].focus_s, *one.regions[0].longest_s, 1e-9) << "rank 1 starts MPI elsewhere";
}

TEST(MpiTime, WorkOnFilesIsNoCommunication) {
  ProfileBuilder b(2);
  const auto main = b.native("main", "a.out", "a.c", 3);
  const auto read = b.path({main, b.mpi("MPI_File_read_at_all")});
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.sampled(r, b.path({main}), Category::kNative, 6000);
    b.called(r, read, 10, 4000);
  }
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(*a.ranks[0].mpi_io_s, 4);
  std::map<std::string, double> shares;
  for (const Bottleneck& row : a.bottlenecks)
    if (!row.rank && row.region.empty()) shares[row.kind] = row.share;
  EXPECT_NEAR(shares["io"], 0.4, 1e-9);
  EXPECT_EQ(shares.count("communication"), 0u);
}

// The main threads wait for two others each, which are in MPI for three quarters of their 8 s on rank 0.
TEST(MpiTime, AllThreadsThatCallMpiCount) {
  ProfileBuilder b(2);
  const auto main = b.native("main", "a.out", "a.c", 3), talk = b.native("talk", "a.out", "a.c", 9);
  const auto init = b.path({main, b.mpi("MPI_Init_thread")}), receive = b.path({talk, b.mpi("MPI_Recv")});
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.called(r, init, 1, 1000);
    shard::Rank& rank = b.data.ranks[r];
    rank.mpi_helper_threads = 2;
    rank.mpi_helper_elapsed_ns = 16'000 * kMs;
    rank.mpi_helper_ns = r == 0 ? 12'000 * kMs : 0;
    shard::MpiCall call;
    call.rank = r, call.path = receive, call.count = 100, call.time_ns = rank.mpi_helper_ns;
    call.main_thread = false;
    b.data.mpi_calls.push_back(call);
    b.sampled(r, b.path({main}), Category::kIdle, 9000);
    b.sampled(r, b.path({talk}), Category::kNative, r == 0 ? 4000 : 16'000, false);
  }
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(*a.ranks[0].useful_s, 9);
  // 9 s of the main thread and 4 s of the others, of 9 and 16.
  EXPECT_NEAR(*a.ranks[0].threads_useful_s, 9.0 * 13 / 25, 1e-9);
  EXPECT_NEAR(*a.ranks[1].threads_useful_s, 9.0, 1e-9);
  EXPECT_DOUBLE_EQ(*a.efficiency.parallel, 1);
  EXPECT_NEAR(*a.threads_efficiency.load_balance, (1 + 13.0 / 25) / 2, 1e-9);
  EXPECT_NEAR(*a.threads_efficiency.communication, 1, 1e-9);
  EXPECT_EQ(a.threads_slowest_rank, 1);
  // The time is that of the threads: functions have it, the main thread's category has not.
  const auto found = std::find_if(a.functions.begin(), a.functions.end(),
                                  [](const FunctionRow& row) { return row.name == "MPI_Recv"; });
  ASSERT_NE(found, a.functions.end());
  EXPECT_DOUBLE_EQ(found->self_s, 12);
  EXPECT_DOUBLE_EQ(*a.ranks[0].category_s[static_cast<std::size_t>(Category::kMpi)], 1);
}

TEST(MpiTime, CallsUnderWayAreInTheTable) {
  ProfileBuilder b(1);
  const auto main = b.native("main", "a.out", "a.c", 3);
  b.called(0, b.path({main, b.mpi("MPI_Recv")}), 0, 7000);
  b.data.mpi_calls.back().unfinished = 1;
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.mpi_calls.size(), 1u);
  EXPECT_EQ(a.mpi_calls[0].count, 0u);
  EXPECT_EQ(a.mpi_calls[0].unfinished, 1u);
  EXPECT_DOUBLE_EQ(a.mpi_calls[0].time_s, 7);
}

// Ranks 0 and 2 are in a barrier that rank 1, lost in compute(), never enters; a thread of rank 0 waits for
// two requests.
TEST(CallsUnderWay, SayWhereEachRankIs) {
  ProfileBuilder b(3);
  b.data.communicators.push_back({1, 3, "MPI_COMM_WORLD"});
  const auto main = b.native("main", "/u/a.out", "/u/a.c", 3),
             compute = b.native("compute", "/u/a.out", "/u/a.c", 8);
  const auto barrier = b.path({main, b.mpi("MPI_Barrier")}), wait = b.path({main, b.mpi("MPI_Waitall")});
  b.sampled(1, b.path({main, compute}), Category::kNative, 5000);
  for (const std::uint32_t r : {0u, 2u}) {
    b.called(r, barrier, 0, 4000);
    b.data.mpi_calls.back().unfinished = 1;
    b.data.mpi_calls.back().communicator = 0;
    b.data.calls_under_way.push_back(
        {r, 50, true, barrier, 0, 7, -1, shard::CallUnderWay::kNoTag, -1, 0, 4000 * kMs});
  }
  b.data.calls_under_way.push_back({0, 51, false, wait, shard::kNone, shard::kNone, -1,
                                    shard::CallUnderWay::kNoTag, -1, 9, 1000 * kMs, 2});
  b.data.pending_requests.push_back({0, 51, 9, shard::PendingKind::kSend, 2});
  b.data.pending_requests.push_back({0, 51, 9, shard::PendingKind::kReceive, shard::CallUnderWay::kAnyRank});
  shard::Rank& lost = b.data.ranks[1];
  lost.flags |= shard::kLost;
  lost.last_call_path = b.string("main\t/u/a.c\t3\t/u/a.out\t1\ncompute\t/u/a.c\t8\t/u/a.out\t1");
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.calls_under_way.size(), 3u);
  const CallUnderWayRow& first = a.calls_under_way[0];
  EXPECT_EQ(first.place.op, "MPI_Barrier");
  EXPECT_EQ(first.place.function, "main");
  EXPECT_EQ(first.sequence, 7u);
  EXPECT_EQ(first.waits_for, std::vector<std::int32_t>{1});
  EXPECT_EQ(first.waits_for_count, 1u);
  EXPECT_DOUBLE_EQ(first.age_s, 4);
  EXPECT_FALSE(first.ended);
  ASSERT_EQ(a.call_paths_under_way.at(first.call_path).size(), 2u);
  EXPECT_FALSE(a.calls_under_way[1].main_thread);
  EXPECT_EQ(a.calls_under_way[1].requests, 2u);
  EXPECT_EQ(a.calls_under_way[1].waits_for, std::vector<std::int32_t>{2});
  EXPECT_EQ(a.ranks[1].last_seen.function, "compute");
  TextOptions options;
  options.sections = {"summary"};
  options.width = 120;
  const std::string text = render_text(a, options);
  for (const char* line : {"ranks 0, 2    MPI_Barrier <- main() a.c:3 for 4.00 s; operation 7 of "
                           "MPI_COMM_WORLD, without rank 1\n",
                           "rank 0        MPI_Waitall <- main() a.c:3 on another thread for 1.00 s; 2 open "
                           "requests when it began: sends to rank\n",
                           "rank 1        in no MPI call; last seen in compute() a.c:8\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

using MatrixCells = std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t>;

class Collectives : public ::testing::Test {
 protected:
  Collectives() { b_.data.communicators.push_back({1, 4, "MPI_COMM_WORLD"}); }
  void call(std::uint32_t rank, std::string_view op, std::uint64_t sent, std::uint64_t received) {
    b_.called(rank, b_.path({b_.native("main", "a.out", "a.c", 3), b_.mpi(op)}), 1, 1, sent, received);
    b_.data.mpi_calls.back().communicator = 0;
  }
  MatrixCells cells() {
    MatrixCells found;
    for (const shard::MatrixCell& cell : analyse(b_.data).collective_matrix)
      found[{cell.source, cell.destination}] = cell.bytes;
    return found;
  }
  ProfileBuilder b_{4, 2};
};

TEST_F(Collectives, ReductionToAllGoesAround) {
  for (std::uint32_t r = 0; r < 4; ++r) call(r, "MPI_Iallreduce", 1000, 1000);
  EXPECT_EQ(cells(), (MatrixCells{{{0, 1}, 1500}, {{1, 2}, 1500}, {{2, 3}, 1500}, {{3, 0}, 1500}}));
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.collectives.size(), 1u);
  EXPECT_EQ(a.collectives[0].op, "MPI_Iallreduce");
  EXPECT_EQ(a.collectives[0].count, 4u);
  EXPECT_EQ(a.collectives[0].ranks, 4u);
  EXPECT_EQ(a.collectives[0].communicators, 1u);
  EXPECT_EQ(a.collectives[0].bytes, 4000u);
  EXPECT_TRUE(a.matrix.empty());
  ASSERT_EQ(a.collective_node_matrix.size(), 4u);  // ranks 0, 1 and 2, 3 share a node
  for (const NodeCell& cell : a.collective_node_matrix) EXPECT_EQ(cell.bytes, 1500u);
}

TEST_F(Collectives, RootsSendAndGet) {
  for (std::uint32_t r = 0; r < 4; ++r) {
    call(r, "MPI_Bcast", r == 2 ? 100 : 0, r == 2 ? 0 : 100);
    call(r, "MPI_Gather_c", 10, r == 1 ? 40 : 0);
  }
  EXPECT_EQ(cells(), (MatrixCells{{{2, 0}, 100}, {{2, 1}, 110}, {{2, 3}, 100}, {{0, 1}, 10}, {{3, 1}, 10}}));
}

TEST_F(Collectives, ThoseOfTorchAreLikeMpis) {
  for (std::uint32_t r = 0; r < 4; ++r) {
    call(r, "broadcast", r == 2 ? 100 : 0, r == 2 ? 0 : 100);
    call(r, "gather", 10, r == 1 ? 40 : 0);
    call(r, "all_reduce", 1000, 1000);
    call(r, "send", 1000, 0);
  }
  EXPECT_EQ(cells(), (MatrixCells{{{0, 1}, 1510},
                                  {{1, 2}, 1500},
                                  {{2, 3}, 1600},
                                  {{3, 0}, 1500},
                                  {{2, 0}, 100},
                                  {{2, 1}, 110},
                                  {{3, 1}, 10}}));
  const Analysis a = analyse(b_.data);
  for (const MpiCallRow& row : a.mpi_calls) EXPECT_EQ(communication_library(row.op), "torch.distributed");
  EXPECT_EQ(communication_library("MPI_Send"), "MPI");
}

TEST_F(Collectives, SeveralRootsCountByWhatTheySent) {
  // Rank 0 was the root of 300 bytes, rank 1 of 100.
  call(0, "MPI_Bcast", 300, 100);
  call(1, "MPI_Bcast", 100, 300);
  call(2, "MPI_Bcast", 0, 400);
  EXPECT_EQ(cells(), (MatrixCells{{{0, 1}, 300}, {{0, 2}, 300}, {{1, 0}, 100}, {{1, 2}, 100}}));
}

TEST_F(Collectives, WhatIsAddressedIsNotAmongThem) {
  for (std::uint32_t r = 0; r < 4; ++r) {
    call(r, "MPI_Alltoall", 400, 400);
    call(r, "MPI_Barrier", 0, 0);
    call(r, "MPI_Neighbor_allgather", 10, 20);
  }
  EXPECT_TRUE(analyse(b_.data).collectives.empty());
  EXPECT_TRUE(cells().empty());
}

}  // namespace
}  // namespace clusterprof::report
