// SPDX-License-Identifier: BSD-3-Clause
// Compares the merge of a run directory with one in memory, and with itself: with any number of members, in
// any order of shards, with or without an existing profile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <random>

#include "aggregator/corrected_time.hpp"
#include "aggregator/merger.hpp"
#include "aggregator/node_dates.hpp"
#include "aggregator/notes.hpp"
#include "aggregator/run_directory.hpp"
#include "aggregator/wait_analyser.hpp"
#include "formats/profile/path_statistics.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/profile/profile_writer.hpp"
#include "formats/shard/shard_reader.hpp"
#include "formats/shard/shard_writer.hpp"
#include "formats/shard/tables.hpp"
#include "formats/synth/synthetic_run.hpp"
#include "tests/unit/aggregator/forked_team.hpp"
#include "tests/unit/formats/random_shard.hpp"

// HDF5 1.10 loses a few hundred bytes for some kinds of damage.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5\nleak:H5FL_"; }

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;
using shard::ShardData;
using testing::ForkedTeam;

// Sums that show whether every row was seen once. They do not depend on the order of ranks.
class SummingObserver final : public RankObserver {
 public:
  void begin(const ShardData& head) override {
    head_ = &head;
    sums_ = {};
  }
  void add(const shard::RankRows& rows) override {
    ASSERT_LT(rows.rank, head_->ranks.size());
    ++sums_.ranks;
    for (const shard::Value& row : rows.values) {
      ASSERT_EQ(row.rank, rows.rank);
      sums_.wall_ns += row.wall_ns * (row.path + 1);
    }
    for (const shard::PathCounter& row : rows.path_counters) sums_.counted += row.value * (row.counter + 1);
    for (const shard::DataAccess& row : rows.data_accesses) sums_.accesses += row.accesses;
    EXPECT_TRUE(std::is_sorted(rows.values.begin(), rows.values.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.path, a.category, !a.main_thread) < std::tuple(b.path, b.category, !b.main_thread);
    }));
  }
  [[nodiscard]] Bytes state() const override {
    Bytes bytes(sizeof sums_);
    std::memcpy(bytes.data(), &sums_, sizeof sums_);
    return bytes;
  }
  [[nodiscard]] Result<void> absorb(std::span<const std::byte> state) override {
    Sums theirs;
    if (state.size() != sizeof theirs) return Error{"no state of sums"};
    std::memcpy(&theirs, state.data(), sizeof theirs);
    sums_.ranks += theirs.ranks;
    sums_.wall_ns += theirs.wall_ns;
    sums_.counted += theirs.counted;
    sums_.accesses += theirs.accesses;
    return {};
  }
  [[nodiscard]] Bytes finish() override { return state(); }

 private:
  struct Sums {
    std::uint64_t ranks = 0, wall_ns = 0, counted = 0, accesses = 0;
  };
  const ShardData* head_ = nullptr;
  Sums sums_;
};

class MergeRunTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(run_); }

  // Of random shards: three nodes, one of them with two shards, and one node without ranks.
  std::vector<ShardData> random_shards(std::uint64_t seed) {
    std::vector<ShardData> shards;
    shards.push_back(testing::random_shard(seed * 10 + 0, {.node = 0, .ranks = {0, 1, 2}}));
    shards.push_back(testing::random_shard(seed * 10 + 1, {.node = 1, .ranks = {5, 3}}));
    shards.push_back(testing::random_shard(seed * 10 + 2, {.node = 1, .ranks = {4}}));
    shards.push_back(testing::random_shard(seed * 10 + 3, {.node = 2, .ranks = {9, 8, 7, 6}}));
    shards.push_back(testing::random_shard(seed * 10 + 4, {.node = 3, .ranks = {}, .waiting = false}));
    for (ShardData& data : shards) data.run.complete = true;  // incomplete ones are named in notes
    return shards;
  }
  // Times that add up without overflow, and ranks that the analysis of waiting finds again.
  static void tame(ShardData& data) {
    for (shard::Rank& rank : data.ranks) rank.event_level = 0;
    for (shard::Value& row : data.values) row.wall_ns >>= 24;
  }
  void write(const std::vector<ShardData>& shards, const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const Result<void> written = shard::write_shard(shards[i], run_ / ("node-" + names[i] + ".h5"));
      ASSERT_TRUE(written) << written.error().message;
    }
  }
  static std::vector<std::string> names(std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(std::string(1, static_cast<char>('a' + i)));
    return names;
  }
  // What a merge in memory makes of them.
  static ShardData united(const std::vector<ShardData>& shards) {
    Merger merger;
    WaitAnalyser analyser;
    for (ShardData data : shards) {
      analyser.add(data);
      correct_ranks(data);
      merger.add(std::move(data));
    }
    ShardData all = merger.finish();
    correct_rows(all);
    analyser.finish(all);
    note_missing_ranks(all);
    return all;
  }
  std::vector<std::uint8_t> merge(int size = 1, bool observed = true) {
    std::error_code ignored;
    fs::remove(profile_, ignored);
    return merge_again(size, observed);
  }
  std::vector<std::uint8_t> merge_again(int size = 1, bool observed = true) {
    const bool failed = HasFailure();
    const int status = ForkedTeam::run(size, [&](Team& team) {
      SummingObserver observer;
      MergeOptions options = options_;
      options.team = &team;
      if (observed) options.observer = &observer;
      Result<MergeReport> merged = merge_run(run_, options);
      if (!merged) {
        error_ = merged.error().message;
        return 1;
      }
      if (merged.value().write_error) return 2;
      report_ = std::move(merged.value());
      return team.member() != 0 && ::testing::Test::HasFailure() && !failed ? 3 : 0;
    });
    EXPECT_EQ(status, 0) << error_;
    return testing::read_bytes(profile_);
  }

  testing::TemporaryDirectory directory_;
  const fs::path run_ = directory_.path() / "run";
  const fs::path profile_ = run_ / kProfileName;
  MergeOptions options_;
  MergeReport report_;
  std::string error_;
};

// Row for row what a merge in memory makes of the same shards.
TEST_F(MergeRunTest, EqualsMergeInMemory) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    std::vector<ShardData> shards = random_shards(seed);
    for (ShardData& data : shards) tame(data);
    write(shards, names(shards.size()));
    merge();
    const ShardData expected = united(shards);
    const ShardData found = profile::read_profile(profile_).value();
    EXPECT_TRUE(found.run == expected.run);
    EXPECT_TRUE(found.values == expected.values);
    EXPECT_TRUE(found.path_counters == expected.path_counters);
    EXPECT_TRUE(found.data_accesses == expected.data_accesses);
    EXPECT_TRUE(found.communicators == expected.communicators);
    EXPECT_TRUE(found == expected) << "seed " << seed;
    EXPECT_TRUE(profile::read_path_statistics(profile_).value() == profile::path_statistics(expected));

    // The same bytes, except for the names of shards and what the observer stored.
    merge(1, false);
    const auto sources = profile::read_sources(profile_).value();
    ASSERT_TRUE(profile::write_profile(expected, directory_.path() / "memory.h5", sources));
    EXPECT_TRUE(testing::read_bytes(directory_.path() / "memory.h5") == testing::read_bytes(profile_));
  }
}

// Shards that no collector writes but the format allows: several nodes in a shard, a counter that is named
// twice, duplicate rows, ranks without rows.
TEST_F(MergeRunTest, MergesUnusualButValidShards) {
  std::vector<ShardData> shards;
  shards.push_back(testing::random_shard(501, {.node = 0, .ranks = {4, 0, 7, 2, 9, 1}, .waiting = false}));
  shards.push_back(testing::random_shard(502, {.node = 1, .ranks = {3, 5}, .waiting = false}));
  shards.push_back(testing::random_shard(503, {.node = 2, .ranks = {}, .waiting = false}));
  ShardData& odd = shards[0];
  odd.nodes.resize(3, odd.nodes[0]);
  odd.nodes[1].name = "n1";
  for (std::uint32_t i = 0; i < odd.ranks.size(); ++i) odd.ranks[i].node = i % 3;
  odd.counters.push_back(odd.counters[0]);
  for (std::size_t i = 0; i < odd.path_counters.size(); i += 2)
    odd.path_counters[i].counter = static_cast<std::uint32_t>(odd.counters.size() - 1);
  std::vector<shard::Value> twice;
  for (const shard::Value& row : odd.values) twice.insert(twice.end(), 2, row);
  odd.values = twice;
  for (std::int32_t number = 100; number < 300; ++number) {
    odd.ranks.push_back(odd.ranks[0]);
    odd.ranks.back().rank = number;
  }
  for (ShardData& data : shards) tame(data), data.run.complete = true;
  write(shards, names(shards.size()));
  const auto bytes = merge();
  const ShardData expected = united(shards), found = profile::read_profile(profile_).value();
  EXPECT_TRUE(found.values == expected.values);
  EXPECT_TRUE(found.path_counters == expected.path_counters);
  EXPECT_TRUE(found.data_accesses == expected.data_accesses);
  EXPECT_TRUE(found == expected);
  EXPECT_TRUE(profile::check_profile(profile_));
  EXPECT_TRUE(merge(3) == bytes);
}

TEST_F(MergeRunTest, StatisticsCoverAllRanks) {
  std::vector<ShardData> shards = random_shards(77);
  for (ShardData& data : shards) tame(data);
  write(shards, names(shards.size()));
  merge(3);
  const ShardData all = profile::read_profile(profile_).value();
  const auto statistics = profile::read_path_statistics(profile_).value();
  ASSERT_EQ(statistics.paths.size(), all.paths.size());
  for (std::uint32_t path = 0; path < all.paths.size(); ++path) {
    std::map<std::int32_t, std::uint64_t> inclusive;
    for (const shard::Value& value : all.values) {
      std::uint32_t at = value.path;
      while (at > path) at = all.paths[at].parent;
      if (at == path) inclusive[all.ranks[value.rank].rank] += value.wall_ns;
    }
    std::uint64_t sum = 0, least = ~std::uint64_t{0}, most = 0;
    profile::Squares squares = 0;
    for (const auto& [rank, ns] : inclusive) {
      sum += ns;
      least = std::min(least, ns);
      most = std::max(most, ns);
      squares += static_cast<profile::Squares>(ns) * ns;
    }
    const profile::PathStatistics& row = statistics.paths[path];
    ASSERT_EQ(row.ranks, inclusive.size());
    if (inclusive.empty()) continue;
    EXPECT_EQ(row.inclusive.sum_ns, sum);
    EXPECT_EQ(row.inclusive.min_ns, least);
    EXPECT_EQ(row.inclusive.max_ns, most);
    EXPECT_TRUE(row.inclusive.sum_squares_ns2 == squares);
  }
}

TEST_F(MergeRunTest, ResultDoesNotDependOnTeamSizeOrFileNames) {
  std::mt19937 random(5);
  std::vector<ShardData> shards = random_shards(21);
  for (ShardData& data : shards) tame(data);
  write(shards, names(shards.size()));
  const auto bytes = merge();
  ASSERT_FALSE(bytes.empty());
  for (int size = 2; size <= 5; ++size) EXPECT_TRUE(merge(size) == bytes) << "a team of " << size;
  // Other files have the same data: only the list of sources may differ.
  const ShardData data = profile::read_profile(profile_).value();
  const auto report = profile::ProfileReader::open(profile_).value().report().value();
  for (int size = 1; size <= 5; size += 2) {
    std::shuffle(shards.begin(), shards.end(), random);
    write(shards, names(shards.size()));
    merge(size);
    EXPECT_TRUE(profile::read_profile(profile_).value() == data);
    EXPECT_EQ(profile::ProfileReader::open(profile_).value().report().value(), report);
  }
}

TEST_F(MergeRunTest, ResultDoesNotDependOnTheNumberOfThreads) {
  std::vector<ShardData> shards = random_shards(21);
  for (ShardData& data : shards) tame(data);
  write(shards, names(shards.size()));
  options_.threads = 1;
  const auto bytes = merge();
  ASSERT_FALSE(bytes.empty());
  for (options_.threads = 2; options_.threads <= 4; ++options_.threads)
    EXPECT_TRUE(merge() == bytes) << options_.threads << " threads";
}

TEST_F(MergeRunTest, ReportSeesEveryRowOnce) {
  std::vector<ShardData> shards = random_shards(30);
  for (ShardData& data : shards) tame(data);
  write(shards, names(shards.size()));
  merge(2);
  SummingObserver again;
  profile::ProfileReader reader = profile::ProfileReader::open(profile_).value();
  const ShardData* head = reader.head().value();
  again.begin(*head);
  reader.rows()->for_each_rank([&](const shard::RankRows& rows) { again.add(rows); });
  EXPECT_EQ(again.finish(), reader.report().value());
}

TEST_F(MergeRunTest, ReusesAProfileInPlaceOfItsShards) {
  const synth::Shape shape{.nodes = 5, .ranks_per_node = 3, .paths = 120, .seed = 9, .events = 280};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 5; ++node) shards.push_back(synth::shard_of_node(shape, node));
  const std::vector<std::string> all = {"node0", "node1", "node2", "node3", "node4"};
  write(shards, all);
  const auto bytes = merge();
  EXPECT_EQ(report_.reused, 0u);
  for (const int size : {1, 3}) {
    fs::remove(profile_);
    for (const std::size_t later : {1, 3})
      fs::rename(run_ / ("node-" + all[later] + ".h5"), run_ / all[later]);
    merge_again();
    EXPECT_EQ(report_.shards, 3u);
    EXPECT_FALSE(report_.head.run.complete);
    for (const std::size_t later : {1, 3})
      fs::rename(run_ / all[later], run_ / ("node-" + all[later] + ".h5"));
    EXPECT_TRUE(merge_again(size) == bytes);
    EXPECT_EQ(report_.shards, 5u);
    EXPECT_EQ(report_.reused, 3u);
    EXPECT_TRUE(report_.head.run.complete);
    EXPECT_TRUE(report_.head.run.notes.empty());
    EXPECT_TRUE(merge_again(size) == bytes);
    EXPECT_EQ(report_.reused, 5u);
  }
}

TEST_F(MergeRunTest, ReusesAProfileOfRandomShards) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::error_code ignored;
    std::vector<ShardData> shards = random_shards(100 + seed);
    for (ShardData& data : shards) tame(data);
    const std::vector<std::string> all = names(shards.size());
    write(shards, all);
    const auto bytes = merge(1, seed % 2 == 0);
    for (const std::size_t later : {0, 3})
      fs::rename(run_ / ("node-" + all[later] + ".h5"), run_ / all[later]);
    merge(1, seed % 2 == 0);
    for (const std::size_t later : {0, 3})
      fs::rename(run_ / all[later], run_ / ("node-" + all[later] + ".h5"));
    EXPECT_TRUE(merge_again(2, seed % 2 == 0) == bytes) << "seed " << seed;
    EXPECT_EQ(report_.reused, 3u);
  }
}

// A block that is reused is not made again: it is there even if its shard cannot be read any more.
TEST_F(MergeRunTest, ReusesBlocksWithoutReadingTheirShards) {
  const synth::Shape shape{.nodes = 3, .ranks_per_node = 2, .paths = 60, .seed = 2};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 3; ++node) shards.push_back(synth::shard_of_node(shape, node));
  write(shards, {"a", "b", "c"});
  const auto bytes = merge();
  fs::rename(run_ / "node-b.h5", run_ / "b");
  merge();
  fs::rename(run_ / "b", run_ / "node-b.h5");
  const fs::path a = run_ / "node-a.h5";
  const auto time = fs::last_write_time(a);
  auto damaged = testing::read_bytes(a);
  std::fill(damaged.begin(), damaged.end(), std::uint8_t{0});
  testing::write_bytes(a, damaged);
  fs::last_write_time(a, time);
  EXPECT_TRUE(merge_again() == bytes);
  EXPECT_EQ(report_.reused, 2u);
}

TEST_F(MergeRunTest, DoesNotReuseAProfileThatMightNotFit) {
  const synth::Shape shape{.nodes = 3, .ranks_per_node = 2, .paths = 60, .seed = 2};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 3; ++node) shards.push_back(synth::shard_of_node(shape, node));
  write({shards[0], shards[1]}, {"a", "b"});
  merge();
  // A second shard of a node.
  ShardData second = testing::random_shard(4, {.node = 7, .ranks = {4}});
  second.nodes[0].name = shards[1].nodes[0].name;
  tame(second);
  write({second}, {"b2"});
  merge_again();
  EXPECT_EQ(report_.reused, 0u);
  EXPECT_EQ(report_.head.nodes.size(), 2u);
  EXPECT_TRUE(testing::read_bytes(profile_) == merge());

  // A rank that the profile has already.
  fs::remove(run_ / "node-b2.h5");
  merge();
  ShardData doubled = shards[2];
  doubled.ranks[0].rank = 0;
  doubled.ranks[0].flags |= shard::kLost;
  write({doubled}, {"c"});
  merge_again();
  EXPECT_EQ(report_.reused, 0u);
  EXPECT_EQ(report_.head.ranks.size(), 5u);
  EXPECT_TRUE(testing::read_bytes(profile_) == merge());

  // A shard that has changed.
  write({shards[2]}, {"c"});
  merge();
  fs::last_write_time(run_ / "node-c.h5", fs::last_write_time(profile_) + std::chrono::seconds(2));
  merge_again();
  EXPECT_EQ(report_.reused, 0u);

  // A damaged profile.
  auto bytes = testing::read_bytes(profile_);
  bytes.resize(bytes.size() / 2);
  testing::write_bytes(profile_, bytes);
  fs::last_write_time(profile_, fs::file_time_type::clock::now() + std::chrono::seconds(5));
  merge_again();
  EXPECT_EQ(report_.reused, 0u);
  EXPECT_TRUE(testing::read_bytes(profile_) == merge());
}

TEST_F(MergeRunTest, KeepsTheMostCompleteRecordOfARankInSeveralShards) {
  std::vector<ShardData> shards = random_shards(3);
  shards.push_back(testing::random_shard(39, {.node = 5, .ranks = {1, 20, 9}}));
  shards.push_back(testing::random_shard(40, {.node = 6, .ranks = {1, 21}}));
  for (ShardData& data : shards) {
    tame(data);
    data.run.complete = true;
    // Here, series of ranks that are left out do not affect the axis; in memory they do.
    data.time_axis = {};
    data.rank_series.clear();
    data.node_series.clear();
    // Whether a name counts that only the shard of a left-out rank gives depends on who merged that shard.
    for (shard::Communicator& communicator : data.communicators) communicator.name = "comm";
  }
  write(shards, names(shards.size()));
  const auto bytes = merge();
  const ShardData found = profile::read_profile(profile_).value();
  EXPECT_TRUE(found == united(shards));
  EXPECT_EQ(
      std::count_if(found.run.notes.begin(), found.run.notes.end(),
                    [](const shard::Note& note) { return note.code == shard::NoteCode::kRepeatedRanks; }),
      2);
  for (int size = 2; size <= 5; ++size) EXPECT_TRUE(merge(size) == bytes);
  EXPECT_TRUE(merge_again() == bytes);
  EXPECT_EQ(report_.reused, 0u);
}

// A node whose date is a day behind does not make the bins of all as wide as a minute.
TEST_F(MergeRunTest, MovesANodeWithAWrongDateToTheOthers) {
  constexpr std::int64_t kBehind_ns = 86'400'000'000'000;
  const synth::Shape shape{.nodes = 5, .ranks_per_node = 2, .paths = 60, .seed = 9, .events = 280};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 5; ++node) shards.push_back(synth::shard_of_node(shape, node));
  write(shards, names(5));
  merge();
  const ShardData right = profile::read_profile(profile_).value();
  EXPECT_TRUE(right.run.notes.empty());
  move_dates(shards[1], -kBehind_ns);
  write({shards[1]}, {"b"});
  const auto bytes = merge();
  const ShardData found = profile::read_profile(profile_).value();
  EXPECT_EQ(found.run.notes,
            std::vector{note_of_node(shard::NoteCode::kWrongDate, shards[1].nodes[0].name, 86'400)});
  EXPECT_LE(std::abs(found.run.start_utc_ns - right.run.start_utc_ns), 1'000'000);
  EXPECT_EQ(found.ranks[2].start_utc_ns, right.ranks[0].start_utc_ns) << "with the first of the others";
  EXPECT_TRUE(found.time_axis == right.time_axis);
  EXPECT_TRUE(found.rank_series == right.rank_series);
  EXPECT_TRUE(found.node_series == right.node_series);
  EXPECT_TRUE(found.path_axis == right.path_axis);
  EXPECT_TRUE(found.path_series == right.path_series);
  EXPECT_TRUE(found.wait_states == right.wait_states);
  EXPECT_TRUE(profile::check_profile(profile_));
  for (int size = 2; size <= 4; ++size) EXPECT_TRUE(merge(size) == bytes) << "a team of " << size;

  // Whether it comes last, or was the only one.
  for (const bool alone : {false, true}) {
    for (std::size_t i = 0; i < 5; ++i)
      if ((i == 1) != alone) fs::rename(run_ / ("node-" + names(5)[i] + ".h5"), run_ / names(5)[i]);
    merge();
    EXPECT_FALSE(has_note(report_.head, shard::NoteCode::kWrongDate));
    for (std::size_t i = 0; i < 5; ++i)
      if ((i == 1) != alone) fs::rename(run_ / names(5)[i], run_ / ("node-" + names(5)[i] + ".h5"));
    EXPECT_TRUE(merge_again(2) == bytes);
    EXPECT_EQ(report_.reused, 0u);
    EXPECT_TRUE(merge_again() == bytes);
  }

  shards[1].run.id = "another";
  write({shards[1]}, {"b"});
  merge();
  EXPECT_FALSE(has_note(report_.head, shard::NoteCode::kWrongDate)) << "runs have each its own time";
}

TEST_F(MergeRunTest, DamagedShardEndsAllMembersWithOneError) {
  const synth::Shape shape{.nodes = 6, .ranks_per_node = 2, .paths = 60, .seed = 2};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 6; ++node) shards.push_back(synth::shard_of_node(shape, node));
  const auto set_up = [&] { write(shards, names(6)); };
  // Damages the head, and rows only: the second half of the file except its end, which holds the tables'
  // names.
  const auto damage_head = [&](const char* name) {
    auto bytes = testing::read_bytes(run_ / name);
    bytes.resize(bytes.size() / 2);
    testing::write_bytes(run_ / name, bytes);
  };
  for (const int size : {1, 2, 4}) {
    set_up();
    damage_head("node-e.h5");
    damage_head("node-c.h5");
    std::vector<std::string> errors;
    const int status = ForkedTeam::run(size, [&](Team& team) {
      MergeOptions options;
      options.team = &team;
      const Result<MergeReport> merged = merge_run(run_, options);
      if (merged) return 1;
      return merged.error().message.find("node-c.h5: ") == std::string::npos ? 2 : 0;
    });
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(fs::exists(profile_));

    options_.partial = true;
    merge(size);
    EXPECT_EQ(report_.shards, 4u);
    ASSERT_EQ(report_.warnings.size(), 2u);
    EXPECT_NE(report_.warnings[0].find("node-c.h5"), std::string::npos);
    EXPECT_NE(report_.warnings[0].find("; left out"), std::string::npos);
    EXPECT_EQ(report_.head.ranks.size(), 8u);
    fs::remove(profile_);
  }
}

// Only the second pass reads the rows.
TEST_F(MergeRunTest, FindsDamageInRows) {
  const synth::Shape shape{.nodes = 4, .ranks_per_node = 8, .paths = 2000, .seed = 2};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 4; ++node) shards.push_back(synth::shard_of_node(shape, node));
  write(shards, names(4));
  const fs::path path = run_ / "node-b.h5";
  const auto whole = testing::read_bytes(path);
  // A place in the file that the head does not need.
  std::optional<std::size_t> place;
  for (std::size_t at = whole.size() / 8; at < whole.size() && !place; at += whole.size() / 16) {
    auto bytes = whole;
    for (std::size_t i = 0; i < 8; ++i) bytes[at + i] ^= 0xff;
    testing::write_bytes(path, bytes);
    if (shard::read_shard_head(path) && !shard::read_shard_matrix(path)) place = at;
  }
  ASSERT_TRUE(place);
  for (const int size : {1, 3}) {
    const int status = ForkedTeam::run(size, [&](Team& team) {
      MergeOptions options;
      options.team = &team;
      const Result<MergeReport> merged = merge_run(run_, options);
      return !merged && merged.error().message.starts_with(path.string()) ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(fs::exists(profile_));
    options_.partial = true;
    const auto bytes = merge(size);
    EXPECT_EQ(report_.shards, 3u);
    EXPECT_EQ(report_.head.ranks.size(), 24u);
    EXPECT_EQ(report_.warnings.size(), 1u);
    EXPECT_EQ(profile::read_profile(profile_).value().ranks.size(), 24u);
    fs::remove(profile_);
    EXPECT_EQ(std::distance(fs::directory_iterator(run_), fs::directory_iterator()), 4) << "temporary files";
  }
}

// Collectors replace their shards while the job runs.
TEST_F(MergeRunTest, ReadsAShardAgainThatChangesBetweenThePasses) {
  const synth::Shape shape{.nodes = 3, .ranks_per_node = 2, .paths = 60, .seed = 2};
  const synth::Shape other{.nodes = 3, .ranks_per_node = 2, .paths = 90, .seed = 3};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 3; ++node) shards.push_back(synth::shard_of_node(shape, node));
  const ShardData replacement = synth::shard_of_node(other, 1);
  write({shards[0], replacement, shards[2]}, names(3));
  const auto expected = merge();
  write(shards, names(3));
  int replaced = 0;
  options_.progress = [&](const MergeProgress& progress) {
    if (progress.phase == MergeProgress::Phase::kRows && progress.done == 0 && replaced++ == 0)
      write({replacement}, {"b"});
  };
  EXPECT_TRUE(merge() == expected);
  EXPECT_EQ(replaced, 2) << "it began again";

  // Never twice the same.
  int times = 0;
  options_.progress = [&](const MergeProgress& progress) {
    if (progress.phase == MergeProgress::Phase::kRows && progress.done == 0)
      write({++times % 2 == 0 ? replacement : shards[1]}, {"b"});
  };
  fs::remove(profile_);
  const Result<MergeReport> merged = merge_run(run_, options_);
  ASSERT_FALSE(merged);
  EXPECT_NE(merged.error().message.find("node-b.h5: has changed while it was merged"), std::string::npos);
  EXPECT_FALSE(fs::exists(profile_));
  options_.partial = true;
  const Result<MergeReport> without = merge_run(run_, options_);
  ASSERT_TRUE(without);
  EXPECT_EQ(without.value().shards, 2u);

  // Or it goes away.
  write(shards, names(3));
  fs::remove(profile_);
  options_ = {};
  options_.progress = [&](const MergeProgress& progress) {
    if (progress.phase == MergeProgress::Phase::kRows) fs::remove(run_ / "node-c.h5");
  };
  const Result<MergeReport> rest = merge_run(run_, options_);
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(rest.value().shards, 2u);
  EXPECT_FALSE(rest.value().head.run.complete);
}

TEST_F(MergeRunTest, TwoMergesAtTheSameTimeBothSucceed) {
  const synth::Shape shape{.nodes = 4, .ranks_per_node = 2, .paths = 100, .seed = 2};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 4; ++node) shards.push_back(synth::shard_of_node(shape, node));
  write(shards, names(4));
  const auto bytes = merge(1, false);
  fs::remove(profile_);
  const int status = ForkedTeam::run(4, [&](Team&) {
    for (int i = 0; i < 5; ++i) {
      const Result<MergeReport> merged = merge_run(run_);
      if (!merged || merged.value().write_error) return 1;
      if (testing::read_bytes(profile_) != bytes) return 2;
    }
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(run_), fs::directory_iterator()), 5) << "temporary files";
}

TEST_F(MergeRunTest, ThinsOutEventsAboveTheLimit) {
  const synth::Shape shape{.nodes = 3, .ranks_per_node = 2, .paths = 60, .seed = 2, .events = 2800};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 3; ++node) shards.push_back(synth::shard_of_node(shape, node));
  write(shards, names(3));
  merge();
  const ShardData exact = report_.head;
  EXPECT_EQ(exact.wait_analysis.events, 6 * 2800u);
  EXPECT_EQ(exact.wait_analysis.event_level, 0u);
  options_.most_events = 5000;
  const auto bytes = merge(2);
  const ShardData& thin = report_.head;
  EXPECT_TRUE(thin.wait_analysis.done);
  EXPECT_EQ(thin.wait_analysis.event_level, 2u);
  EXPECT_LT(thin.wait_analysis.events, 2 * 5000u);
  EXPECT_EQ(thin.wait_analysis.operations, exact.wait_analysis.operations);
  const auto waited = [](const ShardData& data) {
    double sum = 0;
    for (const shard::Rank& rank : data.ranks) sum += static_cast<double>(rank.mpi_wait_ns);
    return sum;
  };
  EXPECT_NEAR(waited(thin) / waited(exact), 1, 0.2);
  EXPECT_TRUE(merge_again() == bytes) << "with the profile in place of the shards";
  EXPECT_EQ(report_.reused, 3u);
}

TEST_F(MergeRunTest, ProgressGrowsToTheEnd) {
  const synth::Shape shape{.nodes = 4, .ranks_per_node = 2, .paths = 60, .seed = 2};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 4; ++node) shards.push_back(synth::shard_of_node(shape, node));
  write(shards, names(4));
  std::vector<MergeProgress> seen;
  options_.progress = [&](const MergeProgress& progress) { seen.push_back(progress); };
  merge();
  ASSERT_EQ(seen.size(), 9u);
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_LE(seen[i - 1].share, seen[i].share);
    EXPECT_LE(seen[i - 1].phase, seen[i].phase);
  }
  EXPECT_LE(seen.back().share, 1);
  EXPECT_GT(seen.back().share, 0.9);
}

TEST_F(MergeRunTest, ReportsARunThatCannotBeWritten) {
  const synth::Shape shape{.nodes = 2, .ranks_per_node = 2, .paths = 60, .seed = 2, .bins = 8};
  std::vector<ShardData> shards;
  for (std::uint32_t node = 0; node < 2; ++node) shards.push_back(synth::shard_of_node(shape, node));
  write(shards, names(2));
  merge();
  const ShardData expected = profile::read_profile(profile_).value();
  fs::remove(profile_);
  fs::create_directory(profile_);  // works for root too, unlike taking away permissions
  SummingObserver observer;
  Result<profile::ProfileReader> reader = open_run(run_, &observer);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_TRUE(reader.value().head().value()->ranks == expected.ranks);
  EXPECT_EQ(reader.value().report().value(), observer.state());
  EXPECT_TRUE(load_run(run_).value() == expected);
  MergeOptions options;
  options.write = false;
  const Result<MergeReport> unwritten = merge_run(run_, options);
  ASSERT_TRUE(unwritten);
  EXPECT_FALSE(expected.path_series.empty());
  EXPECT_TRUE(unwritten.value().head.path_series == expected.path_series) << "not corrected";
}

}  // namespace
}  // namespace clusterprof::aggregator
