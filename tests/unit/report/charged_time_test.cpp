// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/charged_time.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "profile_builder.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::kMs;
using testing::ProfileBuilder;

// Rank 0 ran for 10 s, of which samples say 2 s were in MPI and 4 s elsewhere; its calls took 6 s.
class ChargedTime : public ::testing::Test {
 protected:
  ChargedTime() {
    b_.sampled(0, work_, Category::kNative, 3000);
    b_.sampled(0, read_, Category::kIo, 1000);
    b_.sampled(0, send_, Category::kMpi, 2000);
    b_.sampled(0, work_, Category::kNative, 7000, false);
    b_.called(0, send_, 5, 3500);
    b_.called(0, barrier_, 1, 2500);
    b_.sampled(1, work_, Category::kNative, 1234);
    b_.sampled(1, send_, Category::kMpi, 17);
  }

  // Sum in milliseconds over the rows that have this path and category.
  static std::uint64_t ms(const std::vector<ChargedValue>& values, std::uint32_t path, Category category,
                          bool main_thread = true) {
    std::uint64_t ns = 0;
    for (const ChargedValue& v : values)
      if (v.path == path && v.category == category && v.main_thread == main_thread) ns += v.wall_ns;
    return ns / kMs;
  }
  [[nodiscard]] std::vector<ChargedValue> charged(std::uint32_t rank) const {
    std::vector<shard::Value> values;
    for (const shard::Value& value : b_.data.values)
      if (value.rank == rank) values.push_back(value);
    TimeCharger charger(b_.data);
    const auto rows = charger.charge(rank, values);
    return {rows.begin(), rows.end()};
  }

  ProfileBuilder b_{2};
  const std::uint32_t work_ = b_.path({b_.native("work", "/a.out", "a.c", 3)});
  const std::uint32_t read_ = b_.path({b_.native("work", "/a.out", "a.c", 4), b_.kernel("read")});
  const std::uint32_t send_ = b_.path({b_.native("work", "/a.out", "a.c", 5), b_.mpi("MPI_Send")});
  const std::uint32_t barrier_ = b_.path({b_.native("work", "/a.out", "a.c", 6), b_.mpi("MPI_Barrier")});
};

TEST_F(ChargedTime, CallsReplaceSamplesAndTheRestIsScaled) {
  EXPECT_DOUBLE_EQ(sampled_scale(b_.data.ranks[0], false), 1.0);
  b_.data.ranks[0].elapsed_ns = 12'000 * kMs;  // 6 s outside MPI, of which 4 s were sampled
  EXPECT_DOUBLE_EQ(sampled_scale(b_.data.ranks[0], false), 1.5);

  const std::vector<ChargedValue> of_rank = charged(0);
  EXPECT_EQ(ms(of_rank, work_, Category::kNative), 4500u);
  EXPECT_EQ(ms(of_rank, read_, Category::kIo), 1500u);
  EXPECT_EQ(ms(of_rank, send_, Category::kMpi), 3500u) << "not the 2000 of the samples";
  EXPECT_EQ(ms(of_rank, barrier_, Category::kMpi), 2500u) << "no sample was there";
  EXPECT_EQ(ms(of_rank, work_, Category::kNative, false), 7000u) << "helper threads as sampled";

  std::uint64_t main_ns = 0;
  for (const ChargedValue& v : of_rank)
    if (v.main_thread) main_ns += v.wall_ns;
  EXPECT_EQ(main_ns, b_.data.ranks[0].elapsed_ns);
}

TEST_F(ChargedTime, ARankWithoutMpiIsAsSampled) {
  EXPECT_DOUBLE_EQ(sampled_scale(b_.data.ranks[1], false), 1.0);
  EXPECT_EQ(ms(charged(1), work_, Category::kNative), 1234u);
  EXPECT_EQ(ms(charged(1), send_, Category::kMpi), 17u);
}

TEST_F(ChargedTime, TheCpuClockChangesNothing) {
  b_.data.run.clock = "cpu";
  b_.data.ranks[0].elapsed_ns = 12'000 * kMs;
  EXPECT_DOUBLE_EQ(sampled_scale(b_.data.ranks[0], true), 1.0);
  for (const std::uint32_t rank : {0u, 1u}) {
    std::vector<ChargedValue> as_sampled;
    for (const shard::Value& v : b_.data.values)
      if (v.rank == rank) as_sampled.push_back({v.path, v.category, v.main_thread, v.wall_ns, v.cpu_ns});
    EXPECT_EQ(charged(rank), as_sampled);
  }
}

TEST_F(ChargedTime, MoreMpiThanElapsedLeavesNothingForTheRest) {
  b_.data.ranks[0].elapsed_ns = 5'000 * kMs;
  EXPECT_DOUBLE_EQ(sampled_scale(b_.data.ranks[0], false), 0.0);
  EXPECT_EQ(ms(charged(0), work_, Category::kNative), 0u);
}

TEST_F(ChargedTime, WithoutSamplesOutsideMpiThereIsNothingToScale) {
  b_.data.ranks[0].main_thread_ns = {};
  EXPECT_DOUBLE_EQ(sampled_scale(b_.data.ranks[0], false), 1.0);
}

TEST_F(ChargedTime, DamagedIndicesAreLeftOut) {
  const std::vector<ChargedValue> before = charged(0);
  const auto no_path = static_cast<std::uint32_t>(b_.data.paths.size());
  b_.data.values.push_back({0, no_path, Category::kNative, true, kMs, kMs, 1});
  b_.data.values.push_back({0, shard::kNone, Category::kMpi, true, kMs, kMs, 1});
  b_.data.values.push_back({0, work_, static_cast<Category>(shard::kCategories), true, kMs, kMs, 1});
  b_.data.mpi_calls.push_back({2, send_, 0, 1, kMs, 1, 1, 0, 0});
  b_.data.mpi_calls.push_back({0, no_path, 0, 1, kMs, 1, 1, 0, 0});
  EXPECT_EQ(charged(0), before);
}

TEST_F(ChargedTime, IsRoundedToTheNearestNanosecond) {
  for (const double ns :
       {0.0, 0.49999999999999994, 0.5, 1.5, 2.5, 2.4, 1e9 + 0.5, 4503599627370497.0, 6e15 + 1})
    EXPECT_EQ(round_ns(ns), static_cast<std::uint64_t>(std::llround(ns))) << ns;
  EXPECT_EQ(round_ns(1e30), 9'000'000'000'000'000'000u);
}

}  // namespace
}  // namespace clusterprof::report
