// SPDX-License-Identifier: BSD-3-Clause
// Two functions inlined into one share its time about 70 to 30. Prints the share of the first one by the
// thread's CPU clock, read between them. Usage: hot SECONDS
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

volatile double g_sink = 0;
double g_first_s = 0;
double g_second_s = 0;

double cpu_s() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline __attribute__((always_inline)) void first(long count) {
  for (long i = 0; i < count; ++i) g_sink = g_sink + 1;  // line of first
}

inline __attribute__((always_inline)) void second(long count) {
  for (long i = 0; i < count; ++i) g_sink = g_sink + 1;  // line of second
}

template <typename T>
struct Grid {
  __attribute__((noinline)) void sweep(T count) {
    const double start = cpu_s();
    first(7 * count);  // calls first
    const double middle = cpu_s();
    second(3 * count);  // calls second
    const double end = cpu_s();
    g_first_s += middle - start;
    g_second_s += end - middle;
  }
};

}  // namespace

int main(int, char** arguments) {
  const double end = cpu_s() + std::atof(arguments[1]);
  Grid<long> grid;
  while (cpu_s() < end) grid.sweep(50'000);
  std::printf("%.4f\n", g_first_s / (g_first_s + g_second_s));
}
