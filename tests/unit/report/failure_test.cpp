// SPDX-License-Identifier: BSD-3-Clause
// Why a run failed: which rank comes first, of what kind its end is, and what is read of its stderr.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/analysis/choose_failure.hpp"
#include "report/analysis/stderr_text.hpp"
#include "report/format/names.hpp"
#include "report/report.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::kMs;
using testing::ProfileBuilder;

constexpr int kSegv = 11, kAbrt = 6, kKill = 9, kTerm = 15;

struct End {
  std::uint64_t elapsed_ms;
  int signal, status;
};
// All on node n0.
shard::ShardData ended(const std::vector<End>& ends) {
  ProfileBuilder b(static_cast<std::uint32_t>(ends.size()));
  for (std::uint32_t r = 0; r < ends.size(); ++r) {
    shard::Rank& rank = b.data.ranks[r];
    rank.node = 0;
    rank.elapsed_ns = ends[r].elapsed_ms * kMs;
    if (ends[r].signal != 0)
      rank.flags |= shard::kExitSignalKnown | shard::kLost, rank.exit_signal = ends[r].signal;
    else
      rank.flags |= shard::kExitStatusKnown, rank.exit_status = ends[r].status;
    rank.last_call_path = b.string("main\t/u/solver.c\t9\t/u/a.out\t1\nsolve\t/u/solver.c\t42\t/u/a.out\t1");
    b.sampled(r, b.path({b.python("f", "f.py", 2, 1)}), Category::kPython, ends[r].elapsed_ms);
  }
  return std::move(b.data);
}

shard::Failure& left_behind(shard::ShardData& data, std::uint32_t rank, std::uint8_t flags = 0) {
  shard::Failure& row = data.failures.emplace_back();
  row.rank = rank;
  row.flags = flags;
  return row;
}

std::string first_sentence(const Analysis& a) {
  const format::ShortPaths names(a);
  return a.findings.empty() ? "" : words::sentences(a.findings[0], names);
}

constexpr std::string_view kPythonText =
    "step 16 done\n"
    "Traceback (most recent call last):\n"
    "  File \"/u/train.py\", line 40, in <module>\n"
    "    main()\n"
    "  File \"/u/train.py\", line 33, in fail\n"
    "    raise check(batch)\n"
    "          ^^^^^^^^^^^^\n"
    "  File \"/usr/lib/python3.11/json/decoder.py\", line 355, in raw_decode\n"
    "    obj, end = self.scan_once(s, idx)\n"
    "ValueError: bad batch 17\n";

// --- what is read of stderr ------------------------------------------------------------------------

TEST(StderrText, TypeMessageAndFramesOfATraceback) {
  const auto found = python_exception(kPythonText);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, "ValueError");
  EXPECT_EQ(found->message, "bad batch 17");
  ASSERT_EQ(found->frames.size(), 3u);
  EXPECT_EQ(found->frames[1].file, "/u/train.py");
  EXPECT_EQ(found->frames[1].function, "fail");
  EXPECT_EQ(found->frames[1].line, 33u);
}

TEST(StderrText, TheLastTracebackCounts) {
  const std::string text = std::string(kPythonText) +
                           "\nDuring handling of the above exception, another exception occurred:\n\n"
                           "Traceback (most recent call last):\n"
                           "  File \"a \"b\".py\", line 7, in g\n"
                           "  [Previous line repeated 9 more times]\n"
                           "torch.cuda.OutOfMemoryError\n";
  const auto found = python_exception(text);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, "torch.cuda.OutOfMemoryError");
  EXPECT_EQ(found->message, "");
  ASSERT_EQ(found->frames.size(), 1u);
  EXPECT_EQ(found->frames[0].file, "a \"b\".py");
}

TEST(StderrText, WhatIsNoTracebackIsNotTaken) {
  for (const char* const text :
       {"", "ValueError: bad batch 17\n", "Traceback (most recent call last):\n",
        "Traceback (most recent call last):\nValueError: without frames\n",
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n",              // cut off
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nnot a type\n",  // interleaved
        "Traceback (most recent call last):\n  File \"a.py\", line x, in f\nKeyError: 1\n",
        "logged: Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 1\n"})
    EXPECT_FALSE(python_exception(text)) << text;
}

TEST(StderrText, ExceptionsOfCpp) {
  auto found = cpp_exception(
      "x\nterminate called after throwing an instance of 'std::runtime_error'\n  what():  no mesh\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, "std::runtime_error");
  EXPECT_EQ(found->message, "no mesh");
  found = cpp_exception("terminate called after throwing an instance of 'int'\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, "int");
  EXPECT_EQ(found->message, "");
  EXPECT_FALSE(cpp_exception("terminate called without an active exception\n"));
  EXPECT_FALSE(cpp_exception("terminate called after throwing an instance of 'in"));
}

TEST(StderrText, ErrorsThatMpiEndsTheRankFor) {
  auto found = fatal_mpi_error(
      "step 7\n[n0:4242] *** An error occurred in MPI_Recv\n[n0:4242] *** reported by process [123,1]\n"
      "[n0:4242] *** on communicator MPI_COMM_WORLD\n[n0:4242] *** MPI_ERR_TRUNCATE: message truncated\n"
      "[n0:4242] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
      "[n0:4242] ***    and potentially your MPI job)\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "MPI_Recv");
  EXPECT_EQ(found->error_class, "MPI_ERR_TRUNCATE");
  EXPECT_EQ(found->text, "message truncated");
  found = fatal_mpi_error(
      "Abort(672239118) on node 1 (rank 1 in comm 0): Fatal error in internal_Recv: Message truncated, error "
      "stack:\ninternal_Recv(115).: MPI_Recv(buf=0x7ffd, count=1, MPI_INT, 0, 5, MPI_COMM_WORLD, status=0x1) "
      "failed\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "MPI_Recv");
  EXPECT_EQ(found->error_class, "MPI_ERR_TRUNCATE");
  EXPECT_EQ(found->text, "Message truncated");
  found = fatal_mpi_error("Fatal error in PMPI_Bcast: Invalid root, error stack:\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->op, "MPI_Bcast");
  EXPECT_EQ(found->error_class, "MPI_ERR_ROOT");
  found = fatal_mpi_error("Fatal error in MPI_Wait: Something new, error stack:\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->error_class, "");
  for (const char* const text :
       {"", "Fatal error in main: no mesh\n", "Fatal error in MPI_Recv", "An error occurred in MPI_Recv\n",
        "*** An error occurred in the solver of step 7\n"})
    EXPECT_FALSE(fatal_mpi_error(text)) << text;
}

// --- the failure -----------------------------------------------------------------------------------

namespace fatal {
constexpr const char* kMpich =
    "Abort(672239118) on node 1 (rank 1 in comm 0): Fatal error in internal_Recv: Message truncated, error "
    "stack:\n";
// Rank 1 was in MPI_Recv when it ended.
shard::ShardData in_receive(shard::ShardData data) {
  ProfileBuilder b(static_cast<std::uint32_t>(data.ranks.size()));
  b.data = std::move(data);
  const auto receive = b.path({b.native("main", "/u/a.out", "/u/solver.c", 77), b.mpi("MPI_Recv")});
  b.data.calls_under_way.push_back({1, 51, true, receive, shard::kNone, shard::kNone, 0, 5, -1, 0, 10 * kMs});
  return std::move(b.data);
}
}  // namespace fatal

TEST(Failure, OfAnMpiErrorThatIsFatal) {
  shard::ShardData data = fatal::in_receive(ended({{9000, kTerm, 0}, {8000, 0, 14}}));
  left_behind(data, 1, shard::Failure::kHasStderr).stderr_tail = fatal::kMpich;
  Analysis a = analyse(data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->kind, FailureKind::kExit);
  EXPECT_EQ(a.failure->rank, 1);
  EXPECT_EQ(a.failure->message, "MPI_ERR_TRUNCATE in MPI_Recv: Message truncated");
  EXPECT_EQ(a.failure->place.line, 77u);
  EXPECT_EQ(a.failure->place.op, "MPI_Recv");
  EXPECT_NE(first_sentence(a).find("was ended by MPI itself (status 14): MPI_ERR_TRUNCATE in MPI_Recv"),
            std::string::npos)
      << first_sentence(a);
  // The launcher was faster than its exit.
  data.ranks[1].flags =
      (data.ranks[1].flags & ~std::uint32_t{shard::kExitStatusKnown}) | shard::kExitSignalKnown;
  data.ranks[1].exit_signal = kTerm;
  a = analyse(data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->rank, 1);
  EXPECT_EQ(a.failure->message, "MPI_ERR_TRUNCATE in MPI_Recv: Message truncated");
  // MPICH's launcher kills all ranks, and may end before them.
  for (shard::Rank& rank : data.ranks) rank.exit_signal = kKill;
  data.run.notes = {shard::note_of_ranks(shard::NoteCode::kLauncherGone, {0, 1})};
  a = analyse(data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->rank, 1);
  EXPECT_TRUE(a.failure->ended_by_mpi);
  EXPECT_EQ(a.findings[0].ranks, std::vector<std::int32_t>{1});
  EXPECT_TRUE(
      first_sentence(a).starts_with("Rank 1 was ended by MPI itself (SIGKILL): MPI_ERR_TRUNCATE in MPI_Recv"))
      << first_sentence(a);
}

// The launcher sees that a rank has lost its connection, ends the others by SIGTERM, and may be gone before
// the kernel is done with that rank.
TEST(Failure, OfAKilledRankThatTheLauncherDoesNotOutlive) {
  shard::ShardData data = ended({{9000, kTerm, 0}, {8000, kKill, 0}, {9000, kTerm, 0}});
  data.run.notes = {shard::note_of_ranks(shard::NoteCode::kLauncherGone, {0, 2})};
  Analysis a = analyse(data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->rank, 1);
  EXPECT_EQ(a.failure->signal, kKill);
  // The others first: somebody ended the launcher, which passes on SIGTERM, and a rank that stays is killed.
  data.ranks[1].elapsed_ns += 2'000'000'000;
  a = analyse(data);
  EXPECT_FALSE(a.failure);
  EXPECT_EQ(a.findings[0].kind, FindingKind::kLauncherGone);
}

// Open MPI gives the text to its launcher, but the rank exits with the error's number inside the call.
TEST(Failure, OfAnMpiErrorWithoutItsText) {
  shard::ShardData data = fatal::in_receive(ended({{9000, kTerm, 0}, {8000, 0, 15}}));
  left_behind(data, 1);
  data.run.mpi_library = "Open MPI v4.1.4, package: Debian OpenMPI";
  EXPECT_EQ(analyse(data).failure->message, "MPI_ERR_TRUNCATE in MPI_Recv");
  data.run.mpi_library = "MPICH Version: 4.0.2";
  EXPECT_EQ(analyse(data).failure->message, "");
  data.run.mpi_library = "Open MPI v4.1.4";
  data.ranks[1].exit_status = 1;  // the program's own handler may have ended it
  EXPECT_EQ(analyse(data).failure->message, "");
  data.ranks[1].exit_status = 15;
  EXPECT_EQ(analyse(data).failure->message, "MPI_ERR_TRUNCATE in MPI_Recv");
  shard::ShardData all = data;  // a handler of SIGTERM that exits with the signal's number
  all.ranks[0].flags =
      (all.ranks[0].flags & ~std::uint32_t{shard::kExitSignalKnown}) | shard::kExitStatusKnown;
  all.ranks[0].exit_status = 15;
  EXPECT_EQ(analyse(all).failure->message, "");
  data.calls_under_way.clear();
  EXPECT_EQ(analyse(data).failure->message, "");
}

// Rank 1 has given less than the others. The root has left the operation.
TEST(Failure, OfAnMpiErrorIsExplainedByWhatMembersSayOfTheOperation) {
  ProfileBuilder b(3);
  b.data = ended({{9000, kTerm, 0}, {8000, 0, 15}, {9000, kTerm, 0}});
  b.data.communicators = {{1, 3, "MPI_COMM_WORLD"}};
  const auto broadcast = b.path({b.native("main", "/u/a.out", "/u/solver.c", 77), b.mpi("MPI_Bcast")});
  for (const std::uint32_t r : {1u, 2u}) {
    shard::CallUnderWay call{r, 50, true, broadcast, 0, 7};
    call.root = 0;
    call.lasted_ns = 10 * kMs;
    call.agreed_bytes = r == 1 ? 40 : 4000;
    b.data.calls_under_way.push_back(call);
    b.data.collective_counts.push_back({r, 0, 0, 7});
  }
  b.data.collective_counts.push_back({0, b.path({b.mpi("MPI_Bcast")}), 0, 8, 4000});
  left_behind(b.data, 1);
  b.data.run.mpi_library = "Open MPI v4.1.4";
  Analysis a = analyse(b.data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->message, "MPI_ERR_TRUNCATE in MPI_Bcast");
  ASSERT_EQ(a.failure->mismatch.size(), 2u);
  EXPECT_EQ(a.failure->mismatch[0].ranks, std::vector<std::int32_t>{1});
  EXPECT_EQ(a.failure->mismatch[0].bytes, 40u);
  EXPECT_EQ(a.failure->mismatch[1].ranks, (std::vector<std::int32_t>{0, 2}));
  const std::string why =
      "; the operation has different sizes: MPI_Bcast of 40 bytes on rank 1 against MPI_Bcast of 4000 bytes "
      "on "
      "ranks 0, 2.";
  EXPECT_NE(first_sentence(a).find(why), std::string::npos) << first_sentence(a);
  EXPECT_NE(render_json(a).find("\"bytes\": 4000"), std::string::npos);
  const std::optional<Analysis> stored = decode(encode(a));
  ASSERT_TRUE(stored);
  EXPECT_EQ(render_json(*stored), render_json(a));
  EXPECT_EQ(first_sentence(*stored), first_sentence(a));

  // Rank 2 has not been through MPI_Init yet.
  shard::ShardData early = b.data;
  early.calls_under_way.pop_back();
  std::erase_if(early.collective_counts, [](const shard::CollectiveCount& row) { return row.rank == 2; });
  a = analyse(early);
  ASSERT_EQ(a.failure->mismatch.size(), 2u);
  EXPECT_EQ(a.failure->mismatch[0].ranks, std::vector<std::int32_t>{1});
  EXPECT_EQ(a.failure->mismatch[1].ranks, std::vector<std::int32_t>{0});
  early.communicators.push_back({2, 2, ""});  // it has, and nothing is known of it there
  early.collective_counts.push_back({2, 0, 1, 0});
  EXPECT_TRUE(analyse(early).failure->mismatch.empty());
  early.collective_counts.pop_back();
  early.communicators[0].size = 4;  // which is not all ranks
  EXPECT_TRUE(analyse(early).failure->mismatch.empty());

  b.data.calls_under_way[1].root = 2;  // another root explains more
  a = analyse(b.data);
  ASSERT_EQ(a.failure->mismatch.size(), 2u);
  EXPECT_EQ(a.failure->mismatch[1].root, 2);
  EXPECT_EQ(a.failure->mismatch[1].bytes, std::nullopt);
  b.data.calls_under_way[1].root = 0;
  b.data.calls_under_way[1].sequence = 8;  // it is in another operation
  b.data.collective_counts.back().count = 9;
  EXPECT_TRUE(analyse(b.data).failure->mismatch.empty());
}

TEST(Failure, ThereIsNoneWhereAllEndWell) {
  EXPECT_FALSE(analyse(ended({{100, 0, 0}, {200, 0, 0}})).failure);
}

TEST(Failure, OfAnUncaughtPythonException) {
  shard::ShardData data = ended({{9000, kTerm, 0}, {8000, 0, 1}});
  left_behind(data, 1, shard::Failure::kHasStderr).stderr_tail = kPythonText;
  const Analysis a = analyse(data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->kind, FailureKind::kException);
  EXPECT_EQ(a.failure->rank, 1);
  EXPECT_EQ(a.failure->status, 1);
  EXPECT_EQ(a.failure->exception, "ValueError");
  EXPECT_EQ(a.failure->message, "bad batch 17");
  EXPECT_EQ(a.failure->place.function, "fail") << "the program's line, not the library's";
  EXPECT_EQ(a.failure->place.line, 33u);
  EXPECT_EQ(a.failure->stderr_tail, kPythonText);
  EXPECT_EQ(
      first_sentence(a),
      "Rank 1 ended by an uncaught exception (status 1) in fail() train.py:33: ValueError: bad batch 17.");
  // A traceback of an exception that was caught says nothing about another end.
  data.ranks[1].exit_status = 3;
  EXPECT_EQ(analyse(data).failure->kind, FailureKind::kExit);
  EXPECT_EQ(analyse(data).failure->exception, "");
}

TEST(Failure, OfASignal) {
  shard::ShardData data = ended({{8000, kSegv, 0}, {9000, kKill, 0}});
  shard::Failure& row = left_behind(data, 0, shard::Failure::kFault);
  row.signal = kSegv;
  row.address = 0x10;
  row.instruction = "a.out+0x1139";
  Analysis a = analyse(data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->kind, FailureKind::kSignal);
  EXPECT_EQ(a.failure->address, 0x10u);
  EXPECT_EQ(a.failure->instruction, "a.out+0x1139");
  EXPECT_FALSE(a.failure->stderr_tail) << "nothing was seen";
  EXPECT_EQ(first_sentence(a), "Rank 0 ended by SIGSEGV in solve() solver.c:42: it accessed address 0x10.");
  data.failures[0].flags |= shard::Failure::kStackOverflow;
  EXPECT_EQ(first_sentence(analyse(data)),
            "Rank 0 ended by SIGSEGV in solve() solver.c:42: its stack was used up.");
  // The program has handled that fault, and died of another signal.
  data.failures[0].flags = shard::Failure::kFault;
  data.ranks[0].exit_signal = kAbrt;
  data.failures[0].message = "a.out: solver.c:42: solve: Assertion `n > 0' failed.\n";
  a = analyse(data);
  EXPECT_FALSE(a.failure->address);
  EXPECT_EQ(a.failure->message, "a.out: solver.c:42: solve: Assertion `n > 0' failed.");
  EXPECT_EQ(first_sentence(a),
            "Rank 0 ended by SIGABRT in solve() solver.c:42: a.out: solver.c:42: solve: Assertion `n > 0' "
            "failed.");
}

TEST(Failure, OfMpiAbortIsNotThatOfTheRanksItEnds) {
  // Rank 2 is ended in MPI_Abort by the launcher, after rank 1 has noticed that it was gone.
  shard::ShardData data = ended({{9000, kTerm, 0}, {8500, 0, 7}, {9000, kTerm, 0}});
  left_behind(data, 2, shard::Failure::kCalledAbort).abort_code = 7;
  ProfileBuilder b(3);
  b.data = std::move(data);
  const auto abort = b.path({b.native("main", "/u/a.out", "/u/solver.c", 77), b.mpi("MPI_Abort")});
  b.data.calls_under_way.push_back(
      {2, 50, true, abort, shard::kNone, shard::kNone, -1, shard::CallUnderWay::kNoTag, -1, 0, 1000 * kMs});
  Analysis a = analyse(b.data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->kind, FailureKind::kAbort);
  EXPECT_EQ(a.failure->rank, 2);
  EXPECT_EQ(a.failure->abort_code, 7);
  EXPECT_EQ(a.failure->place.line, 77u);
  EXPECT_EQ(a.findings[0].ranks, std::vector<std::int32_t>{2});
  EXPECT_EQ(a.findings[1].ranks, (std::vector<std::int32_t>{0, 1}));
  // A rank that had failed before the call is the reason for it.
  b.data.ranks[1].elapsed_ns = 7900 * kMs;
  a = analyse(b.data);
  EXPECT_EQ(a.failure->kind, FailureKind::kExit);
  EXPECT_EQ(a.failure->rank, 1);
}

TEST(Failure, OutOfMemoryIsWhatTheKernelHasCounted) {
  shard::ShardData data = ended({{9000, kKill, 0}, {8000, kKill, 0}});
  EXPECT_FALSE(analyse(data).failure) << "who killed the first is not known";
  data.run.notes = {note_of_node(shard::NoteCode::kMemoryKills, "another", 1)};
  EXPECT_FALSE(analyse(data).failure);
  data.run.notes = {note_of_node(shard::NoteCode::kMemoryKills, data.nodes[0].name, 1)};
  const Analysis a = analyse(data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->kind, FailureKind::kOutOfMemory);
  EXPECT_EQ(a.failure->rank, 1);
  EXPECT_EQ(first_sentence(a), "Rank 1 was killed because memory was short in solve() solver.c:42.");
  EXPECT_EQ(a.findings[1].ranks, std::vector<std::int32_t>{0}) << "killed alike, but by the launcher";
  // Rank 0 has noticed that rank 1 is gone. Had it failed before, the kill would be another matter.
  data.ranks[0].flags = shard::kExitStatusKnown;
  data.ranks[0].exit_signal = 0;
  data.ranks[0].exit_status = 1;
  EXPECT_EQ(analyse(data).failure->kind, FailureKind::kOutOfMemory);
  left_behind(data, 0, shard::Failure::kCalledAbort).abort_code = 1;
  EXPECT_EQ(analyse(data).failure->kind, FailureKind::kOutOfMemory);
  data.ranks[0].elapsed_ns = 7000 * kMs;
  EXPECT_EQ(analyse(data).failure->kind, FailureKind::kAbort);
}

// One that grows fast is killed before anybody has seen how much it held.
TEST(Failure, OfRanksKilledAtOnceOneThatDidNotWaitHadNoMemory) {
  ProfileBuilder b(3);
  b.data = ended({{9000, kKill, 0}, {9000, kKill, 0}, {9000, kKill, 0}});
  b.data.run.notes = {note_of_node(shard::NoteCode::kMemoryKills, b.data.nodes[0].name, 1)};
  const auto barrier = b.path({b.native("main", "/u/a.out", "/u/solver.c", 77), b.mpi("MPI_Barrier")});
  for (const std::uint32_t waits : {0u, 2u})
    b.data.calls_under_way.push_back(
        {waits, 50, true, barrier, shard::kNone, shard::kNone, -1, shard::CallUnderWay::kNoTag, -1, 0, kMs});
  for (shard::Rank& rank : b.data.ranks) {
    rank.flags |= shard::kUsageKnown;
    rank.max_rss_bytes = 100 << 20;
  }
  b.data.ranks[0].max_rss_bytes = 180 << 20;
  EXPECT_EQ(analyse(b.data).failure->rank, 1);
  b.data.ranks[2].max_rss_bytes = 400 << 20;
  EXPECT_EQ(analyse(b.data).failure->rank, 2) << "what is seen clearly counts";
}

TEST(Failure, OfARankThatWasKilledWhileOthersWentOn) {
  // A launcher that has ended a job has ended rank 0 as well.
  const Analysis a = analyse(ended({{9000, 0, 0}, {8000, kKill, 0}, {7000, 0, 0}}));
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->kind, FailureKind::kSignal);
  EXPECT_EQ(a.failure->rank, 1);
  EXPECT_FALSE(analyse(ended({{7900, 0, 0}, {8000, kKill, 0}})).failure)
      << "rank 0 may have handled a SIGTERM that rank 1 ignored";
}

TEST(Failure, TheTimeLimitEndsAllRanks) {
  shard::ShardData data = ended({{9000, kTerm, 0}, {8000, kTerm, 0}});
  EXPECT_FALSE(analyse(data).failure);
  data.run.notes = {note_of_node(shard::NoteCode::kTimeLimit, data.nodes[0].name)};
  Analysis a = analyse(data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->kind, FailureKind::kTimeLimit);
  EXPECT_EQ(a.failure->rank, 1);
  EXPECT_EQ(a.findings[0].kind, FindingKind::kTimeLimit);
  EXPECT_EQ(a.findings[0].ranks, (std::vector<std::int32_t>{0, 1}));
  // A rank that failed by itself did not wait for the limit.
  data.ranks[1].exit_signal = kSegv;
  a = analyse(data);
  EXPECT_EQ(a.failure->kind, FailureKind::kSignal);
}

TEST(Failure, OfAProgramThatCatchesTheSignalOfTheTimeLimitIsTheLimit) {
  shard::ShardData data = ended({{8000, 0, 1}, {9000, kTerm, 0}});
  const auto with_limit = [&](std::int64_t before_end_s) {
    const std::int64_t end_s = data.ranks[0].start_utc_ns / 1'000'000'000 + 8;
    data.run.notes = {note_of_node(shard::NoteCode::kTimeLimit, data.nodes[0].name,
                                   static_cast<std::uint64_t>(end_s - before_end_s))};
    return analyse(data).failure->kind;
  };
  EXPECT_EQ(with_limit(40), FailureKind::kTimeLimit);
  EXPECT_EQ(with_limit(-2), FailureKind::kExit) << "before the limit";
  EXPECT_EQ(with_limit(4000), FailureKind::kExit) << "the limit must have been raised";
  left_behind(data, 0, shard::Failure::kHasStderr).stderr_tail = kPythonText;
  EXPECT_EQ(with_limit(40), FailureKind::kException);
}

TEST(Failure, HasNoAddressWhereTheKernelDoesNotTell) {
  shard::ShardData data = ended({{8000, kSegv, 0}});
  left_behind(data, 0, shard::Failure::kFault | shard::Failure::kNoAddress).signal = kSegv;
  const Analysis a = analyse(data);
  EXPECT_FALSE(a.failure->address);
  EXPECT_EQ(first_sentence(a), "Rank 0 ended by SIGSEGV in solve() solver.c:42.");
}

TEST(Failure, IsInJson) {
  shard::ShardData data = ended({{8000, kSegv, 0}});
  shard::Failure& row = left_behind(data, 0, shard::Failure::kFault | shard::Failure::kHasStderr);
  row.signal = kSegv;
  row.address = 0x10;
  row.stderr_tail = "one\ntwo\n";
  const std::string json = render_json(analyse(data));
  EXPECT_NE(json.find("\"address\": \"0x10\""), std::string::npos);
  EXPECT_NE(json.find("\"stderr_tail\": \"one\\ntwo\\n\""), std::string::npos);
  EXPECT_NE(render_json(analyse(ended({{100, 0, 0}}))).find("\"failure\": null"), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::report
