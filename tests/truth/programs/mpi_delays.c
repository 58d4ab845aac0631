/* SPDX-License-Identifier: BSD-3-Clause
 * A network that is slow by a time of one's choice: a library between a program and MPI, by the names that
 * MPI offers tools, so that a recorder of MPI_* calls sees it as part of MPI. A message with the tag kDelayed
 * on MPI_COMM_WORLD is received no earlier than MPI_DELAYS_LATENCY_S seconds after its send began. When that
 * was, a second message says: all ranks have to be on one machine, whose clock they read.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kDelayed = 77, kWhen = 78 };

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t latency_ns(void) {
  const char* const text = getenv("MPI_DELAYS_LATENCY_S");
  return text == NULL ? 0 : (int64_t)(strtod(text, NULL) * 1e9);
}

static void* next(const char* name) {
  void* const function = dlsym(RTLD_NEXT, name);
  if (function == NULL) {
    fprintf(stderr, "mpi_delays: there is no %s behind it\n", name);
    abort();
  }
  return function;
}

typedef int Init(int*, char***);
typedef int Send(const void*, int, MPI_Datatype, int, int, MPI_Comm);
typedef int Receive(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status*);

/* So that this library is where PMPI functions are looked for first. */
int PMPI_Init(int* count, char*** words) { return ((Init*)next("PMPI_Init"))(count, words); }

int PMPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator) {
  Send* const send = (Send*)next("PMPI_Send");
  if (tag == kDelayed && communicator == MPI_COMM_WORLD) {
    const int64_t when_ns = now_ns();
    const int failed = send(&when_ns, 1, MPI_INT64_T, to, kWhen, communicator);
    if (failed != MPI_SUCCESS) return failed;
  }
  return send(data, count, type, to, tag, communicator);
}

int PMPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm communicator,
              MPI_Status* status) {
  Receive* const receive = (Receive*)next("PMPI_Recv");
  if (tag != kDelayed || communicator != MPI_COMM_WORLD)
    return receive(data, count, type, from, tag, communicator, status);
  int64_t due_ns = 0;
  int failed = receive(&due_ns, 1, MPI_INT64_T, from, kWhen, communicator, MPI_STATUS_IGNORE);
  if (failed != MPI_SUCCESS) return failed;
  failed = receive(data, count, type, from, tag, communicator, status);
  due_ns += latency_ns();
  const struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0) {
  }
  return failed;
}
