/* Ends the way it is told, after MPI_Init and a little work: ends HOW [N [RANK]]
 *   exit N | segv | abort | mpi_abort N | no_finalize | normal
 * With RANK, only that rank does; the others wait for it in MPI_Barrier. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "normal";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("rank %d is here\n", rank);
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  /* mpiexec of MPICH may throw away output that it has not read when a rank aborts. */
  usleep(300000);
  if (argc > 3 && rank != atoi(argv[3])) MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(how, "mpi_abort") == 0) MPI_Abort(MPI_COMM_WORLD, number);
  if (strcmp(how, "segv") == 0) {
    volatile int* nowhere = NULL;
    *nowhere = 1;
  }
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "no_finalize") == 0) exit(0);
  MPI_Finalize();
  if (strcmp(how, "exit") == 0) exit(number);
  return 0;
}
