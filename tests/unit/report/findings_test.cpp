// SPDX-License-Identifier: BSD-3-Clause
// Findings on gains, failures, shared processors, and losses of the measurement.
#include "report/words/findings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::IoOperation;
using testing::find_finding;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

// --- names and documents ---------------------------------------------------------------------------

template <std::size_t N>
void expect_documented(const std::array<const char*, N>& names, const std::string& document) {
  for (const char* const name : names) {
    ASSERT_NE(name, nullptr);
    EXPECT_NE(document.find(std::string("`") + name + "`"), std::string::npos) << name;
    for (const char c : std::string(name)) EXPECT_TRUE(c == '_' || (c >= 'a' && c <= 'z')) << name;
  }
}

// Every enumerator has its name.
static_assert(static_cast<std::size_t>(FindingKind::kRecordingCost) + 1 == kFindingKinds);
static_assert(static_cast<std::size_t>(FindingAction::kFewerProcesses) + 1 == kFindingActions);
static_assert(static_cast<std::size_t>(EvidenceKey::kThreadsReady) + 1 == kEvidenceKeys);
static_assert(kFindingKindNames.back() != nullptr && kFindingActionNames.back() != nullptr &&
              kEvidenceKeyNames.back() != nullptr);
static_assert(std::string_view(name_of(FindingKind::kClocks)) == "clocks");
static_assert(std::string_view(name_of(FindingKind::kImports)) == "imports");
static_assert(std::string_view(name_of(FindingKind::kSharedProcessors)) == "shared_processors");
static_assert(std::string_view(name_of(FindingKind::kOpenMpThreads)) == "openmp_threads");
static_assert(std::string_view(name_of(FindingAction::kBindWider)) == "bind_wider");
static_assert(std::string_view(name_of(FindingAction::kFewerRanks)) == "fewer_ranks");
static_assert(std::string_view(name_of(EvidenceKey::kSignal)) == "signal");
static_assert(std::string_view(name_of(EvidenceKey::kSleep)) == "sleep_s");

TEST(FindingNames, AreThoseOfTheDocument) {
  std::ifstream file(REPORT_METRICS);
  std::stringstream document;
  document << file.rdbuf();
  ASSERT_FALSE(document.str().empty());
  expect_documented(kFindingKindNames, document.str());
  std::vector<const char*> shown(kFindingActionNames.begin() + 1, kFindingActionNames.end());
  for (const char* const name : shown)
    EXPECT_NE(document.str().find(std::string("`") + name + "`"), std::string::npos) << name;
}

// A damaged file may lack all evidence.
TEST(FindingWords, EveryKindHasASentence) {
  const Analysis nothing;
  const format::ShortPaths names(nothing);
  for (std::size_t kind = 0; kind < kFindingKinds; ++kind) {
    Finding finding;
    finding.kind = static_cast<FindingKind>(kind);
    if (finding.kind == FindingKind::kClocks) finding.evidence.set(EvidenceKey::kViolations, 1);
    const std::string sentence = words::headline(finding, names);
    EXPECT_GT(sentence.size(), 12u) << name_of(finding.kind);
  }
}

// --- gains -------------------------------------------------------------------------------------------

TEST(Gain, IsWhatTheRunWouldSaveAtMost) {
  const Analysis a = analyse(testing::training_run());
  const Finding* imbalance = find_kind(a, FindingKind::kLoadImbalance);
  ASSERT_NE(imbalance, nullptr);
  EXPECT_NEAR(*imbalance->gain_s, 9.0 - 6.075, 1e-9) << "max - mean useful";
  const Finding* mpi = find_kind(a, FindingKind::kMpiTime);
  ASSERT_NE(mpi, nullptr);
  EXPECT_NEAR(*mpi->gain_s, 1.0, 1e-9) << "the share that imbalance does not explain, of 10 s";
  EXPECT_EQ(words::gain(*imbalance), "To gain: at most 2.92 s (estimated from sums).");
  EXPECT_NE(render_text(a, {120, false, {}, 15}).find("To gain: at most 2.92 s"), std::string::npos);
  EXPECT_NE(render_json(a).find("\"gain_s\": 2.925"), std::string::npos);

  const Analysis delayed = analyse(testing::delayed_run());
  const Finding* delay = find_kind(delayed, FindingKind::kDelay);
  ASSERT_NE(delay, nullptr);
  EXPECT_NEAR(*delay->gain_s, 16.5 / 3, 1e-9) << "what each of the three that waited had to wait";
}

TEST(Gain, IsThatOfTheLargestRankAndAtMostTheRunsTime) {
  ProfileBuilder b(4);
  for (std::uint32_t r = 0; r < 4; ++r) {
    b.sampled(r, b.child(native(b, "nap", 20), b.kernel("nanosleep")), Category::kIdle, r == 2 ? 8000 : 2000);
    b.sampled(r, native(b, "compute", 10), Category::kNative, r == 2 ? 2000 : 8000);
  }
  const Analysis a = analyse(b.data);
  const Finding* blocked = find_kind(a, FindingKind::kBlocked);
  ASSERT_NE(blocked, nullptr);
  EXPECT_NEAR(*blocked->gain_s, 8, 1e-6);
  for (const auto& run : {testing::training_run(), testing::delayed_run(), testing::resources_run()}) {
    const Analysis other = analyse(run);
    for (const Finding& finding : other.findings)
      EXPECT_LE(finding.gain_s.value_or(0), other.run.elapsed_s) << text_of(other, finding);
  }
}

TEST(Gain, OrdersFindingsOfOneSeverity) {
  for (const auto& run : {testing::training_run(), testing::delayed_run(), testing::resources_run()}) {
    const Analysis a = analyse(run);
    for (std::size_t i = 1; i < a.findings.size(); ++i) {
      const Finding &before = a.findings[i - 1], &after = a.findings[i];
      EXPECT_LE(before.severity, after.severity);
      if (before.severity == after.severity) {
        EXPECT_GE(before.gain_s.value_or(0), after.gain_s.value_or(0));
      }
    }
  }
}

// --- failures ----------------------------------------------------------------------------------------

struct RankEnd {
  std::uint64_t elapsed_ms;
  int signal, status;
};
shard::ShardData ranks_that_ended(const std::vector<RankEnd>& ends) {
  ProfileBuilder b(static_cast<std::uint32_t>(ends.size()));
  for (std::uint32_t r = 0; r < ends.size(); ++r) {
    shard::Rank& rank = b.data.ranks[r];
    rank.elapsed_ns = ends[r].elapsed_ms * kMs;
    if (ends[r].signal != 0)
      rank.flags |= shard::kExitSignalKnown | shard::kLost, rank.exit_signal = ends[r].signal;
    else
      rank.flags |= shard::kExitStatusKnown, rank.exit_status = ends[r].status;
    rank.last_call_path = b.string(
        "main\t/u/solver.c\t9\t/u/a.out\t1\nsolve\t/u/solver.c\t42\t/u/a.out\t1\n"
        "dict_merge\t/build/Objects/dictobject.c\t2811\t/usr/bin/python3.11\t1\n"
        "raise\t/build/glibc/raise.c\t0\t/lib/libc.so.6\t1");
    b.sampled(r, b.path({b.python("f", "f.py", 2, 1)}), Category::kPython, ends[r].elapsed_ms);
  }
  return std::move(b.data);
}

TEST(Failures, TheRankThatFailedFirstComesBeforeThoseThatTheLauncherEnded) {
  const Analysis a = analyse(ranks_that_ended({{9000, 15, 0}, {8950, 9, 0}, {8900, 0, 3}, {9100, 0, 143}}));
  ASSERT_GE(a.findings.size(), 2u);
  EXPECT_EQ(a.findings[0].kind, FindingKind::kRankFailed);
  EXPECT_EQ(a.findings[0].ranks, std::vector<std::int32_t>{2});
  EXPECT_EQ(a.findings[0].place.line, 42u) << "the last line of the program, not of what it calls";
  EXPECT_EQ(text_of(a, a.findings[0]), "Rank 2 exited with status 3; last sampled in solve() solver.c:42.");
  EXPECT_EQ(a.findings[1].kind, FindingKind::kRanksEndedAfter);
  EXPECT_EQ(a.findings[1].ranks, (std::vector<std::int32_t>{0, 1, 3}));
  EXPECT_EQ(text_of(a, a.findings[1]),
            "Ranks 0, 1, 3 ended after rank 2 had failed: SIGKILL, SIGTERM, status 143.");
  EXPECT_NE(render_oneline(a).find("high: Rank 2 exited with status 3; last sampled in solve() solver.c:42"),
            std::string::npos);
}

// Half of the time is spent in a sleep.
TEST(Failures, OfARunThatFailedAtOnceNothingIsSaidThatWouldSaveMilliseconds) {
  const auto kinds = [](std::uint64_t elapsed_ms, int status, std::uint64_t slept_ms) {
    ProfileBuilder b(1);
    shard::Rank& rank = b.data.ranks[0];
    rank.flags |= shard::kExitStatusKnown;
    rank.exit_status = status;
    b.sampled(0, b.path({b.native("rest", "/u/a.out", "/u/a.c", 3), b.kernel("clock_nanosleep")}),
              Category::kIdle, slept_ms);
    b.sampled(0, b.path({b.native("work", "/u/a.out", "/u/a.c", 9)}), Category::kNative,
              elapsed_ms - slept_ms);
    b.lasts(elapsed_ms);
    std::vector<FindingKind> found;
    for (const Finding& finding : analyse(b.data).findings) found.push_back(finding.kind);
    return found;
  };
  using Kinds = std::vector<FindingKind>;
  EXPECT_EQ(kinds(27, 2, 20), Kinds{FindingKind::kRankFailed});
  EXPECT_EQ(kinds(900, 2, 99), Kinds{FindingKind::kRankFailed});
  EXPECT_EQ(kinds(900, 2, 101), (Kinds{FindingKind::kRankFailed, FindingKind::kBlocked}));
  EXPECT_EQ(kinds(27, 0, 20), Kinds{FindingKind::kBlocked}) << "it may be run very often";
}

TEST(Failures, ExitFunctionsOfLibcAreNotThePlace) {
  shard::ShardData data = ranks_that_ended({{9000, 0, 2}, {9100, 0, 2}});
  data.strings.emplace_back("__run_exit_handlers\t\t0\t/lib/x86_64-linux-gnu/libc.so.6\t1");
  for (shard::Rank& rank : data.ranks)
    rank.last_call_path = static_cast<std::uint32_t>(data.strings.size() - 1);
  Analysis a = analyse(data);
  EXPECT_EQ(text_of(a, a.findings[0]), "Ranks 0, 1 exited with status 2, rank 0 first.");
  // A signal has the place where it came.
  data.ranks[0].flags |= shard::kExitSignalKnown | shard::kLost, data.ranks[0].exit_signal = 11;
  a = analyse(data);
  EXPECT_EQ(text_of(a, a.findings[0]), "Rank 0 ended by SIGSEGV in __run_exit_handlers().");
}

TEST(Failures, ThoseThatFailAlikeAreOneFindingAndTheFirstIsNamed) {
  const Analysis a = analyse(ranks_that_ended({{9000, 11, 0}, {8000, 11, 0}, {9500, 6, 0}}));
  EXPECT_EQ(text_of(a, a.findings[0]), "Ranks 0, 1 ended by SIGSEGV, rank 1 first in solve() solver.c:42.");
  EXPECT_EQ(a.findings[0].rank, 1);
  EXPECT_EQ(text_of(a, a.findings[1]), "Rank 2 ended after rank 1 had failed: SIGABRT.");
}

TEST(Failures, RankKilledBeforeTheLauncherActedIsTheFirst) {
  Analysis a = analyse(ranks_that_ended({{9000, 15, 0}, {8000, 9, 0}}));
  EXPECT_EQ(text_of(a, a.findings[0]), "Rank 1 ended by SIGKILL in solve() solver.c:42.");
  a = analyse(ranks_that_ended({{8000, 15, 0}, {9000, 9, 0}}));
  EXPECT_EQ(a.findings[0].kind, FindingKind::kRanksEndedAfter) << "killed because it did not end by SIGTERM";
  EXPECT_EQ(a.findings.size() > 1 && a.findings[1].kind == FindingKind::kRanksEndedAfter, false);
  EXPECT_EQ(text_of(a, a.findings[0]),
            "Ranks 0, 1 were ended by SIGKILL, SIGTERM; rank 0 was last seen in solve() solver.c:42.");
}

// MPICH's launcher kills the others.
TEST(Failures, WhereAllWereKilledTheFirstIsNamed) {
  const Analysis a = analyse(ranks_that_ended({{8002, 9, 0}, {8000, 9, 0}, {8003, 9, 0}}));
  EXPECT_FALSE(a.failure) << "who killed the first is not known";
  EXPECT_EQ(a.findings[0].rank, 1);
  EXPECT_EQ(
      text_of(a, a.findings[0]),
      "Ranks 0-2 were ended by SIGKILL; rank 1, the first of them, was last seen in solve() solver.c:42.");
}

// Their ends may be seen in another order.
TEST(Failures, OfRanksKilledAtOnceOneThatDidNotWaitIsTheFirst) {
  ProfileBuilder b(3);
  b.data = ranks_that_ended({{8000, 9, 0}, {8010, 9, 0}, {8001, 9, 0}});
  const auto barrier = b.path({b.native("main", "/u/a.out", "/u/solver.c", 77), b.mpi("MPI_Barrier")});
  for (const std::uint32_t waits : {0u, 2u})
    b.data.calls_under_way.push_back(
        {waits, 50, true, barrier, shard::kNone, shard::kNone, -1, shard::CallUnderWay::kNoTag, -1, 0, kMs});
  EXPECT_EQ(analyse(b.data).findings[0].rank, 1);
  b.data.ranks[1].elapsed_ns = 8100 * kMs;
  EXPECT_EQ(analyse(b.data).findings[0].rank, 0) << "not at once";
}

// Open MPI's ranks exit with status 195 when their daemon is gone, MPICH's are killed: neither is the reason.
TEST(Failures, LauncherThatEndedFirstIsTheCause) {
  shard::ShardData data = ranks_that_ended({{4010, 0, 195}, {4000, 0, 195}, {4020, 9, 0}});
  data.run.notes = {shard::note_of_ranks(shard::NoteCode::kLauncherGone, {0, 2})};
  data.run.notes[0].text = "mpirun";
  Analysis a = analyse(data);
  EXPECT_EQ(a.findings[0].kind, FindingKind::kLauncherGone);
  EXPECT_EQ(a.findings[0].ranks, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(text_of(a, a.findings[0]),
            "mpirun ended 4.00 s into the run, while the program was still running, and so ranks "
            "0-2 ended, too "
            "(SIGKILL, status 195); rank 1 was last seen in solve() solver.c:42. Find out what "
            "ended it: a "
            "kill, a time limit, a lost login.");
  for (const Finding& finding : a.findings)
    EXPECT_TRUE(finding.kind != FindingKind::kRankFailed && finding.kind != FindingKind::kRanksEndedAfter);
  // Rank 1 failed while the launcher was there.
  data.run.notes = {shard::note_of_ranks(shard::NoteCode::kLauncherGone, {0, 0}),
                    shard::note_of_ranks(shard::NoteCode::kLauncherGone, {2, 2})};
  a = analyse(data);
  EXPECT_EQ(a.findings[0].kind, FindingKind::kRankFailed);
  EXPECT_EQ(a.findings[0].rank, 1);
}

TEST(Delay, OfRanksThatWaitForAProcessorIsAPlainSentence) {
  Finding finding;
  finding.kind = FindingKind::kDelay;
  finding.rank = 1, finding.ranks = {1, 2};
  finding.place.function = shard::kRunnableName, finding.place.kind = shard::FrameKind::kKernel;
  finding.evidence.set(EvidenceKey::kWaitingRanks, 2);
  finding.evidence.set(EvidenceKey::kWait, 0.8);
  finding.evidence.set(EvidenceKey::kRankWait, 0.5);
  EXPECT_EQ(
      text_of(Analysis(), finding),
      "Delay: rank 1, waiting for a processor, and 1 other rank there, made 2 ranks wait 800 ms, rank 1 "
      "for 500 ms of it.");
}

// A rank that died in MPI_Finalize: the other one spun in a barrier, without a processor half of the time.
TEST(WaitingForAProcessor, InCallsThatNeverReturnedIsNotCounted) {
  ProfileBuilder b(2);
  const auto main = b.native("main", "/u/a.out", "/u/a.c", 99);
  const auto barrier = b.path({main, b.mpi("MPI_Barrier")});
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.sampled(r, b.path({main}), Category::kNative, 1000);
    b.called(r, barrier, 0, 9000);
    b.data.ranks[r].mpi_runnable_ns = 4500 * kMs;
    b.data.ranks[r].flags |= shard::kRunDelayKnown | shard::kWaitKnown;
  }
  EXPECT_NE(find_kind(analyse(b.data), FindingKind::kWaitingForProcessor), nullptr);
  for (std::uint32_t r = 0; r < 2; ++r)
    b.data.calls_under_way.push_back({r, 50, true, barrier, shard::kNone, shard::kNone, -1,
                                      shard::CallUnderWay::kNoTag, -1, 0, 9000 * kMs});
  EXPECT_EQ(find_kind(analyse(b.data), FindingKind::kWaitingForProcessor), nullptr);
}

// --- waiting for data ---

TEST(WaitsForData, AreNotFilesToBeReadInLargerPieces) {
  ProfileBuilder b(1);
  const auto main = b.native("main", "/u/a.out", "/u/a.c", 99);
  b.sampled(0, b.path({main, b.kernel("read"), b.kernel(std::string(shard::kOnPipeName))}), Category::kIo,
            5000);
  b.sampled(0, native(b, "compute", 10), Category::kNative, 5000);
  const Analysis a = analyse(b.data);
  const Finding* const finding = find_kind(a, FindingKind::kWaitsForData);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->share, 0.5, 1e-9);
  EXPECT_EQ(finding->action, FindingAction::kFindWhatIsAwaited);
  EXPECT_EQ(find_kind(a, FindingKind::kFileIo), nullptr);
  EXPECT_EQ(
      text_of(a, *finding).rfind("Ranks are blocked on pipes, sockets or other processes for 50.0 %", 0), 0u)
      << text_of(a, *finding);
}

// --- processors that are shared ------------------------------------------------------------------------

// Ranks that are in MPI for half of the time; they share processors.
ProfileBuilder crowded(std::uint32_t ranks, std::uint32_t nodes, std::uint32_t cpus) {
  ProfileBuilder b(ranks, nodes);
  for (shard::Node& node : b.data.nodes) node.cpus = cpus;
  const auto main = b.native("main", "/u/a.out", "/u/a.c", 99);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    b.sampled(r, native(b, "compute", 10), Category::kNative, 5000);
    b.called(r, b.path({main, b.mpi("MPI_Allreduce")}), 100, 5000);
    shard::Rank& rank = b.data.ranks[r];
    rank.flags |= shard::kUsageKnown;
    rank.flags &= ~shard::kRunDelayKnown;
    rank.cpu_ns = 10'000 * kMs * cpus * nodes / ranks;
    rank.involuntary_switches = 1000;
  }
  return b;
}

TEST(SharedProcessors, AreTheCauseAndMessagesAreNotToBlame) {
  const Analysis a = analyse(crowded(4, 1, 2).data);
  ASSERT_GE(a.findings.size(), 2u);
  EXPECT_EQ(a.findings[0].kind, FindingKind::kSharedProcessors);
  EXPECT_NEAR(*a.findings[0].gain_s, 5, 1e-9);
  const Finding* mpi = find_kind(a, FindingKind::kMpiTime);
  ASSERT_NE(mpi, nullptr);
  EXPECT_EQ(mpi->action, FindingAction::kNone);
  EXPECT_EQ(text_of(a, *mpi).find("larger messages"), std::string::npos) << text_of(a, *mpi);
  EXPECT_NE(text_of(a, *mpi).find("waiting for a processor"), std::string::npos) << text_of(a, *mpi);
  const Analysis roomy = analyse(crowded(2, 1, 8).data);
  EXPECT_NE(find_finding(roomy, "larger messages"), nullptr) << "where each has a processor of its own";
}

TEST(SharedProcessors, AreOneFindingWithTheWaitingForThem) {
  ProfileBuilder b = crowded(4, 1, 2);
  for (std::uint32_t r = 0; r < 4; ++r) b.data.ranks[r].flags |= shard::kRunDelayKnown;
  EXPECT_EQ(find_kind(analyse(b.data), FindingKind::kSharedProcessors), nullptr) << "nobody waited for them";
  for (std::uint32_t r = 0; r < 4; ++r) b.sampled(r, native(b, "compute", 10), Category::kRunnable, 5000);
  const Analysis a = analyse(b.data);
  ASSERT_FALSE(a.findings.empty());
  EXPECT_EQ(a.findings[0].kind, FindingKind::kWaitingForProcessor);
  EXPECT_EQ(find_kind(a, FindingKind::kSharedProcessors), nullptr);
  EXPECT_EQ(find_kind(a, FindingKind::kBusyNode), nullptr);
}

TEST(SharedProcessors, AreNotGuessedAtWhereARankKnows) {
  ProfileBuilder b = crowded(8, 2, 2);
  for (std::uint32_t r = 0; r < 3; ++r) b.data.ranks[r].flags |= shard::kRunDelayKnown;
  const Analysis a = analyse(b.data);  // rank 3 does not, nor do those of the other node
  const Finding* const finding = find_kind(a, FindingKind::kSharedProcessors);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->ranks, (std::vector<std::int32_t>{4, 5, 6, 7}));
  b.data.ranks[7].flags |= shard::kRunDelayKnown;
  const Analysis known = analyse(b.data);
  EXPECT_EQ(find_kind(known, FindingKind::kSharedProcessors), nullptr);
  EXPECT_EQ(find_kind(known, FindingKind::kBusyNode), nullptr);
}

TEST(SharedProcessors, OfSeveralNodesAreOneFinding) {
  const Analysis a = analyse(crowded(16, 4, 2).data);
  EXPECT_EQ(std::count_if(a.findings.begin(), a.findings.end(),
                          [](const Finding& f) { return f.kind == FindingKind::kSharedProcessors; }),
            1);
  const Finding& finding = a.findings[0];
  EXPECT_EQ(finding.ranks.size(), 16u);
  EXPECT_NEAR(*finding.share, 0.5, 1e-9);
  EXPECT_NE(text_of(a, finding).find("Ranks 0-15 share processors of 4 nodes (most on n"), std::string::npos)
      << text_of(a, finding);
}

TEST(MissingRanks, MakeCommunicationAndImbalanceUncertain) {
  ProfileBuilder b = crowded(2, 1, 8);
  b.data.run.world_size = 4;
  const Analysis a = analyse(b.data);
  EXPECT_EQ(a.findings[0].kind, FindingKind::kRanksMissing);
  EXPECT_EQ(find_finding(a, "larger messages"), nullptr);
  EXPECT_NE(find_finding(a, "What 2 missing ranks did is not known."), nullptr);
}

TEST(Imbalance, OfRanksThatAreSwitchedOutIsNotOfWork) {
  ProfileBuilder b(4);
  const auto main = b.native("main", "/u/a.out", "/u/a.c", 99);
  for (std::uint32_t r = 0; r < 4; ++r) {
    b.sampled(r, native(b, "resid", 10), Category::kNative, r == 1 ? 9000 : 5000);
    b.called(r, b.path({main, b.mpi("MPI_Barrier")}), 100, r == 1 ? 1000 : 5000);
    b.data.ranks[r].flags |= shard::kUsageKnown;
    b.data.ranks[r].cpu_ns = 4900 * kMs;
    b.data.ranks[r].involuntary_switches = r == 1 ? 1000 : 10;
  }
  const Finding* finding = nullptr;
  const Analysis preempted = analyse(b.data);
  finding = find_kind(preempted, FindingKind::kLoadImbalance);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->action, FindingAction::kGiveProcessors);
  EXPECT_NE(text_of(preempted, *finding).find("waits for a processor"), std::string::npos);
  EXPECT_EQ(text_of(preempted, *finding).find("equal work"), std::string::npos);
  b.data.ranks[1].cpu_ns = 8900 * kMs;
  const Analysis busy = analyse(b.data);
  EXPECT_NE(find_finding(busy, "Give the ranks equal work."), nullptr)
      << "it has the CPU time to show for it";
}

// --- files ---------------------------------------------------------------------------------------------

TEST(FileFindings, MpiIoIsNoCommunication) {
  ProfileBuilder b(2);
  const auto main = b.native("main", "/u/a.out", "/u/a.c", 99);
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.sampled(r, native(b, "compute", 10), Category::kNative, 4000);
    b.called(r, b.path({main, b.mpi("MPI_File_read_at_all")}), 100, 6000);
  }
  const Analysis a = analyse(b.data);
  EXPECT_EQ(find_kind(a, FindingKind::kMpiTime), nullptr);
  EXPECT_EQ(find_finding(a, "larger messages"), nullptr);
  const Finding* files = find_kind(a, FindingKind::kMpiFileIo);
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->place.op, "MPI_File_read_at_all");
  EXPECT_NEAR(*files->share, 0.6, 1e-9);
  EXPECT_NEAR(*files->gain_s, 6, 1e-9);
}

TEST(FileFindings, OpeningManyFilesIsNotToldToUseLargerPieces) {
  ProfileBuilder b(1);
  b.sampled(0, native(b, "compute", 10), Category::kNative, 3000);
  b.sampled(0, b.child(native(b, "scan", 30), b.kernel("openat")), Category::kIo, 7000);
  b.file_called(0, native(b, "scan", 30), "/data/part", IoOperation::kOpen, 4010, 6500);
  const Analysis a = analyse(b.data);
  const Finding* finding = find_kind(a, FindingKind::kFileIo);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->action, FindingAction::kFewerFiles);
  EXPECT_EQ(text_of(a, *finding).find("larger pieces"), std::string::npos);
  EXPECT_NE(text_of(a, *finding).find("Open fewer files"), std::string::npos);
}

// --- estimates -------------------------------------------------------------------------------------------

TEST(Estimates, AreCalledSoAndNeverHigh) {
  ProfileBuilder b(1);
  b.data.nodes[0].cache_bytes = 32u << 20;
  b.sampled(0, native(b, "dgemm", 20), Category::kNative, 9400);
  b.sampled(0, native(b, "compute", 10), Category::kNative, 600);
  b.accessed(0, native(b, "dgemm", 20), 1536, 600, 700);
  const Analysis a = analyse(b.data);
  const Finding* finding = find_kind(a, FindingKind::kMemoryBound);
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->is_estimate);
  EXPECT_EQ(finding->severity, Severity::kMedium) << "94 % by an estimate";
  EXPECT_TRUE(text_of(a, *finding).starts_with("Memory may limit 94.0 % of all rank time (estimate)"))
      << text_of(a, *finding);
}

// --- places ------------------------------------------------------------------------------------------------

TEST(Places, FrameThatContainsTheWholeProgramIsNotNamed) {
  ProfileBuilder b(1);
  const auto main = b.path({b.native("main", "/u/a.out", "/u/a.c", 99)});
  b.sampled(0, b.child(b.child(main, b.native("one", "/u/a.out", "/u/a.c", 10)), b.kernel("nanosleep")),
            Category::kIdle, 2000);
  b.sampled(0, b.child(b.child(main, b.native("two", "/u/a.out", "/u/a.c", 20)), b.kernel("nanosleep")),
            Category::kIdle, 2000);
  b.sampled(0, b.child(b.child(main, b.native("three", "/u/a.out", "/u/a.c", 30)), b.kernel("nanosleep")),
            Category::kIdle, 1900);
  b.sampled(0, b.child(main, b.native("compute", "/u/a.out", "/u/a.c", 40)), Category::kNative, 4100);
  const Analysis a = analyse(b.data);
  const Finding* finding = find_kind(a, FindingKind::kBlocked);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(text_of(a, *finding).find("main()"), std::string::npos) << text_of(a, *finding);
  EXPECT_TRUE(finding->place.function.empty());
}

// --- the measurement -------------------------------------------------------------------------------------

TEST(Losses, AreSharesOfTheirOwnKind) {
  ProfileBuilder b(1);
  const auto path = b.path({b.python("f", "f.py", 2, 1)});
  b.sampled(0, path, Category::kPython, 10'000);
  b.data.ranks[0].samples = 1000;
  b.file_called(0, path, "/data/a", IoOperation::kRead, 10'000, 10, 10'000);
  b.data.drops = {{0, "io_site_table_full", 5000}, {0, "ring_full", 5}};
  Analysis a = analyse(b.data);
  EXPECT_EQ(find_kind(a, FindingKind::kSamplesLost), nullptr) << "5 of 1005 samples";
  const Finding* io = find_kind(a, FindingKind::kIoNotCounted);
  ASSERT_NE(io, nullptr);
  EXPECT_NEAR(*io->share, 0.5, 1e-9);
  EXPECT_NE(
      text_of(a, *io).find("50.0 % of the I/O operations (5000 of 10.0 k) were counted without their line"),
      std::string::npos)
      << text_of(a, *io);
  b.data.drops = {{0, "ring_full", 19}, {0, "path_arena_full", 100}};
  b.data.mpi_calls.push_back({0, path, shard::kNone, 1000, 1, 1, 1, 0, 0});
  a = analyse(b.data);
  EXPECT_NE(find_finding(a, "1.9 % of the samples (19 of 1019) were lost"), nullptr);
  EXPECT_NE(find_finding(a, "10.0 % of the MPI calls (100 of 1000) were counted without the call path"),
            nullptr);
}

// --- the banner ------------------------------------------------------------------------------------------

TEST(Banner, TellsFindingsInTheirOrderAndCountsTheRest) {
  Analysis a = analyse(testing::training_run());
  Finding longest = a.findings[0];
  longest.place.function = std::string(300, 'x');
  Finding brief = a.findings[1];
  brief.severity = Severity::kMedium;
  a.findings = {a.findings[0], longest, brief, brief, brief};
  a.findings[0].severity = Severity::kHigh;
  const std::string banner = render_banner(a, "run", 80);
  const std::size_t first = banner.find("high        Load imbalance"),
                    second = banner.find("high        Load", first + 1);
  ASSERT_NE(second, std::string::npos) << banner;
  EXPECT_NE(banner.find("more findings"), std::string::npos) << banner;
  EXPECT_LE(std::count(banner.begin(), banner.end(), '\n'), 25);
}

TEST(Banner, SaysNothingOfWhatIsNegligible) {
  shard::ShardData data = testing::training_run();
  data.drops = {{0, "reentrant", 1}};
  EXPECT_EQ(render_banner(analyse(data), "run", 80).find("reentrant"), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::report
