// SPDX-License-Identifier: BSD-3-Clause
// Who holds memory, of runs whose sums are known: lines, peaks, leaks, what was held at a time, and findings.
#include "report/analysis/held_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {
namespace {

using Json = nlohmann::json;
using shard::MemoryDomain;
using shard::MemorySite;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

constexpr std::uint64_t kMiB = 1 << 20, kGiB = 1 << 30;
constexpr std::uint64_t kInterval = 64 << 10;
using Ages = std::array<std::uint64_t, MemorySite::kAges>;
// What was allocated evenly over the time.
constexpr Ages kEven = {kMiB, kMiB, kMiB, kMiB, kMiB, kMiB, kMiB, kMiB};

// Ranks 0 and 1 on node n0, 2 and 3 on n1.
class HeldMemoryTest : public ::testing::Test {
 protected:
  HeldMemoryTest() {
    for (std::uint32_t r = 0; r < 4; ++r) {
      shard::MemoryRank& rank = b_.data.memory_ranks.emplace_back();
      rank.rank = r;
      rank.interval_bytes = kInterval;
    }
  }
  // Held at both peaks and at the end.
  MemorySite& holds(std::uint32_t rank, std::uint32_t path, std::uint64_t bytes,
                    MemoryDomain domain = MemoryDomain::kNative) {
    MemorySite& site = b_.data.memory_sites.emplace_back();
    site.rank = rank, site.path = path, site.domain = domain;
    site.alloc_bytes = site.live_end_bytes = site.rank_peak_bytes = site.node_peak_bytes = bytes;
    site.alloc_count = 1;
    b_.data.memory_ranks[rank].peak_bytes += bytes;
    b_.data.memory_ranks[rank].live_end_bytes += bytes;
    b_.data.nodes[b_.data.ranks[rank].node].held_peak_bytes += bytes;
    return site;
  }
  std::uint32_t python(std::string_view function, std::uint32_t line, std::uint32_t above = 0) {
    return b_.child(above, b_.python(function, "/home/u/train.py", line, 1));
  }
  std::uint32_t native(std::string_view function, std::uint32_t line, std::uint32_t above = 0) {
    return b_.child(above, b_.native(function, "/home/u/a.out", "/home/u/a.c", line));
  }
  std::uint32_t numpy(std::string_view function, std::uint32_t above) {
    return b_.child(above, b_.native(function, "/opt/venv/lib/python3.11/site-packages/numpy/core/_m.so"));
  }
  static const MemoryLine& line_of(const Analysis& a, std::string_view function,
                                   MemoryDomain domain = MemoryDomain::kNative) {
    for (const MemoryLine& line : a.memory->lines)
      if (line.function == function && line.domain == domain) return line;
    ADD_FAILURE() << "no line of " << function;
    static const MemoryLine kNone;
    return kNone;
  }

  ProfileBuilder b_{4, 2};
};

// --- lines -------------------------------------------------------------------------------------------------

TEST_F(HeldMemoryTest, IsAbsentWithoutTheOption) {
  b_.data.memory_ranks.clear();
  EXPECT_FALSE(analyse(b_.data).memory);
}

TEST_F(HeldMemoryTest, ALineIsTheInnermostOfTheUsersAndPythonComesFirst) {
  const std::uint32_t load = python("load", 31, python("<module>", 90));
  holds(0, numpy("array_alloc", load), 5 * kMiB);
  holds(0, native("own_extension", 7, load), 3 * kMiB);  // native code that Python calls is Python's
  holds(0, load, 2 * kMiB, MemoryDomain::kPython);
  // A program that a Python line started is not.
  holds(0, native("solve", 12, b_.child(load, b_.native("main", "/home/u/b.out", "/home/u/b.c", 3))), kMiB);
  holds(1, b_.path({b_.native("start_thread", "/usr/lib/libc.so.6")}), 9);
  const Analysis a = analyse(b_.data);
  ASSERT_TRUE(a.memory);
  EXPECT_EQ(a.memory->interval_bytes, kInterval);
  ASSERT_EQ(a.memory->lines.size(), 4u);
  const MemoryLine& native_line = line_of(a, "load");
  EXPECT_EQ(native_line.node_peak_bytes, 8 * kMiB);
  EXPECT_EQ(native_line.alloc_count, 2u);
  EXPECT_EQ(native_line.line, 31u);
  EXPECT_EQ(native_line.kind, shard::FrameKind::kPython);
  EXPECT_NE(native_line.called.find("array_alloc"), std::string::npos) << native_line.called;
  EXPECT_EQ(&native_line, &a.memory->lines[0]) << "the largest first";
  EXPECT_EQ(line_of(a, "load", MemoryDomain::kPython).node_peak_bytes, 2 * kMiB);
  EXPECT_EQ(line_of(a, "solve").node_peak_bytes, kMiB);
  EXPECT_EQ(line_of(a, "solve").line, 12u);
  EXPECT_EQ(a.memory->lines.back().line, 0u);
}

TEST_F(HeldMemoryTest, LinesAddUpToThePeaks) {
  const std::uint32_t grid = native("grid", 5), halo = native("halo", 9);
  std::uint64_t bytes = kMiB;
  for (std::uint32_t r = 0; r < 4; ++r)
    for (const std::uint32_t path : {grid, halo}) holds(r, path, bytes += 77'777);
  MemorySite& early = b_.data.memory_sites[2];  // grid of rank 1: not held any more when its node was fullest
  b_.data.nodes[0].held_peak_bytes -= early.node_peak_bytes;
  early.node_peak_bytes = 0;
  b_.data.nodes[0].held_peak_utc_ns = b_.data.run.start_utc_ns + 2'500 * static_cast<std::int64_t>(kMs);
  b_.data.memory_ranks[1].peak_ns = 1'250 * kMs;
  b_.data.ranks[1].start_utc_ns += 250 * static_cast<std::int64_t>(kMs);
  const Analysis a = analyse(b_.data);
  std::uint64_t of_ranks = 0, of_nodes = 0;
  for (const HeldRank& rank : a.memory->ranks) of_ranks += rank.peak_bytes;
  for (const HeldNode& node : a.memory->nodes) of_nodes += node.peak_bytes;
  std::uint64_t by_rank = 0, by_node = 0;
  for (const MemoryLine& line : a.memory->lines)
    by_rank += line.rank_peak_bytes, by_node += line.node_peak_bytes;
  EXPECT_EQ(by_rank, of_ranks);
  EXPECT_EQ(by_node, of_nodes);
  EXPECT_LT(of_nodes, of_ranks);
  EXPECT_EQ(line_of(a, "halo").max_rank, 3);
  EXPECT_EQ(line_of(a, "halo").max_rank_bytes, bytes);
  EXPECT_DOUBLE_EQ(*a.memory->ranks[1].peak_at_s, 1.5);
  ASSERT_EQ(a.memory->nodes.size(), 2u);
  EXPECT_DOUBLE_EQ(*a.memory->nodes[0].peak_at_s, 2.5);
  // By line and rank: of n0 without grid of rank 1.
  ASSERT_EQ(a.memory->nodes[0].held.size(), 3u);
  EXPECT_EQ(a.memory->nodes[0].held[0].rank, 1);
  EXPECT_EQ(a.memory->lines[a.memory->nodes[0].held[0].line].function, "halo");
  EXPECT_EQ(a.memory->nodes[1].held.size(), 4u);
}

TEST_F(HeldMemoryTest, ErrorsAddUpAsVariancesDo) {
  const std::uint32_t grid = native("grid", 5);
  holds(0, grid, kMiB).variance = 9 * kInterval * kInterval / MemorySite::kVarianceUnit;
  holds(2, grid, kMiB).variance = 16 * kInterval * kInterval / MemorySite::kVarianceUnit;
  EXPECT_NEAR(line_of(analyse(b_.data), "grid").error_bytes, 5.0 * kInterval, 1);
}

TEST_F(HeldMemoryTest, MappedFilesAreNotHeld) {
  const std::uint32_t open = native("open_data", 5);
  MemorySite& file = b_.data.memory_sites.emplace_back();
  file.rank = 0, file.path = open, file.domain = MemoryDomain::kFile;
  file.alloc_bytes = file.live_end_bytes = kGiB;
  file.alloc_count = 1;
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.memory->lines.size(), 1u);
  const MemoryLine& line = a.memory->lines[0];
  EXPECT_EQ(line.domain, MemoryDomain::kMapping);
  EXPECT_EQ(line.alloc_bytes, kGiB);
  EXPECT_EQ(line.file_bytes, kGiB);
  EXPECT_EQ(line.live_end_bytes + line.rank_peak_bytes + line.node_peak_bytes, 0u);
  EXPECT_TRUE(a.memory->nodes.empty());
  EXPECT_TRUE(a.memory->tree.empty());
}

TEST_F(HeldMemoryTest, WhatTheKernelDoesNotSayIsEmpty) {
  b_.data.memory_ranks[0].max_anon_bytes = 7 * kMiB;
  b_.data.memory_ranks[1].pss_bytes = 5 * kMiB;
  b_.data.memory_ranks[2].near_bytes = kMiB;
  const Analysis a = analyse(b_.data);
  EXPECT_EQ(a.memory->ranks[0].max_anon_bytes, 7 * kMiB);
  EXPECT_EQ(a.memory->ranks[0].live_at_max_anon_bytes, 0u);
  EXPECT_FALSE(a.memory->ranks[0].pss_bytes);
  EXPECT_FALSE(a.memory->ranks[0].far_bytes);
  EXPECT_FALSE(a.memory->ranks[0].peak_at_s) << "it held nothing";
  EXPECT_EQ(a.memory->ranks[1].swap_bytes, 0u);
  EXPECT_FALSE(a.memory->ranks[1].mean_anon_bytes);
  EXPECT_EQ(a.memory->ranks[2].far_bytes, 0u);
}

TEST_F(HeldMemoryTest, TheTreeHasWhatIsHeldBelow) {
  const std::uint32_t main = python("<module>", 90);
  holds(0, numpy("array_alloc", python("load", 31, main)), 6 * kMiB);
  MemorySite& freed = holds(1, python("scratch", 50, main), 2 * kMiB);
  freed.live_end_bytes = freed.node_peak_bytes = 0;
  const Analysis a = analyse(b_.data);
  const auto row_of = [&](std::string_view name) {
    const auto row = std::ranges::find(a.memory->tree, name, &MemoryTreeRow::name);
    return row != a.memory->tree.end() ? *row : MemoryTreeRow();
  };
  EXPECT_EQ(row_of("<module>").parent, shard::kNone);
  EXPECT_EQ(row_of("<module>").alloc_bytes, 8 * kMiB);
  EXPECT_EQ(row_of("<module>").live_end_bytes, 6 * kMiB);
  EXPECT_EQ(row_of("<module>").rank_peak_bytes, 8 * kMiB);
  EXPECT_EQ(row_of("load").node_peak_bytes, 6 * kMiB);
  EXPECT_EQ(row_of("scratch").alloc_bytes, 2 * kMiB);
  EXPECT_EQ(row_of("scratch").node_peak_bytes, 0u);
}

TEST_F(HeldMemoryTest, DamagedRowsAreLeftOut) {
  const std::uint32_t grid = native("grid", 5);
  holds(0, grid, kMiB);
  MemorySite& site = b_.data.memory_sites.emplace_back(b_.data.memory_sites.front());
  site.path = 9999;
  b_.data.memory_sites.emplace_back(b_.data.memory_sites.front()).domain = static_cast<MemoryDomain>(77);
  b_.data.memory_sites.emplace_back(b_.data.memory_sites.front()).rank = 55;
  b_.data.memory_ranks.emplace_back().rank = 55;
  b_.data.path_axis.bin_ns = 1000 * kMs;
  b_.data.memory_series.push_back({9999, 0, 5});
  b_.data.memory_series.push_back({grid, 0x7fff'ffff, 5});
  const Analysis a = analyse(b_.data);
  EXPECT_EQ(line_of(a, "grid").alloc_bytes, kMiB);
  EXPECT_EQ(a.memory->ranks.size(), 4u);
  EXPECT_TRUE(decode(encode(a)));
}

TEST_F(HeldMemoryTest, RegionsHaveWhatWasAllocatedInThem) {
  const auto epoch = b_.region("epoch"), step = b_.region("step");
  const auto load = b_.python("load", "/home/u/train.py", 31, 1);
  holds(0, b_.path({epoch, load}), 5 * kMiB);
  MemorySite& inner = holds(1, b_.path({epoch, step, load}), 3 * kMiB);
  inner.live_end_bytes = 0;
  inner.copy_bytes = 70;
  holds(1, b_.path({load}), kMiB);
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.regions.size(), 2u);
  ASSERT_TRUE(a.regions[0].memory && a.regions[1].memory);
  EXPECT_EQ(a.regions[0].memory->alloc_bytes, 8 * kMiB) << "with the region in it";
  EXPECT_EQ(a.regions[0].memory->live_end_bytes, 5 * kMiB);
  EXPECT_EQ(a.regions[1].memory->node_peak_bytes, 3 * kMiB);
  EXPECT_EQ(a.regions[1].memory->copy_bytes, 70u);
  const Json region = Json::parse(render_json(a))["regions"][1];
  EXPECT_EQ(region["memory"]["rank_peak_bytes"], 3 * kMiB);
  EXPECT_NE(render_text(a, {100, false, {"regions"}, 15}).find("Memory of what they allocated"),
            std::string::npos);
  const std::optional<Analysis> alone = analyse_region(b_.data, "epoch/step");
  ASSERT_TRUE(alone);
  ASSERT_EQ(alone->memory->lines.size(), 1u);
  EXPECT_EQ(alone->memory->lines[0].alloc_bytes, 3 * kMiB);
  b_.data.memory_ranks.clear();
  EXPECT_FALSE(analyse(b_.data).regions[0].memory);
}

// --- leaks -------------------------------------------------------------------------------------------------

TEST(LeakJudgement, NeedsNearlyAllOfTheTime) {
  const LeakJudgement even = judge_leak(kEven, kInterval);
  EXPECT_TRUE(even.is_leak);
  EXPECT_EQ(even.late_bytes, 4 * kMiB);
  EXPECT_NEAR(even.confidence, 1 - 1 / std::sqrt(7.0 * kMiB / kInterval), 1e-9);
  // A cache that has filled up, data that are loaded at the start, and what belongs to the end.
  EXPECT_FALSE(judge_leak({kMiB, kMiB, kMiB, kMiB, kMiB, 0, 0, 0}, kInterval).is_leak);
  EXPECT_FALSE(judge_leak({kGiB, 0, 0, 0, 0, 0, 0, 0}, kInterval).is_leak);
  EXPECT_FALSE(judge_leak({0, 0, 0, 0, 0, 0, kGiB, kGiB}, kInterval).is_leak);
  // One eighth may be without, and the first does not count.
  const LeakJudgement most = judge_leak({0, kMiB, kMiB, 0, kMiB, kMiB, kMiB, kMiB}, kInterval);
  EXPECT_TRUE(most.is_leak);
  EXPECT_LT(most.confidence, even.confidence);
  EXPECT_FALSE(judge_leak({kMiB, kMiB, 0, 0, kMiB, kMiB, kMiB, kMiB}, kInterval).is_leak);
  // Eighths in which little was left are as good as none.
  EXPECT_FALSE(judge_leak({0, kMiB, 2, 2, kMiB, kMiB, kMiB, kMiB}, kInterval).is_leak);
}

TEST(LeakJudgement, IsNotMadeOfAFewSamples) {
  EXPECT_FALSE(judge_leak(kEven, kMiB).is_leak) << "seven samples";
  Ages little{};
  little.fill(kMiB / 8);
  EXPECT_FALSE(judge_leak(little, 64).is_leak) << "7/8 MiB are no matter";
  EXPECT_FALSE(judge_leak({}, 0).is_leak);
}

TEST_F(HeldMemoryTest, ALeakOnOneRankIsALeak) {
  const std::uint32_t grid = native("grid", 5), cache = native("cache", 9);
  for (std::uint32_t r = 0; r < 4; ++r) holds(r, grid, 64 * kMiB).live_by_age = {64 * kMiB};
  for (std::uint32_t r = 1; r < 3; ++r) holds(r, cache, 8 * kMiB).live_by_age = kEven;
  const Analysis a = analyse(b_.data);
  EXPECT_FALSE(line_of(a, "grid").leak);
  EXPECT_EQ(line_of(a, "grid").growth_bytes_per_s, 0);
  EXPECT_TRUE(line_of(a, "cache").leak);
  EXPECT_NEAR(line_of(a, "cache").growth_bytes_per_s, 2 * 4.0 * kMiB / 5, 1) << "half of 10 s, on two ranks";
  EXPECT_NEAR(a.memory->nodes[0].growth_bytes_per_s, 4.0 * kMiB / 5, 1);
  EXPECT_EQ(a.memory->lines[a.memory->nodes[0].growth_line].function, "cache");
}

// --- over time ---------------------------------------------------------------------------------------------

class HeldOverTimeTest : public HeldMemoryTest {
 protected:
  HeldOverTimeTest() {
    const std::uint32_t grid = native("grid", 5), load = python("load", 31);
    holds(0, grid, 8 * kMiB);
    holds(2, load, 2 * kMiB);
    b_.data.path_axis.bin_ns = 1000 * kMs;
    b_.data.path_axis.origin_utc_ns = b_.data.run.start_utc_ns - 500 * static_cast<std::int64_t>(kMs);
    const auto held = [&](std::uint32_t path, std::uint32_t bin, std::uint64_t mib, std::uint64_t ms) {
      b_.data.memory_series.push_back({path, bin, mib * 1024 * ms});
    };
    held(grid, 0, 1, 500);  // half of it is before the start
    held(grid, 3, 8, 1000);
    held(load, 3, 2, 500);
    held(load, 3, 6, 500);
    b_.series("memory_held_bytes", 0, {kMiB, 2 * kMiB, 8 * kMiB, 9 * kMiB}, shard::SeriesKind::kMaximum);
    b_.series("memory_held_bytes", 2, {0, 0, 0, 6 * kMiB}, shard::SeriesKind::kMaximum);
  }
};

TEST_F(HeldOverTimeTest, IsTheMeanOfWhatABinHasOfTheRun) {
  const Analysis a = analyse(b_.data);
  const HeldOverTime& time = a.memory->over_time;
  EXPECT_DOUBLE_EQ(time.bin_s, 1);
  EXPECT_DOUBLE_EQ(time.begin_s, -0.5);
  EXPECT_EQ(time.bins, 4u);
  ASSERT_EQ(time.rows.size(), 2u);
  EXPECT_EQ(a.memory->lines[time.rows[0].line].function, "grid");
  EXPECT_EQ(time.rows[0].values, (std::vector<std::uint64_t>{kMiB, 0, 0, 8 * kMiB}));
  EXPECT_EQ(time.rows[1].values, (std::vector<std::uint64_t>{0, 0, 0, 4 * kMiB}));
}

TEST_F(HeldOverTimeTest, HeldAtIsOfOneBin) {
  const Analysis a = analyse(b_.data);
  const std::optional<HeldAt> held = held_at(a, 3.2);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->bytes, 12 * kMiB);
  EXPECT_DOUBLE_EQ(held->begin_s, 2.5);
  EXPECT_DOUBLE_EQ(held->end_s, 3.5);
  ASSERT_EQ(held->lines.size(), 2u);
  EXPECT_EQ(held->lines[0].bytes, 8 * kMiB);
  // Of ranks the bins are 1.024 s: the fourth begins at 2.572 s.
  ASSERT_EQ(held->ranks.size(), 2u);
  EXPECT_EQ(held->ranks[0].rank, 0);
  EXPECT_EQ(held->ranks[0].bytes, 9 * kMiB);
  EXPECT_EQ(held->ranks[1].bytes, 6 * kMiB);
  const std::optional<HeldAt> start = held_at(a, 0);
  ASSERT_TRUE(start);
  EXPECT_DOUBLE_EQ(start->begin_s, 0);
  EXPECT_EQ(start->bytes, kMiB);
  EXPECT_FALSE(held_at(a, 3.5)) << "nothing is known of that time";
  EXPECT_FALSE(held_at(a, -1));
  EXPECT_FALSE(held_at(Analysis(), 1));
}

TEST_F(HeldOverTimeTest, AnAnswerNamesLinesAndRanks) {
  const Analysis a = analyse(b_.data);
  const HeldAt held = *held_at(a, 3.2);
  const std::string text = render_text(a, held, {100, false, {}, 15});
  EXPECT_NE(text.find("load() train.py:31"), std::string::npos) << text;
  std::string json;
  render_json(a, held, [&](std::string_view piece) { json += piece; });
  const Json document = Json::parse(json);
  EXPECT_EQ(document["schema"], "clusterprof.report_at/1");
  EXPECT_EQ(document["lines"][0]["function"], "grid");
  EXPECT_EQ(document["lines"][1]["bytes"], 4 * kMiB);
  EXPECT_EQ(document["ranks"][1]["rank"], 2);
}

// --- views -------------------------------------------------------------------------------------------------

TEST_F(HeldOverTimeTest, TheTextShowsLinesAndLeaks) {
  holds(1, native("cache", 9), 8 * kMiB).live_by_age = kEven;
  const Analysis a = analyse(b_.data);
  const std::string text = render_text(a, {});
  EXPECT_NE(text.find("cache() a.c:9"), std::string::npos) << text;
  EXPECT_NE(text.find("Never freed, and growing all the time"), std::string::npos);
  EXPECT_EQ(text.find("By rank\n"), std::string::npos) << "only where the section is asked for";
  const std::string full = render_text(a, {100, false, {"memory"}, 15});
  for (const char* const part : {"By rank\n", "By node", "At the peak of n0, by line and rank"})
    EXPECT_NE(full.find(part), std::string::npos) << part << "\n" << full;
}

TEST_F(HeldOverTimeTest, TheArchiveKeepsIt) {
  const Analysis a = analyse(b_.data);
  const std::optional<Analysis> read = decode(encode(a));
  ASSERT_TRUE(read);
  EXPECT_EQ(render_json(*read), render_json(a));
  ASSERT_TRUE(read->memory);
  EXPECT_EQ(held_at(*read, 3.2)->bytes, held_at(a, 3.2)->bytes);
}

// --- findings ----------------------------------------------------------------------------------------------

class MemoryFindingsTest : public HeldMemoryTest {
 protected:
  void killed(std::uint32_t rank) {
    b_.data.ranks[rank].flags |= shard::kExitSignalKnown | shard::kLost;
    b_.data.ranks[rank].exit_signal = 9;
    b_.data.ranks[rank].elapsed_ns = 9000 * kMs;
  }
};

TEST_F(MemoryFindingsTest, AKilledRanksNodeComesFirst) {
  const std::uint32_t grid = native("grid", 5), load = python("load", 31);
  holds(0, grid, 4 * kGiB);  // of another node
  holds(2, load, 3 * kGiB);
  holds(3, load, kGiB);
  killed(3);
  b_.data.nodes[1].group.limit_bytes = 4 * kGiB;
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kOutOfMemory), nullptr) << "who killed it is not known";
  b_.data.run.notes = {note_of_node(shard::NoteCode::kMemoryKills, "n1", 1)};
  const Analysis a = analyse(b_.data);
  ASSERT_FALSE(a.findings.empty());
  const Finding& finding = a.findings[0];
  EXPECT_EQ(finding.kind, FindingKind::kOutOfMemory);
  EXPECT_EQ(finding.place.function, "load");
  ASSERT_EQ(finding.held.size(), 2u);
  EXPECT_EQ(finding.held[0].rank, 2);
  EXPECT_EQ(finding.held[0].bytes, 3.0 * kGiB);
  const std::string text = text_of(a, finding);
  EXPECT_NE(text.find("node n1"), std::string::npos) << text;
  EXPECT_NE(text.find("by load() train.py:31 on rank 2, "), std::string::npos) << text;
  const Json json = Json::parse(render_json(a))["findings"][0];
  EXPECT_EQ(json["kind"], "out_of_memory");
  EXPECT_EQ(json["evidence"]["failure"], "oom");
  EXPECT_EQ(json["evidence"]["held"][1]["rank"], 3);
  EXPECT_EQ(json["evidence"]["held"][1]["line"], 31);
}

TEST_F(MemoryFindingsTest, AFullNodeWhoseRanksVanishedIsNotCertain) {
  holds(2, native("grid", 5), 3 * kGiB);
  b_.data.run.notes = {note_of_node(shard::NoteCode::kJobMemoryShort, "n1", 1)};
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kOutOfMemory), nullptr) << "its ranks went on";
  b_.data.ranks[2].flags |= shard::kLost;
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kOutOfMemory);
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->evidence.has(EvidenceKey::kFailure));
  EXPECT_NE(text_of(a, *finding).find("nearly used up"), std::string::npos);
}

TEST_F(MemoryFindingsTest, OneRankSizesTheJob) {
  const std::uint32_t grid = native("grid", 5), gather = native("gather", 9);
  for (std::uint32_t r = 0; r < 4; ++r) holds(r, grid, 100 * kMiB);
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kMemoryImbalance), nullptr);
  holds(0, gather, 500 * kMiB);
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kMemoryImbalance);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kMedium);
  EXPECT_EQ(finding->ranks, std::vector<std::int32_t>{0});
  EXPECT_EQ(finding->place.function, "gather");
  EXPECT_NEAR(*finding->share, (600.0 - 225) / 600, 1e-9);
}

TEST_F(MemoryFindingsTest, ALeakThatWillFillTheNode) {
  const std::uint32_t cache = native("cache", 9);
  holds(2, cache, 8 * kMiB).live_by_age = kEven;
  b_.data.nodes[1].memory_bytes = 100 * kGiB;
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kMemoryGrowth), nullptr) << "small and with room";
  // 0.8 MiB/s; 24 MiB are left for it.
  b_.data.nodes[1].group.limit_bytes = 64 * kMiB;
  b_.data.nodes[1].group.used_bytes = 40 * kMiB;
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kMemoryGrowth);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kMedium);
  EXPECT_EQ(finding->rank, 2);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kFullIn), 30, 1e-6);
  const std::string text = text_of(a, *finding);
  EXPECT_TRUE(
      text.starts_with("On node n1, memory allocated in cache() a.c:9 is never freed: it grows by "
                       "839 kB/s, to "))
      << text;
  // The kernel drops files that were read.
  shard::GroupMemory& group = b_.data.nodes[1].group;
  group.used_bytes = 63 * kMiB, group.file_bytes = 23 * kMiB;
  const Analysis cached = analyse(b_.data);
  ASSERT_NE(find_kind(cached, FindingKind::kMemoryGrowth), nullptr);
  EXPECT_NEAR(find_kind(cached, FindingKind::kMemoryGrowth)->evidence.number(EvidenceKey::kFullIn), 30, 1e-6);
  group.file_bytes = 50 * kMiB;
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kMemoryGrowth), nullptr) << "64 s are long";
  // What is full is not full never.
  group.used_bytes = 70 * kMiB, group.file_bytes = 0;
  const Analysis full = analyse(b_.data);
  ASSERT_NE(find_kind(full, FindingKind::kMemoryGrowth), nullptr);
  EXPECT_EQ(find_kind(full, FindingKind::kMemoryGrowth)->severity, Severity::kMedium);
  EXPECT_EQ(find_kind(full, FindingKind::kMemoryGrowth)->evidence.number(EvidenceKey::kFullIn), 0);
  EXPECT_NE(text_of(full, *find_kind(full, FindingKind::kMemoryGrowth)).find("is used."), std::string::npos);
  // A large one is said although there is room.
  b_.data.nodes[1].group = {};
  b_.data.memory_sites[0].live_by_age.fill(64 * kMiB);
  const Analysis large = analyse(b_.data);
  ASSERT_NE(find_kind(large, FindingKind::kMemoryGrowth), nullptr);
  EXPECT_EQ(find_kind(large, FindingKind::kMemoryGrowth)->severity, Severity::kLow);
}

TEST_F(MemoryFindingsTest, WhatWasAskedForAndNotUsed) {
  for (shard::Node& node : b_.data.nodes)
    node.requested_memory_bytes = 64 * kGiB, node.group.max_used_bytes = 8 * kGiB;
  const Finding* finding = nullptr;
  const Analysis a = analyse(b_.data);
  ASSERT_NE(finding = find_kind(a, FindingKind::kMemoryRequested), nullptr);
  EXPECT_EQ(finding->evidence.number(EvidenceKey::kRequested), 64.0 * kGiB);
  b_.data.nodes[0].group.max_used_bytes = 33 * kGiB;
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kMemoryRequested), nullptr) << "one node needs it";
  b_.data.nodes[0].group.max_used_bytes = 0;
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kMemoryRequested), nullptr) << "not known of all nodes";
}

TEST_F(MemoryFindingsTest, WhatTheAllocatorKeeps) {
  shard::MemoryRank& rank = b_.data.memory_ranks[1];
  rank.max_anon_bytes = 7 * kGiB, rank.live_at_max_anon_bytes = 2 * kGiB;
  rank.mean_anon_bytes = 6 * kGiB, rank.mean_live_bytes = 2 * kGiB;
  b_.data.ranks[1].threads = 64;
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kMemoryOfAllocator);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->ranks, std::vector<std::int32_t>{1});
  const std::string text = text_of(a, *finding);
  EXPECT_TRUE(
      text.starts_with("Rank 1 occupies 6.44 GB of RAM on average but uses 2.15 GB: the allocator "
                       "keeps the rest (freed or fragmented)."))
      << text;
  EXPECT_NE(text.find("MALLOC_ARENA_MAX"), std::string::npos);
  b_.data.run.notes = {note_of_ranks(shard::NoteCode::kMemoryOwnMalloc, {1, 1})};
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kMemoryOfAllocator), nullptr) << "it is not seen";
  b_.data.run.notes.clear();
  rank.untracked_bytes = 1;
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kMemoryOfAllocator), nullptr)
      << "what lives is not known";
  rank.untracked_bytes = 0;
  rank.static_bytes = 3 * kGiB;  // as of a Fortran program with large arrays in common blocks
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kMemoryOfAllocator), nullptr) << "nobody allocates it";
  rank.static_bytes = kGiB;
  EXPECT_NE(find_kind(analyse(b_.data), FindingKind::kMemoryOfAllocator), nullptr);
  rank.static_bytes = 0;
  rank.mean_live_bytes = 4 * kGiB;
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kMemoryOfAllocator), nullptr);
}

TEST_F(MemoryFindingsTest, ListsOfNumbers) {
  const std::uint32_t load = python("load", 31);
  MemorySite& floats = holds(1, load, 320 * kMiB, MemoryDomain::kPython);
  floats.alloc_count = 10 * kMiB;  // 32 bytes each
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kPythonNumbers);
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->is_estimate);
  EXPECT_EQ(finding->place.line, 31u);
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kBytesPerObject), 32, 1e-9);
  b_.data.memory_sites[0].alloc_count = 25 * kMiB;  // with what it computed with
  b_.data.memory_sites[0].soon_count = 15 * kMiB;
  const Analysis computed = analyse(b_.data);
  const Finding* const of_kept = find_kind(computed, FindingKind::kPythonNumbers);
  ASSERT_NE(of_kept, nullptr);
  EXPECT_NEAR(of_kept->evidence.number(EvidenceKey::kBytesPerObject), 32, 1e-9);
  EXPECT_NEAR(of_kept->evidence.number(EvidenceKey::kObjects), 10 * kMiB, 1e-9);
  b_.data.memory_sites[0].soon_count = 0;
  b_.data.memory_sites[0].alloc_count = kMiB;  // of 320 bytes: no numbers
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kPythonNumbers), nullptr);
  b_.data.memory_sites[0].alloc_count = 100 * kMiB;  // most of what was made is gone
  EXPECT_EQ(find_kind(analyse(b_.data), FindingKind::kPythonNumbers), nullptr);
}

// --- text --------------------------------------------------------------------------------------------------

TEST_F(HeldMemoryTest, TheTextHasFileAndLineWhateverTheFunctionIsCalled) {
  holds(0, python("Trainer.prepare_batches.<locals>.<listcomp>", 31), 5 * kMiB);
  holds(1, native("grid", 7), 3 * kMiB);
  holds(2, b_.path({b_.native("start_thread", "/usr/lib/libc.so.6")}), kMiB);
  const std::string text = render_text(analyse(b_.data), {80, false, {"memory"}, 15});
  EXPECT_NE(text.find("  train.py:31 <li..omp>\n"), std::string::npos) << text;
  EXPECT_NE(text.find("grid() a.c:7\n"), std::string::npos) << text;
  EXPECT_NE(text.find("node peak  rank peak"), std::string::npos) << text;
}

TEST_F(HeldMemoryTest, TheTextHasRareKindsOfMemoryWhereThereAreSome) {
  holds(0, python("load", 31), 5 * kMiB);
  for (shard::MemoryRank& rank : b_.data.memory_ranks) rank.pss_bytes = 5'000'000;
  std::string text = render_text(analyse(b_.data), {80, false, {"memory"}, 15});
  EXPECT_NE(text.find("dirty  node\n"), std::string::npos) << text;
  b_.data.memory_ranks[2].swap_bytes = 3'000'000;
  text = render_text(analyse(b_.data), {80, false, {"memory"}, 15});
  EXPECT_NE(text.find("dirty     swap  node\n"), std::string::npos) << text;
  EXPECT_NE(text.find("3.00 MB  n1\n"), std::string::npos) << text;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    EXPECT_LE(end - begin, 80u) << text.substr(begin, end - begin);
    EXPECT_EQ(text.substr(begin, end - begin).find(".."), std::string::npos)
        << text.substr(begin, end - begin);
  }
}

}  // namespace
}  // namespace clusterprof::report
