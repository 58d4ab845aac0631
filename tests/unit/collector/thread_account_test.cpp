// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/thread_account.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/collector/times.hpp"

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
  std::map<std::uint32_t, std::uint64_t> faults, fault_wall;
  std::map<std::uint32_t, std::uint64_t> spent_at, spent_in_faults;

  void operator()(const ChargeTarget& target, std::uint64_t wall, std::uint64_t cpu) {
    time[target.path].first += wall;
    time[target.path].second += cpu;
    category[target.path] = target.category;
  }
  void page_fault(const ChargeTarget& of, std::uint64_t wall, std::uint64_t cpu) {
    fault_wall[of.path] += wall;
    faults[of.path] += cpu;
  }
  void paused(std::uint64_t wall) { paused_ns += wall; }
  // Path numbers of runnable time are 100 above.
  static ChargeTarget runnable(const ChargeTarget& of) { return {of.path + 100, Category::kRunnable}; }
  void runnable_in_mpi(const Stretch&, std::uint64_t wall) { runnable_in_mpi_ns += wall; }
  std::uint64_t runnable_in_mpi_ns = 0;
  void spent(const ChargeTarget& target, const Stretch& when, std::uint64_t wall) {
    ASSERT_LE(when.begin_ns, when.end_ns);
    ASSERT_LE(wall, when.end_ns - when.begin_ns);
    if (wall != 0) stretches.push_back({when.begin_ns, when.end_ns, target.category, wall});
    spent_at[target.path] += wall;
  }
  void page_fault_spent(const ChargeTarget& of, const Stretch& when, std::uint64_t wall) {
    spent({of.path, Category::kSystem}, when, wall);
    spent_at[of.path] -= wall;
    spent_in_faults[of.path] += wall;
  }
  void counted(std::uint32_t index, const Stretch& when, std::uint64_t value) {
    counts_over_time.push_back({when.begin_ns, when.end_ns, index, value});
  }
  struct Spent {
    std::uint64_t begin, end;
    Category category;
    std::uint64_t wall;
    friend bool operator==(const Spent&, const Spent&) = default;
    friend void PrintTo(const Spent& s, std::ostream* out) {
      *out << s.begin << ".." << s.end << " " << shard::kCategoryNames[static_cast<std::size_t>(s.category)]
           << " " << s.wall;
    }
  };
  struct Counted {
    std::uint64_t begin, end;
    std::uint32_t index;
    std::uint64_t value;
    friend bool operator==(const Counted&, const Counted&) = default;
  };
  std::uint64_t paused_ns = 0;
  std::vector<Spent> stretches;
  std::vector<Counted> counts_over_time;
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
    for (const auto& [path, ns] : fault_wall) sum += ns;
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

// The thread is on standby, a window begins at 1000 and ends at 1500, and another one is at 9000.
TEST(ThreadAccount, OnlyWindowsOfRecordingAreCharged) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.end_window(0, 0, {}, ledger);
  account.begin_window(1000, 900, ledger);
  KernelUse kernel;
  kernel.gave_way = true;
  kernel.run_delay_ns = 70;  // before
  kernel.mpi_ns = 300;
  account.sample(1100, 990, false, kernel, kA, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100, 90}));
  account.sample(1200, 1000, true, kernel, kB, {}, ledger);
  account.end_window(1500, 1000, {}, ledger);  // blocked until then
  EXPECT_EQ(ledger.at(2), (Time{90 + 300, 0}));
  EXPECT_EQ(ledger.total(), 500u);
  account.begin_window(9000, 7000, ledger);
  account.end_window(9200, 7050, {}, ledger);
  EXPECT_EQ(ledger.at(0), (Time{200, 50}));  // nobody knows where it was
  account.end(20'000, 9000, 10, {}, {}, ledger);
  EXPECT_EQ(ledger.total(), 700u);
  EXPECT_EQ(ledger.runnable_in_mpi_ns, 0u);
}

TEST(ThreadAccount, CountersOfAWindowBeginWithItsFirstSample) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  const std::uint64_t before[] = {500}, first[] = {700}, second[] = {760};
  account.sample(100, 100, false, {}, kA, before, ledger);
  account.end_window(150, 150, {}, ledger);
  account.begin_window(1000, 900, ledger);
  account.sample(1100, 1000, false, {}, kA, first, ledger);
  account.sample(1200, 1100, false, {}, kC, second, ledger);
  EXPECT_EQ((ledger.counts[{1, 0}]), 500u);
  EXPECT_EQ((ledger.counts[{3, 0}]), 60u);
}

TEST(ThreadAccount, EndChargesTheRemainderToThePreviousSample) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 80, false, {}, kA, {}, ledger);
  account.end(150, 110, 10, {}, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{150, 110}));
}

TEST(ThreadAccount, EndWhileBlockedGivesTheCarriedTimeToTheLastRunningSample) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, {}, kA, {}, ledger);
  account.sample(200, 130, true, {}, kB, {}, ledger);
  account.end(300, 140, 10, {}, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100 + 30 + 10, 140}));
  EXPECT_EQ(ledger.at(2), (Time{70 + 90, 0}));
  EXPECT_EQ(ledger.total(), 300u);
}

TEST(ThreadAccount, EndWhileBlockedWithoutARunningSampleChargesTheBlockedOne) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 20, true, {}, kB, {}, ledger);
  account.end(200, 30, 10, {}, {}, ledger);
  EXPECT_EQ(ledger.at(2), (Time{200, 30}));
}

TEST(ThreadAccount, ThreadWithoutSamplesChargesTheRoot) {
  ThreadAccount account(1000, 50, false);
  Ledger ledger;
  account.end(1100, 80, 10, {}, {}, ledger);
  EXPECT_EQ(ledger.at(0), (Time{100, 30}));
}

TEST(ThreadAccount, KilledThreadHasNoCpuTimeToGive) {
  Ledger running, blocked;
  ThreadAccount a(0, 0, false), b(0, 0, false);
  a.sample(100, 100, false, {}, kA, {}, running);
  a.end(1000, std::nullopt, 10, {}, {}, running);
  EXPECT_EQ(running.at(1), (Time{1000, 110}));  // at most a period of it ran
  b.sample(100, 0, true, {}, kB, {}, blocked);
  b.end(1000, std::nullopt, 10, {}, {}, blocked);
  EXPECT_EQ(blocked.at(2), (Time{1000, 0}));
}

TEST(ThreadAccount, CpuClockCountsOnlyCpuTime) {
  ThreadAccount account(0, 0, true);
  Ledger ledger;
  account.sample(1000, 10, false, {}, kA, {}, ledger);
  account.sample(2000, 20, true, {}, kB, {}, ledger);
  account.sample(3000, 50, false, {}, kC, {}, ledger);
  account.end(9000, 60, 10, {}, {}, ledger);
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

TEST(ThreadAccount, TreatsAClockThatGoesBackAsStandingStill) {
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
  account.end(400, 150, 10, {}, last, ledger);
  EXPECT_EQ((ledger.counts[{1, 0}]), 10u);
  EXPECT_EQ((ledger.counts[{2, 0}]), 0u);
  EXPECT_EQ((ledger.counts[{3, 0}]), 21u);
  EXPECT_EQ((ledger.counts[{3, 1}]), 3u);
}

// --- waits between samples -----------------------------------------------------------------

// Every 10 ms the thread runs for 5 and waits for 5, and is sampled running; once in a while waiting.
class ShortWaits : public testing::Test {
 protected:
  void step(bool gave_way, bool blocked = false, const ChargeTarget& target = kC, bool may_fault = true) {
    now_ns_ += 10'000'000;
    ran_ns_ += 5'000'000;
    KernelUse kernel;
    kernel.gave_way = gave_way;
    kernel.may_fault = may_fault;
    account_.sample(now_ns_, ran_ns_, blocked, kernel, target, {}, ledger_);
  }
  std::uint64_t now_ns_ = 0, ran_ns_ = 0;
  ThreadAccount account_{0, 0, false};
  Ledger ledger_;
};

TEST_F(ShortWaits, AreChargedToWhereTheThreadWasSeenWaiting) {
  step(true, true, kB);
  for (int i = 0; i < 40; ++i) step(true);
  EXPECT_EQ(ledger_.at(2), (Time{41 * 5'000'000, 0}));
  EXPECT_EQ(ledger_.at(3), (Time{41 * 5'000'000, 41 * 5'000'000}));
  EXPECT_EQ(ledger_.total(), now_ns_);
}

TEST_F(ShortWaits, AreNotChargedWithoutARecentPlace) {
  for (int i = 0; i < 4; ++i) step(true);  // never seen waiting
  EXPECT_EQ(ledger_.at(3), (Time{now_ns_, ran_ns_}));
  step(true, true, kB);
  step(true);  // ends that wait
  const Time before = ledger_.at(2);
  step(false);                   // it was made to stop
  step(true, false, kA, false);  // in a system call: that is where
  EXPECT_EQ(ledger_.at(2), before);
  for (int i = 0; i < 60; ++i) step(false);
  step(true);  // too long ago
  EXPECT_EQ(ledger_.at(2), before);
  EXPECT_EQ(ledger_.total(), now_ns_);
}

TEST_F(ShortWaits, AreFoundByEventSamples) {
  step(true, true, kB);
  step(true);
  const std::uint64_t before = ledger_.at(2).first;
  KernelUse kernel;
  kernel.gave_way = true;
  account_.event(now_ns_ + 1'000'000, kernel, kC, {}, ledger_);
  step(false);
  EXPECT_EQ(ledger_.at(2).first, before + 5'000'000);
  step(false);
  EXPECT_EQ(ledger_.at(2).first, before + 5'000'000);
  EXPECT_EQ(ledger_.total(), now_ns_);
}

// --- page faults ---------------------------------------------------------------------------

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

TEST(ThreadAccount, PageFaultsShareTheWaitForAProcessor) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(10 * kMs, 10 * kMs, false, {1, 1}, kA, {}, ledger);
  account.sample(30 * kMs, 20 * kMs, false, {5 * kMs, 100}, kA, {}, ledger);  // ran for half of 20 ms
  EXPECT_NEAR(static_cast<double>(ledger.faults[1]), 5.0 * kMs, 2);
  EXPECT_NEAR(static_cast<double>(ledger.fault_wall[1]), 10.0 * kMs, 4);
  EXPECT_EQ(ledger.total(), 30 * kMs);
}

TEST_F(PageFaults, TickSizedSystemTimeIsSpreadOverSamples) {
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

TEST_F(PageFaults, InsideMpiCountAsMpi) {
  step(0, 0);
  for (int i = 0; i < 10; ++i) step(10, 100, kA, false, false);
  EXPECT_TRUE(ledger_.faults.empty());
  EXPECT_EQ(ledger_.total(), now_ns_);
}

TEST_F(PageFaults, BeforeTheFirstSampleAreIgnored) {
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

TEST(ThreadAccount, ImpossibleValuesKeepTheSum) {
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

TEST(ThreadAccount, ReportsTheTimeOfEachCharge) {
  ThreadAccount account(1000, 0, false);
  Ledger ledger;
  account.sample(1100, 90, false, {}, kA, {}, ledger);   // ran
  account.sample(1200, 120, true, {}, kB, {}, ledger);   // ran 30, then waited
  account.sample(1300, 130, true, {}, kD, {}, ledger);   // waited on, then ran 10
  account.sample(1400, 190, false, {}, kC, {}, ledger);  // waited, then ran 60
  account.end(1500, 290, 10, {}, {}, ledger);
  EXPECT_EQ(ledger.stretches, (std::vector<Ledger::Spent>{{1000, 1100, Category::kNative, 100},
                                                          {1130, 1200, Category::kIdle, 70},
                                                          {1200, 1290, Category::kIdle, 90},
                                                          {1300, 1340, Category::kIo, 40},
                                                          {1340, 1400, Category::kPython, 60},
                                                          {1100, 1130, Category::kPython, 30},
                                                          {1290, 1300, Category::kPython, 10},
                                                          {1400, 1500, Category::kPython, 100}}));
}

TEST(ThreadAccount, PageFaultsAreSystemTimeOfTheSameStretch) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(10 * kMs, 10 * kMs, false, {4 * kMs, 100}, kA, {}, ledger);
  account.sample(20 * kMs, 20 * kMs, false, {10 * kMs, 200}, kA, {}, ledger);
  ASSERT_GT(ledger.faults[1], 0u);
  std::uint64_t system = 0, all = 0;
  for (const Ledger::Spent& s : ledger.stretches) {
    all += s.wall;
    if (s.category == Category::kSystem) system += s.wall;
  }
  EXPECT_EQ(system, ledger.faults[1]);
  EXPECT_EQ(all, 20 * kMs);
}

TEST(ThreadAccount, PausedTimeIsNotCharged) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, {}, kA, {}, ledger);
  account.pause(300, 250, false, {}, {}, ledger);
  account.sample(350, 300, false, {}, kC, {}, ledger);
  account.end(400, 350, 10, {}, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100, 100}));
  EXPECT_EQ(ledger.at(3), (Time{100, 100}));
  EXPECT_EQ(ledger.paused_ns, 200u);
  EXPECT_EQ(ledger.total(), 200u);
}

// It waited before the pause, in the pause, and after it.
TEST(ThreadAccount, PausedTimeOfABlockedThreadIsNotCharged) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, {}, kA, {}, ledger);
  account.sample(200, 130, true, {}, kB, {}, ledger);  // 70 waited, 30 carried
  account.pause(300, 140, true, {}, {}, ledger);       // waited up to here, and ran 10
  account.pause(1000, 150, true, {}, {}, ledger);
  account.sample(1100, 170, true, {}, kD, {}, ledger);  // it was still waiting in the pause
  account.sample(1200, 190, false, {}, kC, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{130, 130}));  // with what was carried into the pause
  EXPECT_EQ(ledger.at(2), (Time{70 + 90, 0}));
  EXPECT_EQ(ledger.at(4), (Time{80, 0}));
  EXPECT_EQ(ledger.at(3), (Time{40, 40}));
  EXPECT_EQ(ledger.paused_ns, 10u + 700u + 80u);
  EXPECT_EQ(ledger.total() + ledger.paused_ns, 1200u);
}

TEST(ThreadAccount, ThreadThatEndsInAPauseIsChargedNothingMore) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, {}, kA, {}, ledger);
  account.pause(300, 250, false, {}, {}, ledger);
  account.end(500, 400, 10, {}, {}, ledger);
  EXPECT_EQ(ledger.total(), 100u);
  EXPECT_EQ(ledger.paused_ns, 400u);
}

TEST(ThreadAccount, PausedBeforeTheFirstSample) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.pause(300, 250, false, {}, {}, ledger);
  account.sample(400, 350, false, {}, kA, {}, ledger);
  EXPECT_EQ(ledger.at(0), (Time{0, 0}));
  EXPECT_EQ(ledger.at(1), (Time{100, 100}));
  EXPECT_EQ(ledger.paused_ns, 300u);
}

TEST(ThreadAccount, CountersOfAPauseAreNotCharged) {
  for (const bool told : {true, false}) {  // the record of the pause has values or not
    ThreadAccount account(0, 0, false);
    Ledger ledger;
    const std::uint64_t first[] = {100}, blocked[] = {140}, paused[] = {1000}, after[] = {1010},
                        last[] = {1030};
    account.sample(10, 10, false, {}, kA, first, ledger);
    account.sample(20, 15, true, {}, kB, blocked, ledger);
    account.pause(30, 20, false, {},
                  told ? std::span<const std::uint64_t>(paused) : std::span<const std::uint64_t>(), ledger);
    account.sample(40, 30, false, {}, kC, after, ledger);
    account.sample(50, 40, false, {}, kC, last, ledger);
    const std::uint64_t expected =
        told ? 30u : 20u;  // without them the first value after it is where it begins
    EXPECT_EQ((ledger.counts[{1, 0}]), 140u) << told;
    EXPECT_EQ((ledger.counts[{3, 0}]), expected) << told;
    std::vector<Ledger::Counted> over_time{{0, 10, 0, 100}, {10, 20, 0, 40}};
    if (told) over_time.push_back({30, 40, 0, 10});
    over_time.push_back({40, 50, 0, 20});
    EXPECT_EQ(ledger.counts_over_time, over_time) << told;
  }
}

TEST(ThreadAccount, KernelTimeOfAPauseIsNotChargedToPageFaults) {
  for (const bool told : {true, false}) {
    ThreadAccount account(0, 0, false);
    Ledger ledger;
    account.sample(10 * kMs, 10 * kMs, false, {1, 0}, kA, {}, ledger);
    account.pause(100 * kMs, 100 * kMs, false, told ? KernelUse{50 * kMs, 5000} : KernelUse{}, {}, ledger);
    account.sample(110 * kMs, 110 * kMs, false, {50 * kMs, 5000}, kA, {}, ledger);
    account.sample(120 * kMs, 120 * kMs, false, {50 * kMs, 5000}, kA, {}, ledger);
    EXPECT_EQ(ledger.faults[1], 0u) << told;
    EXPECT_EQ(ledger.at(1).first, 30 * kMs) << told;
  }
}

TEST(ThreadAccount, AnEventSaysWhereCountersGrewAndLeavesTheTime) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  const std::uint64_t first[] = {100}, event[] = {170}, last[] = {180};
  account.sample(10, 10, false, {}, kA, first, ledger);
  account.event(15, {}, kC, event, ledger);
  account.sample(30, 30, false, {}, kA, last, ledger);
  EXPECT_EQ(ledger.at(1), (Time{30, 30}));
  EXPECT_EQ(ledger.at(3), (Time{0, 0}));
  EXPECT_EQ((ledger.counts[{3, 0}]), 70u);
  EXPECT_EQ((ledger.counts[{1, 0}]), 110u);
  EXPECT_EQ(ledger.counts_over_time,
            (std::vector<Ledger::Counted>{{0, 10, 0, 100}, {10, 15, 0, 70}, {15, 30, 0, 10}}));
}

// Whatever comes, all time is charged exactly once, to a path or to none, and lies within the thread's life.
TEST(ThreadAccount, RandomRecordsAddUp) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    ThreadAccount account(1000, 0, false);
    Ledger ledger;
    std::uint64_t time = 1000, cpu = 0;
    const ChargeTarget targets[] = {kA, kB, kC, kD};
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t wall = random() % 1000;
      time += wall;
      cpu += random() % (wall + 1);
      const bool blocked = random() % 2 == 0;
      const KernelUse kernel{random() % 2 == 0 ? 0 : cpu / 2, random() % 2 == 0 ? 0 : time / 100,
                             random() % 2 == 0, true};
      if (random() % 4 == 0) {
        account.pause(time, cpu, blocked, kernel, {}, ledger);
      } else {
        account.sample(time, cpu, blocked, kernel, targets[random() % 4], {}, ledger);
      }
    }
    account.end(time += 500, cpu + 200, 10, {}, {}, ledger);
    EXPECT_EQ(ledger.total() + ledger.paused_ns, time - 1000);
    std::uint64_t spent = 0;
    for (const Ledger::Spent& s : ledger.stretches) {
      EXPECT_GE(s.begin, 1000u);
      EXPECT_LE(s.end, time);
      spent += s.wall;
    }
    EXPECT_EQ(spent, ledger.total());
    for (const auto& [path, amount] : ledger.time) EXPECT_EQ(ledger.spent_at[path], amount.first);
    std::erase_if(ledger.fault_wall, [](const auto& of) { return of.second == 0; });
    EXPECT_EQ(ledger.spent_in_faults, ledger.fault_wall);
  }
}

// What the kernel told of a thread's waits for a processor.
KernelUse waited(std::uint64_t run_delay_ns, bool gave_way = false, std::uint64_t mpi_ns = 0) {
  KernelUse kernel;
  kernel.gave_way = gave_way;
  kernel.run_delay_ns = run_delay_ns;
  kernel.mpi_ns = mpi_ns;
  return kernel;
}
constexpr std::uint32_t kRunnableAt = 100;  // Ledger::runnable
const ChargeTarget kM{7, Category::kMpi};

TEST(ThreadAccountRunnable, PreemptedThreadWaitedForAProcessorForAllOfWMinusC) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(400, 100, false, waited(0), kA, {}, ledger);  // nobody has looked yet
  account.sample(900, 200, false, waited(650), kC, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{100, 100}));
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{300, 0}));
  EXPECT_EQ(ledger.at(3), (Time{100, 100}));
  EXPECT_EQ(ledger.at(3 + kRunnableAt), (Time{400, 0}));
  EXPECT_EQ(ledger.total(), 900u);
}

TEST(ThreadAccountRunnable, DelayChargedToAPreemptedStretchIsNotChargedToASleep) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(400, 100, false, waited(0), kA, {}, ledger);          // 300 in debt
  account.sample(1000, 110, true, waited(300, true), kB, {}, ledger);  // the look that pays it
  account.sample(2000, 120, false, waited(340, true), kA, {},
                 ledger);  // and 40 more: waking up took that long
  EXPECT_EQ(ledger.at(2), (Time{590 + 950, 0}));
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{300, 0}));
  EXPECT_EQ(ledger.at(2 + kRunnableAt), (Time{40, 0}));
  EXPECT_EQ(ledger.total(), 2000u);
}

TEST(ThreadAccountRunnable, WokenThreadWaitedOnceWhereItWasBlockedAndThenForEachPreemption) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(1000, 0, true, waited(0, true), kB, {}, ledger);
  KernelUse kernel = waited(400, true);
  kernel.preemptions = 3;
  account.sample(2000, 100, false, kernel, kA, {}, ledger);
  EXPECT_EQ(ledger.at(2), (Time{1000 + 500, 0}));
  EXPECT_EQ(ledger.at(2 + kRunnableAt), (Time{100, 0}));
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{300, 0}));
  EXPECT_EQ(ledger.at(1), (Time{100, 100}));
  EXPECT_EQ(ledger.total(), 2000u);
}

TEST(ThreadAccountRunnable, PreemptionsThatEventsToldCountForTheNextSample) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(1000, 0, true, waited(0, true), kB, {}, ledger);
  KernelUse kernel = waited(400, true);
  kernel.preemptions = 2;
  account.event(1500, kernel, kC, {}, ledger);
  kernel.preemptions = 1;
  account.sample(2000, 100, false, kernel, kA, {}, ledger);
  EXPECT_EQ(ledger.at(2 + kRunnableAt), (Time{100, 0}));
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{300, 0}));
}

TEST(ThreadAccountRunnable, ThreadThatIsWokenInsideMpiWaitedThere) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(1000, 0, true, waited(0, true, 1000), kM, {}, ledger);
  KernelUse kernel = waited(400, true, 2000);
  kernel.preemptions = 1;
  account.sample(2000, 100, false, kernel, kM, {}, ledger);
  EXPECT_EQ(ledger.runnable_in_mpi_ns, 400u);
  EXPECT_EQ(ledger.at(7), (Time{2000, 100}));
}

TEST(ThreadAccountRunnable, SleepingThreadIsNotRunnable) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 10, true, waited(0, true), kB, {}, ledger);
  account.sample(10'000, 20, true, waited(0, true), kB, {}, ledger);
  account.sample(20'000, 30, false, waited(0, true), kA, {}, ledger);
  for (const auto& [path, amount] : ledger.time) EXPECT_LT(path, kRunnableAt);
}

TEST(ThreadAccountRunnable, UnknownDelayLeavesTheTimeWhereTheThreadRan) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(400, 100, false, {}, kA, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{400, 100}));
}

TEST(ThreadAccountRunnable, MpiKeepsItsTime) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, waited(0), kA, {}, ledger);
  account.sample(500, 200, false, waited(0, false, 400), kM, {}, ledger);  // all of it inside
  EXPECT_EQ(ledger.at(7), (Time{400, 100}));
  EXPECT_EQ(ledger.runnable_in_mpi_ns, 300u);
  // A quarter of this stretch was inside MPI, whichever side the sample found.
  account.sample(900, 300, false, waited(0, false, 500), kA, {}, ledger);
  EXPECT_EQ(ledger.at(1), (Time{200, 200}));
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{225, 0}));
  EXPECT_EQ(ledger.at(7), (Time{475, 100}));
  EXPECT_EQ(ledger.runnable_in_mpi_ns, 375u);
  account.sample(1300, 400, false, waited(0, false, 600), kM, {}, ledger);
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{450, 0}));
  EXPECT_EQ(ledger.total(), 1300u);
}

// A rank that yields in MPI has no processor for half of that time, and outside always one.
TEST(ThreadAccountRunnable, StretchOnBothSidesIsDividedAsThoseOnOneSide) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  std::uint64_t time = 0, cpu = 0, mpi = 0;
  const auto sample = [&](std::uint64_t wall_ms, std::uint64_t cpu_ms, std::uint64_t mpi_ms,
                          const ChargeTarget& at) {
    time += wall_ms * kMs, cpu += cpu_ms * kMs, mpi += mpi_ms * kMs;
    account.sample(time, cpu, false, waited(0, false, mpi), at, {}, ledger);
  };
  for (int i = 0; i < 31; ++i) sample(10, 10, 0, kA);
  for (int i = 0; i < 10; ++i) sample(20, 10, 20, kM);
  EXPECT_EQ(ledger.runnable_in_mpi_ns, 100 * kMs);
  sample(20, 15, 10, kA);
  EXPECT_EQ(ledger.runnable_in_mpi_ns, 105 * kMs);
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{0, 0}));
  // Not more than the time in MPI.
  sample(20, 5, 10, kA);
  EXPECT_EQ(ledger.runnable_in_mpi_ns, 115 * kMs);
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{5 * kMs, 0}));
  EXPECT_EQ(ledger.total(), time);
}

TEST(ThreadAccountRunnable, WakingThreadIsRunnableWhereItContinues) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(1000, 0, true, waited(0, true, 1000), kM, {}, ledger);  // blocked in MPI
  // Until 1700 in there. Then it ran for 100 of the 300 outside.
  account.sample(2000, 100, false, waited(500, true, 1700), kA, {}, ledger);
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{200, 0}));
  EXPECT_EQ(ledger.runnable_in_mpi_ns, 300u);
}

TEST(ThreadAccountRunnable, PausesAreNotCharged) {
  ThreadAccount account(0, 0, false);
  Ledger ledger;
  account.sample(100, 100, false, waited(0), kA, {}, ledger);
  account.pause(1000, 200, false, waited(800), {}, ledger);
  account.sample(1500, 700, false, waited(800, true), kA, {}, ledger);
  EXPECT_EQ(ledger.at(1 + kRunnableAt), (Time{0, 0}));
  EXPECT_EQ(ledger.paused_ns + ledger.total(), 1500u);
}

TEST(ThreadAccountRunnable, ThreadThatEndsUnsampledChargesItsStartFunction) {
  Ledger ledger;
  const KernelUse preempted = waited(0);
  EXPECT_EQ(ThreadAccount(0, 0, false).end(500, 200, 10, {9, &preempted}, {}, ledger), 200u);
  EXPECT_EQ(ledger.at(9), (Time{200, 200}));
  EXPECT_EQ(ledger.at(9 + kRunnableAt), (Time{300, 0}));
  Ledger slept;
  const KernelUse gave_way = waited(0, true);
  EXPECT_EQ(ThreadAccount(0, 0, false).end(500, 200, 10, {9, &gave_way}, {}, slept), 200u);
  EXPECT_EQ(slept.at(9), (Time{500, 200}));  // 300 of it idle
  EXPECT_EQ(slept.category[9], Category::kIdle);
  ThreadAccount sampled(0, 0, false);
  sampled.sample(100, 100, false, waited(0), kA, {}, slept);
  EXPECT_EQ(sampled.end(200, 200, 10, {9, &gave_way}, {}, slept), std::nullopt);
}

TEST(ThreadAccountRunnable, TimeIsConservedWhateverTheKernelSays) {
  std::mt19937_64 random(7);
  const ChargeTarget targets[] = {kA, kB, kC, kD, kM};
  for (int run = 0; run < 200; ++run) {
    ThreadAccount account(1000, 50, false);
    Ledger ledger;
    std::uint64_t time = 1000, cpu = 50, delay = 0, mpi = 0;
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t wall = random() % 1'000'000;
      time += wall;
      cpu += random() % (wall + 1);
      delay += random() % (wall + 1);
      mpi += random() % (wall + 1);
      KernelUse kernel = waited(delay, random() % 2 == 0, mpi);
      if (random() % 8 == 0) kernel.run_delay_ns.reset();
      const bool blocked = random() % 2 == 0;
      if (random() % 5 == 0) {
        account.pause(time, cpu, blocked, kernel, {}, ledger);
      } else {
        account.sample(time, cpu, blocked, kernel, targets[random() % 5], {}, ledger);
      }
    }
    const KernelUse last = waited(delay, false, mpi);
    account.end(time += 500, cpu + 200, 10, {9, &last}, {}, ledger);
    EXPECT_EQ(ledger.total() + ledger.paused_ns, time - 1000);
    std::uint64_t spent = 0;
    for (const Ledger::Spent& s : ledger.stretches) spent += s.wall;
    EXPECT_EQ(spent, ledger.total());
  }
}

}  // namespace
}  // namespace clusterprof::collector
