// SPDX-License-Identifier: BSD-3-Clause
// Wrappers by hand: start and end of MPI, MPI_Abort, MPI_Comm_set_name.
#include "mpi-wrap/src/lifecycle.hpp"

#include <atomic>

#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/generated/wrappers.hpp"
#include "mpi-wrap/src/clock_sync.hpp"
#include "mpi-wrap/src/communicator.hpp"
#include "mpi-wrap/src/rank_map.hpp"
#include "mpi-wrap/src/record.hpp"
#include "mpi-wrap/src/worlds.hpp"

namespace clusterprof::mpi_wrap {

State state{false, false, kUnknownRank};

namespace {

std::atomic<bool> world_started;

void announce(int size) noexcept {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  const auto get_version = CLUSTERPROF_LIBRARY(MPI_Get_library_version);
  if (get_version == nullptr || get_version(version, &length) != MPI_SUCCESS) version[0] = '\0';
  agent->mpi_started(state.world_rank, first_rank() + size, version);
}

// Set while recording goes on because of a session alone: then the last session ends it.
std::atomic<bool> session_started;

void start_world() noexcept {
  if (world_started.exchange(true)) return;
  session_started.store(false);
  int provided = MPI_THREAD_SINGLE;
  const auto query_thread = CLUSTERPROF_LIBRARY(MPI_Query_thread);
  if (query_thread != nullptr && query_thread(&provided) == MPI_SUCCESS) {
    state.shared = provided == MPI_THREAD_MULTIPLE;
  }
  find_type_sizes();
  if (!start_communicators()) return;
  state.running = true;
  announce(communicator_of(key_of(handles.comm_world))->size);
}

void end_world() noexcept {
  if (!state.running) return;
  agent->mpi_ended();
  state.running = false;
  end_communicators();
}

#if CLUSTERPROF_MPI_HAS_4_0

std::atomic<int> open_sessions;

// A program may use sessions alone. The world is then the process set of all.
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
  state.shared = true;  // what other sessions ask for is not known
  find_type_sizes();
  if (!start_without_world(all)) return;
  state.running = true;
  session_started.store(true);
  announce(size);
}

void end_session() noexcept {
  if (open_sessions.fetch_sub(1) == 1 && session_started.exchange(false)) end_world();
}

#endif

}  // namespace

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

}  // namespace clusterprof::mpi_wrap

using namespace clusterprof;
using namespace clusterprof::mpi_wrap;

int clusterprof_wrap_MPI_Init(int* argc, char*** argv) {
  const auto real = CLUSTERPROF_REAL(MPI_Init);
  const std::uint64_t start = enter(Intent(wire::kMPI_Init));
  (void)first_rank();
  if (start != 0) offer_clock_exchange();
  const int result = real(argc, argv);
  if (start == 0) {
    if (result == MPI_SUCCESS) start_if_initialised();
    return result;
  }
  exchange_clocks_at_init(result == MPI_SUCCESS);
  Record record(wire::kMPI_Init, start, result == MPI_SUCCESS);
  if (result == MPI_SUCCESS) start_world();
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const auto real = CLUSTERPROF_REAL(MPI_Init_thread);
  const std::uint64_t start = enter(Intent(wire::kMPI_Init_thread));
  (void)first_rank();
  if (start != 0) offer_clock_exchange();
  const int result = real(argc, argv, required, provided);
  if (start == 0) {
    if (result == MPI_SUCCESS) start_if_initialised();
    return result;
  }
  exchange_clocks_at_init(result == MPI_SUCCESS);
  Record record(wire::kMPI_Init_thread, start, result == MPI_SUCCESS);
  if (result == MPI_SUCCESS) start_world();
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Finalize(void) {
  const auto real = CLUSTERPROF_REAL(MPI_Finalize);
  const std::uint64_t start =
      enter(Intent(wire::kMPI_Finalize, state.running ? world_communicator() : nullptr).collective());
  exchange_clocks_at_finalize();
  Communicator* const world = state.running ? world_communicator() : nullptr;
  end_world();
  const int result = real();
  if (start == 0) return result;
  Record record(wire::kMPI_Finalize, start, result == MPI_SUCCESS);
  record.finish();
  record.collective_ended_on(world);
  return result;
}

int clusterprof_wrap_MPI_Abort(MPI_Comm comm, int errorcode) {
  const auto real = CLUSTERPROF_REAL(MPI_Abort);
  // It rarely returns: then it stays the call under way.
  const std::uint64_t start = enter(Intent(wire::kMPI_Abort, key_of(comm)));
  const int result = real(comm, errorcode);
  if (start == 0) return result;
  Record record(wire::kMPI_Abort, start, result == MPI_SUCCESS);
  record.use(comm);
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Comm_set_name(MPI_Comm comm, const char* comm_name) {
  const auto real = CLUSTERPROF_REAL(MPI_Comm_set_name);
  const std::uint64_t start = enter(Intent(wire::kMPI_Comm_set_name, key_of(comm)));
  if (start == 0) return real(comm, comm_name);
  const int result = real(comm, comm_name);
  Record record(wire::kMPI_Comm_set_name, start, result == MPI_SUCCESS);
  record.use(comm);
  const Communicator* communicator = communicator_of(key_of(comm));
  if (record.counts() && communicator != nullptr) rename_communicator(*communicator, comm_name);
  record.finish();
  return result;
}

#if CLUSTERPROF_MPI_HAS_4_0

int clusterprof_wrap_MPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session* session) {
  const auto real = CLUSTERPROF_REAL(MPI_Session_init);
  const std::uint64_t start = enter(Intent(wire::kMPI_Session_init));
  if (start == 0) return real(info, errhandler, session);
  const int result = real(info, errhandler, session);
  Record record(wire::kMPI_Session_init, start, result == MPI_SUCCESS);
  if (result == MPI_SUCCESS) start_session(*session);
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Session_finalize(MPI_Session* session) {
  const auto real = CLUSTERPROF_REAL(MPI_Session_finalize);
  const std::uint64_t start = enter(Intent(wire::kMPI_Session_finalize));
  if (start == 0) return real(session);
  end_session();
  const int result = real(session);
  Record record(wire::kMPI_Session_finalize, start, result == MPI_SUCCESS);
  record.finish();
  return result;
}

#endif
