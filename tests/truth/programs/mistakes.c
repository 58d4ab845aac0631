// SPDX-License-Identifier: BSD-3-Clause
// Three ranks that make mistakes which MPI knows of, each so many times on a known line:
// mistakes errors|callback|open|unmatched|fatal|sizes|truncated
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int rank;

static void send_ints(int count, int to, int tag) {
  int values[4] = {1, 2, 3, 4};
  MPI_Send(values, count, MPI_INT, to, tag, MPI_COMM_WORLD); /* line of send */
}
static int receive_one(int from, int tag) {
  int value[1];
  return MPI_Recv(value, 1, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* line of recv */
}

// Rank 1: two messages of four are too long. Rank 2: one of two. Rank 0: three messages to a rank that there
// is not.
static void return_errors(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == 0) {
    for (int i = 0; i < 4; ++i) send_ints(i < 2 ? 1 : 4, 1, 5);
    send_ints(4, 2, 6);
    send_ints(1, 2, 6);
    int value = 0;
    for (int i = 0; i < 3; ++i) MPI_Send(&value, 1, MPI_INT, 99, 9, MPI_COMM_WORLD); /* line of wrong rank */
  } else if (rank == 1) {
    for (int i = 0; i < 4; ++i) (void)receive_one(MPI_ANY_SOURCE, 5);
  } else {
    int values[2];
    MPI_Request requests[2];
    MPI_Status statuses[2];
    for (int i = 0; i < 2; ++i) MPI_Irecv(&values[i], 1, MPI_INT, 0, 6, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(2, requests, statuses); /* line of waitall */
    for (int i = 0; i < 2; ++i)
      if (statuses[i].MPI_ERROR == MPI_ERR_PENDING) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  }
}

// Refuses to be copied, with a number that is no code of MPI's.
static int refuse(MPI_Comm comm, int key, void* extra, void* value, void* copy, int* flag) {
  (void)comm, (void)key, (void)extra, (void)value, (void)copy;
  *flag = 0;
  return 4711;
}

// Rank 0 gets an error that it expects. Any error on MPI_COMM_WORLD would end the job.
static void call_back(void) {
  if (rank != 0) return;
  int key;
  MPI_Comm copy;
  MPI_Comm_create_keyval(refuse, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (MPI_Comm_dup(MPI_COMM_SELF, &copy) == MPI_SUCCESS) exit(3); /* line of refused copy */
  MPI_Comm_delete_attr(MPI_COMM_SELF, key);
}

// Rank 1: three receives of rank 0 and one of any rank. Rank 2: two sends that were received. Others are not
// open.
static void leave_open(void) {
  static int values[8];
  static MPI_Request requests[8];
  if (rank == 1) {
    for (int i = 0; i < 3; ++i)
      MPI_Irecv(&values[i], 1, MPI_INT, 0, 40, MPI_COMM_WORLD, &requests[i]); /* line of open receive */
    const int any = MPI_ANY_SOURCE;
    MPI_Irecv(&values[3], 1, MPI_INT, any, 41, MPI_COMM_WORLD, &requests[3]); /* line of any receive */
    MPI_Recv_init(&values[4], 1, MPI_INT, 0, 44, MPI_COMM_WORLD, &requests[4]);
    MPI_Irecv(&values[5], 1, MPI_INT, 0, 45, MPI_COMM_WORLD, &requests[5]);
    MPI_Cancel(&requests[5]);
    MPI_Wait(&requests[5], MPI_STATUS_IGNORE);
  } else if (rank == 2) {
    for (int i = 0; i < 2; ++i)
      MPI_Issend(&values[i], 1, MPI_INT, 0, 42, MPI_COMM_WORLD, &requests[i]); /* line of open send */
    MPI_Isend(&values[2], 1, MPI_INT, 0, 43, MPI_COMM_WORLD, &requests[2]);
    MPI_Request_free(&requests[2]);
    MPI_Isend(&values[3], 1, MPI_INT, 0, 43, MPI_COMM_WORLD, &requests[3]);
    MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
  } else {
    for (int i = 0; i < 2; ++i) (void)receive_one(2, 42);
    for (int i = 0; i < 2; ++i) (void)receive_one(2, 43);
  }
}

// Rank 0 sends rank 2 three messages too many with tag 7, and one of two with tag 8. What it sends rank 1 is
// received, or a receive of it is open.
static void send_too_many(void) {
  static int value;
  static MPI_Request request;
  if (rank == 0) {
    for (int i = 0; i < 3; ++i) send_ints(1, 2, 7);
    for (int i = 0; i < 2; ++i) send_ints(1, 2, 8);
    for (int i = 0; i < 2; ++i) send_ints(1, 1, 20 + i);
    send_ints(1, 1, 9);
  } else if (rank == 1) {
    MPI_Irecv(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 2; ++i) (void)receive_one(0, 20 + i);
    for (int i = 0; i < 2; ++i) (void)receive_one(MPI_ANY_SOURCE, 21);
  } else {
    (void)receive_one(0, 8);
    for (int i = 0; i < 2; ++i) send_ints(1, 1, 21);
  }
}

// Rank 1 takes less than the root gives. It begins once rank 2 has got that: its error may end the job at once.
static void broadcast(void) {
  static int values[100];
  if (rank == 1) (void)receive_one(2, 50);
  MPI_Bcast(values, rank == 1 ? 10 : 100, MPI_INT, 0, MPI_COMM_WORLD); /* line of broadcast */
  if (rank == 2) send_ints(1, 1, 50);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* const kind = argc > 1 ? argv[1] : "";
  if (strcmp(kind, "errors") == 0) return_errors();
  if (strcmp(kind, "callback") == 0) call_back();
  if (strcmp(kind, "open") == 0) leave_open();
  if (strcmp(kind, "unmatched") == 0) send_too_many();
  if (strcmp(kind, "truncated") == 0) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (strcmp(kind, "sizes") == 0 || strcmp(kind, "truncated") == 0) broadcast();
  if (strcmp(kind, "fatal") == 0) {
    if (rank == 0) send_ints(4, 1, 5);
    if (rank == 1) (void)receive_one(0, 5);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
