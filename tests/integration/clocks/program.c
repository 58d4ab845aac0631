// SPDX-License-Identifier: BSD-3-Clause
// Runs for the milliseconds it is told to. Every rank receives from its left neighbour with wildcards only,
// before any other communication, and prints what it got: a message that is not the program's would be seen.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  int rank, size, sum, got[4] = {-1, -1, -1, -1};
  MPI_Request request;
  MPI_Status status;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  // While others still compare clocks: libraries wait spinning.
  const int milliseconds = argc > 1 ? atoi(argv[1]) : 0;
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
  MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, &request);
  MPI_Recv(got, sizeof got, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Allreduce(&got[0], &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d: %d from %d, tag %d; sum %d\n", rank, size, got[0], status.MPI_SOURCE, status.MPI_TAG,
         sum);
  MPI_Finalize();
  return 0;
}
