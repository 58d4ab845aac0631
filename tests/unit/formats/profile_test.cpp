// SPDX-License-Identifier: BSD-3-Clause
// Profiles in pieces: blocks of nodes, parts of a file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

#include "base/workers.hpp"
#include "formats/h5/h5.hpp"
#include "formats/profile/block_layout.hpp"
#include "formats/profile/node_matrix.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/profile/profile_writer.hpp"
#include "tests/unit/formats/random_shard.hpp"

namespace clusterprof {
namespace {

using profile::EncodedBlock;
using profile::ProfileReader;
using profile::ProfileWriter;
using shard::MatrixRows;
using shard::ShardData;

// A run of some nodes, ranks of which are dealt out in turns; the last node has none.
ShardData random_run(std::uint64_t seed, std::uint32_t nodes, std::size_t ranks, std::uint32_t size = 60) {
  std::vector<std::int32_t> numbers;
  for (std::size_t i = 0; i < ranks; ++i) numbers.push_back(static_cast<std::int32_t>(i * 3));
  ShardData data = testing::random_shard(
      seed, {.ranks = numbers, .paths = size, .values_per_rank = size, .names = 25 + size / 20});
  for (std::uint32_t i = 1; i < nodes + 1; ++i) {
    data.nodes.push_back(data.nodes[0]);
    data.nodes[i].name = "n" + std::to_string(i);
  }
  for (std::size_t i = 0; i < ranks; ++i) data.ranks[i].node = static_cast<std::uint32_t>(i % nodes);
  return data;
}

template <typename Keep>
MatrixRows rows_of(const ShardData& data, Keep keep) {
  MatrixRows rows;
  for (const auto& row : data.values)
    if (keep(row)) rows.values.push_back(row);
  for (const auto& row : data.path_counters)
    if (keep(row)) rows.path_counters.push_back(row);
  for (const auto& row : data.data_accesses)
    if (keep(row)) rows.data_accesses.push_back(row);
  return rows;
}
MatrixRows rows_of_node(const ShardData& data, std::uint32_t node) {
  return rows_of(data, [&](const auto& row) { return data.ranks[row.rank].node == node; });
}

// As readers hand rows out: by node, if that is wanted, then path and rank.
void sort_by_path(MatrixRows& rows, const std::vector<shard::Rank>* ranks = nullptr) {
  const auto node = [&](const auto& row) { return ranks != nullptr ? (*ranks)[row.rank].node : 0; };
  std::sort(rows.values.begin(), rows.values.end(), [&](const auto& a, const auto& b) {
    return std::tuple(node(a), a.path, a.rank, a.category, !a.main_thread) <
           std::tuple(node(b), b.path, b.rank, b.category, !b.main_thread);
  });
  std::sort(rows.path_counters.begin(), rows.path_counters.end(), [&](const auto& a, const auto& b) {
    return std::tuple(node(a), a.path, a.rank, a.counter) < std::tuple(node(b), b.path, b.rank, b.counter);
  });
  std::sort(rows.data_accesses.begin(), rows.data_accesses.end(), [&](const auto& a, const auto& b) {
    return std::tuple(node(a), a.path, a.rank) < std::tuple(node(b), b.path, b.rank);
  });
}

ProfileReader open(const std::filesystem::path& path) {
  Result<ProfileReader> reader = ProfileReader::open(path);
  if (!reader) throw std::runtime_error(reader.error().message);
  return std::move(reader).value();
}

// Without their samples (0).
std::vector<shard::Value> values_of(const profile::NodeTimes& times) {
  std::vector<shard::Value> values;
  for (std::size_t i = 0; i < times.paths.size(); ++i)
    for (std::uint32_t row = times.first_rows[i]; row < times.first_rows[i + 1]; ++row)
      values.push_back({times.ranks[times.rank[row]], times.paths[i],
                        static_cast<shard::Category>(times.category[row]), times.main_thread[row] != 0,
                        times.wall_ns[row], times.cpu_ns[row], 0});
  return values;
}

// By several threads of one reader that has read nothing before.
void expect_times_fit(const std::filesystem::path& path, const ShardData& data) {
  ProfileReader reader = open(path);
  std::vector<profile::NodeTimes> times(4 * data.nodes.size());
  share_work(4, times.size(), [&](std::size_t, std::size_t item) {
    times[item] = reader.times(static_cast<std::uint32_t>(item % data.nodes.size())).value();
  });
  for (std::size_t item = 0; item < times.size(); ++item) {
    const auto node = static_cast<std::uint32_t>(item % data.nodes.size());
    MatrixRows expected = rows_of_node(data, node);
    sort_by_path(expected);
    for (shard::Value& value : expected.values) value.samples = 0;
    EXPECT_EQ(values_of(times[item]), expected.values) << "node " << node;
  }
  EXPECT_FALSE(reader.times(static_cast<std::uint32_t>(data.nodes.size())));
}

void expect_parts_fit(ProfileReader& reader, const ShardData& data, std::uint64_t seed) {
  for (std::uint32_t node = 0; node < data.nodes.size(); ++node) {
    MatrixRows expected = rows_of_node(data, node);
    sort_by_path(expected);
    EXPECT_EQ(reader.node(node).value(), expected) << "node " << node;
  }
  for (std::uint32_t rank = 0; rank < data.ranks.size(); rank += 1 + rank / 4) {
    MatrixRows expected = rows_of(data, [&](const auto& row) { return row.rank == rank; });
    sort_by_path(expected);
    EXPECT_EQ(reader.rank(rank).value(), expected) << "rank " << rank;
  }
  std::mt19937 random(static_cast<unsigned>(seed));
  for (int i = 0; i < 12; ++i) {
    const auto first = static_cast<std::uint32_t>(random() % (data.paths.size() + 2));
    const auto end = i == 0 ? first : first + static_cast<std::uint32_t>(random() % data.paths.size());
    MatrixRows expected = rows_of(data, [&](const auto& row) { return row.path >= first && row.path < end; });
    sort_by_path(expected, &data.ranks);
    EXPECT_EQ(reader.paths(first, end).value(), expected) << "paths " << first << " to " << end;
  }
  std::map<std::uint32_t, MatrixRows> by_rank;
  reader.rows()->for_each_rank([&](const shard::RankRows& rows) {
    EXPECT_EQ(by_rank.count(rows.rank), 0u);
    by_rank[rows.rank] = {{rows.values.begin(), rows.values.end()},
                          {rows.path_counters.begin(), rows.path_counters.end()},
                          {rows.data_accesses.begin(), rows.data_accesses.end()}};
  });
  for (std::uint32_t rank = 0; rank < data.ranks.size(); ++rank) {
    MatrixRows expected = rows_of(data, [&](const auto& row) { return row.rank == rank; });
    sort_by_path(expected);
    EXPECT_EQ(by_rank[rank], expected) << "rank " << rank;
  }
  EXPECT_FALSE(reader.node(static_cast<std::uint32_t>(data.nodes.size())));
  EXPECT_FALSE(reader.rank(static_cast<std::uint32_t>(data.ranks.size())));
}

class ProfileTest : public ::testing::Test {
 protected:
  testing::TemporaryDirectory directory_;
  const std::filesystem::path path_ = directory_.path() / "profile.h5";
};

TEST_F(ProfileTest, PartsEqualTheWholeProfile) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    // Columns of several chunks too.
    const ShardData data = seed == 0 ? random_run(seed, 2, 12, 4000) : random_run(seed, 1 + seed % 4, 9);
    ASSERT_TRUE(profile::write_profile(data, path_));
    ProfileReader reader = open(path_);
    expect_parts_fit(reader, data, seed);
    expect_times_fit(path_, data);
    ShardData head = data;
    head.values.clear();
    head.path_counters.clear();
    head.data_accesses.clear();
    EXPECT_EQ(*reader.head().value(), head);
    EXPECT_EQ(reader.statistics().value(), profile::path_statistics(data));
    EXPECT_EQ(profile::read_profile(path_).value(), data);
    EXPECT_TRUE(reader.report().value().empty());
    const ShardData summary = reader.summary().value();
    EXPECT_EQ(summary.ranks, data.ranks);
    EXPECT_EQ(summary.strings, data.strings);
    EXPECT_EQ(summary.nodes, data.nodes);
    EXPECT_TRUE(profile::check_profile(path_));
  }
}

TEST_F(ProfileTest, WritingInPiecesGivesTheSameFile) {
  const ShardData data = random_run(3, 3, 8, 300);
  ASSERT_TRUE(profile::write_profile(data, path_));
  std::mt19937 random(1);
  ShardData head = data;
  head.values.clear();
  head.path_counters.clear();
  head.data_accesses.clear();
  const auto other = directory_.path() / "other.h5";
  Result<ProfileWriter> writer = ProfileWriter::create(other);
  ASSERT_TRUE(writer) << writer.error().message;
  for (std::uint32_t node = 0; node < 3; ++node) {  // the last node has no rows and is left out
    MatrixRows rows = rows_of_node(data, node);
    std::shuffle(rows.values.begin(), rows.values.end(), random);
    std::shuffle(rows.path_counters.begin(), rows.path_counters.end(), random);
    std::shuffle(rows.data_accesses.begin(), rows.data_accesses.end(), random);
    const Result<void> added = writer.value().add(profile::encode_block(node, rows));
    ASSERT_TRUE(added) << added.error().message;
  }
  EXPECT_FALSE(std::filesystem::exists(other));
  const profile::PathStatisticsTable statistics = profile::path_statistics(data);
  ASSERT_TRUE(writer.value().finish({head, statistics, {}, {}}));
  EXPECT_EQ(testing::read_bytes(other), testing::read_bytes(path_));
}

TEST_F(ProfileTest, StoredReportIsReadBack) {
  const ShardData data = random_run(4, 1, 2);
  Result<ProfileWriter> writer = ProfileWriter::create(path_);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer.value().add(profile::encode_block(0, rows_of_node(data, 0))));
  const std::vector<std::byte> report(9000, std::byte{7});
  ASSERT_TRUE(writer.value().finish({data, profile::path_statistics(data), {}, [&] { return report; }}));
  EXPECT_EQ(open(path_).report().value(), report);
  EXPECT_TRUE(profile::check_profile(path_));
}

TEST_F(ProfileTest, AnUnfinishedWriterLeavesNothing) {
  {
    Result<ProfileWriter> writer = ProfileWriter::create(path_);
    ASSERT_TRUE(writer);
    const ShardData data = random_run(4, 1, 2);
    ASSERT_TRUE(writer.value().add(profile::encode_block(0, rows_of_node(data, 0))));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(ProfileTest, WriterRefusesInconsistentBlocks) {
  const ShardData data = random_run(5, 2, 4);
  const profile::PathStatisticsTable statistics = profile::path_statistics(data);
  const auto refused = [&](const std::vector<EncodedBlock>& blocks, const ShardData& head,
                           const profile::PathStatisticsTable& table) {
    Result<ProfileWriter> writer = ProfileWriter::create(path_);
    if (!writer) throw std::runtime_error(writer.error().message);
    for (const EncodedBlock& block : blocks)
      if (const Result<void> added = writer.value().add(block); !added)
        return added.error().message.find(path_.string() + ": ") == 0;
    const Result<void> written = writer.value().finish({head, table, {}, {}});
    return !written && written.error().message.find(path_.string() + ": ") == 0;
  };
  const EncodedBlock first = profile::encode_block(0, rows_of_node(data, 0));
  const EncodedBlock second = profile::encode_block(1, rows_of_node(data, 1));
  EXPECT_FALSE(refused({first, second}, data, statistics));
  EXPECT_TRUE(refused({second, first}, data, statistics));
  EXPECT_TRUE(refused({profile::encode_block(1, rows_of_node(data, 0))}, data, statistics)) << "another node";
  EXPECT_TRUE(refused({first, second}, data, {})) << "statistics of other paths";
  ShardData fewer = data;
  fewer.ranks.pop_back();
  EXPECT_TRUE(refused({first, second}, fewer, statistics)) << "a rank that is not there";
  EncodedBlock cut = first;
  cut.bytes.resize(cut.bytes.size() / 2);
  EXPECT_TRUE(refused({cut}, data, statistics));
  cut.bytes.resize(3);
  EXPECT_TRUE(refused({cut}, data, statistics));
}

TEST(EncodedBlockTest, RowsWithEqualKeysAreAddedUp) {
  MatrixRows rows;
  rows.values = {{1, 4, shard::Category::kMpi, true, 5, 6, 7},
                 {1, 4, shard::Category::kMpi, true, 10, 20, 30}};
  rows.path_counters = {{1, 4, 2, 5}, {1, 4, 2, 6}, {1, 4, 3, 1}};
  rows.data_accesses = {{1, 4, 1, 2, {1, 2, 4, 8}}, {1, 4, 10, 20, {2, 2, 0, 1}}};
  MatrixRows united;
  united.values = {{1, 4, shard::Category::kMpi, true, 15, 26, 37}};
  united.path_counters = {{1, 4, 2, 11}, {1, 4, 3, 1}};
  united.data_accesses = {{1, 4, 11, 22, {3, 2, 4, 9}}};
  EXPECT_EQ(profile::encode_block(0, rows).bytes, profile::encode_block(0, united).bytes);
}

// Numbers of a larger profile, of which the old one's are some, in the same order.
std::vector<std::uint32_t> larger_numbers(std::size_t count, std::mt19937& random) {
  std::vector<std::uint32_t> numbers;
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    next += static_cast<std::uint32_t>(random() % 3);
    numbers.push_back(next++);
  }
  return numbers;
}

TEST_F(ProfileTest, CopiedBlocksEqualEncodedRenumberedRows) {
  std::mt19937 random(9);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const ShardData data = seed == 0 ? random_run(seed, 2, 10, 4000) : random_run(seed, 3, 9, 200);
    ASSERT_TRUE(profile::write_profile(data, path_));
    ProfileReader reader = open(path_);
    std::vector<std::uint32_t> path = larger_numbers(data.paths.size(), random);
    std::vector<std::uint32_t> rank = larger_numbers(data.ranks.size(), random);
    const std::vector<std::uint32_t> counter = larger_numbers(data.counters.size(), random);
    if (seed >= 4) std::reverse(path.begin(), path.end());  // no order is kept: decoded and encoded again
    if (seed == 5) std::reverse(rank.begin(), rank.end());
    for (std::uint32_t node = 0; node < data.nodes.size(); ++node) {
      MatrixRows rows = rows_of_node(data, node);
      for (auto& row : rows.values) row.path = path[row.path], row.rank = rank[row.rank];
      for (auto& row : rows.path_counters)
        row.path = path[row.path], row.rank = rank[row.rank], row.counter = counter[row.counter];
      for (auto& row : rows.data_accesses) row.path = path[row.path], row.rank = rank[row.rank];
      const Result<EncodedBlock> taken = reader.encoded_block(node, node + 5, path, rank, counter);
      ASSERT_TRUE(taken) << taken.error().message;
      EXPECT_EQ(taken.value().bytes, profile::encode_block(node + 5, rows).bytes) << "seed " << seed;
    }
    path.pop_back();
    EXPECT_FALSE(reader.encoded_block(0, 0, path, rank, counter));
  }
}

TEST(GoldenProfileTest, PartsEqualTheWholeProfile) {
  const auto path = std::filesystem::path(PROFILE_GOLDEN_FOLDER) / "profile.h5";
  const Result<ShardData> data = profile::read_profile(path);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_FALSE(data.value().values.empty());
  ProfileReader reader = open(path);
  expect_parts_fit(reader, data.value(), 1);
  EXPECT_EQ(reader.statistics().value(), profile::path_statistics(data.value()));
  const Result<void> checked = profile::check_profile(path);
  EXPECT_TRUE(checked) << checked.error().message;
  std::uint64_t over_time_ns = 0, by_path_ns = 0;
  for (const shard::PathSeries& row : data.value().path_series) over_time_ns += row.wall_ns;
  for (const shard::Value& value : data.value().values) by_path_ns += value.wall_ns;
  EXPECT_NE(over_time_ns, 0u);
  EXPECT_EQ(over_time_ns, by_path_ns);
}

TEST_F(ProfileTest, StatisticsThatContradictTheRowsAreDamage) {
  const ShardData data = random_run(6, 2, 5);
  const profile::PathStatisticsTable good = profile::path_statistics(data);
  const auto checked = [&](const profile::PathStatisticsTable& table) {
    Result<ProfileWriter> writer = ProfileWriter::create(path_);
    if (!writer) throw std::runtime_error(writer.error().message);
    for (std::uint32_t node = 0; node < 2; ++node)
      if (!writer.value().add(profile::encode_block(node, rows_of_node(data, node))))
        return std::string("not added");
    if (!writer.value().finish({data, table, {}, {}})) return std::string("not written");
    const Result<void> result = profile::check_profile(path_);
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(checked(good), "");
  profile::PathStatisticsTable wrong = good;
  ++wrong.paths[0].inclusive.sum_squares_ns2;
  EXPECT_NE(checked(wrong).find("/path_statistics does not fit"), std::string::npos);
  wrong = good;
  ++wrong.quantile_bins[0].ranks;
  EXPECT_NE(checked(wrong).find("/path_quantiles does not fit"), std::string::npos);
  wrong = good;
  std::swap(wrong.quantile_bins[0], wrong.quantile_bins[1]);
  EXPECT_NE(checked(wrong).find("not in order"), std::string::npos);
}

// --- damage --------------------------------------------------------------------------------

// Everything that can be asked of a profile, with the right answers.
struct Answers {
  profile::NodeTimes times;  // of node 0
  std::vector<MatrixRows> nodes, ranks, paths;
  std::map<std::uint32_t, std::size_t> values_by_rank;
};
constexpr std::uint32_t kPathStep = 70;

void expect_error_or(const auto& result, const auto& right, const std::string& path, bool& noticed) {
  if (result) {
    EXPECT_TRUE(result.value() == right) << "wrong data was believed";
    return;
  }
  noticed = true;
  EXPECT_EQ(result.error().message.find(path + ": "), 0u) << result.error().message;
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos) << result.error().message;
}

// Returns whether an error was reported. If none was, everything has to be right.
bool check_answers(const std::filesystem::path& path, const ShardData& data, const ShardData& head,
                   const profile::PathStatisticsTable& statistics, const Answers& right) {
  bool noticed = false;
  Result<ProfileReader> opened = ProfileReader::open(path);
  if (!opened) {
    EXPECT_EQ(opened.error().message.find(path.string() + ": "), 0u) << opened.error().message;
    return true;
  }
  ProfileReader& reader = opened.value();
  const std::string name = path.string();
  for (std::uint32_t node = 0; node < right.nodes.size(); ++node)
    expect_error_or(reader.node(node), right.nodes[node], name, noticed);
  expect_error_or(reader.rank(0), right.ranks[0], name, noticed);
  expect_error_or(reader.times(0), right.times, name, noticed);
  for (std::uint32_t i = 0; i < right.paths.size(); ++i)
    expect_error_or(reader.paths(i * kPathStep, (i + 1) * kPathStep), right.paths[i], name, noticed);
  const Result<const ShardData*> read_head = reader.head();
  if (read_head) {
    EXPECT_TRUE(*read_head.value() == head);
  } else {
    noticed = true;
  }
  expect_error_or(reader.statistics(), statistics, name, noticed);
  expect_error_or(reader.sources(), std::vector<profile::Source>{}, name, noticed);
  expect_error_or(reader.report(), std::vector<std::byte>(300, std::byte{1}), name, noticed);
  try {
    std::map<std::uint32_t, std::size_t> values;
    reader.rows()->for_each_rank(
        [&](const shard::RankRows& rows) { values[rows.rank] = rows.values.size(); });
    EXPECT_EQ(values, right.values_by_rank);
  } catch (const h5::H5Error& error) {
    noticed = true;
    EXPECT_EQ(std::string(error.what()).find(name + ": "), 0u) << error.what();
  }
  std::vector<std::uint32_t> same(data.paths.size());
  std::iota(same.begin(), same.end(), 0u);
  // Does not look at rows, so readers of the result have to notice damaged ones.
  if (!reader.encoded_block(0, 0, same, same, same)) noticed = true;
  const Result<void> checked = profile::check_profile(path);
  EXPECT_TRUE(!noticed || !checked) << "the full check has to find what others do";
  if (!checked) {
    noticed = true;
    EXPECT_EQ(checked.error().message.find(name + ": "), 0u) << checked.error().message;
  }
  return noticed;
}

TEST_F(ProfileTest, DamageIsNoticedOrHarmless) {
  const ShardData data = random_run(8, 2, 4, 700);
  ShardData head = data;
  head.values.clear();
  head.path_counters.clear();
  head.data_accesses.clear();
  const profile::PathStatisticsTable statistics = profile::path_statistics(data);
  {
    Result<ProfileWriter> writer = ProfileWriter::create(path_);
    ASSERT_TRUE(writer);
    for (std::uint32_t node = 0; node < 2; ++node)
      ASSERT_TRUE(writer.value().add(profile::encode_block(node, rows_of_node(data, node))));
    ASSERT_TRUE(writer.value().finish(
        {head, statistics, {}, [] { return std::vector<std::byte>(300, std::byte{1}); }}));
  }
  Answers right;
  {
    ProfileReader reader = open(path_);
    for (std::uint32_t node = 0; node < 3; ++node) right.nodes.push_back(reader.node(node).value());
    right.ranks.push_back(reader.rank(0).value());
    right.times = reader.times(0).value();
    for (std::uint32_t first = 0; first < data.paths.size(); first += kPathStep)
      right.paths.push_back(reader.paths(first, first + kPathStep).value());
    reader.rows()->for_each_rank(
        [&](const shard::RankRows& rows) { right.values_by_rank[rows.rank] = rows.values.size(); });
  }
  ASSERT_FALSE(check_answers(path_, data, head, statistics, right));
  const std::vector<std::uint8_t> original = testing::read_bytes(path_);
  std::mt19937_64 random(11);
  std::size_t cut = 0, flipped = 0, overwritten = 0;
  for (int i = 0; i < 90; ++i) {
    std::vector<std::uint8_t> bytes = original;
    if (i % 3 == 0) {
      bytes.resize(random() % bytes.size());
    } else if (i % 3 == 1) {
      bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    } else {
      const std::size_t begin = random() % bytes.size();
      const std::size_t end = std::min(bytes.size(), begin + (std::size_t{1} << random() % 12));
      for (std::size_t at = begin; at < end; ++at) bytes[at] = static_cast<std::uint8_t>(random());
    }
    testing::write_bytes(path_, bytes);
    SCOPED_TRACE("try " + std::to_string(i));
    (i % 3 == 0   ? cut
     : i % 3 == 1 ? flipped
                  : overwritten) += check_answers(path_, data, head, statistics, right);
    if (HasFailure()) break;
  }
  EXPECT_EQ(cut, 30u);
  // Space in the file that is not used may change without harm, but there is not much of it.
  EXPECT_GT(flipped, 15u);
  EXPECT_GT(overwritten, 20u);
}

TEST_F(ProfileTest, BlocksWithWrongContentAreRefused) {
  const ShardData data = random_run(12, 1, 6, 200);
  const profile::PathStatisticsTable statistics = profile::path_statistics(data);
  const auto message_of = [&](auto spoil) {
    profile::BlockParts parts = profile::unpack(profile::encode_block(0, rows_of_node(data, 0)));
    spoil(parts);
    Result<ProfileWriter> writer = ProfileWriter::create(path_);
    if (!writer) throw std::runtime_error(writer.error().message);
    if (const Result<void> added = writer.value().add(parts.pack()); !added) return added.error().message;
    if (const Result<void> done = writer.value().finish({data, statistics, {}, {}}); !done)
      return done.error().message;
    const Result<MatrixRows> rows = open(path_).node(0);
    const Result<void> checked = profile::check_profile(path_);
    EXPECT_EQ(static_cast<bool>(rows), static_cast<bool>(checked));
    return rows ? std::string() : rows.error().message;
  };
  const auto refused = [&](auto spoil, const char* words) {
    const std::string message = message_of(spoil);
    EXPECT_EQ(message.find(path_.string() + ": "), 0u) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  EXPECT_EQ(message_of([](profile::BlockParts&) {}), "");
  // The columns of each table's block, as they should be.
  MatrixRows rows = rows_of_node(data, 0);
  sort_by_path(rows);
  std::vector<std::uint32_t> paths, first_rows, ranks, counters;
  for (std::uint32_t i = 0; i < rows.values.size(); ++i) {
    ranks.push_back(rows.values[i].rank);
    if (i != 0 && rows.values[i].path == rows.values[i - 1].path) continue;
    paths.push_back(rows.values[i].path);
    first_rows.push_back(i);
  }
  for (const shard::PathCounter& row : rows.path_counters) counters.push_back(row.counter);
  const auto column = [](std::size_t index, std::vector<std::uint32_t> content) {
    return [index, content](profile::BlockParts& parts) {
      parts.columns[index] = profile::encode_column(content);
    };
  };
  const std::size_t path_column = profile::kPathColumn[0], rank_column = profile::kRankColumn[0];
  EXPECT_EQ(message_of(column(path_column, paths)), "");
  EXPECT_EQ(message_of(column(rank_column, ranks)), "");
  EXPECT_EQ(message_of(column(profile::kRankColumn[1] + 1, counters)), "");

  std::vector<std::uint32_t> wrong = paths;
  std::swap(wrong[1], wrong[2]);
  refused(column(path_column, wrong), "paths that do not ascend or are out of range");
  wrong = paths;
  wrong.back() = static_cast<std::uint32_t>(data.paths.size());
  refused(column(path_column, wrong), "paths that do not ascend or are out of range");
  wrong = first_rows;
  wrong[0] = 1;
  refused(column(path_column + 1, wrong), "paths that do not ascend or are out of range");
  wrong = first_rows;
  wrong.back() = static_cast<std::uint32_t>(rows.values.size());
  refused(column(path_column + 1, wrong), "paths that do not ascend or are out of range");
  wrong = ranks;
  wrong[7] = 6;
  refused(column(rank_column, wrong), "rank out of range");
  refused(column(rank_column, std::vector<std::uint32_t>(ranks.size())), "rows that do not ascend");
  wrong = counters;
  wrong[0] = 77;
  refused(column(profile::kRankColumn[1] + 1, wrong), "counter out of range");
  refused([](profile::BlockParts& parts) { ++parts.columns[3].xxh3; }, "wrong checksum");
  refused([](profile::BlockParts& parts) { parts.rows[0] -= 1; }, "wrong checksum");
  refused([](profile::BlockParts& parts) { std::swap(parts.ranks[0], parts.ranks[1]); },
          "ranks that are not");
  refused([](profile::BlockParts& parts) { parts.counters[0] = 88; },
          "rows do not belong to the other tables");
  refused([](profile::BlockParts& parts) { parts.paths[0] = 0; }, "block");
  refused([](profile::BlockParts& parts) { parts.columns[1] = parts.columns[2]; }, "");
}

// What changes would gain; without it there is none.
TEST_F(ProfileTest, GainsAreReadAsTheyWereWritten) {
  const ShardData data = random_run(7, 2, 4);
  ASSERT_TRUE(profile::write_profile(data, path_));
  EXPECT_EQ(open(path_).gains().value(), std::nullopt);

  profile::Gains gains;
  gains.elapsed_s = 10.25, gains.replayed_s = 10.125, gains.candidates = 7, gains.tried = 2;
  gains.stretches = 11, gains.stretches_s = 0.5;
  gains.rows = {{"function f x0.5", "/u/a.c", "f", 12, -1, 8.1, 2.025, 0.1},
                {"rank 3 = mean", "", "", 0, 3, 11, -0.875, 0.3}};
  gains.refused_changes = {{"bandwidth x2", "nothing tells it"}};
  const auto written = [&] {
    ProfileWriter writer = ProfileWriter::create(path_).value();
    for (std::uint32_t node = 0; node < data.nodes.size(); ++node)
      if (!writer.add(profile::encode_block(node, rows_of_node(data, node)))) return false;
    return static_cast<bool>(writer.finish({.head = data,
                                            .statistics = profile::path_statistics(data),
                                            .sources = {},
                                            .report = {},
                                            .gains = [&] { return std::optional(gains); }}));
  };
  ASSERT_TRUE(written());
  EXPECT_EQ(open(path_).gains().value(), gains);
  EXPECT_TRUE(profile::check_profile(path_));

  const profile::Gains good = gains;
  const auto refused = [&](auto spoil) {
    gains = good;
    spoil(gains);
    ASSERT_TRUE(written());
    const auto read = open(path_).gains();
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().message.find("a number is out of range"), std::string::npos);
    EXPECT_FALSE(profile::check_profile(path_));
  };
  refused([](profile::Gains& g) { g.rows[0].gain_s = std::nan(""); });
  refused([](profile::Gains& g) { g.rows[1].error_s = -1; });
  refused([](profile::Gains& g) { g.rows[1].rank = -2; });
  refused([](profile::Gains& g) { g.tried = 1; });
  refused([](profile::Gains& g) { g.tried = 3; });
  refused([](profile::Gains& g) { g.candidates = 1; });
  refused([](profile::Gains& g) { g.candidates = 2; });  // but one more was refused
  refused([](profile::Gains& g) { g.replayed_s = -1; });
  refused([](profile::Gains& g) { g.stretches_s = -1; });
  refused([](profile::Gains& g) { g.stretches = 0; });
}

}  // namespace
}  // namespace clusterprof
