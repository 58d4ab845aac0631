// SPDX-License-Identifier: BSD-3-Clause
// Neighbours in a Cartesian, graph or distributed graph topology. Neighbourhood collectives need them.
#pragma once

#include "mpi-wrap/src/communicator.hpp"

namespace clusterprof::mpi_wrap {

// Asks the library for the communicator's neighbours. Later calls do nothing.
void find_neighbours(Communicator& communicator, MPI_Comm handle) noexcept;

}  // namespace clusterprof::mpi_wrap
