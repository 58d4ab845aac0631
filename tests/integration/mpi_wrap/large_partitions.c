// SPDX-License-Identifier: BSD-3-Clause
// One partitioned message of this process to itself whose partitions have more elements than an int can say.
// For fake_library.c, which moves no data and checks the count.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kParts = 3, kTag = 7 };
static const MPI_Count kElements = ((MPI_Count)1 << 33) + 5;

int main(int argc, char** argv) {
  MPI_Request requests[2];
  char byte = 0;
  MPI_Init(&argc, &argv);
  char path[4096];
  snprintf(path, sizeof path, "%s/rank0.txt", getenv("EXPECT_DIR"));
  FILE* const out = fopen(path, "w");
  if (out == NULL) return 1;
  const int sends = MPI_Psend_init(&byte, kParts, kElements, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_INFO_NULL,
                                   &requests[0]);
  const int receives = MPI_Precv_init(&byte, kParts, kElements, MPI_BYTE, 0, kTag, MPI_COMM_WORLD,
                                      MPI_INFO_NULL, &requests[1]);
  if (sends != MPI_SUCCESS || receives != MPI_SUCCESS) return 1;
  MPI_Start(&requests[0]);
  MPI_Start(&requests[1]);
  MPI_Pready_range(0, kParts - 1, requests[0]);
  for (int i = 0; i < 2; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
  const long long bytes = kParts * (long long)kElements;
  fprintf(out, "peer 0 0 1 %lld\nop MPI_Psend_init 1 %lld 0\nop MPI_Precv_init 1 0 %lld\n", bytes, bytes,
          bytes);
  fclose(out);
  MPI_Finalize();
  puts("large partitions done");
  return 0;
}
