// SPDX-License-Identifier: BSD-3-Clause
// MPI events on their way from the rings of a segment to the tables of a shard.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collector/node/node_state.hpp"
#include "collector/shard/shard_builder.hpp"
#include "formats/shard/tables.hpp"
#include "formats/wire/mpi_functions.h"
#include "tests/unit/collector/fake_segment.hpp"
#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

using shard::EventGap;
using shard::ShardData;
using test::FakeSegment;
using test::python_word;
using wire::MpiEventKind;

constexpr std::uint64_t kProgramAddress = 0x10000;

// One rank of a job of four that uses MPI.
class MpiEvents : public testing::Test {
 protected:
  MpiEvents() {
    fake_.module("/nowhere/program", kProgramAddress, kProgramAddress + 0x10000, kProgramAddress);
    fake_.header().world_size = 4;
    fake_.header().mpi_size = 4;
    fake_.header().mpi_rank = 2;
    fake_.header().rank = 2;
    fake_.header().mpi_state = static_cast<std::uint32_t>(wire::MpiState::kInitialised);
    fake_.code(7, "train.py", "step", 80);
    fake_.code(8, "train.py", "load", 20);
    fake_.communicator(0, 1, 4, "MPI_COMM_WORLD");
    const auto site = [&](std::uint32_t index, std::uint16_t op) {
      fake_.site(index, op, 0, 1, 1, 1, 1, 0, 0, {python_word(wire::kInstructionNotStarted), 7});
    };
    site(0, wire::kMPI_Send);
    site(1, wire::kMPI_Waitall);
    site(2, wire::kMPI_Allreduce);
    fake_.thread(0, 100, kStart, true);
  }

  // The agent greets; options as the launcher gives them.
  NodeState& state() {
    if (!state_) {
      state_ = std::make_unique<NodeState>(options_);
      id_ = state_->announce(std::nullopt, 2, 4, 100, at(0));
      auto view = SegmentView::open(fake_.file(), fake_.bytes());
      if (!view.ok()) throw std::runtime_error(view.error().message);
      state_->hello(id_, 100, std::move(view).value(), at(0));
    }
    return *state_;
  }
  static Instant at(std::uint64_t ms) {
    return {kStart + ms * kMs, 5'000'000'000 + static_cast<std::int64_t>(ms * kMs)};
  }
  ShardData shard(std::uint64_t ms, Events which = Events::kAll) {
    ShardData data = builder_.build(state().snapshot(at(ms), false, which));
    const Result<void> valid = shard::validate(data);
    EXPECT_TRUE(valid) << valid.error().message;
    return data;
  }

  // Is what event() below makes?
  static bool is_selected(std::uint32_t sequence, std::uint32_t level) {
    const wire::MpiEvent e = event(0, 0, sequence);
    return wire::event_is_selected(wire::event_stream(e.kind, e.channel, 2, e.peer, e.tag), sequence, level);
  }
  // In microseconds since the start.
  static wire::MpiEvent event(std::uint64_t enter_us, std::uint64_t exit_us, std::uint32_t sequence = 0) {
    wire::MpiEvent event{};
    event.enter_ns = event.start_ns = kStart + enter_us * 1000;
    event.exit_ns = kStart + exit_us * 1000;
    event.channel = 1;
    event.site = 2;
    event.peer = -1;
    event.op = wire::kMPI_Allreduce;
    event.kind = MpiEventKind::kCollective;
    event.sequence = sequence;
    return event;
  }
  void sample(std::uint64_t us, std::uint64_t cpu_us, std::uint64_t code, std::uint16_t mpi_op = 0,
              std::int32_t blocked_in = -1) {
    FakeSegment::Sample sample;
    sample.time_ns = kStart + us * 1000;
    sample.cpu_ns = cpu_us * 1000;
    sample.words = {python_word(wire::kInstructionNotStarted), code};
    sample.mpi_op = mpi_op;
    if (blocked_in >= 0) {
      sample.trigger = wire::Trigger::kBlocked;
      sample.flags = wire::kInSyscall;
      sample.syscall_nr = static_cast<std::int16_t>(blocked_in);
    }
    ASSERT_TRUE(fake_.sample(0, sample));
  }
  static std::string leaf(const ShardData& data, std::uint32_t path) {
    std::string text;
    for (; path != 0; path = data.paths[path].parent) {
      const std::string& name = data.strings[data.frames[data.paths[path].frame].name];
      text = text.empty() ? name : name + ";" + text;
    }
    return text;
  }
  std::map<std::string, std::uint64_t> gap(const ShardData& data, std::uint32_t event) {
    std::map<std::string, std::uint64_t> parts;
    for (const EventGap& part : data.event_gaps)
      if (part.event == event) parts[leaf(data, part.path)] += part.wall_ns / 1000;
    return parts;
  }
  // On a processor.
  std::map<std::string, std::uint64_t> ran(const ShardData& data, std::uint32_t event) {
    std::map<std::string, std::uint64_t> parts;
    for (const EventGap& part : data.event_gaps)
      if (part.event == event) parts[leaf(data, part.path)] += part.cpu_ns / 1000;
    return parts;
  }
  static std::uint64_t dropped(const ShardData& data, const std::string& reason) {
    for (const shard::Drop& drop : data.drops)
      if (drop.reason == reason) return drop.count;
    return 0;
  }

  FakeSegment fake_;
  NodeOptions options_{"run-1", "n0", {"./program"}, 4, 100, "wall"};
  std::unique_ptr<NodeState> state_;
  NodeState::ProcessId id_ = 0;
  ShardBuilder builder_;
};

using Parts = std::map<std::string, std::uint64_t>;

TEST_F(MpiEvents, CallsWithoutEventsBelongToTheGap) {
  fake_.site(7, wire::kMPI_Get, wire::kNoPath, 1, 5'000'000, 5, 5, 0, 8, {});
  wire::MpiEvent barrier = event(10'000, 10'100, 0);
  barrier.mpi_ns = 5'000'000;
  barrier.between_site = 7;
  barrier.between_ns = 5'000'000;
  ASSERT_TRUE(fake_.mpi_event(0, barrier));
  wire::MpiEvent damaged = event(20'000, 20'100, 1);
  damaged.between_site = 0xffff'fff0u;
  damaged.between_ns = 1000;
  ASSERT_TRUE(fake_.mpi_event(0, damaged));
  state().poll(kStart + 30 * kMs);
  const ShardData data = shard(30);
  EXPECT_EQ(gap(data, 0), (Parts{{"MPI_Get", 5000}}));
  EXPECT_EQ(dropped(data, "damaged_mpi_event"), 1u);
}

TEST_F(MpiEvents, AreStoredInTheShardUnchanged) {
  wire::MpiEvent send = event(1000, 1100, 5);
  send.site = 0;
  send.op = wire::kMPI_Send;
  send.kind = MpiEventKind::kSend;
  send.flags = wire::kEventSynchronous;
  send.peer = 3;
  send.tag = 17;
  send.bytes = 4096;
  wire::MpiEvent receive = event(2000, 2500, 9);
  receive.site = 1;
  receive.op = wire::kMPI_Irecv;
  receive.kind = MpiEventKind::kReceive;
  receive.flags = wire::kEventNonblocking;
  receive.start_ns = kStart + 1'500'000;
  receive.mpi_ns = 800'000;
  receive.paused_ns = 700'000;
  receive.resumed_ns = kStart + 1'900'000;
  receive.peer = 0;
  receive.channel = 77;  // of a communicator that had no place in the table
  wire::MpiEvent unknown = event(3000, 3000, 1);
  unknown.site = 0xffff'ffffu;
  unknown.channel = 0;
  for (const wire::MpiEvent& e : {send, receive, unknown}) ASSERT_TRUE(fake_.mpi_event(0, e));
  fake_.header().mpi_operations = 1234;
  state().poll(at(10).mono_ns);
  const ShardData data = shard(10);
  ASSERT_EQ(data.mpi_events.size(), 3u);
  const shard::MpiEvent& a = data.mpi_events[0];
  const shard::MpiEvent& b = data.mpi_events[1];
  const shard::MpiEvent& c = data.mpi_events[2];
  EXPECT_EQ(leaf(data, a.path), "step;MPI_Send");
  EXPECT_EQ(leaf(data, b.path), "step;MPI_Waitall");
  EXPECT_EQ(leaf(data, c.path), "MPI_Allreduce");
  EXPECT_EQ(data.strings[a.op], "MPI_Send");
  EXPECT_EQ(data.strings[b.op], "MPI_Irecv");
  EXPECT_EQ(data.communicators.at(a.communicator).identity, 1u);
  EXPECT_EQ(data.communicators.at(b.communicator), (shard::Communicator{77, 0, ""}));
  EXPECT_EQ(c.communicator, shard::kNone);
  shard::MpiEvent expected = a;  // what has been looked at
  expected.kind = 0;
  expected.flags = 1;
  expected.peer = 3;
  expected.tag = 17;
  expected.sequence = 5;
  expected.enter_ns = expected.start_ns = kStart + 1'000'000;
  expected.exit_ns = kStart + 1'100'000;
  expected.bytes = 4096;
  EXPECT_EQ(a, expected);
  expected = b;
  expected.rank = expected.thread = 0;
  expected.kind = 2;
  expected.flags = 2;
  expected.peer = 0;
  expected.tag = 0;
  expected.sequence = 9;
  expected.enter_ns = kStart + 2'000'000;
  expected.exit_ns = kStart + 2'500'000;
  expected.start_ns = kStart + 1'500'000;
  expected.mpi_ns = 800'000;
  expected.paused_ns = 700'000;
  expected.resumed_ns = kStart + 1'900'000;
  expected.bytes = 0;
  EXPECT_EQ(b, expected);
  EXPECT_EQ(data.ranks[0].mpi_operations, 1234u);
  EXPECT_EQ(data.ranks[0].event_level, 0u);
  EXPECT_EQ(data.mpi_calls.size(), 3u) << "call sites keep their own path";
}

TEST_F(MpiEvents, GapsTellWhatTheThreadDidBetweenCalls) {
  // 0..20 ms compute in load, 20..60 ms sleep in load, 60..80 compute in step, MPI from 80 to 100 ms;
  // 100..104 compute in step, MPI from 104 to 120 ms. The last sample in MPI comes at 118 ms.
  sample(10'000, 10'000, 8);
  sample(30'000, 20'000, 8, 0, SYS_clock_nanosleep);
  sample(70'000, 30'000, 7);
  sample(80'000, 40'000, 7);
  fake_.mpi_event(0, event(80'000, 100'000, 0));
  state().poll(at(100).mono_ns);
  sample(101'000, 41'000, 7);  // stands for 21 ms, 20 of them in MPI
  wire::MpiEvent second = event(104'000, 120'000, 1);
  second.mpi_ns = 20 * kMs;
  sample(118'000, 50'000, 7, wire::kMPI_Allreduce + 1, SYS_poll);
  fake_.mpi_event(0, second);
  state().poll(at(121).mono_ns);
  const ShardData data = shard(122);
  ASSERT_EQ(data.mpi_events.size(), 2u);
  EXPECT_EQ(gap(data, 0), (Parts{{"load", 20'000}, {"load;clock_nanosleep", 40'000}, {"step", 20'000}}));
  EXPECT_EQ(ran(data, 0), (Parts{{"load", 20'000}, {"load;clock_nanosleep", 0}, {"step", 20'000}}));
  // Known for 100..101 from the sample, and for 101..104 by the processor time before it blocked.
  EXPECT_EQ(gap(data, 1), (Parts{{"step", 4000}}));
  EXPECT_EQ(ran(data, 1), (Parts{{"step", 4000}})) << "it slept in the call";
}

// 0..10 ms compute; 10..50 ms compute with half of the processor, which others have in between.
TEST_F(MpiEvents, GapsTellHowLongTheThreadHadNoProcessor) {
  fake_.header().knows_run_delay = 1;
  sample(10'000, 10'000, 7);
  sample(50'000, 30'000, 7);
  fake_.mpi_event(0, event(50'000, 60'000, 0));
  state().poll(at(60).mono_ns);
  const ShardData data = shard(61);
  ASSERT_EQ(data.mpi_events.size(), 1u);
  EXPECT_EQ(gap(data, 0), (Parts{{"step", 30'000}, {"step;waiting for a processor", 20'000}}));
  EXPECT_EQ(ran(data, 0), (Parts{{"step", 30'000}, {"step;waiting for a processor", 0}}));
}

TEST_F(MpiEvents, AreCompleteWhenOneRingIsFarBehindTheOther) {
  // All events of 100 iterations of 1 ms are there before any sample: half of each is MPI.
  for (std::uint32_t i = 0; i < 100; ++i) {
    wire::MpiEvent e = event(1000 * i + 500, 1000 * i + 1000, i);
    e.mpi_ns = i * 500'000;
    ASSERT_TRUE(fake_.mpi_event(0, e));
  }
  state().poll(at(100).mono_ns);
  for (std::uint64_t i = 1; i <= 10; ++i) sample(10'000 * i, 10'000 * i, i <= 5 ? 7 : 8);
  state().poll(at(101).mono_ns);
  const ShardData data = shard(102);
  ASSERT_EQ(data.mpi_events.size(), 100u);
  for (std::uint32_t i = 0; i < 100; ++i)
    EXPECT_EQ(gap(data, i), (Parts{{i < 50 ? "step" : "load", 500}})) << i;
}

TEST_F(MpiEvents, AreKeptAfterTheProcessIsKilled) {
  fake_.mpi_event(0, event(1000, 1100));
  state();
  fake_.mpi_event(0, event(2000, 2100, 1));
  state().gone(id_, at(5).mono_ns, 9);  // not polled once
  const ShardData data = shard(6);
  EXPECT_EQ(data.mpi_events.size(), 2u);
  EXPECT_EQ(shard(6, Events::kFew).mpi_events, data.mpi_events);
}

TEST_F(MpiEvents, DistinguishThreadsThatUseTheSameSlot) {
  fake_.thread(1, 101, kStart + kMs);
  fake_.mpi_event(0, event(500, 600, 0));
  fake_.mpi_event(1, event(1500, 1600, 1));
  state();
  fake_.mpi_event(1, event(1700, 1800, 2));
  fake_.thread_end(1, kStart + 2 * kMs, kMs);
  state().poll(at(3).mono_ns);
  ASSERT_EQ(fake_.slot(1).state, static_cast<std::uint32_t>(wire::ThreadState::kFree));
  // An event that is older than the last one of the thread before.
  fake_.thread(1, 102, kStart + kMs);
  fake_.mpi_event(1, event(1650, 1660, 3));
  state().poll(at(4).mono_ns);
  const ShardData data = shard(4);
  ASSERT_EQ(data.mpi_events.size(), 4u);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
  for (const shard::MpiEvent& e : data.mpi_events) found.emplace_back(e.thread, e.sequence);
  EXPECT_EQ(found, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 0}, {1, 1}, {1, 2}, {2, 3}}));
}

TEST_F(MpiEvents, AreMissingForThreadsWithoutARing) {
  fake_.thread(FakeSegment::kEventRings, 103, kStart);
  fake_.mpi_event(0, event(500, 600));
  state().poll(at(3).mono_ns);
  EXPECT_EQ(shard(4).mpi_events.size(), 1u);
}

TEST_F(MpiEvents, AreThinnedUniformlyAboveTheBudget) {
  options_.event_budget = 1000;
  std::uint32_t sequence = 0;
  std::uint64_t us = 0;
  std::uint32_t level = 0;
  for (int round = 0; round < 40; ++round) {
    // The wrapper looks at the level before it writes.
    for (int i = 0; i < 4000; ++i, ++sequence, us += 10) {
      if (!is_selected(sequence, fake_.header().mpi_event_level)) continue;
      ASSERT_TRUE(fake_.mpi_event(0, event(us, us + 5, sequence)));
    }
    state().poll(kStart + us * 1000);
    ASSERT_GE(fake_.header().mpi_event_level, level);
    level = fake_.header().mpi_event_level;
  }
  const ShardData data = shard(us / 1000);
  EXPECT_GE(data.ranks[0].event_level, level);  // some were still waiting for samples
  level = data.ranks[0].event_level;
  EXPECT_GE(level, 7u);
  EXPECT_EQ(fake_.header().mpi_event_level, level);
  EXPECT_LE(data.mpi_events.size(), 1000u);
  std::vector<std::uint32_t> expected, found;
  for (std::uint32_t i = 0; i < sequence; ++i)
    if (is_selected(i, level)) expected.push_back(i);
  for (const shard::MpiEvent& e : data.mpi_events)
    if (is_selected(e.sequence, level)) found.push_back(e.sequence);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(dropped(data, "mpi_event_budget"), 0u);
}

// Until a loss of events: what is in the ring at a time is known only to be since the last look.
TEST_F(MpiEvents, StretchesHaveAllEvents) {
  options_.event_budget = 1000;
  std::uint32_t sequence = 0;
  std::uint64_t us = 10, last_us = 0, lost_us = 0;
  wire::EventInterval interval;
  const wire::SegmentHeader& h = fake_.header();
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < 40; ++i, ++sequence, us += 250) {
      const wire::MpiEvent e = event(us, us + 50, sequence);
      interval.advance(e.exit_ns);
      last_us = us + 50;
      const wire::EventStretches stretches{h.stretch_offset_ns, h.stretch_period_ns, h.stretch_length_ns};
      if (!is_selected(sequence, h.mpi_event_level) &&
          !wire::touches_stretch(stretches, interval.from_ns, interval.until_ns))
        continue;
      if (round == 300 && i == 0) {
        ++fake_.header().drops[static_cast<std::size_t>(wire::DropReason::kMpiStretchRingFull)];
        lost_us = us;
        continue;
      }
      ASSERT_TRUE(fake_.mpi_event(0, e));
    }
    sample(us, us, 7);
    state().poll(kStart + us * 1000);
  }
  // The time of day is the clock that nodes share, where no rank has measured one.
  EXPECT_EQ(h.stretch_offset_ns, static_cast<std::uint64_t>(at(0).utc_ns) - at(0).mono_ns);
  EXPECT_EQ(h.stretch_period_ns & (h.stretch_period_ns - 1), 0u);
  const ShardData data = shard(us / 1000 + 1);
  EXPECT_GT(data.ranks[0].event_level, 3u);
  EXPECT_LE(data.mpi_events.size(), 1000u);
  ASSERT_GE(data.event_stretches.size(), 6u);
  std::size_t incomplete = 0;
  for (const shard::EventStretch& stretch : data.event_stretches) {
    EXPECT_EQ(stretch.rank, 0u);
    EXPECT_EQ(stretch.shared_begin_ns % h.stretch_period_ns, 0u);
    EXPECT_LE(stretch.end_ns, kStart + last_us * 1000);
    if (!stretch.complete) {
      ++incomplete;
      continue;
    }
    EXPECT_FALSE(stretch.begin_ns <= kStart + lost_us * 1000 && kStart + lost_us * 1000 < stretch.end_ns);
    // One after the other, from the call that is under way at its begin to the one after its end.
    std::vector<std::uint32_t> numbers;
    std::uint64_t first_ns = 0, last_ns = 0;
    for (std::size_t i = 0; i < data.mpi_events.size(); ++i) {
      const shard::MpiEvent& e = data.mpi_events[i];
      if (e.exit_ns < stretch.begin_ns) continue;
      if (numbers.empty()) first_ns = e.enter_ns;
      numbers.push_back(e.sequence);
      last_ns = e.exit_ns;
      if (e.exit_ns >= stretch.end_ns) break;
    }
    ASSERT_FALSE(numbers.empty());
    EXPECT_LE(first_ns, stretch.begin_ns + 250'000);
    EXPECT_GE(last_ns, stretch.end_ns);
    EXPECT_LE(last_ns, stretch.end_ns + 250'000);
    for (std::size_t i = 1; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], numbers[i - 1] + 1);
  }
  EXPECT_LE(incomplete, 1u);
}

TEST_F(MpiEvents, StretchesGoByTheMeasuredClock) {
  state();
  auto& h = fake_.header();
  h.clock_at_init.reference_rank = 0;
  h.clock_at_init.local_ns = kStart + kMs;
  h.clock_at_init.offset_ns = -987'654'321;
  h.clock_at_init.ready = 1;
  state().poll(at(5).mono_ns);
  EXPECT_EQ(h.stretch_offset_ns, static_cast<std::uint64_t>(std::int64_t{-987'654'321}));
  EXPECT_GT(h.stretch_length_ns, 0u) << "for a wrapper that raises the level";
}

TEST_F(MpiEvents, EarlierEventsAreThinnedWhenTheWrapperRaisesTheLevel) {
  for (std::uint32_t i = 0; i < 1000; ++i) fake_.mpi_event(0, event(10 * i, 10 * i + 5, i));
  state().poll(at(11).mono_ns);
  fake_.header().mpi_event_level = 2;
  state().poll(at(12).mono_ns);
  const ShardData data = shard(12);
  EXPECT_EQ(data.ranks[0].event_level, 2u);
  std::size_t selected = 0, found = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) selected += is_selected(i, 2) ? 1 : 0;
  // The wrapper was told of stretches of 65 us in each 1049 us.
  for (const shard::MpiEvent& e : data.mpi_events) found += is_selected(e.sequence, 2) ? 1 : 0;
  EXPECT_EQ(found, selected);
  EXPECT_LE(data.mpi_events.size() - selected, 11u * 8);
  // Nonsense, and never lowered.
  fake_.header().mpi_event_level = 0xffff'ffffu;
  state().poll(at(13).mono_ns);
  EXPECT_EQ(shard(13).ranks[0].event_level, wire::kMaxEventLevel);
}

// Which of many short streams are kept depends on who talks to whom.
TEST_F(MpiEvents, KeepSomeOfShortStreams) {
  std::vector<std::pair<std::int32_t, std::int32_t>> expected, found;
  std::uint64_t us = 0;
  for (std::int32_t tag = 0; tag < 64 * 40; tag += 64) {
    for (const std::int32_t peer : {0, 1, 3}) {
      for (std::uint32_t number = 0; number < 5; ++number, us += 10) {
        wire::MpiEvent message = event(us, us + 5, number);
        message.kind = number % 2 == 0 ? MpiEventKind::kSend : MpiEventKind::kReceive;
        message.peer = peer;
        message.tag = tag;
        fake_.mpi_event(0, message);
        if (wire::event_is_selected(wire::event_stream(message.kind, 1, 2, peer, tag), number, 2))
          expected.emplace_back(peer, tag);
      }
    }
  }
  EXPECT_GT(expected.size(), 75u);
  EXPECT_LT(expected.size(), 225u);
  fake_.header().mpi_event_level = 2;
  state().poll(kStart + us * 1000 + 10'000);
  for (const shard::MpiEvent& e : shard(us / 1000 + 1).mpi_events)
    if (wire::event_is_selected(wire::event_stream(static_cast<MpiEventKind>(e.kind), 1, 2, e.peer, e.tag),
                                e.sequence, 2))
      found.emplace_back(e.peer, e.tag);
  EXPECT_EQ(found, expected);
}

TEST_F(MpiEvents, WrappersAreToldToWriteNoneWithoutABudget) {
  options_.event_budget = 0;
  state();
  EXPECT_EQ(fake_.header().mpi_event_level, wire::kMaxEventLevel);
  for (std::uint32_t i = 0; i < 100; ++i) fake_.mpi_event(0, event(10 * i, 10 * i + 5, i));
  state().poll(at(11).mono_ns);
  EXPECT_TRUE(shard(11).mpi_events.empty());
  EXPECT_EQ(shard(11).ranks[0].event_level, 0u) << "of no events";
  EXPECT_EQ(fake_.event_ring(0).read, 100u) << "the ring has to be emptied all the same";
}

TEST_F(MpiEvents, RanksOfTheJobShareTheDefaultBudget) {
  options_.world_size = 16'384;  // 2^25 / 2^14 = 2^11, and at least 2^12
  std::uint64_t us = 0;
  for (std::uint32_t i = 0; i < 4097; ++i, us += 10) {
    fake_.mpi_event(0, event(us, us + 5, i));
    if (i == 4095) {
      state().poll(kStart + us * 1000 + 10'000);
      EXPECT_EQ(shard(us / 1000 + 1).ranks[0].event_level, 0u);
    }
  }
  state().poll(kStart + us * 1000);
  EXPECT_EQ(shard(us / 1000 + 1).ranks[0].event_level, 1u);
}

TEST_F(MpiEvents, CheckpointsHaveFewer) {
  options_.local_ranks = 256;  // 2^16 / 256 events of each
  std::uint64_t us = 0;
  for (std::uint32_t i = 0; i < 5000; ++i, us += 10) ASSERT_TRUE(fake_.mpi_event(0, event(us, us + 5, i)));
  sample(us, us, 7);  // none waits for a later one
  state().poll(kStart + us * 1000);
  const ShardData few = shard(us / 1000 + 1, Events::kFew);
  EXPECT_GT(few.ranks[0].event_level, 3u);
  EXPECT_LE(few.mpi_events.size(), 256u);
  std::vector<std::uint32_t> expected, found;
  for (std::uint32_t i = 0; i < 5000; ++i)
    if (is_selected(i, few.ranks[0].event_level)) expected.push_back(i);
  for (const shard::MpiEvent& e : few.mpi_events) found.push_back(e.sequence);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(fake_.header().mpi_event_level, 0u);
  const ShardData all = shard(us / 1000 + 1);
  EXPECT_EQ(all.mpi_events.size(), 5000u);
  EXPECT_EQ(all.ranks[0].event_level, 0u);
}

TEST_F(MpiEvents, DamagedEventsAreCounted) {
  const auto damaged = [&](auto spoil) {
    static std::uint32_t number = 0;
    wire::MpiEvent e = event(2000 + 10 * number, 2005 + 10 * number, 7);
    ++number;
    spoil(e);
    ASSERT_TRUE(fake_.mpi_event(0, e));
  };
  fake_.mpi_event(0, event(1000, 1100, 1));
  damaged([](wire::MpiEvent& e) { e.kind = static_cast<MpiEventKind>(7); });
  damaged([](wire::MpiEvent& e) { e.op = 0xffff; });
  damaged([](wire::MpiEvent& e) { e.op = FakeSegment::kOps; });
  damaged([](wire::MpiEvent& e) { e.site = wire::all_mpi_sites(FakeSegment::kSites, FakeSegment::kOps); });
  damaged([](wire::MpiEvent& e) { e.peer = -2; });
  damaged([](wire::MpiEvent& e) { e.peer = std::numeric_limits<std::int32_t>::max(); });
  damaged([](wire::MpiEvent& e) { e.exit_ns = e.enter_ns - 1; });
  damaged([](wire::MpiEvent& e) { e.enter_ns = kStart - 1; });
  damaged([](wire::MpiEvent& e) { e.enter_ns = e.exit_ns = std::numeric_limits<std::uint64_t>::max(); });
  damaged([](wire::MpiEvent& e) { e.start_ns = e.exit_ns + 1; });
  damaged([](wire::MpiEvent& e) { e.start_ns = 0; });
  damaged([](wire::MpiEvent& e) { e.communicator_size = 0xffff'ffffu; });
  damaged([](wire::MpiEvent& e) { e.mpi_ns = std::numeric_limits<std::uint64_t>::max(); });
  damaged([](wire::MpiEvent& e) { e.enter_ns = e.start_ns = kStart, e.exit_ns = kStart + 1000; });
  fake_.mpi_event(0, event(3000, 3100, 2));
  state().poll(at(10).mono_ns);
  const ShardData data = shard(10);
  EXPECT_EQ(dropped(data, "damaged_mpi_event"), 14u);
  ASSERT_EQ(data.mpi_events.size(), 2u);
  EXPECT_EQ(data.mpi_events[1].sequence, 2u);
}

TEST_F(MpiEvents, ADamagedRingIsCountedAndReadOn) {
  fake_.mpi_event(0, event(1000, 1100, 1));
  fake_.event_ring(0).written += wire::kEventRingEvents;  // more than it can hold
  state().poll(at(10).mono_ns);
  fake_.mpi_event(0, event(11'000, 11'100, 2));
  state().poll(at(12).mono_ns);
  const ShardData data = shard(12);
  EXPECT_EQ(dropped(data, "damaged_mpi_event_ring"), 1u);
  ASSERT_EQ(data.mpi_events.size(), 1u);
  EXPECT_EQ(data.mpi_events[0].sequence, 2u);
  // What was read already shows up again.
  fake_.event_ring(0).read = 0;
  fake_.event_ring(0).written = 1;
  state().poll(at(13).mono_ns);
  EXPECT_EQ(shard(13).mpi_events.size(), 1u);
}

// A collector that was stopped in the midst of a round believes that it is earlier than it is.
TEST_F(MpiEvents, EventsWrittenDuringAPollWaitForTheNextPoll) {
  fake_.mpi_event(0, event(1000, 1100, 1));
  fake_.mpi_event(0, event(5'000'000, 5'000'100, 2));
  fake_.thread(1, 101, kStart + kMs);
  fake_.mpi_event(1, event(5'000'000, 5'000'100, 3));
  fake_.thread_end(1, kStart + 5000 * kMs, kMs);
  state().poll(at(2).mono_ns);
  EXPECT_EQ(shard(2).mpi_events.size(), 2u) << "a thread that has ended must leave nothing to its successor";
  state().poll(at(5001).mono_ns);
  const ShardData data = shard(5001);
  EXPECT_EQ(data.mpi_events.size(), 3u);
  EXPECT_EQ(dropped(data, "damaged_mpi_event"), 0u);
}

TEST_F(MpiEvents, TakeTheSizeOfAnUnknownCommunicatorFromCollectives) {
  const auto on = [&](std::uint64_t us, std::uint64_t channel, std::uint32_t size) {
    wire::MpiEvent e = event(us, us + 10);
    e.channel = channel;
    e.communicator_size = size;
    ASSERT_TRUE(fake_.mpi_event(0, e));
  };
  on(100, 4711, 0);  // a message
  on(200, 4711, 3);
  on(300, 4712, 0);
  on(400, 1, 4);
  state().poll(at(1).mono_ns);
  const ShardData data = shard(1);
  ASSERT_EQ(data.mpi_events.size(), 4u);
  const auto communicator = [&](std::size_t i) {
    const shard::Communicator& row = data.communicators[data.mpi_events[i].communicator];
    return std::pair(row.identity, row.size);
  };
  EXPECT_EQ(communicator(1), std::pair(std::uint64_t{4711}, 3u));
  EXPECT_EQ(communicator(0), communicator(1));
  EXPECT_EQ(communicator(2), std::pair(std::uint64_t{4712}, 0u));
  EXPECT_EQ(communicator(3), std::pair(std::uint64_t{1}, 4u));
}

// What a process said of itself stays when another one of the rank has no events either.
TEST(ProcessReportTest, KeepsCountsOfOperationsWithoutEvents) {
  ProcessReport report, before;
  report.mpi_operations = 100;
  report.clocks.push_back({1, 2, 3, 4});
  report.add_amounts(before, true);
  EXPECT_EQ(report.mpi_operations, 100u);
  EXPECT_EQ(report.clocks.size(), 1u);
  before.add_amounts(report, true);
  EXPECT_EQ(before.mpi_operations, 100u);
  EXPECT_EQ(before.clocks.size(), 1u);
}

TEST_F(MpiEvents, AFullRingIsPolledSooner) {
  for (std::uint32_t i = 0; i < wire::kEventRingEvents / 2; ++i) fake_.mpi_event(0, event(i, i, i));
  EXPECT_GE(state().poll(at(100).mono_ns), 0.5);
  EXPECT_LT(state().poll(at(101).mono_ns), 0.1);
}

TEST_F(MpiEvents, ClockMeasurements) {
  auto& h = fake_.header();
  const auto measure = [](wire::ClockMeasurement& clock, std::int32_t reference, std::uint64_t local,
                          std::int64_t offset, std::uint64_t error) {
    clock.reference_rank = reference;
    clock.local_ns = local;
    clock.offset_ns = offset;
    clock.error_ns = error;
    clock.ready = 1;
  };
  measure(h.clock_at_init, 0, kStart + kMs, -123'456'789'000, 2500);
  h.clock_at_finalize.local_ns = 17;  // not ready
  EXPECT_EQ(shard(5).clock_offsets,
            (std::vector<shard::ClockOffset>{{0, 0, kStart + kMs, -123'456'789'000, 2500}}));
  measure(h.clock_at_finalize, 1, kStart + 9 * kMs, 5, 1);
  EXPECT_EQ(shard(10).clock_offsets.size(), 2u);
  measure(h.clock_at_finalize, -1, kStart + 9 * kMs, 5, 1);
  EXPECT_EQ(shard(10).clock_offsets.size(), 1u);
  measure(h.clock_at_finalize, 1, kStart - 1, 5, 1);
  EXPECT_EQ(shard(10).clock_offsets.size(), 1u);
  measure(h.clock_at_finalize, 1, kStart + 100'000 * kMs, 5, 1);
  EXPECT_EQ(shard(10).clock_offsets.size(), 1u);
  measure(h.clock_at_finalize, 1, kStart + kMs, 5, std::numeric_limits<std::uint64_t>::max());
  const ShardData data = shard(10);
  EXPECT_EQ(data.clock_offsets.size(), 1u);
  EXPECT_EQ(dropped(data, "damaged_clock_measurement"), 1u);
}

}  // namespace
}  // namespace clusterprof::collector
