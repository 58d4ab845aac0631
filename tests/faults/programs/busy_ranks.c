// SPDX-License-Identifier: BSD-3-Clause
// Ranks with many threads that compute all the time, on changing call paths, and meet now and then. All steps
// of the work have the same result, so that the output depends on nothing but the numbers of ranks and
// threads.
//
//   busy_ranks THREADS SECONDS [FILE]     FILE: how many steps all of them have taken
#include <inttypes.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kMaxThreads = 256, kPaths = 8 };

static atomic_int g_stop;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

__attribute__((noinline)) static uint64_t mix(uint64_t value) {
  for (int i = 0; i < 100000; ++i) value = value * 6364136223846793005u + 1442695040888963407u;
  return value;
}

// Down by one of kPaths ways, which only the call path tells.
#define WAY(number)                                                                                        \
  __attribute__((noinline)) static uint64_t way_##number(int depth, uint64_t value) {                      \
    return depth == 0 ? mix(value) : (way_##number(depth - 1, value) ^ (uint64_t)depth) ^ (uint64_t)depth; \
  }
WAY(0)
WAY(1)
WAY(2)
WAY(3)
WAY(4)
WAY(5)
WAY(6)
WAY(7)

static uint64_t (*const kWays[kPaths])(int, uint64_t) = {way_0, way_1, way_2, way_3,
                                                         way_4, way_5, way_6, way_7};

struct Worker {
  uint64_t steps, wrong;
};

static void step(struct Worker* worker) {
  static const int kDepths[] = {0, 1, 3, 6};
  const uint64_t number = worker->steps++;
  if (kWays[number % kPaths](kDepths[number / kPaths % 4], 1) != mix(1)) ++worker->wrong;
}

static void* work(void* given) {
  while (!atomic_load_explicit(&g_stop, memory_order_relaxed)) step(given);
  return NULL;
}

int main(int argc, char** argv) {
  int level = 0, rank = 0, ranks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int threads = argc > 2 ? atoi(argv[1]) : 0;
  const double length_s = argc > 2 ? atof(argv[2]) : 0;
  if (threads < 1 || threads > kMaxThreads || length_s <= 0) MPI_Abort(MPI_COMM_WORLD, 2);
  static struct Worker workers[kMaxThreads];
  pthread_t others[kMaxThreads];
  for (int i = 1; i < threads; ++i)
    if (pthread_create(&others[i], NULL, work, &workers[i]) != 0) MPI_Abort(MPI_COMM_WORLD, 3);
  const double begin = seconds();
  for (int goes_on = 1; goes_on;) {
    const double until = seconds() + length_s / 16;
    while (seconds() < until) step(&workers[0]);
    goes_on = seconds() - begin < length_s;
    MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  atomic_store(&g_stop, 1);
  uint64_t mine[2] = {0, 0}, all[2] = {0, 0};
  for (int i = 0; i < threads; ++i) {
    if (i != 0) pthread_join(others[i], NULL);
    mine[0] += workers[i].steps, mine[1] += workers[i].wrong;
  }
  MPI_Reduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%d ranks of %d threads: %" PRIu64 " steps went wrong\n", ranks, threads, all[1]);
    FILE* const file = argc > 3 ? fopen(argv[3], "w") : NULL;
    if (file != NULL) {
      fprintf(file, "%" PRIu64 "\n", all[0]);
      fclose(file);
    }
  }
  MPI_Finalize();
  // A mpirun that got no processor may see the end of a process before it has read that MPI is over there,
  // and ends the job: without clusterprof as well.
  nanosleep(&(struct timespec){0, 300000000}, NULL);
  return mine[1] == 0 ? 0 : 1;
}
