// SPDX-License-Identifier: BSD-3-Clause
// Hand-written wrappers: start and end of MPI and of sessions, what a session's first communicator is made
// with, MPI_Abort, MPI_Comm_set_name.
#include "formats/wire/mpi_functions.h"
#include "formats/wire/segment.h"
#include "mpi-wrap/generated/wrappers.hpp"
#include "mpi-wrap/src/clock_sync.hpp"
#include "mpi-wrap/src/communicator_entries.hpp"
#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/communicator_registry.hpp"
#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/record.hpp"
#include "mpi-wrap/src/start_and_end.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/worlds.hpp"

using namespace clusterprof;
using namespace clusterprof::mpi_wrap;

int clusterprof_wrap_MPI_Init(int* argc, char*** argv) {
  const auto real = CLUSTERPROF_REAL(MPI_Init);
  const std::uint64_t start = enter(wire::kMPI_Init, [] { return Intent(wire::kMPI_Init); });
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
  const std::uint64_t start = enter(wire::kMPI_Init_thread, [] { return Intent(wire::kMPI_Init_thread); });
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
  const std::uint64_t start = enter(wire::kMPI_Finalize, [] {
    return Intent(wire::kMPI_Finalize, state.running ? world_communicator() : nullptr).collective();
  });
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
  const std::uint64_t start = enter(wire::kMPI_Abort, [&] { return Intent(wire::kMPI_Abort, key_of(comm)); });
  if (auto* const segment = static_cast<wire::SegmentHeader*>(mpi_wrap::agent->segment())) {
    segment->last_words.mpi_abort_code.store(errorcode, std::memory_order_relaxed);
    segment->last_words.mpi_abort_called.store(1, std::memory_order_release);
  }
  const int result = real(comm, errorcode);
  if (start == 0) return result;
  Record record(wire::kMPI_Abort, start, result == MPI_SUCCESS);
  record.use(comm);
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Comm_set_name(MPI_Comm comm, const char* comm_name) {
  const auto real = CLUSTERPROF_REAL(MPI_Comm_set_name);
  const std::uint64_t start =
      enter(wire::kMPI_Comm_set_name, [&] { return Intent(wire::kMPI_Comm_set_name, key_of(comm)); });
  if (start == 0) return real(comm, comm_name);
  const int result = real(comm, comm_name);
  Record record(wire::kMPI_Comm_set_name, start, result == MPI_SUCCESS);
  record.use(comm);
  const Communicator* communicator = communicator_of(key_of(comm));
  if (record.counts() && communicator != nullptr) rename_communicator(*communicator, comm_name);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    record.failed(result);
  return result;
}

#if CLUSTERPROF_MPI_HAS_4_0

int clusterprof_wrap_MPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session* session) {
  const auto real = CLUSTERPROF_REAL(MPI_Session_init);
  const std::uint64_t start = enter(wire::kMPI_Session_init, [] { return Intent(wire::kMPI_Session_init); });
  (void)first_rank();
  expect_session();
  if (start == 0) return real(info, errhandler, session);
  prepare_clock_exchange_of_sessions();
  const int result = real(info, errhandler, session);
  Record record(wire::kMPI_Session_init, start, result == MPI_SUCCESS);
  if (result == MPI_SUCCESS) start_session(*session);
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Session_finalize(MPI_Session* session) {
  const auto real = CLUSTERPROF_REAL(MPI_Session_finalize);
  const std::uint64_t start =
      enter(wire::kMPI_Session_finalize, [] { return Intent(wire::kMPI_Session_finalize); });
  const SessionEnd end = session == nullptr ? SessionEnd{} : begin_session_end(*session);
  if (start != 0 && end.is_last) end_clock_exchange_of_sessions();
  const int result = real(session);
  const bool has_ended = result == MPI_SUCCESS || session == nullptr || *session != end.session;
  if (start == 0) {
    finish_session_end(end, has_ended);
    return result;
  }
  Record record(wire::kMPI_Session_finalize, start, result == MPI_SUCCESS);
  finish_session_end(end, has_ended);
  record.finish();
  return result;
}

// It is the first operation of the communicator that it makes.
int clusterprof_wrap_MPI_Comm_create_from_group(MPI_Group group, const char* stringtag, MPI_Info info,
                                                MPI_Errhandler errhandler, MPI_Comm* newcomm) {
  const auto real = CLUSTERPROF_REAL(MPI_Comm_create_from_group);
  const std::uint64_t start =
      enter(wire::kMPI_Comm_create_from_group, [] { return Intent(wire::kMPI_Comm_create_from_group); });
  if (start == 0) {
    const int passed_on = real(group, stringtag, info, errhandler, newcomm);
    if (passed_on == MPI_SUCCESS) release(key_of(*newcomm));
    return passed_on;
  }
  const bool exchanges_clocks = offer_clock_exchange(group, stringtag);
  const int result = real(group, stringtag, info, errhandler, newcomm);
  if (exchanges_clocks)
    exchange_clocks_on(result == MPI_SUCCESS ? *newcomm : handles.comm_null, result == MPI_SUCCESS);
  Record record(wire::kMPI_Comm_create_from_group, start, result == MPI_SUCCESS);
  if (record.counts()) record.make_communicator(Derivation::kGroup, *newcomm, hash_of_text(stringtag));
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    record.failed(result);
  if (record.counts()) record.collective_ended_on(communicator_of(key_of(*newcomm)));
  return result;
}

#endif
