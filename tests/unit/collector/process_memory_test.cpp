// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/process_memory.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collector/loop/page_watch.hpp"
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
  MemoryLookTimes times(true);
  const auto at = [](auto since) { return MemoryLookTimes::Clock::time_point{seconds(100)} + since; };
  const auto who = [&](auto since) {
    const auto due = times.due(at(since));
    return due ? due->process : 0;
  };
  times.see(1, at(seconds(0)), 1000);
  EXPECT_EQ(who(seconds(0)), 0u) << "it has just been started";
  EXPECT_EQ(who(seconds(1)), 1u);
  times.looked(1, at(seconds(1)), milliseconds(2));
  times.see(1, at(seconds(10)), 1000);
  EXPECT_EQ(who(seconds(10)), 0u);
  EXPECT_EQ(who(seconds(11)), 1u);
  times.looked(1, at(seconds(11)), milliseconds(300));
  EXPECT_EQ(who(seconds(310)), 0u);
  EXPECT_EQ(who(seconds(311)), 1u);
  times.see(2, at(seconds(311)), 1000);
  times.looked(1, at(seconds(311)), milliseconds(300));
  EXPECT_EQ(who(seconds(340)), 0u) << "the collector has other things to do";
  EXPECT_EQ(who(seconds(341)), 2u) << "each process has its own";
  times.forget(2);
  EXPECT_EQ(who(seconds(341)), 0u);
  times.looked(2, at(seconds(400)), milliseconds(1));  // it has ended meanwhile
  EXPECT_EQ(who(seconds(610)), 0u);
}

TEST(MemoryLookTimes, WhoWaitsLongestComesFirst) {
  MemoryLookTimes times(true);
  const MemoryLookTimes::Clock::time_point begin{seconds(100)};
  std::vector<std::uint64_t> seen(5);
  for (std::uint64_t process = 0; process < 5; ++process) times.see(process, begin, 1000);
  // A look takes so long that the first is due again before the last has been looked at.
  for (int look = 0; look < 10; ++look) {
    const auto now = begin + seconds(1) + look * seconds(5);
    const auto due = times.due(now);
    ASSERT_TRUE(due);
    ++seen[due->process];
    times.looked(due->process, now, milliseconds(10));
  }
  EXPECT_EQ(seen, std::vector<std::uint64_t>(5, 2));
}

TEST(MemoryLookTimes, NoProcessWaitsLongForTheLock) {
  const MemoryLookTimes::Clock::time_point begin{seconds(100)}, later = begin + seconds(5000);
  constexpr std::uint64_t kNsPerMs = 1'000'000;
  const auto of_ms = [](double ms) {
    return static_cast<std::uint64_t>(ms * MemoryLookTimes::kBytesPerNs * kNsPerMs);
  };
  for (const bool given_up : {false, true}) {
    MemoryLookTimes times(given_up);
    times.see(1, begin, of_ms(40));
    EXPECT_TRUE(times.due(begin + seconds(1))->with_nodes);
    times.see(1, begin, of_ms(60));
    EXPECT_FALSE(times.due(begin + seconds(1))->with_nodes);
    times.see(1, begin, of_ms(110));
    EXPECT_EQ(times.due(begin + seconds(1)).has_value(), given_up);
    // Huge pages: it takes a tenth as long as was thought.
    times.see(1, begin, of_ms(60));
    times.looked(1, begin, milliseconds(6));
    times.see(1, begin, of_ms(900));
    ASSERT_TRUE(times.due(later));
    EXPECT_FALSE(times.due(later)->with_nodes);
    times.see(1, begin, of_ms(1100));
    EXPECT_EQ(times.due(later).has_value(), given_up);
  }
}

TEST(MemoryLookTimes, KernelsThatGiveUpTheLock) {
  EXPECT_FALSE(lock_is_given_up("4.18.0-553.el8_10.x86_64"));
  EXPECT_FALSE(lock_is_given_up("5.9.16"));
  EXPECT_TRUE(lock_is_given_up("5.10.0-28-amd64"));
  EXPECT_TRUE(lock_is_given_up("6.1.0"));
  EXPECT_FALSE(lock_is_given_up(""));
}

TEST(PageWatch, TheEventLoopGoesOnWhileTheKernelAddsUp) {
  boost::asio::io_context io;
  const auto guard = boost::asio::make_work_guard(io);
  std::promise<void> goes_on;
  const std::shared_future<void> waits = goes_on.get_future().share();
  std::optional<ProcessMemory> found;
  PageWatch watch(
      io,
      [waits](pid_t pid, const std::string& nodes) -> std::optional<ProcessMemory> {
        if (waits.wait_for(seconds(60)) != std::future_status::ready) return std::nullopt;
        return ProcessMemory{static_cast<std::uint64_t>(pid), nodes.size()};
      },
      [&](std::uint64_t process, const std::optional<ProcessMemory>& memory, auto) {
        EXPECT_EQ(process, 7u);
        found = memory;
        io.stop();
      });
  EXPECT_FALSE(watch.is_busy());
  ASSERT_TRUE(watch.look(7, 3, "0-1"));
  EXPECT_TRUE(watch.is_busy());
  boost::asio::post(io, [&] { goes_on.set_value(); });
  io.run();
  EXPECT_FALSE(watch.is_busy());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pss_bytes, 3u);
  EXPECT_EQ(found->private_dirty_bytes, 3u);
  ASSERT_TRUE(watch.look(7, 4, ""));
  io.restart();
  io.run();
  EXPECT_EQ(found->pss_bytes, 4u);
}

TEST(PageWatch, NobodyWaitsForALookWhenTheRunEnds) {
  std::promise<void> goes_on, has_begun;
  const std::shared_future<void> waits = goes_on.get_future().share();
  const auto ended = std::make_shared<std::promise<void>>();
  {
    boost::asio::io_context io;
    PageWatch watch(
        io,
        [&has_begun, waits, ended](pid_t, const std::string&) {
          has_begun.set_value();
          waits.wait();
          ended->set_value();
          return std::optional<ProcessMemory>();
        },
        [](std::uint64_t, const std::optional<ProcessMemory>&, auto) { ADD_FAILURE(); });
    ASSERT_TRUE(watch.look(1, 1, ""));
    has_begun.get_future().wait();
  }
  goes_on.set_value();
  ended->get_future().wait();
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
