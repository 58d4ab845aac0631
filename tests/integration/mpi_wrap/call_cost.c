// SPDX-License-Identifier: BSD-3-Clause
// What a wrapper adds to a call, in ns: the median over pairs of batches, one through the program's
// own symbols, one through the library's functions directly. call_cost LIBRARY [BATCHES]
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kBatch = 2000, kMaxBatches = 2000 };

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

#define REAL(name) const __typeof__(&name) real_##name = (__typeof__(&name))dlsym(library, "P" #name)

#define MEASURE(what, calls, wrapped, direct)                                                       \
  do {                                                                                              \
    for (int b = 0; b < batches; ++b) {                                                             \
      const double t0 = now_ns();                                                                   \
      for (int i = 0; i < kBatch; ++i) {                                                            \
        wrapped;                                                                                    \
      }                                                                                             \
      const double t1 = now_ns();                                                                   \
      for (int i = 0; i < kBatch; ++i) {                                                            \
        direct;                                                                                     \
      }                                                                                             \
      const double t2 = now_ns();                                                                   \
      added[b] = ((t1 - t0) - (t2 - t1)) / kBatch / (calls);                                        \
      plain[b] = (t2 - t1) / kBatch / (calls);                                                      \
    }                                                                                               \
    qsort(added, (size_t)batches, sizeof(double), compare);                                         \
    qsort(plain, (size_t)batches, sizeof(double), compare);                                         \
    printf("%-22s %7.1f ns per call, %6.1f added\n", what, plain[batches / 2], added[batches / 2]); \
  } while (0)

int main(int argc, char** argv) {
  static double added[kMaxBatches], plain[kMaxBatches];
  if (argc < 2) return 2;
  const int batches = argc > 2 ? atoi(argv[2]) : 200;
  if (batches < 1 || batches > kMaxBatches) return 2;
  MPI_Init(&argc, &argv);
  void* library = dlopen(argv[1], RTLD_NOLOAD | RTLD_LAZY);
  if (library == NULL) return 1;
  REAL(MPI_Send);
  REAL(MPI_Irecv);
  REAL(MPI_Wait);
  REAL(MPI_Test);
  REAL(MPI_Recv);
  REAL(MPI_Sendrecv);
  REAL(MPI_Allreduce);
  REAL(MPI_Comm_rank);
  double out = 1, in = 0;
  int flag, rank;
  MPI_Request request, null = MPI_REQUEST_NULL;
  MEASURE("MPI_Comm_rank", 1, MPI_Comm_rank(MPI_COMM_WORLD, &rank),
          real_MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  MEASURE("MPI_Test (null)", 1, MPI_Test(&null, &flag, MPI_STATUS_IGNORE),
          real_MPI_Test(&null, &flag, MPI_STATUS_IGNORE));
  MEASURE("MPI_Sendrecv to self", 1,
          MPI_Sendrecv(&out, 1, MPI_DOUBLE, 0, 1, &in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE),
          real_MPI_Sendrecv(&out, 1, MPI_DOUBLE, 0, 1, &in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF,
                            MPI_STATUS_IGNORE));
  MEASURE(
      "MPI_Irecv, Send, Wait", 3,
      (MPI_Irecv(&in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &request),
       MPI_Send(&out, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF), MPI_Wait(&request, MPI_STATUS_IGNORE)),
      (real_MPI_Irecv(&in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &request),
       real_MPI_Send(&out, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF), real_MPI_Wait(&request, MPI_STATUS_IGNORE)));
  MEASURE("MPI_Send (to nobody)", 1, MPI_Send(&out, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_SELF),
          real_MPI_Send(&out, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_SELF));
  MEASURE("MPI_Recv (of nothing)", 1,
          MPI_Recv(&in, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE),
          real_MPI_Recv(&in, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
  MEASURE("MPI_Allreduce", 1, MPI_Allreduce(&out, &in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF),
          real_MPI_Allreduce(&out, &in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF));
  MPI_Finalize();
  return 0;
}
