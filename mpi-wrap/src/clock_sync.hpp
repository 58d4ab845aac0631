// SPDX-License-Identifier: BSD-3-Clause
// How far the clocks of the nodes are apart (wire::ClockMeasurement): the lowest rank of each node, its
// leader, exchanges messages with another leader while MPI_Init and MPI_Finalize last, and at no other
// time. docs/design/0007-clocks-of-nodes.md says how it is made sure that nobody waits for a rank that
// does not take part.
#pragma once

namespace clusterprof::mpi_wrap {

// All three from inside the outermost wrapper, in this order; nothing happens when CLUSTERPROF_AGENT_CLOCKS
// is not set.

// Before the library's MPI_Init.
void offer_clock_exchange() noexcept;

// When it has returned. Does not come back before all ranks know whether clocks are exchanged.
void exchange_clocks_at_init(bool succeeded) noexcept;

// Before the library's MPI_Finalize.
void exchange_clocks_at_finalize() noexcept;

}  // namespace clusterprof::mpi_wrap
