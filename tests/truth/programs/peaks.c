/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that hold the most at different times, and all together at another one. Rank 0 writes lines of JSON:
 * what each rank did when, in seconds of its own clock. peaks            two ranks or more Bytes of each line
 * are in tests/truth/memory_test.py. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone))
#define MIB ((size_t)1 << 20)

enum { kBlock = 1000, kHeldBlocks = 64000, kLeakBlocks = 24000, kChurns = 3000, kCopies = 200 };
enum { kParts = 96 }; /* of the time that leaks */

static void* volatile g_held[kHeldBlocks];
static void* volatile g_leaked[kLeakBlocks];
char g_from[1 << 20], g_to[1 << 20]; /* not static: the compiler has to copy */
static char* volatile g_block;
static double g_start_s;

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
/* Evenly over most of the time that the process lives. */
static OWN void leak(void) {
  const double lasts_s = 4 + 6 * (now_s() - g_start_s);
  for (int part = 0; part < kParts; ++part) {
    for (int i = 0; i < kLeakBlocks / kParts; ++i)
      g_leaked[part * (kLeakBlocks / kParts) + i] = malloc(kBlock);
    rest(lasts_s / kParts);
  }
}

struct Phase {
  double before_s, after_s;
};

/* Those ranks hold a block until all have seen that. */
static struct Phase together(void (*allocate)(void), int mine) {
  struct Phase phase = {now_s(), 0};
  if (mine) allocate();
  phase.after_s = now_s();
  MPI_Barrier(MPI_COMM_WORLD);
  rest(0.4);
  MPI_Barrier(MPI_COMM_WORLD);
  if (mine) free(g_block);
  MPI_Barrier(MPI_COMM_WORLD);
  return phase;
}

int main(int count, char** arguments) {
  g_start_s = now_s();
  MPI_Init(&count, &arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  hold();
  mapped();
  by_mpi();
  churn();
  copy();
  leak();
  struct Phase phases[3];
  phases[0] = together(first, rank == 0);
  phases[1] = together(second, rank == 1);
  phases[2] = together(both, rank < 2);
  struct Phase all[2][3];
  if (rank < 2)
    MPI_Sendrecv(phases, sizeof phases, MPI_BYTE, 0, rank, all[0], sizeof phases, MPI_BYTE,
                 rank == 0 ? 0 : MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) {
    MPI_Recv(all[1], sizeof phases, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const char* const names[3] = {"first", "second", "both"};
    for (int i = 0; i < 3; ++i)
      printf("{\"phase\": \"%s\", \"before_s\": [%.6f, %.6f], \"after_s\": [%.6f, %.6f]}\n", names[i],
             all[0][i].before_s, all[1][i].before_s, all[0][i].after_s, all[1][i].after_s);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
