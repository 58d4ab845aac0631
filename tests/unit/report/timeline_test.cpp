// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using Bins = std::vector<std::uint64_t>;

// One rank with these series.
Timeline timeline_of(const std::vector<std::pair<std::string, Bins>>& series,
                     const std::string& clock = "wall") {
  shard::ShardData data;
  shard::PathInterner interner(data);
  data.run.clock = clock;
  data.nodes.emplace_back();
  data.ranks.emplace_back();
  data.time_axis = {shard::TimeAxis::kFirstBin_ns, 0};
  for (const auto& [name, bins] : series) {
    const auto number = static_cast<std::uint32_t>(data.series.size());
    data.series.push_back({interner.string(name), shard::SeriesKind::kSum});
    for (std::uint32_t bin = 0; bin < bins.size(); ++bin)
      if (bins[bin] != 0) data.rank_series.push_back({0, number, bin, bins[bin]});
  }
  return analyse(data).timeline.value();
}

Bins bins_of(const Timeline& timeline, std::string_view name) {
  for (const auto& [series, bins] : timeline.ranks.at(0).values)
    if (timeline.series[series] == name) return bins;
  return {};
}

TEST(TimelineTest, MpiIsWhatItsCallsMeasured) {
  const Timeline timeline = timeline_of({{"mpi_measured_ns", {0, 600, 1000, 0}},
                                         {"mpi_ns", {0, 100, 400, 0}},
                                         {"native_ns", {800, 600, 600, 1000}},
                                         {"python_ns", {200, 300, 0, 0}},
                                         {"rss_bytes", {5, 5, 5, 5}}});
  EXPECT_EQ(bins_of(timeline, "mpi_ns"), (Bins{0, 600, 1000}));
  EXPECT_EQ(bins_of(timeline, "native_ns"), (Bins{800, 267, 0, 1000}));  // 400 of the 900 that samples saw
  EXPECT_EQ(bins_of(timeline, "python_ns"), (Bins{200, 133}));
  EXPECT_EQ(bins_of(timeline, "rss_bytes"), (Bins{5, 5, 5, 5}));
  EXPECT_EQ(bins_of(timeline, "mpi_measured_ns"), Bins());
}

TEST(TimelineTest, WhatABinHasNoRoomForGoesIntoTheNext) {
  const Timeline timeline =
      timeline_of({{"idle_ns", {1000, 1000, 1000}}, {"mpi_measured_ns", {1500}}, {"mpi_ns", {0, 0, 200}}});
  EXPECT_EQ(bins_of(timeline, "mpi_ns"), (Bins{1000, 500}));
  EXPECT_EQ(bins_of(timeline, "idle_ns"), (Bins{0, 500, 1200}));
}

TEST(TimelineTest, NoSampleNeedHaveSeenMpi) {
  const Timeline timeline = timeline_of({{"mpi_measured_ns", {250}}, {"native_ns", {1000}}});
  EXPECT_EQ(bins_of(timeline, "mpi_ns"), (Bins{250}));
  EXPECT_EQ(bins_of(timeline, "native_ns"), (Bins{750}));
}

TEST(TimelineTest, SamplesAloneSayWhatRunsUnderTheCpuClock) {
  const std::vector<std::pair<std::string, Bins>> series{
      {"mpi_measured_ns", {500}}, {"mpi_ns", {100}}, {"native_ns", {900}}};
  EXPECT_EQ(bins_of(timeline_of(series, "cpu"), "mpi_ns"), (Bins{100}));
  EXPECT_EQ(bins_of(timeline_of(series, "cpu"), "mpi_measured_ns"), Bins());
  EXPECT_EQ(bins_of(timeline_of(series), "mpi_ns"), (Bins{500}));
}

}  // namespace
}  // namespace clusterprof::report
