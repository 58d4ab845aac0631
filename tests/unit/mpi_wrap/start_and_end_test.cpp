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
int group_from_pset(MPI_Session, const char*, MPI_Group* group) {
  *group = MPI_GROUP_EMPTY;
  return MPI_SUCCESS;
}
int group_size(MPI_Group, int* size) {
  *size = 4;
  return MPI_SUCCESS;
}

Communicator world;

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
bool start_without_world(MPI_Group) noexcept { return true; }
void end_communicators() noexcept {}

namespace {

class StartAndEnd : public testing::Test {
 protected:
  StartAndEnd() {
    forget_world();
    state = {};
    provided = MPI_THREAD_SINGLE;
    starts = ends = 0;
  }
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

}  // namespace
}  // namespace clusterprof::mpi_wrap
