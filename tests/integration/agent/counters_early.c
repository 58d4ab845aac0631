/* SPDX-License-Identifier: BSD-3-Clause */
/* Work of which a thread knows the page faults, context switches and CPU time; and a library that starts a
 * thread with it before any preloaded object's constructor runs, past pthread_create. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
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
static sem_t early_may_end;
static volatile int early_tid;
static volatile long early_switches = -1; /* of its own accord, when its work was done */

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

static void* early_thread(void* unused) {
  counted_thread(unused);
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  early_tid = (int)syscall(SYS_gettid);
  early_switches = usage.ru_nvcsw;
  while (sem_wait(&early_may_end) != 0) {
  }
  return NULL;
}

static long voluntary_switches(int tid) {
  char path[64], line[128];
  long switches = -1;
  snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
  FILE* status = fopen(path, "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL)
    if (sscanf(line, "voluntary_ctxt_switches: %ld", &switches) == 1) break;
  if (status != NULL) fclose(status);
  return switches;
}

/* Its end is not seen: what it did last is in the sample that finds it waiting. When that is taken the thread
 * wakes up, and goes back to its wait. */
static void let_early_thread_be_sampled(void) {
  const struct timespec moment = {0, 10000000};
  enum { kMaxMoments = 2000 };
  for (int i = 0; i < kMaxMoments; ++i) {
    if (early_switches >= 0 && voluntary_switches(early_tid) >= early_switches + 2) break;
    nanosleep(&moment, NULL);
  }
  sem_post(&early_may_end);
}

__attribute__((constructor)) static void start(void) {
  if (getenv("COUNTED_EARLY") == NULL) return;
  void* libc = dlopen("libc.so.6", RTLD_NOW);
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = NULL;
  *(void**)&create = dlsym(libc, "pthread_create");
  sem_init(&early_may_end, 0, 0);
  started = create(&early, NULL, early_thread, NULL) == 0;
}

void join_early_thread(void) {
  if (!started) return;
  let_early_thread_be_sampled();
  pthread_join(early, NULL);
}
