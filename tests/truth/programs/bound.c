// bound CLASS SECONDS: takes turns at what CLASS is limited by (seven parts in ten, by the wall clock) and at
// computing in registers. CLASS: compute, memory (sweeps over 384 MiB), faults (touches fresh pages), fsync
// (small writes, each followed by fsync, to the file bound.dat), sleep. Prints JSON: the seconds of both
// parts by its own clock, without those in which it was ready and others had its processor (lacked_s, where
// the kernel tells), and before them those in which it filled what it sweeps over (fill_s); what getrusage
// says the process did in between, with the kernel's time in the first part (bound_system_s); and the bytes
// and operations on the file.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noipa))

enum { kDoubles = 16 << 20, kFreshBytes = 64 << 20, kPage = 4096, kRecord = 4096 };

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// How long the thread has been ready without a processor.
static double lacked_now_s(void) {
  char text[128];
  const int stat = open("/proc/thread-self/schedstat", O_RDONLY);
  const ssize_t bytes = stat < 0 ? -1 : read(stat, text, sizeof text - 1);
  if (stat >= 0) close(stat);
  if (bytes <= 0) return 0;
  text[bytes] = 0;
  const char* const second = strchr(text, ' ');
  return second == NULL ? 0 : 1e-9 * strtod(second, NULL);
}

static double system_now_s(void) {
  struct rusage now;
  getrusage(RUSAGE_SELF, &now);
  return (double)now.ru_stime.tv_sec + 1e-6 * (double)now.ru_stime.tv_usec;
}

APART static void compute(void) {
  double x = 1, y = 2, z = 3, w = 4;
  for (int i = 0; i < 200000; ++i) {
    x = x * 0.9999 + 0.1;
    y = y * 0.9998 + 0.2;
    z = z * 0.9997 + 0.3;
    w = w * 0.9996 + 0.4;
  }
  __asm__ volatile("" ::"x"(x), "x"(y), "x"(z), "x"(w));
}

static double *a, *b, *c;
static long at;

// A part of the sweep at a time, going on where the last one ended.
APART static void sweep(void) {
  enum { kPart = 1 << 18 };
  double* const to = a + at;
  const double *const left = b + at, *const right = c + at;
  for (long i = 0; i < kPart; ++i) to[i] = left[i] + 3 * right[i];
  at = (at + kPart) % kDoubles;
}

APART static void touch(void) {
  char* const memory = mmap(NULL, kFreshBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) exit(1);
  madvise(memory, kFreshBytes, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < kFreshBytes; i += kPage) memory[i] = 1;
  munmap(memory, kFreshBytes);
}

static int file;
static long written_bytes, syncs;

APART static void store(void) {
  char record[kRecord];
  memset(record, 'r', sizeof record);
  if (write(file, record, sizeof record) != sizeof record || fsync(file) != 0) exit(1);
  written_bytes += sizeof record;
  ++syncs;
}

APART static void rest(void) {
  const struct timespec pause = {0, 20000000};
  nanosleep(&pause, NULL);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } classes[] = {
      {"compute", compute}, {"memory", sweep}, {"faults", touch}, {"fsync", store}, {"sleep", rest}};
  if (argc < 3) return 2;
  void (*bound)(void) = NULL;
  for (size_t i = 0; i < sizeof classes / sizeof *classes; ++i)
    if (strcmp(argv[1], classes[i].name) == 0) bound = classes[i].run;
  if (bound == NULL) return 2;
  const double wanted_s = atof(argv[2]);
  const double started = now_s(), lacked_at_start = lacked_now_s();
  if (bound == sweep) {
    const size_t bytes = 3 * sizeof *a * kDoubles;
    a = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED) return 1;
    madvise(a, bytes, MADV_HUGEPAGE);
    b = a + kDoubles;
    c = b + kDoubles;
    for (long i = 0; i < 3L * kDoubles; ++i) a[i] = 1;
  }
  if (bound == store && (file = open("bound.dat", O_WRONLY | O_CREAT | O_TRUNC, 0600)) < 0) return 1;

  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  const double begin = now_s();
  const double lacked_at_begin = lacked_now_s();
  const double fill_s = begin - started - (lacked_at_begin - lacked_at_start);
  double bound_s = 0, bound_system_s = 0, now = begin;
  while (now - begin < wanted_s) {
    // As long as it takes to come back to seven tenths, but turns of a length that samples can tell apart.
    const double turn = now, lacked = lacked_now_s(), system = system_now_s();
    while (now - turn < 0.14) {
      bound();
      now = now_s();
    }
    bound_s += now - turn - (lacked_now_s() - lacked);
    bound_system_s += system_now_s() - system;
    const double rest_until = now + (now - turn) * 3 / 7;
    while (now < rest_until) {
      compute();
      now = now_s();
    }
  }
  getrusage(RUSAGE_SELF, &after);
  const double lacked_s = lacked_now_s() - lacked_at_begin;
  printf(
      "{\"bound_s\": %.6f, \"bound_system_s\": %.6f, \"total_s\": %.6f, \"lacked_s\": %.6f, \"fill_s\": "
      "%.6f, "
      "\"faults\": %ld, \"voluntary\": %ld, \"involuntary\": %ld, \"written_bytes\": %ld, \"syncs\": %ld}\n",
      bound_s, bound_system_s, now - begin - lacked_s, lacked_s, fill_s,
      after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt,
      after.ru_nvcsw - before.ru_nvcsw, after.ru_nivcsw - before.ru_nivcsw, written_bytes, syncs);
  return 0;
}
