// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "formats/shard/path_times.hpp"
#include "formats/shard/tables.hpp"
#include "formats/synth/growing_run.hpp"
#include "formats/synth/synthetic_run.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::synth {
namespace {

TEST(SynthTest, TimesAddUp) {
  const Shape shape{.nodes = 3, .ranks_per_node = 4, .paths = 300, .seed = 5};
  std::uint64_t most_useful = 0;
  std::int32_t slowest = -1;
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    const shard::ShardData data = shard_of_node(shape, node);
    EXPECT_TRUE(shard::validate(data));
    ASSERT_EQ(data.ranks.size(), 4u);
    std::vector<std::uint64_t> wall_ns(data.ranks.size());
    for (const shard::Value& value : data.values) wall_ns[value.rank] += value.wall_ns;
    for (std::size_t i = 0; i < data.ranks.size(); ++i) {
      const shard::Rank& rank = data.ranks[i];
      EXPECT_EQ(wall_ns[i], rank.elapsed_ns);
      EXPECT_EQ(std::accumulate(rank.main_thread_ns.begin(), rank.main_thread_ns.end(), std::uint64_t{0}),
                rank.elapsed_ns);
      std::uint64_t called_ns = 0, sampled_ns = 0;
      for (const shard::MpiCall& call : data.mpi_calls)
        if (call.rank == i) called_ns += call.time_ns;
      for (const shard::Value& value : data.values)
        if (value.rank == i && value.category == shard::Category::kMpi) sampled_ns += value.wall_ns;
      EXPECT_EQ(called_ns, rank.mpi_ns);
      EXPECT_LT(sampled_ns, rank.mpi_ns / 100 * 98) << "samples differ from what was measured";
      if (rank.elapsed_ns - rank.mpi_ns > most_useful) {
        most_useful = rank.elapsed_ns - rank.mpi_ns;
        slowest = rank.rank;
      }
    }
  }
  EXPECT_EQ(slowest, static_cast<std::int32_t>(slowest_rank(shape)));
}

TEST(SynthTest, GrowingRunsFollowTheirLaws) {
  GrowingShape shape;
  shape.noise = 0;
  for (const std::uint32_t ranks : {1u, 4u, 32u}) {
    shape.ranks = ranks;
    const shard::ShardData data = growing_run(shape);
    const Result<void> valid = shard::validate(data);
    ASSERT_TRUE(valid) << valid.error().message;
    ASSERT_EQ(data.ranks.size(), ranks);
    ASSERT_EQ(data.values.size(), ranks * kGrowingParts);
    std::uint64_t sum_ns = 0;
    for (std::size_t i = 0; i < kGrowingParts; ++i) {
      EXPECT_NEAR(static_cast<double>(data.values[i].wall_ns) / 1e9, kGrowing[i].rank_s(ranks), 1e-6);
      sum_ns += data.values[i].wall_ns;
    }
    EXPECT_EQ(sum_ns, data.ranks[0].elapsed_ns);
  }
  shape.noise = 0.05;
  const std::uint64_t one = growing_run(shape).ranks[0].elapsed_ns;
  EXPECT_EQ(growing_run(shape).ranks[0].elapsed_ns, one);
  shape.seed = 2;
  EXPECT_NE(growing_run(shape).ranks[0].elapsed_ns, one);
}

TEST(SynthTest, EventsAgreeWithTheRest) {
  const Shape shape{.nodes = 3, .ranks_per_node = 2, .paths = 100, .seed = 4, .events = 700};
  using Message = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::uint32_t>;
  std::map<Message, std::uint64_t> sent_ns;  // source, destination, tag, sequence -> when, on one clock
  std::map<Message, std::uint64_t> received_ns;
  std::map<std::uint32_t, std::map<std::int32_t, std::uint64_t>> allreduce_ns;  // enters by rank
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    const shard::ShardData data = shard_of_node(shape, node);
    const Result<void> valid = shard::validate(data);
    ASSERT_TRUE(valid) << valid.error().message;
    ASSERT_EQ(data.mpi_events.size(), 700u * data.ranks.size());
    std::vector<std::uint64_t> mpi_ns(data.ranks.size()), outside_ns(data.ranks.size());
    const auto on_reference = [&](const shard::MpiEvent& event, std::uint64_t ns) {
      const shard::ClockOffset& a = data.clock_offsets[2 * event.rank];
      const shard::ClockOffset& b = data.clock_offsets[2 * event.rank + 1];
      const double share =
          static_cast<double>(ns - a.local_ns) / static_cast<double>(b.local_ns - a.local_ns);
      return ns + static_cast<std::uint64_t>(
                      a.offset_ns +
                      static_cast<std::int64_t>(share * static_cast<double>(b.offset_ns - a.offset_ns)));
    };
    const shard::MpiEvent* before = nullptr;
    for (const shard::MpiEvent& event : data.mpi_events) {
      const std::int32_t rank = data.ranks[event.rank].rank;
      const bool new_call =
          before == nullptr || before->rank != event.rank || before->enter_ns != event.enter_ns;
      if (new_call) {
        EXPECT_EQ(event.mpi_ns, mpi_ns[event.rank]);
        mpi_ns[event.rank] += event.exit_ns - event.enter_ns;
      }
      before = &event;
      switch (static_cast<wire::MpiEventKind>(event.kind)) {
        case wire::MpiEventKind::kSend:
          sent_ns[{rank, event.peer, event.tag, event.sequence}] = on_reference(event, event.enter_ns);
          break;
        case wire::MpiEventKind::kReceive:
          received_ns[{event.peer, rank, event.tag, event.sequence}] = on_reference(event, event.exit_ns);
          break;
        case wire::MpiEventKind::kCollective:
          allreduce_ns[event.sequence][rank] = on_reference(event, event.enter_ns);
          break;
        default:
          EXPECT_EQ(event.kind, static_cast<std::uint8_t>(wire::MpiEventKind::kSendDone));
      }
    }
    for (const shard::EventGap& gap : data.event_gaps)
      outside_ns[data.mpi_events[gap.event].rank] += gap.wall_ns;
    for (std::size_t i = 0; i < data.ranks.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(mpi_ns[i]), static_cast<double>(data.ranks[i].mpi_ns), 1e6);
      EXPECT_NEAR(static_cast<double>(outside_ns[i]),
                  static_cast<double>(data.ranks[i].elapsed_ns - data.ranks[i].mpi_ns), 1e6);
    }
  }
  ASSERT_EQ(sent_ns.size(), 6u * 200);
  ASSERT_EQ(received_ns.size(), sent_ns.size());
  for (const auto& [message, sent] : sent_ns) EXPECT_LT(sent, received_ns.at(message));
  ASSERT_EQ(allreduce_ns.size(), 100u);
  for (const auto& [sequence, enters] : allreduce_ns) {
    ASSERT_EQ(enters.size(), 6u);
    const auto last = std::max_element(enters.begin(), enters.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    EXPECT_EQ(last->first, static_cast<std::int32_t>(slowest_rank(shape)));
  }
}

TEST(SynthTest, SeriesAndFilesAndRegionsAgreeWithTheRest) {
  const Shape shape{.nodes = 3, .ranks_per_node = 2, .paths = 100, .seed = 4, .bins = 40};
  const shard::ShardData data = shard_of_node(shape, 1);
  const Result<void> valid = shard::validate(data);
  ASSERT_TRUE(valid) << valid.error().message;
  EXPECT_EQ(data.time_axis.bin_ns, 2'048'000'000u);
  std::map<std::string, std::uint32_t> row_of;
  for (std::uint32_t i = 0; i < data.series.size(); ++i) row_of[data.strings[data.series[i].name]] = i;
  for (std::uint32_t row = 0; row < data.ranks.size(); ++row) {
    const shard::Rank& rank = data.ranks[row];
    std::vector<std::uint64_t> sum(data.series.size()), most(data.series.size());
    std::map<std::uint32_t, std::uint64_t> of_bin;
    for (const shard::RankSeries& value : data.rank_series) {
      if (value.rank != row) continue;
      sum[value.series] += value.value;
      most[value.series] = std::max(most[value.series], value.value);
      if (value.series < shard::kCategories) of_bin[value.bin] += value.value;
    }
    for (std::size_t i = 0; i < shard::kCategories; ++i)
      EXPECT_EQ(sum[row_of.at(std::string(shard::kCategoryNames[i]) + "_ns")], rank.main_thread_ns[i]);
    EXPECT_EQ(sum[row_of.at("cpu_user_ns")] + sum[row_of.at("cpu_system_ns")], rank.cpu_ns);
    EXPECT_EQ(sum[row_of.at("minor_faults")], rank.minor_faults);
    EXPECT_EQ(sum[row_of.at("read_bytes")], rank.read_bytes);
    EXPECT_EQ(sum[row_of.at("write_bytes")], rank.write_bytes);
    EXPECT_EQ(most[row_of.at("rss_bytes")], rank.max_rss_bytes);
    for (const shard::CounterValue& value : data.counter_values)
      if (value.rank == row) {
        EXPECT_EQ(sum[row_of.at(data.counters[value.counter])], value.value);
      }
    std::vector<std::uint64_t> on_paths(data.counters.size()), in_all(data.counters.size());
    for (const shard::PathCounter& value : data.path_counters)
      if (value.rank == row) on_paths[value.counter] += value.value;
    for (const shard::CounterValue& value : data.counter_values)
      if (value.rank == row) in_all[value.counter] += value.value;
    EXPECT_EQ(on_paths, in_all);
    ASSERT_EQ(of_bin.size(), 30u);
    for (const auto& [bin, ns] : of_bin) {
      EXPECT_LE(ns, data.time_axis.bin_ns + 10);
      if (bin != 0 && bin != 29) {
        EXPECT_GE(ns + 10, data.time_axis.bin_ns);
      }
    }

    std::uint64_t io_ns = 0, read = 0, written = 0;
    for (const shard::IoCall& call : data.io_calls) {
      if (call.rank != row) continue;
      io_ns += call.time_ns;
      EXPECT_LE(call.max_ns, call.time_ns);
      if (call.operation == shard::IoOperation::kRead) read += call.bytes;
      if (call.operation == shard::IoOperation::kWrite) written += call.bytes;
    }
    EXPECT_EQ(io_ns, rank.main_thread_ns[static_cast<std::size_t>(shard::Category::kIo)]);
    EXPECT_EQ(read, rank.read_bytes);
    EXPECT_EQ(written, rank.write_bytes);

    std::uint64_t outermost_ns = 0;
    for (const shard::RegionTime& region : data.region_times) {
      if (region.rank != row) continue;
      if (data.paths[region.path].parent == 0) outermost_ns += region.time_ns;
      EXPECT_LE(region.min_ns * region.count, region.time_ns);
      EXPECT_GE(region.max_ns * region.count, region.time_ns / 2);
    }
    EXPECT_EQ(outermost_ns, rank.elapsed_ns);
  }
  EXPECT_EQ(data.region_times.size(), 3 * data.ranks.size());
  EXPECT_EQ(data.io_files.size(), 1 + data.ranks.size());
  EXPECT_FALSE(data.data_accesses.empty());
  EXPECT_FALSE(data.node_series.empty());
}

TEST(SynthTest, HasNoSeriesIfNoneAreAskedFor) {
  const shard::ShardData data =
      shard_of_node({.nodes = 2, .ranks_per_node = 2, .paths = 50, .seed = 4, .bins = 0}, 0);
  EXPECT_TRUE(shard::validate(data));
  EXPECT_EQ(data.time_axis, shard::TimeAxis{});
  EXPECT_TRUE(data.series.empty());
  EXPECT_TRUE(data.rank_series.empty());
  EXPECT_TRUE(data.node_series.empty());
  EXPECT_EQ(data.path_axis, shard::TimeAxis{});
  EXPECT_TRUE(data.path_series.empty());
}

TEST(SynthTest, PathsHaveTheirTimeInPhases) {
  for (const std::uint32_t per_rank : {0u, 150u}) {
    const shard::ShardData data = shard_of_node(
        {.nodes = 3, .ranks_per_node = 2, .paths = 300, .paths_per_rank = per_rank, .seed = 4}, 1);
    const Result<void> valid = shard::validate(data);
    ASSERT_TRUE(valid) << valid.error().message;
    EXPECT_EQ(data.path_axis.bin_ns, 1'024'000'000u);
    EXPECT_LE(data.path_series.size(), shard::max_path_series_rows(2));
    std::uint64_t sum = 0, values = 0;
    std::map<std::uint32_t, std::set<std::uint32_t>> bins_of;
    for (const shard::PathSeries& row : data.path_series) {
      sum += row.wall_ns;
      bins_of[row.path].insert(row.bin);
    }
    for (const shard::Value& value : data.values) values += value.wall_ns;
    EXPECT_EQ(sum, values);
    std::size_t first_half = 0, second_half = 0, always = 0;
    for (const auto& [path, bins] : bins_of) {
      if (bins.size() > 55) ++always;
      if (*bins.rbegin() < 32 && bins.size() > 10) ++first_half;
      if (*bins.begin() > 27 && bins.size() > 10) ++second_half;
    }
    EXPECT_GT(always, 10u);
    EXPECT_GE(first_half, 5u);
    EXPECT_GE(second_half, 5u);
  }
}

TEST(SynthTest, RanksOfALargeProgramShareItsPathsUnequally) {
  const Shape shape{
      .nodes = 16, .ranks_per_node = 8, .paths = 6000, .paths_per_rank = 400, .seed = 4, .counters = 1};
  const SyntheticRun run(shape);
  std::map<shard::PathId, std::uint32_t> ranks_of;
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    const shard::ShardData data = run.shard(node);
    const Result<void> valid = shard::validate(data);
    ASSERT_TRUE(valid) << valid.error().message;
    EXPECT_LT(data.paths.size(), shape.paths * 3 / 4) << "a node has those of its own ranks";
    std::vector<std::uint32_t> paths(data.ranks.size());
    std::vector<std::uint64_t> wall_ns(data.ranks.size());
    std::vector<bool> used(data.paths.size());
    for (const shard::Value& value : data.values) {
      ++paths[value.rank];
      ++ranks_of[data.paths[value.path].id];
      wall_ns[value.rank] += value.wall_ns;
      EXPECT_GE(value.wall_ns, value.cpu_ns);
      // What a thread waited for a processor is told by the samples of the path's other rows.
      EXPECT_GE(value.samples, value.category == shard::Category::kRunnable ? 0u : 1u);
      used[value.path] = true;
    }
    for (std::size_t i = 0; i < data.ranks.size(); ++i) {
      EXPECT_GE(paths[i], 400u);
      EXPECT_LT(paths[i], 500u);
      EXPECT_EQ(wall_ns[i], data.ranks[i].elapsed_ns);
    }
    EXPECT_EQ(data.counters.size(), 1u);
    EXPECT_NEAR(static_cast<double>(data.path_counters.size()), static_cast<double>(data.values.size()),
                static_cast<double>(data.values.size()) / 20);
    for (std::size_t i = data.paths.size(); --i != 0;) {
      const std::string& name = data.strings[data.frames[data.paths[i].frame].name];
      if (!name.starts_with("MPI_") && name != "load_input" && name != "Solver.checkpoint") {
        EXPECT_TRUE(used[i]) << name;
      }
      used[data.paths[i].parent] = true;
    }
  }
  EXPECT_GT(ranks_of.size(), shape.paths * 7 / 10);
  EXPECT_LT(ranks_of.size(), shape.paths + 50);
  const auto had_by = [&](auto condition) {
    return std::count_if(ranks_of.begin(), ranks_of.end(),
                         [&](const auto& entry) { return condition(entry.second); });
  };
  EXPECT_GT(had_by([](std::uint32_t ranks) { return ranks == 128; }), 80) << "the hot ones";
  EXPECT_GT(had_by([](std::uint32_t ranks) { return ranks < 8; }), 2000) << "the rare ones";
  EXPECT_EQ(run.shard(3), shard_of_node(shape, 3));
}

TEST(SynthTest, DependsOnTheSeedAlone) {
  const Shape shape{.nodes = 2, .ranks_per_node = 2, .paths = 100, .seed = 5};
  EXPECT_EQ(shard_of_node(shape, 1), shard_of_node(shape, 1));
  Shape other = shape;
  other.seed = 6;
  EXPECT_NE(shard_of_node(shape, 1), shard_of_node(other, 1));
}

TEST(SynthTest, OneRankHasNoMpi) {
  const shard::ShardData data = shard_of_node({.nodes = 1, .ranks_per_node = 1, .paths = 3, .seed = 0}, 0);
  EXPECT_TRUE(shard::validate(data));
  EXPECT_TRUE(data.matrix.empty());
}

}  // namespace
}  // namespace clusterprof::synth
