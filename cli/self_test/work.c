// SPDX-License-Identifier: BSD-3-Clause
// libexec/clusterprof/self-test: a program that knows by its own clocks what a profile of it has to say.
// Recorded by `clusterprof doctor --self-test`. Without MPI: computes for three seconds of CPU time, three
// quarters of it in one function, and sleeps for half a second.
#include <stdio.h>
#include <time.h>

#define NEVER_INLINED __attribute__((noinline, noclone))

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Until the thread has used so much more CPU time. What it computes is of no interest.
#define COMPUTE(length_s)                                        \
  const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);         \
  double now = begin;                                            \
  volatile double sum = 0;                                       \
  while (now < begin + (length_s)) {                             \
    for (int i = 1; i < 20000; ++i) sum = sum + 1.0 / (double)i; \
    now = seconds(CLOCK_THREAD_CPUTIME_ID);                      \
  }                                                              \
  return now - begin

NEVER_INLINED double three_quarters(double length_s) { COMPUTE(3 * length_s); }
NEVER_INLINED double one_quarter(double length_s) { COMPUTE(length_s); }

NEVER_INLINED double sleeps(void) {
  const double begin = seconds(CLOCK_MONOTONIC);
  const struct timespec half = {0, 500000000};
  nanosleep(&half, NULL);
  return seconds(CLOCK_MONOTONIC) - begin;
}

int main(void) {
  double three = 0, one = 0;
  while (three + one < 3) {
    three += three_quarters(0.0137);  // no multiple of a sampling period
    one += one_quarter(0.0137);
  }
  printf("three_quarters_s %.9f\none_quarter_s %.9f\nsleeps_s %.9f\n", three, one, sleeps());
  return 0;
}
