// SPDX-License-Identifier: BSD-3-Clause
// Programs that are limited by one thing, and programs that just miss the threshold.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/analysis/limits.hpp"
#include "report/analysis/memory.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::IoOperation;
using testing::find_finding;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

double share_of_run(const Analysis& a, std::string_view kind) {
  for (const Bottleneck& row : a.bottlenecks)
    if (!row.rank && row.region.empty() && row.kind == kind) return row.share;
  return 0;
}

std::string evidence_of_run(const Analysis& a, std::string_view kind) {
  for (const Bottleneck& row : a.bottlenecks)
    if (!row.rank && row.region.empty() && row.kind == kind) return text_of(a, row);
  return {};
}

std::uint32_t in_kernel(ProfileBuilder& b, std::string_view name, std::uint32_t line, std::string_view call) {
  return b.child(native(b, name, line), b.kernel(call));
}

// 7 s in `path`, 3 s computing.
ProfileBuilder bound_by(Category category, const std::function<std::uint32_t(ProfileBuilder&)>& path) {
  ProfileBuilder b(1);
  b.data.ranks[0].flags |= shard::kFaultsApart;
  b.data.nodes[0].cache_bytes = 32u << 20;
  b.sampled(0, path(b), category, 7000);
  b.sampled(0, native(b, "compute", 10), Category::kNative, 3000);
  return b;
}

TEST(WorkingSet, IsEstimatedFromBlocks) {
  for (const std::uint64_t blocks : {8u, 64u, 400u, 1000u})
    for (const std::uint64_t accesses : {200u, 1000u, 5000u}) {
      ProfileBuilder b(1);
      b.accessed(0, native(b, "f", 1), blocks, accesses, accesses);
      const WorkingSet set = estimate_working_set(b.data.data_accesses[0].blocks, accesses);
      const double real = static_cast<double>(blocks * shard::DataAccess::kBlockBytes);
      EXPECT_LT(set.at_least_bytes, real * 1.3) << blocks << " " << accesses;
      if (accesses < 2 * blocks) continue;  // too few to be exact
      EXPECT_NEAR(set.bytes, real, 0.35 * real) << blocks << " " << accesses;
      EXPECT_GT(set.at_least_bytes, 0.5 * real) << blocks << " " << accesses;
    }
  EXPECT_EQ(estimate_working_set({}, 100).bytes, 0);
  EXPECT_EQ(estimate_working_set({1, 0, 0, 0}, 0).bytes, 0);
  const WorkingSet full = estimate_working_set({~0ull, ~0ull, ~0ull, ~0ull}, 1'000'000);
  EXPECT_TRUE(full.is_more);
  EXPECT_TRUE(std::isfinite(full.bytes));
}

TEST(Bottleneck, SharesOfARankAddUp) {
  const Analysis a = analyse(testing::resources_run());
  for (const RankInfo& rank : a.ranks) {
    double sum = 0;
    for (const double time_s : rank.limits.time_s) sum += time_s;
    EXPECT_NEAR(sum, rank.recorded_s, 1e-6);
  }
}

TEST(Bottleneck, RunWithoutTimeHasNone) {
  ProfileBuilder b(2);
  b.data.nodes[0].cpus = 2, b.data.nodes[0].cache_bytes = 32u << 20,
  b.data.nodes[0].memory_bytes = 8'000'000'000;
  const auto compute = native(b, "compute", 10);
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.data.ranks[r].flags |= shard::kFaultsApart | shard::kUsageKnown;
    b.data.ranks[r].cpu_ns = 9800 * kMs;
    b.data.ranks[r].affinity = b.string(r == 0 ? "0" : "1");
    b.data.ranks[r].involuntary_switches = 150, b.data.ranks[r].minor_faults = 3000;
    b.sampled(r, compute, Category::kNative, 9000);
    b.sampled(r, in_kernel(b, "store", 20, "write"), Category::kIo, 400);
    b.sampled(r, in_kernel(b, "touch", 30, "page fault"), Category::kSystem, 300);
    b.sampled(r, in_kernel(b, "rest", 40, "nanosleep"), Category::kIdle, 300);
    b.accessed(r, compute, 60, 400, 500);
    b.file_called(r, native(b, "store", 20), "/out", IoOperation::kWrite, 5000, 400, 100'000);
  }
  b.node_series("memory_used_bytes", 0, {7'000'000'000}, shard::SeriesKind::kMaximum);
  b.node_series("cpu_busy_ns", 0, {19'900 * kMs});
  const Analysis a = analyse(b.data);
  for (const Finding& finding : a.findings) ADD_FAILURE() << text_of(a, finding);
  EXPECT_EQ(a.bottlenecks[0].kind, "compute");
  EXPECT_NEAR(a.bottlenecks[0].share, 0.9, 1e-9);
  EXPECT_TRUE(a.bottlenecks[1].rank) << "no other class of the run has 5 %";
}

TEST(Bottleneck, Memory) {
  ProfileBuilder b = bound_by(Category::kNative, [](ProfileBuilder& p) { return native(p, "sweep", 20); });
  b.accessed(0, native(b, "sweep", 20), 1536, 600, 700);
  b.accessed(0, native(b, "compute", 10), 2, 200, 300);
  const Analysis a = analyse(b.data);
  EXPECT_EQ(a.bottlenecks[0].kind, "memory");
  EXPECT_NEAR(share_of_run(a, "memory"), 0.7, 1e-9);
  EXPECT_NEAR(share_of_run(a, "compute"), 0.3, 1e-9);
  const Finding* finding = find_finding(a, "sweep() a.c:20");
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->share, 0.7, 1e-9);
  EXPECT_EQ(finding->place.file, "/u/a.c");
  EXPECT_EQ(finding->place.line, 20u);
  EXPECT_EQ(finding->rank, 0);
  EXPECT_NE(text_of(a, *finding).find("Work on blocks that fit into the cache"), std::string::npos)
      << text_of(a, *finding);
}

TEST(Bottleneck, MemoryNeedsMoreDataThanTheCacheAndEnoughToTell) {
  const auto kind = [](std::uint64_t blocks, std::uint64_t accesses, std::uint64_t samples,
                       bool cache = true) {
    ProfileBuilder b = bound_by(Category::kNative, [](ProfileBuilder& p) { return native(p, "sweep", 20); });
    if (!cache) b.data.nodes[0].cache_bytes = 0;
    b.accessed(0, native(b, "sweep", 20), blocks, accesses, samples);
    return analyse(b.data).bottlenecks[0].kind;
  };
  EXPECT_EQ(kind(110, 600, 700), "compute") << "27.5 MiB of 32";
  EXPECT_EQ(kind(200, 600, 700), "memory") << "50 MiB";
  EXPECT_EQ(kind(10'000, thresholds::kMinAccesses - 1, 30), "compute") << "too few accesses";
  EXPECT_EQ(kind(10'000, 600, 3100), "compute") << "seldom at an access";
  EXPECT_EQ(kind(10'000, 600, 2900), "memory");
  EXPECT_EQ(kind(10'000, 600, 700, false), "compute") << "the cache is not known";
}

TEST(Bottleneck, CountersDecideAboutMemoryWhereThereAreSome) {
  const auto kind = [](std::uint64_t misses, std::uint64_t instructions) {
    ProfileBuilder b = bound_by(Category::kNative, [](ProfileBuilder& p) { return native(p, "sweep", 20); });
    for (shard::Value& value : b.data.values) value.cpu_ns = value.wall_ns;
    b.accessed(0, native(b, "sweep", 20), 10'000, 600, 700);
    b.data.counters = {"PAPI_L3_TCM", "PAPI_TOT_INS"};
    b.accessed(0, native(b, "compute", 10), 10'000, 600, 700);  // but has no misses at all
    b.data.path_counters = {{0, native(b, "sweep", 20), 0, misses},
                            {0, native(b, "sweep", 20), 1, instructions}};
    const Analysis a = analyse(b.data);
    EXPECT_GE(share_of_run(a, "compute"), 0.3 - 1e-9);
    return a.bottlenecks[0].kind;
  };
  // 7 s of CPU time: 4 GB/s are 437.5 M misses.
  EXPECT_EQ(kind(440'000'000, 100'000'000'000), "memory");
  EXPECT_EQ(kind(430'000'000, 100'000'000'000), "compute");
  EXPECT_EQ(kind(100'000'000, 9'900'000'000), "memory") << "10.1 per 1000 instructions";
  EXPECT_EQ(kind(100'000'000, 10'100'000'000), "compute") << "9.9 per 1000 instructions";
}

TEST(Bottleneck, PageFaultsAreMemoryAndSoIsMapping) {
  ProfileBuilder b =
      bound_by(Category::kSystem, [](ProfileBuilder& p) { return in_kernel(p, "touch", 20, "page fault"); });
  b.sampled(0, in_kernel(b, "touch", 22, "munmap"), Category::kSystem, 2000);
  b.data.ranks[0].flags |= shard::kUsageKnown;
  b.data.ranks[0].minor_faults = 600'000;
  b.lasts(12'000);
  const Analysis a = analyse(b.data);
  EXPECT_NEAR(share_of_run(a, "memory"), 0.75, 1e-9);
  EXPECT_NEAR(share_of_run(a, "compute"), 0.25, 1e-9);
  EXPECT_NE(
      evidence_of_run(a, "memory").find("page faults 7.00 s, mapping and unmapping 2.00 s; most in touch()"),
      std::string::npos)
      << evidence_of_run(a, "memory");
  ASSERT_EQ(a.findings.size(), 1u) << "and none about the kernel";
  const Finding& finding = a.findings[0];
  EXPECT_NE(
      text_of(a, finding)
          .find("page faults 58.3 %, mapping and unmapping (mmap, munmap, brk) 16.7 %; 50.0 k faults/s"),
      std::string::npos)
      << text_of(a, finding);
  EXPECT_NEAR(*finding.share, 0.75, 1e-9);
  EXPECT_EQ(finding.place.line, 20u);
  EXPECT_NE(text_of(a, finding).find("Reuse memory"), std::string::npos);
}

TEST(Bottleneck, OtherSystemCallsAreCompute) {
  const ProfileBuilder b =
      bound_by(Category::kSystem, [](ProfileBuilder& p) { return in_kernel(p, "spin", 20, "sched_yield"); });
  const Analysis a = analyse(b.data);
  EXPECT_NEAR(share_of_run(a, "compute"), 1, 1e-9);
  EXPECT_NE(evidence_of_run(a, "compute").find("7.00 s in system calls"), std::string::npos);
  EXPECT_NE(find_finding(a, "System calls other than I/O and mapping take 70.0 %"), nullptr);
}

TEST(Bottleneck, Fsync) {
  ProfileBuilder b =
      bound_by(Category::kIo, [](ProfileBuilder& p) { return in_kernel(p, "store", 88, "fsync"); });
  b.file_called(0, native(b, "store", 88), "/scratch/out.dat", IoOperation::kSync, 12'000, 6000);
  b.file_called(0, native(b, "store", 87), "/scratch/out.dat", IoOperation::kWrite, 12'000, 600,
                12'000 * 4096);
  const Analysis a = analyse(b.data);
  EXPECT_EQ(a.bottlenecks[0].kind, "io");
  EXPECT_NEAR(share_of_run(a, "io"), 0.7, 1e-9);
  ASSERT_EQ(a.findings.size(), 1u) << "writes of 4096 bytes are not small";
  EXPECT_EQ(
      text_of(a, a.findings[0]),
      "File I/O takes 70.0 % of all rank time; 100.0 % of it in store() a.c:88. Rank 0 spends "
      "60.0 % of its time in 12.0 k fsync calls on out.dat. Call fsync less often, once for many writes.");
  EXPECT_EQ(a.findings[0].place.line, 88u);
  EXPECT_EQ(a.findings[0].rank, 0);
  EXPECT_NE(evidence_of_run(a, "io").find("; 12.0 k fsync calls on out.dat take 6.00 s"), std::string::npos);
  shard::ShardData one = b.data;
  one.io_calls[0].count = 1;
  EXPECT_NE(evidence_of_run(analyse(one), "io").find("; 1 fsync call on out.dat takes 6.00 s"),
            std::string::npos);

  b.data.io_calls[0].time_ns = 8000 * kMs;
  EXPECT_NE(find_finding(analyse(b.data),
                         "80.0 % of its time in 12.0 k fsync calls on out.dat (timed: samples "
                         "miss part of such short waits)."),
            nullptr);
  b.data.ranks[0].threads = 2;
  EXPECT_EQ(find_finding(analyse(b.data), "(timed;"), nullptr) << "another thread may have called";
}

TEST(Bottleneck, FileThatIsSlowOnOneRankIsAFinding) {
  ProfileBuilder b(20);
  for (std::uint32_t r = 0; r < 20; ++r)
    b.sampled(r, native(b, "compute", 10), Category::kNative, r == 3 ? 8900 : 10'000);
  b.sampled(3, in_kernel(b, "load", 30, "read"), Category::kIo, 1100);
  b.file_called(3, native(b, "load", 30), "/data/in.bin", IoOperation::kRead, 200, 1100, 800'000'000);
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.findings.size(), 1u);
  EXPECT_EQ(
      text_of(a, a.findings[0]),
      "Rank 3 spends 11.0 % of its time in 200 read calls on in.bin, load() a.c:30. Read and write less "
      "often, in larger pieces.");
  EXPECT_EQ(a.findings[0].rank, 3);
  EXPECT_NEAR(*a.findings[0].share, 0.0055, 1e-9);
  b.data.io_calls[0].time_ns = 990 * kMs;
  EXPECT_TRUE(analyse(b.data).findings.empty()) << "less than a tenth of its time";
}

TEST(Bottleneck, SmallWrites) {
  ProfileBuilder b(1);
  b.sampled(0, native(b, "compute", 10), Category::kNative, 9400);
  b.sampled(0, in_kernel(b, "log_line", 30, "write"), Category::kIo, 600);
  b.file_called(0, native(b, "log_line", 30), "/log/run.log", IoOperation::kWrite, 30'000, 600, 1'200'000);
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.findings.size(), 1u);
  EXPECT_EQ(
      text_of(a, a.findings[0]),
      "Small writes: 30.0 k write calls on run.log, with 40 B each on average, take 6.0 % of all rank time, "
      "log_line() "
      "a.c:30. Buffer them.");
  EXPECT_EQ(a.findings[0].place.line, 30u);
  shard::ShardData large = b.data, seldom = b.data, quick = b.data;
  large.io_calls[0].bytes = 30'000 * 4096ull;
  EXPECT_TRUE(analyse(large).findings.empty());
  seldom.io_calls[0].count = thresholds::kManyCalls - 1;
  EXPECT_TRUE(analyse(seldom).findings.empty());
  quick.io_calls[0].time_ns = 490 * kMs;
  EXPECT_TRUE(analyse(quick).findings.empty());
}

TEST(Bottleneck, IdleTimeNamesWhatIsAwaited) {
  const struct {
    const char *call, *evidence, *advice;
  } cases[] = {{"clock_nanosleep", "sleep 7.00 s", "Wait for the event itself instead of sleeping."},
               {"futex", "locks 7.00 s", "Find out what they wait for."},
               {"epoll_wait", "poll 7.00 s", "Do other work"},
               {"wait4", "child processes 7.00 s", "Start child processes earlier"},
               {"msgrcv", "other waits 7.00 s", "Find out"}};
  for (const auto& one : cases) {
    const ProfileBuilder b =
        bound_by(Category::kIdle, [&](ProfileBuilder& p) { return in_kernel(p, "rest", 20, one.call); });
    const Analysis a = analyse(b.data);
    EXPECT_EQ(a.bottlenecks[0].kind, "idle");
    EXPECT_NEAR(share_of_run(a, "idle"), 0.7, 1e-9);
    EXPECT_NE(evidence_of_run(a, "idle").find(one.evidence), std::string::npos) << evidence_of_run(a, "idle");
    ASSERT_EQ(a.findings.size(), 1u);
    EXPECT_NE(text_of(a, a.findings[0]).find(one.evidence), std::string::npos) << text_of(a, a.findings[0]);
    EXPECT_NE(text_of(a, a.findings[0]).find(one.advice), std::string::npos) << text_of(a, a.findings[0]);
    EXPECT_EQ(a.findings[0].place.line, 20u);
  }
}

TEST(Bottleneck, SaysHowManyChildrenAreAwaitedAndWhereTheyAre) {
  ProfileBuilder b =
      bound_by(Category::kIdle, [&](ProfileBuilder& p) { return in_kernel(p, "rest", 20, "wait4"); });
  const std::uint32_t made_at = native(b, "start", 30), work = native(b, "work", 12);
  const auto add = [&](std::uint32_t path, std::uint32_t top, std::uint64_t cpu_ms, const char* program) {
    shard::Process& process = b.data.processes.emplace_back();
    process.path = path;
    process.origin = shard::ProcessOrigin::kExec;
    process.start_utc_ns = b.data.run.start_utc_ns;
    process.elapsed_ns = 100'000 * kMs;
    process.cpu_ns = process.cpu_min_ns = process.cpu_max_ns = cpu_ms * kMs;
    process.top_path = top;
    process.top_ns = top != 0 ? cpu_ms * kMs : 0;
    process.command = std::string(program) + '\0';
  };
  for (int i = 0; i < 8; ++i) add(made_at, work, 500, "/bin/worker");
  add(native(b, "start", 31), 0, 600, "/bin/gzip");
  Analysis a = analyse(b.data);
  ASSERT_EQ(a.findings.size(), 1u);
  EXPECT_NE(text_of(a, a.findings[0])
                .find("They wait for 8 child processes (worker), which are mostly in work() a.c:12."),
            std::string::npos)
      << text_of(a, a.findings[0]);
  b.data.processes.erase(b.data.processes.begin(), b.data.processes.begin() + 8);
  a = analyse(b.data);
  EXPECT_NE(text_of(a, a.findings[0]).find("They wait for a child process (gzip)."), std::string::npos)
      << text_of(a, a.findings[0]);
  // One that took a moment is not what the rank waits for.
  b.data.processes[0].elapsed_ns = 20 * kMs;
  a = analyse(b.data);
  EXPECT_EQ(text_of(a, a.findings[0]).find("They wait"), std::string::npos) << text_of(a, a.findings[0]);
  b.data.processes[0].elapsed_ns = 100'000 * kMs;
  // Of a rank that waits for something else, nothing is said about its children.
  ProfileBuilder sleeper = bound_by(
      Category::kIdle, [&](ProfileBuilder& p) { return in_kernel(p, "rest", 20, "clock_nanosleep"); });
  sleeper.data.processes = b.data.processes;
  sleeper.data.processes[0].path = 0;
  a = analyse(sleeper.data);
  ASSERT_EQ(a.findings.size(), 1u);
  EXPECT_EQ(text_of(a, a.findings[0]).find("child"), std::string::npos) << text_of(a, a.findings[0]);
}

// The main thread of rank 0 computes for 3 s of 10 s. In the other 7 s it is in `wait`.
class AwaitedProcesses : public ::testing::Test {
 protected:
  void waits(std::uint32_t wait, Category category) {
    b_.sampled(0, wait, category, 7000);
    b_.sampled(0, native(b_, "compute", 10), Category::kNative, 3000);
  }
  std::uint32_t in_wait4() { return in_kernel(b_, "rest", 20, "wait4"); }
  void process(std::uint32_t path, shard::ProcessOrigin origin = shard::ProcessOrigin::kExec,
               std::uint32_t rank = 0) {
    shard::Process& row = b_.data.processes.emplace_back();
    row.rank = rank;
    row.path = path;
    row.origin = origin;
    row.start_utc_ns = b_.data.run.start_utc_ns;
    row.elapsed_ns = 10'000 * kMs;
  }
  std::uint32_t work(std::uint32_t above) { return b_.child(above, b_.python("work", "/u/pool.py", 12, 11)); }
  double share(std::string_view kind) { return share_of_run(analyse(b_.data), kind); }
  ProfileBuilder b_{1};
};

TEST_F(AwaitedProcesses, CountForWhatTheyDo) {
  waits(in_wait4(), Category::kIdle);
  const std::uint32_t made_at = native(b_, "start", 30);
  process(made_at);
  const std::uint32_t at = work(made_at);
  b_.sampled(0, at, Category::kPython, 28'000, false);
  b_.sampled(0, b_.child(at, b_.kernel("read")), Category::kIo, 7000, false);
  b_.sampled(0, b_.child(at, b_.kernel("futex")), Category::kIdle, 90'000, false);
  const Analysis a = analyse(b_.data);
  // 7 s, as 28 to 7.
  EXPECT_NEAR(share_of_run(a, "python"), 0.56, 1e-6);
  EXPECT_NEAR(share_of_run(a, "io"), 0.14, 1e-6);
  EXPECT_NEAR(share_of_run(a, "compute"), 0.3, 1e-6);
  EXPECT_EQ(share_of_run(a, "idle"), 0);
  EXPECT_EQ(
      evidence_of_run(a, "python"),
      "5.60 s of the 10.0 s of all ranks' main threads, 5.60 s of it while they waited for processes that "
      "did this; most in work() pool.py:12 (5.60 s)");
  const auto rank = std::find_if(a.bottlenecks.begin(), a.bottlenecks.end(),
                                 [](const Bottleneck& row) { return row.rank == 0; });
  ASSERT_NE(rank, a.bottlenecks.end());
  EXPECT_EQ(rank->kind, "python");
  EXPECT_NEAR(rank->share, 0.56, 1e-6);
  EXPECT_NEAR(a.ranks[0].category_s[static_cast<std::size_t>(Category::kIdle)].value(), 7, 1e-6)
      << "the categories are those of the main thread";
}

TEST_F(AwaitedProcesses, CountForAsLongAsTheyWork) {
  waits(in_wait4(), Category::kIdle);
  const std::uint32_t made_at = native(b_, "start", 30);
  process(made_at);
  b_.sampled(0, work(made_at), Category::kPython, 2000, false);
  const Analysis a = analyse(b_.data);
  EXPECT_NEAR(share_of_run(a, "python"), 0.2, 1e-6);
  EXPECT_NEAR(share_of_run(a, "idle"), 0.5, 1e-6);
  EXPECT_NE(evidence_of_run(a, "idle").find("child processes 5.00 s; most in rest() a.c:20 (5.00 s)"),
            std::string::npos)
      << evidence_of_run(a, "idle");
}

TEST_F(AwaitedProcesses, ThatAreForkedGoOnInTheSameFunction) {
  waits(in_wait4(), Category::kIdle);
  process(b_.path({b_.native("main", "/u/a.out", "/u/a.c", 40)}), shard::ProcessOrigin::kFork);
  const std::uint32_t child = b_.path({b_.native("main", "/u/a.out", "/u/a.c", 41)});
  b_.sampled(0, work(child), Category::kPython, 70'000, false);
  EXPECT_NEAR(share("python"), 0.7, 1e-6);
  // A thread is no process.
  b_.data.values.back().path = work(b_.path({b_.native("thread_main", "/u/a.out", "/u/a.c", 50)}));
  EXPECT_NEAR(share("python"), 0, 1e-6);
  EXPECT_NEAR(share("idle"), 0.7, 1e-6);
}

TEST_F(AwaitedProcesses, SendThroughAQueue) {
  std::uint32_t wait = b_.child(
      native(b_, "train", 20), b_.python("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 1, 1));
  wait = b_.child(b_.child(wait, b_.kernel("read")), b_.kernel(shard::kOnPipeName));
  waits(wait, Category::kIo);
  const std::uint32_t made_at = native(b_, "start", 30);
  process(made_at);
  b_.sampled(0, work(made_at), Category::kPython, 7000, false);
  EXPECT_NEAR(share("input"), 0.7, 1e-6) << "it takes data out, and works on them";
  EXPECT_NEAR(share("python"), 0, 1e-6);
  EXPECT_NEAR(share("io"), 0, 1e-6);
}

TEST_F(AwaitedProcesses, AreThoseOfTheRankThatWaits) {
  b_ = ProfileBuilder(2);
  waits(in_wait4(), Category::kIdle);
  const std::uint32_t made_at = native(b_, "start", 30);
  process(made_at, shard::ProcessOrigin::kExec, 1);
  b_.sampled(1, work(made_at), Category::kPython, 7000, false);
  b_.sampled(1, native(b_, "compute", 10), Category::kNative, 10'000);
  EXPECT_NEAR(share("idle"), 0.35, 1e-6);
  EXPECT_NEAR(share("python"), 0, 1e-6);
}

TEST_F(AwaitedProcesses, DoNotCountWhileTheMainThreadWaitsForSomethingElse) {
  waits(in_kernel(b_, "rest", 20, "clock_nanosleep"), Category::kIdle);
  const std::uint32_t made_at = native(b_, "start", 30);
  process(made_at);
  b_.sampled(0, work(made_at), Category::kPython, 7000, false);
  EXPECT_NEAR(share("idle"), 0.7, 1e-6);
  EXPECT_NEAR(share("python"), 0, 1e-6);
}

// The main thread waits for 7 s of 10 s while other threads of the rank compute.
class AwaitedThreads : public ::testing::Test {
 protected:
  explicit AwaitedThreads() { b_.data.nodes[0].cpus = 4; }
  std::uint32_t in(std::string_view caller, std::string_view call) {
    return b_.child(b_.child(native(b_, "rest", 20), b_.native(caller, "/lib/libc.so.6")), b_.kernel(call));
  }
  void waits(std::uint32_t wait, Category category = Category::kIdle) {
    b_.sampled(0, wait, category, 7000);
    b_.sampled(0, native(b_, "compute", 10), Category::kNative, 3000);
  }
  void work(std::uint64_t ms, std::string_view pool = {}) {
    const std::uint32_t at =
        pool.empty() ? native(b_, "work", 30)
                     : b_.child(b_.path({b_.native(pool, "")}), b_.native("work", "/u/a.out", "/u/a.c", 30));
    b_.sampled(0, at, Category::kPython, ms, false);
  }
  double share(std::string_view kind) { return share_of_run(analyse(b_.data), kind); }
  ProfileBuilder b_{1};
};

TEST_F(AwaitedThreads, CountForWhatTheyDo) {
  waits(in("pthread_join", "futex"));
  work(14'000);
  b_.sampled(0, in("pthread_cond_wait", "futex"), Category::kIdle, 40'000, false);
  const Analysis a = analyse(b_.data);
  EXPECT_NEAR(share_of_run(a, "python"), 0.7, 1e-6);
  EXPECT_NEAR(share_of_run(a, "compute"), 0.3, 1e-6);
  EXPECT_EQ(share_of_run(a, "idle"), 0);
  EXPECT_EQ(
      evidence_of_run(a, "python"),
      "7.00 s of the 10.0 s of all ranks' main threads, 7.00 s of it by other threads while they waited; "
      "most in work() a.c:30 (7.00 s)");
  EXPECT_NEAR(a.ranks[0].category_s[static_cast<std::size_t>(Category::kIdle)].value(), 7, 1e-6)
      << "the categories are those of the main thread";
}

TEST_F(AwaitedThreads, CountForAsLongAsTheyWork) {
  waits(in("pthread_cond_wait", "futex"));
  work(2000);
  EXPECT_NEAR(share("python"), 0.2, 1e-6);
  EXPECT_NEAR(share("idle"), 0.5, 1e-6);
}

TEST_F(AwaitedThreads, DoNotCountWhereAMutexIsHeld) {
  waits(in("pthread_mutex_lock", "futex"));
  work(7000);
  EXPECT_NEAR(share("idle"), 0.7, 1e-6);
}

TEST_F(AwaitedThreads, DoNotCountWhereTheyBelongToACommunicationLibrary) {
  waits(in("pthread_join", "futex"));
  work(7000, "[UCX threads]");
  EXPECT_NEAR(share("idle"), 0.7, 1e-6);
  work(7000, "[OpenBLAS threads]");
  EXPECT_NEAR(share("idle"), 0, 1e-6);
}

TEST_F(AwaitedThreads, CountWhateverIsAwaitedWhereTheyUseAllProcessors) {
  waits(in("nanosleep", "clock_nanosleep"));
  work(35'000);
  EXPECT_NEAR(share("idle"), 0.7, 1e-6) << "3.5 processors of 4";
  work(2000);
  EXPECT_NEAR(share("python"), 0.7, 1e-6);
  EXPECT_NEAR(share("idle"), 0, 1e-6);
  b_ = ProfileBuilder(1);
  b_.data.nodes[0].cpus = 4;
  waits(b_.child(in("read", "read"), b_.kernel(shard::kOnSocketName)), Category::kIo);
  work(37'000);
  EXPECT_NEAR(share("io"), 0.7, 1e-6) << "nor do they send what it reads";
}

TEST(Bottleneck, ChildProcessesOfAProgramThatOnlyStartsThemAreNoLoss) {
  for (const bool only_starts : {true, false}) {
    ProfileBuilder b(1);
    b.sampled(0, in_kernel(b, "rest", 20, "wait4"), Category::kIdle, 9000);
    b.sampled(0, native(b, "compute", 10), Category::kNative, only_starts ? 800 : 1000);
    const Analysis a = analyse(b.data);
    const Finding* const finding = find_kind(a, FindingKind::kBlocked);
    ASSERT_NE(finding, nullptr);
    EXPECT_EQ(finding->action, only_starts ? FindingAction::kNone : FindingAction::kStartChildrenEarlier);
    EXPECT_EQ(finding->severity, only_starts ? Severity::kInfo : Severity::kHigh);
    EXPECT_EQ(finding->gain_s.has_value(), !only_starts);
  }
}

TEST(Bottleneck, OnlyHeldLocksAreAdvisedToBeHeldForLess) {
  const auto advice = [](std::string_view caller) {
    const ProfileBuilder b = bound_by(Category::kIdle, [&](ProfileBuilder& p) {
      return p.child(p.child(native(p, "rest", 20), p.native(caller, "/lib/libc.so.6")), p.kernel("futex"));
    });
    const Analysis a = analyse(b.data);
    return a.findings.empty() ? FindingAction::kNone : a.findings[0].action;
  };
  EXPECT_EQ(advice("pthread_mutex_lock"), FindingAction::kHoldLockLess);
  EXPECT_EQ(advice("__lll_lock_wait"), FindingAction::kHoldLockLess);
  EXPECT_EQ(advice("pthread_cond_wait"), FindingAction::kFindWhatIsAwaited);
  EXPECT_EQ(advice("pthread_join"), FindingAction::kWorkWhileThreadsDo);
}

// The main thread joins or polls while the other threads have, or lack, the processors.
class BlockedForBusyThreads : public ::testing::Test {
 protected:
  Finding with(std::uint64_t ran_ms, std::uint64_t ready_ms, std::string_view waits_in = "pthread_join",
               std::string_view system_call = "futex") {
    ProfileBuilder b(1);
    b.data.nodes[0].cpus = 2;
    b.sampled(0,
              b.child(b.child(native(b, "rest", 20), b.native(waits_in, "/lib/libc.so.6")),
                      b.kernel(std::string(system_call))),
              Category::kIdle, 9000);
    b.sampled(0, native(b, "compute", 10), Category::kNative, 1000);
    if (ran_ms != 0) b.sampled(0, native(b, "work", 30), Category::kNative, ran_ms, false);
    if (ready_ms != 0) b.sampled(0, native(b, "work", 30), Category::kRunnable, ready_ms, false);
    analysis_ = analyse(b.data);
    const Finding* const finding = find_kind(analysis_, FindingKind::kBlocked);
    return finding != nullptr ? *finding : Finding();
  }
  Analysis analysis_;
};

TEST_F(BlockedForBusyThreads, LackProcessorsAndNotWorkOfItsOwn) {
  Finding finding = with(1000, 14'000);  // others have the processors
  EXPECT_EQ(finding.action, FindingAction::kFreeNode);
  EXPECT_FALSE(finding.gain_s) << "it is the processors' and not the main thread's";
  EXPECT_EQ(
      text_of(analysis_, finding),
      "Ranks are blocked outside MPI and I/O for 90.0 % of all rank time (threads of its own 9.00 s); "
      "100.0 % of it in rest() a.c:20. Meanwhile their other threads and processes ran for 1.00 s and waited "
      "14.0 s for a free processor. Leave the node to one job, or processors to its other work.");
  finding = with(19'000, 60'000, "poll", "poll");  // eight threads on two processors
  EXPECT_EQ(finding.action, FindingAction::kFewerThreads);
  EXPECT_FALSE(finding.gain_s);
}

// Of a pool of processes with one thread each, OMP_NUM_THREADS is 1 already.
TEST(Bottleneck, BlockedForAPoolThatIsTooLarge) {
  ProfileBuilder b(1);
  b.data.nodes[0].cpus = 2;
  b.sampled(0, b.child(b.child(native(b, "rest", 20), b.native("poll", "/lib/libc.so.6")), b.kernel("poll")),
            Category::kIdle, 9000);
  b.sampled(0, native(b, "compute", 10), Category::kNative, 1000);
  b.sampled(0, native(b, "work", 30), Category::kNative, 19'000, false);
  b.sampled(0, native(b, "work", 30), Category::kRunnable, 60'000, false);
  shard::Rank& rank = b.data.ranks[0];
  rank.flags |= shard::kUsageKnown;
  rank.cpu_ns = 20'000 * kMs;
  const auto action = [&] {
    const Analysis a = analyse(b.data);
    const Finding* const finding = find_kind(a, FindingKind::kBlocked);
    return finding == nullptr ? FindingAction::kBalanceWork : finding->action;
  };
  EXPECT_EQ(action(), FindingAction::kFewerThreads);
  rank.processes = 9;
  const auto process = [&](std::int32_t pid, std::int64_t start_ms, std::uint64_t ms, std::uint64_t cpu_ms,
                           std::uint32_t count = 1) {
    shard::Process& row = b.data.processes.emplace_back();
    row.pid = pid, row.parent_pid = 1000, row.origin = shard::ProcessOrigin::kFork, row.count = count;
    row.start_utc_ns = b.data.run.start_utc_ns + start_ms * static_cast<std::int64_t>(kMs);
    row.elapsed_ns = ms * kMs, row.cpu_ns = cpu_ms * kMs;
  };
  for (std::int32_t i = 0; i < 8; ++i) process(2000 + i, 100, 9000, 2300);
  EXPECT_EQ(action(), FindingAction::kFewerProcesses);
  const Analysis a = analyse(b.data);
  EXPECT_NE(text_of(a, *find_kind(a, FindingKind::kBlocked)).find("Start fewer worker processes"),
            std::string::npos);
  b.data.processes.clear();
  for (std::int32_t i = 0; i < 2; ++i) process(2000 + i, 100, 9000, 9000);
  process(2009, 0, 9500, 10);
  EXPECT_EQ(action(), FindingAction::kFewerThreads) << "two have several threads each, one only watches";
  b.data.processes.clear();
  for (std::int32_t i = 0; i < 8; ++i) process(2000 + i, 1000 * i, 1000, 2300);
  EXPECT_EQ(action(), FindingAction::kFewerThreads) << "one after the other";
  b.data.processes.clear();
  process(2000, 0, 9000, 18'000, 8);
  EXPECT_EQ(action(), FindingAction::kNone) << "how many at a time is not known";
  b.data.processes.clear();
  EXPECT_EQ(action(), FindingAction::kNone) << "nor what they ran";
  process(2000, 0, 9000, 1000);
  EXPECT_EQ(action(), FindingAction::kFewerThreads) << "it is not theirs";
  rank.flags &= ~shard::kUsageKnown;
  rank.cpu_ns = 0;
  EXPECT_EQ(action(), FindingAction::kNone) << "nor whose time it is";
}

TEST_F(BlockedForBusyThreads, IsNoLossWhereTheyUseAllProcessors) {
  const Finding finding = with(19'000, 0);
  EXPECT_EQ(finding.action, FindingAction::kNone);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_FALSE(finding.gain_s);
}

TEST_F(BlockedForBusyThreads, IsALossWhereProcessorsAreFree) {
  for (const std::uint64_t ran_ms : {0, 9000, 17'000}) {
    const Finding finding = with(ran_ms, ran_ms / 5);
    EXPECT_EQ(finding.action, FindingAction::kWorkWhileThreadsDo) << ran_ms;
    EXPECT_NEAR(finding.gain_s.value_or(0), 9, 1e-9) << ran_ms;
  }
  EXPECT_EQ(with(1000, 14'000, "nanosleep", "clock_nanosleep").action, FindingAction::kReplaceSleep)
      << "no thread ends a sleep";
}

TEST(Bottleneck, GilContentionIsAFinding) {
  ProfileBuilder b(1);
  const auto fight = b.python("fight", "/u/gil.py", 12, 10);
  const auto wait = b.path({fight, b.kernel("futex"), b.kernel(shard::kGilWaitName)});
  for (const bool main : {true, false}) {
    b.sampled(0, b.path({fight}), Category::kPython, 5000, main);
    b.sampled(0, wait, Category::kIdle, 5000, main);
  }
  const Analysis a = analyse(b.data);
  EXPECT_NEAR(share_of_run(a, "idle"), 0.5, 1e-9);
  EXPECT_NEAR(share_of_run(a, "python"), 0.5, 1e-9);
  EXPECT_NE(evidence_of_run(a, "idle").find("the GIL 5.00 s"), std::string::npos)
      << evidence_of_run(a, "idle");
  EXPECT_NE(find_finding(a, "lock (GIL) for 50.0 %"), nullptr);
  EXPECT_EQ(find_finding(a, "ranks are blocked"), nullptr);
}

TEST(Bottleneck, Imbalance) {
  ProfileBuilder b(2);
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.called(r, b.child(native(b, "step", 30), b.mpi("MPI_Barrier")), 10, r == 0 ? 6000 : 0);
    b.sampled(r, native(b, "compute", 10), Category::kNative, r == 0 ? 4000 : 10'000);
  }
  const Analysis a = analyse(b.data);
  EXPECT_NEAR(share_of_run(a, "imbalance"), 0.3, 1e-9);
  EXPECT_NEAR(share_of_run(a, "communication"), 0, 1e-9);
  EXPECT_EQ(a.bottlenecks[2].kind, "imbalance") << "of rank 0";
  EXPECT_NE(find_finding(a, "Give the ranks equal work."), nullptr);
}

TEST(Bottleneck, Communication) {
  ProfileBuilder b(2);
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.called(r, b.child(native(b, "step", 30), b.mpi("MPI_Alltoall")), 10, 6000);
    b.sampled(r, native(b, "compute", 10), Category::kNative, 4000);
  }
  const Analysis a = analyse(b.data);
  EXPECT_EQ(a.bottlenecks[0].kind, "communication");
  EXPECT_NEAR(a.bottlenecks[0].share, 0.6, 1e-9);
  EXPECT_NE(find_finding(a, "Send fewer and larger messages"), nullptr);
}

// The recorded time of a run is that of the rank that paused least.
TEST(Bottleneck, DifferentPausesAreNotImbalance) {
  ProfileBuilder b(3);
  const std::uint64_t paused_s[] = {5, 2, 4};
  for (std::uint32_t r = 0; r < 3; ++r) {
    b.called(r, b.child(native(b, "step", 30), b.mpi("MPI_Barrier")), 10, 1000);
    b.sampled(r, native(b, "compute", 10), Category::kNative, 9000 - 1000 * paused_s[r]);
    b.data.ranks[r].paused_ns = paused_s[r] * 1000 * kMs;
  }
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(a.recorded_s, 8);
  EXPECT_DOUBLE_EQ(a.focus_s, 8);
  EXPECT_DOUBLE_EQ(*a.ranks[1].useful_s, 7);
  EXPECT_DOUBLE_EQ(*a.efficiency.communication, 7.0 / 8);
}

TEST(Bottleneck, PausedTimeCountsForNoClass) {
  ProfileBuilder b(2);
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.called(r, b.child(native(b, "step", 30), b.mpi("MPI_Barrier")), 10, 1000);
    b.sampled(r, native(b, "compute", 10), Category::kNative, 3000);
    b.data.ranks[r].paused_ns = 6000 * kMs;
  }
  const Analysis a = analyse(b.data);
  EXPECT_DOUBLE_EQ(a.ranks[0].elapsed_s, 10);
  EXPECT_DOUBLE_EQ(a.ranks[0].paused_s, 6);
  EXPECT_DOUBLE_EQ(*a.ranks[0].useful_s, 3);
  EXPECT_DOUBLE_EQ(a.ranks[0].category_s[static_cast<std::size_t>(Category::kNative)].value(), 3);
  EXPECT_DOUBLE_EQ(a.rank_seconds, 8);
  EXPECT_NEAR(share_of_run(a, "compute"), 0.75, 1e-9);
  EXPECT_DOUBLE_EQ(*a.efficiency.communication, 0.75);
  EXPECT_DOUBLE_EQ(*a.efficiency.load_balance, 1);
}

TEST(Regions, HaveBottlenecksOfTheirOwn) {
  const Analysis a = analyse(testing::resources_run());
  ASSERT_EQ(a.regions.size(), 2u);
  const RegionRow &epoch = a.regions[0], &step = a.regions[1];
  EXPECT_EQ(epoch.bottleneck, "memory");
  EXPECT_NEAR(epoch.sampled_s, 16, 1e-6);
  EXPECT_NEAR(epoch.share, 0.8, 1e-6);
  EXPECT_NEAR(step.sampled_s, 10, 1e-6);
  EXPECT_EQ(step.max_n, 7);
  EXPECT_EQ(step.spread.max_rank, 0);
  // Outside MPI 6.5 and 7.5 s, with it 8 s.
  EXPECT_NEAR(*epoch.efficiency.load_balance, 7 / 7.5, 1e-6);
  EXPECT_NEAR(*epoch.efficiency.communication, 7.5 / 8, 1e-6);
  EXPECT_NEAR(*step.efficiency.communication, 1, 1e-6) << "no MPI in it";
  std::size_t rows = 0;
  for (const Bottleneck& row : a.bottlenecks)
    if (!row.region.empty()) {
      ++rows;
      EXPECT_EQ(row.kind, "memory");
    }
  EXPECT_EQ(rows, 2u);
}

TEST(Regions, CanBeReportedAlone) {
  const shard::ShardData data = testing::resources_run();
  EXPECT_FALSE(analyse_region(data, "step")) << "its name is epoch/step";
  EXPECT_FALSE(analyse_region(data, ""));
  const std::optional<Analysis> step = analyse_region(data, "epoch/step");
  ASSERT_TRUE(step);
  EXPECT_EQ(step->run.region, "epoch/step");
  EXPECT_NEAR(step->rank_seconds, 10, 1e-6);
  EXPECT_NEAR(share_of_run(*step, "memory"), 0.6, 1e-6);
  EXPECT_NEAR(share_of_run(*step, "compute"), 0.4, 1e-6);
  EXPECT_TRUE(step->io->calls.empty());
  ASSERT_EQ(step->rank_counters.size(), 2u);
  EXPECT_EQ(step->rank_counters[0].values[0].second, 3'000'000u);
  EXPECT_FALSE(step->ranks[0].max_rss_bytes) << "not known of a region";
  const std::optional<Analysis> epoch = analyse_region(data, "epoch");
  ASSERT_TRUE(epoch);
  EXPECT_NEAR(epoch->rank_seconds, 16, 1e-6);
  EXPECT_NEAR(*epoch->efficiency.load_balance, 7 / 7.5, 1e-6);
  EXPECT_EQ(epoch->io->calls.size(), 3u);
  EXPECT_FALSE(render_text(*epoch, {}).empty());
}

}  // namespace
}  // namespace clusterprof::report
