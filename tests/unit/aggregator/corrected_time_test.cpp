// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/corrected_time.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "tests/unit/report/profile_builder.hpp"

namespace clusterprof::aggregator {
namespace {

using report::testing::kMs;
using report::testing::ProfileBuilder;
using shard::Category;
using shard::ShardData;

// Rank 0 ran for 10 s. Its samples show 2 s in MPI and 4 s elsewhere; its calls took 6 s.
class CorrectedTime : public ::testing::Test {
 protected:
  CorrectedTime() {
    b_.sampled(0, work_, Category::kNative, 3000);
    b_.sampled(0, read_, Category::kIo, 1000);
    b_.sampled(0, send_, Category::kMpi, 2000);
    b_.sampled(0, work_, Category::kNative, 7000, false);
    b_.called(0, send_, 5, 3500);
    b_.called(0, barrier_, 1, 2500);
    b_.sampled(1, work_, Category::kNative, 1234);
  }

  [[nodiscard]] ShardData corrected() const {
    ShardData data = b_.data;
    correct_times(data);
    return data;
  }
  static std::uint64_t ns(const ShardData& data, std::uint32_t rank, std::uint32_t path, Category category,
                          bool main_thread = true) {
    std::uint64_t sum = 0;
    for (const shard::Value& v : data.values)
      if (v.rank == rank && v.path == path && v.category == category && v.main_thread == main_thread)
        sum += v.wall_ns;
    return sum;
  }
  static std::uint64_t main_ns(const ShardData& data, std::uint32_t rank, Category category) {
    return data.ranks[rank].main_thread_ns[static_cast<std::size_t>(category)];
  }
  // Rows of the main thread add up to the rank's categories, and these to its recorded time.
  static void expect_sums(const ShardData& data) {
    for (std::uint32_t rank = 0; rank < data.ranks.size(); ++rank) {
      std::array<std::uint64_t, shard::kCategories> sums{};
      for (const shard::Value& v : data.values)
        if (v.rank == rank && v.main_thread) sums[static_cast<std::size_t>(v.category)] += v.wall_ns;
      EXPECT_EQ(sums, data.ranks[rank].main_thread_ns) << "rank " << rank;
      std::uint64_t all = 0;
      for (const std::uint64_t sum : sums) all += sum;
      EXPECT_EQ(all, data.ranks[rank].elapsed_ns - data.ranks[rank].paused_ns) << "rank " << rank;
    }
  }

  ProfileBuilder b_{2};
  const std::uint32_t work_ = b_.path({b_.native("work", "/a.out", "a.c", 3)});
  const std::uint32_t read_ = b_.path({b_.native("work", "/a.out", "a.c", 4), b_.kernel("read")});
  const std::uint32_t send_ = b_.path({b_.native("work", "/a.out", "a.c", 5), b_.mpi("MPI_Send")});
  const std::uint32_t barrier_ = b_.path({b_.native("work", "/a.out", "a.c", 6), b_.mpi("MPI_Barrier")});
};

TEST_F(CorrectedTime, MeasuredCallsReplaceSamplesAndTheRestIsScaled) {
  b_.data.ranks[0].elapsed_ns = 12'000 * kMs;  // 6 s outside MPI, of which 4 s were sampled
  const ShardData data = corrected();
  EXPECT_EQ(ns(data, 0, work_, Category::kNative), 4500 * kMs);
  EXPECT_EQ(ns(data, 0, read_, Category::kIo), 1500 * kMs);
  EXPECT_EQ(ns(data, 0, send_, Category::kMpi), 3500 * kMs) << "not the 2000 ms of the samples";
  EXPECT_EQ(ns(data, 0, barrier_, Category::kMpi), 2500 * kMs) << "no sample was there";
  EXPECT_EQ(ns(data, 0, work_, Category::kNative, false), 7000 * kMs) << "helper threads as sampled";
  EXPECT_EQ(ns(data, 1, work_, Category::kNative), 10'000 * kMs) << "a rank without MPI too";
  EXPECT_EQ(data.ranks[0].raw_main_thread_ns, b_.data.ranks[0].main_thread_ns);
  for (const shard::Value& row : data.values)
    if (row.path == send_ || row.path == work_) {
      EXPECT_NE(row.samples, 0u) << "samples stay";
    }
  expect_sums(data);
}

// Over time, a path and the paths below it have its inclusive time in `Value`, whichever of them have rows.
TEST_F(CorrectedTime, TimeOfPathsOverTheRunAddsUpToInclusiveTime) {
  const std::uint32_t root = 0;
  b_.data.path_axis = {std::uint64_t{1} << 30, 0};
  // No sample was in the barrier; its time goes to the nearest path above with rows, here none.
  b_.data.path_series = {
      {work_, 0, 1000 * kMs}, {work_, 2, 3000 * kMs}, {send_, 1, 2000 * kMs}, {send_, 3, 1 * kMs}};
  const ShardData data = corrected();
  std::vector<std::uint64_t> due(data.paths.size()), found(due), raw(due);
  for (const shard::Value& row : data.values) due[row.path] += row.wall_ns;
  for (const shard::PathSeries& row : data.path_series) {
    found[row.path] += row.wall_ns;
    raw[row.path] += row.raw_wall_ns;
  }
  EXPECT_EQ(found[work_], due[work_]);
  EXPECT_EQ(found[send_], 3500 * kMs) << "measured, not the 2001 ms of the samples";
  EXPECT_EQ(raw[send_], 2001 * kMs);
  EXPECT_EQ(raw[root], 0u);
  EXPECT_EQ(found[root] + found[work_] + found[send_],
            std::accumulate(due.begin(), due.end(), std::uint64_t{0}));
  for (const shard::PathSeries& row : data.path_series)
    if (row.path == work_) {
      EXPECT_NEAR(static_cast<double>(row.wall_ns),
                  static_cast<double>(due[work_]) * (row.bin == 0 ? 0.25 : 0.75), 1);
    }
  ShardData back = data;
  restore_path_series(back);
  EXPECT_EQ(back.path_series, b_.data.path_series);
}

TEST_F(CorrectedTime, SumsAreExactWhateverTheRounding) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    ShardData data = b_.data;
    for (shard::Rank& rank : data.ranks) rank.main_thread_ns = {};
    for (shard::Value& row : data.values) {
      row.wall_ns = random() % (std::uint64_t{1} << (1 + random() % 45));
      if (row.main_thread)
        data.ranks[row.rank].main_thread_ns[static_cast<std::size_t>(row.category)] += row.wall_ns;
    }
    for (shard::Rank& rank : data.ranks) rank.elapsed_ns = 6000 * kMs + random() % (std::uint64_t{1} << 50);
    data.ranks[1].main_thread_ns[static_cast<std::size_t>(Category::kNative)] += 1;
    for (shard::Value& row : data.values)
      if (row.rank == 1) ++row.wall_ns;
    data.ranks[0].paused_ns = random() % 1000;
    correct_times(data);
    if (data.ranks[0].raw_main_thread_ns[1] + data.ranks[0].raw_main_thread_ns[4] != 0) expect_sums(data);
  }
}

TEST_F(CorrectedTime, CpuClockLeavesRowsAsTheyAre) {
  b_.data.run.clock = "cpu";
  b_.data.ranks[0].elapsed_ns = 12'000 * kMs;
  const ShardData data = corrected();
  EXPECT_EQ(ns(data, 0, work_, Category::kNative), 3000 * kMs);
  EXPECT_EQ(ns(data, 0, send_, Category::kMpi), 2000 * kMs);
  EXPECT_EQ(main_ns(data, 0, Category::kNative), 3000 * kMs);
  EXPECT_EQ(main_ns(data, 0, Category::kMpi), 6000 * kMs)
      << "the rank's time in MPI is measured all the same";
}

TEST_F(CorrectedTime, MpiTimeAboveTheRecordedTimeIsCutToIt) {
  b_.data.ranks[0].elapsed_ns = 6'000 * kMs;
  b_.data.ranks[0].paused_ns = 1'000 * kMs;
  const ShardData data = corrected();
  EXPECT_EQ(ns(data, 0, work_, Category::kNative), 0u);
  EXPECT_EQ(main_ns(data, 0, Category::kMpi), 5'000 * kMs);
  EXPECT_EQ(data.ranks[0].mpi_ns, 5'000 * kMs);
  expect_sums(data);
}

TEST_F(CorrectedTime, CallsWithoutACallPathGoToTheRoot) {
  b_.data.ranks[0].mpi_ns += 700 * kMs;  // the table of call sites was full
  const ShardData data = corrected();
  EXPECT_EQ(ns(data, 0, 0, Category::kMpi), 700 * kMs);
  EXPECT_EQ(ns(data, 0, send_, Category::kMpi), 3500 * kMs);
  expect_sums(data);
}

TEST_F(CorrectedTime, RankWithoutSamplesOutsideMpiHasOnlyMpiTime) {
  b_.data.ranks[0].main_thread_ns = {};
  b_.data.values.clear();
  const ShardData data = corrected();
  EXPECT_EQ(ns(data, 0, barrier_, Category::kMpi), 2500 * kMs) << "a rank without a row";
  EXPECT_EQ(main_ns(data, 0, Category::kMpi), 6000 * kMs);
  EXPECT_EQ(main_ns(data, 0, Category::kNative), 0u);
}

TEST_F(CorrectedTime, SampledMpiTimeStaysWhereCallsWereNotWatched) {
  b_.sampled(1, send_, Category::kMpi, 17);
  const ShardData data = corrected();
  EXPECT_EQ(ns(data, 1, send_, Category::kMpi), 17 * kMs);
  expect_sums(data);
}

TEST_F(CorrectedTime, SurvivesDamagedIndices) {
  const ShardData before = corrected();
  const auto no_path = static_cast<std::uint32_t>(b_.data.paths.size());
  b_.data.values.push_back({0, no_path, Category::kNative, false, kMs, kMs, 1});
  b_.data.values.push_back({7, work_, Category::kNative, true, kMs, kMs, 1});
  b_.data.values.push_back({0, work_, static_cast<Category>(shard::kCategories), true, kMs, kMs, 1});
  b_.data.mpi_calls.push_back({2, send_, 0, 1, kMs, 1, 1, 0, 0});
  const ShardData data = corrected();
  EXPECT_EQ(data.values.size(), before.values.size() + 3);
  EXPECT_EQ(data.ranks, before.ranks);
}

}  // namespace
}  // namespace clusterprof::aggregator
