// SPDX-License-Identifier: BSD-3-Clause
#include "base/workers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace clusterprof {
namespace {

TEST(WorkersTest, ProcessEachItemOnce) {
  for (std::size_t threads = 1; threads <= 4; ++threads) {
    std::vector<std::atomic<int>> done(100);
    share_work(threads, done.size(), [&](std::size_t worker, std::size_t item) {
      EXPECT_LT(worker, threads);
      ++done[item];
    });
    for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1) << threads << " threads";
  }
  share_work(4, 0, [](std::size_t, std::size_t) { FAIL() << "there is nothing to do"; });
}

TEST(WorkersTest, UseTheCallersThreadIfThereIsOne) {
  std::vector<std::size_t> items;
  const auto caller = std::this_thread::get_id();
  share_work(1, 20, [&](std::size_t worker, std::size_t item) {
    EXPECT_EQ(worker, 0u);
    EXPECT_EQ(std::this_thread::get_id(), caller);
    items.push_back(item);
  });
  ASSERT_EQ(items.size(), 20u);
  for (std::size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i], i);
}

// The first item lasts until the other thread may not begin a further one. If it did not have to wait, it
// would take all of them.
TEST(WorkersTest, StayCloseToTheFirstItemUnderWay) {
  std::mutex mutex;
  std::set<std::size_t> begun_items, under_way;
  std::size_t most_ahead = 0;
  std::atomic<std::size_t> begun{0};
  share_work(2, 3 * kMaxAhead, [&](std::size_t, std::size_t item) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      EXPECT_TRUE(begun_items.insert(item).second) << item;
      under_way.insert(item);
      most_ahead = std::max(most_ahead, item - *under_way.begin());
    }
    ++begun;
    while (item == 0 && begun < kMaxAhead) std::this_thread::yield();
    const std::lock_guard<std::mutex> lock(mutex);
    under_way.erase(item);
  });
  EXPECT_EQ(begun_items.size(), 3 * kMaxAhead);
  EXPECT_EQ(most_ahead, kMaxAhead - 1);
}

TEST(WorkersTest, StopWhenAnItemThrows) {
  for (std::size_t threads = 1; threads <= 3; ++threads) {
    std::atomic<std::size_t> begun{0};
    const auto work = [&](std::size_t, std::size_t item) {
      ++begun;
      if (item == 5) throw std::runtime_error("item 5");
    };
    try {
      share_work(threads, 1000, work);
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "item 5");
    }
    EXPECT_LE(begun, 5 + kMaxAhead) << threads << " threads";
  }
}

}  // namespace
}  // namespace clusterprof
