// SPDX-License-Identifier: BSD-3-Clause
// What the programs made of cases have in common: PROGRAM [CASE...] runs those cases, or all that are not to
// be asked for. Each rank writes what it expects to be recorded into $EXPECT_DIR.
#pragma once

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Open MPI 5.0 has all of MPI 4.0 but the functions with large counts, and calls itself MPI 3.1.
#if MPI_VERSION >= 4
#define HAS_LARGE_COUNTS 1
#define HAS_MPI_4 1
#elif defined(OMPI_MAJOR_VERSION)
#define HAS_MPI_4 (OMPI_MAJOR_VERSION >= 5)
#endif

static int world_rank, world_size;

static int right(void) { return (world_rank + 1) % world_size; }
static int left(void) { return (world_rank + world_size - 1) % world_size; }

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rank %d: %s\n", world_rank, what);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

// multiple: a variable that, when set, asks for MPI_THREAD_MULTIPLE.
static void begin_cases(int* argc, char*** argv, const char* multiple) {
  int provided;
  MPI_Init_thread(argc, argv, getenv(multiple) != NULL ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
}

// $EXPECT_DIR/NAME<N>.txt of this rank.
static FILE* expectation(const char* name) {
  const char* directory = getenv("EXPECT_DIR");
  char path[4096];
  snprintf(path, sizeof path, "%s/%s%d.txt", directory == NULL ? "/tmp" : directory, name, world_rank);
  FILE* out = fopen(path, "w");
  if (out == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  return out;
}

struct test_case {
  const char* name;
  void (*run)(void);
  int when_asked;
};
#define CASE(function) \
  { .name = #function, .run = function }

static void run_cases(int argc, char** argv, const struct test_case* cases, size_t count,
                      void (*between)(void)) {
  for (size_t i = 0; i < count; ++i) {
    int wanted = argc == 1 && !cases[i].when_asked;
    for (int a = 1; a < argc; ++a) wanted |= strcmp(argv[a], cases[i].name) == 0;
    if (wanted) cases[i].run();
    between();
  }
}
