// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/memory_limit.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace clusterprof::collector {
namespace {

struct MemoryLimits : testing::Test {
  MemoryLimits() {
    std::string pattern = testing::TempDir() + "memory_limits_XXXXXX";
    root = mkdtemp(pattern.data());
  }
  ~MemoryLimits() override { std::filesystem::remove_all(root); }
  void group(const std::string& path, const std::string& limit, std::uint64_t used,
             std::uint64_t inactive) const {
    std::filesystem::create_directories(root / path);
    std::ofstream(root / path / "memory.max") << limit << "\n";
    std::ofstream(root / path / "memory.current") << used << "\n";
    std::ofstream(root / path / "memory.stat")
        << "anon 7\ninactive_file " << inactive << "\ninactive_file_x 9\n";
  }
  std::filesystem::path root;
};

TEST_F(MemoryLimits, NearestOfAllGroupsAboveCounts) {
  group("job", "1000", 900, 100);     // 0.8
  group("job/step", "2000", 900, 0);  // 0.45
  group("job/step/task", "max", 900, 0);
  const auto use = MemoryLimit("0::/job/step/task\n", root).look();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->limit_bytes, 1000u);
  EXPECT_EQ(use->used_bytes, 800u);
  EXPECT_DOUBLE_EQ(use->share(), 0.8);
  EXPECT_DOUBLE_EQ(MemoryLimit("0::/job/step/task\n", root).most_used_share(), 0.9);
}

TEST_F(MemoryLimits, WhatIsLeftIsThatOfTheGroupWithTheLeast) {
  group("job", "1000000", 900000, 100);  // nearer to its limit
  group("job/step", "2000", 900, 100);
  EXPECT_EQ(MemoryLimit("0::/job/step\n", root).left_bytes(), 1200u);
  EXPECT_EQ(MemoryLimit("0::/job\n", root).left_bytes(), 100100u);
  group("job", "1000", 1200, 100);  // as when the limit has been lowered
  EXPECT_EQ(MemoryLimit("0::/job\n", root).left_bytes(), 0u);
  std::ofstream(root / "job/memory.stat") << "active_file 400\ninactive_file 100\n";
  EXPECT_EQ(MemoryLimit("0::/job\n", root).left_bytes(), 300u);
}

// A job that reads a data set again and again fills its group with files, most of them in use.
TEST_F(MemoryLimits, FilesCountAsUsedOnlyWhileTheyAreNotWritten) {
  group("job", "1000", 1000, 0);
  const auto used = [&](const std::string& parts) {
    std::ofstream(root / "job/memory.stat") << parts;
    return MemoryLimit("0::/job\n", root).look().value_or(MemoryUse{}).used_bytes;
  };
  EXPECT_EQ(used("anon 60\nfile 900\ninactive_file 40\nactive_file 860\n"), 100u);
  EXPECT_EQ(used("anon 60\nfile 900\ninactive_file 40\nactive_file 860\nfile_dirty 500\nfile_writeback 30\n"),
            630u);
  // Files in memory, and those that are locked, are on neither list.
  EXPECT_EQ(used("anon 60\nfile 900\nshmem 700\ninactive_anon 700\ninactive_file 40\nactive_file 60\n"
                 "unevictable 100\n"),
            900u);
  EXPECT_EQ(used("anon 60\nfile 900\ninactive_file 40\nactive_file 60\nunevictable 800\nfile_dirty 800\n"),
            1000u);
}

TEST_F(MemoryLimits, WithoutALimitThereIsNone) {
  group("job", "max", 900, 100);
  EXPECT_FALSE(MemoryLimit("0::/job\n", root).look());
  EXPECT_FALSE(MemoryLimit("0::/other\n", root).look());
  EXPECT_FALSE(MemoryLimit("", root).look());
  EXPECT_FALSE(MemoryLimit("0::/job\n", root).left_bytes());
  EXPECT_EQ(MemoryLimit("0::/job\n", root).most_used_share(), 0);
}

TEST_F(MemoryLimits, OfVersionOne) {
  std::filesystem::create_directories(root / "memory/slurm/job");
  std::ofstream(root / "memory/slurm/job/memory.limit_in_bytes") << "5000\n";
  std::ofstream(root / "memory/slurm/job/memory.usage_in_bytes") << "3000\n";
  std::ofstream(root / "memory/slurm/job/memory.stat") << "inactive_file 1\ntotal_inactive_file 500\n";
  std::ofstream(root / "memory/slurm/memory.limit_in_bytes") << "9223372036854771712\n";
  std::ofstream(root / "memory/slurm/memory.usage_in_bytes") << "9000\n";
  const auto use = MemoryLimit("12:cpuset:/x\n7:memory:/slurm/job\n", root).look();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->limit_bytes, 5000u);
  EXPECT_EQ(use->used_bytes, 2500u);
  std::ofstream(root / "memory/slurm/job/memory.stat")
      << "active_file 1\ndirty 1\ntotal_inactive_file 500\ntotal_active_file 2000\ntotal_dirty 300\n"
         "total_writeback 100\n";
  const MemoryLimit limit("12:cpuset:/x\n7:memory:/slurm/job\n", root);
  EXPECT_EQ(limit.look().value_or(MemoryUse{}).used_bytes, 900u);
  EXPECT_EQ(limit.left_bytes(), 4500u);
}

TEST_F(MemoryLimits, FollowsTheGroupThatIsNearest) {
  group("job", "1000", 600, 0);
  const auto file = [&](const char* name, const std::string& text) {
    std::ofstream(root / "job" / name) << text;
  };
  file("memory.events", "low 0\nhigh 7\nmax 3\noom 0\n");
  file("memory.stat",
       "anon 400\nfile 150\nkernel_stack 10\npagetables 20\nslab 5\nshmem 50\ninactive_file 0\n");
  file("memory.swap.current", "9\n");
  MemoryLimit limit("0::/job\n", root);
  EXPECT_EQ(limit.follow(), (shard::GroupMemory{1000, 600, 600, 3, 400, 100, 50, 35, 9}));
  // Less is used now, and the kernel knows of a peak between the looks.
  group("job", "1000", 100, 0);
  file("memory.peak", "950\n");
  EXPECT_EQ(limit.follow(), (shard::GroupMemory{1000, 100, 950, 3, 400, 100, 50, 35, 9}));
  EXPECT_EQ(MemoryLimit("0::/other\n", root).follow(), shard::GroupMemory{});
}

TEST_F(MemoryLimits, FollowsTheGroupOfVersionOne) {
  std::filesystem::create_directories(root / "memory/job");
  const auto file = [&](const char* name, const std::string& text) {
    std::ofstream(root / "memory/job" / name) << text;
  };
  file("memory.limit_in_bytes", "1000\n");
  file("memory.usage_in_bytes", "700\n");
  file("memory.max_usage_in_bytes", "990\n");
  file("memory.failcnt", "12\n");
  file("memory.kmem.usage_in_bytes", "33\n");
  file("memory.stat",
       "total_cache 100\ntotal_rss 500\ntotal_shmem 40\ntotal_swap 8\ntotal_inactive_file 0\n");
  MemoryLimit limit("7:memory:/job\n", root);
  EXPECT_EQ(limit.follow(), (shard::GroupMemory{1000, 700, 990, 12, 500, 60, 40, 33, 8}));
}

// Only what happens later counts, and the group above sees more.
TEST_F(MemoryLimits, CountsProcessesThatTheKernelKilled) {
  group("job", "1000", 900, 100);
  group("job/step", "max", 900, 0);
  const auto kills = [&](const std::string& path, int number) {
    std::ofstream(root / path / "memory.events")
        << "low 0\noom 9\noom_kill " << number << "\noom_group_kill 5\n";
  };
  kills("job", 3);
  kills("job/step", 1);
  const MemoryLimit limit("0::/job/step\n", root);
  EXPECT_EQ(limit.kills(), 0u);
  kills("job", 5);
  EXPECT_EQ(limit.kills(), 2u);
}

TEST_F(MemoryLimits, CountsThemInVersionOneAndOnTheMachine) {
  std::filesystem::create_directories(root / "memory/job");
  const auto kills = [&](int number) {
    std::ofstream(root / "memory/job/memory.oom_control")
        << "oom_kill_disable 0\nunder_oom 0\noom_kill " << number << "\n";
    std::ofstream(root / "vmstat") << "nr_dirty 8\noom_kill " << 100 + 2 * number << "\n";
  };
  kills(1);
  const MemoryLimit of_group("7:memory:/job\n", root, root / "vmstat");
  const MemoryLimit of_machine("0::/none\n", root, root / "vmstat");
  kills(4);
  EXPECT_EQ(of_group.kills(), 3u);
  EXPECT_EQ(of_machine.kills(), 6u);
}

}  // namespace
}  // namespace clusterprof::collector
