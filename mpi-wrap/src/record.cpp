// SPDX-License-Identifier: BSD-3-Clause
// What Record writes: first sums at the call site, then events of the call, then the requests that the call
// started.
#include "mpi-wrap/src/record.hpp"

#include "mpi-wrap/src/communicator_entries.hpp"
#include "mpi-wrap/src/epochs.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {

[[gnu::cold]] bool is_truncated(int returned) noexcept {
  return returned != MPI_SUCCESS && error_class_of(returned) == MPI_ERR_TRUNCATE;
}

Intent& Intent::completes(const MPI_Request* requests, int count) noexcept {
  if (requests != nullptr && count > 0) describe_requests(requests, count, call_);
  return *this;
}

void Record::finish() noexcept {
  if (call_.segment == nullptr || (call_.paused && persistent_ == nullptr)) return;
  if (path_.hash == 0) path_ = agent->call_path();
  call_.site = find_site(call_.segment, path_, op_, index_, helper_thread_);
  if (call_.site >= call_.segment->mpi_sites)
    agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiSiteTableFull));
  remember_call(call_);
  if (!call_.paused) {
    wire::MpiSite& site = table_at<wire::MpiSite>(call_.segment, call_.segment->mpi_sites_offset)[call_.site];
    count_call(site, call_.exit_ns - call_.enter_ns, state.shared);
    if (counter_count_ != 0) add_counters();
    if (persistent_ == nullptr) {
      if (sent_ != 0) add(site.sent_bytes, sent_, state.shared);
      if (received_ != 0) add(site.recv_bytes, received_, state.shared);
    }
  }
  if (persistent_ == nullptr) return;
  Request& request = persistent_->request;
  request.site = call_.site;
  request.op = static_cast<std::uint16_t>(op_);
  if (request.kind == RequestKind::kSend) request.bytes = sent_;
  persistent_->each.sent_bytes = sent_;
  persistent_->each.recv_bytes = received_;
  track(request, &persistent_->each);
}

void Record::add_counters() noexcept {
  auto& counters =
      table_at<wire::MpiSiteCounters>(call_.segment, call_.segment->mpi_site_counters_offset)[call_.site];
  for (std::uint32_t i = 0; i < counter_count_; ++i) add(counters.values[i], counters_[i], state.shared);
}

void Record::allocate_peers(std::uint32_t count) noexcept {
  if (count == 0) return;
  const std::size_t bytes = sizeof(PeerList) + std::size_t{count} * sizeof(PeerBytes);
  auto* list = static_cast<PeerList*>(allocate_pages(bytes));
  if (list == nullptr) {
    agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiPeerTableFull));
    return;
  }
  list->allocated_bytes = bytes;
  persistent_->each.peers = list;
}

// --- errors ---

[[gnu::cold]] void Record::failed(int error, const KnownMessage& about) const noexcept {
  note_error(call_, op_, error, about);
}

[[gnu::cold]] void Record::failed(int error) const noexcept {
  failed(error, KnownMessage{communicator_ == nullptr ? 0 : communicator_->identity});
}

[[gnu::cold]] void Record::failed(int error, int peer, int tag) const noexcept {
  KnownMessage about{communicator_ == nullptr ? 0 : communicator_->identity};
  about.peer = peer == MPI_ANY_SOURCE ? wire::kAnyPeer : world_rank(peer);
  about.tag = tag;
  failed(error, about);
}

[[gnu::cold]] void Record::failed(int error, int peer, int tag, const MPI_Status& status) const noexcept {
  if (!is_truncated(error)) {
    lose_track(wire::kReceivesUnseen);
    return failed(error, peer, tag);
  }
  KnownMessage about{communicator_ == nullptr ? 0 : communicator_->identity};
  about.peer = world_rank(status.MPI_SOURCE);
  about.tag = status.MPI_TAG;
  if (has_events() && about.peer >= 0)
    peek_number(*communicator_, about.peer, about.tag, Direction::kReceived, about.number);
  failed(error, about);
}

// --- events ---

Operation Record::operation(std::int32_t peer, std::int32_t tag) const noexcept {
  Operation operation{};
  operation.channel = communicator_->identity;
  operation.start_ns = call_.enter_ns;
  operation.peer = peer;
  operation.tag = tag;
  operation.op = static_cast<std::uint16_t>(op_);
  return operation;
}

bool Record::take(Operation& operation, Direction direction) const noexcept {
  if (operation.peer < 0 ||
      !take_number(*communicator_, operation.peer, operation.tag, direction, operation.sequence)) {
    return false;
  }
  count_operation(call_, state.shared);
  return true;
}

void Record::message_sent(int destination, int tag, std::uint8_t flags) noexcept {
  if (!has_events()) return;
  Operation sent = operation(world_rank(destination), tag);
  if (!take(sent, Direction::kSent)) return;
  sent.bytes = sent_;
  sent.flags = flags;
  write_event(call_, wire::MpiEventKind::kSend, sent);
}

void Record::message_received(const MPI_Status& status) noexcept {
  Operation got{};
  if (has_events()) got = operation(world_rank(status.MPI_SOURCE), status.MPI_TAG);
  if (!has_events() || !take(got, Direction::kReceived)) {
    if (status.MPI_SOURCE >= 0) lose_track(wire::kReceivesUnseen);
    return;
  }
  got.bytes = received_;
  write_event(call_, wire::MpiEventKind::kReceive, got);
}

void Record::message_found(const MPI_Status& status) noexcept {
  if (!has_events()) return;
  Operation found = operation(world_rank(status.MPI_SOURCE), status.MPI_TAG);
  if (found.peer < 0 ||
      !peek_number(*communicator_, found.peer, found.tag, Direction::kReceived, found.sequence)) {
    return;
  }
  found.bytes = status_bytes(status);
  write_event(call_, wire::MpiEventKind::kProbe, found);
}

void Record::message_taken(MPI_Message message, const MPI_Status& status, bool waited) noexcept {
  Operation found{};
  if (has_events()) found = operation(world_rank(status.MPI_SOURCE), status.MPI_TAG);
  if (!has_events() || !take(found, Direction::kReceived)) {
    if (status.MPI_SOURCE >= 0) lose_track(wire::kReceivesUnseen);
    return;
  }
  found.bytes = status_bytes(status);
  if (waited) write_event(call_, wire::MpiEventKind::kProbe, found);
  if (!is_kept(call_, wire::MpiEventKind::kReceive, found)) return;
  Request taken{};
  taken.key = key_of(message) | kMessageHandle;
  taken.communicator = communicator_;
  taken.kind = RequestKind::kMessage;
  taken.sequence = found.sequence;
  taken.peer = found.peer;
  taken.tag = found.tag;
  track(taken, nullptr);
}

void Record::message_received(const Request& taken) noexcept {
  if (taken.key == 0 || !has_events()) return lose_track(wire::kReceivesUnseen);
  Operation got = operation(taken.peer, taken.tag);
  got.sequence = taken.sequence;
  got.bytes = received_;
  write_event(call_, wire::MpiEventKind::kReceive, got);
}

void Record::message_left(const Operation& partitioned) noexcept {
  count_operation(call_, state.shared);
  Operation left = partitioned;
  left.start_ns = call_.enter_ns;
  write_event(call_, wire::MpiEventKind::kSend, left);
}

// Calls of MPI_Parrived in a row that find a message are as one that probes for it. Only the time inside them
// is waiting: the program may do something else in between. So that one is as long as they are together, and
// ends when the last of them does.
void Record::polled(MPI_Request request, int partition, bool arrived, std::uint64_t before_ns) noexcept {
  Operation found{};
  const bool is_whole = arrived && partition_arrived(key_of(request), partition, found);
  if (call_.ring == nullptr || call_.paused) return;
  const std::uint64_t all_ns = before_ns + (call_.exit_ns - call_.enter_ns);
  if (!is_whole) {
    call_.ring->polled_ns = all_ns;
    return;
  }
  EndedCall all = call_;
  all.enter_ns = call_.exit_ns - all_ns;
  all.mpi_ns = call_.mpi_ns - before_ns;
  wire::MpiEventRing::Calls& between = call_.ring->longest_calls;
  if (between.site == call_.site)
    between.time_ns -= between.time_ns < before_ns ? between.time_ns : before_ns;
  found.start_ns = all.enter_ns;
  found.bytes = 0;
  found.op = static_cast<std::uint16_t>(op_);
  found.flags = 0;
  write_event(all, wire::MpiEventKind::kProbe, found);
}

Operation Record::take_collective(int root) const noexcept {
  Operation taken = operation(root == kNoRoot ? -1 : world_rank(root), communicator_->rank);
  taken.sequence = take_collective_number(*communicator_, state.shared);
  publish_collectives(call_.segment, *communicator_, static_cast<std::uint16_t>(op_), agreed_);
  taken.members = static_cast<std::uint32_t>(communicator_->size);
  taken.bytes = sent_ + received_;
  count_operation(call_, state.shared);
  return taken;
}

void Record::collective_ended(int root) noexcept {
  if (has_collective_events()) write_event(call_, wire::MpiEventKind::kCollective, take_collective(root));
}

void Record::collective_ended_on(Communicator* communicator) noexcept {
  if (!succeeded_ || call_.segment == nullptr) return;
  communicator_ = communicator;
  collective_ended();
}

void Record::epoch_begun(MPI_Win window, MPI_Group group, bool exposure) noexcept {
  if (has_events())
    begin_epoch(call_, key_of(window), *communicator_, group, static_cast<std::uint16_t>(op_), exposure);
}

void Record::epoch_ended(MPI_Win window, bool exposure) noexcept {
  if (has_events())
    end_epoch(call_, key_of(window), *communicator_, static_cast<std::uint16_t>(op_), exposure);
}

// --- requests ---

void Record::start_other(MPI_Request request) noexcept { forget(key_of(request)); }

Request Record::request_of(MPI_Request request, RequestKind kind) const noexcept {
  Request made{};
  made.key = key_of(request);
  made.start_ns = call_.enter_ns;
  made.site = call_.site;
  made.op = static_cast<std::uint16_t>(op_);
  made.kind = kind;
  made.active = true;
  made.paused = call_.paused;
  return made;
}

Request Record::send_of(MPI_Request request, const Operation& sent) const noexcept {
  Request send = request_of(request, RequestKind::kSend);
  send.communicator = communicator_;
  send.bytes = sent_;
  send.sequence = sent.sequence;
  send.peer = sent.peer;
  send.tag = sent.tag;
  send.event_flags = sent.flags;
  return send;
}

void Record::start_send(MPI_Request request, int destination, int tag, std::uint8_t flags) noexcept {
  if (has_events()) {
    Operation sent = operation(world_rank(destination), tag);
    if (take(sent, Direction::kSent)) {
      sent.bytes = sent_;
      sent.flags = flags | wire::kEventNonblocking;
      write_event(call_, wire::MpiEventKind::kSend, sent);
      if (is_kept(call_, wire::MpiEventKind::kSend, sent)) {
        return track(send_of(request, sent), nullptr);
      }
    }
  }
  forget(key_of(request));
}

// Sets what the events of a receive need, if it can have any.
void Record::receive_into(Request& receive, int source, int tag) const noexcept {
  if (!has_events()) return;
  receive.peer = world_rank(source);
  receive.tag = tag;
  receive.any_message = source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
  receive.event_flags = wire::kEventNonblocking;
  if (source == MPI_ANY_SOURCE || receive.peer >= 0) receive.communicator = communicator_;
}

// A receive that has no events, and is not of MPI_PROC_NULL.
void Record::watch_receive(const Request& receive, int source) noexcept {
  if (receive.communicator == nullptr && (source == MPI_ANY_SOURCE || source >= 0))
    lose_track(wire::kReceivesUnseen);
}

void Record::start_receive(MPI_Request request, int source, int tag) noexcept {
  Request receive = request_of(request, RequestKind::kReceive);
  receive.sized = true;
  receive_into(receive, source, tag);
  watch_receive(receive, source);
  if (receive.communicator != nullptr) number_receive(receive);
  track(receive, nullptr);
}

void Record::start_receive(MPI_Request request, const Request& taken) noexcept {
  Request receive = request_of(request, RequestKind::kReceive);
  receive.sized = true;
  if (taken.key != 0 && has_events()) {
    receive.communicator = communicator_;
    receive.counted = true;
    receive.sequence = taken.sequence;
    receive.peer = taken.peer;
    receive.tag = taken.tag;
    receive.event_flags = wire::kEventNonblocking;
  } else {
    lose_track(wire::kReceivesUnseen);
  }
  track(receive, nullptr);
}

void Record::start_exchange(MPI_Request request, int destination, int send_tag, int source,
                            int recv_tag) noexcept {
  Request receive = request_of(request, RequestKind::kReceive);
  receive.bytes = received_;
  receive_into(receive, source, recv_tag);
  watch_receive(receive, source);
  if (receive.communicator != nullptr) number_receive(receive);
  Operation sent{};
  if (has_events()) {
    sent = operation(world_rank(destination), send_tag);
    receive.has_send = take(sent, Direction::kSent);
  }
  track(receive, nullptr);
  if (!receive.has_send) return;
  sent.bytes = sent_;
  sent.flags = wire::kEventNonblocking;
  write_event(call_, wire::MpiEventKind::kSend, sent);
  Request send = send_of(request, sent);
  send.key |= kSendHalf;
  track(send, nullptr);
}

void Record::start_collective(MPI_Request request, int root) noexcept {
  if (has_collective_events()) {
    const Operation started = take_collective(root);
    write_event(call_, wire::MpiEventKind::kCollectiveStart, started);
    if (is_kept(call_, wire::MpiEventKind::kCollectiveStart, started)) {
      Request collective = request_of(request, RequestKind::kCollective);
      collective.communicator = communicator_;
      collective.sequence = started.sequence;
      collective.peer = started.peer;
      return track(collective, nullptr);
    }
  }
  forget(key_of(request));
}

void Record::init_send(int destination, int tag, std::uint8_t flags) noexcept {
  Request& request = persistent_->request;
  request.peer = world_rank(destination);
  request.tag = tag;
  request.event_flags = flags | wire::kEventNonblocking;
  if (!has_events() || request.peer < 0) return;
  request.communicator = communicator_;
  request.kind = RequestKind::kSend;
}

void Record::init_receive(int source, int tag) noexcept {
  receive_into(persistent_->request, source, tag);
  watch_receive(persistent_->request, source);
}

void Record::init_partitioned_send(int destination, int tag, int partitions) noexcept {
  Request& request = persistent_->request;
  request.peer = world_rank(destination);
  request.event_flags = wire::kEventNonblocking;
  if (!has_events() || request.peer < 0) return;
  request.communicator = communicator_;
  if (number_partitioned(request, persistent_->each.partitioned, tag, partitions, Direction::kSent)) {
    request.kind = RequestKind::kSend;
  } else {
    request.communicator = nullptr;
    lose_track(wire::kSendsUnsure);
  }
}

void Record::init_partitioned_receive(int source, int tag, int partitions) noexcept {
  Request& request = persistent_->request;
  receive_into(request, source, tag);
  if (request.communicator != nullptr &&
      !number_partitioned(request, persistent_->each.partitioned, tag, partitions, Direction::kReceived)) {
    request.communicator = nullptr;
  }
  watch_receive(request, source);
}

void Record::init_collective(int root) noexcept {
  if (!has_collective_events()) return;
  Request& request = persistent_->request;
  request.communicator = communicator_;
  request.kind = RequestKind::kCollective;
  request.peer = root == kNoRoot ? -1 : world_rank(root);
}

}  // namespace clusterprof::mpi_wrap
