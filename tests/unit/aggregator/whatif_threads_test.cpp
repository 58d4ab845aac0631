// SPDX-License-Identifier: BSD-3-Clause
// OpenMP regions with another number of threads.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "aggregator/whatif/threads.hpp"
#include "aggregator/whatif/whatif.hpp"
#include "tests/unit/aggregator/one_rank_run.hpp"

namespace clusterprof::aggregator::whatif {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// One rank of 20 s with a region of two threads at main() loop.c:10, and one of four in a library.
class ThreadsTest : public ::testing::Test {
 protected:
  ThreadsTest() {
    const auto path = [&](std::uint32_t parent, const char* name, std::uint32_t line) {
      return run.path(parent, shard::FrameKind::kNative, name, "/u/loop.c", line);
    };
    region = path(0, "main", 10);
    body = path(region, "main._omp_fn.0", 11);
    inner = path(body, "work", 30);
    serial = path(0, "main", 20);
    other_region = path(serial, "library", 40);
    run.time(body, 4000);
    run.time(inner, 8000);
    run.time(serial, 6000);
    run.time(other_region, 2000);
    add(region, 2, 12'000);
    add(other_region, 4, 2000);
  }

  void add(std::uint32_t path, std::uint32_t threads, std::uint64_t ms) {
    shard::OmpRegion row;
    row.path = path, row.threads = threads, row.time_ns = ms * kMs, row.count = 1;
    row.threads_ns = threads * row.time_ns;
    data.omp_regions.push_back(row);
  }

  // Seconds that the run takes; below 0: refused.
  double with(const std::string& change) {
    WhatIf whatif;
    whatif.add(data);
    EXPECT_TRUE(whatif.prepare());
    const Result<Prediction> prediction = whatif.predict({parse_change(change).value()});
    if (!prediction) return -1;
    error_s = prediction.value().error_s;
    return prediction.value().outcome.elapsed_s;
  }

  test::OneRankRun run{20'000};
  shard::ShardData& data = run.data;
  std::uint32_t region = 0, body = 0, inner = 0, serial = 0, other_region = 0;
  double error_s = 0;
};

TEST_F(ThreadsTest, WorkIsSpreadAndTheRestStays) {
  EXPECT_NEAR(with("threads 4"), 14, 1e-3) << "two threads become four, four stay four, 6 s are serial";
  EXPECT_GT(error_s, 0.25 * 6) << "how well it scales is not known";
  EXPECT_NEAR(with("threads 8"), 10, 1e-3);
  EXPECT_NEAR(with("threads 1"), 38, 1e-3);
  EXPECT_NEAR(with("threads 2"), 22, 1e-3) << "the library's region has half of its threads";
}

TEST_F(ThreadsTest, WhereOneThreadWorksAtATimeNoneHelps) {
  shard::OmpConstruct critical;
  critical.region_path = region, critical.threads = 2, critical.path = body;
  critical.kind = shard::OmpKind::kCritical, critical.wait_ns = 4000 * kMs;
  data.omp_constructs.push_back(critical);
  EXPECT_NEAR(with("threads 4"), 16, 1e-3) << "the other thread waited for 4 s of the 12 s";
  data.omp_constructs.back().kind = shard::OmpKind::kBarrier;
  EXPECT_NEAR(with("threads 4"), 14, 1e-3) << "at a barrier others work";
}

TEST_F(ThreadsTest, MpiInARegionStays) {
  data.omp_regions[0].mpi_ns = 4000 * kMs;  // no value has it: 8 s outside MPI scale as 12 s did
  const ThreadFactors factors(data, 4);
  EXPECT_FLOAT_EQ(factors.of(0, inner), 0.5F);
  EXPECT_FLOAT_EQ(factors.of(0, serial), 1);
  EXPECT_FLOAT_EQ(factors.of(0, other_region), 1);
}

TEST_F(ThreadsTest, RegionsOfOtherThreadsDoNotCount) {
  data.omp_regions[0].main = 0;
  EXPECT_NEAR(with("threads 8"), 19, 1e-3) << "the library's region alone";
  data.omp_regions.clear();
  EXPECT_LT(with("threads 4"), 0) << "there is none";
}

TEST_F(ThreadsTest, EachRankHasItsOwnRegions) {
  data.ranks.push_back(data.ranks[0]);
  data.ranks[1].rank = 1;
  std::vector<shard::Value> of_second = data.values;
  for (shard::Value& value : of_second) {
    value.rank = 1;
    data.values.push_back(value);
  }
  EXPECT_NEAR(with("threads 4"), 20, 1e-3) << "rank 1 calls the same outside of regions: it stays";
  shard::OmpRegion row = data.omp_regions[0];
  row.rank = 1, row.threads = 8, row.threads_ns = 8 * row.time_ns;
  data.omp_regions.push_back(row);
  const ThreadFactors factors(data, 4);
  EXPECT_FLOAT_EQ(factors.of(0, inner), 0.5F);
  EXPECT_FLOAT_EQ(factors.of(1, inner), 2);
  EXPECT_FLOAT_EQ(factors.of(1, other_region), 1);
}

TEST_F(ThreadsTest, WhatOneThreadRanStays) {
  // The program has reasons for a team of one, as it has others.
  data.omp_regions[1].threads = 1;
  data.omp_regions[1].threads_ns = data.omp_regions[1].time_ns;
  EXPECT_NEAR(with("threads 4"), 14, 1e-3) << "the 2 s of one thread stay";
  // One thread of two has all of the work, and the other waits for 12 s.
  data.omp_regions[0].longest_ns = data.omp_regions[0].time_ns;
  data.omp_regions[0].wait_ns = data.omp_regions[0].time_ns;
  EXPECT_NEAR(with("threads 4"), 20, 1e-3);
  data.omp_regions[0].wait_ns = 8000 * kMs;  // it works for 4 s
  EXPECT_NEAR(with("threads 4"), 14, 1e-3) << "imbalance keeps its share";
}

TEST_F(ThreadsTest, ARankOfOneThreadGetsMore) {
  for (shard::OmpRegion& row : data.omp_regions) row.threads = 1, row.threads_ns = row.time_ns;
  EXPECT_NEAR(with("threads 2"), 13, 1e-3) << "14 s in regions, 6 s outside";
}

TEST_F(ThreadsTest, TheOutermostRegionHasTheThreads) {
  add(inner, 4, 8000);  // below `region`, and of level 0: begun from a place that a region is also above
  const ThreadFactors factors(data, 4);
  EXPECT_FLOAT_EQ(factors.of(0, inner), 0.5F);
  EXPECT_FLOAT_EQ(factors.of(0, body), 0.5F);
}

}  // namespace
}  // namespace clusterprof::aggregator::whatif
