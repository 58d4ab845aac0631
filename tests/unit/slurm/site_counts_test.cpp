// SPDX-License-Identifier: BSD-3-Clause
#include "formats/wire/site_counts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace clusterprof::wire {
namespace {

std::string path_of(std::int64_t unix_s, std::uint64_t uid) {
  CountsPath path;
  make_counts_path(path, "/d", unix_s, uid);
  return path.text();
}

TEST(SiteCounts, FilesAreOfADayAndAUser) {
  EXPECT_EQ(path_of(0, 0), "/d/counts-1970-01-01.0");
  EXPECT_EQ(path_of(951'782'399, 7), "/d/counts-2000-02-28.7");
  EXPECT_EQ(path_of(951'782'400, 7), "/d/counts-2000-02-29.7");
  EXPECT_EQ(path_of(951'868'800, 7), "/d/counts-2000-03-01.7");
  EXPECT_EQ(path_of(1'795'455'792, 4'294'967'294), "/d/counts-2026-11-23.4294967294");
  EXPECT_EQ(path_of(1'798'761'599, 1), "/d/counts-2026-12-31.1");
}

TEST(SiteCounts, LinesAreWords) {
  const auto line = [](const char* job, const char* step, const char* reason) {
    CountsLine text;
    make_counts_line(text, 1'795'455'792, job, step, kCountUnrecorded, reason);
    return std::string(text.text(), text.size());
  };
  EXPECT_EQ(line("4711", "0", kWhyPrefixHangs), "17:43:12 4711.0 unrecorded prefix-hangs\n");
  EXPECT_EQ(line(nullptr, "", nullptr), "17:43:12 -.- unrecorded -\n");
  EXPECT_EQ(line("1\n2 3", "\x1b[", "x y"), "17:43:12 1_2_3.__ unrecorded x_y\n");
  const std::string longest(5000, 'x');
  EXPECT_LT(line(longest.c_str(), longest.c_str(), longest.c_str()).size(), 200u);
}

class Counting : public testing::Test {
 protected:
  std::filesystem::path directory;  // of this process alone: other tests run at the same time

  void SetUp() override {
    std::string pattern = testing::TempDir() + "clusterprof-counts-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  void count() {
    const auto call = [](long number, long a, long b, long c, long d) {
      const long result = ::syscall(number, a, b, c, d);
      return result < 0 ? -static_cast<long>(errno) : result;
    };
    count_recording(call, directory.c_str(), "4711", "0", kCountStarted, nullptr);
  }
  std::string today() const {
    CountsPath path;
    make_counts_path(path, directory.c_str(), ::time(nullptr), ::geteuid());
    return path.text();
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(Counting, AppendsALine) {
  count();
  count();
  const std::string text = text_of(today());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_NE(text.find(" 4711.0 started -\n"), std::string::npos) << text;
}

TEST_F(Counting, FollowsNoLinkAndStopsAtALimit) {
  const std::string victim = directory / "victim";
  std::ofstream(victim) << "x";
  std::filesystem::create_symlink(victim, today());
  count();
  EXPECT_EQ(text_of(victim), "x");
  std::filesystem::remove(today());
  std::filesystem::create_hard_link(victim, today());
  count();
  EXPECT_EQ(text_of(victim), "x");
  std::filesystem::remove(today());
  ASSERT_EQ(::mkfifo(today().c_str(), 0600), 0);
  count();  // does not wait for a reader
  std::filesystem::remove(today());
  std::ofstream(today()) << std::string(kMaxCountsBytes, 'x');
  count();
  EXPECT_EQ(std::filesystem::file_size(today()), static_cast<std::uintmax_t>(kMaxCountsBytes));
  std::filesystem::remove_all(directory);
  count();  // without the directory nothing is counted
  EXPECT_FALSE(std::filesystem::exists(directory));
}

}  // namespace
}  // namespace clusterprof::wire
