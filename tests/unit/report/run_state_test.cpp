// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/run_state.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "base/process_mark.hpp"
#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"
#include "report/words/run_state.hpp"

namespace clusterprof::report {
namespace {

using std::chrono::system_clock;
using namespace std::chrono_literals;
using testing::find_kind;

constexpr system_clock::time_point kNow{std::chrono::seconds(1'800'000'000)};

// Of two nodes. The data of the second are that old, and their collector promised the next ones in 5 s.
shard::ShardData running_run(std::chrono::nanoseconds age) {
  shard::ShardData data = testing::training_run();
  data.run.complete = false;
  shard::Node& node = data.nodes.at(1);
  node.as_of_utc_ns = (std::chrono::nanoseconds(kNow.time_since_epoch()) - age).count();
  node.next_within_ns = std::chrono::nanoseconds(5s).count();
  data.run.notes.push_back(note_of_run(shard::NoteCode::kIncompleteShard, 0, "node-b.h5"));
  for (shard::Rank& rank : data.ranks) {
    if (rank.node != 1) continue;
    rank.flags &= ~(shard::kExitStatusKnown | shard::kExitSignalKnown);
    rank.flags |= shard::kLost | shard::kStillRan;
  }
  return data;
}

Analysis analyse_now(const shard::ShardData& data, Job job = Job::kMayRun) {
  Analysis analysis = analyse(data);
  find_run_state(analysis, job, kNow);
  return analysis;
}

std::size_t lost_ranks(const Analysis& a) {
  return static_cast<std::size_t>(
      std::count_if(a.ranks.begin(), a.ranks.end(), [](const RankInfo& rank) { return rank.lost; }));
}

bool has_incomplete_shard(const Analysis& a) {
  return std::any_of(a.run.notes.begin(), a.run.notes.end(),
                     [](const NoteRecord& note) { return note.code == shard::NoteCode::kIncompleteShard; });
}

TEST(RunState, EndedOnceAllCollectorsHaveWrittenTheirLastShards) {
  const Analysis a = analyse_now(testing::training_run());
  EXPECT_EQ(a.run.state, RunState::kEnded);
  EXPECT_EQ(a.run.as_of_s, std::nullopt);
  EXPECT_EQ(words::state(a.run), "complete");
}

TEST(RunState, OfASnapshotStaysRunning) {
  shard::ShardData data = running_run(1h);
  data.run.notes.push_back(note_of_run(shard::NoteCode::kSnapshot, 1'799'996'400));
  unite(data.run.notes);
  for (const Job job : {Job::kMayRun, Job::kEnded}) {
    const Analysis a = analyse_now(data, job);
    EXPECT_EQ(a.run.snapshot_utc_ns, 1'799'996'400'000'000'000);
    EXPECT_EQ(a.run.state, RunState::kRunning);
    EXPECT_EQ(a.run.as_of_s, 3600.0);
    EXPECT_EQ(lost_ranks(a), 0u);
    EXPECT_FALSE(has_collector_that_ended(a));
    EXPECT_EQ(words::state(a.run), "snapshot while running, as of 2027-01-15 07:00:00 UTC");
    EXPECT_NE(render_json(a).find("\"snapshot_utc\": \"2027-01-15T07:00:00"), std::string::npos);
    const std::optional<Analysis> stored = decode(encode(a));
    ASSERT_TRUE(stored);
    EXPECT_EQ(stored->run.snapshot_utc_ns, a.run.snapshot_utc_ns);
  }
  EXPECT_EQ(analyse_now(running_run(1h)).run.snapshot_utc_ns, 0);
}

TEST(RunState, RunningSaysNothingAboutEnds) {
  const Analysis a = analyse_now(running_run(3s));
  EXPECT_EQ(a.run.state, RunState::kRunning);
  EXPECT_EQ(a.run.as_of_s, 3.0);
  EXPECT_EQ(a.nodes[0].state, RunState::kEnded);
  EXPECT_EQ(a.nodes[1].state, RunState::kRunning);
  EXPECT_EQ(a.nodes[1].as_of_s, 3.0);
  EXPECT_EQ(lost_ranks(a), 0u);
  EXPECT_FALSE(has_incomplete_shard(a));
  EXPECT_EQ(find_kind(a, FindingKind::kRanksSilent), nullptr);
  EXPECT_EQ(find_kind(a, FindingKind::kRanksLost), nullptr);
  EXPECT_EQ(words::state(a.run), "running, as of 3 s ago");
}

TEST(RunState, LateDataAreOfASlowNodeMuchOlderOnesOfALostOne) {
  EXPECT_EQ(analyse_now(running_run(34s)).run.state, RunState::kRunning);
  const Analysis a = analyse_now(running_run(36s));
  EXPECT_EQ(a.run.state, RunState::kLost);
  EXPECT_EQ(a.run.as_of_s, std::nullopt);
  EXPECT_EQ(lost_ranks(a), 2u);
  EXPECT_TRUE(has_incomplete_shard(a));
  const Finding* const finding = find_kind(a, FindingKind::kRanksSilent);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->ranks, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(finding->severity, Severity::kHigh);
  EXPECT_EQ(text_of(a, *finding).find("Nothing has been heard from ranks 2, 3 since"), 0u);
  EXPECT_EQ(find_kind(a, FindingKind::kRanksLost), nullptr);
  EXPECT_EQ(words::state(a.run), "INCOMPLETE (lost)");
}

// Of a run whose recording was turned off.
TEST(RunState, WithoutAPromiseAgeSaysNothing) {
  shard::ShardData data = running_run(48h);
  data.nodes[1].next_within_ns = 0;
  EXPECT_EQ(analyse_now(data).run.state, RunState::kRunning);
  EXPECT_EQ(words::state(analyse_now(data).run), "running, as of 48 h ago");
}

TEST(RunState, ACollectorOfThisMachineThatHasEndedIsSeenAtOnce) {
  const pid_t child = fork();
  if (child == 0) pause();
  ProcessMark mark = mark_of_this_process();
  mark.pid = child;
  mark.start_ticks = 0;
  shard::ShardData data = running_run(1s);
  data.nodes[1].collector = to_string(mark);
  EXPECT_FALSE(has_collector_that_ended(analyse(data)));
  EXPECT_EQ(analyse_now(data).run.state, RunState::kRunning);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(has_collector_that_ended(analyse(data)));
  EXPECT_EQ(analyse_now(data).run.state, RunState::kLost);
  data.nodes[1].as_of_utc_ns = 0;
  EXPECT_FALSE(has_collector_that_ended(analyse(data)));
}

TEST(RunState, OneLostNodeSaysNothingAboutTheRanksOfOthers) {
  shard::ShardData data = running_run(3600s);
  shard::Node& other = data.nodes.at(0);
  other.as_of_utc_ns = (std::chrono::nanoseconds(kNow.time_since_epoch()) - 2s).count();
  other.next_within_ns = std::chrono::nanoseconds(5s).count();
  for (shard::Rank& rank : data.ranks) {
    rank.flags &= ~(shard::kExitStatusKnown | shard::kExitSignalKnown);
    rank.flags |= shard::kLost | shard::kStillRan;
  }
  const Analysis a = analyse_now(data);
  EXPECT_EQ(a.run.state, RunState::kLost);
  EXPECT_EQ(a.nodes[0].state, RunState::kRunning);
  EXPECT_EQ(lost_ranks(a), 2u);
  const Finding* const finding = find_kind(a, FindingKind::kRanksSilent);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->ranks, (std::vector<std::int32_t>{2, 3}));
  EXPECT_TRUE(finding->rank == 2 || finding->rank == 3);
}

TEST(RunState, WhereTheJobHasEndedNoNodeIsRunning) {
  EXPECT_EQ(analyse_now(running_run(1s), Job::kEnded).run.state, RunState::kLost);
}

TEST(RunState, NoRanksAreMissingBeforeTheirNodesHaveWritten) {
  shard::ShardData data = running_run(1s);
  data.run.world_size = 6;
  EXPECT_EQ(analyse(data).run.missing, 2u);
  for (shard::Node& node : data.nodes) node.elapsed_ns = 2'000'000'000;
  for (shard::Rank& rank : data.ranks) rank.elapsed_ns = 2'000'000'000;
  EXPECT_EQ(find_kind(analyse_now(data), FindingKind::kRanksMissing), nullptr);
  for (shard::Rank& rank : data.ranks) rank.elapsed_ns = 20'000'000'000;
  EXPECT_NE(find_kind(analyse_now(data), FindingKind::kRanksMissing), nullptr);
}

}  // namespace
}  // namespace clusterprof::report
