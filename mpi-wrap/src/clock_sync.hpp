// SPDX-License-Identifier: BSD-3-Clause
// Measures the offset between the clocks of the nodes (wire::ClockMeasurement). The lowest rank of each node,
// its leader, exchanges messages with other leaders, only during MPI_Init and MPI_Finalize.
// docs/design/0007-clocks-of-nodes.md explains why no rank waits for one that does not take part.
#pragma once

namespace clusterprof::mpi_wrap {

// Call all three in this order, from inside the outermost wrapper. They do nothing if
// CLUSTERPROF_AGENT_CLOCKS is not set.

// Before the library's MPI_Init.
void offer_clock_exchange() noexcept;

// After the library's MPI_Init. Returns only when all ranks know whether clocks are exchanged.
void exchange_clocks_at_init(bool succeeded) noexcept;

// Before the library's MPI_Finalize.
void exchange_clocks_at_finalize() noexcept;

}  // namespace clusterprof::mpi_wrap
