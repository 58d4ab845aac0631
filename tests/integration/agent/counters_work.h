/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <time.h>

struct figures {
  double faults, switches, cpu_ms;
};

void counted_work(void);
void take_figures(struct figures* now); /* of the calling thread since its start */
void print_figures(const struct figures* before);
void* counted_thread(void* unused);
void join_early_thread(void);

static inline double cpu_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static inline void spin_ms(double ms) {
  const double end = cpu_ms() + ms;
  while (cpu_ms() < end)
    for (volatile int i = 0; i < 20000; ++i) {
    }
}
