// SPDX-License-Identifier: BSD-3-Clause
// Runs code it has made itself, and says in /tmp/perf-PID.map what it is called, like the compilers of node
// and java. Usage: jit SECONDS (map|none|twice|link)
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// push %rbp; mov %rsp,%rbp; mov %rdi,%rcx; 1: dec %rcx; jnz 1b; pop %rbp; ret
static const unsigned char kLoop[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf9,
                                      0x48, 0xff, 0xc9, 0x75, 0xfb, 0x5d, 0xc3};

static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  unsigned char* const code =
      mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) return 1;
  memcpy(code + 256, kLoop, sizeof(kLoop));
  memcpy(code + 4096, kLoop, sizeof(kLoop));
  char path[64];
  char target[128];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  snprintf(target, sizeof(target), "%s", path);
  if (strcmp(argv[2], "link") == 0) {  // another file's content under the name
    snprintf(target, sizeof(target), "%s.real", path);
    if (symlink(target, path) != 0) return 1;
  }
  if (strcmp(argv[2], "none") != 0) {
    FILE* const map = fopen(target, "w");
    if (map == NULL) return 1;
    fprintf(map, "%lx %zx jitted first loop\n", (unsigned long)(code + 256), sizeof(kLoop));
    fprintf(map, "damaged line\n");
    fprintf(map, "%lx %zx jitted second loop\n", (unsigned long)(code + 4096), sizeof(kLoop));
    if (strcmp(argv[2], "twice") == 0)  // the first one's memory had another function in it at some time
      fprintf(map, "%lx %zx some other function\n", (unsigned long)(code + 256), sizeof(kLoop));
    fclose(map);
  }
  void (*const first)(long) = (void (*)(long))(code + 256);
  void (*const second)(long) = (void (*)(long))(code + 4096);
  const double end = cpu_s() + atof(argv[1]);
  // Reading the CPU clock is rare: see hot.cpp.
  while (cpu_s() < end) {
    for (int i = 0; i < 100; ++i) {
      first(700000);
      second(300000);
    }
  }
  return 0;
}
