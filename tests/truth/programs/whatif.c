/* SPDX-License-Identifier: BSD-3-Clause
 * Patterns of communication, as they are or with a change really made: whatif PATTERN
 * none|half|equal|both|nobarrier|noio|four. `half`: solve() takes half as long; `equal`: rank 1 takes as long
 * as the others; `both`: these two; `nobarrier`: the barrier is left out; `noio`: nothing is waited for in
 * reads; `four`: OpenMP regions have four threads instead of two (built with -fopenmp). Work is sleeping, so
 * that more ranks than processors do not disturb each other. Rank 0 prints as JSON how long the ranks took
 * between two barriers, when each rank began each round, how long it was in solve() and in prepare() there,
 * and how long it wanted to be in solve().
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../../../include/clusterprof.h"

enum { kLarge = 1 << 20, kDelayed = 77 }; /* a tag of mpi_delays.c */
static double unit = 0.010; /* seconds; the third argument, and the fourth is the number of rounds */
static int rounds = 12, rank, ranks, half, equal, nobarrier, noio, four;
static char large[kLarge];
static double solving, preparing, to_solve; /* in this round, seconds */

/* Not inlined, so that the line that calls it is one of its caller's. */
__attribute__((noinline, noclone)) static void rest(double seconds) {
  const struct timespec duration = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&duration, NULL);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

__attribute__((noinline, noclone)) static void solve(double units) {
  const double begin = now(), wanted = unit * units * (half ? 0.5 : 1);
  rest(wanted);
  solving += now() - begin;
  to_solve += wanted;
  __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void prepare(double units) {
  const double begin = now();
  rest(unit * units);
  preparing += now() - begin;
  __asm__ volatile("");
}

/* Of rank 1 three times as much, unless they are equal. */
static double uneven(void) { return rank == 1 && !equal ? 3 : 1; }

static void allreduce(void) {
  double in = 1, out = 0;
  solve(uneven());
  MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* The same with a name for the work. */
static void marked(void) {
  double in = 1, out = 0;
  clusterprof_region_begin("load");
  solve(uneven());
  clusterprof_region_end("load");
  MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void ring(void) {
  double in = 0, out = 1;
  solve(uneven());
  prepare(1);
  MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % ranks, 0, &in, 1, MPI_DOUBLE, (rank + ranks - 1) % ranks, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void pipeline(void) {
  double item = 0;
  if (rank > 0) MPI_Recv(&item, 1, MPI_DOUBLE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == ranks - 1)
    prepare(2);
  else
    solve(uneven());
  if (rank + 1 < ranks) MPI_Send(&item, 1, MPI_DOUBLE, rank + 1, 0, MPI_COMM_WORLD);
}

/* Every worker does the same number of items, in any order. */
static void master(void) {
  double item = 0;
  if (rank == 0) {
    for (int i = 1; i < ranks; ++i) {
      MPI_Status status;
      MPI_Recv(&item, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status);
      MPI_Send(&item, 1, MPI_DOUBLE, status.MPI_SOURCE, 1, MPI_COMM_WORLD);
    }
  } else {
    MPI_Send(&item, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    MPI_Recv(&item, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    solve(2);
    prepare(1);
  }
}

static void halo(void) {
  double in[2] = {0, 0}, out = 1;
  MPI_Request requests[4];
  const int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  MPI_Irecv(&in[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&in[1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(&out, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(&out, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[3]);
  solve(uneven());
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  prepare(1);
}

static void bcast(void) {
  double item = 0;
  if (rank == 0)
    solve(3);
  else
    prepare(2);
  MPI_Bcast(&item, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void reduce(void) {
  double in = 1, out = 0;
  if (rank == 0)
    prepare(2);
  else
    solve(3);
  MPI_Reduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void alltoall(void) {
  static double in[64], out[64];
  solve(uneven());
  prepare(1);
  MPI_Alltoall(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void gather(void) {
  static double in[64];
  double out = 1;
  if (rank == 0)
    prepare(2);
  else
    solve(uneven());
  MPI_Gather(&out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void scatter(void) {
  static double out[64];
  double in = 0;
  if (rank == 0)
    solve(3);
  else
    prepare(2);
  MPI_Scatter(out, 1, MPI_DOUBLE, &in, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void allgather(void) {
  static double in[64];
  double out = 1;
  solve(uneven());
  prepare(1);
  MPI_Allgather(&out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, MPI_COMM_WORLD);
}

/* Work during a reduction that all have begun, and the rest of it behind. */
static void overlap(void) {
  double in = 1, out = 0;
  MPI_Request request;
  prepare(rank == 1 && !equal ? 2 : 1);
  MPI_Iallreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  solve(uneven());
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Every rank reads for a unit from a socket that nobody writes to, rank 0 for three. */
static void io(void) {
  static int ends[2] = {-1, -1};
  char byte = 0;
  double in = 1, out = 0;
  if (ends[0] < 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  const struct timeval patience = {0, (long)(unit * (rank == 0 ? 3 : 1) * 1e6)};
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (!noio && read(ends[0], &byte, 1) > 0) abort();
  prepare(rank == 1 ? 2 : 1);
  MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Eight units of work for a team, and what one thread does. */
static void team(void) {
  double in = 1, out = 0;
  prepare(2);
#pragma omp parallel for schedule(static) num_threads(four ? 4 : 2)
  for (int i = 0; i < 8; ++i) rest(unit);
  MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void scan(void) {
  double in = 1, out = 0;
  if (rank == 1)
    solve(3);
  else
    prepare(2);
  MPI_Scan(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* In each round another rank is late. */
static void barrier(int round) {
  solve(round % ranks == rank ? 3 : 1);
  if (!nobarrier) MPI_Barrier(MPI_COMM_WORLD);
  __asm__ volatile(""); /* so that the call is no jump */
}

/* The receiver is late, and the sender of a large message waits for it. */
static void rendezvous(void) {
  if (rank % 2 == 0 && rank + 1 < ranks) {
    prepare(1);
    MPI_Send(large, kLarge, MPI_CHAR, rank + 1, 0, MPI_COMM_WORLD);
  } else if (rank % 2 == 1) {
    solve(3);
    MPI_Recv(large, kLarge, MPI_CHAR, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

/* Of two ranks one asks, and waits for the reply of the other. */
static void ask(int bytes) {
  char reply = 0;
  if (rank % 2 == 0 && rank + 1 < ranks) {
    solve(1);
    MPI_Send(large, bytes, MPI_CHAR, rank + 1, kDelayed, MPI_COMM_WORLD);
    MPI_Recv(&reply, 1, MPI_CHAR, rank + 1, kDelayed, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (rank % 2 == 1) {
    MPI_Recv(large, bytes, MPI_CHAR, rank - 1, kDelayed, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    prepare(1);
    MPI_Send(&reply, 1, MPI_CHAR, rank - 1, kDelayed, MPI_COMM_WORLD);
  }
}

static void polling(void) {
  double item = 0;
  if (rank == 0) {
    solve(3);
    for (int to = 1; to < ranks; ++to) MPI_Send(&item, 1, MPI_DOUBLE, to, 0, MPI_COMM_WORLD);
  } else {
    MPI_Request request;
    int done = 0;
    MPI_Irecv(&item, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request);
    prepare(1);
    while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
}

static void round_of(const char* pattern, int round) {
  if (strcmp(pattern, "allreduce") == 0) return allreduce();
  if (strcmp(pattern, "marked") == 0) return marked();
  if (strcmp(pattern, "ring") == 0) return ring();
  if (strcmp(pattern, "pipeline") == 0) return pipeline();
  if (strcmp(pattern, "master") == 0) return master();
  if (strcmp(pattern, "halo") == 0) return halo();
  if (strcmp(pattern, "bcast") == 0) return bcast();
  if (strcmp(pattern, "reduce") == 0) return reduce();
  if (strcmp(pattern, "alltoall") == 0) return alltoall();
  if (strcmp(pattern, "scan") == 0) return scan();
  if (strcmp(pattern, "gather") == 0) return gather();
  if (strcmp(pattern, "scatter") == 0) return scatter();
  if (strcmp(pattern, "allgather") == 0) return allgather();
  if (strcmp(pattern, "overlap") == 0) return overlap();
  if (strcmp(pattern, "io") == 0) return io();
  if (strcmp(pattern, "team") == 0) return team();
  if (strcmp(pattern, "barrier") == 0) return barrier(round);
  if (strcmp(pattern, "rendezvous") == 0) return rendezvous();
  if (strcmp(pattern, "polling") == 0) return polling();
  if (strcmp(pattern, "ask") == 0) return ask(1);
  if (strcmp(pattern, "bulk") == 0) return ask(kLarge);
  fprintf(stderr, "no pattern %s\n", pattern);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

/* A list of rounds of each rank. */
static void print_of_all(const char* name, const double* of_rounds) {
  double* all = malloc(sizeof(double) * (size_t)rounds * (size_t)ranks);
  if (all == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  MPI_Gather(of_rounds, rounds, MPI_DOUBLE, all, rounds, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf(", \"%s\": [", name);
    for (int r = 0; r < ranks; ++r) {
      printf("%s[", r > 0 ? ", " : "");
      for (int i = 0; i < rounds; ++i) printf("%s%.6f", i > 0 ? ", " : "", all[r * rounds + i]);
      putchar(']');
    }
    putchar(']');
  }
  free(all);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 3 || argc > 5) MPI_Abort(MPI_COMM_WORLD, 2);
  if (argc > 3) unit = atof(argv[3]);
  if (argc > 4) rounds = atoi(argv[4]);
  if (rounds < 1) MPI_Abort(MPI_COMM_WORLD, 2);
  half = strcmp(argv[2], "half") == 0 || strcmp(argv[2], "both") == 0;
  equal = strcmp(argv[2], "equal") == 0 || strcmp(argv[2], "both") == 0;
  nobarrier = strcmp(argv[2], "nobarrier") == 0;
  noio = strcmp(argv[2], "noio") == 0;
  four = strcmp(argv[2], "four") == 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = now();
  double* const began = malloc(sizeof(double) * (size_t)rounds);
  double* const solved = malloc(sizeof(double) * (size_t)rounds);
  double* const wanted = malloc(sizeof(double) * (size_t)rounds);
  double* const prepared = malloc(sizeof(double) * (size_t)rounds);
  if (began == NULL || solved == NULL || wanted == NULL || prepared == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  for (int i = 0; i < rounds; ++i) {
    solving = preparing = to_solve = 0;
    began[i] = now();
    round_of(argv[1], i);
    solved[i] = solving;
    wanted[i] = to_solve;
    prepared[i] = preparing;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("{\"elapsed_s\": %.6f", now() - begin);
  print_of_all("began_s", began);
  print_of_all("solve_s", solved);
  print_of_all("to_solve_s", wanted);
  print_of_all("prepare_s", prepared);
  if (rank == 0) puts("}");
  free(began);
  free(solved);
  free(wanted);
  free(prepared);
  MPI_Finalize();
  return 0;
}
