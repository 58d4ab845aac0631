// SPDX-License-Identifier: BSD-3-Clause
// Partitioned communication, with the events that have to be recorded, in their order: lines as of events.c
// in $EXPECT_DIR/events<N>.txt. Each rank sends to its right and receives from its left.
#include <pthread.h>

#include "cases.h"

enum { kSend, kSendDone, kReceive, kProbe, kCollective };
enum { kNonblocking = 2 };
enum { kParts = 4, kElements = 25, kBytes = kParts * kElements * (int)sizeof(int) };

static FILE* out;
static int is_multiple;
static int outgoing[kParts * kElements], incoming[kParts * kElements];

// wire::partitioned_name: requests of a tag are numbered in the order of their initialisation.
static int name_of(int tag, int number) {
  return (int)(0xc0000000u | (unsigned)number << 16 | (unsigned)tag);
}

static void expect(int kind, const char* op, const char* call, int peer, int name, int start, int bytes,
                   int flags) {
  fprintf(out, "%d MPI_%s MPI_%s MPI_COMM_WORLD %d %d %d %d %d 0\n", kind, op, call, peer, name, start, bytes,
          flags);
}
static void expect_sent(const char* call, int name, int start) {
  expect(kSend, "Psend_init", call, right(), name, start, kBytes, kNonblocking);
}
static void expect_done(const char* call, int name, int start) {
  expect(kSendDone, "Psend_init", call, right(), name, start, kBytes, kNonblocking);
}
static void expect_got(const char* call, int name, int start) {
  expect(kReceive, "Precv_init", call, left(), name, start, kBytes, kNonblocking);
}
static void expect_found(int name, int start) {
  expect(kProbe, "Parrived", "Parrived", left(), name, start, 0, 0);
}
static void expect_world(const char* op) {
  static int count;
  fprintf(out, "%d MPI_%s MPI_%s MPI_COMM_WORLD -1 %d %d 0 0 %d\n", kCollective, op, op, world_rank, count++,
          world_size);
}
static void barrier(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  expect_world("Barrier");
}

static void init_send(int tag, MPI_Request* request) {
  MPI_Psend_init(outgoing, kParts, kElements, MPI_INT, right(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, request);
}
static void init_receive(int tag, MPI_Request* request) {
  MPI_Precv_init(incoming, kParts, kElements, MPI_INT, left(), tag, MPI_COMM_WORLD, MPI_INFO_NULL, request);
}

static void fill(int number) {
  for (int i = 0; i < kParts * kElements; ++i) outgoing[i] = number * 1000 + i, incoming[i] = -1;
}
static void check_content(int number) {
  for (int i = 0; i < kParts * kElements; ++i)
    check(incoming[i] == number * 1000 + i, "the message is another one");
}

// The message leaves with the last partition, whichever it is, and whatever the call that makes it ready.
static void parts(void) {
  MPI_Request requests[2];
  init_send(2, &requests[0]);
  init_receive(2, &requests[1]);
  for (int start = 0; start < 3; ++start) {
    const char* last = start == 0 ? "Pready" : start == 1 ? "Pready_range" : "Pready_list";
    fill(start);
    MPI_Startall(2, requests);
    if (start == 0) {
      for (int part = kParts - 1; part >= 0; --part) MPI_Pready(part, requests[0]);
    } else if (start == 1) {
      MPI_Pready(3, requests[0]);
      MPI_Pready_range(0, 2, requests[0]);
    } else {
      int others[] = {3, 1};
      MPI_Pready_range(2, 2, requests[0]);
      MPI_Pready(0, requests[0]);
      MPI_Pready_list(2, others, requests[0]);
    }
    expect_sent(last, name_of(2, 0), start);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect_done("Waitall", name_of(2, 0), start);
    expect_got("Waitall", name_of(2, 0), start);
    check_content(start);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

// Requests of one tag match in the order of their initialisation. They are started in another one, and a
// message of another kind with the same tag is none of theirs.
static void order(void) {
  MPI_Request sends[2], receives[2];
  int number = 77, got = 0;
  for (int i = 0; i < 2; ++i) init_send(3, &sends[i]);
  for (int i = 0; i < 2; ++i) init_receive(3, &receives[i]);
  for (int turn = 0; turn < 4; ++turn) {
    const int which = turn % 2 == 0 ? 1 : 0, start = turn / 2;
    fill(10 + which);
    MPI_Start(&receives[which]);
    MPI_Start(&sends[which]);
    MPI_Sendrecv(&number, 1, MPI_INT, right(), 3, &got, 1, MPI_INT, left(), 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    expect(kSend, "Sendrecv", "Sendrecv", right(), 3, turn, 4, 0);
    expect(kReceive, "Sendrecv", "Sendrecv", left(), 3, turn, 4, 0);
    check(got == 77, "the other message is another one");
    MPI_Pready_range(0, kParts - 1, sends[which]);
    expect_sent("Pready_range", name_of(3, which), start);
    MPI_Wait(&receives[which], MPI_STATUS_IGNORE);
    expect_got("Wait", name_of(3, which), start);
    MPI_Wait(&sends[which], MPI_STATUS_IGNORE);
    expect_done("Wait", name_of(3, which), start);
    check_content(10 + which);
  }
  for (int i = 0; i < 2; ++i) MPI_Request_free(&sends[i]);
  for (int i = 0; i < 2; ++i) MPI_Request_free(&receives[i]);
  // Those that are made later are further ones.
  init_send(3, &sends[0]);
  init_receive(3, &receives[0]);
  MPI_Start(&sends[0]);
  MPI_Start(&receives[0]);
  MPI_Pready_range(0, kParts - 1, sends[0]);
  expect_sent("Pready_range", name_of(3, 2), 0);
  MPI_Wait(&sends[0], MPI_STATUS_IGNORE);
  expect_done("Wait", name_of(3, 2), 0);
  MPI_Wait(&receives[0], MPI_STATUS_IGNORE);
  expect_got("Wait", name_of(3, 2), 0);
  MPI_Request_free(&sends[0]);
  MPI_Request_free(&receives[0]);
}

// Asking for partitions finds the message when all of them have arrived.
static void asking(void) {
  MPI_Request requests[2];
  init_send(4, &requests[0]);
  init_receive(4, &requests[1]);
  for (int start = 0; start < 3; ++start) {
    fill(20 + start);
    MPI_Startall(2, requests);
    MPI_Pready_range(0, kParts - 1, requests[0]);
    expect_sent("Pready_range", name_of(4, 0), start);
    // In the last turn for one of them only: that the rest has arrived as well is not known.
    for (int part = start < 2 ? 0 : 1; part < (start < 2 ? kParts : 2); ++part) {
      for (int flag = 0; !flag;) MPI_Parrived(requests[1], part, &flag);
    }
    if (start < 2) expect_found(name_of(4, 0), start);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect_done("Waitall", name_of(4, 0), start);
    expect_got("Waitall", name_of(4, 0), start);
    check_content(20 + start);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

static void* make_rest_ready(void* request) {
  MPI_Pready_range(1, kParts - 1, *(MPI_Request*)request);
  return NULL;
}

// The thread that makes the last partition ready sends the message.
static void other_thread(void) {
  MPI_Request requests[2];
  pthread_t thread;
  init_send(6, &requests[0]);
  init_receive(6, &requests[1]);
  fill(30);
  MPI_Startall(2, requests);
  MPI_Pready(0, requests[0]);
  check(pthread_create(&thread, NULL, make_rest_ready, &requests[0]) == 0, "pthread_create");
  pthread_join(thread, NULL);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  expect_done("Waitall", name_of(6, 0), 0);
  expect_got("Waitall", name_of(6, 0), 0);
  check_content(30);
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

static const struct test_case cases[] = {CASE(parts), CASE(order), CASE(asking)};

int main(int argc, char** argv) {
  int level;
  begin_cases(&argc, &argv, "PARTITIONED_MULTIPLE");
  MPI_Query_thread(&level);
  is_multiple = level == MPI_THREAD_MULTIPLE;
  out = expectation("events");
  run_cases(argc, argv, cases, sizeof cases / sizeof cases[0], barrier);
  if (is_multiple) other_thread();
  expect_world("Finalize");
  if (is_multiple) expect_sent("Pready_range", name_of(6, 0), 0);  // the events of the other thread come last
  fclose(out);
  if (world_rank == 0) puts("partitioned done");
  MPI_Finalize();
  return 0;
}
