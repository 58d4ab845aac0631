/* Calls on one file in the working directory, or on a pipe: io_calls FUNCTION. Prints the median nanoseconds
 * of one over batches. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kBatches = 101, kRounds = 2000 };

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int g_file, g_pipe[2];
static FILE* g_stream;
static char g_byte;
static struct stat g_status;

static int do_pread(void) { return pread(g_file, &g_byte, 1, 0) == 1; }
static int do_pwrite(void) { return pwrite(g_file, &g_byte, 1, 0) == 1; }
static int do_stat(void) { return stat("io_calls.data", &g_status) == 0; }
static int do_open(void) {
  const int file = open("io_calls.data", O_RDONLY);
  return file >= 0 && close(file) == 0;
}
static int do_fwrite(void) { return fwrite(&g_byte, 1, 1, g_stream) == 1; }
static int do_fprintf(void) { return fprintf(g_stream, "%d\n", 7) == 2; }
static int do_fputc(void) { return fputc('x', g_stream) == 'x'; }
static int do_pipe(void) { return write(g_pipe[1], &g_byte, 1) == 1 && read(g_pipe[0], &g_byte, 1) == 1; }

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int (*run)(void);
  } kFunctions[] = {{"pread", do_pread},     {"pwrite", do_pwrite}, {"stat", do_stat},
                    {"open+close", do_open}, {"fwrite", do_fwrite}, {"fprintf", do_fprintf},
                    {"fputc", do_fputc},     {"pipe", do_pipe}};
  g_file = open("io_calls.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
  g_stream = fopen("io_calls.stream", "w");
  if (argc != 2 || g_file < 0 || g_stream == NULL || pipe(g_pipe) != 0 || write(g_file, "x", 1) != 1)
    return 1;
  for (size_t i = 0; i < sizeof kFunctions / sizeof *kFunctions; ++i) {
    if (strcmp(kFunctions[i].name, argv[1]) != 0) continue;
    double batch_ns[kBatches];
    for (int batch = 0; batch < kBatches; ++batch) {
      const double begin = now_ns();
      for (int round = 0; round < kRounds; ++round)
        if (!kFunctions[i].run()) return 1;
      batch_ns[batch] = (now_ns() - begin) / kRounds;
    }
    qsort(batch_ns, kBatches, sizeof batch_ns[0], compare);
    printf("call_ns %.1f\n", batch_ns[kBatches / 2]);
    return 0;
  }
  return 2;
}
