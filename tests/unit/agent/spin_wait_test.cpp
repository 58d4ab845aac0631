// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/spin_wait.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

namespace clusterprof::agent {
namespace {

using namespace std::chrono_literals;

double cpu_ms() {
  timespec used = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

TEST(SpinWait, EndsWithTheFirstAttemptThatSucceeds) {
  for (const int successful : {1, 2, 50, 150, 320}) {
    int attempts = 0;
    wait_until([&] { return ++attempts == successful; });
    EXPECT_EQ(attempts, successful);
  }
}

TEST(SpinWait, SleepsIfItTakesLong) {
  const auto end = std::chrono::steady_clock::now() + 300ms;
  const double before = cpu_ms();
  int attempts = 0;
  errno = 7;
  wait_until([&] {
    ++attempts;
    return std::chrono::steady_clock::now() >= end;
  });
  EXPECT_LT(cpu_ms() - before, 100);
  EXPECT_LE(attempts, 300 + 300'000 / 50) << "and no more often than once in 50 us";
  EXPECT_EQ(errno, 7);
}

TEST(SpinWait, SeesWhatAnotherThreadHasWritten) {
  std::atomic<int> lock = 1;
  int written = 0;
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    written = 3;
    lock.store(0, std::memory_order_release);
  });
  wait_until([&] { return lock.exchange(1, std::memory_order_acquire) == 0; });
  EXPECT_EQ(written, 3);
  other.join();
}

}  // namespace
}  // namespace clusterprof::agent
