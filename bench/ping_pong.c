/* 8-byte ping-pong between two ranks; prints the nanoseconds of one MPI_Send or MPI_Recv call
 * (a quarter of a round trip): the median over batches. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBatches = 201, kRounds = 2000 };

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int other = 1 - rank;
  double payload = 0.0, batch_ns[kBatches];
  for (int batch = 0; batch < kBatches; ++batch) {
    const double begin = MPI_Wtime();
    for (int round = 0; round < kRounds; ++round) {
      if (rank == 0) {
        MPI_Send(&payload, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD);
        MPI_Recv(&payload, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(&payload, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&payload, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD);
      }
    }
    batch_ns[batch] = (MPI_Wtime() - begin) * 1e9 / kRounds / 4;
  }
  qsort(batch_ns, kBatches, sizeof batch_ns[0], compare);
  if (rank == 0) printf("call_ns %.1f\n", batch_ns[kBatches / 2]);
  MPI_Finalize();
  return 0;
}
