// SPDX-License-Identifier: BSD-3-Clause
#include "collector/mpi/gap_timeline.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

namespace clusterprof::collector {
namespace {

struct Passed {
  std::uint64_t enter_ns = 0;
  std::uint32_t sequence = 0;
  std::vector<GapPathTime> gap;
  friend bool operator==(const Passed&, const Passed&) = default;
};
void PrintTo(const Passed& passed, std::ostream* out) {
  *out << passed.enter_ns << " #" << passed.sequence;
  for (const GapPathTime& time : passed.gap)
    *out << " path " << time.path << ": " << time.wall_ns << " (" << time.cpu_ns << ")";
}

class GapTimelineTest : public ::testing::Test {
 protected:
  void event(std::uint64_t enter_ns, std::uint64_t exit_ns, std::uint64_t mpi_ns,
             std::uint32_t sequence = 0) {
    wire::MpiEvent event{};
    event.enter_ns = event.start_ns = enter_ns;
    event.exit_ns = exit_ns;
    event.mpi_ns = mpi_ns;
    event.sequence = sequence;
    timeline_.event(event, sink_);
  }
  void spent(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t path) {
    timeline_.spent(begin_ns, end_ns, {path, path, path});
  }
  void until(std::uint64_t time_ns) { timeline_.sampled_until(time_ns, sink_); }
  void flush() { timeline_.flush(sink_); }

  std::vector<Passed> passed_;
  const std::function<void(const wire::MpiEvent&, std::span<const GapPathTime>)> sink_ =
      [this](const wire::MpiEvent& event, std::span<const GapPathTime> gap) {
        passed_.push_back({event.enter_ns, event.sequence, {gap.begin(), gap.end()}});
      };
  GapTimeline timeline_{1000};
};

TEST_F(GapTimelineTest, LeavesTimeInsideACallOutOfTheGap) {
  event(2000, 3000, 0);
  spent(1000, 1500, 1);
  spent(1500, 3600, 2);  // a sample at 3600 that stands for 2100 ns, 1000 of them in the call
  until(3600);
  event(4000, 4100, 1000);
  spent(3600, 4500, 3);
  until(4500);
  EXPECT_EQ(passed_, (std::vector<Passed>{{2000, 0, {{1, 500}, {2, 500}}}, {4000, 0, {{2, 600}, {3, 400}}}}));
}

TEST_F(GapTimelineTest, DividesOneSampleAmongSeveralGaps) {
  event(2000, 2100, 0);
  event(3000, 3500, 100);
  event(4000, 4100, 600);
  EXPECT_TRUE(passed_.empty());  // what was done is not known yet
  spent(1800, 4200, 7);
  until(4200);
  EXPECT_EQ(passed_,
            (std::vector<Passed>{{2000, 0, {{7, 200}}}, {3000, 0, {{7, 900}}}, {4000, 0, {{7, 500}}}}));
}

TEST_F(GapTimelineTest, DividesTheTimeBetweenTwoSamplesAtACall) {
  timeline_.spent(1000, 1500, {1, 2, 3});  // no call in it
  event(2000, 2100, 0);
  event(3000, 3500, 100);
  timeline_.spent(1500, 4000, {1, 2, 3});
  timeline_.spent(4000, 4300, {1, 2, kNoPath});
  until(4300);
  event(4200, 4400, 600);  // the latest sample was in this one
  EXPECT_EQ(passed_,
            (std::vector<Passed>{
                {2000, 0, {{1, 500}, {2, 500}}}, {3000, 0, {{3, 900}}}, {4200, 0, {{3, 500}, {1, 200}}}}));
}

TEST_F(GapTimelineTest, AcceptsSamplesThatArriveBeforeTheirEvent) {
  spent(1000, 2500, 1);  // the last part of it is in the call, as turns out later
  until(2500);
  event(2000, 2600, 0);
  spent(2500, 2900, 2);
  until(2900);
  event(3000, 3100, 600);
  EXPECT_EQ(passed_.size(), 1u);
  flush();
  EXPECT_EQ(passed_, (std::vector<Passed>{{2000, 0, {{1, 1000}}}, {3000, 0, {{2, 300}}}}));
}

TEST_F(GapTimelineTest, GivesTheGapToTheFirstEventOfACall) {
  event(2000, 3000, 0, 1);
  event(2000, 3000, 0, 2);
  spent(1000, 2200, 4);
  until(2200);
  event(2000, 3000, 0, 3);  // a sample came while the call's events were being written
  until(5000);
  event(6000, 6000, 1000, 4);
  flush();
  EXPECT_EQ(passed_,
            (std::vector<Passed>{{2000, 1, {{4, 1000}}}, {2000, 2, {}}, {2000, 3, {}}, {6000, 4, {}}}));
}

TEST_F(GapTimelineTest, SubtractsCallsWithoutEventsFromTheGap) {
  event(2000, 2000, 0);
  spent(2000, 3000, 1);
  spent(3000, 6000, 2);
  until(6000);
  event(6000, 6100, 2000);  // half of the 4000 ns were spent in calls that have no event
  until(7000);
  EXPECT_EQ(passed_.back(), (Passed{6000, 0, {{2, 1500}, {1, 500}}}));
}

TEST_F(GapTimelineTest, KeepsThePathsWithTheLongestTimesOfAGap) {
  std::uint64_t at = 1000;
  for (std::uint32_t path = 1; path <= 600; ++path) {
    const std::uint64_t ns = path % 50 == 0 ? 1000 + path : 10;
    spent(at, at + ns, path);
    at += ns;
    until(at);
  }
  event(at, at, 0);
  flush();
  ASSERT_EQ(passed_.size(), 1u);
  const std::vector<GapPathTime> expected{{600, 1600}, {550, 1550}, {500, 1500}, {450, 1450},
                                          {400, 1400}, {350, 1350}, {300, 1300}, {250, 1250}};
  EXPECT_EQ(passed_[0].gap, expected);
}

TEST_F(GapTimelineTest, LimitsHowManyEventsWaitForSamples) {
  constexpr std::uint32_t kEvents = 100'000;
  for (std::uint32_t i = 0; i < kEvents; ++i) event(2000 + 10 * i, 2005 + 10 * i, 5 * i, i);
  EXPECT_EQ(passed_.size(), kEvents - GapTimeline::kMaxWaiting);
  // Of one call too.
  passed_.clear();
  for (std::uint32_t i = 0; i < kEvents; ++i) event(3'000'000, 3'000'001, 5 * kEvents, i);
  EXPECT_GE(passed_.size(), kEvents - GapTimeline::kMaxWaiting);
  flush();
  EXPECT_EQ(passed_.size(), kEvents + GapTimeline::kMaxWaiting);
}

TEST_F(GapTimelineTest, LimitsHowManySamplesAreKeptWithoutEvents) {
  for (std::uint64_t i = 0; i < 1'000'000; ++i)
    spent(1000 + 10 * i, 1010 + 10 * i, static_cast<std::uint32_t>(i % 3));
  event(10'001'000, 10'001'000, 0);
  flush();
  EXPECT_EQ(passed_.at(0).gap, (std::vector<GapPathTime>{{0, 3'333'340}, {1, 3'333'330}, {2, 3'333'330}}));
}

// How much of each part the thread was on a processor: it ran, slept, and ran again at the first place. What
// follows one another at one place has one share: five sixths of the last 600 ns, of which 400 are in the
// gap.
TEST_F(GapTimelineTest, TellsHowLongTheThreadRan) {
  timeline_.spent(1000, 1400, {1, 1, 1, 1});
  timeline_.spent(1400, 1800, {2, 2, 2, 0});
  timeline_.spent(1800, 2000, {1, 1, 1, 0.5});
  timeline_.spent(2000, 2400, {1, 1, 1, 1});
  until(2400);
  event(2200, 2400, 0);
  flush();
  EXPECT_EQ(passed_, (std::vector<Passed>{{2200, 0, {{1, 800, 733}, {2, 400, 0}}}}));
}

// Of a sample's 1000 ns the thread ran 400, and 500 lie outside of two calls, in which it slept: 80 % of
// these.
TEST_F(GapTimelineTest, TheThreadRanOutsideOfCallsFirst) {
  event(1100, 1300, 0);
  event(1500, 1800, 200);
  timeline_.spent(1000, 2000, {1, 1, 1, 0.4});
  until(2000);
  event(2100, 2200, 500);
  timeline_.spent(2000, 2100, {1, 1, 1, 1});
  until(2100);
  EXPECT_EQ(passed_, (std::vector<Passed>{
                         {1100, 0, {{1, 100, 80}}}, {1500, 0, {{1, 200, 160}}}, {2100, 0, {{1, 300, 260}}}}));
}

TEST_F(GapTimelineTest, ScalesWhatTheThreadRanLikeTheParts) {
  event(2000, 2000, 0);
  timeline_.spent(2000, 4000, {1, 1, 1, 0.5});
  timeline_.spent(4000, 6000, {2, 2, 2, 0});
  until(6000);
  event(6000, 6100, 2000);  // half of the 4000 ns were spent in calls that have no event
  until(7000);
  EXPECT_EQ(passed_.back(), (Passed{6000, 0, {{1, 1000, 500}, {2, 1000, 0}}}));
}

// --- what samples speak of ---

struct ChargedStretch {
  std::uint64_t begin_ns, end_ns;
  std::uint32_t path, before_call, after_call;
  friend bool operator==(const ChargedStretch&, const ChargedStretch&) = default;
};
void PrintTo(const ChargedStretch& s, std::ostream* out) {
  *out << s.begin_ns << ".." << s.end_ns << " path " << s.path << ", " << s.before_call << " | "
       << s.after_call;
}

class SampledTimeTest : public ::testing::Test {
 protected:
  std::vector<ChargedStretch> sample(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked,
                                     std::uint32_t path, bool outside_mpi = true) {
    std::vector<ChargedStretch> stretches;
    sampled_.sample(
        time_ns, cpu_ns, blocked, {path, outside_mpi},
        [&](std::uint64_t begin, std::uint64_t end, const IntervalPaths& paths) {
          stretches.push_back({begin, end, paths.without_call, paths.before_call, paths.after_call});
          ran_.push_back(paths.ran);
        });
    return stretches;
  }
  // Of the stretches since the last call.
  std::vector<double> ran() { return std::exchange(ran_, {}); }
  std::vector<double> ran_;
  SampledTime sampled_{1000, 0};
};

TEST_F(SampledTimeTest, ARunningSampleStandsForTheTimeBeforeIt) {
  EXPECT_EQ(sample(1100, 100, false, 1), (std::vector<ChargedStretch>{{1000, 1100, 1, 1, 1}}));
  EXPECT_EQ(sample(1300, 150, false, 2), (std::vector<ChargedStretch>{{1100, 1300, 2, 2, 2}}));
}

TEST_F(SampledTimeTest, ASleepBeginsWhereTheProcessorTimeEnds) {
  sample(1100, 100, false, 1);
  EXPECT_EQ(sample(1500, 150, true, 5),
            (std::vector<ChargedStretch>{{1100, 1150, 1, 1, 5}, {1150, 1500, 5, 1, 5}}));
  // It slept on until it had 30 ns left to run; or until a call, and was ready since.
  EXPECT_EQ(sample(2000, 180, false, 2),
            (std::vector<ChargedStretch>{{1500, 1970, 5, 5, 2}, {1970, 2000, 2, 2, 2}}));
}

TEST_F(SampledTimeTest, SplitsTheTimeOfAThreadThatWokeUpAndBlockedAgain) {
  sample(1100, 100, false, 1);
  sample(1500, 100, true, 5);
  EXPECT_EQ(sample(1900, 140, true, 6),
            (std::vector<ChargedStretch>{{1500, 1860, 5, 5, 6}, {1860, 1900, 1, 1, 6}}));
}

TEST_F(SampledTimeTest, ASampleInMpiSaysWhereTheThreadWasBefore) {
  sample(1100, 100, false, 1);
  EXPECT_EQ(sample(1500, 150, true, 9, false), (std::vector<ChargedStretch>{{1100, 1500, 1, 1, kNoPath}}));
  EXPECT_EQ(sample(2000, 180, false, 2),
            (std::vector<ChargedStretch>{{1500, 1970, kNoPath, kNoPath, 2}, {1970, 2000, 2, 2, 2}}));
}

TEST_F(SampledTimeTest, SaysHowMuchOfAStretchTheThreadRan) {
  using Shares = std::vector<double>;
  sample(1100, 75, false, 1);
  EXPECT_EQ(ran(), (Shares{0.75}));
  sample(1500, 125, true, 5);
  EXPECT_EQ(ran(), (Shares{1, 0})) << "50 ns until it slept";
  sample(1900, 165, true, 6);
  EXPECT_EQ(ran(), (Shares{0, 1})) << "and 40 ns between two sleeps";
  sample(2300, 205, true, 9, false);
  EXPECT_EQ(ran(), (Shares{0})) << "it slept until the call; what it ran, it ran in the call";
  sample(2400, 305, false, 2);
  EXPECT_EQ(ran(), (Shares{1}));
  sample(2800, 325, true, 9, false);
  EXPECT_EQ(ran(), (Shares{1})) << "it ran until the call, and slept there";
}

TEST_F(SampledTimeTest, TreatsAClockThatGoesBackAsStandingStill) {
  sample(1100, 100, false, 1);
  EXPECT_EQ(sample(1050, 500, false, 2), (std::vector<ChargedStretch>{}));
  EXPECT_EQ(sample(1200, 90, true, 3), (std::vector<ChargedStretch>{{1100, 1200, 3, 2, 3}}));
}

}  // namespace
}  // namespace clusterprof::collector
