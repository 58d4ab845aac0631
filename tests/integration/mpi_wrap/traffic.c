// SPDX-License-Identifier: BSD-3-Clause
// Communicates in every way that the wrappers have a byte rule for and writes down, while doing
// so, what a profile of it has to say: $EXPECT_DIR/rank<N>.txt with lines
//   peer SRC DST MESSAGES BYTES     traffic that this rank has to record
//   op NAME CALLS SENT RECEIVED     of all calls of one function on this rank
//   named NAME SIZE                 a communicator of that name and size
#include <sys/mman.h>

#include "cases.h"

// --- what is expected ----------------------------------------------------------------------------

static long long *messages, *bytes;

struct op {
  const char* name;
  long long calls, sent, received;
};
static struct op ops[256];
static int op_count;
static char named[64][80];
static int named_count;

static void expect_message(int src, int dst, long long size) {
  messages[src * world_size + dst] += 1;
  bytes[src * world_size + dst] += size;
}

static void expect_op(const char* name, long long calls, long long sent, long long received) {
  int i = 0;
  while (i < op_count && strcmp(ops[i].name, name) != 0) ++i;
  if (i == op_count) ops[op_count++].name = name;
  ops[i].calls += calls;
  ops[i].sent += sent;
  ops[i].received += received;
}

static void name_communicator(MPI_Comm comm, const char* name) {
  int size;
  MPI_Comm_set_name(comm, name);
  MPI_Comm_size(comm, &size);
  snprintf(named[named_count++], sizeof(named[0]), "%s %d", name, size);
}

static void write_expectation(void) {
  if (getenv("EXPECT_DIR") == NULL) return;
  FILE* out = expectation("rank");
  for (int i = 0; i < world_size * world_size; ++i) {
    if (messages[i] != 0) {
      fprintf(out, "peer %d %d %lld %lld\n", i / world_size, i % world_size, messages[i], bytes[i]);
    }
  }
  for (int i = 0; i < op_count; ++i) {
    fprintf(out, "op %s %lld %lld %lld\n", ops[i].name, ops[i].calls, ops[i].sent, ops[i].received);
  }
  for (int i = 0; i < named_count; ++i) fprintf(out, "named %s\n", named[i]);
  fclose(out);
}

// --- cases -------------------------------------------------------------------------------------

enum { kElements = 100000 };
static double out_buffer[kElements], in_buffer[kElements];

static void blocking(void) {
  // A ring, even ranks first, with sizes around the limits of eager sending.
  const int counts[] = {0, 1, 7, 1000, 50000};
  for (int i = 0; i < 5; ++i) {
    if (world_rank % 2 == 0) {
      MPI_Send(out_buffer, counts[i], MPI_DOUBLE, right(), 1, MPI_COMM_WORLD);
      MPI_Recv(in_buffer, kElements, MPI_DOUBLE, left(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Status status;
      int got;
      MPI_Recv(in_buffer, kElements, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      MPI_Send(out_buffer, counts[i], MPI_DOUBLE, right(), 1, MPI_COMM_WORLD);
      MPI_Get_count(&status, MPI_DOUBLE, &got);
      check(got == counts[i] && status.MPI_SOURCE == left(), "blocking: wrong status");
    }
    expect_message(world_rank, right(), 8LL * counts[i]);
    expect_op("MPI_Send", 1, 8LL * counts[i], 0);
    expect_op("MPI_Recv", 1, 0, 8LL * counts[i]);
  }
  MPI_Send(out_buffer, 10, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
  MPI_Recv(in_buffer, 10, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect_op("MPI_Send", 1, 0, 0);
  expect_op("MPI_Recv", 1, 0, 0);
  // The other modes, to the left.
  char attached[4096 + MPI_BSEND_OVERHEAD];
  char* detached;
  int size;
  MPI_Buffer_attach(attached, sizeof(attached));
  MPI_Bsend(out_buffer, 33, MPI_CHAR, left(), 2, MPI_COMM_WORLD);
  MPI_Recv(in_buffer, kElements, MPI_CHAR, right(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Buffer_detach(&detached, &size);
  if (world_rank % 2 == 0) MPI_Ssend(out_buffer, 9, MPI_FLOAT, left(), 3, MPI_COMM_WORLD);
  MPI_Recv(in_buffer, kElements, MPI_FLOAT, right(), 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (world_rank % 2 == 1) MPI_Ssend(out_buffer, 9, MPI_FLOAT, left(), 3, MPI_COMM_WORLD);
  expect_message(world_rank, left(), 33);
  expect_message(world_rank, left(), 36);
  expect_op("MPI_Bsend", 1, 33, 0);
  expect_op("MPI_Ssend", 1, 36, 0);
  expect_op("MPI_Recv", 2, 0, 33 + 36);
}

static void nonblocking(void) {
  MPI_Request requests[4];
  MPI_Status statuses[4];
  int flag = 0, index, count, indices[4];
  // Waitall without statuses, to and from both sides.
  MPI_Irecv(in_buffer, 10, MPI_INT, left(), 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(in_buffer + 100, 30, MPI_INT, right(), 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(out_buffer, 10, MPI_INT, right(), 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Issend(out_buffer, 20, MPI_INT, left(), 2, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  expect_message(world_rank, right(), 40);
  expect_message(world_rank, left(), 80);
  expect_op("MPI_Isend", 1, 40, 0);
  expect_op("MPI_Issend", 1, 80, 0);
  expect_op("MPI_Irecv", 2, 0, 120);
  // Wait and Test, one at a time; the receive is larger than the message.
  MPI_Irecv(in_buffer, 1000, MPI_INT, left(), 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out_buffer, 5, MPI_INT, right(), 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Wait(&requests[1], &statuses[1]);
  MPI_Irecv(in_buffer, 1000, MPI_INT, left(), 4, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out_buffer, 6, MPI_INT, right(), 4, MPI_COMM_WORLD, &requests[1]);
  while (!flag) MPI_Test(&requests[0], &flag, &statuses[0]);
  MPI_Get_count(&statuses[0], MPI_INT, &count);
  check(count == 6 && requests[0] == MPI_REQUEST_NULL, "nonblocking: wrong status of MPI_Test");
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);  // null already
  expect_message(world_rank, right(), 20);
  expect_message(world_rank, right(), 24);
  expect_op("MPI_Isend", 2, 44, 0);
  expect_op("MPI_Irecv", 2, 0, 44);
  // The any and some families, each until all of four are complete.
  for (int family = 0; family < 5; ++family) {
    for (int i = 0; i < 2; ++i) {
      MPI_Irecv(in_buffer + 1000 * i, 1000, MPI_INT, left(), 10 + i, MPI_COMM_WORLD, &requests[2 * i]);
      MPI_Isend(out_buffer, 7 + i, MPI_INT, right(), 10 + i, MPI_COMM_WORLD, &requests[2 * i + 1]);
      expect_message(world_rank, right(), 4LL * (7 + i));
    }
    expect_op("MPI_Isend", 2, 60, 0);
    expect_op("MPI_Irecv", 2, 0, 60);
    int done = 0;
    while (done < 4) {
      if (family == 0) {
        MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
        ++done;
      } else if (family == 1) {
        MPI_Testany(4, requests, &index, &flag, &statuses[0]);
        if (flag && index != MPI_UNDEFINED) ++done;
      } else if (family == 2) {
        MPI_Waitsome(4, requests, &count, indices, MPI_STATUSES_IGNORE);
        done += count;
      } else if (family == 3) {
        MPI_Testsome(4, requests, &count, indices, statuses);
        done += count;
      } else {
        MPI_Testall(4, requests, &flag, MPI_STATUSES_IGNORE);
        if (flag) done = 4;
      }
    }
  }
  // More than fit into the wrapper's small arrays.
  enum { kMany = 500 };
  static MPI_Request many[2 * kMany];
  for (int i = 0; i < kMany; ++i) {
    MPI_Irecv(in_buffer + i, 1, MPI_DOUBLE, left(), i, MPI_COMM_WORLD, &many[i]);
    MPI_Isend(out_buffer + i, 1, MPI_DOUBLE, right(), i, MPI_COMM_WORLD, &many[kMany + i]);
    expect_message(world_rank, right(), 8);
  }
  MPI_Waitall(2 * kMany, many, MPI_STATUSES_IGNORE);
  expect_op("MPI_Isend", kMany, 8LL * kMany, 0);
  expect_op("MPI_Irecv", kMany, 0, 8LL * kMany);
  // A receive that never gets anything.
  MPI_Irecv(in_buffer, 1, MPI_INT, left(), 999, MPI_COMM_WORLD, &requests[0]);
  MPI_Cancel(&requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Irecv(in_buffer, 1, MPI_INT, MPI_PROC_NULL, 999, MPI_COMM_WORLD, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  expect_op("MPI_Irecv", 2, 0, 0);
}

static void sendrecv(void) {
  MPI_Sendrecv(out_buffer, 11, MPI_SHORT, right(), 1, in_buffer, 100, MPI_SHORT, left(), 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv_replace(out_buffer, 12, MPI_SHORT, left(), 1, right(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(out_buffer, 13, MPI_SHORT, world_rank, 1, in_buffer, 13, MPI_SHORT, world_rank, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(out_buffer, 13, MPI_SHORT, MPI_PROC_NULL, 1, in_buffer, 13, MPI_SHORT, MPI_PROC_NULL, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect_message(world_rank, right(), 22);
  expect_message(world_rank, left(), 24);
  expect_message(world_rank, world_rank, 26);
  expect_op("MPI_Sendrecv", 3, 22 + 26, 22 + 26);
  expect_op("MPI_Sendrecv_replace", 1, 24, 24);
}

static void persistent(void) {
  MPI_Request requests[2];
  MPI_Send_init(out_buffer, 17, MPI_INT, right(), 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(in_buffer, 100, MPI_INT, left(), 1, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < 3; ++i) {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);  // both inactive
    expect_message(world_rank, right(), 68);
  }
  for (int i = 0; i < 2; ++i) {
    MPI_Start(&requests[1]);
    MPI_Start(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    expect_message(world_rank, right(), 68);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  expect_op("MPI_Send_init", 1, 5 * 68, 0);
  expect_op("MPI_Recv_init", 1, 0, 5 * 68);
  expect_op("MPI_Startall", 3, 0, 0);
  expect_op("MPI_Start", 4, 0, 0);
}

static void matched(void) {
  MPI_Message message;
  MPI_Request request;
  MPI_Status status;
  int flag = 0;
  MPI_Isend(out_buffer, 3, MPI_INT, right(), 1, MPI_COMM_WORLD, &request);
  MPI_Mprobe(left(), 1, MPI_COMM_WORLD, &message, &status);
  MPI_Mrecv(in_buffer, 100, MPI_INT, &message, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Isend(out_buffer, 4, MPI_INT, right(), 2, MPI_COMM_WORLD, &request);
  while (!flag) MPI_Improbe(left(), 2, MPI_COMM_WORLD, &flag, &message, &status);
  MPI_Request receive;
  MPI_Imrecv(in_buffer, 100, MPI_INT, &message, &receive);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect_message(world_rank, right(), 12);
  expect_message(world_rank, right(), 16);
  expect_op("MPI_Isend", 2, 28, 0);
  expect_op("MPI_Mrecv", 1, 0, 12);
  expect_op("MPI_Imrecv", 1, 0, 16);
}

static void all_to_all(void) {
  const int size = world_size;
  int send_counts[64], recv_counts[64], displacements[64], byte_displacements[64];
  MPI_Datatype types[64];
  MPI_Alltoall(out_buffer, 3, MPI_INT, in_buffer, 3, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in_buffer, 2, MPI_INT, MPI_COMM_WORLD);
  expect_op("MPI_Alltoall", 2, 20LL * size, 20LL * size);
  long long sent = 0, received = 0;
  MPI_Datatype vector;
  MPI_Type_vector(4, 1, 2, MPI_DOUBLE, &vector);  // 32 bytes of data in a larger extent
  MPI_Type_commit(&vector);
  for (int i = 0; i < size; ++i) {
    // Blocks of (src + 2 dst) elements: that from 0 to 0 is empty and is no message.
    send_counts[i] = world_rank + 2 * i;
    recv_counts[i] = i + 2 * world_rank;
    displacements[i] = 100 * i;
    byte_displacements[i] = 1000 * i;
    types[i] = i % 2 == 0 ? MPI_INT : MPI_DOUBLE;
    expect_message(world_rank, i, 12);
    expect_message(world_rank, i, 8);
    if (send_counts[i] != 0) expect_message(world_rank, i, 32LL * send_counts[i]);
    sent += 32LL * send_counts[i];
    received += 32LL * recv_counts[i];
  }
  MPI_Alltoallv(out_buffer, send_counts, displacements, vector, in_buffer, recv_counts, displacements, vector,
                MPI_COMM_WORLD);
  expect_op("MPI_Alltoallv", 1, sent, received);
  MPI_Type_free(&vector);
  // Types alternate by the sum of the ranks, so that both ends agree.
  sent = received = 0;
  for (int i = 0; i < size; ++i) {
    types[i] = (i + world_rank) % 2 == 0 ? MPI_INT : MPI_DOUBLE;
    const long long element = (i + world_rank) % 2 == 0 ? 4 : 8;
    if (send_counts[i] != 0) expect_message(world_rank, i, element * send_counts[i]);
    sent += element * send_counts[i];
    received += element * recv_counts[i];
  }
  MPI_Alltoallw(out_buffer, send_counts, byte_displacements, types, in_buffer, recv_counts,
                byte_displacements, types, MPI_COMM_WORLD);
  expect_op("MPI_Alltoallw", 1, sent, received);
  MPI_Request request;
  MPI_Ialltoall(out_buffer, 1, MPI_DOUBLE, in_buffer, 1, MPI_DOUBLE, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < size; ++i) expect_message(world_rank, i, 8);
  expect_op("MPI_Ialltoall", 1, 8LL * size, 8LL * size);
}

static void neighbours(void) {
  MPI_Comm ring, line, graph;
  const int dims[] = {world_size}, periodic[] = {1}, open[] = {0};
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periodic, 0, &ring);
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, open, 0, &line);
  name_communicator(ring, "ring");
  name_communicator(line, "line");
  MPI_Neighbor_alltoall(out_buffer, 5, MPI_INT, in_buffer, 5, MPI_INT, ring);
  expect_message(world_rank, left(), 20);
  expect_message(world_rank, right(), 20);
  expect_op("MPI_Neighbor_alltoall", 1, 40, 40);
  MPI_Neighbor_alltoall(out_buffer, 5, MPI_INT, in_buffer, 5, MPI_INT, line);
  const int has_lower = world_rank > 0, has_upper = world_rank + 1 < world_size;
  if (has_lower) expect_message(world_rank, world_rank - 1, 20);
  if (has_upper) expect_message(world_rank, world_rank + 1, 20);
  expect_op("MPI_Neighbor_alltoall", 1, 20 * (has_lower + has_upper), 20 * (has_lower + has_upper));
  MPI_Neighbor_allgather(out_buffer, 2, MPI_DOUBLE, in_buffer, 2, MPI_DOUBLE, ring);
  expect_message(world_rank, left(), 16);
  expect_message(world_rank, right(), 16);
  expect_op("MPI_Neighbor_allgather", 1, 32, 32);
  // Everybody sends to the right alone.
  const int source = left(), destination = right();
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &source, MPI_UNWEIGHTED, 1, &destination, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &graph);
  name_communicator(graph, "graph");
  const int send_counts[] = {world_rank + 1}, recv_counts[] = {left() + 1}, displacements[] = {0};
  MPI_Neighbor_alltoallv(out_buffer, send_counts, displacements, MPI_INT, in_buffer, recv_counts,
                         displacements, MPI_INT, graph);
  expect_message(world_rank, right(), 4LL * (world_rank + 1));
  expect_op("MPI_Neighbor_alltoallv", 1, 4LL * (world_rank + 1), 4LL * (left() + 1));
  const MPI_Aint aint_displacements[] = {0};
  const MPI_Datatype types[] = {MPI_DOUBLE};
  MPI_Neighbor_alltoallw(out_buffer, send_counts, aint_displacements, types, in_buffer, recv_counts,
                         aint_displacements, types, graph);
  expect_message(world_rank, right(), 8LL * (world_rank + 1));
  expect_op("MPI_Neighbor_alltoallw", 1, 8LL * (world_rank + 1), 8LL * (left() + 1));
  MPI_Comm_free(&ring);
  MPI_Comm_free(&line);
  MPI_Comm_free(&graph);
}

static void one_sided(void) {
  // On a communicator with the ranks turned round.
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed);
  name_communicator(reversed, "reversed");
  MPI_Win window;
  double* memory;
  MPI_Win_allocate(1024 * sizeof(double), sizeof(double), MPI_INFO_NULL, reversed, &memory, &window);
  MPI_Comm_free(&reversed);  // the window lives on
  memset(memory, 0, 1024 * sizeof(double));
  const int target = right(), target_rank = world_size - 1 - target;
  MPI_Win_fence(0, window);
  MPI_Put(out_buffer, 10, MPI_DOUBLE, target_rank, 0, 10, MPI_DOUBLE, window);
  MPI_Win_fence(0, window);
  MPI_Get(in_buffer, 20, MPI_DOUBLE, target_rank, 0, 20, MPI_DOUBLE, window);
  MPI_Win_fence(0, window);
  MPI_Accumulate(out_buffer, 30, MPI_DOUBLE, target_rank, 100, 30, MPI_DOUBLE, MPI_SUM, window);
  MPI_Win_fence(0, window);
  MPI_Put(out_buffer, 10, MPI_DOUBLE, MPI_PROC_NULL, 0, 10, MPI_DOUBLE, window);
  MPI_Win_fence(0, window);
  expect_message(world_rank, target, 80);
  expect_message(target, world_rank, 160);
  expect_message(world_rank, target, 240);
  expect_op("MPI_Put", 2, 80, 0);
  expect_op("MPI_Get", 1, 0, 160);
  expect_op("MPI_Accumulate", 1, 240, 0);
  MPI_Win_lock(MPI_LOCK_SHARED, target_rank, 0, window);
  MPI_Get_accumulate(out_buffer, 5, MPI_DOUBLE, in_buffer, 5, MPI_DOUBLE, target_rank, 200, 5, MPI_DOUBLE,
                     MPI_SUM, window);
  MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, in_buffer, 6, MPI_DOUBLE, target_rank, 200, 6, MPI_DOUBLE,
                     MPI_NO_OP, window);
  MPI_Fetch_and_op(out_buffer, in_buffer + 50, MPI_DOUBLE, target_rank, 300, MPI_SUM, window);
  MPI_Request request;
  MPI_Rput(out_buffer, 4, MPI_DOUBLE, target_rank, 400 + world_rank * 4, 4, MPI_DOUBLE, window, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Win_unlock(target_rank, window);
  expect_message(world_rank, target, 40);
  expect_message(target, world_rank, 40);
  expect_message(target, world_rank, 48);
  expect_message(world_rank, target, 8);
  expect_message(target, world_rank, 8);
  expect_message(world_rank, target, 32);
  expect_op("MPI_Get_accumulate", 2, 40, 88);
  expect_op("MPI_Fetch_and_op", 1, 8, 8);
  expect_op("MPI_Rput", 1, 32, 0);
  MPI_Win_free(&window);
}

static void communicators(void) {
  MPI_Comm half, copy, group_comm, later;
  int rank, size;
  // Halves by parity; a ring in each.
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
  name_communicator(half, world_rank % 2 == 0 ? "even" : "odd");
  MPI_Comm_rank(half, &rank);
  MPI_Comm_size(half, &size);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Sendrecv(out_buffer, 50, MPI_INT, next, 1, in_buffer, 50, MPI_INT, previous, 1, half,
               MPI_STATUS_IGNORE);
  expect_message(world_rank, 2 * next + world_rank % 2, 200);
  expect_op("MPI_Sendrecv", 1, 200, 200);
  MPI_Alltoall(out_buffer, 1, MPI_INT, in_buffer, 1, MPI_INT, half);
  for (int i = 0; i < size; ++i) expect_message(world_rank, 2 * i + world_rank % 2, 4);
  expect_op("MPI_Alltoall", 1, 4LL * size, 4LL * size);
  MPI_Comm_dup(half, &copy);
  name_communicator(copy, world_rank % 2 == 0 ? "even copy" : "odd copy");
  MPI_Sendrecv(out_buffer, 60, MPI_INT, next, 1, in_buffer, 60, MPI_INT, previous, 1, copy,
               MPI_STATUS_IGNORE);
  expect_message(world_rank, 2 * next + world_rank % 2, 240);
  expect_op("MPI_Sendrecv", 1, 240, 240);
  MPI_Request request;
  MPI_Comm idup;
  MPI_Comm_idup(MPI_COMM_WORLD, &idup, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  name_communicator(idup, "idup");
  MPI_Sendrecv(out_buffer, 1, MPI_INT, right(), 1, in_buffer, 1, MPI_INT, left(), 1, idup, MPI_STATUS_IGNORE);
  expect_message(world_rank, right(), 4);
  expect_op("MPI_Sendrecv", 1, 4, 4);
  MPI_Comm_free(&idup);
  // Made by its members alone, in reverse order; twice, so that the two differ.
  MPI_Group world_group, reversed_group;
  int ranks[64], members = 0;
  MPI_Comm_group(MPI_COMM_WORLD, &world_group);
  for (int i = world_size - 1; i >= 0; --i) {
    if (i != 1) ranks[members++] = i;
  }
  MPI_Group_incl(world_group, members, ranks, &reversed_group);
  if (world_rank != 1) {
    for (int turn = 0; turn < 2; ++turn) {
      MPI_Comm_create_group(MPI_COMM_WORLD, reversed_group, 7, &group_comm);
      name_communicator(group_comm, turn == 0 ? "all but 1" : "all but 1 again");
      // Everybody sends to the first, itself included.
      MPI_Request from_all[64];
      MPI_Comm_rank(group_comm, &rank);
      for (int i = 0; rank == 0 && i < members; ++i) {
        MPI_Irecv(in_buffer + 2 * i, 2, MPI_DOUBLE, i, 1, group_comm, &from_all[i]);
        expect_op("MPI_Irecv", 1, 0, 16);
      }
      MPI_Send(out_buffer, 2, MPI_DOUBLE, 0, 1, group_comm);
      if (rank == 0) MPI_Waitall(members, from_all, MPI_STATUSES_IGNORE);
      expect_message(world_rank, world_size - 1 == 1 ? 0 : world_size - 1, 16);
      expect_op("MPI_Send", 1, 16, 0);
      MPI_Barrier(group_comm);
      MPI_Comm_free(&group_comm);
    }
  }
  MPI_Group_free(&world_group);
  MPI_Group_free(&reversed_group);
  // The halves talk to each other.
  MPI_Comm inter, merged;
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank % 2, 5, &inter);
  name_communicator(inter, "inter");
  snprintf(named[named_count - 1], sizeof(named[0]), "inter %d", size);
  int remote_size;
  MPI_Comm_remote_size(inter, &remote_size);
  MPI_Comm_rank(inter, &rank);
  const int partner = rank % remote_size, partner_world = 2 * partner + 1 - world_rank % 2;
  if (world_size % 2 == 0) {
    MPI_Sendrecv(out_buffer, 70, MPI_INT, partner, 1, in_buffer, 70, MPI_INT, partner, 1, inter,
                 MPI_STATUS_IGNORE);
    expect_message(world_rank, partner_world, 280);
    expect_op("MPI_Sendrecv", 1, 280, 280);
  }
  MPI_Alltoall(out_buffer, 2, MPI_INT, in_buffer, 2, MPI_INT, inter);
  for (int i = 0; i < remote_size; ++i) expect_message(world_rank, 2 * i + 1 - world_rank % 2, 8);
  expect_op("MPI_Alltoall", 1, 8LL * remote_size, 8LL * remote_size);
  // From the first even rank to all odd ones.
  const int root = world_rank % 2 == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
  MPI_Bcast(out_buffer, 9, MPI_INT, root, inter);
  expect_op("MPI_Bcast", 1, root == MPI_ROOT ? 36 : 0, root == 0 ? 36 : 0);
  MPI_Intercomm_merge(inter, world_rank % 2, &merged);
  name_communicator(merged, "merged");
  MPI_Comm_rank(merged, &rank);
  MPI_Send(out_buffer, 0, MPI_INT, MPI_PROC_NULL, 0, merged);
  expect_op("MPI_Send", 1, 0, 0);
  MPI_Comm_free(&merged);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&half);
  // Handles are used again: a freed one must not be taken for what it was.
  for (int i = 0; i < 3; ++i) {
    MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 == 0 ? world_rank : -world_rank, &later);
    const int target = i % 2 == 0 ? right() : world_size - 1 - right();
    MPI_Sendrecv(out_buffer, 3, MPI_INT, target, 1, in_buffer, 3, MPI_INT, MPI_ANY_SOURCE, 1, later,
                 MPI_STATUS_IGNORE);
    expect_message(world_rank, right(), 12);
    expect_op("MPI_Sendrecv", 1, 12, 12);
    MPI_Comm_free(&later);
  }
}

static void rooted(void) {
  const int size = world_size, is_root = world_rank == 1;
  int counts[64], displacements[64];
  long long sum = 0;
  for (int i = 0; i < size; ++i) {
    counts[i] = i + 1;
    displacements[i] = 100 * i;
    sum += counts[i];
  }
  MPI_Bcast(out_buffer, 10, MPI_INT, 1, MPI_COMM_WORLD);
  expect_op("MPI_Bcast", 1, is_root ? 40 : 0, is_root ? 0 : 40);
  MPI_Gather(out_buffer, 2, MPI_INT, in_buffer, 2, MPI_INT, 1, MPI_COMM_WORLD);
  MPI_Gather(is_root ? MPI_IN_PLACE : out_buffer, 2, MPI_INT, in_buffer, 2, MPI_INT, 1, MPI_COMM_WORLD);
  expect_op("MPI_Gather", 2, 16, is_root ? 16LL * size : 0);
  MPI_Gatherv(is_root ? MPI_IN_PLACE : out_buffer, counts[world_rank], MPI_INT, in_buffer, counts,
              displacements, MPI_INT, 1, MPI_COMM_WORLD);
  expect_op("MPI_Gatherv", 1, 4LL * counts[world_rank], is_root ? 4 * sum : 0);
  MPI_Scatter(out_buffer, 3, MPI_INT, is_root ? MPI_IN_PLACE : (void*)in_buffer, 3, MPI_INT, 1,
              MPI_COMM_WORLD);
  expect_op("MPI_Scatter", 1, is_root ? 12LL * size : 0, 12);
  MPI_Scatterv(out_buffer, counts, displacements, MPI_INT, in_buffer, counts[world_rank], MPI_INT, 1,
               MPI_COMM_WORLD);
  expect_op("MPI_Scatterv", 1, is_root ? 4 * sum : 0, 4LL * counts[world_rank]);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, in_buffer, 4, MPI_INT, MPI_COMM_WORLD);
  expect_op("MPI_Allgather", 1, 16, 16LL * size);
  // What a rank sends and what it receives are counted by types of their own.
  MPI_Datatype all_of_mine;
  MPI_Type_contiguous(counts[world_rank], MPI_INT, &all_of_mine);
  MPI_Type_commit(&all_of_mine);
  MPI_Allgatherv(out_buffer, 1, all_of_mine, in_buffer, counts, displacements, MPI_INT, MPI_COMM_WORLD);
  MPI_Type_free(&all_of_mine);
  expect_op("MPI_Allgatherv", 1, 4LL * counts[world_rank], 4 * sum);
  MPI_Reduce(out_buffer, in_buffer, 5, MPI_DOUBLE, MPI_SUM, 1, MPI_COMM_WORLD);
  expect_op("MPI_Reduce", 1, 40, is_root ? 40 : 0);
  MPI_Allreduce(MPI_IN_PLACE, in_buffer, 6, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  expect_op("MPI_Allreduce", 1, 48, 48);
  MPI_Reduce_scatter(out_buffer, in_buffer, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect_op("MPI_Reduce_scatter", 1, 4 * sum, 4LL * counts[world_rank]);
  MPI_Reduce_scatter_block(out_buffer, in_buffer, 7, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect_op("MPI_Reduce_scatter_block", 1, 28LL * size, 28);
  MPI_Scan(out_buffer, in_buffer, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect_op("MPI_Scan", 1, 32, 32);
  MPI_Request request;
  MPI_Iallreduce(out_buffer, in_buffer, 9, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect_op("MPI_Iallreduce", 1, 36, 36);
}

static void files(void) {
  const char* directory = getenv("EXPECT_DIR");
  char path[4096];
  MPI_File file;
  snprintf(path, sizeof(path), "%s/traffic.data", directory == NULL ? "/tmp" : directory);
  MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                MPI_INFO_NULL, &file);
  MPI_File_write_at_all(file, world_rank * 80, out_buffer, 10, MPI_DOUBLE, MPI_STATUS_IGNORE);
  MPI_File_read_at(file, world_rank * 80, in_buffer, 10, MPI_DOUBLE, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  expect_op("MPI_File_open", 1, 0, 0);
  expect_op("MPI_File_write_at_all", 1, 80, 0);
  expect_op("MPI_File_read_at", 1, 0, 80);
}

static void errors(void) {
  // A failing call is counted, its bytes are not; the error comes back as it is.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int wrong = MPI_Send(out_buffer, 10, MPI_INT, world_size + 5, 1, MPI_COMM_WORLD);
  int class;
  MPI_Error_class(wrong, &class);
  check(class == MPI_ERR_RANK, "errors: the error was changed");
  expect_op("MPI_Send", 1, 0, 0);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

#if HAS_MPI_4
static void version_4(void) {
  MPI_Request requests[2];
#if HAS_LARGE_COUNTS
  MPI_Send_c(out_buffer, 2, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
#endif
  MPI_Isendrecv(out_buffer, 21, MPI_INT, right(), 1, in_buffer, 21, MPI_INT, left(), 1, MPI_COMM_WORLD,
                &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  expect_message(world_rank, right(), 84);
  expect_op("MPI_Isendrecv", 1, 84, 84);
  MPI_Alltoall_init(out_buffer, 3, MPI_INT, in_buffer, 3, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                    &requests[0]);
  for (int turn = 0; turn < 2; ++turn) {
    MPI_Start(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    for (int i = 0; i < world_size; ++i) expect_message(world_rank, i, 12);
  }
  MPI_Request_free(&requests[0]);
  expect_op("MPI_Alltoall_init", 1, 24LL * world_size, 24LL * world_size);
  MPI_Psend_init(out_buffer, 4, 25, MPI_INT, right(), 2, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(in_buffer, 4, 25, MPI_INT, left(), 2, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  for (int turn = 0; turn < 2; ++turn) {
    MPI_Startall(2, requests);
    MPI_Pready_range(0, 3, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect_message(world_rank, right(), 400);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  expect_op("MPI_Start", 2, 0, 0);
  expect_op("MPI_Startall", 2, 0, 0);
  expect_op("MPI_Psend_init", 1, 800, 0);
  expect_op("MPI_Precv_init", 1, 0, 800);
}
#endif

// As a library does that keeps communicators of its own with each of its user's: made and freed inside other
// calls, out of the profiler's sight.
enum { kInner = 4 };

static int make_inner(MPI_Comm comm, int keyval, void* state, void* from, void* to, int* flag) {
  (void)keyval, (void)state, (void)from;
  MPI_Comm* const inner = malloc(kInner * sizeof *inner);
  check(inner != NULL, "memory");
  for (int i = 0; i < kInner; ++i) MPI_Comm_split(comm, 0, 0, &inner[i]);
  *(MPI_Comm**)to = inner;
  *flag = 1;
  return MPI_SUCCESS;
}
static int free_inner(MPI_Comm comm, int keyval, void* value, void* state) {
  (void)comm, (void)keyval, (void)state;
  MPI_Comm* const inner = value;
  for (int i = 0; inner != NULL && i < kInner; ++i) MPI_Comm_free(&inner[i]);
  free(inner);
  return MPI_SUCCESS;
}

// Room for `bytes` in front of memory that cannot be read.
static void* at_the_edge(size_t bytes) {
  const size_t page = 4096;
  char* const pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(pages != MAP_FAILED && bytes <= page && mprotect(pages + page, page, PROT_NONE) == 0, "pages");
  return pages + page - bytes;
}

// The handle of an inner communicator of all ranks is used again for one of this rank alone.
static void inner_communicators(void) {
  enum { kMost = 64 };
  MPI_Comm wide, narrow, outer, outers[kMost], *inner = NULL;
  int keyval, flag, made = 0, again = kInner;
  MPI_Comm_create_keyval(make_inner, free_inner, &keyval, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &wide);
  MPI_Comm_dup(MPI_COMM_SELF, &narrow);
  MPI_Comm_set_attr(wide, keyval, NULL);
  MPI_Comm_set_attr(narrow, keyval, NULL);
  MPI_Comm_dup(wide, &outer);
  MPI_Comm_get_attr(outer, keyval, &inner, &flag);
  const MPI_Comm before = inner[0];
  // Two of the same ranks are two.
  MPI_Barrier(before);
  MPI_Barrier(inner[1]);
  MPI_Comm_free(&outer);
  while (again == kInner && made < kMost) {
    MPI_Comm_dup(narrow, &outers[made]);
    MPI_Comm_get_attr(outers[made++], keyval, &inner, &flag);
    for (again = 0; again < kInner && inner[again] != before; ++again) continue;
  }
  check(again < kInner, "the handle of a communicator is not used again");
  int* const count = at_the_edge(sizeof *count);
  int* const displacement = at_the_edge(sizeof *displacement);
  MPI_Datatype* const type = at_the_edge(sizeof *type);
  *count = 7;
  *type = MPI_INT;
  MPI_Alltoallw(out_buffer, count, displacement, type, in_buffer, count, displacement, type, inner[again]);
  expect_message(world_rank, world_rank, 28);
  expect_op("MPI_Alltoallw", 1, 28, 28);
  while (made > 0) MPI_Comm_free(&outers[--made]);
  MPI_Comm_free(&narrow);
  MPI_Comm_free(&wide);
  MPI_Comm_free_keyval(&keyval);
}

// LIBRARY_LACKS_4_1: as a library behind mpi.h that is older than this header.
#if (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)) && !defined(LIBRARY_LACKS_4_1)
#define HAS_4_1 1
static void version_4_1(void) {
  static char attached[4096 + MPI_BSEND_OVERHEAD];
  MPI_Comm comm;
  MPI_Request requests[2];
  void* detached;
  int size, flag = 0, index, count, indices[2], asked = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_attach_buffer(comm, attached, sizeof attached);
  MPI_Bsend(out_buffer, 50, MPI_CHAR, right(), 1, comm);
  MPI_Recv(in_buffer, 50, MPI_CHAR, left(), 1, comm, MPI_STATUS_IGNORE);
  MPI_Comm_iflush_buffer(comm, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Comm_flush_buffer(comm);
  MPI_Comm_detach_buffer(comm, &detached, &size);
  check(detached == attached && size == (int)sizeof attached, "version_4_1: another buffer");
  expect_message(world_rank, right(), 50);
  expect_op("MPI_Bsend", 1, 50, 0);
  expect_op("MPI_Recv", 1, 0, 50);
  for (const char* const* name = (const char* const[]){"MPI_Comm_attach_buffer", "MPI_Comm_iflush_buffer",
                                                       "MPI_Comm_flush_buffer", "MPI_Comm_detach_buffer", NULL};
       *name != NULL; ++name)
    expect_op(*name, 1, 0, 0);
  // Asking does not complete: what is received counts once.
  MPI_Irecv(in_buffer, 10, MPI_INT, left(), 2, comm, &requests[0]);
  MPI_Isend(out_buffer, 10, MPI_INT, right(), 2, comm, &requests[1]);
  for (; !flag; ++asked) MPI_Request_get_status_all(2, requests, &flag, MPI_STATUSES_IGNORE);
  MPI_Request_get_status_any(2, requests, &index, &flag, MPI_STATUS_IGNORE);
  MPI_Request_get_status_some(2, requests, &count, indices, MPI_STATUSES_IGNORE);
  check(flag && count == 2, "version_4_1: not complete any more");
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  expect_message(world_rank, right(), 40);
  expect_op("MPI_Isend", 1, 40, 0);
  expect_op("MPI_Irecv", 1, 0, 40);
  expect_op("MPI_Request_get_status_all", asked, 0, 0);
  expect_op("MPI_Request_get_status_any", 1, 0, 0);
  expect_op("MPI_Request_get_status_some", 1, 0, 0);
  MPI_Comm_free(&comm);
}
#endif

static const struct test_case cases[] = {
    CASE(blocking),
    CASE(nonblocking),
    CASE(sendrecv),
    CASE(persistent),
    CASE(matched),
    CASE(all_to_all),
    CASE(neighbours),
    CASE(one_sided),
    CASE(communicators),
    CASE(rooted),
    CASE(files),
    CASE(errors),
    CASE(inner_communicators),
#if HAS_MPI_4
    CASE(version_4),
#endif
#ifdef HAS_4_1
    CASE(version_4_1),
#endif
};

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

int main(int argc, char** argv) {
  begin_cases(&argc, &argv, "TRAFFIC_MULTIPLE");
  messages = calloc((size_t)(world_size * world_size), sizeof(*messages));
  bytes = calloc((size_t)(world_size * world_size), sizeof(*bytes));
  run_cases(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), barrier);
  write_expectation();
  if (world_rank == 0) puts("traffic done");
  free(messages);
  free(bytes);
  MPI_Finalize();
  return 0;
}
