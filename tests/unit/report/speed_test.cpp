// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <ctime>

#include "profile_builder.hpp"
#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/placement.hpp"
#include "report/report.hpp"
#include "tests/support/measured.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::ProfileBuilder;

std::string numbered(std::string name, std::uint32_t number) { return name.append(std::to_string(number)); }

shard::ShardData large_run(std::uint32_t ranks, std::uint32_t leaves) {
  ProfileBuilder b(ranks, ranks / 64);
  const auto main = b.python("main", "/u/train.py", 10, 1);
  std::vector<std::uint32_t> paths;
  for (std::uint32_t i = 0; i < leaves; ++i) {
    std::uint32_t at = b.path({main});
    for (std::uint32_t depth = 0; depth < 12; ++depth)
      at = b.child(at, b.python(numbered("f", depth * 7 + i % (depth + 1)), "/u/model.py",
                                10 * depth + i % (depth + 1), depth));
    paths.push_back(b.child(at, b.native(numbered("leaf_", i), "/u/x.so", "x.c", i + 1)));
  }
  const auto reduce = b.path({main, b.mpi("MPI_Allreduce")});
  for (std::uint32_t r = 0; r < ranks; ++r) {
    for (const std::uint32_t path : paths) b.sampled(r, path, Category::kNative, 10 + r % 7);
    b.called(r, reduce, 1000, 2000 - r % 100, 8000, 8000);
    for (std::uint32_t hop = 1; hop <= 1024; hop *= 4)
      b.data.matrix.push_back(
          {static_cast<std::int32_t>(r), static_cast<std::int32_t>((r + hop) % ranks), 100, 8000});
  }
  // Each rank waits for two neighbours in two places and at a collective for one of 64 slow ranks.
  const auto receive = b.path({main, b.mpi("MPI_Recv")});
  for (std::uint32_t r = 0; r < ranks; ++r) {
    for (std::uint32_t i = 0; i < 4; ++i)
      b.waited(r, receive, shard::WaitKind::kLateSender, (r + 1 + i / 2) % ranks, paths[(r + i) % leaves], 2);
    b.waited(r, reduce, shard::WaitKind::kWaitAtNxN, r % 64, paths[r % leaves], 10);
    b.data.root_causes.push_back({r, paths[r % leaves], 10 * testing::kMs, 3});
    b.data.critical_times.push_back({r, paths[(r + 1) % leaves], testing::kMs});
  }
  return std::move(b.data);
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// The bound is for optimised builds; sanitizers and -O0 get ten times as much.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr double kBound_s = 0.3;
#else
constexpr double kBound_s = 3.0;
#endif

TEST(Speed, Of4096RanksIsExplainedInTime) {
  EXPECT_TRUE(test::measured([](test::Measurements& measurements) {
    const shard::ShardData data = large_run(4096, 100);
    const double start = cpu_seconds();
    const Analysis analysis = analyse(data);
    const double analysed = cpu_seconds();
    const std::string text = render_text(analysis, {});
    const double end = cpu_seconds();
    const std::string json = render_json(analysis);
    const double json_end = cpu_seconds();
    RecordProperty("analyse_ms", static_cast<int>((analysed - start) * 1e3));
    RecordProperty("text_ms", static_cast<int>((end - analysed) * 1e3));
    RecordProperty("json_ms", static_cast<int>((json_end - end) * 1e3));
    EXPECT_EQ(analysis.ranks.size(), 4096u);
    EXPECT_EQ(analysis.matrix.size(), 6u * 4096u);
    EXPECT_GT(json.size(), 1'000'000u);
    EXPECT_LT(text.size(), 20'000u);
    measurements.at_most(end - start, kBound_s, "seconds for the text");
    measurements.at_most(json_end - end, kBound_s, "seconds for the JSON");
  }));
}

// Each of the ranks was in a call when the job was killed.
TEST(Speed, CallsUnderWayAreNotSearchedForEachRank) {
  EXPECT_TRUE(test::measured([](test::Measurements& measurements) {
    constexpr std::int32_t kRanks = 16'384;
    Analysis analysis;
    analysis.focus_s = 10;
    for (std::int32_t r = 0; r < kRanks; ++r) {
      RankInfo& rank = analysis.ranks.emplace_back();
      rank.rank = r;
      rank.category_s[static_cast<std::size_t>(Category::kMpi)] = 9;
      rank.mpi_runnable_s = 4;
      CallUnderWayRow& call = analysis.calls_under_way.emplace_back();
      call.rank = r;
      call.ended = true;
      call.age_s = 8;
      call.place.op = "MPI_Barrier";
    }
    const double start = cpu_seconds();
    EXPECT_DOUBLE_EQ(lost_to_processors(analysis), 0.1);
    for (const RankInfo& rank : analysis.ranks) EXPECT_NE(mpi_call_at_end(analysis, rank.rank), nullptr);
    measurements.at_most(cpu_seconds() - start, kBound_s, "seconds for the calls under way");
  }));
}

}  // namespace
}  // namespace clusterprof::report
