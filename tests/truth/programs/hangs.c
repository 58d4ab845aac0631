// SPDX-License-Identifier: BSD-3-Clause
// Three ranks, of which some wait for what nobody will do, or will do late:
// hangs asleep|loop|lock|finalize|cycle|mismatch|roots|sizes|computes MARK
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Without it, the call before would be a jump, and the function in no call path.
#define KEEP_THE_FRAME __asm__ volatile("")

static int rank, value;

__attribute__((noinline)) static void be_asleep(void) {
  struct timespec left = {600, 0};
  while (nanosleep(&left, &left) != 0) {
  }
}

static volatile int stop;
__attribute__((noinline)) static void spin(void) {
  while (!stop) {
  }
}

__attribute__((noinline)) static void lock_twice(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_lock(&mutex);
  KEEP_THE_FRAME;
}

static volatile double sum;
__attribute__((noinline)) static double grow(double x) { return x + exp(sin(x)); }
__attribute__((noinline)) static double shrink(double x) { return log1p(fabs(x)) * cos(x); }
__attribute__((noinline)) static void compute(void) {
  while (!stop)
    for (int i = 0; i < 1000; ++i) sum = i % 2 != 0 ? grow(sum) : shrink(sum);
}

__attribute__((noinline)) static void wait_in_barrier(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  KEEP_THE_FRAME;
}
__attribute__((noinline)) static void wait_for(int source) {
  MPI_Recv(&value, 1, MPI_INT, source, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  KEEP_THE_FRAME;
}

// A root that gives less than the others expect leaves the operation. Where the library moves data in pieces,
// they wait for the rest.
__attribute__((noinline)) static void broadcast(int count) {
  static int values[1000];
  MPI_Bcast(values, count, MPI_INT, 0, MPI_COMM_WORLD);
  KEEP_THE_FRAME;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* const kind = argc > 1 ? argv[1] : "";
  const int at_fault = rank == 2;
  int result = 0;
  MPI_Allreduce(&rank, &result, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);  // operation 0
  if (strcmp(kind, "cycle") == 0) {
    wait_for((rank + 2) % 3);
  } else if (strcmp(kind, "finalize") == 0) {
    if (!at_fault) wait_for(2);
  } else if (strcmp(kind, "mismatch") == 0) {
    if (at_fault)
      MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    else
      MPI_Allreduce(&rank, &result, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(kind, "roots") == 0) {
    MPI_Reduce(&rank, &result, 1, MPI_INT, MPI_SUM, at_fault ? 2 : 0, MPI_COMM_WORLD);
    wait_in_barrier();
  } else if (strcmp(kind, "sizes") == 0) {
    broadcast(rank == 0 ? 10 : 1000);
    wait_in_barrier();
  } else {
    if (!at_fault) wait_in_barrier();
    if (strcmp(kind, "asleep") == 0) be_asleep();
    if (strcmp(kind, "loop") == 0) spin();
    if (strcmp(kind, "lock") == 0) lock_twice();
    if (strcmp(kind, "computes") == 0) compute();
  }
  MPI_Finalize();
  return 0;
}
