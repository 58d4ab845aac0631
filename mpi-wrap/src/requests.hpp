// SPDX-License-Identifier: BSD-3-Clause
// The process's requests (request_table.hpp) and what happens to them. Any thread.
#pragma once

#include <cstdint>

#include "agent/agent_api.h"
#include "formats/wire/segment.h"
#include "mpi-wrap/src/events.hpp"
#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/request_table.hpp"

namespace clusterprof::mpi_wrap {

// Replaces what was known of the handle. prepared: of a persistent request, else null; its peer list is taken
// over.
void track(const Request& request, const Prepared* prepared) noexcept;

// The handle means another request now, or none.
void forget(HandleKey key) noexcept;

// False: nothing happens when a request completes or starts / nothing that needs a status. Cheap.
bool any_tracked() noexcept;
bool any_need_status() noexcept;

enum class Completion {
  kGood,
  kTruncated,  // a receive that failed, but has taken its message
  kFailed,     // nothing counts
};

// The request completed in this call. status: null when the library was not asked for one, which it has to be
// while there are some that need it.
void complete(const EndedCall& call, HandleKey key, const MPI_Status* status, Completion how) noexcept;

// With MPI_THREAD_MULTIPLE the library may give a handle to the request of another thread before the call
// that completed it has returned. So what is known of requests is taken out of the table before such a call,
// and what the call has not completed is put back. Persistent requests keep their handles and stay.
struct Claimed {
  Request request, send;  // key 0: none; the send of MPI_Isendrecv
};
void claim(const MPI_Request* requests, int count, Claimed* claimed) noexcept;
void complete_claimed(const EndedCall& call, HandleKey key, Claimed& claimed, const MPI_Status* status,
                      Completion how) noexcept;
void put_back(Claimed& claimed) noexcept;

// Slots of the table that cancelled receives have taken so far: for tests.
std::uint64_t slots_looked_at() noexcept;

// The program has tried to take back what the request does.
void try_cancel(HandleKey key) noexcept;

// Is it a receive that may get a message after the program has freed it? Then, before that happens:
// status: of one that has got it; null: it has not, or that is not known.
bool is_pending_receive(HandleKey key) noexcept;
void pending_receive_freed(HandleKey key, const MPI_Status* status) noexcept;

// Tells what a call is about that waits for these requests, as far as their events tell: of those at the
// first kMostDescribed places, how many were not complete, and the first of these. Asks the library nothing.
inline constexpr int kMostDescribed = 1024;
void describe_requests(const MPI_Request* requests, int count, clusterprof_mpi_call& call) noexcept;

// A persistent request was started.
void activate(const EndedCall& call, HandleKey key) noexcept;

// What is known of a message that a matching probe took, which is forgotten; key 0 in the result: nothing.
// Before the call that receives it, which frees the handle.
Request take_message(HandleKey message) noexcept;

// A receive is posted: it gets its place among those of its communicator. request: communicator, peer, tag
// and any_message are set.
void number_receive(Request& request) noexcept;

}  // namespace clusterprof::mpi_wrap
