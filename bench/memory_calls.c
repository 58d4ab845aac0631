/* Prints the nanoseconds of a call, the least of many batches:
 *   memory_calls pair64        malloc and free of 64 bytes
 *   memory_calls pairs10k      free and malloc of 16 to 1024 bytes, of which 10,000 live
 *   memory_calls copyBYTES     memcpy of so many bytes */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatches = 301, kCalls = 10000, kLive = 10000, kMostCopied = 1 << 20 };

static void* volatile g_block;
static void* g_live[kLive];
static char g_from[kMostCopied], g_to[kMostCopied];
static volatile size_t g_bytes;

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void pair64(void) {
  for (int i = 0; i < kCalls; ++i) {
    g_block = malloc(64);
    free(g_block);
  }
}

static void pairs10k(void) {
  static unsigned random = 1;
  for (int i = 0; i < kCalls; ++i) {
    random = random * 1664525u + 1013904223u;
    const unsigned place = (random >> 16) % kLive;
    free(g_live[place]);
    g_live[place] = malloc(16 + (random >> 8) % 1009);
  }
}

static void copy(void) {
  for (int i = 0; i < kCalls; ++i) {
    memcpy(g_to, g_from, g_bytes);
    __asm__ volatile("" : : : "memory");
  }
}

int main(int count, char** arguments) {
  const char* const what = count > 1 ? arguments[1] : "";
  void (*run)(void) = NULL;
  if (strcmp(what, "pair64") == 0) run = pair64;
  if (strcmp(what, "pairs10k") == 0) run = pairs10k;
  if (strncmp(what, "copy", 4) == 0) {
    g_bytes = strtoul(what + 4, NULL, 10);
    if (g_bytes != 0 && g_bytes <= kMostCopied) run = copy;
  }
  if (run == NULL) return 1;
  double least_ns = 1e300;
  for (int batch = 0; batch < kBatches; ++batch) {
    const double begin_ns = now_ns();
    run();
    const double took_ns = (now_ns() - begin_ns) / kCalls;
    if (took_ns < least_ns) least_ns = took_ns;
  }
  printf("%.3f\n", least_ns);
  return 0;
}
