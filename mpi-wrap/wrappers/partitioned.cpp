// SPDX-License-Identifier: BSD-3-Clause
// Hand-written wrappers: partitions of messages that become ready, and asking whether one has arrived.
// Started requests and those that complete are in completion.cpp.
#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/generated/wrappers.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/record.hpp"
#include "mpi-wrap/src/requests.hpp"

#if CLUSTERPROF_MPI_HAS_4_0

using namespace clusterprof;
using namespace clusterprof::mpi_wrap;

namespace {

// A call that makes `count` partitions of the request ready.
template <typename Call>
int make_ready(std::uint32_t op, MPI_Request request, int count, Call&& call) {
  const HandleKey key = key_of(request);
  const std::uint64_t start = enter(op, [&] { return Intent(op); });
  Operation left{};
  const bool leaves = partitions_ready(key, count, start, left);
  if (start == 0) {
    if (leaves) {
      leaving_unseen(key);
      lose_track(wire::kSendsUnsure);
    }
    return call();
  }
  const int result = call();
  Record record(op, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]] {
    record.failed(result);
    lose_track(wire::kSendsUnsure);
  }
  if (!leaves) return result;
  if (!record.counts() || record.call().paused) [[unlikely]]
    leaving_unseen(key);
  if (record.counts()) record.message_left(left);
  return result;
}

}  // namespace

int clusterprof_wrap_MPI_Pready(int partition, MPI_Request request) {
  const auto real = CLUSTERPROF_REAL(MPI_Pready);
  return make_ready(wire::kMPI_Pready, request, 1, [&] { return real(partition, request); });
}

int clusterprof_wrap_MPI_Pready_range(int partition_low, int partition_high, MPI_Request request) {
  const auto real = CLUSTERPROF_REAL(MPI_Pready_range);
  const int count = partition_high < partition_low ? 0 : partition_high - partition_low + 1;
  return make_ready(wire::kMPI_Pready_range, request, count,
                    [&] { return real(partition_low, partition_high, request); });
}

int clusterprof_wrap_MPI_Pready_list(int length, int array_of_partitions[], MPI_Request request) {
  const auto real = CLUSTERPROF_REAL(MPI_Pready_list);
  return make_ready(wire::kMPI_Pready_list, request, length,
                    [&] { return real(length, array_of_partitions, request); });
}

int clusterprof_wrap_MPI_Parrived(MPI_Request request, int partition, int* flag) {
  const auto real = CLUSTERPROF_REAL(MPI_Parrived);
  const std::uint64_t start = enter(wire::kMPI_Parrived, [] { return Intent(wire::kMPI_Parrived); });
  if (start == 0) return real(request, partition, flag);
  const int result = real(request, partition, flag);
  Record record(wire::kMPI_Parrived, start, result == MPI_SUCCESS);
  const std::uint64_t polled_ns = record.polled_ns();
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    record.failed(result);
  if (record.counts()) record.polled(request, partition, *flag != 0, polled_ns);
  return result;
}

#endif
