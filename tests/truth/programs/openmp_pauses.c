// Recording is paused before a region and goes on within it, and is paused within another one. Prints as JSON
// how often regions ran that no pause touches, and how long the threads worked after the first pause by their
// own clock, all together.
#include <omp.h>
#include <stdio.h>
#include <time.h>

#include "include/clusterprof.h"

enum { kCounted = 4 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void spin(double seconds) {
  const double end = now() + seconds;
  while (now() < end) {
  }
}

static struct {
  double seconds;
  char pad[120];
} stretches[64];

__attribute__((noinline)) static void stretch(void) {
  const double begin = now();
  spin(0.5);
  stretches[omp_get_thread_num()].seconds += now() - begin;
}

// None of these functions ends with its region: the compiler would make a jump of the call, and the function
// would be in no stack.
static volatile int sink;

__attribute__((noinline)) static void counted(void) {
#pragma omp parallel
  spin(0.01);
  ++sink;
}

__attribute__((noinline)) static void paused_before(void) {
  clusterprof_pause();
#pragma omp parallel
  {
#pragma omp master
    clusterprof_resume();
#pragma omp barrier
    stretch();
  }
  ++sink;
}

__attribute__((noinline)) static void paused_within(void) {
#pragma omp parallel
  {
    spin(0.01);
#pragma omp barrier
#pragma omp master
    {
      clusterprof_pause();
      spin(0.01);
      clusterprof_resume();
    }
#pragma omp barrier
    spin(0.01);
  }
  ++sink;
}

int main(void) {
  for (int i = 0; i < kCounted; ++i) {
    counted();
    if (i == 0) paused_before();
    if (i == 1) paused_within();
  }
  double sum = 0;
  for (size_t i = 0; i < sizeof stretches / sizeof *stretches; ++i) sum += stretches[i].seconds;
  printf("{\"counted\": %d, \"stretches_s\": %.9f}\n", (int)kCounted, sum);
  return 0;
}
