// SPDX-License-Identifier: BSD-3-Clause
// Without MPI_Init: a ring on a communicator made from a session, ranks turned round.
#include <mpi.h>
#include <stdio.h>

int main(void) {
  static double out[1000], in[1000];
  MPI_Session session;
  MPI_Group all;
  MPI_Comm comm;
  int rank, size;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
  MPI_Comm_create_from_group(all, "ring", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Sendrecv(out, 1000, MPI_DOUBLE, (rank + 1) % size, 1, in, 1000, MPI_DOUBLE, (rank + size - 1) % size, 1, comm,
               MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm);
  MPI_Group_free(&all);
  MPI_Session_finalize(&session);
  if (rank == 0) puts("sessions done");
  return 0;
}
