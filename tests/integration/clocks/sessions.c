// SPDX-License-Identifier: BSD-3-Clause
// As program.c, with a session alone.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  int rank, size, sum, got[4] = {-1, -1, -1, -1};
  MPI_Session session;
  MPI_Group all;
  MPI_Comm comm;
  MPI_Request request;
  MPI_Status status;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
  MPI_Comm_create_from_group(all, "everyone", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int milliseconds = argc > 1 ? atoi(argv[1]) : 0;
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
  MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 7, comm, &request);
  MPI_Recv(got, sizeof got, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Allreduce(&got[0], &sum, 1, MPI_INT, MPI_SUM, comm);
  printf("rank %d of %d: %d from %d, tag %d; sum %d\n", rank, size, got[0], status.MPI_SOURCE, status.MPI_TAG,
         sum);
  MPI_Comm_free(&comm);
  MPI_Group_free(&all);
  MPI_Session_finalize(&session);
  return 0;
}
