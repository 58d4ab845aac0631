// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/tasks.hpp"

#include <gtest/gtest.h>

#include "report/analysis/analysis.hpp"
#include "tests/unit/report/profile_builder.hpp"

namespace clusterprof::report {
namespace {

using testing::kMs;
using testing::ProfileBuilder;

constexpr const char* kTaskScript = "/home/user/job/app.py";

class Tasks : public ::testing::Test {
 protected:
  Tasks() : b_(2) {
    b_.data.run.own = {"/home/user/job"};
    main_ = b_.path({b_.python("main", kTaskScript, 90, 80)});
    const std::uint32_t wait =
        b_.child(main_, b_.python("wait", "/usr/lib/python3.11/asyncio/tasks.py", 420, 400));
    fetch_ = b_.child(wait, b_.python("fetch", kTaskScript, 40, 30));
    parse_ = b_.child(fetch_, b_.python("parse", kTaskScript, 20, 10));
    alone_ = b_.path({b_.python("fetch", kTaskScript, 45, 30)});
  }
  void task(std::uint32_t rank, std::uint32_t path, std::uint32_t task_path, std::uint64_t ms,
            const char* name) {
    b_.data.task_times.push_back({rank, path, task_path, ms * kMs, ms * kMs / 2, 1, name});
  }
  ProfileBuilder b_;
  std::uint32_t main_, fetch_, parse_, alone_;
};

TEST_F(Tasks, AreListedByNameAndCoroutine) {
  task(0, main_, main_, 10, "");
  task(0, fetch_, fetch_, 300, "crawler");
  task(0, parse_, fetch_, 200, "crawler");
  task(0, alone_, alone_, 50, "crawler");
  task(0, parse_, fetch_, 40, "other");
  task(1, parse_, fetch_, 700, "crawler");
  task(1, 0, 0, 5, "");
  const Analysis analysis = analyse(b_.data);
  ASSERT_EQ(analysis.tasks.size(), 5u);
  const TaskRow& most = analysis.tasks[0];
  EXPECT_EQ(most.rank, 1);
  EXPECT_EQ(most.name, "crawler");
  EXPECT_EQ(most.coroutine, "fetch");
  EXPECT_EQ(most.file, kTaskScript);
  EXPECT_EQ(most.line, 30u);
  EXPECT_DOUBLE_EQ(most.time_s, 0.7);
  EXPECT_DOUBLE_EQ(most.cpu_s, 0.35);
  EXPECT_DOUBLE_EQ(analysis.tasks[1].time_s, 0.55) << "awaited or not, and whatever it calls";
  EXPECT_EQ(analysis.tasks[2].name, "other");
  EXPECT_EQ(analysis.tasks[3].name, "");
  EXPECT_EQ(analysis.tasks[3].coroutine, "main");
  EXPECT_EQ(analysis.tasks[4].coroutine, "") << "of further ones";
  EXPECT_DOUBLE_EQ(analysis.tasks_s, 1.305);
}

TEST_F(Tasks, AreBelowWhatAwaitsThem) {
  task(0, fetch_, fetch_, 300, "crawler");
  task(1, parse_, fetch_, 200, "");
  task(0, alone_, alone_, 50, "");
  const Analysis analysis = analyse(b_.data);
  const std::vector<CallTreeRow>& tree = analysis.task_tree;
  const auto find = [&](const std::string& name, std::uint32_t parent) {
    for (std::uint32_t i = 0; i < tree.size(); ++i)
      if (tree[i].name == name && tree[i].parent == parent) return i;
    return shard::kNone;
  };
  const std::uint32_t main = find("main", shard::kNone);
  ASSERT_NE(main, shard::kNone);
  EXPECT_DOUBLE_EQ(tree[main].total_s, 0.5);
  EXPECT_DOUBLE_EQ(tree[main].self_s, 0);
  const std::uint32_t alone = find("fetch", shard::kNone);
  ASSERT_NE(alone, shard::kNone);
  EXPECT_DOUBLE_EQ(tree[alone].total_s, 0.05);
  // A row of the library may be in between.
  std::uint32_t above = main;
  if (find("fetch", main) == shard::kNone) above = main + 1;
  const std::uint32_t fetch = find("fetch", above);
  ASSERT_NE(fetch, shard::kNone);
  EXPECT_DOUBLE_EQ(tree[fetch].total_s, 0.5);
  EXPECT_DOUBLE_EQ(tree[fetch].self_s, 0.3);
  EXPECT_DOUBLE_EQ(tree[find("parse", fetch)].total_s, 0.2);
  EXPECT_TRUE(analyse(ProfileBuilder(1).data).task_tree.empty());
}

}  // namespace
}  // namespace clusterprof::report
