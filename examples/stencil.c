/* Heat on a square plate: a 5-point stencil, rows spread over the ranks, halo rows exchanged
 * with MPI_Sendrecv, convergence looked at with MPI_Allreduce.
 *
 *     mpicc -O2 -g stencil.c -o stencil
 *     mpirun -n 4 clusterprof ./stencil [SIZE] [STEPS]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

static void exchange_halo(double* grid, int rows, int columns) {
  const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int below = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  MPI_Sendrecv(grid + columns, columns, MPI_DOUBLE, above, 0,
               grid + (rows + 1) * columns, columns, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(grid + rows * columns, columns, MPI_DOUBLE, below, 1,
               grid, columns, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static double relax(const double* from, double* to, int rows, int columns) {
  double change = 0.0;
  for (int y = 1; y <= rows; ++y) {
    for (int x = 1; x < columns - 1; ++x) {
      const double* p = from + (long)y * columns + x;
      const double value = 0.25 * (p[-1] + p[1] + p[-columns] + p[columns]);
      change += (value - *p) * (value - *p);
      to[(long)y * columns + x] = value;
    }
  }
  return change;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int columns = argc > 1 ? atoi(argv[1]) : 2000;
  const int steps = argc > 2 ? atoi(argv[2]) : 500;
  const int rows = columns / size;

  double* grid = calloc((size_t)(rows + 2) * columns, sizeof *grid);
  double* next = calloc((size_t)(rows + 2) * columns, sizeof *next);
  if (!grid || !next) MPI_Abort(MPI_COMM_WORLD, 1);
  if (rank == 0) {
    for (int x = 0; x < columns; ++x) grid[x] = next[x] = 100.0; /* the hot edge */
  }

  double total = 0.0;
  for (int step = 0; step < steps; ++step) {
    exchange_halo(grid, rows, columns);
    const double change = relax(grid, next, rows, columns);
    double* swap = grid;
    grid = next;
    next = swap;
    if (step % 50 == 49) MPI_Allreduce(&change, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("last change %.6e\n", sqrt(total));
  free(grid);
  free(next);
  MPI_Finalize();
  return 0;
}
