// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/start_and_end.hpp"

#include <atomic>

#include "mpi-wrap/src/communicator_entries.hpp"
#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/communicator_registry.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/type_size.hpp"
#include "mpi-wrap/src/worlds.hpp"

namespace clusterprof::mpi_wrap {
namespace {

std::atomic<bool> world_started;

void announce(int size) noexcept {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  const auto get_version = CLUSTERPROF_LIBRARY(MPI_Get_library_version);
  if (get_version == nullptr || get_version(version, &length) != MPI_SUCCESS) version[0] = '\0';
  agent->mpi_started(state.world_rank, first_rank() + size, version);
}

// Set while recording goes on only because of a session. Then the last session ends it.
std::atomic<bool> session_started;

#if CLUSTERPROF_MPI_HAS_4_0
std::atomic<int> open_sessions;
#endif

}  // namespace

void start_world() noexcept {
  if (world_started.exchange(true)) return;
  session_started.store(false);
  int provided = MPI_THREAD_SINGLE;
  const auto query_thread = CLUSTERPROF_LIBRARY(MPI_Query_thread);
  // Never taken back: several threads may use a session that is open.
  if (query_thread != nullptr && query_thread(&provided) == MPI_SUCCESS && provided == MPI_THREAD_MULTIPLE)
    state.shared = true;
  find_type_sizes();
  if (!start_communicators()) return;
  state.running = true;
  announce(communicator_of(key_of(handles.comm_world))->size);
}

void forget_world() noexcept {
  state.running = false;
  forget_requests();
  forget_communicators();
  forget_entries();
  session_started.store(false);
#if CLUSTERPROF_MPI_HAS_4_0
  open_sessions.store(0);
#endif
  world_started.store(false);
}

void end_world() noexcept {
  if (!state.running) return;
  if (!state.attached) write_open_requests();  // else a call that is not ours may have completed some
  agent->mpi_ended();
  state.running = false;
  end_communicators();
}

void start_if_initialised() noexcept {
  int initialised = 0, finalised = 0;
  const auto is_initialised = CLUSTERPROF_LIBRARY(MPI_Initialized);
  const auto is_finalised = CLUSTERPROF_LIBRARY(MPI_Finalized);
  if (is_initialised == nullptr || is_finalised == nullptr) return;
  if (is_initialised(&initialised) == MPI_SUCCESS && initialised != 0 &&
      is_finalised(&finalised) == MPI_SUCCESS && finalised == 0) {
    start_world();
  }
}

#if CLUSTERPROF_MPI_HAS_4_0

// What a session asks for is not known, nor does MPI_Query_thread tell what it gets.
void expect_session() noexcept { state.shared = true; }

// A program may use sessions alone. Then the world is the process set that contains all processes.
void start_session(MPI_Session session) noexcept {
  if (open_sessions.fetch_add(1) != 0 || state.running) return;
  const auto from_pset = CLUSTERPROF_LIBRARY(MPI_Group_from_session_pset);
  const auto group_size = CLUSTERPROF_LIBRARY(MPI_Group_size);
  MPI_Group all;
  int size = 0;
  if (from_pset == nullptr || group_size == nullptr ||
      from_pset(session, "mpi://WORLD", &all) != MPI_SUCCESS || group_size(all, &size) != MPI_SUCCESS) {
    return;
  }
  find_type_sizes();
  if (!start_without_world(all)) return;
  state.running = true;
  session_started.store(true);
  announce(size);
}

bool end_session() noexcept {
  const bool is_last = open_sessions.fetch_sub(1) == 1;
  if (is_last && session_started.exchange(false)) end_world();
  return is_last;
}

#endif

}  // namespace clusterprof::mpi_wrap
