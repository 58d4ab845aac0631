// SPDX-License-Identifier: BSD-3-Clause
// Who waits for whom: of each kind of hang one that is a deadlock, and what is like it and none.
#include "report/words/hang.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profile_builder.hpp"
#include "report/analysis/hang_search.hpp"
#include "report/analysis/stacks.hpp"
#include "report/format/names.hpp"
#include "report/stacks.hpp"

namespace clusterprof::report {
namespace {

using shard::CallUnderWay;
using shard::Category;
using testing::kMs;
using testing::ProfileBuilder;

constexpr std::int32_t kNoRank = CallUnderWay::kNoRank, kAny = CallUnderWay::kAnyRank;
constexpr std::uint64_t kLong = 8000, kShort = 3000;  // ms

using Ranks = std::vector<std::int32_t>;

// A run of 10 s, all of whose ranks belong to MPI_COMM_WORLD. Ranks compute unless told otherwise.
struct HungJob : ProfileBuilder {
  explicit HungJob(std::uint32_t ranks) : ProfileBuilder(ranks) {
    data.communicators = {{1, ranks, "MPI_COMM_WORLD"}};
    for (std::uint32_t r = 0; r < ranks; ++r) {
      data.ranks[r].flags |= shard::kUsedMpi | shard::kStillRan | shard::kLost;
      data.collective_counts.push_back({r, 0, 0, 412});
      thread(r, "compute", "a.py", 3, Category::kPython, 20, 20);
    }
  }

  shard::Thread& thread(std::uint32_t r, const char* function, const char* file, std::uint32_t line,
                        Category category, std::uint64_t unmoved_ms, std::uint64_t cpu_ms,
                        const char* system_call = nullptr) {
    shard::Thread row;
    row.rank = r;
    row.pid = row.tid = data.ranks[r].pid;
    row.kind = shard::ThreadKind::kMain;
    row.flags = shard::Thread::kRuns;
    row.start_utc_ns = data.ranks[r].start_utc_ns;
    row.elapsed_ns = data.ranks[r].elapsed_ns;
    row.last_path = path({python(function, file, line, 1)});
    if (system_call != nullptr) row.last_path = child(row.last_path, kernel(system_call));
    row.last_category = category;
    row.unmoved_ns = unmoved_ms * kMs;
    row.unmoved_cpu_ns = cpu_ms * kMs;
    std::erase_if(data.threads, [&](const shard::Thread& other) { return other.rank == r; });
    data.threads.push_back(row);
    return data.threads.back();
  }

  CallUnderWay& call(std::uint32_t r, const char* op, std::uint32_t line, std::uint64_t ms = kLong) {
    CallUnderWay row;
    row.rank = r;
    row.tid = data.ranks[r].pid;
    row.path = path({python("main", "train.py", line, 1), mpi(op)});
    row.communicator = 0;
    row.enter_ns = 5;
    row.lasted_ns = ms * kMs;
    data.calls_under_way.push_back(row);
    return data.calls_under_way.back();
  }
  CallUnderWay& collective(std::uint32_t r, const char* op = "MPI_Barrier", std::uint32_t line = 57,
                           std::uint32_t sequence = 412) {
    CallUnderWay& row = call(r, op, line);
    row.sequence = sequence;
    return row;
  }
  CallUnderWay& receive(std::uint32_t r, std::int32_t from, std::int32_t tag = 0) {
    CallUnderWay& row = call(r, "MPI_Recv", 9);
    row.peer = from, row.tag = tag;
    return row;
  }
  void pending(std::uint32_t r, shard::PendingKind kind, std::int32_t peer) {
    data.pending_requests.push_back({r, data.ranks[r].pid, 5, kind, peer});
  }
  // It has called MPI_Finalize, and ended by itself.
  void end(std::uint32_t r, std::uint64_t ago_ms, std::int32_t status = 0) {
    shard::Rank& rank = data.ranks[r];
    rank.elapsed_ns -= ago_ms * kMs;
    rank.flags = shard::kUsedMpi | shard::kExitStatusKnown;
    rank.exit_status = status;
    std::erase_if(data.threads, [&](const shard::Thread& thread) { return thread.rank == r; });
  }

  [[nodiscard]] std::optional<Hang> hang() const { return find_hang(data, CallPaths(data)); }
  [[nodiscard]] std::string said() const {
    const std::optional<Hang> found = hang();
    return found ? words::verdict(*found, format::ShortPaths(Analysis())) : "";
  }
};

// Ranks 0, 1 and 3 of 4 in a barrier.
struct Barrier : HungJob {
  Barrier() : HungJob(4) {
    for (const std::uint32_t r : {0u, 1u, 3u}) collective(r);
  }
};
const std::string kBarrier =
    "anks 0, 1, 3 wait in MPI_Barrier (train.py:57) on MPI_COMM_WORLD, operation 412, for rank 2, which ";

TEST(Hang, IsADeadlockIfTheMissingRankSleeps) {
  Barrier job;
  job.thread(2, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  const std::optional<Hang> hang = job.hang();
  ASSERT_TRUE(hang);
  EXPECT_TRUE(hang->is_deadlock);
  EXPECT_EQ(hang->rank, 2);
  EXPECT_EQ(hang->place.line, 20u);
  ASSERT_EQ(hang->waiting.size(), 1u);
  EXPECT_EQ(hang->waiting[0].ranks, (Ranks{0, 1, 3}));
  EXPECT_EQ(hang->waiting[0].missing_ranks, (Ranks{2}));
  EXPECT_EQ(hang->waiting[0].missing[0].state, MissingState::kAsleep);
  EXPECT_DOUBLE_EQ(hang->waiting[0].for_s, 8);
  EXPECT_EQ(job.said(), "Deadlock: r" + kBarrier + "is in lost() train.py:20, asleep for 8.50 s.");
}

TEST(Hang, IsNoDeadlockAsLongAsTheMissingRankMayCome) {
  const auto with = [](Category category, std::uint64_t unmoved_ms, std::uint64_t cpu_ms, const char* call) {
    Barrier job;
    job.thread(2, "lost", "train.py", 20, category, unmoved_ms, cpu_ms, call);
    EXPECT_TRUE(job.hang() && !job.hang()->is_deadlock) << job.said();
    return job.said();
  };
  EXPECT_EQ(with(Category::kPython, 900, 900, nullptr), "R" + kBarrier + "computes in lost() train.py:20.");
  EXPECT_EQ(with(Category::kIo, 9000, 0, "read"),
            "R" + kBarrier + "waits for input, output or an event in lost() train.py:20.");
  EXPECT_EQ(with(Category::kIdle, 9000, 0, "epoll_wait"),
            "R" + kBarrier + "waits for input, output or an event in lost() train.py:20.");
  EXPECT_EQ(with(Category::kIdle, 9000, 0, "wait4"),
            "R" + kBarrier + "waits for a child process in lost() train.py:20.");
  // It looks for something a few times a second.
  EXPECT_EQ(with(Category::kIdle, 9000, 9, "clock_nanosleep"),
            "R" + kBarrier + "computes in lost() train.py:20.");
  EXPECT_EQ(with(Category::kIdle, 4000, 0, "clock_nanosleep"),
            "R" + kBarrier + "computes in lost() train.py:20.");
}

TEST(Hang, IsADeadlockIfTheMissingRankLoops) {
  Barrier job;
  job.thread(2, "spin", "train.py", 25, Category::kPython, 7000, 3000);  // it shares its processor
  EXPECT_EQ(job.said(), "Deadlock: r" + kBarrier + "is in a loop in spin() train.py:25 for 7.00 s.");
  job.thread(2, "spin", "train.py", 25, Category::kPython, 4900, 4900);
  EXPECT_EQ(job.said(), "R" + kBarrier + "computes in spin() train.py:25.");
}

TEST(Hang, IsNoDeadlockIfTheMissingRankWaitsForADevice) {
  const auto with = [](const char* library) {
    Barrier job;
    shard::Thread& thread = job.thread(2, "step", "train.py", 40, Category::kIdle, 9000, 0, nullptr);
    const std::uint32_t call = job.child(thread.last_path, job.native("synchronize", library));
    thread.last_path =
        job.child(job.child(call, job.native("__futex_wait", "/usr/lib/libc.so.6")), job.kernel("futex"));
    return job.hang()->is_deadlock;
  };
  EXPECT_FALSE(with("/usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05"));
  EXPECT_FALSE(with("/opt/rocm/lib/libhsa-runtime64.so.1"));
  EXPECT_TRUE(with("/usr/lib/libcudasim.so"));
}

TEST(Hang, OfALockDependsOnTheOtherThreads) {
  Barrier job;
  job.thread(2, "take", "train.py", 31, Category::kIdle, 7000, 0, "futex");
  EXPECT_EQ(job.said(), "Deadlock: r" + kBarrier + "is in take() train.py:31, blocked by a lock for 7.00 s.");
  shard::Thread other = job.data.threads.back();
  other.kind = shard::ThreadKind::kPython;
  ++other.tid;
  other.unmoved_ns = 100 * kMs;
  job.data.threads.push_back(other);
  EXPECT_FALSE(job.hang()->is_deadlock);
  job.data.threads.back().unmoved_ns = 9000 * kMs;
  EXPECT_TRUE(job.hang()->is_deadlock);
  // It may get what it waits for, and then go on. A library's own threads wait for events all their lives.
  job.data.threads.back().last_category = Category::kIo;
  EXPECT_FALSE(job.hang()->is_deadlock);
  job.data.threads.back().kind = shard::ThreadKind::kHelper;
  EXPECT_TRUE(job.hang()->is_deadlock);
  job.data.threads.back().kind = shard::ThreadKind::kPython;
  job.data.threads.back().last_category = Category::kIdle;
  EXPECT_TRUE(job.hang()->is_deadlock);
  // One that was gone before does not matter.
  job.data.threads.back().unmoved_ns = 100 * kMs;
  job.data.threads.back().flags = 0;
  job.data.threads.back().elapsed_ns = 4000 * kMs;
  EXPECT_TRUE(job.hang()->is_deadlock);
}

// The main thread may wait for them in whatever way.
TEST(Hang, IsNoneWhereAnotherThreadOfTheMissingRankWorks) {
  for (const bool sleeps : {true, false}) {
    Barrier job;
    if (sleeps)
      job.thread(2, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
    else
      job.thread(2, "lost", "train.py", 20, Category::kPython, 8500, 8500);
    EXPECT_TRUE(job.hang()->is_deadlock);
    shard::Thread worker = job.data.threads.back();
    worker.kind = shard::ThreadKind::kNative;
    worker.last_category = Category::kNative;
    worker.unmoved_ns = 0;
    ++worker.tid;
    job.data.threads.push_back(worker);
    EXPECT_FALSE(job.hang()->is_deadlock);
  }
}

TEST(Hang, IsNoneWhereALibraryLoops) {
  Barrier job;
  job.thread(2, "lost", "train.py", 20, Category::kNative, 8500, 8500);
  const auto loops_in = [&](const char* module) {
    job.data.threads.back().last_path = job.path({job.native("spin", module)});
    return job.hang()->is_deadlock;
  };
  EXPECT_TRUE(loops_in("/home/u/solver"));
  EXPECT_FALSE(loops_in("/usr/lib/x86_64-linux-gnu/libgomp.so.1"));
}

// Rank 3 has ended well, too early, and rank 2 has crashed.
TEST(Hang, FollowsAFailureIfAnyRankThatIsAwaitedHasFailed) {
  HungJob job(4);
  for (const std::uint32_t r : {0u, 1u}) job.collective(r);
  job.end(2, 6000, 3);
  job.end(3, 6000, 0);
  const std::optional<Hang> hang = job.hang();
  ASSERT_TRUE(hang && hang->is_deadlock);
  EXPECT_TRUE(hang->follows_failure);
  EXPECT_EQ(hang->rank, 2);
  const Analysis a = analyse(job.data);
  ASSERT_TRUE(a.failure);
  EXPECT_EQ(a.failure->kind, FailureKind::kExit);
  EXPECT_EQ(a.failure->rank, 2);
}

TEST(Hang, OfARankThatIsInFinalize) {
  Barrier job;
  job.collective(2, "MPI_Finalize", 80);
  const std::optional<Hang> hang = job.hang();
  ASSERT_TRUE(hang);
  EXPECT_TRUE(hang->is_deadlock);
  EXPECT_EQ(hang->rank, 2);
  EXPECT_TRUE(hang->mismatch.empty());
  EXPECT_EQ(job.said(), "Deadlock: r" + kBarrier + "is in MPI_Finalize.");
}

TEST(Hang, OfARankThatHasEnded) {
  Barrier job;
  job.data.collective_counts[2].count = 413;
  job.data.collective_counts[2].path = job.path({job.mpi("MPI_Finalize")});
  job.end(2, 6000);
  EXPECT_EQ(job.said(), "Deadlock: r" + kBarrier + "has ended.");
  EXPECT_FALSE(job.hang()->follows_failure);

  Barrier failed;
  failed.end(2, 6000, 3);
  EXPECT_EQ(failed.said(), "Deadlock: r" + kBarrier + "has ended with status 3.");
  EXPECT_TRUE(failed.hang()->follows_failure);

  // The others waited for long, but not for one that had ended.
  Barrier just_now;
  just_now.end(2, 2000, 3);
  EXPECT_FALSE(just_now.hang()->is_deadlock);
}

TEST(Hang, IsSeenInTheLastStateOfAJobThatWasKilled) {
  Barrier job;
  job.thread(2, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  for (std::uint32_t r = 0; r < 4; ++r) {
    job.data.ranks[r].flags = shard::kUsedMpi | shard::kExitSignalKnown | shard::kLost;
    job.data.ranks[r].exit_signal = 9;
    job.data.ranks[r].elapsed_ns += r * 10 * kMs;
    job.data.threads[r].flags = 0;
  }
  EXPECT_EQ(job.said(), "Deadlock: r" + kBarrier + "is in lost() train.py:20, asleep for 8.50 s.");
  const Analysis a = analyse(job.data);
  ASSERT_FALSE(a.findings.empty());
  EXPECT_EQ(a.findings[0].kind, FindingKind::kDeadlock);
  EXPECT_EQ(a.findings[0].rank, 2);
  EXPECT_NE(render_json(a).find("\"kind\": \"deadlock\""), std::string::npos);
  const std::optional<Analysis> stored = decode(encode(a));
  ASSERT_TRUE(stored);
  EXPECT_EQ(render_json(*stored), render_json(a));
}

// Open MPI's ranks exit with a status of their own then.
TEST(Hang, IsSeenInTheLastStateOfAJobWhoseLauncherWasKilled) {
  Barrier job;
  job.thread(2, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  for (std::uint32_t r = 0; r < 4; ++r) {
    job.data.ranks[r].flags = shard::kUsedMpi | shard::kExitStatusKnown;
    job.data.ranks[r].exit_status = 195;
    job.data.ranks[r].elapsed_ns += r * 10 * kMs;
    job.data.threads[r].flags = 0;
  }
  EXPECT_FALSE(job.hang()->is_deadlock) << "they may have ended by themselves";
  job.data.run.notes.push_back(note_of_ranks(shard::NoteCode::kLauncherGone, {0, 3}));
  EXPECT_EQ(job.said(), "Deadlock: r" + kBarrier + "is in lost() train.py:20, asleep for 8.50 s.");
  const Analysis a = analyse(job.data);
  ASSERT_FALSE(a.findings.empty());
  EXPECT_EQ(a.findings[0].kind, FindingKind::kDeadlock);
  job.data.ranks[2].exit_status = 0;
  EXPECT_FALSE(job.hang()->is_deadlock) << "it was no failure, so it has just ended";
}

TEST(Hang, IsNotSaidBeforeNothingHasMovedForLong) {
  HungJob job(2);
  job.collective(0).lasted_ns = kShort * kMs;
  job.thread(1, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  EXPECT_FALSE(job.hang());
}

// Rank 1 was looked at 7 s later, and began to wait after rank 0 was looked at: that one may have gone on
// since.
TEST(Hang, ComparesRanksAsOfOneTime) {
  HungJob job(2);
  job.receive(0, 1);
  job.receive(1, 0);
  EXPECT_TRUE(job.hang() && job.hang()->is_deadlock);
  job.data.ranks[1].elapsed_ns += 7000 * kMs;
  EXPECT_FALSE(job.hang());
  job.data.calls_under_way[1].lasted_ns = 13'000 * kMs;
  EXPECT_TRUE(job.hang() && job.hang()->is_deadlock);
}

TEST(Hang, OfACycleOfReceives) {
  HungJob job(5);
  for (std::uint32_t r = 0; r < 4; ++r) job.receive(r, static_cast<std::int32_t>((r + 3) % 4));
  const std::optional<Hang> hang = job.hang();
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->cycle, (Ranks{0, 3, 2, 1}));
  EXPECT_EQ(job.said(),
            "Deadlock: 0 waits for 3 waits for 2 waits for 1 waits for 0; rank 0 in MPI_Recv (train.py:9), "
            "for 8.00 s.");
  // Rank 4 computes. If one of them waits for it instead, there is no cycle.
  job.data.calls_under_way[2].peer = 4;
  EXPECT_FALSE(job.hang()->is_deadlock);
}

TEST(Hang, SaysOfWhomNothingIsKnown) {
  Hang hang;
  HangWait& wait = hang.waiting.emplace_back();
  wait.ranks = {0, 3};
  wait.place.op = "MPI_Barrier";
  const auto add = [&](const Ranks& ranks, MissingState state) {
    MissingRanks& missing = wait.missing.emplace_back();
    missing.ranks = ranks;
    missing.state = state;
  };
  const auto said = [&] { return words::verdict(hang, format::ShortPaths(Analysis())); };
  add({2}, MissingState::kNotKnown);
  EXPECT_EQ(said(), "Ranks 0, 3 wait in MPI_Barrier for rank 2 (what it is doing is not known).");
  wait.missing.clear();
  add({1}, MissingState::kInFinalize);
  add({2, 4}, MissingState::kNotKnown);
  EXPECT_EQ(said(),
            "Ranks 0, 3 wait in MPI_Barrier for rank 1, which is in MPI_Finalize, and ranks 2, 4 (what they "
            "are doing is not known).");
}

TEST(Hang, IsNoneWhereMessagesMayBeUnderWay) {
  const auto is_deadlock = [](const auto& change) {
    HungJob job(2);
    job.receive(0, 1, 7);
    job.receive(1, 0, 7);
    change(job);
    const std::optional<Hang> hang = job.hang();
    return hang && hang->is_deadlock;
  };
  EXPECT_TRUE(is_deadlock([](HungJob&) {}));
  EXPECT_FALSE(is_deadlock([](HungJob& job) { job.data.calls_under_way[1].open_requests = 1; }))
      << "MPI_Isend";
  const auto become = [](HungJob& job, const char* op, std::int32_t tag) {
    job.data.calls_under_way.pop_back();
    CallUnderWay& row = job.call(1, op, 12);
    row.peer = 0, row.tag = tag;
  };
  EXPECT_FALSE(is_deadlock([&](HungJob& job) { become(job, "MPI_Send", 7); }));
  EXPECT_FALSE(is_deadlock([&](HungJob& job) { become(job, "MPI_Sendrecv", 7); }));
  EXPECT_TRUE(is_deadlock([&](HungJob& job) { become(job, "MPI_Ssend", 8); })) << "another tag";
  const auto wait = [&](HungJob& job, shard::PendingKind kind) {
    become(job, "MPI_Waitall", CallUnderWay::kNoTag);
    job.data.calls_under_way[1].peer = kNoRank;
    job.data.calls_under_way[1].requests = job.data.calls_under_way[1].open_requests = 1;
    job.pending(1, kind, 0);
  };
  EXPECT_TRUE(is_deadlock([&](HungJob& job) { wait(job, shard::PendingKind::kReceive); }));
  EXPECT_FALSE(is_deadlock([&](HungJob& job) { wait(job, shard::PendingKind::kSend); }));
  EXPECT_FALSE(is_deadlock([](HungJob& job) {
    job.data.ranks[1].mpi_helper_threads = 1;
    shard::Thread other = job.data.threads[1];
    other.kind = shard::ThreadKind::kNative;
    job.data.threads.push_back(other);
  })) << "another thread may call MPI";
}

TEST(Hang, OfRequestsDependsOnWhetherAllAreNeeded) {
  const auto is_deadlock = [](const char* op) {
    HungJob job(3);  // rank 1 sleeps, rank 2 computes
    job.thread(1, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
    CallUnderWay& row = job.call(0, op, 12);
    row.communicator = shard::kNone;
    row.requests = row.open_requests = 2;
    for (const std::int32_t peer : {1, 2}) job.pending(0, shard::PendingKind::kReceive, peer);
    return job.hang()->is_deadlock;
  };
  EXPECT_TRUE(is_deadlock("MPI_Waitall"));
  EXPECT_FALSE(is_deadlock("MPI_Waitany"));
}

TEST(Hang, OfAReceiveFromAnybodyNeedsAllToBeStuck) {
  HungJob job(3);
  job.receive(0, kAny);
  job.receive(1, 0);
  EXPECT_FALSE(job.hang()->is_deadlock) << "rank 2 computes";
  job.thread(2, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  EXPECT_TRUE(job.hang()->is_deadlock);
  job.data.calls_under_way[1].open_requests = 1;
  EXPECT_FALSE(job.hang()->is_deadlock) << "rank 1 may be sending to it";
}

TEST(Hang, OfDifferentOperations) {
  HungJob job(4);
  for (const std::uint32_t r : {0u, 1u, 3u}) job.collective(r, "MPI_Allreduce");
  job.collective(2, "MPI_Bcast", 61).root = 0;
  const std::optional<Hang> hang = job.hang();
  ASSERT_TRUE(hang);
  EXPECT_TRUE(hang->is_deadlock);
  ASSERT_EQ(hang->mismatch.size(), 2u);
  EXPECT_EQ(hang->mismatch[0].op, "MPI_Bcast");
  EXPECT_EQ(hang->mismatch[0].ranks, (Ranks{2}));
  EXPECT_EQ(hang->mismatch[1].ranks, (Ranks{0, 1, 3}));
  EXPECT_EQ(hang->rank, 2);
  EXPECT_NE(job.said().find("MPI_Bcast on rank 2 against MPI_Allreduce on ranks 0, 1, 3"), std::string::npos)
      << job.said();
}

// The root of a short broadcast does not wait. It has begun its operation 412, and computes now.
TEST(Hang, OfADifferentOperationThatIsOver) {
  HungJob job(3);
  for (const std::uint32_t r : {1u, 2u}) job.collective(r, "MPI_Allreduce");
  job.data.collective_counts[0].count = 413;
  job.data.collective_counts[0].path = job.path({job.mpi("MPI_Bcast")});
  ASSERT_TRUE(job.hang());
  EXPECT_EQ(job.hang()->mismatch[0].ranks, (Ranks{0}));
  // The same operation: the others are on their way.
  job.data.collective_counts[0].path = job.path({job.mpi("MPI_Allreduce")});
  EXPECT_FALSE(job.hang());
}

TEST(Hang, OfDifferentRoots) {
  HungJob job(3);
  for (std::uint32_t r = 0; r < 3; ++r) job.collective(r, "MPI_Bcast").root = r == 1 ? 1 : 0;
  ASSERT_TRUE(job.hang());
  EXPECT_EQ(job.hang()->mismatch[0].root, 1);
  EXPECT_EQ(job.hang()->rank, 1);
  job.data.calls_under_way[1].root = 0;
  EXPECT_FALSE(job.hang()) << "all are in it: it takes its time";
}

// Ranks 1 and 2 are in a broadcast. Its root has left it, and is in a barrier.
struct Broadcast : HungJob {
  Broadcast(std::uint64_t at_root_bytes, std::uint64_t elsewhere_bytes) : HungJob(3) {
    for (const std::uint32_t r : {1u, 2u}) {
      CallUnderWay& row = collective(r, "MPI_Bcast");
      row.root = 0;
      row.agreed_bytes = elsewhere_bytes;
    }
    data.collective_counts[0] = {0, path({mpi("MPI_Bcast")}), 0, 413, at_root_bytes};
    collective(0, "MPI_Barrier", 80, 413);
  }
  [[nodiscard]] bool is_told() const { return hang() && !hang()->mismatch.empty(); }
};

TEST(Hang, OfDifferentSizes) {
  Broadcast job(40, 4000);
  const std::optional<Hang> hang = job.hang();
  ASSERT_TRUE(hang);
  EXPECT_TRUE(hang->is_deadlock);
  ASSERT_EQ(hang->mismatch.size(), 2u);
  EXPECT_EQ(hang->mismatch[0].ranks, (Ranks{0}));
  EXPECT_EQ(hang->mismatch[0].op, "MPI_Bcast");
  EXPECT_EQ(hang->mismatch[0].bytes, 40u);
  EXPECT_EQ(hang->mismatch[0].root, std::nullopt);
  EXPECT_EQ(hang->mismatch[1].ranks, (Ranks{1, 2}));
  EXPECT_EQ(hang->mismatch[1].bytes, 4000u);
  EXPECT_EQ(hang->rank, 0);
  EXPECT_EQ(job.said(),
            "Deadlock: operation 412 on MPI_COMM_WORLD has different sizes: MPI_Bcast of 40 bytes on rank 0 "
            "against MPI_Bcast of 4000 bytes on ranks 1, 2; rank 1 is at train.py:57.");
  for (shard::Rank& rank : job.data.ranks) {  // it was killed
    rank.flags = shard::kUsedMpi | shard::kExitSignalKnown | shard::kLost;
    rank.exit_signal = 9;
  }
  const Analysis a = analyse(job.data);
  ASSERT_FALSE(a.findings.empty());
  EXPECT_EQ(a.findings[0].kind, FindingKind::kDeadlock);
  EXPECT_EQ(a.findings[0].rank, 0);
  const std::string json = render_json(a);
  EXPECT_NE(json.find("\"bytes\": 4000"), std::string::npos);
  const std::optional<Analysis> stored = decode(encode(a));
  ASSERT_TRUE(stored);
  EXPECT_EQ(render_json(*stored), json);
}

TEST(Hang, OfDifferentSizesNeedsThemAll) {
  constexpr std::uint64_t kNoBytes = CallUnderWay::kNoBytes;
  EXPECT_TRUE(Broadcast(40, 4000).is_told());
  EXPECT_FALSE(Broadcast(4000, 4000).is_told()) << "it takes its time";
  EXPECT_FALSE(Broadcast(kNoBytes, 4000).is_told()) << "a datatype of the program's";
  EXPECT_FALSE(Broadcast(40, kNoBytes).is_told());
  Broadcast later(40, 4000);
  later.data.collective_counts[0].count = 414;
  EXPECT_FALSE(later.is_told()) << "the root's size is that of another operation";
}

// A library may take what it gets. So somebody must have waited for longer than that takes, since the last
// member had begun.
TEST(Hang, OfDifferentSizesIsNoneWhereDataMayBeUnderWay) {
  Broadcast just_left(40, 4000);
  just_left.data.calls_under_way[2].lasted_ns = kShort * kMs;
  EXPECT_FALSE(just_left.is_told());

  Broadcast computes(40, 4000);  // nobody knows when it has left
  computes.data.calls_under_way.pop_back();
  EXPECT_FALSE(computes.is_told());
  computes.thread(0, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  EXPECT_TRUE(computes.is_told());

  Broadcast just_come(40, 4000);
  just_come.data.calls_under_way[1].lasted_ns = kShort * kMs;
  EXPECT_FALSE(just_come.is_told());

  // They have waited for 8 s, of which 5 s count anyway.
  EXPECT_TRUE(Broadcast(40, 250'000'000).is_told());
  EXPECT_FALSE(Broadcast(40, 350'000'000).is_told());
  const auto gathers = [](std::uint64_t bytes) {
    HungJob job(2);
    job.collective(0, "MPI_Allgather").agreed_bytes = bytes;
    job.collective(1, "MPI_Allgather").agreed_bytes = 8;
    return job.hang().has_value();
  };
  EXPECT_TRUE(gathers(125'000'000));
  EXPECT_FALSE(gathers(175'000'000)) << "from each of two ranks";
}

TEST(Hang, OfDifferentSizesWaitsForAllMembers) {
  HungJob job(3);
  job.collective(0, "MPI_Allreduce").agreed_bytes = 8;
  job.collective(1, "MPI_Allreduce").agreed_bytes = 80;
  ASSERT_TRUE(job.hang());  // rank 2 computes, and may come
  EXPECT_FALSE(job.hang()->is_deadlock);
  EXPECT_TRUE(job.hang()->mismatch.empty());
  job.thread(2, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  EXPECT_EQ(job.hang()->rank, 2) << "it will not";
  EXPECT_TRUE(job.hang()->mismatch.empty());
  job.collective(2, "MPI_Allreduce").agreed_bytes = 80;
  ASSERT_EQ(job.hang()->mismatch.size(), 2u);
  EXPECT_EQ(job.hang()->mismatch[0].ranks, (Ranks{0}));
  // Of another operation, its size does not matter.
  job.data.calls_under_way.pop_back();
  job.collective(2, "MPI_Bcast").agreed_bytes = 80;
  ASSERT_EQ(job.hang()->mismatch.size(), 2u);
  EXPECT_EQ(job.hang()->mismatch[0].op, "MPI_Bcast");
  EXPECT_EQ(job.hang()->mismatch[0].bytes, std::nullopt);
}

// All have begun it, and wait for it to complete.
TEST(Hang, OfDifferentSizesOfANonblockingOperation) {
  HungJob job(2);
  for (std::uint32_t r = 0; r < 2; ++r) {
    CallUnderWay& row = job.collective(r, "MPI_Wait");
    row.requests = row.open_requests = 1;
    job.data.collective_counts[r] = {r, job.path({job.mpi("MPI_Iallreduce")}), 0, 413, 8};
  }
  EXPECT_FALSE(job.hang());
  job.data.collective_counts[1].agreed_bytes = 16;
  ASSERT_TRUE(job.hang());
  ASSERT_EQ(job.hang()->mismatch.size(), 2u);
  EXPECT_EQ(job.hang()->mismatch[1].op, "MPI_Iallreduce");
  EXPECT_EQ(job.hang()->mismatch[1].bytes, 16u);
  job.data.collective_counts[1].count = 414;  // it has begun a further one since
  EXPECT_FALSE(job.hang());
}

TEST(Hang, IsNotSaidWhereAMemberIsNotKnown) {
  Barrier job;
  job.thread(2, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  job.data.communicators[0].size = 5;  // not all ranks are recorded
  EXPECT_FALSE(job.hang());
}

// A rank has long left the operation: nobody waits for it.
TEST(Hang, NamesOnlyRanksThatHaveNotCome) {
  HungJob job(4);
  job.collective(0, "MPI_Reduce");
  job.data.collective_counts[1].count = 413;
  job.data.collective_counts[1].path = job.path({job.mpi("MPI_Reduce")});
  job.data.collective_counts[3].count = 420;
  job.thread(2, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  EXPECT_EQ(job.hang()->waiting[0].missing_ranks, (Ranks{2}));
}

TEST(Hang, IsFoundAmongTenThousandRanks) {
  HungJob job(10'000);
  const auto barrier = job.path({job.python("main", "train.py", 57, 1), job.mpi("MPI_Barrier")});
  for (std::uint32_t r = 0; r < 10'000; ++r)
    if (r != 7) {
      CallUnderWay row;
      row.rank = r, row.tid = job.data.ranks[r].pid, row.path = barrier, row.communicator = 0;
      row.sequence = 412, row.lasted_ns = kLong * kMs;
      job.data.calls_under_way.push_back(row);
    }
  job.thread(7, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  ASSERT_TRUE(job.hang());
  EXPECT_EQ(job.hang()->waiting[0].ranks.size(), 9999u);
  EXPECT_EQ(job.hang()->rank, 7);
}

TEST(Stacks, AreSortedByTheFewestRanks) {
  Barrier job;
  job.thread(2, "lost", "train.py", 20, Category::kIdle, 8500, 0, "clock_nanosleep");
  const StacksReport report = report_stacks(job.data, FrameMode::kFolded);
  const Stacks& stacks = report.stacks;
  EXPECT_EQ(stacks.ranks, 4u);
  EXPECT_EQ(stacks.threads, 4u);
  ASSERT_EQ(stacks.classes.size(), 2u);
  EXPECT_EQ(stacks.classes[0].ranks, (Ranks{2}));
  EXPECT_DOUBLE_EQ(*stacks.classes[0].unmoved_s, 8.5);
  EXPECT_EQ(stacks.classes[0].op, "");
  EXPECT_EQ(stacks.frames(stacks.classes[0].node).front()->function, "lost");
  EXPECT_EQ(stacks.classes[1].ranks, (Ranks{0, 1, 3}));
  EXPECT_EQ(stacks.classes[1].op, "MPI_Barrier");
  EXPECT_DOUBLE_EQ(*stacks.classes[1].unmoved_s, 8);
  ASSERT_EQ(stacks.frames(stacks.classes[1].node).size(), 2u);
  EXPECT_EQ(stacks.frames(stacks.classes[1].node)[0]->line, 57u);

  const std::string text = render_stacks_text(report);
  EXPECT_LT(text.find("lost() train.py:20"), text.find("main() train.py:57"));
  EXPECT_NE(text.find("MPI_Barrier  [ranks 0-1, 3, for 8.00 s]"), std::string::npos) << text;
  EXPECT_NE(text.find("Deadlock: ranks 0, 1, 3 wait"), std::string::npos) << text;
  std::string json;
  render_stacks_json(report, [&](std::string_view piece) { json += piece; });
  EXPECT_NE(json.find("\"schema\": \"clusterprof.stacks/1\""), std::string::npos);
  EXPECT_NE(json.find("\"kind\": \"deadlock\""), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::report
