// SPDX-License-Identifier: BSD-3-Clause
// Hand-written wrappers: waits, tests, starts, cancels and frees of requests. If a request that may complete
// needs a status and the program asks for none, the call gets our own statuses. Handles are saved before the
// call, since the call replaces those of completed requests.
#include <pthread.h>
#include <string.h>

#include <cstddef>

#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/generated/wrappers.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/record.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/state.hpp"

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

// This thread's buffer, valid until its next call. Null if there is no memory.
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

// --- the requests of one call ------------------------------------------------------------------

class Requests {
 public:
  // statuses: the program's array, or what stands for "none". status_count: its elements.
  Requests(int count, const MPI_Request* requests, MPI_Status* statuses, int status_count) noexcept
      : statuses_(statuses) {
    if (count <= 0 || requests == nullptr || !any_tracked()) return;
    const bool wants_statuses = statuses == MPI_STATUSES_IGNORE && any_need_status();
    const auto all = static_cast<std::size_t>(count);
    const std::size_t own_statuses = wants_statuses ? static_cast<std::size_t>(status_count) : 0;
    const bool shared = state.shared;  // another thread may begin a session
    const std::size_t claims = shared ? all : 0;
    MPI_Status* own = few_statuses_;
    MPI_Request* kept = few_requests_;
    if (all > kFew || shared) {
      auto* memory = static_cast<std::uint8_t*>(
          scratch(claims * sizeof(Claimed) + own_statuses * sizeof(MPI_Status) + all * sizeof(MPI_Request)));
      if (memory == nullptr) return;
      if (shared) claimed_ = reinterpret_cast<Claimed*>(memory);
      memory += claims * sizeof(Claimed);
      own = reinterpret_cast<MPI_Status*>(memory);
      kept = reinterpret_cast<MPI_Request*>(memory + own_statuses * sizeof(MPI_Status));
    }
    memcpy(kept, requests, all * sizeof(MPI_Request));
    kept_ = kept;
    count_ = count;
    if (wants_statuses) statuses_ = own;
    if (claimed_ != nullptr) claim(kept_, count_, claimed_);
  }
  ~Requests() {
    for (int i = 0; claimed_ != nullptr && i < count_; ++i) put_back(claimed_[i]);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // What to pass to the library.
  MPI_Status* statuses() const noexcept { return statuses_; }

  // The request at `position` is complete, with the status at `at`. result: of the call. now: what the call
  // has left there; not looked at if nothing was kept, as of a null pointer.
  void complete(const EndedCall& call, int position, int at, int result,
                const MPI_Request* now) const noexcept {
    if (position < 0 || position >= count_) return;
    const HandleKey key = key_of(kept_[position]);
    const MPI_Status* const status = statuses_ == MPI_STATUSES_IGNORE ? nullptr : &statuses_[at];
    const Completion how = completion_of(result, status);
    if (how == Completion::kFailed && key_of(*now) == key) return;
    if (claimed_ != nullptr) {
      complete_claimed(call, key, claimed_[position], status, how);
    } else {
      mpi_wrap::complete(call, key, status, how);
    }
  }

  // The call has returned an error, its own or those in the first `count` statuses. `positions`: which
  // requests these are of; null: that of each status. Call this before complete().
  [[gnu::cold]] void failed(const Record& record, int result, int count,
                            const int* positions = nullptr) const noexcept {
    if (result != MPI_ERR_IN_STATUS) {
      if (count != 1) return record.failed(result);
      return record.failed(result, message_at(positions == nullptr ? 0 : *positions));
    }
    if (statuses_ == MPI_STATUSES_IGNORE) return record.failed(result);
    for (int i = 0; i < count; ++i) {
      const int error = statuses_[i].MPI_ERROR;
      if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) continue;
      record.failed(error, message_at(positions == nullptr ? i : positions[i]));
    }
  }

  void complete_all(const EndedCall& call, int result, const MPI_Request* requests) const noexcept {
    for (int i = 0; i < count_; ++i) complete(call, i, i, result, requests + i);
  }

 private:
  static constexpr std::size_t kFew = 64;

  KnownMessage message_at(int position) const noexcept {
    if (position < 0 || position >= count_) return {};
    const bool is_claimed = claimed_ != nullptr && claimed_[position].request.key != 0;
    return is_claimed ? message_of(claimed_[position].request) : message_of(key_of(kept_[position]));
  }

  static Completion completion_of(int result, const MPI_Status* status) noexcept {
    if (result == MPI_ERR_IN_STATUS) {
      if (status == nullptr) return Completion::kFailed;
      result = status->MPI_ERROR;
    }
    if (result == MPI_SUCCESS) return Completion::kGood;
    return is_truncated(result) ? Completion::kTruncated : Completion::kFailed;
  }

  MPI_Status* statuses_;
  const MPI_Request* kept_ = nullptr;
  int count_ = 0;
  Claimed* claimed_ = nullptr;  // with MPI_THREAD_MULTIPLE
  MPI_Request few_requests_[kFew];
  MPI_Status few_statuses_[kFew];
};

// The status of a request that is complete and stays. MPICH would raise the error of a failed receive, which
// the program itself may never have seen.
bool completed_status(MPI_Request request, MPI_Status& status) noexcept {
  if (!library_is_open_mpi) return false;
  const auto get_status = CLUSTERPROF_LIBRARY(MPI_Request_get_status);
  int flag = 0;
  return get_status != nullptr && get_status(request, &flag, &status) == MPI_SUCCESS && flag != 0;
}

// The one of `count` requests that a call names may be complete, also if the call has failed, which is most
// often the failure of that request.
bool may_be_complete(const EndedCall& call, const int* index, int count) noexcept {
  return state.running && call.segment != nullptr && index != nullptr && *index >= 0 && *index < count;
}

// Completions count even if the call failed for other requests.
bool completions_count(const EndedCall& call, int result) noexcept {
  return state.running && call.segment != nullptr && (result == MPI_SUCCESS || result == MPI_ERR_IN_STATUS);
}

}  // namespace

int clusterprof_wrap_MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const auto real = CLUSTERPROF_REAL(MPI_Wait);
  const std::uint64_t start =
      enter(wire::kMPI_Wait, [&] { return Intent(wire::kMPI_Wait).completes(request, 1); });
  if (start == 0) {
    passed_on(request, 1);
    return real(request, status);
  }
  const Requests requests(1, request, status, 1);
  const int result = real(request, requests.statuses());
  Record record(wire::kMPI_Wait, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    requests.failed(record, result, 1);
  if (state.running && record.call().segment != nullptr)
    requests.complete(record.call(), 0, 0, result, request);
  return result;
}

int clusterprof_wrap_MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  const auto real = CLUSTERPROF_REAL(MPI_Test);
  const std::uint64_t start = enter(wire::kMPI_Test, [] { return Intent(wire::kMPI_Test); });
  if (start == 0) {
    passed_on(request, 1);
    return real(request, flag, status);
  }
  const Requests requests(1, request, status, 1);
  const int result = real(request, flag, requests.statuses());
  Record record(wire::kMPI_Test, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    requests.failed(record, result, 1);
  if (state.running && record.call().segment != nullptr && (result != MPI_SUCCESS || *flag != 0)) {
    requests.complete(record.call(), 0, 0, result, request);
  }
  return result;
}

int clusterprof_wrap_MPI_Waitall(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Waitall);
  const std::uint64_t start = enter(
      wire::kMPI_Waitall, [&] { return Intent(wire::kMPI_Waitall).completes(array_of_requests, count); });
  if (start == 0) {
    passed_on(array_of_requests, count);
    return real(count, array_of_requests, array_of_statuses);
  }
  const Requests requests(count, array_of_requests, array_of_statuses, count);
  const int result = real(count, array_of_requests, requests.statuses());
  Record record(wire::kMPI_Waitall, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    requests.failed(record, result, count);
  if (completions_count(record.call(), result))
    requests.complete_all(record.call(), result, array_of_requests);
  return result;
}

int clusterprof_wrap_MPI_Testall(int count, MPI_Request array_of_requests[], int* flag,
                                 MPI_Status array_of_statuses[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Testall);
  const std::uint64_t start = enter(wire::kMPI_Testall, [] { return Intent(wire::kMPI_Testall); });
  if (start == 0) {
    passed_on(array_of_requests, count);
    return real(count, array_of_requests, flag, array_of_statuses);
  }
  const Requests requests(count, array_of_requests, array_of_statuses, count);
  const int result = real(count, array_of_requests, flag, requests.statuses());
  Record record(wire::kMPI_Testall, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    requests.failed(record, result, count);
  if (completions_count(record.call(), result) && (*flag != 0 || result == MPI_ERR_IN_STATUS)) {
    requests.complete_all(record.call(), result, array_of_requests);
  }
  return result;
}

int clusterprof_wrap_MPI_Waitany(int count, MPI_Request array_of_requests[], int* index, MPI_Status* status) {
  const auto real = CLUSTERPROF_REAL(MPI_Waitany);
  const std::uint64_t start = enter(
      wire::kMPI_Waitany, [&] { return Intent(wire::kMPI_Waitany).completes(array_of_requests, count); });
  if (start == 0) {
    passed_on(array_of_requests, count);
    return real(count, array_of_requests, index, status);
  }
  const Requests requests(count, array_of_requests, status, 1);
  const int result = real(count, array_of_requests, index, requests.statuses());
  Record record(wire::kMPI_Waitany, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    requests.failed(record, result, 1, index);
  if (may_be_complete(record.call(), index, count)) {
    requests.complete(record.call(), *index, 0, result, array_of_requests + *index);
  }
  return result;
}

int clusterprof_wrap_MPI_Testany(int count, MPI_Request array_of_requests[], int* index, int* flag,
                                 MPI_Status* status) {
  const auto real = CLUSTERPROF_REAL(MPI_Testany);
  const std::uint64_t start = enter(wire::kMPI_Testany, [] { return Intent(wire::kMPI_Testany); });
  if (start == 0) {
    passed_on(array_of_requests, count);
    return real(count, array_of_requests, index, flag, status);
  }
  const Requests requests(count, array_of_requests, status, 1);
  const int result = real(count, array_of_requests, index, flag, requests.statuses());
  Record record(wire::kMPI_Testany, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    requests.failed(record, result, 1, index);
  if ((result != MPI_SUCCESS || *flag != 0) && may_be_complete(record.call(), index, count)) {
    requests.complete(record.call(), *index, 0, result, array_of_requests + *index);
  }
  return result;
}

int clusterprof_wrap_MPI_Waitsome(int incount, MPI_Request array_of_requests[], int* outcount,
                                  int array_of_indices[], MPI_Status array_of_statuses[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Waitsome);
  const std::uint64_t start = enter(
      wire::kMPI_Waitsome, [&] { return Intent(wire::kMPI_Waitsome).completes(array_of_requests, incount); });
  if (start == 0) {
    passed_on(array_of_requests, incount);
    return real(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  }
  const Requests requests(incount, array_of_requests, array_of_statuses, incount);
  const int result = real(incount, array_of_requests, outcount, array_of_indices, requests.statuses());
  Record record(wire::kMPI_Waitsome, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    requests.failed(record, result, result == MPI_ERR_IN_STATUS ? *outcount : 0, array_of_indices);
  for (int i = 0; completions_count(record.call(), result) && i < *outcount; ++i) {
    requests.complete(record.call(), array_of_indices[i], i, result, array_of_requests + array_of_indices[i]);
  }
  return result;
}

int clusterprof_wrap_MPI_Testsome(int incount, MPI_Request array_of_requests[], int* outcount,
                                  int array_of_indices[], MPI_Status array_of_statuses[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Testsome);
  const std::uint64_t start = enter(wire::kMPI_Testsome, [] { return Intent(wire::kMPI_Testsome); });
  if (start == 0) {
    passed_on(array_of_requests, incount);
    return real(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  }
  const Requests requests(incount, array_of_requests, array_of_statuses, incount);
  const int result = real(incount, array_of_requests, outcount, array_of_indices, requests.statuses());
  Record record(wire::kMPI_Testsome, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    requests.failed(record, result, result == MPI_ERR_IN_STATUS ? *outcount : 0, array_of_indices);
  for (int i = 0; completions_count(record.call(), result) && i < *outcount; ++i) {
    requests.complete(record.call(), array_of_indices[i], i, result, array_of_requests + array_of_indices[i]);
  }
  return result;
}

int clusterprof_wrap_MPI_Start(MPI_Request* request) {
  const auto real = CLUSTERPROF_REAL(MPI_Start);
  const std::uint64_t start = enter(wire::kMPI_Start, [] { return Intent(wire::kMPI_Start); });
  if (start == 0) {
    lose_track(wire::kReceivesUnseen);
    started_unseen(request, 1);
    return real(request);
  }
  const int result = real(request);
  Record record(wire::kMPI_Start, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    record.failed(result);
  if (record.counts()) activate(record.call(), key_of(*request));
  return result;
}

int clusterprof_wrap_MPI_Startall(int count, MPI_Request array_of_requests[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Startall);
  const std::uint64_t start = enter(wire::kMPI_Startall, [] { return Intent(wire::kMPI_Startall); });
  if (start == 0) {
    lose_track(wire::kReceivesUnseen);
    started_unseen(array_of_requests, count);
    return real(count, array_of_requests);
  }
  const int result = real(count, array_of_requests);
  Record record(wire::kMPI_Startall, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    record.failed(result);
  for (int i = 0; record.counts() && i < count; ++i) activate(record.call(), key_of(array_of_requests[i]));
  return result;
}

int clusterprof_wrap_MPI_Cancel(MPI_Request* request) {
  const auto real = CLUSTERPROF_REAL(MPI_Cancel);
  const std::uint64_t start = enter(wire::kMPI_Cancel, [] { return Intent(wire::kMPI_Cancel); });
  if (start == 0) {
    lose_track(wire::kSendsUnsure);
    return real(request);
  }
  const int result = real(request);
  Record record(wire::kMPI_Cancel, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    record.failed(result);
  if (record.counts() && request != nullptr) try_cancel(key_of(*request));
  return result;
}

int clusterprof_wrap_MPI_Request_free(MPI_Request* request) {
  const auto real = CLUSTERPROF_REAL(MPI_Request_free);
  const std::uint64_t start = enter(wire::kMPI_Request_free, [] { return Intent(wire::kMPI_Request_free); });
  if (start == 0) {
    passed_on(request, 1);
    return real(request);
  }
  // Before the handle can become another request's.
  if (request != nullptr) {
    const HandleKey key = key_of(*request);
    if (is_pending_receive(key)) {
      MPI_Status status;
      pending_receive_freed(key, completed_status(*request, status) ? &status : nullptr);
    }
    forget(key);
  }
  const int result = real(request);
  Record record(wire::kMPI_Request_free, start, result == MPI_SUCCESS);
  record.finish();
  if (result != MPI_SUCCESS) [[unlikely]]
    record.failed(result);
  return result;
}
