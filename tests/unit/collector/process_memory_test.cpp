// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/process_memory.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "collector/os/memory_reserve.hpp"
#include "collector/os/os_node.hpp"

namespace clusterprof::collector {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct ProcessMemoryTest : testing::Test {
  ProcessMemoryTest() {
    std::string pattern = testing::TempDir() + "process_memory_XXXXXX";
    root = mkdtemp(pattern.data());
    std::filesystem::create_directories(root + "/proc/7");
  }
  ~ProcessMemoryTest() override { std::filesystem::remove_all(root); }
  void file(const char* name, const std::string& text) const {
    std::ofstream(root + "/proc/7/" + name) << text;
  }
  std::string root;
};

TEST_F(ProcessMemoryTest, ReadsWhatTheKernelAddsUp) {
  file("smaps_rollup",
       "55a-7ff ---p 00000000 00:00 0    [rollup]\nRss:               20 kB\nPss:               12 kB\n"
       "Pss_Anon:           9 kB\nPrivate_Dirty:      8 kB\nAnonHugePages:   2048 kB\nPrivate_Hugetlb:   10 "
       "kB\n"
       "Swap:               3 kB\nSwapPss:            1 kB\n");
  const auto memory = read_process_memory(7, "", root);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->pss_bytes, 12u * 1024);
  EXPECT_EQ(memory->private_dirty_bytes, 8u * 1024);
  EXPECT_EQ(memory->huge_bytes, 2058u * 1024);
  EXPECT_EQ(memory->swap_bytes, 3u * 1024);
  EXPECT_EQ(memory->near_bytes, 0u);
}

TEST_F(ProcessMemoryTest, MemoryNodesNearAndFar) {
  file("smaps_rollup", "Pss:               12 kB\n");
  file("numa_maps",
       "7f01 default anon=7 dirty=7 N0=5 N3=2 kernelpagesize_kB=4\n"
       "7f02 default file=/usr/lib/libc.so.6 mapped=100 N0=100 kernelpagesize_kB=4\n"
       "7f03 bind:1 anon=3 dirty=3 N1=3 kernelpagesize_kB=2048\n7f04 default stack\n");
  const auto memory = read_process_memory(7, "1-3", root);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->near_bytes, 2u * 4096 + 3u * 2048 * 1024);
  EXPECT_EQ(memory->far_bytes, 5u * 4096);
}

TEST_F(ProcessMemoryTest, OfAProcessThatIsGoneThereIsNone) {
  EXPECT_FALSE(read_process_memory(7, "", root));
  file("smaps_rollup", "");
  EXPECT_FALSE(read_process_memory(7, "", root)) << "a zombie's is empty";
}

TEST(ProcessMemory, OfThisProcessGrowsWithWhatItWrites) {
  const auto before = read_process_memory(getpid(), "");
  if (!before) GTEST_SKIP() << "no smaps_rollup here";
  const std::vector<char> written(64u << 20, 'x');
  const auto after = read_process_memory(getpid(), "");
  ASSERT_TRUE(after);
  EXPECT_GE(after->private_dirty_bytes, before->private_dirty_bytes + (60u << 20));
  EXPECT_EQ(written.back(), 'x');
}

TEST(MemoryLookTimes, TakesAThousandthOfTheTime) {
  MemoryLookTimes times;
  const MemoryLookTimes::Clock::time_point begin{seconds(100)};
  EXPECT_FALSE(times.is_due(1, begin)) << "it has just been started";
  EXPECT_TRUE(times.is_due(1, begin + seconds(1)));
  times.looked(1, begin + seconds(1), milliseconds(2));
  EXPECT_FALSE(times.is_due(1, begin + seconds(10)));
  EXPECT_TRUE(times.is_due(1, begin + seconds(11)));
  times.looked(1, begin + seconds(11), milliseconds(300));
  EXPECT_FALSE(times.is_due(1, begin + seconds(310)));
  EXPECT_TRUE(times.is_due(1, begin + seconds(311)));
  EXPECT_FALSE(times.is_due(2, begin + seconds(311))) << "each process has its own";
  times.looked(1, begin + seconds(311), milliseconds(300));
  EXPECT_FALSE(times.is_due(2, begin + seconds(340))) << "the collector has other things to do";
  EXPECT_TRUE(times.is_due(2, begin + seconds(341)));
}

TEST(MemoryReserve, IsInRamUntilItIsReleased) {
  MemoryReserve reserve;
  reserve.hold(1u << 20);
  reserve.hold(8u << 20);
  reserve.hold(1u << 20);
  EXPECT_EQ(reserve.bytes(), 8u << 20);
  reserve.hold(std::uint64_t{1} << 40);
  EXPECT_EQ(reserve.bytes(), MemoryReserve::kMost);
  const ProcessLook held = Machine().look_at(getpid());
  reserve.release();
  EXPECT_EQ(reserve.bytes(), 0u);
  const ProcessLook released = Machine().look_at(getpid());
  EXPECT_GE(held.anon_bytes, released.anon_bytes + MemoryReserve::kMost / 2);
}

}  // namespace
}  // namespace clusterprof::collector
