// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "aggregator/merger.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/profile/profile_writer.hpp"
#include "profile_builder.hpp"
#include "random_profile.hpp"
#include "report/page/page_builder.hpp"
#include "report/page/rank_groups.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::kCategories;
using shard::kNone;
using shard::ShardData;
using testing::kMs;
using testing::ProfileBuilder;
using testing::random_profile;

PageData page_of(ShardData data, const PageOptions& options = {}) {
  aggregator::correct_times(data);
  return make_page_data(data, shard::InMemoryRows(data), analyse(data), options);
}

double self_of(const PagePath& path) {
  double sum = 0;
  for (const double seconds : path.self_s) sum += seconds;
  return sum;
}

std::vector<double> self_times(const PageData& page) {
  std::vector<double> self;
  for (const PagePath& path : page.paths) self.push_back(self_of(path));
  return self;
}

std::vector<double> inclusive_times(const PageData& page, std::vector<double> self) {
  for (std::size_t path = self.size(); path-- > 1;) self[page.paths[path].parent] += self[path];
  return self;
}

using FunctionName = std::tuple<std::string, std::string, std::string, shard::FrameKind, std::uint32_t>;
struct Times {
  double self_s = 0, total_s = 0;
};
using FunctionTimes = std::map<FunctionName, Times>;

// Before 3.11 methods are told apart by their line; of native code it means nothing.
FunctionName name_of(const auto& row) {
  return {row.name, row.file, row.module, row.kind, row.kind == shard::FrameKind::kPython ? row.line : 0};
}

// As the page computes them: recursion counts once.
FunctionTimes function_times(const PageData& page, const std::vector<double>& self) {
  const std::vector<double> inclusive = inclusive_times(page, self);
  const auto function = [&](std::uint32_t path) {
    const std::uint32_t frame = page.paths[path].frame;
    return frame == kNone ? kNone : page.frames[frame].function;
  };
  FunctionTimes times;
  for (std::uint32_t path = 1; path < page.paths.size(); ++path) {
    if (function(path) == kNone) continue;
    Times& of = times[name_of(page.functions[function(path)])];
    of.self_s += self[path];
    bool outermost = true;
    for (std::uint32_t up = page.paths[path].parent; up != 0; up = page.paths[up].parent)
      outermost = outermost && function(up) != function(path);
    if (outermost) of.total_s += inclusive[path];
  }
  return times;
}

void expect_same(const FunctionTimes& page, const Analysis& analysis, double relative) {
  std::size_t with_time = 0;
  for (const auto& [name, times] : page) with_time += times.total_s > 0 ? 1 : 0;
  EXPECT_EQ(with_time, analysis.functions.size());
  for (const FunctionRow& row : analysis.functions) {
    const auto known = page.find(name_of(row));
    ASSERT_NE(known, page.end()) << row.name;
    EXPECT_NEAR(known->second.self_s, row.self_s, row.self_s * relative + 1e-12) << row.name;
    EXPECT_NEAR(known->second.total_s, row.total_s, row.total_s * relative + 1e-12) << row.name;
  }
}

// Another order of the same ranks.
class Shuffled final : public shard::RowSource {
 public:
  Shuffled(const ShardData& data, std::uint64_t seed) : data_(data), seed_(seed) {}
  void for_each_rank(const std::function<void(const shard::RankRows&)>& use) const override {
    struct Rows {
      std::uint32_t rank;
      std::vector<shard::Value> values;
    };
    std::vector<Rows> all;
    shard::InMemoryRows(data_).for_each_rank([&](const shard::RankRows& rows) {
      all.push_back({rows.rank, {rows.values.begin(), rows.values.end()}});
    });
    std::mt19937_64 random(seed_);
    std::shuffle(all.begin(), all.end(), random);
    for (const Rows& rows : all) use({rows.rank, rows.values, {}, {}});
  }

 private:
  const ShardData& data_;
  std::uint64_t seed_;
};

class OfRandomRuns : public ::testing::TestWithParam<int> {};

TEST_P(OfRandomRuns, FunctionsHaveTheTimesOfTheReport) {
  const ShardData data = random_profile(static_cast<std::uint64_t>(GetParam()));
  const Analysis analysis = analyse(data);
  const PageData page = page_of(data);
  expect_same(function_times(page, self_times(page)), analysis, 1e-9);

  double self_s = 0, helper_idle_s = 0;
  for (const PagePath& path : page.paths) {
    self_s += self_of(path);
    helper_idle_s += path.helper_idle_s;
  }
  EXPECT_NEAR(self_s, analysis.sampled_s, 1e-9 * analysis.sampled_s);
  EXPECT_NEAR(helper_idle_s, analysis.helper_idle_s, 1e-9 * analysis.sampled_s);
  for (std::size_t i = 0; i < analysis.functions.size(); ++i) {
    EXPECT_EQ(page.functions[i].row, i);
    EXPECT_EQ(page.functions[i].name, analysis.functions[i].name);
  }
}

TEST_P(OfRandomRuns, EveryRankHasTheTimesOfAReportOfItAlone) {
  const ShardData data = random_profile(static_cast<std::uint64_t>(GetParam()));
  const Analysis analysis = analyse(data);
  const PageData page = page_of(data);
  ASSERT_EQ(page.groups, data.ranks.size());
  for (std::uint32_t rank = 0; rank < data.ranks.size(); ++rank) {
    ShardData alone = data;
    std::erase_if(alone.values, [&](const shard::Value& value) { return value.rank != rank; });
    std::erase_if(alone.mpi_calls, [&](const shard::MpiCall& call) { return call.rank != rank; });
    const auto position = static_cast<std::size_t>(
        std::find_if(analysis.ranks.begin(), analysis.ranks.end(),
                     [&](const RankInfo& info) { return info.rank == data.ranks[rank].rank; }) -
        analysis.ranks.begin());
    std::vector<double> self(page.paths.size(), 0);
    for (const PageCell& cell : page.cells)
      if (cell.group == page.group_of_rank[position]) self[cell.path] += static_cast<double>(cell.self_s);
    expect_same(function_times(page, self), analyse(alone), 1e-6);
  }
}

TEST_P(OfRandomRuns, SmallPathsGoIntoOthersAndSumsStay) {
  const ShardData data = random_profile(static_cast<std::uint64_t>(GetParam()));
  const PageData whole = page_of(data);
  const std::vector<double> inclusive = inclusive_times(whole, self_times(whole));
  // By the frames from the root on.
  using Chain = std::vector<std::uint32_t>;
  const auto named = [](const PageData& page) {
    std::map<Chain, std::uint32_t> paths;
    std::vector<Chain> chains(page.paths.size());
    for (std::uint32_t i = 1; i < page.paths.size(); ++i) {
      chains[i] = chains[page.paths[i].parent];
      if (page.paths[i].others) continue;
      const PageFrame& frame = page.frames[page.paths[i].frame];
      std::uint32_t number = static_cast<std::uint32_t>(
          std::hash<std::string>{}(frame.name + '\0' + frame.file + '\0' + frame.module +
                                   std::to_string(static_cast<int>(frame.kind))));
      number = number * 31 + frame.line * 7 + frame.function_line + (frame.inlined ? 1 : 0);
      chains[i].push_back(number);
      paths[chains[i]] = i;
    }
    return paths;
  };
  const std::map<Chain, std::uint32_t> all = named(whole);
  for (const std::size_t most : {2u, 3u, 8u, 20u}) {
    PageOptions options;
    options.paths = most;
    const PageData page = page_of(data, options);
    EXPECT_LE(page.paths.size(), std::max<std::size_t>(most, 2));
    const std::vector<double> here = inclusive_times(page, self_times(page));
    EXPECT_NEAR(here[0], inclusive[0], 1e-9 * inclusive[0]);
    double least_shown = inclusive[0], most_hidden = 0;
    std::set<std::uint32_t> shown;
    for (const auto& [chain, path] : named(page)) {
      const auto known = all.find(chain);
      ASSERT_NE(known, all.end());
      EXPECT_NEAR(here[path], inclusive[known->second], 1e-9 * inclusive[0]);
      least_shown = std::min(least_shown, here[path]);
      shown.insert(known->second);
    }
    // No hidden row is larger than a shown one, except one that did not fit together with its "others".
    for (const auto& [chain, path] : all)
      if (!shown.contains(path) && shown.contains(whole.paths[path].parent))
        most_hidden = std::max(most_hidden, inclusive[path]);
    EXPECT_LE(most_hidden, least_shown + 1e-12);
    for (std::uint32_t i = 0; i < page.paths.size(); ++i) {
      EXPECT_LE(page.paths[i].parent, i);
      EXPECT_EQ(page.paths[i].frame == kNone, i == 0 || page.paths[i].others);
      EXPECT_TRUE(i == 0 || here[i] > 0);
    }
    // The cells of all ranks are the tree.
    std::vector<double> cells(page.paths.size(), 0), idle(cells);
    for (const PageCell& cell : page.cells) {
      cells[cell.path] += static_cast<double>(cell.self_s);
      idle[cell.path] += static_cast<double>(cell.helper_idle_s);
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      EXPECT_NEAR(cells[i], self_of(page.paths[i]), 1e-6 * cells[i]);
      EXPECT_NEAR(idle[i], page.paths[i].helper_idle_s, 1e-6 * cells[i]);
    }
  }
}

TEST_P(OfRandomRuns, FewCellsJoinRanksWhateverTheirOrder) {
  const ShardData data = random_profile(static_cast<std::uint64_t>(GetParam()));
  const Analysis analysis = analyse(data);
  const PageData exact = page_of(data);
  for (std::size_t part = 1; part <= 8; part *= 2) {
    PageOptions options;
    options.cells = exact.cells.size() / part;
    const PageData page = make_page_data(data, shard::InMemoryRows(data), analysis, options);
    EXPECT_TRUE(page.cells.size() <= options.cells || page.groups <= 1 + PageData::kOwnGroups);
    double sum = 0;
    for (const PageCell& cell : page.cells) sum += static_cast<double>(cell.self_s);
    EXPECT_NEAR(sum, analysis.sampled_s, 1e-5 * analysis.sampled_s);
    for (const std::uint32_t group : page.group_of_rank) EXPECT_LT(group, page.groups);
    EXPECT_TRUE(
        std::is_sorted(page.cells.begin(), page.cells.end(), [](const PageCell& a, const PageCell& b) {
          return std::pair(a.group, a.path) < std::pair(b.group, b.path);
        }));

    const PageData again = make_page_data(data, Shuffled(data, 5), analysis, options);
    EXPECT_EQ(again.group_of_rank, page.group_of_rank);
    ASSERT_EQ(again.cells.size(), page.cells.size());
    for (std::size_t i = 0; i < page.cells.size(); ++i) {
      EXPECT_EQ(again.cells[i].path, page.cells[i].path);
      EXPECT_EQ(again.cells[i].self_s, page.cells[i].self_s);
    }
    EXPECT_EQ(again.function_row_s, page.function_row_s);
  }
}

// Nodes of a profile are read whole, by several threads; rows in memory come rank by rank.
void expect_same_page_of_profile(ShardData data, std::size_t rows) {
  for (std::uint32_t row = 1; row < data.paths.size(); ++row) {
    shard::Path& path = data.paths[row];
    path.id = shard::path_id(data.paths[path.parent].id, data.frames[path.frame], data.strings);
  }
  aggregator::Merger merger;
  merger.add(std::move(data));
  data = merger.finish();
  data.region_times.clear();  // random ones may be of call paths that are no regions, which no file may have
  aggregator::correct_times(data);
  const Analysis analysis = analyse(data);
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / ("page-" + std::to_string(::getpid()) + ".h5");
  const Result<void> written = profile::write_profile(data, path);
  ASSERT_TRUE(written) << written.error().message;
  Result<profile::ProfileReader> reader = profile::ProfileReader::open(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(reader) << reader.error().message;

  PageOptions options;
  options.rows = rows;
  ASSERT_FALSE(analysis.functions.empty());
  const std::size_t all_cells = make_page_data(data, shard::InMemoryRows(data), analysis, {}).cells.size();
  for (const std::size_t cells : {all_cells, all_cells / 2, std::size_t{1}}) {
    options.cells = cells;
    const PageData expected = make_page_data(data, shard::InMemoryRows(data), analysis, options);
    const Result<PageData> page = make_page_data(reader.value(), analysis, options);
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_EQ(page.value().group_of_rank, expected.group_of_rank);
    EXPECT_EQ(page.value().function_row_s, expected.function_row_s);
    EXPECT_EQ(page.value().rank_off_cpu_s, expected.rank_off_cpu_s);
    EXPECT_EQ(page.value().path_time, expected.path_time);
    EXPECT_EQ(self_times(page.value()), self_times(expected));
    ASSERT_EQ(page.value().cells.size(), expected.cells.size());
    for (std::size_t i = 0; i < expected.cells.size(); ++i) {
      const PageCell &cell = page.value().cells[i], &other = expected.cells[i];
      EXPECT_EQ(std::tie(cell.group, cell.path, cell.self_s, cell.helper_idle_s),
                std::tie(other.group, other.path, other.self_s, other.helper_idle_s))
          << i;
    }
  }
}

TEST_P(OfRandomRuns, PageOfAProfileEqualsPageOfItsRanks) {
  expect_same_page_of_profile(random_profile(static_cast<std::uint64_t>(GetParam())), 2);
}

INSTANTIATE_TEST_SUITE_P(Page, OfRandomRuns, ::testing::Range(0, 12));

// Ranks that are alike, except for some.
ShardData many_ranks(std::uint32_t ranks, std::uint32_t nodes) {
  ProfileBuilder b(ranks, nodes);
  const std::uint32_t solve =
      b.path({b.python("main", "/u/m.py", 3, 1), b.native("solve", "/u/s.so", "/u/s.c", 8)});
  const std::uint32_t wait = b.path({b.python("main", "/u/m.py", 4, 1), b.kernel("futex")});
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t work_ms = rank == 1234 ? 9000 : 5000 + rank % 7;
    b.sampled(rank, solve, Category::kNative, work_ms);
    b.sampled(rank, wait, Category::kIdle, 10'000 - work_ms);
  }
  if (ranks > 77) b.data.ranks[77].flags |= shard::kLost;
  return b.data;
}

TEST(PageRows, AreAllRanksWhereTheyFit) {
  const PageData page = page_of(many_ranks(64, 4));
  ASSERT_EQ(page.rows.size(), 64u);
  EXPECT_EQ(page.groups, 64u);
  for (std::uint32_t rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(page.rows[page.row_of_rank[rank]].first_rank, static_cast<std::int32_t>(rank));
    EXPECT_EQ(page.rows[page.row_of_rank[rank]].node, rank / 16);
  }
}

TEST(PageRows, OfManyRanksAreRangesWithoutTheOutliers) {
  const std::uint32_t ranks = 4000;
  const ShardData data = many_ranks(ranks, 40);
  PageOptions options;
  options.rows = 128;
  options.cells = 200;
  const PageData page = page_of(data, options);
  EXPECT_LE(page.rows.size(), options.rows + options.rows / 8);
  std::vector<std::uint32_t> in_row(page.rows.size(), 0);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const PageRow& row = page.rows[page.row_of_rank[rank]];
    ++in_row[page.row_of_rank[rank]];
    EXPECT_LE(row.first_rank, static_cast<std::int32_t>(rank));
    EXPECT_GE(row.last_rank, static_cast<std::int32_t>(rank));
    EXPECT_TRUE(row.node == kNone || row.node == rank / 100);
  }
  for (std::size_t i = 0; i < in_row.size(); ++i) {
    EXPECT_EQ(in_row[i], page.rows[i].ranks);
    EXPECT_TRUE(i == 0 || page.rows[i - 1].first_rank < page.rows[i].first_rank);
  }
  std::size_t alone = 0;
  for (const PageRow& row : page.rows) alone += row.ranks == 1 ? 1 : 0;
  EXPECT_EQ(alone, 2u);
  for (const std::uint32_t outlier : {77u, 1234u}) {
    EXPECT_EQ(in_row[page.row_of_rank[outlier]], 1u);
    const std::uint32_t group = page.group_of_rank[outlier];
    EXPECT_EQ(std::count(page.group_of_rank.begin(), page.group_of_rank.end(), group), 1);
  }
  EXPECT_LE(page.cells.size(), options.cells);
  EXPECT_GT(page.groups, 16u);

  // solve() is the report's first function: means of the rows.
  ASSERT_GE(page.row_functions, 1u);
  EXPECT_EQ(page.functions[0].name, "solve");
  EXPECT_FLOAT_EQ(page.function_row_s[page.row_of_rank[1234]], 9.0f);
  double sum = 0;
  for (std::size_t row = 0; row < page.rows.size(); ++row)
    sum += static_cast<double>(page.function_row_s[row]) * page.rows[row].ranks;
  EXPECT_NEAR(sum, analyse(data).functions[0].total_s, 1e-5 * sum);
}

TEST(PageRows, GroupsAreOfOneNodeAsLongAsTheyCan) {
  PageOptions options;
  options.rows = 128;
  options.cells = 160;
  const ShardData data = many_ranks(4000, 40);
  const PageData page = page_of(data, options);
  std::map<std::uint32_t, std::set<std::uint32_t>> nodes;
  for (std::uint32_t rank = 0; rank < 4000; ++rank) nodes[page.group_of_rank[rank]].insert(rank / 100);
  for (const auto& [group, of] : nodes) EXPECT_EQ(of.size(), 1u) << group;
}

// Ranks of one node share a group before they share a row.
TEST(PageRows, OfManyNodesAreThoseOfTheRanksOneByOne) {
  expect_same_page_of_profile(many_ranks(512, 16), 128);
}

TEST(PageRows, OutliersAreFarFromTheMedian) {
  ShardData data = many_ranks(100, 1);
  Analysis analysis = analyse(data);
  EXPECT_EQ(find_outliers(analysis, 10), (std::vector<std::uint32_t>{77}));
  analysis.ranks[5].max_rss_bytes = 100;
  EXPECT_EQ(find_outliers(analysis, 10), (std::vector<std::uint32_t>{77})) << "one value says nothing";
  for (RankInfo& rank : analysis.ranks) rank.max_rss_bytes = 1'000'000;
  analysis.ranks[5].max_rss_bytes = 1'050'000;
  EXPECT_EQ(find_outliers(analysis, 10), (std::vector<std::uint32_t>{77})) << "a few per cent are nothing";
  analysis.ranks[5].max_rss_bytes = 2'000'000;
  analysis.ranks[9].max_rss_bytes = 3'000'000;
  EXPECT_EQ(find_outliers(analysis, 10), (std::vector<std::uint32_t>{77, 9, 5}));
  EXPECT_EQ(find_outliers(analysis, 2), (std::vector<std::uint32_t>{77, 9}));
  Finding finding;
  finding.rank = 40;
  analysis.findings.push_back(finding);
  EXPECT_EQ(find_outliers(analysis, 1), (std::vector<std::uint32_t>{40}));
}

TEST(PageMatrix, WhatCollectivesMoveHasTheSameRowsAndColumns) {
  ProfileBuilder b(2000);
  b.data.matrix.push_back({0, 1, 1, 100});
  Analysis analysis = analyse(b.data);
  analysis.collective_matrix.clear();
  for (std::int32_t rank = 0; rank < 2000; ++rank)
    analysis.collective_matrix.push_back({rank, (rank + 1) % 2000, 0, 10});
  PageOptions options;
  options.matrix_side = 100;
  const PageData page = make_page_data(b.data, shard::InMemoryRows(b.data), analysis, options);
  EXPECT_EQ(page.matrix_bin_ranks, 32u);
  std::uint64_t bytes = 0;
  for (const shard::MatrixCell& cell : page.collective_matrix) {
    bytes += cell.bytes;
    EXPECT_LT(cell.source, 63);
  }
  EXPECT_EQ(bytes, 20'000u);
  EXPECT_EQ(page.collective_matrix.size(), 126u) << "each with itself and the next";
  ASSERT_EQ(page.matrix.size(), 1u);
  EXPECT_EQ(page.matrix[0].bytes, 100u);
}

TEST(PageLines, AreThoseThatThePathsCountFor) {
  // a.py:3 calls a library without lines, and itself.
  ProfileBuilder b(1);
  const auto line = b.path({b.python("f", "/u/a.py", 3, 1)});
  const auto library = b.child(line, b.native("sort", "/lib/libsort.so"));
  const auto again = b.child(library, b.python("f", "/u/a.py", 3, 1));
  b.sampled(0, line, Category::kPython, 2000);
  b.sampled(0, library, Category::kNative, 3000);
  b.sampled(0, again, Category::kPython, 5000);
  const Analysis analysis = analyse(b.data);
  const PageData page = make_page_data(b.data, shard::InMemoryRows(b.data), analysis, {});
  ASSERT_EQ(analysis.lines.size(), 1u);
  double self_s = 0;
  std::size_t own = 0;
  for (const PagePath& path : page.paths) {
    if (path.line == 0) self_s += self_of(path);
    own += path.own_line == 0;
  }
  EXPECT_NEAR(self_s, analysis.lines[0].self_s, 1e-9);
  EXPECT_EQ(own, 2u);
  PageOptions none;
  none.report_lines = 0;
  for (const PagePath& path : page_of(b.data, none).paths) EXPECT_EQ(path.line, kNone);
}

TEST(PageOffCpu, OfRanksAddsUpToTheRowsOfEachKind) {
  ProfileBuilder b(3);
  const auto sleep = b.path({b.native("rest", "/a.out", "/u/a.c", 3), b.kernel("nanosleep")});
  const auto read =
      b.path({b.native("load", "/a.out", "/u/a.c", 9), b.kernel("read"), b.kernel(shard::kOnFileName)});
  b.sampled(0, sleep, Category::kIdle, 4000);
  b.sampled(1, sleep, Category::kIdle, 1000);
  b.sampled(1, read, Category::kIo, 6000);
  b.sampled(1, read, Category::kIo, 500, false);
  const Analysis analysis = analyse(b.data);
  const PageData page = make_page_data(b.data, shard::InMemoryRows(b.data), analysis, {});
  ASSERT_EQ(page.off_cpu_kinds, (std::vector<OffCpu>{OffCpu::kSleep, OffCpu::kFile}));
  ASSERT_EQ(page.rank_off_cpu_s.size(), 6u);
  for (std::size_t kind = 0; kind < 2; ++kind) {
    double rows_s = 0, ranks_s = 0;
    for (const OffCpuRow& row : *analysis.off_cpu)
      if (row.kind == page.off_cpu_kinds[kind]) rows_s += row.time_s;
    for (std::size_t rank = 0; rank < 3; ++rank) ranks_s += page.rank_off_cpu_s[rank * 2 + kind];
    EXPECT_NEAR(ranks_s, rows_s, 1e-9);
  }
  EXPECT_EQ(page.rank_off_cpu_s[1], 0) << "rank 0 did not read";
  EXPECT_GT(page.rank_off_cpu_s[3], 0);
  EXPECT_EQ(page.rank_off_cpu_s[4], 0);
}

TEST(PageSeries, AreJoinedAndAveraged) {
  ProfileBuilder b(4, 2);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    b.series("minor_faults", rank, {1 + rank, 2, 3, 4, 5});
    b.series("rss_bytes", rank, {10, 20 + rank, 5}, shard::SeriesKind::kMaximum);
  }
  b.node_series("cpu_busy_ns", 1, {7, 8, 9});
  PageOptions options;
  options.bins = 3;
  options.rows = 2;
  const PageData page = page_of(b.data, options);
  EXPECT_EQ(page.bins, 3u);
  EXPECT_DOUBLE_EQ(page.bin_s, 2.048);
  EXPECT_DOUBLE_EQ(page.begin_s, -0.5);
  ASSERT_EQ(page.series.size(), 2u);
  ASSERT_EQ(page.rows.size(), 2u);
  EXPECT_EQ(page.series[0].name, "minor_faults");
  EXPECT_FALSE(page.series[0].maximum);
  EXPECT_EQ(page.series[0].row_values, (std::vector<float>{3.5f, 7, 5, 5.5f, 7, 5}));
  EXPECT_TRUE(page.series[1].maximum);
  EXPECT_EQ(page.series[1].row_values, (std::vector<float>{21, 5, 0, 23, 5, 0}));
  ASSERT_EQ(page.node_series.size(), 1u);
  EXPECT_EQ(page.node_series[0].row_values, (std::vector<float>{0, 0, 0, 15, 9, 0}));

  options.series_cells = 1;  // the fewest bins are never joined
  EXPECT_EQ(page_of(b.data, options).bins, 3u);
}

TEST(PageSeries, KeepsThoseThatMostRanksHave) {
  ProfileBuilder b(2, 2);
  constexpr std::uint32_t kSeries = 300, kFirst = 250;
  for (std::uint32_t i = 0; i < kSeries; ++i) {
    const std::string name = "s" + std::to_string(i);
    b.series(name, 0, {1});
    if (i >= kFirst) b.series(name, 1, {2});
    b.node_series(name, 0, {3});
    if (i >= kFirst) b.node_series(name, 1, {4});
  }
  PageOptions options;
  options.series_cells = 100;
  const PageData page = page_of(b.data, options);
  const auto check = [&](const std::vector<PageSeries>& series, std::size_t all) {
    EXPECT_EQ(all, kSeries);
    ASSERT_EQ(series.size(), PageData::kSureSeries);
    for (std::size_t i = 0; i < series.size(); ++i) {
      const std::size_t of_few = PageData::kSureSeries - (kSeries - kFirst);
      EXPECT_EQ(series[i].name, "s" + std::to_string(i < of_few ? i : kFirst + i - of_few));
      EXPECT_EQ(series[i].row_values.back() != 0, i >= of_few);
    }
  };
  check(page.series, page.all_series);
  check(page.node_series, page.all_node_series);
  EXPECT_EQ(page_of(b.data).series.size(), kSeries);
}

TEST(PageTime, OfHiddenPathsCountsForTheRowThatReplacesThem) {
  ProfileBuilder b(1);
  const auto main = b.python("main", "/u/m.py", 3, 1);
  const std::uint32_t root = b.path({main});
  const std::uint32_t hot = b.path({main, b.native("hot", "/u/s.so", "/u/s.c", 8)});
  const std::uint32_t bytecode = b.path({main, b.native("long_add", "/usr/bin/python3.11")});
  const std::uint32_t small = b.path({main, b.native("small", "/u/s.so")});
  b.sampled(0, hot, Category::kNative, 5000);
  b.sampled(0, bytecode, Category::kPython, 3000);
  b.sampled(0, small, Category::kNative, 100);
  b.sampled(0, b.path({main, b.native("smaller", "/u/s.so")}), Category::kNative, 50);
  b.data.ranks[0].elapsed_ns = 8150 * kMs;
  b.data.path_axis = {1024 * kMs, b.data.run.start_utc_ns + 1'000'000'000};
  // Sampled: 5 ms of main's own, for which 50 ms were charged to a path without a row; and 95 of small's 100
  // ms.
  b.data.path_series = {{root, 2, 5 * kMs},
                        {hot, 0, 4000 * kMs},
                        {hot, 1, 1000 * kMs},
                        {bytecode, 1, 3000 * kMs},
                        {small, 3, 95 * kMs}};
  PageOptions options;
  options.paths = 4;
  const PageData page = page_of(b.data, options);
  EXPECT_EQ(page.time_bins, 4u);
  EXPECT_DOUBLE_EQ(page.time_bin_s, 1.024);
  EXPECT_DOUBLE_EQ(page.time_begin_s, 1);
  ASSERT_EQ(page.paths.size(), 4u);  // the root, main, hot, others
  const auto row = [&](std::size_t path) {
    return std::vector<float>(page.path_time.begin() + static_cast<std::ptrdiff_t>(path * 4),
                              page.path_time.begin() + static_cast<std::ptrdiff_t>(path * 4 + 4));
  };
  EXPECT_EQ(row(1), (std::vector<float>{0, 3, 0.05f, 0})) << "bytecode is the Python function's";
  EXPECT_EQ(row(2), (std::vector<float>{4, 1, 0, 0}));
  EXPECT_TRUE(page.paths[3].others);
  EXPECT_EQ(row(3), (std::vector<float>{0, 0, 0, 0.1f}));
  EXPECT_NEAR(self_of(page.paths[1]), 3, 1e-9);

  // With room for one row of four bins the small ones go into those above.
  options.time_cells = 4;
  const PageData small_page = page_of(b.data, options);
  ASSERT_EQ(small_page.path_time.size(), 16u);
  EXPECT_EQ(std::vector<float>(small_page.path_time.begin(), small_page.path_time.begin() + 12),
            (std::vector<float>{0, 3, 0.05f, 0.1f, 0, 0, 0, 0, 4, 1, 0, 0}));
  EXPECT_EQ(std::count(small_page.path_time.begin() + 12, small_page.path_time.end(), 0.0f), 4);

  // Lines: those of the files listed, with their own.
  std::map<std::string, std::vector<float>> lines;
  const Analysis analysis = analyse(b.data);
  for (const PageLine& line : page.lines) {
    EXPECT_EQ(page.sources[line.file].file, analysis.lines[line.row].file);
    lines[analysis.lines[line.row].file] = line.time_s;
  }
  EXPECT_EQ(lines["/u/s.c"], (std::vector<float>{4, 1, 0, 0}));
  EXPECT_EQ(lines["/u/m.py"], (std::vector<float>{0, 3, 0.05f, 0.1f}));
}

TEST(PageMatrix, IsBinnedAndKeepsItsSums) {
  ProfileBuilder b(2000);
  for (std::int32_t rank = 0; rank < 2000; ++rank) {
    b.data.matrix.push_back({rank, (rank + 1) % 2000, 2, 100});
    b.data.matrix.push_back({rank, (rank * 37 + 11) % 2000, 1, 7});
  }
  for (const std::size_t most : {100'000u, 300u}) {
    PageOptions options;
    options.matrix_cells = most;
    const PageData page = page_of(b.data, options);
    EXPECT_GE(page.matrix_bin_ranks, 4u);
    EXPECT_LE(page.matrix.size(), most);
    std::uint64_t messages = 0, bytes = 0;
    for (std::size_t i = 0; i < page.matrix.size(); ++i) {
      const shard::MatrixCell& cell = page.matrix[i];
      messages += cell.messages;
      bytes += cell.bytes;
      EXPECT_LT(static_cast<std::size_t>(cell.source), 512u);
      if (i == 0) continue;
      EXPECT_LT(std::pair(page.matrix[i - 1].source, page.matrix[i - 1].destination),
                std::pair(cell.source, cell.destination));
    }
    EXPECT_EQ(messages, 6000u);
    EXPECT_EQ(bytes, 214'000u);
  }
  const PageData small = page_of(testing::training_run());
  EXPECT_EQ(small.matrix_bin_ranks, 1u);
  EXPECT_EQ(small.matrix, analyse(testing::training_run()).matrix);
}

TEST(Page, OfAnEmptyRunIsEmpty) {
  const PageData page = page_of(ShardData{});
  EXPECT_EQ(page.paths.size(), 1u);
  EXPECT_EQ(page.groups, 0u);
  EXPECT_TRUE(page.rows.empty());
}

}  // namespace
}  // namespace clusterprof::report
