// SPDX-License-Identifier: BSD-3-Clause
// Threads that make and join each other, in replays with changes. All times are known by construction.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "aggregator/whatif/whatif.hpp"
#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::aggregator::test {
namespace {

using shard::SpanEnd;
using whatif::parse_change;
using whatif::Prediction;
using whatif::WhatIf;

constexpr std::uint64_t kMsOf = 1'000'000;
constexpr std::uint64_t kBegan_ns = 100'000'000'000'000;  // as of MadeClock
using Times = std::vector<std::pair<std::string, std::uint64_t>>;

// One process. Times are in milliseconds since its start.
class ForkJoinTest : public ::testing::Test {
 protected:
  ForkJoinTest() {
    data.run.id = "made";
    data.run.rate_hz = 1000;
    data.nodes.resize(1);
    data.nodes[0].name = "n";
  }

  // Call it first.
  void rank(std::uint64_t elapsed_ms, std::uint32_t threads) {
    shard::Rank row;
    row.start_utc_ns = 1'700'000'000'000'000'000;
    row.elapsed_ns = elapsed_ms * kMsOf;
    row.threads = threads;
    data.ranks = {row};
  }
  std::uint32_t path(const std::string& name) {
    const auto found = paths_.find(name);
    if (found != paths_.end()) return found->second;
    shard::PathInterner interner(data);
    shard::Frame frame;
    frame.kind = shard::FrameKind::kNative;
    frame.name = interner.string(name == "futex" ? "wait" : name);
    std::uint32_t made = interner.path(0, interner.frame(frame));
    if (name == "futex") {
      frame.kind = shard::FrameKind::kKernel;
      frame.name = interner.string(name);
      made = interner.path(made, interner.frame(frame));
    }
    return paths_[name] = made;
  }
  void span(std::uint32_t thread, SpanEnd how, std::uint32_t other, std::uint64_t begin_ms,
            std::uint64_t call_ms, std::uint64_t end_ms, const Times& times = {}) {
    shard::ThreadSpan row;
    row.thread = thread;
    row.number = numbers_[thread]++;
    row.other = other;
    row.how = how;
    row.begin_ns = kBegan_ns + begin_ms * kMsOf;
    row.call_ns = kBegan_ns + call_ms * kMsOf;
    row.end_ns = kBegan_ns + end_ms * kMsOf;
    data.thread_spans.push_back(row);
    std::map<std::uint32_t, std::uint64_t> by_path;
    for (const auto& [name, ms] : times) by_path[path(name)] += ms;
    for (const auto& [at, ms] : by_path) {
      data.span_times.push_back({0, thread, row.number, at, ms * kMsOf});
      data.values.push_back({0, at, shard::Category::kNative, thread == 0, ms * kMsOf, 0, ms});
    }
  }
  void create(std::uint32_t thread, std::uint32_t other, std::uint64_t begin_ms, std::uint64_t call_ms,
              const Times& times = {}) {
    span(thread, SpanEnd::kCreate, other, begin_ms, call_ms, call_ms, times);
  }
  void join(std::uint32_t thread, std::uint32_t other, std::uint64_t begin_ms, std::uint64_t call_ms,
            std::uint64_t end_ms, const Times& times = {}) {
    span(thread, SpanEnd::kJoin, other, begin_ms, call_ms, end_ms, times);
  }
  void end(std::uint32_t thread, std::uint64_t begin_ms, std::uint64_t end_ms, const Times& times = {}) {
    span(thread, SpanEnd::kEnd, shard::kNone, begin_ms, end_ms, end_ms, times);
  }

  // In ms; below 0: refused.
  double with(const std::vector<std::string>& changes) {
    WhatIf whatif;
    whatif.add(data);
    const Result<void> prepared = whatif.prepare();
    EXPECT_TRUE(prepared) << (prepared ? "" : prepared.error().message);
    std::vector<whatif::Change> parsed;
    for (const std::string& text : changes) parsed.push_back(parse_change(text).value());
    const Result<Prediction> prediction = whatif.predict(parsed);
    if (!prediction) return -1;
    error_ms = prediction.value().error_s * 1e3;
    return prediction.value().outcome.elapsed_s * 1e3;
  }

  // The main thread makes two threads at 1 s, of which one works until 4 s and the other until 9 s, and ends
  // at 10 s.
  void two_workers() {
    rank(10'000, 3);
    create(0, 1, 0, 1000, {{"setup", 1000}});
    create(0, 2, 1000, 1000);
    join(0, 1, 1000, 2000, 4000, {{"own", 1000}});
    join(0, 2, 4000, 4000, 9000);
    end(0, 9000, 10'000, {{"finish", 1000}});
    end(1, 1000, 4000, {{"solve", 3000}});
    end(2, 1000, 9000, {{"prepare", 2000}, {"solve", 6000}});
  }

  shard::ShardData data;
  double error_ms = 0;

 private:
  std::map<std::string, std::uint32_t> paths_;
  std::map<std::uint32_t, std::uint32_t> numbers_;
};

TEST_F(ForkJoinTest, AJoinEndsWithTheThreadThatIsJoined) {
  two_workers();
  EXPECT_NEAR(with({}), 10'000, 0.01);
  EXPECT_NEAR(with({"function solve x0.5"}), 7000, 0.01) << "the second one still is the last";
  EXPECT_LT(error_ms, 400) << "no doubt whether anybody waits for it";
  EXPECT_NEAR(with({"function solve x0"}), 4000, 0.01) << "it prepares until 3 s";
  EXPECT_NEAR(with({"function prepare x0"}), 8000, 0.01);
  EXPECT_NEAR(with({"function solve x2"}), 16'000, 0.01);
  EXPECT_NEAR(with({"function solve x0", "function prepare x0"}), 3000, 0.01)
      << "the main thread is the last";
}

TEST_F(ForkJoinTest, AThreadBeginsWhenItIsMade) {
  two_workers();
  EXPECT_NEAR(with({"function setup x0"}), 9000, 0.01);
  EXPECT_NEAR(with({"function setup x3"}), 12'000, 0.01);
}

TEST_F(ForkJoinTest, WaitingForOthersIsElastic) {
  two_workers();
  EXPECT_NEAR(with({"function own x0"}), 10'000, 0.01) << "it waits for longer";
  EXPECT_NEAR(with({"function own x10"}), 12'000, 0.01) << "it does not wait any more";
}

TEST_F(ForkJoinTest, AJoinOfAnUnknownThreadStays) {
  two_workers();
  data.thread_spans[3].other = shard::kNone;
  EXPECT_NEAR(with({"function prepare x0"}), 10'000, 0.01);
  EXPECT_NEAR(with({"function solve x0"}), 8000, 0.01) << "the wait for the first one ends at 2 s";
}

TEST_F(ForkJoinTest, AFunctionIsBalancedAmongThreadsThatAreJoinedTogether) {
  two_workers();
  EXPECT_NEAR(with({"balance function solve"}), 8500, 0.01) << "4.5 s each";
  EXPECT_NEAR(with({"balance function prepare"}), -1, 0.01) << "one alone does it";
}

TEST_F(ForkJoinTest, ThreadsMayMakeAndJoinOthers) {
  rank(8000, 3);
  create(0, 1, 0, 0);
  join(0, 1, 0, 0, 7000);
  end(0, 7000, 8000, {{"finish", 1000}});
  create(1, 2, 0, 1000, {{"outer", 1000}});
  join(1, 2, 1000, 3000, 6000, {{"beside", 2000}});
  end(1, 6000, 7000, {{"outer", 1000}});
  end(2, 1000, 6000, {{"inner", 5000}});
  EXPECT_NEAR(with({"function inner x0.5"}), 5500, 0.01);
  EXPECT_NEAR(with({"function inner x0"}), 5000, 0.01) << "what is done beside it is the last";
  EXPECT_NEAR(with({"function outer x0"}), 6000, 0.01);
  EXPECT_NEAR(with({"function beside x4"}), 11'000, 0.01);
}

// A thread that waits for tasks, and for whose end nobody waits, has waited for the main thread.
TEST_F(ForkJoinTest, AThreadThatWaitsForTheMainThreadFollowsIt) {
  rank(10'000, 2);
  create(0, 1, 0, 1000, {{"setup", 1000}});
  join(0, 1, 1000, 9000, 9000, {{"own", 8000}});
  end(0, 9000, 10'000, {{"finish", 1000}});
  end(1, 1000, 9000, {{"task", 3000}, {"futex", 5000}});
  EXPECT_NEAR(with({"function own x0.5"}), 6000, 0.01);
  EXPECT_NEAR(with({"function own x0"}), 5000, 0.01) << "its tasks take 3 s";
  EXPECT_NEAR(with({"function task x0"}), 10'000, 0.01);
  EXPECT_NEAR(with({"function task x3"}), 11'000, 0.01);
}

// One that waits for a third one does not.
TEST_F(ForkJoinTest, AThreadThatIsWaitedForHasNotWaitedForTheMainThread) {
  rank(10'000, 2);
  create(0, 1, 0, 0);
  join(0, 1, 0, 1000, 9000, {{"own", 1000}});
  end(0, 9000, 10'000, {{"finish", 1000}});
  end(1, 0, 9000, {{"task", 4000}, {"futex", 5000}});
  EXPECT_NEAR(with({"function own x0"}), 10'000, 0.01);
  EXPECT_NEAR(with({"function task x0.5"}), 8000, 0.01);
}

TEST_F(ForkJoinTest, OfThreadsThatNobodyJoinsTheErrorTells) {
  rank(10'000, 2);
  create(0, 1, 0, 1000, {{"own", 1000}});
  end(0, 1000, 10'000, {{"own", 9000}});
  end(1, 1000, 9000, {{"solve", 8000}});
  EXPECT_NEAR(with({"function solve x0.5"}), 10'000, 0.01);
  EXPECT_GT(error_ms, 4000);
  EXPECT_NEAR(with({"function own x0.5"}), 5000, 0.01);
}

TEST_F(ForkJoinTest, ShortSpansAreDividedTogether) {
  rank(3000, 1001);
  // A thread for 2 ms, 1000 times; a sample sees every fourth of them, and then one half of its time.
  for (std::uint32_t i = 0; i < 1000; ++i) {
    create(0, i + 1, i == 0 ? 0 : 3 * i - 1, 3 * i);
    join(0, i + 1, 3 * i, 3 * i, 3 * i + 2);
  }
  end(0, 2999, 3000);
  for (std::uint32_t i = 0; i < 1000; ++i)
    end(i + 1, 3 * i, 3 * i + 2, i % 4 == 0 ? Times{{i % 8 == 0 ? "a" : "b", 1}} : Times{});
  EXPECT_NEAR(with({"function a x0"}), 2000, 1);
}

TEST_F(ForkJoinTest, APauseIsNotReplayed) {
  two_workers();
  data.ranks[0].paused_ns = kMsOf;
  EXPECT_NEAR(with({"function solve x0.5"}), 10'000, 0.01);
  EXPECT_GT(error_ms, 1000) << "from sums, as without spans";
}

// Whatever a formally valid file contains, there is no crash and no endless loop, and no number that is none.
TEST_F(ForkJoinTest, SurvivesImpossibleSpans) {
  two_workers();
  const shard::ShardData good = data;
  std::mt19937_64 random(7);
  const auto odds = [&](std::uint64_t n) { return random() % n == 0; };
  int predicted = 0;
  for (int round = 0; round < 500; ++round) {
    data = good;
    for (shard::ThreadSpan& row : data.thread_spans) {
      if (odds(4)) row.other = static_cast<std::uint32_t>(odds(8) ? random() : random() % 4);
      if (odds(6)) row.how = static_cast<SpanEnd>(random() % shard::kSpanEnds);
      if (odds(4)) {
        std::uint64_t* const times[] = {&row.begin_ns, &row.call_ns, &row.end_ns};
        for (std::uint64_t* const ns : times)
          *ns = odds(8) ? random() % (std::uint64_t{1} << 62) : *ns + random() % kMsOf;
        if (row.begin_ns > row.call_ns) std::swap(row.begin_ns, row.call_ns);
        if (row.call_ns > row.end_ns) std::swap(row.call_ns, row.end_ns);
        if (row.begin_ns > row.call_ns) std::swap(row.begin_ns, row.call_ns);
      }
    }
    for (shard::SpanTime& row : data.span_times)
      if (odds(6)) row.wall_ns = random();
    if (odds(4)) data.thread_spans.erase(data.thread_spans.begin());
    for (const char* change : {"function solve x0", "function own x1000", "balance function solve"}) {
      const double ms = with({change});
      if (ms < 0) continue;
      ++predicted;
      EXPECT_TRUE(std::isfinite(ms) && std::isfinite(error_ms)) << change;
    }
  }
  EXPECT_GT(predicted, 500) << "else nothing is tested";
}

// Names the frames of this name as the kernel's wait for the end of a thread.
void name_joins(shard::ShardData& data) {
  shard::PathInterner interner(data);
  for (shard::Frame& frame : data.frames)
    if (data.strings[frame.name] == "joins") {
      frame.kind = shard::FrameKind::kKernel;
      frame.name = interner.string(shard::kOnThreadName);
    }
}

// Between two barriers rank 0 makes a thread, works for 5 ms, joins it after 25 ms, and works for 4 ms more.
// Of its 10 ms beside the join, calls without events have so many.
shard::ShardData with_threads_in_a_gap(std::int64_t calls_ms) {
  MadeRun run(2);
  const auto barrier = [](std::int64_t enter_ms, std::int64_t exit_ms, std::uint32_t sequence) {
    return made_call(MpiEventKind::kCollective, "MPI_Barrier", enter_ms * kMs, exit_ms * kMs, sequence);
  };
  for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier(0, 1, 0));
  MadeEvent last = barrier(31, 32, 1);
  last.gap = {{"work", (10 - calls_ms) * kMs}, {"joins", 20 * kMs}};
  last.other_calls_ns = calls_ms * kMs;
  run.add(0, last);
  last = barrier(11, 32, 1);
  last.gap = {{"other", 10 * kMs}};
  run.add(1, last);
  shard::ShardData data = run.shards()[0];
  data.run.rate_hz = 1000;
  name_joins(data);
  shard::PathInterner interner(data);
  shard::Frame frame;
  frame.kind = shard::FrameKind::kNative;
  frame.name = interner.string("solve");
  const std::uint32_t solve = interner.path(0, interner.frame(frame));
  const auto at = [](std::uint64_t ms) { return kBegan_ns + ms * kMsOf; };
  data.thread_spans = {{0, 0, 0, 1, SpanEnd::kCreate, at(0), at(2), at(2)},
                       {0, 0, 1, 1, SpanEnd::kJoin, at(2), at(7), at(27)},
                       {0, 0, 2, shard::kNone, SpanEnd::kEnd, at(27), at(32), at(32)},
                       {0, 1, 0, shard::kNone, SpanEnd::kEnd, at(2), at(27), at(27)}};
  data.span_times = {{0, 1, 0, solve, 25 * kMsOf}};
  return data;
}

TEST(ForkJoinWithMpi, ThreadsOfAGapAreReplayed) {
  WhatIf whatif;
  whatif.add(with_threads_in_a_gap(0));
  ASSERT_TRUE(whatif.prepare());
  EXPECT_FALSE(whatif.is_from_sums());
  const auto with = [&](const char* change) {
    const Result<Prediction> prediction = whatif.predict({parse_change(change).value()});
    return prediction ? prediction.value().outcome.elapsed_s * 1e3 : -1;
  };
  EXPECT_NEAR(whatif.replayed().elapsed_s * 1e3, 32, 1e-3);
  EXPECT_NEAR(with("function solve x0.5"), 19.5, 1e-3);
  EXPECT_NEAR(with("function solve x0"), 12, 1e-3) << "7 ms until the join, 4 behind it, and the barrier";
  EXPECT_NEAR(with("function solve x2"), 57, 1e-3);
  EXPECT_NEAR(with("function work x0"), 27, 1e-3) << "the thread begins at 1, and rank 1 is there at 11";
  EXPECT_NEAR(with("function other x4"), 42, 1e-3);
}

TEST(ForkJoinWithMpi, CallsWithoutEventsBesideThreadsCountOnce) {
  WhatIf whatif;
  whatif.add(with_threads_in_a_gap(8));
  ASSERT_TRUE(whatif.prepare());
  const auto with = [&](const char* change) {
    const Result<Prediction> prediction = whatif.predict({parse_change(change).value()});
    return prediction ? prediction.value().outcome.elapsed_s * 1e3 : -1;
  };
  EXPECT_NEAR(whatif.replayed().elapsed_s * 1e3, 32, 1e-3);
  EXPECT_NEAR(with("function other x0"), 32, 1e-3) << "rank 0 stays";
  EXPECT_NEAR(with("function solve x0.5"), 19.5, 1e-3);
}

// Rank 0 has a thread from 45 to 62 ms that sends at 60 what rank 1 waits for. Of rank 0's own 28 ms after
// the first barrier, calls without events have so many.
shard::ShardData with_a_thread_that_sends(std::int64_t calls_ms) {
  MadeRun run(2);
  const auto add = [&](std::int32_t rank, MpiEventKind kind, const char* op, std::int64_t enter_ms,
                       std::int64_t exit_ms, std::uint32_t sequence, std::uint32_t thread,
                       std::vector<std::pair<std::string, std::int64_t>> gap,
                       std::int64_t calls_ms_before = 0) {
    MadeEvent event = made_call(kind, op, enter_ms * kMs, exit_ms * kMs, sequence,
                                kind == MpiEventKind::kCollective ? -1 : 1 - rank);
    event.thread = thread;
    event.gap = std::move(gap);
    event.other_calls_ns = calls_ms_before * kMs;
    run.add(rank, event);
  };
  for (std::int32_t r = 0; r < 2; ++r)
    add(r, MpiEventKind::kCollective, "MPI_Barrier", 40, 40, 0, 0, {{"load", 40 * kMs}});
  add(0, MpiEventKind::kSend, "MPI_Send", 60, 60, 0, 1, {{"helps", 15 * kMs}});
  add(0, MpiEventKind::kCollective, "MPI_Barrier", 80, 81, 1, 0,
      {{"work", (28 - calls_ms) * kMs}, {"joins", 12 * kMs}}, calls_ms);
  add(1, MpiEventKind::kReceive, "MPI_Recv", 40, 61, 0, 0, {});
  add(1, MpiEventKind::kCollective, "MPI_Barrier", 61, 81, 1, 0, {});
  shard::ShardData data = run.shards()[0];
  data.run.rate_hz = 1000;
  name_joins(data);
  return data;
}

// It is made at 45 ms, and joined from 50 to 62.
TEST(ForkJoinWithMpi, AThreadThatCallsMpiBeginsWhenItIsMade) {
  const auto at = [](std::uint64_t ms) { return kBegan_ns + ms * kMsOf; };
  shard::ShardData data = with_a_thread_that_sends(0);
  const auto with = [&](const char* change, const std::vector<shard::ThreadSpan>& spans) {
    data.thread_spans = spans;
    WhatIf whatif;
    whatif.add(data);
    const Result<void> prepared = whatif.prepare();
    EXPECT_TRUE(prepared) << (prepared ? "" : prepared.error().message);
    EXPECT_NEAR(whatif.replayed().elapsed_s * 1e3, 81, 1e-3);
    const Result<Prediction> prediction = whatif.predict({parse_change(change).value()});
    return prediction ? prediction.value().outcome.elapsed_s * 1e3 : -1;
  };
  const std::vector<shard::ThreadSpan> joined = {
      {0, 0, 0, 1, SpanEnd::kCreate, at(0), at(45), at(45), 0},
      {0, 0, 1, 1, SpanEnd::kJoin, at(45), at(50), at(62), 0},
      {0, 0, 2, shard::kNone, SpanEnd::kEnd, at(62), at(81), at(81), 0},
      {0, 1, 0, shard::kNone, SpanEnd::kEnd, at(45), at(62), at(62), 1}};
  EXPECT_NEAR(with("function helps x0", joined), 69, 1e-3) << "18 ms after the main thread comes to the join";
  EXPECT_NEAR(with("function helps x2", joined), 96, 1e-3) << "the join ends at 77";
  EXPECT_NEAR(with("function work x0", joined), 58, 1e-3) << "made at 40, sent at 55, and joined at 57";
  EXPECT_NEAR(with("function load x0", joined), 41, 1e-3);
  // Nobody joins it: the main thread has its 12 ms for itself.
  const std::vector<shard::ThreadSpan> alone = {
      {0, 0, 0, 1, SpanEnd::kCreate, at(0), at(45), at(45), 0},
      {0, 0, 1, shard::kNone, SpanEnd::kEnd, at(45), at(81), at(81), 0},
      {0, 1, 0, shard::kNone, SpanEnd::kEnd, at(45), at(62), at(62), 1}};
  EXPECT_NEAR(with("function helps x0", alone), 81, 1e-3);
  EXPECT_NEAR(with("function helps x3", alone), 92, 1e-3) << "rank 1 has the message at 91";
  data = with_a_thread_that_sends(25);
  EXPECT_NEAR(with("function helps x0", joined), 69, 1e-3)
      << "whatever the main thread's calls without events took";
}

}  // namespace
}  // namespace clusterprof::aggregator::test
