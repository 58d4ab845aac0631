/* mpi_operations exchange|allreduce|iprobe|test: prints the median nanoseconds of one MPI call over batches.
 *   exchange   MPI_Irecv, MPI_Isend, MPI_Waitall of 8 bytes between neighbours
 *   allreduce  of 8 bytes
 *   iprobe     that finds nothing
 *   test       of a receive whose message does not come */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatches = 401, kRounds = 2000 };

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const char* const what = argc > 1 ? argv[1] : "exchange";
  int rank, size, flag = 0, calls = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  double sent = 1.0, received = 0.0, batch_ns[kBatches];
  MPI_Request requests[2], waiting;
  MPI_Irecv(&received, 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &waiting);
  for (int batch = 0; batch < kBatches; ++batch) {
    const double begin = MPI_Wtime();
    if (strcmp(what, "exchange") == 0) {
      calls = 3;
      for (int round = 0; round < kRounds; ++round) {
        MPI_Irecv(&received, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&sent, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      }
    } else if (strcmp(what, "allreduce") == 0) {
      for (int round = 0; round < kRounds; ++round)
        MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    } else if (strcmp(what, "iprobe") == 0) {
      for (int round = 0; round < kRounds; ++round)
        MPI_Iprobe(left, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    } else {
      for (int round = 0; round < kRounds; ++round) MPI_Test(&waiting, &flag, MPI_STATUS_IGNORE);
    }
    batch_ns[batch] = (MPI_Wtime() - begin) * 1e9 / kRounds / calls;
  }
  MPI_Send(&sent, 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD);
  MPI_Wait(&waiting, MPI_STATUS_IGNORE);
  qsort(batch_ns, kBatches, sizeof batch_ns[0], compare);
  if (rank == 0) printf("call_ns %.1f\n", batch_ns[kBatches / 2]);
  MPI_Finalize();
  return 0;
}
