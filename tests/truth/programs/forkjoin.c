/* SPDX-License-Identifier: BSD-3-Clause
 * Threads without MPI, as they are or with a change really made: forkjoin PATTERN none|half|equal [UNIT_S].
 * `half`: solve() takes half as long; `equal`: each thread has as much of it as the others. Patterns:
 *   workers  in each round three threads are made and joined; the second one has three times as much to do
 *   nested   a thread makes one of its own, and works beside it
 *   loop     a static OpenMP loop (built with -fopenmp), whose last part takes three times as long
 *   phases   two of them in one region; in the first one it is the first part
 * Work is sleeping, so that more threads than processors do not disturb each other. Prints as JSON how long
 * the rounds took. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kRounds = 4, kThreads = 3 };
static double unit = 0.1; /* seconds */
static int half, equal;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Sleeps, but for a moment: a thread that goes from one wait straight into the next one is noticed late. */
static void rest(double seconds) {
  const double begin = now();
  while (now() < begin + 0.005 && now() < begin + seconds) {
  }
  const double left = begin + seconds - now();
  if (left <= 0) return;
  const struct timespec duration = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
  nanosleep(&duration, NULL);
}

__attribute__((noinline, noclone)) static void solve(double units) {
  rest(unit * units * (half ? 0.5 : 1));
  __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void prepare(double units) {
  rest(unit * units);
  __asm__ volatile("");
}

/* One of `count` has three times as much to do as the others. */
static double share(int which, int slow, int count) {
  if (equal) return (count + 2.0) / count;
  return which == slow ? 3 : 1;
}

static void* worker(void* number) {
  solve(share(*(const int*)number, 1, kThreads));
  prepare(0.5);
  return NULL;
}

static void workers(void) {
  static const int numbers[kThreads] = {0, 1, 2};
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, worker, (void*)&numbers[i]) != 0) exit(1);
  prepare(1);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  prepare(0.5);
}

static void* inner(void* unused) {
  solve(3);
  return unused;
}

static void* outer(void* unused) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, inner, NULL) != 0) exit(1);
  prepare(1);
  pthread_join(thread, NULL);
  prepare(0.5);
  return unused;
}

static void nested(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, outer, NULL) != 0) exit(1);
  prepare(0.5);
  pthread_join(thread, NULL);
}

#ifdef _OPENMP
static void loop(void) {
  prepare(0.5);
#pragma omp parallel for schedule(static) num_threads(kThreads)
  for (int i = 0; i < kThreads; ++i) solve(share(i, 2, kThreads));
}

static void phases(void) {
#pragma omp parallel num_threads(kThreads)
  {
#pragma omp for schedule(static)
    for (int i = 0; i < kThreads; ++i) solve(share(i, 0, kThreads));
#pragma omp for schedule(static)
    for (int i = 0; i < kThreads; ++i) prepare(share(i, kThreads - 1, kThreads));
  }
}
#endif

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*round)(void);
  } patterns[] = {
      {"workers", workers},
      {"nested", nested},
#ifdef _OPENMP
      {"loop", loop},
      {"phases", phases},
#endif
  };
  if (argc > 3) unit = atof(argv[3]);
  void (*round)(void) = NULL;
  for (size_t i = 0; argc > 2 && i < sizeof patterns / sizeof patterns[0]; ++i)
    if (strcmp(argv[1], patterns[i].name) == 0) round = patterns[i].round;
  if (round == NULL) {
    fprintf(stderr, "usage: forkjoin PATTERN none|half|equal [UNIT_S]\n");
    return 2;
  }
  half = strcmp(argv[2], "half") == 0;
  equal = strcmp(argv[2], "equal") == 0;
  const double begin = now();
  for (int i = 0; i < kRounds; ++i) round();
  printf("{\"elapsed_s\": %.6f}\n", now() - begin);
  return 0;
}
