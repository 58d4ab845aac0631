// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/doctor/directory_trial.hpp"
#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

struct Output : testing::Test {
  Output() {
    facts.resolved = "/scratch/me";
    facts.type = "lustre";
    facts.mounted_on = "/scratch";
    facts.space = {1'000'000'000'000, 500'000'000'000, 1'000'000, 2'000'000};
    facts.locks = true;
    facts.slowest = "mkdir";
    facts.slowest_us = 800;
  }
  std::map<std::string, Check> look() { return found_by(check_output, system); }
  FakeSystem system;
  DirectoryFacts& facts = system.directory;
};

TEST_F(Output, IsFineOnASharedFileSystem) {
  const auto checks = look();
  for (const auto& [id, check] : checks) EXPECT_EQ(check.status, Status::kOk) << id;
  EXPECT_EQ(checks.at("output.place").found,
            "/scratch/me (the working directory) on lustre, mounted on /scratch");
  EXPECT_EQ(checks.at("output.operations").found, "all that a run needs; the slowest, mkdir, took 800 us");
  EXPECT_EQ(checks.at("output.space").found, "500 GB of 1.0 TB");
}

TEST_F(Output, IsJudgedByTheNodesOnALocalFileSystem) {
  facts.type = "ext4";
  EXPECT_EQ(look().at("output.place").status, Status::kOk);
  EXPECT_FALSE(look().at("output.place").costs.empty());
  system.add("/etc/slurm/slurm.conf", 0644);
  EXPECT_EQ(look().at("output.place").status, Status::kWarn);
  system.variables["SLURM_JOB_NUM_NODES"] = "1";
  EXPECT_EQ(look().at("output.place").status, Status::kWarn);
  system.variables["SLURM_JOB_NUM_NODES"] = "4";
  const Check check = look().at("output.place");
  EXPECT_EQ(check.status, Status::kFail);
  EXPECT_NE(check.fix.find("CLUSTERPROF_ROOT"), std::string::npos);
  for (const char* shared : {"nfs4", "gpfs", "beegfs", "fuse.sshfs", "ceph"}) {
    facts.type = shared;
    EXPECT_EQ(look().at("output.place").status, Status::kOk) << shared;
  }
  facts.type = "tmpfs";
  EXPECT_NE(look().at("output.place").costs.find("takes memory"), std::string::npos);
}

TEST_F(Output, FailsIfOperationsDoNotWork) {
  facts.problem = "Permission denied";
  EXPECT_EQ(look().at("output.operations").status, Status::kFail);
  EXPECT_EQ(look().at("output.operations").found, "/scratch/me: Permission denied");
  facts.problem = "it does not answer";
  facts.timed_out = true;
  EXPECT_NE(look().at("output.operations").fix.find("admin:"), std::string::npos);
  facts.problem.clear();
  facts.failed = {{"symlink", "Operation not permitted"}};
  const Check check = look().at("output.operations");
  EXPECT_EQ(check.status, Status::kFail);
  EXPECT_EQ(check.found, "do not work there: symlink (Operation not permitted)");
}

TEST_F(Output, WarnsIfItIsSlowAndAdvisesWithoutLocks) {
  facts.locks = false;
  Check check = look().at("output.operations");
  EXPECT_EQ(check.status, Status::kOk);
  EXPECT_NE(check.fix.find("HDF5_USE_FILE_LOCKING"), std::string::npos);
  facts.slowest_us = 2'500'000;
  check = look().at("output.operations");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_NE(check.found.find("2500 ms"), std::string::npos);
}

TEST_F(Output, Space) {
  facts.space.free_bytes = 900'000'000;
  EXPECT_EQ(look().at("output.space").status, Status::kWarn);
  facts.space.free_bytes = 1'000'000;
  EXPECT_EQ(look().at("output.space").status, Status::kFail);
  facts.space.free_bytes = 500'000'000'000;
  facts.space.free_files = 10;
  EXPECT_EQ(look().at("output.space").status, Status::kWarn);
  facts.space.free_files = 0;
  EXPECT_EQ(look().at("output.space").status, Status::kFail);
  facts.space.total_files = 0;  // not told
  EXPECT_EQ(look().at("output.space").status, Status::kOk);
}

TEST(DirectoryTrial, LeavesNothing) {
  char directory[] = "/tmp/clusterprof-trial-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const DirectoryFacts facts = directory_facts_of(try_run_directory(directory));
  EXPECT_EQ(facts.problem, "");
  EXPECT_TRUE(facts.failed.empty()) << facts.failed.front().first << ": " << facts.failed.front().second;
  EXPECT_EQ(facts.resolved, directory);
  EXPECT_FALSE(facts.type.empty());
  EXPECT_TRUE(facts.locks);
  EXPECT_GT(facts.space.total_bytes, 0u);
  EXPECT_FALSE(facts.left_behind);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  const DirectoryFacts above = directory_facts_of(try_run_directory(std::string(directory) + "/not/yet"));
  EXPECT_EQ(above.resolved, directory);
  EXPECT_EQ(above.missing, std::string(directory) + "/not/yet");
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::ofstream(std::string(directory) + "/file") << "x";
  EXPECT_EQ(directory_facts_of(try_run_directory(std::string(directory) + "/file")).problem,
            "Not a directory");
  std::filesystem::remove_all(directory);
}

TEST(DirectoryTrial, FindsTheMount) {
  const std::string table =
      "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "30 22 0:25 / /scratch rw shared:2 master:3 - lustre 10.0.0.1@o2ib:/x rw\n"
      "31 30 0:26 / /scratch/with\\040blank rw - nfs4 server:/x rw\n"
      "32 22 0:27 / /home rw - ext4 /dev/sdb rw\n"
      "33 32 0:28 / /home rw - tmpfs tmpfs rw\n";
  EXPECT_EQ(mount_of(table, "/scratch/me").type, "lustre");
  EXPECT_EQ(mount_of(table, "/scratch").mounted_on, "/scratch");
  EXPECT_EQ(mount_of(table, "/scratchy").type, "ext4");
  EXPECT_EQ(mount_of(table, "/scratch/with blank/x").type, "nfs4");
  EXPECT_EQ(mount_of(table, "/home/me").type, "tmpfs");
  EXPECT_EQ(mount_of("", "/x").type, "");
}

}  // namespace
}  // namespace clusterprof::cli::doctor
