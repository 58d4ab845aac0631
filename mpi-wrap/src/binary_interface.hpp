// SPDX-License-Identifier: BSD-3-Clause
// Checks that a library has the binary interface that this object was built for. MPICH, Open MPI and the MPI
// standard (libmpi_abi) have one each, with different handles, constants and statuses.
#pragma once

namespace clusterprof::mpi_wrap {

// `library`: a handle for dlsym. Calls functions of the library that MPI allows before MPI_Init.
bool library_has_our_interface(void* library) noexcept;

}  // namespace clusterprof::mpi_wrap
