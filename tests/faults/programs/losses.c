// SPDX-License-Identifier: BSD-3-Clause
// Dies after it has written down where it is: losses MARK END [ROUNDS [VICTIM]]
//
// Three phases of 100 ms of CPU time each, functions of their own; then END. What it did is in the file MARK
// (with WITH_MPI: MARK.RANK), which is a memory mapping, so that it is there whatever happens: struct Mark.
// With WITH_MPI all ranks exchange ROUNDS messages before; only the rank VICTIM has all phases and dies, when
// the others have had their first one; they wait for it in MPI_Barrier.
// It begins when there is the file that LOSSES_GATE names, if that is set.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

struct Mark {
  int64_t phase;         // begun last, from 1 on
  int64_t last_utc_ns;   // when it was last seen alive
  int64_t last_cpu_ns;   // and its CPU time then
  int64_t calls;         // of MPI_Sendrecv that returned
  int64_t phase_cpu_ns;  // of the last phase
};
static volatile struct Mark* mark;
static volatile uint64_t sink;

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void say(void) {
  mark->last_utc_ns = clock_ns(CLOCK_REALTIME);
  mark->last_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

#define PHASE(name, number)                                           \
  __attribute__((noinline)) static void name(int64_t ms) {            \
    const int64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);          \
    mark->phase = number;                                             \
    do {                                                              \
      for (int i = 0; i < 20000; ++i) sink = sink * 3 + number;       \
      mark->phase_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin; \
      say();                                                          \
    } while (mark->phase_cpu_ns < ms * 1000000);                      \
  }
PHASE(first_phase, 1)
PHASE(second_phase, 2)
PHASE(last_phase, 3)

// Shorter than any sampling period: a sample in here is one of its death.
__attribute__((noinline)) static void fault_here(int kind) {
  volatile int* volatile nowhere = (volatile int*)16;
  if (kind == SIGSEGV) *nowhere = 1;
  if (kind == SIGILL) __builtin_trap();
  if (kind == SIGBUS) {  // behind the end of a file
    const int file = memfd_create("empty", 0);
    nowhere = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    *nowhere = 1;
  }
}

__attribute__((noinline)) static void jump_to(uintptr_t address) {
  void (*volatile nowhere)(void) = (void (*)(void))address;
  nowhere();
}

__attribute__((noinline)) static int overflow(int depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  return overflow(depth + 1) + frame[0];
}

static void use_all_memory(void) {
  for (;;) {
    char* const block = malloc(1 << 20);
    if (block == NULL) abort();
    memset(block, 1, 1 << 20);
    say();
  }
}

static void end(const char* how) {
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(how, "term") == 0) kill(getpid(), SIGTERM);
  if (strcmp(how, "group") == 0) kill(0, SIGTERM);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "segv") == 0) fault_here(SIGSEGV);
  if (strcmp(how, "bus") == 0) fault_here(SIGBUS);
  if (strcmp(how, "ill") == 0) fault_here(SIGILL);
  if (strcmp(how, "null_call") == 0) jump_to(0);
  if (strcmp(how, "wild_call") == 0) jump_to((uintptr_t)0xdead << 48);
  if (strcmp(how, "overflow") == 0) exit(overflow(0));
  if (strcmp(how, "_exit") == 0) _exit(3);
  if (strcmp(how, "exit") == 0) exit(3);
  if (strcmp(how, "quick_exit") == 0) quick_exit(3);
  if (strcmp(how, "memory") == 0) use_all_memory();
  if (strcmp(how, "wait") == 0)
    for (;;) last_phase(100);
#ifdef WITH_MPI
  if (strcmp(how, "mpi_abort") == 0) MPI_Abort(MPI_COMM_WORLD, 5);
#endif
}

int main(int argc, char** argv) {
  char name[4096];
  int rank = 0;
#ifdef WITH_MPI
  int size = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
#endif
  if (argc < 3) return 2;
  snprintf(name, sizeof name, "%s.%d", argv[1], rank);
  const int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ftruncate(file, sizeof(struct Mark)) != 0) return 2;
  mark = mmap(NULL, sizeof(struct Mark), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mark == MAP_FAILED) return 2;
  say();
  const char* const gate = getenv("LOSSES_GATE");
  while (gate != NULL && access(gate, F_OK) != 0) usleep(10000);
#ifdef WITH_MPI
  const int rounds = argc > 3 ? atoi(argv[3]) : 0, victim = argc > 4 ? atoi(argv[4]) : 0;
  for (int i = 0; i < rounds; ++i) {
    int in = 0, out = i;
    MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mark->calls = mark->calls + 1;
  }
  if (rank != victim) {
    first_phase(100);
    if (strcmp(argv[2], "wait") == 0) end("wait");
    MPI_Barrier(MPI_COMM_WORLD);  // from here on, the victim may die
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
  }
#endif
  first_phase(100);
  second_phase(100);
#ifdef WITH_MPI
  if (strcmp(argv[2], "wait") != 0) MPI_Barrier(MPI_COMM_WORLD);
#endif
  last_phase(100);
  say();
  end(argv[2]);
#ifdef WITH_MPI
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
#endif
  return 0;
}
