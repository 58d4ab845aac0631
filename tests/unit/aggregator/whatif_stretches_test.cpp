// SPDX-License-Identifier: BSD-3-Clause
// Predictions of runs whose events are a sample, from stretches of time that have all: compared with those
// of the same runs with all events.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "aggregator/whatif/stretches.hpp"
#include "aggregator/whatif/whatif.hpp"
#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::aggregator::test {
namespace {

using whatif::parse_change;
using whatif::Prediction;
using whatif::WhatIf;

constexpr std::int32_t kMadeRanks = 4, kMadePerNode = 2;
constexpr std::uint32_t kMadeLevel = 4;
constexpr std::int64_t kMadePeriodNs = std::int64_t{1} << 31, kMadeLengthNs = std::int64_t{1} << 28;
constexpr int kMadeRounds = 1500;

// Ranks work for 8 ms, rank 1 also in slow() for 6; a bit more or less in each round.
struct JitteredWork {
  explicit JitteredWork(std::uint64_t seed) : random(seed) {}
  std::int64_t ns(double ms) {
    return std::llround(ms * 1e6 * std::uniform_real_distribution<double>(0.9, 1.1)(random));
  }
  std::mt19937_64 random;
};

// The second node has measured its clock at the begin and at the end.
void measure_clocks(MadeRun& run, std::int64_t end) {
  for (const std::int64_t at : {std::int64_t{0}, end}) run.measure_clock(kMadePerNode, 0, at, 0, 1000);
}

// slow_until: in later rounds rank 1 is not slow. pause_ns: of all ranks, halfway.
MadeRun of_allreduces(int slow_until = kMadeRounds, std::int64_t pause_ns = 0) {
  MadeRun run(kMadeRanks, kMadePerNode);
  JitteredWork work(7);
  std::int64_t now = 0;
  for (int round = 0; round < kMadeRounds; ++round) {
    std::int64_t enter[kMadeRanks], slow[kMadeRanks] = {}, last = 0;
    const std::int64_t paused = round == kMadeRounds / 2 ? pause_ns : 0;
    now += paused;
    for (std::int32_t r = 0; r < kMadeRanks; ++r) {
      if (r == 1 && round < slow_until) slow[r] = work.ns(6);
      enter[r] = now + work.ns(8) + slow[r];
      last = std::max(last, enter[r]);
    }
    for (std::int32_t r = 0; r < kMadeRanks; ++r) {
      MadeEvent event = made_call(MpiEventKind::kCollective, "MPI_Allreduce", enter[r], last + kMs / 10,
                                  static_cast<std::uint32_t>(round));
      event.gap = {{"work", enter[r] - now - slow[r]}, {"slow", slow[r]}};
      event.paused_ns = paused;
      event.resumed = now;
      run.add(r, event);
    }
    now = last + kMs / 10;
  }
  measure_clocks(run, now);
  return run;
}

// Each rank sends to the next one, and waits for both requests.
MadeRun of_a_ring() {
  MadeRun run(kMadeRanks, kMadePerNode);
  JitteredWork work(8);
  std::int64_t now[kMadeRanks] = {};
  for (int round = 0; round < kMadeRounds; ++round) {
    const auto number = static_cast<std::uint32_t>(round);
    std::int64_t send[kMadeRanks];
    for (std::int32_t r = 0; r < kMadeRanks; ++r) {
      const std::int64_t slow = r == 1 ? work.ns(6) : 0, other = work.ns(8);
      send[r] = now[r] + slow + other;
      MadeEvent event =
          made_call(MpiEventKind::kSend, "MPI_Isend", send[r], send[r] + 2000, number, (r + 1) % kMadeRanks);
      event.flags = wire::kEventNonblocking;
      event.gap = {{"work", other}, {"slow", slow}};
      run.add(r, event);
    }
    for (std::int32_t r = 0; r < kMadeRanks; ++r) {
      const std::int32_t from = (r + kMadeRanks - 1) % kMadeRanks;
      const std::int64_t enter = send[r] + 3000, exit = std::max(enter + 2000, send[from] + 20'000);
      MadeEvent got = made_call(MpiEventKind::kReceive, "MPI_Irecv", enter, exit, number, from);
      got.start = send[r] - 1000;
      got.flags = wire::kEventNonblocking;
      MadeEvent sent =
          made_call(MpiEventKind::kSendDone, "MPI_Isend", enter, exit, number, (r + 1) % kMadeRanks);
      sent.start = send[r];
      got.site = sent.site = "MPI_Waitall";
      run.add(r, got);
      run.add(r, sent);
      now[r] = exit;
    }
  }
  measure_clocks(run, now[0]);
  return run;
}

// What the recording keeps of all events: a sample, and stretches, which begin `late_ns` later on the second
// node. Ranks below first_sampled have all.
std::vector<shard::ShardData> with_stretches(const MadeRun& run, std::int64_t late_ns = 0,
                                             std::int32_t first_sampled = 0) {
  std::vector<shard::ShardData> shards = run.shards();
  for (std::size_t n = 0; n < shards.size(); ++n) {
    shard::ShardData& data = shards[n];
    data.run.rate_hz = 1000;
    const MadeClock& clock = run.clocks[n];
    std::vector<shard::EventStretch> stretches;
    for (std::uint32_t i = 0; i < data.ranks.size(); ++i) {
      if (data.ranks[i].rank < first_sampled) continue;
      data.ranks[i].event_level = kMadeLevel;
      const auto elapsed_ns = static_cast<std::int64_t>(data.ranks[i].elapsed_ns);
      for (std::int64_t k = 0; k * kMadePeriodNs + kMadeLengthNs < elapsed_ns; ++k) {
        const std::int64_t begin = k * kMadePeriodNs + (n == 1 ? late_ns : 0);
        stretches.push_back({i, static_cast<std::uint64_t>(k * kMadePeriodNs),
                             static_cast<std::uint64_t>(clock.local(begin)),
                             static_cast<std::uint64_t>(clock.local(begin + kMadeLengthNs)), true});
      }
    }
    std::vector<shard::MpiEvent> events;
    std::vector<shard::EventGap> gaps;
    std::uint64_t from_ns = 0, until_ns = 0;
    std::size_t gap = 0;
    for (std::uint32_t e = 0; e < data.mpi_events.size(); ++e) {
      const shard::MpiEvent& event = data.mpi_events[e];
      if (e == 0 || event.rank != data.mpi_events[e - 1].rank) from_ns = until_ns = 0;
      if (event.exit_ns != until_ns) from_ns = std::exchange(until_ns, event.exit_ns);
      const auto kind = static_cast<MpiEventKind>(event.kind);
      const std::uint64_t stream = wire::event_stream(kind, data.communicators[event.communicator].identity,
                                                      data.ranks[event.rank].rank, event.peer, event.tag);
      const bool kept =
          wire::event_is_selected(stream, event.sequence, data.ranks[event.rank].event_level) ||
          std::any_of(stretches.begin(), stretches.end(), [&](const shard::EventStretch& stretch) {
            return stretch.rank == event.rank && from_ns < stretch.end_ns && until_ns >= stretch.begin_ns;
          });
      for (; gap < data.event_gaps.size() && data.event_gaps[gap].event == e; ++gap)
        if (kept)
          gaps.push_back({static_cast<std::uint32_t>(events.size()), data.event_gaps[gap].path,
                          data.event_gaps[gap].wall_ns, data.event_gaps[gap].cpu_ns});
      if (kept) events.push_back(event);
    }
    data.mpi_events = std::move(events);
    data.event_gaps = std::move(gaps);
    data.event_stretches = std::move(stretches);
  }
  return shards;
}

std::vector<shard::ShardData> with_all_events(const MadeRun& run) {
  std::vector<shard::ShardData> shards = run.shards();
  for (shard::ShardData& data : shards) data.run.rate_hz = 1000;
  return shards;
}

class StretchReplay {
 public:
  explicit StretchReplay(const std::vector<shard::ShardData>& shards) {
    for (const shard::ShardData& shard : shards) whatif.add(shard);
    if (const Result<void> prepared = whatif.prepare(); !prepared) refusal = prepared.error().message;
  }
  [[nodiscard]] Prediction predict(const std::string& change) const {
    const Result<Prediction> prediction = whatif.predict({parse_change(change).value()});
    EXPECT_TRUE(prediction) << prediction.error().message;
    return prediction ? prediction.value() : Prediction{};
  }
  [[nodiscard]] std::size_t count() const {
    const auto stretches = whatif.stretches();
    return stretches ? stretches->count : 0;
  }
  WhatIf whatif;
  std::string refusal;
};

// 1500 rounds of 14 ms have ten stretches of 19 rounds.
constexpr std::size_t kMadeStretches = 10;

void compare_predictions(const MadeRun& run, const std::vector<shard::ShardData>& shards,
                         const std::vector<std::string>& changes, double most_of_elapsed = 0.02,
                         double off_s = 5e-3) {
  const StretchReplay all(with_all_events(run)), part(shards);
  ASSERT_EQ(all.refusal, "");
  ASSERT_EQ(part.refusal, "");
  EXPECT_FALSE(all.whatif.stretches());
  ASSERT_GE(part.count(), kMadeStretches - 1);
  const double elapsed_s = all.whatif.elapsed_s();
  EXPECT_NEAR(part.whatif.elapsed_s(), elapsed_s, off_s);
  EXPECT_NEAR(part.whatif.replayed().elapsed_s, elapsed_s, 2e-3 * elapsed_s);
  for (const double share : part.whatif.replayed().of_stretches) EXPECT_NEAR(share, 1, 2e-3);
  EXPECT_NEAR(part.whatif.replayed().parallel, all.whatif.replayed().parallel, 0.02);
  EXPECT_NEAR(part.whatif.replayed().wait_s, all.whatif.replayed().wait_s,
              0.1 * all.whatif.replayed().wait_s);
  for (const std::string& change : changes) {
    const Prediction expected = all.predict(change), got = part.predict(change);
    const double wrong_s = std::abs(got.outcome.elapsed_s - expected.outcome.elapsed_s);
    EXPECT_LE(wrong_s, got.error_s) << change;
    EXPECT_LE(wrong_s, most_of_elapsed * elapsed_s) << change;
    // It would be no use otherwise.
    EXPECT_LE(got.error_s, 0.1 * elapsed_s) << change;
    EXPECT_GT(got.error_s, expected.error_s) << change;
    double path_s = 0;
    for (const whatif::TimeRow& row : got.outcome.critical) path_s += row.time_s;
    EXPECT_LE(path_s, got.outcome.elapsed_s * 1.001) << change;
    EXPECT_GE(path_s, 0.8 * got.outcome.elapsed_s) << change;
  }
}

TEST(WhatIfStretches, PredictAsAllEventsDo) {
  const MadeRun run = of_allreduces();
  // Rank 1 takes 14 ms of each round, the others 8.
  ASSERT_LT(StretchReplay(with_all_events(run)).predict("function slow x0.5").outcome.elapsed_s,
            0.85 * StretchReplay(with_all_events(run)).whatif.elapsed_s())
      << "there is something to be predicted";
  compare_predictions(run, with_stretches(run),
                      {"function slow x0.5", "function slow x0", "function work x0.5", "rank 1 = mean",
                       "balance function slow"});
}

// The pause is as long as the time from one stretch to the next, so one stretch has nothing else.
TEST(WhatIfStretches, MayLieInPauses) {
  const MadeRun run = of_allreduces(kMadeRounds, kMadePeriodNs);
  const StretchReplay all(with_all_events(run)), part(with_stretches(run));
  ASSERT_EQ(all.refusal, "");
  ASSERT_EQ(part.refusal, "");
  ASSERT_GE(part.count(), kMadeStretches);
  const double elapsed_s = all.whatif.elapsed_s();
  EXPECT_NEAR(elapsed_s, 21 + 2.15, 0.5);
  EXPECT_NEAR(all.whatif.replayed().useful_max_s, 21, 0.3);
  EXPECT_NEAR(part.whatif.replayed().useful_max_s, 21, 0.6);
  for (const StretchReplay* const one : {&all, &part}) {
    double path_s = 0;
    for (const whatif::TimeRow& row : one->whatif.replayed().critical) path_s += row.time_s;
    EXPECT_NEAR(path_s, elapsed_s - 2.15, 0.5) << "pauses are in no row";
  }
  for (const std::string change : {"function work x0.5", "function slow x0"}) {
    const Prediction expected = all.predict(change), got = part.predict(change);
    const double wrong_s = std::abs(got.outcome.elapsed_s - expected.outcome.elapsed_s);
    EXPECT_LE(wrong_s, got.error_s) << change;
    EXPECT_LE(wrong_s, 0.02 * elapsed_s) << change;
  }
}

TEST(WhatIfStretches, MessagesCrossTheirBorders) {
  const MadeRun run = of_a_ring();
  compare_predictions(run, with_stretches(run), {"function slow x0.5", "function work x0.5"});
}

// Rank 0 makes and joins threads all the time.
TEST(WhatIfStretches, ThreadsThatAreJoinedAreNotReplayed) {
  const MadeRun run = of_allreduces();
  std::vector<shard::ShardData> shards = with_stretches(run);
  const double without_s = StretchReplay(shards).predict("function work x0.5").outcome.elapsed_s;
  const auto at = [&](std::int64_t ns) { return static_cast<std::uint64_t>(run.clocks[0].local(ns)); };
  std::vector<shard::ThreadSpan> main, others;
  std::int64_t until_ns = 0;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const std::int64_t made_ns = kMadePeriodNs + kMs / 10 * i, joined_ns = made_ns + kMs / 20;
    main.push_back({0, 0, 2 * i, i + 1, shard::SpanEnd::kCreate, at(until_ns), at(made_ns), at(made_ns)});
    main.push_back({0, 0, 2 * i + 1, i + 1, shard::SpanEnd::kJoin, at(made_ns), at(made_ns), at(joined_ns)});
    others.push_back(
        {0, i + 1, 0, shard::kNone, shard::SpanEnd::kEnd, at(made_ns), at(joined_ns), at(joined_ns)});
    until_ns = joined_ns;
  }
  const auto end_ns = static_cast<std::int64_t>(shards[0].ranks[0].elapsed_ns);
  main.push_back({0, 0, 4000, shard::kNone, shard::SpanEnd::kEnd, at(until_ns), at(end_ns), at(end_ns)});
  main.insert(main.end(), others.begin(), others.end());
  shards[0].thread_spans = std::move(main);
  const StretchReplay replay(shards);
  ASSERT_EQ(replay.refusal, "");
  EXPECT_DOUBLE_EQ(replay.predict("function work x0.5").outcome.elapsed_s, without_s);
}

TEST(WhatIfStretches, RanksBelowTheirBudgetHaveAll) {
  const MadeRun run = of_allreduces();
  const std::vector<shard::ShardData> shards = with_stretches(run, 0, 3);
  compare_predictions(run, shards, {"function slow x0.5"});
  EXPECT_EQ(StretchReplay(shards).count(), kMadeStretches);
}

// The second node's clock is 5 s ahead and drifts, and its time of day is wrong by 20 ms.
TEST(WhatIfStretches, ClocksMayDiffer) {
  MadeRun run = of_allreduces();
  run.clocks[1].ahead = 5'000 * kMs;
  run.clocks[1].drift = 2e-5;
  const std::vector<shard::ShardData> shards = with_stretches(run, 20 * kMs);
  // Each node's ranks are taken to end with their last event, and a sample has another last one on each.
  const double apart_s = 20e-3;  // a round
  compare_predictions(run, shards, {"function slow x0.5", "rank 1 = mean"}, 0.02, apart_s);
  const StretchReplay replay(shards);
  ASSERT_EQ(replay.count(), kMadeStretches);
  const double common_s =
      static_cast<double>(kMadeStretches) * static_cast<double>(kMadeLengthNs - 20 * kMs) * 1e-9;
  EXPECT_LE(replay.whatif.stretches()->time_s, common_s + 1e-6);
  EXPECT_GE(replay.whatif.stretches()->time_s, 0.9 * common_s) << "less what the clocks may be wrong by";
  EXPECT_NE(StretchReplay(with_stretches(run, kMadeLengthNs + 5 * kMs)).refusal.find("0 stretches"),
            std::string::npos)
      << "they have nothing in common";
}

TEST(WhatIfStretches, ThoseThatLackEventsOnARankAreNotUsed) {
  const MadeRun run = of_allreduces();
  const std::vector<shard::ShardData> good = with_stretches(run);
  EXPECT_EQ(StretchReplay(good).count(), kMadeStretches);
  std::vector<shard::ShardData> shards = good;
  const auto of_rank = [&](std::size_t node, std::uint32_t rank, std::size_t number) -> shard::EventStretch& {
    const auto is_rank_s = [&](const shard::EventStretch& row) { return row.rank == rank; };
    auto& rows = shards[node].event_stretches;
    return *(std::find_if(rows.begin(), rows.end(), is_rank_s) + static_cast<std::ptrdiff_t>(number));
  };
  of_rank(1, 0, 3).complete = false;
  EXPECT_EQ(StretchReplay(shards).count(), kMadeStretches - 1);
  of_rank(0, 1, 3).complete = false;
  EXPECT_EQ(StretchReplay(shards).count(), kMadeStretches - 1) << "the same one";
  // A rank with more events has every second one only.
  auto& rows = shards[1].event_stretches;
  std::erase_if(rows, [](const shard::EventStretch& row) {
    return row.rank == 1 && row.shared_begin_ns % static_cast<std::uint64_t>(2 * kMadePeriodNs) != 0;
  });
  const StretchReplay half(shards);
  EXPECT_EQ(half.count(), kMadeStretches / 2);
  EXPECT_EQ(half.refusal, "");

  shards = good;
  for (std::size_t i = 2; i < kMadeStretches; ++i) of_rank(0, 0, i).complete = false;
  EXPECT_NE(StretchReplay(shards).refusal.find("2 stretches"), std::string::npos)
      << StretchReplay(shards).refusal;
  for (shard::ShardData& data : shards) data.event_stretches.clear();
  EXPECT_NE(StretchReplay(shards).refusal.find("0 stretches"), std::string::npos);
}

TEST(WhatIfStretches, NothingElseMayBeMissing) {
  const MadeRun run = of_allreduces();
  std::vector<shard::ShardData> shards = with_stretches(run, 0, 2);
  shards[1].drops.push_back({0, "mpi_event_ring_full", 3});
  EXPECT_EQ(StretchReplay(shards).refusal, "") << "of a rank whose stretches say so";
  shards[0].drops.push_back({1, "damaged_mpi_event", 3});
  EXPECT_NE(StretchReplay(shards).refusal.find("lost"), std::string::npos) << "of one that has all but these";
  shards = with_stretches(run);
  shards.pop_back();
  EXPECT_NE(StretchReplay(shards).refusal.find("no MPI events"), std::string::npos);
}

// In the second half of the run there is nothing to gain: stretches differ, and the error says so.
TEST(WhatIfStretches, TheErrorHasTheirSpread) {
  const MadeRun run = of_allreduces(kMadeRounds / 2), steady = of_allreduces();
  const StretchReplay all(with_all_events(run)), part(with_stretches(run)), other(with_stretches(steady));
  ASSERT_EQ(part.refusal, "");
  const double expected_s = all.predict("function slow x0").outcome.elapsed_s;
  const Prediction got = part.predict("function slow x0");
  EXPECT_LE(std::abs(got.outcome.elapsed_s - expected_s), got.error_s);
  EXPECT_GT(got.error_s, 2 * other.predict("function slow x0").error_s);
}

TEST(WhatIfStretches, ErrorOfTheMean) {
  EXPECT_NEAR(whatif::error_of_mean({1, 2, 3}, 0), 4.303 / std::sqrt(3.0), 1e-9);
  EXPECT_NEAR(whatif::error_of_mean({1, 2, 3}, 0.75), 4.303 / std::sqrt(3.0) / 2, 1e-9);
  EXPECT_EQ(whatif::error_of_mean({1, 2, 3}, 1), 0);
  EXPECT_EQ(whatif::error_of_mean({5, 5, 5, 5}, 0), 0);
  EXPECT_NEAR(whatif::error_of_mean({1, 1, 3, 3}, 0), 3.182 * std::sqrt(4.0 / 3 / 4), 1e-9);
  EXPECT_NEAR(whatif::error_of_mean(std::vector<double>(31, 1.0), 0), 0, 1e-12);
  std::vector<double> many(100, 1.0);
  for (std::size_t i = 0; i < 50; ++i) many[i] = 3;
  EXPECT_NEAR(whatif::error_of_mean(many, 0), 1.96 * std::sqrt(100.0 / 99 / 100), 1e-9);
}

}  // namespace
}  // namespace clusterprof::aggregator::test
