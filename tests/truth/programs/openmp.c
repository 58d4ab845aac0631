// Parallel regions that know their own times: `openmp MODE`. Prints as JSON what the threads measured
// themselves: work (of each, too), waiting, the time until they began, and how often. OMP_NUM_THREADS says
// how many threads there are.
// `/* line of X */` marks the lines that a report has to name, those of regions by the mode.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMostThreads = 64 };

static double seconds_of(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
static double now(void) { return seconds_of(CLOCK_MONOTONIC); }
static double cpu_now(void) { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

static void spin(double seconds) {
  const double end = now() + seconds;
  while (now() < end) {
  }
}

// Of each thread of a team, in one region. `waited`: inside the region; `later`: tasks that it did at the
// end; `cpu`: of the part and of those tasks.
static struct {
  double begin, end, waited, later, cpu;
  char pad[88];
} part[kMostThreads];

static struct {
  double time_s, work_s, wait_s, begin_s, workers_cpu_s;
  double work_of_s[kMostThreads];
  long count, threads;
} sum;

// A thread may lose its processor in the call of the kernel that tells the CPU time: always within what is
// measured.
static void begin_part(int i) {
  part[i].waited = part[i].later = 0;
  part[i].begin = now();
  part[i].cpu = -cpu_now();
}
static void end_part(int i) {
  part[i].cpu += cpu_now();
  part[i].end = now();
}

static void add_up(double begin, double end, int threads) {
  sum.time_s += end - begin;
  sum.count += 1;
  if (threads > sum.threads) sum.threads = threads;
  for (int i = 0; i < threads; ++i) {
    sum.begin_s += part[i].begin - begin;
    if (i != 0) sum.workers_cpu_s += part[i].cpu;
    const double work = part[i].end - part[i].begin - part[i].waited + part[i].later;
    sum.work_s += work;
    sum.work_of_s[i] += work;
    sum.wait_s += end - part[i].end - part[i].later + part[i].waited;
  }
}

static double serial_s;
__attribute__((noinline)) static void prepare(double seconds) {
  const double begin = now();
  spin(seconds); /* line of serial */
  serial_s += now() - begin;
}

// The main thread, or the last one, has least to do. Between the regions the others have nothing to do.
static void uneven(int main_is_fast) {
  for (int r = 0; r < 30; ++r) {
    prepare(0.010);
    int threads = 0;
    const double begin = now();
#pragma omp parallel /* line of fast_main, fast_worker */
    {
      const int i = omp_get_thread_num(), n = omp_get_num_threads();
      begin_part(i);
      if (i == 0) threads = n;
      spin(0.010 * (main_is_fast ? i + 1 : n - i));
      end_part(i);
    }
    add_up(begin, now(), threads);
  }
}

// Iterations that take longer and longer; the waiting is at the end of the loop.
#define LOOP(SCHEDULE)                             \
  for (int r = 0; r < 10; ++r) {                   \
    int threads = 0;                               \
    const double begin = now();                    \
    _Pragma("omp parallel") {                      \
      const int i = omp_get_thread_num();          \
      begin_part(i);                               \
      if (i == 0) threads = omp_get_num_threads(); \
      double last = part[i].begin;                 \
      SCHEDULE for (int k = 0; k < 40; ++k) {      \
        spin(0.0001 * (k + 1));                    \
        last = now();                              \
      }                                            \
      end_part(i);                                 \
      part[i].waited = part[i].end - last;         \
    }                                              \
    add_up(begin, now(), threads);                 \
  }

static void static_loop(void) { LOOP(_Pragma("omp for schedule(static)")) /* line of static */ }
static void dynamic_loop(void) { LOOP(_Pragma("omp for schedule(dynamic, 4)")) /* line of dynamic */ }
static void coarse_loop(void) { LOOP(_Pragma("omp for schedule(dynamic, 20)")) /* line of coarse */ }
static void guided_loop(void) { LOOP(_Pragma("omp for schedule(guided)")) /* line of guided */ }

static void barriers(void) {
  for (int r = 0; r < 10; ++r) {
    int threads = 0;
    const double begin = now();
#pragma omp parallel /* line of barriers */
    {
      const int i = omp_get_thread_num();
      begin_part(i);
      if (i == 0) threads = omp_get_num_threads();
      for (int k = 0; k < 5; ++k) {
        spin(0.004 * (1 + (i + k) % omp_get_num_threads()));
        const double at = now();
#pragma omp barrier /* line of barrier */
        part[i].waited += now() - at;
      }
      end_part(i);
    }
    add_up(begin, now(), threads);
  }
}

// One thread makes tasks, which all do at the end of the region.
static void tasks(void) {
  static double done_s[kMostThreads][16];
  for (int r = 0; r < 10; ++r) {
    int threads = 0;
    memset(done_s, 0, sizeof done_s);
    const double begin = now();
#pragma omp parallel /* line of tasks */
    {
      const int i = omp_get_thread_num();
      begin_part(i);
      if (i == 0) threads = omp_get_num_threads();
#pragma omp single nowait
      for (int k = 0; k < 21; ++k) {
#pragma omp task firstprivate(k)
        {
          const double from = now(), cpu_from = cpu_now();
          spin(0.0002 * (k + 1));
          done_s[omp_get_thread_num()][1] += cpu_now() - cpu_from;
          done_s[omp_get_thread_num()][0] += now() - from;
        }
      }
      end_part(i);
      part[i].later = -done_s[i][0];
      part[i].cpu -= done_s[i][1];
    }
    const double end = now();
    for (int i = 0; i < threads; ++i) {
      part[i].later += done_s[i][0];
      part[i].cpu += done_s[i][1];
    }
    add_up(begin, end, threads);
  }
}

static void critical(void) {
  for (int r = 0; r < 10; ++r) {
    int threads = 0;
    const double begin = now();
#pragma omp parallel /* line of critical */
    {
      const int i = omp_get_thread_num();
      begin_part(i);
      if (i == 0) threads = omp_get_num_threads();
      for (int k = 0; k < 10; ++k) {
        spin(0.0005);
        const double at = now();
#pragma omp critical(one) /* line of section */
        {
          part[i].waited += now() - at;
          spin(0.002);
        }
      }
      end_part(i);
    }
    add_up(begin, now(), threads);
  }
}

static void locks(void) {
  omp_lock_t lock;
  omp_init_lock(&lock);
  for (int r = 0; r < 10; ++r) {
    int threads = 0;
    const double begin = now();
#pragma omp parallel /* line of locks */
    {
      const int i = omp_get_thread_num();
      begin_part(i);
      if (i == 0) threads = omp_get_num_threads();
      for (int k = 0; k < 10; ++k) {
        spin(0.0005);
        const double at = now();
        omp_set_lock(&lock); /* line of lock */
        part[i].waited += now() - at;
        spin(0.002);
        omp_unset_lock(&lock);
      }
      end_part(i);
    }
    add_up(begin, now(), threads);
  }
  omp_destroy_lock(&lock);
}

static void ordered(void) {
  for (int r = 0; r < 10; ++r) {
    int threads = 0;
    const double begin = now();
#pragma omp parallel /* line of ordered */
    {
      const int i = omp_get_thread_num();
      begin_part(i);
      if (i == 0) threads = omp_get_num_threads();
      double last = part[i].begin;
#pragma omp for ordered schedule(dynamic, 1)
      for (int k = 0; k < 20; ++k) {
        spin(0.0005);
        const double at = now();
#pragma omp ordered
        {
          part[i].waited += now() - at;
          spin(0.001);
        }
        last = now();
      }
      end_part(i);
      part[i].waited += part[i].end - last;
    }
    add_up(begin, now(), threads);
  }
}

static void single(void) {
  for (int r = 0; r < 10; ++r) {
    int threads = 0;
    const double begin = now();
#pragma omp parallel /* line of single */
    {
      const int i = omp_get_thread_num();
      begin_part(i);
      if (i == 0) threads = omp_get_num_threads();
      spin(0.002);
      const double at = now();
      double alone = 0;
#pragma omp single
      {
        const double from = now();
        spin(0.010);
        alone = now() - from;
      }
      part[i].waited = now() - at - alone;
      spin(0.002);
      end_part(i);
    }
    add_up(begin, now(), threads);
  }
}

// Two teams of two in one of two. What is added up is of the inner ones.
static struct {
  double begin, end[2], from[2];
  char pad[88];
} inner[2];

static void nested(void) {
  omp_set_max_active_levels(2);
  for (int r = 0; r < 10; ++r) {
    double ends[2] = {0, 0};
    int threads[2] = {0, 0};
#pragma omp parallel num_threads(2) /* line of nested_outer */
    {
      const int o = omp_get_thread_num();
      const double cpu_from = cpu_now();
      inner[o].begin = now();
#pragma omp parallel num_threads(2) /* line of nested */
      {
        const int i = omp_get_thread_num();
        inner[o].from[i] = now();
        if (i == 0) threads[o] = omp_get_num_threads();
        spin(0.005 * (1 + i + o));
        inner[o].end[i] = now();
      }
      ends[o] = now();
      if (o != 0) sum.workers_cpu_s += cpu_now() - cpu_from;
    }
    for (int o = 0; o < 2; ++o) {
      sum.time_s += ends[o] - inner[o].begin;
      sum.count += 1;
      sum.threads = threads[o];
      for (int i = 0; i < threads[o]; ++i) {
        sum.work_s += inner[o].end[i] - inner[o].from[i];
        sum.wait_s += ends[o] - inner[o].end[i];
        sum.begin_s += inner[o].from[i] - inner[o].begin;
      }
    }
  }
}

static volatile double sink;
static void small(void) {
  for (int r = 0; r < 200000; ++r) {
#pragma omp parallel /* line of small */
    if (omp_get_thread_num() == 0) sink += 1;
  }
  sum.count = 200000;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } kModes[] = {{"static", static_loop}, {"dynamic", dynamic_loop}, {"guided", guided_loop},
                {"coarse", coarse_loop}, {"barriers", barriers},    {"tasks", tasks},
                {"critical", critical},  {"locks", locks},          {"ordered", ordered},
                {"single", single},      {"nested", nested},        {"small", small}};
  if (argc < 2) return 2;
  omp_get_max_threads();  // LLVM's run time starts when it is first called: not within the first region
  const double begin = now();
  if (strcmp(argv[1], "fast_main") == 0 || strcmp(argv[1], "fast_worker") == 0) {
    uneven(strcmp(argv[1], "fast_main") == 0);
  } else {
    size_t mode = 0;
    while (mode < sizeof kModes / sizeof *kModes && strcmp(kModes[mode].name, argv[1]) != 0) ++mode;
    if (mode == sizeof kModes / sizeof *kModes) return 2;
    kModes[mode].run();
  }
  printf(
      "{\"time_s\": %.9f, \"work_s\": %.9f, \"wait_s\": %.9f, \"begin_s\": %.9f, \"count\": %ld, "
      "\"threads\": %ld, \"workers_cpu_s\": %.9f, "
      "\"serial_s\": %.9f, \"all_s\": %.9f, \"work_of_s\": [",
      sum.time_s, sum.work_s, sum.wait_s, sum.begin_s, sum.count, sum.threads, sum.workers_cpu_s, serial_s,
      now() - begin);
  for (long i = 0; i < sum.threads; ++i) printf("%s%.9f", i > 0 ? ", " : "", sum.work_of_s[i]);
  puts("]}");
  return 0;
}
