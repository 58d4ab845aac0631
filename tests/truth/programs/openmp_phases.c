// Phases of a known length whose threads lose time in different ways: `openmp_phases`. Prints as JSON what
// each phase took, by the program's own clock: when it began and ended, since main() began, and what its
// threads did. Phases take 2 s each, and more where the program was slow to start: a profile divides the run
// into equal parts. With MPI (-DWITH_MPI) the sums are those of all ranks, and rank 0 prints.
// Work is sleeping, so that it takes as long where there are fewer processors than threads.
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

enum { kMostThreads = 16 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void nap(double seconds) {
  struct timespec time = {(time_t)seconds, 0};
  time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
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

// How many times 2 s a phase takes: as many as seconds have passed, within limits.
static int length(void) {
  double passed_s = age();
#ifdef WITH_MPI
  MPI_Allreduce(MPI_IN_PLACE, &passed_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
#endif
  const int most = 5;
  return passed_s < 1 ? 1 : passed_s > most ? most : (int)passed_s;
}

// Of each thread in one instance of a region.
static struct {
  double begin, end;
  char pad[112];
} part[kMostThreads];

// Doubles alone: they are added up as such. `outside_s`: of the main thread, of regions and MPI.
typedef struct {
  double begin_s, end_s, work_s, wait_s, schedule_s, outside_s, mpi_s;
} Phase;

enum { kBalanced, kUneven, kSerial, kLong, kRanks, kPhases };
static const char* const kNames[kPhases] = {"balanced", "uneven", "serial", "long", "ranks"};
static Phase phase[kPhases];
static int ranks = 1, rank = 0;

// Thread 0 and the others have so much work.
static void region(Phase* sum, double first_s, double others_s) {
  int threads = 0;
  const double begin = now();
#pragma omp parallel
  {
    const int i = omp_get_thread_num();
    part[i].begin = now();
    if (i == 0) threads = omp_get_num_threads();
    nap(i == 0 ? first_s : others_s);
    part[i].end = now();
  }
  const double end = now();
  for (int i = 0; i < threads; ++i) {
    sum->schedule_s += part[i].begin - begin;
    sum->work_s += part[i].end - part[i].begin;
    sum->wait_s += end - part[i].end;
  }
  sum->outside_s -= end - begin;
}

static void meet(Phase* sum) {
#ifdef WITH_MPI
  const double begin = now();
  MPI_Barrier(MPI_COMM_WORLD);
  const double lasted = now() - begin;
  sum->mpi_s += lasted;
  sum->outside_s -= lasted;
#else
  (void)sum;
#endif
}

int main(int argc, char** argv) {
  const double start = now();
#ifdef WITH_MPI
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
#else
  (void)argc, (void)argv;
#endif
  const int phases = ranks > 1 ? kPhases : kRanks, times = length();
  for (int p = 0; p < phases; ++p) {
    Phase* const sum = &phase[p];
    meet(sum);
    memset(sum, 0, sizeof *sum);
    sum->begin_s = now() - start;
    // Of each round it is known how long it takes, so all ranks do as many.
    switch (p) {
      case kBalanced:
        for (int i = 0; i < 100 * times; ++i) region(sum, 0.020, 0.020);
        break;
      case kUneven:
        for (int i = 0; i < 66 * times; ++i) region(sum, 0.010, 0.030);
        break;
      case kSerial:
        for (int i = 0; i < 50 * times; ++i) {
          nap(0.020);
          region(sum, 0.020, 0.020);
        }
        break;
      case kLong:  // longer than the collector waits between two looks
        region(sum, 2.0 * times, 1.0 * times);
        break;
      case kRanks:
        for (int i = 0; i < 100 * times; ++i) {
          if (rank == 0) region(sum, 0.020, 0.020);
          meet(sum);
        }
        break;
      default:
        break;
    }
    sum->end_s = now() - start;
    sum->outside_s += sum->end_s - sum->begin_s;
  }
  Phase all[kPhases];
  memcpy(all, phase, sizeof all);
#ifdef WITH_MPI
  MPI_Reduce(phase, all, sizeof all / sizeof(double), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
#endif
  if (rank == 0) {
    printf("{");
    for (int p = 0; p < phases; ++p)
      printf(
          "%s\"%s\": {\"begin_s\": %.6f, \"end_s\": %.6f, \"work_s\": %.6f, \"wait_s\": %.6f, "
          "\"schedule_s\": %.6f, \"outside_s\": %.6f, \"mpi_s\": %.6f}",
          p == 0 ? "" : ", ", kNames[p], all[p].begin_s / ranks, all[p].end_s / ranks, all[p].work_s,
          all[p].wait_s, all[p].schedule_s, all[p].outside_s, all[p].mpi_s);
    printf("}\n");
  }
#ifdef WITH_MPI
  MPI_Finalize();
#endif
  return 0;
}
