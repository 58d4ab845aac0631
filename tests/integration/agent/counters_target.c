/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that know what has to be counted in them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_api.h"
#include "counters_work.h"

extern const char __start_touch_code[], __stop_touch_code[];

/* The only place that faults in a loop. */
__attribute__((noinline, section("touch_code"))) static void touch(volatile char* pages, long bytes) {
  for (long at = 0; at < bytes; at += 4096) pages[at] = 1;
}

/* As much time outside as inside the place that faults. */
static int faults(void) {
  enum { kBytes = 1024 * 4096 };
  struct figures before, after;
  take_figures(&before);
  double touching_ms = 0;
  for (int i = 0; i < 40; ++i) {
    char* pages = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, kBytes, MADV_NOHUGEPAGE);
    const double start = cpu_ms();
    touch(pages, kBytes);
    touching_ms += cpu_ms() - start;
    munmap(pages, kBytes);
    spin_ms(10);
  }
  take_figures(&after);
  printf("faults %.0f\ntouching_ms %.3f\ncpu_ms %.3f\n", after.faults - before.faults, touching_ms,
         after.cpu_ms - before.cpu_ms);
  printf("touch_begin %llu\ntouch_end %llu\n", (unsigned long long)__start_touch_code,
         (unsigned long long)__stop_touch_code);
  return 0;
}

static int threads(void) {
  struct figures before;
  take_figures(&before);
  pthread_t made[3];
  for (int i = 0; i < 3; ++i)
    if (pthread_create(&made[i], NULL, counted_thread, NULL) != 0) return 1;
  counted_work();
  for (int i = 0; i < 3; ++i) pthread_join(made[i], NULL);
  join_early_thread();
  print_figures(&before);
  return 0;
}

static int forks(void) {
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    const struct figures none = {0, 0, 0};
    counted_work();
    print_figures(&none);
    _exit(0);
  }
  int status = 1;
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

/* The counters as an MPI wrapper sees them. The first one is page faults. */
static int mpi(void) {
  enum { kOutside = 700, kInside = 300, kCalls = 50 };
  const clusterprof_agent_api* (*find)(void) = NULL;
  *(void**)&find = dlsym(RTLD_DEFAULT, "clusterprof_agent_v1");
  const clusterprof_agent_api* agent = find != NULL ? find() : NULL;
  if (agent == NULL) return 1;
  struct figures start, end;
  double told = 0;
  unsigned counters = 0;
  take_figures(&start);
  for (int i = 0; i < kCalls; ++i) {
    for (int inside = 0; inside < 2; ++inside) {
      const long bytes = (inside ? kInside : kOutside) * 4096l;
      const clusterprof_mpi_call call = {0, 0, 0, 0, -1, 0, -1, 0, 0, {0}, 0, 0};
      if (inside && agent->enter_mpi(&call) == 0) return 1;
      char* pages = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      madvise(pages, (size_t)bytes, MADV_NOHUGEPAGE);
      touch(pages, bytes);
      munmap(pages, (size_t)bytes);
      spin_ms(3);
      if (!inside) continue;
      const clusterprof_mpi_exit left = agent->leave_mpi();
      counters = left.counter_count;
      if (counters != 0) told += (double)left.counters[0];
    }
  }
  take_figures(&end);
  printf("counters %u\ntold %.0f\ninside %d\noutside %.0f\n", counters, told, kInside * kCalls,
         end.faults - start.faults - kInside * kCalls);
  return 0;
}

static int spins(void) {
  struct figures before, after;
  take_figures(&before);
  spin_ms(600);
  take_figures(&after);
  printf("cpu_ms %.3f\n", after.cpu_ms - before.cpu_ms);
  return 0;
}

/* Moves itself between the first two processors that it may use, and computes after each move. */
static int moves(int count) {
  cpu_set_t may, one;
  int processors[2], found = 0;
  if (sched_getaffinity(0, sizeof may, &may) != 0) return 1;
  for (int i = 0; i < CPU_SETSIZE && found < 2; ++i)
    if (CPU_ISSET(i, &may)) processors[found++] = i;
  if (found < 2) return 1;
  for (int i = 0; i <= count; ++i) { /* the first one may be no move */
    CPU_ZERO(&one);
    CPU_SET(processors[i % 2], &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) return 1;
    spin_ms(40);
  }
  return 0;
}

static int moves_in_child(int count) {
  const pid_t child = fork();
  if (child == 0) _exit(moves(count)); /* it has its first sample before it moves */
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

int main(int count, char** words) {
  const char* what = count > 1 ? words[1] : "";
  if (strcmp(what, "threads") == 0) return threads();
  if (strcmp(what, "fork") == 0) return forks();
  if (strcmp(what, "faults") == 0) return faults();
  if (strcmp(what, "spin") == 0) return spins();
  if (strcmp(what, "mpi") == 0) return mpi();
  if (strcmp(what, "moves") == 0) return moves(10);
  if (strcmp(what, "moves_in_child") == 0) return moves_in_child(10);
  if (strcmp(what, "exec") == 0) {
    counted_work();
    return execl("/proc/self/exe", "counters", "threads", (char*)NULL);
  }
  return 2;
}
