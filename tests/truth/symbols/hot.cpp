// SPDX-License-Identifier: BSD-3-Clause
// Two functions inlined into one share its time about 70 to 30. Prints the share of the first one: the median
// of what each sweep took by the wall clock, which waiting for a processor does not change: sweeps are short,
// so that few are interrupted. The thread's CPU clock is read rarely: the kernel takes the processor away
// from a thread that reads it, if that is due, and the sample that is due meanwhile is taken there. Usage:
// hot SECONDS
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace {

volatile double g_sink = 0;
std::vector<double> g_shares;

double clock_s(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
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
    const double start = clock_s(CLOCK_MONOTONIC);
    first(7 * count);  // calls first
    const double middle = clock_s(CLOCK_MONOTONIC);
    second(3 * count);  // calls second
    const double end = clock_s(CLOCK_MONOTONIC);
    g_shares.push_back((middle - start) / (end - start));
  }
};

}  // namespace

int main(int, char** arguments) {
  const double end = clock_s(CLOCK_THREAD_CPUTIME_ID) + std::atof(arguments[1]);
  Grid<long> grid;
  while (clock_s(CLOCK_THREAD_CPUTIME_ID) < end)
    for (int i = 0; i < 500; ++i) grid.sweep(5'000);
  const auto median = g_shares.begin() + static_cast<std::ptrdiff_t>(g_shares.size() / 2);
  std::nth_element(g_shares.begin(), median, g_shares.end());
  std::printf("%.4f\n", *median);
}
