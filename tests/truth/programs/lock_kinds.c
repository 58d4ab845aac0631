// SPDX-License-Identifier: BSD-3-Clause
// The main thread waits for what another thread does: at a condition, a semaphore, a lock for readers and
// writers, and a barrier, one after the other. Prints as JSON how long it waited at each, and what the other
// thread did meanwhile.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#include "lock_rounds.h"

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int is_filled;
sem_t items;
pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static int table_taken;
pthread_barrier_t meeting;

__attribute__((noinline)) static void prepare(void) { RUN_FOR(0.4, other_stops); }
__attribute__((noinline)) static void compute(void) { RUN_FOR(0.8, other_stops); }
__attribute__((noinline)) static void make_item(void) { RUN_FOR(1.0, other_stops); }
__attribute__((noinline)) static void change_table(void) { RUN_FOR(1.0, other_stops); }
__attribute__((noinline)) static void come_late(void) { RUN_FOR(1.0, other_stops); }

static void work(Round* round, void (*first)(void), void (*second)(void)) {
  round->part_s[0] = now();
  first();
  round->part_s[1] = round->part_s[2] = now();
  if (second == NULL) return;
  second();
  round->part_s[2] = now();
}

#define WAKE(ROUND, CALL)      \
  do {                         \
    (ROUND)->waking_s = now(); \
    CALL;                      \
    (ROUND)->woken_s = now();  \
  } while (0)

static void* other(void* unused) {
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = next_round();
    work(round, prepare, compute);
    pthread_mutex_lock(&mutex);
    is_filled = 1;
    WAKE(round, pthread_cond_signal(&filled));
    pthread_mutex_unlock(&mutex);
  }
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = next_round();
    work(round, make_item, NULL);
    WAKE(round, sem_post(&items));
  }
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = next_round();
    pthread_rwlock_wrlock(&table);
    __atomic_store_n(&table_taken, 1, __ATOMIC_SEQ_CST);
    work(round, change_table, NULL);
    // Before the main thread goes on.
    __atomic_store_n(&table_taken, 0, __ATOMIC_SEQ_CST);
    WAKE(round, pthread_rwlock_unlock(&table));
  }
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = next_round();
    work(round, come_late, NULL);
    WAKE(round, pthread_barrier_wait(&meeting));
  }
  end_last_round();
  return unused;
}

int main(void) {
  sem_init(&items, 0, 0);
  pthread_barrier_init(&meeting, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, other, NULL);
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = begin_round(NULL);
    pthread_mutex_lock(&mutex);
    while (!is_filled) pthread_cond_wait(&filled, &mutex);
    is_filled = 0;
    pthread_mutex_unlock(&mutex);
    end_round(round);
  }
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = begin_round(NULL);
    sem_wait(&items);
    end_round(round);
  }
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = begin_round(&table_taken);
    pthread_rwlock_rdlock(&table);
    end_round(round);
    pthread_rwlock_unlock(&table);
  }
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = begin_round(NULL);
    pthread_barrier_wait(&meeting);
    end_round(round);
  }
  pthread_join(thread, NULL);
  printf("{");
  print_kind("condition", 0, ", ");
  print_kind("semaphore", 1, ", ");
  print_kind("rwlock", 2, ", ");
  print_kind("barrier", 3, "}\n");
  return 0;
}
