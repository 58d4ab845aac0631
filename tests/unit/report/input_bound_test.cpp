// SPDX-License-Identifier: BSD-3-Clause
// The finding input_bound: a main thread that waits for what its own workers make.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

// One rank of 10 s that waits for `wait_ms` in a library's call and computes for the rest.
class InputBound : public ::testing::Test {
 protected:
  std::uint32_t python(std::uint32_t parent, const std::string& name, const std::string& file,
                       std::uint32_t line) {
    return b_.child(parent, b_.python(name, file, line, 1));
  }
  std::uint32_t library(std::uint32_t parent, const std::string& name, const std::string& file) {
    return python(parent, name, "/usr/lib/python3.11/" + file, 50);
  }
  std::uint32_t own(std::uint32_t parent, const std::string& name, std::uint32_t line) {
    return python(parent, name, "/home/u/train.py", line);
  }
  std::uint32_t main() { return own(own(0, "<module>", 90), "main", 80); }
  std::uint32_t blocked(std::uint32_t parent, const char* call = "futex") {
    return b_.child(parent, b_.kernel(call));
  }
  // `waits`: the library's call at train():31.
  void consumer(std::uint32_t waits, std::uint64_t wait_ms, std::uint64_t work_ms) {
    b_.sampled(0, waits, Category::kIdle, wait_ms);
    b_.sampled(0, own(own(main(), "train", 32), "step", 12), Category::kPython, work_ms);
    const std::uint64_t rest = 10'000 - wait_ms - work_ms;
    if (rest != 0) b_.sampled(0, own(0, "start", 5), Category::kPython, rest);
  }
  std::uint32_t queue_get() { return blocked(library(own(main(), "train", 31), "Queue.get", "queue.py")); }
  std::uint32_t thread_root() {
    return library(library(0, "Thread._bootstrap", "threading.py"), "Thread.run", "threading.py");
  }
  std::uint32_t worker(std::uint32_t root, std::uint32_t line) {
    return python(root, "worker", "/home/u/data.py", line);
  }
  std::uint32_t load(std::uint32_t root) { return python(worker(root, 20), "load", "/home/u/data.py", 12); }
  std::uint32_t put(std::uint32_t root) {
    return blocked(library(worker(root, 21), "Queue.put", "queue.py"));
  }
  std::uint32_t task(std::uint32_t root) {
    return blocked(library(worker(root, 19), "Queue.get", "queue.py"));
  }
  void threads(int count) {
    for (int i = 0; i < count; ++i) {
      shard::Thread& row = b_.data.threads.emplace_back();
      row.kind = shard::ThreadKind::kPython;
      row.tid = 50 + i;
      row.start_utc_ns = b_.data.run.start_utc_ns;
      row.elapsed_ns = 10'000 * kMs;
      row.top_path = load(thread_root());
    }
  }
  Analysis analysed() { return analyse(b_.data); }
  // Of the run; -1: the class is not listed.
  static double share_of(const Analysis& a, const std::string& kind) {
    for (const Bottleneck& row : a.bottlenecks)
      if (!row.rank && row.region.empty() && row.kind == kind) return row.share;
    return -1;
  }
  ProfileBuilder b_{1};
};

TEST_F(InputBound, SaysWhereThreadsSpendTheTime) {
  consumer(queue_get(), 4500, 5000);
  b_.sampled(0, load(thread_root()), Category::kPython, 36'000, false);
  b_.sampled(0, task(thread_root()), Category::kIdle, 4000, false);
  threads(4);
  const Analysis a = analysed();
  const Finding* const finding = find_kind(a, FindingKind::kInputBound);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->share, 0.45, 1e-9);
  EXPECT_EQ(finding->place.line, 31u);
  ASSERT_TRUE(finding->site.has_value());
  EXPECT_EQ(finding->site->function, "load");
  EXPECT_EQ(finding->site->line, 12u);
  EXPECT_EQ(finding->evidence.number(EvidenceKey::kWorkers), 4);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kWorkersBusy), 0.9, 1e-9);
  EXPECT_EQ(text_of(a, *finding)
                .rfind("Input-bound: rank 0 waits 45.0 % of its time at train() train.py:31 for 4 worker "
                       "threads, which are mostly in load() data.py:12.",
                       0),
            0u)
      << text_of(a, *finding);
  EXPECT_EQ(find_kind(a, FindingKind::kBlocked), nullptr) << "the same waiting";
}

TEST_F(InputBound, IsAClassOfTheVerdict) {
  consumer(queue_get(), 4500, 3000);
  b_.sampled(0, load(thread_root()), Category::kPython, 10'000, false);
  threads(1);
  const Analysis a = analysed();
  EXPECT_NEAR(share_of(a, "input"), 0.45, 1e-9);
  EXPECT_NEAR(share_of(a, "python"), 0.55, 1e-9);
  EXPECT_LT(share_of(a, "idle"), 1e-9);
  EXPECT_EQ(text_of(a, a.bottlenecks[1]),
            "4.50 s of the 10.0 s of all ranks' main threads waiting for data, most at train() train.py:31; "
            "the worker "
            "threads are mostly in load() data.py:12");
  const auto rank = std::find_if(a.bottlenecks.begin(), a.bottlenecks.end(),
                                 [](const Bottleneck& row) { return row.rank.has_value(); });
  ASSERT_NE(rank, a.bottlenecks.end());
  EXPECT_EQ(rank->kind, "python") << "the largest";
}

TEST_F(InputBound, ClassesOfARankDoNotOverlap) {
  consumer(queue_get(), 6000, 3000);
  b_.data.values.pop_back();
  b_.data.ranks[0].main_thread_ns[static_cast<std::size_t>(Category::kPython)] -= 1000 * kMs;
  b_.sampled(0, blocked(own(main(), "pause", 40), "clock_nanosleep"), Category::kIdle, 1000);
  b_.sampled(0, load(thread_root()), Category::kPython, 10'000, false);
  threads(1);
  const Analysis a = analysed();
  EXPECT_NEAR(share_of(a, "input"), 0.6, 1e-9);
  EXPECT_NEAR(share_of(a, "idle"), 0.1, 1e-9) << "the sleep alone";
  for (const Bottleneck& row : a.bottlenecks) {
    if (row.kind == "idle") {
      EXPECT_EQ(text_of(a, row).find("train.py:31"), std::string::npos) << text_of(a, row);
    }
    if (row.rank) {
      EXPECT_EQ(row.kind, "input");
    }
  }
  // Workers that have nothing to do: the waiting is idle.
  b_.data.values.pop_back();
  b_.sampled(0, task(thread_root()), Category::kIdle, 10'000, false);
  EXPECT_LT(share_of(analysed(), "input"), 0);
  EXPECT_NEAR(share_of(analysed(), "idle"), 0.7, 1e-9);
}

TEST_F(InputBound, IsNoClassOfRanksThatWaitForSomethingElse) {
  b_ = ProfileBuilder(2);
  consumer(queue_get(), 9000, 1000);
  b_.sampled(1, blocked(library(own(own(0, "log", 70), "take", 71), "Queue.get", "queue.py")), Category::kIdle, 8000);
  b_.sampled(1, own(0, "start", 5), Category::kPython, 2000);
  b_.sampled(0, load(thread_root()), Category::kPython, 10'000, false);
  threads(1);
  const Analysis a = analysed();
  EXPECT_NEAR(share_of(a, "input"), 0.45, 1e-9);
  EXPECT_NEAR(share_of(a, "idle"), 0.4, 1e-9);
  std::map<std::int32_t, std::string> kinds;
  for (const Bottleneck& row : a.bottlenecks)
    if (row.rank) kinds[*row.rank] = row.kind;
  EXPECT_EQ(kinds, (std::map<std::int32_t, std::string>{{0, "input"}, {1, "idle"}}));
}

TEST_F(InputBound, OtherWaitingIsStillAFindingOfItsOwn) {
  consumer(queue_get(), 4500, 2500);
  b_.data.values.pop_back();
  b_.data.ranks[0].main_thread_ns[static_cast<std::size_t>(Category::kPython)] -= 3000 * kMs;
  b_.sampled(0, blocked(own(main(), "pause", 40), "clock_nanosleep"), Category::kIdle, 3000);
  b_.sampled(0, load(thread_root()), Category::kPython, 10'000, false);
  threads(1);
  const Analysis a = analysed();
  EXPECT_NE(find_kind(a, FindingKind::kInputBound), nullptr);
  const Finding* const finding = find_kind(a, FindingKind::kBlocked);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->share, 0.3, 1e-9);
  EXPECT_EQ(finding->place.line, 40u);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kLock), 0, 1e-9) << "that is the waiting for input";
  EXPECT_EQ(finding->action, FindingAction::kReplaceSleep);
}

TEST_F(InputBound, SlowConsumersAndIdleWorkersAreNot) {
  consumer(queue_get(), 4500, 5000);
  b_.sampled(0, load(thread_root()), Category::kPython, 5500, false);
  b_.sampled(0, put(thread_root()), Category::kIdle, 4500, false);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kInputBound), nullptr) << "no room";
  b_.data.values.pop_back();
  b_.sampled(0, task(thread_root()), Category::kIdle, 4500, false);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kInputBound), nullptr) << "nothing to do";
  b_.data.values.pop_back();
  EXPECT_NE(find_kind(analysed(), FindingKind::kInputBound), nullptr);
}

TEST_F(InputBound, ShortWaitsAreNot) {
  consumer(queue_get(), 900, 9100);
  b_.sampled(0, load(thread_root()), Category::kPython, 10'000, false);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kInputBound), nullptr);
}

TEST_F(InputBound, CollectingResultsIsNot) {
  consumer(queue_get(), 9000, 0);
  b_.sampled(0, load(thread_root()), Category::kPython, 10'000, false);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kInputBound), nullptr) << "nobody works on what is made";
}

TEST_F(InputBound, PoolsAreAwaited) {
  std::uint32_t pool = library(own(main(), "train", 31), "Pool.map", "multiprocessing/pool.py");
  pool = library(pool, "Condition.wait", "threading.py");
  consumer(blocked(pool), 4500, 5000);
  b_.sampled(0, load(thread_root()), Category::kPython, 10'000, false);
  const Analysis a = analysed();
  EXPECT_EQ(find_kind(a, FindingKind::kInputBound), nullptr);
  EXPECT_NE(find_kind(a, FindingKind::kBlocked), nullptr);
  EXPECT_LT(share_of(a, "input"), 0);
}

TEST_F(InputBound, ThreadsThatSleepOrListenAreNoLoaders) {
  consumer(queue_get(), 4500, 5000);
  b_.sampled(0, blocked(worker(thread_root(), 22), "clock_nanosleep"), Category::kIdle, 10'000, false);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kInputBound), nullptr);
  b_.data.values.pop_back();
  b_.sampled(0, blocked(worker(thread_root(), 22), "accept4"), Category::kIdle, 10'000, false);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kInputBound), nullptr);
}

class InputOfProcesses : public InputBound {
 protected:
  // Where a process is made, and where it goes on if it is forked.
  std::uint32_t started() {
    return library(own(main(), "start", 70), "Popen.__init__", "multiprocessing/popen_fork.py");
  }
  std::uint32_t child() {
    return library(
        python(started(), "Popen._launch", "/usr/lib/python3.11/multiprocessing/popen_fork.py", 71),
        "BaseProcess.run", "multiprocessing/process.py");
  }
  void processes(int count) {
    for (int i = 0; i < count; ++i) {
      shard::Process& row = b_.data.processes.emplace_back();
      row.origin = shard::ProcessOrigin::kFork;
      row.pid = 50 + i;
      row.path = python(started(), "Popen._launch", "/usr/lib/python3.11/multiprocessing/popen_fork.py", 66);
      row.start_utc_ns = b_.data.run.start_utc_ns;
      row.elapsed_ns = 10'000 * kMs;
    }
  }
  std::uint32_t pipe_get() {
    std::uint32_t path = library(own(main(), "train", 31), "Queue.get", "multiprocessing/queues.py");
    path = library(path, "Connection.recv_bytes", "multiprocessing/connection.py");
    return b_.child(blocked(path, "read"), b_.kernel(shard::kOnPipeName));
  }
  void waits_on_pipe(std::uint64_t wait_ms) {
    b_.sampled(0, pipe_get(), Category::kIo, wait_ms);
    b_.sampled(0, own(own(main(), "train", 32), "step", 12), Category::kPython, 10'000 - wait_ms);
  }
};

TEST_F(InputOfProcesses, SaysWhereTheySpendTheTime) {
  waits_on_pipe(4500);
  processes(2);
  b_.sampled(0, load(child()), Category::kNative, 18'000, false);
  // The thread that feeds the queue waits all the time.
  const std::uint32_t feeder = library(thread_root(), "Queue._feed", "multiprocessing/queues.py");
  b_.sampled(0, blocked(feeder), Category::kIdle, 20'000, false);
  const Analysis a = analysed();
  const Finding* const finding = find_kind(a, FindingKind::kInputBound);
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(text_of(a, *finding).find("for 2 worker processes, which are mostly in load() data.py:12."),
            std::string::npos)
      << text_of(a, *finding);
  EXPECT_EQ(find_kind(a, FindingKind::kWaitsForData), nullptr) << "the same waiting";
  // Time of processes that are awaited is theirs elsewhere; here it is the waiting that counts.
  EXPECT_NEAR(share_of(a, "input"), 0.45, 1e-9);
  EXPECT_NEAR(share_of(a, "python"), 0.55, 1e-9);
  EXPECT_LT(share_of(a, "compute"), 0) << "what the workers do";
  EXPECT_LT(share_of(a, "io"), 0);
}

TEST_F(InputOfProcesses, ASleepingChildIsWhatIsAwaitedOnlyIfItSendsTheData) {
  waits_on_pipe(4500);
  processes(1);
  b_.sampled(0, blocked(worker(child(), 22), "clock_nanosleep"), Category::kIdle, 10'000, false);
  EXPECT_NE(find_kind(analysed(), FindingKind::kInputBound), nullptr);
  b_ = ProfileBuilder(1);
  consumer(queue_get(), 4500, 5500);
  processes(1);
  b_.sampled(0, blocked(worker(child(), 22), "clock_nanosleep"), Category::kIdle, 10'000, false);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kInputBound), nullptr)
      << "a thread passes them on, as far as is known";
}

TEST_F(InputOfProcesses, ThreadsDoNotFillAQueueBetweenProcesses) {
  waits_on_pipe(4500);
  b_.sampled(0, load(thread_root()), Category::kPython, 10'000, false);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kInputBound), nullptr);
}

TEST_F(InputOfProcesses, WorkersWithoutTasksAreNotSlow) {
  waits_on_pipe(4500);
  processes(2);
  std::uint32_t task = library(worker(child(), 19), "Queue.get", "multiprocessing/queues.py");
  task = b_.child(blocked(library(task, "Connection.recv_bytes", "multiprocessing/connection.py"), "read"),
                  b_.kernel(shard::kOnPipeName));
  b_.sampled(0, load(child()), Category::kNative, 9000, false);
  b_.sampled(0, task, Category::kIdle, 9000, false);
  const Analysis a = analysed();
  EXPECT_EQ(find_kind(a, FindingKind::kInputBound), nullptr);
  EXPECT_NE(find_kind(a, FindingKind::kWaitsForData), nullptr);
}

}  // namespace
}  // namespace clusterprof::report
