// SPDX-License-Identifier: BSD-3-Clause
// OpenMP regions in predictions: the thread of a team that works longest decides. All times are known by
// construction.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "aggregator/whatif/teams.hpp"
#include "aggregator/whatif/whatif.hpp"
#include "tests/unit/aggregator/one_rank_run.hpp"

namespace clusterprof::aggregator::whatif {
namespace {

constexpr std::uint64_t kTeamMs = 1'000'000;

// One rank: 2 s of serial work, and a region at main() loop.c:10. Times are in milliseconds.
class TeamsTest : public ::testing::Test {
 protected:
  TeamsTest() {
    region = path(0, "main", 10);
    value(path(0, "serial", 20), true, 2000);
  }

  std::uint32_t path(std::uint32_t parent, const char* name, std::uint32_t line,
                     shard::FrameKind kind = shard::FrameKind::kNative) {
    return run.path(parent, kind, name, "/u/loop.c", line);
  }
  std::uint32_t body(std::uint32_t line) { return path(region, "main._omp_fn.0", line); }
  void value(std::uint32_t at, bool main, std::uint64_t ms) {
    data.values.push_back({0, at, shard::Category::kNative, main, ms * kTeamMs, 0, ms / 10});
  }
  // What each thread of the team does: by path.
  void team(const std::vector<std::map<std::uint32_t, std::uint64_t>>& threads, std::uint64_t ms,
            std::uint64_t longest_ms, std::uint64_t inner_wait_ms = 0) {
    shard::OmpRegion row;
    row.path = region, row.threads = static_cast<std::uint32_t>(threads.size()), row.count = 1;
    row.time_ns = ms * kTeamMs;
    row.longest_ns = longest_ms * kTeamMs;
    row.threads_ns = row.threads * row.time_ns;
    row.inner_wait_ns = inner_wait_ms * kTeamMs;
    std::uint64_t work_ms = 0;
    for (std::uint32_t t = 0; t < threads.size(); ++t) {
      std::uint64_t own_ms = 0;
      for (const auto& [at, of_ms] : threads[t]) {
        if (by_thread) data.span_times.push_back({0, t, 0, at, of_ms * kTeamMs});
        value(at, t == 0, of_ms);
        own_ms += of_ms;
      }
      shard::OmpThread thread;
      thread.path = region, thread.threads = row.threads, thread.number = t, thread.count = 1;
      thread.time_ns = row.time_ns;
      thread.wait_ns = (ms - own_ms) * kTeamMs;
      data.omp_threads.push_back(thread);
      work_ms += own_ms;
    }
    row.wait_ns = row.threads_ns - row.inner_wait_ns - work_ms * kTeamMs;
    data.omp_regions.push_back(row);
    // Until the barrier is over the main thread waits at it.
    std::uint64_t of_main = 0;
    for (const auto& [at, of_ms] : threads[0]) of_main += of_ms;
    if (of_main < ms)
      value(path(region, std::string(shard::kOmpBarrierName).c_str(), 0, shard::FrameKind::kKernel), true,
            ms - of_main);
    data.ranks[0].elapsed_ns = (2000 + ms) * kTeamMs;
    data.ranks[0].threads = row.threads;
  }

  // In ms; below 0: refused.
  double with(const std::vector<std::string>& changes) {
    WhatIf whatif;
    whatif.add(data);
    EXPECT_TRUE(whatif.prepare());
    std::vector<Change> parsed;
    for (const std::string& text : changes) parsed.push_back(parse_change(text).value());
    const Result<Prediction> prediction = whatif.predict(parsed);
    if (!prediction) return -1;
    error_ms = prediction.value().error_s * 1e3;
    return prediction.value().outcome.elapsed_s * 1e3;
  }

  test::OneRankRun run{0};  // team() says how long it is
  shard::ShardData& data = run.data;
  std::uint32_t region = 0;
  double error_ms = 0;
  bool by_thread = true;  // what each one does is known
};

// Each thread spends 2 s in f, the third one 6 s in f and 2 s in g.
class UnevenTeam : public TeamsTest {
 protected:
  void make() {
    const std::uint32_t f = path(body(11), "f", 30), g = path(body(11), "g", 40);
    team({{{f, 2000}}, {{f, 2000}}, {{f, 6000}, {g, 2000}}, {{f, 2000}}}, 8000, 8000);
  }
};

TEST_F(UnevenTeam, TheLastThreadDecides) {
  make();
  EXPECT_NEAR(with({}), 10'000, 0.01);
  EXPECT_NEAR(with({"function f x0.5"}), 7000, 0.01) << "the main thread's 2 s would have gained 1 s";
  EXPECT_LT(error_ms, 500) << "what other threads gain is gained";
  EXPECT_NEAR(with({"function f x0"}), 4000, 0.01);
  EXPECT_NEAR(with({"function g x0"}), 8000, 0.01) << "the main thread has none of it";
  EXPECT_NEAR(with({"function f x2"}), 16'000, 0.01);
  EXPECT_NEAR(with({"function serial x0"}), 8000, 0.01);
  EXPECT_NEAR(with({"function f x0", "function g x0", "function serial x0"}), 0, 0.01);
}

TEST_F(UnevenTeam, AFunctionIsBalancedAmongTheThreads) {
  make();
  EXPECT_NEAR(with({"balance function f"}), 7000, 0.01) << "3 s each, and 2 s of another one";
  EXPECT_NEAR(with({"balance function g"}), 8500, 0.01);
  EXPECT_NEAR(with({"balance function f", "balance function g"}), 5500, 0.01);
  EXPECT_LT(with({"balance function serial"}), 0) << "nobody shares it";
}

TEST_F(UnevenTeam, NumbersOfThreadsAndOtherChangesAreMultiplied) {
  make();
  EXPECT_NEAR(with({"threads 8"}), 6000, 0.01);
  EXPECT_NEAR(with({"threads 8", "function f x0.5"}), 4500, 0.01);
}

TEST_F(UnevenTeam, WithoutTimesOfEachThreadTheirNumbersTell) {
  by_thread = false;
  make();
  // Of the others' 12 s the third thread has two thirds: 6.67 s of f.
  EXPECT_NEAR(with({"function f x0.5"}), 2000 + 8000 - 10'000.0 / 3, 1);
  EXPECT_NEAR(with({"function g x0"}), 2000 + 8000 - 4000.0 / 3, 1);
}

TEST_F(TeamsTest, EachInstanceMayHaveAnotherLastThread) {
  const std::uint32_t f = path(body(11), "f", 30);
  team({{{f, 5000}}, {{f, 5000}}}, 8000, 8000);  // both work for 5 s, but in turns
  EXPECT_NEAR(with({"function f x0.5"}), 6000, 0.01);
  EXPECT_NEAR(with({"balance function f"}), 7000, 0.01);
}

TEST_F(TeamsTest, WhatARegionTakesBesidesWorkStays) {
  const std::uint32_t f = path(body(11), "f", 30);
  team({{{f, 3000}}, {{f, 1000}}}, 4000, 3000);
  EXPECT_NEAR(with({"function f x0"}), 3000, 0.01);
}

TEST_F(TeamsTest, BehindABarrierAnotherThreadMayBeTheLast) {
  const std::uint32_t f = path(body(11), "f", 30), g = path(body(12), "g", 40);
  team({{{f, 10'000}, {g, 2000}}, {{f, 2000}, {g, 10'000}}}, 20'000, 12'000, 8000);
  EXPECT_NEAR(with({"function f x0.5"}), 17'000, 0.01);
  EXPECT_NEAR(with({"function g x0"}), 12'000, 0.01);
}

TEST_F(TeamsTest, RegionsInRegionsBelongToTheOuterOne) {
  const std::uint32_t f = path(body(11), "f", 30), inner = path(f, "f._omp_fn.0", 31);
  team({{{inner, 3000}}, {{f, 1000}, {inner, 5000}}}, 6000, 6000);
  shard::OmpRegion nested = data.omp_regions[0];
  nested.path = f, nested.level = 1, nested.main = 0;
  data.omp_regions.push_back(nested);
  EXPECT_NEAR(with({"function f._omp_fn.0 x0"}), 3000, 0.01);
}

TEST(Teams, TellNothingOfRegionsThatTheyDoNotHave) {
  shard::ShardData data;
  data.ranks.resize(1);
  const Teams teams(data);
  EXPECT_FALSE(teams.knows(0, 1));
  EXPECT_TRUE(teams.factors([](auto, auto, auto) { return 0.5; }, {}).empty());
}

}  // namespace
}  // namespace clusterprof::aggregator::whatif
