// SPDX-License-Identifier: BSD-3-Clause
// Every started process sends 800 bytes to its right neighbour; together they start two more of
// themselves, and the first parent sends to the first child, whose world is another one.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  static double out[100], in[100];
  MPI_Comm parent, children;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_parent(&parent);
  MPI_Sendrecv(out, 100, MPI_DOUBLE, (rank + 1) % size, 1, in, 100, MPI_DOUBLE, (rank + size - 1) % size, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (parent != MPI_COMM_NULL) {
    if (rank == 0) MPI_Recv(in, 10, MPI_DOUBLE, 0, 1, parent, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&parent);
  } else {
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    if (rank == 0) MPI_Send(out, 10, MPI_DOUBLE, 0, 1, children);
    MPI_Comm_disconnect(&children);
    if (rank == 0) puts("spawn done");
  }
  MPI_Finalize();
  return 0;
}
