/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that starts threads before any preloaded object's constructor runs: one through
 * pthread_create, one past it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t early_sink;
static pthread_t threads[2];
static int started;

static void* spin(void* unused) {
  (void)unused;
  struct timespec now;
  do {
    for (int i = 0; i < 20000; ++i) early_sink += (uint64_t)i;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (now.tv_sec == 0 && now.tv_nsec < 700000000);
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
  for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  return started == 2 ? 0 : 1;
}
