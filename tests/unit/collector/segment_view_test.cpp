// SPDX-License-Identifier: BSD-3-Clause
#include "collector/rings/segment_view.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "collector/node/node_state.hpp"
#include "collector/process/process_recorder.hpp"
#include "tests/unit/collector/fake_segment.hpp"

namespace clusterprof::collector {
namespace {

using test::FakeSegment;
using test::fill;

TEST(SegmentView, AcceptsAValidSegment) {
  FakeSegment fake;
  const auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view.value().layout().thread_slots, FakeSegment::kThreads);
  EXPECT_EQ(view.value().header().pid, 100);
}

TEST(SegmentView, SealsTheFileAgainstShrinking) {
  FakeSegment fake;
  const auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  EXPECT_NE(ftruncate(fake.fd(), 4096), 0);
}

TEST(SegmentView, SurvivesTruncationOfAFileThatCannotBeSealed) {
  install_truncation_guard();
  FakeSegment fake(false);
  fake.thread(0, 100, FakeSegment::kStart, true);
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  RawStore store;
  TimeGrid grid;
  PathTimes path_times(store);
  ProcessRecorder recorder(std::move(view).value(), store, grid, path_times);
  recorder.poll(FakeSegment::kStart + 1);
  ASSERT_EQ(ftruncate(fake.fd(), 4096), 0);
  recorder.poll(FakeSegment::kStart + 2'000'000'000);
  recorder.finish(FakeSegment::kStart + 3'000'000'000);
  const ProcessReport report = recorder.report(FakeSegment::kStart + 3'000'000'000);
  EXPECT_EQ(report.samples, 0u);
}

TEST(SegmentView, RefusesWrongSizes) {
  FakeSegment fake;
  EXPECT_FALSE(SegmentView::open(fake.file(), 0).ok());
  EXPECT_FALSE(SegmentView::open(fake.file(), 100).ok());
  EXPECT_FALSE(SegmentView::open(fake.file(), fake.bytes() - 4096).ok());
  EXPECT_FALSE(SegmentView::open(fake.file(), fake.bytes() + 4096).ok());
  EXPECT_FALSE(SegmentView::open(fake.file(), ~0ull).ok());
}

TEST(SegmentView, RefusesOtherKindsOfFile) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd other(ends[1]);
  EXPECT_FALSE(SegmentView::open(UniqueFd(ends[0]), 1 << 20).ok());
  EXPECT_FALSE(SegmentView::open(UniqueFd(), 1 << 20).ok());
}

TEST(SegmentView, RefusesOtherVersionsAndMagics) {
  FakeSegment a, b;
  a.header().magic ^= 1;
  b.header().wire_major += 1;
  EXPECT_FALSE(SegmentView::open(a.file(), a.bytes()).ok());
  EXPECT_FALSE(SegmentView::open(b.file(), b.bytes()).ok());
}

TEST(SegmentView, RefusesTablesThatDoNotFit) {
  const auto refused = [](auto&& change) {
    FakeSegment fake;
    change(fake.header());
    return !SegmentView::open(fake.file(), fake.bytes()).ok();
  };
  using H = wire::SegmentHeader;
  for (auto field : {&H::code_slots_offset,      &H::code_arena_offset,        &H::module_arena_offset,
                     &H::mpi_sites_offset,       &H::path_arena_offset,        &H::mpi_peers_offset,
                     &H::mpi_sizes_offset,       &H::communicators_offset,     &H::thread_slots_offset,
                     &H::mpi_event_rings_offset, &H::mpi_site_counters_offset, &H::regions_offset,
                     &H::io_files_offset,        &H::io_sites_offset,          &H::io_amounts_offset,
                     &H::memory_sites_offset,    &H::memory_addresses_offset,  &H::memory_blocks_offset,
                     &H::memory_rings_offset,    &H::labelled_memory_offset,   &H::generated_arena_offset}) {
    EXPECT_TRUE(refused([&](H& h) { h.*field = h.segment_bytes + 64; }));
    EXPECT_TRUE(refused([&](H& h) { h.*field = ~0ull - 63; }));
    EXPECT_TRUE(refused([&](H& h) { h.*field = 0; }));
    EXPECT_TRUE(refused([&](H& h) { h.*field += 1; }));
  }
  for (auto field : {&H::code_slots, &H::mpi_sites, &H::mpi_peers, &H::mpi_ops, &H::communicators,
                     &H::thread_slots, &H::mpi_event_rings, &H::regions, &H::io_files, &H::io_sites,
                     &H::memory_sites, &H::memory_blocks, &H::memory_rings}) {
    EXPECT_TRUE(refused([&](H& h) { h.*field = 0xffff'ffffu; }));
    EXPECT_TRUE(refused([&](H& h) { h.*field = 1u << 20; }));
  }
  for (auto field :
       {&H::code_arena_bytes, &H::module_arena_bytes, &H::path_arena_bytes, &H::generated_arena_bytes}) {
    EXPECT_TRUE(refused([&](H& h) { h.*field = ~0ull; }));
    EXPECT_TRUE(refused([&](H& h) { h.*field = h.segment_bytes; }));
  }
}

TEST(SegmentView, VisitsTouchedEntriesOnly) {
  FakeSegment fake;
  auto view = SegmentView::open(fake.file(), fake.bytes());
  ASSERT_TRUE(view.ok());
  fake.thread(2, 7, 0);
  std::vector<std::uint32_t> seen;
  view.value().for_each_touched(view.value().layout().thread_slots_offset, FakeSegment::kThreads,
                                sizeof(wire::ThreadSlot), [&](std::uint32_t i) { seen.push_back(i); });
  EXPECT_TRUE(std::find(seen.begin(), seen.end(), 2u) != seen.end());
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  EXPECT_LT(seen.size(), std::size_t{FakeSegment::kThreads});
}

TEST(BoundedText, StopsAtTheNulOrTheEnd) {
  const char full[4] = {'a', 'b', 'c', 'd'};
  EXPECT_EQ(bounded_text(full, sizeof full), "abcd");
  EXPECT_EQ(bounded_text("ab\0cd", 5), "ab");
}

// As fill(), with programs that the process has executed.
void fill_with_launches(FakeSegment& fake) {
  fill(fake);
  wire::Creation made{};
  made.kind = wire::CreationKind::kPosixSpawn;
  for (int i = 1; i <= 3; ++i)
    fake.launch(200 + i, wire::UnrecordedReason::kStaticProgram, FakeSegment::kStart + i * 20'000'000, "cmd",
                made);
}

TEST(SegmentView, RandomDamageNeverCrashesTheCollector) {
  FakeSegment original;
  fill_with_launches(original);
  // Where something is: damage there is what matters.
  std::vector<std::uint64_t> places;
  for (std::uint64_t i = 0; i < original.bytes(); ++i) {
    if (original.base()[i] != 0) places.push_back(i);
  }

  std::mt19937_64 random(20261121);
  std::size_t accepted = 0, refused = 0, events = 0, files = 0;
  FakeSegment fake;
  fill_with_launches(fake);
  std::vector<std::uint64_t> damaged;
  // Half of the damage to the header is in front of its tables, where it says how the segment is laid out.
  constexpr std::size_t kBeforeTables = offsetof(wire::SegmentHeader, unrecorded);
  const std::uint64_t slots_at = original.header().thread_slots_offset;
  for (int round = 0; round < 5'000; ++round) {
    // Undo the last round's damage, and what the collector itself writes.
    for (const std::uint64_t at : damaged) fake.base()[at] = original.base()[at];
    std::memcpy(fake.base(), original.base(), sizeof(wire::SegmentHeader));
    for (std::uint32_t i = 0; i < FakeSegment::kThreads; ++i) {
      const std::uint64_t at = slots_at + i * sizeof(wire::ThreadSlot);
      std::memcpy(fake.base() + at, original.base() + at, offsetof(wire::ThreadSlot, ring) + 128);
    }
    for (std::uint32_t i = 0; i < FakeSegment::kEventRings; ++i) {
      fake.event_ring(i).written = original.event_ring(i).written.load();
      fake.event_ring(i).read = original.event_ring(i).read.load();
    }
    damaged.clear();
    const std::size_t flips = 1 + random() % 8;
    for (std::size_t i = 0; i < flips; ++i) {
      const std::uint64_t kind = random() % 4;
      const std::uint64_t at = kind < 2    ? places[random() % places.size()]
                               : kind == 2 ? random() % kBeforeTables
                                           : random() % sizeof(wire::SegmentHeader);
      fake.base()[at] = static_cast<std::uint8_t>(random());
      damaged.push_back(at);
    }
    auto view = SegmentView::open(fake.file(), fake.bytes());
    if (!view.ok()) {
      ++refused;
      continue;
    }
    ++accepted;
    NodeState state(NodeOptions{});
    const auto process = state.hello(std::nullopt, 100, std::move(view).value(), {FakeSegment::kStart, 0});
    state.poll(FakeSegment::kStart + 100'000'000);
    (void)state.snapshot({FakeSegment::kStart + 150'000'000, 0}, false);
    state.gone(process, FakeSegment::kStart + 400'000'000, std::nullopt);
    state.update_series(FakeSegment::kStart + 450'000'000);
    const NodeSnapshot snapshot = state.snapshot({FakeSegment::kStart + 500'000'000, 0}, true);
    ASSERT_EQ(snapshot.ranks.size(), 1u);
    ASSERT_LE(snapshot.ranks[0].rank.paused_ns, snapshot.ranks[0].rank.elapsed_ns);
    for (const auto& [path, region] : snapshot.ranks[0].report.regions)
      ASSERT_LT(path, snapshot.tables.nodes.size());
    for (const auto& [key, io] : snapshot.ranks[0].report.io) {
      ASSERT_LT(key.path, snapshot.tables.nodes.size());
      ASSERT_LT(key.file, snapshot.tables.files.size());
      if (!snapshot.tables.files[key.file]->path.empty()) ++files;
    }
    SeriesBlock series = snapshot.ranks[0].report.main_series;
    series.for_each(snapshot.grid, [&](std::uint32_t column, std::uint32_t bin, std::uint64_t) {
      ASSERT_LT(column, shard::kCategories);
      ASSERT_LT(bin, TimeGrid::kMaxBins);
    });
    for (const auto& [key, amount] : snapshot.ranks[0].report.values) {
      ASSERT_LT(key.path, snapshot.tables.nodes.size());
    }
    ASSERT_TRUE(snapshot.ranks[0].events);
    std::map<std::uint32_t, std::uint64_t> last_exit_ns;  // by thread
    snapshot.ranks[0].events->for_each(
        [&](std::uint32_t thread, const KeptEvent& event, std::span<const GapPathTime> gap) {
          ASSERT_LT(event.path, snapshot.tables.nodes.size());
          ASSERT_LT(event.kind, wire::kMpiEventKinds);
          ASSERT_LE(event.enter_ns, event.exit_ns);
          ASSERT_GE(event.exit_ns, last_exit_ns[thread]);
          last_exit_ns[thread] = event.exit_ns;
          for (const GapPathTime& time : gap) ASSERT_LT(time.path, snapshot.tables.nodes.size());
          ++events;
        });
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 500u);
  EXPECT_GT(events, 10 * accepted);
  EXPECT_GT(files, accepted / 2);
}

}  // namespace
}  // namespace clusterprof::collector
