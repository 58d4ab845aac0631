// SPDX-License-Identifier: BSD-3-Clause
#include "collector/rings/recorded_windows.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace clusterprof::collector {
namespace {

constexpr std::uint64_t kRecordingStart = 1'000'000;

class Windows : public ::testing::Test {
 protected:
  explicit Windows(wire::OutsideWindows outside = wire::OutsideWindows::kNothing) {
    header->outside_windows = outside;
  }
  void look(RecordedWindows& windows, std::uint64_t begin_ns, std::uint64_t end_ns,
            std::uint64_t now_ns) const {
    header->window_begin_ns = begin_ns;
    header->window_end_ns = end_ns;
    windows.look(*header, start, now_ns);
  }

  const std::unique_ptr<wire::SegmentHeader> header = std::make_unique<wire::SegmentHeader>();
  const ProcessStart start{kRecordingStart};
};
using Rows = std::vector<RecordedWindow>;

TEST_F(Windows, OpenOnesEndNow) {
  RecordedWindows windows(*header);
  look(windows, 0, 0, kRecordingStart + 50);
  EXPECT_TRUE(windows.windows(kRecordingStart + 50).empty());
  look(windows, kRecordingStart + 100, 0, kRecordingStart + 150);
  EXPECT_EQ(windows.windows(kRecordingStart + 150), (Rows{{kRecordingStart + 100, kRecordingStart + 150}}));
  look(windows, kRecordingStart + 100, kRecordingStart + 300, kRecordingStart + 350);
  look(windows, kRecordingStart + 500, kRecordingStart + 300, kRecordingStart + 600);
  EXPECT_EQ(windows.windows(kRecordingStart + 620), (Rows{{kRecordingStart + 100, kRecordingStart + 300},
                                                          {kRecordingStart + 500, kRecordingStart + 620}}));
  EXPECT_EQ(windows.recorded_ns(kRecordingStart, kRecordingStart + 620), 200u + 120u);
  EXPECT_EQ(windows.recorded_ns(kRecordingStart + 250, kRecordingStart + 520), 50u + 20u);
  EXPECT_EQ(windows.recorded_ns(kRecordingStart + 320, kRecordingStart + 480), 0u);
  EXPECT_TRUE(windows.is_recorded(kRecordingStart + 100));
  EXPECT_FALSE(windows.is_recorded(kRecordingStart + 300));
}

TEST_F(Windows, BothEdgesBetweenTwoLooks) {
  RecordedWindows windows(*header);
  look(windows, kRecordingStart + 100, kRecordingStart + 300, kRecordingStart + 350);
  EXPECT_EQ(windows.windows(kRecordingStart + 400), (Rows{{kRecordingStart + 100, kRecordingStart + 300}}));
  look(windows, kRecordingStart + 500, 0, kRecordingStart + 550);  // its end was not told
  look(windows, kRecordingStart + 800, kRecordingStart + 700, kRecordingStart + 850);
  EXPECT_EQ(windows.windows(kRecordingStart + 900), (Rows{{kRecordingStart + 100, kRecordingStart + 300},
                                                          {kRecordingStart + 500, kRecordingStart + 700},
                                                          {kRecordingStart + 800, kRecordingStart + 900}}));
}

TEST_F(Windows, NoTimeIsImpossible) {
  RecordedWindows windows(*header);
  look(windows, 5, 0, kRecordingStart + 100);  // before the process
  look(windows, 5, ~std::uint64_t{0}, kRecordingStart + 200);
  look(windows, kRecordingStart + 50, ~std::uint64_t{0}, kRecordingStart + 300);  // within the window before
  std::uint64_t last_ns = kRecordingStart;
  for (const RecordedWindow& window : windows.windows(kRecordingStart + 300)) {
    EXPECT_GE(window.begin_ns, last_ns);
    EXPECT_GE(window.end_ns, window.begin_ns);
    EXPECT_LE(window.end_ns, kRecordingStart + 301);
    last_ns = window.end_ns;
  }
}

class AllIsRecorded : public Windows {
 protected:
  AllIsRecorded() : Windows(wire::OutsideWindows::kLight) {}
};
TEST_F(AllIsRecorded, OutsideOfWindowsOfALightRecording) {
  RecordedWindows windows(*header);
  look(windows, kRecordingStart + 100, 0, kRecordingStart + 150);
  EXPECT_EQ(windows.windows(kRecordingStart + 200), (Rows{{kRecordingStart + 100, kRecordingStart + 200}}));
  EXPECT_FALSE(windows.leaves_gaps());
  EXPECT_EQ(windows.recorded_ns(kRecordingStart, kRecordingStart + 1000), 1000u);
}

TEST(RecordedClock, StandsStillWhileRecordingIsOff) {
  auto header = std::make_unique<wire::SegmentHeader>();
  EXPECT_EQ(wire::recorded_clock_of(*header).at(500), 500u);  // without windows
  header->record_phase = 1;
  header->record_off_ns = 1000;
  EXPECT_TRUE(wire::recorded_clock_of(*header).is_off());
  EXPECT_EQ(wire::recorded_clock_of(*header).at(7000), 1000u);
  header->record_missed_ns[wire::missed_place(2)] = 4000;
  header->record_phase = 2;  // on since 5000
  EXPECT_EQ(wire::recorded_clock_of(*header).at(5000), 1000u);
  EXPECT_EQ(wire::recorded_clock_of(*header).at(5600), 1600u);
  header->record_off_ns = 6000;
  header->record_phase = 3;
  EXPECT_EQ(wire::recorded_clock_of(*header).at(9000), 2000u);
  header->record_missed_ns[wire::missed_place(4)] = 4000 + 3000;
  EXPECT_EQ(wire::recorded_clock_of(*header).at(9000), 2000u);  // it is not on yet
  header->record_phase = 4;
  EXPECT_EQ(wire::recorded_clock_of(*header).at(9000), 2000u);
  EXPECT_EQ(wire::recorded_clock_of(*header).at(9100), 2100u);
}

}  // namespace
}  // namespace clusterprof::collector
