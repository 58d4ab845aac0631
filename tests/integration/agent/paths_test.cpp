// SPDX-License-Identifier: BSD-3-Clause
// Call paths that the agent remembers are the same that a fresh walk finds.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/integration/agent/fake_collector.hpp"
#include "tests/integration/agent/pythons.hpp"

namespace clusterprof::agent_test {
namespace {

class Paths : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Versions, Paths,
                         testing::Values("system", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14",
                                         "3.15"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST_P(Paths, RememberedPathsEqualAFreshWalk) {
  const std::string python = find_python(GetParam());
  if (python.empty()) GTEST_SKIP() << "no such Python here";
  const Outcome outcome =
      run({python, CLUSTERPROF_TEST_REMEMBERED_PATHS, "1200"}, {"CLUSTERPROF_CHECK_PATHS=1"});
  ASSERT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0) << outcome.output;
  ASSERT_EQ(outcome.processes.size(), 1u);
  const wire::SegmentHeader& segment = *outcome.processes[0].segment;
  EXPECT_EQ(segment.python_state.load(), static_cast<std::uint32_t>(wire::PythonState::kActive))
      << segment.python_note;
  std::printf("%.0f calls, %llu of them remembered\n", outcome.numbers.at("calls"),
              static_cast<unsigned long long>(segment.paths_checked.load()));
  EXPECT_EQ(outcome.numbers.at("wrong"), 0);
  EXPECT_EQ(segment.paths_wrong.load(), 0u);
  EXPECT_GT(static_cast<double>(segment.paths_checked.load()), outcome.numbers.at("calls") / 10);
}

// The same without Python, where the path that was last seen at a call is found by reading the stack alone.
TEST(Agent, RememberedNativePathsEqualAFreshWalk) {
  const Outcome outcome = run({CLUSTERPROF_TEST_TARGET, "api"}, {"CLUSTERPROF_CHECK_PATHS=1"});
  ASSERT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0) << outcome.output;
  ASSERT_EQ(outcome.processes.size(), 1u);
  const wire::SegmentHeader& segment = *outcome.processes[0].segment;
  EXPECT_EQ(segment.paths_wrong.load(), 0u);
  EXPECT_GT(segment.paths_checked.load(), 300'000u);
}

// Each has to be walked once. All have the same innermost frames, and many the same place on the stack.
TEST(Agent, ThousandsOfPathsToOneCallAreRemembered) {
  constexpr double kRounds = 20;
  const Outcome outcome = run({CLUSTERPROF_TEST_TARGET, "many_paths", "20"}, {"CLUSTERPROF_CHECK_PATHS=1"});
  ASSERT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0) << outcome.output;
  ASSERT_EQ(outcome.processes.size(), 1u);
  const wire::SegmentHeader& segment = *outcome.processes[0].segment;
  EXPECT_EQ(outcome.numbers.at("wrong"), 0);
  EXPECT_EQ(segment.paths_wrong.load(), 0u);
  const double paths = outcome.numbers.at("paths");
  EXPECT_GE(static_cast<double>(segment.paths_checked.load()), 0.99 * (kRounds - 1) * paths);
  const Outcome unchecked = run({CLUSTERPROF_TEST_TARGET, "many_paths", "200"}, {});
  std::printf("%.0f ns for a call on one of %.0f paths\n", unchecked.numbers.at("ns_per_call"), paths);
}

// A handler of the program's may come while a path is searched, walked or remembered. It asks for paths
// itself, jumps out, or forks, after which both go on.
TEST(Agent, PathsAreRightAlthoughAHandlerAsksForPathsJumpsOutAndForks) {
  for (const char* stack : {"", "alternate"}) {
    SCOPED_TRACE(stack);
    std::vector<std::string> command = {CLUSTERPROF_TEST_TARGET, "interrupted_paths", "150"};
    if (*stack != 0) command.emplace_back(stack);
    const Outcome outcome = run(command, {});
    ASSERT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0) << outcome.output;
    EXPECT_GT(outcome.numbers.at("handled"), 1000);
    EXPECT_GT(outcome.numbers.at("children"), 0);
    EXPECT_EQ(outcome.numbers.at("wrong"), 0);
    EXPECT_EQ(outcome.numbers.at("failed"), 0) << outcome.output;
    EXPECT_LT(outcome.numbers.at("lost"), outcome.numbers.at("handled") / 20);
  }
}

TEST(Agent, AForkAtAnyInstructionOfALookAtAKnownPathHarmsNoChild) {
  const Outcome outcome = run({CLUSTERPROF_TEST_TARGET, "forked_paths"}, {});
  ASSERT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0) << outcome.output;
  EXPECT_GT(outcome.numbers.at("forks"), 50);
  EXPECT_EQ(outcome.numbers.at("failed"), 0);
  EXPECT_EQ(outcome.numbers.at("same"), 1);
}

// The handler comes before each instruction, and asks for a path itself. Once the search has begun it finds
// none.
TEST(Agent, AHandlerAtAnyInstructionOfASearchForAPathLeavesItAlone) {
  // It may also execute or fork, the latter with little memory.
  for (const char* more : {"0", "1", "2", "3"}) {
    SCOPED_TRACE(more);
    const Outcome outcome = run({CLUSTERPROF_TEST_TARGET, "stepped_paths", more}, {});
    ASSERT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0) << outcome.output;
    EXPECT_GT(outcome.numbers.at("before"), 10);
    EXPECT_EQ(outcome.numbers.at("at_work"), 400);
    EXPECT_EQ(outcome.numbers.at("wrong"), 0);
    EXPECT_EQ(outcome.numbers.at("same"), 1);
  }
}

TEST(Agent, AChildForkedAfterASearchWasLeftDropsItsParentsSegment) {
  const Outcome outcome = run({CLUSTERPROF_TEST_TARGET, "fork_after_jump"}, {"CLUSTERPROF_NO_CHILDREN=1"});
  ASSERT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0) << outcome.output;
  EXPECT_EQ(outcome.numbers.at("at_work"), 100);
  EXPECT_EQ(outcome.numbers.at("stays"), 0);
}

TEST(Agent, FindsPathsOnAStackOfTheProgramsOnWhichASearchWasLeft) {
  const Outcome outcome = run({CLUSTERPROF_TEST_TARGET, "paths_in_coroutine"}, {});
  ASSERT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 0) << outcome.output;
  EXPECT_EQ(outcome.numbers.at("at_work"), 100);
  EXPECT_EQ(outcome.numbers.at("found"), 1);
}

}  // namespace
}  // namespace clusterprof::agent_test
