// SPDX-License-Identifier: BSD-3-Clause
// Starts recording of MPI when MPI or the first session is initialised, and ends it before MPI is finalised.
#pragma once

#include <cstdint>

#include "mpi-wrap/src/mpi_header.hpp"

namespace clusterprof::mpi_wrap {

// MPI_Init has returned.
void start_world() noexcept;

// For an MPI that was initialised by a call that was not seen.
void start_if_initialised() noexcept;

// For a process that is attached to once more, at its first call, on the thread that calls: forgets all that
// was known, since it may have changed while nobody looked. Other calls, which began before, may still be
// under way. Calls nothing of the library.
void forget_world() noexcept;

// Before the library's MPI_Finalize.
void end_world() noexcept;

#if CLUSTERPROF_MPI_HAS_4_0
// Before the library's MPI_Session_init: from then on several threads may call at a time.
void expect_session() noexcept;
// MPI_Session_init has returned.
void start_session(MPI_Session session) noexcept;

// The library's MPI_Session_finalize may fail, and then the session goes on: while something made from it is
// in use, MPICH ends none that was opened with strict_finalize, and programs ask again. So call the first one
// before it, and the second one after it.
inline constexpr int kNoSessionRow = -1;
struct SessionEnd {
  MPI_Session session;
  int row;
  std::uint32_t recording;
  bool is_known;  // the session was seen to begin
  bool is_last;
};
SessionEnd begin_session_end(MPI_Session session) noexcept;
void finish_session_end(const SessionEnd& end, bool has_ended) noexcept;
#endif

}  // namespace clusterprof::mpi_wrap
