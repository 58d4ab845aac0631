// SPDX-License-Identifier: BSD-3-Clause
// What the agent costs its process: memory, lost samples, libraries; and what it says about the kernel's
// part of a thread's time.
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "tests/integration/agent/fake_collector.hpp"

namespace clusterprof::agent_test {
namespace {

const std::string kTarget = CLUSTERPROF_TEST_TARGET;

TEST(AgentCost, SamplesCarryKernelTimeAndPageFaults) {
  const Outcome outcome = run({kTarget, "faults", "512"}, {"CLUSTERPROF_RATE=100"});
  ASSERT_EQ(outcome.wait_status, 0);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const ThreadLog* const thread = outcome.processes[0].main_thread();
  ASSERT_NE(thread, nullptr);
  ASSERT_GT(thread->samples.size(), 10u);
  std::uint64_t faults = 0, system_ns = 0;
  for (const Sample& sample : thread->samples) {
    EXPECT_GE(sample.record.page_faults, faults);
    EXPECT_GE(sample.record.system_ns, system_ns);
    faults = sample.record.page_faults;
    system_ns = sample.record.system_ns;
  }
  const Sample& first = thread->samples.front();
  const double during = static_cast<double>(faults - first.record.page_faults);
  EXPECT_GT(outcome.numbers.at("touched"), 0);
  EXPECT_NEAR(during, outcome.numbers.at("touched"), 0.02 * outcome.numbers.at("touched") + 100);
  EXPECT_NEAR(static_cast<double>(faults), outcome.numbers.at("faults"), 100);
  EXPECT_NEAR(static_cast<double>(system_ns) * 1e-6, outcome.numbers.at("system_ms"), 8.0 + 1);  // two ticks
  EXPECT_GT(system_ns, 30'000'000u);
}

// PAPI's start costs milliseconds: it is not there unless it can count something that was asked for.
TEST(AgentCost, OpensPapiOnlyWhereItCanCount) {
  perf_event_attr cycles = {};
  cycles.type = PERF_TYPE_HARDWARE;
  cycles.size = sizeof cycles;
  cycles.config = PERF_COUNT_HW_CPU_CYCLES;
  cycles.exclude_kernel = 1;
  const long descriptor = syscall(SYS_perf_event_open, &cycles, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  const int error = errno;
  if (descriptor >= 0) {
    close(static_cast<int>(descriptor));
    GTEST_SKIP() << "this machine has hardware counters";
  }
  const Outcome outcome = run({"/bin/grep", "-c", "libpapi", "/proc/self/maps"});
  EXPECT_EQ(outcome.output, "0\n");
  ASSERT_EQ(outcome.processes.size(), 1u);
  const wire::SegmentHeader& segment = *outcome.processes[0].segment;
  ASSERT_GE(segment.counter_count, 3u);  // of the kernel
  EXPECT_STREQ(segment.counter_names[0], "task-clock");
  ASSERT_GE(segment.unavailable_count, 4u);
  EXPECT_STREQ(segment.unavailable_names[0], "PAPI_TOT_CYC");
  if (error == ENOENT) {
    EXPECT_STREQ(segment.unavailable_reasons[0], "no hardware counters on this machine");
  } else {
    EXPECT_STRNE(segment.unavailable_reasons[0], "");
  }
  const Outcome asked =
      run({"/bin/grep", "-c", "libpapi", "/proc/self/maps"}, {"CLUSTERPROF_EVENT=perf::TASK-CLOCK"});
  EXPECT_NE(asked.output, "0\n");
  ASSERT_EQ(asked.processes.size(), 1u);
  EXPECT_EQ(asked.processes[0].segment->counter_count, 1u);
}

TEST(AgentCost, CountsSamplesThatAFullRingDrops) {
  const Outcome outcome = run({kTarget, "spin", "600"}, {"CLUSTERPROF_RATE=10000"}, false);
  ASSERT_EQ(outcome.wait_status, 0);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const ProcessLog& process = outcome.processes[0];
  const ThreadLog* const thread = process.main_thread();
  ASSERT_NE(thread, nullptr);
  EXPECT_FALSE(process.ring_damaged);
  const std::uint64_t taken = process.segment->samples_taken.load();
  const std::uint64_t dropped = process.drops(wire::DropReason::kRingFull);
  EXPECT_GT(dropped, 100u);
  EXPECT_GT(taken, 500u);
  // A sample is dropped unless the largest one would fit, so there is always room for the thread's last
  // record.
  EXPECT_EQ(thread->count(wire::Trigger::kThreadEnd), 1u);
  EXPECT_EQ(thread->samples.size(), taken + 1);
}

// 64 threads that wake up ten times a second. Once the watcher knows that there are so many, it leaves each
// one alone for 1.4 to 1.9 s: at most two signals for each thread in 2.5 s. On a loaded machine there are
// fewer.
TEST(AgentCost, TheWatcherSendsFewSignalsToManyThreads) {
  constexpr std::uint64_t kSettledNs = 1'500'000'000, kEndNs = 4'000'000'000;
  const Outcome outcome = run({kTarget, "sleepers", "4"}, {"CLUSTERPROF_RATE=100"});
  ASSERT_EQ(outcome.wait_status, 0);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const ProcessLog& process = outcome.processes[0];
  EXPECT_EQ(process.threads.size(), 65u);
  std::size_t settled = 0;
  for (const ThreadLog& thread : process.threads) {
    EXPECT_GT(thread.count(wire::Trigger::kBlocked), 0u);
    for (const Sample& sample : thread.samples) {
      const std::uint64_t at_ns = sample.record.time_ns - process.segment->start_mono_ns;
      settled += sample.record.trigger == wire::Trigger::kBlocked && at_ns > kSettledNs && at_ns < kEndNs;
    }
  }
  std::printf("%zu samples of blocked threads in 2.5 s\n", settled);
  EXPECT_LT(settled, 150u);
}

// Most of what a child of a fork costs is page faults, and their number does not depend on the machine's
// load.
TEST(AgentCost, AChildOfForkTouchesFewPages) {
  const std::vector<std::string> command = {kTarget, "fork_faults", "20"};
  const Outcome bare = run_bare(command);
  const Outcome recorded = run(command), alone = run(command, {"CLUSTERPROF_NO_CHILDREN=1"});
  for (const Outcome* outcome : {&bare, &recorded, &alone}) ASSERT_EQ(outcome->wait_status, 0);
  EXPECT_EQ(recorded.processes.size(), 21u);
  EXPECT_EQ(alone.processes.size(), 1u);
  const double without = bare.numbers.at("faults_per_child");
  std::printf("page faults: %.1f, recorded %.1f, children not recorded %.1f\n", without,
              recorded.numbers.at("faults_per_child"), alone.numbers.at("faults_per_child"));
  EXPECT_LT(recorded.numbers.at("faults_per_child"), without + 55);
  EXPECT_LT(alone.numbers.at("faults_per_child"), without + 25);
}

// docs/design/0005: what the agent adds to a process without MPI and Python.
TEST(AgentCost, MemoryStaysBelowTheFormula) {
  constexpr int kThreads = 32;
  constexpr double kPerThreadKb = 444;
  constexpr double kPerProcessKb = 1024;
  const std::vector<std::string> command = {kTarget, "memory", std::to_string(kThreads)};
  const Outcome bare = run_bare(command);
  ASSERT_EQ(bare.wait_status, 0);
  const double without_kb = bare.numbers.at("resident_kb");
  for (const char* rate : {"CLUSTERPROF_RATE=100", "CLUSTERPROF_RATE=10000"}) {
    const Outcome outcome = run(command, {rate});
    ASSERT_EQ(outcome.wait_status, 0);
    const double added_kb = outcome.numbers.at("resident_kb") - without_kb;
    std::printf("%s: %.0f KiB more\n", rate, added_kb);
    EXPECT_GT(added_kb, kThreads * 8);  // or the program's figure does not show our memory
    EXPECT_LT(added_kb, kThreads * kPerThreadKb + kPerProcessKb) << rate;
  }
}

// Only a main thread remembers thousands of call paths, whichever thread makes room for it.
TEST(AgentCost, ThreadsOlderThanTheRecordingGetNoMoreMemoryThanOthers) {
  constexpr double kThreads = 2, kPerThreadKb = 900;
  const auto address_space_kb = [](bool recorded, bool early) {
    std::vector<std::string> command = {kTarget, "early"};
    if (early) command.insert(command.begin(), "EARLY_THREADS=1");
    command.insert(command.begin(), {"/usr/bin/env", "MALLOC_ARENA_MAX=1"});
    const Outcome outcome = recorded ? run(command, {}) : run_bare(command);
    return outcome.numbers.at("address_space_kb");
  };
  const double bare_kb = address_space_kb(false, true) - address_space_kb(false, false);
  const double recorded_kb = address_space_kb(true, true) - address_space_kb(true, false);
  EXPECT_LT(recorded_kb - bare_kb, kThreads * kPerThreadKb);
}

}  // namespace
}  // namespace clusterprof::agent_test
