// SPDX-License-Identifier: BSD-3-Clause
// Starts recording of MPI when MPI or the first session is initialised, and ends it before MPI is finalised.
#pragma once

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
// MPI_Session_init has returned / before the library's MPI_Session_finalize, which ends this session. True:
// it was the last one.
void start_session(MPI_Session session) noexcept;
bool end_session() noexcept;
#endif

}  // namespace clusterprof::mpi_wrap
