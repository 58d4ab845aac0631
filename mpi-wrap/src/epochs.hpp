// SPDX-License-Identifier: BSD-3-Clause
// Synchronisation of one-sided communication between groups: MPI_Win_post and MPI_Win_wait at the target,
// MPI_Win_start and MPI_Win_complete at the origin. Each pair is recorded as messages, from post to start and
// from complete to wait. Any thread.
#pragma once

#include "mpi-wrap/src/communicator.hpp"
#include "mpi-wrap/src/events.hpp"
#include "mpi-wrap/src/mpi_header.hpp"

namespace clusterprof::mpi_wrap {

// `communicator`: the window's. `op`: MPI function number of the call.
void begin_epoch(const EndedCall& call, HandleKey window, Communicator& communicator, MPI_Group group,
                 std::uint16_t op, bool exposure) noexcept;
void end_epoch(const EndedCall& call, HandleKey window, Communicator& communicator, std::uint16_t op,
               bool exposure) noexcept;

}  // namespace clusterprof::mpi_wrap
