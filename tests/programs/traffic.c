/* Sends known amounts with every kind of addressed communication, on MPI_COMM_WORLD and on a
 * communicator with the ranks reversed and split, and prints what it sent, by world rank:
 *     sent SRC DST MESSAGES BYTES
 * The expectation is counted at the calls, from the arguments, by this program alone. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int world_rank, world_size;
static long long *messages, *bytes; /* by world rank of the destination */
static char out[1 << 16], in[1 << 16];

static void count(int world_destination, long long size) {
  messages[world_destination] += 1;
  bytes[world_destination] += size;
}

/* to_world[r]: the world rank of rank r in comm */
static void exchange(MPI_Comm comm, const int* to_world, int unit) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int next = (rank + 1) % size, previous = (rank - 1 + size) % size;
  MPI_Request requests[2];

  /* Send, even ranks first */
  const int n = unit + 3 * rank;
  if (rank % 2 == 0) {
    MPI_Send(out, n, MPI_INT, next, 1, comm);
    MPI_Recv(in, sizeof in / 4, MPI_INT, previous, 1, comm, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(in, sizeof in / 4, MPI_INT, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE);
    MPI_Send(out, n, MPI_INT, next, 1, comm);
  }
  count(to_world[next], 4LL * n);

  /* Isend and Irecv, two hops away */
  const int far = (rank + 2) % size, from = (rank - 2 + 2 * size) % size;
  MPI_Irecv(in, sizeof in, MPI_BYTE, from, 2, comm, &requests[0]);
  MPI_Isend(out, 7 * unit, MPI_BYTE, far, 2, comm, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  count(to_world[far], 7LL * unit);

  /* Sendrecv, and one to nobody */
  MPI_Sendrecv(out, unit, MPI_DOUBLE, next, 3, in, sizeof in / 8, MPI_DOUBLE, previous, 3, comm, MPI_STATUS_IGNORE);
  count(to_world[next], 8LL * unit);
  MPI_Sendrecv(out, unit, MPI_DOUBLE, MPI_PROC_NULL, 4, in, sizeof in / 8, MPI_DOUBLE, MPI_PROC_NULL, 4, comm,
               MPI_STATUS_IGNORE);

  /* a persistent send, started twice */
  MPI_Send_init(out, unit, MPI_CHAR, next, 5, comm, &requests[0]);
  for (int i = 0; i < 2; ++i) {
    MPI_Irecv(in, sizeof in, MPI_CHAR, previous, 5, comm, &requests[1]);
    MPI_Start(&requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    count(to_world[next], unit);
  }
  MPI_Request_free(&requests[0]);

  /* Alltoallv: rank r sends (r + 1) * (d + 1) ints to d, itself included */
  int *send_counts = calloc(size, sizeof(int)), *send_at = calloc(size, sizeof(int));
  int *recv_counts = calloc(size, sizeof(int)), *recv_at = calloc(size, sizeof(int));
  for (int d = 0, so = 0, ro = 0; d < size; ++d) {
    send_counts[d] = recv_counts[d] = (rank + 1) * (d + 1);
    send_at[d] = so, recv_at[d] = ro;
    so += send_counts[d], ro += recv_counts[d];
    count(to_world[d], 4LL * send_counts[d]);
  }
  MPI_Alltoallv(out, send_counts, send_at, MPI_INT, in, recv_counts, recv_at, MPI_INT, comm);
  free(send_counts), free(send_at), free(recv_counts), free(recv_at);

  /* not in the matrix: */
  MPI_Bcast(in, unit, MPI_INT, 0, comm);
  MPI_Allreduce(out, in, unit, MPI_INT, MPI_SUM, comm);
  MPI_Barrier(comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  messages = calloc(world_size, sizeof *messages);
  bytes = calloc(world_size, sizeof *bytes);

  int* to_world = calloc(world_size, sizeof(int));
  for (int r = 0; r < world_size; ++r) to_world[r] = r;
  exchange(MPI_COMM_WORLD, to_world, 100);

  /* all ranks, reversed */
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed);
  for (int r = 0; r < world_size; ++r) to_world[r] = world_size - 1 - r;
  exchange(reversed, to_world, 31);

  /* even and odd ranks apart, on a duplicate */
  MPI_Comm half, copy;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
  MPI_Comm_dup(half, &copy);
  for (int r = 0; 2 * r + world_rank % 2 < world_size; ++r) to_world[r] = 2 * r + world_rank % 2;
  exchange(copy, to_world, 17);
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&reversed);

  for (int r = 0; r < world_size; ++r) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (r != world_rank) continue;
    for (int d = 0; d < world_size; ++d) {
      if (messages[d]) printf("sent %d %d %lld %lld\n", r, d, messages[d], bytes[d]);
    }
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
