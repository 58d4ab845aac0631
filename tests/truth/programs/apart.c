/* SPDX-License-Identifier: BSD-3-Clause
 * apart STEPS: in each step every rank exchanges messages with all others and waits in MPI_Waitall; rank 1
 * comes three milliseconds late. Before, each pair has exchanged another number of messages, so that those of
 * one call have different numbers. Rank 0 prints as JSON how long each rank waited by definition: until the
 * last of the messages for it had been sent, or the call returned; and how unequally: for each 32 steps in
 * turn by how much more or less than the mean, the sum of the squares of that.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kMostRanks = 16, kTogether = 32 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time); /* the same for all ranks of a node */
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double* times(int count) {
  double* const all = malloc(sizeof(double) * (size_t)count);
  if (all == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  return all;
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int steps = argc == 2 ? atoi(argv[1]) : 0;
  if (steps < 1 || ranks > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  char out = 0, in[kMostRanks];
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      for (int i = 0; from != to && i < (from * 7 + to * 5) % 16; ++i) {
        if (rank == from) MPI_Send(&out, 1, MPI_CHAR, to, 1, MPI_COMM_WORLD);
        if (rank == to) MPI_Recv(&in[0], 1, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
  /* Per step and other rank when the message to it was sent; per step when the call began and ended. */
  double *const sent = times(steps * kMostRanks), *const entered = times(steps), *const left = times(steps);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 0; step < steps; ++step) {
    MPI_Request requests[2 * kMostRanks];
    int count = 0;
    if (rank == 1) nanosleep(&(struct timespec){0, 3000000}, NULL);
    for (int other = 0; other < ranks; ++other)
      if (other != rank) MPI_Irecv(&in[other], 1, MPI_CHAR, other, 1, MPI_COMM_WORLD, &requests[count++]);
    for (int other = 0; other < ranks; ++other) {
      sent[step * kMostRanks + other] = now();
      if (other != rank) MPI_Isend(&out, 1, MPI_CHAR, other, 1, MPI_COMM_WORLD, &requests[count++]);
    }
    entered[step] = now();
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    left[step] = now();
  }
  double* const all = times(ranks * steps * kMostRanks);
  MPI_Allgather(sent, steps * kMostRanks, MPI_DOUBLE, all, steps * kMostRanks, MPI_DOUBLE, MPI_COMM_WORLD);
  double* const waits = times(steps);
  double waited[2] = {0, 0}, waited_by[2 * kMostRanks];
  for (int step = 0; step < steps; ++step) {
    double last = 0;
    for (int other = 0; other < ranks; ++other) {
      const double then = all[(other * steps + step) * kMostRanks + rank];
      if (other != rank && then > last) last = then;
    }
    if (last > left[step]) last = left[step];
    waits[step] = last > entered[step] ? last - entered[step] : 0;
    waited[0] += waits[step];
  }
  for (int step = 0; step < steps; step += kTogether) {
    double more = 0;
    for (int i = step; i < step + kTogether && i < steps; ++i) more += waits[i] - waited[0] / steps;
    waited[1] += more * more;
  }
  MPI_Gather(waited, 2, MPI_DOUBLE, waited_by, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int other = 0; rank == 0 && other < ranks; ++other)
    printf("%s{\"sum_s\": %.6f, \"squares_s2\": %.9f}%s", other == 0 ? "[" : ", ", waited_by[2 * other],
           waited_by[2 * other + 1], other + 1 == ranks ? "]\n" : "");
  MPI_Finalize();
  return 0;
}
