// SPDX-License-Identifier: BSD-3-Clause
// What cancelling receives costs, and which numbers the other receives get. Uses the mpi.h of one MPI family,
// but no library.
#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <vector>

#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {

// Functions that the objects under test refer to but do not need here.
Handles handles;
State state{true, false, 0};
namespace {
wire::SegmentHeader& segment() {
  static const std::unique_ptr<wire::SegmentHeader> made = std::make_unique<wire::SegmentHeader>();
  return *made;
}
const clusterprof_agent_api kAgent = [] {
  clusterprof_agent_api api{};
  api.segment = []() -> void* { return &segment(); };
  api.count_drop = [](std::uint32_t) {};
  return api;
}();
}  // namespace
const clusterprof_agent_api* agent = &kAgent;
namespace {

constexpr int kMany = 20'000;  // in a table of 65,536 slots

MPI_Status status_of(bool cancelled) {
  MPI_Status status{};
#if CLUSTERPROF_MPI_OPENMPI
  status._cancelled = cancelled ? 1 : 0;
#else
  status.count_hi_and_cancelled = cancelled ? 1 : 0;
#endif
  return status;
}

template <typename Handle = MPI_Request>
Handle handle(HandleKey key) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(key);
  } else {
    return static_cast<Handle>(key);
  }
}

class CancelledReceives : public testing::Test {
 protected:
  void SetUp() override {
    // Many slots, which earlier receives have left behind.
    call_.paused = true;
    for (int i = 0; i < kMany; ++i) post(static_cast<HandleKey>(i) + 1, i, 0);
    for (int i = 0; i < kMany; ++i) complete(static_cast<HandleKey>(i) + 1, true, false);
    call_.paused = false;
    communicator_ = std::make_unique<Communicator>();
    communicator_->identity = 77;
    communicator_->references = 1;
    before_ = slots_looked_at();
  }

  void post(HandleKey key, std::int32_t peer, std::int32_t tag) {
    Request receive{};
    receive.key = key;
    receive.kind = RequestKind::kReceive;
    receive.active = receive.sized = true;
    receive.communicator = communicator_.get();
    receive.peer = peer;
    receive.tag = tag;
    number_receive(receive);
    track(receive, nullptr);
  }
  void complete(HandleKey key, bool good, bool cancelled) {
    const MPI_Status status = status_of(cancelled);
    mpi_wrap::complete(call_, key, &status, good ? Completion::kGood : Completion::kFailed);
  }
  std::uint64_t looked_at() const { return slots_looked_at() - before_; }
  std::vector<std::uint32_t> numbers() {
    std::vector<std::uint32_t> found;
    const std::uint64_t end = ring_->written.load();
    for (std::uint64_t at = ring_->read.load(); at != end; ++at)
      found.push_back(ring_->events[at & (wire::kEventRingEvents - 1)].sequence);
    ring_->read.store(end);
    return found;
  }

  std::unique_ptr<wire::SegmentHeader> segment_ = std::make_unique<wire::SegmentHeader>();
  std::unique_ptr<wire::MpiEventRing> ring_ = std::make_unique<wire::MpiEventRing>();
  EndedCall call_{segment_.get(), ring_.get(), 1, 2, 0, 0};
  std::unique_ptr<Communicator> communicator_ = [] {
    auto made = std::make_unique<Communicator>();
    made->references = 1;
    return made;
  }();
  std::uint64_t before_ = 0;
};

TEST_F(CancelledReceives, NeedNoSearchWithOneReceivePerRank) {
  for (int i = 0; i < kMany; ++i) post(static_cast<HandleKey>(i) + 1, i, 5);
  for (int i = 0; i < kMany; ++i) {
    try_cancel(static_cast<HandleKey>(i) + 1);
    complete(static_cast<HandleKey>(i) + 1, true, true);
  }
  EXPECT_EQ(looked_at(), 0u);
  EXPECT_FALSE(communicator_->receives_lost);
  // Their numbers are free again.
  for (int i = 0; i < 3; ++i) {
    post(9, i, 5);
    complete(9, true, false);
  }
  EXPECT_EQ(numbers().back(), 0u);
}

TEST_F(CancelledReceives, NeedNoSearchIfTheyAreFreed) {
  for (int i = 0; i < kMany; ++i) post(static_cast<HandleKey>(i) + 1, i, 5);
  for (int i = 0; i < kMany; ++i) {
    const HandleKey key = static_cast<HandleKey>(i) + 1;
    try_cancel(key);
    ASSERT_TRUE(is_pending_receive(key));
    pending_receive_freed(key, nullptr);
    forget(key);
  }
  EXPECT_EQ(looked_at(), 0u);
}

TEST_F(CancelledReceives, NeedNoSearchIfTheLastPostedIsCancelledFirst) {
  for (int i = 0; i < kMany; ++i) post(static_cast<HandleKey>(i) + 1, 3, 5);
  for (int i = kMany; i > 0; --i) try_cancel(static_cast<HandleKey>(i));
  for (int i = 1; i <= kMany; ++i) complete(static_cast<HandleKey>(i), true, true);
  EXPECT_EQ(looked_at(), 0u);
}

TEST_F(CancelledReceives, LaterReceivesMoveUp) {
  for (HandleKey key = 1; key <= 4; ++key) post(key, 3, 5);
  try_cancel(2);
  complete(2, true, true);
  for (const HandleKey key : {1, 3, 4}) complete(key, true, false);
  EXPECT_GT(looked_at(), 0u);
  EXPECT_EQ(numbers(), (std::vector<std::uint32_t>{0, 1, 2}));
  // A receive that has its message keeps its number, and so does a later one.
  for (HandleKey key = 1; key <= 3; ++key) post(key, 3, 5);
  complete(2, true, false);
  try_cancel(1);
  for (const HandleKey key : {1, 3}) complete(key, true, false);
  EXPECT_EQ(numbers(), (std::vector<std::uint32_t>{4, 3, 5}));
}

// Two receives from each rank: cancelling the first one affects the second. The cost stays proportional to
// their number. In the end, no number is better than a wrong one.
TEST_F(CancelledReceives, TakeABoundedTime) {
  const auto cancel_many = [this] {
    const std::uint64_t before = slots_looked_at();
    for (int i = 0; i < kMany; ++i) post(static_cast<HandleKey>(i) + 1, i / 2, 5);
    for (int i = 0; i < kMany; ++i) try_cancel(static_cast<HandleKey>(i) + 1);
    complete(kMany, true, false);
    for (int i = 0; i + 1 < kMany; ++i) complete(static_cast<HandleKey>(i) + 1, true, true);
    return slots_looked_at() - before;
  };
  EXPECT_LE(cancel_many(), (1u << 24) + 16u * 2 * kMany);
  EXPECT_TRUE(communicator_->receives_given_up);
  EXPECT_TRUE(numbers().empty());
  EXPECT_EQ(cancel_many(), 0u);
  post(1, 3, 5);
  complete(1, true, false);
  EXPECT_TRUE(numbers().empty());
  // What is sent has its numbers.
  std::uint32_t number = 7;
  EXPECT_TRUE(take_number(*communicator_, 3, 5, Direction::kSent, number));
  EXPECT_EQ(number, 0u);
}

// With MPI_THREAD_MULTIPLE another thread waits for a later one, which is not among the others then.
TEST_F(CancelledReceives, GiveUpTheNumbersOfReceivesThatAnotherCallWaitsFor) {
  const MPI_Status status = status_of(false);
  for (HandleKey key = 1; key <= 3; ++key) post(key, 3, 5);
  Claimed claimed[2] = {};
  const MPI_Request waited_for[] = {handle(2), handle(3)};
  claim(waited_for, 2, claimed);
  try_cancel(1);
  EXPECT_TRUE(communicator_->receives_given_up);
  complete_claimed(call_, 2, claimed[0], &status, Completion::kGood);
  put_back(claimed[1]);
  EXPECT_EQ(communicator_->claimed_receives, 0u);
  complete(1, true, true);
  complete(3, true, false);
  EXPECT_TRUE(numbers().empty());
}

TEST_F(CancelledReceives, AreCountedWhereOthersAreNoLongerWaitedFor) {
  for (HandleKey key = 1; key <= 3; ++key) post(key, 3, 5);
  Claimed claimed[1] = {};
  const MPI_Request waited_for = handle(3);
  claim(&waited_for, 1, claimed);
  put_back(claimed[0]);
  try_cancel(1);
  EXPECT_FALSE(communicator_->receives_given_up);
  complete(1, true, true);
  for (const HandleKey left : {2, 3}) complete(left, true, false);
  EXPECT_EQ(numbers(), (std::vector<std::uint32_t>{0, 1}));
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
