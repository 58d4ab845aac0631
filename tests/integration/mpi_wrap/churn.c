// SPDX-License-Identifier: BSD-3-Clause
// churn COUNT: makes COUNT communicators, talks on each and frees it. Its memory must not grow meanwhile.
// churn COUNT all: frees them at the end, and talks on each before.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long resident_kib(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) MPI_Abort(MPI_COMM_WORLD, 2);
  fclose(file);
  return pages * 4;
}

static void keep_all(int count) {
  MPI_Comm* const made = malloc((size_t)count * sizeof *made);
  if (made == NULL) MPI_Abort(MPI_COMM_WORLD, 5);
  for (int i = 0; i < count; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &made[i]);
  MPI_Comm_set_name(made[count - 1], "last");
  for (int i = 0; i < count; ++i) MPI_Barrier(made[i]);
  for (int i = 0; i < count; ++i) MPI_Comm_free(&made[i]);
  free(made);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int count = argc > 1 ? atoi(argv[1]) : 1000;
  if (argc > 2) {
    keep_all(count);
    puts("churn done");
    MPI_Finalize();
    return 0;
  }
  int rank, size, got;
  long before = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < count; ++i) {
    MPI_Comm made;
    if (i % 2 == 0) {
      MPI_Comm_dup(MPI_COMM_WORLD, &made);
    } else {
      MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &made);
    }
    if (i % 100 == 0) {
      // With more tags than a communicator has room for without memory of its own.
      int here;
      MPI_Comm_rank(made, &here);
      for (int tag = 0; tag < 40; ++tag) {
        MPI_Sendrecv(&i, 1, MPI_INT, (here + 1) % size, tag, &got, 1, MPI_INT, (here + size - 1) % size, tag,
                     made, MPI_STATUS_IGNORE);
        if (got != i) MPI_Abort(MPI_COMM_WORLD, 3);
      }
    }
    MPI_Barrier(made);
    MPI_Barrier(made);
    MPI_Comm_free(&made);
    if (i == count / 5) before = resident_kib();
  }
  // It grows by at most 8 KiB without a leak, whatever COUNT is.
  const long most_kib = 128, grown = resident_kib() - before;
  if (grown > most_kib) {
    fprintf(stderr, "rank %d grew by %ld KiB\n", rank, grown);
    MPI_Abort(MPI_COMM_WORLD, 4);
  }
  if (rank == 0) puts("churn done");
  MPI_Finalize();
  return 0;
}
