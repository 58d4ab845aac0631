// SPDX-License-Identifier: BSD-3-Clause
// Partitioned messages: which ones are the two sides of one message, when a message leaves, and when all of
// it has arrived. Uses the mpi.h of one MPI family, but no library.
#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {
namespace {

using wire::MpiEventKind;

constexpr HandleKey kPartitionedCommunicator = 0x7000;

template <typename Handle = MPI_Request>
Handle request_with(HandleKey key) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(key);
  } else {
    return static_cast<Handle>(key);
  }
}

// Tag and sequence: what tells the messages between two ranks apart.
using MessageName = std::pair<std::int32_t, std::uint32_t>;

class PartitionedMessages : public testing::Test {
 protected:
  PartitionedMessages() {
    for (Communicator* one : {sender_.get(), receiver_.get()}) {
      one->identity = 77;
      one->references = 2;
      one->peers.assign_regular(0, 1, 8);
    }
    bind(kPartitionedCommunicator, receiver_.get());
    segment_.mpi_unseen = 0;
  }
  ~PartitionedMessages() override {
    for (HandleKey key = 1; key <= 40; ++key) forget(key);
    release(kPartitionedCommunicator);
  }

  // A request of rank 0 to rank 3, or of that one from rank 0. False: it has no events.
  bool make(HandleKey key, Direction direction, std::int32_t tag, int partitions) {
    const bool sends = direction == Direction::kSent;
    Request request{};
    request.key = key;
    request.kind = sends ? RequestKind::kSend : RequestKind::kReceive;
    request.sized = !sends;
    request.communicator = sends ? sender_.get() : receiver_.get();
    request.peer = sends ? 3 : 0;
    request.event_flags = wire::kEventNonblocking;
    request.bytes = sends ? 400 : 0;
    PersistentOperation each{};
    if (!number_partitioned(request, each.partitioned, tag, partitions, direction)) return false;
    track(request, &each);
    return true;
  }
  void start(HandleKey key) { activate(call_, key); }
  // True: with this call the message leaves.
  bool ready(HandleKey key, int count) {
    Operation left{};
    if (!partitions_ready(key, count, 50, left)) return false;
    write_event(call_, MpiEventKind::kSend, left);
    return true;
  }
  bool arrived(HandleKey key, int partition) {
    Operation whole{};
    return partition_arrived(key, partition, whole);
  }
  void complete(HandleKey key) {
    const MPI_Status status{};
    mpi_wrap::complete(call_, key, &status, Completion::kGood);
  }
  std::vector<wire::MpiEvent> events() {
    std::vector<wire::MpiEvent> found;
    const std::uint64_t end = ring_->written.load();
    for (std::uint64_t at = ring_->read.load(); at != end; ++at)
      found.push_back(ring_->events[at & (wire::kEventRingEvents - 1)]);
    ring_->read.store(end);
    return found;
  }
  MessageName sent(HandleKey key, int partitions) {
    start(key);
    EXPECT_TRUE(ready(key, partitions));
    complete(key);
    return name_of_only(MpiEventKind::kSend);
  }
  MessageName received(HandleKey key) {
    start(key);
    complete(key);
    return name_of_only(MpiEventKind::kReceive);
  }
  MessageName name_of_only(MpiEventKind kind) {
    MessageName name{};
    int count = 0;
    for (const wire::MpiEvent& event : events()) {
      if (event.kind != kind) continue;
      name = {event.tag, event.sequence};
      ++count;
    }
    EXPECT_EQ(count, 1);
    return name;
  }

  wire::SegmentHeader& segment_ = *static_cast<wire::SegmentHeader*>(agent->segment());
  std::unique_ptr<wire::MpiEventRing> ring_ = std::make_unique<wire::MpiEventRing>();
  EndedCall call_{&segment_, ring_.get(), 100, 200, 0, 0};
  std::unique_ptr<Communicator> sender_ = std::make_unique<Communicator>(),
                                receiver_ = std::make_unique<Communicator>();
};

TEST_F(PartitionedMessages, MatchInTheOrderOfTheirInitialisation) {
  for (const HandleKey key : {1, 2}) ASSERT_TRUE(make(key, Direction::kSent, 5, 4));
  ASSERT_TRUE(make(3, Direction::kSent, 6, 4));
  ASSERT_TRUE(make(11, Direction::kReceived, 5, 2));  // as many partitions as it likes
  ASSERT_TRUE(make(13, Direction::kReceived, 6, 1));
  ASSERT_TRUE(make(12, Direction::kReceived, 5, 8));
  // They are started in any order, and again while others wait.
  const MessageName second = sent(2, 4), third = sent(3, 4), second_again = sent(2, 4), first = sent(1, 4);
  EXPECT_EQ(received(11), first);
  EXPECT_EQ(received(12), second);
  EXPECT_EQ(received(12), second_again);
  EXPECT_EQ(received(13), third);
  for (const MessageName& name : {first, third, second_again}) EXPECT_NE(name, second);
  EXPECT_NE(first, third);
  EXPECT_EQ(segment_.mpi_unseen.load(), 0u);
}

TEST_F(PartitionedMessages, AreNotCountedAmongOthers) {
  std::uint32_t number = 7;
  ASSERT_TRUE(make(1, Direction::kSent, 5, 4));
  EXPECT_LT(sent(1, 4).first, wire::kTagWinComplete);
  EXPECT_TRUE(take_number(*sender_, 3, 5, Direction::kSent, number));
  EXPECT_EQ(number, 0u);
  // A receive of any message that was let go may not have taken one of these.
  receiver_->receives_lost = true;
  EXPECT_TRUE(make(11, Direction::kReceived, 5, 4));
}

TEST_F(PartitionedMessages, LeaveWithTheirLastPartition) {
  ASSERT_TRUE(make(1, Direction::kSent, 5, 4));
  EXPECT_FALSE(ready(1, 4));  // not started
  for (std::uint32_t turn = 0; turn < 2; ++turn) {
    start(1);
    EXPECT_FALSE(ready(1, 1));
    EXPECT_FALSE(ready(1, 2));
    EXPECT_TRUE(events().empty());
    EXPECT_TRUE(ready(1, 1));
    EXPECT_FALSE(ready(1, 1));
    complete(1);
    const std::vector<wire::MpiEvent> found = events();
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].kind, MpiEventKind::kSend);
    EXPECT_EQ(found[1].kind, MpiEventKind::kSendDone);
    for (const wire::MpiEvent& event : found) {
      EXPECT_EQ(event.sequence, turn);
      EXPECT_EQ(event.start_ns, 50u);  // when the call that made the last one ready began
      EXPECT_EQ(event.bytes, 400u);
      EXPECT_EQ(event.flags, wire::kEventNonblocking);
    }
  }
}

TEST_F(PartitionedMessages, ThatWereNotSeenToLeaveHaveNoEvent) {
  ASSERT_TRUE(make(1, Direction::kSent, 5, 4));
  start(1);
  EXPECT_FALSE(ready(1, 3));
  complete(1);
  EXPECT_TRUE(events().empty());
  start(1);
  Operation left{};
  EXPECT_TRUE(partitions_ready(1, 4, 50, left));
  leaving_unseen(1);
  complete(1);
  EXPECT_TRUE(events().empty());
  EXPECT_EQ(sent(1, 4).second, 2u);
}

TEST_F(PartitionedMessages, HaveArrivedWhenAllPartitionsHave) {
  for (const int partitions : {1, 3, 64, 65, 1000}) {
    const auto key = static_cast<HandleKey>(11 + partitions % 7);
    ASSERT_TRUE(make(key, Direction::kReceived, 5, partitions));
    EXPECT_FALSE(arrived(key, 0));  // not started
    for (int turn = 0; turn < 2; ++turn) {
      start(key);
      EXPECT_FALSE(arrived(key, partitions));
      EXPECT_FALSE(arrived(key, -1));
      for (int p = partitions - 1; p > 0; --p) {
        EXPECT_FALSE(arrived(key, p));
        EXPECT_FALSE(arrived(key, p));  // asked again
      }
      EXPECT_TRUE(arrived(key, 0));
      EXPECT_FALSE(arrived(key, 0));
      complete(key);
    }
    forget(key);
  }
}

TEST_F(PartitionedMessages, FoundByAskingAreTheReceived) {
  ASSERT_TRUE(make(11, Direction::kReceived, 5, 1));
  start(11);
  complete(11);
  events();
  start(11);
  Operation whole{};
  ASSERT_TRUE(partition_arrived(11, 0, whole));
  complete(11);
  EXPECT_EQ(name_of_only(MpiEventKind::kReceive), MessageName(whole.tag, whole.sequence));
  EXPECT_EQ(whole.channel, 77u);
  EXPECT_EQ(whole.peer, 0);
}

TEST_F(PartitionedMessages, CountStartsThatAreNotMeasured) {
  ASSERT_TRUE(make(11, Direction::kReceived, 5, 4));
  const MPI_Request request = request_with(11);
  started_unseen(&request, 1);
  complete(11);
  EXPECT_TRUE(events().empty());
  EXPECT_NE(segment_.mpi_unseen.load() & wire::kReceivesUnseen, 0u);
  EXPECT_EQ(received(11).second, 1u);
}

// The order is no longer known, and a wrong number is worse than none.
TEST_F(PartitionedMessages, BehindOneThatIsNotMeasuredHaveNoNumbers) {
  ASSERT_TRUE(make(11, Direction::kReceived, 5, 4));
  lose_partitioned(kPartitionedCommunicator, 0, 5, Direction::kReceived);
  EXPECT_FALSE(make(12, Direction::kReceived, 5, 4));
  EXPECT_NE(segment_.mpi_unseen.load() & wire::kReceivesUnseen, 0u);
  EXPECT_TRUE(make(12, Direction::kReceived, 6, 4));
  received(11);
}

TEST_F(PartitionedMessages, KeepTheProgramsTagForWhatIsShown) {
  ASSERT_TRUE(make(11, Direction::kReceived, 5, 4));
  start(11);
  const KnownMessage about = message_of(11);
  EXPECT_EQ(about.tag, 5);
  EXPECT_EQ(about.peer, 0);
  EXPECT_EQ(about.number, wire::kNoSequence);
  const MPI_Request request = request_with(11);
  clusterprof_mpi_call call{};
  describe_requests(&request, 1, call);
  EXPECT_EQ(call.requests, 1u);
  EXPECT_EQ(call.tag, 5);
  EXPECT_EQ(call.peer, 0);
}

// Their names would be those of other synchronisation.
TEST_F(PartitionedMessages, WithTheThreeLargestTagsHaveNoEvents) {
  constexpr std::int32_t kLargestTag = 0x7fff'ffff;
  for (std::int32_t below = 0; below < 3; ++below)
    EXPECT_FALSE(make(1, Direction::kSent, kLargestTag - below, 1));
  EXPECT_TRUE(make(1, Direction::kSent, kLargestTag - 3, 1));
  EXPECT_FALSE(make(2, Direction::kSent, -1, 1));
  EXPECT_FALSE(make(2, Direction::kSent, 5, 0));
}

TEST_F(PartitionedMessages, ToNobodyHaveNoEvents) {
  Request request{};
  request.communicator = sender_.get();
  request.peer = kUnknownRank;  // of MPI_PROC_NULL
  PartitionedOperation partitioned{};
  EXPECT_FALSE(number_partitioned(request, partitioned, 5, 4, Direction::kSent));
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
