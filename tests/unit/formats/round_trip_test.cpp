// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "formats/profile/profile_reader.hpp"
#include "formats/profile/profile_writer.hpp"
#include "formats/shard/shard_reader.hpp"
#include "formats/shard/shard_writer.hpp"
#include "formats/shard/tables.hpp"
#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof {
namespace {

using shard::ShardData;

std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(RoundTripTest, RandomShardsComeBackEqual) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    testing::RandomShape shape{.node = 1, .ranks = {5, 0, 17}};
    if (seed % 8 == 0) {  // columns that need several chunks
      shape.paths = 20'000;
      shape.values_per_rank = 15'000;
      shape.names = 400;
    }
    const ShardData data = testing::random_shard(seed, shape);
    const Result<void> written = shard::write_shard(data, path);
    ASSERT_TRUE(written) << written.error().message;
    const Result<ShardData> read = shard::read_shard(path);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read.value(), data) << "seed " << seed;
  }
  EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"node-x.h5"});
}

TEST(RoundTripTest, ImpossibleNotesAreRefused) {
  const testing::TemporaryDirectory directory;
  ShardData data;
  data.run.notes = {note_of_ranks(shard::NoteCode::kNoSamples, {3, 2})};
  const Result<void> written = shard::write_shard(data, directory.path() / "node-x.h5");
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("row 0 of table notes: "), std::string::npos)
      << written.error().message;
}

TEST(RoundTripTest, EmptyShardComesBackEqual) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  ASSERT_TRUE(shard::write_shard({}, path));
  const Result<ShardData> read = shard::read_shard(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read.value(), ShardData{});
}

TEST(RoundTripTest, LongAttributesComeBackEqual) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  ShardData data;
  data.run.mpi_library = std::string(200'000, 'x');
  ASSERT_TRUE(shard::write_shard(data, path));
  EXPECT_EQ(shard::read_shard(path).value(), data);
}

TEST(RoundTripTest, RowsByRankMayComeInAnyOrder) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  const ShardData sorted = testing::random_shard(3, {.ranks = {1, 2, 3}});
  ShardData shuffled = sorted;
  std::mt19937 random(7);
  std::shuffle(shuffled.values.begin(), shuffled.values.end(), random);
  ASSERT_NE(shuffled.values, sorted.values);
  ASSERT_TRUE(shard::write_shard(shuffled, path));
  ShardData read = shard::read_shard(path).value();
  const auto before = [](const shard::Value& a, const shard::Value& b) {
    return std::tie(a.rank, a.path) < std::tie(b.rank, b.path);
  };
  EXPECT_TRUE(std::is_sorted(read.values.begin(), read.values.end(), before));
  std::sort(read.values.begin(), read.values.end(), [](const shard::Value& a, const shard::Value& b) {
    return std::tie(a.rank, a.path, a.category, b.main_thread) <
           std::tie(b.rank, b.path, b.category, a.main_thread);
  });
  EXPECT_EQ(read, sorted);
}

TEST(RoundTripTest, LastPossibleBinsComeBackEqual) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  ShardData data = testing::random_shard(3, {.ranks = {1}});
  const std::uint64_t width = shard::TimeAxis::kWidestBin_ns;
  data.time_axis = {width, static_cast<std::int64_t>(1000 * width)};
  data.rank_series = {{0, 0, 0, 1}, {0, 0, 23, ~0ull}};
  data.node_series.clear();
  const std::uint64_t path_width = shard::TimeAxis::kEnd_utc_ns / shard::kMaxPathBins;
  data.path_axis = {path_width, static_cast<std::int64_t>(60 * path_width)};
  data.path_series = {{0, 0, 1}, {0, 3, ~0ull}, {1, 0, 5}};
  data.memory_series.clear();
  ASSERT_TRUE(shard::write_shard(data, path));
  EXPECT_EQ(shard::read_shard(path).value(), data);
  data.path_series[1].bin = 4;
  EXPECT_FALSE(shard::write_shard(data, path));
  data.path_series[1].bin = 3;
  data.rank_series[1].bin = 24;
  EXPECT_FALSE(shard::write_shard(data, path));
}

TEST(RoundTripTest, SummaryHasTheSmallTables) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  const ShardData data = testing::random_shard(4, {.ranks = {1, 2, 3}});
  ASSERT_TRUE(shard::write_shard(data, path));
  const ShardData summary = shard::read_shard_summary(path).value();
  EXPECT_EQ(summary.run, data.run);
  EXPECT_EQ(summary.nodes, data.nodes);
  std::vector<shard::Rank> ranks = data.ranks;
  for (shard::Rank& rank : ranks) rank.affinity = rank.numa_nodes = 0;
  EXPECT_EQ(summary.ranks, ranks);
  EXPECT_EQ(summary.drops, data.drops);
  EXPECT_EQ(summary.handler_costs, data.handler_costs);
  EXPECT_TRUE(summary.values.empty());
}

TEST(RoundTripTest, ProfileComesBackEqual) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "profile.h5";
  const ShardData data = testing::random_shard(5, {.ranks = {1, 2, 3}});
  const std::vector<profile::Source> sources{{"node-a.h5", 7, true}, {"node-b.h5", 1ull << 40, false}};
  const Result<void> written = profile::write_profile(data, path, sources);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(profile::read_profile(path).value(), data);
  EXPECT_EQ(profile::read_sources(path).value(), sources);
  EXPECT_EQ(profile::read_path_statistics(path).value(), profile::path_statistics(data));
}

TEST(RoundTripTest, ShardAndProfileAreToldApart) {
  const testing::TemporaryDirectory directory;
  ASSERT_TRUE(shard::write_shard({}, directory.path() / "s.h5"));
  ASSERT_TRUE(profile::write_profile({}, directory.path() / "p.h5"));
  EXPECT_NE(shard::read_shard(directory.path() / "p.h5").error().message.find("p.h5: is a profile"),
            std::string::npos);
  EXPECT_NE(profile::read_profile(directory.path() / "s.h5").error().message.find("s.h5: is a shard"),
            std::string::npos);
}

TEST(RoundTripTest, EqualContentGivesEqualBytes) {
  const testing::TemporaryDirectory directory;
  const ShardData data = testing::random_shard(6, {.ranks = {1, 2}});
  ASSERT_TRUE(shard::write_shard(data, directory.path() / "a.h5"));
  ASSERT_TRUE(shard::write_shard(data, directory.path() / "b.h5"));
  EXPECT_EQ(testing::read_bytes(directory.path() / "a.h5"), testing::read_bytes(directory.path() / "b.h5"));
}

TEST(WriterTest, RefusesInconsistentData) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  const auto has_rows_to_spoil = [](const ShardData& d) {
    return d.strings.size() > 1 && d.frames.size() > 1 && d.paths.size() > 3 && d.ranks.size() > 1 &&
           d.values.size() > 4 && !d.calls_under_way.empty() && !d.mpi_calls.empty() &&
           !d.mpi_sizes.empty() && !d.counter_values.empty() && !d.path_counters.empty() &&
           d.series.size() > 1 && d.rank_series.size() > 1 && d.node_series.size() > 1 &&
           d.path_series.size() > 1 && d.memory_series.size() > 1 && !d.memory_sites.empty() &&
           !d.io_calls.empty() && !d.data_accesses.empty() && !d.region_times.empty() &&
           !d.mpi_events.empty() && !d.event_gaps.empty() && !d.wait_states.empty() &&
           !d.root_causes.empty() && !d.critical_times.empty() && d.time_windows.size() > 1;
  };
  ShardData good;
  for (std::uint32_t seed = 8; !has_rows_to_spoil(good); ++seed)
    good = testing::random_shard(seed, {.ranks = {1, 2}});
  const auto refused = [&](auto spoil) {
    ShardData data = good;
    spoil(data);
    const Result<void> written = shard::write_shard(data, path);
    EXPECT_FALSE(std::filesystem::exists(path));
    return !written && written.error().message.find(path.string()) == 0 &&
           written.error().message.find('\n') == std::string::npos;
  };
  EXPECT_TRUE(refused([](ShardData& d) { d.strings.clear(); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.strings[0] = "x"; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.paths.clear(); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.paths[0].id.low = 1; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.paths[1].parent = 1; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.paths[2].frame = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.paths[2].id.high ^= 1; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.frames[0].name = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.frames[0].kind = static_cast<shard::FrameKind>(5); }));
  EXPECT_TRUE(refused([](ShardData& d) {  // a region inside a function
    shard::PathInterner in(d);
    const shard::Frame function{shard::FrameKind::kPython, false, in.string("f"), 0, 0, 1, 1};
    const shard::Frame region{shard::FrameKind::kRegion, false, in.string("r"), 0, 0, 0, 0};
    in.path(in.path(0, in.frame(function)), in.frame(region));
  }));
  EXPECT_TRUE(refused([](ShardData& d) { d.ranks[0].affinity = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.ranks[0].numa_nodes = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.ranks[0].node = 1; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.ranks[0].rank = d.ranks[1].rank; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.values[3].rank = 2; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.values[3].path = shard::kNone; }));
  EXPECT_TRUE(
      refused([](ShardData& d) { d.values[3].category = static_cast<shard::Category>(shard::kCategories); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_calls[0].communicator = 2; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_calls[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_sizes[0].op = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.calls_under_way[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.pending_requests.push_back({9}); }));
  EXPECT_TRUE(refused([](ShardData& d) {
    d.pending_requests.push_back({0, 100, 0, static_cast<shard::PendingKind>(4)});
  }));
  EXPECT_TRUE(refused([](ShardData& d) { d.collective_counts.push_back({9, 0, 0, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.collective_counts.push_back({0, 1'000'000, 0, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.collective_counts.push_back({0, 0, 2, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_errors.push_back({9}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_errors.push_back({0, 1'000'000}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_errors.push_back({0, 0, 2}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.group_numbers.push_back({9, 0, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.group_numbers.push_back({0, 2, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.group_numbers.push_back({0, 0, -1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.group_messages.push_back({9, 0, 1, 1, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.group_messages.push_back({0, 2, 1, 1, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.group_messages.push_back({0, 0, -1, 1, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.open_requests.push_back({9}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.open_requests.push_back({0, 1'000'000}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.open_requests.push_back({0, 0, 2}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.open_requests.push_back({0, 0, shard::kNone, 4}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.unmatched_messages.push_back({9}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.unmatched_messages.push_back({0, 1'000'000}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.unmatched_messages.push_back({0, 0, 2}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.unmatched_messages.push_back({0, 0, 0, 9}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.calls_under_way[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.calls_under_way[0].communicator = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.counter_values[0].counter = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.path_counters[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.drops.push_back({9, "x", 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.handler_costs.push_back({9, 1024, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.time_axis = {}; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.time_axis.bin_ns = 3'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.time_axis.bin_ns = 1'500'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.time_axis.bin_ns = 2 * shard::TimeAxis::kWidestBin_ns; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.time_axis.origin_utc_ns += 500'000; }));
  EXPECT_TRUE(
      refused([](ShardData& d) { d.time_axis.origin_utc_ns = -(std::int64_t{1} << 40) * 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) {  // the bins would end after all others
    d.time_axis.origin_utc_ns = static_cast<std::int64_t>(shard::TimeAxis::kEnd_utc_ns - d.time_axis.bin_ns);
  }));
  EXPECT_TRUE(refused([](ShardData& d) { d.series[0].name = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.series[0].kind = static_cast<shard::SeriesKind>(2); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.series[1] = d.series[0]; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.rank_series.back().rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.rank_series.back().series = 99; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.rank_series.back().bin = 1024; }));
  EXPECT_TRUE(refused([](ShardData& d) { std::swap(d.rank_series[0], d.rank_series[1]); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.rank_series[1] = d.rank_series[0]; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.node_series[0].node = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.node_series.back().series = 99; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.node_series.back().bin = 1024; }));
  EXPECT_TRUE(refused([](ShardData& d) { std::swap(d.node_series[0], d.node_series[1]); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.path_axis = {}; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.path_axis.bin_ns *= 3; }));
  EXPECT_TRUE(refused([](ShardData& d) {
    d.path_axis.bin_ns = 2 * (shard::TimeAxis::kEnd_utc_ns / shard::kMaxPathBins);
    d.path_axis.origin_utc_ns = 0;
  }));
  EXPECT_TRUE(refused([](ShardData& d) { d.path_axis.origin_utc_ns += 500'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.path_series.back().path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.path_series.back().bin = shard::kMaxPathBins; }));
  EXPECT_TRUE(refused([](ShardData& d) { std::swap(d.path_series[0], d.path_series[1]); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.path_series[1] = d.path_series[0]; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.io_calls[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.io_calls[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.io_calls[0].file = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.io_calls[0].operation = static_cast<shard::IoOperation>(8); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.data_accesses[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.data_accesses[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.region_times[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.region_times[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.region_times[0].path = 0; }));
  EXPECT_TRUE(refused([](ShardData& d) {
    for (std::uint32_t i = 1; i < d.paths.size(); ++i)
      if (d.frames[d.paths[i].frame].kind != shard::FrameKind::kRegion) d.region_times[0].path = i;
  }));
  EXPECT_TRUE(refused([](ShardData& d) { d.memory_ranks.push_back({.rank = 9}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.memory_sites[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.memory_sites[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { std::swap(d.memory_series[0], d.memory_series[1]); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_events[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_events[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_events[0].communicator = 2; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_events[0].op = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_events[0].kind = 7; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_events[0].enter_ns = d.mpi_events[0].exit_ns + 1; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.mpi_events[0].exit_ns = ~0ull; }));
  EXPECT_TRUE(refused([](ShardData& d) { ++d.mpi_events[0].thread, ++d.mpi_events[0].rank; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.event_gaps[0].event = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.event_gaps[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.event_gaps.push_back({0, 1, 1}); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.clock_offsets.push_back({9, 0, 1, 1, 1}); }));
  const auto are_valid = [&](const std::vector<shard::EventStretch>& stretches) {
    ShardData data = good;
    data.event_stretches = stretches;
    return static_cast<bool>(shard::validate(data));
  };
  EXPECT_TRUE(are_valid({{0, 5, 1, 2, true}, {0, 9, 2, 2, false}, {1, 5, 1, 2, true}}));
  EXPECT_FALSE(are_valid({{9, 5, 1, 2, true}}));
  EXPECT_FALSE(are_valid({{0, 5, 3, 2, true}}));
  EXPECT_FALSE(are_valid({{1, 5, 1, 2, true}, {0, 9, 3, 4, true}}));
  EXPECT_FALSE(are_valid({{0, 5, 1, 2, true}, {0, 5, 3, 4, true}}));
  EXPECT_FALSE(are_valid({{0, 5, 1, 3, true}, {0, 9, 2, 4, true}})) << "they overlap";
  EXPECT_TRUE(refused([](ShardData& d) { d.event_stretches = {{9, 5, 1, 2, true}}; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.wait_analysis.messages = 1ull << 63; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.wait_states[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.wait_states[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.wait_states[0].cause_path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.wait_states[0].cause_rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.wait_states[0].kind = static_cast<shard::WaitKind>(7); }));
  EXPECT_TRUE(refused([](ShardData& d) { d.root_causes[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.root_causes[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.critical_times[0].rank = 9; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.critical_times[0].path = 1'000'000; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.time_windows[0].end_ns = d.time_windows[1].begin_ns + 1; }));
  EXPECT_TRUE(refused([](ShardData& d) { d.time_windows[0].useful_mean_ns = std::nan(""); }));
  EXPECT_TRUE(shard::write_shard(good, path));
}

TEST(WriterTest, ReplacesWholeFilesOrNone) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  const ShardData old = testing::random_shard(9, {.ranks = {1}});
  const ShardData fresh =
      testing::random_shard(10, {.ranks = {1, 2}, .paths = 20'000, .values_per_rank = 20'000});
  ASSERT_TRUE(shard::write_shard(old, path));

  // A full disk, as seen by a process that may not write large files. In a process of its own,
  // since a limit of this kind cannot be taken back by everybody.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{60'000, 60'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Result<void> written = shard::write_shard(fresh, path);
    ::_exit(!written && written.error().message.find(path.string()) == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(shard::read_shard(path).value(), old);
  EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"node-x.h5"}) << "nothing is left behind";

  ASSERT_TRUE(shard::write_shard(fresh, path));
  EXPECT_EQ(shard::read_shard(path).value(), fresh);
}

TEST(WriterTest, NamesWhatCannotBeWritten) {
  const testing::TemporaryDirectory directory;
  const auto missing = directory.path() / "none" / "node-x.h5";
  const Result<void> written = shard::write_shard({}, missing);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, missing.string() + ": cannot be written: No such file or directory");
  std::filesystem::create_directory(directory.path() / "node-y.h5");
  EXPECT_FALSE(shard::write_shard({}, directory.path() / "node-y.h5"));
  EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"node-y.h5"});
}

TEST(WriterTest, ModeFollowsTheUmask) {
  const testing::TemporaryDirectory directory;
  const mode_t before = ::umask(027);
  const Result<void> written = shard::write_shard({}, directory.path() / "node-x.h5");
  ::umask(before);
  ASSERT_TRUE(written);
  struct stat status {};
  ASSERT_EQ(::stat((directory.path() / "node-x.h5").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0640u);
}

}  // namespace
}  // namespace clusterprof
