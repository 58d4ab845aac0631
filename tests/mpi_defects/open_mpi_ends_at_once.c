/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI 4.1 alone, without clusterprof: ranks end as soon as MPI_Finalize has returned. On a busy machine
 * mpirun may see that a process is gone before it has read that MPI is over there ("exiting improperly").
 * With the argument "later" ranks wait for 0.3 s before they end. */
#include <mpi.h>
#include <string.h>
#include <time.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int later = argc > 1 && strcmp(argv[1], "later") == 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (later) nanosleep(&(struct timespec){0, 300000000}, NULL);
  return 0;
}
