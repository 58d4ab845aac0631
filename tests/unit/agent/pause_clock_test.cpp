// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/pause_clock.h"

#include <gtest/gtest.h>

namespace clusterprof::agent {
namespace {

TEST(PauseClock, AdvancesInPausesOnly) {
  PauseClock clock;
  clock.restart(1000, false);
  EXPECT_EQ(clock.at(1500), 0u);
  clock.resume(1500);  // there is nothing to resume
  EXPECT_EQ(clock.at(1600), 0u);
  clock.pause(2000);
  EXPECT_EQ(clock.at(2000), 0u);
  EXPECT_EQ(clock.at(2300), 300u);
  clock.pause(2400);  // it is paused already
  clock.resume(2500);
  EXPECT_EQ(clock.at(9000), 500u);
  clock.pause(9000);
  clock.resume(9070);
  EXPECT_EQ(clock.at(9999), 570u);
  clock.restart(10'000, true);
  EXPECT_EQ(clock.at(10'004), 4u) << "in the child of a fork";
}

TEST(OutsideClock, LeavesOutWhatIsInPausesOfTheProcess) {
  PauseClock process;
  OutsideClock clock = {};
  EXPECT_EQ(clock.at(500, 0), 0u) << "a thread that has just begun";
  clock.enter(500, 0, 501);
  clock.leave(1000, 0);
  EXPECT_EQ(clock.at(1400, 0), 400u);
  process.pause(1500);
  EXPECT_EQ(clock.at(1600, process.at(1600)), 500u);
  process.resume(1700);
  EXPECT_EQ(clock.at(1800, process.at(1800)), 600u);
  clock.enter(1900, process.at(1900), 1901);
  EXPECT_EQ(clock.at(5000, process.at(5000)), 700u);
  EXPECT_EQ(clock.entered_ns, 1901u);
  process.pause(5000);
  clock.leave(5100, process.at(5100));
  process.resume(5200);
  clock.enter(5300, process.at(5300), 5301);
  EXPECT_EQ(clock.at(6000, process.at(6000)) + process.at(6000), 200u + 700 + 300);
}

// Whatever other threads do, a call is recorded as a whole or not at all.
TEST(PausesOfCalls, CountWholeCalls) {
  PauseClock process;
  PausesOfCalls pauses = {};
  process.pause(100);
  process.resume(150);
  pauses.begin(process.at(200), 150);
  EXPECT_EQ(pauses.paused_ns(), 50u);
  EXPECT_EQ(pauses.resumed_ns, 150u);
  process.pause(210);
  process.resume(270);
  pauses.end(process.at(300), 100, false);  // all of it is time in MPI
  pauses.begin(process.at(400), 270);
  EXPECT_EQ(pauses.paused_ns(), 50u);
  pauses.end(process.at(410), 10, false);
  process.pause(500);
  pauses.begin(process.at(510), 270);
  EXPECT_EQ(pauses.paused_ns(), 60u);
  process.resume(520);
  pauses.end(process.at(600), 90, true);  // none of it is
  pauses.begin(process.at(700), 520);
  EXPECT_EQ(pauses.paused_ns(), 150u) << "from 100 to 150, and from 500 to 600";
}

}  // namespace
}  // namespace clusterprof::agent
