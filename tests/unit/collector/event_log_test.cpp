// SPDX-License-Identifier: BSD-3-Clause
#include "collector/mpi/event_log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace clusterprof::collector {
namespace {

struct Entry {
  std::uint32_t thread = 0;
  KeptEvent event;
  std::vector<GapPathTime> gap;
  friend bool operator==(const Entry&, const Entry&) = default;
};

std::vector<Entry> content(const EventLog& log) {
  std::vector<Entry> entries;
  log.for_each([&](std::uint32_t thread, const KeptEvent& event, std::span<const GapPathTime> gap) {
    entries.push_back({thread, event, {gap.begin(), gap.end()}});
  });
  return entries;
}

constexpr std::int32_t kRank = 2;
bool is_selected(const KeptEvent& event, std::uint32_t level) {
  const auto kind = static_cast<wire::MpiEventKind>(event.kind);
  return wire::event_is_selected(wire::event_stream(kind, event.channel, kRank, event.peer, event.tag),
                                 event.sequence, level);
}

// A message of the world, to or from rank 0.
KeptEvent message(std::uint32_t sequence, std::uint64_t enter_ns) {
  KeptEvent event;
  event.enter_ns = event.start_ns = enter_ns;
  event.exit_ns = enter_ns + 10;
  event.channel = 1;
  event.sequence = sequence;
  return event;
}
bool is_selected(std::uint32_t sequence, std::uint32_t level) {
  return is_selected(message(sequence, 0), level);
}

// Any values at all, of threads in turn, in order of exit for each.
std::vector<Entry> random_entries(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto any = [&]<typename T>(T) {
    switch (random() % 4) {
      case 0:
        return std::numeric_limits<T>::max();
      case 1:
        return std::numeric_limits<T>::min();
      case 2:
        return static_cast<T>(random() % 100);
    }
    return static_cast<T>(random());
  };
  std::map<std::uint32_t, std::uint64_t> time;
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    Entry entry;
    entry.thread = static_cast<std::uint32_t>(random() % 3);
    std::uint64_t& now = time[entry.thread];
    KeptEvent& event = entry.event;
    if (random() % 3 == 0 || now == 0) now += random() % 100'000;
    event.enter_ns = now;
    if (random() % 3 == 0) now += random() % 100'000;
    event.exit_ns = now;
    event.start_ns = random() % 2 == 0 ? event.enter_ns : any(std::uint64_t{});
    event.mpi_ns = any(std::uint64_t{});
    event.channel = random() % 3;
    event.bytes = any(std::uint64_t{});
    event.path = static_cast<std::uint32_t>(random() % 5);
    event.communicator_size = static_cast<std::uint32_t>(random() % 2 * 7);
    event.sequence = any(std::uint32_t{});
    event.peer = any(std::int32_t{});
    event.tag = any(std::int32_t{});
    event.op = static_cast<std::uint16_t>(random() % 2);
    event.kind = static_cast<std::uint8_t>(random() % wire::kMpiEventKinds);
    event.flags = static_cast<std::uint8_t>(random() % 2);
    for (std::uint64_t parts = random() % 3; parts > 0; --parts)
      entry.gap.push_back({any(std::uint32_t{}), any(std::uint64_t{})});
    entries.push_back(entry);
  }
  return entries;
}

std::vector<Entry> by_thread(const std::vector<Entry>& entries) {
  std::vector<Entry> sorted = entries;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry& a, const Entry& b) { return a.thread < b.thread; });
  return sorted;
}

TEST(EventLogTest, ReturnsEventsUnchanged) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EventLog log(10'000);
    const std::vector<Entry> entries = random_entries(3000, seed);
    for (const Entry& entry : entries) log.add(entry.thread, entry.event, entry.gap);
    EXPECT_EQ(log.level(), 0u);
    EXPECT_EQ(log.size(), entries.size());
    EXPECT_EQ(content(log), by_thread(entries)) << "seed " << seed;
  }
}

// A program of iterations: a send, a receive, and every tenth time a collective operation.
std::vector<Entry> iterations(std::uint32_t count) {
  std::vector<Entry> entries;
  std::uint64_t now = 1'000'000, mpi_ns = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto call = [&](std::uint32_t site, std::uint8_t kind, std::int32_t peer, std::uint32_t sequence) {
      now += 10'000 + (i * 7919) % 5000;
      KeptEvent event;
      event.enter_ns = event.start_ns = now;
      event.exit_ns = now += 2000 + (i * 104'729) % 1000;
      event.mpi_ns = mpi_ns;
      mpi_ns += event.exit_ns - event.enter_ns;
      event.channel = 1;
      event.bytes = kind < 4 ? 65536 : 0;
      event.path = site;
      event.sequence = sequence;
      event.peer = peer;
      event.kind = kind;
      Entry entry{0, event, {}};
      if (i % 4 == 0) entry.gap.push_back({site + 10, 9000});
      entries.push_back(entry);
    };
    call(1, 0, 1, i);
    call(2, 2, 3, i);
    if (i % 10 == 0) call(3, 4, -1, i / 10);
  }
  return entries;
}

TEST(EventLogTest, KeepsExactlyWhatTheLevelSelects) {
  const std::vector<Entry> entries = iterations(20'000);
  EventLog log(1000);
  log.set_rank(kRank);
  std::uint32_t level = 0;
  std::vector<Entry> seen;
  for (const Entry& entry : entries) {
    log.add(0, entry.event, entry.gap);
    seen.push_back(entry);
    ASSERT_LE(log.size(), 1000u);
    ASSERT_GE(log.level(), level);
    if (log.level() != level || seen.size() == entries.size()) {
      level = log.level();
      std::vector<Entry> expected;
      for (const Entry& e : seen)
        if (is_selected(e.event, level)) expected.push_back(e);
      ASSERT_EQ(content(log), expected) << "level " << level << " after " << seen.size();
    }
  }
  EXPECT_GE(level, 5u);
  EXPECT_LE(level, 7u);
  EXPECT_EQ(log.refused(), 0u);
}

TEST(EventLogTest, TakesAFewBytesPerEvent) {
  EventLog log(1'000'000);
  const std::vector<Entry> entries = iterations(100'000);
  for (const Entry& entry : entries) log.add(0, entry.event, entry.gap);
  EXPECT_EQ(log.size(), entries.size());
  EXPECT_LT(log.memory_bytes(), 24 * entries.size());
}

TEST(EventLogTest, GapOfADroppedEventMovesToTheNextEventOfTheCall) {
  std::uint32_t dropped = 0, kept = 0;  // at level 1
  while (is_selected(dropped, 1)) ++dropped;
  while (!is_selected(kept, 1)) ++kept;
  const std::vector<GapPathTime> gap{{7, 100}, {8, 50}};
  const std::vector<Entry> expected{{0, message(kept, 10), {}}, {0, message(kept, 1000), gap}};
  for (const bool late : {false, true}) {  // the level rises before or after the events have come
    EventLog log(100);
    log.set_rank(kRank);
    log.add(0, message(kept, 10), {});
    if (!late) log.raise_level(1);
    log.add(0, message(dropped, 1000), gap);
    log.add(0, message(kept, 1000), {});
    log.add(0, message(dropped, 2000), gap);  // alone in its call
    if (late) log.raise_level(1);
    EXPECT_EQ(content(log), expected) << late;
  }
}

// The level rises between the two events of a call, of which only the second is selected.
TEST(EventLogTest, GapSurvivesWhenTheLevelRisesWithinTheCall) {
  std::uint32_t at_1 = 0, at_2 = 0;  // the highest level that selects it, or above
  while (!is_selected(at_1, 1) || is_selected(at_1, 2)) ++at_1;
  while (!is_selected(at_2, 2)) ++at_2;
  std::uint32_t dropped = 0;
  while (is_selected(dropped, 1)) ++dropped;
  const std::vector<GapPathTime> gap{{7, 100}};
  EventLog log(100);
  log.set_rank(kRank);
  log.raise_level(1);
  log.add(0, message(at_2, 10), {});
  log.add(0, message(at_1, 1000), std::vector<GapPathTime>{{9, 1}});
  log.add(0, message(dropped, 2000), gap);
  log.raise_level(2);
  log.add(0, message(at_2, 2000), {});
  const std::vector<Entry> expected{{0, message(at_2, 10), {}}, {0, message(at_2, 2000), gap}};
  EXPECT_EQ(content(log), expected);
}

TEST(EventLogTest, KeepsNothingWithoutABudget) {
  EventLog log(0);
  for (const Entry& entry : iterations(100)) log.add(0, entry.event, entry.gap);
  EXPECT_EQ(log.size(), 0u);
  EXPECT_EQ(log.level(), wire::kMaxEventLevel);
  EXPECT_TRUE(content(log).empty());
}

TEST(EventLogTest, RaisesTheLevelWhenTheBudgetShrinks) {
  EventLog log(10'000);
  for (const Entry& entry : iterations(4000)) log.add(0, entry.event, entry.gap);
  EXPECT_EQ(log.level(), 0u);
  log.set_budget(1000);
  EXPECT_GT(log.level(), 2u);
  EXPECT_LE(log.size(), 1000u);
  EXPECT_GT(log.size(), 0u);
}

// All of one sequence that every level selects: no level helps, the budget holds.
TEST(EventLogTest, KeepsToTheBudgetWhenNoLevelLeavesEventsOut) {
  std::uint32_t always = 0;
  while (!is_selected(always, wire::kMaxEventLevel)) always += 32;
  EventLog log(500);
  log.set_rank(kRank);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    KeptEvent event = message(always, i);
    event.exit_ns = i;
    log.add(static_cast<std::uint32_t>(i % 5), event, {});
  }
  EXPECT_EQ(log.level(), wire::kMaxEventLevel);
  EXPECT_LE(log.size(), 501u);
  EXPECT_GE(log.refused(), 1499u);
}

}  // namespace
}  // namespace clusterprof::collector
