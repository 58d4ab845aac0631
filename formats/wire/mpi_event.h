// SPDX-License-Identifier: BSD-3-Clause
// An MPI event: what a wrapper records about one message or one collective operation. After the run, events
// tell which rank made another one wait. A call that completes several operations (MPI_Waitall) writes one
// event for each, all with the same times.
//
// The events of both sides are matched by kind of operation, channel and sequence, never by time. Every
// operation takes a sequence number even if no event is written, so lost events do not affect others.
#pragma once

#include <atomic>
#include <cstdint>

namespace clusterprof::wire {

enum class MpiEventKind : std::uint8_t {
  kSend = 0,         // a message left: a blocking send, the call that started one, or the last MPI_Pready
  kSendDone,         // the call that completed a nonblocking or persistent send; not every completion is seen
  kReceive,          // the call in which a receive completed
  kProbe,            // a blocking probe, or calls of MPI_Parrived in a row, found a message; the receive that
                     // takes it has the same sequence
  kCollective,       // a blocking collective operation
  kCollectiveStart,  // the call that started a nonblocking or persistent one
  kCollectiveDone,   // the call that completed it
};
inline constexpr std::uint8_t kMpiEventKinds = 7;

enum MpiEventFlags : std::uint8_t {
  kEventSynchronous = 1u << 0,  // a send that cannot complete before its receive has begun (MPI_Ssend)
  kEventNonblocking = 1u << 1,  // kSend: a kSendDone follows. kReceive: begun by an earlier call
  // `peer` is not a world rank but the number in the communicator: of the other side of a message, which
  // MpiCommunicator::number of the members tells; of the root of a collective operation, which is the `tag`
  // of its event.
  kEventPeerInGroup = 1u << 7,
};

// Tags for the synchronisation of one-sided access epochs, which is recorded like messages. Programs cannot
// use negative tags.
inline constexpr std::int32_t kTagWinPost = -2;      // MPI_Win_post to MPI_Win_start
inline constexpr std::int32_t kTagWinComplete = -3;  // MPI_Win_complete to MPI_Win_wait

// Partitioned messages. MPI matches their requests with each other only, in the order in which MPI_Psend_init
// and MPI_Precv_init are called for a (source, destination, communicator, tag), and requests are started in
// any order. So the messages of the request with this number among those of a tag have a tag of their own,
// and that of its n-th start (from 0) the sequence `first` ^ n. Both sides compute the same.
struct PartitionedName {
  std::int32_t tag;  // below any other that is in use
  std::uint32_t first;
};
constexpr PartitionedName partitioned_name(std::int32_t tag, std::uint32_t number) noexcept {
  constexpr std::uint32_t kMark = 1u << 31, kExact = 1u << 30, kTagBits = 16, kNumbers = 0x3fff;
  const auto bits = static_cast<std::uint32_t>(tag);
  if (bits >> kTagBits == 0 && number < kNumbers)
    return {static_cast<std::int32_t>(kMark | kExact | number << kTagBits | bits), 0};
  // Requests that are made again and again, and large tags: 50 bits of a hash tell them apart.
  std::uint64_t hash = (std::uint64_t{bits} << 32 | number) * 0x9e37'79b9'7f4a'7c15ull;
  hash = (hash ^ (hash >> 32)) * 0xd6e8'feb8'6659'fd93ull;
  hash ^= hash >> 32;
  return {static_cast<std::int32_t>(kMark | (static_cast<std::uint32_t>(hash) & (kExact - 1))),
          static_cast<std::uint32_t>(hash >> 32) & 0xffff'f000u};
}

struct MpiEvent {
  // CLOCK_MONOTONIC, of the call. Of calls of MPI_Parrived in a row: their time together, up to the last
  // exit.
  std::uint64_t enter_ns, exit_ns;
  // When the operation was begun: for kSendDone, kCollectiveDone and a receive begun earlier the enter time
  // of the call that began (or, when persistent, started; or made the last partition ready of) it; else
  // enter_ns.
  std::uint64_t start_ns;
  // What this thread had spent before enter_ns inside MPI and in pauses (paused_ns).
  std::uint64_t mpi_ns;
  std::uint64_t channel;  // identity of the communicator; a window or file has its communicator's
  // Of the message. kCollective, kCollectiveStart: what the rank sent and received; 0 of persistent ones.
  std::uint64_t bytes;
  std::uint32_t site;  // index into the MpiSite table, of the call; 0xffffffff unknown
  // kSend, kReceive, ...: number of the message among those with its (source, destination, channel, tag), in
  // order of sending; receives count in order of posting, but in order of completion while a receive of any
  // source or tag is pending on the channel. MPI_Mrecv and MPI_Imrecv have the number that the message got
  // when it was found. Of partitioned ones see partitioned_name. kCollective...: number of the collective
  // call on the channel.
  std::uint32_t sequence;
  std::int32_t peer;  // world rank of the other side; collectives: of the root, -1 without one (flags)
  std::int32_t tag;   // collectives: this rank's number in the communicator
  std::uint16_t op;   // MPI function number of the operation (of MPI_Ibcast also in its kCollectiveDone)
  MpiEventKind kind;
  std::uint8_t flags;               // MpiEventFlags
  std::uint32_t communicator_size;  // collectives; else 0
  // Calls without an event (MPI_Get, MPI_Win_lock, polling calls) between the call with the event before and
  // this one: the call site with the most time, and its time. 0: hardly any.
  std::uint32_t between_site, reserved;
  std::uint64_t between_ns;
  // For how long recording had been paused before enter_ns, for this thread and by its program (calls that
  // it made then are no part of its time in MPI), and when the last pause ended.
  std::uint64_t paused_ns, resumed_ns;
};
static_assert(sizeof(MpiEvent) == 104);

// If there are too many operations to record all, some are selected: runs of 32 consecutive numbers of each
// stream. Each level selects about half of what the level before selects. All ranks select the same without
// communicating.
//
// A stream consists of the collective operations of a channel, or of the messages between two ranks on a
// channel with similar tags; where members have numbers only (kEventPeerInGroup), of those between any two.
// Both sides of a message compute the same stream. rank: the world rank that records the event.
constexpr std::uint64_t event_stream(MpiEventKind kind, std::uint64_t channel, std::int32_t rank,
                                     std::int32_t peer, std::int32_t tag, std::uint8_t flags = 0) noexcept {
  if (kind >= MpiEventKind::kCollective) return channel;  // the tag is the rank's own
  const auto word = [](std::int32_t number) { return std::uint64_t{static_cast<std::uint32_t>(number)}; };
  const std::uint64_t pair = (flags & kEventPeerInGroup) != 0 ? 0
                             : rank < peer                    ? (word(rank) << 32 | word(peer))
                                                              : (word(peer) << 32 | word(rank));
  std::uint64_t hash = channel ^ (pair + 1) * 0x9e37'79b9'7f4a'7c15ull;
  hash = (hash ^ (hash >> 32)) * 0xd6e8'feb8'6659'fd93ull;
  return hash ^ (word(tag) >> 6);
}

// To find out what a late rank did, and whom it waited for itself, its other streams are needed, too. So runs
// with the same number are selected together, except for the first run of each stream: programs with short
// streams would otherwise lose all of them at the same level.
inline constexpr std::uint32_t kMaxEventLevel = 24;
constexpr bool event_is_selected(std::uint64_t stream, std::uint32_t sequence, std::uint32_t level) noexcept {
  const std::uint32_t run = sequence >> 5;
  std::uint64_t hash = ((run == 0 ? stream : run) + 1) * 0x9e37'79b9'7f4a'7c15ull;
  hash = (hash ^ (hash >> 32)) * 0xd6e8'feb8'6659'fd93ull;
  hash ^= hash >> 32;
  return (hash & ((std::uint64_t{1} << level) - 1)) == 0;
}

// Operations of a sample cannot be replayed, because those in between are not known. So besides the sample,
// all events are kept that say what a thread did in stretches of time: period k of the clock that all nodes
// share begins with one, [k x period, k x period + length). Stretches of a period twice as long, or shorter
// ones, lie within these: ranks may differ in both, and have the rest in common.
struct EventStretches {
  std::uint64_t offset_ns = 0;  // the shared clock minus CLOCK_MONOTONIC, modulo 2^64
  std::uint64_t period_ns = 0;  // a power of two
  std::uint64_t length_ns = 0;  // 0: there are none
  friend bool operator==(const EventStretches&, const EventStretches&) = default;

  // When the period begins that this time lies in, by the shared clock.
  [[nodiscard]] constexpr std::uint64_t period_at(std::uint64_t time_ns) const noexcept {
    return (time_ns + offset_ns) & ~(period_ns - 1);
  }
};

// Whether any of (from_ns, until_ns] lies in a stretch. For an event these are the end of the call with the
// thread's event before, and of its own: so the call that is under way at the begin of a stretch is kept, and
// the one that follows its end, which tells what was done until then.
constexpr bool touches_stretch(const EventStretches& stretches, std::uint64_t from_ns,
                               std::uint64_t until_ns) noexcept {
  return stretches.length_ns != 0 &&
         static_cast<std::int64_t>(from_ns + stretches.offset_ns - stretches.period_at(until_ns)) <
             static_cast<std::int64_t>(stretches.length_ns);
}

// What an event of a thread tells of: since the end of the call with the thread's event before. Several
// events of a call tell of the same.
struct EventInterval {
  std::uint64_t from_ns = 0, until_ns = 0;
  constexpr void advance(std::uint64_t exit_ns) noexcept {
    if (exit_ns == until_ns) return;
    from_ns = until_ns;
    until_ns = exit_ns;
  }
};

// Single producer (the thread of the same slot, outside signal handlers), single consumer (the collector).
// Positions count events and never wrap. A full ring drops the event. If the level selects it, that is
// DropReason::kMpiEventRingFull, and raises SegmentHeader::mpi_event_level; else kMpiStretchRingFull.
inline constexpr std::uint32_t kEventRingEvents = 8192;  // power of two
struct MpiEventRing {
  alignas(64) std::atomic<std::uint64_t> written;  // stored by the producer (release)
  // Used by the producer alone, for MpiEvent::between_site. About the calls since the event before: the
  // latest one, which may still get an event, and the site with the most time in consecutive calls among the
  // others.
  struct Calls {
    std::uint32_t site;
    std::uint64_t time_ns;
  };
  Calls latest_call, longest_calls;
  // Used by the producer alone, above level 0: of its latest operation, whether or not it got an event.
  EventInterval latest_interval;
  // Used by the producer alone: time in the latest calls, as far as all of them are MPI_Parrived that have no
  // event.
  std::uint64_t polled_ns;
  alignas(64) std::atomic<std::uint64_t> read;  // stored by the consumer (release)
  alignas(64) MpiEvent events[kEventRingEvents];
};

// Producer side. Where to write the next event, or null when the ring is full. The consumer sees nothing of
// it before publish_event.
inline MpiEvent* reserve_event(MpiEventRing& ring) noexcept {
  const std::uint64_t written = ring.written.load(std::memory_order_relaxed);
  if (written - ring.read.load(std::memory_order_acquire) >= kEventRingEvents) return nullptr;
  return &ring.events[written & (kEventRingEvents - 1)];
}
inline void publish_event(MpiEventRing& ring) noexcept {
  ring.written.store(ring.written.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// The difference between the clocks of another rank's node and this one. Measured in MPI_Init and in
// MPI_Finalize.
struct ClockMeasurement {
  std::atomic<std::uint32_t> ready;  // 1: the rest is valid
  std::int32_t reference_rank;       // world rank; this process's own rank: it is the reference
  std::uint64_t local_ns;            // CLOCK_MONOTONIC here
  std::int64_t offset_ns;            // the reference's clock minus this one at that time
  std::uint64_t error_ns;            // the offset is at most this wrong
};

}  // namespace clusterprof::wire
