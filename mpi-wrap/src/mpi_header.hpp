// SPDX-License-Identifier: BSD-3-Clause
// Includes the MPI library's mpi.h, for whose binary interface this object is built, and hides the few
// differences between Open MPI and the MPICH family. Nothing here may make the object refer to libmpi:
// handles that are addresses of its variables are looked up at run time (handles.hpp).
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#define MPICH_NO_ATTR_TYPE_TAGS 1
// Deprecated functions are wrapped as well.
#define OMPI_WANT_MPI_INTERFACE_WARNING 0
#include <mpi.h>

#include <cstdint>
#include <type_traits>

#if defined(OPEN_MPI)
#define CLUSTERPROF_MPI_OPENMPI 1
#define CLUSTERPROF_MPI_HAS_REMOVED OMPI_ENABLE_MPI1_COMPAT
#elif defined(MPICH) || defined(MPICH_VERSION) || defined(I_MPI_VERSION)
#define CLUSTERPROF_MPI_OPENMPI 0
#define CLUSTERPROF_MPI_HAS_REMOVED 1
#else
#error "neither the mpi.h of Open MPI nor one of the MPICH family"
#endif
#define CLUSTERPROF_MPI_HAS_4_0 (MPI_VERSION >= 4)
#define CLUSTERPROF_MPI_HAS_4_1 (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1))
#define CLUSTERPROF_MPI_HAS_5_0 (MPI_VERSION >= 5)

namespace clusterprof::mpi_wrap {

// A handle as a number: an address (Open MPI) or the integer itself (MPICH). Never 0 or 1 for an
// object that exists.
using HandleKey = std::uint64_t;

template <typename Handle>
inline HandleKey key_of(Handle handle) noexcept {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<std::uintptr_t>(handle);
  } else {
    return static_cast<std::uint32_t>(handle);
  }
}

// The size of a completed receive, from its status. In both families the fields are part of the binary
// interface. MPI_Get_count would divide by the size of a datatype.
inline std::uint64_t status_bytes(const MPI_Status& status) noexcept {
#if CLUSTERPROF_MPI_OPENMPI
  return status._ucount;
#else
  return static_cast<std::uint32_t>(status.count_lo) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(status.count_hi_and_cancelled) >> 1) << 32;
#endif
}

inline bool status_cancelled(const MPI_Status& status) noexcept {
#if CLUSTERPROF_MPI_OPENMPI
  return status._cancelled != 0;
#else
  return (status.count_hi_and_cancelled & 1) != 0;
#endif
}

}  // namespace clusterprof::mpi_wrap
