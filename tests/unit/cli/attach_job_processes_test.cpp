// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <vector>

#include "cli/attach/job_processes.hpp"

namespace clusterprof::cli::attach {
namespace {

std::vector<pid_t> chosen(std::vector<JobProcess> processes) {
  std::vector<pid_t> pids;
  for (const JobProcess& process : choose_ranks(std::move(processes))) pids.push_back(process.pid);
  return pids;
}

TEST(JobProcesses, OneOfEachRank) {
  // A shell and its program; the program's helper; a daemon of the launcher, which has no rank.
  EXPECT_EQ(
      chosen(
          {{10, 1, false, 2}, {11, 1, true, 900}, {12, 1, false, 5000}, {20, 0, true, 3}, {5, -1, true, 1}}),
      (std::vector<pid_t>{20, 11}));
}

TEST(JobProcesses, WithoutMpiTheOneThatHasWorked) {
  EXPECT_EQ(chosen({{10, 0, false, 2}, {11, 0, false, 700}, {12, 0, false, 30}}), (std::vector<pid_t>{11}));
}

TEST(JobProcesses, WithTwoThatUseMpi) {
  EXPECT_EQ(chosen({{10, 0, true, 2}, {11, 0, true, 7}}), (std::vector<pid_t>{11}));
  EXPECT_EQ(chosen({}), (std::vector<pid_t>{}));
}

}  // namespace
}  // namespace clusterprof::cli::attach
