/* SPDX-License-Identifier: BSD-3-Clause */
/* Work whose page faults, context switches and CPU time a thread knows of itself; and a library that starts a
 * thread with it before any preloaded object's constructor runs, past pthread_create. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "counters_work.h"

static pthread_t early;
static int started;

void counted_work(void) {
  enum { kRounds = 40, kBytes = 256 * 4096 };
  for (int i = 0; i < kRounds; ++i) {
    char* pages = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, kBytes, MADV_NOHUGEPAGE);
    for (int at = 0; at < kBytes; at += 4096) pages[at] = 1;
    munmap(pages, kBytes);
    for (int k = 0; k < 10; ++k) {
      const struct timespec moment = {0, 300000};
      nanosleep(&moment, NULL);
    }
    spin_ms(8);
  }
}

void take_figures(struct figures* now) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  now->faults = (double)(usage.ru_minflt + usage.ru_majflt);
  now->switches = (double)(usage.ru_nvcsw + usage.ru_nivcsw);
  now->cpu_ms = cpu_ms();
}

void print_figures(const struct figures* before) {
  struct figures now;
  take_figures(&now);
  char text[256];
  const int tid = (int)syscall(SYS_gettid);
  const int bytes = snprintf(text, sizeof text, "%d.faults %.0f\n%d.switches %.0f\n%d.cpu_ms %.3f\n", tid,
                             now.faults - before->faults, tid, now.switches - before->switches, tid,
                             now.cpu_ms - before->cpu_ms);
  if (write(STDOUT_FILENO, text, (size_t)bytes) != bytes) abort();
}

void* counted_thread(void* unused) {
  (void)unused;
  const struct figures none = {0, 0, 0};
  counted_work();
  print_figures(&none);
  return NULL;
}

/* Its end is not seen: the last sample finds it waiting. */
static void* early_thread(void* unused) {
  const struct timespec while_it_is_seen = {0, 400000000};
  counted_thread(unused);
  nanosleep(&while_it_is_seen, NULL);
  return NULL;
}

__attribute__((constructor)) static void start(void) {
  if (getenv("COUNTED_EARLY") == NULL) return;
  void* libc = dlopen("libc.so.6", RTLD_NOW);
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = NULL;
  *(void**)&create = dlsym(libc, "pthread_create");
  started = create(&early, NULL, early_thread, NULL) == 0;
}

void join_early_thread(void) {
  if (started) pthread_join(early, NULL);
}
