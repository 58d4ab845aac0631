/* SPDX-License-Identifier: BSD-3-Clause */
/* churn PAIRS: allocates and frees so many small blocks, and prints "churn" and three numbers of bytes: what
 * it had in RAM after a quarter of them, what it has at the end, and what it has asked for in pairs(). What
 * it needs itself stays the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kLive = 64 };

static void* volatile g_blocks[kLive];
static unsigned long long g_allocated;

static long rss_bytes(void) {
  char text[128];
  FILE* const file = fopen("/proc/self/statm", "r");
  long size = 0, resident = 0;
  if (file == NULL || fgets(text, sizeof text, file) == NULL ||
      sscanf(text, "%ld %ld", &size, &resident) != 2)
    exit(1);
  fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

static __attribute__((noinline, noclone)) void pairs(unsigned long long count) {
  for (unsigned long long i = 0; i < count; ++i) {
    const size_t bytes = 16 + (size_t)(i % 13) * 16;
    free(g_blocks[i % kLive]);
    g_blocks[i % kLive] = malloc(bytes);
    g_allocated += bytes;
  }
  __asm__ volatile("");
}

int main(int count, char** arguments) {
  const unsigned long long wanted = count > 1 ? strtoull(arguments[1], NULL, 10) : 0;
  pairs(wanted / 4);
  const long before = rss_bytes();
  pairs(wanted - wanted / 4);
  printf("churn %ld %ld %llu\n", before, rss_bytes(), g_allocated);
  for (int i = 0; i < kLive; ++i) free(g_blocks[i]);
  return 0;
}
