// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/perf_map.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace clusterprof::collector {
namespace {

class PerfMapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "perf_map_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/perf-1.map";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) const { std::ofstream(path_) << text; }
  [[nodiscard]] std::string name(std::uint64_t address, std::int64_t not_before = 0) const {
    const std::vector<std::uint64_t> addresses{address};
    const auto names = read_perf_map(path_, not_before, addresses);
    const auto found = names.find(address);
    return found != names.end() ? found->second : "";
  }

  std::string folder_, path_;
};

TEST_F(PerfMapTest, NamesTheAddressesThatALineCovers) {
  write("1000 10 first function\n1010 20 second\n");
  EXPECT_EQ(name(0xfff), "");
  EXPECT_EQ(name(0x1000), "first function");
  EXPECT_EQ(name(0x100f), "first function");
  EXPECT_EQ(name(0x1010), "second");
  EXPECT_EQ(name(0x1030), "");
  const std::vector<std::uint64_t> addresses{0x1020, 0x5, 0x1004, 0x1004};
  EXPECT_EQ(read_perf_map(path_, 0, addresses).size(), 2u);
  EXPECT_EQ(perf_map_path(17), "/tmp/perf-17.map");
}

TEST_F(PerfMapTest, SkipsDamagedLines) {
  write(
      "\nx\n1000\n1000 \n1000 10\n1000 10 \nffffffffffffffff ffffffffffffffff all\n1000 zz z\n2000 8 good\n" +
      std::string(100'000, 'a') + "\n3000 8 " + std::string(200'000, 'n') +
      "\n4000 8 after\n5000 8 not ended");
  EXPECT_EQ(name(0x1000), "");
  EXPECT_EQ(name(0xffff'ffff'ffff'ffff), "");
  EXPECT_EQ(name(0x2000), "good");
  EXPECT_EQ(name(0x3000), "");
  EXPECT_EQ(name(0x4000), "after");
  EXPECT_EQ(name(0x5000), "");  // may be half written
}

TEST_F(PerfMapTest, NumbersMayBeginAsInC) {
  write(
      "0x00007fada0b1db40 0x00000000000002d8 double Loop.work(int)\n0x 10 none\n0x0x2000 10 none\n3000 0x10 "
      "half\n");
  EXPECT_EQ(name(0x7fada0b1db40), "double Loop.work(int)");
  EXPECT_EQ(name(0x7fada0b1de17), "double Loop.work(int)");
  EXPECT_EQ(name(0x7fada0b1de18), "");
  EXPECT_EQ(name(0x0), "");
  EXPECT_EQ(name(0x2000), "");
  EXPECT_EQ(name(0x3000), "half");
}

TEST_F(PerfMapTest, CutsLongNames) {
  write("1000 10 " + std::string(5000, 'n') + "\n");
  EXPECT_EQ(name(0x1000), std::string(1024, 'n'));
}

TEST_F(PerfMapTest, AddressWithTwoNamesHasNone) {
  write("1000 10 one\n1008 10 two\n1000 4 one\n");
  EXPECT_EQ(name(0x1000), "one");
  EXPECT_EQ(name(0x1007), "one");
  EXPECT_EQ(name(0x1008), "");
  EXPECT_EQ(name(0x1010), "two");
}

TEST_F(PerfMapTest, ReadsOnlyFreshRegularFiles) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t now_ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  write("1000 10 code\n");
  EXPECT_EQ(name(0x1000, now_ns), "code");
  EXPECT_EQ(name(0x1000, now_ns + 10'000'000'000), "");  // of a process that had this id before

  std::filesystem::rename(path_, folder_ + "/real");
  std::filesystem::create_symlink("real", path_);
  EXPECT_EQ(name(0x1000), "");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(name(0x1000), "");  // and does not wait for a writer
  std::filesystem::remove(path_);
  EXPECT_EQ(name(0x1000), "");
}

TEST_F(PerfMapTest, RefusesFilesOfOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file of another user";
  write("1000 10 code\n");
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(name(0x1000), "");
}

TEST_F(PerfMapTest, RefusesHugeFiles) {
  write("1000 10 code\n");
  std::filesystem::resize_file(path_, (64u << 20) + 1);
  EXPECT_EQ(name(0x1000), "");
}

TEST_F(PerfMapTest, RefusesMoreLinesThanItCanReadInASecond) {
  std::string text = "1000 10 code\n";
  for (int i = 0; i < 999'999; ++i) text += "0 1 b\n";
  write(text);
  EXPECT_EQ(name(0x1000), "code");
  write(text + "0 1 b\n");
  EXPECT_EQ(name(0x1000), "");
}

// Against the definition: all lines that cover an address have the same name.
TEST_F(PerfMapTest, AgreesWithTheDefinitionOnOverlappingLines) {
  std::mt19937 random(1);
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  for (int round = 0; round < 200; ++round) {
    struct Line {
      unsigned start, bytes, name;
    };
    std::vector<Line> lines(1 + below(12));
    std::string text;
    for (Line& line : lines) {
      line = {below(40), below(20), below(3)};
      text += fmt::format("{:x} {:x} name{}\n", line.start, line.bytes, line.name);
    }
    write(text);
    std::vector<std::uint64_t> addresses;
    for (unsigned address = 0; address < 64; address += 1 + below(3)) addresses.push_back(address);
    const auto names = read_perf_map(path_, 0, addresses);
    std::size_t expected = 0;
    for (const std::uint64_t address : addresses) {
      std::set<unsigned> covering;
      for (const Line& line : lines)
        if (address >= line.start && address < line.start + line.bytes) covering.insert(line.name);
      if (covering.size() != 1) continue;
      ++expected;
      const auto found = names.find(address);
      ASSERT_NE(found, names.end()) << text << address;
      EXPECT_EQ(found->second, fmt::format("name{}", *covering.begin())) << text << address;
    }
    EXPECT_EQ(names.size(), expected) << text;
  }
}

// Every line covers every address, and all disagree. The work must not grow with the product of the two.
TEST_F(PerfMapTest, LinesThatAllOverlapTakeNoLongerThanOthers) {
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < 32'768; ++i) addresses.push_back(0x1000 + 16 * i);
  const auto seconds = [&](const char* const(&names)[2]) {
    std::string text;
    for (int i = 0; i < 300'000; ++i) text += fmt::format("1000 100000 {}\n", names[i % 2]);
    write(text);
    const auto begin = std::chrono::steady_clock::now();
    const std::size_t named = read_perf_map(path_, 0, addresses).size();
    EXPECT_EQ(named, names[0] == names[1] ? addresses.size() : 0u);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  EXPECT_LT(seconds({"one", "two"}), 20.0);  // 0.1 s; minutes if every line looked at every address
  static constexpr const char* kSame = "one";
  EXPECT_LT(seconds({kSame, kSame}), 20.0);
}

}  // namespace
}  // namespace clusterprof::collector
