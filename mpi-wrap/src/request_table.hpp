// SPDX-License-Identifier: BSD-3-Clause
// What is known of requests whose start or completion matters: receives, whose size is known when they
// complete; persistent requests, whose bytes count at each start; and all requests that have events. Open
// addressing; deletion shifts later entries back. Grows, never shrinks. Zeroed memory is an empty table. Not
// synchronised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/pages.hpp"

namespace clusterprof::mpi_wrap {

struct Communicator;

struct PeerBytes {
  std::int32_t world_rank;
  std::uint64_t bytes;
};

// The peers that a persistent collective or send sends to, in pages of their own.
struct PeerList {
  std::size_t allocated_bytes;
  std::uint32_t count;
  PeerBytes* peers() noexcept { return reinterpret_cast<PeerBytes*>(this + 1); }
};
static_assert(sizeof(PeerList) % alignof(PeerBytes) == 0);

// A partitioned request over all its starts. A start is one message: it has left when all partitions are
// ready, and has arrived when all have.
struct PartitionedOperation {
  std::uint32_t partitions;  // as this side divides the buffer; 0: the request is not a partitioned one
  std::uint32_t first;       // wire::PartitionedName
  std::uint32_t starts;      // so far
  std::uint32_t done;  // since the latest start: partitions that are ready, or are known to have arrived
  std::int32_t tag;    // as the program gave it; that of the request is of wire::PartitionedName
  // Which ones have arrived: a bit each, in pages of their own if there are many.
  std::uint64_t few_arrived;
  std::uint64_t* arrived;
  static constexpr std::uint32_t kFew = 64;

  std::size_t arrived_bytes() const noexcept {
    return (std::size_t{partitions} + kFew - 1) / kFew * sizeof(std::uint64_t);
  }
};

// What each start of a persistent request does.
struct PersistentOperation {
  bool counts_size;  // size_bytes, in the histogram
  std::uint64_t sent_bytes, recv_bytes, size_bytes;
  PeerList* peers;  // may be null
  PartitionedOperation partitioned;
};

enum class RequestKind : std::uint8_t {
  kOther = 0,  // nothing happens when it completes
  kSend,
  kReceive,  // its size comes with the completion
  kCollective,
  kMessage,  // no request: a message that a matching probe has taken
};

// Bits added to a handle. kSendHalf: the send of a request that is also a receive (MPI_Isendrecv).
// kMessageHandle: a message, since some libraries take messages and requests from the same numbers. Handles
// themselves have neither bit.
inline constexpr std::uint64_t kSendHalf = std::uint64_t{1} << 63, kMessageHandle = std::uint64_t{1} << 62;

// One cache line.
struct alignas(64) Request {
  std::uint64_t key;  // the handle, 0 in a free slot
  std::uint64_t start_ns;
  Communicator* communicator;       // referenced; null: it has no events
  std::uint64_t bytes;              // of a message sent
  PersistentOperation* persistent;  // of a persistent request, else null
  std::uint32_t site;               // index of the call site that made it; its bytes are counted there
  std::uint32_t sequence;
  std::int32_t peer, tag;  // world rank; of a collective operation the root
  std::uint16_t op;
  RequestKind kind;
  std::uint8_t event_flags;
  // Started, and not seen to complete.
  bool active : 1;
  // key | kSendHalf is in the table, too.
  bool has_send : 1;
  // A receive from any source or with any tag.
  bool any_message : 1;
  // A receive that gets its number when it completes.
  bool numbered_late : 1;
  // A receive whose message was counted as an operation by a matching probe.
  bool counted : 1;
  // A receive whose bytes are counted. Its status tells how many they are.
  bool sized : 1;
  // MPI_Cancel was called. Whether the request was cancelled is known when it completes.
  bool cancel_tried : 1;
  // A receive whose message is not known, a send without a number, or a partitioned send that has not left.
  bool has_no_event : 1;
  // Started while recording was paused, so its completion has no event.
  bool paused : 1;
  // A call that is not measured may have completed or freed it.
  bool unseen : 1;
};
static_assert(sizeof(Request) == 64);

class RequestTable {
 public:
  std::uint32_t size() const noexcept { return size_; }
  std::uint32_t capacity() const noexcept { return capacity_; }

  Request* find(std::uint64_t key) noexcept {
    if (size_ == 0 || key == 0) return nullptr;
    for (std::uint32_t i = home(key);; i = (i + 1) & mask()) {
      if (slots_[i].key == key) return &slots_[i];
      if (slots_[i].key == 0) return nullptr;
    }
  }

  // The caller has made sure that the key is not in the table. False if there is no memory.
  bool insert(const Request& request) noexcept {
    if ((size_ + 1) * 2 > capacity_ && !grow()) return false;
    place(request);
    ++size_;
    return true;
  }

  void erase(const Request* request) noexcept {
    std::uint32_t hole = static_cast<std::uint32_t>(request - slots_);
    for (std::uint32_t i = hole;;) {
      i = (i + 1) & mask();
      if (slots_[i].key == 0) break;
      // May move into the hole only if its home is not between hole and i.
      if (((i - home(slots_[i].key)) & mask()) >= ((i - hole) & mask())) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole].key = 0;
    --size_;
  }

  void clear() noexcept {
    for (std::uint32_t i = 0; i < capacity_; ++i) slots_[i].key = 0;
    size_ = 0;
  }

  template <typename Visit>
  void each(Visit&& visit) noexcept {
    for (std::uint32_t i = 0; i < capacity_; ++i) {
      if (slots_[i].key != 0) visit(slots_[i]);
    }
  }

 private:
  std::uint32_t mask() const noexcept { return capacity_ - 1; }
  std::uint32_t home(std::uint64_t key) const noexcept { return slot_of(mix(key), capacity_); }

  void place(const Request& request) noexcept {
    std::uint32_t i = home(request.key);
    while (slots_[i].key != 0) i = (i + 1) & mask();
    slots_[i] = request;
  }

  bool grow() noexcept {
    const std::uint32_t old_capacity = capacity_;
    Request* old = slots_;
    const std::uint32_t bigger = old_capacity == 0 ? 1024 : old_capacity * 2;
    auto* fresh = static_cast<Request*>(allocate_pages(std::size_t{bigger} * sizeof(Request)));
    if (fresh == nullptr) return false;
    slots_ = fresh;
    capacity_ = bigger;
    for (std::uint32_t i = 0; i < old_capacity; ++i) {
      if (old[i].key != 0) place(old[i]);
    }
    free_pages(old, std::size_t{old_capacity} * sizeof(Request));
    return true;
  }

  Request* slots_;
  std::uint32_t capacity_, size_;
};

}  // namespace clusterprof::mpi_wrap
