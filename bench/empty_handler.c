/* The floor that no sampler on these timers can get below: every thread gets the timer that the
   agent would give it, and a handler that does nothing. LD_PRELOAD it; EMPTY_HANDLER_HZ is the rate. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kSignal = 61, kWallTimerRateHz = 500 }; /* as in agent/sigsafe/process_state.h */

static long g_rate_hz;

static void handler(int signal, siginfo_t* info, void* context) { (void)signal, (void)info, (void)context; }

static void start_timer(void) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = kSignal};
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  timer_t timer;
  if (timer_create(g_rate_hz >= kWallTimerRateHz ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &event,
                   &timer) != 0)
    abort();
  const long period_ns = 1000000000 / g_rate_hz;
  const struct itimerspec times = {{period_ns / 1000000000, period_ns % 1000000000},
                                   {period_ns / 1000000000, period_ns % 1000000000}};
  timer_settime(timer, 0, &times, NULL);
}

__attribute__((constructor)) static void begin(void) {
  const char* rate = getenv("EMPTY_HANDLER_HZ");
  g_rate_hz = rate != NULL ? atol(rate) : 0;
  if (g_rate_hz <= 0) return;
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  sigaction(kSignal, &action, NULL);
  start_timer();
}

struct start {
  void* (*function)(void*);
  void* argument;
};

static void* run(void* given) {
  const struct start start = *(struct start*)given;
  free(given);
  start_timer();
  return start.function(start.argument);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) {
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      dlsym(RTLD_NEXT, "pthread_create");
  struct start* start = g_rate_hz > 0 ? malloc(sizeof *start) : NULL;
  if (start == NULL) return real(thread, attributes, function, argument);
  *start = (struct start){function, argument};
  return real(thread, attributes, run, start);
}
