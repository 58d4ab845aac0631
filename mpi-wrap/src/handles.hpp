// SPDX-License-Identifier: BSD-3-Clause
// The predefined handles. In Open MPI they are addresses of variables of libmpi, and this object must not
// refer to those symbols.
#pragma once

#include "mpi-wrap/src/mpi_header.hpp"

namespace clusterprof::mpi_wrap {

struct Handles {
  MPI_Comm comm_world, comm_self, comm_null;
  MPI_Datatype datatype_null, packed;
  MPI_Op no_op;
  MPI_Group group_null;
};
// Set before any wrapper can run.
extern Handles handles;

// Looks them up. False when the library lacks one.
bool find_handles() noexcept;

}  // namespace clusterprof::mpi_wrap
