// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/process_recorder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/thread_pools.hpp"
#include "collector/os/memory_limit.hpp"
#include "collector/process/wakes.hpp"
#include "formats/wire/mpi_functions.h"
#include "tests/unit/collector/fake_segment.hpp"
#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

using shard::Category;
using test::FakeSegment;
using test::python_word;
using test::region_word;
using Sample = FakeSegment::Sample;

// Modules: runtime addresses 0x?0000..0x?ffff, load bias equal to the start.
constexpr std::uint64_t kProgram = 0x10000, kWrapper = 0x20000, kMpi = 0x30000, kPython = 0x40000,
                        kLibc = 0x50000, kAgent = 0x60000, kNumpy = 0x70000;

class Recording : public testing::Test {
 protected:
  explicit Recording(const StoreLimits& limits = {}) : store_(limits) {
    fake_.module("/home/u/program", kProgram, kProgram + 0x10000, kProgram);
    fake_.module("/x/lib/clusterprof/libclusterprof_mpi_openmpi.so", kWrapper, kWrapper + 0x10000, kWrapper);
    fake_.module("/usr/lib/libmpi.so.40", kMpi, kMpi + 0x10000, kMpi);
    fake_.module("/usr/bin/python3.11", kPython, kPython + 0x10000, kPython);
    fake_.module("/usr/lib/libc.so.6", kLibc, kLibc + 0x10000, kLibc);
    fake_.module("/x/lib/clusterprof/libclusterprof_agent.so", kAgent, kAgent + 0x10000, kAgent);
    fake_.module("/usr/lib/numpy/core/_multiarray.so", kNumpy, kNumpy + 0x10000, kNumpy);
    fake_.code(7, "train.py", "step", 80);
    fake_.thread(0, 100, kStart, true);
    grid_.begin(kStart, 5'000'000'000);
    path_times_.grid().begin(kStart, 5'000'000'000);
  }
  ProcessRecorder& recorder() {
    if (!recorder_) {
      auto view = SegmentView::open(fake_.file(), fake_.bytes());
      if (!view.ok()) throw std::runtime_error(view.error().message);
      recorder_ = std::make_unique<ProcessRecorder>(std::move(view).value(), store_, grid_, path_times_);
    }
    return *recorder_;
  }
  // A path as text, root first: "program+100!" for exact, "program+100" for return addresses.
  std::string text(std::uint32_t path) {
    const RawTables& t = store_.tables();
    if (path == 0) return "";
    std::string frame;
    RawFrame raw = t.frames[t.nodes[path].frame];
    if (raw.kind == RawKind::kPending && t.pending[raw.a].resolved) raw = t.pending[raw.a].resolution;
    switch (raw.kind) {
      case RawKind::kNativeExact:
      case RawKind::kNativeReturn: {
        const std::string& module = t.modules[raw.a]->path;
        char address[32];
        std::snprintf(address, sizeof address, "+%llx", static_cast<unsigned long long>(raw.b));
        frame =
            module.substr(module.rfind('/') + 1) + address + (raw.kind == RawKind::kNativeExact ? "!" : "");
        break;
      }
      case RawKind::kPython:
        frame = t.codes[raw.a]->name + ":" + std::to_string(raw.b);
        break;
      case RawKind::kMpi:
        frame = wire::kMpiFunctionNames[raw.a];
        break;
      case RawKind::kKernel:
        frame = "sys" + std::to_string(static_cast<std::int32_t>(raw.a));
        break;
      case RawKind::kGilWait:
        frame = "GIL";
        break;
      case RawKind::kPageFault:
        frame = "fault";
        break;
      case RawKind::kRunnable:
        frame = "ready";
        break;
      case RawKind::kGarbage:
        frame = "gc " + (raw.a < t.modules.size() ? t.modules[raw.a]->path : "?");
        break;
      case RawKind::kDescriptor:
        frame = std::array{"file", "socket", "pipe", "thread"}[raw.a];
        break;
      case RawKind::kRegion:
        frame = "[" + *t.names[raw.a] + "]";
        break;
      case RawKind::kNamed:
        frame = *t.names[raw.a];
        break;
      case RawKind::kPending:
        frame = "?";
        break;
      case RawKind::kLeftOut:
        frame = "...";
        break;
      case RawKind::kOtherSites:
        frame = "others";
        break;
      case RawKind::kOmpWait:
        frame = "omp" + std::to_string(raw.a);
        break;
      case RawKind::kPool:
        frame = pool_frame_name(t.modules[raw.a]->path);
        break;
    }
    const std::string above = text(t.nodes[path].parent);
    return above.empty() ? frame : above + ";" + frame;
  }
  struct Row {
    std::string path;
    Category category;
    bool main;
    std::uint64_t wall, cpu, samples;
    friend bool operator==(const Row&, const Row&) = default;
    friend auto operator<=>(const Row&, const Row&) = default;
    friend void PrintTo(const Row& r, std::ostream* out) {
      *out << r.path << " " << shard::kCategoryNames[static_cast<std::size_t>(r.category)]
           << (r.main ? " main " : " ") << r.wall << " " << r.cpu << " " << r.samples;
    }
  };
  // At the time of a report, the times by path and bin add up to the times by path.
  void expect_path_times(const ProcessReport& report) {
    std::map<std::uint32_t, std::uint64_t> expected, found;
    for (const auto& [key, amount] : report.values)
      if (amount.wall_ns != 0) expected[key.path] += amount.wall_ns;
    for (const PathTimes::Cell& cell : path_times_.cells(report.open_times).cells) {
      EXPECT_LT(cell.bin, shard::kMaxPathBins);
      found[cell.path] += cell.wall_ns;
    }
    EXPECT_EQ(found, expected);
  }
  std::vector<Row> rows(const ProcessReport& report) {
    expect_path_times(report);
    std::vector<Row> found;
    for (const auto& [key, amount] : report.values) {
      found.push_back(
          {text(key.path), key.category, key.main_thread, amount.wall_ns, amount.cpu_ns, amount.samples});
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  // The only row that a single sample in a process makes.
  Row only(Sample sample) {
    sample.time_ns = kStart + 10 * kMs;
    sample.cpu_ns = 10 * kMs;
    fake_.sample(0, sample);
    fake_.thread_end(0, kStart + 10 * kMs, 10 * kMs);
    recorder().poll(kStart + 20 * kMs);
    recorder().finish(kStart + 20 * kMs);
    const auto found = rows(recorder().report(kStart + 20 * kMs));
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? Row{} : found[0];
  }

  FakeSegment fake_;
  RawStore store_;
  TimeGrid grid_;
  PathTimes path_times_{store_};
  std::unique_ptr<ProcessRecorder> recorder_;
};

TEST(ProcessReports, CountFromTheFirstProgramOfAProcessThatExecs) {
  ProcessReport shell, program;
  shell.start_mono_ns = 1000;
  program.start_mono_ns = 5000;
  program.mpi_init_end_ns = 300;
  program.begin_with(shell);
  EXPECT_EQ(program.start_mono_ns, 1000u);
  EXPECT_EQ(program.mpi_init_end_ns, 4300u);
  EXPECT_EQ(program.mpi_finalize_begin_ns, 0u) << "not seen";
}

// On a busy machine the agent may need a tenth of a second until it records; that is no time of the program.
TEST_F(Recording, BeginsWithTheMainThreads) {
  constexpr std::uint64_t kBegin = kStart + 50 * kMs;
  fake_.thread(0, 100, kBegin, true);
  Sample s;
  s.time_ns = kBegin + 10 * kMs;
  s.cpu_ns = 10 * kMs;
  s.words = {kProgram + 0x100};
  fake_.sample(0, s);
  fake_.thread_end(0, kBegin + 20 * kMs, 20 * kMs);
  recorder().poll(kBegin + 30 * kMs);
  recorder().finish(kBegin + 30 * kMs);
  const ProcessReport report = recorder().report(kBegin + 30 * kMs);
  EXPECT_EQ(report.start_mono_ns, kBegin);
  std::uint64_t sum_ns = 0;
  for (const Row& row : rows(report)) sum_ns += row.wall;
  EXPECT_EQ(sum_ns, 20 * kMs);
}

TEST_F(Recording, BeginsWithTheProcessAsLongAsItHasNoThread) {
  recorder().poll(kStart + kMs);
  EXPECT_EQ(recorder().report(kStart + kMs).start_mono_ns, kStart);
}

TEST(ProcessReports, LimitWhatIsKeptOfProgramsThatHaveEnded) {
  constexpr std::uint64_t kPrograms = 5000;
  ProcessReport sum;
  for (std::uint64_t i = 0; i < kPrograms; ++i) {
    ProcessReport program;
    // Each has its variable and its heap elsewhere.
    program.mutex_waits[{1, 2, 0x7f0000000000 + i * 4096, 7, 0x80}] = {10, 1, 10 + i};
    program.mutex_waits[{3, 0, 0x550000000000 + i * 4096, kNoModule, 0}] = {20, 2, 20};
    program.calls_under_way.resize(1);
    program.mpi_errors.resize(1);
    program.mpi_errors[0].count = 3;
    program.open_requests.resize(1);
    program.open_requests[0].path = 9;
    program.open_requests[0].count = 2;
    sum.add_amounts(program, false);
    sum.limit_ended();
    ASSERT_LE(sum.mutex_waits.size(), ProcessReport::kMostWaitsOfEnded);
  }
  std::map<std::uint32_t, RawMutexWait> by_path;
  for (const auto& [key, wait] : sum.mutex_waits) by_path[key.path].add(wait);
  EXPECT_EQ(by_path[1].wait_ns, 10 * kPrograms);
  EXPECT_EQ(by_path[1].longest_ns, 10 + kPrograms - 1);
  EXPECT_EQ(by_path[3].samples, 2 * kPrograms);
  EXPECT_EQ(by_path.size(), 2u);
  EXPECT_TRUE((sum.mutex_waits.contains({1, 2, 0x80, 7, 0x80}))) << "it has its variable's name";
  EXPECT_TRUE((sum.mutex_waits.contains({3, 0, 0, kNoModule, 0})));

  EXPECT_EQ(sum.calls_under_way.size(), ProcessReport::kMostCallsOfEnded);
  EXPECT_EQ(sum.drops["calls_under_way_full"], kPrograms - ProcessReport::kMostCallsOfEnded);
  EXPECT_EQ(sum.mpi_errors.size(), ProcessReport::kMostErrorsOfEnded);
  EXPECT_EQ(sum.drops["mpi_error_table_full"], 3 * (kPrograms - ProcessReport::kMostErrorsOfEnded));
  EXPECT_EQ(sum.open_requests.size(), ProcessReport::kMostOpenOfEnded);
  std::uint64_t open = 0;
  for (const RawOpenRequests& row : sum.open_requests) open += row.count;
  EXPECT_EQ(open, 2 * kPrograms);
  EXPECT_EQ(sum.open_requests.back().path, 0u);
}

TEST(ProcessReports, KeepTheLongestWaitsOfProgramsThatHaveEnded) {
  ProcessReport sum;
  constexpr std::uint32_t kPaths = 3 * ProcessReport::kMostWaitsOfEnded;
  for (std::uint32_t path = 1; path <= kPaths; ++path)
    sum.mutex_waits[{path, 0, 0x1000, kNoModule, 0}] = {path, 1, path};
  sum.limit_ended();
  EXPECT_EQ(sum.mutex_waits.size(), ProcessReport::kMostWaitsOfEnded / 2 + 1);
  EXPECT_TRUE((sum.mutex_waits.contains({kPaths, 0, 0, kNoModule, 0})));
  const std::uint64_t left = kPaths - ProcessReport::kMostWaitsOfEnded / 2;
  EXPECT_EQ(sum.mutex_waits[{}].wait_ns, left * (left + 1) / 2) << "of all others";
}

// The kernel would allocate a page that is read and that nobody has written.
TEST_F(Recording, ReadsNoPageOfTheHeaderThatTheProcessHasNotTouched) {
  constexpr std::size_t kPage = 4096;
  constexpr std::size_t kBegin = (offsetof(wire::SegmentHeader, shell_calls) + kPage - 1) / kPage * kPage;
  constexpr std::size_t kEnd = sizeof(wire::SegmentHeader) / kPage * kPage;
  static_assert(kEnd >= kBegin + 3 * kPage);
  const UniqueFd file = fake_.file();
  ASSERT_EQ(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kBegin, kEnd - kBegin), 0);
  recorder().poll(kStart + kMs);
  EXPECT_TRUE(recorder().take_launches(kStart + kMs, true).empty());
  recorder().finish(kStart + 2 * kMs);
  EXPECT_EQ(recorder().report(kStart + 2 * kMs).processes, 1u);
  EXPECT_GE(lseek(file.get(), kBegin, SEEK_DATA), static_cast<off_t>(kEnd));
}

TEST_F(Recording, NativeStackBecomesACallPath) {
  Sample s;
  s.words = {kProgram + 0x100, kProgram + 0x200};
  EXPECT_EQ(only(s), (Row{"program+200;program+100!", Category::kNative, true, 10 * kMs, 10 * kMs, 1}));
}

TEST_F(Recording, PythonLeafIsPython) {
  Sample s;
  s.words = {kLibc + 1, kPython + 0x100, python_word(3), 7, kPython + 0x200};
  EXPECT_EQ(only(s), (Row{"python3.11+200;step:3;python3.11+100;libc.so.6+1!", Category::kPython, true,
                          10 * kMs, 10 * kMs, 1}));
}

TEST_F(Recording, ExtensionCodeBelowPythonIsNative) {
  Sample s;
  s.words = {kLibc + 1, kNumpy + 0x100, python_word(3), 7};
  EXPECT_EQ(only(s).category, Category::kNative);
}

TEST_F(Recording, SystemCallIsTheLeafAndDecidesTheCategory) {
  Sample s;
  s.words = {kLibc + 1, python_word(3), 7};
  s.flags = wire::kInSyscall;
  s.syscall_nr = SYS_write;
  const Row row = only(s);
  EXPECT_EQ(row.path, "step:3;libc.so.6+1!;sys1");
  EXPECT_EQ(row.category, Category::kIo);
}

TEST_F(Recording, WaitingForTheGilIsKeptInThePath) {
  Sample s;
  s.words = {kLibc + 1};
  s.flags = wire::kInSyscall | wire::kWaitingForGil;
  s.syscall_nr = SYS_futex;
  const Row row = only(s);
  EXPECT_EQ(row.path, "libc.so.6+1!;sys202;GIL");
  EXPECT_EQ(row.category, Category::kIdle);
}

TEST_F(Recording, GarbageCollectionIsBelowThePythonFrame) {
  Sample s;
  s.words = {kNumpy + 1, kPython + 0x100, python_word(3), 7, kPython + 0x200};
  s.flags = wire::kCollectingGarbage;
  const Row row = only(s);
  EXPECT_EQ(row.path, "python3.11+200;step:3;gc /usr/bin/python3.11;python3.11+100;_multiarray.so+1!");
  EXPECT_EQ(row.category, Category::kPython);
}

TEST_F(Recording, SystemCallInGarbageCollectionIsASystemCall) {
  Sample s;
  s.words = {kLibc + 1, kPython + 0x100, python_word(3), 7};
  s.flags = wire::kCollectingGarbage | wire::kInSyscall;
  s.syscall_nr = SYS_munmap;
  const Row row = only(s);
  EXPECT_EQ(row.path, "step:3;gc /usr/bin/python3.11;python3.11+100;libc.so.6+1!;sys11");
  EXPECT_EQ(row.category, Category::kSystem);
}

TEST_F(Recording, TheTimeOfATaskIsBelowWhatAwaitsIt) {
  fake_.code(8, "app.py", "fetch", 20);
  fake_.code(9, "app.py", "main", 40);
  fake_.code(10, "events.py", "_run", 80);
  Sample s;
  s.words = {kNumpy + 1, python_word(3), 7, kPython + 0x100, python_word(4), 8, python_word(5), 10};
  s.task_frames = 2;
  s.task_name = "crawler";
  s.await_words = {python_word(6), 9};
  s.time_ns = kStart + 10 * kMs;
  s.cpu_ns = 10 * kMs;
  fake_.sample(0, s);
  s.time_ns += 30 * kMs;  // blocks
  s.trigger = wire::Trigger::kBlocked;
  s.flags = wire::kInSyscall;
  s.syscall_nr = SYS_nanosleep;
  s.cpu_ns += 4 * kMs;
  s.task_name = "Task-12";
  fake_.sample(0, s);
  // The loop itself.
  Sample loop;
  loop.words = {kLibc + 1, python_word(5), 10};
  loop.time_ns = s.time_ns + 50 * kMs;
  loop.cpu_ns = s.cpu_ns + 10 * kMs;
  fake_.sample(0, loop);
  // Of what the stack has too few frames of, nothing is said.
  s.task_frames = 4;
  s.time_ns = loop.time_ns + 10 * kMs;
  s.cpu_ns = loop.cpu_ns + 10 * kMs;
  fake_.sample(0, s);
  recorder().poll(s.time_ns);
  recorder().finish(s.time_ns);
  const ProcessReport report = recorder().report(s.time_ns);
  ASSERT_EQ(report.tasks.size(), 2u);
  const auto& [named, of_named] = *report.tasks.rbegin();
  EXPECT_EQ(named.name, "crawler");
  EXPECT_EQ(text(named.path), "main:6;fetch:4;step:3");
  EXPECT_EQ(text(named.task_path), "main:6;fetch:4");
  EXPECT_EQ(of_named.wall_ns, 10 * kMs);
  EXPECT_EQ(of_named.cpu_ns, 10 * kMs);
  EXPECT_EQ(of_named.samples, 1u);
  const auto& [unnamed, of_unnamed] = *report.tasks.begin();
  EXPECT_EQ(unnamed.name, "");
  EXPECT_EQ(unnamed.path, named.path);
  // 26 ms until the sample and 40 behind it were waited; what ran before it is the next running sample's.
  EXPECT_EQ(of_unnamed.wall_ns, 66 * kMs);
  EXPECT_EQ(of_unnamed.cpu_ns, 0u);
}

class PoolRecording : public Recording {
 protected:
  PoolRecording() {
    fake_.module("/home/u/libpool.so", kPool, kPool + 0x10000, kPool);
    fake_.slot(1).start_function = kPool + 0x50;
    fake_.thread(1, 101, kStart);
    main_.words = {kPool + 1, kPool + 0x30, kNumpy + 0x10, python_word(3), 7};
    main_.flags = wire::kHasPython;
    worker_.words = {kPool + 0x70, kPool + 0x60};
  }
  void sample(std::uint32_t slot, Sample& sample, std::uint64_t ms) {
    sample.time_ns = kStart + ms * kMs;
    sample.cpu_ns = ms * kMs;
    fake_.sample(slot, sample);
  }
  // Samples of other threads than the main one, by path.
  std::map<std::string, std::uint64_t> of_workers(std::uint64_t end_ms) {
    recorder().finish(kStart + end_ms * kMs);
    std::map<std::string, std::uint64_t> found;
    for (const Row& row : rows(recorder().report(kStart + end_ms * kMs)))
      if (!row.main) found[row.path] += row.samples;
    return found;
  }

  static constexpr std::uint64_t kPool = 0x80000;
  static constexpr const char* kBelowLine =
      "step:3;_multiarray.so+10;[libpool.so threads];libpool.so+60;libpool.so+70!";
  static constexpr const char* kNotKnown = "libpool.so+60;libpool.so+70!";
  Sample main_, worker_;
};

TEST_F(PoolRecording, AThreadOfALibraryCountsForTheLineThatUsesIt) {
  for (std::uint64_t i = 1; i <= 6; ++i) {
    if (i == 5) main_.words = {kPython + 1, python_word(9), 7};
    sample(0, main_, 10 * i);
    sample(1, worker_, 10 * i + 5);
    recorder().poll(worker_.time_ns);
  }
  EXPECT_EQ(of_workers(65), (std::map<std::string, std::uint64_t>{{kBelowLine, 3}, {kNotKnown, 3}}));
}

// The thread that uses the pool does not get a processor for a while: its next sample tells where it was.
TEST_F(PoolRecording, SamplesOfThreadsWaitUntilItIsKnownForWhomTheyWork) {
  sample(0, main_, 10);
  for (std::uint64_t ms = 15; ms < 400; ms += 10) {
    sample(1, worker_, ms);
    recorder().poll(worker_.time_ns);
  }
  sample(0, main_, 400);
  recorder().poll(main_.time_ns);
  EXPECT_EQ(of_workers(400), (std::map<std::string, std::uint64_t>{{kBelowLine, 39}}));
}

// What lies in the ring behind such samples ends waits all the same.
TEST_F(PoolRecording, WaitsThatAPoolEndsAreKnownWhenItsSamplesAre) {
  constexpr std::uint64_t kWord = 0x7000;
  fake_.thread(2, 102, kStart);
  Sample waiting;
  waiting.words = {kLibc + 1, kProgram + 0x100};
  waiting.trigger = wire::Trigger::kBlocked;
  waiting.flags = wire::kInSyscall | wire::kAtWord;
  waiting.syscall_nr = SYS_futex;
  waiting.data_address = kWord;
  waiting.time_ns = kStart + 20 * kMs;
  fake_.sample(2, waiting);
  sample(0, main_, 80);
  sample(1, worker_, 90);
  fake_.tie(1, wire::ThreadTieKind::kWoke, kStart + 100 * kMs, kStart + 100 * kMs, kWord, 0);
  Sample woken;
  woken.words = {kProgram + 0x200};
  woken.time_ns = kStart + 110 * kMs;
  fake_.sample(2, woken);
  for (const std::uint64_t ms : {120, 420, 720}) recorder().poll(kStart + ms * kMs);
  EXPECT_EQ(recorder().report(kStart + 720 * kMs).mutex_waits.begin()->first.holder_path, 0u);
  sample(0, main_, 800);
  for (const std::uint64_t ms : {820, 1120}) recorder().poll(kStart + ms * kMs);
  std::uint64_t of_pool_ns = 0;
  for (const auto& [key, wait] : recorder().report(kStart + 1120 * kMs).mutex_waits)
    if (key.holder_path != 0) of_pool_ns += wait.wait_ns;
  EXPECT_GT(of_pool_ns, 0u);
}

TEST_F(PoolRecording, SamplesOfThreadsWaitForASecondAtMost) {
  sample(0, main_, 10);
  sample(1, worker_, 500);
  recorder().poll(worker_.time_ns);
  recorder().poll(kStart + 1501 * kMs);
  sample(0, main_, 1510);
  EXPECT_EQ(of_workers(1510), (std::map<std::string, std::uint64_t>{{kNotKnown, 1}}));
}

TEST_F(Recording, PageFaultsHaveAPathOfTheirOwn) {
  Sample s;
  s.words = {kNumpy + 1, python_word(3), 7};
  for (std::uint64_t i = 1; i <= 3; ++i) {
    s.time_ns = kStart + 10 * kMs * i;
    s.cpu_ns = 10 * kMs * i;
    s.system_ns = 8 * kMs * i;
    s.page_faults = 1000 * i;
    fake_.sample(0, s);
  }
  fake_.thread_end(0, kStart + 30 * kMs, 30 * kMs);
  recorder().poll(kStart + 40 * kMs);
  recorder().finish(kStart + 40 * kMs);
  const ProcessReport report = recorder().report(kStart + 40 * kMs);
  EXPECT_EQ(
      rows(report),
      (std::vector<Row>{{"step:3;_multiarray.so+1!", Category::kNative, true, 6 * kMs, 6 * kMs, 0},
                        {"step:3;_multiarray.so+1!;fault", Category::kSystem, true, 24 * kMs, 24 * kMs, 3}}));
  EXPECT_TRUE(report.knows_page_faults);
}

// 100 threads of 4 ms each, of which every third is sampled: 100 Hz, as one thread of that time would be.
TEST_F(Recording, ShortThreadsCountInTheRateReached) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::uint64_t begin = kStart + 10 * kMs * i;
    fake_.thread(1, 200 + static_cast<std::int32_t>(i), begin);
    Sample s;
    s.words = {kProgram + 0x100};
    s.time_ns = begin + kMs;
    s.cpu_ns = kMs;
    if (i % 5 < 2) fake_.sample(1, s);
    fake_.thread_end(1, begin + 4 * kMs, 4 * kMs);
    recorder().poll(begin + 9 * kMs);
  }
  const ProcessReport report = recorder().report(kStart + 1000 * kMs);
  EXPECT_EQ(report.running_samples, 40u);
  EXPECT_EQ(report.running_ns, 400 * kMs);
}

// A thread that was woken may be sampled running in take_gil. It still waits, and its running time belongs to
// what it does next.
TEST_F(Recording, CpuTimeSpentWaitingForTheGilIsNotIdle) {
  Sample s;
  s.words = {kLibc + 1, kPython + 0x100, python_word(3), 7};
  s.time_ns = kStart + 10 * kMs;
  s.cpu_ns = 2 * kMs;
  s.flags = wire::kInSyscall | wire::kWaitingForGil;
  s.syscall_nr = SYS_futex;
  fake_.sample(0, s);
  s.words = {kPython + 0x200, python_word(3), 7};
  s.time_ns = kStart + 20 * kMs;
  s.cpu_ns = 7 * kMs;
  s.flags = 0;
  fake_.sample(0, s);
  recorder().poll(kStart + 20 * kMs);
  std::map<Category, std::pair<std::uint64_t, std::uint64_t>> times;  // wall, CPU
  const ProcessReport report = recorder().report(kStart + 20 * kMs);
  for (const auto& [key, amount] : report.values) {
    times[key.category].first += amount.wall_ns;
    times[key.category].second += amount.cpu_ns;
  }
  EXPECT_EQ(times[Category::kIdle], (std::pair{13 * kMs, std::uint64_t{0}}));
  EXPECT_EQ(times[Category::kPython], (std::pair{7 * kMs, 7 * kMs}));
}

TEST_F(Recording, HandlerCostsAreBinned) {
  Sample s;
  s.words = {kProgram + 0x100};
  for (const std::uint32_t cost : {1u, 64u, 65u, 1024u, 1025u, 1100u, 0u, 0xffff'ffffu}) {
    s.handler_ns = cost;
    fake_.sample(0, s);
  }
  recorder().poll(kStart + 20 * kMs);
  const HandlerCosts costs = recorder().report(kStart + 20 * kMs).handler_costs;
  std::map<std::uint64_t, std::uint64_t> found;
  for (std::size_t i = 0; i < HandlerCosts::kBins; ++i)
    if (costs.counts[i] != 0) found[HandlerCosts::le_ns(i)] = costs.counts[i];
  EXPECT_EQ(found, (std::map<std::uint64_t, std::uint64_t>{
                       {64, 2}, {76, 1}, {1024, 1}, {1217, 2}, {1073741824, 1}}));
}

TEST_F(Recording, RateReachedCountsRunningThreads) {
  Sample s;
  s.words = {kProgram + 0x100};
  s.time_ns = kStart + 10 * kMs;
  s.cpu_ns = 10 * kMs;
  fake_.sample(0, s);
  s.time_ns = kStart + 1000 * kMs;
  s.cpu_ns = 12 * kMs;
  s.trigger = wire::Trigger::kBlocked;
  s.flags = wire::kInSyscall;
  fake_.sample(0, s);
  s.time_ns = kStart + 1018 * kMs;
  s.cpu_ns = 20 * kMs;
  s.trigger = wire::Trigger::kCpuTimer;
  s.flags = 0;
  fake_.sample(0, s);
  recorder().poll(kStart + 1018 * kMs);
  const ProcessReport report = recorder().report(kStart + 1018 * kMs);
  EXPECT_EQ(report.samples, 3u);
  EXPECT_EQ(report.running_samples, 2u);
  EXPECT_EQ(report.running_ns, 20 * kMs);
}

// A sample of the wall clock's timer stands for elapsed time, also where the thread had the processor for a
// part of it: the rate is that by the wall clock.
TEST_F(Recording, RateReachedByTheWallClockCountsElapsedTime) {
  Sample s;
  s.words = {kProgram + 0x100};
  s.trigger = wire::Trigger::kWallTimer;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    s.time_ns = kStart + i * 10 * kMs;
    s.cpu_ns = i * 4 * kMs;
    fake_.sample(0, s);
  }
  recorder().poll(kStart + 50 * kMs);
  const ProcessReport report = recorder().report(kStart + 50 * kMs);
  EXPECT_EQ(report.running_samples, 5u);
  EXPECT_EQ(report.running_ns, 50 * kMs);
}

TEST_F(Recording, UnknownSystemCallIsSystem) {
  Sample s;
  s.words = {kLibc + 1};
  s.flags = wire::kInSyscall;
  const Row row = only(s);
  EXPECT_EQ(row.path, "libc.so.6+1!;sys-1");
  EXPECT_EQ(row.category, Category::kSystem);
}

TEST_F(Recording, InsideMpiTheFunctionIsTheLeaf) {
  Sample s;
  s.mpi_op = wire::kMPI_Allreduce + 1;
  s.flags = wire::kInSyscall;  // does not matter there
  s.syscall_nr = SYS_poll;
  // libc <- libmpi <- wrapper <- program
  s.words = {kLibc + 1, kMpi + 2, kMpi + 3, kWrapper + 4, kProgram + 5, kProgram + 6};
  const Row row = only(s);
  EXPECT_EQ(row.path, "program+6;program+5;MPI_Allreduce");
  EXPECT_EQ(row.category, Category::kMpi);
}

TEST_F(Recording, FortranBindingsOfMpiAreCutOff) {
  Sample s;
  s.mpi_op = wire::kMPI_Send + 1;
  // libmpi <- wrapper <- libmpi_mpifh <- program
  s.words = {kMpi + 2, kWrapper + 4, kMpi + 9, kProgram + 5};
  EXPECT_EQ(only(s).path, "program+5;MPI_Send");
}

TEST_F(Recording, MpiFunctionIsAddedWhenItsWrapperIsNotOnTheStack) {
  Sample s;
  s.mpi_op = wire::kMPI_Send + 1;
  s.words = {kLibc + 1, kMpi + 2, python_word(3), 7};
  EXPECT_EQ(only(s).path, "step:3;MPI_Send");
}

TEST_F(Recording, CallbackFromMpiCountsAsMpi) {
  Sample s;
  s.mpi_op = wire::kMPI_Reduce + 1;
  // the user's operation <- libmpi <- wrapper <- program
  s.words = {kProgram + 1, kMpi + 2, kWrapper + 4, kProgram + 5};
  EXPECT_EQ(only(s).path, "program+5;MPI_Reduce");
}

TEST_F(Recording, FramesOfTheAgentAreRemoved) {
  Sample s;
  s.words = {kWrapper + 1, kProgram + 5, kAgent + 2, kLibc + 3};
  EXPECT_EQ(only(s).path, "libc.so.6+3;program+5");
}

TEST_F(Recording, CallSiteAndItsSamplesHaveTheSamePath) {
  Sample s;
  s.mpi_op = wire::kMPI_Allreduce + 1;
  s.words = {kMpi + 2, kWrapper + 4, kNumpy + 5, python_word(3), 7};
  fake_.communicator(2, 55, 4, "row");
  fake_.site(3, wire::kMPI_Allreduce, 2, 10, 1000, 50, 300, 80, 80, {kNumpy + 5, python_word(3), 7});
  const Row row = only(s);
  const ProcessReport report = recorder().report(kStart + 20 * kMs);
  ASSERT_EQ(report.calls.size(), 1u);
  const auto& [key, call] = *report.calls.begin();
  EXPECT_EQ(text(key.path), row.path);
  EXPECT_EQ(key.path, report.values.begin()->first.path);
  EXPECT_EQ(key.communicator, 55u);
  EXPECT_EQ(call.count, 10u);
  EXPECT_EQ(call.time_ns, 1000u);
  EXPECT_EQ(call.min_ns, 50u);
  EXPECT_EQ(call.max_ns, 300u);
  EXPECT_EQ(report.communicators.at(55).name, "row");
}

TEST_F(Recording, MessagesToMembersOfAGroupThatAreKnownByTheirNumbers) {
  fake_.communicator(2, 55, 4, "process group a");
  fake_.table<wire::MpiCommunicator>(fake_.header().communicators_offset)[2].number = 4;
  fake_.communicator(3, 56, 4, "default process group");
  fake_.communicator(4, 57, 4, "damaged");
  fake_.table<wire::MpiCommunicator>(fake_.header().communicators_offset)[4].number = 5;
  fake_.member(0, 2, 0, 3, 300);
  fake_.member(1, 2, 1, 1, 20);
  fake_.peer(2, 1, 2, 5, 500);
  fake_.member(3, 7, 1, 1, 20);  // an entry that nobody has
  recorder().poll(kStart);
  ProcessReport report = recorder().report(kStart + kMs);
  EXPECT_EQ(report.communicators.at(55).number, 3);
  EXPECT_EQ(report.communicators.at(56).number, -1);
  EXPECT_EQ(report.communicators.at(57).number, -1) << "not a number in a group of 4";
  ASSERT_EQ(report.group_traffic.size(), 2u);
  EXPECT_EQ((report.group_traffic.at({55, 0}).bytes), 300u);
  EXPECT_EQ((report.group_traffic.at({55, 1}).messages), 1u);
  EXPECT_EQ(report.traffic.size(), 1u);
  EXPECT_EQ(report.drops.at("damaged_mpi_peer"), 1u);
  ProcessReport sum;
  sum.add_amounts(report, false);
  sum.add_amounts(report, false);
  EXPECT_EQ((sum.group_traffic.at({55, 0}).bytes), 600u);
}

TEST_F(Recording, CallSiteWhosePathWasDroppedIsBelowTheRoot) {
  fake_.site(3, wire::kMPI_Send, wire::kNoPath, 1, 5, 5, 5, 8, 0, {});
  recorder().poll(kStart);
  const ProcessReport report = recorder().report(kStart + kMs);
  ASSERT_EQ(report.calls.size(), 1u);
  EXPECT_EQ(text(report.calls.begin()->first.path), "MPI_Send");
  EXPECT_EQ(report.calls.begin()->first.communicator, 0u);
}

TEST_F(Recording, TrafficAndMessageSizesAreRead) {
  fake_.peer(0, 1, 2, 3, 300);
  fake_.peer(9, 1, 1, 1, 8);
  fake_.peer(10, -1, 0, 2, 16);
  fake_.size_bin(wire::kMPI_Send, 0, 1);
  fake_.size_bin(wire::kMPI_Send, 4, 7);
  const ProcessReport report = recorder().report(kStart);
  ASSERT_EQ(report.traffic.size(), 3u);
  EXPECT_EQ((report.traffic.at({1, 2}).bytes), 300u);
  EXPECT_EQ((report.traffic.at({1, 1}).messages), 1u);
  EXPECT_EQ((report.traffic.at({-1, 0}).messages), 2u);
  EXPECT_EQ(report.sizes.at(wire::kMPI_Send)[0], 1u);
  EXPECT_EQ(report.sizes.at(wire::kMPI_Send)[4], 7u);
}

TEST_F(Recording, EndedThreadsGiveTheirSlotBack) {
  fake_.thread(1, 101, kStart + 5 * kMs);
  Sample s;
  s.time_ns = kStart + 15 * kMs;
  s.cpu_ns = 10 * kMs;
  s.words = {kProgram + 1};
  fake_.sample(1, s);
  fake_.thread_end(1, kStart + 18 * kMs, 12 * kMs);
  recorder().poll(kStart + 20 * kMs);
  EXPECT_EQ(fake_.slot(1).state.load(), static_cast<std::uint32_t>(wire::ThreadState::kFree));

  // The slot's next thread has clocks of its own.
  fake_.thread(1, 102, kStart + 30 * kMs);
  s.time_ns = kStart + 31 * kMs;
  s.cpu_ns = 1 * kMs;
  fake_.sample(1, s);
  fake_.thread_end(1, kStart + 31 * kMs, 1 * kMs);
  recorder().poll(kStart + 40 * kMs);
  std::uint64_t wall = 0;
  const ProcessReport report = recorder().report(kStart);
  for (const auto& [key, amount] : report.values) {
    if (!key.main_thread) wall += amount.wall_ns;
  }
  EXPECT_EQ(wall, 13 * kMs + 1 * kMs);
}

TEST_F(Recording, EndRecordIsCountedOnceWhileTheSlotIsLive) {
  Sample s;
  s.time_ns = kStart + 10 * kMs;
  s.cpu_ns = 10 * kMs;
  s.words = {kProgram + 1};
  fake_.sample(0, s);
  fake_.thread_end(0, kStart + 12 * kMs, 11 * kMs);
  fake_.slot(0).state = static_cast<std::uint32_t>(wire::ThreadState::kLive);
  recorder().poll(kStart + 20 * kMs);
  recorder().poll(kStart + 30 * kMs);
  recorder().finish(kStart + 50 * kMs);
  std::uint64_t wall = 0;
  for (const Row& row : rows(recorder().report(kStart + 60 * kMs))) wall += row.wall;
  EXPECT_EQ(wall, 12 * kMs);
}

TEST_F(Recording, KilledProcessIsChargedUntilItsEnd) {
  Sample s;
  s.time_ns = kStart + 10 * kMs;
  s.cpu_ns = 10 * kMs;
  s.words = {kLibc + 1};
  s.flags = wire::kInSyscall;
  s.syscall_nr = SYS_futex;
  s.trigger = wire::Trigger::kBlocked;
  fake_.sample(0, s);
  recorder().poll(kStart + 20 * kMs);
  recorder().finish(kStart + 5000 * kMs);
  std::uint64_t wall = 0;
  for (const Row& row : rows(recorder().report(kStart + 5000 * kMs))) wall += row.wall;
  EXPECT_EQ(wall, 5000 * kMs);
}

TEST_F(Recording, ReportOfALivingProcessIncludesTheTimeSinceTheLastSample) {
  Sample s;
  s.time_ns = kStart + 10 * kMs;
  s.cpu_ns = 10 * kMs;
  s.words = {kProgram + 1};
  fake_.sample(0, s);
  recorder().poll(kStart + 20 * kMs);
  EXPECT_EQ(rows(recorder().report(kStart + 14 * kMs)).at(0).wall, 14 * kMs);
  // It is provisional: the next sample accounts for the same time.
  s.time_ns = kStart + 20 * kMs;
  s.cpu_ns = 20 * kMs;
  fake_.sample(0, s);
  recorder().poll(kStart + 30 * kMs);
  EXPECT_EQ(rows(recorder().report(kStart + 20 * kMs)).at(0).wall, 20 * kMs);
}

TEST_F(Recording, SampleIsResolvedWhenItsModuleIsDescribedLater) {
  Sample s;
  s.words = {kProgram + 1, 0x90100};
  s.time_ns = kStart + kMs;
  fake_.sample(0, s);
  recorder().poll(kStart + 2 * kMs);
  EXPECT_EQ(rows(recorder().report(kStart + kMs)).at(0).path, "?;program+1!");
  fake_.module("/usr/lib/late.so", 0x90000, 0xa0000, 0x90000, 2);
  recorder().poll(kStart + 3 * kMs);
  EXPECT_EQ(rows(recorder().report(kStart + kMs)).at(0).path, "late.so+100;program+1!");
}

TEST_F(Recording, AddressUsedByTwoModulesIsResolvedByTime) {
  fake_.module("/usr/lib/first.so", 0x90000, 0xa0000, 0x90000, 2);
  fake_.module("/usr/lib/second.so", 0x90000, 0xa0000, 0x90000, 5);
  std::vector<std::string> seen;
  for (const std::uint32_t epoch : {1u, 2u, 4u, 5u, 9u}) {
    Sample s;
    s.words = {0x90010};
    s.epoch = epoch;
    s.time_ns = kStart + epoch * kMs;
    fake_.sample(0, s);
  }
  recorder().poll(kStart + 20 * kMs);
  for (const Row& row : rows(recorder().report(kStart + 9 * kMs))) {
    seen.push_back(row.path + " " + std::to_string(row.samples));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"first.so+10! 3", "second.so+10! 2"}));
}

TEST_F(Recording, UnknownPythonCodeIsOneFrame) {
  Sample s;
  s.words = {python_word(1), 999};
  EXPECT_EQ(only(s).path, "?");
}

TEST_F(Recording, CountersAreChargedToPaths) {
  recorder();  // as in a real process, which greets before its counters are open
  std::strcpy(fake_.header().counter_names[0], "PAPI_TOT_INS");
  fake_.header().counter_count = 1;
  Sample s;
  s.words = {kProgram + 1};
  s.time_ns = kStart + 10 * kMs;
  s.cpu_ns = 10 * kMs;
  s.counters = {500};
  fake_.sample(0, s);
  s.words = {kProgram + 2};
  s.time_ns = kStart + 20 * kMs;
  s.cpu_ns = 20 * kMs;
  s.counters = {800};
  fake_.sample(0, s);
  recorder().poll(kStart + 30 * kMs);
  const ProcessReport report = recorder().report(kStart + 20 * kMs);
  ASSERT_EQ(store_.tables().counters, (std::vector<std::string>{"PAPI_TOT_INS"}));
  std::map<std::string, std::uint64_t> values;
  for (const auto& [key, value] : report.counters) values[text(key.path)] = value;
  EXPECT_EQ(values, (std::map<std::string, std::uint64_t>{{"program+1!", 500}, {"program+2!", 300}}));
}

// When the interpreter ends, its own functions hide what the program did last. A signal may still end it
// there.
TEST_F(Recording, LastPathOfAPythonProgramIsBeforeItsShutdown) {
  fake_.code(8, "train.py", "<module>", 1);
  fake_.code(9, "threading.py", "_shutdown", 1);
  Sample s;
  const auto add = [&](std::uint64_t ms, std::vector<std::uint64_t> words) {
    s.words = std::move(words);
    s.time_ns = kStart + ms * kMs;
    s.cpu_ns = ms * kMs;
    fake_.sample(0, s);
    recorder().poll(kStart + ms * kMs);
  };
  const auto last = [&] { return text(recorder().report(kStart + 50 * kMs).last_path.value()); };
  add(10, {kPython + 0x100, python_word(3), 7, python_word(5), 8, kPython + 0x50});
  add(20, {kPython + 0x200, python_word(3), 9, kPython + 0x60});
  add(30, {kPython + 0x300, kPython + 0x70});
  EXPECT_EQ(last(), "python3.11+70;python3.11+300!");
  fake_.header().exit_flags = wire::kFatalSignalKnown;
  EXPECT_EQ(last(), "python3.11+70;python3.11+300!");
  fake_.header().exit_flags = wire::kExitStatusKnown;
  EXPECT_EQ(last(), "python3.11+50;<module>:5;step:3;python3.11+100!");
}

TEST_F(Recording, ErrorsOfMpiCalls) {
  wire::MpiError& first = fake_.header().mpi_errors[0];
  first.site = 0xffff'ffffu;
  first.op = wire::kMPI_Recv;
  first.error_class = 15;
  first.peer = 3;
  first.tag = 7;
  first.message = 16;
  first.channel = 1;
  first.first_ns = kStart;
  first.count = 2;
  std::ranges::copy(std::string_view("MPI_ERR_TRUNCATE"), first.name);
  std::ranges::copy(std::string_view("message truncated"), first.text);
  EXPECT_TRUE(recorder().report(kStart).mpi_errors.empty());  // it is being written
  first.ready = 1;
  wire::MpiError& damaged = fake_.header().mpi_errors[1];
  damaged.op = 0xffff;
  damaged.count = 1;
  damaged.first_ns = kStart;
  damaged.ready = 1;
  fake_.header().mpi_unseen = 0xff;
  const ProcessReport report = recorder().report(kStart);
  ASSERT_EQ(report.mpi_errors.size(), 1u);
  const RawMpiError& row = report.mpi_errors[0];
  EXPECT_EQ(std::tuple(row.error_class, row.peer, row.tag, row.message, row.count, row.channel),
            std::tuple(15, 3, 7, 16u, 2u, 1u));
  EXPECT_EQ(row.name, "MPI_ERR_TRUNCATE");
  EXPECT_EQ(row.text, "message truncated");
  EXPECT_NE(row.path, 0u) << "the function";
  EXPECT_EQ(report.drops.at("damaged_mpi_error"), 1u);
  EXPECT_EQ(report.mpi_unseen, wire::kReceivesUnseen | wire::kSendsUnsure);
}

TEST_F(Recording, OpenRequestsAreThoseAtMpiFinalize) {
  wire::OpenRequests& row = fake_.header().open_requests[0];
  row.count = 3;
  row.site = 0xffff'ffffu;
  row.kind = static_cast<std::uint32_t>(wire::PendingKind::kReceive);
  row.peer = wire::kAnyPeer;
  row.tag = wire::kAnyTag;
  fake_.header().open_requests[1].count = 1;
  fake_.header().open_requests[1].kind = 9;
  EXPECT_TRUE(recorder().report(kStart).open_requests.empty());
  fake_.header().open_requests_ready = 1;
  const ProcessReport report = recorder().report(kStart);
  ASSERT_EQ(report.open_requests.size(), 1u);
  EXPECT_EQ(report.open_requests[0].count, 3u);
  EXPECT_EQ(report.open_requests[0].peer, wire::kAnyPeer);
  EXPECT_EQ(report.open_requests[0].path, 0u);
  EXPECT_EQ(report.drops.at("damaged_open_requests"), 1u);
}

TEST_F(Recording, LastWordsAreThoseOfAProcessThatEnds) {
  wire::LastWords& words = fake_.header().last_words;
  words.fault_signal = SIGSEGV;
  words.fault_code = 1;
  words.fault_address = 0x10;
  words.fault_pc = kProgram + 0x42;
  words.mpi_abort_called = 1;
  words.mpi_abort_code = -3;
  constexpr std::string_view kText = "Traceback\nValueError\n";
  std::ranges::copy(kText, words.stderr_tail);
  words.stderr_bytes = kText.size();
  EXPECT_FALSE(recorder().report(kStart).last_words);  // it goes on
  fake_.header().exit_flags = wire::kFatalSignalKnown;
  const shard::Failure last = recorder().report(kStart).last_words.value();
  EXPECT_EQ(last.flags, shard::Failure::kFault | shard::Failure::kCalledAbort | shard::Failure::kHasStderr);
  EXPECT_EQ(last.signal, SIGSEGV);
  EXPECT_EQ(last.address, 0x10u);
  EXPECT_EQ(last.instruction, "program+0x42");
  EXPECT_EQ(last.abort_code, -3);
  EXPECT_EQ(last.stderr_tail, kText);
  words.fault_code = SI_KERNEL;  // with a si_addr of 0, wherever it was
  EXPECT_NE(recorder().report(kStart).last_words.value().flags & shard::Failure::kNoAddress, 0);
}

// The line that was cut may hold half of a secret.
TEST_F(Recording, TheEndOfStderrBeginsWithAWholeLine) {
  wire::LastWords& words = fake_.header().last_words;
  std::ranges::fill(words.stderr_tail, 'x');
  words.stderr_bytes = wire::kStderrTailBytes + 10;  // the next byte goes to place 10
  words.stderr_tail[20] = '\n';
  words.stderr_tail[9] = '!';
  fake_.header().exit_flags = wire::kExitStatusKnown;
  const std::string tail = recorder().report(kStart).last_words.value().stderr_tail;
  EXPECT_EQ(tail.size(), wire::kStderrTailBytes - 11);
  EXPECT_EQ(tail.back(), '!');
  EXPECT_EQ(tail.find('\n'), std::string::npos);
}

TEST_F(Recording, LastPathIsTheMpiCallUnderWay) {
  Sample s;
  s.words = {kProgram + 9};
  s.time_ns = kStart + 10 * kMs;
  s.cpu_ns = 10 * kMs;
  fake_.sample(0, s);
  fake_.enter_mpi(0, wire::kMPI_Recv, kStart + 20 * kMs, wire::kNoPath, 1, 7, {kProgram + 5});
  recorder().poll(kStart + 100 * kMs);
  EXPECT_EQ(text(recorder().report(kStart + 100 * kMs).last_path.value()), "program+5;MPI_Recv");
}

TEST_F(Recording, MpiTimeIsThatOfTheMainThread) {
  fake_.thread(1, 101, kStart);
  fake_.slot(0).mpi_time_ns = 40 * kMs;
  fake_.enter_mpi(0, wire::kMPI_Recv, kStart + 90 * kMs, wire::kNoPath, 1, 7, {kProgram + 1});  // since
  fake_.slot(1).mpi_time_ns = 1000 * kMs;
  recorder().poll(kStart + 100 * kMs);
  EXPECT_EQ(recorder().report(kStart + 100 * kMs).mpi_ns, 50 * kMs);
  recorder().finish(kStart + 110 * kMs);
  EXPECT_EQ(recorder().report(kStart + 110 * kMs).mpi_ns, 60 * kMs);
}

TEST_F(Recording, CallUnderWayCountsUpToTheLastLook) {
  fake_.communicator(2, 55, 4, "row");
  fake_.site(3, wire::kMPI_Recv, 2, 10, 1000, 50, 300, 0, 80, {kProgram + 5});
  fake_.enter_mpi(0, wire::kMPI_Recv, kStart + 20 * kMs, 2, 3, 7, {kProgram + 5});
  recorder().poll(kStart + 100 * kMs);
  const ProcessReport report = recorder().report(kStart + 100 * kMs);
  ASSERT_EQ(report.calls_under_way.size(), 1u);
  const RawCallUnderWay& call = report.calls_under_way[0];
  EXPECT_EQ(text(call.path), "program+5;MPI_Recv");
  EXPECT_EQ(call.tid, 100);
  EXPECT_TRUE(call.main_thread);
  EXPECT_EQ(call.channel, 55u);
  EXPECT_EQ(call.peer, 3);
  EXPECT_EQ(call.tag, 7);
  EXPECT_EQ(call.enter_ns, kStart + 20 * kMs);
  EXPECT_EQ(call.lasted_ns, 80 * kMs);
  EXPECT_EQ(call.requests, 0u);
  EXPECT_TRUE(call.pending.empty());
  // Its time is in the row of its call site, beside the calls that returned.
  ASSERT_EQ(report.calls.size(), 1u);
  const RawCall& sum = report.calls.begin()->second;
  EXPECT_EQ(sum.count, 10u);
  EXPECT_EQ(sum.unfinished, 1u);
  EXPECT_EQ(sum.time_ns, 80 * kMs + 1000);
  EXPECT_EQ(sum.max_ns, 300u);
  EXPECT_EQ(report.mpi_ns, 80 * kMs);
  // The process was killed in it.
  recorder().finish(kStart + 150 * kMs);
  const ProcessReport last = recorder().report(kStart + 900 * kMs);
  ASSERT_EQ(last.calls_under_way.size(), 1u);
  EXPECT_EQ(last.calls_under_way[0].lasted_ns, 130 * kMs);
  EXPECT_EQ(last.mpi_ns, 130 * kMs);
}

TEST_F(Recording, CallThatReturnedIsNotUnderWay) {
  fake_.enter_mpi(0, wire::kMPI_Recv, kStart + 20 * kMs, wire::kNoPath, 3, 7, {kProgram + 5});
  fake_.leave_mpi(0, kStart + 30 * kMs);
  recorder().poll(kStart + 100 * kMs);
  const ProcessReport report = recorder().report(kStart + 100 * kMs);
  EXPECT_TRUE(report.calls_under_way.empty());
  EXPECT_TRUE(report.calls.empty());
  EXPECT_EQ(report.mpi_ns, 10 * kMs);
}

TEST_F(Recording, CallUnderWayIsIgnoredWhileRecordingIsPaused) {
  fake_.enter_mpi(0, wire::kMPI_Recv, kStart + 20 * kMs, wire::kNoPath, 3, 7, {});
  fake_.slot(0).mpi_call.state = 1;
  recorder().poll(kStart + 100 * kMs);
  const ProcessReport report = recorder().report(kStart + 100 * kMs);
  EXPECT_TRUE(report.calls_under_way.empty());
  EXPECT_EQ(report.mpi_ns, 0u);
}

TEST_F(Recording, CallUnderWayListsTheRequestsItWaitsFor) {
  fake_.enter_mpi(0, wire::kMPI_Waitall, kStart + 20 * kMs, wire::kNoPath, -1, 0, {kProgram + 5});
  wire::MpiCallUnderWay& record = fake_.slot(0).mpi_call;
  record.requests = 5;
  record.pending_kinds = 1 | 2 << 2;
  record.pending_peers[0] = 3;
  record.pending_peers[1] = wire::kAnyPeer;
  recorder().poll(kStart + 100 * kMs);
  const ProcessReport report = recorder().report(kStart + 100 * kMs);
  ASSERT_EQ(report.calls_under_way.size(), 1u);
  const RawCallUnderWay& call = report.calls_under_way[0];
  EXPECT_EQ(call.requests, 5u);
  ASSERT_EQ(call.pending.size(), 2u);
  EXPECT_EQ(call.pending[0].kind, wire::PendingKind::kSend);
  EXPECT_EQ(call.pending[0].peer, 3);
  EXPECT_EQ(call.pending[1].kind, wire::PendingKind::kReceive);
  EXPECT_EQ(call.pending[1].peer, wire::kAnyPeer);
  record.pending_peers[1] = -7;
  EXPECT_TRUE(recorder().report(kStart + 100 * kMs).calls_under_way.empty());
}

TEST_F(Recording, KnowsWhatMembersHaveToAgreeOn) {
  fake_.communicator(2, 55, 4, "row");
  fake_.enter_mpi(0, wire::kMPI_Bcast, kStart + 20 * kMs, 2, wire::kNoPeer, wire::kNoTag, {kProgram + 5});
  fake_.slot(0).mpi_call.agreed = wire::agreed_of_bytes(4000);
  auto& entry = fake_.table<wire::MpiCommunicator>(fake_.header().communicators_offset)[2];
  entry.collectives_of = 55;
  entry.agreed = wire::agreed_word(8, wire::agreed_of_bytes(80));
  entry.collectives = wire::collectives_word(8, wire::kMPI_Allreduce);
  recorder().poll(kStart + 100 * kMs);
  ProcessReport report = recorder().report(kStart + 100 * kMs);
  ASSERT_EQ(report.calls_under_way.size(), 1u);
  EXPECT_EQ(report.calls_under_way[0].agreed, 4001u);
  EXPECT_EQ(report.collectives.at(55).count, 8u);
  EXPECT_EQ(report.collectives.at(55).agreed, 81u);
  entry.agreed = wire::agreed_word(9, wire::agreed_of_bytes(16));  // of the next operation already
  report = recorder().report(kStart + 100 * kMs);
  EXPECT_EQ(report.collectives.at(55).count, 8u);
  EXPECT_EQ(report.collectives.at(55).agreed, 0u);
}

TEST_F(Recording, DamagedCallUnderWayIsIgnored) {
  fake_.enter_mpi(0, 0xfff0, kStart + 20 * kMs, wire::kNoPath, 3, 7, {kProgram + 5});
  fake_.thread(1, 101, kStart);
  fake_.enter_mpi(1, wire::kMPI_Recv, kStart + 20 * kMs, 0xfff, 3, 7, {kProgram + 5});
  fake_.slot(1).mpi_call.path_words = 0xffff'ffffu;
  recorder().poll(kStart + 100 * kMs);
  (void)recorder().report(kStart + 100 * kMs);
  const ProcessReport report = recorder().report(kStart + 100 * kMs);
  EXPECT_TRUE(report.calls_under_way.empty());
  EXPECT_GE(report.drops.at("damaged_mpi_call"), 2u);
}

TEST_F(Recording, HelperThreadsThatCallMpiAreCounted) {
  fake_.thread(1, 101, kStart + 10 * kMs);
  fake_.thread(2, 102, kStart + 10 * kMs);  // calls none
  fake_.slot(1).mpi_time_ns = 30 * kMs;
  fake_.enter_mpi(1, wire::kMPI_Recv, kStart + 90 * kMs, wire::kNoPath, 3, 7, {kProgram + 5});
  fake_.site(3, wire::kMPI_Recv, wire::kNoPath, 10, 30 * kMs, 50, 300, 0, 80, {kProgram + 5});
  fake_.table<wire::MpiSite>(fake_.header().mpi_sites_offset)[3].helper_thread = 1;
  recorder().poll(kStart + 100 * kMs);
  ProcessReport report = recorder().report(kStart + 110 * kMs);
  EXPECT_EQ(report.mpi_ns, 0u);
  EXPECT_EQ(report.mpi_helpers.count, 1u);
  EXPECT_EQ(report.mpi_helpers.elapsed_ns, 100 * kMs);
  EXPECT_EQ(report.mpi_helpers.mpi_ns, 50 * kMs);
  ASSERT_EQ(report.calls.size(), 1u);
  EXPECT_FALSE(report.calls.begin()->first.main_thread);
  EXPECT_EQ(report.calls.begin()->second.time_ns, 50 * kMs);
  fake_.leave_mpi(1, kStart + 110 * kMs);
  fake_.thread_end(1, kStart + 110 * kMs, 20 * kMs);
  recorder().poll(kStart + 150 * kMs);  // noticed late
  recorder().finish(kStart + 200 * kMs);
  report = recorder().report(kStart + 200 * kMs);
  EXPECT_EQ(report.mpi_helpers.count, 1u);
  EXPECT_EQ(report.mpi_helpers.elapsed_ns, 100 * kMs);
  EXPECT_EQ(report.mpi_helpers.mpi_ns, 50 * kMs);
}

TEST_F(Recording, CallsWithoutRoomForACallSiteAreOneRowPerFunction) {
  const std::uint32_t place = wire::other_mpi_site(FakeSegment::kSites, wire::kMPI_Send, false);
  fake_.site(3, wire::kMPI_Send, wire::kNoPath, 1, 5, 5, 5, 8, 0, {kProgram + 5});
  fake_.site(place, wire::kMPI_Send, wire::kNoPath, 31, 62, 1, 4, 800, 0, {});
  recorder().poll(kStart + kMs);
  const ProcessReport report = recorder().report(kStart + kMs);
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [key, call] : report.calls) counts[text(key.path)] = call.count;
  EXPECT_EQ(counts,
            (std::map<std::string, std::uint64_t>{{"program+5;MPI_Send", 1}, {"others;MPI_Send", 31}}));
}

TEST_F(Recording, RingThatWrapsLosesNothing) {
  Sample s;
  for (std::uint64_t i = 0; i < 60; ++i) s.words.push_back(kProgram + 1 + i);
  std::uint64_t pushed = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 200; ++i) {
      s.time_ns = kStart + ++pushed * kMs;
      s.cpu_ns = pushed * kMs;
      ASSERT_TRUE(fake_.sample(0, s));
    }
    EXPECT_GT(recorder().poll(s.time_ns), 0.3);
  }
  const ProcessReport report = recorder().report(s.time_ns);
  EXPECT_EQ(report.samples, pushed);
  EXPECT_EQ(rows(report).at(0).wall, pushed * kMs);
  EXPECT_TRUE(report.drops.empty());
}

TEST_F(Recording, ADamagedRingIsCountedAndReadOn) {
  Sample s;
  s.words = {kProgram + 1};
  s.time_ns = kStart + kMs;
  fake_.sample(0, s);
  reinterpret_cast<wire::RecordHeader*>(fake_.slot(0).ring.data)->bytes = 3;
  recorder().poll(kStart + 2 * kMs);
  s.time_ns = kStart + 2 * kMs;
  fake_.sample(0, s);
  recorder().poll(kStart + 3 * kMs);
  const ProcessReport report = recorder().report(kStart + 3 * kMs);
  EXPECT_EQ(report.drops.at("damaged_ring"), 1u);
  EXPECT_EQ(report.samples, 1u);
}

TEST_F(Recording, RecordWithTooLargeLengthsIsDropped) {
  Sample s;
  s.words = {kProgram + 1};
  fake_.sample(0, s);
  reinterpret_cast<wire::SampleRecord*>(fake_.slot(0).ring.data)->frame_words = 100;
  recorder().poll(kStart + 2 * kMs);
  const ProcessReport report = recorder().report(kStart + 3 * kMs);
  EXPECT_EQ(report.drops.at("damaged_record"), 1u);
  EXPECT_EQ(report.samples, 0u);
}

TEST_F(Recording, SharedWordsComeFromThePreviousSample) {
  Sample s;
  const auto push = [&](std::vector<std::uint64_t> words, std::uint16_t shared) {
    s.words = std::move(words);
    s.shared_words = shared;
    s.time_ns = kStart + (s.time_ns == 0 ? kMs : s.time_ns - kStart + kMs);
    s.cpu_ns += kMs;
    fake_.sample(0, s);
  };
  push({kProgram + 1, kProgram + 2, kProgram + 3, kProgram + 4}, 0);
  push({kProgram + 5}, 2);                              // shorter
  push({kProgram + 1, kProgram + 6, kProgram + 7}, 3);  // longer
  push({}, 6);                                          // the same
  push({kProgram + 8}, 0);
  recorder().poll(s.time_ns);
  const ProcessReport report = recorder().report(s.time_ns);
  std::map<std::string, std::uint64_t> samples;
  for (const Row& row : rows(report)) samples[row.path] += row.samples;
  EXPECT_EQ(samples, (std::map<std::string, std::uint64_t>{
                         {"program+4;program+3;program+2;program+1!", 1},
                         {"program+4;program+3;program+5!", 1},
                         {"program+4;program+3;program+5;program+7;program+6;program+1!", 2},
                         {"program+8!", 1}}));
  EXPECT_TRUE(report.drops.empty());
}

TEST_F(Recording, SampleThatSharesWordsWithADamagedOneIsDropped) {
  Sample s;
  const auto push = [&](std::vector<std::uint64_t> words, std::uint16_t shared, std::uint64_t at_ms) {
    s.words = std::move(words);
    s.shared_words = shared;
    s.time_ns = kStart + at_ms * kMs;
    fake_.sample(0, s);
    recorder().poll(s.time_ns);
  };
  push({kProgram + 1, kProgram + 2}, 0, 1);
  push({kProgram + 3}, 3, 2);  // more than there are
  push({kProgram + 3}, 1, 3);
  push({kProgram + 3}, 0, 4);
  const ProcessReport report = recorder().report(s.time_ns);
  EXPECT_EQ(report.drops.at("damaged_record"), 2u);
  EXPECT_EQ(report.samples, 2u);
}

TEST_F(Recording, DropsAreReported) {
  fake_.header().drops[static_cast<std::size_t>(wire::DropReason::kRingFull)] = 17;
  EXPECT_EQ(recorder().report(kStart).drops, (std::map<std::string, std::uint64_t>{{"ring_full", 17}}));
}

TEST_F(Recording, KindOfDescriptorIsTheFrameBelowTheSystemCall) {
  const std::pair<std::uint32_t, const char*> cases[] = {
      {wire::kOnFile, "file"}, {wire::kOnSocket, "socket"}, {wire::kOnPipe, "pipe"}};
  std::uint64_t ms = 0;
  Sample s;
  s.words = {kLibc + 1, python_word(3), 7};
  s.syscall_nr = SYS_read;
  const auto push = [&](std::uint32_t flags) {
    s.flags = flags;
    s.time_ns = kStart + ++ms * kMs;
    s.cpu_ns = ms * kMs;
    fake_.sample(0, s);
  };
  for (int twice = 0; twice < 2; ++twice) {  // from the stack, and remembered
    push(wire::kInSyscall);
    for (const auto& [flag, name] : cases) push(wire::kInSyscall | flag);
  }
  push(wire::kOnFile);  // not in a system call
  recorder().poll(s.time_ns);
  std::map<std::string, std::pair<Category, std::uint64_t>> found;
  for (const Row& row : rows(recorder().report(s.time_ns))) found[row.path] = {row.category, row.samples};
  const std::string call = "step:3;libc.so.6+1!";
  EXPECT_EQ(found, (std::map<std::string, std::pair<Category, std::uint64_t>>{
                       {call, {Category::kPython, 1}},
                       {call + ";sys0", {Category::kIo, 2}},
                       {call + ";sys0;file", {Category::kIo, 2}},
                       {call + ";sys0;socket", {Category::kIo, 2}},
                       {call + ";sys0;pipe", {Category::kIo, 2}}}));
}

TEST_F(Recording, JoiningAThreadIsToldFromWaitingForALock) {
  Sample s;
  s.words = {kLibc + 1};
  s.flags = wire::kInSyscall | wire::kOnThread;
  s.syscall_nr = SYS_futex;
  const Row row = only(s);
  EXPECT_EQ(row.path, "libc.so.6+1!;sys202;thread");
  EXPECT_EQ(row.category, Category::kIdle);
}

TEST_F(Recording, WaitForAMutexNamesItsHolder) {
  fake_.thread(1, 101, kStart);
  Sample holder;
  holder.words = {kProgram + 0x200};
  holder.time_ns = kStart + 5 * kMs;
  holder.cpu_ns = 5 * kMs;
  fake_.sample(1, holder);
  Sample waiter;
  waiter.words = {kLibc + 1, kProgram + 0x100};
  waiter.flags = wire::kInSyscall | wire::kAtMutex;
  waiter.syscall_nr = SYS_futex;
  waiter.trigger = wire::Trigger::kBlocked;
  waiter.data_address = 0x7000;
  waiter.mutex_holder = 101;
  waiter.time_ns = kStart + 10 * kMs;
  waiter.cpu_ns = 2 * kMs;
  recorder().poll(kStart + 6 * kMs);  // the threads' rings are read one after the other
  fake_.sample(0, waiter);
  recorder().poll(kStart + 20 * kMs);
  const auto open = recorder().report(kStart + 20 * kMs).mutex_waits;
  ASSERT_EQ(open.size(), 1u) << "it may never end";
  EXPECT_EQ(open.begin()->second.wait_ns, (8 + 10) * kMs) << "8 ms before it was seen";
  Sample behind;
  behind.words = {kProgram + 0x100};
  behind.time_ns = kStart + 110 * kMs;
  behind.cpu_ns = 6 * kMs;
  fake_.sample(0, behind);
  recorder().poll(kStart + 120 * kMs);
  const auto waits = recorder().report(kStart + 120 * kMs).mutex_waits;
  ASSERT_EQ(waits.size(), 1u);
  const auto& [key, wait] = *waits.begin();
  EXPECT_EQ(text(key.path), "program+100;libc.so.6+1!;sys202");
  EXPECT_EQ(text(key.holder_path), "program+200!");
  EXPECT_EQ(key.address, 0x7000u);
  EXPECT_EQ(wait.wait_ns, (8 + 100 - 4) * kMs);
  EXPECT_EQ(wait.samples, 1u);
  EXPECT_EQ(wait.longest_ns, wait.wait_ns);
  EXPECT_EQ(key.module, kNoModule) << "no object file has the address";
}

TEST_F(Recording, WaitForAConditionIsOfWhatTheThreadDidThatEndedIt) {
  constexpr std::uint64_t kCondition = 0x7000, kWord = kCondition + 40;
  fake_.thread(1, 101, kStart);
  const auto sample = [&](std::uint32_t slot, std::uint64_t ms, std::uint64_t cpu_ms, std::uint64_t pc,
                          std::uint64_t word = 0) {
    Sample s;
    s.words = {pc};
    s.time_ns = kStart + ms * kMs;
    s.cpu_ns = cpu_ms * kMs;
    if (word != 0) {
      s.trigger = wire::Trigger::kBlocked;
      s.flags = wire::kInSyscall | wire::kAtWord;
      s.syscall_nr = SYS_futex;
      s.data_address = word;
    }
    fake_.sample(slot, s);
  };
  const auto wake = [&](std::uint64_t ms, std::uint64_t word) {
    fake_.tie(1, wire::ThreadTieKind::kWoke, kStart + ms * kMs, kStart + ms * kMs, word,
              static_cast<std::int32_t>(word - kCondition));
  };
  sample(0, 10, 10, kProgram + 0x100);
  sample(0, 30, 10, kLibc + 1, kWord);  // since 10 ms
  sample(0, 120, 20, kProgram + 0x100);
  sample(0, 140, 20, kLibc + 1, kWord + 4);
  sample(1, 5, 5, kProgram + 0x200);
  wake(20, kWord);  // nobody was seen to wait
  sample(1, 40, 40, kProgram + 0x300);
  wake(100, kWord);
  wake(105, kWord);
  sample(1, 110, 110, kProgram + 0x400);
  recorder().poll(kStart + 150 * kMs);
  const auto unsettled = recorder().report(kStart + 150 * kMs).mutex_waits;
  ASSERT_EQ(unsettled.size(), 1u) << "the two words are of one condition";
  EXPECT_EQ(unsettled.begin()->first.holder_path, 0u) << "not all rings have been read again";
  EXPECT_EQ(unsettled.begin()->first.address, kCondition);
  recorder().poll(kStart + 700 * kMs);
  recorder().poll(kStart + 700 * kMs);
  std::map<std::string, RawMutexWait> by_holder;
  for (const auto& [key, wait] : recorder().report(kStart + 150 * kMs).mutex_waits) {
    EXPECT_EQ(key.address, kCondition);
    EXPECT_EQ(text(key.path), "libc.so.6+1!;sys202");
    by_holder[text(key.holder_path)].add(wait);
  }
  ASSERT_EQ(by_holder.size(), 3u) << "and one that has not ended";
  // It was at one place or the other between 5 and 40 ms.
  EXPECT_EQ(by_holder["program+200!"].wait_ns, 25 * kMs / 2);
  EXPECT_EQ(by_holder["program+300!"].wait_ns, 155 * kMs / 2)
      << "until it was woken, not until it was seen again";
  EXPECT_EQ(by_holder["program+300!"].samples, 1u);
  EXPECT_EQ(by_holder["program+200!"].samples, 0u) << "it is one wait";
  EXPECT_EQ(by_holder["program+300!"].longest_ns, 90 * kMs);
}

// On a busy machine, a wait may be sampled more than once, and by a tick that came in our handler.
TEST_F(Recording, AWaitOfMoreThanOneSampleIsOneWait) {
  constexpr std::uint64_t kWord = 0x7000;
  fake_.thread(1, 101, kStart);
  Sample waiter;
  waiter.words = {kLibc + 1};
  waiter.syscall_nr = SYS_futex;
  const auto wait = [&](std::uint64_t ms, wire::Trigger trigger) {
    const bool blocked = trigger == wire::Trigger::kBlocked;
    waiter.time_ns = kStart + ms * kMs;
    waiter.trigger = trigger;
    waiter.flags = blocked ? wire::kInSyscall | wire::kAtWord : std::uint32_t{wire::kInSyscall};
    waiter.data_address = blocked ? kWord : 0;
    fake_.sample(0, waiter);
  };
  const auto run = [&](std::uint32_t slot, std::uint64_t ms, std::uint64_t pc) {
    Sample s;
    s.words = {pc};
    s.time_ns = kStart + ms * kMs;
    s.cpu_ns = ms * kMs;
    fake_.sample(slot, s);
  };
  const auto wake = [&](std::uint64_t ms) {
    fake_.tie(1, wire::ThreadTieKind::kWoke, kStart + ms * kMs, kStart + ms * kMs, kWord, 0);
  };
  run(1, 5, kProgram + 0x200);
  run(1, 15, kProgram + 0x200);
  wait(30, wire::Trigger::kBlocked);  // since the start
  wait(31, wire::Trigger::kCpuTimer);
  wait(60, wire::Trigger::kBlocked);
  recorder().poll(kStart + 65 * kMs);
  recorder().poll(kStart + 700 * kMs);
  recorder().poll(kStart + 700 * kMs);
  wait(800, wire::Trigger::kBlocked);
  wake(900);
  wait(910, wire::Trigger::kBlocked);  // another one
  wake(950);
  wait(970, wire::Trigger::kBlocked);
  for (int i = 0; i < 2; ++i) recorder().poll(kStart + 1600 * kMs);
  wake(1700);
  waiter = {};
  waiter.words = {kProgram + 0x100};
  waiter.time_ns = kStart + 1710 * kMs;
  waiter.cpu_ns = kMs;
  fake_.sample(0, waiter);
  for (int i = 0; i < 2; ++i) recorder().poll(kStart + 2300 * kMs);
  RawMutexWait all, held;
  for (const auto& [key, of_key] : recorder().report(kStart + 2300 * kMs).mutex_waits) {
    all.add(of_key);
    if (key.holder_path != 0) held.add(of_key);
  }
  EXPECT_EQ(all.samples, 3u);
  EXPECT_EQ(all.longest_ns, 900 * kMs);
  EXPECT_EQ(all.wait_ns, 1700 * kMs) << "it has not run between a wake and its next wait";
  EXPECT_EQ(held.samples, 3u);
  EXPECT_EQ(held.wait_ns, (1700 - 5) * kMs);
}

// A thread that runs is at another instruction in each sample.
TEST(PlacesOfThread, KnowWhenAThreadWentToAnotherFunctionLongAgo) {
  constexpr std::uint32_t kOne = 1, kOther = 2;
  PlacesOfThread places;
  std::uint32_t path = 10;
  const auto run = [&](std::uint32_t function, std::uint64_t begin_ms, std::uint64_t end_ms) {
    for (std::uint64_t ms = begin_ms; ms < end_ms; ms += 10)
      places.note({ms * kMs, ms * kMs, false, 0}, path++, function);
    return path;
  };
  const std::uint32_t first_of_other = run(kOne, 1000, 1600);
  run(kOther, 1600, 9000);
  std::uint64_t in_one_ns = 0, in_all_ns = 0;
  // Of so many places only the longest are told: where that one ends is known all the same.
  for (const PlacesOfThread::Part& part : places.parts(1000 * kMs, 1605 * kMs)) {
    in_all_ns += part.time_ns;
    if (part.path < first_of_other) in_one_ns += part.time_ns;
  }
  EXPECT_EQ(in_all_ns, 605 * kMs);
  EXPECT_NEAR(static_cast<double>(in_one_ns), 600.0 * kMs, 10.0 * kMs);
}

// The same with a list of its own in each copy.
struct PlainPlaces {
  struct Place {
    std::uint64_t from_ns;
    std::uint32_t path, function;
  };
  std::vector<Place> places;
  // A thread that runs.
  void note(std::uint64_t time_ns, std::uint64_t last_ns, std::uint32_t path, std::uint32_t function) {
    if (!places.empty() && places.back().path == path) return;
    const std::uint64_t for_ns = last_ns != 0 ? (time_ns - last_ns) / 2 : 0;
    const std::uint64_t from_ns =
        std::max(time_ns - for_ns, places.empty() ? std::uint64_t{0} : places.back().from_ns);
    constexpr std::size_t kMost = PlacesOfThread::kMostPlaces;
    for (const bool within : {true, false}) {
      if (places.size() < kMost) break;
      std::vector<Place> kept;
      for (std::size_t i = 0; i < places.size(); ++i)
        if (i >= kMost / 2 || i % 2 == 0 || (within && places[i].function != kept.back().function))
          kept.push_back(places[i]);
      places = std::move(kept);
    }
    places.push_back({from_ns, path, function});
  }
  std::vector<std::uint32_t> paths(std::uint64_t begin_ns, std::uint64_t end_ns) const {
    std::map<std::uint32_t, std::uint64_t> by_path;
    std::uint64_t at_ns = begin_ns;
    std::uint32_t path = 0;
    const auto until = [&](std::uint64_t time_ns) {
      time_ns = std::min(time_ns, end_ns);
      if (time_ns <= at_ns) return;
      by_path[path] += time_ns - at_ns;
      at_ns = time_ns;
    };
    for (const Place& place : places) {
      until(place.from_ns);
      path = place.path;
    }
    until(end_ns);
    std::vector<std::uint32_t> found;
    for (const auto& [of, time_ns] : by_path) found.push_back(of);
    return found;
  }
};

TEST(PlacesOfThread, CopiesKeepWhatTheyKnewWhileTheThreadGoesOn) {
  std::mt19937_64 random(7);
  for (const std::uint32_t functions : {1u, 2u, 3u, 40u, 100'000u}) {
    PlacesOfThread places;
    PlainPlaces plain;
    std::vector<std::pair<PlacesOfThread, PlainPlaces>> copies;
    std::uint64_t time_ns = 0, last_ns = 0;
    const auto expect_same = [&](const PlacesOfThread& one, const PlainPlaces& other) {
      // At most kMostParts parts are told, so that many places at a time.
      for (std::size_t i = 0; i < other.places.size(); i += 16) {
        const std::uint64_t begin_ns = other.places[i].from_ns;
        const std::size_t end = std::min(i + 16, other.places.size() - 1);
        const std::uint64_t end_ns = other.places[end].from_ns + 1;
        std::vector<std::uint32_t> paths;
        for (const PlacesOfThread::Part& part : one.parts(begin_ns, end_ns)) paths.push_back(part.path);
        std::sort(paths.begin(), paths.end());
        ASSERT_EQ(paths, other.paths(begin_ns, end_ns)) << functions << " functions, from place " << i;
      }
    };
    for (int i = 0; i < 3000; ++i) {
      last_ns = time_ns;
      time_ns += 1000 + random() % 1000;
      const auto path = static_cast<std::uint32_t>(random() % 50'000);
      const auto function = static_cast<std::uint32_t>(i / 2 % functions);
      places.note({time_ns, time_ns, false, 0}, path, function);
      plain.note(time_ns, last_ns, path, function);
      if (i % 11 == 0) copies.emplace_back(places, plain);
      if (i % 500 == 250) {  // a copy that goes on by itself changes no other
        PlacesOfThread other = copies.back().first;
        other.note({time_ns + 5, time_ns + 5, false, 0}, 60'000, 0);
      }
    }
    expect_same(places, plain);
    for (const auto& [one, other] : copies) expect_same(one, other);
  }
}

// A history of its own takes 4 kB for each copy.
TEST(PlacesOfThread, CopiesShareTheirMemory) {
  constexpr std::size_t kCopies = 1 << 14;
  std::vector<PlacesOfThread> copies;
  copies.reserve(kCopies);
  PlacesOfThread places;
  std::uint32_t path = 1;
  const auto note = [&] {
    places.note({path * kMs, path * kMs, false, 0}, path, 1);
    ++path;
  };
  while (path < 1000) note();
  const std::uint64_t before = own_memory_bytes();
  for (std::size_t i = 0; i < kCopies; ++i) {
    note();
    copies.push_back(places);
  }
  EXPECT_LT(own_memory_bytes(), before + kCopies * 2048);
}

// It is woken at once and runs: the second part has no time of its own.
TEST_F(Recording, AWaitWhoseLastSampleIsItsEndIsCounted) {
  Sample s;
  s.words = {kLibc + 1};
  s.syscall_nr = SYS_futex;
  s.trigger = wire::Trigger::kBlocked;
  s.flags = wire::kInSyscall | wire::kAtWord;
  s.data_address = 0x7000;
  for (const std::uint64_t ms : {30, 60}) {
    s.time_ns = kStart + ms * kMs;
    fake_.sample(0, s);
  }
  s = {};
  s.words = {kProgram + 0x100};
  s.time_ns = kStart + 70 * kMs;
  s.cpu_ns = 10 * kMs;
  fake_.sample(0, s);
  recorder().poll(kStart + 80 * kMs);
  for (int i = 0; i < 2; ++i) recorder().poll(kStart + 700 * kMs);
  fake_.thread_end(0, kStart + 700 * kMs, 20 * kMs);
  recorder().poll(kStart + 701 * kMs);
  const auto waits = recorder().report(kStart + 701 * kMs).mutex_waits;
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits.begin()->second.samples, 1u);
  EXPECT_EQ(waits.begin()->second.wait_ns, 60 * kMs);
}

// Of a thread that runs, at a spin lock unless that is 0.
Sample sample_at(std::uint64_t time_ns, std::uint64_t cpu_ns, std::uint64_t pc, std::uint64_t lock) {
  Sample s;
  s.words = {pc};
  s.time_ns = time_ns;
  s.cpu_ns = cpu_ns;
  if (lock != 0) s.flags = wire::kAtSpinLock;
  s.data_address = lock;
  return s;
}

TEST_F(Recording, SpinningForALockIsCpuTimeAndHeldWhereItIsReleased) {
  constexpr std::uint64_t kLock = 0x7000;
  fake_.thread(1, 101, kStart);
  const auto sample = [&](std::uint32_t slot, std::uint64_t ms, std::uint64_t cpu_ms, std::uint64_t pc,
                          std::uint64_t lock = 0) {
    fake_.sample(slot, sample_at(kStart + ms * kMs, cpu_ms * kMs, pc, lock));
  };
  const auto release = [&](std::uint32_t slot, std::uint64_t ms, std::uint64_t behind_call) {
    fake_.tie(slot, wire::ThreadTieKind::kUnlocked, kStart + ms * kMs, behind_call, kLock, 0);
  };
  sample(0, 10, 10, kProgram + 0x100);
  sample(0, 20, 17, kLibc + 1, kLock);  // 3 ms without a processor
  sample(0, 22, 19, kLibc + 1, kLock);
  sample(0, 30, 27, kLibc + 1, kLock);
  sample(0, 40, 37, kProgram + 0x100);
  release(0, 41, kProgram + 0x501);
  sample(0, 50, 47, kLibc + 1, kLock);
  sample(0, 60, 57, kProgram + 0x100);
  sample(1, 5, 5, kProgram + 0x200);
  release(1, 24, kProgram + 0x301);
  release(1, 33, kProgram + 0x401);
  sample(1, 45, 45, kProgram + 0x200);
  for (int i = 0; i < 2; ++i) recorder().poll(kStart + 570 * kMs);
  const ProcessReport report = recorder().report(kStart + 570 * kMs);
  std::map<std::string, RawMutexWait> by_holder;
  for (const auto& [key, wait] : report.mutex_waits) {
    EXPECT_EQ(key.address, kLock);
    EXPECT_EQ(text(key.path), "libc.so.6+1!");
    by_holder[text(key.holder_path)].add(wait);
  }
  ASSERT_EQ(by_holder.size(), 3u);
  EXPECT_EQ(by_holder["program+300!"].wait_ns, 9 * kMs) << "both samples of that wait";
  EXPECT_EQ(by_holder["program+400!"].wait_ns, 8 * kMs);
  EXPECT_EQ(by_holder[text(0)].wait_ns, 10 * kMs) << "nobody but itself has released it";
  EXPECT_EQ(by_holder["program+300!"].samples, 2u);
}

// A thread that spins and lacks a processor is seen late: by a sample that was due for its standing still, or
// when the lock was free already.
TEST_F(Recording, WaitsForASpinLockGoOnWhileThereIsNoProcessor) {
  constexpr std::uint64_t kLock = 0x7000;
  constexpr std::uint64_t kWaits = 200;  // before the rings are read
  fake_.thread(1, 101, kStart);
  const auto sample = [&](std::uint64_t us, std::uint64_t cpu_us, std::uint64_t pc, std::uint64_t lock,
                          wire::Trigger trigger) {
    Sample s = sample_at(kStart + us * 1000, cpu_us * 1000, pc, lock);
    s.trigger = trigger;
    fake_.sample(0, s);
  };
  std::uint64_t us = 10'000, cpu_us = 10'000;
  sample(us, cpu_us, kProgram + 0x100, 0, wire::Trigger::kCpuTimer);
  for (std::uint64_t i = 0; i < kWaits; ++i, us += 40'000, cpu_us += 10'000) {
    sample(us + 2'000, cpu_us + 2'000, kLibc + 1, kLock, wire::Trigger::kCpuTimer);
    sample(us + 12'000, cpu_us + 2'000, kLibc + 1, kLock, wire::Trigger::kBlocked);
    fake_.tie(1, wire::ThreadTieKind::kUnlocked, kStart + (us + 20'000) * 1000, kProgram + 0x301, kLock, 0);
    sample(us + 20'100, cpu_us + 5'000, kLibc + 1, kLock, wire::Trigger::kCpuTimer);
    sample(us + 30'000, cpu_us + 10'000, kProgram + 0x100, 0, wire::Trigger::kCpuTimer);
  }
  for (int i = 0; i < 2; ++i) recorder().poll(kStart + us * 1000 + 500 * kMs);
  const ProcessReport report = recorder().report(kStart + us * 1000 + 500 * kMs);
  std::map<std::string, RawMutexWait> by_holder;
  for (const auto& [key, wait] : report.mutex_waits) by_holder[text(key.holder_path)].add(wait);
  ASSERT_EQ(by_holder.size(), 1u);
  EXPECT_EQ(by_holder["program+300!"].wait_ns, kWaits * 5 * kMs);
}

TEST_F(Recording, ALongSpinIsOfWhoReleasesTheLockInTheEnd) {
  constexpr std::uint64_t kLock = 0x7000, kSamples = 1000;
  fake_.thread(1, 101, kStart);
  const auto sample = [&](std::uint64_t ms, std::uint64_t pc, std::uint64_t lock) {
    fake_.sample(0, sample_at(kStart + ms * kMs, ms * kMs, pc, lock));
  };
  sample(1, kProgram + 0x100, 0);
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    sample(2 + i, kLibc + 1, kLock);
    if (i % 100 == 0) recorder().poll(kStart + (2 + i) * kMs);
  }
  const auto under_way = recorder().report(kStart + (1 + kSamples) * kMs).mutex_waits;
  ASSERT_EQ(under_way.size(), 1u);
  EXPECT_GE(under_way.begin()->second.wait_ns, 900 * kMs);
  fake_.tie(1, wire::ThreadTieKind::kUnlocked, kStart + (2 + kSamples) * kMs, kProgram + 0x301, kLock, 0);
  sample(3 + kSamples, kProgram + 0x100, 0);
  for (int i = 0; i < 2; ++i) recorder().poll(kStart + (600 + kSamples) * kMs);
  const auto waits = recorder().report(kStart + (600 + kSamples) * kMs).mutex_waits;
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(text(waits.begin()->first.holder_path), "program+300!");
  EXPECT_EQ(waits.begin()->second.wait_ns, kSamples * kMs);
  EXPECT_EQ(waits.begin()->second.samples, kSamples);
  EXPECT_EQ(waits.begin()->second.longest_ns, kMs);
}

// Many releases of one lock do not drive out the few wakes of others.
TEST_F(Recording, ReleasesOfSpinLocksHaveRoomOfTheirOwn) {
  constexpr std::uint64_t kLock = 0x7000, kWord = 0x8000;
  fake_.thread(1, 101, kStart);
  Sample waiter;
  waiter.words = {kLibc + 1};
  waiter.time_ns = kStart + 10 * kMs;
  waiter.trigger = wire::Trigger::kBlocked;
  waiter.flags = wire::kInSyscall | wire::kAtWord;
  waiter.syscall_nr = SYS_futex;
  waiter.data_address = kWord;
  fake_.sample(0, waiter);
  Sample waker;
  waker.words = {kProgram + 0x200};
  for (const std::uint64_t ms : {0, 15}) {
    waker.time_ns = kStart + ms * kMs;
    waker.cpu_ns = ms * kMs;
    fake_.sample(1, waker);
  }
  fake_.tie(1, wire::ThreadTieKind::kWoke, kStart + 20 * kMs, kStart + 20 * kMs, kWord, 0);
  recorder().poll(kStart + 30 * kMs);
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    fake_.tie(1, wire::ThreadTieKind::kUnlocked, kStart + 30 * kMs + i, kProgram + 0x301, kLock, 0);
    if (i % 500 == 0) recorder().poll(kStart + 31 * kMs);
  }
  Sample after;
  after.words = {kProgram + 0x100};
  after.time_ns = kStart + 40 * kMs;
  after.cpu_ns = kMs;
  fake_.sample(0, after);
  for (int i = 0; i < 2; ++i) recorder().poll(kStart + 600 * kMs);
  const auto waits = recorder().report(kStart + 600 * kMs).mutex_waits;
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(text(waits.begin()->first.holder_path), "program+200!");
}

TEST_F(Recording, AMutexIsInAnObjectFile) {
  Sample waiter;
  waiter.words = {kLibc + 1, kProgram + 0x100};
  waiter.flags = wire::kInSyscall | wire::kAtMutex;
  waiter.syscall_nr = SYS_futex;
  waiter.trigger = wire::Trigger::kBlocked;
  waiter.data_address = kProgram + 0x340;
  waiter.mutex_holder = 4711;
  for (const std::uint64_t at_ms : {10, 40, 50}) {
    waiter.time_ns = kStart + at_ms * kMs;
    fake_.sample(0, waiter);
  }
  recorder().poll(kStart + 60 * kMs);
  const auto waits = recorder().report(kStart + 60 * kMs).mutex_waits;
  ASSERT_EQ(waits.size(), 1u);
  const auto& [key, wait] = *waits.begin();
  ASSERT_LT(key.module, store_.tables().modules.size());
  EXPECT_TRUE(store_.tables().modules[key.module]->path.ends_with("program"));
  EXPECT_EQ(key.elf_address, 0x340u);
  EXPECT_EQ(wait.samples, 3u);
  EXPECT_GE(wait.longest_ns, 30 * kMs);
  EXPECT_LT(wait.longest_ns, wait.wait_ns);
}

TEST_F(Recording, ThreadsHaveSpansUntilTheyMakeAndJoinOthers) {
  using wire::ThreadTieKind;
  constexpr std::uint64_t kPthread = 0x7f00'1234'5700;
  fake_.thread(1, 101, kStart + 10 * kMs);
  const auto sample = [&](std::uint32_t slot, std::uint64_t ms, std::uint64_t cpu_ms, std::uint64_t pc,
                          bool blocked = false) {
    Sample s;
    s.words = {pc};
    s.time_ns = kStart + ms * kMs;
    s.cpu_ns = cpu_ms * kMs;
    if (blocked) {
      s.trigger = wire::Trigger::kBlocked;
      s.flags = wire::kInSyscall | wire::kOnThread;
      s.syscall_nr = SYS_futex;
    }
    fake_.sample(slot, s);
  };
  sample(0, 10, 10, kProgram + 0x100);
  fake_.tie(0, ThreadTieKind::kCreated, kStart + 10 * kMs, kStart + 11 * kMs);
  sample(0, 20, 20, kProgram + 0x200);
  sample(0, 30, 30, kProgram + 0x200);
  sample(0, 50, 30, kLibc + 1, true);
  fake_.tie(0, ThreadTieKind::kJoined, kStart + 30 * kMs, kStart + 60 * kMs, kPthread);
  sample(0, 70, 40, kProgram + 0x300);
  fake_.thread_end(0, kStart + 80 * kMs, 50 * kMs);
  fake_.tie(1, ThreadTieKind::kBegan, kStart + 10 * kMs, kStart + 10 * kMs, kPthread, fake_.slot(0).tid);
  sample(1, 20, 10, kProgram + 0x400);
  sample(1, 58, 48, kProgram + 0x400);
  fake_.thread_end(1, kStart + 58 * kMs, 48 * kMs);
  recorder().poll(kStart + 90 * kMs);
  EXPECT_TRUE(recorder().report(kStart + 90 * kMs).thread_spans.empty()) << "there may be more";
  recorder().finish(kStart + 90 * kMs);
  const std::vector<RawThreadSpan> spans = recorder().report(kStart + 90 * kMs).thread_spans;
  ASSERT_EQ(spans.size(), 4u);
  const auto is = [&](const RawThreadSpan& span, std::uint32_t thread, shard::SpanEnd how,
                      std::uint32_t other, std::uint64_t begin_ms, std::uint64_t call_ms,
                      std::uint64_t end_ms) {
    EXPECT_EQ(span.thread, thread);
    EXPECT_EQ(span.how, how);
    EXPECT_EQ(span.other, other);
    EXPECT_EQ((span.begin_ns - kStart) / kMs, begin_ms);
    EXPECT_EQ((span.call_ns - kStart) / kMs, call_ms);
    EXPECT_EQ((span.end_ns - kStart) / kMs, end_ms);
  };
  is(spans[0], 0, shard::SpanEnd::kCreate, 1, 0, 10, 11);
  is(spans[1], 0, shard::SpanEnd::kJoin, 1, 11, 30, 60);
  is(spans[2], 0, shard::SpanEnd::kEnd, shard::kNone, 60, 80, 80);
  is(spans[3], 1, shard::SpanEnd::kEnd, shard::kNone, 10, 58, 58);
  ASSERT_EQ(spans[1].times.size(), 1u) << "the join is not in it";
  EXPECT_EQ(text(spans[1].times[0].path), "program+200!");
  EXPECT_EQ(spans[1].times[0].wall_ns, 19 * kMs);
}

TEST_F(Recording, DamagedTiesOfThreadsAreCounted) {
  using wire::ThreadTieKind;
  fake_.tie(0, ThreadTieKind::kCreated, kStart + 10 * kMs, kStart + 9 * kMs);
  fake_.tie(0, ThreadTieKind::kJoined, kStart + 10 * kMs, kStart + 3'600'000 * kMs, 5);
  fake_.tie(0, static_cast<ThreadTieKind>(77), kStart + 10 * kMs, kStart + 11 * kMs);
  fake_.tie(0, ThreadTieKind::kJoined, kStart + 10 * kMs, kStart + 11 * kMs, 5);
  fake_.thread_end(0, kStart + 30 * kMs, 0);
  recorder().poll(kStart + 40 * kMs);
  recorder().finish(kStart + 40 * kMs);
  const ProcessReport report = recorder().report(kStart + 40 * kMs);
  EXPECT_EQ(report.drops.at("damaged_record"), 3u);
  ASSERT_EQ(report.thread_spans.size(), 2u);
  EXPECT_EQ(report.thread_spans[0].other, shard::kNone) << "a thread that is not known";
}

TEST_F(Recording, AMutexWhoseHolderIsNotKnownIsWaitedFor) {
  Sample waiter;
  waiter.words = {kLibc + 1};
  waiter.flags = wire::kInSyscall | wire::kAtMutex;
  waiter.syscall_nr = SYS_futex;
  waiter.trigger = wire::Trigger::kBlocked;
  waiter.data_address = 0x7000;
  waiter.mutex_holder = 4711;
  waiter.time_ns = kStart + 10 * kMs;
  fake_.sample(0, waiter);
  fake_.thread_end(0, kStart + 30 * kMs, 0);
  recorder().poll(kStart + 40 * kMs);
  const auto waits = recorder().report(kStart + 40 * kMs).mutex_waits;
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits.begin()->first.holder_path, 0u);
  EXPECT_EQ(waits.begin()->second.wait_ns, (10 + 20) * kMs) << "until the thread ended";
}

TEST_F(Recording, PollOnASocketIsIdle) {
  Sample s;
  s.words = {kLibc + 1};
  s.flags = wire::kInSyscall | wire::kOnSocket;
  s.syscall_nr = SYS_poll;
  const Row row = only(s);
  EXPECT_EQ(row.path, "libc.so.6+1!;sys7;socket");
  EXPECT_EQ(row.category, Category::kIdle);
}

TEST_F(Recording, RegionsAreTheOutermostFrames) {
  fake_.region(2, wire::kNoRegion, "epoch");
  fake_.region(5, 2, "step");
  Sample s;
  s.words = {kLibc + 1, python_word(3), 7, kPython + 0x200, region_word(5), region_word(2)};
  const Row row = only(s);
  EXPECT_EQ(row.path, "[epoch];[step];python3.11+200;step:3;libc.so.6+1!");
  EXPECT_EQ(row.category, Category::kPython);
}

TEST_F(Recording, RegionsOfANativeProgramAreNotPython) {
  fake_.region(0, wire::kNoRegion, "solve");
  Sample s;
  s.words = {kLibc + 1, kPython + 1, region_word(0)};
  EXPECT_EQ(only(s).category, Category::kNative);
}

TEST_F(Recording, CallSitesInRegionsHaveThePathOfTheirSamples) {
  fake_.region(0, wire::kNoRegion, "solve");
  Sample s;
  s.mpi_op = wire::kMPI_Allreduce + 1;
  s.words = {kMpi + 2, kWrapper + 4, kProgram + 5, region_word(0)};
  fake_.site(3, wire::kMPI_Allreduce, 2, 10, 1000, 50, 300, 80, 80, {kProgram + 5, region_word(0)});
  EXPECT_EQ(only(s).path, "[solve];program+5;MPI_Allreduce");
  const ProcessReport report = recorder().report(kStart + 20 * kMs);
  ASSERT_EQ(report.calls.size(), 1u);
  EXPECT_EQ(report.calls.begin()->first.path, report.values.begin()->first.path);
}

TEST_F(Recording, AllLinesOfCodeThatCannotBeDescribedAreOneFrame) {
  auto* const slots = fake_.table<wire::CodeSlot>(fake_.header().code_slots_offset);
  slots[9].key = 9;
  slots[9].entry_offset = wire::kNoCodeEntry;
  Sample s;
  for (std::uint64_t i = 1; i <= 50; ++i) {
    s.time_ns = kStart + i * kMs;
    s.cpu_ns = i * kMs;
    s.words = {python_word(static_cast<std::uint32_t>(i)), 9};
    fake_.sample(0, s);
  }
  recorder().poll(s.time_ns);
  const auto found = rows(recorder().report(s.time_ns));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].path, "?");
  EXPECT_EQ(found[0].category, Category::kPython);
  EXPECT_EQ(store_.tables().pending.size(), 1u);
}

TEST_F(Recording, CodeDescribedLateIsStillResolved) {
  fake_.code(9, "late.py", "late", 1);
  auto* const slots = fake_.table<wire::CodeSlot>(fake_.header().code_slots_offset);
  const std::uint64_t place = slots[9].entry_offset.exchange(0);
  Sample s;
  s.words = {python_word(4), 9};
  s.time_ns = kStart + kMs;
  fake_.sample(0, s);
  recorder().poll(kStart + 2 * kMs);
  recorder().poll(kStart + 3 * kMs);
  EXPECT_EQ(rows(recorder().report(s.time_ns)).at(0).path, "?");
  slots[9].entry_offset = place;
  recorder().poll(kStart + 2000 * kMs);
  EXPECT_EQ(rows(recorder().report(s.time_ns)).at(0).path, "late:4");
}

class FewPaths : public Recording {
 protected:
  static StoreLimits limits() {
    StoreLimits few;
    few.nodes = 200;
    few.frames = 64;
    few.first_nodes = 4;
    few.short_nodes = 32;
    few.rows = 1000;
    few.process_rows = 1000;
    few.fewest_rows = 4;
    few.short_rows = 8;
    return few;
  }
  explicit FewPaths(const StoreLimits& most = limits()) : Recording(most) {}
  // A search of a tree: nearly every sample has a path of its own.
  ProcessReport search(std::uint64_t samples) {
    fake_.region(0, wire::kNoRegion, "solve");
    std::mt19937 random(7);
    for (std::uint64_t i = 1; i <= samples; ++i) {
      Sample s;
      s.time_ns = kStart + i * kMs;
      s.cpu_ns = i * kMs;
      s.words = {kProgram + 1 + i % 3};
      for (std::uint32_t way = random() % (1u << 16); way != 0; way /= 2)
        s.words.push_back(kProgram + (way % 2 == 0 ? 0x100 : 0x200));
      s.words.push_back(kProgram + 0x10);
      s.words.push_back(region_word(0));
      if (i % 7 == 0) {
        s.flags = wire::kInSyscall;
        s.syscall_nr = SYS_mmap;
      }
      fake_.sample(0, s);
      recorder().poll(s.time_ns);
    }
    return recorder().report(kStart + samples * kMs);
  }
  // Paths whose callers are left out are below the region and the first function, and keep their own
  // function.
  void expect_whole(const ProcessReport& report, std::uint64_t samples) {
    std::map<std::string, std::uint64_t> found, expected;
    std::uint64_t left_out = 0;
    for (const Row& row : rows(report)) {
      EXPECT_TRUE(row.path.starts_with("[solve];program+10;")) << row.path;
      found[row.path.substr(row.path.rfind("program+"))] += row.samples;
      if (row.path.find("...") != std::string::npos) left_out += row.samples;
    }
    for (std::uint64_t i = 1; i <= samples; ++i)
      ++expected["program+" + std::to_string(1 + i % 3) +
                 (i % 7 == 0 ? "!;sys" + std::to_string(SYS_mmap) : "!")];
    EXPECT_EQ(found, expected);
    EXPECT_GT(left_out, samples / 2);
    ASSERT_EQ(report.notes.size(), 1u);
    EXPECT_EQ(report.notes.begin()->first, shard::NoteCode::kCallersLeftOut);
  }
};

TEST_F(FewPaths, CallersAreLeftOutWhenThereAreTooManyNodes) {
  expect_whole(search(2000), 2000);
  EXPECT_LE(store_.tables().nodes.size(), 200u + 32u);
}

class FewRows : public FewPaths {
 protected:
  static StoreLimits few_rows() {
    StoreLimits few = limits();
    few.nodes = 1u << 20;
    few.rows = 20;
    return few;
  }
  FewRows() : FewPaths(few_rows()) {}
};

TEST_F(FewRows, CallersAreLeftOutWhenThereAreTooManyRows) {
  const ProcessReport report = search(2000);
  expect_whole(report, 2000);
  EXPECT_LE(report.values.size(), 20u + 8u);
  // The numbers of ended processes may belong to others now.
  recorder_.reset();
  EXPECT_TRUE(store_.take_rows(20));
  EXPECT_FALSE(store_.take_rows(1));
}

TEST_F(FewPaths, PathsOfTheirLastFrameAloneAreTheLastResort) {
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const std::uint32_t path = store_.leaf(0, store_.frame({RawKind::kKernel, i, 0}));
    EXPECT_TRUE(i < 199 || store_.is_short(path)) << i;
  }
  EXPECT_LE(store_.tables().nodes.size(), 200u + 32u + 1u);
  const std::uint32_t region = store_.region(0, store_.frame({RawKind::kRegion, 0, 0}));
  EXPECT_EQ(region, 0u);
}

TEST_F(FewPaths, LimitsAddressesOutsideAllModules) {
  Sample s;
  for (std::uint64_t i = 1; i <= 500; ++i) {
    s.time_ns = kStart + i * kMs;
    s.cpu_ns = i * kMs;
    s.words = {0x900'0000 + i, 0x800'0000 + i};
    fake_.sample(0, s);
    recorder().poll(s.time_ns);
  }
  std::uint64_t samples = 0;
  for (const Row& row : rows(recorder().report(s.time_ns))) samples += row.samples;
  EXPECT_EQ(samples, 500u);
  EXPECT_LE(store_.tables().pending.size(), 65u);
  EXPECT_LE(store_.tables().frames.size(), 66u);
}

// --- OpenMP ---

// Run time, agent and libc of a thread that waits in a region, or starts one.
class OpenMp : public Recording {
 protected:
  static constexpr std::uint64_t kRuntime = 0x80000;
  OpenMp() {
    fake_.module("/usr/lib/libgomp.so.1", kRuntime, kRuntime + 0x10000, kRuntime);
    fake_.openmp(wire::OmpMethod::kGomp, "libgomp.so.1");
    // The call path of the agent has the address of the call: one before that where it returns to.
    fake_.omp_region(2, 2, {kProgram + 0x1ff, kProgram + 0x300});
  }
  std::string worker(const Sample& given) {
    Sample sample = given;
    fake_.slot(1).start_function = kRuntime + 0x10;
    fake_.thread(1, 101, kStart);
    sample.time_ns = kStart + 10 * kMs;
    sample.cpu_ns = 10 * kMs;
    fake_.sample(1, sample);
    fake_.thread_end(1, kStart + 10 * kMs, 10 * kMs);
    fake_.thread_end(0, kStart, 0);
    recorder().poll(kStart + 20 * kMs);
    recorder().finish(kStart + 20 * kMs);
    for (const Row& row : rows(recorder().report(kStart + 20 * kMs)))
      if (row.wall != 0)
        return row.path + " " + shard::kCategoryNames[static_cast<std::size_t>(row.category)];
    return {};
  }
};

TEST_F(OpenMp, WorkersAreBelowTheRegionThatTheyWorkFor) {
  Sample sample;
  sample.flags = test::omp_flags(wire::OmpActivity::kWork);
  sample.words = {kProgram + 0x120, kProgram + 0x110, kAgent + 0x50,
                  kRuntime + 0x70,  kLibc + 0x300,    test::omp_word(2)};
  EXPECT_EQ(worker(sample), "program+300;program+200;program+110;program+120! native");
}

TEST_F(OpenMp, TheThreadThatBeganTheRegionHasTheSamePath) {
  Sample sample;
  sample.flags = test::omp_flags(wire::OmpActivity::kWork);
  sample.words = {kProgram + 0x120, kProgram + 0x110, kAgent + 0x50,   kRuntime + 0x60,
                  kAgent + 0x40,    kProgram + 0x200, kProgram + 0x300};
  EXPECT_EQ(only(sample).path, "program+300;program+200;program+110;program+120!");
}

TEST_F(OpenMp, WhatATeamOfATeamDoesIsBelowBothRegions) {
  fake_.omp_region(3, 2,
                   {kProgram + 0x13f, kProgram + 0x110, kAgent + 0x50, kRuntime + 0x70, test::omp_word(2)});
  Sample sample;
  sample.flags = test::omp_flags(wire::OmpActivity::kWork);
  sample.words = {kProgram + 0x180, kAgent + 0x50, kRuntime + 0x70, kLibc + 0x300, test::omp_word(3)};
  EXPECT_EQ(worker(sample), "program+300;program+200;program+110;program+140;program+180! native");
}

TEST_F(OpenMp, RegionsOfTheProgramStayOutermost) {
  fake_.region(1, wire::kNoRegion, "step");
  fake_.region(2, wire::kNoRegion, "part");
  fake_.omp_region(3, 2, {kProgram + 0x1ff, region_word(1)});
  Sample sample;
  sample.flags = test::omp_flags(wire::OmpActivity::kWork);
  sample.words = {kProgram + 0x120, kRuntime + 0x70, test::omp_word(3), region_word(2)};
  EXPECT_EQ(worker(sample), "[step];[part];program+200;program+120! native");
}

// The run time's own frames are not in front of the wait, and its system call is no wait for a lock.
TEST_F(OpenMp, WaitingIsNoWorkAndNoLock) {
  Sample sample;
  sample.flags = test::omp_flags(wire::OmpActivity::kBarrier) | wire::kInSyscall;
  sample.syscall_nr = SYS_futex;
  sample.words = {kRuntime + 0x99, kRuntime + 0x90, kAgent + 0x50, kProgram + 0x110,
                  kAgent + 0x50,   kRuntime + 0x60, kAgent + 0x40, kProgram + 0x200};
  const Row row = only(sample);
  EXPECT_EQ(row.path, "program+200;program+110;omp2");
  EXPECT_EQ(row.category, Category::kIdle);
}

TEST_F(OpenMp, WorkerWithoutARegionIsInItsPool) {
  Sample sample;
  sample.flags = test::omp_flags(wire::OmpActivity::kIdle);
  sample.words = {kRuntime + 0x99, kRuntime + 0x90, kLibc + 0x300};
  EXPECT_EQ(worker(sample), "[OpenMP threads];omp7 idle");
}

// Though it runs while a line of Python is in a call of its library.
TEST_F(OpenMp, WorkerThatWaitsInALoopIsNobodys) {
  fake_.slot(1).start_function = kRuntime + 0x10;
  fake_.thread(1, 101, kStart);
  Sample main, idle;
  main.words = {kRuntime + 1, kNumpy + 0x10, python_word(3), 7};
  idle.flags = test::omp_flags(wire::OmpActivity::kIdle);
  idle.words = {kRuntime + 0x99, kRuntime + 0x90, kLibc + 0x300};
  for (std::uint64_t i = 1; i <= 3; ++i) {
    main.time_ns = kStart + 10 * i * kMs;
    main.cpu_ns = 10 * i * kMs;
    fake_.sample(0, main);
    idle.time_ns = main.time_ns + 5 * kMs;
    idle.cpu_ns = main.cpu_ns;
    fake_.sample(1, idle);
    recorder().poll(idle.time_ns);
  }
  recorder().finish(idle.time_ns);
  for (const Row& row : rows(recorder().report(idle.time_ns))) {
    if (row.main || row.wall == 0) continue;
    EXPECT_EQ(row.path, "[OpenMP threads];omp7");
  }
}

TEST_F(OpenMp, ARegionThatIsNotDescribedJoinsNothing) {
  Sample sample;
  sample.flags = test::omp_flags(wire::OmpActivity::kWork);
  sample.words = {kProgram + 0x120, kRuntime + 0x70, test::omp_word(9)};
  EXPECT_EQ(worker(sample), "[OpenMP threads];program+120! native");
}

TEST_F(OpenMp, SumsAreReadByThreadAndByConstruct) {
  wire::OmpSite& region = fake_.omp_region(2, 2, {kRuntime + 0x99, kProgram + 0x200, kProgram + 0x300});
  region.count = 3;
  region.time_ns = 900;
  region.mpi_ns = 50;
  region.longest_ns = 700;
  region.asked = 4;
  region.code = kProgram + 0x101;
  wire::OmpRow& worker = fake_.omp_row(0, 2, 1, 3, 880, 100);
  worker.inner_wait_ns = 60;
  worker.schedule_ns = 20;
  fake_.omp_row(1, 2, 0, 3, 900, 0);
  fake_.omp_construct(5, 2, 2, wire::OmpConstruct::kLoop, kProgram + 0x140);
  wire::OmpRow& loop = fake_.omp_row(2, 5, 1, 3, 500, 60);
  loop.chunks = 30;
  loop.iterations = 300;
  loop.schedules = 1u << 30 | wire::kOmpGuided;  // of these, what is known
  fake_.omp_row(3, 5, 0, 3, 600, 0).chunks = 10;
  fake_.header().openmp.processors[0] = 0b101;
  fake_.header().openmp.flags = wire::kOmpOtherRuntime;
  recorder().poll(kStart + 10 * kMs);
  const RawOpenMp openmp = recorder().report(kStart + 10 * kMs).openmp;
  EXPECT_EQ(openmp.method, wire::OmpMethod::kGomp);
  EXPECT_EQ(openmp.runtime, "libgomp.so.1");
  EXPECT_EQ(openmp.flags, wire::kOmpOtherRuntime);
  EXPECT_EQ(openmp.processors[0], 0b101u);
  ASSERT_EQ(openmp.regions.size(), 1u);
  const auto& [key, sums] = *openmp.regions.begin();
  EXPECT_EQ(text(key.path), "program+300;program+200");
  EXPECT_EQ(key.threads, 2u);
  EXPECT_TRUE(key.main);
  const RawTables& tables = store_.tables();
  const auto body = tables.region_bodies.find(tables.nodes[key.path].frame);
  ASSERT_NE(body, tables.region_bodies.end());
  EXPECT_EQ(tables.frames[body->second].kind, RawKind::kNativeReturn);
  EXPECT_EQ(tables.frames[body->second].b, 0x101u);
  EXPECT_EQ(sums.count, 3u);
  EXPECT_EQ(sums.time_ns, 900u);
  EXPECT_EQ(sums.mpi_ns, 50u);
  EXPECT_EQ(sums.longest_ns, 700u);
  EXPECT_EQ(sums.asked, 4u);
  EXPECT_EQ(sums.unfinished, 0u);
  ASSERT_EQ(sums.threads.size(), 2u);
  EXPECT_EQ(sums.threads.at(0).time_ns, 900u);
  EXPECT_EQ(sums.threads.at(1).time_ns, 880u);
  EXPECT_EQ(sums.threads.at(1).wait_ns, 100u);
  EXPECT_EQ(sums.threads.at(1).inner_wait_ns, 60u);
  EXPECT_EQ(sums.threads.at(1).schedule_ns, 20u);
  ASSERT_EQ(sums.constructs.size(), 1u);
  const auto& [construct, amounts] = *sums.constructs.begin();
  EXPECT_EQ(text(construct.path), "program+300;program+200;program+140");
  EXPECT_EQ(construct.construct, wire::OmpConstruct::kLoop);
  EXPECT_EQ(amounts.count, 6u);
  EXPECT_EQ(amounts.time_ns, 1100u);
  EXPECT_EQ(amounts.wait_ns, 60u);
  EXPECT_EQ(amounts.chunks, 40u);
  EXPECT_EQ(amounts.iterations, 300u);
  EXPECT_EQ(amounts.schedules, std::uint8_t{wire::kOmpGuided});
  EXPECT_EQ(amounts.longest_ns, 600u);
  EXPECT_EQ(amounts.threads, 2u);
}

TEST_F(OpenMp, RegionUnderWayCountsUntilNow) {
  fake_.slot(0).mpi_time_ns = 3 * kMs;
  fake_.header().openmp.region_site = 2;
  fake_.header().openmp.region_mpi_ns = kMs;
  fake_.header().openmp.region_since_ns = kStart + 4 * kMs;
  recorder().poll(kStart + 10 * kMs);
  const RawOpenMp openmp = recorder().report(kStart + 10 * kMs).openmp;
  ASSERT_EQ(openmp.regions.size(), 1u);
  const RawOmpRegion& region = openmp.regions.begin()->second;
  EXPECT_EQ(region.count, 0u);
  EXPECT_EQ(region.unfinished, 1u);
  EXPECT_EQ(region.time_ns, 6 * kMs);
  EXPECT_EQ(region.mpi_ns, 2 * kMs);
}

TEST_F(OpenMp, RowsThatCannotBeTrueAreCounted) {
  fake_.omp_region(4, 0, {kProgram + 0x100}).count = 1;
  fake_.omp_row(0, FakeSegment::kOmpSites, 0, 1, 10, 0);
  fake_.omp_row(1, 2, 1u << 20, 1, 10, 0);
  recorder().poll(kStart + 10 * kMs);
  const ProcessReport report = recorder().report(kStart + 10 * kMs);
  EXPECT_TRUE(report.openmp.regions.empty());
  EXPECT_EQ(report.drops.at("damaged_openmp"), 3u);
}

// By series: {time since kStart in ms: amount}.
using OverTime = std::map<std::string, std::map<std::uint64_t, std::uint64_t>>;

class OpenMpOverTime : public OpenMp {
 protected:
  // Regions of two threads have ended, of which the second has waited.
  void add_regions(std::uint64_t ms, std::uint64_t wait_ms) {
    wire::OmpSite& region = fake_.omp_region(2, 2, {kProgram + 0x1ff, kProgram + 0x300});
    region.count += 1;
    region.time_ns += ms * kMs;
    for (const std::uint32_t number : {0u, 1u}) {
      wire::OmpRow& row = fake_.omp_row(number, 2, number, region.count, region.time_ns, 0);
      waited_ns_[number] += number * wait_ms * kMs;
      row.wait_ns = waited_ns_[number];
    }
  }
  void begin_region(std::uint64_t ms) {
    fake_.header().openmp.region_site = 2;
    fake_.header().openmp.region_since_ns = kStart + ms * kMs;
  }
  void end_region() { fake_.header().openmp.region_since_ns = 0; }
  OverTime over_time(std::uint64_t now_ms) {
    OverTime found;
    SeriesBlock block = recorder().report(kStart + now_ms * kMs).openmp_series;
    block.for_each(grid_, [&](std::uint32_t column, std::uint32_t bin, std::uint64_t value) {
      const std::uint64_t at_ns = (grid_.first() + bin) * grid_.width_ns() - 5'000'000'000;
      found[std::string(shard::kOmpSeries[column].first)][at_ns / kMs] = value;
    });
    return found;
  }
  // Between two times; the bins are of 1 ms as long as nothing is looked at for more than a second.
  static std::uint64_t sum(const OverTime& all, const std::string& name, std::uint64_t from_ms = 0,
                           std::uint64_t to_ms = UINT64_MAX) {
    std::uint64_t sum_ns = 0;
    const auto found = all.find(name);
    if (found == all.end()) return 0;
    for (const auto& [at, value] : found->second)
      if (at >= from_ms && at < to_ms) sum_ns += value;
    return sum_ns;
  }
  std::uint64_t waited_ns_[2] = {0, 0};
};

TEST_F(OpenMpOverTime, RegionsBelongToTheTimeSinceTheLastLook) {
  add_regions(80, 10);
  recorder().poll(kStart + 100 * kMs);
  add_regions(100, 40);
  recorder().poll(kStart + 200 * kMs);
  const OverTime all = over_time(200);
  EXPECT_EQ(sum(all, "openmp_region_ns", 0, 100), 80 * kMs);
  EXPECT_EQ(sum(all, "openmp_region_ns", 100, 200), 100 * kMs);
  EXPECT_EQ(sum(all, "openmp_team_ns"), 2 * 180 * kMs);
  EXPECT_EQ(sum(all, "openmp_wait_ns", 0, 100), 10 * kMs);
  EXPECT_EQ(sum(all, "openmp_wait_ns", 100, 200), 40 * kMs);
  EXPECT_EQ(sum(all, "openmp_threads_ns"), 2 * 180 * kMs);
  EXPECT_FALSE(all.contains("openmp_one_by_one_ns")) << "zeros are not kept";
}

TEST_F(OpenMpOverTime, ALongRegionHasAllOfItsTimeOnceItHasEnded) {
  add_regions(40, 0);
  begin_region(40);
  recorder().poll(kStart + 100 * kMs);
  recorder().poll(kStart + 400 * kMs);
  EXPECT_EQ(sum(over_time(450), "openmp_region_ns", 40, 450), 410 * kMs) << "it is under way";
  EXPECT_EQ(sum(over_time(450), "openmp_threads_ns", 40, 450), 0u) << "what its threads do is not known";
  end_region();
  add_regions(420, 210);  // until 460; nothing comes after it
  recorder().poll(kStart + 500 * kMs);
  const OverTime all = over_time(500);
  EXPECT_EQ(sum(all, "openmp_region_ns", 0, 40), 40 * kMs);
  EXPECT_EQ(sum(all, "openmp_region_ns", 40, 400), 360 * kMs) << "all of the time in which it was seen";
  EXPECT_EQ(sum(all, "openmp_region_ns", 400, 500), 60 * kMs);
  EXPECT_NEAR(static_cast<double>(sum(all, "openmp_wait_ns", 40, 400)), 180.0 * kMs, 1);
  EXPECT_EQ(sum(all, "openmp_wait_ns"), 210 * kMs);
}

TEST_F(OpenMpOverTime, TheRegionUnderWayEndsWhatHasEndedBefore) {
  add_regions(60, 0);
  begin_region(60);
  recorder().poll(kStart + 100 * kMs);
  EXPECT_EQ(sum(over_time(100), "openmp_threads_ns", 60), 0u);
  EXPECT_EQ(sum(over_time(100), "openmp_threads_ns", 0, 60), 120 * kMs);
}

// Whenever it looks, the series add up to the tables, of regions inside others, of other threads and of what
// cannot be true nothing, of constructs what they tell of waiting one by one and of asking.
TEST_F(OpenMpOverTime, TheSumsAreThoseOfTheTables) {
  wire::OmpSite& inner = fake_.omp_region(3, 2, {kProgram + 0x400});
  inner.level = 1;
  inner.count = 1;
  inner.time_ns = 7 * kMs;
  fake_.omp_row(2, 3, 0, 1, 7 * kMs, 0);
  wire::OmpSite& shared = fake_.omp_region(4, 2, {kProgram + 0x500});
  shared.shared = 1;
  shared.count = 1;
  shared.time_ns = 9 * kMs;
  fake_.omp_row(3, 4, 0, 1, 9 * kMs, 0);
  fake_.omp_row(4, 2, 7, 1, 9 * kMs, 0);  // the team has two threads
  fake_.omp_construct(5, 2, 2, wire::OmpConstruct::kCritical, kProgram + 0x140);
  fake_.omp_construct(6, 2, 2, wire::OmpConstruct::kLoop, kProgram + 0x150);
  for (std::uint64_t at = 50; at <= 1000; at += 50) {
    add_regions(30, at / 50);
    fake_.omp_row(5, 5, 1, 1, at * kMs, at * kMs / 10);
    fake_.omp_row(6, 6, 1, 1, at * kMs, 0).schedule_ns = at * kMs / 20;
    fake_.header().openmp.region_site = 2;
    fake_.header().openmp.region_since_ns = at % 100 == 0 ? 0 : kStart + (at - 10) * kMs;
    recorder().poll(kStart + at * kMs);
  }
  const ProcessReport report = recorder().report(kStart + 1000 * kMs);
  shard::OmpSums tables;
  for (const auto& [key, region] : report.openmp.regions) {
    if (!shard::OmpSums::counts(key.main ? 1 : 0, key.level)) continue;
    shard::OmpRegion row;
    row.threads = key.threads;
    row.time_ns = region.time_ns;
    for (const auto& [number, thread] : region.threads) {
      row.threads_ns += thread.time_ns;
      row.wait_ns += thread.wait_ns;
    }
    tables.add(row);
    for (const auto& [construct_key, construct] : region.constructs) {
      shard::OmpConstruct of;
      of.kind = static_cast<shard::OmpKind>(construct_key.construct);
      of.wait_ns = construct.wait_ns;
      of.schedule_ns = construct.schedule_ns;
      tables.add(of);
    }
  }
  EXPECT_EQ(tables.region_ns, 20 * 30 * kMs);
  EXPECT_EQ(tables.one_by_one_ns, 100 * kMs);
  EXPECT_EQ(tables.asking_ns, 50 * kMs);
  const OverTime all = over_time(1000);
  for (const auto& [name, field] : shard::kOmpSeries)
    EXPECT_EQ(sum(all, std::string(name)), tables.*field) << name;
}

// What a forked child did in regions is no time of the rank's main thread.
TEST(OpenMpOfHelpers, IsNotTheMainThreads) {
  ProcessReport rank, helper;
  helper.openmp.method = wire::OmpMethod::kOmpt;
  helper.openmp.processors[0] = 1;
  helper.openmp.regions[{5, 2, wire::OmpConstruct::kParallel, 0, true}].count = 2;
  rank.openmp.regions[{5, 2, wire::OmpConstruct::kParallel, 0, true}].count = 1;
  TimeGrid grid;
  grid.begin(kStart, 5'000'000'000);
  helper.openmp_series.spread(grid, 0, kStart, kStart + kMs, 7);
  rank.add_amounts(helper, false);
  EXPECT_TRUE(rank.openmp_series.empty());
  EXPECT_EQ(rank.openmp.method, wire::OmpMethod::kOmpt);
  EXPECT_EQ(rank.openmp.processors[0], 0u);
  EXPECT_EQ((rank.openmp.regions.at({5, 2, wire::OmpConstruct::kParallel, 0, true}).count), 1u);
  EXPECT_EQ((rank.openmp.regions.at({5, 2, wire::OmpConstruct::kParallel, 0, false}).count), 2u);
}

// --- the table of threads ---

TEST_F(Recording, ThreadsHaveTheirNamesKindsAndTimes) {
  fake_.header().module_epoch = 1;
  fake_.module("/usr/lib/libgomp.so.1", 0x80000, 0x90000, 0x80000);
  const auto named = [&](std::uint32_t index, const char* name, const char* inherited) {
    std::snprintf(fake_.slot(index).name, sizeof fake_.slot(index).name, "%s", name);
    std::snprintf(fake_.slot(index).inherited_name, sizeof fake_.slot(index).inherited_name, "%s", inherited);
  };
  named(0, "python3", "python3");
  fake_.thread(1, 101, kStart + 5 * kMs);
  named(1, "python3", "python3");
  const std::string python_name = "loader-\xc3\xa9";
  std::array<std::uint64_t, wire::kThreadNameBytes / 8> words{};
  std::memcpy(words.data(), python_name.data(), python_name.size());
  for (std::size_t i = 0; i < words.size(); ++i) fake_.slot(1).python_name[i] = words[i];
  fake_.slot(1).python_name_bytes = static_cast<std::uint32_t>(python_name.size());
  fake_.slot(1).start_function = kPython + 0x10;
  fake_.thread(2, 102, kStart + 6 * kMs, false, 3 * kMs);
  named(2, "python3", "python3");
  fake_.slot(2).start_function = 0x80010;
  fake_.thread(3, 103, kStart + 7 * kMs);
  named(3, "writer", "python3");
  fake_.slot(3).start_function = kProgram + 0x10;

  Sample python;
  python.time_ns = kStart + 20 * kMs, python.cpu_ns = 10 * kMs, python.flags = wire::kHasPython;
  python.words = {kPython + 0x100, python_word(3), 7, kPython + 0x200};
  ASSERT_TRUE(fake_.sample(1, python));
  Sample pool;
  pool.time_ns = kStart + 20 * kMs, pool.cpu_ns = 13 * kMs;
  pool.words = {kProgram + 0x100, 0x80200, kLibc + 0x300};
  ASSERT_TRUE(fake_.sample(2, pool));
  fake_.thread_end(1, kStart + 30 * kMs, 17 * kMs);
  recorder().poll(kStart + 40 * kMs);
  const auto rows = recorder().report(kStart + 50 * kMs).thread_table.rows();
  ASSERT_EQ(rows.size(), 4u);
  using Kind = shard::ThreadKind;
  const auto is = [&](std::size_t i, std::int32_t tid, const std::string& name, Kind kind) {
    EXPECT_EQ(rows[i].tid, tid);
    EXPECT_EQ(rows[i].name, name);
    EXPECT_EQ(rows[i].kind, kind) << name;
  };
  is(0, 100, "main", Kind::kMain);
  is(1, 101, python_name, Kind::kPython);
  is(2, 102, "OpenMP", Kind::kOpenMp);
  is(3, 103, "writer", Kind::kNative);
  EXPECT_EQ(rows[1].cpu_ns, 17 * kMs);
  EXPECT_EQ(rows[1].elapsed_ns, 25 * kMs);
  EXPECT_EQ(rows[1].flags, 0);
  EXPECT_EQ(rows[2].flags, shard::Thread::kRuns);
  EXPECT_EQ(rows[2].elapsed_ns, 44 * kMs);
  EXPECT_GE(rows[2].cpu_ns, 10 * kMs) << "without what it had used before it was recorded";
  EXPECT_EQ(text(rows[3].path), "program+10!");
  // Paths of a pool's threads begin with its name.
  EXPECT_EQ(text(rows[2].last_path), "[OpenMP threads];libc.so.6+300;program+100!");
  EXPECT_EQ(text(rows[2].top_path), "[OpenMP threads];libc.so.6+300;program+100!");
  EXPECT_EQ(text(rows[1].top_path), "python3.11+200;step:3;python3.11+100!");
}

TEST_F(Recording, PoolIsSeenOnThePathWhereTheCppRuntimeStartsTheThread) {
  fake_.header().module_epoch = 1;
  fake_.module("/usr/lib/libstdc++.so.6", 0x90000, 0xa0000, 0x90000);
  fake_.module("/usr/lib/libtbb.so.12", 0xa0000, 0xb0000, 0xa0000);
  for (const std::uint32_t index : {1u, 2u}) {
    fake_.thread(index, 100 + static_cast<std::int32_t>(index), kStart);
    fake_.slot(index).start_function = 0x90010;
  }
  Sample s;
  s.time_ns = kStart + 20 * kMs, s.cpu_ns = 10 * kMs;
  s.words = {kProgram + 0x100, 0xa0200, 0x90200, kLibc + 0x300};
  ASSERT_TRUE(fake_.sample(1, s));
  s.words = {0xa0100, kProgram + 0x200, 0x90200, kLibc + 0x300};  // the program's own thread, which calls TBB
  ASSERT_TRUE(fake_.sample(2, s));
  recorder().poll(kStart + 40 * kMs);
  const auto rows = recorder().report(kStart + 50 * kMs).thread_table.rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].name, "TBB");
  EXPECT_EQ(text(rows[1].last_path),
            "[TBB threads];libc.so.6+300;libstdc++.so.6+200;libtbb.so.12+200;program+100!");
  EXPECT_EQ(rows[2].name, "");
  EXPECT_EQ(text(rows[2].last_path), "libc.so.6+300;libstdc++.so.6+200;program+200;libtbb.so.12+100!");
}

TEST_F(Recording, StackWithoutItsBeginningDoesNotTellThePool) {
  fake_.module("/usr/lib/libopenblas.so.0", 0x80000, 0x90000, 0x80000);
  fake_.thread(1, 101, kStart);
  Sample s;
  s.time_ns = kStart + 20 * kMs, s.cpu_ns = 10 * kMs, s.flags = wire::kNativeTruncated;
  s.words = {0x80100, 0x80200};
  ASSERT_TRUE(fake_.sample(1, s));
  recorder().poll(kStart + 40 * kMs);
  const auto rows = recorder().report(kStart + 50 * kMs).thread_table.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].name, "");
  EXPECT_EQ(text(rows[1].last_path), "libopenblas.so.0+200;libopenblas.so.0+100!");
}

TEST_F(Recording, SampleInTooManyRegionsIsDropped) {
  fake_.region(0, wire::kNoRegion, "solve");
  Sample s;
  s.time_ns = kStart + kMs;
  s.words.assign(1000, region_word(0));
  fake_.sample(0, s);
  recorder().poll(kStart + 2 * kMs);
  EXPECT_LE(store_.tables().nodes.size(), 1 + shard::kMaxRegionDepth);
  EXPECT_EQ(recorder().report(kStart + kMs).drops.at("damaged_record"), 1u);
}

TEST_F(Recording, RegionDescribedLaterIsStillResolved) {
  Sample s;
  s.words = {kProgram + 1, region_word(3)};
  s.time_ns = kStart + kMs;
  fake_.sample(0, s);
  recorder().poll(kStart + 2 * kMs);
  EXPECT_EQ(rows(recorder().report(kStart + kMs)).at(0).path, "?;program+1!");
  fake_.region(3, wire::kNoRegion, "late");
  recorder().poll(kStart + 3 * kMs);
  EXPECT_EQ(rows(recorder().report(kStart + kMs)).at(0).path, "[late];program+1!");
}

TEST_F(Recording, SamplesWithImpossibleRegionWordsAreDropped) {
  fake_.region(0, wire::kNoRegion, "solve");
  Sample s;
  s.time_ns = kStart + kMs;
  s.words = {kProgram + 1, region_word(FakeSegment::kRegions)};  // no such region
  fake_.sample(0, s);
  s.words = {kProgram + 1, region_word(0), kProgram + 2};  // a frame around a region
  fake_.sample(0, s);
  s.words = {region_word(0)};
  fake_.sample(0, s);
  recorder().poll(kStart + 2 * kMs);
  const ProcessReport report = recorder().report(kStart + kMs);
  EXPECT_EQ(report.drops.at("damaged_record"), 2u);
  std::set<std::string> paths;
  for (const Row& row : rows(report)) paths.insert(row.path);
  EXPECT_EQ(paths, (std::set<std::string>{"program+1!", "[solve];program+1!", "[solve]"}));
}

TEST_F(Recording, RegionTimesAreRead) {
  fake_.region(2, wire::kNoRegion, "epoch", 3, 900, 200, 400, 2);
  fake_.region(5, 2, "step", 30, 800, 20, 40, 17);
  fake_.region(6, wire::kNoRegion, "step", 1, 5, 5, 5);
  fake_.region(7, wire::kNoRegion, "never ended");
  fake_.region(0, 77, "orphan", 1, 5, 5, 5);
  fake_.region(1, 1, "its own parent", 1, 5, 5, 5);
  const ProcessReport report = recorder().report(kStart);
  std::map<std::string, RawRegion> found;
  for (const auto& [path, region] : report.regions) found[text(path)] = region;
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found.at("[epoch]").count, 3u);
  EXPECT_EQ(found.at("[epoch]").max_n, 2);
  EXPECT_EQ(found.at("[epoch];[step]").time_ns, 800u);
  EXPECT_EQ(found.at("[epoch];[step]").min_ns, 20u);
  EXPECT_EQ(found.at("[epoch];[step]").max_ns, 40u);
  EXPECT_EQ(found.at("[step]").max_n, -1);
  EXPECT_EQ(report.drops.at("damaged_region"), 2u);
}

TEST_F(Recording, RegionsOfSeveralProcessesAddUp) {
  RawRegion sum;
  sum.add({2, 30, 10, 20, 5});
  sum.add({0, 99, 99, 99, 99});
  sum.add({1, 25, 25, 25, 7});
  sum.add({1, 1, 1, 1, 8});
  EXPECT_EQ(sum.count, 4u);
  EXPECT_EQ(sum.time_ns, 56u);
  EXPECT_EQ(sum.min_ns, 1u);
  EXPECT_EQ(sum.max_ns, 25u);
  EXPECT_EQ(sum.max_n, 7);
}

TEST_F(Recording, PausedTimeHasNoPath) {
  Sample s;
  const auto push = [&](std::uint64_t ms, std::uint32_t flags, std::vector<std::uint64_t> words,
                        wire::Trigger trigger = wire::Trigger::kCpuTimer) {
    s.time_ns = kStart + ms * kMs;
    s.cpu_ns = ms * kMs;
    s.flags = flags;
    s.words = std::move(words);
    s.trigger = trigger;
    fake_.sample(0, s);
  };
  push(10, 0, {kProgram + 1});
  push(12, 0, {kProgram + 1}, wire::Trigger::kStop);
  push(20, wire::kPaused, {});
  push(32, wire::kPaused, {}, wire::Trigger::kStop);
  push(40, 0, {kProgram + 2});
  fake_.thread_end(0, kStart + 50 * kMs, 50 * kMs);
  fake_.header().paused_ns = 20 * kMs;
  recorder().poll(kStart + 60 * kMs);
  const ProcessReport report = recorder().report(kStart + 60 * kMs);
  EXPECT_EQ(rows(report), (std::vector<Row>{{"program+1!", Category::kNative, true, 12 * kMs, 12 * kMs, 1},
                                            {"program+2!", Category::kNative, true, 18 * kMs, 18 * kMs, 1}}));
  EXPECT_EQ(report.samples, 2u);
  EXPECT_EQ(report.running_samples, 2u);
  EXPECT_EQ(report.paused_ns, 20 * kMs);
}

// On standby but for a window from 100 ms to 150 ms; all of it in a call that began before.
TEST_F(Recording, OnlyTheWindowOfARunOnStandbyCounts) {
  wire::SegmentHeader& header = fake_.header();
  wire::ThreadSlot& slot = fake_.slot(0);
  header.outside_windows = wire::OutsideWindows::kNothing;
  header.record_phase = 1;
  header.record_off_ns = header.paused_since_ns = kStart;
  slot.mpi_call.op = wire::kMPI_Barrier;
  slot.mpi_call.state = wire::kCallUndescribed;
  slot.mpi_call.enter_ns = slot.mpi_call.recorded_before_ns = kStart;
  slot.mpi_call.peer = 77;  // of the call before
  slot.mpi_call.changes = 1;
  recorder().poll(kStart + 90 * kMs);
  const ProcessReport before = recorder().report(kStart + 90 * kMs);
  EXPECT_TRUE(before.windows.empty() && before.leaves_gaps);
  EXPECT_TRUE(before.calls_under_way.empty() && before.values.empty());
  EXPECT_EQ(before.mpi_ns, 0u);
  EXPECT_EQ(before.paused_ns, 90 * kMs);

  const auto push = [&](std::uint64_t ms, std::uint64_t pc) {
    Sample sample;
    sample.time_ns = kStart + ms * kMs;
    sample.cpu_ns = ms * kMs;
    sample.words = {pc};
    fake_.sample(0, sample);
  };
  slot.window_begin_cpu_ns = 100 * kMs;
  slot.window_begin_ns = header.window_begin_ns = kStart + 100 * kMs;
  header.record_missed_ns[wire::missed_place(2)] = 100 * kMs;
  header.record_phase = 2;
  header.paused_ns = 100 * kMs;
  header.paused_since_ns = 0;
  push(110, kProgram + 1);
  recorder().poll(kStart + 120 * kMs);
  const ProcessReport during = recorder().report(kStart + 120 * kMs);
  EXPECT_EQ(during.windows, (std::vector<RecordedWindow>{{kStart + 100 * kMs, kStart + 120 * kMs}}));
  ASSERT_EQ(during.calls_under_way.size(), 1u);
  EXPECT_EQ(during.calls_under_way[0].lasted_ns, 20 * kMs);
  EXPECT_EQ(during.calls_under_way[0].peer, wire::kNoPeer);
  EXPECT_EQ(during.mpi_ns, 20 * kMs);

  push(130, kProgram + 2);
  slot.window_end_cpu_ns = 150 * kMs;
  slot.window_end_ns = header.window_end_ns = header.record_off_ns = kStart + 150 * kMs;
  header.record_phase = 3;
  header.paused_since_ns = kStart + 150 * kMs;
  push(151, kProgram + 3);  // of a handler that was at work
  recorder().poll(kStart + 400 * kMs);
  const ProcessReport after = recorder().report(kStart + 400 * kMs);
  EXPECT_EQ(after.windows, (std::vector<RecordedWindow>{{kStart + 100 * kMs, kStart + 150 * kMs}}));
  EXPECT_EQ(rows(after), (std::vector<Row>{{"program+1!", Category::kNative, true, 10 * kMs, 10 * kMs, 1},
                                           {"program+2!", Category::kNative, true, 40 * kMs, 40 * kMs, 1}}));
  EXPECT_EQ(after.mpi_ns, 50 * kMs);
  EXPECT_EQ(after.paused_ns, 350 * kMs);
}

TEST_F(Recording, AWindowIsAskedForAndAnswered) {
  fake_.header().outside_windows = wire::OutsideWindows::kLight;
  recorder().want_window(3, true);
  EXPECT_FALSE(recorder().has_done(3, true));
  const std::uint32_t wanted = fake_.header().window_wanted;
  EXPECT_EQ(wanted % 2, 1u);
  fake_.header().window_done = wanted;
  EXPECT_TRUE(recorder().has_done(3, true));
  EXPECT_FALSE(recorder().has_done(3, false));
  EXPECT_FALSE(recorder().has_done(4, true));
}

TEST_F(Recording, PauseThatIsUnderWayCounts) {
  fake_.header().paused_ns = 5 * kMs;
  fake_.header().paused_since_ns = kStart + 10 * kMs;
  EXPECT_EQ(recorder().report(kStart + 30 * kMs).paused_ns, 25 * kMs);
  EXPECT_EQ(recorder().report(kStart + 4 * kMs).paused_ns, 4 * kMs);  // no more than it has lived
  fake_.header().paused_ns = ~0ull;
  EXPECT_EQ(recorder().report(kStart + 30 * kMs).paused_ns, 20 * kMs - 1);
  fake_.header().paused_since_ns = 0;
  EXPECT_EQ(recorder().report(kStart + 30 * kMs).paused_ns, 30 * kMs);
}

TEST_F(Recording, EventSamplesChargeCountersOnly) {
  std::strcpy(fake_.header().counter_names[0], "page-faults");
  fake_.header().counter_count = 1;
  Sample s;
  s.words = {kProgram + 1};
  s.time_ns = kStart + 10 * kMs;
  s.cpu_ns = 10 * kMs;
  s.counters = {500};
  fake_.sample(0, s);
  s.words = {kProgram + 2};
  s.time_ns = kStart + 15 * kMs;
  s.counters = {900};
  s.trigger = wire::Trigger::kEvent;
  fake_.sample(0, s);
  s.words = {kProgram + 1};
  s.trigger = wire::Trigger::kCpuTimer;
  s.time_ns = kStart + 20 * kMs;
  s.cpu_ns = 20 * kMs;
  s.counters = {1000};
  fake_.sample(0, s);
  recorder().poll(kStart + 20 * kMs);
  const ProcessReport report = recorder().report(kStart + 20 * kMs);
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [key, value] : report.counters) counts[text(key.path)] = value;
  EXPECT_EQ(counts, (std::map<std::string, std::uint64_t>{{"program+1!", 600}, {"program+2!", 400}}));
  EXPECT_EQ(report.samples, 2u);
  std::uint64_t wall = 0;
  for (const Row& row : rows(report)) wall += row.wall;
  EXPECT_EQ(wall, 20 * kMs);
}

TEST_F(Recording, CountersInsideMpiComeFromTheCallSites) {
  std::strcpy(fake_.header().counter_names[0], "cycles");
  std::strcpy(fake_.header().counter_names[1], "instructions");
  fake_.header().counter_count = 2;
  auto* const counted = fake_.table<wire::MpiSiteCounters>(fake_.header().mpi_site_counters_offset);
  counted[3].values[0] = 70;
  counted[3].values[1] = 30;
  counted[3].values[2] = 999;  // no such counter
  counted[4].values[0] = 999;  // no such call site
  fake_.site(3, wire::kMPI_Send, wire::kNoPath, 1, 5, 5, 5, 8, 0, {kProgram + 5});
  EXPECT_TRUE(recorder().report(kStart).counters.empty());
  fake_.header().counts_mpi_sites = 1;
  fake_.header().counters_multiplexed = 1;
  const ProcessReport report = recorder().report(kStart);
  std::map<std::pair<std::string, std::string>, std::uint64_t> found;
  for (const auto& [key, value] : report.counters)
    found[{text(key.path), store_.tables().counters[key.counter]}] = value;
  EXPECT_EQ(found,
            (std::map<std::pair<std::string, std::string>, std::uint64_t>{
                {{"program+5;MPI_Send", "cycles"}, 70}, {{"program+5;MPI_Send", "instructions"}, 30}}));
  EXPECT_TRUE(report.counters_multiplexed);

  // Over time as far as it was looked at.
  const auto sums = [&](SeriesBlock series) {
    std::map<std::pair<std::uint32_t, bool>, std::uint64_t> by_half;  // of the first 20 ms
    series.for_each(grid_, [&](std::uint32_t column, std::uint32_t bin, std::uint64_t value) {
      by_half[{column, bin >= 10}] += value;
    });
    return by_half;
  };
  recorder().update_mpi_counters(kStart + 10 * kMs);
  counted[3].values[0] = 100;
  counted[3].values[1] = 20;  // nonsense
  recorder().finish(kStart + 20 * kMs);
  EXPECT_EQ(sums(recorder().report(kStart + 20 * kMs).counter_series),
            (std::map<std::pair<std::uint32_t, bool>, std::uint64_t>{
                {{0, false}, 70}, {{1, false}, 30}, {{0, true}, 30}}));
}

TEST_F(Recording, FilesAndTheirCallSitesAreRead) {
  fake_.region(0, wire::kNoRegion, "load");
  fake_.io_file(0, "");
  fake_.io_file(1, "/data/in.bin", 77, 0xef53);
  using enum wire::IoOperation;
  fake_.io_site(0, 1, kRead, 10, 1, 4096, 500, 90, {kPython + 5, python_word(3), 7, region_word(0)});
  fake_.io_site(9, 1, kWrite, 2, 0, 8, 6, 4, {kProgram + 1});
  fake_.io_site(10, 0, kOpen, 5, 5, 0, 3, 1, {});               // its path was dropped
  fake_.io_site(11, 5, kClose, 1, 0, 0, 1, 1, {kProgram + 1});  // of a file that is being described
  fake_.io_site(12, 1, kOpen, 4, 0, 0, 8, 2, {kProgram + 1});   // of MPI's
  fake_.table<wire::IoSite>(fake_.header().io_sites_offset)[12].mpi_op = wire::kMPI_Init + 1;
  fake_.io_amount(1, kRead, 6, 1, 60, 9, 3);  // found no room among the sites
  const ProcessReport report = recorder().report(kStart);
  std::map<std::tuple<std::string, std::string, wire::IoOperation>, std::vector<std::uint64_t>> found;
  for (const auto& [key, io] : report.io)
    found[{text(key.path), store_.tables().files[key.file]->path, key.operation}] = {
        io.count, io.failed, io.bytes, io.time_ns, io.max_ns};
  EXPECT_EQ(found,
            (decltype(found){{{"[load];step:3;python3.11+5", "/data/in.bin", kRead}, {10, 1, 4096, 500, 90}},
                             {{"program+1", "/data/in.bin", kWrite}, {2, 0, 8, 6, 4}},
                             {{"", "", kOpen}, {5, 5, 0, 3, 1}},
                             {{"program+1;MPI_Init", "/data/in.bin", kOpen}, {4, 0, 0, 8, 2}},
                             {{"", "/data/in.bin", kRead}, {6, 1, 60, 9, 3}},
                             {{"program+1", "", kClose}, {1, 0, 0, 1, 1}}}));
  EXPECT_EQ(store_.tables().files.back()->device, 77u);
  EXPECT_TRUE(report.drops.empty());
  fake_.io_file(5, "/data/late");
  std::set<std::string> paths;
  const ProcessReport again = recorder().report(kStart);
  for (const auto& [key, io] : again.io) paths.insert(store_.tables().files[key.file]->path);
  EXPECT_EQ(paths, (std::set<std::string>{"", "/data/in.bin", "/data/late"}));
}

TEST_F(Recording, DamagedFilesAndCallSitesAreIgnored) {
  fake_.io_file(1, "/data/a");
  fake_.table<wire::IoFile>(fake_.header().io_files_offset)[1].path_bytes = 0xffff'ffffu;
  fake_.io_file(2, "/data/b");
  fake_.table<wire::IoFile>(fake_.header().io_files_offset)[2].path_offset = ~0ull - 3;
  fake_.io_file(3, std::string_view("/data/c\0/d", 10));
  using enum wire::IoOperation;
  fake_.io_site(0, 1, kRead, 1, 0, 0, 1, 1, {});
  fake_.io_site(1, 2, kRead, 1, 0, 0, 1, 1, {});
  fake_.io_site(2, 3, kRead, 1, 0, 0, 1, 1, {});
  fake_.io_site(3, FakeSegment::kIoFiles, kRead, 1, 0, 0, 1, 1, {});
  fake_.io_site(4, 3, static_cast<wire::IoOperation>(200), 1, 0, 0, 1, 1, {});
  fake_.io_site(5, 3, kWrite, 1, 0, 0, 1, 1, {kProgram + 1});
  fake_.table<wire::IoSite>(fake_.header().io_sites_offset)[5].path_offset = 1u << 30;
  fake_.io_site(6, 3, kSync, 1, 0, 0, 1, 1, {kProgram + 1});
  fake_.table<wire::IoSite>(fake_.header().io_sites_offset)[6].path_words = 0xffff'ffffu;
  (void)recorder().report(kStart);
  const ProcessReport report = recorder().report(kStart);  // what is found on the way is counted from then on
  EXPECT_EQ(report.drops.at("damaged_io_file"), 2u);
  EXPECT_EQ(report.drops.at("damaged_io_site"), 4u);
  std::map<std::pair<std::string, wire::IoOperation>, std::uint64_t> found;
  for (const auto& [key, io] : report.io)
    found[{store_.tables().files[key.file]->path, key.operation}] = io.count;
  EXPECT_EQ(
      found,
      (decltype(found){
          {{"", kRead}, 2}, {{"/data/c", kRead}, 1}, {{"/data/c", kWrite}, 1}, {{"/data/c", kSync}, 1}}));
}

// Arbitrary content of the tables and records only leads to damage that is counted.
TEST_F(Recording, NonsenseInTheTablesIsIgnored) {
  std::mt19937_64 random(5);
  fake_.header().counts_mpi_sites = 1;
  fake_.header().counter_count = 0xffff'ffffu;
  const auto fill = [&](std::uint64_t offset, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes; i += 8) {
      // Small numbers, so that much of it is taken for real, and large ones.
      const std::uint64_t value = random() % 3 == 0 ? random() : random() % 12;
      std::memcpy(fake_.base() + offset + i, &value, 8);
    }
  };
  for (int round = 0; round < 300; ++round) {
    RawStore store;
    TimeGrid grid;
    grid.begin(kStart, 5'000'000'000);
    PathTimes path_times(store);
    path_times.grid().begin(kStart, 5'000'000'000);
    auto view = SegmentView::open(fake_.file(), fake_.bytes());
    ASSERT_TRUE(view.ok());
    ProcessRecorder damaged(std::move(view).value(), store, grid, path_times);
    const auto& h = fake_.header();
    fill(h.regions_offset, FakeSegment::kRegions * sizeof(wire::Region));
    fill(h.io_files_offset, FakeSegment::kIoFiles * sizeof(wire::IoFile));
    fill(h.io_sites_offset, FakeSegment::kIoSites * sizeof(wire::IoSite));
    fill(h.mpi_site_counters_offset, 32 * sizeof(wire::MpiSiteCounters));
    fill(h.path_arena_offset, h.path_arena_bytes);
    fake_.header().paused_ns = random();
    fake_.header().paused_since_ns = random() % 3 == 0 ? random() : kStart + random() % kMs;
    fake_.thread(0, 100, random() % 2 == 0 ? kStart : random(), true);
    Sample s;
    for (int i = 0; i < 30; ++i) {
      s.time_ns = random() % 4 == 0 ? random() : kStart + random() % (50 * kMs);
      s.cpu_ns = random() % 4 == 0 ? random() : random() % (50 * kMs);
      s.flags = static_cast<std::uint32_t>(random());
      s.trigger = static_cast<wire::Trigger>(random() % 7);
      s.data_address = random();
      s.counters.assign(random() % 4, random());
      s.words.clear();
      for (std::uint64_t n = random() % 6; n > 0; --n)
        s.words.push_back(random() % 2 == 0 ? region_word(static_cast<std::uint32_t>(random() % 12))
                                            : random() % 0x8'0000);
      fake_.sample(0, s);
    }
    damaged.poll(kStart + 60 * kMs);
    const ProcessReport living = damaged.report(kStart + 60 * kMs);
    damaged.finish(kStart + 70 * kMs);
    const ProcessReport report = damaged.report(kStart + 70 * kMs);
    EXPECT_LE(report.paused_ns, 70 * kMs);
    EXPECT_LE(report.regions.size(), FakeSegment::kRegions);
    EXPECT_LE(report.io.size(), FakeSegment::kIoSites);
    for (const auto& [key, io] : report.io) {
      EXPECT_LT(key.file, store.tables().files.size());
      EXPECT_LT(key.path, store.tables().nodes.size());
    }
    for (const auto& [path, region] : report.regions) EXPECT_LT(path, store.tables().nodes.size());
    std::uint64_t by_path_ns = 0, over_time_ns = 0;
    for (const auto& [key, amount] : report.values) by_path_ns += amount.wall_ns;
    for (const PathTimes::Cell& cell : path_times.cells(report.open_times).cells) {
      EXPECT_LT(cell.path, store.tables().nodes.size());
      EXPECT_LT(cell.bin, shard::kMaxPathBins);
      over_time_ns += cell.wall_ns;
    }
    EXPECT_EQ(over_time_ns, by_path_ns);
    SeriesBlock series = report.main_series;
    series.for_each(grid, [&](std::uint32_t column, std::uint32_t bin, std::uint64_t) {
      EXPECT_LT(column, shard::kCategories);
      EXPECT_LT(bin, TimeGrid::kMaxBins);
    });
  }
}

TEST_F(Recording, DataAddressesOfNativeCodeAreCollected) {
  constexpr std::uint64_t kBlock = shard::DataAccess::kBlockBytes;
  Sample s;
  const auto push = [&](std::uint64_t at, std::uint32_t flags, std::vector<std::uint64_t> words,
                        std::uint64_t address, wire::Trigger trigger = wire::Trigger::kCpuTimer) {
    s.time_ns = kStart + at * kMs;
    s.cpu_ns = at * kMs;
    s.flags = flags;
    s.words = std::move(words);
    s.data_address = address;
    s.trigger = trigger;
    s.syscall_nr = (flags & wire::kInSyscall) != 0 ? SYS_futex : -1;
    fake_.sample(0, s);
  };
  push(1, wire::kMemoryOperand, {kNumpy + 1, python_word(3), 7}, 5 * kBlock);
  push(2, wire::kMemoryOperand, {kNumpy + 1, python_word(3), 7}, 5 * kBlock + 77);  // the same block
  push(3, wire::kMemoryOperand, {kNumpy + 1, python_word(3), 7}, 9 * kBlock);
  push(4, 0, {kNumpy + 1, python_word(3), 7}, 0);                           // no operand
  push(5, wire::kMemoryOperand, {kPython + 1, python_word(3), 7}, kBlock);  // the interpreter's
  push(6, wire::kMemoryOperand | wire::kInSyscall, {kLibc + 1}, kBlock, wire::Trigger::kBlocked);
  push(7, wire::kMemoryOperand | wire::kPaused, {}, kBlock);
  push(8, wire::kMemoryOperand, {kProgram + 1}, kBlock);
  recorder().poll(kStart + 10 * kMs);
  const ProcessReport report = recorder().report(kStart + 10 * kMs);
  std::map<std::string, std::vector<std::uint64_t>> found;
  for (const auto& [path, access] : report.accesses) {
    std::uint64_t blocks = 0;
    for (const std::uint64_t part : access.blocks) blocks += static_cast<std::uint64_t>(std::popcount(part));
    found[text(path)] = {access.samples, access.accesses, blocks};
  }
  EXPECT_EQ(found, (std::map<std::string, std::vector<std::uint64_t>>{{"step:3;_multiarray.so+1!", {4, 3, 2}},
                                                                      {"program+1!", {1, 1, 1}}}));
}

TEST_F(Recording, HasNoDataAccessesWithoutAddresses) {
  Sample s;
  s.words = {kProgram + 1};
  only(s);
  EXPECT_TRUE(recorder().report(kStart + 20 * kMs).accesses.empty());
}

TEST_F(Recording, CategorySeriesCoverTheMainThread) {
  fake_.thread(1, 101, kStart);
  std::strcpy(fake_.header().counter_names[0], "task-clock");
  fake_.header().counter_count = 1;
  Sample s;
  for (std::uint32_t slot : {0u, 1u}) {
    s = {};
    for (std::uint64_t ms = 1; ms <= 40; ++ms) {
      s.time_ns = kStart + ms * kMs;
      s.cpu_ns = ms <= 20 ? ms * kMs : 20 * kMs;
      s.words = {kProgram + 1};
      s.counters = {ms <= 20 ? ms * 10 : 200};
      s.trigger = ms <= 20 ? wire::Trigger::kCpuTimer : wire::Trigger::kBlocked;
      s.flags = ms <= 20 ? 0u : wire::kInSyscall;
      s.syscall_nr = SYS_nanosleep;
      fake_.sample(slot, s);
    }
  }
  recorder().poll(kStart + 40 * kMs);
  const ProcessReport report = recorder().report(kStart + 50 * kMs);  // it sleeps on
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> found;
  SeriesBlock series = report.main_series;
  series.for_each(grid_, [&](std::uint32_t column, std::uint32_t bin, std::uint64_t value) {
    found[{column, bin}] = value;
  });
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> expected;
  for (std::uint32_t bin = 0; bin < 50; ++bin)
    expected[{static_cast<std::uint32_t>(bin < 20 ? Category::kNative : Category::kIdle), bin}] = kMs;
  EXPECT_EQ(found, expected);
  SeriesBlock counters = report.counter_series;
  std::uint64_t counted = 0;
  counters.for_each(grid_, [&](std::uint32_t column, std::uint32_t bin, std::uint64_t value) {
    EXPECT_EQ(column, 0u);
    EXPECT_LT(bin, 20u);
    EXPECT_EQ(value, 20u);  // of both threads
    counted += value;
  });
  EXPECT_EQ(counted, 400u);
}

TEST(ModuleRole, IsDecidedByTheFileName) {
  EXPECT_EQ(module_role("/p/lib/clusterprof/libclusterprof_agent.so"), ModuleRole::kAgent);
  EXPECT_EQ(module_role("/p/lib/clusterprof/libclusterprof_mpi_mpich.so"), ModuleRole::kMpiWrapper);
  for (const char* name : {"libmpi.so.40", "libmpich.so.12", "libmpi_mpifh.so.40", "libopen-pal.so.40",
                           "mca_pml_ob1.so", "libucp.so.0", "libpmix.so.2", "libfabric.so.1"}) {
    EXPECT_EQ(module_role(std::string("/usr/lib/") + name), ModuleRole::kMpiLibrary) << name;
  }
  EXPECT_EQ(module_role("/usr/bin/python3.11"), ModuleRole::kInterpreter);
  EXPECT_EQ(module_role("/usr/lib/libpython3.12.so.1.0"), ModuleRole::kInterpreter);
  for (const char* name :
       {"/lib/x86_64-linux-gnu/libc.so.6", "libm.so.6", "/lib64/ld-linux-x86-64.so.2", "[vdso]"}) {
    EXPECT_EQ(module_role(name), ModuleRole::kSystem) << name;
  }
  for (const char* name : {"/home/u/mpi_program", "/x/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so",
                           "libcrypto.so.3", "libmkl_rt.so", "/x/pythonic.so"}) {
    EXPECT_EQ(module_role(name), ModuleRole::kProgram) << name;
  }
}

}  // namespace
}  // namespace clusterprof::collector
