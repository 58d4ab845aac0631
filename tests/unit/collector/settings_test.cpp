// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "collector/os/settings_reader.hpp"

namespace clusterprof::collector {
namespace {

namespace fs = std::filesystem;
using shard::Setting;
using shard::SettingKind;

const std::string kHash = "0123456789abcdef0123456789abcdef01234567";
const std::string kOtherCommit = "fedcba9876543210fedcba9876543210fedcba98";

class Settings : public testing::Test {
 protected:
  Settings() {
    std::string name = (fs::temp_directory_path() / "clusterprof-settings-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Settings() override { fs::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  [[nodiscard]] Commit commit(const std::string& path) const { return commit_of((folder_ / path).string()); }

  fs::path folder_;
};

TEST_F(Settings, TheCommitOfABranchIsFound) {
  write("solver/.git/HEAD", "ref: refs/heads/main\n");
  write("solver/.git/refs/heads/main", kHash + "\n");
  fs::create_directories(folder_ / "solver/src/deep");
  EXPECT_EQ(commit("solver/src/deep").hash, kHash);
  EXPECT_EQ(commit("solver/src/deep").folder, "solver");
  EXPECT_EQ(commit("solver").hash, kHash);
  EXPECT_EQ(commit("solver/none/there").hash, kHash) << "folders that are gone have had a place";
}

TEST_F(Settings, SoAreDetachedAndPackedOnesAndWorktrees) {
  write("detached/.git/HEAD", kHash + "\n");
  EXPECT_EQ(commit("detached").hash, kHash);
  write("packed/.git/HEAD", "ref: refs/heads/topic\n");
  write("packed/.git/packed-refs",
        "# pack-refs with: peeled\n" + kOtherCommit + " refs/heads/main\n" + kHash + " refs/heads/topic\n");
  EXPECT_EQ(commit("packed").hash, kHash);
  write("tree/.git", "gitdir: ../packed/.git/worktrees/tree\n");
  write("packed/.git/worktrees/tree/HEAD", "ref: refs/heads/main\n");
  write("packed/.git/worktrees/tree/commondir", "../..\n");
  EXPECT_EQ(commit("tree").hash, kOtherCommit);
  EXPECT_EQ(commit("tree").folder, "tree");
}

TEST_F(Settings, WhatIsNoRepositoryHasNone) {
  fs::create_directories(folder_ / "plain");
  write("broken/.git/HEAD", "ref: refs/heads/main\n");
  write("broken/.git/refs/heads/main", "not a hash\n");
  write("outside/.git/HEAD", "ref: ../../broken/.git/HEAD\n");
  for (const char* name : {"plain", "broken", "outside"}) EXPECT_EQ(commit(name).hash, "") << name;
}

// What is no file is not waited for, and not read for ever.
TEST_F(Settings, WhatIsNoFileHasNone) {
  write("pipe/.git/refs/heads/main", kHash);
  ASSERT_EQ(::mkfifo((folder_ / "pipe/.git/HEAD").c_str(), 0600), 0);
  EXPECT_EQ(commit("pipe").hash, "");
  fs::create_directories(folder_ / "folder/.git/HEAD");
  EXPECT_EQ(commit("folder").hash, "");
  write("endless/.git/HEAD", "ref: refs/heads/topic\n");
  fs::create_symlink("/dev/zero", folder_ / "endless/.git/packed-refs");
  EXPECT_EQ(commit("endless").hash, "");
  ASSERT_EQ(::mkfifo((folder_ / "none").c_str(), 0600), 0);
  SettingsSource source;
  source.program = (folder_ / "none").string();
  EXPECT_TRUE(read_settings(source).empty());
}

TEST_F(Settings, LongLinesOfGit) {
  write("long/.git/HEAD", "ref: refs/heads/topic\n");
  write("long/.git/packed-refs", "# " + std::string(10'000, 'x') + "\n" + kHash + " refs/heads/topic");
  EXPECT_EQ(commit("long").hash, kHash) << "the last line has no end";
  write("long/.git/packed-refs", std::string(100'000, 'x'));
  EXPECT_EQ(commit("long").hash, "");
}

// As git itself: others could have any commit shown, or have us wait.
TEST_F(Settings, RepositoriesOfOthersAreNotFollowed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give files to another user";
  constexpr uid_t kOtherUser = 65534;
  const auto give = [&](const char* path) {
    ASSERT_EQ(::lchown((folder_ / path).c_str(), kOtherUser, kOtherUser), 0);
  };
  write("outer/.git/HEAD", kHash);
  write("outer/inner/.git/HEAD", kOtherCommit);
  EXPECT_EQ(commit("outer/inner").hash, kOtherCommit);
  give("outer/inner/.git");
  EXPECT_EQ(commit("outer/inner").hash, kHash) << "what others have made there is not seen";
  write("head/.git/HEAD", kHash);
  give("head/.git/HEAD");
  EXPECT_EQ(commit("head").hash, "");
  write("file/.git", "gitdir: ../outer/.git\n");
  EXPECT_EQ(commit("file").hash, kHash);
  give("file/.git");
  EXPECT_EQ(commit("file").hash, "");
}

TEST_F(Settings, AreSortedAndHaveNoSecrets) {
  write("solver/.git/HEAD", kHash);
  SettingsSource source;
  source.folders = {(folder_ / "nothing").string(), (folder_ / "solver").string()};
  source.environment = {"OMP_NUM_THREADS=4",
                        "HOME=/home/u",
                        "LOADEDMODULES=gcc/12.2.0:openmpi/4.1.4:tools",
                        "UCX_TLS=rc,sm",
                        "NCCL_API_TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789",
                        "OMPI_MCA_orte_hnp_uri=1234.0;tcp://10.0.0.1:99",
                        "TF_VAR_db_login=hunter2",  // Terraform's, not TensorFlow's
                        "TF_CLI_ARGS=-no-color",
                        "TF_NUM_INTRAOP_THREADS=8",
                        "GITHUB_SHA=" + kOtherCommit,
                        "NOTHING"};
  const std::vector<Setting> expected = {{SettingKind::kCommit, "solver", kHash},
                                         {SettingKind::kModule, "gcc", "12.2.0"},
                                         {SettingKind::kModule, "openmpi", "4.1.4"},
                                         {SettingKind::kModule, "tools", ""},
                                         {SettingKind::kVariable, "NCCL_API_TOKEN", "***"},
                                         {SettingKind::kVariable, "OMP_NUM_THREADS", "4"},
                                         {SettingKind::kVariable, "TF_NUM_INTRAOP_THREADS", "8"},
                                         {SettingKind::kVariable, "UCX_TLS", "rc,sm"}};
  EXPECT_EQ(read_settings(source), expected);

  source.variables = false;
  source.folders.clear();
  const std::vector<Setting> without = read_settings(source);
  ASSERT_EQ(without.size(), 4u);
  EXPECT_EQ(without[0], (Setting{SettingKind::kCommit, "", kOtherCommit})) << "what CI has checked out";
  EXPECT_TRUE(std::none_of(without.begin(), without.end(),
                           [](const Setting& s) { return s.kind == SettingKind::kVariable; }));
}

TEST_F(Settings, TheCompilerOfAProgram) {
  SettingsSource source;
  source.program = "/proc/self/exe";
  bool found = false;
  for (const Setting& setting : read_settings(source))
    found = found || (setting.kind == SettingKind::kCompiler && !setting.value.empty());
  EXPECT_TRUE(found);
  source.program = (folder_ / "none").string();
  EXPECT_TRUE(read_settings(source).empty());
  write("script", "#!/bin/sh\n");
  source.program = (folder_ / "script").string();
  EXPECT_TRUE(read_settings(source).empty());
}

TEST_F(Settings, LongValuesAndManyOfThemAreCut) {
  SettingsSource source;
  source.environment = {"UCX_A=" + std::string(1000, 'a'), "UCX_B=1"};
  for (int i = 0; i < 1000; ++i) source.environment.push_back("MKL_" + std::to_string(i) + "=1");
  const std::vector<Setting> settings = read_settings(source);
  EXPECT_EQ(settings.size(), shard::kMaxSettings);
  source.environment.resize(2);
  EXPECT_EQ(read_settings(source)[0].value, std::string(256, 'a'));
}

// A file system that answers late.
TEST(SettingsReader, GivesUpForAWhile) {
  std::promise<void> answer;
  std::atomic<int> reads{0};
  const auto read = [&reads, answered = answer.get_future().share()](const SettingsSource& source) {
    ++reads;
    answered.wait();
    return std::vector<Setting>{{SettingKind::kModule, source.program, ""}};
  };
  const auto source = std::make_shared<SettingsSource>();
  source->program = "a";
  const std::vector<Setting> expected = {{SettingKind::kModule, "a", ""}};

  EXPECT_TRUE(SettingsReader(read).get(nullptr).empty());
  EXPECT_EQ(reads, 0);
  SettingsReader impatient(read, std::chrono::nanoseconds(1));
  EXPECT_TRUE(impatient.get(source).empty()) << "it would wait for ever";
  EXPECT_TRUE(impatient.get(source).empty());
  answer.set_value();
  EXPECT_EQ(SettingsReader(read, std::chrono::hours(1)).get(source), expected);
  std::vector<Setting> late;
  while (late.empty()) {
    late = impatient.get(source);
    std::this_thread::yield();
  }
  EXPECT_EQ(late, expected);
  EXPECT_EQ(reads, 2) << "each of both reads once";
}

TEST(SettingsReader, WhatCannotBeReadIsNotThere) {
  SettingsReader reader([](const SettingsSource&) -> std::vector<Setting> { throw std::bad_alloc(); },
                        std::chrono::hours(1));
  EXPECT_TRUE(reader.get(std::make_shared<SettingsSource>()).empty());
}

}  // namespace
}  // namespace clusterprof::collector
