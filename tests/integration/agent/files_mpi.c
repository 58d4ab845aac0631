/* SPDX-License-Identifier: BSD-3-Clause */
/* Like files.c, but with MPI-IO; rank 0 prints what all ranks did together. */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_recorded(void) {
  char line[1000];
  int found = 0;
  FILE* const file = fopen("/proc/self/maps", "r");
  while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
    found = strstr(line, "libclusterprof_") != NULL;
  if (file != NULL) fclose(file);
  return found;
}

// How often the agent's thread has gone to sleep; -1: it does not run yet.
static long sleeps_of_agent(void) {
  long sleeps = -1;
  DIR* const threads = opendir("/proc/self/task");
  for (struct dirent* thread; threads != NULL && (thread = readdir(threads)) != NULL;) {
    char path[300], line[200];
    int is_agent = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread->d_name);
    FILE* const file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
      if (strcmp(line, "Name:\tclusterprof\n") == 0) is_agent = 1;
      if (is_agent) sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps);
    }
    if (file != NULL) fclose(file);
  }
  if (threads != NULL) closedir(threads);
  return sleeps;
}

// What was loaded before this is known to the agent afterwards: its thread looks between two sleeps. Until
// then call paths may begin there.
static void let_agent_look(void) {
  enum { kSleeps = 4, kMostMoments = 6000 };
  if (!is_recorded()) return;
  long before = -1;
  for (int i = 0; i < kMostMoments; ++i) {
    const long sleeps = sleeps_of_agent();
    if (before < 0) before = sleeps;
    if (before >= 0 && sleeps >= before + kSleeps) return;
    usleep(10000);
  }
}

int main(int argc, char** argv) {
  enum { kBytes = 100000 };
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char path[600];
  snprintf(path, sizeof path, "%s/collective", argv[1]);
  char* const data = calloc(1, kBytes);
  MPI_File file;
  if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) !=
      MPI_SUCCESS)
    MPI_Abort(MPI_COMM_WORLD, 1);
  let_agent_look();
  MPI_File_write_at_all(file, (MPI_Offset)rank * kBytes, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_read_at(file, (MPI_Offset)rank * kBytes, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  if (rank == 0)
    printf("expect %s write -1 %d\nexpect %s read -1 %d\n", path, size * kBytes, path, size * kBytes);
  free(data);
  MPI_Finalize();
  return 0;
}
