/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks or more that hold the most at different times, and all together at another one, while a thread of
 * each leaks. Rank 0 writes lines of JSON: what each rank did when, in seconds of its own clock, and how many
 * blocks it has leaked. Bytes of each line are in tests/truth/memory_test.py. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone))
#define MIB ((size_t)1 << 20)

enum { kBlock = 1000, kHeldBlocks = 64000, kChurns = 3000, kCopies = 200, kLeakAtOnce = 40 };

static void* volatile g_held[kHeldBlocks];
static void* volatile g_leaked;
static long g_leaks;
static int g_leaks_on = 1;
static pthread_mutex_t g_leaking = PTHREAD_MUTEX_INITIALIZER; /* held while nothing may leak */
char g_from[1 << 20], g_to[1 << 20];                          /* not static: the compiler has to copy */
static char* volatile g_block;
static double g_start_s, g_longest_pause_s; /* in which nothing leaks */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static void rest(double seconds) {
  const struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  nanosleep(&time, NULL);
}

static OWN void hold(void) {
  for (int i = 0; i < kHeldBlocks; ++i) g_held[i] = malloc(kBlock);
  __asm__ volatile("");
}
static OWN void first(void) {
  g_block = malloc(200 * MIB);
  __asm__ volatile("");
}
static OWN void second(void) {
  g_block = malloc(160 * MIB);
  __asm__ volatile("");
}
static OWN void both(void) {
  g_block = malloc(120 * MIB);
  __asm__ volatile("");
}
static OWN void mapped(void) {
  mmap(NULL, 48 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  __asm__ volatile("");
}
static OWN void by_mpi(void) {
  void* block = NULL;
  MPI_Alloc_mem(16 << 20, MPI_INFO_NULL, &block);
  g_block = block;
}
static OWN void churn(void) {
  for (int i = 0; i < kChurns; ++i) {
    g_block = malloc(20000);
    free(g_block);
  }
}
static OWN void copy(void) {
  volatile size_t bytes = sizeof g_to - 1;
  for (int i = 0; i < kCopies; ++i) memcpy(g_to, g_from, bytes);
  __asm__ volatile("");
}
/* Two megabytes a second, so that what is held at the peaks is much more. */
static OWN void leak(void) {
  for (int i = 0; i < kLeakAtOnce; ++i) g_leaked = malloc(kBlock);
  g_leaks += kLeakAtOnce;
}
static void* go_on_leaking(void* none) {
  for (;;) {
    pthread_mutex_lock(&g_leaking);
    const int goes_on = g_leaks_on;
    if (goes_on) leak();
    pthread_mutex_unlock(&g_leaking);
    if (!goes_on) return none;
    rest(0.02);
  }
}

struct Phase {
  double before_s, after_s;
};

/* Those ranks hold a block until all have seen that. Nothing leaks meanwhile: the peak is when it is
 * allocated. */
static struct Phase together(void (*allocate)(void), int mine) {
  pthread_mutex_lock(&g_leaking);
  struct Phase phase = {now_s(), 0};
  if (mine) allocate();
  phase.after_s = now_s();
  MPI_Barrier(MPI_COMM_WORLD);
  rest(0.4);
  MPI_Barrier(MPI_COMM_WORLD);
  if (mine) free(g_block);
  MPI_Barrier(MPI_COMM_WORLD);
  const double pause_s = now_s() - phase.before_s;
  if (pause_s > g_longest_pause_s) g_longest_pause_s = pause_s;
  pthread_mutex_unlock(&g_leaking);
  rest(0.6);
  return phase;
}

struct Told {
  struct Phase phases[3];
  double leaks;
};

/* When all ranks may end. What is kept has to be allocated in the first eighth of each one's life, and no
 * eighth may be without a leak, however long these take. */
static double end_s(double kept_s) {
  double lasts_s = 12 * kept_s > 8 * g_longest_pause_s ? 12 * kept_s : 8 * g_longest_pause_s, longest_s = 0;
  MPI_Allreduce(&lasts_s, &longest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return g_start_s + (longest_s < 8 ? 8 : longest_s > 40 ? 40 : longest_s);
}

int main(int count, char** arguments) {
  g_start_s = now_s();
  MPI_Init(&count, &arguments);
  pthread_t leaking;
  if (pthread_create(&leaking, NULL, go_on_leaking, NULL) != 0) return 1;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  hold();
  mapped();
  by_mpi();
  churn();
  copy();
  const double kept_s = now_s() - g_start_s;
  struct Told told;
  told.phases[0] = together(first, rank == 0);
  told.phases[1] = together(second, rank == 1);
  told.phases[2] = together(both, rank < 2);
  const double left_s = end_s(kept_s) - now_s();
  if (left_s > 0) rest(left_s);
  pthread_mutex_lock(&g_leaking);
  g_leaks_on = 0;
  pthread_mutex_unlock(&g_leaking);
  pthread_join(leaking, NULL);
  told.leaks = (double)g_leaks;
  struct Told all[2];
  if (rank < 2)
    MPI_Sendrecv(&told, sizeof told, MPI_BYTE, 0, rank, &all[0], sizeof told, MPI_BYTE,
                 rank == 0 ? 0 : MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) {
    MPI_Recv(&all[1], sizeof told, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const char* const names[3] = {"first", "second", "both"};
    for (int i = 0; i < 3; ++i)
      printf("{\"phase\": \"%s\", \"before_s\": [%.6f, %.6f], \"after_s\": [%.6f, %.6f]}\n", names[i],
             all[0].phases[i].before_s, all[1].phases[i].before_s, all[0].phases[i].after_s,
             all[1].phases[i].after_s);
    printf("{\"phase\": \"leak\", \"blocks\": [%.0f, %.0f]}\n", all[0].leaks, all[1].leaks);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
