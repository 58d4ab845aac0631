// SPDX-License-Identifier: BSD-3-Clause
// Which requests are open at MPI_Finalize, and what makes it unknown whether a message was received. Uses the
// mpi.h of one MPI family, but no library.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {
namespace {

// Site, kind, peer, tag, count.
using Row = std::tuple<std::uint32_t, std::uint32_t, std::int32_t, std::int32_t, std::uint64_t>;
constexpr auto kSend = static_cast<std::uint32_t>(wire::PendingKind::kSend);
constexpr auto kReceive = static_cast<std::uint32_t>(wire::PendingKind::kReceive);

template <typename Handle = MPI_Request>
Handle handle(HandleKey key) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(key);
  } else {
    return static_cast<Handle>(key);
  }
}

class OpenRequests : public testing::Test {
 protected:
  OpenRequests() {
    communicator_->identity = 77;
    communicator_->references = 1;
    segment().mpi_unseen = 0;
  }
  ~OpenRequests() override {
    for (HandleKey key = 1; key <= 200; ++key) forget(key);
  }

  static wire::SegmentHeader& segment() { return *static_cast<wire::SegmentHeader*>(agent->segment()); }
  static std::uint32_t unseen() { return segment().mpi_unseen.load(); }

  void start(HandleKey key, RequestKind kind, std::uint32_t site, std::int32_t peer, std::int32_t tag) {
    Request request{};
    request.key = key;
    request.kind = kind;
    request.active = true;
    request.sized = kind == RequestKind::kReceive;
    request.communicator = communicator_.get();
    request.site = site;
    request.peer = peer;
    request.tag = tag;
    request.any_message = kind == RequestKind::kReceive && peer < 0;
    if (kind == RequestKind::kReceive) number_receive(request);
    track(request, nullptr);
  }
  void complete(HandleKey key, Completion how = Completion::kGood) {
    const MPI_Status status{};
    mpi_wrap::complete(call_, key, &status, how);
  }
  static std::vector<Row> open() {
    write_open_requests();
    std::vector<Row> rows;
    for (const wire::OpenRequests& row : segment().open_requests)
      if (row.count != 0) rows.emplace_back(row.site, row.kind, row.peer, row.tag, row.count);
    return rows;
  }

  std::unique_ptr<wire::MpiEventRing> ring_ = std::make_unique<wire::MpiEventRing>();
  EndedCall call_{&segment(), ring_.get(), 1, 2, 0, 0};
  std::unique_ptr<Communicator> communicator_ = std::make_unique<Communicator>();
};

TEST_F(OpenRequests, AreThoseThatHaveNotCompleted) {
  start(1, RequestKind::kSend, 5, 3, 7);
  start(2, RequestKind::kReceive, 6, 2, 8);
  start(3, RequestKind::kReceive, 6, -1, MPI_ANY_TAG);
  start(4, RequestKind::kSend, 5, 3, 7);
  start(5, RequestKind::kSend, 5, 4, 7);
  complete(5);
  std::vector<Row> rows = open();
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, (std::vector<Row>{{5, kSend, 3, 7, 2},
                                    {6, kReceive, wire::kAnyPeer, wire::kAnyTag, 1},
                                    {6, kReceive, 2, 8, 1}}));
  EXPECT_EQ(unseen(), 0u);
  complete(1);
  EXPECT_EQ(open().size(), 3u);  // counted anew
  complete(4);
  EXPECT_EQ(open().size(), 2u);
}

TEST_F(OpenRequests, AreNotThoseThatWereFreedOrAreNotStarted) {
  start(1, RequestKind::kSend, 5, 3, 7);
  forget(1);
  EXPECT_EQ(unseen(), 0u);
  PersistentOperation each{};
  Request persistent{};
  persistent.key = 2;
  persistent.kind = RequestKind::kSend;
  persistent.communicator = communicator_.get();
  track(persistent, &each);
  EXPECT_TRUE(open().empty());
  activate(call_, 2);
  EXPECT_EQ(open().size(), 1u);
  complete(2);
  EXPECT_TRUE(open().empty());
}

// A call inside another MPI call, or of a thread that is not recorded, is not measured.
TEST_F(OpenRequests, AreNotThoseThatAnotherCallMayHaveCompleted) {
  start(1, RequestKind::kSend, 5, 3, 7);
  start(2, RequestKind::kSend, 5, 3, 7);
  const MPI_Request first = handle(1);
  passed_on(&first, 1);
  EXPECT_EQ(open(), (std::vector<Row>{{5, kSend, 3, 7, 1}}));
  EXPECT_EQ(unseen(), 0u);
  start(3, RequestKind::kReceive, 5, 3, 7);
  const MPI_Request third = handle(3);
  passed_on(&third, 1);
  EXPECT_EQ(unseen(), wire::kReceivesUnseen);
}

TEST_F(OpenRequests, WithoutRoomAreCountedTogether) {
  for (HandleKey key = 1; key <= 100; ++key)
    start(key, RequestKind::kSend, static_cast<std::uint32_t>(key), 3, 7);
  const std::vector<Row> rows = open();
  ASSERT_EQ(rows.size(), wire::kOpenRequestRows);
  EXPECT_EQ(rows.back(), (Row{0xffff'ffffu, 0, wire::kNoPeer, wire::kNoTag, 101 - wire::kOpenRequestRows}));
}

TEST_F(OpenRequests, ReceivesThatWereFreedOrFailedMayHaveTakenAMessage) {
  start(1, RequestKind::kReceive, 5, 3, 7);
  complete(1, Completion::kTruncated);
  start(1, RequestKind::kReceive, 5, 3, 7);
  complete(1);
  EXPECT_EQ(unseen(), 0u);
  start(1, RequestKind::kReceive, 5, 3, 7);
  forget(1);
  EXPECT_EQ(unseen(), wire::kReceivesUnseen);
  segment().mpi_unseen = 0;
  start(1, RequestKind::kReceive, 5, 3, 7);
  complete(1, Completion::kFailed);
  EXPECT_EQ(unseen(), wire::kReceivesUnseen);
  segment().mpi_unseen = 0;
  call_.paused = true;
  start(1, RequestKind::kReceive, 5, 3, 7);
  complete(1);
  EXPECT_EQ(unseen(), wire::kReceivesUnseen);
}

TEST_F(OpenRequests, SendsThatFailedMayNotHaveHappened) {
  start(1, RequestKind::kSend, 5, 3, 7);
  complete(1);
  EXPECT_EQ(unseen(), 0u);
  start(1, RequestKind::kSend, 5, 3, 7);
  complete(1, Completion::kFailed);
  EXPECT_EQ(unseen(), wire::kSendsUnsure);
}

// A process is let go and attached to again while a call waits for a request.
TEST_F(OpenRequests, OfAnEarlierRecordingAreNotPutBack) {
  start(1, RequestKind::kSend, 5, 3, 7);
  start(2, RequestKind::kSend, 5, 4, 7);
  const MPI_Request requests[] = {handle(1), handle(2)};
  Claimed claimed[2] = {};
  claim(requests, 2, claimed);
  EXPECT_TRUE(open().empty());
  EXPECT_EQ(claimed[0].request.key, 1u);
  forget_requests();
  start(1, RequestKind::kReceive, 6, 2, 8);  // another one by now
  put_back(claimed[0]);
  const MPI_Status status{};
  complete_claimed(call_, 2, claimed[1], &status, Completion::kGood);
  EXPECT_EQ(open(), (std::vector<Row>{{6, kReceive, 2, 8, 1}}));
  EXPECT_EQ(claimed[0].request.key, 0u);
  EXPECT_EQ(claimed[1].request.key, 0u);
}

// Both libraries return one handle for all sends that are complete at once.
TEST_F(OpenRequests, EndInNoCallThatBeganBeforeThem) {
  const auto ring = std::make_unique<wire::MpiEventRing>();
  const EndedCall call{&segment(), ring.get(), 10, 20, 0, 0};
  for (const std::uint64_t start_ns : {15, 5}) {
    Request send{};
    send.key = 1;
    send.kind = RequestKind::kSend;
    send.active = true;
    send.communicator = communicator_.get();
    send.start_ns = start_ns;
    track(send, nullptr);
    const MPI_Request shared = handle(1);
    Claimed claimed = {};
    claim(&shared, 1, &claimed);
    complete_claimed(call, 1, claimed, nullptr, Completion::kGood);
    EXPECT_EQ(ring->written.load(), start_ns < 10 ? 1u : 0u);
  }
}

TEST_F(OpenRequests, MayBeOfCommunicatorsThatAreForgotten) {
  constexpr HandleKey kKey = 500;
  bind(kKey, communicator_.get());
  EXPECT_EQ(communicator_of(kKey), communicator_.get());
  EXPECT_EQ(communicator_->references, 2u);
  forget_communicators();
  EXPECT_EQ(communicator_of(kKey), nullptr);
  EXPECT_EQ(communicator_->references, 2u);
  EXPECT_EQ(communicator_->identity, 77u);
}

TEST_F(OpenRequests, TellTheMessageOfARequestThatFails) {
  start(1, RequestKind::kReceive, 5, 3, 7);
  start(2, RequestKind::kReceive, 5, 3, 7);
  EXPECT_EQ(message_of(2).number, 1u);
  EXPECT_EQ(message_of(2).peer, 3);
  EXPECT_EQ(message_of(2).tag, 7);
  EXPECT_EQ(message_of(2).channel, 77u);
  EXPECT_EQ(message_of(9).peer, wire::kNoPeer);
  complete(1);
  complete(2);
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
