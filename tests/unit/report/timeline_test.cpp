// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using Bins = std::vector<std::uint64_t>;

constexpr std::size_t kNative = static_cast<std::size_t>(shard::Category::kNative);

using Series = std::vector<std::pair<std::string, Bins>>;

std::uint64_t sum_of(const Bins& bins) { return std::accumulate(bins.begin(), bins.end(), std::uint64_t{0}); }

// Ranks with these series, whose samples and MPI calls the rank's own totals have as well. They live as long
// as their samples say.
shard::ShardData data_of(const std::vector<Series>& ranks, const std::string& clock = "wall") {
  shard::ShardData data;
  shard::PathInterner interner(data);
  data.run.clock = clock;
  data.nodes.emplace_back();
  data.time_axis = {shard::TimeAxis::kFirstBin_ns, 0};
  std::vector<std::string> names;
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    shard::Rank& rank = data.ranks.emplace_back();
    rank.rank = static_cast<std::int32_t>(r);
    rank.samples = 1;
    for (const auto& [name, bins] : ranks[r]) {
      auto known = std::find(names.begin(), names.end(), name);
      if (known == names.end()) {
        data.series.push_back({interner.string(name), shard::SeriesKind::kSum});
        known = names.insert(names.end(), name);
      }
      const auto number = static_cast<std::uint32_t>(known - names.begin());
      for (std::uint32_t bin = 0; bin < bins.size(); ++bin)
        if (bins[bin] != 0) data.rank_series.push_back({r, number, bin, bins[bin]});
      if (name == shard::kMeasuredMpiSeries) {
        rank.flags |= shard::kUsedMpi;
        rank.mpi_ns = sum_of(bins);
      }
      for (std::size_t c = 0; c < shard::kCategories; ++c)
        if (name == category_series(c)) {
          rank.main_thread_ns[c] = sum_of(bins);
          rank.elapsed_ns += sum_of(bins);
        }
    }
  }
  return data;
}

Timeline timeline_of(const Series& series, const std::string& clock = "wall") {
  return analyse(data_of({series}, clock)).timeline.value();
}

Bins bins_of(const Timeline& timeline, std::string_view name, std::size_t rank = 0) {
  for (const auto& [series, bins] : timeline.ranks.at(rank).values)
    if (timeline.series[series] == name) return bins;
  return {};
}

void expect_report_totals(const Analysis& analysis) {
  for (std::size_t rank = 0; rank < analysis.ranks.size(); ++rank)
    for (std::size_t c = 0; c < shard::kCategories; ++c)
      EXPECT_NEAR(static_cast<double>(sum_of(bins_of(*analysis.timeline, category_series(c), rank))),
                  1e9 * analysis.ranks[rank].category_s[c].value_or(0), 1)
          << "rank " << rank << ", " << shard::kCategoryNames[c];
}

TEST(TimelineTest, MpiIsWhatItsCallsMeasured) {
  const Analysis analysis = analyse(data_of({{{"mpi_measured_ns", {0, 600, 1000, 0}},
                                              {"mpi_ns", {0, 100, 400, 0}},
                                              {"native_ns", {800, 600, 600, 1000}},
                                              {"python_ns", {200, 300, 0, 0}},
                                              {"rss_bytes", {5, 5, 5, 5}}}}));
  const Timeline& timeline = *analysis.timeline;
  EXPECT_EQ(bins_of(timeline, "mpi_ns"), (Bins{0, 600, 1000}));
  const Bins native = bins_of(timeline, "native_ns");
  ASSERT_EQ(native.size(), 4u);
  EXPECT_EQ(native[2], 0u) << "MPI has all of it";
  EXPECT_LT(native[1], native[0] / 2) << "400 of the 900 that samples saw";
  EXPECT_EQ(bins_of(timeline, "rss_bytes"), (Bins{5, 5, 5, 5}));
  EXPECT_EQ(bins_of(timeline, "mpi_measured_ns"), Bins());
  expect_report_totals(analysis);
}

TEST(TimelineTest, TimeBeyondABinGoesIntoTheNext) {
  const Timeline timeline =
      timeline_of({{"idle_ns", {1000, 1000, 1000}}, {"mpi_measured_ns", {1500}}, {"mpi_ns", {0, 0, 200}}});
  EXPECT_EQ(bins_of(timeline, "mpi_ns"), (Bins{1000, 500}));
  EXPECT_EQ(bins_of(timeline, "idle_ns"), (Bins{0, 500, 1200}));
}

TEST(TimelineTest, MpiTimeIsKnownWithoutSamplesInMpi) {
  const Timeline timeline = timeline_of({{"mpi_measured_ns", {250}}, {"native_ns", {1000}}});
  EXPECT_EQ(bins_of(timeline, "mpi_ns"), (Bins{250}));
  EXPECT_EQ(bins_of(timeline, "native_ns"), (Bins{750}));
}

TEST(TimelineTest, UnderTheCpuClockSamplesPlaceTheTime) {
  const Series series{{"mpi_measured_ns", {500, 0}}, {"mpi_ns", {0, 100}}, {"native_ns", {900, 100}}};
  const Analysis analysis = analyse(data_of({series}, "cpu"));
  EXPECT_EQ(bins_of(*analysis.timeline, "mpi_ns"), (Bins{0, 500}));
  EXPECT_EQ(bins_of(*analysis.timeline, "native_ns"), (Bins{900, 100}));
  EXPECT_EQ(bins_of(*analysis.timeline, "mpi_measured_ns"), Bins());
  expect_report_totals(analysis);
  EXPECT_EQ(bins_of(timeline_of(series), "mpi_ns"), (Bins{500}));
}

TEST(TimelineTest, EachRankAddsUpToItsReport) {
  // Samples of the main thread that are in no bin, and a category that none of them saw.
  shard::ShardData data =
      data_of({{{"native_ns", {100, 300}}, {"python_ns", {100, 0}}}, {{"native_ns", {400, 100}}}, {}});
  data.ranks[0].main_thread_ns[kNative] = 1000;
  data.ranks[0].elapsed_ns = 1300;
  data.ranks[1].main_thread_ns[testing::kPythonIndex] = 500;
  data.ranks[1].elapsed_ns = 2 * shard::TimeAxis::kFirstBin_ns;
  data.ranks[2].main_thread_ns[kNative] = 700;
  data.ranks[2].elapsed_ns = shard::TimeAxis::kFirstBin_ns;
  const Analysis analysis = analyse(data);
  expect_report_totals(analysis);
  const Bins spread = bins_of(*analysis.timeline, "python_ns", 1);
  ASSERT_EQ(spread.size(), 2u);
  EXPECT_EQ(spread[0], spread[1]);
  EXPECT_EQ(bins_of(*analysis.timeline, "native_ns", 2).size(), 1u) << "the rank was over by then";
  EXPECT_EQ(bins_of(*analysis.timeline, "python_ns", 2), Bins());
}

TEST(TimelineTest, RunsWithoutCategoriesOverTimeGetNone) {
  shard::ShardData data = data_of({{{"rss_bytes", {5}}}});
  data.ranks[0].main_thread_ns[kNative] = data.ranks[0].elapsed_ns = 1000;
  const Timeline timeline = analyse(data).timeline.value();
  EXPECT_EQ(timeline.series, std::vector<std::string>{"rss_bytes"});
  ASSERT_EQ(timeline.ranks.size(), 1u);
  EXPECT_EQ(timeline.ranks[0].values.size(), 1u);
}

}  // namespace
}  // namespace clusterprof::report
