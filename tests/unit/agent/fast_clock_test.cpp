// SPDX-License-Identifier: BSD-3-Clause
// Intervals by the processor's time stamp counter are as long as by CLOCK_MONOTONIC.
#include "agent/lifecycle/fast_clock.h"

#include <gtest/gtest.h>
#include <time.h>

namespace clusterprof::agent {
namespace {

// The length of a tick is wrong by one reading of both clocks in all the time since the start, at most.
constexpr std::uint64_t kErrorNs = 200;

void sleep_ms(long ms) {
  const timespec time = {ms / 1000, ms % 1000 * 1'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}
void spin_ns(std::uint64_t ns) {
  const std::uint64_t begin_ns = monotonic_ns();
  while (monotonic_ns() < begin_ns + ns) {
  }
}

class ShortIntervals : public testing::Test {
 protected:
  void SetUp() override {
    g_process.read_clock = clock_gettime;
    start_fast_clock();
    sleep_ms(2);  // earlier, no length of a tick is known
    if (!begin_interval(true).in_ticks && !begin_interval(true).in_ticks)
      GTEST_SKIP() << "the kernel does not keep its time by the counter";
  }

  // The truth is between two looks at the clock from outside and two from inside.
  template <typename Work>
  void expect_as_long(bool is_short, Work work) {
    const std::uint64_t before_ns = monotonic_ns();
    const Moment begin = begin_interval(is_short);
    const std::uint64_t begun_ns = monotonic_ns();
    EXPECT_EQ(begin.in_ticks, is_short);
    work();
    const std::uint64_t ends_ns = monotonic_ns();
    IntervalEnd end;
    const std::uint64_t lasted_ns = end.ns_since(begin), after_ns = monotonic_ns();
    EXPECT_GE(lasted_ns + kErrorNs, ends_ns - begun_ns);
    EXPECT_LE(lasted_ns, after_ns - before_ns + kErrorNs);
  }
};

TEST_F(ShortIntervals, AreAsLongByTheCounter) {
  for (int i = 0; i < 1000; ++i) expect_as_long(true, [] { spin_ns(1'000); });
}

TEST_F(ShortIntervals, MayTurnOutLong) {
  for (const long ms : {1, 10, 100}) expect_as_long(true, [&] { sleep_ms(ms); });
}

TEST_F(ShortIntervals, LongOnesTakeTheOtherClock) {
  expect_as_long(false, [] { sleep_ms(5); });
}

TEST_F(ShortIntervals, OneMomentEndsIntervalsOfBothClocks) {
  const Moment outer = begin_interval(false);
  const Moment inner = begin_interval(true);
  spin_ns(5'000);
  IntervalEnd end;
  EXPECT_GE(end.ns_since(inner) + kErrorNs, 5'000u);
  EXPECT_GE(end.ns_since(outer) + kErrorNs, end.ns_since(inner));
}

// A program may begin its first region in its first millisecond.
TEST(FastClock, CountsTicksFromEarlyOn) {
  g_process.read_clock = clock_gettime;
  start_fast_clock();
  spin_ns(150'000);
  choose_fast_clock();
  if (!begin_interval(true).in_ticks && !begin_interval(true).in_ticks)
    GTEST_SKIP() << "the kernel does not keep its time by the counter";
  EXPECT_TRUE(g_fast_clock.counts_ticks);
  for (const long ms : {1, 30, 100}) {
    const std::uint64_t before_ns = monotonic_ns(), begin = fast_now(), begun_ns = monotonic_ns();
    sleep_ms(ms);
    const std::uint64_t ends_ns = monotonic_ns(), end = fast_now(), after_ns = monotonic_ns();
    // The main thread, or another one.
    ms == 30 ? adjust_fast_clock_elsewhere(end) : adjust_fast_clock(end);
    const std::uint64_t lasted_ns = fast_ns(fast_between(begin, end));
    EXPECT_GE(lasted_ns + kErrorNs, ends_ns - begun_ns) << ms;
    EXPECT_LE(lasted_ns, after_ns - before_ns + kErrorNs) << ms;
  }
  const std::uint64_t before_ns = monotonic_ns(), tick = fast_now(), after_ns = monotonic_ns();
  EXPECT_GE(monotonic_at(tick) + kErrorNs, before_ns);
  EXPECT_LE(monotonic_at(tick), after_ns + kErrorNs);
}

}  // namespace
}  // namespace clusterprof::agent
