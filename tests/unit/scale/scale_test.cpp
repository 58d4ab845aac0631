// SPDX-License-Identifier: BSD-3-Clause
#include "report/scale/scale.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "../report/profile_builder.hpp"
#include "formats/synth/growing_run.hpp"
#include "report/scale/scale_format.hpp"

namespace clusterprof::report {
namespace {

using Json = nlohmann::json;
using shard::Category;
using testing::ProfileBuilder;

const SizeOf kByRanks{ScaleBy::kRanks, ""};

ScaledRun kept(const shard::ShardData& data, const SizeOf& of = kByRanks) {
  const Analysis analysis = analyse(data);
  return scaled_run(analysis, data.run.id, of, size_of(analysis, of).value_or(1));
}

std::vector<ScaledRun> growing_runs(std::uint32_t largest, std::uint64_t repeats, bool weak = false) {
  std::vector<ScaledRun> runs;
  for (std::uint32_t ranks = 1; ranks <= largest; ranks *= 2)
    for (std::uint64_t seed = 1; seed <= repeats; ++seed) {
      synth::GrowingShape shape;
      shape.ranks = ranks, shape.seed = seed, shape.weak = weak;
      runs.push_back(kept(synth::growing_run(shape)));
    }
  return runs;
}

const GrowthRow& row_of(const std::vector<GrowthRow>& rows, const std::string& name) {
  for (const GrowthRow& row : rows)
    if (row.subject.name == name || row.subject.function == name) return row;
  ADD_FAILURE() << "there is no " << name;
  static const GrowthRow kNone;
  return kNone;
}

// Of `ranks` ranks that spend so long in step(), and so long in MPI_Barrier: the first one longer in step(),
// and the others as much longer in MPI_Barrier.
shard::ShardData run_of(std::uint32_t ranks, std::uint64_t step_ms, std::uint64_t more_ms,
                        std::uint64_t barrier_ms, std::uint32_t nodes = 1) {
  ProfileBuilder b(ranks, nodes);
  b.data.run.id = "run-" + std::to_string(ranks);
  const auto main = b.python("<module>", "/home/a/train.py", 90, 1);
  const auto step = b.path({main, b.python("step", "/home/a/train.py", 13, 10)});
  const auto barrier = b.path({main, b.mpi("MPI_Barrier")});
  for (std::uint32_t r = 0; r < ranks; ++r) {
    b.sampled(r, step, Category::kPython, step_ms + (r == 0 ? more_ms : 0));
    b.called(r, barrier, 10, barrier_ms + (r == 0 ? 0 : more_ms));
  }
  b.lasts(step_ms + more_ms + barrier_ms);
  return std::move(b.data);
}

std::vector<ScaledRun> kept(const std::vector<shard::ShardData>& runs, const SizeOf& of = kByRanks) {
  std::vector<ScaledRun> all;
  for (const shard::ShardData& run : runs) all.push_back(kept(run, of));
  return all;
}

// --- laws of a program that is known -----------------------------------------------------------

TEST(Scale, FindsTheLawsOfEveryFunctionAndLine) {
  const ScaleReport report = scale(growing_runs(64, 3), kByRanks, {});
  EXPECT_EQ(report.mode, ScaleMode::kStrong);
  EXPECT_EQ(report.refused, Refusal::kNone);
  EXPECT_EQ(report.sizes.size(), 7u);
  EXPECT_EQ(report.sizes[2].runs, 3u);
  for (const auto* rows : {&report.functions, &report.lines})
    for (const synth::GrowingPart& part : synth::kGrowing) {
      const GrowthRow& row = row_of(*rows, part.name);
      ASSERT_TRUE(row.law) << part.name;
      EXPECT_NEAR(row.law->exponent, part.exponent, 0.25 + 1e-9) << part.name;
      EXPECT_NEAR(row.law->at(64), part.rank_s(64), 0.15 * part.rank_s(64)) << part.name;
      EXPECT_NEAR(*row.times.back().value, part.rank_s(64), 0.2 * part.rank_s(64)) << "a rank's, not the sum";
    }
  EXPECT_EQ(row_of(report.functions, "setup").law->term, Term::kConstant);
  ASSERT_EQ(report.calls.size(), 1u);
  EXPECT_EQ(report.calls[0].subject.name, "MPI_Allreduce");
  EXPECT_EQ(report.calls[0].law->exponent, 0);
  EXPECT_EQ(report.calls[0].law->term, Term::kLog);
}

TEST(Scale, WhatGrowsFastestLosesMost) {
  const ScaleReport report = scale(growing_runs(64, 3), kByRanks, {});
  std::vector<std::string> names;
  for (const GrowthRow& row : report.functions)
    if (row.subject.name != "<module>") names.push_back(row.subject.name);
  ASSERT_GE(names.size(), 3u);
  EXPECT_EQ(names[0], "compare");  // 5.3 s at 64 ranks, and next to nothing would be ideal
  EXPECT_EQ(names[1], "sort");
  EXPECT_EQ(names[2], "gather");
  const GrowthRow& compare = row_of(report.functions, "compare");
  EXPECT_NEAR(compare.loss_s, 5.32 - 0.21 / 64, 1);
  const GrowthRow& solve = row_of(report.functions, "solve");
  EXPECT_NEAR(solve.loss_s, 0, 0.2 * 62.5) << "it shrinks as it should";
}

// compare() takes 6 % of the run at 64 ranks and 54 % at 512.
TEST(Scale, SaysWhereAFunctionPassesATenth) {
  const ScaleReport report = scale(growing_runs(64, 3), kByRanks, {});
  const auto elapsed_s = [](double p) {
    double sum = 0;
    for (const synth::GrowingPart& part : synth::kGrowing) sum += part.rank_s(p);
    return sum;
  };
  const GrowthRow& compare = row_of(report.functions, "compare");
  ASSERT_TRUE(compare.tenth_at);
  EXPECT_FALSE(compare.tenth_is_measured);
  double truly = 64;
  while (synth::kGrowing[6].rank_s(truly) / elapsed_s(truly) < 0.1) ++truly;
  EXPECT_GT(*compare.tenth_at, 64);
  EXPECT_NEAR(std::log2(*compare.tenth_at / truly), 0, 0.5);
  EXPECT_FALSE(row_of(report.functions, "setup").tenth_at.has_value() &&
               *row_of(report.functions, "setup").tenth_at < 512);
  const SizedValue& last = compare.shares.back();
  EXPECT_EQ(last.size, 512);
  EXPECT_NEAR(*last.value, synth::kGrowing[6].rank_s(512) / elapsed_s(512), 0.2);
}

TEST(Scale, PredictsElapsedTime) {
  const ScaleReport report = scale(growing_runs(32, 5), kByRanks, {64, 128});
  ASSERT_EQ(report.predictions.size(), 2u);
  for (const PredictedRow& row : report.predictions) {
    double truly = 0;
    for (const synth::GrowingPart& part : synth::kGrowing) truly += part.rank_s(row.size);
    EXPECT_GE(row.elapsed_s.value, row.elapsed_s.low);
    EXPECT_LE(row.elapsed_s.value, row.elapsed_s.high);
    EXPECT_LT(row.elapsed_s.low, truly);
    ASSERT_TRUE(row.speedup && row.efficiency);
    EXPECT_NEAR(*row.speedup, report.sizes[0].elapsed_s->mean / row.elapsed_s.value, 1e-9);
    EXPECT_NEAR(*row.efficiency, *row.speedup / row.size, 1e-9);
  }
  EXPECT_GT(report.predictions[0].elapsed_s.high, 62.5);
}

// The sleep by itself takes 16.45, 8.9, 5.8 and 5.6 s, which no law tells. Besides there are call paths that
// are too short for a law of their own, and at the smallest size also for a row.
TEST(Scale, PredictsByCallPathsWhereManyCallAFunction) {
  const auto run = [](std::uint32_t ranks) {
    ProfileBuilder b(ranks);
    b.data.run.id = "run-" + std::to_string(ranks);
    const auto main = b.python("<module>", "/home/a/train.py", 90, 1);
    const auto shrinking = b.python("shrinking", "/home/a/train.py", 13, 10);
    const auto growing = b.python("growing", "/home/a/train.py", 23, 20);
    const auto sleep = b.python("sleep", "/usr/lib/python3.11/nap.py", 3, 1);
    const std::uint64_t shrinking_ms = 16000 / ranks, growing_ms = 500 * ranks;
    constexpr std::uint64_t kShort = 30;  // 0.22 % each at 8 ranks, less than 0.2 % before
    for (std::uint32_t r = 0; r < ranks; ++r) {
      b.sampled(r, b.path({main, shrinking, sleep}), Category::kPython, shrinking_ms);
      b.sampled(r, b.path({main, growing, sleep}), Category::kPython, growing_ms * 9 / 10);
      for (std::uint64_t i = 0; i < kShort; ++i)
        b.sampled(r, b.path({main, growing, b.python("f" + std::to_string(i), "/home/a/train.py", 30, 30)}),
                  Category::kPython, growing_ms / 10 / kShort);
    }
    b.lasts(shrinking_ms + growing_ms);
    return std::move(b.data);
  };
  const ScaleReport report = scale(kept({run(1), run(2), run(4), run(8)}), kByRanks, {16});
  ASSERT_EQ(report.predictions.size(), 1u);
  EXPECT_NEAR(report.predictions[0].elapsed_s.value, 1 + 8, 0.3);
}

// Four ranks on the first node, eight on each of the others.
TEST(Scale, PredictedEfficiencyIsThatOfProcessors) {
  const SizeOf nodes = *parse_size_of("nodes");
  const std::vector<ScaledRun> runs = kept({run_of(4, 16000, 0, 0, 1), run_of(16, 4000, 0, 0, 2),
                                            run_of(32, 2000, 0, 0, 4), run_of(64, 1000, 0, 0, 8)},
                                           nodes);
  const ScaleReport report = scale(runs, nodes, {16});
  ASSERT_EQ(report.predictions.size(), 1u);
  const PredictedRow& row = report.predictions[0];
  ASSERT_TRUE(row.speedup && row.efficiency);
  EXPECT_EQ(report.mode, ScaleMode::kStrong);
  EXPECT_NEAR(*report.sizes[3].speedup, 16, 1e-6);
  EXPECT_NEAR(*row.speedup, 16 / row.elapsed_s.value, 1e-9);
  EXPECT_NEAR(*row.efficiency, *row.speedup / 32, 1e-9) << "128 ranks rather than 4";
}

TEST(Scale, WeakScalingIsFoundByItself) {
  const ScaleReport report = scale(growing_runs(16, 2, true), kByRanks, {});
  EXPECT_EQ(report.mode, ScaleMode::kWeak);
  ASSERT_TRUE(report.work_exponent);
  EXPECT_NEAR(*report.work_exponent, 1, 0.15);
  EXPECT_EQ(row_of(report.functions, "solve").law->term, Term::kConstant);
  EXPECT_NEAR(row_of(report.functions, "solve").loss_s, 0, 12);
  EXPECT_GT(*report.sizes.back().speedup, 10) << "sixteen times the work in little more time";
}

// --- efficiencies --------------------------------------------------------------------------------

TEST(Scale, TheTableIsThatOfPop) {
  // Strong: 8 s of work on one rank, 5 s on each of two, of which one has 1 s more.
  const ScaleReport report = scale(kept({run_of(1, 8000, 0, 0), run_of(2, 4500, 1000, 500)}), kByRanks, {});
  ASSERT_EQ(report.sizes.size(), 2u);
  EXPECT_EQ(report.mode, ScaleMode::kStrong);
  EXPECT_EQ(report.refused, Refusal::kFewSizes);
  EXPECT_TRUE(report.predictions.empty());
  const ScaleRow& one = report.sizes[0];
  EXPECT_NEAR(*one.computation, 1, 1e-9);
  EXPECT_NEAR(*one.speedup, 1, 1e-9);
  const ScaleRow& two = report.sizes[1];
  EXPECT_NEAR(*two.load_balance, 5.0 / 5.5, 1e-6);
  EXPECT_NEAR(*two.communication, 5.5 / 6, 1e-6);
  EXPECT_NEAR(*two.parallel, 5.0 / 6, 1e-6);
  EXPECT_NEAR(*two.computation, 8.0 / 10, 1e-6);
  EXPECT_NEAR(*two.global, 8.0 / 12, 1e-6) << "of 12 s of two ranks, the work takes 8 s on one";
  EXPECT_NEAR(*two.speedup, 8.0 / 6, 1e-6);
  EXPECT_NEAR(*two.lost_to_communication + *two.lost_to_imbalance + *two.lost_to_computation + *two.global, 1,
              1e-6);
  EXPECT_NEAR(*two.lost_to_communication, 0.5 / 6, 1e-6);
  const GrowthRow& step = row_of(report.functions, "step");
  EXPECT_FALSE(step.law);
  EXPECT_EQ(step.refused, Refusal::kFewSizes);
  EXPECT_NEAR(step.loss_s, 5 - 4, 1e-6);
}

TEST(Scale, WeakScalingComparesRanks) {
  const ScaleReport report =
      scale(kept({run_of(1, 4000, 0, 0), run_of(2, 4000, 0, 1000), run_of(4, 5000, 0, 1000)}), kByRanks, {});
  EXPECT_EQ(report.mode, ScaleMode::kWeak);
  const ScaleRow& four = report.sizes[2];
  EXPECT_NEAR(*four.computation, 0.8, 1e-6);
  EXPECT_NEAR(*four.parallel, 5.0 / 6, 1e-6);
  EXPECT_NEAR(*four.global, 4.0 / 6, 1e-6);
  EXPECT_NEAR(*four.speedup, 4 * 4.0 / 6, 1e-6);
  EXPECT_NEAR(row_of(report.functions, "step").loss_s, 1, 1e-6);
}

TEST(Scale, CountersDivideComputation) {
  std::vector<shard::ShardData> runs = {run_of(1, 8000, 0, 0), run_of(2, 5000, 0, 0)};
  const std::uint64_t instructions[] = {16'000'000'000, 10'000'000'000},
                      cycles[] = {8'000'000'000, 8'000'000'000};
  for (std::size_t i = 0; i < 2; ++i) {
    shard::ShardData& data = runs[i];
    data.counters = {"PAPI_TOT_INS", "PAPI_TOT_CYC"};
    for (std::uint32_t r = 0; r < data.ranks.size(); ++r) {
      const std::uint32_t path = data.values[r].path;
      data.path_counters.push_back({r, path, 0, instructions[i]});
      data.path_counters.push_back({r, path, 1, cycles[i]});
    }
  }
  const ScaleReport report = scale(kept(runs), kByRanks, {});
  EXPECT_TRUE(report.work_is_instructions);
  const ScaleRow& two = report.sizes[1];
  ASSERT_TRUE(two.instructions && two.ipc && two.frequency);
  EXPECT_NEAR(*two.instructions, 16.0 / 20, 1e-6);
  EXPECT_NEAR(*two.ipc, (10.0 / 8) / 2, 1e-6);
  EXPECT_NEAR(*two.frequency, (8 / 5.0) / 1, 1e-6);
  EXPECT_NEAR(*two.instructions * *two.ipc * *two.frequency, *two.computation, 1e-6);
}

// What ranks count while they wait in MPI is no work.
TEST(Scale, CountersOfRegionsAreThoseOutsideMpi) {
  std::vector<ScaledRun> runs;
  for (const std::uint32_t ranks : {1u, 2u}) {
    ProfileBuilder b(ranks);
    const auto region = b.region("solve");
    const auto step = b.path({region, b.python("step", "/home/a/train.py", 13, 10)});
    const auto barrier = b.path({region, b.mpi("MPI_Barrier")});
    b.data.counters = {"PAPI_TOT_INS", "PAPI_TOT_CYC"};
    for (std::uint32_t r = 0; r < ranks; ++r) {
      b.sampled(r, step, Category::kPython, ranks == 1 ? 8000 : 5000);
      b.called(r, barrier, 10, 1000);
      b.data.path_counters.push_back({r, step, 0, ranks == 1 ? 16'000'000'000u : 10'000'000'000u});
      b.data.path_counters.push_back({r, step, 1, 8'000'000'000});
      b.data.path_counters.push_back({r, barrier, 0, 90'000'000'000});
      b.data.path_counters.push_back({r, barrier, 1, 30'000'000'000});
    }
    b.lasts(ranks == 1 ? 9000 : 6000);
    runs.push_back(kept(b.data));
  }
  const ScaleReport report = scale(std::move(runs), kByRanks, {});
  ASSERT_EQ(report.regions.size(), 1u);
  const ScaleRow& two = report.regions[0].rows[1];
  ASSERT_TRUE(two.instructions && two.ipc && two.frequency && two.computation);
  EXPECT_NEAR(*two.instructions, 16.0 / 20, 1e-6);
  EXPECT_NEAR(*two.ipc, (10.0 / 8) / 2, 1e-6);
  EXPECT_NEAR(*two.instructions * *two.ipc * *two.frequency, *two.computation, 1e-6);
}

TEST(Scale, RepeatedRunsAreOneSize) {
  const ScaleReport report =
      scale(kept({run_of(2, 4100, 0, 0), run_of(1, 8000, 0, 0), run_of(2, 4300, 0, 0)}), kByRanks, {});
  ASSERT_EQ(report.runs.size(), 3u);
  EXPECT_EQ(report.runs[0].size, 1) << "by size";
  ASSERT_EQ(report.sizes.size(), 2u);
  EXPECT_EQ(report.sizes[1].runs, 2u);
  EXPECT_NEAR(report.sizes[1].elapsed_s->mean, 4.2, 1e-9);
  EXPECT_TRUE(report.sizes[1].elapsed_s->half_width);
  ASSERT_EQ(report.run_rows.size(), 3u);
  EXPECT_NEAR(report.run_rows[2].elapsed_s->mean, 4.3, 1e-9);
}

TEST(Scale, SizesOtherThanRanks) {
  EXPECT_FALSE(parse_size_of("cores"));
  EXPECT_FALSE(parse_size_of("size="));
  const SizeOf nodes = *parse_size_of("nodes");
  const ScaleReport by_nodes =
      scale(kept({run_of(4, 4000, 0, 0, 1), run_of(8, 2000, 0, 100, 2)}, nodes), nodes, {});
  EXPECT_EQ(by_nodes.sizes[1].size, 2);
  EXPECT_NEAR(*by_nodes.sizes[1].computation, 1, 1e-6) << "of all ranks, not of nodes";

  const SizeOf steps = *parse_size_of("size=steps");
  EXPECT_EQ(noun_of(steps), "steps");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"./a", "--steps", "40"},
                                                {"./a", "-q", "--steps=40"},
                                                {"./a", "steps=40"},
                                                {"./a", "-steps", "40", "--other", "3"}}) {
    shard::ShardData data = run_of(1, 1000, 0, 0);
    data.run.command = words;
    EXPECT_EQ(size_of(analyse(data), steps), 40) << words.back();
  }
  for (const std::vector<std::string>& words : {std::vector<std::string>{"./a", "--stepsize", "40"},
                                                {"./a", "--steps", "many"},
                                                {"./a", "--steps", "inf"},
                                                {"./a", "--steps=nan"},
                                                {"./a", "--steps", "1e13"},
                                                {"./a", "--steps=0"},
                                                {"./a", "steps", "40"}}) {
    shard::ShardData data = run_of(1, 1000, 0, 0);
    data.run.command = words;
    EXPECT_FALSE(size_of(analyse(data), steps)) << words[1];
  }
  shard::ShardData small = run_of(2, 1000, 0, 0), large = run_of(2, 3000, 0, 0);
  small.run.command = {"./a", "--steps=10"}, large.run.command = {"./a", "--steps=30"};
  const ScaleReport by_steps = scale(kept({large, small}, steps), steps, {});
  EXPECT_FALSE(by_steps.mode);
  EXPECT_EQ(by_steps.sizes[0].size, 10);
  EXPECT_FALSE(by_steps.sizes[1].speedup);
  EXPECT_NEAR(row_of(by_steps.functions, "step").loss_s, 2, 1e-6);
}

// Between neighbours among numbers there is none to be tried.
TEST(Scale, SizesWithoutNumbersBetweenThem) {
  for (std::uint64_t first_ms = 1000; first_ms < 1060; first_ms += 10) {
    std::vector<ScaledRun> runs;
    for (int i = 0; i < 4;
         ++i) {  // step() takes twice as long each time: 1 % of the run, 8 % of the last one
      const std::uint64_t step_ms = first_ms << i;
      ProfileBuilder b(1);
      const auto step = b.path({b.python("step", "/home/a/train.py", 13, 10)});
      const auto rest = b.path({b.python("rest", "/home/a/train.py", 23, 20)});
      b.sampled(0, step, Category::kPython, step_ms);
      b.sampled(0, rest, Category::kPython, 100'000);
      b.lasts(100'000 + step_ms);
      runs.push_back(kept(b.data));
      runs.back().size = std::ldexp(1.0, 60 + i);
    }
    const ScaleReport report = scale(std::move(runs), *parse_size_of("size=n"), {});
    const GrowthRow& step = row_of(report.functions, "step");
    ASSERT_TRUE(step.tenth_at);
    EXPECT_FALSE(step.tenth_is_measured);
    EXPECT_GT(*step.tenth_at, std::ldexp(1.0, 63));
    EXPECT_LT(*step.tenth_at, std::ldexp(1.0, 64));
  }
}

TEST(Scale, ThreadsAreProcessors) {
  const SizeOf threads = *parse_size_of("threads");
  std::vector<shard::ShardData> runs = {run_of(1, 8000, 0, 0), run_of(1, 2500, 0, 0)};
  for (std::int32_t t = 0; t < 3; ++t) {
    shard::Thread thread;
    thread.rank = 0, thread.pid = 1000, thread.tid = 1001 + t;
    thread.kind = shard::ThreadKind::kOpenMp;
    thread.start_utc_ns = runs[1].run.start_utc_ns;
    runs[1].threads.push_back(thread);
  }
  const ScaleReport report = scale(kept(runs, threads), threads, {});
  EXPECT_EQ(report.sizes[1].size, 4);
  EXPECT_EQ(report.mode, ScaleMode::kStrong);
  EXPECT_NEAR(*report.sizes[1].computation, 8 / 10.0, 1e-6);
  EXPECT_NEAR(*report.sizes[1].speedup, 3.2, 1e-6);
}

// The threads of a rank share the work of kernel(); setup() is the main thread's alone.
shard::ShardData threaded_run(std::uint32_t ranks, std::int32_t threads, std::uint64_t setup_ms,
                              std::uint64_t kernel_ms) {
  ProfileBuilder b(ranks);
  const auto main = b.python("<module>", "/home/a/train.py", 90, 1);
  const auto setup = b.path({main, b.python("setup", "/home/a/train.py", 13, 10)});
  const auto kernel = b.path({main, b.native("kernel", "/u/a.out", "/u/a.c", 23)});
  const auto of_thread = b.path(
      {b.native("gomp_thread_start", "/usr/lib/libgomp.so.1"), b.native("kernel", "/u/a.out", "/u/a.c", 23)});
  const auto logger = b.path({b.python("log", "/home/a/log.py", 5, 3)});
  for (std::uint32_t r = 0; r < ranks; ++r) {
    b.sampled(r, setup, Category::kPython, setup_ms);
    b.sampled(r, kernel, Category::kNative, kernel_ms);
    b.sampled(r, logger, Category::kPython, 500, false);
    for (std::int32_t t = 1; t < threads; ++t) {
      b.sampled(r, of_thread, Category::kNative, kernel_ms, false);
      shard::Thread thread;
      thread.rank = r, thread.pid = b.data.ranks[r].pid, thread.tid = thread.pid + t;
      thread.kind = shard::ThreadKind::kOpenMp;
      thread.start_utc_ns = b.data.run.start_utc_ns;
      b.data.threads.push_back(thread);
    }
  }
  b.lasts(setup_ms + kernel_ms);
  return std::move(b.data);
}

TEST(Scale, WhatThreadsShareIsNotLost) {
  const SizeOf threads = *parse_size_of("threads");
  const ScaleReport report =
      scale(kept({threaded_run(1, 1, 2000, 8000), threaded_run(1, 4, 2000, 2000)}, threads), threads, {});
  ASSERT_EQ(report.sizes[1].size, 4);
  EXPECT_EQ(report.mode, ScaleMode::kStrong);
  const GrowthRow& kernel = row_of(report.functions, "kernel");
  EXPECT_NEAR(*kernel.times[1].value, 2, 1e-6) << "not the 8 s of its threads";
  EXPECT_NEAR(kernel.loss_s, 0, 1e-6) << "it scales ideally";
  EXPECT_NEAR(*kernel.shares[1].value, 0.5, 1e-6);
  EXPECT_NEAR(row_of(report.lines, "kernel").loss_s, 0, 1e-6);
  const GrowthRow& setup = row_of(report.functions, "setup");
  EXPECT_NEAR(setup.loss_s, 2 - 0.5, 1e-6);
  for (const GrowthRow& row : report.functions)
    EXPECT_NE(row.subject.name, "log") << "the main thread is never there";
  ASSERT_EQ(report.losses.size(), 2u);
  EXPECT_EQ(report.losses[0].subject.name, "<module>");
  EXPECT_NEAR(report.losses[0].largest_s, 4, 1e-6);
  EXPECT_EQ(report.losses[1].subject.name, "setup");
  EXPECT_NEAR(report.losses[1].share, 1.5 / 4, 1e-6);
}

TEST(Scale, RanksWithThreadsAreNoMoreThanRanks) {
  const ScaleReport report = scale(kept({threaded_run(1, 8, 1200, 2800), threaded_run(2, 8, 1000, 1400),
                                         threaded_run(4, 8, 900, 700), threaded_run(8, 8, 850, 350)}),
                                   kByRanks, {});
  for (const auto* rows : {&report.functions, &report.lines})
    for (const GrowthRow& row : *rows)
      for (const SizedValue& share : row.shares) EXPECT_LE(share.value.value_or(0), 1 + 1e-9);
  const GrowthRow& kernel = row_of(report.functions, "kernel");
  EXPECT_NEAR(*kernel.shares[0].value, 0.7, 1e-6);
  EXPECT_FALSE(calls_all(kernel));
  EXPECT_FALSE(calls_all(row_of(report.lines, "kernel")));
  EXPECT_NEAR(kernel.loss_s, 0, 1e-6);
  EXPECT_NEAR(row_of(report.functions, "setup").loss_s, 0.85 - 0.15, 1e-6);
}

// --- regions -------------------------------------------------------------------------------------

// Programs may number their steps in the names: there are many then.
TEST(Scale, RegionsAreJoinedByName) {
  std::vector<ScaledRun> runs = kept({run_of(1, 8000, 0, 0), run_of(2, 4000, 0, 0), run_of(4, 2000, 0, 0)});
  constexpr std::size_t kSteps = 10'000;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (std::size_t i = 0; i < kSteps; ++i)
      runs[r].regions.push_back({"step " + std::to_string(r * kSteps + i), 0.001, {}});
    const auto ranks = static_cast<double>(runs[r].facts.ranks);
    // Of all ranks; in other orders.
    const ScaledRegion solve{"solve", (4.0 + static_cast<double>(r)) * ranks, {}};
    runs[r].regions.insert(r == 1 ? runs[r].regions.begin() : runs[r].regions.end(), solve);
    if (r != 1) runs[r].regions.push_back({"write", 0.5 * ranks, {}});
  }
  const ScaleReport report = scale(std::move(runs), kByRanks, {});
  ASSERT_EQ(report.regions.size(), 3 * kSteps + 2);
  const auto found = [&](const std::string& name) {
    return *std::find_if(report.regions.begin(), report.regions.end(),
                         [&](const RegionScale& region) { return region.name == name; });
  };
  const RegionScale solve = found("solve"), write = found("write");
  ASSERT_EQ(solve.rows.size(), 3u);
  EXPECT_NEAR(solve.rows[0].elapsed_s->mean, 4, 1e-9);
  EXPECT_NEAR(solve.rows[1].elapsed_s->mean, 5, 1e-9);
  EXPECT_NEAR(solve.rows[2].elapsed_s->mean, 6, 1e-9);
  EXPECT_NEAR(write.rows[2].elapsed_s->mean, 0.5, 1e-9);
  EXPECT_FALSE(write.rows[1].elapsed_s) << "that run has none";
}

// --- losses of call paths ------------------------------------------------------------------------

TEST(Scale, LossesAreOfCallPaths) {
  // step() calls kernel(), which shrinks as it should, and exchange(), which does not.
  const auto run = [](std::uint32_t ranks, std::uint64_t kernel_ms, std::uint64_t exchange_ms) {
    ProfileBuilder b(ranks);
    const auto main = b.python("<module>", "/home/a/train.py", 90, 1);
    const auto step = b.python("step", "/home/a/train.py", 13, 10);
    const auto kernel = b.path({main, step, b.python("kernel", "/home/a/train.py", 23, 20)});
    const auto exchange = b.path({main, step, b.python("exchange", "/home/a/train.py", 33, 30)});
    for (std::uint32_t r = 0; r < ranks; ++r) {
      b.sampled(r, kernel, Category::kPython, kernel_ms);
      b.sampled(r, exchange, Category::kPython, exchange_ms);
    }
    b.lasts(kernel_ms + exchange_ms);
    return std::move(b.data);
  };
  const ScaleReport report = scale(kept({run(1, 8000, 400), run(4, 2000, 600)}), kByRanks, {});
  ASSERT_EQ(report.losses.size(), 3u);
  EXPECT_EQ(report.losses[0].subject.name, "<module>");
  EXPECT_EQ(report.losses[1].subject.name, "step");
  EXPECT_EQ(report.losses[1].parent, 0u);
  EXPECT_EQ(report.losses[2].subject.name, "exchange");
  EXPECT_EQ(report.losses[2].depth, 2u);
  EXPECT_NEAR(report.losses[2].loss_s, 0.6 - 0.1, 1e-6);
  EXPECT_NEAR(report.losses[2].share, 0.5 / 2.6, 1e-6);
  EXPECT_NEAR(report.losses[2].smallest_s, 0.4, 1e-6);
  EXPECT_FALSE(report.losses[2].half_width) << "one run each";
}

// --- views ---------------------------------------------------------------------------------------

TEST(Scale, JsonHasTheNamesThatOthersRelyOn) {
  const ScaleReport report = scale(growing_runs(16, 2), kByRanks, {});
  std::string text;
  render_scale_json(report, [&](std::string_view piece) { text += piece; });
  const Json json = Json::parse(text);
  EXPECT_EQ(json["schema"], "clusterprof.scale/1");
  EXPECT_EQ(json["by"], "ranks");
  EXPECT_EQ(json["mode"], "strong");
  ASSERT_EQ(json["runs"].size(), 10u);
  for (const char* key : {"id", "p", "elapsed_s", "global", "parallel", "load_balance", "serialization",
                          "transfer", "computation"})
    EXPECT_TRUE(json["runs"][0].contains(key)) << key;
  for (const Json& row : json["functions"])
    if (row["name"] == "gather") {
      EXPECT_EQ(row["law"]["term"], "p^a");
      EXPECT_EQ(row["law"]["ci"].size(), 2u);
      EXPECT_LE(row["law"]["ci"][0], row["law"]["exponent"]);
      EXPECT_TRUE(row["refused"].is_null());
      EXPECT_TRUE(row["share_at"].contains("16"));
      EXPECT_TRUE(row["share_at"].contains("128"));
      EXPECT_NEAR(row["law"]["coefficient"].get<double>(), 0.05, 0.01);
    }
}

TEST(Scale, TextAndPageSayWhatScalesAndHow) {
  const ScaleReport report = scale(growing_runs(64, 2), kByRanks, {});
  const std::string text = render_scale_text(report, {});
  EXPECT_NE(text.find("Strong scaling"), std::string::npos) << text;
  EXPECT_NE(text.find("compare() grow.py"), std::string::npos);
  EXPECT_NE(text.find("Scaling loss by call path"), std::string::npos);
  EXPECT_NE(text.find("Prediction"), std::string::npos);
  std::size_t widest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    widest = std::max(widest, end - at);
    at = end + 1;
  }
  EXPECT_LE(widest, 80u);
  const std::string page = render_scale_html(report);
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_EQ(page.find("<script"), std::string::npos);
  for (const char* chart : {"Speed-up", "Efficiency", "Functions that lose most"})
    EXPECT_NE(page.find("<figcaption>" + std::string(chart)), std::string::npos) << chart;
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(Scale, NamesDoNotEscapeThePage) {
  std::vector<shard::ShardData> runs = {run_of(1, 8000, 0, 0), run_of(2, 6000, 0, 0)};
  for (shard::ShardData& run : runs)
    for (std::string& text : run.strings)
      if (text == "step") text = "<script>alert(1)</script>\x1b[31m";
  const ScaleReport report = scale(kept(runs), kByRanks, {});
  EXPECT_EQ(render_scale_html(report).find("<script"), std::string::npos);
  EXPECT_EQ(render_scale_text(report, {}).find('\x1b'), std::string::npos);
}

TEST(Scale, FewSizesAreSaid) {
  const ScaleReport report = scale(kept({run_of(1, 8000, 0, 0), run_of(2, 5000, 0, 0)}), kByRanks, {});
  const std::string text = render_scale_text(report, {});
  EXPECT_NE(text.find("4 different numbers of ranks"), std::string::npos) << text;
  EXPECT_EQ(text.find("Prediction"), std::string::npos);
  std::string json;
  render_scale_json(report, [&](std::string_view piece) { json += piece; });
  EXPECT_EQ(Json::parse(json)["functions"][0]["refused"], "few_sizes");
  EXPECT_TRUE(Json::parse(json)["functions"][0]["law"].is_null());
}

}  // namespace
}  // namespace clusterprof::report
