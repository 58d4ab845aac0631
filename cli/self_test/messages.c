// SPDX-License-Identifier: BSD-3-Clause
// libexec/clusterprof/self-test-openmpi, self-test-mpich: two ranks that know by their own clocks who waits
// for whom, and what an MPI call takes. Recorded by `clusterprof doctor --self-test`.
//
//   self-test-FAMILY waits   rank 1 computes before each message that rank 0 waits for
//   self-test-FAMILY calls   the time of one MPI_Iprobe on the calling process alone, the least of several
//   rounds
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NEVER_INLINED __attribute__((noinline, noclone))

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

NEVER_INLINED double late_rank(double length_s) {
  const double begin = seconds(CLOCK_MONOTONIC);
  volatile double sum = 0;
  while (seconds(CLOCK_MONOTONIC) < begin + length_s)
    for (int i = 1; i < 20000; ++i) sum = sum + 1.0 / (double)i;
  return seconds(CLOCK_MONOTONIC) - begin;
}

// The message says when its sender began to send. Both ranks are on one node and have the same clock, so its
// receiver knows how long it waited for the sender, also when a busy machine switched either of them out.
static void waits(int rank) {
  double own_s = 0;
  MPI_Barrier(MPI_COMM_WORLD);  // who is late from MPI_Init is not late from late_rank()
  for (int round = 0; round < 20; ++round) {
    double sent_at = 0;
    if (rank == 1) {
      own_s += late_rank(0.05);
      sent_at = seconds(CLOCK_MONOTONIC);
      MPI_Send(&sent_at, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    } else {
      const double begin = seconds(CLOCK_MONOTONIC);
      MPI_Recv(&sent_at, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (sent_at > begin) own_s += sent_at - begin;
    }
  }
  printf("%s %.9f\n", rank == 1 ? "late_s" : "waited_s", own_s);
}

static void calls(void) {
  enum { kRounds = 20, kCalls = 20000 };
  double least_s = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    int flag = 0;
    const double begin = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < kCalls; ++i) MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    const double round_s = seconds(CLOCK_MONOTONIC) - begin;
    if (round_s < least_s) least_s = round_s;
  }
  printf("call_s %.12f\n", least_s / kCalls);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && strcmp(argv[1], "waits") == 0 && size == 2) waits(rank);
  if (argc > 1 && strcmp(argv[1], "calls") == 0 && rank == 0) calls();
  MPI_Finalize();
  return 0;
}
