/* SPDX-License-Identifier: BSD-3-Clause */
/* Like files.c, but with MPI-IO; rank 0 prints what all ranks did together. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  enum { kBytes = 100000 };
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char path[600];
  snprintf(path, sizeof path, "%s/collective", argv[1]);
  char* const data = calloc(1, kBytes);
  MPI_File file;
  if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) !=
      MPI_SUCCESS)
    MPI_Abort(MPI_COMM_WORLD, 1);
  // What this has loaded is known to the agent some hundredths of a second later; until then call paths may
  // begin there.
  usleep(300000);
  MPI_File_write_at_all(file, (MPI_Offset)rank * kBytes, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_read_at(file, (MPI_Offset)rank * kBytes, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  if (rank == 0)
    printf("expect %s write -1 %d\nexpect %s read -1 %d\n", path, size * kBytes, path, size * kBytes);
  free(data);
  MPI_Finalize();
  return 0;
}
