// SPDX-License-Identifier: BSD-3-Clause
// Measures the offset between the clocks of the nodes (wire::ClockMeasurement). The lowest rank of each node,
// its leader, exchanges messages with other leaders, only during MPI_Init and MPI_Finalize, or where the
// program has sessions alone, while it makes its first communicator of all ranks.
// docs/design/0007-clocks-of-nodes.md explains why no rank waits for one that does not take part.
#pragma once

#include "mpi-wrap/src/mpi_header.hpp"

namespace clusterprof::mpi_wrap {

// Call all of them from inside the outermost wrapper. They do nothing if CLUSTERPROF_AGENT_CLOCKS is not set.
// A process takes part in one exchange.

// These three in this order. Before the library's MPI_Init.
void offer_clock_exchange() noexcept;

// After the library's MPI_Init. Returns only when all ranks know whether clocks are exchanged.
void exchange_clocks_at_init(bool succeeded) noexcept;

// Before the library's MPI_Finalize.
void exchange_clocks_at_finalize() noexcept;

// Without MPI_Init: before the library's first MPI_Session_init, which may change the environment.
void prepare_clock_exchange_of_sessions() noexcept;

// Before the library's MPI_Comm_create_from_group. True: call the next one after it.
bool offer_clock_exchange(MPI_Group group, const char* tag) noexcept;

// Returns only when all ranks know whether clocks are exchanged.
void exchange_clocks_on(MPI_Comm made, bool was_made) noexcept;

// Before the library's MPI_Session_finalize of the last session.
void end_clock_exchange_of_sessions() noexcept;

}  // namespace clusterprof::mpi_wrap
