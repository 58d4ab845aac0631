// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/whatif.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/aggregator/one_rank_run.hpp"
#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::aggregator::test {
namespace {

using whatif::Change;
using whatif::ChangeKind;
using whatif::parse_change;
using whatif::Prediction;
using whatif::WhatIf;
using Gap = std::vector<std::pair<std::string, std::int64_t>>;

constexpr double kNear_s = 1e-6;
constexpr std::uint32_t kBarrierLine = 57;

MadeEvent event(MpiEventKind kind, const std::string& op, std::int64_t enter, std::int64_t exit,
                std::int32_t peer, std::uint32_t sequence, Gap gap) {
  MadeEvent made = made_call(kind, op, enter, exit, sequence, peer);
  made.gap = std::move(gap);
  return made;
}
MadeEvent barrier(std::int64_t enter, std::int64_t exit, std::uint32_t sequence, Gap gap) {
  return event(MpiEventKind::kCollective, "MPI_Barrier", enter, exit, -1, sequence, std::move(gap));
}
MadeEvent sends(std::int32_t to, std::int64_t enter, std::int64_t exit, Gap gap) {
  return event(MpiEventKind::kSend, "MPI_Send", enter, exit, to, 0, std::move(gap));
}
MadeEvent receives(std::int32_t from, std::int64_t enter, std::int64_t exit, Gap gap) {
  return event(MpiEventKind::kReceive, "MPI_Recv", enter, exit, from, 0, std::move(gap));
}

// Messages get `bytes`; barriers are called in train.py:57.
std::vector<shard::ShardData> shards_of(const MadeRun& run, std::uint64_t bytes = 0) {
  std::vector<shard::ShardData> shards = run.shards();
  for (shard::ShardData& data : shards) {
    data.run.rate_hz = 1000;
    data.strings.emplace_back("/home/user/train.py");
    for (shard::Frame& frame : data.frames)
      if (data.strings[frame.name] == "calls MPI_Barrier") {
        frame.file = static_cast<shard::StringIndex>(data.strings.size() - 1);
        frame.line = kBarrierLine;
      }
    for (shard::MpiEvent& row : data.mpi_events)
      if (row.kind < static_cast<std::uint8_t>(MpiEventKind::kCollective)) row.bytes = bytes;
  }
  return shards;
}

class Asked {
 public:
  explicit Asked(const std::vector<shard::ShardData>& shards) {
    for (const shard::ShardData& shard : shards) whatif_.add(shard);
    const Result<void> prepared = whatif_.prepare();
    if (!prepared) refusal_ = prepared.error().message;
  }
  explicit Asked(const MadeRun& run, std::uint64_t bytes = 0) : Asked(shards_of(run, bytes)) {}

  // In ms; negative: an error.
  double operator()(const std::vector<std::string>& changes) {
    std::vector<Change> parsed;
    for (const std::string& text : changes) parsed.push_back(parse_change(text).value());
    const Result<Prediction> prediction = whatif_.predict(parsed);
    why = prediction ? std::string() : prediction.error().message;
    if (!prediction) return -1;
    last = prediction.value();
    return last.outcome.elapsed_s * 1e3;
  }
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  [[nodiscard]] const WhatIf& whatif() const { return whatif_; }

  Prediction last;
  std::string why;  // the last was refused; else empty

 private:
  WhatIf whatif_;
  std::string refusal_;
};

// Rank 0 works for 10 ms, rank 1 for 30 ms; then a barrier of 1 ms.
MadeRun unequal() {
  MadeRun run(2);
  run.add(0, barrier(10 * kMs, 31 * kMs, 0, {{"work", 4 * kMs}, {"fast", 6 * kMs}}));
  run.add(1, barrier(30 * kMs, 31 * kMs, 0, {{"work", 24 * kMs}, {"slow", 6 * kMs}}));
  return run;
}

// Both ranks spend half of their time in `copy`, which is input and output on rank 1 alone.
TEST(WhatIf, EachRankHasItsOwnShareOfInputAndOutput) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r)
    run.add(r, barrier(30 * kMs, 31 * kMs, 0, {{"copy", 15 * kMs}, {"work", 15 * kMs}}));
  std::vector<shard::ShardData> shards = shards_of(run);
  EXPECT_LT(Asked(shards)({"io x0"}), 0) << "there is none";
  std::uint32_t copy = 0;
  for (std::uint32_t p = 1; p < shards[0].paths.size(); ++p)
    if (name_of(shards[0], p) == "copy") copy = p;
  const auto value = [&](std::uint32_t rank, shard::Category category, bool main, std::uint64_t ms) {
    shards[0].values.push_back({rank, copy, category, main, ms * static_cast<std::uint64_t>(kMs), 0, ms});
  };
  value(0, shard::Category::kNative, true, 15);
  value(1, shard::Category::kIo, true, 15);
  Asked one(shards);
  EXPECT_NEAR(one({"io x0"}), 31, 1e-3) << "rank 0 does none, and the others wait for it";
  value(0, shard::Category::kIo, true, 15);
  value(1, shard::Category::kIo, false, 15);
  value(1, shard::Category::kNative, false, 150);
  Asked both(shards);
  EXPECT_NEAR(both({"io x0"}), 23.5, 1e-3)
      << "half of it on rank 0; what other threads do is not in its gaps";
  EXPECT_NEAR(both({"io x0.5", "io x0.5"}), 31 - 0.75 * 7.5, 1e-3);
}

TEST(WhatIf, ReplaysWhatWasRecorded) {
  Asked ask(unequal());
  EXPECT_EQ(ask.refusal(), "");
  EXPECT_FALSE(ask.whatif().is_from_sums());
  EXPECT_EQ(ask.whatif().replays_per_prediction(), 1u);
  EXPECT_NEAR(ask.whatif().elapsed_s(), 0.031, kNear_s);
  EXPECT_NEAR(ask({}), 31, 1e-3);
  const whatif::Outcome& replayed = ask.whatif().replayed();
  EXPECT_NEAR(replayed.useful_mean_s, 0.020, kNear_s);
  EXPECT_NEAR(replayed.useful_max_s, 0.030, kNear_s);
  EXPECT_NEAR(replayed.wait_s, 0.020, kNear_s);
  EXPECT_NEAR(replayed.parallel, 20.0 / 31, 1e-4);
  EXPECT_NEAR(replayed.load_balance, 2.0 / 3, 1e-4);
  ASSERT_FALSE(replayed.critical.empty());
  EXPECT_EQ(replayed.critical[0].rank, 1);
  EXPECT_EQ(replayed.critical[0].name, "work");
  EXPECT_NEAR(replayed.critical[0].time_s, 0.024, kNear_s);
  double critical_s = 0;
  for (const whatif::TimeRow& row : replayed.critical) critical_s += row.time_s;
  EXPECT_NEAR(critical_s, 0.031, kNear_s);
}

// Each of ten rounds has a pause of 100 ms before the MPI_Allreduce, which has 1 ms of work without samples
// before it.
TEST(WhatIf, PausesStayAsTheyWere) {
  MadeRun run(2);
  std::int64_t now = 0;
  for (std::uint32_t i = 0; i < 10; ++i, now += 113 * kMs)
    for (std::int32_t r = 0; r < 2; ++r) {
      MadeEvent reduce =
          event(MpiEventKind::kCollective, "MPI_Allreduce", now + 101 * kMs, now + 102 * kMs, -1, 2 * i, {});
      reduce.paused_ns = 100 * kMs;
      reduce.resumed = now + 100 * kMs;
      run.add(r, reduce);
      run.add(r, barrier(now + 112 * kMs, now + 113 * kMs, 2 * i + 1, {{"solve", 10 * kMs}}));
    }
  Asked ask(run);
  EXPECT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({}), 1130, 1e-3);
  EXPECT_NEAR(ask.whatif().replayed().useful_max_s, 0.110, kNear_s);
  EXPECT_NEAR(ask.whatif().replayed().parallel, 0.110 / 0.130, 0.01) << "of the recorded time";
  EXPECT_NEAR(ask({"function calls MPI_Allreduce x0"}), 1120, 1e-3);
  EXPECT_NEAR(ask({"function solve x0.5"}), 1080, 1e-3);
  EXPECT_NEAR(ask({"function solve x0", "function calls MPI_Allreduce x0"}), 1020, 1e-3);
}

// Rank 0 writes output for 20 ms in a pause: the others wait for it, but it has no more to do.
TEST(WhatIf, APauseIsNoWork) {
  MadeRun run(2);
  MadeEvent late = barrier(40 * kMs, 41 * kMs, 0, {{"work", 20 * kMs}});
  late.paused_ns = 20 * kMs;
  late.resumed = 40 * kMs;
  run.add(0, late);
  run.add(1, barrier(20 * kMs, 41 * kMs, 0, {{"work", 20 * kMs}}));
  Asked ask(run);
  EXPECT_NEAR(ask({}), 41, 1e-3);
  EXPECT_NEAR(ask({"rank 0 = mean"}), 41, 1e-3);
  EXPECT_NEAR(ask({"balance function work"}), 41, 1e-3);
  EXPECT_NEAR(ask({"function work x0"}), 21, 1e-3);
}

TEST(WhatIf, TheClocksOfNodesMayDiffer) {
  MadeRun run(2, 1);
  for (std::int32_t r = 0; r < 2; ++r)
    for (std::uint32_t i = 0; i < 20; ++i)
      run.add(r, barrier((10 + 40 * i + (r == static_cast<std::int32_t>(i % 2) ? 20 : 0)) * kMs,
                         (31 + 40 * i) * kMs, i, {}));
  run.clocks[1].ahead = 5'000 * kMs;
  std::vector<shard::ShardData> shards = shards_of(run);
  shards[1].ranks[0].start_utc_ns += 40 * kMs;  // and so much ahead is its time of day
  Asked ask(shards);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask.whatif().elapsed_s(), 0.791, 0.003);
  EXPECT_NEAR(ask({}), 791, 3);
}

TEST(WhatIf, AWholeNameIsThatFunctionAlone) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r)
    run.add(r, barrier(30 * kMs, 31 * kMs, 0, {{"ns::step()", 20 * kMs}, {"step", 10 * kMs}}));
  Asked asked(run);
  EXPECT_NEAR(asked({"function step x0"}), 21, 0.01) << asked.why;
  EXPECT_NEAR(asked({"function ns::step() x0"}), 11, 0.01) << asked.why;
  EXPECT_NEAR(asked({"function ns::step x0"}), 11, 0.01) << asked.why;
}

TEST(WhatIf, TheLastPartOfSeveralNamesIsNone) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r)
    run.add(r, barrier(30 * kMs, 31 * kMs, 0, {{"a::step()", 20 * kMs}, {"b::step()", 10 * kMs}}));
  Asked asked(run);
  EXPECT_LT(asked({"function step x0"}), 0);
  EXPECT_EQ(asked.why, "'function step x0': which of these functions: a::step(), b::step()");
  EXPECT_LT(asked({"balance function step"}), 0);
  EXPECT_NEAR(asked({"function a::step x0"}), 11, 0.01) << asked.why;
}

// Line 57 of two files train.py, each with a barrier; a third one calls none there.
TEST(WhatIf, FilesOfOneNameAreToldApart) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) {
    run.add(r, barrier((10 + 20 * r) * kMs, 31 * kMs, 0, {}));
    run.add(r, event(MpiEventKind::kCollective, "MPI_Allreduce", (61 - 20 * r) * kMs, 62 * kMs, -1, 1,
                     {{"other", 10 * kMs}}));
    MadeEvent second = barrier((72 + 20 * r) * kMs, 93 * kMs, 2, {});
    second.site = "MPI_Barrier_of_lib";
    run.add(r, second);
  }
  std::vector<shard::ShardData> shards = shards_of(run);
  shard::ShardData& data = shards[0];
  const auto string = [&](const char* text) {
    data.strings.emplace_back(text);
    return static_cast<shard::StringIndex>(data.strings.size() - 1);
  };
  const shard::StringIndex lib = string("/home/user/lib/train.py"), third = string("/opt/train.py");
  for (shard::Frame& frame : data.frames) {
    const std::string name = data.strings[frame.name];
    if (name == "MPI_Barrier_of_lib") frame.name = string("MPI_Barrier");
    if (name == "calls MPI_Barrier_of_lib") frame.file = lib, frame.line = kBarrierLine;
    if (name == "other") frame.file = third, frame.line = kBarrierLine;
  }
  Asked ask(shards);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_LT(ask({"call MPI_Barrier train.py:57 removed"}), 0);
  EXPECT_EQ(ask.why,
            "'call MPI_Barrier train.py:57 removed': which of these files: /home/user/lib/train.py, "
            "/home/user/train.py");
  EXPECT_LT(ask({"line train.py:57 x0"}), 0) << "of all three";
  EXPECT_NE(ask.why.find("/opt/train.py"), std::string::npos) << ask.why;
  EXPECT_NEAR(ask({"call MPI_Barrier lib/train.py:57 removed"}), 92, 1e-3) << ask.why;
  EXPECT_NEAR(ask({"call MPI_Barrier /home/user/train.py:57 removed"}), 72, 1e-3)
      << "then rank 0 waits no more before its longer work: " << ask.why;
  EXPECT_NEAR(ask({"line opt/train.py:57 x0"}), 83, 1e-3) << ask.why;
}

TEST(WhatIf, OtherRanksSetTheLimit) {
  Asked ask(unequal());
  EXPECT_NEAR(ask({"function slow x0.5"}), 28, 1e-3);
  EXPECT_NEAR(ask({"function slow x2"}), 37, 1e-3);
  EXPECT_NEAR(ask({"function work x0"}), 7, 1e-3);
  EXPECT_NEAR(ask({"function slow x0", "function work x0"}), 7, 1e-3) << "then rank 0 is the last";
  EXPECT_NEAR(ask({"function work x0.5", "function work x0.5"}), 13, 1e-3);
  EXPECT_LT(ask(std::vector<std::string>(80, "function work x1e6")), 0) << "no endless number";
  EXPECT_NEAR(ask({"rank 1 = mean"}), 11, 1e-3) << "of the others";
  EXPECT_NEAR(ask({"rank 0 = mean"}), 31, 1e-3);
  EXPECT_NEAR(ask.last.outcome.useful_mean_s, 0.030, kNear_s);
  EXPECT_NEAR(ask({"balance function work"}), 21, 1e-3) << "14 ms each, and 6 of other functions";
  EXPECT_NEAR(ask({"balance function slow"}), 28, 1e-3) << "also where a rank had none of it";
  EXPECT_NEAR(ask.last.outcome.useful_max_s, 0.027, kNear_s);
  EXPECT_NEAR(ask({"call MPI_Barrier train.py:57 removed"}), 30, 1e-3);
  EXPECT_NEAR(ask.last.outcome.wait_s, 0, kNear_s);
}

// Three ranks in a row: each works, sends to its neighbours by calls that wait for nothing, and works until
// it waits for them. The first has no left neighbour, the last no right one.
TEST(WhatIf, ARankIsComparedWhereNotAllBeginTheSame) {
  MadeRun run(3);
  std::int64_t now[3] = {0, 0, 0};
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::int64_t prepare = (i == 0 ? 20 : 30) * kMs;
    const std::int64_t sent[3] = {now[0] + prepare, now[1] + prepare, now[2] + prepare};
    for (std::int32_t r = 0; r < 3; ++r) {
      const std::int64_t solve = (r == 1 ? 70 : 30) * kMs, done = sent[r] + solve;
      const std::int64_t exit = std::max(done, r == 1 ? std::max(sent[0], sent[2]) : sent[1]);
      now[r] = exit;
      Gap before = {{"prepare", prepare}}, work = {{"solve", solve}};
      for (const std::int32_t to : {r - 1, r + 1}) {
        if (to < 0 || to > 2) continue;
        MadeEvent begins = sends(to, sent[r], sent[r] + 1, std::exchange(before, Gap{}));
        if (to > r) begins.enter += 1, begins.exit += 1;
        begins.site = to < r ? "MPI_Isend_left" : "MPI_Isend_right";
        begins.flags = wire::kEventNonblocking;
        begins.sequence = i;
        run.add(r, begins);
      }
      for (const std::int32_t from : {r - 1, r + 1}) {
        if (from < 0 || from > 2) continue;
        MadeEvent waits =
            event(MpiEventKind::kReceive, "MPI_Waitall", done, exit, from, i, std::exchange(work, Gap{}));
        waits.flags = wire::kEventNonblocking;
        waits.start = sent[r];
        run.add(r, waits);
      }
    }
  }
  Asked ask(run, 8);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({}), 390, 0.1);
  // Rank 1 has 20 + 70 ms in the first round and 30 + 70 in the others; the others have 50 and 60.
  const double before_s = ask.whatif().replayed().useful_mean_s;
  EXPECT_NEAR(before_s, (390 + 2 * 230) / 3e3, 1e-3);
  ASSERT_GT(ask({"rank 1 = mean"}), 0);
  EXPECT_NEAR(ask.last.outcome.useful_mean_s, 0.230, 1e-3) << "as long as each of the others, in sum";
  EXPECT_NEAR(ask({"rank 1 = mean"}), 230, 2);
}

TEST(WhatIf, TheCriticalPathHasTheChangedTimes) {
  Asked ask(unequal());
  ASSERT_NEAR(ask({"function work x0.5"}), 19, 1e-3);
  const std::vector<whatif::TimeRow>& rows = ask.last.outcome.critical;
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "work");
  EXPECT_NEAR(rows[0].time_s, 0.012, kNear_s);
  EXPECT_EQ(rows[1].name, "slow");
  EXPECT_NEAR(rows[1].time_s, 0.006, kNear_s);
}

TEST(WhatIf, ARankThatDidNothingTakesAsLongAsTheOthers) {
  MadeRun run(3);
  run.add(0, barrier(0, 31 * kMs, 0, {}));
  run.add(1, barrier(30 * kMs, 31 * kMs, 0, {{"work", 30 * kMs}}));
  run.add(2, barrier(10 * kMs, 31 * kMs, 0, {{"work", 10 * kMs}}));
  Asked ask(run);
  ASSERT_GT(ask({"rank 0 = mean"}), 0);
  EXPECT_NEAR(ask.last.outcome.useful_mean_s, 0.020, kNear_s) << "20 of rank 0";
  EXPECT_NEAR(ask({"function work x0", "rank 0 = mean"}), 21, 1e-3) << "as it was on average";
}

// A gap has its longest call paths only.
TEST(WhatIf, WhatAGapDoesNotTellIsNobodys) {
  MadeRun run(2);
  run.add(0, barrier(10 * kMs, 31 * kMs, 0, {{"fast", 10 * kMs}}));
  run.add(1, barrier(30 * kMs, 31 * kMs, 0, {{"slow", 6 * kMs}}));
  Asked ask(run);
  EXPECT_NEAR(ask({"function slow x0"}), 25, 1e-3);
}

// No event keeps the samples behind the last call: they are those that are in no other gap.
TEST(WhatIf, WhatFollowsTheLastCallChanges) {
  MadeRun run(3);  // one of which ends with the call: by that, the clocks of calls and of begins are compared
  for (std::int32_t r = 0; r < 3; ++r) run.add(r, barrier(10 * kMs, 11 * kMs, 0, {{"work", 10 * kMs}}));
  run.ends[0] = 111 * kMs;
  run.ends[1] = 21 * kMs;
  std::vector<shard::ShardData> shards = shards_of(run);
  shard::ShardData& data = shards[0];
  shard::PathInterner interner(data);
  const auto path = [&](const char* name) {
    return interner.path(0, interner.frame({shard::FrameKind::kNative, false, interner.string(name)}));
  };
  const auto sampled = [&](std::uint32_t rank, const char* name, std::uint64_t ms) {
    data.values.push_back({rank, path(name), shard::Category::kNative, true, ms * 1'000'000, 0, ms});
  };
  sampled(0, "work", 10);
  sampled(0, "write", 100);
  sampled(1, "work", 20);
  sampled(2, "work", 10);
  Asked ask(shards);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({}), 111, 1e-3);
  EXPECT_NEAR(ask({"function write x0.5"}), 61, 1e-3);
  EXPECT_LT(ask.last.error_s, 0.025) << "100 samples, and nothing that was not changed";
  EXPECT_NEAR(ask({"function work x0.5"}), 106, 1e-3);
  EXPECT_NEAR(ask({"function write x0", "function work x0.5"}), 11, 1e-3) << "then rank 1 ends last";
}

TEST(WhatIf, TheErrorHasWhatGapsDoNotTell) {
  std::vector<shard::ShardData> shards = shards_of(unequal());
  const auto error_of = [&](std::uint64_t slow_ms, const char* change) {
    std::vector<shard::ShardData> with = shards;
    for (std::uint32_t p = 1; p < with[0].paths.size(); ++p)
      if (name_of(with[0], p) == "slow")
        with[0].values.push_back(
            {1, p, shard::Category::kNative, true, slow_ms * static_cast<std::uint64_t>(kMs), 0, slow_ms});
    Asked ask(with);
    EXPECT_GT(ask({change}), 0);
    return ask.last.error_s * 1e3;
  };
  // 6 ms at 1 kHz: 1.96 times the root of 6, halved, beside the 1 % of single runs.
  EXPECT_NEAR(error_of(6, "function slow x0.5"), std::hypot(1.96 * std::sqrt(6.0) / 2, 0.28), 0.01);
  EXPECT_NEAR(error_of(6, "function slow x3"), std::hypot(1.96 * std::sqrt(6.0) * 2, 0.43), 0.01);
  // 100 ms more are not in the gaps: half of them may be gained, too.
  EXPECT_GT(error_of(106, "function slow x0.5"), 49);
  EXPECT_NEAR(error_of(106, "function work x0.5"), 0.19, 0.01);
}

// A master's workers sleep in two functions, one after the other: the first is charged up to 40 ms of the
// second.
TEST(WhatIf, TheErrorHasWaitsThatFollowOneAnother) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r)
    for (std::uint32_t i = 0; i < 12; ++i)
      run.add(r, barrier((90 + 91 * i) * kMs, (91 + 91 * i) * kMs, i,
                         {{"solve", 60 * kMs}, {"prepare", 30 * kMs}}));
  const auto error_s = [&](shard::Category category, const char* change) {
    std::vector<shard::ShardData> shards = shards_of(run);
    for (std::uint32_t p = 1; p < shards[0].paths.size(); ++p)
      for (std::uint32_t r = 0; r < 2; ++r)
        if (const std::string name = name_of(shards[0], p); name == "solve" || name == "prepare") {
          const std::uint64_t ms = name == "solve" ? 720 : 360;
          shards[0].values.push_back({r, p, category, true, ms * static_cast<std::uint64_t>(kMs), 0, ms});
        }
    Asked ask(shards);
    EXPECT_GT(ask({change}), 0) << ask.why;
    return ask.last.error_s;
  };
  const auto added_s = [&](const char* change) {
    return error_s(shard::Category::kIdle, change) - error_s(shard::Category::kNative, change);
  };
  // 12 times 20 ms, half of which the change takes away, and how far a sum of 12 is from its mean.
  EXPECT_NEAR(added_s("function solve x0.5"), 0.5 * (12 * 0.020 + 1.96 * 0.040), 1e-3);
  EXPECT_NEAR(added_s("rank 1 = mean"), 0, 1e-3) << "whatever of the two it was";
}

// Half of each gap is work with a processor and waiting for one, the other half a sleep of which a quarter
// runs.
TEST(WhatIf, AGapIsWorkSleepAndWaitingForAProcessor) {
  MadeRun run(2);
  run.ran["nap"] = 0.25;
  for (std::int32_t r = 0; r < 2; ++r)
    run.add(r, barrier(40 * kMs, 41 * kMs, 0,
                       {{"work", 10 * kMs}, {"nap", 20 * kMs}, {"ready in work", 10 * kMs}}));
  Asked ask(run);
  ASSERT_EQ(ask.refusal(), "");
  ASSERT_EQ(ask.whatif().replayed().nodes.size(), 1u);
  EXPECT_NEAR(ask.whatif().replayed().nodes[0].ran_s, 2 * (0.010 + 0.005), kNear_s);
  EXPECT_NEAR(ask.whatif().replayed().nodes[0].wanted, 2 * 25.0 / 41, 1e-4);
  EXPECT_NEAR(ask({"function work x0.5"}), 31, 1e-3) << "with less work there is less to wait for";
  EXPECT_NEAR(ask.last.outcome.nodes[0].ran_s, 2 * (0.005 + 0.005), kNear_s);
  EXPECT_NEAR(ask.last.outcome.nodes[0].wanted, 2 * 15.0 / 31, 1e-4);
  EXPECT_NEAR(ask({"function nap x0"}), 21, 1e-3) << "a sleep is what the function does";
  EXPECT_NEAR(ask.last.outcome.nodes[0].wanted, 2 * 20.0 / 21, 1e-4);
}

// Another program had rank 1's processor for half of the time: it does not work more than rank 0.
TEST(WhatIf, AStallIsNoWork) {
  MadeRun run(2);
  run.add(0, barrier(20 * kMs, 41 * kMs, 0, {{"work", 20 * kMs}}));
  run.add(1, barrier(40 * kMs, 41 * kMs, 0, {{"work", 20 * kMs}, {"ready in work", 20 * kMs}}));
  Asked ask(run);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({"rank 1 = mean"}), 41, 1e-3);
  EXPECT_NEAR(ask({"balance function work"}), 41, 1e-3);
  EXPECT_NEAR(ask({"function work x0.5"}), 21, 1e-3);
}

TEST(WhatIf, WaitingForAProcessorFollowsTheWork) {
  MadeRun run(2);
  run.add(0, barrier(10 * kMs, 41 * kMs, 0, {{"work", 10 * kMs}}));
  run.add(1, barrier(40 * kMs, 41 * kMs, 0, {{"work", 30 * kMs}, {"ready in work", 10 * kMs}}));
  Asked ask(run);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({"rank 1 = mean"}), 1 + 40.0 / 3, 1e-3) << "a third of the work, and of the waiting";
  EXPECT_NEAR(ask({"balance function work"}), 1 + 40 * 2 / 3.0, 1e-3) << "two thirds on rank 1";
  // 10 ms more on rank 0, with as much waiting as the ranks have for each ms of work: a quarter.
  EXPECT_NEAR(ask.last.outcome.useful_mean_s, (40 * 2 / 3.0 + 22.5) / 2e3, kNear_s);
  ASSERT_GT(ask({"rank 0 = mean"}), 0);
  EXPECT_NEAR(ask.last.outcome.useful_mean_s, (30 + 20 / 3.0 + 40) / 2e3, kNear_s) << "a third, on rank 1";
}

// A rank that had no processor at all before a call has done nothing there, not a little of everything.
TEST(WhatIf, ARankThatOnlyWaitedDidNothing) {
  MadeRun run(2);
  run.add(0, barrier(20 * kMs, 21 * kMs, 0, {{"work", 20 * kMs}}));
  run.add(1, barrier(20 * kMs, 21 * kMs, 0, {{"ready in work", 20 * kMs}}));
  Asked ask(run);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({"balance function work"}), 41, 1e-3) << "10 ms come to its waiting, with as much waiting";
  EXPECT_NEAR(ask({"rank 1 = mean"}), 41, 1e-3);
  EXPECT_NEAR(ask({"rank 0 = mean"}), 21, 1e-3) << "and rank 0 has nothing left to do";
}

// Four ranks on two processors: for each ms of work they wait one for a processor. In each of 50 rounds rank
// 3 works 20 ms and the others 10, and then there is a barrier of 1 ms. In MPI they do so in a loop, or
// sleep.
std::vector<shard::ShardData> four_on_two(bool spins) {
  MadeRun run(4);
  constexpr std::uint32_t kRounds = 50;
  for (std::int32_t r = 0; r < 4; ++r)
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      const std::int64_t begin = 41 * kMs * i, work = (r == 3 ? 20 : 10) * kMs;
      run.add(r, barrier(begin + 2 * work, begin + 41 * kMs, i, {{"work", work}, {"ready in work", work}}));
    }
  std::vector<shard::ShardData> shards = shards_of(run);
  shard::ShardData& data = shards[0];
  data.nodes[0].cpus = 2;
  for (std::uint32_t p = 1; p < data.paths.size(); ++p)
    for (std::uint32_t r = 0; r < 4 && name_of(data, p) == "MPI_Barrier"; ++r) {
      const std::uint64_t half_ns = kRounds * (r == 3 ? 1u : 21u) * static_cast<std::uint64_t>(kMs) / 2;
      data.values.push_back(
          {r, p, shard::Category::kMpi, true, 2 * half_ns, spins ? half_ns : 0, half_ns / 500'000});
      data.ranks[r].mpi_runnable_ns = spins ? half_ns : 0;
      data.ranks[r].main_thread_ns[static_cast<std::size_t>(shard::Category::kRunnable)] =
          kRounds * (r == 3 ? 20u : 10u) * static_cast<std::uint64_t>(kMs);
    }
  return shards;
}

TEST(WhatIf, RanksThatSpinShareProcessorsAsBefore) {
  Asked ask(four_on_two(true));
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_EQ(ask.whatif().replays_per_prediction(), 2u);
  EXPECT_NEAR(ask.whatif().replayed().nodes[0].wanted, 4, 1e-3);
  EXPECT_NEAR(ask({}), 2050, 0.1);
  EXPECT_NEAR(ask({"rank 3 = mean"}), 1050, 0.1);
  EXPECT_NEAR(ask.last.outcome.nodes[0].wanted, 4, 1e-3);
  // They had no processor for 1.025 s each. As many want one with the change: what is left is that they get
  // it at other times, at each of 50 barriers up to 4 ms later.
  EXPECT_NEAR(ask.last.outcome.calls_on_path, 50, 1e-9);
  EXPECT_NEAR(ask.last.error_s, 0.0105 + 1.96 * std::sqrt(50.0) * 0.004, 1e-3);
}

TEST(WhatIf, RanksThatSleepInMpiMeetMoreOftenWhenTheyWaitLess) {
  Asked ask(four_on_two(false));
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({"rank 3 = mean"}), 1050, 0.1);
  // 2.44 threads on the mean want one of two processors, and then 3.81. If none of them had to wait, it would
  // still take 1 s: two processors have 2 s of work.
  const double more = (80.0 / 21 - 2) / (100.0 / 41 - 2) - 1;
  const double late_s = (1.96 * std::sqrt(50.0) + 50) * 0.004;
  EXPECT_NEAR(ask.last.error_s, 0.0105 + 0.05 * more + late_s, 2e-3);
}

TEST(WhatIf, TheErrorIsNoLargerThanTheTimeWithoutAProcessor) {
  std::vector<shard::ShardData> shards = four_on_two(false);
  for (shard::Rank& rank : shards[0].ranks)
    rank.main_thread_ns[static_cast<std::size_t>(shard::Category::kRunnable)] = 3'000'000;
  Asked ask(shards);
  EXPECT_NEAR(ask({"rank 3 = mean"}), 1050, 0.1);
  EXPECT_NEAR(ask.last.error_s, 0.0105 + 0.003, 1e-4);
}

// Ranks 0 and 1 have a processor each while the others sleep in MPI. With the work divided among four ranks
// two processors have as much to do as before.
TEST(WhatIf, ProcessorsDoNotWorkFaster) {
  MadeRun run(4);
  for (std::int32_t r = 0; r < 4; ++r)
    for (std::uint32_t i = 0; i < 10; ++i) {
      const std::int64_t begin = 41 * kMs * i;
      run.add(r, r < 2 ? barrier(begin + 40 * kMs, begin + 41 * kMs, i, {{"work", 40 * kMs}})
                       : barrier(begin, begin + 41 * kMs, i, {}));
    }
  std::vector<shard::ShardData> shards = shards_of(run);
  const auto balanced_ms = [&](std::uint32_t cpus, const char* affinity) {
    std::vector<shard::ShardData> with = shards;
    with[0].nodes[0].cpus = cpus;
    with[0].strings.emplace_back(affinity);
    for (shard::Rank& rank : with[0].ranks)
      rank.affinity = static_cast<shard::StringIndex>(with[0].strings.size() - 1);
    Asked ask(with);
    EXPECT_EQ(ask.refusal(), "");
    EXPECT_NEAR(ask({}), 410, 0.1) << "whatever it is said to be";
    const double ms = ask({"balance function work"});
    EXPECT_GE(ask.last.error_s, ask.last.outcome.limited_s);
    EXPECT_NEAR(ask.last.outcome.limited_s * 1e3, std::max(ms - 210, 0.0), 0.1);
    return ms;
  };
  EXPECT_NEAR(balanced_ms(4, ""), 210, 0.1);
  EXPECT_NEAR(balanced_ms(2, ""), 400, 0.1);
  EXPECT_NEAR(balanced_ms(64, "8,10"), 400, 0.1) << "they may run on two of them";
  EXPECT_NEAR(balanced_ms(64, "0-3"), 210, 0.1);
  EXPECT_NEAR(balanced_ms(0, ""), 210, 0.1) << "not known";
  EXPECT_NEAR(balanced_ms(1, ""), 410, 0.1) << "the run itself has had more than that";
}

// Whatever a formally valid file contains, there is no crash and no endless loop, and no number that is none.
TEST(WhatIf, SurvivesImpossibleEvents) {
  std::mt19937_64 random(11);
  const auto odds = [&](std::uint64_t n) { return random() % n == 0; };
  const auto any = [&] {
    constexpr std::uint64_t kEdges[] = {0, 1, INT64_MAX, std::uint64_t{1} << 63, UINT64_MAX, 1'000'000};
    return odds(3) ? random() : kEdges[random() % 6] - random() % 2;
  };
  int predicted = 0;
  for (int round = 0; round < 300; ++round) {
    MadeRun run(4, 2);
    for (std::int32_t r = 0; r < 4; ++r)
      for (std::uint32_t i = 0; i < 10; ++i) {
        const std::int64_t at = (20 * i + r + 10) * kMs;
        run.add(r, barrier(at, (20 * i + 14) * kMs, i, {{"work", 5 * kMs}}));
        MadeEvent sent = sends((r + 1) % 4, at + 5 * kMs, at + 6 * kMs, {{"slow", 1 * kMs}});
        MadeEvent received = receives((r + 3) % 4, at + 7 * kMs, at + 8 * kMs, {});
        sent.sequence = received.sequence = i;
        run.add(r, sent);
        run.add(r, received);
      }
    std::vector<shard::ShardData> shards = shards_of(run, odds(2) ? 8 : 1 << 20);
    for (shard::ShardData& data : shards) {
      const std::uint64_t mutate = 1 + random() % 400;
      for (shard::MpiEvent& row : data.mpi_events) {
        if (!odds(mutate)) continue;
        if (odds(3)) row.enter_ns = any();
        if (odds(3)) row.exit_ns = any();
        if (odds(3)) row.start_ns = any();
        if (odds(3)) row.mpi_ns = any();
        if (odds(4)) row.bytes = any();
        if (odds(4)) row.thread = static_cast<std::uint32_t>(random() % 3);
        if (odds(4)) row.flags = static_cast<std::uint8_t>(random());
        if (row.enter_ns > row.exit_ns) std::swap(row.enter_ns, row.exit_ns);
      }
      std::stable_sort(data.mpi_events.begin(), data.mpi_events.end(), [](const auto& a, const auto& b) {
        return std::tie(a.rank, a.thread, a.exit_ns) < std::tie(b.rank, b.thread, b.exit_ns);
      });
      data.nodes[0].cpus = static_cast<std::uint32_t>(random() % 3);
      for (shard::EventGap& gap : data.event_gaps) {
        if (odds(mutate)) gap.wall_ns = any();
        if (odds(mutate)) gap.cpu_ns = any();
      }
      for (shard::MpiCall& call : data.mpi_calls)
        if (odds(mutate)) call.sent_bytes = any();
      for (shard::Rank& rank : data.ranks) {
        if (!odds(mutate)) continue;
        if (odds(2)) rank.mpi_ns = any();
        if (odds(2)) rank.mpi_runnable_ns = any();
        const auto most_ns = static_cast<std::uint64_t>(shard::kLatest_utc_ns - rank.start_utc_ns);
        if (odds(2)) rank.elapsed_ns = std::min<std::uint64_t>(any(), most_ns);
      }
      if (odds(4)) data.values.push_back({0, 1, shard::Category::kIo, true, any(), 0, 1});
    }
    Asked ask(shards);
    if (!ask.refusal().empty()) continue;
    for (const char* change :
         {"function slow x0", "function slow x1e6", "rank 1 = mean", "balance function work", "latency x0.5",
          "bandwidth x1e-6", "io x0", "call MPI_Barrier train.py:57 removed"}) {
      if (ask({change}) < 0) continue;
      ++predicted;
      EXPECT_TRUE(std::isfinite(ask.last.outcome.elapsed_s) && std::isfinite(ask.last.error_s)) << change;
      EXPECT_GE(ask.last.error_s, 0) << change;
      for (const whatif::TimeRow& row : ask.last.outcome.critical) EXPECT_TRUE(std::isfinite(row.time_s));
    }
  }
  EXPECT_GT(predicted, 100) << "else nothing is tested";
}

TEST(WhatIf, WhatTheRunDoesNotHave) {
  Asked ask(unequal());
  for (const char* text : {"function other x0", "line train.py:58 x0", "region work x0", "rank 2 = mean",
                           "balance function other", "call MPI_Barrier train.py:58 removed",
                           "call MPI_Allreduce train.py:57 removed", "threads 4"})
    EXPECT_LT(ask({text}), 0) << text;
}

TEST(WhatIf, ACallWithoutEventsIsNotRemoved) {
  std::vector<shard::ShardData> shards = shards_of(unequal());
  shard::ShardData& data = shards[0];
  shard::PathInterner interner(data);
  shard::Frame caller;
  caller.name = interner.string("calls MPI_Get");
  caller.file = interner.string("/home/user/train.py");
  caller.line = 60;
  shard::Frame call;
  call.kind = shard::FrameKind::kMpi;
  call.name = interner.string("MPI_Get");
  const std::uint32_t path = interner.path(interner.path(0, interner.frame(caller)), interner.frame(call));
  data.values.push_back({0, path, shard::Category::kMpi, true, 1'000'000, 0, 1});
  Asked ask(shards);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_LT(ask({"call MPI_Get train.py:60 removed"}), 0);
  EXPECT_NE(ask.why.find("no single events"), std::string::npos) << ask.why;
  EXPECT_LT(ask({"call MPI_Barrier train.py:57 removed", "call MPI_Get train.py:60 removed"}), 0);
}

TEST(WhatIf, AReceiveEndsAsLongAfterItsSendAsItDid) {
  MadeRun run(2);
  run.add(0, sends(1, 40 * kMs, 40 * kMs, {{"read", 40 * kMs}}));
  run.add(1, receives(0, 0, 42 * kMs, {}));
  Asked ask(run, 8);
  EXPECT_NEAR(ask({"function read x0.5"}), 22, 1e-3);
  EXPECT_NEAR(ask({"latency x0.5"}), 41, 1e-3);
  EXPECT_LT(ask({"bandwidth x0.5"}), 0) << "a small message does not tell it";
  EXPECT_NE(ask.why.find("bandwidth"), std::string::npos) << ask.why;
}

TEST(WhatIf, CollectiveOperationsTellTheNetworkWhereNoMessageDoes) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) {
    run.add(r, barrier((10 + 20 * r) * kMs, 31 * kMs, 0, {}));
    run.add(r, event(MpiEventKind::kCollective, "MPI_Allreduce", (40 + 20 * r) * kMs, 65 * kMs, -1, 1, {}));
  }
  std::vector<shard::ShardData> shards = shards_of(run);
  Asked small(shards);
  EXPECT_NEAR(small({"latency x0.5"}), 62, 1e-3) << "half of 1 and of 5 ms: the median is 5";
  EXPECT_LT(small({"bandwidth x2"}), 0) << "not a gain of nothing";
  for (shard::MpiCall& call : shards[0].mpi_calls) {
    const shard::Frame& frame = shards[0].frames[shards[0].paths[call.path].frame];
    if (shards[0].strings[frame.name] == "MPI_Allreduce") call.sent_bytes = 1 << 20;
  }
  Asked ask(shards);
  EXPECT_NEAR(ask({}), 65, 1e-3);
  EXPECT_NEAR(ask({"latency x0"}), 63, 1e-3) << "1 of each";
  EXPECT_GT(ask.last.error_s, 0.001) << "told only roughly";
  EXPECT_NEAR(ask({"latency x3"}), 69, 1e-3);
  EXPECT_NEAR(ask({"bandwidth x2"}), 63, 1e-3) << "half of the other 4";
}

// At one call site there may be large and small ones.
TEST(WhatIf, CollectiveOperationsHaveBytesOfTheirOwn) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) {
    run.add(r, event(MpiEventKind::kCollective, "MPI_Allreduce", (10 + 20 * r) * kMs, 35 * kMs, -1, 0, {}));
    run.add(r, event(MpiEventKind::kCollective, "MPI_Allreduce", (40 + 20 * r) * kMs, 61 * kMs, -1, 1, {}));
  }
  std::vector<shard::ShardData> shards = shards_of(run);
  for (shard::MpiEvent& row : shards[0].mpi_events) row.bytes = row.sequence == 0 ? 1 << 20 : 8;
  Asked ask(shards);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({}), 61, 1e-3);
  EXPECT_NEAR(ask({"latency x3"}), 65, 1e-3) << "1 ms of each";
  EXPECT_NEAR(ask({"bandwidth x2"}), 59, 1e-3) << "half of 4 ms of the large one";
}

TEST(WhatIf, NoNetworkWhereNobodyWaited) {
  MadeRun run(2);
  run.add(0, sends(1, 40 * kMs, 40 * kMs, {}));
  run.add(1, receives(0, 50 * kMs, 51 * kMs, {}));
  Asked ask(run, 8);
  EXPECT_LT(ask({"latency x0"}), 0);
  EXPECT_NE(ask.why.find("latency"), std::string::npos) << ask.why;
}

TEST(WhatIf, ARemovedCallIsNotOnTheCriticalPath) {
  Asked ask(unequal());
  ASSERT_GT(ask({"call MPI_Barrier train.py:57 removed"}), 0);
  double critical_s = 0;
  for (const whatif::TimeRow& row : ask.last.outcome.critical) critical_s += row.time_s;
  EXPECT_NEAR(critical_s, 0.030, kNear_s);
}

TEST(WhatIf, AReceiveThatDidNotWaitMayHaveTo) {
  MadeRun run(2);
  run.add(0, sends(1, 40 * kMs, 40 * kMs, {{"read", 40 * kMs}}));
  run.add(1, receives(0, 50 * kMs, 51 * kMs, {{"work", 50 * kMs}}));
  EXPECT_NEAR(Asked(run, 8)({"function work x0"}), 41, 1e-3);
}

TEST(WhatIf, LargeMessagesWaitForTheirReceives) {
  MadeRun run(2);
  run.add(0, sends(1, 0, 31 * kMs, {}));
  run.add(1, receives(0, 30 * kMs, 31 * kMs, {{"work", 30 * kMs}}));
  EXPECT_NEAR(Asked(run, 1 << 20)({"function work x0.5"}), 16, 1e-3);
  // The same times of a message that does not wait: then it is the sender that takes that long.
  MadeRun other(2);
  other.add(0, sends(1, 0, 29 * kMs, {}));
  other.add(1, receives(0, 30 * kMs, 31 * kMs, {{"work", 30 * kMs}}));
  EXPECT_NEAR(Asked(other, 1 << 20)({"function work x0.5"}), 29, 1e-3);
}

// Who finds the other side there waits for nothing, and takes as long as the transfer: the sender of the
// first message, whose receive was posted before, and the receiver of the second one, whose sender waits.
TEST(WhatIf, CallsOfLargeMessagesTakeAsLongAsTheNetwork) {
  MadeRun run(2);
  MadeEvent second = sends(1, 80 * kMs, 120 * kMs, {{"write", 30 * kMs}});
  second.sequence = 1;
  run.add(0, sends(1, 40 * kMs, 50 * kMs, {{"read", 40 * kMs}}));
  run.add(0, second);
  run.ends[0] = 130 * kMs;
  run.add(1, receives(0, 0, 50 * kMs, {}));
  second = receives(0, 110 * kMs, 120 * kMs, {{"work", 60 * kMs}});
  second.sequence = 1;
  run.add(1, second);
  Asked ask(run, 1 << 20);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({}), 130, 0.01);
  EXPECT_NEAR(ask({"bandwidth x2"}), 120, 0.01) << "5 ms of each message";
  EXPECT_NEAR(ask({"bandwidth x0.5"}), 150, 0.01) << "10 ms of each";
  // The sender is last then: 40, 10, 30 and 10 ms, and 10 behind; with half the bandwidth 20 each.
  EXPECT_NEAR(ask({"function work x0"}), 100, 0.01);
  EXPECT_NEAR(ask({"function work x0", "bandwidth x2"}), 90, 0.01);
  EXPECT_NEAR(ask({"function work x0", "bandwidth x0.5"}), 120, 0.01);
}

// Rank 0 completes a send to rank 1 and a receive from rank 2 in one call, then works for 30 ms.
MadeRun both_in_one_call(std::int64_t posted, std::int64_t sent) {
  MadeRun run(3);
  const std::int64_t exit = std::max(posted, sent) + 1 * kMs;
  MadeEvent begins = sends(1, 0, 0, {});
  begins.flags = wire::kEventNonblocking;
  run.add(0, begins);
  run.add(0, event(MpiEventKind::kSendDone, "MPI_Waitall", 1 * kMs, exit, 1, 0, {}));
  run.add(0, event(MpiEventKind::kReceive, "MPI_Waitall", 1 * kMs, exit, 2, 0, {}));
  run.ends[0] = exit + 30 * kMs;
  run.add(1, receives(0, posted, posted + 1 * kMs, {{"late", posted}}));
  run.add(2, sends(0, sent, sent, {{"read", sent}}));
  return run;
}

TEST(WhatIf, ASendIsNotWhatACallWaitedForIfAReceiveWasLater) {
  // The receive of the message is posted at 30 ms, but the call lasts until the other message comes at 40.
  Asked eager(both_in_one_call(30 * kMs, 40 * kMs), 8 << 10);
  ASSERT_EQ(eager.refusal(), "");
  EXPECT_NEAR(eager({"function read x0"}), 32, 0.1) << "the send was over at once";
  // Of the two it is the receive that comes last: then the send waits for it, whatever its size.
  Asked waits(both_in_one_call(40 * kMs, 30 * kMs), 8 << 10);
  ASSERT_EQ(waits.refusal(), "");
  EXPECT_NEAR(waits({"function read x0"}), 71, 0.1);
  EXPECT_NEAR(waits({"function late x0.5"}), 61, 0.1) << "then the other message";
}

TEST(WhatIf, SynchronousSendsDoNotTellFromWhichSizeOthersWait) {
  MadeRun run(4);
  MadeEvent synchronous = sends(3, 0, 31 * kMs, {});
  synchronous.flags = wire::kEventSynchronous;
  run.add(2, synchronous);
  run.add(3, receives(2, 30 * kMs, 31 * kMs, {{"work", 30 * kMs}}));
  run.add(0, sends(1, 40 * kMs, 40 * kMs, {{"read", 40 * kMs}}));
  run.ends[0] = 140 * kMs;
  // Posted at 5 ms, and with the change at 44, after the send.
  MadeEvent received = receives(0, 39 * kMs, 41 * kMs, {{"post", 39 * kMs}});
  received.start = 5 * kMs;
  received.flags = wire::kEventNonblocking;
  run.add(1, received);
  Asked ask(run, 8);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({"function post x2"}), 140, 0.1);
  EXPECT_NEAR(ask({"function work x10"}), 301, 0.1) << "but they wait themselves";
}

TEST(WhatIf, PollingIsElastic) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier(0, 1 * kMs, 0, {}));
  run.add(0, sends(1, 40 * kMs, 40 * kMs, {{"read", 39 * kMs}}));
  MadeEvent polled = receives(0, 40 * kMs, 41 * kMs, {{"work", 9 * kMs}});
  polled.site = "MPI_Test";
  polled.other_calls_ns = 30 * kMs;
  polled.start = 1 * kMs;
  run.add(1, polled);
  Asked ask(run, 8);
  EXPECT_NEAR(ask({"function read x0.5"}), 21.5, 1e-3);
  EXPECT_NEAR(ask({"function read x0"}), 10, 1e-3);
}

// As above, but for 10 of the 30 ms of polling, which were a pause.
TEST(WhatIf, APauseBetweenPollsIsNot) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier(0, 1 * kMs, 0, {}));
  run.add(0, sends(1, 40 * kMs, 40 * kMs, {{"read", 39 * kMs}}));
  MadeEvent polled = receives(0, 40 * kMs, 41 * kMs, {{"work", 9 * kMs}});
  polled.site = "MPI_Test";
  polled.other_calls_ns = 20 * kMs;
  polled.paused_ns = 10 * kMs;
  polled.resumed = 25 * kMs;
  polled.start = 1 * kMs;
  run.add(1, polled);
  Asked ask(run, 8);
  EXPECT_NEAR(ask({"function read x0.5"}), 21.5, 1e-3);
  EXPECT_NEAR(ask({"function read x0"}), 20, 1e-3);
}

// Rank 1 is late by 20 ms for three scans, and needs rank 0; some libraries let rank 0 wait for it all the
// same.
TEST(WhatIf, AScanWaitsForThoseThatItWaitedFor) {
  const auto run_with = [](bool waits) {
    MadeRun run(2);
    for (std::uint32_t i = 0; i < 3; ++i) {
      const std::int64_t begin = 31 * kMs * i, own = waits ? begin : 11 * kMs * i;
      run.add(0, event(MpiEventKind::kCollective, "MPI_Scan", own + 10 * kMs,
                       waits ? begin + 31 * kMs : own + 11 * kMs, -1, i, {{"work", 10 * kMs}}));
      run.add(1, event(MpiEventKind::kCollective, "MPI_Scan", begin + 30 * kMs, begin + 31 * kMs, -1, i,
                       {{"work", 10 * kMs}, {"slow", 20 * kMs}}));
    }
    return run;
  };
  Asked linear(run_with(false));
  ASSERT_EQ(linear.refusal(), "");
  EXPECT_NEAR(linear.whatif().replayed().wait_s, 0, kNear_s);
  EXPECT_NEAR(linear({"function slow x0"}), 33, 0.1);
  Asked all(run_with(true));
  ASSERT_EQ(all.refusal(), "");
  EXPECT_NEAR(all.whatif().replayed().wait_s, 0.060, kNear_s);
  EXPECT_NEAR(all({}), 93, 0.1);
  EXPECT_NEAR(all({"function slow x0"}), 33, 0.1);
  EXPECT_NEAR(all({"function slow x0.5"}), 63, 0.1);
}

// Both begin a reduction at 10 ms. Rank 1 works until 90 ms, then waits. Where the library has a thread for
// that, rank 0 is done at 21 ms; else when rank 1 is in MPI again.
TEST(WhatIf, ANonblockingOperationAdvancesInCalls) {
  const auto run_with = [](bool in_calls) {
    MadeRun run(2);
    for (std::int32_t r = 0; r < 2; ++r) {
      run.add(r, event(MpiEventKind::kCollectiveStart, "MPI_Iallreduce", 10 * kMs, 10 * kMs + 1000, -1, 0,
                       {{"work", 10 * kMs}}));
      MadeEvent done = event(MpiEventKind::kCollectiveDone, "MPI_Iallreduce", (r == 0 ? 20 : 90) * kMs,
                             (r == 0 && !in_calls ? 21 : 91) * kMs, -1, 0,
                             {{r == 0 ? "other" : "solve", (r == 0 ? 10 : 80) * kMs - 1000}});
      done.site = "MPI_Wait";
      done.start = 10 * kMs;
      run.add(r, done);
    }
    return run;
  };
  Asked in_calls(run_with(true));
  ASSERT_EQ(in_calls.refusal(), "");
  EXPECT_NEAR(in_calls({}), 91, 0.1);
  EXPECT_NEAR(in_calls.whatif().replayed().wait_s, 0.070, 1e-5);
  EXPECT_NEAR(in_calls({"function solve x0.5"}), 51, 0.1);
  EXPECT_NEAR(in_calls({"function solve x0"}), 21, 0.1) << "then rank 0 is the last";
  Asked by_thread(run_with(false));
  ASSERT_EQ(by_thread.refusal(), "");
  EXPECT_NEAR(by_thread.whatif().replayed().wait_s, 0, 1e-5);
  EXPECT_NEAR(by_thread({"function solve x0.5"}), 51, 0.1);
}

// In each of four rounds rank 2 begins a reduction last and works on. Rank 0 leaves when it has begun, rank 1
// when rank 2 is in MPI again, as in an algorithm of two steps. Neither is ever as late as rank 2.
TEST(WhatIf, SomeMembersOfANonblockingOperationWaitFurther) {
  MadeRun run(3);
  std::int64_t now = 0;
  constexpr std::int64_t kLate = 30 * kMs, kWork = 60 * kMs;
  std::vector<std::int64_t> free(3, 0);
  for (std::uint32_t round = 0; round < 4; ++round, now += kLate + kWork) {
    const std::int64_t begun = now + kLate, back = begun + kWork;
    for (std::int32_t r = 0; r < 3; ++r) {
      const std::int64_t start = r == 2 ? begun : free[static_cast<std::size_t>(r)] + 5 * kMs;
      run.add(r, event(MpiEventKind::kCollectiveStart, "MPI_Iallreduce", start, start + 1000, -1, round,
                       {{"work", start - free[static_cast<std::size_t>(r)]}}));
      const std::int64_t enter = r == 2 ? back : start + 2000,
                         exit = r == 0 ? std::max(begun, enter) + 1000 : back + 1000;
      MadeEvent done = event(MpiEventKind::kCollectiveDone, "MPI_Iallreduce", enter, exit, -1, round,
                             {{r == 2 ? "solve" : "other", enter - start - 1000}});
      done.site = "MPI_Wait";
      done.start = start;
      run.add(r, done);
      free[static_cast<std::size_t>(r)] = exit;
    }
  }
  Asked ask(run);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({}), 360, 0.1);
  EXPECT_NEAR(ask({"function solve x0.5"}), 240, 0.1) << "rank 2 alone is what the others wait for";
}

// The loop around polls that find nothing is waiting, too; what else is done in between is work.
TEST(WhatIf, TheLoopThatPollsIsElastic) {
  const auto run_with = [](std::int64_t calls_ns, const char* loop) {
    MadeRun run(2);
    for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier(0, 1 * kMs, 0, {}));
    run.add(0, sends(1, 61 * kMs, 61 * kMs, {{"read", 60 * kMs}}));
    MadeEvent polled = receives(0, 61 * kMs, 62 * kMs, {{"work", 20 * kMs}, {loop, 40 * kMs - calls_ns}});
    polled.site = "MPI_Test";
    polled.other_calls_ns = calls_ns;
    polled.start = 1 * kMs;
    run.add(1, polled);
    return run;
  };
  // The frame that makes the polls has half of the time of polling.
  Asked ask(run_with(20 * kMs, "calls MPI_Test"), 8);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({}), 62, 1e-3);
  EXPECT_NEAR(ask({"function read x0.5"}), 32, 0.1);
  EXPECT_NEAR(ask({"function read x0"}), 21, 0.1) << "20 ms of work, whatever the loop took";
  EXPECT_NEAR(Asked(run_with(20 * kMs, "other"), 8)({"function read x0"}), 41, 0.1)
      << "a function of its own";
  EXPECT_NEAR(Asked(run_with(0, "calls MPI_Test"), 8)({"function read x0"}), 62, 0.1)
      << "no poll was in vain";
}

// A helper thread of rank 0 sends at 60 ms what rank 1 waits for, while the main thread works from `from` to
// 80 ms.
MadeRun with_helper(std::int64_t from) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier(40 * kMs, from, 0, {{"load", 40 * kMs}}));
  MadeEvent helps = sends(1, 60 * kMs, 60 * kMs, {});
  helps.thread = 1;
  run.add(0, helps);
  run.add(0, barrier(80 * kMs, 81 * kMs, 1, {{"work", 80 * kMs - from}}));
  const std::int64_t received = std::max(61 * kMs, from + 1 * kMs);
  run.add(1, receives(0, from, received, {}));
  run.add(1, barrier(received, 81 * kMs, 1, {}));
  return run;
}

TEST(WhatIf, AHelperThreadBeginsWhenItsMainThreadIsAsFar) {
  Asked ask(with_helper(40 * kMs));
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({}), 81, 0.1);
  EXPECT_NEAR(ask({"function load x0"}), 41, 0.1);
  EXPECT_NEAR(ask({"function work x0.5"}), 61, 0.1) << "it begins in the middle of the work, at 50";
  EXPECT_NEAR(ask({"function work x0"}), 42, 0.1) << "it sends at 40, and that takes 1; then the barrier";
  // It begins while the main thread is in a call: so long after that call's begin.
  Asked inside(with_helper(70 * kMs));
  ASSERT_EQ(inside.refusal(), "");
  EXPECT_NEAR(inside({"function load x0"}), 41, 0.1);
}

TEST(WhatIf, AHelperThreadMayBeginAfterTheLastCall) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier(40 * kMs, 41 * kMs, 0, {{"load", 40 * kMs}}));
  MadeEvent helps = sends(1, 60 * kMs, 60 * kMs, {});
  helps.thread = 1;
  run.add(0, helps);
  run.ends[0] = 81 * kMs;
  run.add(1, receives(0, 41 * kMs, 61 * kMs, {}));
  Asked ask(run);
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_NEAR(ask({"function load x0.5"}), 61, 0.1);
  EXPECT_NEAR(ask({}), 81, 0.1);
}

// What rank 1 waits for is sent by a helper thread of rank 0, which began when the main thread was behind its
// last call.
TEST(WhatIf, TheCriticalPathGoesOnInTheMainThread) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier(40 * kMs, 41 * kMs, 0, {{"load", 40 * kMs}}));
  MadeEvent helps = sends(1, 60 * kMs, 60 * kMs, {});
  helps.thread = 1;
  run.add(0, helps);
  run.ends[0] = 60 * kMs;
  run.add(1, receives(0, 41 * kMs, 61 * kMs, {}));
  run.ends[1] = 81 * kMs;
  Asked ask(run);
  ASSERT_EQ(ask.refusal(), "");
  const whatif::Outcome& replayed = ask.whatif().replayed();
  EXPECT_NEAR(replayed.calls_on_path, 2, kNear_s);
  double path_s = 0;
  for (const whatif::TimeRow& row : replayed.critical) path_s += row.time_s;
  EXPECT_NEAR(path_s, 0.081, 1e-4);
}

TEST(WhatIf, GapsOfFewSamplesAreDividedLikeTheirCallSite) {
  MadeRun run(2);
  // Each gap is 2 ms, and one sample of 1 ms saw it: of `a` in three, of `b` in one.
  for (std::int32_t r = 0; r < 2; ++r) {
    run.add(r, barrier(0, 1 * kMs, 0, {}));
    for (std::uint32_t i = 0; i < 4; ++i)
      run.add(r, barrier((3 + 3 * i) * kMs, (4 + 3 * i) * kMs, i + 1,
                         {{(i == 0) == (r == 0) ? "b" : "a", 1 * kMs}}));
  }
  // Rank 0 has b in the first gap alone, rank 1 in the other three: by single samples one of them would keep
  // its 2 ms in each gap.
  EXPECT_NEAR(Asked(run)({"function a x0"}), 1 + 4 * (2 * 0.75 + 1), 1e-2);
}

TEST(WhatIf, ALongGapSaysNothingAboutShortOnesOfItsCallSite) {
  MadeRun run(2);
  for (std::int32_t r = 0; r < 2; ++r) {
    run.add(r, barrier(0, 1 * kMs, 0, {}));
    run.add(r, barrier(101 * kMs, 102 * kMs, 1, {{"load", 100 * kMs}}));
    for (std::uint32_t i = 0; i < 20; ++i)
      run.add(r, barrier((104 + 3 * i) * kMs, (105 + 3 * i) * kMs, i + 2, {{"step", 1 * kMs}}));
  }
  Asked ask(run);
  EXPECT_NEAR(ask({"function load x0"}), 62, 1e-2);
  EXPECT_NEAR(ask({"function step x0"}), 122, 1e-2);
}

TEST(WhatIf, ShortGapsLeaveNoCallPathOut) {
  MadeRun run(2);
  // Of each gap of 4.5 ms one sample tells.
  for (std::int32_t r = 0; r < 2; ++r) {
    run.add(r, barrier(0, 0, 0, {}));
    for (std::uint32_t i = 0; i < 3; ++i)
      run.add(r, barrier((9 + 9 * i) * kMs / 2, (9 + 9 * i) * kMs / 2, i + 1, {{"step", 1 * kMs}}));
  }
  Asked ask(run);
  EXPECT_NEAR(ask({"function step x0"}), 0, 1e-2) << "what the samples missed is step's, too";
}

TEST(WhatIf, ASampleOfEventsIsNotReplayed) {
  MadeRun run = unequal();
  run.level = 1;
  for (std::uint32_t i = 1; i < 2000; ++i)
    for (std::int32_t r = 0; r < 2; ++r) run.add(r, barrier((31 + i) * kMs, (31 + i) * kMs + 1000, i, {}));
  EXPECT_NE(Asked(run).refusal().find("sample"), std::string::npos);
  MadeRun missing = unequal();
  missing.world_size = 3;
  EXPECT_NE(Asked(missing).refusal(), "");
}

TEST(WhatIf, WithoutMpiFromSums) {
  OneRankRun run(20'000);
  const auto path = [&](std::uint32_t parent, const char* name, const char* file, std::uint32_t line) {
    return run.path(parent, shard::FrameKind::kPython, name, file, line);
  };
  const std::uint32_t step = path(0, "Model.step", "/home/user/train.py", 36);
  const std::uint32_t inner = path(step, "inner", "/home/user/lib.py", 7);
  const std::uint32_t other = path(0, "other", "/home/user/train.py", 40);
  run.time(step, 4000, shard::Category::kPython);
  run.time(inner, 4000, shard::Category::kPython);
  run.time(inner, 4000, shard::Category::kIo);
  run.time(other, 8000, shard::Category::kPython);
  Asked ask({run.data});
  ASSERT_EQ(ask.refusal(), "");
  EXPECT_TRUE(ask.whatif().is_from_sums());
  EXPECT_NEAR(ask({"line train.py:36 x0.5"}), 14'000, 1e-3) << "with what it calls";
  // 12 s of samples at 100 Hz, half of which is saved, and how much runs differ.
  EXPECT_GT(ask.last.error_s, 0.14);
  EXPECT_LT(ask.last.error_s, 1.5);
  EXPECT_NEAR(ask({"function step x0"}), 8'000, 1e-3);
  EXPECT_NEAR(ask({"line lib.py:7 x0"}), 12'000, 1e-3);
  EXPECT_NEAR(ask({"io x0"}), 16'000, 1e-3);
  EXPECT_LT(ask({"latency x0"}), 0);
}

TEST(WhatIfChange, IsParsed) {
  const auto good = [](const char* text) { return parse_change(text).value(); };
  EXPECT_EQ(good("line my code/train.py:36 x0.5").file, "my code/train.py");
  EXPECT_EQ(good("line train.py:36 x0.5").line, 36u);
  EXPECT_EQ(good("line train.py:36 x0.5").factor, 0.5);
  EXPECT_EQ(good("function Grid<int, 3>::step x0").name, "Grid<int, 3>::step");
  EXPECT_EQ(good("function clean() x0").name, "clean");
  EXPECT_EQ(good("region load x1.5").kind, ChangeKind::kRegion);
  EXPECT_EQ(good("rank 3 = mean").rank, 3);
  EXPECT_EQ(good("balance function solve").name, "solve");
  EXPECT_EQ(good("call MPI_Barrier train.py:57 removed").name, "MPI_Barrier");
  EXPECT_EQ(good("bandwidth x0.5").kind, ChangeKind::kBandwidth);
  EXPECT_EQ(good("threads 4").factor, 4);
  for (const char* wrong : {"",
                            "line",
                            "line train.py x0.5",
                            "line train.py:0 x0.5",
                            "line train.py:3",
                            "line :3 x1",
                            "function x2",
                            "function f 0.5",
                            "function f x-1",
                            "function f xnan",
                            "function f x1e9",
                            "rank -1 = mean",
                            "rank 1 mean",
                            "rank 1 = 2",
                            "balance solve",
                            "call MPI_Barrier train.py:57",
                            "latency",
                            "latency 2",
                            "bandwidth x0",
                            "io x",
                            "threads 0",
                            "threads x2",
                            "faster x2"})
    EXPECT_FALSE(parse_change(wrong)) << wrong;
}

}  // namespace
}  // namespace clusterprof::aggregator::test
