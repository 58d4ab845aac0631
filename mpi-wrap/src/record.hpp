// SPDX-License-Identifier: BSD-3-Clause
// What a wrapper writes down of one call. Wrappers run
//   start = enter(function, what is known before); if (start == 0) pass on; call; Record record(...); rules;
//   record.finish(); events
// on the thread that calls MPI, never in a signal handler.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"
#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/communicator_registry.hpp"
#include "mpi-wrap/src/errors.hpp"
#include "mpi-wrap/src/events.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/request_table.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/tables.hpp"
#include "mpi-wrap/src/topology.hpp"
#include "mpi-wrap/src/type_size.hpp"

namespace clusterprof::mpi_wrap {

// What a call is about, as far as that is known before the call: for the record of the call under way.
class Intent {
 public:
  explicit Intent(std::uint32_t op) noexcept
      : call_{
            op, wire::kNoPath, 0, wire::kNoSequence, wire::kNoPeer, wire::kNoTag, wire::kNoPeer, 0, 0, {}, 0,
            0} {}
  // `key`: of the communicator, or of a window, file or message made from it.
  Intent(std::uint32_t op, HandleKey key) noexcept : Intent(op, communicator_of(key)) {}
  Intent(std::uint32_t op, const Communicator* communicator) noexcept : Intent(op) {
    communicator_ = communicator;
    if (communicator == nullptr) return;
    call_.communicator = communicator->index;
    call_.channel = communicator->identity;
    call_.open_requests = open_requests();
  }

  Intent& with(int peer) noexcept {
    call_.peer = peer == MPI_ANY_SOURCE ? wire::kAnyPeer : world_rank(peer);
    return *this;
  }
  Intent& with(int peer, int tag) noexcept {
    call_.tag = tag == MPI_ANY_TAG ? wire::kAnyTag : tag;
    return with(peer);
  }
  // The call is the next collective operation on the communicator.
  Intent& collective() noexcept {
    if (communicator_ != nullptr && !communicator_->inter)
      call_.sequence = next_collective_number(*communicator_, state.shared);
    return *this;
  }
  Intent& rooted(int root) noexcept {
    if (root >= 0) call_.root = world_rank(root);
    return collective();
  }
  // What all members of the operation have to give alike; at the root other arguments may say it. Call this
  // after the two above.
  template <typename Count>
  Intent& agree(Count count, MPI_Datatype type) noexcept {
    if (call_.sequence != wire::kNoSequence) call_.agreed = agreed_of(count, type);
    return *this;
  }
  template <typename Count>
  Intent& agree(int root, Count at_root, MPI_Datatype type_at_root, Count elsewhere,
                MPI_Datatype type_elsewhere) noexcept {
    const bool here = communicator_ != nullptr && root == communicator_->rank;
    return here ? agree(at_root, type_at_root) : agree(elsewhere, type_elsewhere);
  }
  // The call waits for these requests.
  Intent& completes(const MPI_Request* requests, int count) noexcept;

  const clusterprof_mpi_call& call() const noexcept { return call_; }

 private:
  std::int32_t world_rank(int rank) const noexcept {
    return communicator_ == nullptr || rank < 0 ? wire::kNoPeer : communicator_->peers.world_rank(rank);
  }

  clusterprof_mpi_call call_;
  const Communicator* communicator_ = nullptr;
};

// Recording is turned off from outside (--standby).
inline bool is_off() noexcept {
  const void* const phase = agent->off;
  return phase != nullptr &&
         wire::is_off_phase(__atomic_load_n(static_cast<const std::uint32_t*>(phase), __ATOMIC_RELAXED));
}

// 0: this call is part of another one, or nothing is recorded. describe() returns the Intent; it is not asked
// for while recording is off.
template <typename Describe>
inline std::uint64_t enter(std::uint32_t op, Describe describe) noexcept {
  if (is_off()) [[unlikely]]
    return agent->enter_mpi_off(op);
  const Intent intent = describe();
  return agent->enter_mpi(&intent.call());
}

// Made by MPI_X_init: the request, and what each start of it does.
struct PersistentRequest {
  Request request;
  PersistentOperation each;
};

// This rank's role in a rooted collective.
struct Role {
  bool root;
  bool member;  // false in the root's own group of an intercommunicator
};

inline bool is_no_op(MPI_Op op) noexcept { return op == handles.no_op; }

// True for an error code that says that a message was received but truncated.
bool is_truncated(int returned) noexcept;

class Record {
 public:
  // Takes the end time of the call.
  Record(std::uint32_t op, std::uint64_t start_ns, bool succeeded) noexcept
      : Record(op, start_ns, succeeded, agent->leave_mpi()) {}
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  ~Record() {
    if (timed_) [[unlikely]]
      agent->wrapper_ended();
  }

  // Bytes and objects count: the call succeeded and MPI runs.
  bool counts() const noexcept { return succeeded_ && call_.segment != nullptr && state.running; }
  // The same, but also true for a call that failed because a message was too long: it was received, and a
  // collective operation took place.
  bool has_message(int returned) const noexcept {
    return counts() || (call_.segment != nullptr && state.running && is_truncated(returned));
  }

  // As counts(), but false in a pause: for rules that count nothing but bytes and sizes.
  bool counts_bytes() const noexcept { return counts() && !call_.paused; }

  const EndedCall& call() const noexcept { return call_; }

  // The communicator as it was before a call that may free it.
  void use(Communicator* communicator) noexcept { set(communicator); }
  void use(MPI_Comm handle) noexcept {
    handle_ = handle;
    set(communicator_of(key_of(handle)));
    if (communicator_ == nullptr && counts()) set(discover_communicator(handle));
  }
  void use_window(MPI_Win window) noexcept {
    set(communicator_of(key_of(window)));
    if (communicator_ == nullptr && counts()) set(discover_window(window));
  }
  void use(MPI_File file) noexcept { set(communicator_of(key_of(file))); }

  std::int32_t me() const noexcept { return communicator_ == nullptr ? 0 : communicator_->rank; }
  std::int32_t members() const noexcept { return communicator_ == nullptr ? 0 : communicator_->size; }
  std::int32_t peers() const noexcept { return communicator_ == nullptr ? 0 : communicator_->peers.size(); }
  Role role(int root) const noexcept {
    if (communicator_ == nullptr) return {false, false};
    if (communicator_->inter) return {root == MPI_ROOT, root >= 0};
    return {root == communicator_->rank, true};
  }

  void add_sent(std::uint64_t bytes) noexcept { sent_ += bytes; }
  void add_received(std::uint64_t bytes) noexcept { received_ += bytes; }

  // A message to, or one-sided data from, a rank of the communicator. Nothing for MPI_PROC_NULL.
  void send_to(int peer, std::uint64_t bytes) noexcept {
    if (peer < 0) return;
    sent_ += bytes;
    message(world_rank(peer), bytes);
  }
  void get_from(int peer, std::uint64_t bytes) noexcept {
    if (peer < 0) return;
    received_ += bytes;
    count_message_of(world_rank(peer), state.world_rank, bytes);
    count_size_of(bytes);
  }

  // What a blocking receive got.
  void received(const MPI_Status& status) noexcept {
    if (status.MPI_SOURCE == MPI_PROC_NULL || status_cancelled(status)) return;
    const std::uint64_t bytes = status_bytes(status);
    received_ += bytes;
    count_size_of(bytes);
  }

  // One block to each peer rank: `bytes` each, or counts[i] elements.
  void send_to_each(std::uint64_t bytes) noexcept {
    blocks_to(peer_map(), true, [bytes](std::int32_t) { return bytes; });
  }
  template <typename Counts, typename Types>
  void send_to_each(Counts counts, Types types) noexcept {
    blocks_to(peer_map(), true, [=](std::int32_t i) { return block_bytes(counts, types, i); });
  }

  // The same for the neighbours in a topology. At its border some of them are MPI_PROC_NULL.
  void send_to_neighbours(std::uint64_t bytes) noexcept {
    blocks_to(outs(), false, [bytes](std::int32_t) { return bytes; });
  }
  template <typename Counts, typename Types>
  void send_to_neighbours(Counts counts, Types types) noexcept {
    blocks_to(outs(), false, [=](std::int32_t i) { return block_bytes(counts, types, i); });
  }
  void receive_from_neighbours(std::uint64_t bytes) noexcept {
    blocks_from(ins(), [bytes](std::int32_t) { return bytes; });
  }
  template <typename Counts, typename Types>
  void receive_from_neighbours(Counts counts, Types types) noexcept {
    blocks_from(ins(), [=](std::int32_t i) { return block_bytes(counts, types, i); });
  }

  // Counts the call once in the histogram, with the larger of its two directions.
  void count_size() noexcept {
    const std::uint64_t bytes = sent_ > received_ ? sent_ : received_;
    if (persistent_ != nullptr) {
      persistent_->each.counts_size = true;
      persistent_->each.size_bytes = bytes;
    } else {
      count_size_of(bytes);
    }
  }

  void make_communicator(Derivation derivation, MPI_Comm made, std::uint64_t name = 0) noexcept {
    derive_communicator(communicator_, derivation, made, name);
  }
  void bind(HandleKey key) noexcept { mpi_wrap::bind(key, communicator_); }

  // The call makes a persistent request: from here on the rules describe each start of it. `persistent` is
  // zeroed and outlives this record. finish() takes it over.
  void init_persistent(PersistentRequest& persistent, MPI_Request request, bool receive) noexcept {
    persistent_ = &persistent;
    persistent.request.key = key_of(request);
    persistent.request.kind = receive ? RequestKind::kReceive : RequestKind::kOther;
    persistent.request.sized = receive;
  }
  // The same, if each start is an operation that has events.
  void init_send(int destination, int tag, std::uint8_t flags = 0) noexcept;
  void init_receive(int source, int tag) noexcept;
  void init_partitioned_send(int destination, int tag, int partitions) noexcept;
  void init_partitioned_receive(int source, int tag, int partitions) noexcept;
  void init_collective(int root = kNoRoot) noexcept;

  // Counts the call at its site.
  void finish() noexcept;

  // The call has returned an error. Call these after finish(), and before the events. peer and tag: of its
  // message, as the program gave them. status: of a receive, which knows better where the message is too
  // long.
  void failed(int error) const noexcept;
  void failed(int error, int peer, int tag) const noexcept;
  void failed(int error, int peer, int tag, const MPI_Status& status) const noexcept;
  void failed(int error, const KnownMessage& about) const noexcept;

  // As Intent's. Call this before the event.
  template <typename Count>
  Record& agree(Count count, MPI_Datatype type) noexcept {
    agreed_ = agreed_of(count, type);
    return *this;
  }
  template <typename Count>
  Record& agree(int root, Count at_root, MPI_Datatype type_at_root, Count elsewhere,
                MPI_Datatype type_elsewhere) noexcept {
    return role(root).root ? agree(at_root, type_at_root) : agree(elsewhere, type_elsewhere);
  }

  // Events of a call that counts. Call these after finish(). Ranks and tags are as the program gave them.
  static constexpr int kNoRoot = -1000;
  void message_sent(int destination, int tag, std::uint8_t flags = 0) noexcept;
  void message_received(const MPI_Status& status) noexcept;
  void message_received(const Request& taken) noexcept;   // by a matching probe before
  void message_found(const MPI_Status& status) noexcept;  // a probe that waited
  void message_taken(MPI_Message message, const MPI_Status& status, bool waited) noexcept;
  void message_left(const Operation& partitioned) noexcept;  // with this call, which made its rest ready
  // MPI_Parrived: whether the partition has arrived. before_ns: polled_ns() before finish().
  void polled(MPI_Request request, int partition, bool arrived, std::uint64_t before_ns) noexcept;
  std::uint64_t polled_ns() const noexcept { return call_.ring == nullptr ? 0 : mpi_wrap::polled_ns(call_); }
  void collective_ended(int root = kNoRoot) noexcept;
  void collective_ended_on(Communicator* communicator) noexcept;  // which may be null, MPI having ended
  void epoch_begun(MPI_Win window, MPI_Group group, bool exposure) noexcept;
  void epoch_ended(MPI_Win window, bool exposure) noexcept;

  // The same for a request that the call has started, whose event is written when it completes.
  void start_send(MPI_Request request, int destination, int tag, std::uint8_t flags = 0) noexcept;
  void start_receive(MPI_Request request, int source, int tag) noexcept;
  void start_receive(MPI_Request request, const Request& taken) noexcept;
  void start_exchange(MPI_Request request, int destination, int send_tag, int source, int recv_tag) noexcept;
  void start_collective(MPI_Request request, int root = kNoRoot) noexcept;
  void start_other(MPI_Request request) noexcept;

 private:
  Record(std::uint32_t op, std::uint64_t start_ns, bool succeeded, const clusterprof_mpi_exit& left) noexcept
      : call_{static_cast<wire::SegmentHeader*>(left.segment),
              static_cast<wire::MpiEventRing*>(left.events),
              left.enter_ns != 0 ? left.enter_ns : start_ns,
              left.time_ns,
              left.mpi_ns,
              kNoSite,
              left.paused != 0,
              left.paused_ns,
              left.resumed_ns},
        op_(op),
        succeeded_(succeeded),
        helper_thread_(left.helper_thread != 0),
        timed_(left.timed != 0),
        counter_count_(left.counter_count),
        counters_(left.counters),
        path_(left.path) {}

  // True if the communicator has events.
  bool has_events() const noexcept { return communicator_ != nullptr && communicator_->identity != 0; }
  bool has_collective_events() const noexcept { return has_events() && !communicator_->inter; }
  Operation operation(std::int32_t peer, std::int32_t tag) const noexcept;
  bool take(Operation& operation, Direction direction) const noexcept;
  Operation take_collective(int root) const noexcept;
  Request request_of(MPI_Request request, RequestKind kind) const noexcept;
  Request send_of(MPI_Request request, const Operation& sent) const noexcept;
  void receive_into(Request& receive, int source, int tag) const noexcept;
  static void watch_receive(const Request& receive, int source) noexcept;
  void set(Communicator* communicator) noexcept {
    communicator_ = communicator;
    if (communicator != nullptr) index_ = communicator->index;
  }
  std::int32_t world_rank(std::int32_t peer) const noexcept {
    return communicator_ == nullptr ? kUnknownRank : communicator_->peers.world_rank(peer);
  }
  bool neighbours() noexcept {
    if (communicator_ == nullptr) return false;
    if (!communicator_->neighbours_known.load(std::memory_order_acquire))
      find_neighbours(*communicator_, handle_);
    return true;
  }
  const RankMap* peer_map() const noexcept {
    return communicator_ == nullptr ? nullptr : &communicator_->peers;
  }
  const RankMap* outs() noexcept { return neighbours() ? &communicator_->out_neighbours : nullptr; }
  const RankMap* ins() noexcept { return neighbours() ? &communicator_->in_neighbours : nullptr; }

  void message(std::int32_t destination, std::uint64_t bytes) noexcept {
    if (persistent_ != nullptr) {
      allocate_peers(1);
      add_peer(destination, bytes);
      persistent_->each.counts_size = true;
      persistent_->each.size_bytes = bytes;
      return;
    }
    count_message_of(state.world_rank, destination, bytes);
    count_size_of(bytes);
  }
  template <typename BytesOf>
  void blocks_to(const RankMap* map, bool all_exist, BytesOf bytes_of_block) noexcept {
    if (map == nullptr) return;
    if (persistent_ != nullptr) allocate_peers(static_cast<std::uint32_t>(map->size()));
    for (std::int32_t i = 0; i < map->size(); ++i) {
      const std::int32_t destination = map->world_rank(i);
      if (destination == kUnknownRank && !all_exist) continue;
      const std::uint64_t bytes = bytes_of_block(i);
      if (bytes == 0) continue;
      sent_ += bytes;
      if (persistent_ != nullptr) {
        add_peer(destination, bytes);
      } else {
        count_message_of(state.world_rank, destination, bytes);
      }
    }
  }
  template <typename BytesOf>
  void blocks_from(const RankMap* map, BytesOf bytes_of_block) noexcept {
    for (std::int32_t i = 0; map != nullptr && i < map->size(); ++i) {
      if (map->world_rank(i) != kUnknownRank) received_ += bytes_of_block(i);
    }
  }
  void count_size_of(std::uint64_t bytes) noexcept {
    if (!call_.paused) mpi_wrap::count_size(call_.segment, op_, bytes, state.shared);
  }
  void count_message_of(std::int32_t source, std::int32_t destination, std::uint64_t bytes) noexcept {
    if (!call_.paused && !count_message(call_.segment, source, destination, bytes, state.shared)) {
      agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiPeerTableFull));
    }
  }
  void add_counters() noexcept;
  void allocate_peers(std::uint32_t count) noexcept;
  void add_peer(std::int32_t destination, std::uint64_t bytes) noexcept {
    PeerList* list = persistent_->each.peers;
    if (list != nullptr) list->peers()[list->count++] = {destination, bytes};
  }

  EndedCall call_;
  std::uint32_t op_;
  bool succeeded_, helper_thread_, timed_;
  std::uint32_t counter_count_;  // most often 0
  const std::uint64_t* counters_;
  clusterprof_call_path path_;
  std::uint32_t index_ = wire::kNoPath;
  Communicator* communicator_ = nullptr;
  MPI_Comm handle_{};
  std::uint64_t sent_ = 0, received_ = 0, agreed_ = 0;
  PersistentRequest* persistent_ = nullptr;
};

}  // namespace clusterprof::mpi_wrap
