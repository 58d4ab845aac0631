// SPDX-License-Identifier: BSD-3-Clause
// Wrappers by hand: waits, tests, starts and frees of requests. Where a receive can complete, the
// call gets statuses of ours if the program does not want any.
#include <pthread.h>

#include <cstddef>

#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/generated/wrappers.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/record.hpp"
#include "mpi-wrap/src/requests.hpp"

using namespace clusterprof;
using namespace clusterprof::mpi_wrap;

namespace {

// --- memory for large arrays of requests: one growing buffer per thread -----------------------

struct Scratch {
  std::size_t bytes;  // of the pages, this header included
};
constexpr std::size_t kScratchHeader = 64;

pthread_key_t scratch_key;
bool has_scratch_key;
pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

void free_scratch(void* pages) noexcept { free_pages(pages, static_cast<Scratch*>(pages)->bytes); }
void make_scratch_key() noexcept { has_scratch_key = pthread_key_create(&scratch_key, free_scratch) == 0; }

// This thread's buffer, valid until its next call; null when there is no memory.
void* scratch(std::size_t bytes) noexcept {
  pthread_once(&scratch_once, make_scratch_key);
  if (!has_scratch_key) return nullptr;
  auto* pages = static_cast<Scratch*>(pthread_getspecific(scratch_key));
  if (pages == nullptr || pages->bytes < bytes + kScratchHeader) {
    const std::size_t wanted = (bytes + kScratchHeader) * 2;
    auto* fresh = static_cast<Scratch*>(allocate_pages(wanted));
    if (fresh == nullptr) return nullptr;
    fresh->bytes = wanted;
    if (pthread_setspecific(scratch_key, fresh) != 0) {
      free_pages(fresh, wanted);
      return nullptr;
    }
    if (pages != nullptr) free_scratch(pages);
    pages = fresh;
  }
  return reinterpret_cast<std::uint8_t*>(pages) + kScratchHeader;
}

// --- the receives among the requests of one call ---------------------------------------------

struct Pending {
  int position;
  HandleKey key;
};

class Receives {
 public:
  // statuses: the program's array, or what stands for "none".
  Receives(int count, const MPI_Request* requests, MPI_Status* statuses) noexcept : statuses_(statuses) {
    if (count <= 0 || requests == nullptr || !any_tracked()) return;
    const auto all = static_cast<std::size_t>(count);
    pending_ = few_pending_;
    MPI_Status* own = few_statuses_;
    if (all > kFew) {
      auto* memory = static_cast<std::uint8_t*>(scratch(all * (sizeof(Pending) + sizeof(MPI_Status))));
      if (memory == nullptr) return;
      pending_ = reinterpret_cast<Pending*>(memory);
      own = reinterpret_cast<MPI_Status*>(memory + all * sizeof(Pending));
    }
    for (int i = 0; i < count; ++i) {
      const HandleKey key = key_of(requests[i]);
      if (is_active_receive(key)) pending_[found_++] = {i, key};
    }
    if (found_ != 0 && statuses == MPI_STATUSES_IGNORE) statuses_ = own;
  }
  Receives(const Receives&) = delete;
  Receives& operator=(const Receives&) = delete;

  MPI_Status* statuses() const noexcept { return statuses_; }

  // The request at `position` is complete, with the status at `at`.
  void complete(wire::SegmentHeader* segment, int position, int at, int result,
                MPI_Request now) const noexcept {
    const Pending* pending = find(position);
    if (pending != nullptr) complete(segment, *pending, statuses_[at], result, now);
  }

  void complete_all(wire::SegmentHeader* segment, int result, const MPI_Request* requests) const noexcept {
    for (std::size_t i = 0; i < found_; ++i) {
      complete(segment, pending_[i], statuses_[pending_[i].position], result, requests[pending_[i].position]);
    }
  }

 private:
  static constexpr std::size_t kFew = 64;

  static void complete(wire::SegmentHeader* segment, const Pending& pending, const MPI_Status& status,
                       int result, MPI_Request now) noexcept {
    const bool good =
        result == MPI_SUCCESS || (result == MPI_ERR_IN_STATUS && status.MPI_ERROR == MPI_SUCCESS);
    if (good) {
      complete_receive(segment, pending.key, &status);
    } else if (key_of(now) != pending.key) {
      complete_receive(segment, pending.key, nullptr);
    }
  }

  const Pending* find(int position) const noexcept {
    std::size_t low = 0, high = found_;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (pending_[middle].position < position) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < found_ && pending_[low].position == position ? &pending_[low] : nullptr;
  }

  MPI_Status* statuses_;
  Pending* pending_ = nullptr;
  std::size_t found_ = 0;
  Pending few_pending_[kFew];
  MPI_Status few_statuses_[kFew];
};

wire::SegmentHeader* segment_now() noexcept { return static_cast<wire::SegmentHeader*>(agent->segment()); }

// Completions count also when the call failed for other requests.
bool completions_count(int result) noexcept {
  return state.running && segment_now() != nullptr && (result == MPI_SUCCESS || result == MPI_ERR_IN_STATUS);
}

}  // namespace

int clusterprof_wrap_MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const auto real = CLUSTERPROF_REAL(MPI_Wait);
  const std::uint64_t start = enter(wire::kMPI_Wait);
  if (start == 0) return real(request, status);
  const HandleKey key = any_tracked() && request != nullptr ? key_of(*request) : 0;
  const bool receive = key != 0 && is_active_receive(key);
  MPI_Status own_status;
  MPI_Status* const seen_status = receive && status == MPI_STATUS_IGNORE ? &own_status : status;
  const int result = real(request, seen_status);
  Record record(wire::kMPI_Wait, start, result == MPI_SUCCESS);
  if (receive && record.counts()) {
    complete_receive(segment_now(), key, seen_status);
  } else if (receive && key_of(*request) != key) {
    forget(key);
  }
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  const auto real = CLUSTERPROF_REAL(MPI_Test);
  const std::uint64_t start = enter(wire::kMPI_Test);
  if (start == 0) return real(request, flag, status);
  const HandleKey key = any_tracked() && request != nullptr ? key_of(*request) : 0;
  const bool receive = key != 0 && is_active_receive(key);
  MPI_Status own_status;
  MPI_Status* const seen_status = receive && status == MPI_STATUS_IGNORE ? &own_status : status;
  const int result = real(request, flag, seen_status);
  Record record(wire::kMPI_Test, start, result == MPI_SUCCESS);
  if (receive && record.counts()) {
    if (*flag != 0) complete_receive(segment_now(), key, seen_status);
  } else if (receive && key_of(*request) != key) {
    forget(key);
  }
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Waitall(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Waitall);
  const std::uint64_t start = enter(wire::kMPI_Waitall);
  if (start == 0) return real(count, array_of_requests, array_of_statuses);
  const Receives receives(count, array_of_requests, array_of_statuses);
  const int result = real(count, array_of_requests, receives.statuses());
  Record record(wire::kMPI_Waitall, start, result == MPI_SUCCESS);
  if (completions_count(result)) receives.complete_all(segment_now(), result, array_of_requests);
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Testall(int count, MPI_Request array_of_requests[], int* flag,
                                 MPI_Status array_of_statuses[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Testall);
  const std::uint64_t start = enter(wire::kMPI_Testall);
  if (start == 0) return real(count, array_of_requests, flag, array_of_statuses);
  const Receives receives(count, array_of_requests, array_of_statuses);
  const int result = real(count, array_of_requests, flag, receives.statuses());
  Record record(wire::kMPI_Testall, start, result == MPI_SUCCESS);
  if (completions_count(result) && (*flag != 0 || result == MPI_ERR_IN_STATUS)) {
    receives.complete_all(segment_now(), result, array_of_requests);
  }
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Waitany(int count, MPI_Request array_of_requests[], int* index, MPI_Status* status) {
  const auto real = CLUSTERPROF_REAL(MPI_Waitany);
  const std::uint64_t start = enter(wire::kMPI_Waitany);
  if (start == 0) return real(count, array_of_requests, index, status);
  const Receives receives(count, array_of_requests, status);
  const int result = real(count, array_of_requests, index, receives.statuses());
  Record record(wire::kMPI_Waitany, start, result == MPI_SUCCESS);
  if (record.counts() && *index >= 0 && *index < count) {
    receives.complete(segment_now(), *index, 0, result, array_of_requests[*index]);
  }
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Testany(int count, MPI_Request array_of_requests[], int* index, int* flag,
                                 MPI_Status* status) {
  const auto real = CLUSTERPROF_REAL(MPI_Testany);
  const std::uint64_t start = enter(wire::kMPI_Testany);
  if (start == 0) return real(count, array_of_requests, index, flag, status);
  const Receives receives(count, array_of_requests, status);
  const int result = real(count, array_of_requests, index, flag, receives.statuses());
  Record record(wire::kMPI_Testany, start, result == MPI_SUCCESS);
  if (record.counts() && *flag != 0 && *index >= 0 && *index < count) {
    receives.complete(segment_now(), *index, 0, result, array_of_requests[*index]);
  }
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Waitsome(int incount, MPI_Request array_of_requests[], int* outcount,
                                  int array_of_indices[], MPI_Status array_of_statuses[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Waitsome);
  const std::uint64_t start = enter(wire::kMPI_Waitsome);
  if (start == 0) return real(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  const Receives receives(incount, array_of_requests, array_of_statuses);
  const int result = real(incount, array_of_requests, outcount, array_of_indices, receives.statuses());
  Record record(wire::kMPI_Waitsome, start, result == MPI_SUCCESS);
  for (int i = 0; completions_count(result) && i < *outcount; ++i) {
    receives.complete(segment_now(), array_of_indices[i], i, result, array_of_requests[array_of_indices[i]]);
  }
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Testsome(int incount, MPI_Request array_of_requests[], int* outcount,
                                  int array_of_indices[], MPI_Status array_of_statuses[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Testsome);
  const std::uint64_t start = enter(wire::kMPI_Testsome);
  if (start == 0) return real(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  const Receives receives(incount, array_of_requests, array_of_statuses);
  const int result = real(incount, array_of_requests, outcount, array_of_indices, receives.statuses());
  Record record(wire::kMPI_Testsome, start, result == MPI_SUCCESS);
  for (int i = 0; completions_count(result) && i < *outcount; ++i) {
    receives.complete(segment_now(), array_of_indices[i], i, result, array_of_requests[array_of_indices[i]]);
  }
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Start(MPI_Request* request) {
  const auto real = CLUSTERPROF_REAL(MPI_Start);
  const std::uint64_t start = enter(wire::kMPI_Start);
  if (start == 0) return real(request);
  const int result = real(request);
  Record record(wire::kMPI_Start, start, result == MPI_SUCCESS);
  if (record.counts()) activate(segment_now(), key_of(*request));
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Startall(int count, MPI_Request array_of_requests[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Startall);
  const std::uint64_t start = enter(wire::kMPI_Startall);
  if (start == 0) return real(count, array_of_requests);
  const int result = real(count, array_of_requests);
  Record record(wire::kMPI_Startall, start, result == MPI_SUCCESS);
  for (int i = 0; record.counts() && i < count; ++i) activate(segment_now(), key_of(array_of_requests[i]));
  record.finish();
  return result;
}

int clusterprof_wrap_MPI_Request_free(MPI_Request* request) {
  const auto real = CLUSTERPROF_REAL(MPI_Request_free);
  const std::uint64_t start = enter(wire::kMPI_Request_free);
  if (start == 0) return real(request);
  const HandleKey key = request != nullptr ? key_of(*request) : 0;
  const int result = real(request);
  Record record(wire::kMPI_Request_free, start, result == MPI_SUCCESS);
  if (result == MPI_SUCCESS) forget(key);
  record.finish();
  return result;
}
