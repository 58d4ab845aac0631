// SPDX-License-Identifier: BSD-3-Clause
// What lives, when, and on which call path: MemoryLedger, MemoryReader, and the node as a whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collector/memory/memory_ledger.hpp"
#include "collector/memory/memory_reader.hpp"
#include "collector/node/node_state.hpp"
#include "collector/shard/shard_builder.hpp"
#include "formats/shard/tables.hpp"
#include "tests/unit/collector/fake_segment.hpp"
#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

using test::FakeSegment;
using test::python_word;
using wire::MemoryDomain;

constexpr std::int64_t kUtc = 1'700'000'000'000'000'000;

// --- MemoryLedger --------------------------------------------------------------------------

class MemoryLedgerTest : public testing::Test {
 protected:
  MemoryLedgerTest() {
    grid_.begin(kStart, kUtc);
    path_grid_.begin(kStart, kUtc);
  }
  static MemoryChange change(std::uint64_t ms, std::int64_t bytes, std::uint32_t path,
                             MemoryDomain domain = MemoryDomain::kNative) {
    return {kStart + ms * kMs, bytes, {path, domain}};
  }
  struct Amounts {
    std::uint64_t live_end, rank_peak, node_peak;
    friend bool operator==(const Amounts&, const Amounts&) = default;
  };
  std::map<std::uint32_t, Amounts> rows(MemoryLedger::RankKey rank) const {
    std::map<std::uint32_t, Amounts> found;
    for (const MemoryLedger::Row& row : ledger_.rank(rank).rows)
      found[row.of.path] = {row.live_end, row.rank_peak, row.node_peak};
    return found;
  }
  TimeGrid grid_, path_grid_{shard::kMaxPathBins};
  MemoryLedger ledger_{grid_, path_grid_};
};

TEST_F(MemoryLedgerTest, PeaksOfRanksAndOfTheNodeAreAtDifferentTimes) {
  // Rank 0 has the most at 10 ms, and both together at 30 ms.
  ledger_.add(0, {change(0, 100, 1), change(10, 500, 2), change(15, -300, 2), change(25, -150, 2)});
  ledger_.add(1, {change(5, 50, 3), change(20, 400, 4), change(28, -400, 4), change(30, 600, 5)});
  ledger_.advance(kStart + 40 * kMs);
  EXPECT_EQ(ledger_.rank(0).peak.bytes, 600u);
  EXPECT_EQ(ledger_.rank(0).peak.time_ns, kStart + 10 * kMs);
  EXPECT_EQ(ledger_.rank(1).peak.bytes, 650u);
  EXPECT_EQ(ledger_.node_peak().bytes, 800u);  // at 30 ms: 100 + 50 + 650
  EXPECT_EQ(ledger_.node_peak().time_ns, kStart + 30 * kMs);
  EXPECT_EQ(rows(0), (std::map<std::uint32_t, Amounts>{{1, {100, 100, 100}}, {2, {50, 500, 50}}}));
  EXPECT_EQ(rows(1), (std::map<std::uint32_t, Amounts>{{3, {50, 50, 50}}, {5, {600, 600, 600}}}))
      << "what is held neither in the end nor at a peak has no row";
  EXPECT_EQ(ledger_.live(0), 150u);
}

TEST_F(MemoryLedgerTest, OrderOfToldChangesDoesNotMatterUntilTheirTimeHasCome) {
  ledger_.add(0, {change(20, -100, 1)});
  ledger_.add(0, {change(10, 100, 1)});
  ledger_.advance(kStart + 15 * kMs);
  EXPECT_EQ(ledger_.live(0), 100u);
  ledger_.advance(kStart + 25 * kMs);
  EXPECT_EQ(ledger_.live(0), 0u);
  EXPECT_EQ(ledger_.rank(0).peak.bytes, 100u);
}

// What was written down when the amounts changed, against a search through all instants.
TEST_F(MemoryLedgerTest, AgreesWithASearchThroughAllInstants) {
  std::mt19937 random(7);
  std::map<std::pair<int, std::uint32_t>, std::uint64_t> live, at_node;
  std::map<int, std::map<std::uint32_t, std::uint64_t>> at_rank;
  std::map<int, std::uint64_t> rank_peak;
  std::uint64_t node_peak = 0;
  for (std::uint64_t step = 0; step < 3000; ++step) {
    const int rank = static_cast<int>(random() % 3);
    const auto path = static_cast<std::uint32_t>(1 + random() % 9);
    std::uint64_t& has = live[{rank, path}];
    const bool frees = random() % 2 == 0 && has != 0;
    const auto bytes = static_cast<std::int64_t>(frees ? 1 + random() % has : 1 + random() % 1000);
    has = frees ? has - static_cast<std::uint64_t>(bytes) : has + static_cast<std::uint64_t>(bytes);
    ledger_.add(rank, {change(step, frees ? -bytes : bytes, path)});
    if (random() % 50 == 0) ledger_.advance(kStart + step * kMs);
    std::uint64_t of_rank = 0, of_node = 0;
    for (const auto& [key, amount] : live) {
      of_node += amount;
      if (key.first == rank) of_rank += amount;
    }
    if (of_rank > rank_peak[rank]) {
      rank_peak[rank] = of_rank;
      for (const auto& [key, amount] : live)
        if (key.first == rank) at_rank[rank][key.second] = amount;
    }
    if (of_node > node_peak) {
      node_peak = of_node;
      at_node = live;
    }
  }
  ledger_.advance(kStart + 4000 * kMs);
  EXPECT_EQ(ledger_.node_peak().bytes, node_peak);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ledger_.rank(rank).peak.bytes, rank_peak[rank]);
    const auto found = rows(rank);
    for (std::uint32_t path = 1; path < 10; ++path) {
      const auto row = found.find(path);
      const Amounts amounts = row != found.end() ? row->second : Amounts{};
      EXPECT_EQ(amounts.live_end, (live[{rank, path}])) << rank << " " << path;
      EXPECT_EQ(amounts.rank_peak, at_rank[rank][path]) << rank << " " << path;
      EXPECT_EQ(amounts.node_peak, (at_node[{rank, path}])) << rank << " " << path;
    }
  }
}

TEST_F(MemoryLedgerTest, MappedFilesAreInNoPeak) {
  ledger_.add(0, {change(1, 1000, 1, MemoryDomain::kFile), change(2, 10, 1)});
  ledger_.advance(kStart + 3 * kMs);
  const MemoryLedger::RankMemory rank = ledger_.rank(0);
  EXPECT_EQ(rank.peak.bytes, 10u);
  EXPECT_EQ(rank.live_end, 10u);
  ASSERT_EQ(rank.rows.size(), 2u);
  EXPECT_EQ(rank.rows[1].of.domain, MemoryDomain::kFile);
  EXPECT_EQ(rank.rows[1].live_end, 1000u);
  EXPECT_EQ(rank.rows[1].rank_peak, 0u);
}

TEST_F(MemoryLedgerTest, WhatAProcessHasLeftCountsUntilALaterOneEnds) {
  const auto ends = [&](std::uint64_t begin, std::uint64_t end, std::uint32_t path, std::uint64_t bytes) {
    ledger_.add(0, {change(begin, static_cast<std::int64_t>(bytes), path)});
    ledger_.leave(0, kStart + begin * kMs, kStart + end * kMs,
                  {{{path, MemoryDomain::kNative}, bytes, {bytes}}});
    ledger_.add(0, {change(end, -static_cast<std::int64_t>(bytes), path)});
  };
  ends(0, 100, 1, 70);
  ends(50, 110, 2, 30);
  ledger_.advance(kStart + 120 * kMs);
  EXPECT_EQ(ledger_.live(0), 0u);
  EXPECT_EQ(ledger_.rank(0).live_end, 100u);
  EXPECT_EQ(ledger_.rank(0).rows[0].left_by_age[0], 70u);
  ends(120, 300, 3, 5);
  ledger_.advance(kStart + 310 * kMs);
  EXPECT_EQ(ledger_.rank(0).live_end, 5u);
  EXPECT_EQ(ledger_.rank(0).peak.bytes, 100u);
}

TEST_F(MemoryLedgerTest, SeriesHaveTheMostOfEachBinAndPathsTheMean) {
  ledger_.add(0, {change(0, 2048, 1), change(2, 4096, 2)});
  ledger_.add(0, {change(4, -4096, 2)});
  ledger_.advance(kStart + 6 * kMs);
  std::map<std::uint32_t, std::uint64_t> levels;
  SeriesBlock series = ledger_.rank(0).series;
  series.for_each(grid_, [&](std::uint32_t, std::uint32_t bin, std::uint64_t value) { levels[bin] = value; });
  EXPECT_EQ(levels[1], 2048u);
  EXPECT_EQ(levels[3], 6144u);
  EXPECT_EQ(levels[5], 2048u);
  std::map<std::uint32_t, std::map<std::uint32_t, std::uint64_t>> held;
  for (const MemoryLedger::Cell& cell : ledger_.cells(kStart + 6 * kMs))
    held[cell.path][cell.bin] = cell.kib_ms;
  EXPECT_EQ(held[1],
            (std::map<std::uint32_t, std::uint64_t>{{0, 2}, {1, 2}, {2, 2}, {3, 2}, {4, 2}, {5, 2}}));
  EXPECT_EQ(held[2], (std::map<std::uint32_t, std::uint64_t>{{2, 4}, {3, 4}}));
}

TEST_F(MemoryLedgerTest, BinsGetWiderWithTheRun) {
  ledger_.add(0, {change(0, 1024, 1)});
  ledger_.advance(kStart + 100 * kMs);
  std::uint64_t kib_ms = 0;
  std::uint32_t last = 0;
  for (const MemoryLedger::Cell& cell : ledger_.cells(kStart + 1000 * kMs)) {
    kib_ms += cell.kib_ms;
    last = std::max(last, cell.bin);
  }
  EXPECT_EQ(kib_ms, 1000u);
  EXPECT_LT(last, shard::kMaxPathBins);
}

// --- MemoryReader --------------------------------------------------------------------------

class MemoryReaderTest : public testing::Test {
 protected:
  MemoryReaderTest() {
    fake_.module("/bin/solver", 0x10000, 0x20000, 0x10000);
    fake_.memory_site(6, MemoryDomain::kNative, {0x10100});
    fake_.memory_site(7, MemoryDomain::kPython, {0x10200});
  }
  MemoryReader& reader() {
    if (!reader_) {
      view_.emplace(view_of(fake_));
      start_.check(std::nullopt, kStart);
      stacks_.emplace(*view_, store_, drops_);
      stacks_->read_descriptions(kStart);
      reader_.emplace(*view_, start_, *stacks_, drops_);
    }
    return *reader_;
  }
  static std::int64_t sum(const std::vector<MemoryChange>& changes, MemoryDomain domain) {
    std::int64_t bytes = 0;
    for (const MemoryChange& change : changes)
      if (change.of.domain == domain) bytes += change.bytes;
    return bytes;
  }
  FakeSegment fake_;
  RawStore store_;
  DropCounts drops_;
  ProcessStart start_{kStart};
  std::optional<SegmentView> view_;
  std::optional<StackResolver> stacks_;
  std::optional<MemoryReader> reader_;
};

TEST_F(MemoryReaderTest, ChangesHaveTheirTimeAndPath) {
  fake_.memory_change(6, kStart + 1 * kMs, 500);
  fake_.memory_change(7, kStart + 2 * kMs, 70);
  fake_.memory_change(6, kStart + 3 * kMs, -200);
  fake_.memory_change(6, kStart - kMs, 1);  // before its start
  EXPECT_GT(reader().poll(kStart + 10 * kMs), 0);
  const auto changes = reader().take_changes();
  ASSERT_EQ(changes.size(), 4u);
  EXPECT_EQ(changes[0].time_ns, kStart + 1 * kMs);
  EXPECT_EQ(changes[0].bytes, 500);
  EXPECT_NE(changes[0].of.path, changes[1].of.path);
  EXPECT_EQ(changes[1].of.domain, MemoryDomain::kPython);
  EXPECT_EQ(changes[2].of, changes[0].of);
  EXPECT_EQ(changes[3].time_ns, kStart);
  EXPECT_TRUE(reader().take_changes().empty());
}

// The clock was read before the first of many processes was looked at.
TEST_F(MemoryReaderTest, ChangesSinceThePollBeganKeepTheirTime) {
  fake_.memory_change(6, kStart + 12 * kMs, 500);
  reader().poll(kStart + 10 * kMs);
  fake_.memory_site(6).freed_bytes += 100;  // its event was lost
  fake_.header().memory.events_lost += 1;
  reader().poll(kStart + 11 * kMs);
  const auto changes = reader().take_changes();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].time_ns, kStart + 12 * kMs);
  EXPECT_EQ(changes[1].bytes, -100);
  EXPECT_EQ(changes[1].time_ns, kStart + 12 * kMs) << "not before what it takes away from";
  EXPECT_EQ(reader().live(kStart + 11 * kMs).at(0).time_ns, kStart + 12 * kMs);
  fake_.memory_change(6, kStart + 30 * kMs, 7);
  reader().poll(kStart + 20 * kMs);
  reader().finish(kStart + 20 * kMs);
  EXPECT_EQ(reader().take_changes().at(0).time_ns, kStart + 20 * kMs) << "nothing happens after its end";
  EXPECT_EQ(reader().release(kStart + 20 * kMs).at(0).time_ns, kStart + 20 * kMs);
}

TEST_F(MemoryReaderTest, SumsSayWhatLivesWhereEventsWereLost) {
  for (std::uint32_t i = 0; i < wire::kMemoryEvents + 10; ++i) fake_.memory_change(6, kStart + i, 3);
  fake_.memory_change(6, kStart + 2 * kMs, -9);  // also lost
  reader().poll(kStart + 3 * kMs);
  EXPECT_EQ(sum(reader().take_changes(), MemoryDomain::kNative), 3 * (wire::kMemoryEvents + 10) - 9);
}

TEST_F(MemoryReaderTest, AWriterThatWasKilledDoesNotHoldUpTheOthers) {
  fake_.memory_change(6, kStart + kMs, 500);
  fake_.memory_ring().claimed += 1;  // and never written
  fake_.memory_change(7, kStart + 2 * kMs, 70);
  reader().poll(kStart + 3 * kMs);
  EXPECT_EQ(reader().take_changes().size(), 1u);
  reader().poll(kStart + 500 * kMs);
  EXPECT_TRUE(reader().take_changes().empty()) << "it may be written yet";
  reader().poll(kStart + 1600 * kMs);
  EXPECT_EQ(sum(reader().take_changes(), MemoryDomain::kPython), 70);
}

TEST_F(MemoryReaderTest, WhatTheSumsHaveSaidIsNotToldAgainByEvents) {
  fake_.memory_change(6, kStart + kMs, 500);
  // A writer that has a place and is late, when another event was lost.
  fake_.memory_site(7).alloc_bytes += 70;
  wire::MemoryRing& ring = fake_.memory_ring();
  const std::uint64_t place = ring.claimed.fetch_add(1);
  fake_.header().memory.events_lost += 1;
  reader().poll(kStart + 2 * kMs);
  EXPECT_EQ(sum(reader().take_changes(), MemoryDomain::kPython), 70);
  wire::MemoryEvent& event = ring.events[place % wire::kMemoryEvents];
  event.time_ns = kStart + kMs;
  event.bytes = 70;
  event.site = 7;
  event.number.store(place + 1);
  fake_.memory_change(7, kStart + 3 * kMs, 5);
  reader().poll(kStart + 4 * kMs);
  EXPECT_EQ(sum(reader().take_changes(), MemoryDomain::kPython), 5);
}

TEST_F(MemoryReaderTest, AWriterThatWasGivenUpHasWhatTheSumsSay) {
  fake_.memory_site(7).alloc_bytes += 70;
  fake_.memory_ring().claimed += 1;  // and never written
  reader().poll(kStart + kMs);
  EXPECT_TRUE(reader().take_changes().empty());
  reader().poll(kStart + 1600 * kMs);
  EXPECT_EQ(sum(reader().take_changes(), MemoryDomain::kPython), 70);
}

TEST_F(MemoryReaderTest, AProcessThatWasKilledHasWhatItsSumsSay) {
  fake_.memory_change(6, kStart + kMs, 500);
  fake_.memory_site(6).alloc_bytes += 40;  // killed before the event
  fake_.memory_block(0, 6, kStart + 10 * kMs, 300);
  fake_.memory_block(1, 6, kStart + 790 * kMs, 200);
  reader().poll(kStart + 3 * kMs);
  (void)reader().take_changes();
  reader().finish(kStart + 800 * kMs);
  EXPECT_EQ(sum(reader().take_changes(), MemoryDomain::kNative), 40);
  const auto left = reader().left(kStart + 800 * kMs);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].bytes, 540u);
  EXPECT_EQ(left[0].by_age.front(), 300u);
  EXPECT_EQ(left[0].by_age.back(), 200u);
  EXPECT_EQ(sum(reader().release(kStart + 800 * kMs), MemoryDomain::kNative), -540);
  EXPECT_TRUE(reader().release(kStart + 800 * kMs).empty());
}

TEST_F(MemoryReaderTest, SumsAreByPathAndDomain) {
  wire::MemorySite& site = fake_.memory_site(6);
  site.alloc_bytes = 1000;
  site.alloc_count = 10;
  site.soon_bytes = 2000;  // more than it can be
  site.soon_count = 2000;
  site.variance = 5;
  site.copy_bytes = 77;
  site.copy_count = 2;
  fake_.memory_block(4, 6, kStart + 5 * kMs, 100);
  const auto sums = reader().sums(kStart + 8 * kMs);
  ASSERT_EQ(sums.size(), 1u);
  const RawMemory& memory = sums.begin()->second;
  EXPECT_EQ(memory.alloc_bytes, 1000u);
  EXPECT_EQ(memory.alloc_count, 10u);
  EXPECT_EQ(memory.soon_bytes, 1000u);
  EXPECT_EQ(memory.soon_count, memory.alloc_count);
  EXPECT_EQ(memory.variance, 5u);
  EXPECT_EQ(memory.copy_bytes, 77u);
  EXPECT_EQ(memory.live_by_age[5], 100u);
}

TEST_F(MemoryReaderTest, WhatCannotBeTrueIsCountedAndLeftOut) {
  fake_.memory_change(6, kStart, 500);
  wire::push_memory_event(fake_.memory_ring(), kStart, 100, FakeSegment::kMemorySites);
  wire::push_memory_event(fake_.memory_ring(), kStart, INT64_MIN, 6);
  wire::push_memory_event(fake_.memory_ring(), kStart, INT64_MAX, 6);
  wire::push_memory_event(fake_.memory_ring(), kStart, -501, 6);  // more than there is
  fake_.memory_site(7).path_offset = ~0ull - 7;
  fake_.memory_change(7, kStart, 1);
  reader().poll(kStart + kMs);
  const auto changes = reader().take_changes();
  EXPECT_EQ(sum(changes, MemoryDomain::kNative), 1) << "a site that cannot be true is the root's";
  EXPECT_EQ(drops_.counts().at("damaged_memory_event"), 3u);
  EXPECT_EQ(drops_.counts().at("damaged_memory_site"), 1u);
}

// --- a node --------------------------------------------------------------------------------

class NodeMemoryTest : public testing::Test {
 protected:
  static Instant at(std::uint64_t ms) {
    return {kStart + ms * kMs, kUtc + static_cast<std::int64_t>(ms * kMs)};
  }
  static void begin(FakeSegment& fake, std::int32_t pid, std::int32_t rank, std::uint64_t ms) {
    fake.header().pid = pid;
    fake.header().rank = rank;
    fake.header().start_mono_ns = kStart + ms * kMs;
    fake.module("/bin/solver", 0x10000, 0x20000, 0x10000);
    fake.thread(0, pid, kStart + ms * kMs, true);
    fake.code(77, "solve.py", "read", 10);
    fake.code(78, "solve.py", "keep", 20);
    fake.memory_site(6, MemoryDomain::kNative, {python_word(0), 77});
    fake.memory_site(7, MemoryDomain::kNative, {python_word(0), 78});
  }
  static std::string function(const shard::ShardData& data, std::uint32_t path) {
    return path == 0 ? "" : data.strings[data.frames[data.paths[path].frame].name];
  }
  NodeState state_{NodeOptions{"run-1", "n0", {"./solver"}, 2, 100, "wall"}};
};

TEST_F(NodeMemoryTest, PeaksAndEndsGoIntoTheShard) {
  state_.begin(at(0));
  FakeSegment fakes[2];
  NodeState::ProcessId ids[2];
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    begin(fakes[rank], 100 + rank, rank, 0);
    ids[rank] = state_.announce(std::nullopt, rank, 2, 100 + rank, at(0));
    state_.hello(ids[rank], 100 + rank, view_of(fakes[rank]), at(1));
  }
  fakes[0].memory_change(6, kStart + 10 * kMs, 8'000'000);
  fakes[0].memory_change(6, kStart + 20 * kMs, -8'000'000);
  fakes[0].memory_change(7, kStart + 30 * kMs, 1'000'000);
  fakes[1].memory_change(6, kStart + 25 * kMs, 9'000'000);
  state_.poll(at(40).mono_ns);
  state_.set_look(ids[0], {6'000'000, "0", "0", 4'000'000});
  state_.update_series(at(50).mono_ns);
  state_.set_memory(ids[0], {3'000'000, 2'000'000, 0, 0, 1'000'000, 500'000});
  state_.set_group_memory({.limit_bytes = 1 << 30, .max_used_bytes = 1 << 29});
  fakes[1].memory_site(6).alloc_bytes += 1'000'000;  // of the instant at which it was killed
  state_.gone(ids[1], at(60).mono_ns, SIGKILL);
  state_.gone(ids[0], at(70).mono_ns, 0);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state_.snapshot(at(80), true));
  ASSERT_TRUE(shard::validate(data));

  ASSERT_EQ(data.memory_ranks.size(), 2u);
  EXPECT_EQ(data.memory_ranks[0].interval_bytes, 65536u);
  EXPECT_EQ(data.memory_ranks[0].peak_bytes, 8'000'000u);
  EXPECT_EQ(data.memory_ranks[0].peak_ns, 10 * kMs);
  EXPECT_EQ(data.memory_ranks[0].live_end_bytes, 1'000'000u);
  EXPECT_EQ(data.memory_ranks[0].max_anon_bytes, 4'000'000u);
  EXPECT_EQ(data.memory_ranks[0].live_at_max_anon_bytes, 1'000'000u);
  EXPECT_EQ(data.memory_ranks[0].pss_bytes, 3'000'000u);
  EXPECT_EQ(data.memory_ranks[0].far_bytes, 500'000u);
  EXPECT_EQ(data.memory_ranks[1].peak_bytes, 10'000'000u);
  EXPECT_EQ(data.memory_ranks[1].live_end_bytes, 10'000'000u);
  EXPECT_EQ(data.nodes[0].held_peak_bytes, 11'000'000u);
  EXPECT_EQ(data.nodes[0].held_peak_utc_ns, kUtc + 60 * static_cast<std::int64_t>(kMs));
  EXPECT_EQ(data.nodes[0].group.max_used_bytes, 1u << 29);
  std::map<std::pair<std::uint32_t, std::string>, const shard::MemorySite*> sites;
  for (const shard::MemorySite& site : data.memory_sites)
    sites[{site.rank, function(data, site.path)}] = &site;
  ASSERT_EQ(sites.size(), 3u);
  const shard::MemorySite& freed = *sites.at({0, "read"});
  EXPECT_EQ(freed.alloc_bytes, 8'000'000u);
  EXPECT_EQ(freed.rank_peak_bytes, 8'000'000u);
  EXPECT_EQ(freed.node_peak_bytes, 0u);
  EXPECT_EQ(freed.live_end_bytes, 0u);
  const shard::MemorySite& kept = *sites.at({0, "keep"});
  EXPECT_EQ(kept.rank_peak_bytes, 0u);
  EXPECT_EQ(kept.node_peak_bytes, 1'000'000u);
  EXPECT_EQ(sites.at({1, "read"})->node_peak_bytes, 10'000'000u);
  EXPECT_FALSE(data.memory_series.empty());
  bool has_series = false;
  for (const shard::Series& series : data.series)
    has_series = has_series || data.strings[series.name] == shard::kHeldSeries;
  EXPECT_TRUE(has_series);
}

TEST_F(NodeMemoryTest, AWorkerOfShortLifeLeavesNothing) {
  state_.begin(at(0));
  FakeSegment main, worker;
  begin(main, 100, 0, 0);
  begin(worker, 101, 0, 900);
  worker.header().parent_pid = 100;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  state_.hello(id, 100, view_of(main), at(1));
  const auto other = state_.hello(std::nullopt, 101, view_of(worker), at(901));
  main.memory_change(7, kStart + 30 * kMs, 1'000'000);
  worker.memory_change(6, kStart + 910 * kMs, 5'000'000);
  state_.poll(at(920).mono_ns);
  state_.gone(other, at(1000).mono_ns, 0);
  const NodeSnapshot snapshot = state_.snapshot(at(1010), false);
  ASSERT_TRUE(snapshot.ranks[0].memory);
  EXPECT_EQ(snapshot.ranks[0].memory->peak_bytes, 6'000'000u);
  EXPECT_EQ(snapshot.ranks[0].memory->live_end_bytes, 1'000'000u);
}

TEST_F(NodeMemoryTest, AProgramThatIsShorterThanItsStartLeavesWhatItHas) {
  state_.begin(at(0));
  FakeSegment fake;
  begin(fake, 100, 0, 8);
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  state_.hello(id, 100, view_of(fake), at(8));
  fake.memory_change(7, kStart + 9 * kMs, 1'000'000);
  state_.gone(id, at(10).mono_ns, 0);
  const NodeSnapshot snapshot = state_.snapshot(at(11), false);
  ASSERT_TRUE(snapshot.ranks[0].memory);
  EXPECT_EQ(snapshot.ranks[0].memory->live_end_bytes, 1'000'000u);
}

// The rank that it comes from goes on, and the one that it comes to has memory already.
TEST_F(NodeMemoryTest, WhatAProcessHasGoesAlongToAnotherRank) {
  state_.begin(at(0));
  FakeSegment fakes[3];
  NodeState::ProcessId ids[3];
  for (std::int32_t i = 0; i < 2; ++i) {
    begin(fakes[i], 100 + i, i, 0);
    ids[i] = state_.announce(std::nullopt, i, 2, 100 + i, at(0));
    state_.hello(ids[i], 100 + i, view_of(fakes[i]), at(1));
  }
  begin(fakes[2], 102, 0, 2);
  fakes[2].header().parent_pid = 100;
  ids[2] = state_.hello(std::nullopt, 102, view_of(fakes[2]), at(3));
  fakes[0].memory_change(7, kStart + 10 * kMs, 1'000'000);
  fakes[1].memory_change(7, kStart + 10 * kMs, 2'000'000);
  fakes[2].memory_change(6, kStart + 20 * kMs, 5'000'000);
  state_.poll(at(30).mono_ns);
  EXPECT_EQ(state_.announce(ids[2], 1, 2, 102, at(40)), ids[2]);
  fakes[2].memory_change(6, kStart + 50 * kMs, -5'000'000);
  fakes[1].memory_change(6, kStart + 60 * kMs, 500'000);
  state_.poll(at(70).mono_ns);
  for (const auto id : ids) state_.gone(id, at(1000).mono_ns, 0);
  const NodeSnapshot snapshot = state_.snapshot(at(1010), false);
  ASSERT_EQ(snapshot.ranks.size(), 2u);
  ASSERT_TRUE(snapshot.ranks[0].memory && snapshot.ranks[1].memory);
  EXPECT_EQ(snapshot.ranks[0].memory->peak_bytes, 6'000'000u);
  EXPECT_EQ(snapshot.ranks[1].memory->peak_bytes, 7'000'000u);
  EXPECT_EQ(snapshot.ranks[0].memory->live_end_bytes, 1'000'000u);
  EXPECT_EQ(snapshot.ranks[1].memory->live_end_bytes, 2'500'000u);
  ShardBuilder builder;
  EXPECT_EQ(builder.build(snapshot).nodes[0].held_peak_bytes, 8'000'000u);
}

TEST_F(NodeMemoryTest, NotesSayWhatIsNotSeen) {
  FakeSegment fake;
  begin(fake, 100, 0, 0);
  fake.header().memory.notes = wire::kProgramsOwnMalloc | wire::kPythonReplaced;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  state_.hello(id, 100, view_of(fake), at(1));
  std::vector<shard::NoteCode> codes;
  for (const shard::Note& note : state_.snapshot(at(10), false).run.notes) codes.push_back(note.code);
  EXPECT_EQ(codes, (std::vector<shard::NoteCode>{shard::NoteCode::kMemoryOwnMalloc,
                                                 shard::NoteCode::kMemoryPythonReplaced}));
}

TEST_F(NodeMemoryTest, WithoutMemoryThereAreNoRows) {
  FakeSegment fake;
  fake.header().pid = 100;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  state_.hello(id, 100, view_of(fake), at(1));
  state_.poll(at(5).mono_ns);
  ShardBuilder builder;
  const shard::ShardData data = builder.build(state_.snapshot(at(10), true));
  EXPECT_FALSE(state_.records_memory());
  EXPECT_TRUE(data.memory_ranks.empty());
  EXPECT_TRUE(data.memory_sites.empty());
  EXPECT_TRUE(data.memory_series.empty());
}

}  // namespace
}  // namespace clusterprof::collector
