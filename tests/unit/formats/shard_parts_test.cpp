// SPDX-License-Identifier: BSD-3-Clause
// Reading a shard in parts gives the same data as reading all of it, and checks as much.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "formats/h5/h5.hpp"
#include "formats/shard/format_file.hpp"
#include "formats/shard/row_order.hpp"
#include "formats/shard/shard_reader.hpp"
#include "formats/shard/shard_writer.hpp"
#include "formats/shard/tables.hpp"
#include "formats/wire/mpi_event.h"
#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof {
namespace {

using shard::MatrixRows;
using shard::MpiEvent;
using shard::RankRows;
using shard::RowOrder;
using shard::ShardData;

MatrixRows rows_of(const ShardData& data) { return {data.values, data.path_counters, data.data_accesses}; }

auto key(const shard::Value& row) {
  return std::tuple(row.rank, row.path, static_cast<std::uint32_t>(row.category), !row.main_thread);
}
auto key(const shard::PathCounter& row) { return std::tuple(row.rank, row.path, row.counter, false); }
auto key(const shard::DataAccess& row) { return std::tuple(row.rank, row.path, 0u, false); }

template <typename Row>
std::vector<Row> sorted(std::vector<Row> rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return key(a) < key(b); });
  return rows;
}
MatrixRows sorted(const MatrixRows& rows) {
  return {sorted(rows.values), sorted(rows.path_counters), sorted(rows.data_accesses)};
}

template <typename Row>
void shuffle(std::vector<Row>& rows, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::shuffle(rows.begin(), rows.end(), random);
}

// Appends what it is handed; every rank must come once, in order.
struct Collector {
  MatrixRows all;
  std::int64_t last = -1;
  void operator()(const RankRows& rows) {
    EXPECT_GT(std::int64_t{rows.rank}, last);
    last = rows.rank;
    const auto add = [&](const auto& from, auto& to) {
      for (const auto& row : from) EXPECT_EQ(row.rank, rows.rank);
      to.insert(to.end(), from.begin(), from.end());
    };
    EXPECT_FALSE(rows.values.empty() && rows.path_counters.empty() && rows.data_accesses.empty());
    add(rows.values, all.values);
    add(rows.path_counters, all.path_counters);
    add(rows.data_accesses, all.data_accesses);
  }
};

void check_parts(const std::filesystem::path& path) {
  const Result<ShardData> whole = shard::read_shard(path);
  ASSERT_TRUE(whole) << whole.error().message;
  const ShardData& data = whole.value();

  ShardData expected = data;
  expected.values.clear();
  expected.path_counters.clear();
  expected.data_accesses.clear();
  const Result<ShardData> events = shard::read_shard_events(path);
  ASSERT_TRUE(events) << events.error().message;
  EXPECT_EQ(events.value(), expected);
  expected.mpi_events.clear();
  expected.event_gaps.clear();
  const Result<ShardData> head = shard::read_shard_head(path);
  ASSERT_TRUE(head) << head.error().message;
  EXPECT_EQ(head.value(), expected);

  const Result<shard::LargeTables> sizes = shard::read_large_table_sizes(path);
  ASSERT_TRUE(sizes) << sizes.error().message;
  EXPECT_EQ(sizes.value().values, data.values.size());
  EXPECT_EQ(sizes.value().path_counters, data.path_counters.size());
  EXPECT_EQ(sizes.value().data_accesses, data.data_accesses.size());
  EXPECT_EQ(sizes.value().mpi_events, data.mpi_events.size());
  EXPECT_EQ(sizes.value().event_gaps, data.event_gaps.size());

  const Result<shard::ShardMatrix> read = shard::read_shard_matrix(path);
  ASSERT_TRUE(read) << read.error().message;
  const shard::ShardMatrix& matrix = read.value();
  ASSERT_EQ(matrix.paths.size(), data.paths.size());
  for (std::size_t i = 0; i < data.paths.size(); ++i) EXPECT_EQ(matrix.paths[i], data.paths[i].id);
  ASSERT_EQ(matrix.ranks.size(), data.ranks.size());
  ASSERT_EQ(matrix.rank_node.size(), data.ranks.size());
  for (std::size_t i = 0; i < data.ranks.size(); ++i) {
    EXPECT_EQ(matrix.ranks[i], data.ranks[i].rank);
    EXPECT_EQ(matrix.rank_node[i], data.ranks[i].node);
  }
  ASSERT_EQ(matrix.nodes.size(), data.nodes.size());
  for (std::size_t i = 0; i < data.nodes.size(); ++i) EXPECT_EQ(matrix.nodes[i], data.nodes[i].name);
  EXPECT_EQ(matrix.counters, data.counters);
  EXPECT_EQ(matrix.rows, sorted(rows_of(data)));

  Collector collector;
  shard::InMemoryRows(data).for_each_rank(std::ref(collector));
  EXPECT_EQ(collector.all, sorted(rows_of(data)));
}

TEST(ShardPartsTest, PartsEqualTheWholeShard) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    testing::RandomShape shape{.node = 1, .ranks = {5, 0, 17}};
    if (seed % 10 == 0) {  // columns of several chunks
      shape.paths = 20'000;
      shape.values_per_rank = 15'000;
      shape.names = 400;
    }
    ASSERT_TRUE(shard::write_shard(testing::random_shard(seed, shape), path));
    ASSERT_NO_FATAL_FAILURE(check_parts(path)) << "seed " << seed;
  }
  ASSERT_TRUE(shard::write_shard({}, path));
  ASSERT_NO_FATAL_FAILURE(check_parts(path));
}

TEST(ShardPartsTest, PartsOfGoldenShardsEqualTheWhole) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GOLDEN_SHARDS))
    if (entry.path().extension() == ".h5") {
      ASSERT_NO_FATAL_FAILURE(check_parts(entry.path())) << entry.path();
      ++files;
    }
  EXPECT_GE(files, 2u);
}

TEST(ShardPartsTest, RowsOfARankAndPathComeInOrder) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  ShardData data = testing::random_shard(3, {.ranks = {1, 2, 3}, .paths = 10, .values_per_rank = 200});
  shuffle(data.values, 1);
  shuffle(data.path_counters, 2);
  ASSERT_FALSE(shard::is_sorted(rows_of(data), RowOrder::kByRank));
  ASSERT_TRUE(shard::write_shard(data, path));
  EXPECT_EQ(shard::read_shard_matrix(path).value().rows, sorted(rows_of(data)));
}

// --- orders --------------------------------------------------------------------------------

TEST(RowOrderTest, SortsAsStableSortDoes) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    // Few different keys, many, and ones that are far apart.
    const std::uint64_t paths = seed % 3 == 0 ? 3 : seed % 3 == 1 ? 5000 : 0xffff'fffe;
    MatrixRows rows;
    for (std::uint64_t i = 0; i < seed * 40; ++i) {
      const auto rank = static_cast<std::uint32_t>(random() % 7),
                 path = static_cast<std::uint32_t>(random() % paths);
      rows.values.push_back(
          {rank, path, static_cast<shard::Category>(random() % 6), random() % 2 == 0, i, i, i});
      rows.path_counters.push_back({rank, path, static_cast<std::uint32_t>(random() % 3), i});
      rows.data_accesses.push_back({rank, path, i, i, {}});
    }
    MatrixRows by_rank = rows;
    shard::sort_rows(by_rank, RowOrder::kByRank);
    EXPECT_EQ(by_rank, sorted(rows)) << "seed " << seed;
    EXPECT_TRUE(shard::is_sorted(by_rank, RowOrder::kByRank));

    Collector collector;
    shard::for_each_rank_of(rows, std::ref(collector));
    EXPECT_EQ(collector.all, by_rank);

    MatrixRows by_path = rows, expected = sorted(rows);
    const auto path_first = [](const auto& a, const auto& b) { return a.path < b.path; };
    std::stable_sort(expected.values.begin(), expected.values.end(), path_first);
    std::stable_sort(expected.path_counters.begin(), expected.path_counters.end(), path_first);
    std::stable_sort(expected.data_accesses.begin(), expected.data_accesses.end(), path_first);
    shard::sort_rows(by_path, RowOrder::kByPath);
    EXPECT_EQ(by_path, expected) << "seed " << seed;
    EXPECT_TRUE(shard::is_sorted(by_path, RowOrder::kByPath));
    EXPECT_EQ(shard::is_sorted(rows, RowOrder::kByPath), rows == expected);
  }
}

TEST(RowOrderTest, RowsInMemoryMayComeInAnyOrder) {
  const ShardData data = testing::random_shard(3, {.ranks = {1, 2, 3}});
  ShardData mixed = data;
  shuffle(mixed.values, 1);
  shuffle(mixed.data_accesses, 2);
  mixed.path_counters.clear();
  const ShardData before = mixed;
  const shard::InMemoryRows source(mixed);
  for (int twice = 0; twice < 2; ++twice) {
    Collector collector;
    source.for_each_rank(std::ref(collector));
    EXPECT_EQ(collector.all, sorted(rows_of(mixed)));
  }
  EXPECT_EQ(mixed, before);
}

// --- damage --------------------------------------------------------------------------------

// The parts of a file whose tables are `data`, which nobody has checked.
struct Messages {
  std::string head, matrix, events;
};
Messages messages_of(const ShardData& data) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  const Result<void> written =
      shard::write_file(path, shard::kShardFormat, [&](h5::Group& root) { shard::write_tables(root, data); });
  EXPECT_TRUE(written);
  const auto message = [](const auto& result) { return result ? std::string() : result.error().message; };
  return {message(shard::read_shard_head(path)), message(shard::read_shard_matrix(path)),
          message(shard::read_shard_events(path))};
}

TEST(ShardPartsTest, EachPartIsChecked) {
  const ShardData good = testing::random_shard(12, {.ranks = {0, 1}});
  const auto spoilt = [&](auto spoil) {
    ShardData data = good;
    spoil(data);
    return messages_of(data);
  };
  const Messages none = spoilt([](ShardData&) {});
  EXPECT_EQ(none.head + none.matrix + none.events, "");
  const auto in_matrix = [&](auto spoil, const char* table) {
    const Messages messages = spoilt(spoil);
    EXPECT_EQ(messages.head, "");
    EXPECT_EQ(messages.events, "");
    EXPECT_NE(messages.matrix.find("is damaged"), std::string::npos) << messages.matrix;
    EXPECT_NE(messages.matrix.find(table), std::string::npos) << messages.matrix;
  };
  in_matrix([](ShardData& d) { d.values.back().path = 9999; }, "values");
  in_matrix([](ShardData& d) { d.values[3].category = static_cast<shard::Category>(shard::kCategories); },
            "values");
  in_matrix([](ShardData& d) { d.path_counters.back().path = 9999; }, "path_counters");
  in_matrix([](ShardData& d) { d.path_counters[1].counter = 2; }, "path_counters");
  in_matrix([](ShardData& d) { d.data_accesses.back().path = 9999; }, "data_accesses");
  const Messages event = spoilt([](ShardData& d) { d.mpi_events[1].kind = 7; });
  EXPECT_EQ(event.head + event.matrix, "");
  EXPECT_NE(event.events.find("mpi_events"), std::string::npos) << event.events;
  const Messages path = spoilt([](ShardData& d) { d.paths[3].id.low ^= 1; });
  EXPECT_NE(path.head.find("id is not the hash"), std::string::npos) << path.head;
  const Messages node = spoilt([](ShardData& d) { d.ranks[1].node = 77; });
  EXPECT_NE(node.head.find("ranks"), std::string::npos) << node.head;
  EXPECT_NE(node.matrix.find("ranks"), std::string::npos) << node.matrix;
}

TEST(ShardPartsTest, DamagedFilesAreRefused) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5";
  ASSERT_TRUE(shard::write_shard(
      testing::random_shard(2, {.ranks = {0, 1, 2}, .paths = 3000, .values_per_rank = 1500, .names = 200}),
      path));
  const auto original = testing::read_bytes(path);
  const ShardData head = shard::read_shard_head(path).value();
  const MatrixRows rows = shard::read_shard_matrix(path).value().rows;
  const ShardData events = shard::read_shard_events(path).value();
  std::mt19937_64 random(4);
  std::size_t noticed = 0;
  for (int i = 0; i < 150; ++i) {
    auto bytes = original;
    if (i % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    testing::write_bytes(path, bytes);
    const auto sizes = shard::read_large_table_sizes(path);
    if (sizes) {
      EXPECT_EQ(sizes.value().values, rows.values.size());
    }
    const auto some_head = shard::read_shard_head(path), some_events = shard::read_shard_events(path);
    const auto matrix = shard::read_shard_matrix(path);
    if (some_head) {
      ASSERT_EQ(some_head.value(), head) << i;
    }
    if (some_events) {
      ASSERT_EQ(some_events.value(), events) << i;
    }
    if (matrix) {
      ASSERT_EQ(matrix.value().rows, rows) << i;
    }
    if (some_head && some_events && matrix) continue;
    ++noticed;
    for (const std::string& message :
         {some_head ? "" : some_head.error().message, some_events ? "" : some_events.error().message,
          matrix ? "" : matrix.error().message})
      if (!message.empty()) {
        ASSERT_EQ(message.find(path.string() + ": "), 0u) << message;
        ASSERT_EQ(message.find('\n'), std::string::npos) << message;
      }
  }
  EXPECT_GT(noticed, 100u);
  std::filesystem::remove(path);
  EXPECT_FALSE(shard::read_shard_head(path));
  EXPECT_FALSE(shard::read_shard_matrix(path));
  EXPECT_FALSE(shard::read_shard_events(path));
  EXPECT_FALSE(shard::read_large_table_sizes(path));
}

// --- events --------------------------------------------------------------------------------

bool is_selected(const ShardData& data, const MpiEvent& event, std::uint32_t level) {
  const std::uint64_t channel =
      event.communicator == shard::kNone ? 0 : data.communicators[event.communicator].identity;
  return wire::event_is_selected(wire::event_stream(static_cast<wire::MpiEventKind>(event.kind), channel,
                                                    data.ranks[event.rank].rank, event.peer, event.tag),
                                 event.sequence, level);
}

TEST(ThinningTest, KeepsWhatTheLevelSelects) {
  const testing::TemporaryDirectory directory;
  const auto path = directory.path() / "node-x.h5", thinned_path = directory.path() / "node-y.h5";
  std::size_t left_out = 0, moved = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    ShardData data = testing::random_shard(seed, {.ranks = {4, 9, 2, 31}});
    ASSERT_TRUE(shard::write_shard(data, path));
    data.values.clear();
    data.path_counters.clear();
    data.data_accesses.clear();
    for (const std::uint32_t level : {1u, 2u, 5u, 24u, 4'000'000'000u}) {
      const std::uint32_t sensible = std::min(level, wire::kMaxEventLevel);
      const Result<ShardData> read = shard::read_shard_events(path, level);
      ASSERT_TRUE(read) << read.error().message;
      ShardData thin = read.value();

      // By hand: events that are selected, and of each all gaps since the last such one of its thread.
      std::vector<MpiEvent> events;
      using Times = std::pair<std::uint64_t, std::uint64_t>;                    // wall, CPU
      std::map<std::tuple<std::uint32_t, std::uint32_t>, Times> gaps, pending;  // by event, path
      const auto add = [](Times& to, const Times& from) {
        to.first += from.first;
        to.second += from.second;
      };
      for (std::uint32_t i = 0; i < data.mpi_events.size(); ++i) {
        const MpiEvent& event = data.mpi_events[i];
        if (i != 0 && std::tie(event.rank, event.thread) !=
                          std::tie(data.mpi_events[i - 1].rank, data.mpi_events[i - 1].thread))
          pending.clear();
        const auto number = static_cast<std::uint32_t>(events.size());
        const bool kept = is_selected(data, event, sensible);
        moved += kept ? pending.size() : 0;
        for (const shard::EventGap& gap : data.event_gaps)
          if (gap.event == i) add(pending[{number, gap.path}], {gap.wall_ns, gap.cpu_ns});
        if (!kept) {
          ++left_out;
          continue;
        }
        events.push_back(event);
        for (const auto& [place, times] : pending) add(gaps[place], times);
        pending.clear();
      }
      EXPECT_EQ(thin.mpi_events, events) << "level " << level;
      std::map<std::tuple<std::uint32_t, std::uint32_t>, Times> found;
      for (std::size_t i = 0; i < thin.event_gaps.size(); ++i) {
        const shard::EventGap& gap = thin.event_gaps[i];
        EXPECT_GE(gap.event, thin.event_gaps[i == 0 ? 0 : i - 1].event);
        add(found[{gap.event, gap.path}], {gap.wall_ns, gap.cpu_ns});
      }
      EXPECT_EQ(found, gaps) << "level " << level;
      for (std::size_t i = 0; i < thin.ranks.size(); ++i)
        EXPECT_EQ(thin.ranks[i].event_level, std::max(data.ranks[i].event_level, sensible));
      EXPECT_TRUE(shard::validate(thin));

      // Events that are already thinned out stay as they are.
      ASSERT_TRUE(shard::write_shard(thin, thinned_path));
      EXPECT_EQ(shard::read_shard_events(thinned_path, level).value(), thin);
      // Nothing else changes.
      thin.mpi_events = data.mpi_events;
      thin.event_gaps = data.event_gaps;
      thin.ranks = data.ranks;
      EXPECT_TRUE(thin.event_stretches.empty()) << "they would lack events";
      thin.event_stretches = data.event_stretches;
      EXPECT_EQ(thin, data);
    }
  }
  EXPECT_GT(left_out, 100u);
  EXPECT_GT(moved, 0u);
}

}  // namespace
}  // namespace clusterprof
