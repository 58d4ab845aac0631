// SPDX-License-Identifier: BSD-3-Clause
// Follows requests from the call that starts one to the call that completes it. Most of this file numbers
// receives as MPI matches them, even if some are cancelled, freed or match any message. The n-th message from
// a rank with a tag has number n on both sides, so that the merge can pair sends and receives.
#include "mpi-wrap/src/requests.hpp"

#include <string.h>

#include "mpi-wrap/src/communicator_entries.hpp"
#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/rank_map.hpp"
#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/tables.hpp"

namespace clusterprof::mpi_wrap {
namespace {

RequestTable table;
SpinLock lock;
std::uint32_t tracked;      // table.size(), to be read without the lock
std::uint32_t need_status;  // how many of them need a status when they complete
std::uint32_t recording;    // how often all were forgotten

// --- memory for PersistentOperation ---

constinit ObjectPool<PersistentOperation> pool;

PersistentOperation* allocate_persistent(const PersistentOperation& persistent) noexcept {
  PersistentOperation* const taken = pool.take();
  if (taken != nullptr) *taken = persistent;
  return taken;
}

void free_lists(const PersistentOperation& persistent) noexcept {
  if (persistent.peers != nullptr) free_pages(persistent.peers, persistent.peers->allocated_bytes);
  free_pages(persistent.partitioned.arrived, persistent.partitioned.arrived_bytes());
}

void free_persistent(PersistentOperation* persistent) noexcept {
  free_lists(*persistent);
  pool.give_back(persistent);
}

// --- the table ---

void publish_counts() noexcept { __atomic_store_n(&tracked, table.size(), __ATOMIC_RELAXED); }
bool needs_status(const Request& request) noexcept {
  return request.kind == RequestKind::kReceive || request.cancel_tried;
}
void count_need_status(std::uint32_t change) noexcept {
  __atomic_store_n(&need_status, need_status + change, __ATOMIC_RELAXED);
}

// --- looking at all requests ---

// Limits the cost of cancelling receives. In a table of few slots all slots may always be inspected; in a
// larger one as long as there is allowance left. Each request adds some allowance, so the cost of cancelling
// many requests is proportional to their number.
constexpr std::uint32_t kFewSlots = 4096, kAllowancePerRequest = 16;
constexpr std::uint64_t kMaxAllowance = 1u << 24;
std::uint64_t allowance = kMaxAllowance;
std::uint64_t looked_at;

void add_allowance() noexcept {
  allowance += kAllowancePerRequest;
  if (allowance > kMaxAllowance) allowance = kMaxAllowance;
}

// False: the cost would be too high, or receives that are claimed could not be seen.
bool may_look_at_all(const Communicator& communicator) noexcept {
  if (communicator.claimed_receives != 0) return false;
  const std::uint32_t slots = table.capacity();
  if (slots <= kFewSlots) return true;
  if (allowance < slots) return false;
  allowance -= slots;
  return true;
}

bool insert(const Request& request, bool referenced) noexcept {
  if (!table.insert(request)) return false;
  add_allowance();
  if (request.communicator != nullptr && !referenced) add_reference(request.communicator);
  if (needs_status(request)) count_need_status(1);
  publish_counts();
  return true;
}

// The request is no longer pending.
void end_late_numbering(Request& request) noexcept {
  if (request.communicator == nullptr || !request.active || !request.numbered_late) return;
  const LockIf held(request.communicator->sequences_lock, state.shared);
  --request.communicator->late_receives;
  request.numbered_late = false;
}

// For a persistent request, which stays in the table.
void end_activity(Request& request) noexcept {
  end_late_numbering(request);
  if (needs_status(request)) count_need_status(~0u);
  request.cancel_tried = false;
  if (needs_status(request)) count_need_status(1);
  request.active = false;
}

// Takes the request out of the table, together with its reference.
Request remove(Request* request) noexcept {
  const Request removed = *request;
  if (needs_status(removed)) count_need_status(~0u);
  table.erase(request);
  publish_counts();
  return removed;
}

void free_request(Request& request) noexcept {
  if (request.persistent != nullptr) free_persistent(request.persistent);
  end_late_numbering(request);
  if (request.communicator != nullptr) drop_reference(request.communicator);
}

void drop(Request* request) noexcept {
  Request removed = remove(request);
  free_request(removed);
}

// Null if the request is not a partitioned one.
PartitionedOperation* partitioned_of(const Request& request) noexcept {
  PersistentOperation* const persistent = request.persistent;
  return persistent != nullptr && persistent->partitioned.partitions != 0 ? &persistent->partitioned
                                                                          : nullptr;
}

// As the program gave it.
std::int32_t tag_of(const Request& request) noexcept {
  const PartitionedOperation* const partitioned = partitioned_of(request);
  return partitioned != nullptr ? partitioned->tag : request.tag;
}

bool is_receive_with_events(const Request& request) noexcept {
  return request.kind == RequestKind::kReceive && request.communicator != nullptr;
}

// Invalidates pointers into the table.
void forget_locked(HandleKey key) noexcept {
  Request* request = table.find(key);
  if (request == nullptr) return;
  if (is_receive_with_events(*request) && request->active) lose_track(wire::kReceivesUnseen);
  const bool has_send = request->has_send;
  drop(request);
  if (has_send && (request = table.find(key | kSendHalf)) != nullptr) drop(request);
}

wire::MpiSite* site_of(wire::SegmentHeader* segment, const Request& request) noexcept {
  if (request.site >= wire::all_mpi_sites(segment->mpi_sites, segment->mpi_ops)) return nullptr;
  return table_at<wire::MpiSite>(segment, segment->mpi_sites_offset) + request.site;
}

// Partitioned requests of a tag are counted under another one in SequenceTable, which no message has.
std::int32_t counted_tag(std::int32_t tag) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(tag) | 1u << 31);
}
// False for the three largest tags, for which it would be one that is in use.
bool is_counted(std::int32_t tag) noexcept { return tag >= 0 && counted_tag(tag) < wire::kTagWinComplete; }

// --- events ---

Operation operation_of(const Request& request) noexcept {
  Operation operation{};
  operation.channel = request.communicator->identity;
  operation.start_ns = request.start_ns;
  operation.bytes = request.bytes;
  operation.sequence = request.sequence;
  operation.peer = request.peer;
  operation.tag = request.tag;
  operation.op = request.op;
  operation.flags = request.event_flags;
  if (request.kind == RequestKind::kCollective) {
    operation.members = static_cast<std::uint32_t>(request.communicator->size);
    operation.tag = request.communicator->rank;
  }
  return operation;
}

// Visits receives of the same messages with a number of at least `first`. The caller has made sure that the
// whole table may be inspected, and that none is claimed.
template <typename Visit>
void each_numbered(const Request& receive, std::uint32_t first, Visit&& visit) noexcept {
  looked_at += table.capacity();
  table.each([&](Request& other) {
    if (other.kind == RequestKind::kReceive && other.active && !other.numbered_late &&
        other.communicator == receive.communicator && other.peer == receive.peer &&
        other.tag == receive.tag && other.sequence >= first) {
      visit(other);
    }
  });
}

// Which numbers are right cannot be found out.
void give_up_receives(Communicator& communicator) noexcept {
  lose_track(wire::kReceivesUnseen);
  communicator.receives_lost = communicator.receives_given_up = true;
}

// True if all receives with a later number are pending. Otherwise this one has its message, since messages do
// not overtake each other.
bool may_match_nothing(const Request& receive) noexcept {
  Communicator& communicator = *receive.communicator;
  const LockIf held(communicator.sequences_lock, state.shared);
  const std::uint32_t* const next =
      find_next_number(communicator, receive.peer, receive.tag, Direction::kReceived);
  if (next == nullptr) return false;
  const std::uint32_t behind = *next - receive.sequence - 1;
  if (behind == 0) return true;
  if (!may_look_at_all(communicator)) {
    give_up_receives(communicator);
    return false;
  }
  std::uint32_t pending = 0;
  each_numbered(receive, receive.sequence + 1, [&](Request&) { ++pending; });
  return behind == pending;
}

// The receive matched nothing: receives posted later move up by one number.
void return_number(const Request& cancelled) noexcept {
  Communicator& communicator = *cancelled.communicator;
  const LockIf held(communicator.sequences_lock, state.shared);
  std::uint32_t* const next =
      find_next_number(communicator, cancelled.peer, cancelled.tag, Direction::kReceived);
  if (next == nullptr) return;
  if (--*next == cancelled.sequence) return;
  if (!may_look_at_all(communicator)) return give_up_receives(communicator);
  each_numbered(cancelled, cancelled.sequence + 1, [](Request& other) { --other.sequence; });
}

// The message is never sent: the next one takes its number. If others were sent after it, the next number is
// no longer known.
void retract_send(const Request& cancelled) noexcept {
  lose_track(wire::kSendsUnsure);  // it has an event
  Communicator& communicator = *cancelled.communicator;
  const LockIf held(communicator.sequences_lock, state.shared);
  std::uint32_t* const next = find_next_number(communicator, cancelled.peer, cancelled.tag, Direction::kSent);
  if (next == nullptr) return;
  *next = *next - 1 == cancelled.sequence ? cancelled.sequence : SequenceTable::kLost;
}

// It may or may not get a message, and there is no way to find out: from here on the numbers of the messages
// that it may take are unknown.
void lose_numbers(Request& receive) noexcept {
  lose_track(wire::kReceivesUnseen);
  Communicator& communicator = *receive.communicator;
  const LockIf held(communicator.sequences_lock, state.shared);
  if (receive.any_message) {
    communicator.receives_lost = true;
    return;
  }
  std::uint32_t* const next = find_next_number(communicator, receive.peer, receive.tag, Direction::kReceived);
  const bool is_last = next != nullptr && *next <= receive.sequence;
  if (next != nullptr) *next = SequenceTable::kLost;
  if (is_last || communicator.receives_given_up) return;
  if (!may_look_at_all(communicator)) return give_up_receives(communicator);
  // Those that have moved up when this one was to be cancelled.
  each_numbered(receive, receive.sequence, [](Request& other) { other.has_no_event = true; });
}

// For a receive that gets its number only when it completes. False: it has none.
bool number_late(Request& request, const MPI_Status& status) noexcept {
  if (request.any_message) {
    request.peer = request.communicator->peers.world_rank(status.MPI_SOURCE);
    request.tag = status.MPI_TAG;
  }
  return request.peer >= 0 && request.tag >= 0 &&
         take_number(*request.communicator, request.peer, request.tag, Direction::kReceived,
                     request.sequence);
}

void complete_receive(const EndedCall& call, Request& request, const MPI_Status& status,
                      Completion how) noexcept {
  // MPICH 4.0 does not fill the status of MPI_Isendrecv.
  const bool filled = library_is_open_mpi || request.sized;
  // Partitioned receives are never cancelled. What else their statuses say differs between libraries.
  const bool partitioned = partitioned_of(request) != nullptr;
  const bool cancelled = !partitioned && filled && status_cancelled(status);
  const bool got_message = !cancelled && (partitioned || !filled || status.MPI_SOURCE != MPI_PROC_NULL);
  if (got_message && request.sized && how == Completion::kGood && !call.paused) {
    const std::uint64_t bytes = status_bytes(status);
    wire::MpiSite* site = site_of(call.segment, request);
    if (site != nullptr) add(site->recv_bytes, bytes, state.shared);
    count_size(call.segment, request.op, bytes, state.shared);
  }
  if (request.communicator == nullptr || request.has_no_event || request.communicator->receives_given_up)
    return;
  if (request.numbered_late) {
    end_late_numbering(request);
    if (!got_message) return;
    if ((request.any_message && !filled) || !number_late(request, status))
      return lose_track(wire::kReceivesUnseen);
  } else if (cancelled) {
    return return_number(request);
  }
  if (!request.counted) count_operation(call, state.shared);
  Operation operation = operation_of(request);
  if (filled && how == Completion::kGood) operation.bytes = status_bytes(status);
  write_event(call, wire::MpiEventKind::kReceive, operation);
}

void complete_one(const EndedCall& call, Request& request, const MPI_Status* status,
                  Completion how) noexcept {
  if (how == Completion::kFailed) {
    if (is_receive_with_events(request)) lose_track(wire::kReceivesUnseen);
    if (request.kind == RequestKind::kSend) lose_track(wire::kSendsUnsure);
    return;
  }
  if (request.kind == RequestKind::kReceive) {
    if (status != nullptr) return complete_receive(call, request, *status, how);
    if (is_receive_with_events(request)) lose_track(wire::kReceivesUnseen);
  } else if (request.communicator == nullptr || request.has_no_event) {
    return;
  } else if (request.kind == RequestKind::kSend) {
    if (request.cancel_tried && status != nullptr && status_cancelled(*status)) return retract_send(request);
    // Libraries have one handle for all sends that are complete when they return. One that began after this
    // call is another thread's.
    if (!request.paused && request.start_ns <= call.enter_ns)
      write_event(call, wire::MpiEventKind::kSendDone, operation_of(request));
  } else if (request.kind == RequestKind::kCollective && !request.paused) {
    write_event(call, wire::MpiEventKind::kCollectiveDone, operation_of(request));
  }
}

void start_partitioned(Request& request, PartitionedOperation& partitioned) noexcept {
  request.sequence = partitioned.first ^ partitioned.starts++;
  partitioned.done = 0;
  partitioned.few_arrived = 0;
  if (partitioned.arrived != nullptr) memset(partitioned.arrived, 0, partitioned.arrived_bytes());
}

void start_one(const EndedCall& call, Request& request) noexcept {
  Communicator& communicator = *request.communicator;
  request.start_ns = call.enter_ns;
  request.has_no_event = false;
  request.paused = call.paused;
  if (PartitionedOperation* const partitioned = partitioned_of(request)) {
    start_partitioned(request, *partitioned);
    request.has_no_event = request.kind == RequestKind::kSend;  // until it leaves
    return;
  }
  switch (request.kind) {
    case RequestKind::kSend:
      if (!take_number(communicator, request.peer, request.tag, Direction::kSent, request.sequence)) {
        request.has_no_event = true;
        return;
      }
      count_operation(call, state.shared);
      write_event(call, wire::MpiEventKind::kSend, operation_of(request));
      return;
    case RequestKind::kCollective:
      request.sequence = take_collective_number(communicator, state.shared);
      publish_collectives(call.segment, communicator, request.op, 0);
      count_operation(call, state.shared);
      write_event(call, wire::MpiEventKind::kCollectiveStart, operation_of(request));
      return;
    case RequestKind::kReceive:
      return number_receive(request);
    default:
      return;
  }
}

// What a call waits for, collected request by request.
struct Pending {
  clusterprof_mpi_call& call;
  std::uint32_t count;
  const Request* last;

  void add(const Request& request) noexcept {
    const wire::PendingKind kind = kind_of(request);
    if (kind == wire::PendingKind::kNone) return;
    last = &request;
    const std::int32_t peer = kind == wire::PendingKind::kCollective ? wire::kNoPeer : peer_of(request);
    for (std::uint32_t i = 0; i < count; ++i)
      if (call.pending_peers[i] == peer && wire::pending_kind(call.pending_kinds, i) == kind) return;
    if (count == wire::kMaxPending) return;
    call.pending_peers[count] = peer;
    call.pending_kinds |= static_cast<std::uint32_t>(kind) << (count * wire::kPendingKindBits);
    ++count;
  }
  // It waits for one thing alone.
  void describe_only() noexcept {
    call.communicator = last->communicator->index;
    call.channel = last->communicator->identity;
    if (last->kind == RequestKind::kCollective) {
      call.sequence = last->sequence;
      call.root = last->peer;
      return;
    }
    call.peer = peer_of(*last);
    call.tag = last->tag == MPI_ANY_TAG ? wire::kAnyTag : tag_of(*last);
  }
  static wire::PendingKind kind_of(const Request& request) noexcept {
    return request.kind == RequestKind::kSend         ? wire::PendingKind::kSend
           : request.kind == RequestKind::kReceive    ? wire::PendingKind::kReceive
           : request.kind == RequestKind::kCollective ? wire::PendingKind::kCollective
                                                      : wire::PendingKind::kNone;
  }
  static std::int32_t peer_of(const Request& request) noexcept {
    return request.any_message && request.peer < 0 ? wire::kAnyPeer : request.peer;
  }
};

// Adds a request to those of its kind.
void count_open_request(wire::SegmentHeader& segment, const Request& request) noexcept {
  wire::OpenRequests made{};
  made.count = 1;
  made.site = request.site;
  made.kind = static_cast<std::uint32_t>(Pending::kind_of(request));
  const KnownMessage about = message_of(request);
  made.peer = about.peer;
  made.tag = about.tag;
  made.channel = about.channel;
  for (std::uint32_t i = 0; i + 1 < wire::kOpenRequestRows; ++i) {
    wire::OpenRequests& row = segment.open_requests[i];
    if (row.count == 0) {
      row = made;
      return;
    }
    if (row.site != made.site || row.kind != made.kind || row.peer != made.peer || row.tag != made.tag ||
        row.channel != made.channel)
      continue;
    ++row.count;
    return;
  }
  wire::OpenRequests& rest = segment.open_requests[wire::kOpenRequestRows - 1];
  rest = {0, rest.count + 1, kNoSite, 0, wire::kNoPeer, wire::kNoTag};
}

}  // namespace

bool any_tracked() noexcept { return open_requests() != 0; }
std::uint32_t open_requests() noexcept { return __atomic_load_n(&tracked, __ATOMIC_RELAXED); }
std::uint64_t slots_looked_at() noexcept { return looked_at; }
bool any_need_status() noexcept { return __atomic_load_n(&need_status, __ATOMIC_RELAXED) != 0; }

void number_receive(Request& request) noexcept {
  Communicator& communicator = *request.communicator;
  const LockIf held(communicator.sequences_lock, state.shared);
  // What a receive of any message takes is not known yet, and what those behind it get depends on it.
  if (request.any_message || communicator.late_receives != 0) {
    request.numbered_late = true;
    request.sequence = SequenceTable::kLost;
    ++communicator.late_receives;
    return;
  }
  request.numbered_late = false;
  std::uint32_t* const next = find_next_number(communicator, request.peer, request.tag, Direction::kReceived);
  if (next != nullptr) {
    request.sequence = (*next)++;
  } else {
    request.has_no_event = true;
    lose_track(wire::kReceivesUnseen);
  }
}

void track(const Request& request, const PersistentOperation* persistent) noexcept {
  const LockIf held(lock, state.shared);
  forget_locked(request.key);
  Request kept = request;
  if (persistent != nullptr) kept.persistent = allocate_persistent(*persistent);
  if ((persistent != nullptr && kept.persistent == nullptr) || !insert(kept, false)) {
    // Its bytes will be missing from its site, and its events.
    agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiSiteTableFull));
    if (request.kind == RequestKind::kReceive) lose_track(wire::kReceivesUnseen);
    end_late_numbering(kept);
    if (kept.persistent != nullptr) {
      free_persistent(kept.persistent);
    } else if (persistent != nullptr) {
      free_lists(*persistent);
    }
  }
}

void forget_requests() noexcept {
  const LockIf held(lock, state.shared);
  ++recording;
  table.each([](Request& request) { free_request(request); });
  table.clear();
  __atomic_store_n(&need_status, 0, __ATOMIC_RELAXED);
  publish_counts();
}

void forget(HandleKey key) noexcept {
  if (!any_tracked()) return;
  const LockIf held(lock, state.shared);
  forget_locked(key);
}

void complete(const EndedCall& call, HandleKey key, const MPI_Status* status, Completion how) noexcept {
  if (!any_tracked()) return;
  const LockIf held(lock, state.shared);
  Request* request = table.find(key);
  if (request == nullptr || !request->active || request->kind == RequestKind::kMessage) return;
  if (request->has_send) {
    Request* const send = table.find(key | kSendHalf);
    if (send != nullptr) {
      complete_one(call, *send, status, how);
      drop(send);
      request = table.find(key);  // may have moved
    }
  }
  complete_one(call, *request, status, how);
  if (request->persistent == nullptr) return drop(request);
  end_activity(*request);
}

void try_cancel(HandleKey key) noexcept {
  if (!any_tracked()) return;
  const LockIf held(lock, state.shared);
  Request* const request = table.find(key);
  if (request == nullptr || !request->active || request->communicator == nullptr || request->cancel_tried ||
      partitioned_of(*request) != nullptr)
    return;
  if (request->kind == RequestKind::kSend) {
    count_need_status(1);
    request->cancel_tried = true;
  } else if (request->kind == RequestKind::kReceive && !request->counted) {
    request->cancel_tried = true;
    if (request->numbered_late || request->has_no_event || !may_match_nothing(*request)) return;
    // Where it matches nothing, those posted from here on must not wait for it. Where it has matched, the
    // matching puts those of one name in the order of their posting.
    return_number(*request);
    const LockIf sequences(request->communicator->sequences_lock, state.shared);
    request->numbered_late = true;
    ++request->communicator->late_receives;
  }
}

bool is_pending_receive(HandleKey key) noexcept {
  if (!any_tracked()) return false;
  const LockIf held(lock, state.shared);
  const Request* const request = table.find(key);
  return request != nullptr && request->active && request->kind == RequestKind::kReceive &&
         request->communicator != nullptr && request->numbered_late;
}

void pending_receive_freed(HandleKey key, const MPI_Status* status) noexcept {
  const LockIf held(lock, state.shared);
  Request* const request = table.find(key);
  if (request == nullptr || !request->active || !request->numbered_late) return;
  const bool filled = library_is_open_mpi || request->sized;
  if (status == nullptr || !filled) return lose_numbers(*request);
  if (!status_cancelled(*status) && status->MPI_SOURCE != MPI_PROC_NULL) number_late(*request, *status);
}

namespace {

void count_claimed(const Request& request, std::uint32_t change) noexcept {
  if (is_receive_with_events(request) && !request.numbered_late)
    request.communicator->claimed_receives += change;
}

}  // namespace

void claim(const MPI_Request* requests, int count, Claimed* claimed) noexcept {
  const LockIf held(lock, state.shared);
  for (int i = 0; i < count; ++i) {
    claimed[i].request.key = claimed[i].send.key = 0;
    claimed[i].recording = recording;
    const HandleKey key = key_of(requests[i]);
    Request* const found = table.find(key);
    if (found == nullptr || found->persistent != nullptr) continue;
    claimed[i].request = remove(found);
    count_claimed(claimed[i].request, 1);
    Request* const send = claimed[i].request.has_send ? table.find(key | kSendHalf) : nullptr;
    if (send != nullptr) claimed[i].send = remove(send);
  }
}

void complete_claimed(const EndedCall& call, HandleKey key, Claimed& claimed, const MPI_Status* status,
                      Completion how) noexcept {
  const LockIf held(lock, state.shared);
  if (claimed.recording != recording) claimed.request.key = claimed.send.key = 0;
  for (Request* request : {&claimed.send, &claimed.request}) {
    if (request->key == 0) continue;
    count_claimed(*request, ~0u);
    complete_one(call, *request, status, how);
    free_request(*request);
  }
  if (claimed.request.key == 0) {
    Request* const found = table.find(key);
    if (found == nullptr || found->persistent == nullptr || !found->active) return;
    complete_one(call, *found, status, how);
    end_activity(*found);
  }
  claimed.request.key = claimed.send.key = 0;
}

void put_back(Claimed& claimed) noexcept {
  if (claimed.request.key == 0) return;
  const LockIf held(lock, state.shared);
  if (claimed.recording != recording) claimed.request.key = claimed.send.key = 0;
  for (Request* request : {&claimed.request, &claimed.send}) {
    if (request->key == 0) continue;
    count_claimed(*request, ~0u);
    forget_locked(request->key);
    if (insert(*request, true)) continue;
    if (request->kind == RequestKind::kReceive) lose_track(wire::kReceivesUnseen);
    free_request(*request);
  }
  claimed.request.key = claimed.send.key = 0;
}

void activate(const EndedCall& call, HandleKey key) noexcept {
  const LockIf held(lock, state.shared);
  Request* request = table.find(key);
  if (request == nullptr || request->persistent == nullptr) return;
  wire::SegmentHeader* const segment = call.segment;
  const PersistentOperation& each = *request->persistent;
  end_activity(*request);  // of a start whose completion failed
  if (request->communicator != nullptr) start_one(call, *request);
  request->active = true;
  request->unseen = false;
  if (call.paused) return;
  wire::MpiSite* site = site_of(segment, *request);
  if (site != nullptr) {
    add(site->sent_bytes, each.sent_bytes, state.shared);
    add(site->recv_bytes, each.recv_bytes, state.shared);
  }
  if (each.counts_size) count_size(segment, request->op, each.size_bytes, state.shared);
  if (each.peers == nullptr) return;
  for (std::uint32_t i = 0; i < each.peers->count; ++i) {
    const PeerBytes& peer = each.peers->peers()[i];
    if (!count_message(segment, state.world_rank, peer.world_rank, peer.bytes, state.shared)) {
      agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiPeerTableFull));
    }
  }
}

void started_unseen(const MPI_Request* requests, int count) noexcept {
  if (!any_tracked() || requests == nullptr) return;
  const LockIf held(lock, state.shared);
  for (int i = 0; i < count; ++i) {
    Request* const request = table.find(key_of(requests[i]));
    PartitionedOperation* const partitioned = request == nullptr ? nullptr : partitioned_of(*request);
    if (partitioned == nullptr) continue;
    start_partitioned(*request, *partitioned);
    lose_track(request->kind == RequestKind::kSend ? wire::kSendsUnsure : wire::kReceivesUnseen);
  }
}

bool number_partitioned(Request& request, PartitionedOperation& partitioned, std::int32_t tag, int partitions,
                        Direction direction) noexcept {
  std::uint32_t number = 0;
  if (partitions <= 0 || request.peer < 0 || request.communicator == nullptr || !is_counted(tag) ||
      !take_number(*request.communicator, request.peer, counted_tag(tag), direction, number)) {
    return false;
  }
  const wire::PartitionedName name = wire::partitioned_name(tag, number);
  request.tag = name.tag;
  partitioned = {};
  partitioned.partitions = static_cast<std::uint32_t>(partitions);
  partitioned.first = name.first;
  partitioned.tag = tag;
  if (direction == Direction::kReceived && partitioned.partitions > PartitionedOperation::kFew)
    partitioned.arrived = static_cast<std::uint64_t*>(allocate_pages(partitioned.arrived_bytes()));
  return true;
}

void lose_partitioned(HandleKey key, int peer, std::int32_t tag, Direction direction) noexcept {
  Communicator* const communicator = hold_communicator(key);
  if (communicator == nullptr) return;
  lose_track(direction == Direction::kSent ? wire::kSendsUnsure : wire::kReceivesUnseen);
  if (const std::int32_t rank = communicator->peers.world_rank(peer); rank >= 0 && is_counted(tag)) {
    const LockIf held(communicator->sequences_lock, state.shared);
    std::uint32_t* const next = find_next_number(*communicator, rank, counted_tag(tag), direction);
    if (next != nullptr) *next = SequenceTable::kLost;
  }
  drop_reference(communicator);
}

bool partitions_ready(HandleKey key, int count, std::uint64_t enter_ns, Operation& left) noexcept {
  if (!any_tracked() || count <= 0) return false;
  const LockIf held(lock, state.shared);
  Request* const request = table.find(key);
  PartitionedOperation* const partitioned = request == nullptr ? nullptr : partitioned_of(*request);
  if (partitioned == nullptr || !request->active || request->kind != RequestKind::kSend) return false;
  const std::uint32_t missing = partitioned->partitions - partitioned->done;
  const auto ready = static_cast<std::uint32_t>(count);
  if (missing == 0) return false;  // one of them twice, which is an error
  if (ready < missing) {
    partitioned->done += ready;
    return false;
  }
  partitioned->done = partitioned->partitions;
  request->start_ns = enter_ns;
  request->has_no_event = request->paused = false;
  left = operation_of(*request);
  return true;
}

void leaving_unseen(HandleKey key) noexcept {
  const LockIf held(lock, state.shared);
  Request* const request = table.find(key);
  if (request != nullptr && request->kind == RequestKind::kSend && partitioned_of(*request) != nullptr)
    request->has_no_event = true;
}

bool partition_arrived(HandleKey key, int partition, Operation& whole) noexcept {
  if (!any_tracked() || partition < 0) return false;
  const LockIf held(lock, state.shared);
  Request* const request = table.find(key);
  PartitionedOperation* const partitioned = request == nullptr ? nullptr : partitioned_of(*request);
  const auto number = static_cast<std::uint32_t>(partition);
  if (partitioned == nullptr || !request->active || request->kind != RequestKind::kReceive ||
      request->communicator == nullptr || number >= partitioned->partitions) {
    return false;
  }
  constexpr std::uint32_t kFew = PartitionedOperation::kFew;
  std::uint64_t* word = &partitioned->few_arrived;
  if (partitioned->partitions > kFew) {
    if (partitioned->arrived == nullptr) return false;  // there was no memory
    word = partitioned->arrived + number / kFew;
  }
  const std::uint64_t bit = std::uint64_t{1} << number % kFew;
  if ((*word & bit) != 0) return false;
  *word |= bit;
  if (++partitioned->done != partitioned->partitions) return false;
  whole = operation_of(*request);
  return true;
}

void describe_requests(const MPI_Request* requests, int count, clusterprof_mpi_call& call) noexcept {
  call.open_requests = open_requests();
  if (call.open_requests == 0) return;
  const LockIf held(lock, state.shared);
  Pending pending{call, 0, nullptr};
  for (int i = 0; i < count && i < kMaxDescribed; ++i) {
    const HandleKey key = key_of(requests[i]);
    const Request* const request = table.find(key);
    if (request == nullptr || !request->active || request->communicator == nullptr) continue;
    ++call.requests;
    pending.add(*request);
    if (!request->has_send) continue;
    if (const Request* const send = table.find(key | kSendHalf); send != nullptr) pending.add(*send);
  }
  if (call.requests == 1 && pending.count == 1) pending.describe_only();
}

void passed_on(const MPI_Request* requests, int count) noexcept {
  if (!any_tracked() || requests == nullptr) return;
  const LockIf held(lock, state.shared);
  for (int i = 0; i < count; ++i) {
    Request* const request = table.find(key_of(requests[i]));
    if (request == nullptr) continue;
    request->unseen = true;
    if (is_receive_with_events(*request)) lose_track(wire::kReceivesUnseen);
  }
}

void made_unseen(HandleKey key) noexcept {
  if (!any_tracked()) return;
  const LockIf held(lock, state.shared);
  const Request* const request = table.find(key);
  if (request != nullptr && request->unseen) forget_locked(key);
}

KnownMessage message_of(const Request& request) noexcept {
  KnownMessage about;
  if (request.communicator == nullptr) return about;
  about.channel = request.communicator->identity;
  if (request.kind != RequestKind::kSend && request.kind != RequestKind::kReceive) return about;
  about.peer = Pending::peer_of(request);
  about.tag = request.tag == MPI_ANY_TAG ? wire::kAnyTag : tag_of(request);
  // Partitioned messages have no number among those of the program's tag.
  if (!request.numbered_late && !request.has_no_event && request.sequence != SequenceTable::kLost &&
      partitioned_of(request) == nullptr)
    about.number = request.sequence;
  return about;
}

KnownMessage message_of(HandleKey key) noexcept {
  if (!any_tracked()) return {};
  const LockIf held(lock, state.shared);
  const Request* const request = table.find(key);
  return request == nullptr ? KnownMessage{} : message_of(*request);
}

void write_open_requests() noexcept {
  auto* const segment = static_cast<wire::SegmentHeader*>(agent->segment());
  if (segment == nullptr) return;
  segment->open_requests_ready.store(0, std::memory_order_relaxed);
  for (wire::OpenRequests& row : segment->open_requests) row = {};
  const LockIf held(lock, state.shared);
  table.each([&](const Request& request) {
    if (request.kind == RequestKind::kMessage) return lose_track(wire::kReceivesUnseen);
    if (!request.active || request.unseen || (request.key & kSendHalf) != 0) return;
    if (request.paused) {
      if (is_receive_with_events(request)) lose_track(wire::kReceivesUnseen);
      return;
    }
    count_open_request(*segment, request);
  });
  segment->open_requests_ready.store(1, std::memory_order_release);
}

Request take_message(HandleKey message) noexcept {
  if (!any_tracked()) return {};
  const LockIf held(lock, state.shared);
  Request* const found = table.find(message | kMessageHandle);
  if (found == nullptr) return {};
  Request taken = remove(found);
  drop_reference(taken.communicator);  // the handle has one, too
  return taken;
}

}  // namespace clusterprof::mpi_wrap
