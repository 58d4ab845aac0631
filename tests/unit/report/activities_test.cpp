// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/activities.hpp"

#include <gtest/gtest.h>

#include "as_sampled.hpp"
#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::ProfileBuilder;

constexpr const char* kPython = "/usr/bin/python3.11";
constexpr const char* kBootstrap = "<frozen importlib._bootstrap>";

class ActivityOf : public ::testing::Test {
 protected:
  Activity of(std::initializer_list<shard::Frame> frames, Category category) {
    const std::uint32_t path = b_.path(frames);
    return activity_of(CallPaths(b_.data), path, category);
  }
  ProfileBuilder b_{1};
  shard::Frame step_ = b_.python("step", "/home/u/train.py", 5, 1);
  shard::Frame import_ = b_.python("_find_and_load", kBootstrap, 1007, 1002);
  shard::Frame collection_ = b_.native("garbage collection", kPython);
  shard::Frame numpy_ = b_.native("add", "/usr/lib/numpy.so");
  shard::Frame fault_ = b_.kernel("page fault");
};

TEST_F(ActivityOf, SystemCallsByName) {
  EXPECT_EQ(of({step_, b_.kernel("read")}, Category::kIo), Activity::kIo);
  EXPECT_EQ(of({step_, b_.kernel("mmap")}, Category::kSystem), Activity::kSystemCall);
  EXPECT_EQ(of({step_, b_.kernel("clock_nanosleep")}, Category::kIdle), Activity::kSleep);
  EXPECT_EQ(of({step_, b_.kernel("futex")}, Category::kIdle), Activity::kLock);
  EXPECT_EQ(of({step_, b_.kernel("wait4")}, Category::kIdle), Activity::kOtherWait);
  EXPECT_EQ(of({step_, b_.kernel("epoll_wait")}, Category::kIdle), Activity::kOtherWait);
  EXPECT_EQ(of({step_}, Category::kIdle), Activity::kOtherWait);
}

TEST_F(ActivityOf, SleepBeforePython311IsASelect) {
  for (const char* const call : {"select", "pselect6"}) {  // which one: the C library's choice
    const auto select = b_.kernel(call);
    EXPECT_EQ(of({step_, b_.native("time_sleep", kPython), b_.native("select", "/usr/lib/libc.so.6"), select},
                 Category::kIdle),
              Activity::kSleep);
    EXPECT_EQ(of({b_.native("time_sleep", kPython), step_, b_.native("select_select", kPython), select},
                 Category::kIdle),
              Activity::kOtherWait);
  }
}

TEST_F(ActivityOf, WaitingForTheGilInBothFormats) {
  EXPECT_EQ(of({step_, b_.kernel("futex"), b_.kernel("waiting for the GIL")}, Category::kIdle),
            Activity::kGilWait);
}

class OffCpuKind : public ::testing::Test {
 protected:
  OffCpu of(std::initializer_list<shard::Frame> frames) {
    const std::uint32_t path = b_.path(frames);
    return off_cpu_of(CallPaths(b_.data), path);
  }
  shard::Frame of_library(const char* name, const char* file) {
    return b_.python(name, std::string("/usr/lib/python3.11/") + file, 5, 1);
  }
  ProfileBuilder b_{1};
  shard::Frame step_ = b_.python("step", "/home/u/train.py", 5, 1);
  shard::Frame futex_ = b_.kernel("futex");
};

TEST_F(OffCpuKind, ThreadJoinIsNotALockWait) {
  EXPECT_EQ(of({step_, futex_}), OffCpu::kLock);
  EXPECT_EQ(of({b_.native("main", "/home/u/a.out"), futex_, b_.kernel("of a thread that is joined")}),
            OffCpu::kJoin);
  const auto libc = [&](const char* name) { return b_.native(name, "/usr/lib/libc.so.6"); };
  EXPECT_EQ(of({b_.native("main", "/home/u/a.out"), libc("__pthread_clockjoin_ex"), futex_}), OffCpu::kJoin);
  const shard::Frame lock = b_.native("sem_clockwait", "/usr/lib/libc.so.6");
  EXPECT_EQ(of({step_, of_library("Thread.join", "threading.py"),
                of_library("Thread._wait_for_tstate_lock", "threading.py"), lock, futex_}),
            OffCpu::kJoin);
  EXPECT_EQ(of({step_, of_library("join", "threading.py"), futex_}), OffCpu::kJoin);  // before 3.11
  EXPECT_EQ(of({step_, of_library("Condition.wait", "threading.py"), lock, futex_}), OffCpu::kLock);
  // Work below a join of another thread belongs to that thread.
  EXPECT_EQ(of({of_library("Thread.join", "threading.py"), step_, futex_}), OffCpu::kLock);
}

TEST_F(OffCpuKind, PoolWaitIsForItsThreadsOrProcesses) {
  const auto wait = [&] {
    return of({step_, of_library("Future.result", "concurrent/futures/_base.py"),
               of_library("Condition.wait", "threading.py"), futex_});
  };
  EXPECT_EQ(wait(), OffCpu::kJoin);
  b_.path({of_library("BaseProcess._bootstrap", "multiprocessing/process.py")});
  EXPECT_EQ(wait(), OffCpu::kChild);
  const shard::Frame pool = of_library("Pool.map", "multiprocessing/pool.py");
  const shard::Frame get = of_library("ApplyResult.get", "multiprocessing/pool.py");
  EXPECT_EQ(of({step_, pool, get, of_library("Event.wait", "threading.py"), futex_}), OffCpu::kChild);
  // A worker waits for its parent, not for a child.
  EXPECT_EQ(of({of_library("worker", "multiprocessing/pool.py"),
                of_library("SimpleQueue.get", "multiprocessing/queues.py"), b_.kernel("read"),
                b_.kernel("of a pipe or terminal")}),
            OffCpu::kPipe);
  EXPECT_EQ(of({of_library("Pool._handle_results", "multiprocessing/pool.py"),
                of_library("_ConnectionBase.recv", "multiprocessing/connection.py"), b_.kernel("read"),
                b_.kernel("of a pipe or terminal")}),
            OffCpu::kChild);
}

TEST_F(OffCpuKind, ReadFromSubprocessIsAChildWait) {
  const shard::Frame communicate = of_library("Popen._communicate", "subprocess.py");
  EXPECT_EQ(of({step_, communicate, of_library("PollSelector.select", "selectors.py"), b_.kernel("poll")}),
            OffCpu::kChild);
  EXPECT_EQ(of({step_, of_library("PollSelector.select", "selectors.py"), b_.kernel("poll")}), OffCpu::kPoll);
  EXPECT_EQ(of({step_, b_.kernel("wait4")}), OffCpu::kChild);
  EXPECT_EQ(of({step_, communicate, b_.kernel("read"), b_.kernel("of a file")}), OffCpu::kFile);
}

TEST_F(ActivityOf, ThreadJoinIsNotALockWait) {
  const shard::Frame join = b_.python("Thread.join", "/usr/lib/python3.11/threading.py", 5, 1);
  EXPECT_EQ(of({step_, join, b_.kernel("futex")}, Category::kIdle), Activity::kOtherWait);
  EXPECT_EQ(of({step_, b_.kernel("futex"), b_.kernel("of a thread that is joined")}, Category::kIdle),
            Activity::kOtherWait);
}

TEST_F(ActivityOf, PageFaultWinsOverTheCodeItInterrupted) {
  EXPECT_EQ(of({step_, fault_}, Category::kSystem), Activity::kPageFault);
  EXPECT_EQ(of({import_, collection_, fault_}, Category::kSystem), Activity::kPageFault);
}

TEST_F(ActivityOf, GarbageCollectionWinsOverImportAndImportOverCode) {
  EXPECT_EQ(of({import_, step_, collection_, numpy_}, Category::kPython), Activity::kGarbageCollection);
  EXPECT_EQ(of({import_, step_, numpy_}, Category::kNative), Activity::kImport);
  EXPECT_EQ(of({import_, step_}, Category::kPython), Activity::kImport);
  EXPECT_EQ(of({step_, numpy_}, Category::kNative), Activity::kNative);
  EXPECT_EQ(of({step_}, Category::kPython), Activity::kInterpreter);
  EXPECT_EQ(of({step_, collection_, step_}, Category::kPython), Activity::kInterpreter);
}

TEST_F(ActivityOf, MpiAndSystemCallsWinOverAllOthers) {
  EXPECT_EQ(of({import_, b_.mpi("MPI_Init")}, Category::kMpi), Activity::kMpi);
  EXPECT_EQ(of({import_, collection_, b_.kernel("read")}, Category::kIo), Activity::kIo);
}

// Five things in one line, and one in a thread beside.
Analysis one_line(std::uint32_t flags) {
  ProfileBuilder b(1);
  b.data.ranks[0].flags |= flags;
  const auto step = b.python("step", "/home/u/train.py", 5, 1);
  const auto numpy = b.native("add", "/usr/lib/numpy.so");
  b.sampled(0, b.path({step}), Category::kPython, 1000);
  b.sampled(0, b.path({step, b.native("garbage collection", kPython)}), Category::kPython, 500);
  b.sampled(0, b.path({step, numpy}), Category::kNative, 2000);
  b.sampled(0, b.path({step, numpy, b.kernel("page fault")}), Category::kSystem, 700);
  b.sampled(0, b.path({step, b.kernel("clock_nanosleep")}), Category::kIdle, 300);
  b.sampled(0, b.path({step, b.kernel("futex"), b.kernel("waiting for the GIL")}), Category::kIdle, 400,
            false);
  return analyse(testing::as_sampled(b.data));
}

TEST(Activities, AddUpForARankAFunctionAndALine) {
  const Analysis a = one_line(shard::kFaultsApart | shard::kGarbageApart);
  const auto of = [&](const auto& seconds, Activity activity) { return seconds[index(activity)]; };
  EXPECT_DOUBLE_EQ(of(a.activity_s, Activity::kInterpreter).value(), 1);
  EXPECT_DOUBLE_EQ(of(a.activity_s, Activity::kGarbageCollection).value(), 0.5);
  EXPECT_DOUBLE_EQ(of(a.activity_s, Activity::kNative).value(), 2);
  EXPECT_DOUBLE_EQ(of(a.activity_s, Activity::kPageFault).value(), 0.7);
  EXPECT_DOUBLE_EQ(of(a.activity_s, Activity::kSleep).value(), 0.3);
  EXPECT_DOUBLE_EQ(of(a.activity_s, Activity::kGilWait).value(), 0.4);
  ASSERT_EQ(a.lines.size(), 1u);
  EXPECT_DOUBLE_EQ(a.lines[0].self_s, 4.9);
  double sum = 0;
  for (const double part : a.lines[0].activity_s) sum += part;
  EXPECT_NEAR(sum, 4.9, 1e-9);
  EXPECT_DOUBLE_EQ(of(a.lines[0].activity_s, Activity::kGarbageCollection), 0.5);
  EXPECT_EQ(a.native_modules, (std::map<std::string, double>{{"/usr/lib/numpy.so", 2.0}}));
  EXPECT_EQ(a.system_calls, (std::map<std::string, double>{{"clock_nanosleep", 0.3}, {"futex", 0.4}}));
  // The collection is a function of its own, not its caller's bytecode.
  bool found = false;
  for (const FunctionRow& row : a.functions) {
    if (row.name != "garbage collection") continue;
    found = true;
    EXPECT_DOUBLE_EQ(row.self_s, 0.5);
  }
  EXPECT_TRUE(found);
}

TEST(Activities, AHelperThatWaitsForTheGilIsNotIdle) {
  ProfileBuilder b(1);
  const auto step = b.python("step", "/home/u/train.py", 5, 1);
  b.sampled(0, b.path({step}), Category::kPython, 1000);
  b.sampled(0, b.path({step, b.kernel("futex"), b.kernel("waiting for the GIL")}), Category::kIdle, 3000,
            false);
  b.sampled(0, b.path({step, b.kernel("futex")}), Category::kIdle, 9000, false);
  const Analysis a = analyse(testing::as_sampled(b.data));
  EXPECT_DOUBLE_EQ(a.helper_idle_s, 9);
  double active = 0;
  for (const Seconds& part : a.active_activity_s) active += part.value_or(0);
  EXPECT_DOUBLE_EQ(active, 4) << "the same as functions and lines count";
  double functions = 0;
  for (const FunctionRow& row : a.functions) functions += row.active_self_s;
  EXPECT_DOUBLE_EQ(functions, 4);
  ASSERT_EQ(a.lines.size(), 1u);
  EXPECT_DOUBLE_EQ(a.lines[0].active_self_s, 4);
  EXPECT_EQ(a.active_system_calls, (std::map<std::string, double>{{"futex", 3.0}}));
  ASSERT_FALSE(a.findings.empty());
  EXPECT_EQ(a.findings[0].severity, Severity::kHigh);
  EXPECT_DOUBLE_EQ(a.findings[0].share.value(), 0.75);
  EXPECT_EQ(text_of(a, a.findings[0]),
            "Threads wait for Python's global lock (GIL) for 75.0 % of their time; 100.0 % of it in step() "
            "train.py:5. Only one thread of a process runs Python at a time. Use processes, or code that "
            "releases the "
            "GIL.");
  EXPECT_EQ(a.findings[0].place.line, 5u);
}

TEST(Activities, BytecodeLeavesOutCollectionsAndImports) {
  ProfileBuilder b(1);
  b.data.ranks[0].flags |= shard::kGarbageApart;
  const auto step = b.python("step", "/home/u/train.py", 5, 1);
  b.sampled(0, b.path({step}), Category::kPython, 4000);
  b.sampled(0, b.path({step, b.native("garbage collection", kPython)}), Category::kPython, 4500);
  b.sampled(0, b.path({b.python("_find_and_load", kBootstrap, 1007, 1002), step}), Category::kPython, 1500);
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.findings.size(), 2u);
  EXPECT_EQ(
      text_of(a, a.findings[0]),
      "Python's garbage collection takes 45.0 % of all rank time; 100.0 % of it in step() train.py:5. Make "
      "fewer objects that refer to each other, or collect less often (gc.freeze).");
  EXPECT_EQ(text_of(a, a.findings[1]),
            "The Python interpreter runs bytecode for 40.0 % of all rank time; 100.0 % of it in step() "
            "train.py:5. Move the loop to NumPy or compiled code.");
  EXPECT_EQ(a.findings[1].severity, Severity::kLow);
}

TEST(Activities, AreUnknownWherePythonFramesWereNotRead) {
  const Analysis a = one_line(shard::kFaultsApart | shard::kPythonUnread);
  for (const Activity unknown :
       {Activity::kInterpreter, Activity::kImport, Activity::kGarbageCollection, Activity::kGilWait})
    EXPECT_FALSE(a.activity_s[index(unknown)]) << kActivityKeys[index(unknown)];
  EXPECT_TRUE(a.activity_s[index(Activity::kNative)]);
  EXPECT_TRUE(a.activity_s[index(Activity::kSleep)]);
}

TEST(Activities, OfTheRunAreKnownOnlyIfKnownForAllRanks) {
  ProfileBuilder b(3);
  const auto path = b.path({b.native("work", "/a.out")});
  b.sampled(0, path, Category::kNative, 1000);
  b.sampled(1, path, Category::kNative, 2000);
  b.data.ranks[0].flags |= shard::kFaultsApart;
  const Analysis some = analyse(testing::as_sampled(b.data));
  EXPECT_TRUE(some.ranks[0].activity_s[index(Activity::kPageFault)]);
  EXPECT_FALSE(some.activity_s[index(Activity::kPageFault)]);
  EXPECT_DOUBLE_EQ(some.activity_s[index(Activity::kNative)].value(), 3) << "rank 2 had no samples";
  b.data.ranks[1].flags |= shard::kFaultsApart;
  EXPECT_DOUBLE_EQ(analyse(testing::as_sampled(b.data)).activity_s[index(Activity::kPageFault)].value(), 0);
}

TEST(Activities, NeedSamples) {
  ProfileBuilder b(1);
  b.sampled(0, 0, Category::kNative, 9);  // the thread's time is known, not what it did
  ASSERT_EQ(b.data.ranks[0].samples, 0u);
  const Analysis a = analyse(b.data);
  EXPECT_TRUE(a.native_modules.empty());
  EXPECT_FALSE(a.category_s[static_cast<std::size_t>(Category::kNative)]);
  EXPECT_FALSE(a.activity_s[index(Activity::kNative)]);
  EXPECT_EQ(render_text(a, {}).find("All threads"), std::string::npos);
  EXPECT_NE(render_json(a).find("\"native_modules\": null"), std::string::npos);
}

TEST(Activities, ThatWereNotDistinguishedAreUnknown) {
  const Analysis a = one_line(0);
  EXPECT_FALSE(a.activity_s[index(Activity::kPageFault)]);
  EXPECT_FALSE(a.activity_s[index(Activity::kGarbageCollection)]);
  EXPECT_TRUE(a.activity_s[index(Activity::kSleep)]);
}

TEST(Quality, HandlerCostAndRate) {
  ProfileBuilder b(2);
  b.data.handler_costs = {{0, 1024, 100}, {1, 1024, 80}, {1, 2048, 19}, {0, 8192, 1}};
  for (auto& rank : b.data.ranks) rank.running_samples = 99, rank.running_ns = 1000 * testing::kMs;
  b.data.ranks[1].merges_tried = 1000;
  b.data.ranks[1].merges_failed = 1;
  const Analysis a = analyse(b.data);
  EXPECT_NEAR(a.quality.handler_median_s.value(), 950e-9, 80e-9);  // in the bin that ends at 1024
  EXPECT_NEAR(a.quality.handler_p99_s.value(), 2000e-9, 100e-9);
  EXPECT_DOUBLE_EQ(a.quality.rate_reached_hz.value(), 99);
  EXPECT_DOUBLE_EQ(a.quality.merge_success.value(), 0.999);
}

// An MPI call has its cost without any sample: the number of samples times what one costs would not show it.
TEST(Quality, RecordingCostIsThatOfAllRanks) {
  ProfileBuilder b(3);
  b.data.handler_costs.clear();
  const std::uint64_t spent_ms[] = {50, 200, 20}, cpu_ms[] = {1000, 3000, 5000};
  for (std::size_t r = 0; r < b.data.ranks.size(); ++r) {
    b.data.ranks[r].handler_ns = spent_ms[r] * testing::kMs;
    b.data.ranks[r].cpu_ns = cpu_ms[r] * testing::kMs;
  }
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(a.quality.recording_s, 0.27);
  EXPECT_DOUBLE_EQ(a.quality.recording_share.value(), 0.03);
  EXPECT_NE(render_json(a).find("\"recording_s\": 0.27,\n  \"recording_share\": 0.03,"), std::string::npos);
  EXPECT_NE(render_text(a, {}).find("recording cost    270 ms (3.0 % of the ranks' CPU time)"),
            std::string::npos);
}

// A program that asks MPI all the time whether a message is there.
TEST(Quality, ARecordingThatCostsMuchIsAFinding) {
  ProfileBuilder b(1);
  const auto main = b.native("main", "/u/a.out", "/u/a.c", 9);
  b.sampled(0, b.path({main}), shard::Category::kNative, 1000);
  b.called(0, b.path({main, b.mpi("MPI_Recv")}), 10, 500);
  b.called(0, b.path({main, b.mpi("MPI_Test")}), 4'000'000, 1500);
  b.data.ranks[0].cpu_ns = 3000 * testing::kMs;
  b.data.ranks[0].handler_ns = 299 * testing::kMs;
  EXPECT_EQ(testing::find_kind(analyse(b.data), FindingKind::kRecordingCost), nullptr);
  b.data.ranks[0].handler_ns = 600 * testing::kMs;
  Analysis a = analyse(b.data);
  const Finding* const finding = testing::find_kind(a, FindingKind::kRecordingCost);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kInfo);
  EXPECT_NEAR(*finding->share, 0.2, 1e-9);
  EXPECT_EQ(
      text_of(a, *finding),
      "Recording took 20.0 % of the ranks' CPU time, with 4.00 M MPI calls, most of them MPI_Test <- "
      "main() a.c:9. Without clusterprof these calls, and the code that makes them, are faster than shown.");
  b.data.ranks[0].cpu_ns = 300 * testing::kMs, b.data.ranks[0].handler_ns = 60 * testing::kMs;
  EXPECT_EQ(testing::find_kind(analyse(b.data), FindingKind::kRecordingCost), nullptr) << "less than 0.1 s";
}

TEST(Quality, IsUnknownWhereNothingWasMeasured) {
  ProfileBuilder b(1);
  const Analysis a = analyse(b.data);
  EXPECT_FALSE(a.quality.handler_median_s);
  EXPECT_FALSE(a.quality.rate_reached_hz);
  EXPECT_FALSE(a.quality.merge_success);
}

TEST(Quality, RecordingCostHasNoShareWithoutCpuTime) {
  ProfileBuilder b(1);
  b.data.ranks[0].handler_ns = 30 * testing::kMs;
  b.data.ranks[0].cpu_ns = 0;
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(a.quality.recording_s, 0.03);
  EXPECT_FALSE(a.quality.recording_share);
  EXPECT_NE(render_json(a).find("\"recording_share\": null"), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::report
