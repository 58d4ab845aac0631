// Threads that leave all signals to others, as those of servers and libraries do: all are blocked in them,
// also those of faults. argv[1]: seconds of CPU time that each works.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double limit_s;
static volatile unsigned long sum;

static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
static void work(void) {
  for (unsigned long i = 0; i < 2000000; ++i) sum += i;
}
static void serve(void) {
  while (cpu_s() < limit_s) work();
}
static void* run(void* unused) {
  serve();
  return unused;
}

int main(int argc, char** argv) {
  limit_s = argc > 1 ? atof(argv[1]) : 1;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // threads inherit the mask
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  // One that was sent and that the program does not want now stays pending.
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  raise(SIGSEGV);
  limit_s += cpu_s();
  serve();
  sigset_t pending;
  sigpending(&pending);
  if (!sigismember(&pending, SIGSEGV)) return 1;
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  return sigismember(&mask, SIGSEGV) && sigismember(&mask, SIGBUS) ? 0 : 2;
}
