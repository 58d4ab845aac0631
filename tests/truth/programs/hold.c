/* SPDX-License-Identifier: BSD-3-Clause */
/* hold MIB [FILE]: touches MIB MiB in small blocks and as much in large ones, in two functions, and writes
 * "held". Then it waits until FILE is there. Without FILE it takes more, until it is killed for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone))
#define MIB ((size_t)1 << 20)

static void** g_blocks;
static size_t g_count;

static OWN void small(size_t mib) {
  for (size_t i = 0; i < mib * 1024; ++i) {
    g_blocks[g_count] = malloc(1024);
    memset(g_blocks[g_count++], 1, 1024);
  }
}
static OWN void large(size_t mib) {
  for (size_t i = 0; i < mib; ++i) {
    g_blocks[g_count] = malloc(MIB);
    memset(g_blocks[g_count++], 1, MIB);
  }
}
static OWN void more(void) {
  for (;;) {
    char* const block = malloc(MIB);
    if (block == NULL) abort();
    memset(block, 1, MIB);
    usleep(2000); /* until it is seen */
  }
}

int main(int count, char** arguments) {
  const size_t mib = count > 1 ? (size_t)atol(arguments[1]) : 1;
  g_blocks = malloc(mib * 1025 * sizeof *g_blocks);
  small(mib);
  large(mib);
  puts("held");
  fflush(stdout);
  if (count < 3) more();
  while (access(arguments[2], F_OK) != 0) usleep(20000);
  return 0;
}
