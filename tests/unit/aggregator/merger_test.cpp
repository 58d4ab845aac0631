// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/merger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "formats/profile/profile_writer.hpp"
#include "formats/shard/tables.hpp"
#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof::aggregator {
namespace {

using namespace shard;

// Five shards of four nodes: one node has two, as after a second collector.
std::vector<ShardData> shards_of_a_run(std::uint64_t seed) {
  std::vector<ShardData> shards;
  shards.push_back(testing::random_shard(seed * 10 + 0, {.node = 0, .ranks = {0, 1, 2}}));
  shards.push_back(testing::random_shard(seed * 10 + 1, {.node = 1, .ranks = {5, 3}}));
  shards.push_back(testing::random_shard(seed * 10 + 2, {.node = 1, .ranks = {4}}));
  shards.push_back(testing::random_shard(seed * 10 + 3, {.node = 2, .ranks = {9, 8, 7, 6}}));
  shards.push_back(testing::random_shard(seed * 10 + 4, {.node = 3, .ranks = {}}));
  return shards;
}

ShardData united(const std::vector<ShardData>& shards, const std::vector<std::size_t>& order,
                 std::size_t most_series_rows = kMaxSeriesRows) {
  Merger merger(most_series_rows);
  for (const std::size_t i : order) merger.add(shards[i]);
  return merger.finish();
}

std::vector<std::size_t> in_order(const std::vector<ShardData>& shards) {
  std::vector<std::size_t> order(shards.size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

TEST(MergerTest, ResultDoesNotDependOnTheOrder) {
  const testing::TemporaryDirectory directory;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const std::vector<ShardData> shards = shards_of_a_run(seed);
    std::vector<std::size_t> order = in_order(shards);
    const ShardData first = united(shards, order);
    const Result<void> valid = validate(first);
    ASSERT_TRUE(valid) << valid.error().message;
    ASSERT_TRUE(profile::write_profile(first, directory.path() / "first.h5"));
    const auto bytes = testing::read_bytes(directory.path() / "first.h5");
    int permutations = 0;
    do {
      const ShardData other = united(shards, order);
      ASSERT_EQ(other, first);
      if (permutations++ % 20 != 0) continue;  // writing takes longest
      ASSERT_TRUE(profile::write_profile(other, directory.path() / "other.h5"));
      ASSERT_EQ(testing::read_bytes(directory.path() / "other.h5"), bytes);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(permutations, 120);
  }
}

TEST(MergerTest, ResultDoesNotDependOnTheGrouping) {
  std::mt19937 random(3);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<ShardData> parts = shards_of_a_run(seed);
    const ShardData all = united(parts, in_order(parts));
    while (parts.size() > 1) {  // any binary tree of merges, sides swapped at will
      const std::size_t a = random() % parts.size();
      std::size_t b = random() % (parts.size() - 1);
      if (b >= a) ++b;
      merge_into(parts[a], parts[b]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(b));
    }
    EXPECT_EQ(parts[0], all) << "seed " << seed;
  }
}

TEST(MergerTest, ResultDependsOnNeitherWhenSeriesBecomeCoarser) {
  std::mt19937 random(5);
  std::set<std::uint64_t> widths;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const std::size_t most_rows : {1u, 30u, 100u, 300u}) {
      std::vector<ShardData> parts = shards_of_a_run(seed);
      std::vector<std::size_t> order = in_order(parts);
      const ShardData all = united(parts, order, most_rows);
      const Result<void> valid = validate(all);
      ASSERT_TRUE(valid) << valid.error().message;
      widths.insert(all.time_axis.bin_ns);
      for (int i = 0; i < 10; ++i) {
        std::shuffle(order.begin(), order.end(), random);
        ASSERT_EQ(united(parts, order, most_rows), all);
      }
      while (parts.size() > 1) {
        const std::size_t a = random() % parts.size();
        std::size_t b = random() % (parts.size() - 1);
        if (b >= a) ++b;
        merge_into(parts[a], parts[b], most_rows);
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(b));
      }
      EXPECT_EQ(parts[0], all) << "seed " << seed << ", " << most_rows << " rows";
      std::uint32_t last = 0;
      for (const RankSeries& row : all.rank_series) last = std::max(last, row.bin);
      EXPECT_TRUE(all.rank_series.size() < most_rows || last <= 1);
    }
  }
  EXPECT_GE(widths.size(), 4u);
}

TEST(MergerTest, MergingAMergedShardAgainChangesNothing) {
  const std::vector<ShardData> shards = shards_of_a_run(4);
  const ShardData all = united(shards, in_order(shards));
  ShardData again;
  Merger merger;
  merger.add(all);
  EXPECT_EQ(merger.finish(), all);
}

// A value by what it means instead of by indices.
using Meaning = std::tuple<std::int32_t, std::uint64_t, std::uint64_t, Category, bool>;
std::map<Meaning, std::array<std::uint64_t, 3>> meaning(const ShardData& data) {
  std::map<Meaning, std::array<std::uint64_t, 3>> result;
  for (const Value& value : data.values) {
    const PathId& id = data.paths[value.path].id;
    auto& sums = result[{data.ranks[value.rank].rank, id.high, id.low, value.category, value.main_thread}];
    sums[0] += value.wall_ns;
    sums[1] += value.cpu_ns;
    sums[2] += value.samples;
  }
  return result;
}

TEST(MergerTest, NothingIsLost) {
  const std::vector<ShardData> shards = shards_of_a_run(7);
  const ShardData all = united(shards, in_order(shards));
  std::map<Meaning, std::array<std::uint64_t, 3>> expected;
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t> bytes;
  std::uint64_t calls = 0, time_ns = 0, drops = 0, sizes = 0, page_faults = 0;
  for (const ShardData& shard : shards) {
    expected.merge(meaning(shard));
    for (const MatrixCell& cell : shard.matrix) bytes[{cell.source, cell.destination}] += cell.bytes;
    for (const MpiCall& call : shard.mpi_calls) calls += call.count, time_ns += call.time_ns;
    for (const Drop& drop : shard.drops) drops += drop.count;
    for (const MpiSize& size : shard.mpi_sizes) sizes += size.count;
    for (const CounterValue& value : shard.counter_values)
      if (shard.counters[value.counter] == "PAGE-FAULTS") page_faults += value.value;
  }
  EXPECT_EQ(meaning(all), expected);
  for (const MatrixCell& cell : all.matrix)
    EXPECT_EQ(cell.bytes, (bytes.at({cell.source, cell.destination})));
  EXPECT_EQ(all.matrix.size(), bytes.size());
  for (const MpiCall& call : all.mpi_calls) calls -= call.count, time_ns -= call.time_ns;
  for (const Drop& drop : all.drops) drops -= drop.count;
  for (const MpiSize& size : all.mpi_sizes) sizes -= size.count;
  for (const CounterValue& value : all.counter_values)
    if (all.counters[value.counter] == "PAGE-FAULTS") page_faults -= value.value;
  EXPECT_EQ(calls, 0u);
  EXPECT_EQ(time_ns, 0u);
  EXPECT_EQ(drops, 0u);
  EXPECT_EQ(sizes, 0u);
  EXPECT_EQ(page_faults, 0u);
  std::vector<std::int32_t> ranks;
  for (const Rank& rank : all.ranks) ranks.push_back(rank.rank);
  EXPECT_EQ(ranks, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  ASSERT_EQ(all.nodes.size(), 4u);
  EXPECT_EQ(all.nodes[all.ranks[4].node].name, "n1");
  EXPECT_EQ(all.nodes[1].cpu_ns, shards[1].nodes[0].cpu_ns + shards[2].nodes[0].cpu_ns);
}

// One rank, one call path, one message to rank 9.
ShardData record(const char* node, std::int32_t rank, std::uint64_t elapsed_ns, std::uint32_t flags) {
  ShardData data;
  data.run.id = "r";
  data.run.complete = true;
  Node entry;
  entry.name = node;
  data.nodes = {entry};
  PathInterner interner(data);
  const std::uint32_t path = interner.path(
      0, interner.frame({FrameKind::kPython, false, interner.string(std::string("f_") + node)}));
  Rank row;
  row.rank = rank;
  row.elapsed_ns = elapsed_ns;
  row.flags = flags;
  data.ranks = {row};
  data.values = {{0, path, Category::kPython, true, elapsed_ns, 1, 1}};
  data.matrix = {{rank, 9, 1, elapsed_ns}};
  data.mpi_sizes = {{interner.string("MPI_Send"), 8, elapsed_ns}};
  const std::uint32_t region =
      interner.path(0, interner.frame({FrameKind::kRegion, false, interner.string("r")}));
  data.region_times = {{0, region, 1, elapsed_ns, elapsed_ns, elapsed_ns, -1}};
  data.data_accesses = {{0, path, elapsed_ns, 1, {1, 0, 0, elapsed_ns}}};
  data.io_files = {{std::string("/of/") + node, "ext4 /"}};
  data.io_calls = {{0, path, 0, IoOperation::kRead, 1, 0, elapsed_ns, 1, 1}};
  data.series = {{interner.string("work_ns"), SeriesKind::kSum}};
  data.time_axis = {1'000'000, 0};
  data.rank_series = {{0, 0, 5, elapsed_ns}};
  data.node_series = {{0, 0, 6, elapsed_ns}};
  data.path_axis = {2'000'000, 0};
  data.path_series = {{0, 1, 1}, {path, 2, elapsed_ns}};
  data.ranks[0].affinity = interner.string(std::string("processor of ") + node);
  return data;
}

// Sums of the tables that came with format 1.3, by what they mean.
struct Sums {
  using Where = std::tuple<std::int32_t, std::uint64_t, std::uint64_t>;   // rank, call path
  std::map<std::tuple<std::int32_t, std::string>, std::uint64_t> series;  // of kSum; rank
  std::map<std::tuple<std::int32_t, std::string>, std::uint64_t> levels;  // the highest of kMaximum
  std::map<std::tuple<Where, std::string, std::string, IoOperation>, std::array<std::uint64_t, 5>> io;
  std::map<Where, std::array<std::uint64_t, 6>> accesses;
  std::map<Where, std::array<std::int64_t, 5>> regions;
  std::map<std::int32_t, std::pair<std::string, std::string>> places;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> paths;  // call path
  std::map<std::tuple<Where, MemoryDomain>, std::array<std::uint64_t, 11>> memory;
  std::map<std::int32_t, std::uint64_t> memory_peaks;
  std::map<std::tuple<std::int32_t, std::string, std::string>, std::array<std::uint64_t, 4>> labels;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> held;  // call path
  friend bool operator==(const Sums&, const Sums&) = default;
};

void add_sums(const ShardData& data, Sums& sums) {
  const auto where = [&](const auto& row) {
    const PathId& id = data.paths[row.path].id;
    return Sums::Where{data.ranks[row.rank].rank, id.high, id.low};
  };
  for (const RankSeries& row : data.rank_series) {
    const Series& series = data.series[row.series];
    const std::tuple key(data.ranks[row.rank].rank, data.strings[series.name]);
    if (series.kind == SeriesKind::kSum)
      sums.series[key] += row.value;
    else
      sums.levels[key] = std::max(sums.levels[key], row.value);
  }
  for (const IoCall& call : data.io_calls) {
    const IoFile& file = data.io_files[call.file];
    auto& sum = sums.io[{where(call), file.path, file.file_system, call.operation}];
    sum[0] += call.count, sum[1] += call.failed, sum[2] += call.bytes, sum[3] += call.time_ns;
    sum[4] = std::max(sum[4], call.max_ns);
  }
  for (const DataAccess& access : data.data_accesses) {
    auto& sum = sums.accesses[where(access)];
    sum[0] += access.samples, sum[1] += access.accesses;
    for (std::size_t i = 0; i < 4; ++i) sum[2 + i] |= access.blocks[i];
  }
  for (const RegionTime& region : data.region_times) {
    const auto place = sums.regions.find(where(region));
    const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
    if (place == sums.regions.end()) {
      sums.regions[where(region)] = {number(region.count), number(region.time_ns), number(region.min_ns),
                                     number(region.max_ns), region.max_n};
      continue;
    }
    auto& sum = place->second;
    sum[0] += number(region.count), sum[1] += number(region.time_ns);
    sum[2] = std::min(sum[2], number(region.min_ns));
    const std::pair longest =
        std::max(std::pair(sum[3], sum[4]), std::pair(number(region.max_ns), region.max_n));
    sum[3] = longest.first, sum[4] = longest.second;
  }
  for (const PathSeries& row : data.path_series)
    sums.paths[{data.paths[row.path].id.high, data.paths[row.path].id.low}] += row.wall_ns;
  for (const MemorySeries& row : data.memory_series)
    sums.held[{data.paths[row.path].id.high, data.paths[row.path].id.low}] += row.kib_ms;
  for (const MemoryRank& row : data.memory_ranks)
    sums.memory_peaks[data.ranks[row.rank].rank] = row.peak_bytes;
  for (const MemorySite& site : data.memory_sites) {
    auto& sum = sums.memory[{where(site), site.domain}];
    const std::array amounts{site.alloc_bytes,     site.alloc_count,    site.variance,
                             site.soon_bytes,      site.soon_count,     site.copy_bytes,
                             site.copy_count,      site.live_end_bytes, site.rank_peak_bytes,
                             site.node_peak_bytes, site.live_by_age[3]};
    for (std::size_t i = 0; i < amounts.size(); ++i) sum[i] += amounts[i];
  }
  for (const shard::MemorySpace& row : data.memory_spaces) {
    auto& sum = sums.labels[{data.ranks[row.rank].rank, row.name, "all"}];
    sum[0] += row.allocations, sum[1] += row.alloc_bytes, sum[2] += row.unknown_frees;
    sum[3] = std::max(sum[3], row.peak_bytes);
  }
  for (const shard::MemoryLabel& row : data.memory_labels) {
    auto& sum = sums.labels[{data.ranks[row.rank].rank, row.space, row.name}];
    sum[0] += row.allocations, sum[1] += row.alloc_bytes, sum[2] += row.live_end_bytes;
    sum[3] = std::max(sum[3], row.space_peak_bytes);
  }
  for (const shard::MemoryCopies& row : data.memory_copies) {
    auto& sum = sums.labels[{data.ranks[row.rank].rank, row.to, "from " + row.from}];
    sum[0] += row.count, sum[1] += row.bytes;
  }
  for (const Rank& rank : data.ranks)
    sums.places[rank.rank] = {data.strings[rank.affinity], data.strings[rank.numa_nodes]};
}

TEST(MergerTest, NothingOfSeriesFilesAndRegionsIsLost) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<ShardData> shards = shards_of_a_run(seed);
    const ShardData all = united(shards, in_order(shards));
    Sums expected, found;
    for (const ShardData& shard : shards) add_sums(shard, expected);
    add_sums(all, found);
    EXPECT_EQ(found, expected);
    ASSERT_FALSE(found.series.empty() || found.levels.empty() || found.io.empty() || found.regions.empty() ||
                 found.paths.empty() || found.memory.empty() || found.memory_peaks.empty() ||
                 found.held.empty());
    const auto name = [](const IoFile& file) { return std::tie(file.path, file.file_system); };
    for (std::size_t i = 1; i < all.io_files.size(); ++i)
      EXPECT_LT(name(all.io_files[i - 1]), name(all.io_files[i]));
    for (const ShardData& shard : shards) {
      EXPECT_GE(all.time_axis.bin_ns, shard.time_axis.bin_ns);
      EXPECT_LE(all.time_axis.origin_utc_ns, shard.time_axis.origin_utc_ns);
      EXPECT_GE(all.path_axis.bin_ns, shard.path_axis.bin_ns);
      EXPECT_LE(all.path_axis.origin_utc_ns, shard.path_axis.origin_utc_ns);
    }
  }
}

// One rank with a path that has these times.
ShardData with_path_series(const char* node, std::int32_t rank, const char* function, const TimeAxis& axis,
                           std::vector<std::pair<std::uint32_t, std::uint64_t>> bins) {
  ShardData data = record(node, rank, 100, 0);
  PathInterner interner(data);
  const std::uint32_t path =
      interner.path(0, interner.frame({FrameKind::kPython, false, interner.string(function)}));
  data.path_axis = axis;
  data.path_series.clear();
  for (const auto& [bin, ns] : bins) data.path_series.push_back({path, bin, ns});
  return data;
}
std::map<std::pair<std::string, std::uint32_t>, std::uint64_t> path_series_of(const ShardData& data) {
  std::map<std::pair<std::string, std::uint32_t>, std::uint64_t> found;
  for (const PathSeries& row : data.path_series)
    found[{data.strings[data.frames[data.paths[row.path].frame].name], row.bin}] = row.wall_ns;
  return found;
}

TEST(MergerTest, AddsUpPathSeriesOnOneAxis) {
  ShardData data =
      with_path_series("a", 0, "f", {1'000'000, 5'000'000}, {{0, 1}, {1, 10}, {2, 100}, {6, 1000}});
  merge_into(data, with_path_series("b", 1, "f", {4'000'000, 8'000'000}, {{0, 7}}));
  merge_into(data, with_path_series("c", 2, "g", {2'000'000, 10'000'000}, {{0, 3}, {1, 5}}));
  EXPECT_EQ(data.path_axis, (TimeAxis{4'000'000, 4'000'000}));
  EXPECT_EQ(path_series_of(data), (std::map<std::pair<std::string, std::uint32_t>, std::uint64_t>{
                                      {{"f", 0}, 111}, {{"f", 1}, 1007}, {{"g", 1}, 3}, {{"g", 2}, 5}}));
}

TEST(MergerTest, PathSeriesStayWithinTheirBins) {
  ShardData data = with_path_series("a", 0, "f", {1'000'000, 0}, {{0, 1}, {63, 2}});
  merge_into(data, with_path_series("b", 1, "f", {1'000'000, 1'000'000}, {{62, 5}}));
  EXPECT_EQ(data.path_axis, (TimeAxis{1'000'000, 0}));
  EXPECT_EQ(data.path_series.back().wall_ns, 7u);
  merge_into(data, with_path_series("c", 2, "f", {1'000'000, 64'000'000}, {{0, 9}}));
  EXPECT_EQ(data.path_axis, (TimeAxis{2'000'000, 0}));
  EXPECT_EQ(data.path_series.back().bin, 32u);

  // From one end of time to the other.
  const std::int64_t last = static_cast<std::int64_t>(TimeAxis::kEnd_utc_ns - 1'000'000);
  ShardData all = with_path_series("a", 0, "f", {1'000'000, 0}, {{0, 1}});
  merge_into(all, with_path_series("b", 1, "f", {1'000'000, last}, {{0, 5}}));
  const Result<void> valid = validate(all);
  ASSERT_TRUE(valid) << valid.error().message;
  EXPECT_EQ(all.path_axis, (TimeAxis{TimeAxis::kEnd_utc_ns / kMaxPathBins, 0}));
  EXPECT_EQ(path_series_of(all),
            (std::map<std::pair<std::string, std::uint32_t>, std::uint64_t>{{{"f", 0}, 1}, {{"f", 63}, 5}}));
}

TEST(MergerTest, LeavesOutPathSeriesOfAnInputWithoutRanks) {
  const ShardData better = with_path_series("a", 0, "f", {1'000'000, 0}, {{3, 10}});
  ShardData worse = with_path_series("a", 0, "f", {1'000'000, 0}, {{1, 100}});
  worse.ranks[0].flags |= kLost;
  const ShardData other = with_path_series("b", 1, "f", {1'000'000, 0}, {{3, 1}});
  using Bins = std::map<std::pair<std::string, std::uint32_t>, std::uint64_t>;
  std::vector<ShardData> parts = {better, worse, other};
  std::vector<std::size_t> order = in_order(parts);
  do {
    EXPECT_EQ(path_series_of(united(parts, order)), (Bins{{{"f", 3}, 11}}));
  } while (std::next_permutation(order.begin(), order.end()));
  Merger known;
  known.add(worse, std::vector<bool>{true});
  known.add(better, std::vector<bool>{});
  known.add(other, std::vector<bool>{false});
  EXPECT_EQ(path_series_of(known.finish()), (Bins{{{"f", 3}, 11}}));
}

// One rank with one series of each kind.
ShardData with_series(const char* node, std::int32_t rank, const TimeAxis& axis,
                      const std::vector<std::pair<std::uint32_t, std::uint64_t>>& bins) {
  ShardData data = record(node, rank, 1, kExitStatusKnown);
  data.rank_series.clear();
  data.node_series.clear();
  PathInterner interner(data);
  data.series = {{interner.string("work_ns"), SeriesKind::kSum},
                 {interner.string("rss"), SeriesKind::kMaximum}};
  data.time_axis = axis;
  for (std::uint32_t series = 0; series < 2; ++series) {
    for (const auto& [bin, value] : bins) {
      data.rank_series.push_back({0, series, bin, value});
      data.node_series.push_back({0, series, bin, value});
    }
  }
  return data;
}

TEST(MergerTest, SeriesGetTheWidestBins) {
  ShardData data = with_series("a", 0, {1'000'000, 5'000'000}, {{0, 1}, {1, 10}, {2, 100}, {6, 1000}});
  merge_into(data, with_series("b", 1, {4'000'000, 8'000'000}, {{0, 7}}));
  EXPECT_TRUE(validate(data));
  EXPECT_EQ(data.time_axis, (TimeAxis{4'000'000, 4'000'000}));
  // In order of their names: rss, work_ns. Milliseconds 5, 6, 7 and 11 are in the bins that begin at 4 and 8.
  EXPECT_EQ(
      data.rank_series,
      (std::vector<RankSeries>{
          {0, 0, 0, 100}, {0, 0, 1, 1000}, {0, 1, 0, 111}, {0, 1, 1, 1000}, {1, 0, 1, 7}, {1, 1, 1, 7}}));
  ASSERT_EQ(data.series.size(), 2u);
  EXPECT_EQ(data.strings[data.series[0].name], "rss");
}

TEST(MergerTest, SeriesThatAreFarApartGetWiderBins) {
  // 1024 bins from 0 on and one just behind them.
  ShardData data = with_series("a", 0, {1'000'000, 0}, {{0, 1}, {1023, 2}});
  ShardData same = data;
  merge_into(same, with_series("b", 1, {1'000'000, 1'000'000}, {{1022, 5}}));
  EXPECT_EQ(same.time_axis, (TimeAxis{1'000'000, 0}));
  merge_into(data, with_series("b", 1, {1'000'000, 1'000'000}, {{1023, 5}}));
  EXPECT_EQ(data.time_axis, (TimeAxis{2'000'000, 0}));
  EXPECT_EQ(data.rank_series.back(), (RankSeries{1, 1, 512, 5}));

  // The ends of all time.
  const std::uint64_t last = TimeAxis::kEnd_utc_ns - TimeAxis::kFirstBin_ns;
  ShardData begin = with_series("a", 0, {1'000'000, 0}, {{0, 1}});
  merge_into(begin, with_series("b", 1, {1'000'000, static_cast<std::int64_t>(last)}, {{0, 5}}), 2);
  const Result<void> valid = validate(begin);
  EXPECT_TRUE(valid) << valid.error().message;
  EXPECT_EQ(begin.time_axis, (TimeAxis{TimeAxis::kWidestBin_ns, 0}));
  EXPECT_EQ(begin.rank_series.back(), (RankSeries{1, 1, 1023, 5}));
}

TEST(MergerTest, JoinsSeriesOfOneNode) {
  ShardData data = with_series("a", 0, {1'000'000, 0}, {{0, 1}, {3, 2}});
  merge_into(data, with_series("a", 1, {1'000'000, 1'000'000}, {{2, 5}}));
  ASSERT_EQ(data.nodes.size(), 1u);
  EXPECT_EQ(data.node_series,
            (std::vector<NodeSeries>{{0, 0, 0, 1}, {0, 0, 3, 5}, {0, 1, 0, 1}, {0, 1, 3, 7}}));
}

TEST(MergerTest, KeepsSeriesOfDifferentKindsApart) {
  ShardData a = with_series("a", 0, {1'000'000, 0}, {{0, 1}, {1, 2}});
  ShardData b = with_series("b", 1, {2'000'000, 0}, {{0, 5}});
  std::swap(b.series[0].kind, b.series[1].kind);
  merge_into(a, b);
  EXPECT_TRUE(validate(a));
  EXPECT_EQ(a.series.size(), 4u);
}

TEST(MergerTest, LeavesOutRowsOfSeriesThatAreZero) {
  ShardData data = with_series("a", 0, {1'000'000, 0}, {{0, 0}, {1, 3}, {900, 0}});
  merge_into(data, with_series("b", 1, {1'000'000, 1'000'000'000}, {{0, 4}}));
  EXPECT_EQ(data.time_axis.bin_ns, 1'000'000u);
  EXPECT_EQ(data.rank_series.size(), 4u);
}

TEST(MergerTest, ShardsWithoutSeriesDoNotChangeSeries) {
  ShardData data = with_series("a", 0, {1'000'000, 5'000'000}, {{0, 1}});
  const TimeAxis axis = data.time_axis;
  ShardData other = record("b", 1, 1, 0);
  other.time_axis = {};
  other.rank_series.clear();
  other.node_series.clear();
  merge_into(data, other);
  EXPECT_EQ(data.time_axis, axis);
  EXPECT_EQ(data.rank_series.size(), 2u);
  ShardData none;
  merge_into(none, ShardData{});
  EXPECT_EQ(none.time_axis, TimeAxis{});
}

TEST(MergerTest, JoinsWhatIsKnownOfANode) {
  ShardData a = record("a", 0, 1, 0), b = record("a", 1, 1, 0);
  a.nodes[0].cpus = 8;
  a.nodes[0].memory_bytes = 100;
  b.nodes[0].numa_nodes = 2;
  b.nodes[0].memory_bytes = 99;
  b.nodes[0].cache_bytes = 7;
  b.nodes[0].cpu_model = "model";
  merge_into(a, b);
  ASSERT_EQ(a.nodes.size(), 1u);
  EXPECT_EQ(a.nodes[0].cpus, 8u);
  EXPECT_EQ(a.nodes[0].numa_nodes, 2u);
  EXPECT_EQ(a.nodes[0].memory_bytes, 100u);
  EXPECT_EQ(a.nodes[0].cache_bytes, 7u);
  EXPECT_EQ(a.nodes[0].cpu_model, "model");
}

TEST(MergerTest, KeepsTheEventThatSamplesWereTakenOn) {
  ShardData a = record("a", 3, 1, 0), b = record("b", 1, 1, 0), c = record("c", 2, 1, 0);
  a.run.sample_on = "z";
  b.run.sample_on = "page-faults";
  c.run.counters_multiplexed = true;
  c.run.launcher = "torchrun";
  a.run.only_regions = true;
  const ShardData all = united({a, b, c}, {2, 0, 1});
  EXPECT_EQ(all.run.sample_on, "page-faults");
  EXPECT_EQ(all.run.launcher, "torchrun");
  EXPECT_TRUE(all.run.only_regions);
  EXPECT_TRUE(all.run.counters_multiplexed);
}

TEST(MergerTest, JoinsThePathsOfTheUsersCode) {
  ShardData a = record("a", 0, 1, 0), b = record("b", 1, 1, 0);
  a.run.own = {"/u/code", "/u/more"};
  b.run.own = {"/u/also", "/u/code"};
  EXPECT_EQ(united({a, b}, {0, 1}).run.own, (std::vector<std::string>{"/u/also", "/u/code", "/u/more"}));
}

TEST(MergerTest, PathsAreInPreorderAndOncePerId) {
  const std::vector<ShardData> shards = shards_of_a_run(8);
  const ShardData all = united(shards, in_order(shards));
  std::vector<std::uint32_t> open{0};
  std::map<PathId, int> seen;
  for (std::uint32_t i = 1; i < all.paths.size(); ++i) {
    EXPECT_EQ(++seen[all.paths[i].id], 1);
    while (!open.empty() && open.back() != all.paths[i].parent) open.pop_back();
    ASSERT_FALSE(open.empty()) << "path " << i << " comes after the end of its parent's subtree";
    open.push_back(i);
  }
  EXPECT_TRUE(std::is_sorted(all.strings.begin(), all.strings.end()));
}

TEST(MergerTest, CountsARankOnce) {
  const ShardData lost = record("a", 0, 900, kLost);
  const ShardData shorter = record("b", 0, 100, kExitStatusKnown);
  const ShardData longer = record("c", 0, 200, kExitStatusKnown);
  const ShardData other = record("d", 1, 50, kExitStatusKnown);
  const std::vector<ShardData> shards{lost, shorter, longer, other};
  std::vector<std::size_t> order = in_order(shards);
  const ShardData first = united(shards, order);
  do {
    ASSERT_EQ(united(shards, order), first);
  } while (std::next_permutation(order.begin(), order.end()));

  ASSERT_EQ(first.ranks.size(), 2u);
  EXPECT_EQ(first.ranks[0].elapsed_ns, 200u);
  ASSERT_EQ(first.values.size(), 2u);
  EXPECT_EQ(first.values[0].wall_ns, 200u);
  EXPECT_EQ(first.nodes.size(), 2u) << "nodes of records that were left out are left out";
  ASSERT_EQ(first.matrix.size(), 2u);
  EXPECT_EQ(first.matrix[0].bytes, 200u);
  ASSERT_EQ(first.mpi_sizes.size(), 1u);
  EXPECT_EQ(first.mpi_sizes[0].count, 250u);
  EXPECT_EQ(first.rank_series, (std::vector<RankSeries>{{0, 0, 5, 200}, {1, 0, 5, 50}}));
  EXPECT_EQ(first.node_series, (std::vector<NodeSeries>{{0, 0, 6, 200}, {1, 0, 6, 50}}));
  ASSERT_EQ(first.io_files.size(), 2u);
  EXPECT_EQ(first.io_files[0].path, "/of/c");
  ASSERT_EQ(first.io_calls.size(), 2u);
  EXPECT_EQ(first.io_calls[0].bytes, 200u);
  ASSERT_EQ(first.data_accesses.size(), 2u);
  EXPECT_EQ(first.data_accesses[0].blocks[3], 200u);
  ASSERT_EQ(first.region_times.size(), 2u);
  EXPECT_EQ(first.region_times[0].time_ns, 200u);
  EXPECT_EQ(first.strings[first.ranks[0].affinity], "processor of c");
  EXPECT_EQ(std::count(first.strings.begin(), first.strings.end(), "processor of a"), 0)
      << "strings of records that were left out are left out";
  EXPECT_EQ(first.run.notes, std::vector{note_of_ranks(shard::NoteCode::kRepeatedRanks, {0, 0})});

  ShardData left = lost, right = longer;  // ((lost shorter) (longer other)): by pairs as well
  merge_into(left, shorter);
  merge_into(right, other);
  merge_into(left, right);
  EXPECT_EQ(left, first);
}

TEST(MergerTest, SameIdFromAnotherDirectoryBecomesOnePath) {
  const auto with_module = [](const char* module, std::int32_t rank) {
    ShardData data;
    data.nodes = {{}};
    PathInterner interner(data);
    const std::uint32_t path = interner.path(
        0, interner.frame({FrameKind::kNative, false, interner.string("f"), 0, interner.string(module)}));
    Rank row;
    row.rank = rank;
    data.ranks = {row};
    data.values = {{0, path, Category::kNative, true, 5, 5, 1}};
    return data;
  };
  ShardData a = with_module("/scratch/b/lib.so", 0);
  ShardData b = with_module("/scratch/a/lib.so", 1);
  ShardData ab = a, ba = b;
  merge_into(ab, b);
  merge_into(ba, a);
  EXPECT_EQ(ab, ba);
  ASSERT_EQ(ab.paths.size(), 2u);
  ASSERT_EQ(ab.frames.size(), 1u);
  EXPECT_EQ(ab.strings[ab.frames[0].module], "/scratch/a/lib.so");
}

TEST(MergerTest, TakesTheCommandOfTheLowestRank) {
  ShardData a = record("a", 7, 1, 0), b = record("b", 2, 1, 0);
  a.run.command = {"a.out"};
  b.run.command = {"z.out"};
  merge_into(a, b);
  EXPECT_EQ(a.run.command, std::vector<std::string>{"z.out"});
}

TEST(MergerTest, LeavesEventsToTheAnalysis) {
  ShardData shard = testing::random_shard(5, {.ranks = {0, 1}});
  ASSERT_FALSE(shard.mpi_events.empty());
  shard.ranks[1].event_level = 3;
  shard.ranks[1].mpi_operations = 12345;
  shard.mpi_events[0].communicator = static_cast<std::uint32_t>(shard.communicators.size());
  shard.communicators.push_back({4711, 5, ""});  // of events alone
  Merger merger;
  merger.add(shard);
  const ShardData merged = merger.finish();
  EXPECT_TRUE(merged.mpi_events.empty());
  EXPECT_TRUE(merged.event_gaps.empty());
  EXPECT_TRUE(merged.wait_states.empty());
  EXPECT_FALSE(merged.wait_analysis.done);
  EXPECT_EQ(merged.ranks[1].event_level, 3u);
  EXPECT_EQ(merged.ranks[1].mpi_operations, 12345u);
  EXPECT_EQ(merged.communicators.size(), 2u);
  EXPECT_TRUE(validate(merged));
}

TEST(MergerTest, WithoutInputsGivesAnEmptyValidProfile) {
  Merger merger;
  const ShardData data = merger.finish();
  EXPECT_TRUE(validate(data));
  EXPECT_TRUE(data.ranks.empty());
  EXPECT_FALSE(data.run.complete);
}

// The rank has a number in a group, and has sent `bytes` to another number.
ShardData member_of_group(const char* node, std::int32_t rank, std::uint32_t restart, std::int32_t number,
                          std::int32_t to, std::uint64_t bytes) {
  ShardData data = record(node, rank, 100, kExitStatusKnown);
  data.ranks[0].restart = restart;
  data.matrix.clear();
  data.communicators = {{50, 2, "process group pair"}};
  data.group_numbers = {{0, 0, number}};
  data.group_messages = {{0, 0, to, 1, bytes}};
  return data;
}

TEST(MergerTest, MessagesToMembersOfGroupsGetTheirRanks) {
  // Ranks 5 and 3 are 0 and 1; started again, 7 and 8 are. Of the last one's there is no number 2.
  const std::vector<ShardData> shards{
      member_of_group("a", 5, 0, 0, 1, 10), member_of_group("b", 3, 0, 1, 0, 20),
      member_of_group("c", 7, 1, 0, 1, 30), member_of_group("d", 8, 1, 1, 2, 40)};
  std::vector<std::size_t> order = in_order(shards);
  const ShardData all = united(shards, order);
  EXPECT_EQ(all.matrix, (std::vector<MatrixCell>{{3, 5, 1, 20}, {5, 3, 1, 10}, {7, 8, 1, 30}}));
  ASSERT_EQ(all.group_messages.size(), 1u);
  EXPECT_EQ(all.ranks[all.group_messages[0].rank].rank, 8);
  EXPECT_EQ(all.group_messages[0].destination, 2);
  while (std::next_permutation(order.begin(), order.end())) ASSERT_EQ(united(shards, order), all);
  // Parts that are merged first leave to the whole what they cannot tell.
  ShardData one = united({shards[0], shards[2]}, {0, 1});
  EXPECT_TRUE(one.matrix.empty());
  merge_into(one, united({shards[1], shards[3]}, {0, 1}));
  EXPECT_EQ(one, all);
}

}  // namespace
}  // namespace clusterprof::aggregator
