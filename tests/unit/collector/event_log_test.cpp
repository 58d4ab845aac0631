// SPDX-License-Identifier: BSD-3-Clause
#include "collector/mpi/event_log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <utility>
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
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>>
      pauses;  // how long, and when the last ended
  std::mt19937_64 random_pause(seed + 1);
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
    for (std::uint64_t parts = random() % 3; parts > 0; --parts) {
      const std::uint64_t wall_ns = any(std::uint64_t{});
      entry.gap.push_back({any(std::uint32_t{}), wall_ns, std::min(wall_ns, any(std::uint64_t{}))});
    }
    auto& [paused_ns, resumed_ns] = pauses[entry.thread];
    if (random_pause() % 4 == 0) {
      paused_ns += 1 + random_pause() % 100'000;
      resumed_ns = random_pause();
    }
    event.paused_ns = paused_ns;
    event.resumed_ns = resumed_ns;
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
  const std::vector<GapPathTime> gap{{7, 100, 90}, {8, 50, 0}};
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

// --- stretches of time ---

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kOffsetNs = 123'456'789'012'345;

// One message of each thread per interval, from start_ns on.
std::vector<Entry> steady(std::uint64_t start_ns, std::uint64_t until_ns, std::uint64_t every_ns,
                          std::uint32_t threads = 1) {
  std::vector<Entry> entries;
  std::uint32_t sequence = 0;
  for (std::uint64_t now = start_ns; now < until_ns; now += every_ns, ++sequence)
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      KeptEvent event = message(sequence, now + thread * every_ns / 8);
      event.exit_ns = event.enter_ns + every_ns / 4;
      event.tag = static_cast<std::int32_t>(64 * thread);
      entries.push_back({thread, event, {{thread, 5}}});
    }
  return entries;
}

// Of these, what must be there: what each stretch needs of each thread.
std::vector<Entry> needed(const std::vector<Entry>& all, const std::vector<KeptStretch>& stretches) {
  std::map<std::uint32_t, std::uint64_t> last_exit_ns;
  std::vector<Entry> entries;
  for (const Entry& entry : all) {
    const std::uint64_t from_ns = std::exchange(last_exit_ns[entry.thread], entry.event.exit_ns);
    for (const KeptStretch& stretch : stretches)
      if (from_ns < stretch.end_ns && entry.event.exit_ns >= stretch.begin_ns) {
        entries.push_back(entry);
        break;
      }
  }
  return by_thread(entries);
}

bool has_all(const std::vector<Entry>& content, const std::vector<Entry>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const Entry& entry) {
    return std::find(content.begin(), content.end(), entry) != content.end();
  });
}

TEST(EventLogTest, KeepsAllEventsOfStretchesBesideTheSample) {
  for (const std::uint32_t threads : {1u, 3u}) {
    const std::vector<Entry> entries = steady(50 * kMs, 3050 * kMs, kMs / 20, threads);
    EventLog log(6000);
    log.set_rank(kRank);
    log.set_shared_clock(kOffsetNs);
    for (const Entry& entry : entries) {
      log.add(entry.thread, entry.event, entry.gap);
      ASSERT_LE(log.size(), 6000u);
    }
    const std::vector<Entry> kept = content(log);
    std::vector<Entry> sample, expected;
    for (const Entry& entry : kept)
      if (is_selected(entry.event, log.level())) sample.push_back(entry);
    for (const Entry& entry : entries)
      if (is_selected(entry.event, log.level())) expected.push_back(entry);
    EXPECT_EQ(sample, by_thread(expected));
    EXPECT_EQ(log.stretch_events(), kept.size() - sample.size());

    const std::vector<KeptStretch> stretches = log.kept_stretches();
    EXPECT_GE(stretches.size(), EventLog::kLeastPeriods - 1);
    EXPECT_LE(stretches.size(), 2 * EventLog::kLeastPeriods);
    EXPECT_TRUE(has_all(kept, needed(entries, stretches)));
    const std::uint64_t period_ns = log.stretches().period_ns, length_ns = log.stretches().length_ns;
    EXPECT_TRUE(std::has_single_bit(period_ns));
    // An eighth of the budget at least, as the time that they have says.
    EXPECT_GE(stretches.size() * length_ns * threads / (kMs / 20), 6000u / 8);
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      EXPECT_TRUE(stretches[i].complete);
      EXPECT_EQ(stretches[i].shared_begin_ns % period_ns, 0u);
      EXPECT_EQ(stretches[i].begin_ns + kOffsetNs, stretches[i].shared_begin_ns);
      EXPECT_EQ(stretches[i].end_ns, stretches[i].begin_ns + length_ns);
      const std::uint64_t before_ns = i == 0 ? stretches[0].begin_ns - period_ns : stretches[i - 1].begin_ns;
      EXPECT_EQ(stretches[i].begin_ns, before_ns + period_ns);
    }
    EXPECT_GE(stretches.front().begin_ns, 50 * kMs);
    EXPECT_LE(stretches.back().end_ns, 3050 * kMs);
  }
}

// A rank with more events keeps fewer or shorter stretches, which the others have, too.
TEST(EventLogTest, RanksHaveStretchesInCommon) {
  std::vector<KeptStretch> few, many;
  for (const std::uint64_t every_ns : {kMs, kMs / 50}) {
    EventLog log(2000);
    log.set_rank(kRank);
    // The nodes' clocks differ, and the run begins a bit later.
    const std::uint64_t ahead_ns = every_ns == kMs ? 0 : 777 * kMs;
    log.set_shared_clock(kOffsetNs - ahead_ns);
    for (const Entry& entry : steady(10 * kMs + 2 * ahead_ns, 9000 * kMs + ahead_ns, every_ns))
      log.add(0, entry.event, entry.gap);
    (every_ns == kMs ? few : many) = log.kept_stretches();
  }
  ASSERT_GE(few.size(), 4u);
  ASSERT_GE(many.size(), 4u);
  std::size_t common = 0;
  for (const KeptStretch& one : few)
    for (const KeptStretch& other : many) common += one.shared_begin_ns == other.shared_begin_ns ? 1 : 0;
  EXPECT_GE(common, std::min(few.size(), many.size()) - 2) << "but for the ends of the run";
  EXPECT_GT(few[0].end_ns - few[0].begin_ns, many[0].end_ns - many[0].begin_ns);
}

TEST(EventLogTest, ALossMakesStretchesIncomplete) {
  EventLog log(1000);
  log.set_rank(kRank);
  log.set_shared_clock(0);
  for (const Entry& entry : steady(kMs, 2000 * kMs, kMs / 20)) log.add(0, entry.event, entry.gap);
  const std::vector<KeptStretch> before = log.kept_stretches();
  ASSERT_GE(before.size(), 5u);
  log.note_loss(before[1].end_ns, before[2].begin_ns - 1);  // between two
  EXPECT_EQ(log.kept_stretches(), before);
  log.note_loss(before[3].end_ns - 1, before[3].end_ns + kMs);
  log.note_loss(before[2].begin_ns - kMs / 2, before[2].begin_ns);  // reaches back
  std::vector<bool> complete;
  for (const KeptStretch& stretch : log.kept_stretches()) complete.push_back(stretch.complete);
  std::vector<bool> expected(before.size(), true);
  expected[2] = expected[3] = false;
  EXPECT_EQ(complete, expected);
}

// The events of the beginning are lost, and the budget allows longer stretches than were possible then.
TEST(EventLogTest, StretchesGetLongerWhereTheyHaveFewEvents) {
  EventLog log(4000);
  log.set_rank(kRank);
  log.set_shared_clock(0);
  log.raise_level(1);  // by a wrapper, before anything is known
  std::vector<Entry> seen;
  std::uint64_t round_ns = 0, first_length_ns = 0;
  for (const Entry& entry : steady(kMs, 60'000 * kMs, kMs)) {
    if (entry.event.enter_ns >= round_ns) {
      log.look_at_stretches(round_ns);
      round_ns += 100 * kMs;
      if (first_length_ns == 0) first_length_ns = log.stretches().length_ns;
    }
    // What the wrapper leaves out.
    const std::uint64_t from_ns = entry.event.enter_ns - kMs + kMs / 4;
    if (!is_selected(entry.event, log.level()) &&
        !wire::touches_stretch(log.stretches(), from_ns, entry.event.exit_ns))
      continue;
    log.add(0, entry.event, entry.gap);
  }
  std::vector<KeptStretch> complete;
  for (const KeptStretch& stretch : log.kept_stretches()) {
    EXPECT_EQ(stretch.complete, stretch.begin_ns > 100 * kMs) << "those before are not known";
    if (stretch.complete) complete.push_back(stretch);
  }
  ASSERT_GE(complete.size(), 5u);
  EXPECT_GE(complete.back().end_ns - complete.back().begin_ns, 100 * first_length_ns);
  EXPECT_TRUE(has_all(content(log), needed(steady(kMs, 60'000 * kMs, kMs), complete)));
  EXPECT_LE(log.size(), 4000u);
  EXPECT_GE(log.stretch_events(), 4000u / 16);
}

TEST(EventLogTest, HasNoStretchesWhereTheyWouldBeTooShort) {
  EventLog log(100);
  log.set_rank(kRank);
  log.set_shared_clock(0);
  for (const Entry& entry : steady(kMs, 200 * kMs, 1000)) log.add(0, entry.event, entry.gap);
  EXPECT_TRUE(log.kept_stretches().empty());
  EXPECT_EQ(log.stretches().length_ns, 0u);
  EXPECT_EQ(log.stretch_events(), 0u);
  log.look_at_stretches(201 * kMs);
  EXPECT_EQ(log.stretches().length_ns, 0u) << "and never again";
  EXPECT_GT(log.size(), 0u);
}

// The clocks were measured only after stretches had begun by another clock.
TEST(EventLogTest, AnotherSharedClockBeginsStretchesAnew) {
  EventLog log(1000);
  log.set_rank(kRank);
  log.set_shared_clock(0);
  const std::vector<Entry> entries = steady(kMs, 4000 * kMs, kMs / 20);
  std::uint64_t round_ns = kMs;
  for (const Entry& entry : entries) {
    if (entry.event.enter_ns >= round_ns) {
      if (round_ns > 500 * kMs) log.set_shared_clock(kOffsetNs);
      log.look_at_stretches(round_ns);
      round_ns += 10 * kMs;
    }
    log.add(0, entry.event, entry.gap);
  }
  std::size_t complete = 0;
  for (const KeptStretch& stretch : log.kept_stretches()) {
    EXPECT_EQ(stretch.begin_ns + kOffsetNs, stretch.shared_begin_ns);
    EXPECT_EQ(stretch.complete, stretch.begin_ns > 521 * kMs);
    complete += stretch.complete ? 1 : 0;
  }
  EXPECT_GE(complete, 5u);
}

TEST(EventStretches, NeedWhatTheThreadDidInThem) {
  const wire::EventStretches stretches{1000, 1024, 100};  // at 24, 1048, 2072, ... of the thread's clock
  const auto touches = [&](std::uint64_t from_ns, std::uint64_t until_ns) {
    return wire::touches_stretch(stretches, from_ns, until_ns);
  };
  EXPECT_TRUE(touches(1048, 1060));
  EXPECT_FALSE(touches(1148, 1200)) << "it is over";
  EXPECT_TRUE(touches(1147, 1200)) << "what was done until its end";
  EXPECT_TRUE(touches(200, 1048)) << "what was under way when it began";
  EXPECT_FALSE(touches(200, 1047));
  EXPECT_TRUE(touches(200, 1900)) << "all of it";
  EXPECT_TRUE(touches(0, 1900)) << "before is not known";
  EXPECT_FALSE(wire::touches_stretch({1000, 1024, 0}, 0, 1048));
  EXPECT_FALSE(wire::touches_stretch({}, 0, 1048));
}

}  // namespace
}  // namespace clusterprof::collector
