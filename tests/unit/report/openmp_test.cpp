// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/openmp.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::OmpKind;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

// A rank of 10 s: setup() on one thread for 4 s, then for 6 s a region of two threads.
class OpenMpTest : public ::testing::Test {
 protected:
  OpenMpTest() {
    b_.data.nodes[0].cpus = 4;
    shard::OmpRank& rank = b_.data.omp_ranks.emplace_back();
    rank.method = shard::OmpMethod::kGomp;
    rank.runtime = "libgomp.so.1";
    rank.processors = 4;
    b_.sampled(0, setup(), Category::kNative, 4000);
    b_.sampled(0, body(), Category::kNative, 6000);
  }

  shard::Frame main_frame() { return b_.native("main", "/u/a.out", "/u/a.c", 99); }
  std::uint32_t setup() { return b_.path({main_frame(), b_.native("setup", "/u/a.out", "/u/a.c", 20)}); }
  std::uint32_t solve() { return b_.path({main_frame(), b_.native("solve", "/u/a.out", "/u/a.c", 12)}); }
  std::uint32_t body() { return b_.child(solve(), b_.native("solve", "/u/a.out", "/u/a.c", 14)); }

  shard::OmpRegion& region(std::uint64_t wait_ms, std::uint64_t inner_wait_ms = 0, std::uint64_t count = 10) {
    shard::OmpRegion& row = b_.data.omp_regions.emplace_back();
    row.path = solve();
    row.threads = 2;
    row.asked = 2;
    row.count = count;
    row.time_ns = 6000 * kMs;
    row.longest_ns = 6000 * kMs;
    row.threads_ns = 12'000 * kMs;
    row.wait_ns = wait_ms * kMs;
    row.inner_wait_ns = inner_wait_ms * kMs;
    return row;
  }
  void thread(std::uint32_t number, std::uint64_t wait_ms) {
    shard::OmpThread& row = b_.data.omp_threads.emplace_back();
    row.path = solve();
    row.threads = 2;
    row.number = number;
    row.count = 10;
    row.time_ns = 6000 * kMs;
    row.wait_ns = wait_ms * kMs;
  }
  shard::OmpConstruct& construct(OmpKind kind, std::uint64_t count, std::uint64_t time_ms,
                                 std::uint64_t wait_ms) {
    shard::OmpConstruct& row = b_.data.omp_constructs.emplace_back();
    row.region_path = solve();
    row.threads = 2;
    row.path = body();
    row.kind = kind;
    row.count = count;
    row.time_ns = time_ms * kMs;
    row.wait_ns = wait_ms * kMs;
    return row;
  }
  std::string sentences(const Analysis& a, const Finding& finding) {
    return words::sentences(finding, format::ShortPaths(a));
  }
  ProfileBuilder b_{1};
};

TEST_F(OpenMpTest, WithoutItThereIsNothing) {
  ProfileBuilder other(1);
  other.sampled(0, other.path({other.native("main", "/u/a.out", "/u/a.c", 1)}), Category::kNative, 10'000);
  const Analysis a = analyse(other.data);
  EXPECT_FALSE(a.openmp.has_value());
  EXPECT_TRUE(nlohmann::json::parse(render_json(a))["openmp"].is_null());
}

TEST_F(OpenMpTest, LossesAddUpToWhatThreadsHave) {
  region(3000);
  thread(0, 0);
  thread(1, 3000);
  const Analysis a = analyse(b_.data);
  ASSERT_TRUE(a.openmp.has_value());
  const OpenMp& all = *a.openmp;
  EXPECT_NEAR(all.work_s, 9 + 4, 1e-6);
  EXPECT_NEAR(all.imbalance_s, 3, 1e-6);
  EXPECT_NEAR(all.serialization_s, 4, 1e-6);
  EXPECT_NEAR(*all.efficiency.serialization, 13.0 / 17, 1e-6);
  EXPECT_NEAR(*all.efficiency.load_balance, 17.0 / 20, 1e-6);
  EXPECT_NEAR(*all.efficiency.scheduling, 1, 1e-6);
  EXPECT_NEAR(*all.efficiency.parallel, 13.0 / 20, 1e-6);
  EXPECT_FALSE(all.hybrid_mpi.has_value()) << "no MPI";
  EXPECT_NEAR(*all.hybrid_parallel, 13.0 / 20, 1e-6);
  ASSERT_EQ(all.regions.size(), 1u);
  const OpenMpRegionRow& row = all.regions[0];
  EXPECT_EQ(row.place.line, 12u);
  EXPECT_NEAR(row.thread_s, 12, 1e-6);
  EXPECT_NEAR(*row.imbalance, 6.0 * 2 / 9, 1e-6);
  EXPECT_NEAR(*row.efficiency.parallel, 9.0 / 12, 1e-6);
  ASSERT_EQ(row.threads_of_team.size(), 2u);
  EXPECT_NEAR(row.threads_of_team[1].work_s, 3, 1e-6);
  ASSERT_EQ(all.serial.size(), 1u) << "what is below a region is none of it";
  EXPECT_EQ(all.serial[0].place.line, 20u);
  EXPECT_NEAR(all.serial[0].time_s, 4, 1e-3);
  EXPECT_NEAR(all.serial[0].lost_s, 4, 1e-3);
}

TEST_F(OpenMpTest, SmallerTeamsLeaveThreadsWithoutWork) {
  shard::OmpRegion row = region(0);
  b_.data.omp_regions[0].time_ns = 3000 * kMs;
  b_.data.omp_regions[0].threads_ns = 6000 * kMs;
  row.path = b_.path({main_frame(), b_.native("step", "/u/a.out", "/u/a.c", 40)});
  row.threads = 1;
  row.time_ns = row.threads_ns = 3000 * kMs;
  b_.data.omp_regions.push_back(row);
  const Analysis a = analyse(b_.data);
  EXPECT_NEAR(a.openmp->serialization_s, 4 + 3, 1e-6);
  EXPECT_EQ(a.openmp->ranks[0].threads, 2u);
}

TEST_F(OpenMpTest, RegionsInsideOthersCountOnce) {
  region(0);
  shard::OmpRegion inner = b_.data.omp_regions[0];
  inner.path = body();
  inner.level = 1;
  b_.data.omp_regions.push_back(inner);
  const Analysis a = analyse(b_.data);
  EXPECT_EQ(a.openmp->regions.size(), 2u);
  EXPECT_NEAR(a.openmp->ranks[0].region_s, 6, 1e-6);
  EXPECT_NEAR(a.openmp->work_s, 16, 1e-6);
}

TEST_F(OpenMpTest, MpiOutsideRegionsIsNoSerialWork) {
  b_.called(0, b_.path({main_frame(), b_.mpi("MPI_Barrier")}), 1, 1000);
  region(0);
  const Analysis a = analyse(b_.data);
  EXPECT_NEAR(a.openmp->ranks[0].serial_s, 3, 1e-6);
  ASSERT_TRUE(a.openmp->hybrid_mpi.has_value());
  EXPECT_NEAR(*a.openmp->hybrid_parallel, *a.openmp->hybrid_mpi * *a.openmp->hybrid_openmp, 1e-9);
}

// The region's 6 s are the last ones, and its waiting is in their first half. The bins begin half a second
// before the run and are 1.024 s long.
class OpenMpOverTime : public OpenMpTest {
 protected:
  OpenMpOverTime() {
    constexpr std::uint64_t kBin = 1024 * kMs;
    b_.series("openmp_region_ns", 0, {0, 0, 0, 0, 620 * kMs, kBin, kBin, kBin, kBin, kBin, 260 * kMs});
    b_.series("openmp_team_ns", 0,
              {0, 0, 0, 0, 1240 * kMs, 2 * kBin, 2 * kBin, 2 * kBin, 2 * kBin, 2 * kBin, 520 * kMs});
    b_.series("openmp_threads_ns", 0,
              {0, 0, 0, 0, 1240 * kMs, 2 * kBin, 2 * kBin, 2 * kBin, 2 * kBin, 2 * kBin, 520 * kMs});
    b_.series("openmp_wait_ns", 0, {0, 0, 0, 0, 620 * kMs, kBin, kBin, 332 * kMs});
  }
  static void expect_sums(const OpenMp& all) {
    OpenMpWindow sum;
    for (const OpenMpWindow& window : all.windows) {
      sum.work_s += window.work_s;
      sum.imbalance_s += window.imbalance_s;
      sum.schedule_s += window.schedule_s;
      sum.serialization_s += window.serialization_s;
    }
    EXPECT_NEAR(sum.work_s, all.work_s, 1e-9);
    EXPECT_NEAR(sum.imbalance_s, all.imbalance_s, 1e-9);
    EXPECT_NEAR(sum.schedule_s, all.schedule_s, 1e-9);
    EXPECT_NEAR(sum.serialization_s, all.serialization_s, 1e-9);
  }
};

TEST_F(OpenMpOverTime, EachPartOfTheRunHasItsEfficiencies) {
  region(3000);
  const Analysis a = analyse(b_.data);
  const std::vector<OpenMpWindow>& windows = a.openmp->windows;
  ASSERT_EQ(windows.size(), 9u) << "as many as bins fit into the run";
  EXPECT_NEAR(windows.front().begin_s, 0, 1e-9);
  EXPECT_NEAR(windows.back().end_s, 10, 1e-9);
  expect_sums(*a.openmp);
  for (const std::size_t serial : {0u, 1u, 2u}) {
    EXPECT_NEAR(*windows[serial].efficiency.serialization, 0.5, 1e-6);
    EXPECT_NEAR(*windows[serial].efficiency.load_balance, 1, 1e-6);
    EXPECT_NEAR(*windows[serial].efficiency.parallel, 0.5, 1e-6);
    EXPECT_NEAR(windows[serial].serialization_s, 10.0 / 9, 2e-3);
  }
  for (const std::size_t uneven : {5u}) {
    EXPECT_NEAR(*windows[uneven].efficiency.load_balance, 0.5, 0.01);
    EXPECT_NEAR(*windows[uneven].efficiency.serialization, 1, 1e-6);
  }
  EXPECT_NEAR(*windows[8].efficiency.parallel, 1, 1e-6);
  EXPECT_NEAR(*windows[8].hybrid_parallel, 1, 1e-6) << "without MPI it is OpenMP's";
  EXPECT_FALSE(windows[8].hybrid_mpi.has_value());
  const auto json = nlohmann::json::parse(render_json(a))["openmp"]["over_time"];
  ASSERT_EQ(json.size(), 9u);
  EXPECT_NEAR(json[0]["efficiency"]["serialization"].get<double>(), 0.5, 1e-6);
  EXPECT_TRUE(json[0]["hybrid"]["mpi"].is_null());
  EXPECT_NEAR(json[5]["hybrid"]["openmp"].get<double>(), 0.5, 0.01);
  for (const TimelineRow& row : a.timeline->ranks)
    for (const auto& [series, bins] : row.values)
      EXPECT_FALSE(a.timeline->series[series].starts_with("openmp_")) << "shown as efficiencies";
}

TEST_F(OpenMpOverTime, TheTablesSayHowMuch) {
  region(3000).schedule_ns = 200 * kMs;
  b_.data.omp_regions[0].wait_ns = 1500 * kMs;  // half of what the bins have
  const Analysis a = analyse(b_.data);
  EXPECT_NEAR(a.openmp->imbalance_s, 1.5, 1e-9);
  EXPECT_NEAR(a.openmp->schedule_s, 0.2, 1e-9) << "no bin has any: it is spread over the run";
  expect_sums(*a.openmp);
  EXPECT_NEAR(a.openmp->windows[8].schedule_s, 0.2 / 9, 1e-9);
  EXPECT_NEAR(a.openmp->windows[8].imbalance_s, 0, 1e-9);
}

TEST_F(OpenMpOverTime, WithMpiThePartsAreThoseOfItsEfficiencies) {
  region(3000);
  b_.called(0, b_.path({main_frame(), b_.mpi("MPI_Barrier")}), 1, 1000);
  b_.series("mpi_measured_ns", 0, {0, 1000 * kMs});  // from 0.524 s on
  b_.data.wait_analysis.done = true;
  for (const std::uint64_t at : {0u, 2u, 4u, 6u, 8u})
    b_.data.time_windows.push_back({at * 1000 * kMs, (at + 2) * 1000 * kMs, at == 0 ? 1e9 : 1.6e9, 2e9, 0});
  b_.data.time_windows[4].startup_ns = 2000 * kMs;  // all in MPI_Finalize: no efficiency of MPI
  const Analysis a = analyse(b_.data);
  const std::vector<OpenMpWindow>& windows = a.openmp->windows;
  ASSERT_EQ(windows.size(), 5u);
  ASSERT_EQ(a.windows.size(), 4u);
  expect_sums(*a.openmp);
  EXPECT_NEAR(windows[0].serialization_s, 1, 0.01) << "MPI is no serial part";
  EXPECT_NEAR(windows[1].serialization_s + windows[2].serialization_s, 2, 0.01) << "a bin has both";
  EXPECT_NEAR(*windows[0].hybrid_mpi, 0.5, 1e-9);
  EXPECT_NEAR(*windows[0].hybrid_parallel, 0.25, 1e-3);
  EXPECT_NEAR(*windows[3].hybrid_parallel, 0.8 * *windows[3].efficiency.parallel, 1e-9);
  EXPECT_FALSE(windows[4].hybrid_mpi.has_value());
  EXPECT_FALSE(windows[4].hybrid_parallel.has_value());
  const auto json = nlohmann::json::parse(render_json(a))["efficiency_windows"];
  for (std::size_t i = 0; i < a.windows.size(); ++i) {
    EXPECT_EQ(a.windows[i].openmp_parallel, windows[i].efficiency.parallel);
    EXPECT_EQ(a.windows[i].hybrid_parallel, windows[i].hybrid_parallel);
    EXPECT_NEAR(json[i]["hybrid_parallel"].get<double>(), *windows[i].hybrid_parallel, 1e-6);
  }
  TextOptions options;
  const auto lines_of = [&](const char* section) {
    options.sections = {section};
    std::vector<std::string> names;
    std::istringstream text(render_text(a, options));
    for (std::string line; std::getline(text, line);)
      if (line.ends_with('|')) names.push_back(line.substr(2, line.find_last_not_of(' ', 16) - 1));
    return names;
  };
  EXPECT_EQ(lines_of("waits"), (std::vector<std::string>{"hybrid", "  OpenMP", "  MPI", "  load balance",
                                                         "  communication", "waiting"}));
  EXPECT_EQ(lines_of("openmp"), (std::vector<std::string>{"hybrid", "OpenMP", "  load balance",
                                                          "  scheduling", "  serialization"}));
}

// In MPI, there is no efficiency of OpenMP to tell of; but the part is there, with that of MPI.
TEST_F(OpenMpOverTime, PartsInWhichNobodyWasOutsideMpiAreKept) {
  b_.lasts(10'000);
  region(3000);
  b_.called(0, b_.path({main_frame(), b_.mpi("MPI_Barrier")}), 1, 4000);
  b_.series("mpi_measured_ns", 0,
            {524 * kMs, 1024 * kMs, 1024 * kMs, 1024 * kMs, 404 * kMs});  // all until then
  b_.data.wait_analysis.done = true;
  for (const std::uint64_t at : {0u, 2u, 4u, 6u, 8u})
    b_.data.time_windows.push_back(
        {at * 1000 * kMs, (at + 2) * 1000 * kMs, at == 0 ? 0 : 2e9, at == 0 ? 0 : 2e9, 0});
  const Analysis a = analyse(b_.data);
  const std::vector<OpenMpWindow>& windows = a.openmp->windows;
  ASSERT_EQ(windows.size(), a.windows.size());
  EXPECT_FALSE(windows[0].efficiency.parallel.has_value());
  EXPECT_FALSE(windows[0].hybrid_parallel.has_value());
  EXPECT_EQ(windows[0].hybrid_mpi, 0);
  expect_sums(*a.openmp);
  TextOptions options;
  options.sections = {"openmp"};
  const std::string text = render_text(a, options);
  EXPECT_NE(text.find("in 5 steps of 2.00 s"), std::string::npos) << text;
  EXPECT_NE(text.find("  OpenMP         |???????????"), std::string::npos) << text;
  EXPECT_NE(text.find("?: nobody was outside MPI"), std::string::npos) << text;
}

TEST_F(OpenMpOverTime, WhatIsPausedIsNotSerial) {
  region(3000);
  b_.lasts(12'000);
  b_.data.ranks[0].paused_ns = 2000 * kMs;  // after the region
  constexpr std::uint64_t kBin = 1024 * kMs;
  b_.series("native_ns", 0, {524 * kMs, kBin, kBin, kBin, kBin, kBin, kBin, kBin, kBin, kBin, 260 * kMs});
  const Analysis a = analyse(b_.data);
  expect_sums(*a.openmp);
  EXPECT_NEAR(a.openmp->serialization_s, 4, 1e-6);
  EXPECT_NEAR(a.openmp->windows[0].serialization_s, a.openmp->windows[0].end_s, 0.01);
  EXPECT_NEAR(a.openmp->windows.back().end_s, 10.24, 1.1) << "nothing is known of the pause";
}

TEST_F(OpenMpOverTime, OldFilesHaveNone) {
  region(3000);
  b_.data.series.clear();
  b_.data.rank_series.clear();
  const Analysis a = analyse(b_.data);
  EXPECT_TRUE(a.openmp->windows.empty());
  const auto json = nlohmann::json::parse(render_json(a));
  EXPECT_TRUE(json["openmp"]["over_time"].is_null());
  TextOptions options;
  options.sections = {"openmp"};
  const std::string text = render_text(a, options);
  EXPECT_NE(text.find("over time: not recorded"), std::string::npos) << text;
}

TEST_F(OpenMpTest, TheTextFitsIntoEightyColumns) {
  region(3000);
  TextOptions options;
  options.width = 80;
  options.sections = {"openmp", "efficiency"};
  const std::string usual = render_text(analyse(b_.data), options);
  EXPECT_EQ(usual.find(".."), std::string::npos) << usual;
  // What is said below the table is of columns that there is room for.
  for (const int width : {40, 60, 80, 120}) {
    options.width = width;
    const std::string text = render_text(analyse(b_.data), options);
    const std::size_t header = text.find("all threads [s]");
    ASSERT_NE(header, std::string::npos) << text;
    const std::string titles = text.substr(header, text.find('\n', header) - header);
    for (const char* const title : {"one by one", "begin"})
      EXPECT_EQ(text.find(std::string(title) + ": ") != std::string::npos,
                titles.find(title) != std::string::npos)
          << text;
  }
}

TEST_F(OpenMpTest, WorkThatFallsWithTheNumberIsDealtOutInTurn) {
  region(3000);
  thread(0, 0);
  thread(1, 3000);
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kOpenMpImbalance);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->share, 0.15, 1e-6);
  EXPECT_NEAR(*finding->gain_s, 1.5, 1e-6);
  EXPECT_EQ(finding->place.line, 12u);
  EXPECT_EQ(finding->action, FindingAction::kCyclicSchedule);
  EXPECT_NE(sentences(a, *finding).find("schedule(static, 1)"), std::string::npos);
}

TEST_F(OpenMpTest, AdviceFollowsFromTheLoop) {
  const auto action = [&] {
    const Analysis a = analyse(b_.data);
    const Finding* const finding = find_kind(a, FindingKind::kOpenMpImbalance);
    return finding == nullptr ? FindingAction::kNone : finding->action;
  };
  region(0, 3000);
  construct(OmpKind::kBarrier, 20, 3000, 3000);
  EXPECT_EQ(action(), FindingAction::kDynamicSchedule);
  construct(OmpKind::kLoop, 20, 9000, 0).chunks = 40;
  EXPECT_EQ(action(), FindingAction::kSmallerChunks) << "two for each thread";
  b_.data.omp_constructs.back().chunks = 4000;
  EXPECT_EQ(action(), FindingAction::kBalanceThreads);
  construct(OmpKind::kTask, 20, 0, 0);
  b_.data.omp_constructs[1].chunks = 40;
  EXPECT_EQ(action(), FindingAction::kBalanceThreads);
}

// LLVM's run time, whose older versions tell neither chunks nor which schedule hands them out.
TEST_F(OpenMpTest, AdviceFitsTheSchedule) {
  const auto advice = [&] {
    const Analysis a = analyse(b_.data);
    const Finding* const finding = find_kind(a, FindingKind::kOpenMpImbalance);
    return finding == nullptr ? std::pair(FindingAction::kNone, std::string())
                              : std::pair(finding->action, sentences(a, *finding));
  };
  region(3000);
  b_.data.omp_ranks[0].method = shard::OmpMethod::kOmpt;
  EXPECT_EQ(advice().first, FindingAction::kBalanceThreads) << "there is no loop that could have a schedule";
  shard::OmpConstruct& loop = construct(OmpKind::kLoop, 20, 9000, 0);
  EXPECT_EQ(advice().first, FindingAction::kScheduleOrChunks);
  for (const std::uint8_t schedule :
       {shard::kOmpDynamic, shard::kOmpGuided, shard::kOmpRuntime, shard::kOmpHandedOut}) {
    loop.schedules = schedule;
    loop.iterations = 0;
    EXPECT_EQ(advice().first, FindingAction::kOtherChunks);
    EXPECT_EQ(advice().second.find("schedule("), std::string::npos) << advice().second;
    loop.iterations = 20 * 64;  // each of 10 times 128, for two threads
    EXPECT_EQ(advice().first, FindingAction::kOtherChunks);
    EXPECT_NE(advice().second.find("has 128 iterations; try chunks of 4 iterations"), std::string::npos)
        << advice().second;
    loop.iterations = 20 * 3;
    EXPECT_EQ(advice().first, FindingAction::kBalanceThreads) << "too few to share them out";
  }
  loop.schedules = shard::kOmpDynamic;
  loop.iterations = 20 * 64;
  loop.chunks = 20 * 2;
  EXPECT_EQ(advice().first, FindingAction::kSmallerChunks);
  EXPECT_NE(advice().second.find("Its loop (dynamic) has 128 iterations and gives each thread 2.0 chunks on "
                                 "average; try chunks of 4 iterations."),
            std::string::npos)
      << advice().second;
  loop.iterations = loop.chunks;
  EXPECT_EQ(advice().first, FindingAction::kBalanceThreads) << "chunks of one iteration cannot be smaller";
  loop.schedules = shard::kOmpStatic;
  loop.iterations = 20 * 64;
  loop.chunks = 20;
  EXPECT_EQ(advice().first, FindingAction::kDynamicSchedule);
  EXPECT_NE(advice().second.find("Its loop (static) has 128 iterations; try chunks of 4 iterations."),
            std::string::npos)
      << advice().second;
  thread(0, 0);
  thread(1, 3000);
  EXPECT_EQ(advice().first, FindingAction::kCyclicSchedule);
  EXPECT_EQ(advice().second.find("try chunks"), std::string::npos);
}

TEST_F(OpenMpTest, TheLeastEvenLoopIsAdvisedOn) {
  region(3000);
  shard::OmpConstruct& even = construct(OmpKind::kLoop, 20, 6000, 0);
  even.longest_ns = 3000 * kMs;
  even.schedules = shard::kOmpStatic;
  construct(OmpKind::kLoop, 20, 3000, 0).path = solve();
  b_.data.omp_constructs.back().longest_ns = 2500 * kMs;
  b_.data.omp_constructs.back().schedules = shard::kOmpGuided;
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kOpenMpImbalance);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->evidence.name(EvidenceKey::kSchedule), "guided");
  const auto constructs = nlohmann::json::parse(render_json(a))["openmp"]["regions"][0]["constructs"];
  EXPECT_EQ(constructs[0]["schedules"], nlohmann::json::array({"guided"}));
}

TEST_F(OpenMpTest, ABarrierInsideIsNamed) {
  region(0, 3000);
  construct(OmpKind::kBarrier, 20, 3000, 3000);
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kOpenMpImbalance);
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->site.has_value());
  EXPECT_EQ(finding->site->line, 14u);
}

TEST_F(OpenMpTest, CriticalSectionsAreNoImbalance) {
  region(0, 3000);
  construct(OmpKind::kCritical, 1000, 3000, 3000);
  const Analysis a = analyse(b_.data);
  EXPECT_EQ(find_kind(a, FindingKind::kOpenMpImbalance), nullptr);
  const Finding* const finding = find_kind(a, FindingKind::kOpenMpOneAtATime);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->action, FindingAction::kReducePerThread);
  EXPECT_EQ(finding->evidence.name(EvidenceKey::kConstruct), "critical");
  EXPECT_EQ(finding->place.line, 14u);
  EXPECT_NEAR(a.openmp->serialization_s, 4 + 3, 1e-6);
  EXPECT_NEAR(a.openmp->imbalance_s, 0, 1e-6);
}

TEST_F(OpenMpTest, SerialWorkBoundsTheSpeedup) {
  region(0);
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kOpenMpSerial);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->share, 0.2, 1e-6);
  EXPECT_EQ(finding->severity, Severity::kMedium);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kSpeedupBound), 16.0 / 4, 1e-6);
  EXPECT_EQ(finding->place.line, 20u);
}

TEST_F(OpenMpTest, RegionsDoNotTakeOverPythonCodeNorWaiting) {
  region(0);
  for (const Category category : {Category::kPython, Category::kIo, Category::kIdle}) {
    shard::Value& value = b_.data.values[0];
    auto& times_ns = b_.data.ranks[0].main_thread_ns;
    times_ns[static_cast<std::size_t>(value.category)] -= value.wall_ns;
    times_ns[static_cast<std::size_t>(category)] += value.wall_ns;
    value.category = category;
    const Analysis a = analyse(b_.data);
    EXPECT_EQ(find_kind(a, FindingKind::kOpenMpSerial), nullptr);
    ASSERT_EQ(a.openmp->serial.size(), 1u);
    EXPECT_NEAR(a.openmp->serial[0].lost_s, 4, 1e-3) << "the others have nothing to do all the same";
    EXPECT_EQ(a.openmp->serial[0].native_s, 0);
  }
}

TEST_F(OpenMpTest, ThePlaceIsThatOfNativeCode) {
  region(0);
  b_.data.values[0].wall_ns = 1500 * kMs;
  b_.data.ranks[0].main_thread_ns[static_cast<std::size_t>(Category::kNative)] -= 2500 * kMs;
  b_.sampled(0, b_.path({main_frame(), b_.native("wait", "/u/a.out", "/u/a.c", 30)}), Category::kIdle, 2500);
  const Analysis a = analyse(b_.data);
  EXPECT_EQ(a.openmp->serial[0].place.line, 30u);
  const Finding* const finding = find_kind(a, FindingKind::kOpenMpSerial);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->place.line, 20u);
  EXPECT_NEAR(*finding->share, 0.075, 1e-6);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kTime), 1.5, 1e-6);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kSpeedupBound), 16.0 / 4, 1e-6);
}

TEST_F(OpenMpTest, AskingForPartsOfLoopsIsNoWork) {
  region(3000);
  construct(OmpKind::kLoop, 20, 9000, 0).schedule_ns = 500 * kMs;
  const Analysis a = analyse(b_.data);
  const OpenMpRegionRow& row = a.openmp->regions[0];
  EXPECT_NEAR(row.work_s, 8.5, 1e-6);
  EXPECT_NEAR(row.schedule_s, 0.5, 1e-6);
  EXPECT_NEAR(*row.efficiency.parallel, 8.5 / 12, 1e-6);
  EXPECT_NEAR(*row.efficiency.scheduling, 11.5 / 12, 1e-6);
  EXPECT_NEAR(*row.efficiency.load_balance, 8.5 / 11.5, 1e-6);
  EXPECT_NEAR(*row.efficiency.serialization, 1, 1e-6);
  EXPECT_NEAR(*row.imbalance, 6.0 * 2 / 9, 1e-6);
}

TEST_F(OpenMpTest, ThreadsThatLoseTheirProcessorAreNoImbalance) {
  region(3000);
  const auto told = [&](std::uint64_t runnable_ms) {
    b_.sampled(0, body(), Category::kRunnable, runnable_ms);
    b_.lasts(10'000 + runnable_ms);
    const bool is_there = find_kind(analyse(b_.data), FindingKind::kOpenMpImbalance) != nullptr;
    b_.data.ranks[0].main_thread_ns[static_cast<std::size_t>(Category::kRunnable)] = 0;
    b_.data.values.pop_back();
    return is_there;
  };
  EXPECT_TRUE(told(700)) << "each has waited for 1.5 s";
  EXPECT_FALSE(told(800));
}

TEST_F(OpenMpTest, RegionsThatAreHardlyUsedSayNothing) {
  region(0);
  b_.data.omp_regions[0].time_ns = 500 * kMs;
  b_.data.omp_regions[0].threads_ns = 1000 * kMs;
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kOpenMpSerial), nullptr);
}

TEST_F(OpenMpTest, SmallRegionsAreTold) {
  region(8000, 0, 200'000);
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kOpenMpSmallRegions);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(find_kind(a, FindingKind::kOpenMpImbalance), nullptr);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kMeanTime), 30e-6, 1e-9);
  EXPECT_EQ(finding->action, FindingAction::kLargerRegions);
}

TEST_F(OpenMpTest, AllThreadsOnOneProcessor) {
  region(3000);
  b_.data.omp_ranks[0].processors = 1;
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kOpenMpOneProcessor);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->action, FindingAction::kBindWider) << "the node has four";
  EXPECT_NEAR(*finding->share, 0.3, 1e-6);
  EXPECT_NE(sentences(a, *finding).find("OpenMP threads on 1 processor (node n0)."), std::string::npos)
      << sentences(a, *finding);
  EXPECT_EQ(find_kind(a, FindingKind::kOpenMpImbalance), nullptr) << "they wait for the processor";
  b_.data.nodes[0].cpus = 1;
  const Analysis full = analyse(b_.data);
  EXPECT_EQ(find_kind(full, FindingKind::kOpenMpOneProcessor)->action, FindingAction::kFewerThreads);
}

TEST_F(OpenMpTest, OneFindingForAllRanks) {
  ProfileBuilder b(4, 2);
  for (std::uint32_t r = 0; r < 4; ++r) {
    const auto solve = b.path({b.native("solve", "/u/a.out", "/u/a.c", 12)});
    b.sampled(r, solve, Category::kNative, 10'000);
    b.data.omp_ranks.push_back({r, shard::OmpMethod::kOmpt, 0, 2, "LLVM"});
    shard::OmpRegion& row = b.data.omp_regions.emplace_back();
    row.rank = r, row.path = solve, row.threads = 8, row.count = 1;
    row.time_ns = 10'000 * kMs, row.threads_ns = 80'000 * kMs;
  }
  const Analysis a = analyse(b.data);
  const Finding* const finding = find_kind(a, FindingKind::kOpenMpThreads);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->ranks.size(), 4u);
  EXPECT_EQ(finding->evidence.number(EvidenceKey::kNodes), 2);
  EXPECT_EQ(finding->action, FindingAction::kFewerThreads);
  EXPECT_EQ(finding->evidence.number(EvidenceKey::kAdvisedSize), 2);
  EXPECT_NE(sentences(a, *finding)
                .find("OpenMP threads on fewer processors (node n0); so do 3 other ranks. Set "
                      "OMP_NUM_THREADS=2."),
            std::string::npos)
      << sentences(a, *finding);
  EXPECT_EQ(a.openmp->regions.size(), 1u);
  EXPECT_EQ(a.openmp->regions[0].count, 4u);
}

TEST_F(OpenMpTest, ALargePoolIsNamed) {
  b_.data.omp_ranks.clear();
  b_.data.nodes[0].cpus = 2;
  b_.lasts(13'000);
  b_.sampled(0, setup(), Category::kRunnable, 3000);
  b_.data.ranks[0].cpu_ns = 26'000 * kMs;
  shard::Thread& pool = b_.data.threads.emplace_back();
  pool.path = b_.path({b_.native("blas_thread_server", "/usr/lib/libopenblas.so.0")});
  pool.count = 63;
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kWaitingForProcessor);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->action, FindingAction::kSmallerPool);
  EXPECT_NE(
      sentences(a, *finding)
          .find("There are 64 threads of OpenBLAS for 2 processors (1 rank x 1 process x 64 threads): set "
                "OPENBLAS_NUM_THREADS=2."),
      std::string::npos)
      << sentences(a, *finding);
}

// The thread that uses a pool works with it: one of its own and that one have a processor too few.
TEST_F(OpenMpTest, ThePoolsUserIsOneOfItsThreads) {
  b_.data.omp_ranks.clear();
  b_.data.nodes[0].cpus = 1;
  b_.lasts(13'000);
  b_.sampled(0, setup(), Category::kRunnable, 3000);
  b_.data.ranks[0].cpu_ns = 13'000 * kMs;
  shard::Thread& pool = b_.data.threads.emplace_back();
  pool.path = b_.path({b_.native("gomp_thread_start", "/usr/lib/libgomp.so.1")});
  pool.count = 1;
  const auto said = [&] {
    const Analysis a = analyse(b_.data);
    const Finding* const finding = find_kind(a, FindingKind::kWaitingForProcessor);
    return finding == nullptr ? std::string() : sentences(a, *finding);
  };
  EXPECT_NE(said().find("There are 2 threads of OpenMP for 1 processor (1 rank x 1 process x 2 threads): set "
                        "OMP_NUM_THREADS=1. Or give each rank more processors."),
            std::string::npos)
      << said();
  b_.data.nodes[0].cpus = 2;
  EXPECT_EQ(said().find("OMP_NUM_THREADS"), std::string::npos) << said();
}

// A rank's workers have a pool each; some come after others.
TEST_F(OpenMpTest, PoolsOfWorkersShareTheProcessors) {
  b_.data.omp_ranks.clear();
  b_.data.nodes[0].cpus = 2;
  b_.lasts(13'000);
  b_.sampled(0, setup(), Category::kRunnable, 3000);
  b_.data.ranks[0].cpu_ns = 26'000 * kMs;
  const std::uint32_t server = b_.path({b_.native("blas_thread_server", "/usr/lib/libopenblas.so.0")});
  const auto pool = [&](std::int32_t pid, std::int64_t from_ms, std::uint64_t ms, std::uint32_t count) {
    shard::Thread& row = b_.data.threads.emplace_back();
    row.path = server;
    row.pid = pid;
    row.count = count;
    row.start_utc_ns = from_ms * static_cast<std::int64_t>(kMs);
    row.elapsed_ns = ms * kMs;
  };
  const auto said = [&] {
    const Analysis a = analyse(b_.data);
    const Finding* const finding = find_kind(a, FindingKind::kWaitingForProcessor);
    return finding == nullptr ? std::string() : sentences(a, *finding);
  };
  pool(10, 0, 5000, 3);
  pool(11, 100, 5000, 3);
  EXPECT_NE(
      said().find("There are 8 threads of OpenBLAS for 2 processors (1 rank x 2 processes x 4 threads): set "
                  "OPENBLAS_NUM_THREADS=1."),
      std::string::npos)
      << said();
  for (const std::int64_t start_ms : {5000, 6000}) {
    b_.data.threads[1].start_utc_ns = start_ms * static_cast<std::int64_t>(kMs);
    EXPECT_NE(
        said().find("(1 rank, 1 process at a time, up to 4 threads in each): set OPENBLAS_NUM_THREADS=2."),
        std::string::npos)
        << said();
  }
  pool(12, 4999, 0, 3);
  EXPECT_NE(said().find("(1 rank, 2 processes at a time, up to 4 threads in each)"), std::string::npos)
      << said();
}

TEST_F(OpenMpTest, WaitingIsNotBlockedTime) {
  region(3000);
  b_.data.ranks[0].elapsed_ns = 14'000 * kMs;
  b_.sampled(0, b_.child(body(), b_.kernel(std::string(shard::kOmpBarrierName))), Category::kIdle, 4000);
  const Analysis a = analyse(b_.data);
  EXPECT_EQ(find_kind(a, FindingKind::kBlocked), nullptr);
  EXPECT_NEAR(a.limits.idle_s[static_cast<std::size_t>(OffCpu::kOpenMp)], 4, 1e-3);
}

TEST_F(OpenMpTest, JsonAndTextHaveIt) {
  region(1000, 2000);
  construct(OmpKind::kImplicitBarrier, 20, 2000, 2000);
  thread(0, 0);
  thread(1, 1000);
  b_.data.omp_ranks[0].flags = shard::OmpRank::kOtherRuntime;
  const Analysis a = analyse(b_.data);
  const nlohmann::json openmp = nlohmann::json::parse(render_json(a))["openmp"];
  const nlohmann::json row = openmp["regions"][0];
  EXPECT_EQ(row["file"], "/u/a.c");
  EXPECT_EQ(row["line"], 12);
  EXPECT_EQ(row["count"], 10);
  EXPECT_NEAR(row["wait_s"].get<double>(), 3, 1e-6);
  EXPECT_NEAR(row["end_wait_s"].get<double>(), 1, 1e-6);
  EXPECT_EQ(row["constructs"][0]["kind"], "implicit_barrier");
  EXPECT_EQ(row["constructs"][0]["line"], 14);
  EXPECT_EQ(openmp["ranks"][0]["recorded_by"], "gomp");
  EXPECT_EQ(openmp["serial"][0]["line"], 20);
  const std::string text = render_text(a, {120, false, {"openmp", "efficiency"}, 15});
  EXPECT_NE(text.find("solve() a.c:12"), std::string::npos) << text;
  EXPECT_NE(text.find("setup() a.c:20"), std::string::npos) << text;
  EXPECT_NE(text.find("implicit_barrier"), std::string::npos) << text;
  EXPECT_NE(text.find("Two OpenMP run times are used on rank 0"), std::string::npos) << text;
  EXPECT_NE(text.find("waiting for others"), std::string::npos) << text;
}

// Two ranks, of which the second one's threads wait for longer, and in a critical section.
TEST(OpenMpRanks, ARegionHasARowForEachRankAndThread) {
  ProfileBuilder b(2);
  const std::uint32_t path = b.path({b.native("solve", "/u/a.out", "/u/a.c", 12)});
  const std::uint32_t inside = b.child(path, b.native("solve", "/u/a.out", "/u/a.c", 14));
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    b.sampled(rank, path, Category::kNative, 10'000);
    shard::OmpRank& of = b.data.omp_ranks.emplace_back();
    of.rank = rank;
    of.method = shard::OmpMethod::kGomp;
    shard::OmpRegion& region = b.data.omp_regions.emplace_back();
    region.rank = rank;
    region.path = path;
    region.threads = 2;
    region.count = 5;
    region.time_ns = region.longest_ns = 10'000 * kMs;
    region.threads_ns = 20'000 * kMs;
    region.wait_ns = (1 + rank) * 1000 * kMs;
    region.inner_wait_ns = rank * 4000 * kMs;
    shard::OmpThread& thread = b.data.omp_threads.emplace_back();
    thread.rank = rank;
    thread.path = path;
    thread.threads = 2;
    thread.number = 1;
    thread.count = 5;
    thread.time_ns = 10'000 * kMs;
    thread.wait_ns = region.wait_ns;
  }
  shard::OmpConstruct& critical = b.data.omp_constructs.emplace_back();
  critical.rank = 1;
  critical.region_path = path;
  critical.path = inside;
  critical.threads = 2;
  critical.kind = OmpKind::kCritical;
  critical.count = 10;
  critical.time_ns = critical.wait_ns = 4000 * kMs;
  const Analysis a = analyse(b.data);
  const OpenMpRegionRow& row = a.openmp->regions.at(0);
  ASSERT_EQ(row.ranks.size(), 2u);
  const OpenMpRegionRank &first = row.ranks[0], &second = row.ranks[1];
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(second.count, 5u);
  EXPECT_EQ(second.threads, 2u);
  EXPECT_NEAR(second.time_s, 10, 1e-6);
  EXPECT_NEAR(second.thread_s, 20, 1e-6);
  EXPECT_NEAR(second.work_s, 14, 1e-6);
  EXPECT_NEAR(second.wait_s, 6, 1e-6);
  EXPECT_NEAR(second.serial_s, 4, 1e-6);
  EXPECT_NEAR(*second.imbalance, 20.0 / 14, 1e-6);
  EXPECT_NEAR(*second.efficiency.serialization, 14.0 / 18, 1e-6);
  EXPECT_NEAR(*second.efficiency.load_balance, 18.0 / 20, 1e-6);
  EXPECT_NEAR(*second.efficiency.scheduling, 1, 1e-6);
  EXPECT_NEAR(*second.efficiency.parallel, 14.0 / 20, 1e-6);
  EXPECT_NEAR(*first.efficiency.serialization, 1, 1e-6);
  EXPECT_NEAR(*first.efficiency.load_balance, 19.0 / 20, 1e-6);
  EXPECT_NEAR(*row.efficiency.parallel, 33.0 / 40, 1e-6);
  EXPECT_NEAR(*row.efficiency.serialization, 33.0 / 37, 1e-6);
  ASSERT_EQ(first.threads_of_team.size(), 2u);
  EXPECT_NEAR(first.threads_of_team[1].wait_s, 1, 1e-6);
  EXPECT_NEAR(second.threads_of_team.at(1).wait_s, 2, 1e-6);
  const auto json = nlohmann::json::parse(render_json(a))["openmp"]["regions"][0]["by_rank"][1];
  EXPECT_EQ(json["rank"], 1);
  EXPECT_NEAR(json["serialization"].get<double>(), 14.0 / 18, 1e-6);
  EXPECT_NEAR(json["by_thread"][1]["wait_s"].get<double>(), 2, 1e-6);

  std::vector<OpenMpRegionRank> kept = row.ranks;
  keep_costly(kept, 1);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].rank, 1);
}

// In a region that the program has named: 4 s on one thread, and 6 s of a team of two. Before it: 2 s.
TEST(OpenMpInRegions, TheyHaveItsEfficiencies) {
  ProfileBuilder b(1);
  const shard::Frame main = b.native("main", "/u/a.out", "/u/a.c", 99);
  const std::uint32_t before = b.path({main, b.native("read", "/u/a.out", "/u/a.c", 5)});
  const std::uint32_t step = b.path({main, b.region("step")});
  const std::uint32_t setup = b.child(step, b.native("setup", "/u/a.out", "/u/a.c", 20));
  const std::uint32_t solve = b.child(step, b.native("solve", "/u/a.out", "/u/a.c", 12));
  b.data.ranks[0].elapsed_ns = 12'000 * kMs;
  b.sampled(0, before, Category::kNative, 2000);
  b.sampled(0, setup, Category::kNative, 4000);
  b.sampled(0, b.child(solve, b.native("body", "/u/a.out", "/u/a.c", 14)), Category::kNative, 6000);
  b.data.omp_ranks.emplace_back().method = shard::OmpMethod::kGomp;
  shard::OmpRegion& region = b.data.omp_regions.emplace_back();
  region.path = solve;
  region.threads = 2;
  region.count = 1;
  region.time_ns = region.longest_ns = 6000 * kMs;
  region.threads_ns = 12'000 * kMs;
  region.wait_ns = 3000 * kMs;
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.regions.size(), 1u);
  const RegionRow& row = a.regions[0];
  EXPECT_NEAR(*row.openmp.serialization, 13.0 / 17, 1e-3);
  EXPECT_NEAR(*row.openmp.load_balance, 17.0 / 20, 1e-3);
  EXPECT_NEAR(*row.openmp.scheduling, 1, 1e-6);
  EXPECT_NEAR(*row.openmp.parallel, 13.0 / 20, 1e-3);
  EXPECT_NEAR(*row.hybrid_parallel, *row.openmp.parallel, 1e-9) << "there is no MPI";
  EXPECT_NEAR(*a.openmp->efficiency.parallel, 15.0 / 24, 1e-6);
  const auto json = nlohmann::json::parse(render_json(a))["regions"][0]["openmp"];
  EXPECT_NEAR(json["parallel"].get<double>(), 13.0 / 20, 1e-3);
}

}  // namespace
}  // namespace clusterprof::report
