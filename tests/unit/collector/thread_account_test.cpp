// SPDX-License-Identifier: BSD-3-Clause
#include "collector/thread_account.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <utility>

namespace clusterprof::collector {
namespace {

using Category = shard::Category;

const ChargeTarget kA{1, Category::kNative}, kB{2, Category::kIdle}, kC{3, Category::kPython},
    kD{4, Category::kIo};

// What was charged per path: (wall, cpu), and counters.
struct Ledger {
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> time;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> counts;
  std::map<std::uint32_t, Category> category;

  void operator()(const ChargeTarget& target, std::uint64_t wall, std::uint64_t cpu) {
    time[target.path].first += wall;
    time[target.path].second += cpu;
    category[target.path] = target.category;
  }
  void counter(const ChargeTarget& target, std::uint32_t index, std::uint64_t value) {
    counts[{target.path, index}] += value;
  }
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> at(std::uint32_t path) const {
    const auto it = time.find(path);
    return it == time.end() ? std::pair<std::uint64_t, std::uint64_t>{} : it->second;
  }
  [[nodiscard]] std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& [path, amount] : time) sum += amount.first;
    return sum;
  }
};

using Time = std::pair<std::uint64_t, std::uint64_t>;

TEST(ThreadAccount, RunningToRunningChargesTheNewSample) {
  ThreadAccount account(1000, 100, false);
  Ledger ledger;
  account.sample(1100, 190, false, kA, {}, ledger);
  account.sample(1300, 340, false, kC, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100, 90}));
  EXPECT_EQ(ledger.at(3), (Time{200, 150}));
}

TEST(ThreadAccount, RunningToBlockedChargesTheWaitAndCarriesTheCpuTime) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, kA, {}, ledger);
  account.sample(200, 130, true, kB, {}, ledger);
  EXPECT_EQ(ledger.at(2), (Time{70, 0}));
  EXPECT_EQ(ledger.total(), 170u);  // 30 are carried
  account.sample(210, 140, false, kC, {}, ledger);
  EXPECT_EQ(ledger.at(3), (Time{40, 40}));
  EXPECT_EQ(ledger.total(), 210u);
}

TEST(ThreadAccount, BlockedToRunningChargesTheWaitToWhereItWaited) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(10, 0, true, kB, {}, ledger);
  account.sample(1000, 5, false, kA, {}, ledger);
  EXPECT_EQ(ledger.at(2), (Time{10 + 985, 0}));
  EXPECT_EQ(ledger.at(1), (Time{5, 5}));
  EXPECT_EQ(ledger.total(), 1000u);
}

TEST(ThreadAccount, BlockedToBlockedChargesThePrevious) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(10, 0, true, kB, {}, ledger);
  account.sample(110, 20, true, kD, {}, ledger);
  EXPECT_EQ(ledger.at(2), (Time{90, 0}));
  EXPECT_EQ(ledger.at(4), (Time{0, 0}));
  account.sample(130, 30, false, kA, {}, ledger);
  EXPECT_EQ(ledger.at(4), (Time{10, 0}));
  EXPECT_EQ(ledger.at(1), (Time{30, 30}));
  EXPECT_EQ(ledger.total(), 130u);
}

TEST(ThreadAccount, EndChargesTheRemainderToThePreviousSample) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 80, false, kA, {}, ledger);
  account.end(150, 110, 10, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{150, 110}));
}

TEST(ThreadAccount, EndWhileBlockedGivesTheCarriedTimeToTheLastRunningSample) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, kA, {}, ledger);
  account.sample(200, 130, true, kB, {}, ledger);
  account.end(300, 140, 10, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100 + 30 + 10, 140}));
  EXPECT_EQ(ledger.at(2), (Time{70 + 90, 0}));
  EXPECT_EQ(ledger.total(), 300u);
}

TEST(ThreadAccount, EndWhileBlockedWithoutAnyRunningSampleStaysThere) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 20, true, kB, {}, ledger);
  account.end(200, 30, 10, {}, ledger);
  EXPECT_EQ(ledger.at(2), (Time{200, 30}));
}

TEST(ThreadAccount, ThreadWithoutSamplesChargesTheRoot) {
  ThreadAccount account(1000, 50, false);
  Ledger ledger;
  account.end(1100, 80, 10, {}, ledger);
  EXPECT_EQ(ledger.at(0), (Time{100, 30}));
}

TEST(ThreadAccount, KilledThreadHasNoCpuTimeToGive) {
  Ledger running, blocked;
  ThreadAccount a(0, 0, false), b(0, 0, false);
  a.sample(100, 100, false, kA, {}, running);
  a.end(1000, std::nullopt, 10, {}, running);
  EXPECT_EQ(running.at(1), (Time{1000, 110}));  // at most a period of it ran
  b.sample(100, 0, true, kB, {}, blocked);
  b.end(1000, std::nullopt, 10, {}, blocked);
  EXPECT_EQ(blocked.at(2), (Time{1000, 0}));
}

TEST(ThreadAccount, CpuClockCountsOnlyCpuTime) {
  ThreadAccount account(0, 0, true);
  Ledger ledger;
  account.sample(1000, 10, false, kA, {}, ledger);
  account.sample(2000, 20, true, kB, {}, ledger);
  account.sample(3000, 50, false, kC, {}, ledger);
  account.end(9000, 60, 10, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{10, 10}));
  EXPECT_EQ(ledger.at(2), (Time{0, 0}));
  EXPECT_EQ(ledger.at(3), (Time{50, 50}));
  EXPECT_EQ(ledger.total(), 60u);
}

TEST(ThreadAccount, CpuTimeIsNeverMoreThanWallTime) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 500, false, kA, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100, 100}));
}

TEST(ThreadAccount, ClocksThatGoBackwardsStandStill) {
  ThreadAccount account(1000, 1000, false);
  Ledger ledger;
  account.sample(500, 400, false, kA, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{0, 0}));
  account.sample(1100, 1050, false, kC, {}, ledger);
  EXPECT_EQ(ledger.at(3), (Time{100, 50}));
}

TEST(ThreadAccount, CountersFollowTheCpuTime) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  const std::uint64_t first[] = {10, 1}, second[] = {25, 1}, third[] = {30, 4}, last[] = {31, 4};
  account.sample(100, 100, false, kA, first, ledger);
  account.sample(200, 130, true, kB, second, ledger);
  account.sample(300, 140, false, kC, third, ledger);
  account.end(400, 150, 10, last, ledger);
  EXPECT_EQ((ledger.counts[{1, 0}]), 10u);
  EXPECT_EQ((ledger.counts[{2, 0}]), 0u);
  EXPECT_EQ((ledger.counts[{3, 0}]), 21u);
  EXPECT_EQ((ledger.counts[{3, 1}]), 3u);
}

}  // namespace
}  // namespace clusterprof::collector
