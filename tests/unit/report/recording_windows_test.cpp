// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/recording_windows.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "profile_builder.hpp"
#include "report/report.hpp"
#include "report/words/run_state.hpp"
#include "tests/unit/report/profile_builder.hpp"

namespace clusterprof::report {
namespace {

using testing::kMs;

// Rank 1 starts 500 ms later. A window of both, not quite at the same time, and one of rank 0 alone.
shard::ShardData run_of_two() {
  shard::ShardData data;
  for (std::int32_t r = 0; r < 2; ++r) {
    shard::Rank& rank = data.ranks.emplace_back();
    rank.rank = r;
    rank.start_utc_ns = 1'700'000'000'000'000'000 + r * 500 * static_cast<std::int64_t>(kMs);
    rank.elapsed_ns = 10'000 * kMs;
  }
  data.recording_windows = {
      {0, 1000 * kMs, 3000 * kMs}, {0, 6000 * kMs, 7000 * kMs}, {1, 700 * kMs, 2900 * kMs}};
  return data;
}

TEST(RecordingWindows, WindowsThatOverlapAreOne) {
  const std::vector<RecordingWindow> windows = united_windows(run_of_two());
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_DOUBLE_EQ(windows[0].begin_s, 1.0);
  EXPECT_DOUBLE_EQ(windows[0].end_s, 3.4);
  EXPECT_EQ(windows[0].ranks, 2u);
  EXPECT_DOUBLE_EQ(windows[1].begin_s, 6.0);
  EXPECT_DOUBLE_EQ(windows[1].end_s, 7.0);
  EXPECT_EQ(windows[1].ranks, 1u);
}

TEST(RecordingWindows, ThoseThatTouchAreTwoAndARankCountsOnce) {
  shard::ShardData data = run_of_two();
  data.recording_windows = {{0, 1 * kMs, 2 * kMs}, {0, 2 * kMs, 3 * kMs}};
  EXPECT_EQ(united_windows(data).size(), 2u);
  data.ranks[1].start_utc_ns = data.ranks[0].start_utc_ns;
  data.recording_windows.push_back({1, 1 * kMs, 3 * kMs});
  const std::vector<RecordingWindow> windows = united_windows(data);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].ranks, 2u);
}

bool has_note(const Analysis& analysis, shard::NoteCode code) {
  return std::any_of(analysis.run.notes.begin(), analysis.run.notes.end(),
                     [&](const NoteRecord& note) { return note.code == code; });
}

TEST(RecordingWindows, ElapsedIsWhatWasRecorded) {
  shard::ShardData data = testing::training_run();
  data.run.standby = true;
  for (std::uint32_t r = 0; r < data.ranks.size(); ++r) {
    shard::Rank& rank = data.ranks[r];
    const std::uint64_t window_ns = rank.elapsed_ns / 4;
    data.recording_windows.push_back({r, 100 * kMs, 100 * kMs + window_ns});
    rank.standby_ns = rank.paused_ns = rank.elapsed_ns - window_ns;
  }
  const Analysis analysis = analyse(data);
  EXPECT_TRUE(analysis.run.standby);
  ASSERT_EQ(analysis.run.windows.size(), 1u);
  EXPECT_DOUBLE_EQ(analysis.run.elapsed_s, analysis.run.windows[0].end_s - analysis.run.windows[0].begin_s);
  EXPECT_GT(analysis.run.lasted_s, 3 * analysis.run.elapsed_s);
  for (std::size_t i = 0; i < analysis.ranks.size(); ++i) {
    const RankInfo& rank = analysis.ranks[i];
    EXPECT_NEAR(rank.elapsed_s, static_cast<double>(data.ranks[i].elapsed_ns) / 4e9, 1e-6);
    EXPECT_DOUBLE_EQ(rank.paused_s, 0);
    EXPECT_DOUBLE_EQ(rank.recorded_s, rank.elapsed_s);
    EXPECT_FALSE(rank.cpu_s || rank.involuntary_switches || rank.read_bytes);
  }
  EXPECT_FALSE(analysis.efficiency.serialization);
  EXPECT_TRUE(has_note(analysis, shard::NoteCode::kOnlyWindows));
  EXPECT_NE(words::windows(analysis.run).find("in 1 window"), std::string::npos);
}

TEST(RecordingWindows, ARunThatNobodyStartedSaysSoAndNothingElse) {
  shard::ShardData data = testing::training_run();
  data.run.standby = true;
  for (shard::Rank& rank : data.ranks) rank.standby_ns = rank.paused_ns = rank.elapsed_ns;
  const Analysis analysis = analyse(data);
  EXPECT_TRUE(analysis.run.was_never_recorded());
  EXPECT_DOUBLE_EQ(analysis.run.elapsed_s, 0);
  EXPECT_TRUE(analysis.findings.empty());
  EXPECT_TRUE(has_note(analysis, shard::NoteCode::kNeverStarted));
  EXPECT_NE(words::windows(analysis.run).find("never started"), std::string::npos);
  EXPECT_NE(render_text(analysis, {}).find("never started"), std::string::npos);
  EXPECT_NE(render_banner(analysis, "run", 80, "").find("never started"), std::string::npos);
}

TEST(RecordingWindows, ALightRunKeepsItsLength) {
  shard::ShardData data = testing::training_run();
  const double before_s = analyse(data).run.elapsed_s;
  data.recording_windows = {{0, 100 * kMs, 300 * kMs}};
  const Analysis analysis = analyse(data);
  EXPECT_DOUBLE_EQ(analysis.run.elapsed_s, before_s);
  EXPECT_TRUE(has_note(analysis, shard::NoteCode::kFullInWindows));
  EXPECT_NE(words::windows(analysis.run).find("recorded in full"), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::report
