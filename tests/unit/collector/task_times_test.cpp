// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/task_times.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace clusterprof::collector {
namespace {

TEST(TaskTimes, AreByPathAndName) {
  TaskTimes tasks;
  const std::uint32_t a = tasks.row(5, 4, "crawler"), b = tasks.row(6, 4, "crawler"),
                      c = tasks.row(5, 4, "writer");
  EXPECT_EQ(tasks.row(5, 4, "crawler"), a);
  tasks.add(a, 30, 20);
  tasks.add(a, 3, 2);
  tasks.add(b, 7, 7);
  tasks.add(c, 9, 1);
  tasks.add_sample(a);
  const RawTasks all = tasks.amounts();
  ASSERT_EQ(all.size(), 3u);
  const RawAmount& amount = all.at({5, 4, "crawler"});
  EXPECT_EQ(amount.wall_ns, 33u);
  EXPECT_EQ(amount.cpu_ns, 22u);
  EXPECT_EQ(amount.samples, 1u);
}

TEST(TaskTimes, NumbersOfAsyncioAreNoNames) {
  TaskTimes tasks;
  EXPECT_EQ(tasks.row(5, 4, "Task-12"), tasks.row(5, 4, ""));
  EXPECT_EQ(tasks.key(tasks.row(5, 4, "Task-12")).name, "");
  EXPECT_EQ(tasks.key(tasks.row(5, 4, "Task-12b")).name, "Task-12b");
}

TEST(TaskTimes, OfManyNamesTheNumbersAreLeftOut) {
  TaskTimes tasks;
  for (std::size_t i = 0; i < TaskTimes::kMostNames; ++i) tasks.row(5, 4, "request " + std::to_string(i));
  EXPECT_EQ(tasks.key(tasks.row(5, 4, "request 7")).name, "request 7");
  EXPECT_EQ(tasks.key(tasks.row(5, 4, "request 1000")).name, "request *");
  for (std::size_t i = 0; i < 2 * TaskTimes::kMostNames; ++i)
    tasks.row(5, 4, "of " + std::string(i + 1, 'x'));
  EXPECT_EQ(tasks.key(tasks.row(5, 4, "request 1001")).name, "request *");
  EXPECT_EQ(tasks.key(tasks.row(5, 4, "another")).name, "");
}

TEST(TaskTimes, AreBounded) {
  TaskTimes tasks;
  for (std::uint32_t path = 1; path < 3 * TaskTimes::kMostRows; ++path)
    tasks.add(tasks.row(path, 1, "x"), 1, 1);
  const RawTasks all = tasks.amounts();
  EXPECT_EQ(all.size(), TaskTimes::kMostRows + 1);
  EXPECT_EQ(all.at({}).wall_ns, 2 * TaskTimes::kMostRows - 1);
}

TEST(TaskTimes, SmallRowsCountForTheirCallersInTheTask) {
  // 1 <- 2 (the task) <- 3 <- 4 and 5
  const auto parent = [](std::uint32_t path) -> std::uint32_t {
    return path == 5 ? 3 : path == 0 ? 0 : path - 1;
  };
  RawTasks tasks;
  tasks[{4, 2, "a"}] = {50, 40, 5};
  tasks[{5, 2, "a"}] = {30, 20, 3};
  tasks[{3, 2, "a"}] = {25, 10, 2};
  limit_tasks(tasks, 2, parent);
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks.at({4, 2, "a"}).wall_ns, 50u);
  const auto sum = [&] {
    return std::accumulate(tasks.begin(), tasks.end(), std::uint64_t{0},
                           [](std::uint64_t ns, const auto& task) { return ns + task.second.wall_ns; });
  };
  EXPECT_EQ(sum(), 105u);
  limit_tasks(tasks, 1, parent);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(sum(), 105u);
  EXPECT_EQ(tasks.begin()->first.task_path, 2u) << "one task has one row";
  tasks[{9, 9, ""}] = {1, 1, 1};
  limit_tasks(tasks, 1, parent);
  EXPECT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks.begin()->first, RawTaskKey()) << "of two tasks nothing is the same";
  EXPECT_EQ(sum(), 106u);
}

}  // namespace
}  // namespace clusterprof::collector
