// SPDX-License-Identifier: BSD-3-Clause
// Whether a library has the binary interface that this object was built for. MPICH, Open MPI and the MPI
// standard (libmpi_abi) have one each: other handles, constants and statuses.
#pragma once

namespace clusterprof::mpi_wrap {

// `library`: a handle for dlsym. Calls the library, which MPI allows before MPI_Init.
bool library_has_our_interface(void* library) noexcept;

}  // namespace clusterprof::mpi_wrap
