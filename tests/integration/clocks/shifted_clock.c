// SPDX-License-Identifier: BSD-3-Clause
// Preloaded: CLOCK_MONOTONIC of this process is CLOCK_SHIFT_NS ahead and gains CLOCK_DRIFT_PPM from
// CLOCK_BASE_NS on, a time of the machine's CLOCK_MONOTONIC.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int ready;
static long long base_ns, shift_ns;
static double drift;

static long long number(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atoll(text);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result != 0 || clock != CLOCK_MONOTONIC) return (int)result;
  if (!ready) {
    base_ns = number("CLOCK_BASE_NS");
    shift_ns = number("CLOCK_SHIFT_NS");
    drift = number("CLOCK_DRIFT_PPM") * 1e-6;
    ready = 1;
  }
  const long long now_ns = time->tv_sec * 1000000000LL + time->tv_nsec;
  const long long shifted_ns = now_ns + shift_ns + (long long)((now_ns - base_ns) * drift);
  time->tv_sec = shifted_ns / 1000000000LL;
  time->tv_nsec = shifted_ns % 1000000000LL;
  return 0;
}
