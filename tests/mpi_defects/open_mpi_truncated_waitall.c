/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI 4.1 alone, without clusterprof: MPI_Waitall of a receive whose message does not fit, with
 * MPI_THREAD_MULTIPLE. It should return an error; now and then it never returns. With the argument "wait"
 * MPI_Wait is called instead. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  enum { kRounds = 20000, kTag = 1 };
  int me, ranks, threads, nothing, as_expected = 0;
  MPI_Request request;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int by_wait = argc > 1 && strcmp(argv[1], "wait") == 0;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Send(&round, 1, MPI_INT, (me + 1) % ranks, kTag, MPI_COMM_WORLD);
    MPI_Irecv(&nothing, 0, MPI_INT, (me + ranks - 1) % ranks, kTag, MPI_COMM_WORLD, &request);
    const int result =
        by_wait ? MPI_Wait(&request, MPI_STATUS_IGNORE) : MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    as_expected += result != MPI_SUCCESS;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  printf("rank %d: %d of %d calls returned an error\n", me, as_expected, kRounds);
  MPI_Finalize();
  return 0;
}
