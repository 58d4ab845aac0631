/* MPI_Send and MPI_Recv of 8 bytes from a rank to itself: no other process takes part, so what a
 * tool adds to a call shows without the noise of the other side. Prints the median nanoseconds of
 * one call over batches. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBatches = 401, kRounds = 2000 };

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  double sent = 0.0, received = 0.0, batch_ns[kBatches];
  MPI_Request request;
  for (int batch = 0; batch < kBatches; ++batch) {
    const double begin = MPI_Wtime();
    for (int round = 0; round < kRounds; ++round) {
      MPI_Irecv(&received, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &request);
      MPI_Send(&sent, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    batch_ns[batch] = (MPI_Wtime() - begin) * 1e9 / kRounds / 3;
  }
  qsort(batch_ns, kBatches, sizeof batch_ns[0], compare);
  printf("call_ns %.1f\n", batch_ns[kBatches / 2]);
  MPI_Finalize();
  return 0;
}
