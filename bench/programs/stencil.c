/* Five-point stencil on a grid larger than the second-level cache, one thread. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kSide = 1200, kSteps = 700, kCentre = kSide / 2 * (kSide + 1) };

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

__attribute__((noinline)) static void step(const double* from, double* to) {
  for (int row = 1; row < kSide - 1; ++row)
    for (int column = 1; column < kSide - 1; ++column) {
      const double* at = from + row * kSide + column;
      to[row * kSide + column] = 0.5 * at[0] + 0.125 * (at[-1] + at[1] + at[-kSide] + at[kSide]);
    }
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const int steps = kSteps * atoi(arguments[1]);
  double* a = calloc((size_t)kSide * kSide, sizeof *a);
  double* b = calloc((size_t)kSide * kSide, sizeof *b);
  if (a == NULL || b == NULL) return 1;
  a[kCentre] = 1;
  const double begin = now_s();
  for (int i = 0; i < steps; ++i) {
    step(a, b);
    double* other = a;
    a = b;
    b = other;
  }
  printf("program_s %.6f (%g)\n", now_s() - begin, a[kCentre]);
  return 0;
}
