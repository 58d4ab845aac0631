// SPDX-License-Identifier: BSD-3-Clause
#include "report/text/waiting.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/analysis/efficiency.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::WaitKind;
using testing::find_finding;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

const WaitRow* find_wait(const Analysis& a, WaitKind kind, std::int32_t rank) {
  for (const WaitRow& row : a.waits)
    if (row.kind == kind && row.rank == rank) return &row;
  return nullptr;
}

// Two ranks of 10 s; rank 0 is in MPI_Recv for `mpi_ms`.
struct Receiver {
  explicit Receiver(std::uint64_t mpi_ms, std::uint32_t ranks = 2) : b(ranks) {
    main = b.native("main", "/u/a.out", "/u/a.c", 5);
    receive = b.path({main, b.mpi("MPI_Recv")});
    send = b.path({b.native("main", "/u/a.out", "/u/a.c", 9), b.mpi("MPI_Send")});
    work = b.path({main, b.native("work", "/u/a.out", "/u/a.c", 20)});
    b.called(0, receive, 10, mpi_ms);
    b.called(1, send, 10, 0);
    b.data.wait_analysis.done = true;
    for (shard::Rank& rank : b.data.ranks) rank.flags |= shard::kWaitKnown;
  }
  ProfileBuilder b;
  shard::Frame main;
  std::uint32_t receive = 0, send = 0, work = 0;
};

// --- tables --------------------------------------------------------------------------------

TEST(Waits, AreSummedByKindAndRankWithTheirCausesAndPlaces) {
  const Analysis a = analyse(testing::delayed_run());
  ASSERT_EQ(a.waits.size(), 5u);
  const WaitRow* row = find_wait(a, WaitKind::kWaitAtNxN, 2);
  ASSERT_NE(row, nullptr);
  EXPECT_DOUBLE_EQ(row->wait_s, 5.5);
  EXPECT_EQ(row->count, 300u);
  ASSERT_EQ(row->causes.size(), 2u);
  EXPECT_EQ(row->causes[0].rank, 3);
  EXPECT_DOUBLE_EQ(row->causes[0].wait_s, 4);
  EXPECT_EQ(a.places[row->causes[0].place].function, "load_batch");
  EXPECT_EQ(a.places[row->causes[0].place].line, 41u);
  EXPECT_EQ(a.places[row->causes[1].place].line, 42u) << "a system call is where the program made it";
  ASSERT_EQ(row->where.size(), 1u);
  EXPECT_EQ(a.places[row->where[0].place].op, "MPI_Allreduce");
  EXPECT_EQ(a.places[row->where[0].place].file, "/home/u/train.py");
  EXPECT_EQ(a.places[row->where[0].place].line, 88u);
  EXPECT_DOUBLE_EQ(row->where[0].wait_s, 5.5);
  EXPECT_DOUBLE_EQ(a.mpi_wait_s.value(), 18);
  EXPECT_DOUBLE_EQ(a.ranks[1].mpi_wait_s.value(), 6.35);
  EXPECT_DOUBLE_EQ(a.ranks[1].mpi_transfer_s.value(), 0.45);
}

TEST(Waits, ManyCausesAreBoundedAndTheRestSummedUp) {
  Receiver run(9000, 40);
  for (std::uint32_t r = 1; r <= 20; ++r)
    run.b.waited(0, run.receive, WaitKind::kLateSender, r, run.work, 10 * r, 2);
  const Analysis a = analyse(run.b.data);
  ASSERT_EQ(a.waits.size(), 1u);
  const std::vector<WaitPart>& causes = a.waits[0].causes;
  ASSERT_EQ(causes.size(), kMaxWaitParts + 1);
  EXPECT_EQ(causes[0].rank, 20);
  EXPECT_EQ(causes[15].rank, 5);
  EXPECT_FALSE(causes[16].rank.has_value());
  EXPECT_EQ(causes[16].rest, 4u);
  EXPECT_DOUBLE_EQ(causes[16].wait_s, 0.1);
  EXPECT_EQ(causes[16].count, 8u);
  double sum = 0;
  for (const WaitPart& cause : causes) sum += cause.wait_s;
  EXPECT_NEAR(sum, a.waits[0].wait_s, 1e-9);
}

TEST(Waits, OfACallSiteAreItsWait) {
  Receiver run(3000);
  // The same line through another native frame is the same call site.
  const auto wrapper = run.b.native("PMPI_Recv_c", "/usr/lib/libmpi.so.40");
  const auto twin = run.b.path({run.main, wrapper, run.b.mpi("MPI_Recv")});
  run.b.called(0, twin, 5, 500);
  run.b.waited(0, run.receive, WaitKind::kLateSender, 1, run.work, 2000);
  run.b.waited(0, twin, WaitKind::kLateSender, 1, run.work, 400);
  Analysis a = analyse(run.b.data);
  ASSERT_EQ(a.mpi_calls.size(), 2u);
  EXPECT_EQ(a.mpi_calls[0].op, "MPI_Recv");
  EXPECT_DOUBLE_EQ(a.mpi_calls[0].wait_s.value(), 2.4);
  EXPECT_DOUBLE_EQ(a.mpi_calls[1].wait_s.value(), 0) << "it was looked for";
  run.b.data.wait_analysis.event_level = 2;
  a = analyse(run.b.data);
  EXPECT_DOUBLE_EQ(a.mpi_calls[0].wait_s.value(), 2.4);
  EXPECT_FALSE(a.mpi_calls[1].wait_s.has_value()) << "the sample may have none of its calls";
  run.b.data.wait_analysis.event_level = 0;

  run.b.waited(0, run.receive, WaitKind::kLateSender, 1, run.work, 2000);
  a = analyse(run.b.data);
  EXPECT_DOUBLE_EQ(a.mpi_calls[0].wait_s.value(), 3.5) << "never more than the time in the call";

  run.b.data.ranks[0].flags &= ~static_cast<std::uint32_t>(shard::kWaitKnown);
  a = analyse(run.b.data);
  EXPECT_FALSE(a.mpi_calls[0].wait_s.has_value()) << "rank 0 alone called it";
  run.b.data.wait_analysis.done = false;
  a = analyse(run.b.data);
  EXPECT_FALSE(a.mpi_calls[1].wait_s.has_value());
  EXPECT_TRUE(a.waits.empty());
}

TEST(Waits, AreNullWhereWaitingWasNotAnalysed) {
  ProfileBuilder b(2);
  const auto main = b.native("main", "/u/a.out", "/u/a.c", 5);
  b.data.wait_analysis.done = true;
  for (shard::Rank& rank : b.data.ranks) rank.flags |= shard::kWaitKnown;
  const auto known = [&](const char* op) {
    b.data.mpi_calls.clear();
    b.called(0, b.path({main, b.mpi(op)}), 1, 100);
    const Analysis a = analyse(b.data);
    EXPECT_EQ(a.mpi_calls.at(0).wait_s.has_value(), a.mpi_calls[0].transfer_s.has_value());
    return a.mpi_calls[0].wait_s.has_value();
  };
  for (const char* op : {"MPI_Send", "MPI_Allreduce", "MPI_Waitall", "MPI_Win_fence", "MPI_Win_start",
                         "MPI_File_write_all", "MPI_Comm_split", "MPI_Comm_rank", "MPI_Finalize"})
    EXPECT_TRUE(known(op)) << op;
  for (const char* op : {"MPI_Neighbor_alltoall", "MPI_Win_lock", "MPI_Win_unlock_all", "MPI_Put",
                         "MPI_File_write_all_end", "MPI_Intercomm_merge", "MPI_Init", "MPI_Later_standard"})
    EXPECT_FALSE(known(op)) << op;
}

TEST(Waits, TransferIsOfRanksThatKnowTheirWaiting) {
  Receiver run(3000, 3);
  run.b.called(1, run.receive, 10, 5000);
  run.b.called(2, run.send, 10, 2000);
  run.b.waited(0, run.receive, WaitKind::kLateSender, 2, run.work, 1000);
  run.b.data.ranks[1].flags &= ~static_cast<std::uint32_t>(shard::kWaitKnown);
  const Analysis a = analyse(run.b.data);
  ASSERT_EQ(a.mpi_calls[0].op, "MPI_Recv");
  EXPECT_DOUBLE_EQ(a.mpi_calls[0].wait_s.value(), 1);
  EXPECT_FALSE(a.mpi_calls[0].transfer_s.has_value()) << "8 s - 1 s would be waiting of rank 1, too";
  EXPECT_DOUBLE_EQ(a.mpi_transfer_s.value(), 4) << "of ranks 0 and 2";
  const Finding* rest = find_finding(a, "Besides waiting");
  EXPECT_EQ(rest, nullptr) << "13 % and not 30 %: " << text_of(a, *rest);
  const std::string text = render_text(a, {});
  EXPECT_NE(text.find("1.00 s of 5.00 s in MPI"), std::string::npos) << text;
}

TEST(Waits, PlacesAreTheProgramsOwn) {
  Receiver run(9000);
  ProfileBuilder& b = run.b;
  const auto frame = b.python("f", "/u/x.py", 3, 1);
  const auto numpy = b.native("add", "/usr/lib/python3/numpy/core.so");
  const auto sleep = b.native("clock_nanosleep", "/usr/lib/libc.so.6");
  const auto stripped = b.native("inner", "/u/b.out");
  const std::uint32_t paths[] = {
      b.path({frame, b.python("bcast", "/v/site-packages/mpi4py/util.py", 9, 8), numpy}),
      b.path({stripped, sleep, b.kernel("clock_nanosleep")}),
      b.path({b.kernel("page fault")}),
      b.path({frame, numpy, b.mpi("MPI_Bcast")}),
      b.path({b.mpi("MPI_Barrier")}),
      0,
      4'000'000};
  const std::uint64_t wait_ms[] = {1000, 900, 800, 700, 600, 200, 100};
  for (std::size_t i = 0; i < std::size(paths); ++i)
    b.waited(0, run.receive, WaitKind::kLateSender, 1, paths[i], wait_ms[i]);
  const Analysis a = analyse(b.data);
  const std::vector<WaitPart>& causes = a.waits.at(0).causes;
  ASSERT_EQ(causes.size(), 6u);
  const auto place = [&](std::size_t i) -> const SourceLocation& { return a.places[causes[i].place]; };
  EXPECT_EQ(place(0).function + " " + place(0).file, "f /u/x.py");
  EXPECT_EQ(place(1).function, "inner") << "not the C library, not the kernel";
  EXPECT_EQ(place(1).module, "/u/b.out");
  EXPECT_EQ(place(2).function, "page fault") << "there is nothing else";
  EXPECT_EQ(place(3).op + " " + place(3).function, "MPI_Bcast f");
  EXPECT_EQ(place(4).op + " " + place(4).function, "MPI_Barrier ");
  EXPECT_EQ(causes[5].place, 0u);
  EXPECT_DOUBLE_EQ(causes[5].wait_s, 0.3) << "no path and a damaged one";
}

TEST(RootCauses, OfOneFunctionAreNamedByItsHeaviestLine) {
  const Analysis a = analyse(testing::delayed_run());
  ASSERT_EQ(a.root_causes.size(), 3u);
  EXPECT_EQ(a.root_causes[0].rank, 3);
  EXPECT_DOUBLE_EQ(a.root_causes[0].wait_s, 12);
  EXPECT_DOUBLE_EQ(a.root_causes[0].share, 0.3) << "of 4 x 10 s";
  EXPECT_EQ(a.places[a.root_causes[1].place].line, 42u);
  ASSERT_EQ(a.root_functions.size(), 2u);
  EXPECT_DOUBLE_EQ(a.root_functions[0].wait_s, 16.5);
  EXPECT_EQ(a.root_functions[0].waiting_ranks, 3u);
  EXPECT_EQ(a.places[a.root_functions[0].place].line, 41u);
}

TEST(RootCauses, OfSeveralRowsCountAtLeastTheRanksOfOne) {
  Receiver run(3000, 4);
  const auto other = run.b.path({run.main, run.b.native("work", "/u/a.out", "/u/a.c", 21)});
  run.b.waited(0, run.receive, WaitKind::kLateSender, 2, run.work, 1000);
  run.b.waited(1, run.receive, WaitKind::kWaitAtBarrier, 2, other, 900);
  run.b.data.root_causes = {{2, run.work, 1000 * kMs, 1}, {2, other, 900 * kMs, 1}};
  Analysis a = analyse(run.b.data);
  EXPECT_EQ(a.root_causes[0].waiting_ranks, 1u);
  EXPECT_FALSE(a.root_causes[0].at_least);
  ASSERT_EQ(a.root_functions.size(), 1u);
  EXPECT_EQ(a.root_functions[0].waiting_ranks, 1u);
  EXPECT_TRUE(a.root_functions[0].at_least);
  ASSERT_NE(find_finding(a, "Delay: rank 2 in work() a.c:20 made at least 1 rank wait 1.90 s"), nullptr)
      << "which one is not known";
  const std::string text = render_text(a, {});  // a row a line, as in JSON
  EXPECT_NE(text.find("     1     2  work() a.c:20"), std::string::npos) << text;
  EXPECT_NE(text.find("     1     2  work() a.c:21"), std::string::npos) << text;

  run.b.data.root_causes[1].waiting_ranks = 3;
  a = analyse(run.b.data);
  EXPECT_EQ(a.root_functions[0].waiting_ranks, 3u);
  EXPECT_FALSE(a.root_functions[0].at_least) << "there are no others";
}

TEST(Delays, PutTheRanksThatWaitedForOneTogether) {
  const Analysis a = analyse(testing::delayed_run());
  ASSERT_EQ(a.delays.size(), 3u);
  EXPECT_EQ(a.delays[0].rank, 3);
  EXPECT_EQ(a.delays[0].waiting_ranks, 3u);
  EXPECT_DOUBLE_EQ(a.delays[0].wait_s, 16.5);
  EXPECT_EQ(a.places[a.delays[0].place].line, 41u);
  EXPECT_EQ(a.places[a.delays[0].site].line, 88u);
  EXPECT_EQ(a.delays[2].rank, 1);
  EXPECT_EQ(a.delays[2].waiting_rank, 2);
  EXPECT_EQ(a.places[a.delays[2].place].op, "MPI_Recv");
}

TEST(CriticalPath, IsComparedWithTheMeanRank) {
  const Analysis a = analyse(testing::delayed_run());
  ASSERT_EQ(a.critical_path.size(), 5u);
  const CriticalRow& load = a.critical_path[0];
  EXPECT_EQ(a.places[load.place].line, 41u);
  EXPECT_DOUBLE_EQ(load.time_s, 4.5);
  EXPECT_DOUBLE_EQ(load.share, 0.45);
  EXPECT_NEAR(load.mean_s, (4.5 + 3 * 0.075) / 4, 1e-6);
  EXPECT_EQ(load.max_rank, 3);
  const auto reduce =
      std::find_if(a.critical_path.begin(), a.critical_path.end(),
                   [&](const CriticalRow& row) { return a.places[row.place].op == "MPI_Allreduce"; });
  ASSERT_NE(reduce, a.critical_path.end());
  EXPECT_DOUBLE_EQ(reduce->time_s, 0.6);
  EXPECT_NEAR(reduce->mean_s, (18.7 - 16.5) / 4, 1e-9) << "waiting is on nobody's critical path";
  EXPECT_EQ(reduce->max_rank, 3);
  ASSERT_EQ(a.critical_functions.size(), 4u);
  EXPECT_DOUBLE_EQ(a.critical_functions[0].time_s, 6);
  EXPECT_NEAR(a.critical_functions[0].mean_s, (6 + 3 * 0.1) / 4, 1e-6);
}

TEST(CriticalPath, WaitingTakenOffIsAtMostTheTime) {
  Receiver run(3000);
  run.b.called(1, run.receive, 10, 4000);
  run.b.waited(0, run.receive, WaitKind::kLateSender, 1, run.work, 2500);
  run.b.waited(0, run.receive, WaitKind::kLateReceiver, 1, run.work, 2500);  // scaled too much
  run.b.waited(1, run.receive, WaitKind::kLateSender, 0, run.work, 1000);
  run.b.data.critical_times = {{0, run.receive, 500 * kMs}};
  const Analysis a = analyse(run.b.data);
  ASSERT_EQ(a.critical_path.size(), 1u);
  EXPECT_NEAR(a.critical_path[0].mean_s, (0 + 3) / 2.0, 1e-9) << "what is too much of rank 0 is not rank 1's";
}

TEST(CriticalPath, MeansIncludeLinesThatAreNotOnIt) {
  Receiver run(3000);
  const auto other = run.b.path({run.main, run.b.native("work", "/u/a.out", "/u/a.c", 21)});
  run.b.sampled(0, run.work, Category::kNative, 7000);
  run.b.sampled(1, other, Category::kNative, 10'000);
  run.b.data.critical_times = {{0, run.work, 7000 * kMs}};
  const Analysis a = analyse(run.b.data);
  ASSERT_EQ(a.critical_path.size(), 1u);
  EXPECT_NEAR(a.critical_path[0].mean_s, 3.5, 1e-6);
  EXPECT_NEAR(a.critical_functions[0].mean_s, 8.5, 1e-6);
}

TEST(Windows, FollowTheDefinitionsOfTheRun) {
  shard::ShardData data = testing::delayed_run();
  data.time_windows.push_back({10'000 * kMs, 10'500 * kMs, 0, 0, 2000 * kMs});
  data.time_windows.push_back({11'000 * kMs, 11'000 * kMs, 0, 0, 0});  // damaged
  const Analysis a = analyse(data);
  ASSERT_EQ(a.windows.size(), 11u);
  EXPECT_DOUBLE_EQ(a.windows[0].parallel, 0.95);
  EXPECT_DOUBLE_EQ(a.windows[0].load_balance.value(), 0.95);
  EXPECT_DOUBLE_EQ(a.windows[0].communication, 1);
  EXPECT_DOUBLE_EQ(a.windows[9].begin_s, 9);
  EXPECT_DOUBLE_EQ(a.windows[9].parallel, 0.25);
  EXPECT_DOUBLE_EQ(a.windows[9].load_balance.value(), 0.25 / 0.9);
  EXPECT_DOUBLE_EQ(a.windows[9].communication, 0.9);
  EXPECT_DOUBLE_EQ(a.windows[9].wait_s, 3.6);
  EXPECT_FALSE(a.windows[10].load_balance.has_value());
}

TEST(Efficiency, TheReplayDividesCommunication) {
  shard::ShardData data = testing::delayed_run();
  Efficiency e = analyse(data).efficiency;
  EXPECT_DOUBLE_EQ(e.serialization.value(), 9.0 / 9.4);
  EXPECT_DOUBLE_EQ(e.transfer.value(), 9.4 / 10);
  EXPECT_NEAR(*e.serialization * *e.transfer, e.communication.value(), 1e-12);
  data.wait_analysis.ideal_ns = 0;
  e = analyse(data).efficiency;
  EXPECT_FALSE(e.serialization.has_value());
  EXPECT_FALSE(e.transfer.has_value());
  EXPECT_TRUE(e.communication.has_value());
}

TEST(Efficiency, WhatMeasuringMadeTooLargeIsMarked) {
  shard::ShardData data = testing::delayed_run();
  EXPECT_TRUE(above_one(analyse(data).efficiency).empty());
  data.wait_analysis.ideal_ns = 8900 * kMs;
  const Analysis a = analyse(data);
  EXPECT_EQ(above_one(a.efficiency), std::vector<std::string>{"serialization"});
  std::string json = render_json(a);
  std::erase_if(json, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_NE(json.find("\"efficiency_above_one\":[\"serialization\"]"), std::string::npos);
  TextOptions options;
  options.sections = {"efficiency"};
  EXPECT_NE(render_text(a, options).find("\n  above 100 %: measuring errors"), std::string::npos);
}

TEST(NodeMatrix, SumsThePairsOfRanks) {
  ProfileBuilder b(4, 2);
  const auto cell = [&](std::int32_t from, std::int32_t to, std::uint64_t bytes) {
    b.data.matrix.push_back({from, to, 1, bytes});
  };
  cell(0, 1, 1), cell(1, 1, 2), cell(0, 2, 4), cell(1, 3, 8), cell(3, 0, 16), cell(0, 9, 32);
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.node_matrix.size(), 4u);
  EXPECT_EQ(a.node_matrix[0].bytes, 3u);
  EXPECT_EQ(a.node_matrix[0].messages, 2u);
  EXPECT_EQ(a.node_matrix[1].source, 0u);
  EXPECT_EQ(a.node_matrix[1].destination, 1u);
  EXPECT_EQ(a.node_matrix[1].bytes, 12u);
  EXPECT_FALSE(a.node_matrix[2].destination.has_value()) << "rank 9 is on no node of the profile";
  EXPECT_EQ(a.node_matrix[2].bytes, 32u);
  EXPECT_EQ(a.node_matrix[3].source, 1u);
}

TEST(Waits, IndicesOutsideTheirTablesAreIgnored) {
  shard::ShardData data = testing::delayed_run();
  const std::size_t before = analyse(data).waits.size();
  data.wait_states.push_back({99, 1, WaitKind::kLateSender, 0, 0, 1000 * kMs, 1});
  data.wait_states.push_back({0, 1, static_cast<WaitKind>(200), 0, 0, 1000 * kMs, 1});
  data.root_causes.push_back({99, 1, 1000 * kMs, 1});
  data.critical_times.push_back({99, 1, 1000 * kMs});
  Analysis a = analyse(data);
  EXPECT_EQ(a.waits.size(), before);
  EXPECT_EQ(a.root_causes.size(), 3u);
  EXPECT_EQ(a.critical_path.size(), 5u);
  data.wait_states.push_back({0, 99'999, WaitKind::kLateSender, 88, 99'999, 1000 * kMs, 1});
  a = analyse(data);
  const WaitRow* row = find_wait(a, WaitKind::kLateSender, 0);
  ASSERT_NE(row, nullptr);
  EXPECT_FALSE(row->causes[0].rank.has_value());
  EXPECT_FALSE(render_text(a, {}).empty());
  EXPECT_FALSE(render_json(a).empty());
}

// --- findings ------------------------------------------------------------------------------

TEST(WaitFindings, NameEachRootCauseOnce) {
  const Analysis a = analyse(testing::delayed_run());
  ASSERT_EQ(a.findings.size(), 2u);
  EXPECT_EQ(text_of(a, a.findings[0]),
            "Delay: rank 3 in load_batch() data.py:41 made 3 ranks wait 16.5 s in MPI_Allreduce <- step() "
            "train.py:88. Outside MPI it works 9.00 s, the mean rank 4.92 s.");
  EXPECT_EQ(a.findings[0].severity, Severity::kHigh);
  EXPECT_DOUBLE_EQ(a.findings[0].share.value(), 16.5 / 40);
  EXPECT_EQ(a.findings[0].rank, 3);
  EXPECT_EQ(a.findings[0].place.file, "/home/u/data.py");
  EXPECT_EQ(a.findings[0].place.line, 41u);
  EXPECT_EQ(
      text_of(a, a.findings[1]),
      "Delay: rank 0 in prepare() train.py:50 made 2 ranks wait 1.50 s, 850 ms of it in MPI_Recv <- relay() "
      "train.py:61.");
  EXPECT_EQ(a.findings[1].severity, Severity::kLow);
  EXPECT_EQ(find_finding(a, "Load imbalance"), nullptr) << "the first finding says it";
  EXPECT_EQ(find_finding(a, "MPI takes"), nullptr);
}

TEST(WaitFindings, TheOneRankThatWaitedIsNamed) {
  Receiver run(4000);
  run.b.waited(0, run.receive, WaitKind::kLateSender, 1, run.work, 3900, 10);
  run.b.data.root_causes = {{1, run.work, 3900 * kMs, 1}};
  const Analysis a = analyse(run.b.data);
  ASSERT_NE(
      find_finding(a, "Delay: rank 1 in work() a.c:20 made rank 0 wait 3.90 s in MPI_Recv <- main() a.c:5."),
      nullptr);
}

TEST(WaitFindings, AnotherFunctionsDelayIsNotThatOfTheRootCause) {
  Receiver run(4000, 3);
  const auto other = run.b.path({run.main, run.b.native("other", "/u/a.out", "/u/a.c", 40)});
  run.b.waited(0, run.receive, WaitKind::kLateSender, 1, other, 3900, 10);
  run.b.data.root_causes = {{1, run.work, 3800 * kMs, 1}};
  const Analysis a = analyse(run.b.data);
  const Finding* delay = find_finding(a, "Delay");
  ASSERT_NE(delay, nullptr);
  EXPECT_EQ(text_of(a, *delay),
            "Delay: rank 1 in work() a.c:20 made 1 rank wait 3.80 s. Outside MPI it works 10.0 s, the mean "
            "rank 8.67 s.");
}

TEST(WaitFindings, BlockedTimeThatDelaysOthersIsPartOfTheDelay) {
  Receiver run(4000);
  const auto sleep = run.b.path({run.main, run.b.native("work", "/u/a.out", "/u/a.c", 20),
                                 run.b.native("nanosleep", "/usr/lib/libc.so.6"), run.b.kernel("nanosleep")});
  run.b.sampled(1, sleep, Category::kIdle, 4000);
  run.b.sampled(1, run.work, Category::kNative, 6000);
  run.b.sampled(0, run.work, Category::kNative, 6000);
  Analysis a = analyse(run.b.data);
  ASSERT_NE(find_finding(a, "Ranks are blocked"), nullptr);
  run.b.waited(0, run.receive, WaitKind::kLateSender, 1, sleep, 3900, 10);
  run.b.data.root_causes = {{1, sleep, 3900 * kMs, 1}};
  a = analyse(run.b.data);
  const Finding* delay = find_finding(a, "Delay: rank 1 in work() a.c:20 made rank 0 wait 3.90 s");
  ASSERT_NE(delay, nullptr);
  EXPECT_TRUE(text_of(a, *delay).ends_with(
      "Ranks are blocked outside MPI and I/O for 20.0 % of all rank time (sleep 4.00 "
      "s); 100.0 % of it in work() a.c:20. Wait for the event itself instead of sleeping."))
      << text_of(a, *delay);
  EXPECT_EQ(std::count_if(a.findings.begin(), a.findings.end(),
                          [&](const Finding& f) {
                            return text_of(a, f).find("Ranks are blocked") != std::string::npos;
                          }),
            1);
  // A delay of little weight does not hide it.
  run.b.data.root_causes[0].wait_ns = 500 * kMs;
  a = analyse(run.b.data);
  ASSERT_NE(find_finding(a, "Delay"), nullptr);
  EXPECT_EQ(text_of(a, *find_finding(a, "Delay")).find("Ranks are blocked"), std::string::npos);
  EXPECT_NE(find_finding(a, "Ranks are blocked"), nullptr);
}

TEST(WaitFindings, ImbalanceStaysWhereNoDelayExplainsIt) {
  shard::ShardData data = testing::delayed_run();
  data.root_causes = {{0, data.root_causes[2].path, 1500 * kMs, 2}};
  const Analysis a = analyse(data);
  ASSERT_NE(find_finding(a, "Load imbalance costs 40.8 % of the run: rank 3"), nullptr);
  ASSERT_NE(find_finding(a, "Delay: rank 0 in prepare()"), nullptr);
  EXPECT_EQ(text_of(a, *find_finding(a, "Delay: rank 0")).find("Outside MPI"), std::string::npos);
}

TEST(WaitFindings, WaitingForManyRanksIsOneFinding) {
  ProfileBuilder b(100);
  const auto barrier = b.path({b.native("main", "/u/a.out", "/u/a.c", 7), b.mpi("MPI_Barrier")});
  const auto work = b.path({b.native("work", "/u/a.out", "/u/a.c", 3)});
  for (std::uint32_t r = 0; r < 100; ++r) {
    b.called(r, barrier, 100, 3100);
    b.sampled(r, work, Category::kNative, 6900);
    b.waited(r, barrier, WaitKind::kWaitAtBarrier, (r + 1) % 100, work, 3000, 99);
    b.data.root_causes.push_back({r, work, 3000 * kMs, 99});
  }
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.findings.size(), 1u);
  EXPECT_EQ(text_of(a, a.findings[0]),
            "Ranks wait for each other for 30.0 % of all rank time, with no single rank or function to "
            "blame; most in MPI_Barrier <- "
            "main() "
            "a.c:7 (300 s).");
  EXPECT_EQ(a.findings[0].severity, Severity::kHigh);
}

TEST(WaitFindings, DirectCausesOnlyWhereTheyAreNotTheRoot) {
  Receiver run(6000, 3);
  const auto relay = run.b.path({run.b.native("relay", "/u/a.out", "/u/a.c", 30), run.b.mpi("MPI_Recv")});
  run.b.called(1, relay, 10, 4000);
  run.b.waited(1, relay, WaitKind::kLateSender, 2, run.work, 3500, 10);
  run.b.waited(0, run.receive, WaitKind::kLateSender, 1, relay, 3400, 10);
  run.b.data.root_causes = {{2, run.work, 6900 * kMs, 2}};
  Analysis a = analyse(run.b.data);
  ASSERT_NE(
      find_finding(a,
                   "Delay: rank 2 in work() a.c:20 made 2 ranks wait 6.90 s, 3.50 s of it in MPI_Recv <- "
                   "relay() a.c:30."),
      nullptr);
  const Finding* passed_on = find_finding(a, "Delay passed on");
  ASSERT_NE(passed_on, nullptr);
  EXPECT_EQ(
      text_of(a, *passed_on),
      "Delay passed on: rank 1 in MPI_Recv <- relay() a.c:30 made rank 0 wait 3.40 s in MPI_Recv <- main() "
      "a.c:5; "
      "it was itself waiting there.");
  EXPECT_EQ(passed_on->severity, Severity::kLow);
  EXPECT_LT(find_finding(a, "Delay"), passed_on);

  // So much waiting goes back to rank 1 in other functions that it need not have passed anything on.
  shard::ShardData mixed = run.b.data;
  for (std::uint32_t i = 0; i < 10; ++i) {
    const auto part = run.b.path({run.main, run.b.native(std::string("part").append(std::to_string(i)),
                                                         "/u/a.out", "/u/a.c", 100 + i)});
    run.b.data.root_causes.push_back({1, part, 190 * kMs, 1});
  }
  a = analyse(run.b.data);
  EXPECT_EQ(find_finding(a, "Delay: rank 1"), nullptr) << "each of little weight";
  EXPECT_EQ(find_finding(a, "Delay passed on"), nullptr);
  run.b.data = mixed;

  // Rank 1 was delayed by time in the call itself, so that is a root cause and is reported as one.
  run.b.data.root_causes = {{1, relay, 3400 * kMs, 1}, {2, run.work, 3500 * kMs, 1}};
  a = analyse(run.b.data);
  EXPECT_NE(find_finding(a, "Delay: rank 1 in MPI_Recv <- relay() a.c:30 made rank 0 wait"), nullptr);
  EXPECT_EQ(find_finding(a, "Delay passed on"), nullptr);
}

// What one rank loses for lack of a processor delays the others, and is not the network's.
TEST(WaitFindings, TransferLeavesOutWhatTheRankWithMostOfItLackedProcessors) {
  const auto lacked_by = [&](std::uint32_t rank, std::uint64_t ms) {
    Receiver one(8000);
    one.b.called(1, one.send, 10, 8500);
    one.b.data.wait_analysis.ideal_ns = 3000 * kMs;
    shard::Rank& of = one.b.data.ranks[rank];
    of.mpi_runnable_ns = ms * kMs;
    of.flags |= shard::kRunDelayKnown;
    const Analysis a = analyse(one.b.data);
    const Finding* const transfer = find_kind(a, FindingKind::kTransfer);
    if (transfer == nullptr) return std::pair(0.0, std::string());
    return std::pair(transfer->share.value_or(0), text_of(a, *transfer));
  };
  EXPECT_NEAR(lacked_by(1, 0).first, 0.7, 1e-9);
  EXPECT_NEAR(lacked_by(1, 4000).first, 0.3, 1e-9) << "and not the half of it, the mean of two ranks";
  EXPECT_NE(lacked_by(1, 4000).second.find(
                "it would take 3.00 s instead of 10.0 s, less 4.00 s without a processor"),
            std::string::npos)
      << lacked_by(1, 4000).second;
  EXPECT_EQ(lacked_by(1, 6500).first, 0) << "less than a tenth remains";
}

TEST(WaitFindings, SerializationOrTransferWhicheverDominates) {
  Receiver run(8000);
  run.b.called(1, run.send, 10, 8500);
  run.b.data.wait_analysis.ideal_ns = 5000 * kMs;  // useful: 2 s and 1.5 s
  Analysis a = analyse(run.b.data);
  const Finding* transfer =
      find_finding(a,
                   "Transfer costs 50.0 % of the run: on an ideal network it would take 5.00 s "
                   "instead of 10.0 s; most in MPI_Send <- main() a.c:9");
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(transfer->severity, Severity::kHigh);
  EXPECT_EQ(find_finding(a, "Serialization"), nullptr);
  EXPECT_EQ(find_finding(a, "Besides waiting"), nullptr) << "it is what transfer is about";

  // What transfer costs and what the replay says agree: of the difference, 10 % is no transfer.
  run.b.data.ranks[1].flags |= shard::kRunDelayKnown;
  run.b.data.ranks[1].mpi_runnable_ns = 1000 * kMs;
  a = analyse(run.b.data);
  EXPECT_NE(find_finding(a,
                         "Transfer costs 40.0 % of the run: on an ideal network it would take 5.00 s "
                         "instead of 10.0 s, less 1.00 s without a processor; most in"),
            nullptr);
  run.b.data.ranks[1].mpi_runnable_ns = 0;

  const auto lock = run.b.path({run.main, run.b.mpi("MPI_Win_lock")});
  run.b.called(1, lock, 1, 9000);
  a = analyse(run.b.data);
  ASSERT_NE(find_finding(a, "Transfer costs"), nullptr);
  EXPECT_EQ(find_finding(a, "; most in"), nullptr) << "it may be MPI_Win_lock, where waiting is not known";
  run.b.data.mpi_calls.pop_back();
  run.b.data.ranks[1].mpi_ns -= 9000 * kMs;

  run.b.data.wait_analysis.ideal_ns = 9800 * kMs;
  a = analyse(run.b.data);
  ASSERT_NE(
      find_finding(a, "Serialization costs 78.0 % of the run: even on an ideal network it would take 9.80 s"),
      nullptr);
  EXPECT_EQ(find_finding(a, "Transfer"), nullptr);
  EXPECT_NE(find_finding(a, "Besides waiting"), nullptr);

  run.b.data.wait_analysis.ideal_ns = 0;
  a = analyse(run.b.data);
  EXPECT_EQ(find_finding(a, "ideal"), nullptr);
}

TEST(WaitFindings, OneRankWaitsForNoOther) {
  ProfileBuilder b(1);
  b.sampled(0, b.path({b.native("main", "/u/a.out", "/u/a.c", 5)}), Category::kNative, 2000);
  b.called(0, b.path({b.native("main", "/u/a.out", "/u/a.c", 9), b.mpi("MPI_Bcast")}), 1, 10);
  b.data.wait_analysis.done = true;
  b.data.ranks[0].flags |= shard::kWaitKnown;
  for (const std::uint64_t ideal_ms : {9900, 4000}) {
    b.data.wait_analysis.ideal_ns = ideal_ms * kMs;
    const Analysis a = analyse(b.data);
    ASSERT_TRUE(a.efficiency.serialization.has_value());
    EXPECT_EQ(find_finding(a, "ideal network"), nullptr);
  }
}

TEST(WaitFindings, SaySoWhereTheAnalysisIsWeak) {
  shard::ShardData data = testing::delayed_run();
  const auto info = [&] {
    std::string texts;
    const Analysis a = analyse(data);
    for (const Finding& finding : a.findings)
      if (finding.severity == Severity::kInfo) texts += text_of(a, finding) + "\n";
    return texts;
  };
  EXPECT_EQ(info(), "");
  data.wait_analysis.event_level = 6;
  EXPECT_NE(info().find("a sample of about one in 64 and scaled"), std::string::npos);
  data.wait_analysis.event_level = 0;
  data.wait_analysis.clock_error_ns = 400'000;
  EXPECT_EQ(
      info(),
      "The nodes' clocks are only known to within 400 us: shorter waits between nodes are not counted.\n");
  data.wait_analysis.clock_violations = 3;
  data.wait_analysis.worst_violation_ns = 700'000;
  EXPECT_EQ(info(),
            "3 messages seem to be received before they were sent, by at most 700 us: waiting may be wrong "
            "by as much. The nodes' "
            "clocks are only known to within 400 us: shorter waits between nodes are not counted.\n");
  shard::ShardData one_node = data;
  for (shard::Rank& rank : one_node.ranks) rank.node = 0;
  one_node.nodes.resize(1);
  std::swap(one_node, data);
  data.wait_analysis.clock_error_ns = 0;
  EXPECT_EQ(info(),
            "3 messages seem to be received before they were sent, by at most 700 us: waiting may be wrong "
            "by as much.\n");
  data.wait_analysis.clock_violations = 1;
  EXPECT_EQ(info(),
            "1 message seems to be received before it was sent, by at most 700 us: waiting may be wrong "
            "by as much.\n");
  std::swap(one_node, data);
  data.wait_analysis.clock_violations = 0;
  data.wait_analysis.clock_error_ns = shard::kClocksApart;
  EXPECT_EQ(info(), "The clocks of some nodes cannot be compared: waiting between these is not known.\n");
  data.wait_analysis.clock_violations = 3;
  data.wait_analysis.clock_error_ns = 1000;
  data.wait_analysis.worst_violation_ns = 2000;
  EXPECT_EQ(info(), "") << "small ones are in section waits";
  data.wait_analysis.unmatched_messages = 20;
  EXPECT_EQ(info(),
            "For 33.3 % of the messages the other side is not known: waiting in them is not counted.\n");
}

TEST(WaitBottlenecks, AreProvedByTheWaits) {
  const Analysis a = analyse(testing::delayed_run());
  const auto evidence = [&](std::optional<std::int32_t> rank, std::string_view kind) {
    for (const Bottleneck& row : a.bottlenecks)
      if (row.rank == rank && row.kind == kind) return text_of(a, row);
    return std::string();
  };
  EXPECT_EQ(
      evidence({}, "imbalance"),
      "outside MPI rank 3 takes 9.00 s, the mean rank 4.92 s; rank 3 in load_batch() data.py:41 made 3 ranks "
      "wait 16.5 s");
  EXPECT_EQ(evidence({}, "communication"),
            "even the busiest rank does useful work for only 9.00 s of 10.0 s; of 20.3 s in MPI "
            "18.0 s are waiting; "
            "serialization 95.7 %, transfer 94.0 %");
  EXPECT_EQ(
      evidence(1, "imbalance"),
      "works 5.80 s less than rank 3, the slowest; waits 6.35 s, 4.00 s of it for rank 3 in load_batch() "
      "data.py:41");
}

// --- text ----------------------------------------------------------------------------------

std::string section(const shard::ShardData& data, const std::string& name, bool unicode = false) {
  TextOptions options;
  options.sections = {name};
  options.unicode = unicode;
  return render_text(analyse(data), options);
}

TEST(WaitText, TheSectionsStandAloneAndDoNotRepeat) {
  const shard::ShardData data = testing::delayed_run();
  const std::string comm = section(data, "comm"), waits = section(data, "waits");
  for (const char* part : {"serialization  95.7 %", "transfer       94.0 %", "MPI by call site",
                           "Heaviest pairs", "between nodes", "16.50     2.20"})
    EXPECT_NE(comm.find(part), std::string::npos) << part << "\n" << comm;
  for (const char* part :
       {"Root causes", "Who waited where for whom", "Critical path", "Over time", "clocks"})
    EXPECT_NE(waits.find(part), std::string::npos) << part << "\n" << waits;
  TextOptions options;
  options.sections = {"comm", "efficiency", "matrix"};
  const std::string all = render_text(analyse(data), options);
  for (const char* title : {"Efficiency ", "Heaviest pairs "})
    EXPECT_EQ(all.find(title), all.rfind(title)) << title;
  EXPECT_EQ(render_text(analyse(data), {}).find("Critical path"), std::string::npos) << "the short form";
}

TEST(WaitText, SaysThatThereIsNoWaiting) {
  EXPECT_NE(section(testing::training_run(), "waits").find("Not analysed"), std::string::npos);
  EXPECT_NE(section(testing::training_run(), "comm").find("serialization       -"), std::string::npos);
  EXPECT_NE(section(ProfileBuilder(2).data, "waits").find("No MPI calls"), std::string::npos);
  Receiver run(1000);
  EXPECT_NE(section(run.b.data, "waits").find("No waiting was found."), std::string::npos);
  EXPECT_NE(section(run.b.data, "comm").find("the replay was not possible"), std::string::npos);
  run.b.data.wait_analysis.event_level = 3;
  EXPECT_NE(section(run.b.data, "comm").find("the events are a sample"), std::string::npos);
  EXPECT_EQ(render_text(analyse(testing::training_run()), {}).find("Waiting"), std::string::npos);
}

TEST(WaitText, SaysHowItWasAnalysed) {
  shard::ShardData data = testing::delayed_run();
  EXPECT_NE(section(data, "waits").find("1320 operations, 1380 events: 60 messages, 300 collective"),
            std::string::npos);
  data.wait_analysis.event_level = 4;
  data.wait_analysis.unmatched_messages = 1;
  data.wait_analysis.clock_violations = 2;
  data.wait_analysis.worst_violation_ns = 900;
  const std::string text = section(data, "waits");
  EXPECT_NE(text.find("a sample, about one in 16 of 1320 operations, and scaled"), std::string::npos) << text;
  EXPECT_NE(text.find("1 message, 0 collective operations"), std::string::npos) << text;
  EXPECT_NE(text.find("2 messages received before sent, by at most 900 ns"), std::string::npos) << text;
  data.wait_analysis.clock_error_ns = shard::kClocksApart;
  EXPECT_NE(section(data, "waits").find("clocks         not comparable between some nodes"),
            std::string::npos);
}

TEST(WaitText, WaitingOfHelperThreadsIsToldApart) {
  shard::ShardData data = testing::delayed_run();
  EXPECT_EQ(section(data, "waits").find("of all threads"), std::string::npos);
  data.ranks[0].mpi_wait_ns -= 2500 * kMs;
  const std::string text = section(data, "waits");
  EXPECT_NE(text.find("15.5 s of 20.3 s in MPI"), std::string::npos) << text;
  EXPECT_NE(text.find("of all threads, as below: 18.0 s"), std::string::npos) << text;
}

TEST(WaitText, PartsOfWaitsThatCountElsewhereHaveNoNumber) {
  Receiver run(3000);
  run.b.waited(0, run.receive, WaitKind::kLateSender, 1, run.work, 1000, 0);
  EXPECT_NE(section(run.b.data, "waits").find("1.00  100.0       -  rank 0  rank 1 in work()"),
            std::string::npos)
      << section(run.b.data, "waits");
}

TEST(WaitText, LittleIsCountedNotListed) {
  Receiver run(9000, 20);
  run.b.waited(0, run.receive, WaitKind::kLateSender, 1, run.work, 8000);
  for (std::uint32_t r = 2; r < 20; ++r) run.b.waited(0, run.receive, WaitKind::kLateSender, r, run.work, 1);
  const std::string text = section(run.b.data, "waits");
  EXPECT_NE(text.find("rank 3 in work()"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 4 in work()"), std::string::npos) << text;
  EXPECT_NE(text.find(".. and 16 more"), std::string::npos) << text;
}

TEST(WaitText, TimeLineHasAsManyHeightsAsTheTerminal) {
  EXPECT_EQ(text::sparkline({0, 0.5, 1, 1.2}, false), "| =##|");
  EXPECT_EQ(text::sparkline({0, 0.125, 0.5, 1, -1}, true), "| ▁▄█ |");
  EXPECT_EQ(text::sparkline({0, std::nullopt, 1}, true), "| ?█|");
  shard::ShardData data = testing::delayed_run();
  EXPECT_NE(section(data, "waits", true).find("█"), std::string::npos);
  const std::string ascii = section(data, "waits");
  EXPECT_TRUE(
      std::all_of(ascii.begin(), ascii.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  EXPECT_EQ(ascii.find('?'), std::string::npos);
  for (std::size_t i : {std::size_t{1}, std::size_t{2}}) data.time_windows[i].useful_max_ns = 0;
  const std::string gap = section(data, "waits");
  EXPECT_NE(gap.find("  ?: nobody was outside MPI"), std::string::npos) << gap;
  EXPECT_NE(gap.find("  load balance   |#####??????????#####"), std::string::npos) << gap;
  // Parts that were not recorded are left out, which moves no others.
  data.time_windows.erase(data.time_windows.begin() + 3, data.time_windows.begin() + 8);
  const std::string windows = section(data, "waits");
  EXPECT_NE(windows.find("in 10 steps of 1.00 s"), std::string::npos) << windows;
  EXPECT_NE(windows.find("  parallel       |###############" + std::string(25, '?') + "::::::::::|"),
            std::string::npos)
      << windows;
  EXPECT_NE(windows.find("  ?: not recorded, or nobody was outside MPI"), std::string::npos) << windows;
  // More windows than columns: each column is the mean of its windows.
  data.time_windows.clear();
  for (std::uint64_t i = 0; i < 500; ++i)
    data.time_windows.push_back({i * kMs, (i + 1) * kMs, i % 2 == 0 ? 1e6 : 0, 1e6, 0});
  const std::string many = section(data, "waits");
  EXPECT_NE(many.find("in 59 steps of 8.47 ms"), std::string::npos) << many;
  EXPECT_NE(many.find("load balance   |" + std::string(59, '=') + "|"), std::string::npos) << many;
  for (std::size_t i = 1; i < data.time_windows.size(); i += 2) data.time_windows[i].useful_max_ns = 0;
  const std::string known = section(data, "waits");
  EXPECT_NE(known.find("load balance   |" + std::string(59, '#') + "|"), std::string::npos) << known;
  for (std::size_t at = 0, end; at < many.size(); at = end + 1) {
    end = many.find('\n', at);
    EXPECT_LE(end - at, 80u) << many.substr(at, end - at);
  }
}

}  // namespace
}  // namespace clusterprof::report
