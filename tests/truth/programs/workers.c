// A library with a pool of threads. What its threads compute is measured by their own clocks.
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

enum { kThreads = 2 };

volatile int busy;  // threads that compute
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static int generation;
static double wanted_s, used_s;

static double used(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

__attribute__((noinline)) static void compute(double seconds) {
  volatile double sum = 0;
  for (const double end = used() + seconds; used() < end;)
    for (int i = 0; i < 1000; ++i) sum = sum + i;
}

static void* work(void* unused) {
  for (int seen = 0;;) {
    pthread_mutex_lock(&lock);
    while (generation == seen) pthread_cond_wait(&wake, &lock);
    seen = generation;
    const double seconds = wanted_s;
    pthread_mutex_unlock(&lock);
    const double before = used();
    compute(seconds);
    pthread_mutex_lock(&lock);
    used_s += used() - before;
    if (--busy == 0) pthread_cond_signal(&done);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

void pool_open(void) {
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_detach(thread);
  }
}

void pool_start(double seconds) {
  pthread_mutex_lock(&lock);
  wanted_s = seconds;
  used_s = 0;
  busy = kThreads;
  ++generation;
  pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&lock);
}

// What its threads have computed since pool_start().
double pool_wait(void) {
  pthread_mutex_lock(&lock);
  while (busy != 0) pthread_cond_wait(&done, &lock);
  const double seconds = used_s;
  pthread_mutex_unlock(&lock);
  return seconds;
}

double pool_run(double seconds) {
  pool_start(seconds);
  compute(seconds / 2);
  return pool_wait();
}
