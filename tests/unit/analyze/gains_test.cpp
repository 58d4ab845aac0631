// SPDX-License-Identifier: BSD-3-Clause
// Predictions for a report: in which order, and of which runs none.
#include "cli/analyze/gains.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "formats/shard/shard_writer.hpp"
#include "tests/unit/aggregator/one_rank_run.hpp"
#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::GainCandidate;

GainCandidate candidate(std::string change, std::string file = {}) {
  GainCandidate made;
  made.change = std::move(change), made.file = std::move(file);
  return made;
}

// One rank without MPI: 6 s in large(), 3 s in small(), 1 s elsewhere.
shard::ShardData sampled() {
  aggregator::test::OneRankRun run(10'000);
  const auto function = [&](const char* name) {
    return run.path(0, shard::FrameKind::kNative, name, "/u/a.c", 1);
  };
  run.time(function("large"), 6000);
  run.time(function("small"), 3000);
  run.time(function("rest"), 1000);
  return run.data;
}

TEST(GainsOf, LargestFirstAndWithoutWhatCannotBe) {
  aggregator::whatif::WhatIf whatif;
  whatif.add(sampled());
  ASSERT_TRUE(whatif.prepare());
  const std::vector<GainCandidate> candidates = {
      candidate("function small x0.5", "/u/a.c"), candidate("function none x0.5"),
      candidate("function large x0.5"), candidate("this is no change"), candidate("function rest x2")};
  const profile::Gains gains = gains_of(whatif, candidates);
  EXPECT_TRUE(gains.from_sums);
  EXPECT_EQ(gains.refused, "");
  EXPECT_EQ(gains.candidates, 5u);
  EXPECT_EQ(gains.tried, 3u) << "what was refused was not replayed";
  const std::vector<profile::RefusedChange> refused = {
      {"function none x0.5", "the run has no such function"},
      {"this is no change",
       "is no change: it begins with line, function, region, rank, balance, call, latency, bandwidth, io or "
       "threads"}};
  EXPECT_EQ(gains.refused_changes, refused);
  ASSERT_EQ(gains.rows.size(), 3u);
  EXPECT_EQ(gains.rows[0].change, "function large x0.5");
  EXPECT_NEAR(gains.rows[0].gain_s, 3, 1e-3);
  EXPECT_NEAR(gains.rows[0].predicted_s, 7, 1e-3);
  EXPECT_GT(gains.rows[0].error_s, 0);
  EXPECT_EQ(gains.rows[1].change, "function small x0.5");
  EXPECT_EQ(gains.rows[1].file, "/u/a.c");
  EXPECT_EQ(gains.rows[1].rank, -1);
  EXPECT_EQ(gains.rows[2].change, "function rest x2");
  EXPECT_NEAR(gains.rows[2].gain_s, -1, 1e-3);

  const profile::Gains first = gains_of(whatif, candidates, 1);
  EXPECT_EQ(first.candidates, 5u);
  EXPECT_EQ(first.tried, 1u);
  ASSERT_EQ(first.rows.size(), 1u);
  EXPECT_EQ(first.rows[0], gains.rows[1]);
  EXPECT_EQ(gains_of(whatif, candidates, 2).tried, 2u) << "the one that is refused takes no replay";
}

// Four events: the limit is on what the shards have, whatever a merge made of them.
TEST(GainsOf, RunsWithMoreEventsThanTheLimitAreNotRead) {
  aggregator::test::MadeRun made(2);
  for (std::int32_t rank = 0; rank < 2; ++rank)
    for (std::uint32_t i = 0; i < 2; ++i)
      made.collective(rank, "MPI_Barrier", (10 + 20 * i) * aggregator::test::kMs,
                      (11 + 20 * i) * aggregator::test::kMs, i);
  const fs::path run = fs::temp_directory_path() / ("clusterprof-events-test-" + std::to_string(::getpid()));
  fs::create_directory(run);
  ASSERT_TRUE(shard::write_shard(made.shards()[0], run / "node-n1000.h5"));
  EXPECT_EQ(events_of(run).value(), 4u);
  aggregator::whatif::WhatIf whatif;
  const Result<void> refused = read_shards_of(run, 3, whatif);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("4 MPI events"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("--max-events"), std::string::npos) << "what to do";
  const Result<void> read = read_shards_of(run, 4, whatif);
  EXPECT_TRUE(read || read.error().message.find("--max-events") == std::string::npos);
  fs::remove_all(run);
}

TEST(GainsOf, AsManyEventsAreReplayedAsThereIsMemoryFor) {
  EXPECT_EQ(most_events_in("MemTotal:       32768000 kB\nMemAvailable:   10240000 kB\nBuffers: 1 kB\n"),
            10'240'000 * std::uint64_t{1024} / 5 * 4 / 500);
  EXPECT_EQ(most_events_in(""), kUsualMostEvents);
  EXPECT_EQ(most_events_in("MemTotal: 1 kB\nMemAvailable:   kB\n"), kUsualMostEvents);
  EXPECT_GT(most_events_in("MemTotal: 1 kB\nMemAvailable: 18446744073709551615 kB\n"), kUsualMostEvents)
      << "no overflow";
  EXPECT_GT(most_events(), 0u);
}

class WhileMerging : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(run_); }
  void TearDown() override { fs::remove_all(run_); }
  [[nodiscard]] std::string refusal(std::uint64_t events) const {
    report::Analysis analysis;
    if (events != 0) {
      analysis.wait_quality.emplace();
      analysis.wait_quality->events = events;
    }
    const profile::Gains gains = predict_while_merging(run_, analysis, {candidate("io x0")});
    EXPECT_EQ(gains.candidates, 1u);
    EXPECT_EQ(gains.tried, 0u);
    EXPECT_TRUE(gains.rows.empty());
    return gains.refused;
  }
  const fs::path run_ = fs::temp_directory_path() / ("clusterprof-gains-test-" + std::to_string(::getpid()));
};

TEST_F(WhileMerging, NothingIsReadOfRunsThatAreTooLong) {
  EXPECT_NE(refusal(0).find("no shards"), std::string::npos);
  const fs::path shard = run_ / "node-n0.h5";
  std::ofstream(shard) << "not HDF5";
  EXPECT_EQ(refusal(0), "a shard cannot be read") << "the run may be moved: no path";
  EXPECT_EQ(refusal(100'000), "a shard cannot be read");
  EXPECT_NE(refusal(10'000'000).find("too long"), std::string::npos);
  fs::resize_file(shard, std::uintmax_t{65} << 20);
  EXPECT_NE(refusal(0).find("too long"), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::cli
