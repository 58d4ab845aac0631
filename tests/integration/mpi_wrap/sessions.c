// SPDX-License-Identifier: BSD-3-Clause
// Without MPI_Init: a ring on a communicator made from a session, ranks turned round; then operations on
// further ones, which are told apart by their groups, their string tags, and how often these were used.
#include <mpi.h>
#include <stdio.h>

static MPI_Comm make(MPI_Group group, const char* tag) {
  MPI_Comm comm;
  MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  return comm;
}

int main(void) {
  static double out[1000], in[1000];
  static const char* const kTags[] = {"second", "third", "second"};
  MPI_Session session;
  MPI_Group all, others;
  MPI_Comm comm, more[3];
  int rank, size, first = 0;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
  comm = make(all, "ring");
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Sendrecv(out, 1000, MPI_DOUBLE, (rank + 1) % size, 1, in, 1000, MPI_DOUBLE, (rank + size - 1) % size, 1,
               comm, MPI_STATUS_IGNORE);
  MPI_Barrier(comm);
  for (int i = 0; i < 3; ++i) more[i] = make(all, kTags[i]);
  for (int i = 2; i >= 0; --i) MPI_Barrier(more[i]);
  MPI_Group_excl(all, 1, &first, &others);
  if (rank != 0) {
    MPI_Comm some = make(others, "second");
    MPI_Barrier(some);
    MPI_Comm_free(&some);
  }
  MPI_Group_free(&others);
  for (int i = 0; i < 3; ++i) MPI_Comm_free(&more[i]);
  MPI_Comm_free(&comm);
  MPI_Group_free(&all);
  MPI_Session_finalize(&session);
  if (rank == 0) puts("sessions done");
  return 0;
}
