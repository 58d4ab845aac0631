// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/processors.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace clusterprof::collector {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(Processors, AreThoseOfTheRanksWithoutAnMpiLauncher) {
  EXPECT_EQ(choose_processors({}, {{2}, {5}, {2}}), (Processors{2, 5}));
  EXPECT_EQ(choose_processors({}, {{4, 5, 6}, {0, 6, 7}}), (Processors{0, 4, 5, 6, 7}));
}

TEST(Processors, OfTheLauncherThatNoRankMayUseComeFirst) {
  EXPECT_EQ(choose_processors({0, 1, 2, 3}, {{0}, {2}}), (Processors{1, 3}));
  EXPECT_EQ(choose_processors({0, 1, 2, 3}, {{0, 1}, {2, 3}}), (Processors{0, 1, 2, 3}));
  // Ranks that run on other processors than their launcher: these processors belong to the job, too.
  EXPECT_EQ(choose_processors({0}, {{4}, {5}}), (Processors{0}));
  EXPECT_EQ(choose_processors({4}, {{4}, {5}}), (Processors{4, 5}));
}

TEST(Processors, IgnoreRanksThatCannotBeSeen) {
  EXPECT_EQ(choose_processors({0, 1}, {{}, {1}}), (Processors{0}));
  EXPECT_EQ(choose_processors({}, {{}, {1}}), (Processors{1}));
  // Nothing is known of any rank, so not even the launcher's processors are used.
  EXPECT_EQ(choose_processors({0, 1}, {{}, {}}), Processors{});
  EXPECT_EQ(choose_processors({0, 1}, {}), Processors{});
}

TEST(Processors, AreThoseThatTheKernelNames) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  Processors expected;
  for (std::uint32_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) expected.push_back(i);
  EXPECT_EQ(processors_of(getpid()), expected);
  EXPECT_EQ(processors_of(0), Processors{});  // not this process
  EXPECT_EQ(processors_of(-1), Processors{});
}

TEST(Processors, IncludeThoseOfAllThreads) {
  const Processors before = processors_of(getpid());
  if (before.size() < 2) GTEST_SKIP() << "one processor";
  std::atomic<bool> bound{false}, end{false};
  std::thread other([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(before[1], &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    bound = true;
    while (!end) std::this_thread::sleep_for(milliseconds(1));
  });
  while (!bound) std::this_thread::yield();
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(before[0], &first);
  ASSERT_EQ(sched_setaffinity(0, sizeof first, &first), 0);
  EXPECT_EQ(processors_of(getpid()), Processors{before[0]});
  EXPECT_EQ(processors_of_threads(getpid()), (Processors{before[0], before[1]}));
  // All threads move.
  EXPECT_TRUE(move_to({before[1]}));
  EXPECT_EQ(processors_of_threads(getpid()), Processors{before[1]});
  end = true;
  other.join();
  EXPECT_FALSE(move_to({}));  // the kernel refuses, and nothing changes
  EXPECT_EQ(processors_of(getpid()), Processors{before[1]});
  EXPECT_TRUE(move_to(before));
  EXPECT_EQ(processors_of(getpid()), before);
}

TEST(Processors, AreEmptyForAProcessThatIsGone) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_EQ(processors_of(pid), Processors{});
  EXPECT_EQ(processors_of_threads(pid), Processors{});
}

constexpr const char* kStatistics =
    "cpu  100 0 100 5000 70 0 0 0 0 0\n"
    "cpu0 50 0 50 1000 20 0 0 0 0 0\n"
    "cpu1 50 0 50 4000 50 0 0 0 0 0\n"
    "cpu10 0 0 0 7 0 0 0 0 0 0\n"
    "intr 1 2 3\n";

TEST(IdleTime, IsThatOfTheGivenProcessors) {
  const auto ticks = [](long n) { return nanoseconds(n * (1'000'000'000 / sysconf(_SC_CLK_TCK))); };
  EXPECT_EQ(idle_time(kStatistics, {0}), ticks(1020));
  EXPECT_EQ(idle_time(kStatistics, {1}), ticks(4050));
  EXPECT_EQ(idle_time(kStatistics, {0, 1, 10}), ticks(5077));
  EXPECT_EQ(idle_time(kStatistics, {2, 10}), ticks(7));
  EXPECT_EQ(idle_time(kStatistics, {2}), std::nullopt);
  EXPECT_EQ(idle_time("", {0}), std::nullopt);
  EXPECT_EQ(idle_time("cpu0 1 2", {0}), ticks(0));
}

TEST(IdleWatch, ComparesWithItsLastLook) {
  IdleWatch watch;
  EXPECT_TRUE(watch.had_room(milliseconds(5000), milliseconds(100)));  // nothing is known yet
  EXPECT_FALSE(watch.had_room(milliseconds(5000), milliseconds(1100)));
  EXPECT_TRUE(watch.had_room(milliseconds(5100), milliseconds(2100)));
  EXPECT_FALSE(watch.had_room(milliseconds(5199), milliseconds(3100)));
  EXPECT_TRUE(watch.had_room(std::nullopt, milliseconds(4100)));
}

TEST(Urgency, BeginsAndEndsAtDifferentFills) {
  Urgency urgency;
  EXPECT_FALSE(urgency.after_look(0.5));
  EXPECT_TRUE(urgency.after_look(0.51));
  EXPECT_TRUE(urgency.after_look(0.3));
  EXPECT_TRUE(urgency.after_look(0.2));
  EXPECT_FALSE(urgency.after_look(0.19));
  EXPECT_FALSE(urgency.after_look(0.4));
}

// The switch works in both directions without root.
TEST(Urgency, ChangesTheSchedulingPolicy) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(9);
    for (int i = 0; i < 2; ++i) {
      if (!set_urgent(false) || sched_getscheduler(0) != SCHED_BATCH) _exit(1);
      if (!set_urgent(true) || sched_getscheduler(0) != SCHED_OTHER) _exit(2);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace clusterprof::collector
