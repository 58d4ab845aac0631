// SPDX-License-Identifier: BSD-3-Clause
// Four threads per rank call MPI at a time, each with messages of its own tag on one communicator and
// collective calls on communicators of its own.
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { kThreads = 4, kRounds = 300 };

static int rank, size;
static MPI_Comm own[kThreads];

static void* talk(void* argument) {
  const int which = (int)(intptr_t)argument, right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int i = 0; i < kRounds; ++i) {
    MPI_Request requests[4];
    MPI_Comm copy;
    int out[2] = {2 * i, 2 * i + 1}, in[2] = {-1, -1}, one = 1, sum = 0, flag = 0;
    MPI_Irecv(&in[0], 1, MPI_INT, left, which, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&in[1], 1, MPI_INT, i % 2 == 0 ? left : MPI_ANY_SOURCE, which, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&out[0], 1, MPI_INT, right, which, MPI_COMM_WORLD, &requests[2]);
    MPI_Issend(&out[1], 1, MPI_INT, right, which, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    if (in[0] != 2 * i || in[1] != 2 * i + 1) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, own[which], &requests[0]);
    while (!flag) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    if (sum != size) MPI_Abort(MPI_COMM_WORLD, 3);
    if (i % 10 == 0) {
      MPI_Comm_dup(own[which], &copy);
      MPI_Barrier(copy);
      MPI_Comm_free(&copy);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided != MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 4);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < kThreads; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, talk, (void*)(intptr_t)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; ++i) MPI_Comm_free(&own[i]);
  if (rank == 0) puts("threads done");
  MPI_Finalize();
  return 0;
}
