/* SPDX-License-Identifier: BSD-3-Clause
 * Ranks that sleep in functions whose times follow known laws of the number of ranks p: shrinking() 1.6 s /
 * p, constant() 0.4 s, linear() 0.1 s * p; with the argument "more" also logarithmic() 0.1 s * (1 + log2 p),
 * steep() 0.02 s * p^1.5, and a barrier in which the others wait for rank 0, 0.05 s * (p - 1) on average.
 * With a number as the argument, all of them take so many times as long.
 * Sleeping, so that more ranks than processors do not disturb each other. Prints the mean time of a rank in
 * each of them, as measured, as JSON. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double times = 1;

static double rest(double of_one) {
  const double begin = now(), seconds = of_one * times;
  const struct timespec duration = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&duration, NULL);
  return now() - begin;
}

__attribute__((noinline, noclone)) static double shrinking(int ranks) {
  double spent = 0;
  for (int i = 0; i < 4; ++i) spent += rest(0.4 / ranks);
  return spent;
}

__attribute__((noinline, noclone)) static double constant(void) {
  double spent = 0;
  for (int i = 0; i < 4; ++i) spent += rest(0.1);
  return spent;
}

__attribute__((noinline, noclone)) static double linear(int ranks) {
  double spent = 0;
  for (int i = 0; i < 4; ++i) spent += rest(0.025 * ranks);
  return spent;
}

__attribute__((noinline, noclone)) static double logarithmic(int ranks) {
  double spent = 0;
  for (int i = 0; i < 4; ++i) spent += rest(0.025 * (1 + log2(ranks)));
  return spent;
}

__attribute__((noinline, noclone)) static double steep(int ranks) {
  double spent = 0;
  for (int i = 0; i < 4; ++i) spent += rest(0.005 * pow(ranks, 1.5));
  return spent;
}

__attribute__((noinline, noclone)) static double barriers(int rank, int ranks) {
  double spent = 0;
  for (int i = 0; i < 4; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) rest(0.0125 * ranks);
    const double begin = now();
    MPI_Barrier(MPI_COMM_WORLD);
    spent += now() - begin;
  }
  return spent;
}

static void more(int rank, int ranks) {
  double spent[3], sum[3];
  spent[0] = logarithmic(ranks);
  spent[1] = steep(ranks);
  spent[2] = barriers(rank, ranks);
  MPI_Reduce(spent, sum, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf(", \"logarithmic\": %.6f, \"steep\": %.6f, \"MPI_Barrier\": %.6f", sum[0] / ranks, sum[1] / ranks,
           sum[2] / ranks);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int has_more = argc > 1 && strcmp(argv[1], "more") == 0;
  if (argc > 1 && !has_more) times = atof(argv[1]);
  double spent[3], sum[3];
  spent[0] = shrinking(ranks);
  spent[1] = constant();
  spent[2] = linear(ranks);
  MPI_Reduce(spent, sum, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("{\"shrinking\": %.6f, \"constant\": %.6f, \"linear\": %.6f", sum[0] / ranks, sum[1] / ranks,
           sum[2] / ranks);
  if (has_more) more(rank, ranks);
  if (rank == 0) puts("}");
  MPI_Finalize();
  return 0;
}
