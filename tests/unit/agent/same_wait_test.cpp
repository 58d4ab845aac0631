// SPDX-License-Identifier: BSD-3-Clause
// Which threads the watcher takes for being still in the wait in which they were sampled.
#include "agent/lifecycle/same_wait.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <memory>
#include <string>

#include "agent/lifecycle/proc_files.h"

namespace clusterprof::agent {
namespace {

// What the kernel says of a thread in clock_nanosleep, then in a mutex further down the stack.
constexpr char kAsleep[] =
    "230 0x0 0x0 0x7f7ee767ceb0 0x7f7ee767ceb0 0x0 0x0 0x7f7ee767ce70 0x7f7ee7750545\n";
constexpr char kAtMutex[] = "202 0x55d0c8a01060 0x80 0x2 0x0 0x0 0x0 0x7f7ee767ce10 0x7f7ee7712f1c\n";
constexpr char kAsleepDeeper[] =
    "230 0x0 0x0 0x7f7ee767ceb0 0x7f7ee767ceb0 0x0 0x0 0x7f7ee767cd70 0x7f7ee7750545\n";
constexpr std::uint64_t kAsleepPc = 0x7f7ee7750545, kAsleepSp = 0x7f7ee767ce70;

struct Kernel {
  std::string says;
  int asked;
  std::uint64_t waits;
  int asked_for_waits;
};
Kernel g_kernel;

CallState ask(ThreadRecord&, BlockedCall& call) noexcept {
  ++g_kernel.asked;
  return g_kernel.says.empty() ? CallState::kNotKnown : parse_call(g_kernel.says.c_str(), call);
}

std::uint64_t ask_for_waits(const ThreadRecord&) noexcept {
  ++g_kernel.asked_for_waits;
  return g_kernel.waits;
}

constexpr AskKernel kAsk = {ask, ask_for_waits};

// A thread that the watcher has signalled in clock_nanosleep. Its clock was at 1 ms, and the handler took
// 8 us.
class SameWait : public testing::Test {
 protected:
  static constexpr std::uint64_t kSampledNs = 1'000'000, kHandlerNs = 8'000, kBackToSleepNs = 5'000;
  static constexpr std::uint64_t kRestNs = kSampledNs + kHandlerNs + kBackToSleepNs;
  // How often it had begun to wait by the sample, and does so when it goes back, and then somewhere else.
  static constexpr std::uint64_t kWaits = 100, kWaitsBack = kWaits + 1, kWaitsElsewhere = kWaits + 2;

  SameWait() : record_(std::make_unique<ThreadRecord>()) {
    record_->tick = Tick::kCpuClock;
    sample(kSampledNs);
    g_kernel = {kAsleep, 0, kWaitsBack, 0};
  }

  void sample(std::uint64_t cpu_ns) {
    record_->sampled_pc = kAsleepPc - 2;  // the call is made again
    record_->sampled_sp = kAsleepSp;
    record_->sampled_cost_ns = kHandlerNs;
    record_->sampled_waits = kWaits;
    record_->sampled_switches = kWaits + 20;
    record_->sampled_running = false;
    record_->sampled_cpu_ns = cpu_ns;
  }
  // How often the thread had got a processor when it was signalled, and by the look at this CPU time.
  void runs(std::uint64_t at_signal, std::uint64_t now, std::uint64_t cpu_ns) {
    record_->watch.signalled_runs = at_signal;
    record_->watch.runs = now;
    record_->watch.runs_cpu_ns = cpu_ns;
  }
  bool moved_at(std::uint64_t cpu_ns) { return has_moved(*record_, cpu_ns, kAsk); }

  std::unique_ptr<ThreadRecord> record_;
};

TEST_F(SameWait, StaysUntilItsClockAdvancesAndTheKernelIsAskedOnce) {
  for (int look = 0; look < 5; ++look) EXPECT_FALSE(moved_at(kRestNs));
  EXPECT_EQ(g_kernel.asked, 1);
  EXPECT_TRUE(moved_at(kRestNs + 1));
  EXPECT_EQ(g_kernel.asked, 1);
}

// A tick that came while the handler was at work: its sample counts the thread as running.
TEST_F(SameWait, AThreadWhoseLastSampleWasThatOfATickHasToBeSampledWhereItWaits) {
  record_->sampled_running = true;
  EXPECT_TRUE(moved_at(kRestNs));
  sample(kRestNs);
  EXPECT_FALSE(moved_at(kRestNs + kHandlerNs));
}

TEST_F(SameWait, AnotherCallIsAnotherWaitHoweverLittleTheThreadHasRun) {
  g_kernel.says = kAtMutex;
  EXPECT_TRUE(moved_at(kRestNs));
  EXPECT_TRUE(moved_at(kRestNs)) << "until it is sampled there";
}

TEST_F(SameWait, TheSameCallOfAnotherFunctionIsAnotherWait) {
  g_kernel.says = kAsleepDeeper;
  EXPECT_TRUE(moved_at(kRestNs));
}

TEST_F(SameWait, TheSampleMayHaveMetTheCallBehindItsInstruction) {
  record_->sampled_pc = kAsleepPc;
  EXPECT_FALSE(moved_at(kRestNs));
}

TEST_F(SameWait, AThreadThatRanWhenItWasSampledWaitsElsewhere) {
  for (const std::uint64_t pc : {kAsleepPc - 3, kAsleepPc - 1, kAsleepPc + 1, kAsleepPc + 2}) {
    record_->sampled_pc = pc;
    EXPECT_TRUE(moved_at(kRestNs)) << pc - kAsleepPc;
  }
}

// Such as two sleeps in one function.
TEST_F(SameWait, AThreadThatHasWaitedTwiceIsInAnotherWaitEvenAtTheSamePlace) {
  runs(17, 19, kRestNs);
  g_kernel.waits = kWaitsElsewhere;
  EXPECT_TRUE(moved_at(kRestNs));
}

TEST_F(SameWait, AThreadThatLostItsProcessorInTheHandlerIsInTheSameWait) {
  for (const std::uint64_t times : {1u, 2u, 9u}) {
    sample(times * kSampledNs);
    const std::uint64_t rest_ns = times * kSampledNs + kHandlerNs + kBackToSleepNs;
    runs(17, 18 + times, rest_ns);
    for (int look = 0; look < 3; ++look) EXPECT_FALSE(moved_at(rest_ns)) << times;
    EXPECT_TRUE(moved_at(rest_ns + 1));
  }
  EXPECT_EQ(g_kernel.asked_for_waits, 3);
}

TEST_F(SameWait, AThreadThatGotAProcessorTwiceHasMovedWhereNobodyKnowsWhy) {
  runs(17, 19, kRestNs);
  g_kernel.waits = 0;
  EXPECT_TRUE(moved_at(kRestNs));
  g_kernel.waits = kWaitsBack;
  record_->sampled_waits = 0;
  EXPECT_TRUE(moved_at(kRestNs));
}

TEST_F(SameWait, TheHandlerNeedsAProcessorOnce) {
  runs(17, 18, kRestNs);
  EXPECT_FALSE(moved_at(kRestNs));
  EXPECT_EQ(g_kernel.asked_for_waits, 0);
}

TEST_F(SameWait, HowOftenItRanCountsOnlyWhereThatIsKnown) {
  runs(0, 19, kRestNs);
  EXPECT_FALSE(moved_at(kRestNs));
  sample(2 * kSampledNs);
  runs(17, 19, kRestNs);  // of an earlier look
  EXPECT_FALSE(moved_at(kRestNs + kSampledNs));
  sample(3 * kSampledNs);
  runs(17, 0, kRestNs + 2 * kSampledNs);
  EXPECT_FALSE(moved_at(kRestNs + 2 * kSampledNs));
}

// With the monotonic timer there is no signal of the watcher. What the handler has counted when it stopped
// the timer takes its place.
class SameWaitOfTheWallClock : public SameWait {
 protected:
  SameWaitOfTheWallClock() { record_->tick = Tick::kMonotonic; }

  // After a sample of its own: the thread got a processor so often more than its context switches said.
  bool moved_with(std::int64_t runs_above_switches) {
    const std::uint64_t cpu_ns = ++samples_ * kSampledNs;
    sample(cpu_ns);
    runs(0, record_->sampled_switches + static_cast<std::uint64_t>(runs_above_switches),
         cpu_ns + kHandlerNs + kBackToSleepNs);
    return moved_at(cpu_ns + kHandlerNs + kBackToSleepNs);
  }

 private:
  std::uint64_t samples_ = 0;
};

TEST_F(SameWaitOfTheWallClock, AThreadThatHasWaitedTwiceIsInAnotherWaitEvenAtTheSamePlace) {
  g_kernel.waits = kWaitsElsewhere;
  EXPECT_TRUE(moved_with(2));
  g_kernel.waits = kWaitsBack;
  EXPECT_FALSE(moved_with(1));
  g_kernel.waits = kWaitsElsewhere;
  EXPECT_TRUE(moved_with(2));
}

TEST_F(SameWaitOfTheWallClock, TheKernelIsAskedOnlyIfItRanMoreOftenThanWhenItStayed) {
  EXPECT_FALSE(moved_with(1));
  EXPECT_EQ(g_kernel.asked_for_waits, 1);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(moved_with(1));
  EXPECT_EQ(g_kernel.asked_for_waits, 1);
  EXPECT_FALSE(moved_with(2)) << "it lost its processor in the handler";
  EXPECT_EQ(g_kernel.asked_for_waits, 2);
}

// Some kernels count fewer of the times at which a thread gets a processor than of those at which it loses
// it.
TEST_F(SameWaitOfTheWallClock, WhatTheKernelDoesNotCountIsLearned) {
  EXPECT_FALSE(moved_with(1));
  EXPECT_FALSE(moved_with(-40));
  g_kernel.waits = kWaitsElsewhere;
  EXPECT_TRUE(moved_with(-39));
  EXPECT_EQ(g_kernel.asked_for_waits, 2);
}

TEST_F(SameWaitOfTheWallClock, ThePlaceAndTheClockDecideWhereTheHandlerHasNotCounted) {
  record_->sampled_waits = record_->sampled_switches = 0;
  runs(0, 19, kRestNs);
  EXPECT_FALSE(moved_at(kRestNs));
  EXPECT_EQ(g_kernel.asked_for_waits, 0);
  sample(2 * kSampledNs);
  g_kernel.says = kAtMutex;
  EXPECT_TRUE(moved_at(kRestNs + kSampledNs));
}

TEST_F(SameWait, MoreTimeThanTheHandlerCanTakeIsEnoughToKnow) {
  EXPECT_TRUE(moved_at(kSampledNs + kHandlerNs + kMovedNs + 1));
  EXPECT_EQ(g_kernel.asked, 0);
  EXPECT_FALSE(moved_at(kSampledNs + kHandlerNs + kMovedNs));
}

TEST_F(SameWait, AThreadThatRunsIsDecidedOnAtTheNextLook) {
  g_kernel.says = "running\n";
  EXPECT_FALSE(moved_at(kRestNs));
  g_kernel.says = kAtMutex;
  EXPECT_TRUE(moved_at(kRestNs));
}

TEST_F(SameWait, WithoutTheKernelsWordTheClockDecides) {
  g_kernel.says = "";
  EXPECT_FALSE(moved_at(kRestNs));
  EXPECT_FALSE(moved_at(kRestNs));
  EXPECT_EQ(g_kernel.asked, 1);
  EXPECT_TRUE(moved_at(kRestNs + 1));
}

TEST_F(SameWait, AfterEachSampleTheKernelIsAskedAnew) {
  EXPECT_FALSE(moved_at(kRestNs));
  sample(2 * kSampledNs);
  g_kernel.says = kAtMutex;
  EXPECT_TRUE(moved_at(kRestNs + kSampledNs));
  EXPECT_EQ(g_kernel.asked, 2);
}

TEST(Waits, AreReadFromTheStatusOfAThread) {
  EXPECT_EQ(
      parse_waits("Name:\tvoluntary_ctxt_switches:\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t42\n"
                  "nonvoluntary_ctxt_switches:\t7\n"),
      42u);
  EXPECT_EQ(parse_waits("Name:\tprogram\nnonvoluntary_ctxt_switches:\t7\n"), 0u);
  EXPECT_EQ(parse_waits(""), 0u);
}

TEST(Call, IsReadWithItsArgumentsStackPointerAndPc) {
  BlockedCall call = {};
  ASSERT_EQ(parse_call(kAtMutex, call), CallState::kBlocked);
  EXPECT_EQ(call.number, SYS_futex);
  EXPECT_EQ(call.arguments[0], 0x55d0c8a01060u);
  EXPECT_EQ(call.arguments[1], 0x80u);
  EXPECT_EQ(call.arguments[2], 2u);
  EXPECT_EQ(call.arguments[5], 0u);
  EXPECT_EQ(call.stack_pointer, 0x7f7ee767ce10u);
  EXPECT_EQ(call.pc, 0x7f7ee7712f1cu);
}

TEST(Call, OutsideOfOneThereIsOnlyAPlace) {
  BlockedCall call = {};
  ASSERT_EQ(parse_call("-1 0x7ffd5c0 0x55d0c8a0\n", call), CallState::kBlocked);
  EXPECT_EQ(call.number, -1);
  EXPECT_EQ(call.stack_pointer, 0x7ffd5c0u);
  EXPECT_EQ(call.pc, 0x55d0c8a0u);
}

TEST(Call, IsNotKnownFromOtherText) {
  BlockedCall call = {};
  EXPECT_EQ(parse_call("running\n", call), CallState::kRuns);
  for (const char* text : {"", "\n", "no\n", "230\n", "230 0x0 0x0 0x1 0x1 0x0 0x0 0x7f70\n", "-1 0x7f70\n"})
    EXPECT_EQ(parse_call(text, call), CallState::kNotKnown) << text;
}

TEST(ScheduleOfAThread, SaysHowLongItLackedAProcessorAndHowOftenItGotOne) {
  Schedule schedule = {1, 1};
  ASSERT_TRUE(parse_schedule("5125338 412077 18\n", schedule));
  EXPECT_EQ(schedule.run_delay_ns, 412'077u);
  EXPECT_EQ(schedule.runs, 18u);
  EXPECT_FALSE(parse_schedule("0 0 0\n", schedule)) << "the kernel does not count";
  EXPECT_FALSE(parse_schedule("", schedule));
  EXPECT_EQ(schedule.runs, 18u);
}

}  // namespace
}  // namespace clusterprof::agent
