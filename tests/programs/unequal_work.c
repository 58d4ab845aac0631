/* Rank r works (r + 1) units between barriers and says how long every rank ran outside MPI, by
 * its own CPU clock, which stops while others have the processor: prints "load_balance X" with X = mean / max
 * over the ranks, then "useful R SECONDS ELAPSED" for every rank: all its CPU time between MPI_Init and
 * MPI_Finalize but for what its barriers took, and how long its work took by the clock on the wall. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile double sink;

static void work(long units) {
  double value = 0.0;
  for (long i = 0; i < units * 20000000L; ++i) value += 1.0 / (double)(i + 1);
  sink = value;
}

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static double cpu_s(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? atoi(argv[1]) : 5;
  double useful = 0.0, elapsed = 0.0, outside_mpi = 0.0, left_mpi = cpu_s();
  for (int round = 0; round < rounds; ++round) {
    outside_mpi += cpu_s() - left_mpi;
    MPI_Barrier(MPI_COMM_WORLD);
    left_mpi = cpu_s();
    const double before = left_mpi, began = seconds(CLOCK_MONOTONIC);
    work(rank + 1);
    useful += cpu_s() - before;
    elapsed += seconds(CLOCK_MONOTONIC) - began;
  }
  outside_mpi += cpu_s() - left_mpi;
  MPI_Barrier(MPI_COMM_WORLD);
  double sum = 0.0, max = 0.0;
  MPI_Reduce(&useful, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&useful, &max, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  const double own[2] = {outside_mpi, elapsed};
  double* const all = malloc(2 * (size_t)size * sizeof(double));
  MPI_Gather(own, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("load_balance %.6f\n", sum / size / max);
  for (int i = 0; rank == 0 && i < size; ++i) printf("useful %d %.6f %.6f\n", i, all[2 * i], all[2 * i + 1]);
  free(all);
  MPI_Finalize();
  return 0;
}
