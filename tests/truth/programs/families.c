// SPDX-License-Identifier: BSD-3-Clause
// Families of MPI calls, each with its bytes known from the arguments: families NAME... runs those of that
// name. Every rank prints what it did:
//   sent SRC DST MESSAGES BYTES   by world ranks; for one-sided calls from where the data was to where it
//   went op NAME CALLS SENT RECEIVED   all calls of a function
// The world has 2 ranks or more, an even number of them.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxRanks = 16, kElements = 4096 };
static int me, ranks;
static int out[kElements], in[kElements], spare[kElements];

static long long messages[kMaxRanks][kMaxRanks], bytes[kMaxRanks][kMaxRanks];
static struct {
  const char* name;
  long long calls, sent, received;
} ops[256];
static int op_count;

static void message(int source, int destination, long long size) {
  messages[source][destination] += 1;
  bytes[source][destination] += size;
}

static void op(const char* name, long long calls, long long sent, long long received) {
  int i = 0;
  while (i < op_count && strcmp(ops[i].name, name) != 0) ++i;
  if (i == op_count) ops[op_count++].name = name;
  ops[i].calls += calls;
  ops[i].sent += sent;
  ops[i].received += received;
}

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rank %d: %s\n", me, what);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static int right_of(int rank) { return (rank + 1) % ranks; }
static int left_of(int rank) { return (rank + ranks - 1) % ranks; }

static void wait_for(MPI_Request* request) {
  MPI_Wait(request, MPI_STATUS_IGNORE);
  op("MPI_Wait", 1, 0, 0);
}

// --- nonblocking: modes of sending, and every way to complete ---------------------------------------------

static void nonblocking(void) {
  MPI_Request requests[6];
  MPI_Status status;
  int indices[6], flag = 0, count = 0, done = 0;
  const int right = right_of(me), left = left_of(me);

  // Ibsend, Issend, and Irsend to a receive that is there already.
  static char attached[4096 + MPI_BSEND_OVERHEAD];
  void* detached;
  MPI_Buffer_attach(attached, sizeof attached);
  for (int i = 0; i < 3; ++i) MPI_Irecv(in + 100 * i, 100, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Ibsend(out, 3, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[3]);
  MPI_Issend(out, 5, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[4]);
  MPI_Irsend(out, 7, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[5]);
  op("MPI_Irecv", 3, 0, 12 + 20 + 28);
  op("MPI_Barrier", 1, 0, 0);
  op("MPI_Ibsend", 1, 12, 0);
  op("MPI_Issend", 1, 20, 0);
  op("MPI_Irsend", 1, 28, 0);
  message(me, right, 12), message(me, right, 20), message(me, right, 28);
  // Two by Waitany, the others by Waitsome.
  for (int i = 0; i < 2; ++i) MPI_Waitany(6, requests, &indices[0], &status);
  op("MPI_Waitany", 2, 0, 0);
  for (done = 2; done < 6; done += count) {
    MPI_Waitsome(6, requests, &count, indices, MPI_STATUSES_IGNORE);
    op("MPI_Waitsome", 1, 0, 0);
  }
  MPI_Buffer_detach(&detached, &count);

  // Testall that fails for as long as the other side waits for us.
  MPI_Irecv(in, 10, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(in + 10, 10, MPI_INT, left, 4, MPI_COMM_WORLD, &requests[1]);
  MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
  check(!flag, "a message that nobody has sent");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Send(out, 9, MPI_INT, right, 3, MPI_COMM_WORLD);
  MPI_Send(out, 8, MPI_INT, right, 4, MPI_COMM_WORLD);
  op("MPI_Testall", 1, 0, 0);
  op("MPI_Barrier", 1, 0, 0);
  op("MPI_Irecv", 2, 0, 36 + 32);
  op("MPI_Send", 2, 36 + 32, 0);
  message(me, right, 36), message(me, right, 32);
  while (!flag) {
    MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    op("MPI_Testall", 1, 0, 0);
  }

  // Probes, then a receive of what was found.
  MPI_Isend(out, 11, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[0]);
  MPI_Probe(left, 5, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  check(count == 11, "MPI_Probe");
  MPI_Recv(in, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  wait_for(&requests[0]);
  op("MPI_Isend", 1, 44, 0);
  op("MPI_Probe", 1, 0, 0);
  op("MPI_Recv", 1, 0, 44);
  message(me, right, 44);

  // A send whose request is given up; it arrives all the same.
  MPI_Isend(out, 13, MPI_INT, right, 6, MPI_COMM_WORLD, &requests[0]);
  MPI_Request_free(&requests[0]);
  MPI_Recv(in, 100, MPI_INT, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  op("MPI_Isend", 1, 52, 0);
  op("MPI_Request_free", 1, 0, 0);
  op("MPI_Recv", 1, 0, 52);
  message(me, right, 52);
  MPI_Barrier(MPI_COMM_WORLD);
  op("MPI_Barrier", 1, 0, 0);
}

static void cancelled(void) {
  MPI_Request request;
  MPI_Status status;
  int was = 0;
  // A receive that is cancelled receives nothing; the message after it goes to the next one.
  MPI_Irecv(in, 100, MPI_INT, left_of(me), 1, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &was);
  check(was, "a receive that could not be cancelled");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Sendrecv(out, 6, MPI_INT, right_of(me), 1, in, 100, MPI_INT, left_of(me), 1, MPI_COMM_WORLD, &status);
  op("MPI_Irecv", 1, 0, 0);
  op("MPI_Cancel", 1, 0, 0);
  op("MPI_Wait", 1, 0, 0);
  op("MPI_Sendrecv", 1, 24, 24);
  message(me, right_of(me), 24);
  // A persistent one, which can be used again.
  MPI_Recv_init(in, 100, MPI_INT, left_of(me), 2, MPI_COMM_WORLD, &request);
  MPI_Start(&request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Start(&request);
  MPI_Send(out, 4, MPI_INT, right_of(me), 2, MPI_COMM_WORLD);
  MPI_Wait(&request, &status);
  MPI_Request_free(&request);
  op("MPI_Barrier", 2, 0, 0);
  op("MPI_Recv_init", 1, 0, 16);
  op("MPI_Start", 2, 0, 0);
  op("MPI_Cancel", 1, 0, 0);
  op("MPI_Wait", 2, 0, 0);
  op("MPI_Send", 1, 16, 0);
  op("MPI_Request_free", 1, 0, 0);
  message(me, right_of(me), 16);
}

static void persistent(void) {
  MPI_Request requests[6];
  static char attached[4096 + MPI_BSEND_OVERHEAD];
  void* detached;
  int size, index;
  const int right = right_of(me), left = left_of(me);
  MPI_Buffer_attach(attached, sizeof attached);
  for (int i = 0; i < 3; ++i)
    MPI_Recv_init(in + 100 * i, 100, MPI_INT, left, i, MPI_COMM_WORLD, &requests[i]);
  MPI_Bsend_init(out, 10, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[3]);
  MPI_Ssend_init(out, 20, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[4]);
  MPI_Rsend_init(out, 30, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[5]);
  for (int turn = 0; turn < 4; ++turn) {
    MPI_Startall(3, requests);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Startall(3, requests + 3);
    for (int i = 0; i < 6; ++i) MPI_Waitany(6, requests, &index, MPI_STATUS_IGNORE);
    message(me, right, 40), message(me, right, 80), message(me, right, 120);
  }
  for (int i = 0; i < 6; ++i) MPI_Request_free(&requests[i]);
  MPI_Buffer_detach(&detached, &size);
  op("MPI_Recv_init", 3, 0, 4 * (40 + 80 + 120));
  op("MPI_Bsend_init", 1, 4 * 40, 0);
  op("MPI_Ssend_init", 1, 4 * 80, 0);
  op("MPI_Rsend_init", 1, 4 * 120, 0);
  op("MPI_Startall", 8, 0, 0);
  op("MPI_Barrier", 4, 0, 0);
  op("MPI_Waitany", 24, 0, 0);
  op("MPI_Request_free", 6, 0, 0);
}

static void matched(void) {
  MPI_Message found;
  MPI_Request request;
  MPI_Status status;
  MPI_Isend(out, 3, MPI_INT, right_of(me), 1, MPI_COMM_WORLD, &request);
  MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
  check(status.MPI_SOURCE == left_of(me) && status.MPI_TAG == 1, "MPI_Mprobe");
  MPI_Mrecv(in, 100, MPI_INT, &found, MPI_STATUS_IGNORE);
  wait_for(&request);
  op("MPI_Isend", 1, 12, 0);
  op("MPI_Mprobe", 1, 0, 0);
  op("MPI_Mrecv", 1, 0, 12);
  message(me, right_of(me), 12);
  // The nonblocking pair, with a message to nobody in between.
  int flag = 0;
  MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &found, &status);
  MPI_Mrecv(in, 100, MPI_INT, &found, &status);
  MPI_Isend(out, 5, MPI_INT, right_of(me), 2, MPI_COMM_WORLD, &request);
  while (!flag) {
    MPI_Improbe(left_of(me), 2, MPI_COMM_WORLD, &flag, &found, &status);
    op("MPI_Improbe", 1, 0, 0);
  }
  MPI_Request receive;
  MPI_Imrecv(in, 100, MPI_INT, &found, &receive);
  wait_for(&receive);
  wait_for(&request);
  op("MPI_Mprobe", 1, 0, 0);
  op("MPI_Mrecv", 1, 0, 0);
  op("MPI_Isend", 1, 20, 0);
  op("MPI_Imrecv", 1, 0, 20);
  message(me, right_of(me), 20);
}

// --- collective operations --------------------------------------------------------------------------------

static void icollectives(void) {
  MPI_Request request;
  const int root = 1, is_root = me == root;
  int counts[kMaxRanks], places[kMaxRanks], byte_places[kMaxRanks], all = 0;
  MPI_Datatype types[kMaxRanks];
  for (int r = 0; r < ranks; ++r) {
    counts[r] = r + 1;
    places[r] = all;
    byte_places[r] = 4 * 64 * r;
    types[r] = MPI_INT;
    all += counts[r];
  }
#define ICOLLECTIVE(name, sent_bytes, received_bytes, ...) \
  MPI_I##name(__VA_ARGS__, &request);                      \
  wait_for(&request);                                      \
  op("MPI_I" #name, 1, sent_bytes, received_bytes)
  ICOLLECTIVE(barrier, 0, 0, MPI_COMM_WORLD);
  ICOLLECTIVE(bcast, is_root ? 40 : 0, is_root ? 0 : 40, out, 10, MPI_INT, root, MPI_COMM_WORLD);
  ICOLLECTIVE(gather, 8, is_root ? 8 * ranks : 0, out, 2, MPI_INT, in, 2, MPI_INT, root, MPI_COMM_WORLD);
  ICOLLECTIVE(gatherv, 4 * counts[me], is_root ? 4 * all : 0, out, counts[me], MPI_INT, in, counts, places,
              MPI_INT, root, MPI_COMM_WORLD);
  ICOLLECTIVE(scatter, is_root ? 12 * ranks : 0, 12, out, 3, MPI_INT, in, 3, MPI_INT, root, MPI_COMM_WORLD);
  ICOLLECTIVE(scatterv, is_root ? 4 * all : 0, 4 * counts[me], out, counts, places, MPI_INT, in, counts[me],
              MPI_INT, root, MPI_COMM_WORLD);
  ICOLLECTIVE(allgather, 16, 16 * ranks, out, 4, MPI_INT, in, 4, MPI_INT, MPI_COMM_WORLD);
  ICOLLECTIVE(allgatherv, 4 * counts[me], 4 * all, out, counts[me], MPI_INT, in, counts, places, MPI_INT,
              MPI_COMM_WORLD);
  ICOLLECTIVE(reduce, 20, is_root ? 20 : 0, out, in, 5, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
  ICOLLECTIVE(allreduce, 24, 24, out, in, 6, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  ICOLLECTIVE(reduce_scatter, 4 * all, 4 * counts[me], out, in, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  ICOLLECTIVE(reduce_scatter_block, 28 * ranks, 28, out, in, 7, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  ICOLLECTIVE(scan, 32, 32, out, in, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  ICOLLECTIVE(exscan, 36, 36, out, in, 9, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  ICOLLECTIVE(alltoall, 8 * ranks, 8 * ranks, out, 2, MPI_INT, in, 2, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) message(me, r, 8);
  // Rank r sends to d and gets from d as many as the two together.
  int both[kMaxRanks], sum = 0;
  for (int r = 0; r < ranks; ++r) {
    both[r] = me + r;
    places[r] = 64 * r;
    sum += both[r];
    for (int turn = 0; turn < 2; ++turn) {
      if (both[r] != 0) message(me, r, 4 * both[r]);
    }
  }
  ICOLLECTIVE(alltoallv, 4 * sum, 4 * sum, out, both, places, MPI_INT, in, both, places, MPI_INT,
              MPI_COMM_WORLD);
  ICOLLECTIVE(alltoallw, 4 * sum, 4 * sum, out, both, byte_places, types, in, both, byte_places, types,
              MPI_COMM_WORLD);
}

// Numbers of a ring's, a graph's neighbours: what each sends to the one on its right and on its left.
static void neighbour_calls(MPI_Comm comm, const int* sources, int ins, const int* destinations, int outs) {
  MPI_Request request;
  int counts[8], places[8];
  MPI_Aint byte_places[8];
  MPI_Datatype types[8];
  for (int i = 0; i < 8; ++i) counts[i] = 3, places[i] = 64 * i, byte_places[i] = 256 * i, types[i] = MPI_INT;
  const int calls = 10;
  MPI_Neighbor_allgather(out, 3, MPI_INT, in, 3, MPI_INT, comm);
  MPI_Neighbor_allgatherv(out, 3, MPI_INT, in, counts, places, MPI_INT, comm);
  MPI_Neighbor_alltoall(out, 3, MPI_INT, in, 3, MPI_INT, comm);
  MPI_Neighbor_alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, comm);
  MPI_Neighbor_alltoallw(out, counts, byte_places, types, in, counts, byte_places, types, comm);
  MPI_Ineighbor_allgather(out, 3, MPI_INT, in, 3, MPI_INT, comm, &request);
  wait_for(&request);
  MPI_Ineighbor_allgatherv(out, 3, MPI_INT, in, counts, places, MPI_INT, comm, &request);
  wait_for(&request);
  MPI_Ineighbor_alltoall(out, 3, MPI_INT, in, 3, MPI_INT, comm, &request);
  wait_for(&request);
  MPI_Ineighbor_alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, comm, &request);
  wait_for(&request);
  MPI_Ineighbor_alltoallw(out, counts, byte_places, types, in, counts, byte_places, types, comm, &request);
  wait_for(&request);
  int to = 0, from = 0;
  for (int i = 0; i < outs; ++i) {
    if (destinations[i] == MPI_PROC_NULL) continue;
    for (int call = 0; call < calls; ++call) message(me, destinations[i], 12);
    to += 12;
  }
  for (int i = 0; i < ins; ++i) from += sources[i] == MPI_PROC_NULL ? 0 : 12;
  static const char* const names[] = {"allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"};
  static char text[10][40];
  for (int i = 0; i < 10; ++i) {
    snprintf(text[i], sizeof text[i], i < 5 ? "MPI_Neighbor_%s" : "MPI_Ineighbor_%s", names[i % 5]);
    op(text[i], 1, to, from);
  }
}

static void neighbours(void) {
  MPI_Comm line, graph, distributed;
  const int dims[] = {ranks}, open_ends[] = {0};
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, open_ends, 0, &line);
  const int beside[] = {me == 0 ? MPI_PROC_NULL : me - 1, me == ranks - 1 ? MPI_PROC_NULL : me + 1};
  neighbour_calls(line, beside, 2, beside, 2);
  MPI_Comm_free(&line);
  // A star: rank 0 and everybody else.
  int ends[kMaxRanks], edges[2 * kMaxRanks], spokes[kMaxRanks];
  for (int r = 0, edge = 0; r < ranks; ++r) {
    for (int other = 1; r == 0 && other < ranks; ++other) edges[edge++] = spokes[other - 1] = other;
    if (r != 0) edges[edge++] = 0;
    ends[r] = edge;
  }
  const int centre[] = {0};
  if (ranks <= 8) {
    MPI_Graph_create(MPI_COMM_WORLD, ranks, ends, edges, 0, &graph);
    if (me == 0)
      neighbour_calls(graph, spokes, ranks - 1, spokes, ranks - 1);
    else
      neighbour_calls(graph, centre, 1, centre, 1);
    MPI_Comm_free(&graph);
  }
  // To the right twice, from the left twice.
  const int from[] = {left_of(me), left_of(me)}, to[] = {right_of(me), right_of(me)};
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, MPI_UNWEIGHTED, 2, to, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &distributed);
  neighbour_calls(distributed, from, 2, to, 2);
  MPI_Comm_free(&distributed);
}

// --- one-sided --------------------------------------------------------------------------------------------

static void one_sided(void) {
  MPI_Win window;
  MPI_Request request;
  static int memory[kElements];
  const int right = right_of(me), left = left_of(me);
  MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  op("MPI_Win_create", 1, 0, 0);

  // Fence.
  MPI_Win_fence(0, window);
  MPI_Put(out, 10, MPI_INT, right, 0, 10, MPI_INT, window);
  MPI_Get(in, 11, MPI_INT, right, 100, 11, MPI_INT, window);
  MPI_Accumulate(out, 12, MPI_INT, right, 200, 12, MPI_INT, MPI_SUM, window);
  MPI_Win_fence(0, window);
  op("MPI_Win_fence", 2, 0, 0);
  op("MPI_Put", 1, 40, 0);
  op("MPI_Get", 1, 0, 44);
  op("MPI_Accumulate", 1, 48, 0);
  message(me, right, 40), message(right, me, 44), message(me, right, 48);

  // Post, start, complete, wait: I write to the right, the left writes to me.
  MPI_Group world, to, from;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &right, &to);
  MPI_Group_incl(world, 1, &left, &from);
  for (int turn = 0; turn < 2; ++turn) {
    int done = 0;
    MPI_Win_post(from, 0, window);
    MPI_Win_start(to, 0, window);
    MPI_Put(out, 20, MPI_INT, right, 0, 20, MPI_INT, window);
    MPI_Win_complete(window);
    message(me, right, 80);
    if (turn == 0) MPI_Win_wait(window);
    for (done = turn == 0; !done;) {
      MPI_Win_test(window, &done);
      op("MPI_Win_test", 1, 0, 0);
    }
  }
  op("MPI_Put", 2, 160, 0);
  op("MPI_Win_post", 2, 0, 0);
  op("MPI_Win_start", 2, 0, 0);
  op("MPI_Win_complete", 2, 0, 0);
  op("MPI_Win_wait", 1, 0, 0);
  MPI_Group_free(&world), MPI_Group_free(&to), MPI_Group_free(&from);

  // Locks and flushes.
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, window);
  MPI_Put(out, 30, MPI_INT, right, 0, 30, MPI_INT, window);
  MPI_Win_flush(right, window);
  MPI_Get(in, 31, MPI_INT, right, 0, 31, MPI_INT, window);
  MPI_Win_flush_local(right, window);
  MPI_Win_unlock(right, window);
  op("MPI_Win_lock", 1, 0, 0);
  op("MPI_Put", 1, 120, 0);
  op("MPI_Get", 1, 0, 124);
  op("MPI_Win_flush", 1, 0, 0);
  op("MPI_Win_flush_local", 1, 0, 0);
  op("MPI_Win_unlock", 1, 0, 0);
  message(me, right, 120), message(right, me, 124);
  MPI_Win_lock_all(0, window);
  MPI_Rput(out, 5, MPI_INT, left, 300, 5, MPI_INT, window, &request);
  wait_for(&request);
  MPI_Rget(in, 6, MPI_INT, left, 300, 6, MPI_INT, window, &request);
  wait_for(&request);
  MPI_Raccumulate(out, 7, MPI_INT, left, 400, 7, MPI_INT, MPI_SUM, window, &request);
  wait_for(&request);
  MPI_Rget_accumulate(out, 8, MPI_INT, in, 8, MPI_INT, left, 500, 8, MPI_INT, MPI_SUM, window, &request);
  wait_for(&request);
  MPI_Get_accumulate(out, 9, MPI_INT, in, 9, MPI_INT, left, 600, 9, MPI_INT, MPI_SUM, window);
  MPI_Fetch_and_op(out, in, MPI_INT, left, 700, MPI_SUM, window);
  MPI_Win_flush_all(window);
  MPI_Compare_and_swap(out, spare, in, MPI_INT, left, 800, window);
  MPI_Put(out, 100, MPI_INT, MPI_PROC_NULL, 0, 100, MPI_INT, window);
  MPI_Win_flush_local_all(window);
  MPI_Win_sync(window);
  MPI_Win_unlock_all(window);
  op("MPI_Win_lock_all", 1, 0, 0);
  op("MPI_Rput", 1, 20, 0);
  op("MPI_Rget", 1, 0, 24);
  op("MPI_Raccumulate", 1, 28, 0);
  op("MPI_Rget_accumulate", 1, 32, 32);
  op("MPI_Get_accumulate", 1, 36, 36);
  op("MPI_Fetch_and_op", 1, 4, 4);
  op("MPI_Compare_and_swap", 1, 4, 4);
  op("MPI_Put", 1, 0, 0);
  op("MPI_Win_flush_all", 1, 0, 0);
  op("MPI_Win_flush_local_all", 1, 0, 0);
  op("MPI_Win_sync", 1, 0, 0);
  op("MPI_Win_unlock_all", 1, 0, 0);
  message(me, left, 20), message(left, me, 24), message(me, left, 28);
  message(me, left, 32), message(left, me, 32), message(me, left, 36), message(left, me, 36);
  message(me, left, 4), message(left, me, 4), message(me, left, 4), message(left, me, 4);
  MPI_Win_free(&window);
  op("MPI_Win_free", 1, 0, 0);

  // A window on half of the world: targets are ranks of that.
  MPI_Comm half;
  int* allocated;
  MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
  if (me % 2 == 1) MPI_Barrier(MPI_COMM_WORLD);  // one after the other: tests/mpi_defects
  MPI_Win_allocate(400, sizeof(int), MPI_INFO_NULL, half, &allocated, &window);
  if (me % 2 == 0) MPI_Barrier(MPI_COMM_WORLD);
  op("MPI_Barrier", 1, 0, 0);
  MPI_Win_fence(0, window);
  MPI_Put(out, 2, MPI_INT, ranks / 2 - 1, 0, 2, MPI_INT, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  MPI_Comm_free(&half);
  op("MPI_Win_allocate", 1, 0, 0);
  op("MPI_Win_fence", 2, 0, 0);
  op("MPI_Put", 1, 8, 0);
  op("MPI_Win_free", 1, 0, 0);
  message(me, ranks - 2 + me % 2, 8);
}

// --- files: bytes asked to be written are sent, those asked to be read received, and nobody is spoken to
// ------

static void files(const char* path) {
  MPI_File file;
  MPI_Request request;
  const MPI_Offset mine = (MPI_Offset)me * 4096;
  MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                MPI_INFO_NULL, &file);
  op("MPI_File_open", 1, 0, 0);
#define WRITES(name, elements, ...)                \
  MPI_File_##name(__VA_ARGS__, MPI_STATUS_IGNORE); \
  op("MPI_File_" #name, 1, 4LL * (elements), 0)
#define READS(name, elements, ...)                 \
  MPI_File_##name(__VA_ARGS__, MPI_STATUS_IGNORE); \
  op("MPI_File_" #name, 1, 0, 4LL * (elements))
  WRITES(write_at, 10, file, mine, out, 10, MPI_INT);
  WRITES(write_at_all, 11, file, mine, out, 11, MPI_INT);
  MPI_File_seek(file, mine, MPI_SEEK_SET);
  WRITES(write, 12, file, out, 12, MPI_INT);
  WRITES(write_all, 13, file, out, 13, MPI_INT);
  MPI_File_sync(file);
  READS(read_at, 10, file, mine, in, 10, MPI_INT);
  READS(read_at_all, 11, file, mine, in, 11, MPI_INT);
  MPI_File_seek(file, mine, MPI_SEEK_SET);
  READS(read, 12, file, in, 12, MPI_INT);
  READS(read_all, 13, file, in, 13, MPI_INT);
  op("MPI_File_seek", 2, 0, 0);
  op("MPI_File_sync", 1, 0, 0);
  MPI_File_iwrite_at(file, mine, out, 14, MPI_INT, &request);
  wait_for(&request);
  op("MPI_File_iwrite_at", 1, 56, 0);
  MPI_File_iread_at(file, mine, in, 14, MPI_INT, &request);
  wait_for(&request);
  op("MPI_File_iread_at", 1, 0, 56);
  MPI_File_iwrite_at_all(file, mine, out, 15, MPI_INT, &request);
  wait_for(&request);
  op("MPI_File_iwrite_at_all", 1, 60, 0);
  MPI_File_write_at_all_begin(file, mine, out, 16, MPI_INT);
  MPI_File_write_at_all_end(file, out, MPI_STATUS_IGNORE);
  op("MPI_File_write_at_all_begin", 1, 64, 0);
  op("MPI_File_write_at_all_end", 1, 0, 0);
  MPI_File_read_at_all_begin(file, mine, in, 16, MPI_INT);
  MPI_File_read_at_all_end(file, in, MPI_STATUS_IGNORE);
  op("MPI_File_read_at_all_begin", 1, 0, 64);
  op("MPI_File_read_at_all_end", 1, 0, 0);
  WRITES(write_shared, 17, file, out, 17, MPI_INT);
  WRITES(write_ordered, 18, file, out, 18, MPI_INT);
  MPI_File_close(&file);
  op("MPI_File_close", 1, 0, 0);
}

// --- communicators with two groups
// --------------------------------------------------------------------------

static void intercommunicators(void) {
  MPI_Comm half, inter;
  const int odd = me % 2, other_size = ranks / 2;
  MPI_Comm_split(MPI_COMM_WORLD, odd, me, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - odd, 7, &inter);
  const int rank = me / 2, next = (rank + 1) % other_size;
  // Rank r of the other half is 2 r + 1 - odd in the world.
  MPI_Sendrecv(out, 10, MPI_INT, next, 1, in, 100, MPI_INT, MPI_ANY_SOURCE, 1, inter, MPI_STATUS_IGNORE);
  op("MPI_Sendrecv", 1, 40, 40);
  message(me, 2 * next + 1 - odd, 40);
  int counts[kMaxRanks], places[kMaxRanks];
  for (int r = 0; r < other_size; ++r) counts[r] = 3, places[r] = 64 * r;
  MPI_Alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, inter);
  op("MPI_Alltoallv", 1, 12 * other_size, 12 * other_size);
  for (int r = 0; r < other_size; ++r) message(me, 2 * r + 1 - odd, 12);
  MPI_Allgather(out, 5, MPI_INT, in, 5, MPI_INT, inter);
  op("MPI_Allgather", 1, 20, 20 * other_size);
  MPI_Allreduce(out, in, 6, MPI_INT, MPI_SUM, inter);
  op("MPI_Allreduce", 1, 24, 24);
  MPI_Barrier(inter);
  op("MPI_Barrier", 1, 0, 0);
  // The last odd rank to the even ones, and from them.
  const int root = odd == 0 ? other_size - 1 : rank == other_size - 1 ? MPI_ROOT : MPI_PROC_NULL;
  MPI_Bcast(out, 7, MPI_INT, root, inter);
  op("MPI_Bcast", 1, root == MPI_ROOT ? 28 : 0, odd == 0 ? 28 : 0);
  MPI_Gather(out, 8, MPI_INT, in, 8, MPI_INT, root, inter);
  op("MPI_Gather", 1, odd == 0 ? 32 : 0, root == MPI_ROOT ? 32 * other_size : 0);
  MPI_Reduce(out, in, 9, MPI_INT, MPI_SUM, root, inter);
  op("MPI_Reduce", 1, odd == 0 ? 36 : 0, root == MPI_ROOT ? 36 : 0);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(ranks % 2 == 0 && ranks <= kMaxRanks, "an even number of ranks up to 16");
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "nonblocking") == 0)
      nonblocking();
    else if (strcmp(argv[i], "cancelled") == 0)
      cancelled();
    else if (strcmp(argv[i], "persistent") == 0)
      persistent();
    else if (strcmp(argv[i], "matched") == 0)
      matched();
    else if (strcmp(argv[i], "icollectives") == 0)
      icollectives();
    else if (strcmp(argv[i], "neighbours") == 0)
      neighbours();
    else if (strcmp(argv[i], "one_sided") == 0)
      one_sided();
    else if (strcmp(argv[i], "intercommunicators") == 0)
      intercommunicators();
    else if (strncmp(argv[i], "files=", 6) == 0)
      files(argv[i] + 6);
    else
      check(0, argv[i]);
  }
  MPI_Finalize();
  for (int s = 0; s < ranks; ++s) {
    for (int d = 0; d < ranks; ++d) {
      if (messages[s][d] != 0) printf("sent %d %d %lld %lld\n", s, d, messages[s][d], bytes[s][d]);
    }
  }
  for (int i = 0; i < op_count; ++i)
    printf("op %s %lld %lld %lld\n", ops[i].name, ops[i].calls, ops[i].sent, ops[i].received);
  return 0;
}
