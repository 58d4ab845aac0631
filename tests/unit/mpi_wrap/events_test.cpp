// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/events.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "agent/agent_api.h"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {

const clusterprof_agent_api* agent = nullptr;

namespace {

std::uint64_t lost, lost_of_stretches;
void count_drop(std::uint32_t reason) {
  if (reason == static_cast<std::uint32_t>(wire::DropReason::kMpiEventRingFull)) ++lost;
  if (reason == static_cast<std::uint32_t>(wire::DropReason::kMpiStretchRingFull)) ++lost_of_stretches;
}

template <typename Object>
struct Zeroed {
  Zeroed() {
    std::vector<Line>& memory = kept().emplace_back(sizeof(Object) / 64 + 2);
    void* place = memory.data();
    std::size_t space = memory.size() * 64;
    object = static_cast<Object*>(std::align(64, sizeof(Object), place, space));
  }
  struct Line {
    std::uint8_t bytes[64];
  };
  // Until the end: which ring was full last is remembered across tests.
  static std::deque<std::vector<Line>>& kept() {
    static std::deque<std::vector<Line>> all;
    return all;
  }
  Object* object;
};

class Events : public testing::Test {
 protected:
  Events() {
    api_.count_drop = count_drop;
    agent = &api_;
    lost = lost_of_stretches = 0;
  }
  // The next operation of a stream; true when it was written down.
  bool write(const EndedCall& call) {
    const std::uint64_t before = call.ring == nullptr ? 0 : call.ring->written.load();
    Operation operation{};
    operation.sequence = sequence_++;
    write_event(call, wire::MpiEventKind::kCollective, operation);
    return call.ring != nullptr && call.ring->written.load() != before;
  }
  EndedCall call(wire::MpiEventRing* ring) { return {segment_.object, ring, 1, 2, 0, 0}; }
  std::uint32_t level() { return segment_.object->mpi_event_level.load(); }

  Zeroed<wire::SegmentHeader> segment_;
  std::uint32_t sequence_ = 0;
  clusterprof_agent_api api_{};
};

TEST_F(Events, AreLostAndCountedWithoutARing) {
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(write(call(nullptr)));
  EXPECT_EQ(lost, 3u);
  EXPECT_EQ(level(), 0u);
}

// Of calls of MPI_Parrived in a row the wrapper adds up the time, until there is another call.
TEST_F(Events, OtherCallsEndARowOfPolls) {
  Zeroed<wire::MpiEventRing> ring;
  EndedCall one = call(ring.object);
  one.mpi_ns = 500;
  EXPECT_EQ(polled_ns(one), 0u);
  ring.object->polled_ns = 300;
  EXPECT_EQ(polled_ns(one), 300u);
  one.mpi_ns = 0;  // the first call of a thread, which has another one's ring
  EXPECT_EQ(polled_ns(one), 0u);
  one.mpi_ns = 500;
  one.paused = true;
  remember_call(one);
  EXPECT_EQ(polled_ns(one), 300u);
  one.paused = false;
  remember_call(one);
  EXPECT_EQ(polled_ns(one), 0u);
}

TEST_F(Events, ABurstRaisesTheLevelOnce) {
  Zeroed<wire::MpiEventRing> ring;
  std::uint32_t written = 0;
  for (std::uint32_t i = 0; i < 100 * wire::kEventRingEvents; ++i) written += write(call(ring.object));
  EXPECT_EQ(written, wire::kEventRingEvents);
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(level(), 1u);
}

TEST_F(Events, TheLevelRisesOncePerRingEmptied) {
  Zeroed<wire::MpiEventRing> first, second;
  for (std::uint32_t step = 1; step <= 3; ++step) {
    // Both rings fill up and stay full for a while.
    for (std::uint32_t i = 0; i < 100 * wire::kEventRingEvents; ++i) {
      write(call(first.object));
      write(call(second.object));
    }
    EXPECT_EQ(level(), step);
    for (wire::MpiEventRing* ring : {first.object, second.object}) ring->read = ring->written.load();
  }
  // Half emptied is not emptied.
  for (std::uint32_t i = 0; i < 100 * wire::kEventRingEvents; ++i) write(call(first.object));
  EXPECT_EQ(level(), 4u);
  first.object->read = first.object->written - wire::kEventRingEvents / 2;
  for (std::uint32_t i = 0; i < 1000 * wire::kEventRingEvents; ++i) write(call(first.object));
  EXPECT_EQ(level(), 4u);
}

TEST_F(Events, TheLevelHasALimit) {
  Zeroed<wire::MpiEventRing> ring;
  ring.object->written = wire::kEventRingEvents;
  segment_.object->mpi_event_level = wire::kMaxEventLevel;
  lose_event(call(ring.object), wire::kMaxEventLevel);
  EXPECT_EQ(lost, 1u);
  EXPECT_EQ(level(), wire::kMaxEventLevel);
}

// At a level that leaves out all that is written here, in periods of 1024 ns with stretches of 100.
class EventsOfStretches : public Events {
 protected:
  EventsOfStretches() {
    segment_.object->mpi_event_level = wire::kMaxEventLevel;
    segment_.object->stretch_period_ns = 1024;
    segment_.object->stretch_length_ns = 100;
  }
  // A call of a ring with one operation or several. Returns how many of these were written.
  int written(std::uint64_t enter_ns, std::uint64_t exit_ns, int operations = 1) {
    int count = 0;
    for (int i = 0; i < operations; ++i)
      count += write({segment_.object, ring_.object, enter_ns, exit_ns, 0, 0}) ? 1 : 0;
    return count;
  }
  bool kept(std::uint64_t enter_ns, std::uint64_t exit_ns) {
    Operation operation{};
    operation.sequence = 1;
    return is_kept({segment_.object, ring_.object, enter_ns, exit_ns, 0, 0},
                   wire::MpiEventKind::kCollectiveStart, operation);
  }
  Zeroed<wire::MpiEventRing> ring_;
};

TEST_F(EventsOfStretches, AreWrittenFromTheCallAtTheBeginToTheOneAfterTheEnd) {
  EXPECT_EQ(written(300, 400), 1) << "what was before is not known";
  EXPECT_EQ(written(500, 600), 0);
  EXPECT_EQ(written(900, 1030, 3), 3) << "under way when the second one begins, all operations of the call";
  EXPECT_EQ(written(1040, 1050), 1);
  EXPECT_EQ(written(1200, 1300, 2), 2) << "what was done until the end";
  EXPECT_EQ(written(1310, 1320), 0);
  EXPECT_EQ(written(2200, 2300), 1) << "no other call was in the third one";
  EXPECT_EQ(written(2300, 2310), 0);
  EXPECT_EQ(lost, 0u);
  segment_.object->stretch_length_ns = 0;
  EXPECT_EQ(written(3080, 3090), 0) << "there are none any more";
}

TEST_F(EventsOfStretches, SayWhetherARequestIsWorthToBeRemembered) {
  written(500, 600);
  EXPECT_FALSE(kept(600, 700));
  EXPECT_TRUE(kept(1020, 1030)) << "without an event of its own";
  written(1020, 1030);
  EXPECT_TRUE(kept(1020, 1030));
  written(1200, 1300);
  EXPECT_TRUE(kept(1200, 1300)) << "its event was written";
  written(1310, 1320);
  EXPECT_FALSE(kept(1310, 1320));
}

// The sample does not lack them.
TEST_F(EventsOfStretches, OfAFullRingAreCountedAndLeaveTheLevel) {
  segment_.object->mpi_event_level = 1;
  ring_.object->written = wire::kEventRingEvents;
  sequence_ = 0;
  while (
      wire::event_is_selected(wire::event_stream(wire::MpiEventKind::kCollective, 0, 0, 0, 0), sequence_, 1))
    sequence_ += 32;
  EXPECT_EQ(written(1030, 1040, 5), 0);
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(lost_of_stretches, 5u);
  EXPECT_EQ(level(), 1u);
  EXPECT_EQ(written(1300, 1310), 0) << "after the end";
  EXPECT_EQ(written(1320, 1330), 0);
  EXPECT_EQ(lost_of_stretches, 6u);
  EXPECT_FALSE(write({segment_.object, nullptr, 2050, 2060, 0, 0})) << "a thread without a ring";
  EXPECT_FALSE(write({segment_.object, nullptr, 2350, 2360, 0, 0}));
  EXPECT_EQ(lost_of_stretches, 7u);
}

TEST_F(Events, HoldWhatTheOperationWas) {
  Zeroed<wire::MpiEventRing> ring;
  EndedCall ended{segment_.object, ring.object, 10, 20, 5, 3};
  ended.paused_ns = 4;
  ended.resumed_ns = 9;
  const Operation operation{99, 7, 64, 11, 2, 4, 8, 33, wire::kEventNonblocking};
  write_event(ended, wire::MpiEventKind::kSendDone, operation);
  const wire::MpiEvent& event = ring.object->events[0];
  EXPECT_EQ(event.enter_ns, 10u);
  EXPECT_EQ(event.exit_ns, 20u);
  EXPECT_EQ(event.mpi_ns, 9u) << "in MPI and in pauses";
  EXPECT_EQ(event.paused_ns, 4u);
  EXPECT_EQ(event.resumed_ns, 9u);
  EXPECT_EQ(event.site, 3u);
  EXPECT_EQ(event.channel, 99u);
  EXPECT_EQ(event.start_ns, 7u);
  EXPECT_EQ(event.bytes, 64u);
  EXPECT_EQ(event.sequence, 11u);
  EXPECT_EQ(event.peer, 2);
  EXPECT_EQ(event.tag, 4);
  EXPECT_EQ(event.communicator_size, 8u);
  EXPECT_EQ(event.op, 33u);
  EXPECT_EQ(event.kind, wire::MpiEventKind::kSendDone);
  EXPECT_EQ(event.flags, wire::kEventNonblocking);
}

// The collector reads the number of operations and this word at two times.
TEST(Agreed, IsOfOneOperationAlone) {
  for (const std::uint32_t count : {0u, 1u, 70'000u, 0xffff'ffffu})
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{4000}, (std::uint64_t{1} << 48) - 2}) {
      const std::uint64_t agreed = wire::agreed_of_bytes(bytes);
      EXPECT_EQ(wire::agreed_of_word(wire::agreed_word(count, agreed), count), agreed);
      EXPECT_EQ(wire::agreed_of_word(wire::agreed_word(count, agreed), count + 1), 0u);
    }
  EXPECT_EQ(wire::agreed_word(7, std::uint64_t{1} << 48), 0u) << "it does not fit";
  EXPECT_EQ(wire::agreed_of_word(0, 0), 0u);
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
