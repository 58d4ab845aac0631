// SPDX-License-Identifier: BSD-3-Clause
// The process's requests (request_table.hpp) and what happens to them. Any thread.
#pragma once

#include <cstdint>

#include "agent/agent_api.h"
#include "formats/wire/segment.h"
#include "mpi-wrap/src/errors.hpp"
#include "mpi-wrap/src/events.hpp"
#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/request_table.hpp"
#include "mpi-wrap/src/sequences.hpp"

namespace clusterprof::mpi_wrap {

// Replaces what was known of the handle. persistent: for a persistent request, else null. Its peer list is
// taken over.
void track(const Request& request, const PersistentOperation* persistent) noexcept;

// The handle now means another request, or none.
void forget(HandleKey key) noexcept;
void forget_requests() noexcept;  // all

// False: no tracked request does anything when it starts or completes / needs a status. Cheap.
bool any_tracked() noexcept;
// How many requests are tracked: those that are not complete, and persistent ones.
std::uint32_t open_requests() noexcept;
bool any_need_status() noexcept;

enum class Completion {
  kGood,
  kTruncated,  // a receive that failed, but has taken its message
  kFailed,     // nothing counts
};

// The request completed in this call. status: null if the library was not asked for one. It has to be asked
// while some request needs a status.
void complete(const EndedCall& call, HandleKey key, const MPI_Status* status, Completion how) noexcept;

// With MPI_THREAD_MULTIPLE, the library may give a handle to another thread's request before the call that
// completed it has returned. So requests are taken out of the table before such a call, and those that the
// call has not completed are put back. Persistent requests keep their handles and stay. Whatever looks at the
// table does not see those that are out of it: they are not counted as open, nor described for other calls.
// If numbers of a communicator's receives have to move meanwhile, all of them are given up.
struct Claimed {
  Request request, send;    // key 0: none; the send of MPI_Isendrecv
  std::uint32_t recording;  // how often all requests had been forgotten
};
void claim(const MPI_Request* requests, int count, Claimed* claimed) noexcept;
void complete_claimed(const EndedCall& call, HandleKey key, Claimed& claimed, const MPI_Status* status,
                      Completion how) noexcept;
void put_back(Claimed& claimed) noexcept;

// Slots of the table that were inspected for cancelled receives so far: for tests.
std::uint64_t slots_looked_at() noexcept;

// The program has called MPI_Cancel for the request.
void try_cancel(HandleKey key) noexcept;

// Call is_pending_receive before the program frees a request: true for a receive that may get a message after
// that. status: that of a receive that has got its message; null: it has not, or that is not known.
bool is_pending_receive(HandleKey key) noexcept;
void pending_receive_freed(HandleKey key, const MPI_Status* status) noexcept;

// Describes a call that waits for these requests, as far as they have events: how many of the first
// kMaxDescribed are not complete, and the first of these. Does not ask the library.
inline constexpr int kMaxDescribed = 1024;
void describe_requests(const MPI_Request* requests, int count, clusterprof_mpi_call& call) noexcept;

// A call that is not measured, since it is made inside another MPI call or by a thread without a slot, may
// complete or free these requests.
void passed_on(const MPI_Request* requests, int count) noexcept;
// Such a call has made a request with this handle. One that had it before was completed or freed by such a
// call, too, and is forgotten: the next one that is measured completes another request.
void made_unseen(HandleKey key) noexcept;

// What is known of a request's message: of one that has failed, before its completion.
KnownMessage message_of(const Request& request) noexcept;
KnownMessage message_of(HandleKey key) noexcept;

// Before MPI_Finalize: writes down which requests are not complete (wire::OpenRequests).
void write_open_requests() noexcept;

// A persistent request was started.
void activate(const EndedCall& call, HandleKey key) noexcept;
// The same by a call that is not measured: nothing of this start is known but that it was one.
void started_unseen(const MPI_Request* requests, int count) noexcept;

// --- partitioned communication ---

// The request gets its place among those with its communicator, peer, direction and `tag`. In `request`,
// communicator and peer are set, and its tag is here. False: it has no events.
bool number_partitioned(Request& request, PartitionedOperation& partitioned, std::int32_t tag, int partitions,
                        Direction direction) noexcept;
// A call that is not measured makes a request of this kind: those behind it have no numbers.
void lose_partitioned(HandleKey communicator, int peer, std::int32_t tag, Direction direction) noexcept;

// Before a call that makes `count` partitions of a send ready, since another thread may complete it before
// the call has returned. enter_ns: of the call. True for the last ones: with the call, the message of `left`
// leaves.
bool partitions_ready(HandleKey key, int count, std::uint64_t enter_ns, Operation& left) noexcept;
// That call was not measured, was in a pause, or has failed: the message has no event.
void leaving_unseen(HandleKey key) noexcept;

// A partition of a receive has arrived. True for the last one of them: then all of `whole` has.
bool partition_arrived(HandleKey key, int partition, Operation& whole) noexcept;

// Returns what is known of a message that a matching probe took, and forgets it. The key of the result is 0
// if nothing is known. Call before the call that receives the message, which frees the handle.
Request take_message(HandleKey message) noexcept;

// A receive is posted and gets its place among those of its communicator. In `request`, communicator, peer,
// tag and any_message are set.
void number_receive(Request& request) noexcept;

}  // namespace clusterprof::mpi_wrap
