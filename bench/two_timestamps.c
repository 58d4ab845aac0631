/* The least that a profiler of MPI calls does: a wrapper that takes two timestamps. Preloaded, for the calls
 * that the benchmarks make. */
#include <mpi.h>
#include <stdint.h>
#include <time.h>

static uint64_t spent_ns;

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#define WRAP(name, parameters, arguments)     \
  int MPI_##name parameters {                 \
    const uint64_t start = now_ns();          \
    const int result = PMPI_##name arguments; \
    spent_ns += now_ns() - start;             \
    return result;                            \
  }

WRAP(Send, (const void* buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm),
     (buffer, count, type, destination, tag, comm))
WRAP(Recv,
     (void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status),
     (buffer, count, type, source, tag, comm, status))
WRAP(Isend,
     (const void* buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
      MPI_Request* request),
     (buffer, count, type, destination, tag, comm, request))
WRAP(Irecv,
     (void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request),
     (buffer, count, type, source, tag, comm, request))
WRAP(Wait, (MPI_Request * request, MPI_Status* status), (request, status))
WRAP(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), (count, requests, statuses))
WRAP(Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status))
WRAP(Iprobe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status),
     (source, tag, comm, flag, status))
WRAP(Allreduce,
     (const void* send, void* receive, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm),
     (send, receive, count, type, operation, comm))
