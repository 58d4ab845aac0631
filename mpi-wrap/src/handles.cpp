// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/handles.hpp"

#include "mpi-wrap/src/library.hpp"

namespace clusterprof::mpi_wrap {

Handles handles;

bool find_handles() noexcept {
#if CLUSTERPROF_MPI_OPENMPI
  handles.comm_world = static_cast<MPI_Comm>(library_symbol("ompi_mpi_comm_world"));
  handles.comm_self = static_cast<MPI_Comm>(library_symbol("ompi_mpi_comm_self"));
  handles.comm_null = static_cast<MPI_Comm>(library_symbol("ompi_mpi_comm_null"));
  handles.datatype_null = static_cast<MPI_Datatype>(library_symbol("ompi_mpi_datatype_null"));
  handles.packed = static_cast<MPI_Datatype>(library_symbol("ompi_mpi_packed"));
  handles.no_op = static_cast<MPI_Op>(library_symbol("ompi_mpi_op_no_op"));
  handles.group_null = static_cast<MPI_Group>(library_symbol("ompi_mpi_group_null"));
  return handles.comm_world != nullptr && handles.comm_self != nullptr && handles.comm_null != nullptr &&
         handles.datatype_null != nullptr;
#else
  handles = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL, MPI_DATATYPE_NULL,
             MPI_PACKED,     MPI_NO_OP,     MPI_GROUP_NULL};
  return true;
#endif
}

}  // namespace clusterprof::mpi_wrap
