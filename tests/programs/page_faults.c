// SPDX-License-Identifier: BSD-3-Clause
// page_faults SECONDS: alternates between touching fresh pages and computing for so much CPU time. Prints the
// CPU time that the kernel took while pages were touched, and all of it.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define APART __attribute__((noipa))

enum { kBytes = 32 << 20, kPage = 4096 };

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static struct rusage usage(void) {
  struct rusage now;
  getrusage(RUSAGE_SELF, &now);
  return now;
}

APART static void touch(char* memory) {
  for (size_t i = 0; i < kBytes; i += kPage) memory[i] = 1;
  __asm__ volatile("" ::: "memory");
}

APART static void compute(unsigned rounds) {
  volatile unsigned x = 1;
  for (unsigned i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u;
}

int main(int argc, char** argv) {
  const double wanted_s = argc > 1 ? atof(argv[1]) : 5;
  double in_faults = 0, total = 0;
  while (total < wanted_s) {
    char* const memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    madvise(memory, kBytes, MADV_NOHUGEPAGE);
    const struct rusage before = usage();
    touch(memory);
    const struct rusage after = usage();
    in_faults += seconds(after.ru_stime) - seconds(before.ru_stime);
    munmap(memory, kBytes);
    compute(20000000);
    const struct rusage now = usage();
    total = seconds(now.ru_utime) + seconds(now.ru_stime);
  }
  printf("%f %f\n", in_faults, total);
  return 0;
}
