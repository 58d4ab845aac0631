// SPDX-License-Identifier: BSD-3-Clause
// For lock_kinds.c and std_lock_kinds.cpp: rounds in which the main thread waits until another thread, which
// works meanwhile, ends the wait. Both note what happened when, so that the profile can be compared with that
// on a machine where threads get a processor late: who is woken has ended its wait, but goes on later.
#pragma once

#include <stdio.h>
#include <time.h>

#include "without_processor.h"

enum { kRounds = 3, kKinds = 4, kParts = 2 };

typedef struct {
  // Of the main thread: when it began the call in which it waits and came back, and for how long it was ready
  // without a processor in between, be it before the wait, for a signal's handler in it, or behind it.
  double begun_s, ended_s, lacked_s;
  double main_stop_s;  // its longest time without a processor before that
  // Of the other thread: when the parts of its work began and ended, and when it began and ended to wake.
  double part_s[kParts + 1], waking_s, woken_s;
  // How long it has had a processor since the round before, and the longest time without one.
  double ran_s, passed_s, longest_stop_s;
} Round;

static Round rounds[kKinds * kRounds];
static int phase;  // the round that has begun, from 1

// When a thread that runs all the time last looked at the clock, and its longest time between two looks.
typedef struct {
  double last_s, longest_s;
} Stops;

// In place, so that nothing but the function that works is on its stack.
#define LOOK(STOPS)                                                                             \
  do {                                                                                          \
    struct timespec look_;                                                                      \
    clock_gettime(CLOCK_MONOTONIC, &look_);                                                     \
    const double at_s_ = (double)look_.tv_sec + 1e-9 * (double)look_.tv_nsec;                   \
    if (at_s_ - (STOPS).last_s > (STOPS).longest_s) (STOPS).longest_s = at_s_ - (STOPS).last_s; \
    (STOPS).last_s = at_s_;                                                                     \
  } while (0)
#define RUN_FOR(SECONDS, STOPS)                         \
  do {                                                  \
    LOOK(STOPS);                                        \
    const double until_s_ = (STOPS).last_s + (SECONDS); \
    while ((STOPS).last_s < until_s_) LOOK(STOPS);      \
  } while (0)

static double clock_s(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
static double now(void) { return clock_s(CLOCK_MONOTONIC); }

// --- the main thread ---

static Stops main_stops;

// It runs for a while, then lets the other thread begin. If that one has to take a lock first, it says when.
static Round* begin_round(const int* taken) {
  Round* const round = &rounds[phase];
  main_stops.last_s = now();
  main_stops.longest_s = 0;
  RUN_FOR(0.1, main_stops);
  __atomic_add_fetch(&phase, 1, __ATOMIC_SEQ_CST);
  while (taken != NULL && !__atomic_load_n(taken, __ATOMIC_SEQ_CST)) LOOK(main_stops);
  round->main_stop_s = main_stops.longest_s;
  round->lacked_s = -without_processor();
  round->begun_s = now();
  return round;
}

static void end_round(Round* round) {
  round->ended_s = now();
  round->lacked_s += without_processor();
}

// --- the other thread ---

static Stops other_stops;

static void until_phase(int wanted) {
  while (__atomic_load_n(&phase, __ATOMIC_SEQ_CST) < wanted) LOOK(other_stops);
}

static int begun_rounds;
static double ran_at_s, began_at_s;

static void end_last_round(void) {
  if (begun_rounds > 0) {
    Round* const last = &rounds[begun_rounds - 1];
    last->longest_stop_s = other_stops.longest_s;
    last->ran_s = clock_s(CLOCK_THREAD_CPUTIME_ID) - ran_at_s;
    last->passed_s = now() - began_at_s;
  }
  ran_at_s = clock_s(CLOCK_THREAD_CPUTIME_ID);
  began_at_s = other_stops.last_s = now();
  other_stops.longest_s = 0;
}

static Round* next_round(void) {
  end_last_round();
  until_phase(begun_rounds + 1);
  return &rounds[begun_rounds++];
}

// --- when both have ended ---

static double overlap(double begin_s, double end_s, const Round* round) {
  const double from_s = begin_s > round->begun_s ? begin_s : round->begun_s;
  const double to_s = end_s < round->waking_s ? end_s : round->waking_s;
  return to_s > from_s ? to_s - from_s : 0;
}

// wait_s: until the other thread began to wake the main thread; waking_s: how long it took to; lacked_s: for
// how much of that the main thread may have been ready; stops_s: the sum of its longest stops before the
// waits; late_s: how much later it went on; parts_s: of the other thread's work during the waits; slow: how
// long a second of its processor's time took; longest_stop_s: of the other thread.
static void print_kind(const char* name, int kind, const char* end) {
  double wait_s = 0, waking_s = 0, lacked_s = 0, late_s = 0, main_stops_s = 0, parts_s[kParts] = {0},
         ran_s = 0, passed_s = 0, stop_s = 0;
  for (const Round* round = &rounds[kind * kRounds]; round < &rounds[(kind + 1) * kRounds]; ++round) {
    wait_s += overlap(round->begun_s, round->waking_s, round);
    waking_s += round->woken_s - round->waking_s;
    lacked_s += round->lacked_s;
    main_stops_s += round->main_stop_s;
    late_s += round->ended_s - round->waking_s;
    for (int i = 0; i < kParts; ++i) parts_s[i] += overlap(round->part_s[i], round->part_s[i + 1], round);
    ran_s += round->ran_s;
    passed_s += round->passed_s;
    if (round->longest_stop_s > stop_s) stop_s = round->longest_stop_s;
  }
  printf(
      "\"%s\": {\"wait_s\": %.9f, \"waking_s\": %.9f, \"lacked_s\": %.9f, \"stops_s\": %.9f, \"late_s\": "
      "%.9f, \"parts_s\": "
      "[%.9f, %.9f], "
      "\"slow\": %.9f, \"longest_stop_s\": %.9f}%s",
      name, wait_s, waking_s, lacked_s, main_stops_s, late_s, parts_s[0], parts_s[1], passed_s / ran_s,
      stop_s, end);
}
