/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI 4.1 alone, without clusterprof: a rank spawns as many processes as its argument says, and all of
 * them say when MPI_Finalize has returned. Without mpirun fewer lines than processes may come. Under a mpirun
 * that has no place for so many, MPI_Comm_spawn returns an error, and then the job hangs or is ended in
 * MPI_Finalize. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int me, class = MPI_SUCCESS;
  MPI_Comm parent, children;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    MPI_Comm_disconnect(&parent);
  } else {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const int count = argc > 1 ? atoi(argv[1]) : 3;
    const int result = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, count, MPI_INFO_NULL, 0, MPI_COMM_SELF,
                                      &children, MPI_ERRCODES_IGNORE);
    MPI_Error_class(result, &class);
    printf("spawned: class %d\n", class);
    fflush(stdout);
    if (result == MPI_SUCCESS) MPI_Comm_disconnect(&children);
  }
  MPI_Finalize();
  printf("%s %d is back\n", parent == MPI_COMM_NULL ? "parent" : "child", me);
  return 0;
}
