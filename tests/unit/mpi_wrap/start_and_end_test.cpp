// SPDX-License-Identifier: BSD-3-Clause
// Sessions, alone and beside MPI_Init, with a library that is faked here. Uses the mpi.h of the MPI standard.
#include "mpi-wrap/src/start_and_end.hpp"

#include <gtest/gtest.h>

#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/src/communicator_entries.hpp"
#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/communicator_registry.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/type_size.hpp"
#include "mpi-wrap/src/worlds.hpp"

namespace clusterprof::mpi_wrap {

Handles handles{};
State state{};

namespace {

int provided = MPI_THREAD_SINGLE, starts, ends;

const clusterprof_agent_api kAgent = [] {
  clusterprof_agent_api api{};
  api.mpi_started = [](std::int32_t, std::int32_t, const char*) { ++starts; };
  api.mpi_ended = [] { ++ends; };
  return api;
}();

int query_thread(int* level) {
  *level = provided;
  return MPI_SUCCESS;
}
int group_from_pset(MPI_Session session, const char*, MPI_Group* group) {
  *group = reinterpret_cast<MPI_Group>(session);
  return MPI_SUCCESS;
}
int group_size(MPI_Group, int* size) {
  *size = 4;
  return MPI_SUCCESS;
}

Communicator world;
MPI_Group held = MPI_GROUP_NULL;  // made from the session with this address

MPI_Session session(std::intptr_t number) { return reinterpret_cast<MPI_Session>(0x1000 + number); }

}  // namespace

// Functions that the object under test refers to.
const clusterprof_agent_api* agent = &kAgent;
void* library_function(std::uint32_t number) noexcept {
  switch (number) {
    case wire::kMPI_Query_thread:
      return reinterpret_cast<void*>(&query_thread);
    case wire::kMPI_Group_from_session_pset:
      return reinterpret_cast<void*>(&group_from_pset);
    case wire::kMPI_Group_size:
      return reinterpret_cast<void*>(&group_size);
    default:
      return nullptr;
  }
}
void find_type_sizes() noexcept {}
void forget_requests() noexcept {}
void forget_communicators() noexcept {}
void forget_entries() noexcept {}
void write_open_requests() noexcept {}
std::int32_t first_rank() noexcept { return 0; }
Communicator* communicator_of(HandleKey) noexcept { return &world; }
bool start_communicators() noexcept { return true; }
bool start_without_world(MPI_Group group) noexcept {
  held = group;
  return true;
}
void end_communicators() noexcept { held = MPI_GROUP_NULL; }

namespace {

class StartAndEnd : public testing::Test {
 protected:
  StartAndEnd() {
    forget_world();
    state = {};
    provided = MPI_THREAD_SINGLE;
    starts = ends = 0;
    held = MPI_GROUP_NULL;
  }

  static bool holds(std::intptr_t number) { return held == reinterpret_cast<MPI_Group>(session(number)); }
  static bool holds_nothing() { return held == MPI_GROUP_NULL; }
};

void begin(std::intptr_t number) {
  expect_session();
  start_session(session(number));
}

TEST_F(StartAndEnd, OneThreadMayCallAtATime) {
  provided = MPI_THREAD_SERIALIZED;
  start_world();
  EXPECT_TRUE(state.running);
  EXPECT_FALSE(state.shared);
}

TEST_F(StartAndEnd, SeveralThreadsMayCallWithMpiThreadMultiple) {
  provided = MPI_THREAD_MULTIPLE;
  start_world();
  EXPECT_TRUE(state.shared);
}

// A session has a level of its own.
TEST_F(StartAndEnd, SeveralThreadsMayCallWhereASessionIsOpenBesideMpiInit) {
  provided = MPI_THREAD_FUNNELED;
  start_world();
  EXPECT_FALSE(state.shared);
  begin(1);
  EXPECT_TRUE(state.shared);
  EXPECT_EQ(starts, 1);
}

TEST_F(StartAndEnd, SeveralThreadsMayCallWhereASessionWasOpenBeforeMpiInit) {
  begin(1);
  EXPECT_TRUE(state.running);
  EXPECT_TRUE(state.shared);
  start_world();
  EXPECT_TRUE(state.shared);
}

TEST_F(StartAndEnd, SeveralThreadsMayCallWhereAnEarlierRecordingHasSeenASession) {
  begin(1);
  forget_world();
  EXPECT_FALSE(state.running);
  start_world();
  EXPECT_TRUE(state.shared);
}

// MPI_Session_finalize, as the library answers it.
void end(std::intptr_t number, bool succeeds = true) {
  finish_session_end(begin_session_end(session(number)), succeeds);
}

TEST_F(StartAndEnd, TheLastSessionEndsTheRecording) {
  begin(1);
  begin(2);
  end(2);
  EXPECT_TRUE(state.running);
  end(1);
  EXPECT_FALSE(state.running);
  EXPECT_TRUE(holds_nothing());
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(ends, 1);
}

TEST_F(StartAndEnd, ASessionThatIsStillInUseGoesOn) {
  begin(1);
  const SessionEnd tried = begin_session_end(session(1));
  EXPECT_TRUE(tried.is_last);
  EXPECT_TRUE(holds_nothing());
  finish_session_end(tried, false);
  EXPECT_TRUE(state.running);
  EXPECT_TRUE(holds(1));
  end(1, false);
  EXPECT_TRUE(state.running);
  end(1);
  EXPECT_FALSE(state.running);
  begin(2);
  EXPECT_TRUE(state.running);
  EXPECT_EQ(starts, 2);
}

TEST_F(StartAndEnd, ASessionThatIsStillInUseDoesNotEndTheRecordingOfAnother) {
  begin(1);
  begin(2);
  end(2, false);
  end(2);
  EXPECT_TRUE(state.running);
  EXPECT_EQ(ends, 0);
  end(1);
  EXPECT_FALSE(state.running);
}

// What is made from a session keeps it in use.
TEST_F(StartAndEnd, NoSessionIsInUseOnlyForItsGroupOfAllProcesses) {
  begin(1);
  begin(2);
  EXPECT_TRUE(holds(1));
  const SessionEnd first = begin_session_end(session(1));
  EXPECT_FALSE(first.is_last);
  EXPECT_TRUE(holds_nothing());
  finish_session_end(first, true);
  EXPECT_TRUE(holds(2));
  EXPECT_TRUE(state.running);
  // While both end, there is none to make it from.
  begin(3);
  const SessionEnd second = begin_session_end(session(2));
  const SessionEnd third = begin_session_end(session(3));
  EXPECT_FALSE(second.is_last);
  EXPECT_TRUE(third.is_last);
  finish_session_end(second, true);
  EXPECT_TRUE(holds_nothing());
  EXPECT_TRUE(state.running);
  finish_session_end(third, false);
  EXPECT_TRUE(holds(3));
}

TEST_F(StartAndEnd, SessionsOfBeforeTheRecordingAreNotCounted) {
  begin(1);
  const SessionEnd before = begin_session_end(session(1));
  forget_world();
  finish_session_end(before, true);
  end(1);
  begin(2);
  EXPECT_TRUE(state.running);
  end(1);
  EXPECT_TRUE(state.running);
  end(2);
  EXPECT_FALSE(state.running);
}

TEST_F(StartAndEnd, ManySessionsAreCounted) {
  for (int i = 0; i < 200; ++i) begin(i);
  for (int i = 0; i < 199; ++i) end(i);
  EXPECT_TRUE(state.running);
  end(199);
  EXPECT_FALSE(state.running);
}

TEST_F(StartAndEnd, SessionsBesideMpiInitDoNotEndIt) {
  begin(1);
  start_world();
  held = MPI_GROUP_EMPTY;  // that of MPI_COMM_WORLD
  end(1);
  EXPECT_TRUE(state.running);
  EXPECT_EQ(held, MPI_GROUP_EMPTY);
  end_world();
  EXPECT_FALSE(state.running);
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
