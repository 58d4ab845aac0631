// SPDX-License-Identifier: BSD-3-Clause
// Names of all sorts, each with its share of the time. Usage: names SECONDS
#include <cstdlib>
#include <ctime>

volatile double g_sink = 0;
#define NOT_INLINED __attribute__((noinline))

static inline __attribute__((always_inline)) void spin() {
  for (int i = 0; i < 200'000; ++i) g_sink = g_sink + 1;
}

namespace heat {

struct Field {
  NOT_INLINED explicit Field(int) { spin(); }
  NOT_INLINED ~Field() { spin(); }
  NOT_INLINED Field& operator+=(double) {
    spin();
    return *this;
  }
};

template <typename T, int N>
NOT_INLINED void smooth(T) {
  spin();
}

namespace {
NOT_INLINED void hidden() { spin(); }
}  // namespace

}  // namespace heat

// Copied for a constant argument, as heat_step.constprop.0.
static NOT_INLINED __attribute__((noclone)) void keep(int) { spin(); }
static NOT_INLINED int step(int times, int twice) {
  for (int i = 0; i < times; ++i) {
    if (twice != 0) keep(i);
    spin();
  }
  return times;
}

extern "C" NOT_INLINED void c_function() { spin(); }

template <typename F>
NOT_INLINED void call(F&& function) {
  function();
  g_sink = g_sink + 1;
}

double cpu_s() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int main(int, char** arguments) {
  const double end = cpu_s() + std::atof(arguments[1]);
  do {
    heat::Field field(1);
    field += 2.0;
    heat::smooth<double, 3>(1.0);
    heat::hidden();
    step(1, 0);
    c_function();
    call([]() NOT_INLINED { spin(); });
  } while (cpu_s() < end);
}
