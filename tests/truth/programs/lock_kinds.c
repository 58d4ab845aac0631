// SPDX-License-Identifier: BSD-3-Clause
// The main thread waits for what another thread does: at a condition, a semaphore, a lock for readers and
// writers, and a barrier, one after the other. Prints as JSON how long it waited at each.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { kRounds = 3 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// In place, so that nothing but the function that works is on its stack.
#define RUN_FOR(MILLISECONDS)                                                                          \
  do {                                                                                                 \
    struct timespec from, at;                                                                          \
    clock_gettime(CLOCK_MONOTONIC, &from);                                                             \
    do clock_gettime(CLOCK_MONOTONIC, &at);                                                            \
    while ((at.tv_sec - from.tv_sec) * 1000 + (at.tv_nsec - from.tv_nsec) / 1000000 < (MILLISECONDS)); \
  } while (0)

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int is_filled;
sem_t items;
pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
pthread_barrier_t meeting;
static atomic_int phase;

__attribute__((noinline)) static void prepare(void) { RUN_FOR(400); }
__attribute__((noinline)) static void compute(void) { RUN_FOR(800); }
__attribute__((noinline)) static void make_item(void) { RUN_FOR(1000); }
__attribute__((noinline)) static void change_table(void) { RUN_FOR(1000); }
__attribute__((noinline)) static void come_late(void) { RUN_FOR(1000); }

static void until_phase(int wanted) {
  while (atomic_load(&phase) < wanted) {
  }
}

static void* other(void* unused) {
  int begin = 0;
  for (int i = 0; i < kRounds; ++i) {
    until_phase(++begin);
    prepare();
    compute();
    pthread_mutex_lock(&mutex);
    is_filled = 1;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&mutex);
  }
  for (int i = 0; i < kRounds; ++i) {
    until_phase(++begin);
    make_item();
    sem_post(&items);
  }
  for (int i = 0; i < kRounds; ++i) {
    pthread_rwlock_wrlock(&table);
    until_phase(++begin);
    change_table();
    pthread_rwlock_unlock(&table);
  }
  for (int i = 0; i < kRounds; ++i) {
    until_phase(++begin);
    come_late();
    pthread_barrier_wait(&meeting);
  }
  return unused;
}

static double waited_s;

static void begin_round(void) {
  RUN_FOR(100);
  atomic_fetch_add(&phase, 1);
  waited_s -= now();
}
static void end_round(void) { waited_s += now(); }
static void print(const char* name, const char* end) {
  printf("\"%s\": %.9f%s", name, waited_s, end);
  waited_s = 0;
}

int main(void) {
  sem_init(&items, 0, 0);
  pthread_barrier_init(&meeting, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, other, NULL);
  printf("{");
  for (int i = 0; i < kRounds; ++i) {
    begin_round();
    pthread_mutex_lock(&mutex);
    while (!is_filled) pthread_cond_wait(&filled, &mutex);
    is_filled = 0;
    pthread_mutex_unlock(&mutex);
    end_round();
  }
  print("condition", ", ");
  for (int i = 0; i < kRounds; ++i) {
    begin_round();
    sem_wait(&items);
    end_round();
  }
  print("semaphore", ", ");
  for (int i = 0; i < kRounds; ++i) {
    begin_round();
    pthread_rwlock_rdlock(&table);
    end_round();
    pthread_rwlock_unlock(&table);
  }
  print("rwlock", ", ");
  for (int i = 0; i < kRounds; ++i) {
    begin_round();
    pthread_barrier_wait(&meeting);
    end_round();
  }
  print("barrier", "}\n");
  pthread_join(thread, NULL);
  return 0;
}
