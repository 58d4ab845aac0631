// SPDX-License-Identifier: BSD-3-Clause
// Signals that both the program and the agent use, and handlers that leave no room for ours.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <string>

#include "tests/integration/agent/fake_collector.hpp"

namespace clusterprof::agent_test {
namespace {

const std::string kTarget = CLUSTERPROF_TEST_SIGNALS;

struct Clock {
  int hz;
  const char* name;
};

class Signals : public testing::TestWithParam<Clock> {
 protected:
  Outcome record(std::vector<std::string> arguments, const std::string& events = "none") const {
    arguments.insert(arguments.begin(), kTarget);
    return run(arguments,
               {"CLUSTERPROF_RATE=" + std::to_string(GetParam().hz),
                std::string("CLUSTERPROF_CLOCK=") + GetParam().name, "CLUSTERPROF_EVENT=" + events});
  }
};

// By a timer of the kernel's tick, one of high resolution, and performance events.
INSTANTIATE_TEST_SUITE_P(All, Signals,
                         testing::Values(Clock{100, "wall"}, Clock{1000, "wall"}, Clock{1000, "cpu"}),
                         [](const auto& test) { return test.param.name + std::to_string(test.param.hz); });

bool ended_well(const Outcome& outcome) {
  return WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0;
}

TEST_P(Signals, StayOffSmallAlternateStacks) {
  const Outcome outcome = record({"alternate_stack"});
  EXPECT_TRUE(ended_well(outcome)) << outcome.wait_status;
}

TEST_P(Signals, DoNotWalkWhereTheStackHasLittleRoom) {
  const Outcome outcome = record({"little_room"});
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  EXPECT_GE(outcome.processes.at(0).segment->samples_truncated.load(), 5u);
}

TEST_P(Signals, DoNotHideTheProgramsEintr) {
  for (const int signal : {SIGUSR1, SIGIO, SIGBUS, 61})
    for (const int flags : {0, SA_ONSTACK}) {
      const Outcome outcome = record({"suspend", std::to_string(signal), std::to_string(flags)});
      EXPECT_TRUE(ended_well(outcome)) << outcome.wait_status << " of " << signal << " with " << flags;
    }
}

TEST_P(Signals, SigioActsAsWithoutTheAgent) {
  const Outcome outcome = record({"sigio"});
  EXPECT_TRUE(ended_well(outcome)) << outcome.wait_status;
}

TEST_P(Signals, OneShotHandlerIsResetAfterOneSignal) {
  const Outcome outcome = record({"one_shot"});
  EXPECT_TRUE(ended_well(outcome)) << outcome.wait_status;
}

TEST_P(Signals, DispositionsReadBackAsWithoutTheAgent) {
  const Outcome bare = run_bare({kTarget, "dispositions"}), recorded = record({"dispositions"});
  ASSERT_TRUE(ended_well(bare));
  ASSERT_TRUE(ended_well(recorded)) << recorded.wait_status;
  EXPECT_GT(bare.numbers.size(), 200u);
  EXPECT_EQ(recorded.numbers.size(), bare.numbers.size());
  for (const auto& [name, number] : recorded.numbers) {
    ASSERT_TRUE(bare.numbers.contains(name)) << name;
    EXPECT_EQ(number, bare.numbers.at(name)) << name;
  }
}

TEST_P(Signals, StayIgnoredAcrossExec) {
  const Outcome outcome = record({"exec_ignored"});
  EXPECT_TRUE(ended_well(outcome)) << outcome.wait_status;
}

TEST_P(Signals, ProgramMayWaitForTheSampleSignal) {
  const Outcome outcome = record({"own_waited"});
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  const ThreadLog* const thread = outcome.processes.at(0).main_thread();
  ASSERT_NE(thread, nullptr);
  EXPECT_GE(thread->ticks(), 20u);  // once the program lets it through again
}

// Also while a sample has unblocked it for a walk.
TEST_P(Signals, AFaultSignalThatIsSentReachesTheThreadThatWaitsForIt) {
  const Outcome outcome = record({"sent_faults"});
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  EXPECT_GT(outcome.numbers.at("fetched"), 100);
}

// From Linux 6.13 on, setting a timer anew drops its signal also when it has interrupted a call already.
TEST(SignalsInWindows, NoCallFailsWhereTicksAreStoppedAndStarted) {
  const Outcome outcome = run(
      {kTarget, "moments"},
      {"CLUSTERPROF_RATE=10000", "CLUSTERPROF_STANDBY=1", "CLUSTERPROF_CLOCK=wall", "CLUSTERPROF_EVENT=none"},
      true, false, true);
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  EXPECT_GT(outcome.numbers.at("waits"), 100);
  EXPECT_EQ(outcome.numbers.at("interrupted"), 0);
  EXPECT_GT(outcome.processes.at(0).segment->window_done.load(), 20u);
  EXPECT_GT(outcome.processes.at(0).segment->samples_taken.load(), 100u);
}

TEST_P(Signals, HandlerSurvivesAFilterOfItsCalls) {
  const Outcome outcome = record({"filter"});
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  EXPECT_GE(outcome.numbers.at("trapped"), 2);
}

TEST_P(Signals, SamplesEndWhereAFilterWouldKill) {
  for (const int how : {0, 1, 2, 3, 4}) {
    const Outcome bare = run_bare({kTarget, "sandbox", std::to_string(how)});
    const Outcome outcome = record({"sandbox", std::to_string(how)});
    ASSERT_TRUE(ended_well(bare)) << how << " " << bare.wait_status;
    EXPECT_EQ(outcome.wait_status, bare.wait_status) << how;
    EXPECT_EQ(outcome.output, bare.output) << how;
    ASSERT_EQ(outcome.processes.size(), 1u) << how;
    const ProcessLog& process = outcome.processes.front();
    EXPECT_EQ(process.drops(wire::DropReason::kSignalBlocked), how < 2 ? 1u : 2u) << how;
    ASSERT_NE(process.main_thread(), nullptr);
    EXPECT_GE(process.main_thread()->ticks(), 5u) << how;
    EXPECT_EQ(process.main_thread()->count(wire::Trigger::kThreadEnd), 1u) << how;
    if (how < 2) continue;  // they end past libc
    EXPECT_EQ(process.segment->exit_flags.load(), wire::kExitStatusKnown) << how;
    EXPECT_EQ(process.segment->exit_status.load(), 0) << how;
  }
}

// Then nothing of ours may make a system call any more, not even at the end.
TEST_P(Signals, ProgramsWithAFilterGoOnWhereTheSiteTurnsRecordingOff) {
  for (const char* how : {"1", "3"}) {
    const Outcome outcome = run({kTarget, "sandbox", how},
                                {"CLUSTERPROF_RATE=" + std::to_string(GetParam().hz),
                                 std::string("CLUSTERPROF_CLOCK=") + GetParam().name},
                                true, true);
    EXPECT_TRUE(ended_well(outcome)) << how << " " << outcome.wait_status;
    EXPECT_NE(outcome.output.find("computed\n"), std::string::npos) << how;
    ASSERT_EQ(outcome.processes.size(), 1u) << how;
    EXPECT_EQ(outcome.processes[0].drops(wire::DropReason::kSignalBlocked), 0u) << how;
  }
}

TEST_P(Signals, NewThreadsOpenNoEventsWhereAFilterWouldKill) {
  for (const char* events : {"none", "perf::TASK-CLOCK"}) {
    const Outcome outcome = record({"sandbox_of_events"}, events);
    ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status << " with " << events;
    const ProcessLog& process = outcome.processes.at(0);
    EXPECT_EQ(process.drops(wire::DropReason::kSignalBlocked), 0u);
    ASSERT_EQ(process.threads.size(), 2u);
    for (const ThreadLog& thread : process.threads) {
      if (thread.is_main) continue;
      EXPECT_GE(thread.ticks(), 10u);
    }
  }
}

TEST_P(Signals, SamplesGoOnWhereAFilterRefuses) {
  const Outcome outcome = record({"refusal"});
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  const ProcessLog& process = outcome.processes.at(0);
  EXPECT_EQ(process.drops(wire::DropReason::kSignalBlocked), 0u);
  EXPECT_GE(process.main_thread()->ticks(), 20u);
}

TEST_P(Signals, DoNotInterruptCallsThatWouldStartAgain) {
  constexpr int kFallocate = 285;
  const Outcome outcome = record({"held"});
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  const ThreadLog& thread = *outcome.processes.at(0).main_thread();
  EXPECT_EQ(outcome.processes[0].drops(wire::DropReason::kSignalBlocked), 0u);
  std::size_t shown = 0;
  for (const Sample& sample : thread.samples) shown += sample.record.syscall_nr == kFallocate ? 1 : 0;
  EXPECT_GE(shown, 3u);  // those that waited
  if (std::string(GetParam().name) != "cpu") {
    EXPECT_GE(thread.count(wire::Trigger::kBlocked), 1u);
  }
}

TEST_P(Signals, MaskIsTheProgramsAfterAFork) {
  const Outcome outcome = record({"forked_mask"});
  EXPECT_TRUE(ended_well(outcome)) << outcome.wait_status;
  EXPECT_EQ(outcome.processes.size(), 5u);
}

TEST_P(Signals, KillChildrenMadePastLibc) {
  const Outcome outcome = record({"child_dies"});
  EXPECT_TRUE(ended_well(outcome)) << outcome.wait_status;
}

TEST_P(Signals, ChildMayWaitForTheSampleSignal) {
  const Outcome outcome = record({"own_in_child"});
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  ASSERT_EQ(outcome.processes.size(), 2u);
  EXPECT_GE(outcome.processes[1].main_thread()->ticks(), 10u);
}

TEST_P(Signals, FaultsInAProgramsHandlerReachTheProgram) {
  const Outcome outcome = record({"faulting_handler"});
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  EXPECT_GE(outcome.numbers.at("handled"), 100);
  EXPECT_EQ(outcome.numbers.at("mended"), outcome.numbers.at("handled"));
}

}  // namespace
}  // namespace clusterprof::agent_test
