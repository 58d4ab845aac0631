/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that starts threads before any preloaded object's constructor runs: one through
 * pthread_create, one past it. They need 700 ms of CPU time from main() on, however late it begins. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile uint64_t early_sink;
static pthread_t threads[2];
static int started;
static volatile int main_has_begun;

static void* spin(void* unused) {
  (void)unused;
  struct timespec now;
  long long before_ns = 0, now_ns;
  do {
    for (int i = 0; i < 20000; ++i) early_sink += (uint64_t)i;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    now_ns = now.tv_sec * 1000000000ll + now.tv_nsec;
    if (!main_has_begun) before_ns = now_ns;
  } while (now_ns - before_ns < 700000000);
  return NULL;
}

__attribute__((constructor)) static void start(void) {
  if (getenv("EARLY_THREADS") == NULL) return;
  void* libc = dlopen("libc.so.6", RTLD_NOW);
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = NULL;
  *(void**)&create = dlsym(libc, "pthread_create");
  if (create(&threads[0], NULL, spin, NULL) == 0 && pthread_create(&threads[1], NULL, spin, NULL) == 0)
    started = 2;
}

int wait_for_early_threads(void) {
  main_has_begun = 1;
  FILE* const status = fopen("/proc/self/status", "r");
  char line[256];
  while (status != NULL && fgets(line, sizeof line, status) != NULL)
    if (strncmp(line, "VmSize:", 7) == 0) printf("address_space_kb %d\n", atoi(line + 7));
  if (status != NULL) fclose(status);
  for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  return started == 2 ? 0 : 1;
}

static int crashes_at_end;

void crash_in_destructor(void) { crashes_at_end = 1; }

__attribute__((destructor)) static void end(void) {
  if (crashes_at_end) raise(SIGSEGV);
}
