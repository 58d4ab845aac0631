// SPDX-License-Identifier: BSD-3-Clause
// What a wrapper says of one message or one collective operation, so that after the run the waiting of one
// rank can be charged to another. A call that completes several operations (MPI_Waitall) writes one event for
// each, all with the same times.
//
// Events of both sides are matched by (kind of operation, channel, sequence) alone, never by time. Every
// operation takes its number whether or not an event of it is written, so losing events does no harm to
// others.
#pragma once

#include <atomic>
#include <cstdint>

namespace clusterprof::wire {

enum class MpiEventKind : std::uint8_t {
  kSend = 0,         // a message left: a blocking send, or the call that started one
  kSendDone,         // the call that completed a nonblocking or persistent send; some complete unseen
  kReceive,          // the call in which a receive completed
  kProbe,            // a blocking probe found a message; the receive that takes it has the same sequence
  kCollective,       // a blocking collective operation
  kCollectiveStart,  // the call that started a nonblocking or persistent one
  kCollectiveDone,   // the call that completed it
};
inline constexpr std::uint8_t kMpiEventKinds = 7;

enum MpiEventFlags : std::uint8_t {
  kEventSynchronous = 1u << 0,  // a send that cannot complete before its receive has begun (MPI_Ssend)
  kEventNonblocking = 1u << 1,  // kSend: a kSendDone follows. kReceive: begun by an earlier call
};

// Tags of what is no message but behaves like one: the synchronisation of one-sided access epochs. Program
// tags are not negative.
inline constexpr std::int32_t kTagWinPost = -2;      // MPI_Win_post to MPI_Win_start
inline constexpr std::int32_t kTagWinComplete = -3;  // MPI_Win_complete to MPI_Win_wait

struct MpiEvent {
  std::uint64_t enter_ns, exit_ns;  // CLOCK_MONOTONIC, of the call
  // When the operation was begun: for kSendDone, kCollectiveDone and a receive begun earlier the enter time
  // of the call that began (or, when persistent, started) it; else enter_ns.
  std::uint64_t start_ns;
  std::uint64_t mpi_ns;   // what this thread had spent inside MPI before enter_ns
  std::uint64_t channel;  // identity of the communicator; a window or file has its communicator's
  std::uint64_t bytes;    // of the message; 0 for collectives
  std::uint32_t site;     // index into the MpiSite table, of the call; 0xffffffff unknown
  // kSend, kReceive, ...: number of the message among those with its (source, destination, channel, tag), in
  // order of sending; receives count in order of posting, but in order of completion while a receive of any
  // source or tag is pending on the channel. kCollective...: number of the collective call on the channel.
  std::uint32_t sequence;
  std::int32_t peer;  // world rank of the other side; collectives: of the root, -1 without one
  std::int32_t tag;   // collectives: this rank's number in the communicator
  std::uint16_t op;   // MPI function number of the operation (of MPI_Ibcast also in its kCollectiveDone)
  MpiEventKind kind;
  std::uint8_t flags;               // MpiEventFlags
  std::uint32_t communicator_size;  // collectives; else 0
  // Between this call and the one with the event before, of the calls without an event (MPI_Get,
  // MPI_Win_lock, those that poll) those from one site with the most time: the site, and that time; 0:
  // nothing to speak of.
  std::uint32_t between_site, reserved;
  std::uint64_t between_ns;
};
static_assert(sizeof(MpiEvent) == 88);

// Which operations are written down while there are too many for all of them: of each stream, runs of 32 with
// consecutive numbers. A level keeps about half of what the one before kept, the same on all ranks without
// talking.
//
// A stream: the collective operations of a channel, or the messages between two ranks on one with tags alike.
// The same on both sides of a message. rank: the world rank of whose event it is.
constexpr std::uint64_t event_stream(MpiEventKind kind, std::uint64_t channel, std::int32_t rank,
                                     std::int32_t peer, std::int32_t tag) noexcept {
  if (kind >= MpiEventKind::kCollective) return channel;  // the tag is the rank's own
  const auto word = [](std::int32_t number) { return std::uint64_t{static_cast<std::uint32_t>(number)}; };
  const std::uint64_t pair = rank < peer ? (word(rank) << 32 | word(peer)) : (word(peer) << 32 | word(rank));
  std::uint64_t hash = channel ^ (pair + 1) * 0x9e37'79b9'7f4a'7c15ull;
  hash = (hash ^ (hash >> 32)) * 0xd6e8'feb8'6659'fd93ull;
  return hash ^ (word(tag) >> 6);
}

// To tell what a late rank did, and whom it waited for in turn, its other streams have to be there as well:
// runs with the same number go together. But for the first, or all of a program whose streams are short would
// go at once.
inline constexpr std::uint32_t kMaxEventLevel = 24;
constexpr bool event_is_selected(std::uint64_t stream, std::uint32_t sequence, std::uint32_t level) noexcept {
  const std::uint32_t run = sequence >> 5;
  std::uint64_t hash = ((run == 0 ? stream : run) + 1) * 0x9e37'79b9'7f4a'7c15ull;
  hash = (hash ^ (hash >> 32)) * 0xd6e8'feb8'6659'fd93ull;
  hash ^= hash >> 32;
  return (hash & ((std::uint64_t{1} << level) - 1)) == 0;
}

// Single producer (the thread of the same slot, outside signal handlers), single consumer (the collector).
// Positions count events and never wrap. A full ring drops the event (DropReason::kMpiEventRingFull) and
// raises SegmentHeader::mpi_event_level.
inline constexpr std::uint32_t kEventRingEvents = 8192;  // power of two
struct MpiEventRing {
  alignas(64) std::atomic<std::uint64_t> written;  // stored by the producer (release)
  // The producer's own, for MpiEvent::between_site. Of the calls since the event before: the latest one,
  // which may have an event yet, and of those before it the site with the most time, of calls in succession.
  struct Calls {
    std::uint32_t site;
    std::uint64_t time_ns;
  };
  Calls latest_call, longest_calls;
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

// How far the clock of another rank's node is from this one's: one exchange at MPI_Init, one at MPI_Finalize.
struct ClockMeasurement {
  std::atomic<std::uint32_t> ready;  // 1: the rest is valid
  std::int32_t reference_rank;       // world rank; this process's own rank: it is the reference
  std::uint64_t local_ns;            // CLOCK_MONOTONIC here
  std::int64_t offset_ns;            // the reference's clock minus this one at that time
  std::uint64_t error_ns;            // the offset is at most this wrong
};

}  // namespace clusterprof::wire
