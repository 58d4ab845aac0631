// SPDX-License-Identifier: BSD-3-Clause
// Signals that both the program and the agent use, and handlers that leave ours no room.
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
  Outcome record(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), kTarget);
    return run(arguments, {"CLUSTERPROF_RATE=" + std::to_string(GetParam().hz),
                           std::string("CLUSTERPROF_CLOCK=") + GetParam().name, "CLUSTERPROF_EVENT=none"});
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

TEST_P(Signals, WalkNothingWhereThereIsLittleRoom) {
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

TEST_P(Signals, OfDescriptorsAreIgnoredOrDeadly) {
  const Outcome outcome = record({"sigio"});
  EXPECT_TRUE(ended_well(outcome)) << outcome.wait_status;
}

TEST_P(Signals, HandlerForOneIsGoneAfterIt) {
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
  const std::size_t ticks =
      thread->count(wire::Trigger::kCpuTimer) + thread->count(wire::Trigger::kWallTimer);
  EXPECT_GE(ticks, 20u);  // once the program lets it through again
}

TEST_P(Signals, HandlerSurvivesAFilterOfItsCalls) {
  const Outcome outcome = record({"filter"});
  ASSERT_TRUE(ended_well(outcome)) << outcome.wait_status;
  EXPECT_GE(outcome.numbers.at("trapped"), 2);
}

}  // namespace
}  // namespace clusterprof::agent_test
