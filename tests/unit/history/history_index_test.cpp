// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/history_index.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

class HistoryIndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "clusterprof-index-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  [[nodiscard]] fs::path file() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) return entry.path();
    return {};
  }
  // Each number and text of it is different.
  static IndexedRun made(int number) {
    IndexedRun indexed;
    indexed.stamp = "stamp " + std::to_string(number);
    report::HistoryRun& run = indexed.run;
    run.name = "run-" + std::to_string(number);
    run.id = "id\xff\x01";
    run.command = {"python3", "", "it's \"quoted\"", std::string("a\0b", 3)};
    run.start_utc_ns = 1'700'000'000'000'000'001 + number;
    run.ranks = 3, run.nodes = 2;
    run.elapsed_s = 1.25 + number;
    run.complete = number % 2 == 0;
    run.efficiency.parallel = 0.5, run.efficiency.serialization = 0.25;
    if (number % 2 == 0) run.max_rss_bytes = 1 << 20;
    run.settings = {{shard::SettingKind::kCommit, "code", "abc"},
                    {shard::SettingKind::kVariable, "OMP_X", "1"}};
    run.findings = {"first", "second"};
    run.sample_s = 0.01 * (number + 1), run.has_functions = number % 2 == 1;
    run.threads_s = 7.5 + number, run.version = "0.1." + std::to_string(number);
    if (number % 2 == 0) run.more_callers = {static_cast<std::uint64_t>(number), 0xffff'0000'1234'5678ull};
    run.seen_findings[static_cast<std::size_t>(number) % report::kFindingKinds] = true;
    run.metrics = {{{report::FollowedKind::kRun, "elapsed", ""}, 1.5},
                   {{report::FollowedKind::kTotal, "step", "train.py"}, 0.1 * number},
                   {{report::FollowedKind::kFinding, "delay step", "train.py"}, 0.25}};
    if (number == 3) run.error = "damaged";
    return indexed;
  }

  fs::path folder_;
};

TEST_F(HistoryIndexTest, KeepsEverything) {
  HistoryIndex index;
  for (int i = 0; i < 5; ++i) index["run-" + std::to_string(i)] = made(i);
  write_history_index(folder_, index);
  struct stat status {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0077, 0u) << "private";
  const HistoryIndex back = read_history_index(folder_);
  ASSERT_EQ(back.size(), 5u);
  for (const auto& [name, was] : index) {
    const auto found = back.find(name);
    ASSERT_NE(found, back.end());
    const report::HistoryRun &a = was.run, &b = found->second.run;
    EXPECT_EQ(found->second.stamp, was.stamp);
    EXPECT_EQ(b.name, a.name);
    EXPECT_EQ(b.id, a.id);
    EXPECT_EQ(b.command, a.command);
    EXPECT_EQ(b.start_utc_ns, a.start_utc_ns);
    EXPECT_EQ(b.ranks, a.ranks);
    EXPECT_EQ(b.nodes, a.nodes);
    EXPECT_EQ(b.elapsed_s, a.elapsed_s);
    EXPECT_EQ(b.complete, a.complete);
    EXPECT_EQ(b.efficiency.parallel, a.efficiency.parallel);
    EXPECT_EQ(b.efficiency.load_balance, a.efficiency.load_balance);
    EXPECT_EQ(b.efficiency.serialization, a.efficiency.serialization);
    EXPECT_EQ(b.max_rss_bytes, a.max_rss_bytes);
    EXPECT_EQ(b.settings, a.settings);
    EXPECT_EQ(b.findings, a.findings);
    EXPECT_EQ(b.metrics, a.metrics);
    EXPECT_EQ(b.sample_s, a.sample_s);
    EXPECT_EQ(b.has_functions, a.has_functions);
    EXPECT_EQ(b.threads_s, a.threads_s);
    EXPECT_EQ(b.version, a.version);
    EXPECT_EQ(b.more_callers, a.more_callers);
    EXPECT_EQ(b.seen_findings, a.seen_findings);
    EXPECT_EQ(b.error, a.error);
  }
}

TEST_F(HistoryIndexTest, WhatIsDamagedIsNotThere) {
  EXPECT_TRUE(read_history_index(folder_).empty());
  HistoryIndex index;
  for (int i = 0; i < 200; ++i) index["run-" + std::to_string(i)] = made(i);
  write_history_index(folder_, index);
  const fs::path path = file();
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto write = [&](const std::string& content) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << content;
  };
  write("");
  EXPECT_TRUE(read_history_index(folder_).empty());
  write("no database at all");
  EXPECT_TRUE(read_history_index(folder_).empty());
  write(bytes.substr(0, bytes.size() / 2));
  EXPECT_TRUE(read_history_index(folder_).empty());
  // Any bit may be wrong, also one of a number.
  for (std::size_t at = 0; at < bytes.size(); at += bytes.size() / 97 + 1) {
    std::string wrong = bytes;
    wrong[at] = static_cast<char>(wrong[at] ^ (1 << (at % 8)));
    write(wrong);
    EXPECT_TRUE(read_history_index(folder_).empty()) << at;
  }
  write(bytes);
  EXPECT_EQ(read_history_index(folder_).size(), 200u);
  // Where it cannot be written, nothing happens.
  write_history_index(folder_ / "nowhere", index);
}

// In a directory of another user anything may be there.
TEST_F(HistoryIndexTest, WhatIsNoFileIsNotRead) {
  write_history_index(folder_, {{"run-1", made(1)}});
  const fs::path path = file(), other = folder_ / "other";
  ASSERT_EQ(read_history_index(folder_).size(), 1u);
  fs::rename(path, other);
  fs::create_symlink(other, path);
  EXPECT_TRUE(read_history_index(folder_).empty());
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(read_history_index(folder_).empty()) << "and it is not waited for";
}

}  // namespace
}  // namespace clusterprof::cli
