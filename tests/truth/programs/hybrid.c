// MPI and OpenMP: ranks and their threads have unequal work, and say on rank 0 what each has measured itself.
// Work is sleeping, so that it takes as long where there are fewer processors than threads.
// `/* line of X */` marks the lines that a report has to name.
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "without_processor.h"

enum { kMostThreads = 16, kRounds = 40, kShort = 300 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Since the process began; 0 where the kernel does not say.
static double age(void) {
  char text[1024];
  FILE* const file = fopen("/proc/self/stat", "r");
  text[file != NULL ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
  if (file != NULL) fclose(file);
  const char* field = strrchr(text, ')');
  for (int i = 2; field != NULL && i < 22; ++i) field = strchr(field + 1, ' ');
  unsigned long long began = 0;
  if (field == NULL || sscanf(field, "%llu", &began) != 1) return 0;
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec - (double)began / (double)sysconf(_SC_CLK_TCK);
}

static void nap(double seconds) {
  const struct timespec time = {0, (long)(1e9 * seconds)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

// Of each thread in one instance of a region.
static struct {
  double begin, end, waited;
  char pad[104];
} part[kMostThreads];

// Doubles alone: they are gathered as such.
typedef struct {
  double time_s, work_s, wait_s, serial_s, begin_s, count, threads;
} Sum;
typedef struct {
  Sum uneven, brief;
  // Of the main thread. outside: of regions and MPI; without: ready without a processor, inside MPI, and
  // outside, where it is no useful time; started: what the process took until it called MPI_Init.
  double outside_s, mpi_s, without_mpi_s, without_s, useful_s, started_s;
} Own;
static Own own;

static void add_up(Sum* sum, double begin, double end, int threads) {
  sum->time_s += end - begin;
  sum->count += 1;
  sum->threads = threads;
  for (int i = 0; i < threads; ++i) {
    sum->begin_s += part[i].begin - begin;
    sum->work_s += part[i].end - part[i].begin - part[i].waited;
    sum->serial_s += part[i].waited;
    sum->wait_s += part[i].waited + end - part[i].end;
  }
}

static void uneven(int rank) {
  int threads = 0;
  const double begin = now();
#pragma omp parallel /* line of uneven */
  {
    const int i = omp_get_thread_num();
    part[i].begin = now();
    if (i == 0) threads = omp_get_num_threads();
#pragma omp critical /* line of section */
    {
      part[i].waited = now() - part[i].begin;
      nap(0.004);
    }
    nap(0.010 * (1 + i + rank));
    part[i].end = now();
  }
  add_up(&own.uneven, begin, now(), threads);
}

// So short that it matters when threads begin.
static void brief(void) {
  int threads = 0;
  const double begin = now();
#pragma omp parallel /* line of brief */
  {
    const int i = omp_get_thread_num();
    part[i].begin = now();
    part[i].waited = 0;
    if (i == 0) threads = omp_get_num_threads();
    nap(0.0005);
    part[i].end = now();
  }
  add_up(&own.brief, begin, now(), threads);
}

static void print(const char* name, const Sum* sum) {
  printf(
      "\"%s\": {\"time_s\": %.9f, \"work_s\": %.9f, \"wait_s\": %.9f, \"serial_s\": %.9f, \"begin_s\": %.9f, "
      "\"count\": %.0f, \"threads\": %.0f}, ",
      name, sum->time_s, sum->work_s, sum->wait_s, sum->serial_s, sum->begin_s, sum->count, sum->threads);
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 0;
  own.started_s = age();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 || omp_get_max_threads() > kMostThreads) MPI_Abort(MPI_COMM_WORLD, 2);
  const double begin = now(), before = without_processor();
  for (int r = 0; r < kRounds; ++r) {
    uneven(rank);
    nap(0.010); /* line of serial */
    own.without_mpi_s -= without_processor();
    const double at = now();
    MPI_Barrier(MPI_COMM_WORLD);
    own.mpi_s += now() - at;
    own.without_mpi_s += without_processor();
  }
  for (int r = 0; r < kShort; ++r) brief();
  own.without_s = without_processor() - before - own.without_mpi_s;
  const double all_s = now() - begin;
  own.useful_s = all_s - own.mpi_s - own.without_s;
  own.outside_s = all_s - own.mpi_s - own.uneven.time_s - own.brief.time_s;
  Own of[2];
  enum { kDoubles = sizeof own / sizeof(double) };
  MPI_Gather(&own, kDoubles, MPI_DOUBLE, of, kDoubles, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("[");
    for (int i = 0; i < ranks; ++i) {
      printf("%s{", i == 0 ? "" : ", ");
      print("uneven", &of[i].uneven);
      print("brief", &of[i].brief);
      printf(
          "\"outside_s\": %.9f, \"mpi_s\": %.9f, \"without_mpi_s\": %.9f, \"without_s\": %.9f, \"useful_s\": "
          "%.9f, \"started_s\": %.9f}",
          of[i].outside_s, of[i].mpi_s, of[i].without_mpi_s, of[i].without_s, of[i].useful_s,
          of[i].started_s);
    }
    printf("]\n");
  }
  MPI_Finalize();
  return 0;
}
