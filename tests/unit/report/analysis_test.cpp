// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "as_sampled.hpp"
#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/format/numbers.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::find_finding;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

const FunctionRow* find_function(const Analysis& a, std::string_view name) {
  for (const FunctionRow& row : a.functions)
    if (row.name == name) return &row;
  return nullptr;
}

const LineRow* find_line(const Analysis& a, std::string_view file, std::uint32_t line) {
  for (const LineRow& row : a.lines)
    if (row.file == file && row.line == line) return &row;
  return nullptr;
}

double of(const RankInfo& rank, Category category) {
  return rank.category_s[static_cast<std::size_t>(category)].value();
}

TEST(Functions, RecursionIsCountedOnce) {
  ProfileBuilder b(1);
  const auto main = b.python("main", "f.py", 20, 18);
  const auto fib = b.python("fib", "f.py", 5, 1);
  const auto other = b.python("other", "f.py", 9, 8);
  b.sampled(0, b.path({main, fib, fib, fib}), Category::kPython, 3000);
  b.sampled(0, b.path({main, fib, other, fib}), Category::kPython, 1000);
  b.sampled(0, b.path({main, fib, other}), Category::kPython, 500);
  const Analysis a = analyse(testing::as_sampled(b.data));
  ASSERT_NE(find_function(a, "fib"), nullptr);
  EXPECT_DOUBLE_EQ(find_function(a, "fib")->total_s, 4.5);
  EXPECT_DOUBLE_EQ(find_function(a, "fib")->self_s, 4.0);
  EXPECT_DOUBLE_EQ(find_function(a, "other")->total_s, 1.5);
  EXPECT_DOUBLE_EQ(find_function(a, "other")->self_s, 0.5);
  EXPECT_DOUBLE_EQ(find_function(a, "main")->total_s, 4.5);
  EXPECT_DOUBLE_EQ(find_function(a, "main")->self_s, 0);
  EXPECT_DOUBLE_EQ(find_line(a, "f.py", 5)->total_s, 4.5);
  EXPECT_DOUBLE_EQ(find_line(a, "f.py", 5)->self_s, 4.0);
}

TEST(Functions, ASiblingCallOfTheSameFunctionAddsUp) {
  ProfileBuilder b(1);
  const auto from_10 = b.python("main", "f.py", 10, 1), from_11 = b.python("main", "f.py", 11, 1);
  const auto work = b.python("work", "f.py", 30, 29);
  b.sampled(0, b.path({from_10, work}), Category::kPython, 1000);
  b.sampled(0, b.path({from_11, work}), Category::kPython, 2000);
  const Analysis a = analyse(testing::as_sampled(b.data));
  EXPECT_DOUBLE_EQ(find_function(a, "work")->total_s, 3);
  EXPECT_DOUBLE_EQ(find_function(a, "main")->total_s, 3);
  EXPECT_DOUBLE_EQ(find_line(a, "f.py", 10)->total_s, 1);
  EXPECT_DOUBLE_EQ(find_line(a, "f.py", 11)->total_s, 2);
}

TEST(Functions, EqualNamesInDifferentPlacesStayApart) {
  ProfileBuilder b(1);
  b.sampled(0, b.path({b.python("__init__", "f.py", 3, 2)}), Category::kPython, 100);
  b.sampled(0, b.path({b.python("__init__", "f.py", 33, 32)}), Category::kPython, 200);
  b.sampled(0, b.path({b.python("__init__", "g.py", 3, 2)}), Category::kPython, 400);
  b.sampled(0, b.path({b.native("__init__", "/a.so")}), Category::kNative, 800);
  const Analysis a = analyse(testing::as_sampled(b.data));
  ASSERT_EQ(a.functions.size(), 4u);
  EXPECT_DOUBLE_EQ(a.functions[0].self_s, 0.8);
  EXPECT_EQ(a.functions[0].kind, shard::FrameKind::kNative);
  EXPECT_DOUBLE_EQ(a.functions[3].self_s, 0.1);
  EXPECT_EQ(a.functions[3].line, 2u);
}

TEST(Functions, SpreadIsOverAllRanks) {
  ProfileBuilder b(4);
  const auto work = b.path({b.python("work", "f.py", 2, 1)});
  const auto rare = b.path({b.python("rare", "f.py", 12, 11)});
  for (std::uint32_t r = 0; r < 4; ++r) b.sampled(r, work, Category::kPython, 1000 * (r + 1));
  b.sampled(2, rare, Category::kPython, 400);
  const Analysis a = analyse(testing::as_sampled(b.data));
  const RankSpread& all = find_function(a, "work")->spread;
  EXPECT_DOUBLE_EQ(all.min_s, 1);
  EXPECT_DOUBLE_EQ(all.mean_s, 2.5);
  EXPECT_DOUBLE_EQ(all.max_s, 4);
  EXPECT_EQ(all.max_rank, 3);
  const RankSpread& one = find_function(a, "rare")->spread;
  EXPECT_DOUBLE_EQ(one.min_s, 0);
  EXPECT_DOUBLE_EQ(one.mean_s, 0.1);
  EXPECT_DOUBLE_EQ(one.max_s, 0.4);
  EXPECT_EQ(one.max_rank, 2);
}

TEST(Functions, DoNotDependOnTheOrderOfRanks) {
  ProfileBuilder b(3);
  const auto work = b.path({b.python("work", "f.py", 2, 1)});
  for (std::uint32_t r = 0; r < 3; ++r) b.sampled(r, work, Category::kPython, 1000);
  std::swap(b.data.ranks[0], b.data.ranks[2]);
  const Analysis a = analyse(b.data);
  EXPECT_EQ(a.ranks[0].rank, 0);
  EXPECT_EQ(a.ranks[2].rank, 2);
  EXPECT_EQ(find_function(a, "work")->spread.max_rank, 0) << "of equal ranks the lowest";
}

TEST(Functions, InterpreterTimeCountsForThePythonFunction) {
  ProfileBuilder b(1);
  const auto f = b.python("f", "f.py", 2, 1);
  const auto add = b.native("long_add", "/usr/bin/python3.11", "longobject.c", 99);
  const auto sort = b.native("list_sort", "/usr/bin/python3.11", "listobject.c", 7);
  b.sampled(0, b.path({f, add}), Category::kPython, 1000);
  b.sampled(0, b.path({f, sort}), Category::kNative, 500);
  const Analysis a = analyse(testing::as_sampled(b.data));
  EXPECT_EQ(find_function(a, "long_add"), nullptr);
  EXPECT_EQ(find_function(a, "list_sort"), nullptr);
  EXPECT_DOUBLE_EQ(find_function(a, "f")->self_s, 1.5);
  EXPECT_DOUBLE_EQ(find_function(a, "f")->total_s, 1.5);
  EXPECT_DOUBLE_EQ(find_function(a, "f")->category_s[static_cast<std::size_t>(Category::kNative)], 0.5);
  const LineRow* line = find_line(a, "f.py", 2);
  EXPECT_DOUBLE_EQ(line->self_s, 1.5) << "lines of the interpreter are not the program's";
  EXPECT_DOUBLE_EQ(line->category_s[static_cast<std::size_t>(Category::kPython)], 1);
  EXPECT_DOUBLE_EQ(line->category_s[static_cast<std::size_t>(Category::kNative)], 0.5);
}

TEST(Lines, TellWhatMayBeOfALineBehind) {
  ProfileBuilder b(1);
  const auto exact = b.python("f", "f.py", 2, 1);
  auto compiled = exact;
  compiled.line_approximate = true;
  const auto other = b.python("f", "f.py", 3, 1);
  const auto add = b.native("long_add", "/usr/bin/python3.14", "longobject.c", 99);
  b.sampled(0, b.path({exact}), Category::kPython, 250);
  b.sampled(0, b.path({exact, add}), Category::kPython, 150);
  b.sampled(0, b.path({compiled}), Category::kPython, 600);
  b.sampled(0, b.path({other}), Category::kPython, 100);
  const Analysis a = analyse(testing::as_sampled(b.data));
  const LineRow* const line = find_line(a, "f.py", 2);
  EXPECT_DOUBLE_EQ(line->self_s, 1);  // one row, whatever the frames are
  EXPECT_DOUBLE_EQ(line->approximate_s, 0.6);
  EXPECT_TRUE(line->is_approximate());
  EXPECT_DOUBLE_EQ(find_line(a, "f.py", 3)->approximate_s, 0);
  EXPECT_FALSE(find_line(a, "f.py", 3)->is_approximate());
  EXPECT_EQ(a.lines.size(), 2u);
}

TEST(Lines, InlinedSystemHeadersBelongToTheProgramsLine) {
  ProfileBuilder b(1);
  const auto main = b.native("main(int, char**)", "/u/a.out", "/u/a.cpp", 5);
  const auto inlined =
      b.native("std::vector<int>::at", "/u/a.out", "/usr/include/c++/12/bits/stl_vector.h", 9);
  b.sampled(0, b.path({main, inlined}), Category::kNative, 1000);
  const Analysis a = analyse(testing::as_sampled(b.data));
  EXPECT_DOUBLE_EQ(find_line(a, "/u/a.cpp", 5)->self_s, 1);
  EXPECT_DOUBLE_EQ(find_function(a, "std::vector<int>::at")->self_s, 1);
}

TEST(Functions, TotalsIncludeMpiBelow) {
  ProfileBuilder b(1);
  const auto step = b.python("step", "f.py", 8, 1);
  const auto glue = b.python("allreduce", "/x/site-packages/mpi4py/util.py", 4, 1);
  b.sampled(0, b.path({step, glue, b.mpi("MPI_Allreduce")}), Category::kMpi, 2000);
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(find_function(a, "step")->total_s, 2);
  EXPECT_DOUBLE_EQ(find_function(a, "MPI_Allreduce")->self_s, 2);
  EXPECT_EQ(find_function(a, "MPI_Allreduce")->kind, shard::FrameKind::kMpi);
  EXPECT_DOUBLE_EQ(find_line(a, "f.py", 8)->category_s[static_cast<std::size_t>(Category::kMpi)], 2)
      << "MPI called through mpi4py belongs to the user's line";
}

TEST(Functions, WorkingHelperThreadsAreActiveTime) {
  ProfileBuilder b(1);
  const auto work = b.path({b.native("work", "/a.out", "a.c", 3)});
  const auto wait = b.path({b.native("pool", "/a.out", "a.c", 9), b.native("futex", "/lib/libc.so.6")});
  b.sampled(0, work, Category::kNative, 5000);
  b.sampled(0, work, Category::kNative, 4000, false);
  b.sampled(0, wait, Category::kIdle, 6000, false);
  const Analysis a = analyse(testing::as_sampled(b.data));
  EXPECT_DOUBLE_EQ(find_function(a, "work")->self_s, 9);
  EXPECT_DOUBLE_EQ(find_function(a, "futex")->self_s, 6);
  EXPECT_DOUBLE_EQ(find_function(a, "futex")->active_self_s, 0);
  EXPECT_DOUBLE_EQ(find_function(a, "pool")->active_total_s, 0);
  EXPECT_DOUBLE_EQ(a.helper_idle_s, 6);
  EXPECT_DOUBLE_EQ(of(a.ranks[0], Category::kNative), 5) << "categories are the main thread's";
  EXPECT_DOUBLE_EQ(of(a.ranks[0], Category::kIdle), 0);
}

TEST(Categories, MpiIsMeasuredAndTheRestShared) {
  ProfileBuilder b(1);
  const auto work = b.path({b.native("work", "/a.out")});
  b.called(0, b.path({b.native("main", "/a.out"), b.mpi("MPI_Recv")}), 10, 4000);
  b.sampled(0, work, Category::kNative, 2000);
  b.sampled(0, work, Category::kPython, 1000);
  b.sampled(0, work, Category::kMpi, 3800);
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(of(a.ranks[0], Category::kMpi), 4);
  EXPECT_DOUBLE_EQ(of(a.ranks[0], Category::kNative), 4);
  EXPECT_DOUBLE_EQ(of(a.ranks[0], Category::kPython), 2);
  EXPECT_DOUBLE_EQ(*a.ranks[0].useful_s, 6);
  double sum = 0;
  for (const Seconds& s : a.ranks[0].category_s) sum += s.value();
  EXPECT_DOUBLE_EQ(sum, 10);
}

TEST(Categories, RunnableIsScaledLikeTheOthersAndNotUseful) {
  ProfileBuilder b(1);
  const auto work = b.path({b.native("work", "/a.out", "a.c", 3)});
  b.called(0, b.path({b.native("main", "/a.out"), b.mpi("MPI_Recv")}), 10, 4000);
  b.sampled(0, work, Category::kNative, 1000);
  b.sampled(0, work, Category::kRunnable, 2000);
  b.data.values[0].cpu_ns = 1000 * kMs;
  b.data.ranks[0].mpi_runnable_ns = 500 * kMs;
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(of(a.ranks[0], Category::kNative), 2);
  EXPECT_DOUBLE_EQ(of(a.ranks[0], Category::kRunnable), 4);
  EXPECT_DOUBLE_EQ(*a.ranks[0].mpi_runnable_s, 0.5);
  EXPECT_DOUBLE_EQ(*a.ranks[0].useful_s, 2);
  const auto* function = find_function(a, "work");
  EXPECT_DOUBLE_EQ(function->self_s, 6);
  EXPECT_DOUBLE_EQ(function->cpu_s, 1) << "measured, not scaled";
  EXPECT_DOUBLE_EQ(find_line(a, "a.c", 3)->cpu_s, 1);
  EXPECT_DOUBLE_EQ(function->category_s[static_cast<std::size_t>(Category::kRunnable)], 4);
  EXPECT_DOUBLE_EQ(function->activity_s[index(Activity::kRunnable)], 4);
  ASSERT_FALSE(a.bottlenecks.empty());
  EXPECT_EQ(a.bottlenecks[0].kind, "runnable");
}

TEST(Categories, RunnableIsUnknownWithoutKernelAccounting) {
  ProfileBuilder b(1);
  b.data.ranks[0].flags &= ~shard::kRunDelayKnown;
  b.sampled(0, b.path({b.native("work", "/a.out")}), Category::kNative, 2000);
  const Analysis a = analyse(b.data);
  EXPECT_FALSE(a.ranks[0].category_s[static_cast<std::size_t>(Category::kRunnable)]);
  EXPECT_FALSE(a.ranks[0].mpi_runnable_s);
  EXPECT_FALSE(a.activity_s[index(Activity::kRunnable)]);
}

TEST(Efficiency, PreemptedRanksAreNotImbalanced) {
  ProfileBuilder b(2);
  const auto work = b.path({b.native("work", "/a.out", "a.c", 3)});
  const auto wait = b.path({b.native("main", "/a.out"), b.mpi("MPI_Barrier")});
  b.called(0, wait, 1, 5000);
  b.called(1, wait, 1, 0);
  b.sampled(0, work, Category::kNative, 5000);
  b.sampled(1, work, Category::kNative, 5000);
  b.sampled(1, work, Category::kRunnable, 5000);
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(*a.efficiency.load_balance, 1);
  EXPECT_EQ(find_finding(a, "imbalance"), nullptr);
  ASSERT_FALSE(a.findings.empty());
  const Finding& first = a.findings.front();
  EXPECT_EQ(first.kind, FindingKind::kWaitingForProcessor);
  EXPECT_DOUBLE_EQ(*first.share, 0.25);
  EXPECT_DOUBLE_EQ(*first.gain_s, 5);
  EXPECT_EQ(first.ranks, std::vector<std::int32_t>{1});
  EXPECT_DOUBLE_EQ(first.evidence.number(EvidenceKey::kRunnable), 5);
}

TEST(WaitingForAProcessor, NamesTheCrowdOnlyWhereItIsLargerThanTheNode) {
  for (const std::uint32_t cpus : {1u, 8u}) {
    ProfileBuilder b(1);
    b.data.nodes[0].cpus = cpus;
    b.data.ranks[0].flags |= shard::kUsageKnown;
    b.data.ranks[0].cpu_ns = 6000 * kMs;
    b.sampled(0, b.path({b.native("work", "/a.out")}), Category::kNative, 6000);
    b.sampled(0, b.path({b.native("work", "/a.out")}), Category::kRunnable, 6000);
    const Analysis a = analyse(b.data);
    const Finding* const finding = find_kind(a, FindingKind::kWaitingForProcessor);
    ASSERT_NE(finding, nullptr);
    EXPECT_EQ(finding->evidence.has(EvidenceKey::kReadyThreads), cpus == 1);
    EXPECT_EQ(finding->evidence.has(EvidenceKey::kProcessors), cpus == 1);
    EXPECT_EQ(text_of(a, *finding).find("are ready to run") != std::string::npos, cpus == 1)
        << text_of(a, *finding);
  }
}

TEST(WaitingForAProcessor, GivesNoAdviceWhereCpuTimeIsNotKnown) {
  ProfileBuilder b(2);
  const auto work = b.path({b.region("solve"), b.native("work", "/a.out", "a.c", 3)});
  b.data.nodes[0].cpus = 2;
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.sampled(r, work, Category::kNative, 5000);
    b.sampled(r, work, Category::kRunnable, 5000);
    b.data.ranks[r].flags |= shard::kUsageKnown;
    b.data.ranks[r].cpu_ns = 20'000 * kMs;  // of its threads
  }
  const auto action_of = [](const Analysis& a) {
    const Finding* const finding = find_kind(a, FindingKind::kWaitingForProcessor);
    EXPECT_NE(finding, nullptr);
    if (finding == nullptr) return FindingAction::kBalanceWork;
    EXPECT_EQ(finding->evidence.has(EvidenceKey::kReadyThreads), a.ranks[0].cpu_s.has_value());
    return finding->action;
  };
  EXPECT_EQ(action_of(analyse(b.data)), FindingAction::kFewerThreads);
  EXPECT_EQ(action_of(*analyse_region(b.data, "solve")), FindingAction::kNone) << "not to leave the node";
  b.data.nodes[0].cpus = 1;
  EXPECT_EQ(action_of(*analyse_region(b.data, "solve")), FindingAction::kFewerRanks);
}

TEST(WaitingForAProcessor, OfAPoolOfProcessesIsNotOfThreads) {
  ProfileBuilder b(1);
  const auto work = b.path({b.native("work", "/a.out", "a.c", 3)});
  b.data.nodes[0].cpus = 2;
  b.sampled(0, work, Category::kNative, 5000);
  b.sampled(0, work, Category::kRunnable, 5000);
  b.data.ranks[0].flags |= shard::kUsageKnown;
  b.data.ranks[0].cpu_ns = 20'000 * kMs;
  b.data.ranks[0].processes = 5;
  for (std::int32_t i = 0; i < 4; ++i) {
    shard::Process& row = b.data.processes.emplace_back();
    row.pid = 2000 + i, row.parent_pid = 1000, row.origin = shard::ProcessOrigin::kFork;
    row.start_utc_ns = b.data.run.start_utc_ns;
    row.elapsed_ns = 10'000 * kMs, row.cpu_ns = 3700 * kMs;
  }
  const Analysis a = analyse(b.data);
  const Finding* const finding = find_kind(a, FindingKind::kWaitingForProcessor);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->action, FindingAction::kFewerProcesses);
}

TEST(WaitingForAProcessor, OfARegionIsAtLeastWhatIsNotElsewhereInMpi) {
  ProfileBuilder b(1);
  const auto main = b.native("main", "/a.out", "a.c", 3);
  const auto inside = b.path({b.region("solve"), main, b.mpi("MPI_Barrier")});
  b.called(0, inside, 1, 1000);
  b.called(0, b.path({main, b.mpi("MPI_Barrier")}), 1, 8000);
  b.sampled(0, b.path({main}), Category::kNative, 1000);
  b.data.ranks[0].mpi_runnable_ns = 4000 * kMs;
  EXPECT_DOUBLE_EQ(*analyse_region(b.data, "solve")->ranks[0].mpi_runnable_s, 0);
  b.data.ranks[0].mpi_runnable_ns = 8500 * kMs;
  EXPECT_DOUBLE_EQ(*analyse_region(b.data, "solve")->ranks[0].mpi_runnable_s, 0.5);
}

// A rank that spins in a barrier for a late one loses nothing when it is preempted there.
TEST(Efficiency, WaitingForOthersWithoutAProcessorCostsNothing) {
  ProfileBuilder b(2);
  b.called(0, b.path({b.native("main", "/a.out"), b.mpi("MPI_Barrier")}), 1, 9000);
  b.sampled(0, b.path({b.native("work", "/a.out", "a.c", 3)}), Category::kNative, 1000);
  b.sampled(1, b.path({b.native("work", "/a.out", "a.c", 3)}), Category::kNative, 10'000);
  b.data.ranks[0].mpi_runnable_ns = 6000 * kMs;
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(*a.ranks[0].mpi_runnable_s, 6) << "the time is shown all the same";
  EXPECT_EQ(find_kind(a, FindingKind::kWaitingForProcessor), nullptr);
  EXPECT_EQ(find_kind(a, FindingKind::kMpiTime), nullptr) << "imbalance explains all of it";

  // Waiting was analysed: two of nine seconds in the barrier were not for the other rank.
  b.data.wait_analysis.done = true;
  for (auto& rank : b.data.ranks) rank.flags |= shard::kWaitKnown;
  b.data.ranks[0].mpi_wait_ns = 7000 * kMs;
  const Analysis known = analyse(b.data);
  const Finding* const finding = find_kind(known, FindingKind::kWaitingForProcessor);
  ASSERT_NE(finding, nullptr);
  EXPECT_DOUBLE_EQ(*finding->share, 0.1);
  EXPECT_DOUBLE_EQ(*finding->gain_s, 2);
  EXPECT_DOUBLE_EQ(finding->evidence.number(EvidenceKey::kMpiRunnable), 2);
}

TEST(Categories, NothingIsKnownWithoutSamples) {
  ProfileBuilder b(3);
  b.called(0, b.path({b.mpi("MPI_Barrier")}), 1, 1000);
  b.data.ranks[1].flags |= shard::kMpiUnwatched;
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(of(a.ranks[0], Category::kMpi), 1);
  EXPECT_DOUBLE_EQ(of(a.ranks[2], Category::kMpi), 0) << "watched for, and there was none";
  EXPECT_FALSE(a.ranks[0].category_s[static_cast<std::size_t>(Category::kNative)]);
  EXPECT_FALSE(a.ranks[1].category_s[static_cast<std::size_t>(Category::kMpi)]);
  EXPECT_FALSE(a.ranks[1].useful_s);
  EXPECT_FALSE(a.ranks[1].max_rss_bytes);
  EXPECT_FALSE(a.ranks[1].cpu_s);
  EXPECT_NE(find_finding(a, "no samples"), nullptr);
  ASSERT_EQ(a.functions.size(), 1u) << "calls are measured without samples";
  EXPECT_EQ(a.functions[0].name, "MPI_Barrier");
  EXPECT_DOUBLE_EQ(a.functions[0].self_s, 1);
  ASSERT_EQ(a.mpi_calls.size(), 1u);
  EXPECT_EQ(a.mpi_calls[0].function, "") << "a call path that was dropped";
}

TEST(Categories, CpuClockIsNotStretched) {
  ProfileBuilder b(1);
  b.data.run.clock = "cpu";
  b.sampled(0, b.path({b.native("work", "/a.out")}), Category::kNative, 2000);
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(of(a.ranks[0], Category::kNative), 2);
  EXPECT_FALSE(a.ranks[0].category_s[static_cast<std::size_t>(Category::kIdle)]);
}

TEST(Efficiency, FollowsItsDefinition) {
  ProfileBuilder b(4);
  const auto recv = b.path({b.native("main", "/a.out", "a.c", 5), b.mpi("MPI_Recv")});
  const std::uint64_t mpi_ms[] = {6000, 4000, 4000, 2000};  // useful 4, 6, 6, 8
  for (std::uint32_t r = 0; r < 4; ++r) b.called(r, recv, 1, mpi_ms[r]);
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(*a.efficiency.load_balance, 0.75);
  EXPECT_DOUBLE_EQ(*a.efficiency.communication, 0.8);
  EXPECT_NEAR(*a.efficiency.parallel, 0.6, 1e-12);
  EXPECT_EQ(a.slowest_rank, 3);
  EXPECT_FALSE(a.efficiency.serialization);
  EXPECT_FALSE(a.efficiency.transfer);
}

TEST(Efficiency, IsUnknownWithoutMpi) {
  ProfileBuilder b(2);
  b.sampled(0, b.path({b.native("work", "/a.out")}), Category::kNative, 10'000);
  const Analysis a = analyse(b.data);
  EXPECT_FALSE(a.efficiency.parallel);
  EXPECT_FALSE(a.slowest_rank);
  EXPECT_TRUE(a.findings.empty());
}

TEST(Run, ElapsedIsFirstStartToLastEnd) {
  ProfileBuilder b(2);
  b.data.ranks[1].start_utc_ns += static_cast<std::int64_t>(2000 * kMs);
  EXPECT_DOUBLE_EQ(analyse(b.data).run.elapsed_s, 12);
}

TEST(Run, ContradictoryClocksAreIgnored) {
  ProfileBuilder b(2, 2);
  for (shard::Rank& rank : b.data.ranks) rank.flags |= shard::kUsedMpi;
  b.data.ranks[1].start_utc_ns += static_cast<std::int64_t>(3'600'000 * kMs);
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(a.run.elapsed_s, 10);
  ASSERT_EQ(a.run.notes.size(), 1u);
  EXPECT_EQ(a.run.notes[0].code, shard::NoteCode::kClocksDisagree);
}

TEST(Run, EqualNotesOfManyNodesAreJoined) {
  ProfileBuilder b(1);
  const auto warned = [](const std::string& node, const std::string& text) {
    return note_of_node(shard::NoteCode::kNodeCheckWarned, node, 0, text);
  };
  for (int node = 1; node <= 100; ++node)
    b.data.run.notes.push_back(warned("n" + std::to_string(node), "slow"));
  b.data.run.notes.push_back(warned("n2", "full: node n2: slow"));
  b.data.run.notes.push_back(note_of_ranks(shard::NoteCode::kNoSamples, {7, 9}));
  b.data.run.notes.push_back(note_of_ranks(shard::NoteCode::kNoSamples, {0, 3}));
  const std::vector<NoteRecord> notes = analyse(b.data).run.notes;
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0].code, shard::NoteCode::kNoSamples);
  EXPECT_EQ(notes[0].ranks, (std::vector<shard::RankRange>{{0, 3}, {7, 9}}));
  EXPECT_EQ(notes[0].rank_count, 7u);
  EXPECT_EQ(notes[1].text, "full: node n2: slow");
  EXPECT_EQ(notes[1].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(notes[2].text, "slow");
  EXPECT_EQ(notes[2].nodes.size(), kMaxNoteParts);
  EXPECT_EQ(notes[2].node_count, 100u);
}

TEST(Run, MissingRanksAreNamed) {
  ProfileBuilder b(4);
  b.data.run.world_size = 6;
  b.data.ranks.erase(b.data.ranks.begin() + 1);
  b.data.run.complete = false;
  const Analysis a = analyse(b.data);
  EXPECT_EQ(a.run.missing_ranks, (std::vector<std::int32_t>{1, 4, 5}));
  const Finding* finding = find_finding(a, "3 of 6 ranks are not in this profile: 1, 4, 5.");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kHigh);
  b.data.run.world_size = 4;
  EXPECT_NE(find_finding(analyse(b.data), "1 of 4 ranks is not in this profile: 1."), nullptr);
}

TEST(Run, MissingRanksAreCountedButNotAllListed) {
  ProfileBuilder b(1);
  b.data.run.world_size = shard::kMaxWorldSize;
  const Analysis a = analyse(b.data);
  EXPECT_EQ(a.run.missing, shard::kMaxWorldSize - 1);
  EXPECT_EQ(a.run.missing_ranks.size(), kMaxMissingListed);
  EXPECT_EQ(format::missing_ranks(a.run), "1-65536, ..");
  EXPECT_NE(find_finding(a, "16777215 of 16777216 ranks are not in this profile: 1-65536, .."), nullptr);
  b.data.run.world_size = 4'000'000'000u;
  EXPECT_EQ(analyse(b.data).run.missing, 0u) << "no such number is believed";
}

TEST(MpiCalls, TheCallerIsTheUsersPythonLine) {
  ProfileBuilder b(2);
  const auto user = b.python("step", "/u/train.py", 88, 80);
  const auto glue = b.python("reduce", "/x/site-packages/mpi4py/util/pool.py", 7, 1);
  const auto frozen = b.python("_call_with_frames_removed", "<frozen importlib._bootstrap>", 241, 233);
  const auto extension = b.native("ext", "/u/ext.so", "ext.c", 3);
  const auto op = b.mpi("MPI_Send");
  b.called(0, b.path({user, op}), 1, 100, 8);
  b.called(0, b.path({user, glue, op}), 1, 100, 8);
  b.called(0, b.path({user, frozen, op}), 1, 100, 8);
  b.called(1, b.path({user, extension, op}), 1, 500, 8);
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.mpi_calls.size(), 1u);
  const MpiCallRow& row = a.mpi_calls[0];
  EXPECT_EQ(row.op, "MPI_Send");
  EXPECT_EQ(row.file, "/u/train.py");
  EXPECT_EQ(row.line, 88u);
  EXPECT_EQ(row.function, "step");
  EXPECT_EQ(row.count, 4u);
  EXPECT_EQ(row.sent_bytes, 32u);
  EXPECT_DOUBLE_EQ(row.time_s, 0.8);
  EXPECT_DOUBLE_EQ(row.spread.min_s, 0.3);
  EXPECT_DOUBLE_EQ(row.spread.max_s, 0.5);
  EXPECT_EQ(row.spread.max_rank, 1);
}

TEST(MpiCalls, WithoutPythonTheCallerIsNativeCodeOutsideMpi) {
  ProfileBuilder b(1);
  const auto main = b.native("main", "/u/ring", "ring.f90", 12);
  const auto binding = b.native("mpi_send_", "/usr/lib/libmpi_mpifh.so.40", "send_f.c", 50);
  const auto stripped = b.native("exchange", "/u/ring");
  b.called(0, b.path({main, binding, b.mpi("MPI_Send")}), 1, 300);
  b.called(0, b.path({stripped, binding, b.mpi("MPI_Send")}), 1, 200);
  b.called(0, b.path({binding, b.mpi("MPI_Send")}), 1, 100);
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.mpi_calls.size(), 3u);
  EXPECT_EQ(a.mpi_calls[0].function, "main");
  EXPECT_EQ(a.mpi_calls[0].line, 12u);
  EXPECT_EQ(a.mpi_calls[1].function, "exchange");
  EXPECT_EQ(a.mpi_calls[2].function, "mpi_send_");
}

TEST(Tables, DuplicatesAddUpInOrder) {
  ProfileBuilder b(2);
  b.data.matrix = {{1, 0, 1, 10}, {0, 1, 2, 20}, {1, 0, 3, 30}};
  b.data.counters = {"A", "B"};
  b.data.counter_values = {{1, 0, 5}, {0, 0, 7}, {1, 0, 6}, {1, 99, 1}, {99, 0, 1}};
  b.data.drops = {{0, "ring_full", 3}, {1, "ring_full", 4}, {1, "reentrant", 0}};
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.matrix.size(), 2u);
  EXPECT_EQ(a.matrix[1].messages, 4u);
  EXPECT_EQ(a.matrix[1].bytes, 40u);
  ASSERT_EQ(a.rank_counters.size(), 2u);
  EXPECT_EQ(a.rank_counters[1].values[0].second, 11u);
  EXPECT_EQ(a.counter_spreads[0].max_rank, 1);
  EXPECT_DOUBLE_EQ(a.counter_spreads[0].mean, 9);
  EXPECT_EQ(a.counter_spreads[1].max_rank, -1) << "nobody counted it";
  EXPECT_EQ(a.run.dropped, (std::map<std::string, std::uint64_t>{{"ring_full", 7}}));
}

TEST(Findings, MpiDropsAreNotComparedWithSamples) {
  ProfileBuilder b(1);
  const auto path = b.path({b.python("f", "f.py", 2, 1)});
  b.sampled(0, path, Category::kPython, 1000);
  b.data.ranks[0].samples = 1000;
  b.data.mpi_calls.push_back({0, path, shard::kNone, 10'000, 1, 1, 1, 0, 0});
  b.data.drops = {{0, "mpi_event_ring_full", 90}, {0, "mpi_site_table_full", 5}, {0, "ring_full", 9}};
  EXPECT_EQ(find_finding(analyse(b.data), "dropped"), nullptr) << "less than 1 % of either";
  b.data.drops[0].count = 995;
  EXPECT_EQ(find_finding(analyse(b.data), "of the MPI calls"), nullptr) << "events are no calls";
  b.data.drops[1].count = 1000;
  EXPECT_NE(find_finding(analyse(b.data), "10.0 % of the MPI calls"), nullptr);
  b.data.drops = {{0, "ring_full", 1000}};
  EXPECT_NE(find_finding(analyse(b.data), "50.0 % of the samples (1000 of 2000) were lost"), nullptr);
}

TEST(Damage, IndicesOutsideTheirTablesAreIgnored) {
  ProfileBuilder b(1);
  const auto good = b.path({b.python("f", "f.py", 2, 1)});
  b.sampled(0, good, Category::kPython, 1000);
  b.data.paths.push_back({{}, 77, 0});     // parent after the child
  b.data.paths.push_back({{}, 1, 12345});  // no such frame
  b.data.frames.push_back({shard::FrameKind::kNative, false, 999, 999, 999, 5, 5});
  b.data.paths.push_back({{}, 1, static_cast<std::uint32_t>(b.data.frames.size() - 1)});
  for (std::uint32_t path = 2; path < 6; ++path) b.sampled(0, path, Category::kNative, 10);
  b.data.values.push_back({7, good, Category::kNative, true, 1, 1, 1});
  b.data.values.push_back({0, good, static_cast<Category>(200), true, 1, 1, 1});
  b.data.mpi_calls.push_back({0, 4000, 0, 1, 1, 1, 1, 0, 0});
  b.data.mpi_calls.push_back({9, good, 0, 1, 1, 1, 1, 0, 0});
  b.data.mpi_sizes.push_back({4711, 8, 1});
  b.data.ranks[0].node = 55;
  const Analysis a = analyse(b.data);
  ASSERT_NE(find_function(a, "f"), nullptr);
  EXPECT_TRUE(a.mpi_calls.empty());
  EXPECT_FALSE(render_text(a, {}).empty());
  EXPECT_FALSE(render_json(a).empty());
}

TEST(Findings, NameTheSlowRankAndItsLine) {
  const Analysis a = analyse(testing::training_run());
  const Finding* finding = find_finding(a, "Load imbalance");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rank, 3);
  EXPECT_EQ(finding->place.file, "/home/u/examples/train.py");
  EXPECT_EQ(finding->place.line, 57u);
  // Useful: 5.0, 5.1, 5.2, 9.0 s; mean 6.075.
  EXPECT_NEAR(*finding->share, 0.2925, 1e-9);
  EXPECT_EQ(finding->severity, Severity::kHigh);
  EXPECT_EQ(&a.findings.front(), finding);
  const Finding* mpi = find_finding(a, "MPI takes 39.2 %");
  ASSERT_NE(mpi, nullptr);
  EXPECT_NEAR(*mpi->share, 0.1, 1e-9) << "waiting for rank 3 is the other finding's";
  EXPECT_NE(text_of(a, *mpi).find("MPI_Allreduce <- step() train.py:88"), std::string::npos);
}

TEST(Findings, ExcessInManyLinesIsBlamedOnTheirCaller) {
  ProfileBuilder b(2);
  const auto main = b.python("main", "f.py", 30, 28);
  const auto wait = b.path({main, b.mpi("MPI_Barrier")});
  for (std::uint32_t line = 1; line <= 8; ++line)
    for (std::uint32_t r = 0; r < 2; ++r)
      b.sampled(r, b.path({main, b.python("work", "f.py", line, 1)}), Category::kPython, r == 1 ? 1000 : 200);
  b.called(0, wait, 1, 8400);
  b.called(1, wait, 1, 2000);
  const Analysis a = analyse(b.data);
  const Finding* finding = find_finding(a, "Load imbalance");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rank, 1);
  EXPECT_EQ(finding->place.line, 30u);
}

TEST(Findings, BalancedComputingRunHasNone) {
  ProfileBuilder b(4);
  const auto work = b.path({b.native("work", "/a.out", "a.c", 3)});
  for (std::uint32_t r = 0; r < 4; ++r) {
    b.called(r, b.path({b.native("main", "/a.out", "a.c", 9), b.mpi("MPI_Allreduce")}), 5, 200);
    b.sampled(r, work, Category::kNative, 9800);
  }
  EXPECT_TRUE(analyse(b.data).findings.empty());
}

TEST(Findings, LostTimeIsRatedAbovePythonTime) {
  ProfileBuilder b(2);
  const auto work = b.path({b.python("work", "f.py", 5, 1)});
  const auto wait = b.path({b.python("main", "f.py", 9, 8), b.mpi("MPI_Barrier")});
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.called(r, wait, 1, r == 0 ? 6000 : 0);
    b.sampled(r, work, Category::kPython, r == 0 ? 4000 : 10'000);
  }
  const Analysis a = analyse(b.data);
  ASSERT_GE(a.findings.size(), 2u);
  EXPECT_EQ(a.findings[0].severity, Severity::kHigh);
  EXPECT_NE(text_of(a, a.findings[0]).find("Load imbalance costs 30.0 %"), std::string::npos);
  EXPECT_EQ(a.findings[1].severity, Severity::kMedium);
  EXPECT_NE(text_of(a, a.findings[1]).find("bytecode for 70.0 %"), std::string::npos);
  EXPECT_EQ(a.findings[1].place.line, 5u);
}

TEST(Findings, AbnormalEndsComeFirstAndThereAreAtMostEight) {
  ProfileBuilder b(16);
  const auto& data = b.data;
  for (std::uint32_t r = 0; r < 16; ++r) {
    b.data.ranks[r].flags |= r < 8 ? shard::kExitSignalKnown : shard::kExitStatusKnown;
    b.data.ranks[r].exit_signal = static_cast<std::int32_t>(r < 4 ? 11 : 15);
    b.data.ranks[r].exit_status = static_cast<std::int32_t>(r);
    b.sampled(r, b.path({b.python("f", "f.py", 2, 1)}), Category::kPython, 10'000);
  }
  const Analysis a = analyse(data);
  ASSERT_GE(a.findings.size(), 2u);
  ASSERT_LE(a.findings.size(), thresholds::kMaxFindings);
  EXPECT_EQ(text_of(a, a.findings[0]), "Ranks 0-3 ended by SIGSEGV, rank 0 first.");
  EXPECT_EQ(a.findings[1].ranks.size(), 12u) << "all others are one finding";
}

TEST(Findings, OnLostRanksNameTheLastSampledPlace) {
  ProfileBuilder b(4);
  for (std::uint32_t r = 0; r < 4; ++r) {
    b.data.ranks[r].flags |= shard::kLost | shard::kExitSignalKnown;
    b.data.ranks[r].exit_signal = r < 2 ? 11 : 9;
    const char* const path = r == 3 ? "main\t/u/a.c\t9\t\t1\nrecv\t/u/b.c\t2\t\t1"
                                    : "main\t/u/a.c\t9\t\t1\nsolve\t/u/a.c\t4\t\t1\nlibx.so+0x123\t\t0\t\t1";
    b.data.ranks[r].last_call_path = static_cast<shard::StringIndex>(b.data.strings.size());
    b.data.strings.emplace_back(path);
    b.sampled(r, b.path({b.python("f", "f.py", 2, 1)}), Category::kPython, 10'000);
  }
  const Analysis a = analyse(b.data);
  EXPECT_EQ(text_of(a, a.findings[0]), "Ranks 0, 1 ended by SIGSEGV, rank 0 first in solve() a.c:4.");
  EXPECT_EQ(text_of(a, a.findings[1]), "Ranks 2, 3 ended after rank 0 had failed: SIGKILL.");
  ASSERT_EQ(a.ranks[3].last_call_path.size(), 2u);
  EXPECT_EQ(a.ranks[3].last_call_path[1].function, "recv");
  EXPECT_EQ(a.ranks[3].last_call_path[1].line, 2u);
  const std::string text = render_text(a, {});
  EXPECT_NE(text.find("ranks lost        4 of 4: 0-3"), std::string::npos) << text;
  EXPECT_NE(text.find("last call path    rank 0: main (a.c:9) > solve (a.c:4) > libx.so+0x123"),
            std::string::npos)
      << text;
}

TEST(Text, LeavesOutTheMiddleOfLongLastCallPaths) {
  const auto last_path_of = [](int frames) {
    ProfileBuilder b(1);
    b.data.ranks[0].flags |= shard::kLost;
    std::string path;
    for (int i = 0; i < frames; ++i) path += (i == 0 ? "f" : "\nf") + std::to_string(i) + "\t\t0\t\t1";
    b.data.ranks[0].last_call_path = static_cast<shard::StringIndex>(b.data.strings.size());
    b.data.strings.push_back(path);
    b.sampled(0, b.path({b.python("f", "f.py", 2, 1)}), Category::kPython, 10'000);
    std::string words;
    std::istringstream text(render_text(analyse(b.data), {}));
    for (std::string word; text >> word;) words += word + " ";
    const std::size_t begin = words.find("rank 0: f0");
    return begin == std::string::npos ? words : words.substr(begin, std::string::npos);
  };
  const std::string last = "f12 > f13 > f14 > f15 > f16 > f17 > f18 > f19 ";
  EXPECT_EQ(last_path_of(20).find("rank 0: f0 > f1 > f2 > .. 9 more > " + last), 0u) << last_path_of(20);
  EXPECT_NE(last_path_of(12).find("f2 > f3 > f4 > f5"), std::string::npos) << "no more than one is left out";
  EXPECT_NE(last_path_of(13).find("f2 > .. 2 more > f5 > f6"), std::string::npos) << last_path_of(13);
}

TEST(Bottleneck, LargestShareOfTheRunComesFirst) {
  const Analysis a = analyse(testing::training_run());
  ASSERT_GE(a.bottlenecks.size(), 3u);
  EXPECT_EQ(a.bottlenecks[0].kind, "compute");
  EXPECT_FALSE(a.bottlenecks[0].rank);
  EXPECT_EQ(a.bottlenecks[1].kind, "imbalance");
  EXPECT_NEAR(a.bottlenecks[1].share, 0.2925, 1e-9);
  EXPECT_EQ(a.bottlenecks.back().rank, 3);
}

TEST(Empty, ProfileGivesAReport) {
  const Analysis a = analyse(shard::ShardData{});
  EXPECT_EQ(a.run.elapsed_s, 0);
  EXPECT_FALSE(render_text(a, {}).empty());
  EXPECT_FALSE(render_banner(a, "run", 80).empty());
  EXPECT_FALSE(render_json(a).empty());
}

}  // namespace
}  // namespace clusterprof::report
