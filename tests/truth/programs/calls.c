// SPDX-License-Identifier: BSD-3-Clause
// MPI calls whose part in the run is known by construction: calls hang|first|abort|threads|get
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void sleep_ms(int ms) {
  struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
  while (nanosleep(&left, &left) != 0) {
  }
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int rank;

// Another rank is about to make its call: it has a processor when it says so.
enum { kReady = 6 };
static void say_ready(int to) { MPI_Send(NULL, 0, MPI_BYTE, to, kReady, MPI_COMM_WORLD); }
static void await_ready(int from) {
  MPI_Request request;
  MPI_Irecv(NULL, 0, MPI_BYTE, from, kReady, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Rank 0 waits for a message that nobody sends; rank 1 is killed a second later, and that ends the job.
static void wait_for_nobody(void) {
  int value = 0;
  MPI_Recv(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // hangs here
}
static void hang(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    say_ready(1);
    wait_for_nobody();
  }
  await_ready(0);
  sleep_ms(1000);
  raise(SIGKILL);
}

static void abort_while_other_waits(void) {
  if (rank == 0) {
    await_ready(1);
    sleep_ms(200);  // it may lose its processor between its word and its call
    MPI_Abort(MPI_COMM_WORLD, 5);
  }
  say_ready(0);
  wait_for_nobody();
}

// The first calls of all never return: rank 1 is late for rank 0, which sends it more than the library keeps
// and waits, and for rank 2, which is in a barrier. A second later rank 1 is killed. Since no call may be
// before these, ranks tell each other by files how far they are: the calls begin once rank 1 is out of
// MPI_Init.
static void mark(const char* suffix) {
  char name[32];
  snprintf(name, sizeof name, "calls-%d%s", rank, suffix);
  FILE* const file = fopen(name, "w");
  if (file == NULL || fclose(file) != 0) exit(3);
}
__attribute__((noinline)) static void be_late(void) {
  // From now on others may wait, and what they wait for is this function.
  if (rename("calls-1.new", "calls-1") != 0) exit(3);
  double begin = now_s();
  int all_wait = 0;
  volatile double sum = 0;
  while (!all_wait || now_s() - begin < 1) {
    for (int i = 0; i < 1000000; ++i) sum += i;
    if (!all_wait) {
      all_wait = access("calls-0", F_OK) == 0 && access("calls-2", F_OK) == 0;
      begin = now_s();
    }
  }
}
static void first(void) {
  static char from_1, message[8 << 20];
  MPI_Request requests[2];
  if (rank == 1) {
    mark(".new");
    be_late();
    raise(SIGKILL);
  }
  while (access("calls-1", F_OK) != 0) sleep_ms(1);
  mark("");
  if (rank == 2) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Irecv(&from_1, 1, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(message, sizeof message, MPI_CHAR, 1, 8, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

// Two threads of each rank talk to their likes on the other one for 50 rounds of 20 ms: those of rank 1 sleep
// before they send, those of rank 0 sleep half as long before they receive, and are in MPI for the other
// half. A send ends when its message is received: after a pause of rank 0 there is no heap of messages that
// it need not wait for. Each rank prints how long it was in MPI, and how long its threads lived, since nobody
// sleeps as long as he wants to on a busy machine.
enum { kThreads = 2, kRounds = 50 };
static double inside_s[kThreads], elapsed_s[kThreads];
static void* talk(void* number) {
  const int tag = *(int*)number;
  int value = 0;
  const double begin = now_s();
  for (int i = 0; i < kRounds; ++i) {
    sleep_ms(rank == 0 ? 10 : 20);
    const double enter = now_s();
    if (rank == 0) {
      MPI_Recv(&value, 1, MPI_INT, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Ssend(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
    }
    inside_s[tag] += now_s() - enter;
  }
  elapsed_s[tag] = now_s() - begin;
  return NULL;
}
static void threads(void) {
  pthread_t others[kThreads];
  int numbers[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    numbers[i] = i;
    if (pthread_create(&others[i], NULL, talk, &numbers[i]) != 0) exit(3);
  }
  double inside = 0, elapsed = 0;
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(others[i], NULL);
    inside += inside_s[i];
    elapsed += elapsed_s[i];
  }
  printf("%d %.6f %.6f\n", rank, inside, elapsed);
}

// Rank 0 keeps the lock on its window for 60 ms, five times. Rank 1 wants it after 10 ms, and has it 50 ms
// later; rank 2 waits for rank 1, which prints for how long of that it was outside and inside of these calls.
enum { kGets = 5 };
static double larger(double a, double b) { return a > b ? a : b; }
static void get(void) {
  int* memory = NULL;
  MPI_Win window;
  MPI_Comm pair;  // ranks 1 and 2
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &pair);
  MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  double enters[kGets] = {0}, leaves[kGets] = {0}, waits[kGets] = {0};
  for (int i = 0; i < kGets; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    int value = 0;
    if (rank == 0) {
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
      sleep_ms(60);
      MPI_Win_unlock(0, window);
    } else if (rank == 1) {
      sleep_ms(10);
      enters[i] = now_s();
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
      MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
      MPI_Win_unlock(0, window);
      leaves[i] = now_s();
    }
    waits[i] = now_s();
    if (rank != 0) MPI_Barrier(pair);
  }
  if (rank == 2) MPI_Send(waits, kGets, MPI_DOUBLE, 0, 0, pair);
  if (rank == 1) {
    MPI_Recv(waits, kGets, MPI_DOUBLE, 1, 0, pair, MPI_STATUS_IGNORE);
    double outside = 0, inside = 0;
    for (int i = 0; i < kGets; ++i) {
      outside += larger(enters[i] - waits[i], 0);
      inside += larger(leaves[i] - larger(enters[i], waits[i]), 0);
    }
    printf("%.6f %.6f\n", outside, inside);
  }
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  int provided = 0;
  MPI_Init_thread(&argc, &argv, strcmp(what, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                  &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(what, "hang") == 0) hang();
  if (strcmp(what, "first") == 0) first();
  if (strcmp(what, "abort") == 0) abort_while_other_waits();
  if (strcmp(what, "threads") == 0) threads();
  if (strcmp(what, "get") == 0) get();
  MPI_Finalize();
  return 0;
}
