/* Rank r works (r + 1) units between barriers and says how long every rank ran outside MPI, by
 * its own CPU clock, which stops while others have the processor: prints "load_balance X slowest R" with X =
 * mean / max over the ranks, then "useful R SECONDS" for every rank: all its CPU time between MPI_Init and
 * MPI_Finalize but for what its barriers took. */
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

static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? atoi(argv[1]) : 5;
  double useful = 0.0, outside_mpi = 0.0, left_mpi = cpu_s();
  for (int round = 0; round < rounds; ++round) {
    outside_mpi += cpu_s() - left_mpi;
    MPI_Barrier(MPI_COMM_WORLD);
    left_mpi = cpu_s();
    const double before = left_mpi;
    work(rank + 1);
    useful += cpu_s() - before;
  }
  outside_mpi += cpu_s() - left_mpi;
  MPI_Barrier(MPI_COMM_WORLD);
  double sum = 0.0;
  struct {
    double useful;
    int rank;
  } own = {useful, rank}, max = {0.0, 0};
  MPI_Reduce(&useful, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&own, &max, 1, MPI_DOUBLE_INT, MPI_MAXLOC, 0, MPI_COMM_WORLD);
  double* const all = malloc((size_t)size * sizeof(double));
  MPI_Gather(&outside_mpi, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("load_balance %.6f slowest %d\n", sum / size / max.useful, max.rank);
  for (int i = 0; rank == 0 && i < size; ++i) printf("useful %d %.6f\n", i, all[i]);
  free(all);
  MPI_Finalize();
  return 0;
}
