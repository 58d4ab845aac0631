// native depth SECONDS: three functions share the thread's CPU time 50 : 30 : 20, the first below 40
// levels of recursion, the second below 20, the third below none.
// native threads SECONDS: four threads need 40, 30, 20 and 10 % of SECONDS, and spend 60 % of it in one
// function and 40 % in another.
// Prints, as JSON, the seconds that each part took by the CPU clock of its thread, and for `depth` also by
// the wall clock.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define APART __attribute__((noipa))

enum { kDepth = 40 };

static double clock_s(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double now_s(void) { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

APART static double spin(double seconds) {
  const double begin = now_s();
  volatile unsigned sink = 0;
  double now = begin;
  while (now - begin < seconds) {
    for (unsigned i = 0; i < 20000; ++i) sink += i;
    now = now_s();
  }
  return now - begin;
}

// The empty statements after the calls keep them from becoming jumps.
#define STAY __asm__ volatile("")

struct Spent {
  double cpu_s, wall_s;
};
static struct Spent first_spent, second_spent, third_spent;

// A turn takes 0.2 s, of which 10 ms are in doubt for each part when the sampling rate is 100 Hz.
#define PART(name, share)                                      \
  APART static void name(void) {                               \
    const double begin_s = clock_s(CLOCK_MONOTONIC);           \
    name##_spent.cpu_s += spin((share)*0.2071);                \
    name##_spent.wall_s += clock_s(CLOCK_MONOTONIC) - begin_s; \
  }
PART(first, 0.5)
PART(second, 0.3)
PART(third, 0.2)

APART static void descend(int levels) {
  if (levels == kDepth / 2) second();
  if (levels == kDepth) {
    first();
  } else {
    descend(levels + 1);
  }
  STAY;
}

static void depth(double seconds) {
  const double begin = now_s();
  while (now_s() - begin < seconds) {
    descend(1);
    third();
  }
  printf("{\"cpu\": {\"first\": %.6f, \"second\": %.6f, \"third\": %.6f}, ", first_spent.cpu_s,
         second_spent.cpu_s, third_spent.cpu_s);
  printf("\"wall\": {\"first\": %.6f, \"second\": %.6f, \"third\": %.6f}}\n", first_spent.wall_s,
         second_spent.wall_s, third_spent.wall_s);
}

struct Thread {
  double seconds, major_s, minor_s;
};

APART static void major_part(struct Thread* thread) {
  thread->major_s += spin(0.0304);
  STAY;
}

APART static void minor_part(struct Thread* thread) {
  thread->minor_s += spin(0.0203);
  STAY;
}

static void use(struct Thread* thread) {
  const double begin = now_s();
  while (now_s() - begin < thread->seconds) {
    major_part(thread);
    minor_part(thread);
  }
}

#define THREAD(name)                        \
  APART static void* name(void* argument) { \
    use(argument);                          \
    STAY;                                   \
    return NULL;                            \
  }
THREAD(forty)
THREAD(thirty)
THREAD(twenty)
THREAD(ten)

static void threads(double seconds) {
  void* (*const functions[])(void*) = {forty, thirty, twenty, ten};
  const char* const names[] = {"forty", "thirty", "twenty", "ten"};
  struct Thread threads[4];
  pthread_t handles[4];
  for (int i = 0; i < 4; ++i) {
    threads[i] = (struct Thread){.seconds = 0.1 * (4 - i) * seconds};
    if (pthread_create(&handles[i], NULL, functions[i], &threads[i]) != 0) exit(1);
  }
  for (int i = 0; i < 4; ++i) pthread_join(handles[i], NULL);
  for (int i = 0; i < 4; ++i) {
    printf("%s\"%s major\": %.6f, \"%s minor\": %.6f", i == 0 ? "{" : ", ", names[i], threads[i].major_s,
           names[i], threads[i].minor_s);
  }
  printf("}\n");
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  (strcmp(arguments[1], "threads") == 0 ? threads : depth)(atof(arguments[2]));
  return 0;
}
