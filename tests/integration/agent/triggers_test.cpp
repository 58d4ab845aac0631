// SPDX-License-Identifier: BSD-3-Clause
// Everything that makes the agent sample a thread; the program must not notice any of it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

#include "agent/lifecycle/phase.h"
#include "formats/wire/segment.h"
#include "tests/integration/agent/fake_collector.hpp"
#include "tests/support/measured.hpp"

namespace clusterprof::agent_test {
namespace {

const std::string kTarget = CLUSTERPROF_TEST_TRIGGERS;
const std::string kInterruptions = CLUSTERPROF_TEST_INTERRUPTIONS;
const std::string kTransfers = CLUSTERPROF_TEST_TRANSFERS;

struct Trigger {
  int hz;
  bool cpu_clock;
  // Each occurrence of this one besides the clock's.
  const char* event = "";
  const char* encoded = "";

  std::vector<std::string> environment() const {
    return {"CLUSTERPROF_RATE=" + std::to_string(hz),
            std::string("CLUSTERPROF_CLOCK=") + (cpu_clock ? "cpu" : "wall"), "CLUSTERPROF_EVENT=none",
            std::string("CLUSTERPROF_SAMPLE_ON=") + event,
            std::string("CLUSTERPROF_AGENT_SAMPLE_EVENT=") + encoded};
  }
  bool has_event() const { return *event != 0; }
  bool interrupts_close() const { return hz >= 500 || has_event(); }
  std::string name() const { return (cpu_clock ? "Cpu" : "Wall") + std::to_string(hz) + event; }
};

class WithTrigger : public testing::TestWithParam<Trigger> {};

INSTANTIATE_TEST_SUITE_P(All, WithTrigger,
                         testing::Values(Trigger{100, false}, Trigger{1000, false}, Trigger{10000, false},
                                         Trigger{100, true}, Trigger{1000, true},
                                         Trigger{100, false, "cs", "1,3,0,0,1,2"},
                                         Trigger{100, false, "faults", "1,2,0,0,1,2"}),
                         [](const auto& test) { return test.param.name(); });

bool exited(const Outcome& outcome, int status) {
  return WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == status;
}

bool is_time(const std::string& name) { return name.ends_with(".ms") || name.ends_with(".lacked_ms"); }

// No call has another result or error than without the agent.
void expect_same_results(const Outcome& recorded, const Outcome& bare) {
  for (const auto& [name, number] : bare.numbers) {
    if (is_time(name)) continue;
    ASSERT_TRUE(recorded.numbers.contains(name)) << name;
    EXPECT_EQ(recorded.numbers.at(name), number) << name;
  }
  EXPECT_EQ(recorded.numbers.size(), bare.numbers.size());
}

TEST_P(WithTrigger, CallsOfAllFamiliesEndAsWithoutTheAgent) {
  constexpr double kWaitMs = 120, kLongerMs = 60, kLoadedMachineMs = 120;
  const Outcome bare = run_bare({kInterruptions});
  ASSERT_TRUE(exited(bare, 0));
  EXPECT_GT(bare.numbers.size(), 3u * 70);
  const bool is_inside = test::measured([&](test::Measurements& measurements) {
    const Outcome recorded = run({kInterruptions}, GetParam().environment());
    ASSERT_TRUE(exited(recorded, 0)) << recorded.wait_status;
    expect_same_results(recorded, bare);
    for (const auto& [name, ms] : recorded.numbers) {
      if (!name.ends_with(".ms") || name == "sleep_1.ms") continue;  // which says itself whether it is right
      const double lacked_ms = recorded.numbers.at(name.substr(0, name.size() - 2) + "lacked_ms");
      // The descriptor is gone, and cannot be closed again (agent/sigsafe/RULES.md, rule 9).
      const bool cannot_be_repeated = name == "close_linger.ms" && GetParam().interrupts_close();
      EXPECT_GE(ms, cannot_be_repeated ? 0 : kWaitMs - 0.1) << name;
      measurements.at_most(ms - lacked_ms, kWaitMs + kLongerMs + kLoadedMachineMs,
                           name + " but for waiting for a processor");
    }
    if (GetParam().has_event()) {
      EXPECT_GE(recorded.processes[0].main_thread()->count(wire::Trigger::kEvent), 1u);
    }
    if (GetParam().cpu_clock) return;
    std::set<std::int32_t> interrupted;        // or all this says nothing
    ASSERT_EQ(recorded.processes.size(), 5u);  // with four children
    for (const ThreadLog& thread : recorded.processes[0].threads)
      for (const Sample& sample : thread.samples)
        if (sample.record.trigger == wire::Trigger::kBlocked) interrupted.insert(sample.record.syscall_nr);
    EXPECT_GE(interrupted.size(), 20u);
    for (const int number : {SYS_read, SYS_poll, SYS_futex, SYS_clock_nanosleep, SYS_recvfrom})
      EXPECT_TRUE(interrupted.contains(number)) << number;
  });
  EXPECT_TRUE(is_inside);
}

TEST_P(WithTrigger, TransfersAreCutShortByTheProgramsSignalsAlone) {
  const Outcome bare = run_bare({kTransfers});
  ASSERT_TRUE(exited(bare, 0)) << bare.wait_status;
  EXPECT_EQ(bare.numbers.at("write_pipe.result"), 1 << 20);
  EXPECT_EQ(bare.numbers.at("own_signal.result"), 65536);
  const Outcome recorded = run({kTransfers}, GetParam().environment());
  ASSERT_TRUE(exited(recorded, 0)) << recorded.wait_status;
  expect_same_results(recorded, bare);
  if (GetParam().cpu_clock) return;
  std::set<std::int32_t> seen;  // or all this says nothing
  for (const ThreadLog& thread : recorded.processes.at(0).threads)
    for (const Sample& sample : thread.samples)
      if (sample.record.trigger == wire::Trigger::kBlocked || GetParam().hz >= 500)
        seen.insert(sample.record.syscall_nr);
  for (const int number : {SYS_write, SYS_sendto, SYS_recvfrom}) EXPECT_TRUE(seen.contains(number)) << number;
}

TEST_P(WithTrigger, ProgramSeesItsOwnSignalMaskWhileThreadsAreSampled) {
  const Outcome outcome = run({kTarget, "masks"}, GetParam().environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  const ProcessLog& process = outcome.processes.at(0);
  EXPECT_EQ(process.drops(wire::DropReason::kSignalBlocked), 0u);
  ASSERT_EQ(process.threads.size(), 3u);
  for (const ThreadLog& thread : process.threads) {
    EXPECT_GE(thread.samples.size(), 10u) << thread.is_main;
    if (!thread.is_main && !GetParam().cpu_clock) {
      EXPECT_GE(thread.count(wire::Trigger::kBlocked), 1u);
    }
  }
}

TEST_P(WithTrigger, ProgramMayUseAndBlockTheSampleSignal) {
  const Outcome outcome = run({kTarget, "own_blocked"}, GetParam().environment());
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
}

TEST_P(WithTrigger, ThreadThatBlocksTheSignalPastLibcIsCounted) {
  const Outcome outcome = run({kTarget, "deaf"}, GetParam().environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  const ProcessLog& process = outcome.processes.at(0);
  EXPECT_EQ(process.drops(wire::DropReason::kSignalBlocked), 1u);
  EXPECT_EQ(process.drops(wire::DropReason::kTimerFailed), 0u);
}

TEST_P(WithTrigger, NoEintrOfTheProgramIsLost) {
  for (const int flags : {0, SA_ONSTACK}) {
    const Outcome outcome =
        run({kTarget, "sigsuspend", "20000", std::to_string(flags)}, GetParam().environment());
    EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status << " with " << flags;
  }
}

TEST_P(WithTrigger, StacksOfTheProgramsHandlersAreComplete) {
  const Outcome outcome = run({kTarget, "in_handler"}, GetParam().environment());
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  const ProcessLog& process = outcome.processes.at(0);
  EXPECT_GE(process.segment->samples_taken.load(), 40u);
  // Pages fault before main, too.
  const std::uint64_t at_start = GetParam().has_event() ? 8 : 0;
  EXPECT_LE(process.segment->samples_truncated.load(),
            process.segment->samples_taken.load() / 100 + at_start);
}

TEST_P(WithTrigger, NoSignalOutlivesTheProgram) {
  const Outcome outcome = run({kTarget, "exec", "60"}, GetParam().environment());
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  EXPECT_EQ(outcome.processes.size(), 61u);
}

TEST_P(WithTrigger, ProgramMayJumpOutOfAnExec) {
  const Outcome outcome = run({kTarget, "exec_jump"}, GetParam().environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  for (const ThreadLog& thread : outcome.processes.at(0).threads) {
    if (thread.is_main || thread.samples.back().record.cpu_ns - thread.start_cpu_ns < 250'000'000) continue;
    const std::uint64_t end_ns = thread.samples.back().record.cpu_ns;
    std::size_t spinning = 0;
    for (const Sample& sample : thread.samples) spinning += end_ns - sample.record.cpu_ns < 280'000'000;
    EXPECT_GE(spinning, 15u);
    if (!GetParam().cpu_clock) {
      EXPECT_GE(thread.count(wire::Trigger::kBlocked), 1u);
    }
  }
}

TEST_P(WithTrigger, ExecThatFailsChangesNothing) {
  const Outcome outcome = run({kTarget, "failing_exec"}, GetParam().environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  // A timer can have one waiting, and the watcher one.
  EXPECT_LE(outcome.numbers.at("waiting"), 3);
}

TEST_P(WithTrigger, ThreadsThatEndPastLibcLeaveNoDescriptor) {
  const Outcome outcome = run({kTarget, "silent_ends", "20"}, GetParam().environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  EXPECT_EQ(outcome.numbers.at("more_descriptors"), 0);
}

TEST(Triggers, EventStaysThroughALongSystemCall) {
  const Outcome outcome = run({kTarget, "long_call"}, Trigger{1000, true}.environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  const ThreadLog* const thread = outcome.processes.at(0).main_thread();
  ASSERT_NE(thread, nullptr);
  if (thread->count(wire::Trigger::kCpuTimer) == 0) GTEST_SKIP() << "no performance events here";
  if (outcome.numbers.at("longest_ms") < 600) GTEST_SKIP() << "the call is too fast here";
  EXPECT_EQ(thread->count(wire::Trigger::kWallTimer), 0u);
}

TEST(Triggers, EventWhoseDescriptorIsClosedIsReplaced) {
  const Outcome outcome = run({kTarget, "close_others"}, Trigger{1000, true}.environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  const ThreadLog* const thread = outcome.processes.at(0).main_thread();
  ASSERT_NE(thread, nullptr);
  EXPECT_GE(thread->count(wire::Trigger::kWallTimer), 200u);
}

TEST_P(WithTrigger, ExecutedProgramInheritsTheMask) {
  const Outcome outcome = run({kTarget, "exec_mask"}, GetParam().environment());
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  EXPECT_EQ(outcome.numbers.at("all"), 1);
  const Outcome not_recorded =
      run({"/bin/sh", "-c", "exec \"$0\" exec_mask", kTarget}, {"CLUSTERPROF_NO_CHILDREN=1"});
  EXPECT_EQ(not_recorded.numbers.at("all"), 1);
}

TEST_P(WithTrigger, SyscallFunctionBehavesLikeLibcs) {
  const Outcome outcome = run({kTarget, "syscall"}, GetParam().environment());
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
}

TEST(Triggers, CpuClockReachesAHighRate) {
  constexpr double kHz = 1000, kSpinS = 3;
  const Outcome outcome = run({kTarget, "spin", "3000"}, Trigger{1000, true}.environment());
  ASSERT_TRUE(exited(outcome, 0));
  const ThreadLog* const thread = outcome.processes.at(0).main_thread();
  ASSERT_NE(thread, nullptr);
  ASSERT_FALSE(thread->samples.empty());
  const double cpu_s =
      static_cast<double>(thread->samples.back().record.cpu_ns - thread->start_cpu_ns) * 1e-9;
  EXPECT_NEAR(cpu_s, kSpinS, 0.1);
  const auto ticks =
      static_cast<double>(thread->count(wire::Trigger::kCpuTimer) + thread->count(wire::Trigger::kWallTimer));
  EXPECT_GE(ticks, 0.7 * kHz * cpu_s);
  EXPECT_LE(ticks, 1.1 * kHz * cpu_s);
  // Each stands for the CPU time since the one before it; what the first and last leave out is small.
  const double first_s =
      static_cast<double>(thread->samples.front().record.cpu_ns - thread->start_cpu_ns) * 1e-9;
  EXPECT_LT(first_s, 10 / kHz);
  std::printf("%.0f samples per second of CPU time\n", ticks / cpu_s);
}

// Without permission for the event: a timer on the wall clock, which takes a sample only if the thread has
// run.
TEST(Triggers, CpuClockWithoutPerformanceEvents) {
  if (geteuid() != 0) GTEST_SKIP() << "needs another user's rights";
  const Outcome outcome = run({"/bin/sh", "-c", "ulimit -n 7; exec \"$0\" spin 1000", kTarget},
                              Trigger{1000, true}.environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  ASSERT_EQ(outcome.processes.size(), 2u);
  const ThreadLog* const thread = outcome.processes[1].main_thread();
  ASSERT_NE(thread, nullptr);
  const auto ticks = static_cast<double>(thread->ticks());
  const double cpu_s =
      static_cast<double>(thread->samples.back().record.cpu_ns - thread->start_cpu_ns) * 1e-9;
  EXPECT_GE(ticks, 700 * cpu_s);
  EXPECT_EQ(thread->count(wire::Trigger::kCpuTimer), 0u);
}

// Most of a write is waiting, which only the watcher's signals show.
TEST(Triggers, ProducerIsSampledWaitingForItsConsumer) {
  constexpr int kRounds = 50;  // of 80 ms and more: the watcher may lack a processor for half of them
  const Outcome outcome =
      run({kTarget, "producer", std::to_string(kRounds)}, Trigger{100, false}.environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  const ThreadLog* const thread = outcome.processes.at(0).main_thread();
  ASSERT_NE(thread, nullptr);
  int in_write = 0;
  for (const Sample& sample : thread->samples)
    in_write += sample.record.trigger == wire::Trigger::kBlocked && sample.record.syscall_nr == SYS_write;
  EXPECT_GE(in_write, kRounds / 2);
}

class ManyThreads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rates, ManyThreads, testing::Values(100, 1000),
                         [](const auto& test) { return "Hz" + std::to_string(test.param); });

TEST_P(ManyThreads, AreSignalledOncePerBlockAndLoseNoTime) {
  constexpr std::size_t kBlocked = 298;
  constexpr int kSpinMs = 800;
  const Outcome outcome = run({kTarget, "many", std::to_string(kBlocked), std::to_string(kSpinMs)},
                              Trigger{GetParam(), false}.environment());
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  const ProcessLog& process = outcome.processes.at(0);
  EXPECT_EQ(process.drops(wire::DropReason::kNoThreadSlot), 0u);
  ASSERT_EQ(process.threads.size(), kBlocked + 2);
  const double blocked_s = outcome.numbers.at("blocked_ms") * 1e-3;
  const double released_ms = outcome.numbers.at("released_ms");
  std::size_t waiting = 0, early = 0, running = 0, signals = 0;
  for (const ThreadLog& thread : process.threads) {
    const std::size_t signalled = thread.count(wire::Trigger::kBlocked);
    const std::size_t ran = thread.count(wire::Trigger::kCpuTimer) + thread.count(wire::Trigger::kWallTimer);
    const double cpu_ms =
        static_cast<double>(thread.samples.back().record.cpu_ns - thread.start_cpu_ns) * 1e-6;
    if (cpu_ms > kSpinMs / 2) {
      ++running;
      EXPECT_GT(ran, 0u);
      continue;
    }
    ++waiting;
    EXPECT_LE(signalled, 16u);  // of a thousand and more periods; its start may block too
    signals += signalled;
    EXPECT_LE(static_cast<double>(ran), 4 + cpu_ms * GetParam() / 1000);  // for its start, end and signals
    EXPECT_GE(static_cast<double>(thread.samples.back().record.time_ns) * 1e-6, released_ms - 0.001);
    // Its time is charged to the one stack, from when that was seen.
    for (const Sample& sample : thread.samples) {
      if (sample.record.trigger != wire::Trigger::kBlocked) continue;
      EXPECT_EQ(sample.record.syscall_nr, SYS_futex);
      if (static_cast<double>(sample.record.time_ns - thread.start_time_ns) * 1e-9 < 0.5 * blocked_s) ++early;
    }
  }
  EXPECT_EQ(waiting, kBlocked);
  // Once per block. Going back to sleep may take a thread so long that it seems to have moved: now and then,
  // and on a machine that is ten times slower for half of them.
  EXPECT_LE(signals, 2 * kBlocked);
  EXPECT_EQ(running, 2u);
  EXPECT_GE(early, kBlocked * 9 / 10);
}

// Neighbours on a circle of `count` phases, in parts of the distance they would have if they were even.
std::pair<double, double> gaps(std::vector<std::uint64_t> phases, std::uint64_t period_ns) {
  std::sort(phases.begin(), phases.end());
  const double even = static_cast<double>(period_ns) / static_cast<double>(phases.size());
  double least = 1e9, most = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const std::uint64_t next = i + 1 < phases.size() ? phases[i + 1] : phases[0] + period_ns;
    least = std::min(least, static_cast<double>(next - phases[i]) / even);
    most = std::max(most, static_cast<double>(next - phases[i]) / even);
  }
  return {least, most};
}

TEST(Triggers, RanksAndThreadsTickAtDifferentPhases) {
  for (const std::uint64_t period_ns : {10'000'000u, 1'000'000u, 100'000u}) {
    for (const int count : {2, 4, 16, 48, 128}) {
      std::vector<std::uint64_t> ranks, others;  // others: not ranks, one after the other
      for (int i = 0; i < count; ++i) {
        ranks.push_back(agent::phase_ns(period_ns, i, 0, 0));
        others.push_back(agent::phase_ns(period_ns, -1, 4711 + i, 0));
      }
      for (const auto& phases : {ranks, others}) {
        for (const std::uint64_t phase : phases) EXPECT_LT(phase, period_ns);
        const auto [least, most] = gaps(phases, period_ns);
        EXPECT_GT(least, 0.2) << count;
        EXPECT_LT(most, 3.5) << count;
      }
    }
    std::vector<std::uint64_t> threads;
    for (std::uint32_t thread = 0; thread < 64; ++thread)
      threads.push_back(agent::phase_ns(period_ns, 3, 4711, thread));
    EXPECT_GT(gaps(threads, period_ns).first, 0.2);
  }
}

// The timers keep to the phases: the ticks of two threads lie as far apart as computed. Others come late,
// while the thread has no processor: anywhere in the period, as long as that is no multiple of the
// scheduler's.
TEST(Triggers, MonotonicTimersKeepTheirPhase) {
  constexpr int kHz = 700;
  constexpr std::uint64_t kPeriodNs = wire::sampling_period_ns(kHz);
  const Outcome outcome = run({kTarget, "many", "0", "400"}, Trigger{kHz, false}.environment());
  ASSERT_TRUE(exited(outcome, 0));
  const ProcessLog& process = outcome.processes.at(0);
  ASSERT_EQ(process.threads.size(), 2u);
  for (const ThreadLog& thread : process.threads) {
    const std::uint64_t phase = agent::phase_ns(kPeriodNs, 3, 0, thread.is_main ? 0 : 1);
    std::size_t ticks = 0;
    std::array<std::size_t, 4> by_quarter = {};
    for (const Sample& sample : thread.samples) {
      if (sample.record.trigger != wire::Trigger::kWallTimer) continue;
      ++ticks;
      ++by_quarter[(sample.record.time_ns + kPeriodNs - phase) % kPeriodNs * by_quarter.size() / kPeriodNs];
    }
    EXPECT_GT(ticks, 30u);
    for (std::size_t quarter = 1; quarter < by_quarter.size(); ++quarter)
      EXPECT_GT(by_quarter[0], by_quarter[quarter]) << quarter;
  }
}

}  // namespace
}  // namespace clusterprof::agent_test
