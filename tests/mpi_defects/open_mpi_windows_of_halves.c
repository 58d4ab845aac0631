/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI 4.1 alone, without clusterprof: two halves of MPI_COMM_WORLD make a window of shared memory at the
 * same time. The file of that memory is named after the communicator's number, which is the same for both
 * halves, so one half may take away the other's. With the argument "in-turn" one half makes its window when
 * the other has made its own. */
#include <mpi.h>
#include <string.h>

int main(int argc, char** argv) {
  int me, *memory;
  MPI_Comm half;
  MPI_Win window;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
  const int in_turn = argc > 1 && strcmp(argv[1], "in-turn") == 0;
  if (in_turn && me % 2 == 1) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_allocate(400, sizeof(int), MPI_INFO_NULL, half, &memory, &window);
  if (in_turn && me % 2 == 0) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_free(&window);
  MPI_Comm_free(&half);
  MPI_Finalize();
  return 0;
}
