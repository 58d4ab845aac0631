// Ranks to attach to, until there is a file DIRECTORY/stop. Each writes down in DIRECTORY/rank-N.jsonl when it entered and left
// its barriers, in nanoseconds since 1970; between two of them it sends 128 doubles in each of three operations.
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size, is_done = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/rank-%d.jsonl", argv[1], rank);
  FILE* const log = argc == 2 ? fopen(path, "w") : NULL;
  if (log == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  snprintf(path, sizeof path, "%s/stop", argv[1]);
  double sent[128], received[128];
  for (int i = 0; i < 128; ++i) sent[i] = 1;
  while (!is_done) {
    const long long enter_ns = now_ns();
    MPI_Barrier(MPI_COMM_WORLD);
    fprintf(log, "[%lld, %lld]\n", enter_ns, now_ns());
    fflush(log);
    for (int i = 0; i < 3; ++i) MPI_Allreduce(sent, received, 128, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    usleep(10000);
    is_done = rank == 0 && access(path, F_OK) == 0;
    MPI_Bcast(&is_done, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  if (received[0] != size || received[127] != size) MPI_Abort(MPI_COMM_WORLD, 3);
  fclose(log);
  MPI_Finalize();
  return 0;
}
