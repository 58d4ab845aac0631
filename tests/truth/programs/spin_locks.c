// SPDX-License-Identifier: BSD-3-Clause
// Two spin locks. Another thread holds one for 30 ms at a time in hold_shared(), and this thread runs in
// pthread_spin_lock meanwhile. The other one has no second user. Prints how much CPU time this thread has run
// while it waited, how much of that in waits in which it was ready without a processor, and how often it
// waited.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_spinlock_t shared, own;
static volatile int held, done;

static double clock_s(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// How long the main thread has been ready without a processor; 0 where the kernel does not say.
static unsigned long long without_processor_ns(void) {
  static int file = -2;
  char text[100];
  unsigned long long ran_ns = 0, waited_ns = 0;
  if (file == -2) file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
  text[bytes > 0 ? bytes : 0] = '\0';
  return sscanf(text, "%llu %llu", &ran_ns, &waited_ns) == 2 ? waited_ns : 0;
}

__attribute__((noinline)) static void compute_ms(double ms) {
  const double until_s = clock_s(CLOCK_MONOTONIC) + 1e-3 * ms;
  while (clock_s(CLOCK_MONOTONIC) < until_s) {
  }
}

__attribute__((noinline)) static void hold_shared(void) {
  pthread_spin_lock(&shared);
  held = 1;
  compute_ms(30);
  held = 0;
  pthread_spin_unlock(&shared);
  __asm__ volatile("");
}

static void* holder(void* unused) {
  while (!done) {
    hold_shared();
    const struct timespec rest = {.tv_nsec = 10 * 1000 * 1000};
    nanosleep(&rest, NULL);
  }
  return unused;
}

__attribute__((noinline)) static void use_own(void) {
  for (int i = 0; i < 10 * 1000 * 1000; ++i) {
    pthread_spin_lock(&own);
    pthread_spin_unlock(&own);
  }
}

int main(void) {
  pthread_t thread;
  double spun_s = 0, lacking_s = 0;
  int waits = 0;
  pthread_spin_init(&shared, PTHREAD_PROCESS_PRIVATE);
  pthread_spin_init(&own, PTHREAD_PROCESS_PRIVATE);
  pthread_create(&thread, NULL, holder, NULL);
  for (; waits < 60; ++waits) {
    while (!held) {
      const struct timespec moment = {.tv_nsec = 100 * 1000};
      nanosleep(&moment, NULL);
    }
    const unsigned long long without_ns = without_processor_ns();
    const double start_s = clock_s(CLOCK_THREAD_CPUTIME_ID);
    pthread_spin_lock(&shared);
    const double ran_s = clock_s(CLOCK_THREAD_CPUTIME_ID) - start_s;
    pthread_spin_unlock(&shared);
    spun_s += ran_s;
    if (without_processor_ns() - without_ns > 1000 * 1000) lacking_s += ran_s;
  }
  done = 1;
  pthread_join(thread, NULL);
  use_own();
  printf("{\"spun_s\": %.6f, \"lacking_s\": %.6f, \"waits\": %d}\n", spun_s, lacking_s, waits);
  return 0;
}
