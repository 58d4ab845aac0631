/* Makes records, computes with each, and frees them: a program that spends some 8 % of its time in malloc and
 * free: records LENGTH */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kLive = 10000, kRounds = 4000000, kWork = 48 };

struct Record {
  double values[8];
};

static struct Record* volatile g_records[kLive];

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double worked(struct Record* record, double x) {
  for (int i = 0; i < 8; ++i) record->values[i] = x + i;
  for (int i = 0; i < kWork; ++i)
    record->values[i % 8] = record->values[(i + 3) % 8] * 0.999 + 1 / (1 + record->values[i % 8]);
  return record->values[0];
}

int main(int count, char** arguments) {
  const long length = count > 1 ? atol(arguments[1]) : 1;
  double sum = 0;
  const double begin_s = now_s();
  for (long i = 0; i < length * kRounds; ++i) {
    const long place = i * 7919 % kLive;
    free(g_records[place]);
    struct Record* const record = malloc(sizeof *record);
    if (record == NULL) return 1;
    g_records[place] = record;
    sum += worked(record, (double)(i % 1000));
  }
  printf("program_s %.6f\nsum %g\n", now_s() - begin_s, sum);
  return 0;
}
