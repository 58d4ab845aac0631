// Leaves regions of one thread by jumps, more often than regions can nest, and then runs others. Prints as
// JSON how often these ran.
#include <setjmp.h>
#include <stdio.h>

enum { kLeft = 20, kCounted = 10 };

static sigjmp_buf before;
static volatile int sink;

// Deeper on the stack than what comes afterwards.
__attribute__((noinline)) static void left(void) {
  volatile char room[4096];
  room[0] = 0;
#pragma omp parallel num_threads(1)
  {
    sink += 1;
    siglongjmp(before, 1);
  }
  sink += room[0];
}

__attribute__((noinline)) static void counted(void) {
#pragma omp parallel num_threads(1)
  sink += 1;
}

int main(void) {
  static volatile int jumps;
  if (sigsetjmp(before, 1) != 0) ++jumps;
  if (jumps < kLeft) left();
  for (int i = 0; i < kCounted; ++i) counted();
  printf("{\"counted\": %d}\n", (int)kCounted);
  return 0;
}
