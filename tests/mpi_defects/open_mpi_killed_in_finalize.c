/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI 4.1 alone, without clusterprof: ranks are killed while they wait for rank 0 in MPI_Finalize, all
 * of them at the same moment. With the argument "one" it is the last rank alone, and mpirun ends the others.
 */
#include <mpi.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static void kill_me(int signal) {
  (void)signal;
  kill(getpid(), SIGKILL);
}

int main(int argc, char** argv) {
  enum { kUsPerS = 1000000 };
  int me, ranks;
  struct timeval now;
  long long at_us;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  gettimeofday(&now, NULL);
  at_us = (long long)now.tv_sec * kUsPerS + now.tv_usec + kUsPerS;
  MPI_Bcast(&at_us, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
  gettimeofday(&now, NULL);
  const long long left_us = at_us - ((long long)now.tv_sec * kUsPerS + now.tv_usec);
  const int only_one = argc > 1 && strcmp(argv[1], "one") == 0;
  if (!only_one || me == ranks - 1) {
    const struct itimerval timer = {.it_value = {.tv_sec = left_us / kUsPerS, .tv_usec = left_us % kUsPerS}};
    signal(SIGALRM, kill_me);
    if (left_us <= 0 || setitimer(ITIMER_REAL, &timer, NULL) != 0) kill_me(0);
  }
  if (me != 0) MPI_Finalize();
  for (;;) pause();
}
