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
  std::map<std::uint32_t, std::uint64_t> faults;

  void operator()(const ChargeTarget& target, std::uint64_t wall, std::uint64_t cpu) {
    time[target.path].first += wall;
    time[target.path].second += cpu;
    category[target.path] = target.category;
  }
  void page_fault(const ChargeTarget& of, std::uint64_t ns) { faults[of.path] += ns; }
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
    for (const auto& [path, ns] : faults) sum += ns;
    return sum;
  }
};

using Time = std::pair<std::uint64_t, std::uint64_t>;

TEST(ThreadAccount, RunningToRunningChargesTheNewSample) {
  ThreadAccount account(1000, 100, false);
  Ledger ledger;
  account.sample(1100, 190, false, {}, kA, {}, ledger);
  account.sample(1300, 340, false, {}, kC, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100, 90}));
  EXPECT_EQ(ledger.at(3), (Time{200, 150}));
}

TEST(ThreadAccount, RunningToBlockedChargesTheWaitAndCarriesTheCpuTime) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, {}, kA, {}, ledger);
  account.sample(200, 130, true, {}, kB, {}, ledger);
  EXPECT_EQ(ledger.at(2), (Time{70, 0}));
  EXPECT_EQ(ledger.total(), 170u);  // 30 are carried
  account.sample(210, 140, false, {}, kC, {}, ledger);
  EXPECT_EQ(ledger.at(3), (Time{40, 40}));
  EXPECT_EQ(ledger.total(), 210u);
}

TEST(ThreadAccount, BlockedToRunningChargesTheWaitToWhereItWaited) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(10, 0, true, {}, kB, {}, ledger);
  account.sample(1000, 5, false, {}, kA, {}, ledger);
  EXPECT_EQ(ledger.at(2), (Time{10 + 985, 0}));
  EXPECT_EQ(ledger.at(1), (Time{5, 5}));
  EXPECT_EQ(ledger.total(), 1000u);
}

TEST(ThreadAccount, BlockedToBlockedChargesThePrevious) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(10, 0, true, {}, kB, {}, ledger);
  account.sample(110, 20, true, {}, kD, {}, ledger);
  EXPECT_EQ(ledger.at(2), (Time{90, 0}));
  EXPECT_EQ(ledger.at(4), (Time{0, 0}));
  account.sample(130, 30, false, {}, kA, {}, ledger);
  EXPECT_EQ(ledger.at(4), (Time{10, 0}));
  EXPECT_EQ(ledger.at(1), (Time{30, 30}));
  EXPECT_EQ(ledger.total(), 130u);
}

TEST(ThreadAccount, EndChargesTheRemainderToThePreviousSample) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 80, false, {}, kA, {}, ledger);
  account.end(150, 110, 10, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{150, 110}));
}

TEST(ThreadAccount, EndWhileBlockedGivesTheCarriedTimeToTheLastRunningSample) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, {}, kA, {}, ledger);
  account.sample(200, 130, true, {}, kB, {}, ledger);
  account.end(300, 140, 10, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100 + 30 + 10, 140}));
  EXPECT_EQ(ledger.at(2), (Time{70 + 90, 0}));
  EXPECT_EQ(ledger.total(), 300u);
}

TEST(ThreadAccount, EndWhileBlockedWithoutAnyRunningSampleStaysThere) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 20, true, {}, kB, {}, ledger);
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
  a.sample(100, 100, false, {}, kA, {}, running);
  a.end(1000, std::nullopt, 10, {}, running);
  EXPECT_EQ(running.at(1), (Time{1000, 110}));  // at most a period of it ran
  b.sample(100, 0, true, {}, kB, {}, blocked);
  b.end(1000, std::nullopt, 10, {}, blocked);
  EXPECT_EQ(blocked.at(2), (Time{1000, 0}));
}

TEST(ThreadAccount, CpuClockCountsOnlyCpuTime) {
  ThreadAccount account(0, 0, true);
  Ledger ledger;
  account.sample(1000, 10, false, {}, kA, {}, ledger);
  account.sample(2000, 20, true, {}, kB, {}, ledger);
  account.sample(3000, 50, false, {}, kC, {}, ledger);
  account.end(9000, 60, 10, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{10, 10}));
  EXPECT_EQ(ledger.at(2), (Time{0, 0}));
  EXPECT_EQ(ledger.at(3), (Time{50, 50}));
  EXPECT_EQ(ledger.total(), 60u);
}

TEST(ThreadAccount, CpuTimeIsNeverMoreThanWallTime) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 500, false, {}, kA, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100, 100}));
}

TEST(ThreadAccount, ClocksThatGoBackwardsStandStill) {
  ThreadAccount account(1000, 1000, false);
  Ledger ledger;
  account.sample(500, 400, false, {}, kA, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{0, 0}));
  account.sample(1100, 1050, false, {}, kC, {}, ledger);
  EXPECT_EQ(ledger.at(3), (Time{100, 50}));
}

TEST(ThreadAccount, CountersFollowTheCpuTime) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  const std::uint64_t first[] = {10, 1}, second[] = {25, 1}, third[] = {30, 4}, last[] = {31, 4};
  account.sample(100, 100, false, {}, kA, first, ledger);
  account.sample(200, 130, true, {}, kB, second, ledger);
  account.sample(300, 140, false, {}, kC, third, ledger);
  account.end(400, 150, 10, last, ledger);
  EXPECT_EQ((ledger.counts[{1, 0}]), 10u);
  EXPECT_EQ((ledger.counts[{2, 0}]), 0u);
  EXPECT_EQ((ledger.counts[{3, 0}]), 21u);
  EXPECT_EQ((ledger.counts[{3, 1}]), 3u);
}

// --- page faults ---------------------------------------------------------------------------

constexpr std::uint64_t kMs = 1'000'000;

// A thread that runs all the time, sampled every 10 ms.
class PageFaults : public testing::Test {
 protected:
  void step(std::uint64_t system_ms, std::uint64_t faults, const ChargeTarget& target = kA,
            bool in_syscall = false, bool may_fault = true) {
    now_ns_ += 10 * kMs;
    system_ns_ += system_ms * kMs;
    faults_ += faults;
    account_.sample(now_ns_, now_ns_, false, {system_ns_, faults_, in_syscall, may_fault}, target, {},
                    ledger_);
  }
  std::uint64_t now_ns_ = 0, system_ns_ = 1, faults_ = 0;
  ThreadAccount account_{0, 0, false};
  Ledger ledger_;
};

TEST_F(PageFaults, TakeTheSystemTimeOfTheInterval) {
  step(0, 0);
  step(4, 100);
  EXPECT_EQ(ledger_.faults[1], 4 * kMs);
  EXPECT_EQ(ledger_.at(1), (Time{16 * kMs, 16 * kMs}));
  EXPECT_EQ(ledger_.total(), now_ns_);
}

TEST_F(PageFaults, LumpsOfTheTickAreSpreadOverSamples) {
  step(0, 0);
  step(0, 500);
  step(16, 500);  // more than the interval: the rest comes with the next sample
  step(0, 500, kC);
  EXPECT_EQ(ledger_.faults[1], 10 * kMs);
  EXPECT_EQ(ledger_.faults[3], 6 * kMs);
  EXPECT_EQ(ledger_.total(), now_ns_);
}

TEST_F(PageFaults, SystemTimeWithoutFaultsStaysWhereItIs) {
  step(0, 0);
  for (int i = 0; i < 100; ++i) step(2, 0);
  EXPECT_EQ(ledger_.faults[1], 0u);
  step(0, 100);  // and is not remembered against later ones
  EXPECT_EQ(ledger_.faults[1], 0u);
}

TEST_F(PageFaults, FewFaultsCannotExplainMuchTime) {
  step(0, 0);
  for (int i = 0; i < 100; ++i) step(5, 1);
  EXPECT_LE(ledger_.faults[1], 100 * kMs / 2);
  EXPECT_EQ(ledger_.total(), now_ns_);
}

TEST_F(PageFaults, SystemCallsTakeTheirTimeOutFirst) {
  // Half of the time in system calls, samples alternate, single faults all the time.
  step(0, 0);
  for (int i = 0; i < 200; ++i) step(5, 100, i % 2 == 0 ? kD : kA, i % 2 == 0);
  EXPECT_LE(ledger_.faults[1], 10 * kMs);
  EXPECT_EQ(ledger_.faults[4], 0u);
  EXPECT_EQ(ledger_.total(), now_ns_);
}

TEST_F(PageFaults, SystemCallsAndFaultsShareAsTheKernelSays) {
  // Of every four intervals: one all in a system call, two of computing with half of it faults, one without.
  step(0, 0);
  for (int i = 0; i < 100; ++i) {
    step(10, 0, kD, true);
    step(5, 50);
    step(5, 50);
    step(0, 0, kC);
  }
  EXPECT_NEAR(static_cast<double>(ledger_.faults[1]), 1000.0 * kMs, 50.0 * kMs);
  EXPECT_EQ(ledger_.faults[3], 0u);
  EXPECT_EQ(ledger_.total(), now_ns_);
}

TEST_F(PageFaults, InsideMpiAreMpi) {
  step(0, 0);
  for (int i = 0; i < 10; ++i) step(10, 100, kA, false, false);
  EXPECT_TRUE(ledger_.faults.empty());
  EXPECT_EQ(ledger_.total(), now_ns_);
}

TEST_F(PageFaults, BeforeTheAccountBeganDoNotCount) {
  account_ = ThreadAccount(0, 30 * kMs, false);
  system_ns_ = 25 * kMs;
  faults_ = 3000;
  now_ns_ = 30 * kMs;
  step(1, 10);  // the first that tells
  EXPECT_EQ(ledger_.faults[1], 0u);
  step(3, 10);
  EXPECT_EQ(ledger_.faults[1], 3 * kMs);
}

TEST(ThreadAccount, UnknownSystemTimeChangesNothing) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(10 * kMs, 10 * kMs, false, {}, kA, {}, ledger);
  account.sample(20 * kMs, 20 * kMs, false, {}, kA, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{20 * kMs, 20 * kMs}));
  EXPECT_TRUE(ledger.faults.empty());
}

TEST(ThreadAccount, NonsenseFromTheProcessKeepsTheSum) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  const std::uint64_t huge = ~std::uint64_t{0};
  account.sample(10 * kMs, 10 * kMs, false, {1, 1}, kA, {}, ledger);
  account.sample(20 * kMs, 20 * kMs, false, {huge, huge}, kA, {}, ledger);
  account.sample(30 * kMs, 30 * kMs, false, {5, 5}, kA, {}, ledger);
  account.sample(40 * kMs, 40 * kMs, true, {huge, huge, true}, kA, {}, ledger);
  account.sample(50 * kMs, 50 * kMs, false, {huge, huge, true}, kA, {}, ledger);
  EXPECT_EQ(ledger.total(), 50 * kMs);
}

}  // namespace
}  // namespace clusterprof::collector
