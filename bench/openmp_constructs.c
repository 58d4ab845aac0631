/* One construct of OpenMP after the other: openmp_constructs WHAT. Prints the median nanoseconds that one
   takes, as each thread of the team sees it. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatches = 41, kRounds = 2000 };

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static volatile long g_sink;

static void regions(void) {
  for (int i = 0; i < kRounds; ++i) {
#pragma omp parallel
    if (omp_get_thread_num() == 0) g_sink += 1;
  }
}
static void barriers(void) {
#pragma omp parallel
  for (int i = 0; i < kRounds; ++i) {
#pragma omp barrier
  }
}
static void chunks(void) {
#pragma omp parallel
  {
    const int n = omp_get_num_threads();
#pragma omp for schedule(dynamic, 1)
    for (int i = 0; i < kRounds * n; ++i) {
    }
  }
}
static void criticals(void) {
#pragma omp parallel
  for (int i = 0; i < kRounds; ++i) {
#pragma omp critical
    g_sink += 1;
  }
}
static void tasks(void) {
#pragma omp parallel
#pragma omp single
  for (int i = 0; i < kRounds; ++i) {
#pragma omp task
    g_sink += 1;
  }
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } kKinds[] = {{"regions", regions},
                {"barriers", barriers},
                {"chunks", chunks},
                {"criticals", criticals},
                {"tasks", tasks}};
  for (size_t i = 0; argc == 2 && i < sizeof kKinds / sizeof *kKinds; ++i) {
    if (strcmp(kKinds[i].name, argv[1]) != 0) continue;
    double batch_ns[kBatches];
    for (int batch = 0; batch < kBatches; ++batch) {
      const double begin = now_ns();
      kKinds[i].run();
      batch_ns[batch] = (now_ns() - begin) / kRounds;
    }
    qsort(batch_ns, kBatches, sizeof batch_ns[0], compare);
    printf("call_ns %.1f\n", batch_ns[kBatches / 2]);
    return 0;
  }
  return 2;
}
