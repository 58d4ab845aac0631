// SPDX-License-Identifier: BSD-3-Clause
// When a run has come to a standstill, and what is like that and is none.
#include "report/analysis/standstill.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "profile_builder.hpp"
#include "report/analysis/stacks.hpp"
#include "report/stacks.hpp"

namespace clusterprof::report {
namespace {

using shard::CallUnderWay;
using shard::Category;
using shard::Thread;
using testing::kMs;
using testing::ProfileBuilder;

constexpr std::uint64_t kSecond = 1000 * kMs;

// Ranks of which each is in a barrier for 8 s, polling all the time.
struct PollingJob : ProfileBuilder {
  explicit PollingJob(std::uint32_t ranks, std::uint32_t nodes = 1) : ProfileBuilder(ranks, nodes) {
    data.run.world_size = ranks;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      data.ranks[r].flags |= shard::kUsedMpi | shard::kStillRan | shard::kLost;
      thread(r, Category::kMpi, 0, 8 * kSecond).kind = shard::ThreadKind::kMain;
      CallUnderWay row;
      row.rank = r;
      row.tid = data.ranks[r].pid;
      row.path = path({python("main", "train.py", 57, 1), mpi("MPI_Barrier")});
      row.lasted_ns = 8 * kSecond;
      data.calls_under_way.push_back(row);
    }
  }

  Thread& thread(std::uint32_t r, Category category, std::uint64_t unmoved_ns, std::uint64_t cpu_ns) {
    Thread row;
    row.rank = r;
    row.pid = data.ranks[r].pid;
    row.tid = data.ranks[r].pid + static_cast<std::int32_t>(data.threads.size()) * 1000;
    if (data.threads.size() == r) row.tid = data.ranks[r].pid;
    row.kind = shard::ThreadKind::kPython;
    row.flags = Thread::kRuns;
    row.start_utc_ns = data.ranks[r].start_utc_ns;
    row.elapsed_ns = data.ranks[r].elapsed_ns;
    row.last_path = path({python("f", "train.py", 3, 1)});
    row.last_category = category;
    row.unmoved_ns = unmoved_ns;
    row.unmoved_cpu_ns = cpu_ns;
    row.cpu_ns = cpu_ns;
    data.threads.push_back(row);
    return data.threads.back();
  }
  // Rank 1 is not in the barrier.
  Thread& instead(Category category, std::uint64_t unmoved_ns, std::uint64_t cpu_ns) {
    std::erase_if(data.calls_under_way, [](const CallUnderWay& call) { return call.rank == 1; });
    Thread& main = data.threads[1];
    main.last_category = category;
    main.unmoved_ns = unmoved_ns;
    main.unmoved_cpu_ns = cpu_ns;
    return main;
  }

  [[nodiscard]] double still_s() const {
    std::vector<std::string> nodes;
    for (const shard::Node& node : data.nodes) nodes.push_back(node.name);
    return still_s(nodes);
  }
  [[nodiscard]] double still_s(const std::vector<std::string>& told) const {
    return static_cast<double>(standstill_ns(data, CallPaths(data), told)) / static_cast<double>(kSecond);
  }
};

TEST(Standstill, IsAsLongAsTheRankThatMovedLastHasStood) {
  PollingJob job(3);
  EXPECT_DOUBLE_EQ(job.still_s(), 8);
  job.data.calls_under_way[2].lasted_ns = 3 * kSecond;
  EXPECT_DOUBLE_EQ(job.still_s(), 3);
}

TEST(Standstill, IsThatOfAllKindsOfWaiting) {
  const auto with = [](Category category, std::uint64_t unmoved_ns, std::uint64_t cpu_ns) {
    PollingJob job(2);
    job.instead(category, unmoved_ns, cpu_ns);
    return job.still_s();
  };
  EXPECT_DOUBLE_EQ(with(Category::kIdle, 6 * kSecond, 0), 6);              // asleep, or blocked by a lock
  EXPECT_DOUBLE_EQ(with(Category::kIo, 6 * kSecond, 0), 6);                // a file server does not answer
  EXPECT_DOUBLE_EQ(with(Category::kNative, 6 * kSecond, 6 * kSecond), 6);  // in an empty loop
  EXPECT_DOUBLE_EQ(with(Category::kNative, 0, 0), 0);                      // computes in one function
  EXPECT_DOUBLE_EQ(with(Category::kNative, 20 * kMs, 20 * kMs), 0.02);     // it has only just come there
  EXPECT_DOUBLE_EQ(with(Category::kIdle, 6 * kSecond, 10 * kMs), 0);       // looks for something now and then
  EXPECT_DOUBLE_EQ(with(Category::kIo, 6 * kSecond, kSecond), 0);          // reads a large file
  EXPECT_DOUBLE_EQ(with(Category::kSystem, 6 * kSecond, 6 * kSecond), 0);
}

TEST(Standstill, IsNoneWhileAnotherThreadOrProcessOfARankWorks) {
  PollingJob job(2);
  Thread& other = job.thread(0, Category::kNative, 0, kSecond);
  EXPECT_DOUBLE_EQ(job.still_s(), 0);
  other.kind = shard::ThreadKind::kHelper;  // of the MPI library
  EXPECT_DOUBLE_EQ(job.still_s(), 8);

  PollingJob child(2);
  Thread& of_child = child.thread(1, Category::kPython, 0, kSecond);
  of_child.kind = shard::ThreadKind::kMain, of_child.pid = of_child.tid;
  EXPECT_DOUBLE_EQ(child.still_s(), 0);
  of_child.flags = 0;  // it has ended
  EXPECT_DOUBLE_EQ(child.still_s(), 8);

  PollingJob unrecorded(2);
  shard::Process process;
  process.rank = 1;
  process.unrecorded = shard::Unrecorded::kStaticProgram;
  process.flags = shard::Process::kRuns;
  unrecorded.data.processes = {process};
  EXPECT_DOUBLE_EQ(unrecorded.still_s(), 0);
  unrecorded.data.processes[0].flags = 0;
  EXPECT_DOUBLE_EQ(unrecorded.still_s(), 8);
}

TEST(Standstill, IsNotPreventedByThreadsThatDoNextToNothing) {
  PollingJob job(2);
  Thread& beside = job.thread(0, Category::kIdle, 90 * kMs, kMs);  // says ten times a second that it is alive
  beside.cpu_ns = 90 * kMs;                                        // in 10 s
  EXPECT_DOUBLE_EQ(job.still_s(), 8);
  beside.cpu_ns = 110 * kMs;
  EXPECT_DOUBLE_EQ(job.still_s(), 0.09);
  beside.cpu_ns = kMs;
  beside.last_category = Category::kIo;  // it may transfer something
  EXPECT_DOUBLE_EQ(job.still_s(), 0.09);
  beside.last_category = Category::kNative;
  beside.last_path = 0;  // never sampled
  EXPECT_DOUBLE_EQ(job.still_s(), 8);
  beside.cpu_ns = 110 * kMs;
  EXPECT_DOUBLE_EQ(job.still_s(), 0);
}

TEST(Standstill, IsNoneInACallThatWorksOnFiles) {
  PollingJob job(2);
  job.data.calls_under_way[1].path =
      job.path({job.python("main", "train.py", 60, 1), job.mpi("MPI_File_write_all")});
  job.data.threads[1].unmoved_ns = 8 * kSecond;
  job.data.threads[1].unmoved_cpu_ns = kSecond;
  EXPECT_DOUBLE_EQ(job.still_s(), 0);
  job.data.threads[1].unmoved_cpu_ns = 0;
  EXPECT_DOUBLE_EQ(job.still_s(), 8);
}

TEST(Standstill, IsNotSaidOfRanksOfWhichTooLittleIsKnown) {
  PollingJob missing(2);
  missing.data.run.world_size = 3;
  EXPECT_DOUBLE_EQ(missing.still_s(), 0);
  PollingJob without_threads(2);
  std::erase_if(without_threads.data.threads, [](const Thread& thread) { return thread.rank == 1; });
  EXPECT_DOUBLE_EQ(without_threads.still_s(), 0);
}

// It may have gone on since.
TEST(Standstill, IsNotSaidOfRanksThatWereNotLookedAtNow) {
  PollingJob job(2, 2);
  const std::string first = job.data.nodes[0].name, second = job.data.nodes[1].name;
  EXPECT_DOUBLE_EQ(job.still_s({first, second}), 8);
  EXPECT_DOUBLE_EQ(job.still_s({first}), 0);
  job.data.ranks[1].flags = shard::kUsedMpi | shard::kExitStatusKnown;
  EXPECT_DOUBLE_EQ(job.still_s({first}), 8);

  PollingJob turned_off(2, 2);
  turned_off.data.run.notes = {shard::note_of_node(shard::NoteCode::kTurnedOff, second, 60)};
  EXPECT_DOUBLE_EQ(turned_off.still_s(), 0);
}

// What is compared is one stretch of time: of rank 1 nothing is known after it was looked at.
TEST(Standstill, IsAsOfTheOldestLook) {
  PollingJob job(2);
  job.data.ranks[0].elapsed_ns += 3 * kSecond;  // began to wait 3 s later than rank 1
  EXPECT_DOUBLE_EQ(job.still_s(), 5);
  job.data.ranks[0].elapsed_ns += 6 * kSecond;  // began when rank 1 may have gone on
  EXPECT_DOUBLE_EQ(job.still_s(), 0);
}

TEST(Standstill, IsOfRanksThatHaveNotEnded) {
  PollingJob job(2);
  job.instead(Category::kNative, 0, 0);
  job.data.ranks[1].flags = shard::kUsedMpi | shard::kExitStatusKnown;
  EXPECT_DOUBLE_EQ(job.still_s(), 8);
  job.data.ranks[0].flags = shard::kUsedMpi | shard::kExitStatusKnown;
  EXPECT_DOUBLE_EQ(job.still_s(), 0);
}

TEST(Standstill, IsSaidInLinesOfOurs) {
  PollingJob job(2);
  StacksReport report = report_stacks(job.data, FrameMode::kFolded);
  EXPECT_EQ(render_standstill(report, 60, "my run", false),
            "clusterprof: No rank has made progress for 60.0 s.\n"
            "clusterprof: where all ranks are: clusterprof stacks 'my run'\n");
  EXPECT_NE(render_standstill(report, 60, "run", true).find("SIGABRT, as --hang-abort asks\n"),
            std::string::npos);
}

// --hang-abort ended the ranks, so that SIGABRT is no failure of theirs.
TEST(Standstill, ThatEndedTheRunIsItsFailure) {
  PollingJob job(2);
  job.instead(Category::kIo, 8 * kSecond, 0);
  for (shard::Rank& rank : job.data.ranks) {
    rank.flags = shard::kUsedMpi | shard::kExitSignalKnown | shard::kLost;
    rank.exit_signal = 6;
  }
  job.data.run.notes = {shard::note_of_run(shard::NoteCode::kEndedForHang, 60)};
  const Analysis a = analyse(job.data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->kind, FailureKind::kHang);
  ASSERT_FALSE(a.findings.empty());
  EXPECT_EQ(a.findings[0].kind, FindingKind::kNoProgress);
  EXPECT_EQ(a.findings[0].evidence.number(EvidenceKey::kTime), 60);
  for (const Finding& finding : a.findings) EXPECT_NE(finding.kind, FindingKind::kRankFailed);
  // Rank 1 had failed by itself.
  job.data.ranks[1].exit_signal = 11;
  EXPECT_EQ(analyse(job.data).failure->kind, FailureKind::kSignal);
  EXPECT_EQ(analyse(job.data).failure->rank, 1);
  // Nobody was told to end them.
  job.data.ranks[1].exit_signal = 6;
  job.data.run.notes = {shard::note_of_run(shard::NoteCode::kNoProgress, 60)};
  EXPECT_EQ(analyse(job.data).failure->kind, FailureKind::kSignal);
}

}  // namespace
}  // namespace clusterprof::report
