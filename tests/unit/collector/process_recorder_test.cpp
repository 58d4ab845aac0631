// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process_recorder.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/wire/mpi_functions.h"
#include "tests/unit/collector/fake_segment.hpp"

namespace clusterprof::collector {
namespace {

using shard::Category;
using test::FakeSegment;
using test::python_word;
using Sample = FakeSegment::Sample;

constexpr std::uint64_t kStart = FakeSegment::kStart;
constexpr std::uint64_t kMs = 1'000'000;

// Modules: runtime addresses 0x?0000..0x?ffff, load bias equal to the start.
constexpr std::uint64_t kProgram = 0x10000, kWrapper = 0x20000, kMpi = 0x30000, kPython = 0x40000,
                        kLibc = 0x50000, kAgent = 0x60000, kNumpy = 0x70000;

class Recording : public testing::Test {
 protected:
  Recording() {
    fake_.module("/home/u/program", kProgram, kProgram + 0x10000, kProgram);
    fake_.module("/x/lib/clusterprof/libclusterprof_mpi_openmpi.so", kWrapper, kWrapper + 0x10000, kWrapper);
    fake_.module("/usr/lib/libmpi.so.40", kMpi, kMpi + 0x10000, kMpi);
    fake_.module("/usr/bin/python3.11", kPython, kPython + 0x10000, kPython);
    fake_.module("/usr/lib/libc.so.6", kLibc, kLibc + 0x10000, kLibc);
    fake_.module("/x/lib/clusterprof/libclusterprof_agent.so", kAgent, kAgent + 0x10000, kAgent);
    fake_.module("/usr/lib/numpy/core/_multiarray.so", kNumpy, kNumpy + 0x10000, kNumpy);
    fake_.code(7, "train.py", "step", 80);
    fake_.thread(0, 100, kStart, true);
  }
  ProcessRecorder& recorder() {
    if (!recorder_) {
      auto view = SegmentView::open(fake_.file(), fake_.bytes());
      if (!view.ok()) throw std::runtime_error(view.error().message);
      recorder_ = std::make_unique<ProcessRecorder>(std::move(view).value(), store_);
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
      case RawKind::kGarbage:
        frame = "gc " + (raw.a < t.modules.size() ? t.modules[raw.a]->path : "?");
        break;
      case RawKind::kNamed:
        frame = *t.names[raw.a];
        break;
      case RawKind::kPending:
        frame = "?";
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
  std::vector<Row> rows(const ProcessReport& report) {
    std::vector<Row> found;
    for (const auto& [key, amount] : report.values) {
      found.push_back(
          {text(key.path), key.category, key.main_thread, amount.wall_ns, amount.cpu_ns, amount.samples});
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  // The one row that a single sample in a process makes.
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
  std::unique_ptr<ProcessRecorder> recorder_;
};

TEST_F(Recording, NativeStack) {
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

TEST_F(Recording, SystemCallDecidesTheCategoryAndIsTheLeaf) {
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

TEST_F(Recording, WhatTheHandlerCostIsBinned) {
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

TEST_F(Recording, RateReachedIsThatOfRunningThreads) {
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

TEST_F(Recording, FortranBindingsAreCutToo) {
  Sample s;
  s.mpi_op = wire::kMPI_Send + 1;
  // libmpi <- wrapper <- libmpi_mpifh <- program
  s.words = {kMpi + 2, kWrapper + 4, kMpi + 9, kProgram + 5};
  EXPECT_EQ(only(s).path, "program+5;MPI_Send");
}

TEST_F(Recording, MpiWithoutAVisibleWrapper) {
  Sample s;
  s.mpi_op = wire::kMPI_Send + 1;
  s.words = {kLibc + 1, kMpi + 2, python_word(3), 7};
  EXPECT_EQ(only(s).path, "step:3;MPI_Send");
}

TEST_F(Recording, CallBackFromMpiIsStillMpi) {
  Sample s;
  s.mpi_op = wire::kMPI_Reduce + 1;
  // the user's operation <- libmpi <- wrapper <- program
  s.words = {kProgram + 1, kMpi + 2, kWrapper + 4, kProgram + 5};
  EXPECT_EQ(only(s).path, "program+5;MPI_Reduce");
}

TEST_F(Recording, OwnFramesAreNotShown) {
  Sample s;
  s.words = {kWrapper + 1, kProgram + 5, kAgent + 2, kLibc + 3};
  EXPECT_EQ(only(s).path, "libc.so.6+3;program+5");
}

TEST_F(Recording, CallSiteHasThePathOfItsSamples) {
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

TEST_F(Recording, CallSiteWhosePathWasDropped) {
  fake_.site(3, wire::kMPI_Send, wire::kNoPath, 1, 5, 5, 5, 8, 0, {});
  recorder().poll(kStart);
  const ProcessReport report = recorder().report(kStart + kMs);
  ASSERT_EQ(report.calls.size(), 1u);
  EXPECT_EQ(text(report.calls.begin()->first.path), "MPI_Send");
  EXPECT_EQ(report.calls.begin()->first.communicator, 0u);
}

TEST_F(Recording, TrafficAndSizes) {
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

TEST_F(Recording, EndRecordIsNotCountedTwiceWhileTheSlotIsStillLive) {
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

TEST_F(Recording, KilledProcessIsAccountedUntilItsEnd) {
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

TEST_F(Recording, ModuleDescribedAfterTheSample) {
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

TEST_F(Recording, AddressUsedByTwoModulesInTurn) {
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

TEST_F(Recording, CodeThatIsNotDescribed) {
  Sample s;
  s.words = {python_word(1), 999};
  EXPECT_EQ(only(s).path, "?");
}

TEST_F(Recording, CountersPerPath) {
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

TEST_F(Recording, MpiTimeOfTheMainThread) {
  fake_.thread(1, 101, kStart);
  fake_.slot(0).mpi_time_ns = 40 * kMs;
  fake_.slot(0).mpi_enter_ns = kStart + 90 * kMs;  // it is in a call since
  fake_.slot(1).mpi_time_ns = 1000 * kMs;
  recorder().poll(kStart + 100 * kMs);
  EXPECT_EQ(recorder().report(kStart + 100 * kMs).mpi_ns, 50 * kMs);
  recorder().finish(kStart + 110 * kMs);
  EXPECT_EQ(recorder().report(kStart + 110 * kMs).mpi_ns, 60 * kMs);
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

TEST_F(Recording, DamagedRingIsCountedAndGoesOn) {
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

TEST_F(Recording, RecordThatClaimsMoreThanItHas) {
  Sample s;
  s.words = {kProgram + 1};
  fake_.sample(0, s);
  reinterpret_cast<wire::SampleRecord*>(fake_.slot(0).ring.data)->frame_words = 100;
  recorder().poll(kStart + 2 * kMs);
  const ProcessReport report = recorder().report(kStart + 3 * kMs);
  EXPECT_EQ(report.drops.at("damaged_record"), 1u);
  EXPECT_EQ(report.samples, 0u);
}

TEST_F(Recording, SharedWordsAreThoseOfTheSampleBefore) {
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

TEST_F(Recording, NothingIsBuiltOnADamagedRecord) {
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

TEST(ModuleRole, GoesByName) {
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
