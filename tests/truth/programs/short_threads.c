// Threads that burn some CPU time each in burn() and end: `short_threads MODE THREADS MICROSECONDS`. MODE one: one
// after the other. MODE all: none ends before all have begun. At the end prints as JSON how much CPU time that was, and how many
// of them live without a sample if these come once in 10 ms.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long long nanoseconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static pthread_barrier_t all_have_begun;
static int waits_for_all;
enum { kPeriodNs = 10000000 };
static long long burn_ns, burnt_ns, unsampled_ns;

void* burn(void* unused) {
  (void)unused;
  const long long begin_ns = nanoseconds(CLOCK_MONOTONIC), begin_cpu_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  if (waits_for_all) pthread_barrier_wait(&all_have_begun);
  volatile unsigned long work = 0;
  long long cpu_ns = 0;
  while ((cpu_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns) < burn_ns)
    for (int i = 0; i < 1000; ++i) work += i;
  __atomic_add_fetch(&burnt_ns, cpu_ns, __ATOMIC_RELAXED);
  const long long left_ns = kPeriodNs - (nanoseconds(CLOCK_MONOTONIC) - begin_ns);
  if (left_ns > 0) __atomic_add_fetch(&unsampled_ns, left_ns, __ATOMIC_RELAXED);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int threads = atoi(argv[2]);
  burn_ns = 1000LL * atoi(argv[3]);
  waits_for_all = strcmp(argv[1], "all") == 0;
  pthread_t* thread = calloc(threads, sizeof *thread);
  pthread_barrier_init(&all_have_begun, NULL, threads);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 256 * 1024);
  for (int i = 0; i < threads; ++i) {
    if (pthread_create(&thread[i], &small, burn, NULL) != 0) return 3;
    if (!waits_for_all) pthread_join(thread[i], NULL);
  }
  for (int i = 0; waits_for_all && i < threads; ++i) pthread_join(thread[i], NULL);
  printf("{\"burn\": %.9f, \"unsampled\": %.1f}\n", burnt_ns * 1e-9, (double)unsampled_ns / kPeriodNs);
  return 0;
}
