// SPDX-License-Identifier: BSD-3-Clause
// Another tool that wraps MPI in the usual way; preloaded after ours. Its own calls must go on.
#include <mpi.h>
#include <stdio.h>

static int sends;

int MPI_Send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  ++sends;
  return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Finalize(void) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("other tool saw %d sends\n", sends);
  return PMPI_Finalize();
}
