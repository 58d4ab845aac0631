// Two threads need one mutex: load() keeps it for long, store() waits for it. Prints as JSON how long store()
// waited, and for how much of that it lacked a processor: the mutex may have been its own by then.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "without_processor.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static double length_s;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void spin(double seconds) {
  const double end = now() + seconds;
  while (now() < end) {
  }
}

static void rest(double seconds) {
  const struct timespec time = {0, (long)(seconds * 1e9)};
  nanosleep(&time, NULL);
}

__attribute__((noinline)) static void hold(void) { spin(0.500); /* line of holder */ }

static void* load(void* unused) {
  const double end = now() + length_s;
  while (now() < end) {
    pthread_mutex_lock(&mutex);
    hold();
    pthread_mutex_unlock(&mutex);
    rest(0.010);
  }
  return unused;
}

int main(int argc, char** argv) {
  length_s = argc > 1 ? atof(argv[1]) : 3;
  pthread_t thread;
  pthread_create(&thread, NULL, load, NULL);
  const double end = now() + length_s;
  double waited_s = 0, lacked_s = 0;
  while (now() < end) {
    const double lacked_before_s = without_processor(), from = now();
    pthread_mutex_lock(&mutex); /* line of waiter */
    waited_s += now() - from;
    lacked_s += without_processor() - lacked_before_s;
    pthread_mutex_unlock(&mutex);
    rest(0.020); /* and then into the mutex at once, which load() has again */
  }
  pthread_join(thread, NULL);
  printf("{\"waited_s\": %.9f, \"lacked_s\": %.9f}\n", waited_s, lacked_s);
  return 0;
}
