// SPDX-License-Identifier: BSD-3-Clause
// Includes the mpi.h for whose binary interface this object is built: that of an MPI library, or ours of the
// interface of the MPI standard (standard/mpi.h). Hides the few differences between Open MPI, the MPICH
// family and the standard. Nothing here may make the object refer to libmpi: handles that are addresses of
// its variables are looked up at run time (handles.hpp).
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#define MPICH_NO_ATTR_TYPE_TAGS 1
// Deprecated functions are wrapped as well.
#define OMPI_WANT_MPI_INTERFACE_WARNING 0
#include <mpi.h>

#include <cstdint>
#include <type_traits>

#if defined(CLUSTERPROF_MPI_STANDARD_HEADER)
#define CLUSTERPROF_MPI_STANDARD 1
#define CLUSTERPROF_MPI_OPENMPI 0
#define CLUSTERPROF_MPI_HAS_REMOVED 0
#elif defined(OPEN_MPI)
#define CLUSTERPROF_MPI_STANDARD 0
#define CLUSTERPROF_MPI_OPENMPI 1
#define CLUSTERPROF_MPI_HAS_REMOVED OMPI_ENABLE_MPI1_COMPAT
#elif defined(MPICH) || defined(MPICH_VERSION) || defined(I_MPI_VERSION)
#define CLUSTERPROF_MPI_STANDARD 0
#define CLUSTERPROF_MPI_OPENMPI 0
#define CLUSTERPROF_MPI_HAS_REMOVED 1
#else
#error "neither the mpi.h of Open MPI nor one of the MPICH family nor that of the standard"
#endif
// Of MPI 4.0, Open MPI 5.0 lacks the functions with large counts alone, but calls itself MPI 3.1.
#define CLUSTERPROF_MPI_HAS_LARGE_COUNTS (MPI_VERSION >= 4)
#if CLUSTERPROF_MPI_OPENMPI
#define CLUSTERPROF_MPI_HAS_4_0 (MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5)
#else
#define CLUSTERPROF_MPI_HAS_4_0 (MPI_VERSION >= 4)
#endif
#define CLUSTERPROF_MPI_HAS_4_1 (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1))
#define CLUSTERPROF_MPI_HAS_5_0 (MPI_VERSION >= 5)

namespace clusterprof::mpi_wrap {

// A handle as a number: an address (Open MPI) or the integer itself (MPICH). Never 0 or 1 for an
// object that exists. The two highest bits are free for whoever adds something to it (request_table.hpp):
// a handle of the standard interface may be an integer of the library, extended by its sign.
using HandleKey = std::uint64_t;

template <typename Handle>
inline HandleKey key_of(Handle handle) noexcept {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<std::uintptr_t>(handle) & ~(std::uint64_t{3} << 62);
  } else {
    return static_cast<std::uint32_t>(handle);
  }
}

// Before a call that may refuse a null pointer: 0 for that, which is no object's.
template <typename Handle>
inline HandleKey key_at(const Handle* handle) noexcept {
  return handle == nullptr ? 0 : key_of(*handle);
}

// The size of a completed receive, from its status. In the two families of libraries the fields are part of
// the binary interface. MPI_Get_count would divide by the size of a datatype. In the standard interface the
// library has to be asked.
#if CLUSTERPROF_MPI_STANDARD
std::uint64_t status_bytes(const MPI_Status& status) noexcept;
bool status_cancelled(const MPI_Status& status) noexcept;
#else
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
#endif

// True if the library is Open MPI. The standard interface leaves open whose it is, and libraries keep some of
// their ways behind it.
#if CLUSTERPROF_MPI_STANDARD
extern bool library_is_open_mpi;  // set before any wrapper can run
#else
inline constexpr bool library_is_open_mpi = CLUSTERPROF_MPI_OPENMPI;
#endif

}  // namespace clusterprof::mpi_wrap
