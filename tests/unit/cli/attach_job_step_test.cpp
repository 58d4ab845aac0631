// SPDX-License-Identifier: BSD-3-Clause
// With a shell in the place of srun.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "cli/attach/job_step.hpp"
#include "cli/message.hpp"

namespace clusterprof::cli::attach {
namespace {

struct Begun {
  int status;
  std::string said;
};

Begun run_step(const std::string& script, int nodes) {
  testing::internal::CaptureStderr();
  const int status = begin_step({"sh", "-c", script}, nodes);
  return {status, testing::internal::GetCapturedStderr()};
}

std::string task(int attached) {
  const std::string line = line_of_step(attached);
  return "echo " + line.substr(0, line.size() - 1) + " >&2;";
}

TEST(JobStep, GoesOnWhenAllNodesHaveSaidWhatTheyDid) {
  const auto start = std::chrono::steady_clock::now();
  const Begun begun = run_step("echo from $$;" + task(0) + "echo and >&2;" + task(2) + "exec sleep 60", 2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(begun.status, 0);
  ASSERT_TRUE(begun.said.starts_with("from ")) << begun.said;
  const pid_t step = std::stoi(begun.said.substr(5));
  EXPECT_EQ(begun.said, "from " + std::to_string(step) + "\nand\n");
  EXPECT_EQ(::kill(step, SIGKILL), 0) << "it goes on";
}

TEST(JobStep, WhereNothingWasAttachedTo) { EXPECT_EQ(run_step(task(0) + task(0) + "exec sleep 1", 2).status, 1); }

TEST(JobStep, ThatEndsBefore) {
  const Begun begun = run_step(task(1) + "echo no such job >&2; exit 3", 2);
  EXPECT_EQ(begun.status, 3);
  EXPECT_EQ(begun.said, "no such job\n");
  EXPECT_EQ(run_step("kill -KILL $$", 1).status, kExitFailed);
}

TEST(JobStep, ThatDoesNotBegin) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(begin_step({"/no/such/srun"}, 1), kExitFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "clusterprof: /no/such/srun: No such file or directory\n");
}

}  // namespace
}  // namespace clusterprof::cli::attach
