// SPDX-License-Identifier: BSD-3-Clause
// Writing events (formats/wire/mpi_event.h). Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::mpi_wrap {

// A wrapped call that has ended.
struct EndedCall {
  wire::SegmentHeader* segment;  // null: nothing is recorded
  wire::MpiEventRing* ring;      // null: the thread has none
  std::uint64_t enter_ns, exit_ns, mpi_ns;
  std::uint32_t site;  // kNoSite: unknown
  // The program has paused recording: the call still takes numbers, but nothing else is noted.
  bool paused = false;
  std::uint64_t paused_ns = 0, resumed_ns = 0;  // of the pauses before it, see wire::MpiEvent
};

// What the event of a call describes.
struct Operation {
  std::uint64_t channel;
  std::uint64_t start_ns;
  std::uint64_t bytes;
  std::uint32_t sequence;
  std::int32_t peer, tag;
  // Size of the communicator of a collective operation; 0 for messages.
  std::uint32_t members;
  std::uint16_t op;
  std::uint8_t flags;  // wire::MpiEventFlags
};

// Counts an event that is lost because the ring is full or missing. A full ring means that the collector does
// not keep up: from now on half as many operations are recorded. The effect of one step must show before the
// next one, so the level does not rise again until the collector has read what was in the ring when it rose.
void lose_event(const EndedCall& call, std::uint32_t level) noexcept;
// The same for an event of a stretch that the level does not select: the sample does not lack it, so the
// level stays.
void lose_event_of_stretch() noexcept;

// From now on the events do not tell of all messages of this process whether they were sent or received.
void lose_track(wire::MpiUnseen what) noexcept;

inline bool is_selected(const wire::SegmentHeader* segment, wire::MpiEventKind kind,
                        const Operation& operation, std::uint32_t level) noexcept {
  if (level == 0) return true;
  const std::int32_t rank = segment->mpi_rank.load(std::memory_order_relaxed);
  return wire::event_is_selected(
      wire::event_stream(kind, operation.channel, rank, operation.peer, operation.tag, operation.flags),
      operation.sequence, level);
}

inline wire::EventStretches stretches_of(const wire::SegmentHeader& segment) noexcept {
  return {segment.stretch_offset_ns.load(std::memory_order_relaxed),
          segment.stretch_period_ns.load(std::memory_order_relaxed),
          segment.stretch_length_ns.load(std::memory_order_relaxed)};
}

// Whether a stretch needs the events of the call, which are written now. Call this above level 0, for all
// events of the thread.
inline bool is_in_stretch(const EndedCall& call) noexcept {
  const wire::EventStretches stretches = stretches_of(*call.segment);
  if (call.ring == nullptr) return wire::touches_stretch(stretches, call.enter_ns, call.exit_ns);
  wire::EventInterval& interval = call.ring->latest_interval;
  interval.advance(call.exit_ns);
  return wire::touches_stretch(stretches, interval.from_ns, interval.until_ns);
}

// Whether an operation of the call has an event, so that its request is worth to be remembered.
inline bool is_kept(const EndedCall& call, wire::MpiEventKind kind, const Operation& operation) noexcept {
  const std::uint32_t level = call.segment->mpi_event_level.load(std::memory_order_acquire);
  if (is_selected(call.segment, kind, operation, level)) return true;
  const bool has_event = call.ring != nullptr && call.ring->latest_interval.until_ns == call.exit_ns;
  return wire::touches_stretch(stretches_of(*call.segment),
                               has_event ? call.ring->latest_interval.from_ns : call.enter_ns, call.exit_ns);
}

// What the thread has spent in calls of MPI_Parrived, if there was nothing else since its last event. Ask
// before remember_call().
inline std::uint64_t polled_ns(const EndedCall& call) noexcept {
  return call.mpi_ns == 0 ? 0 : call.ring->polled_ns;  // another thread may have had the ring before
}

// Called for every call, before its events.
inline void remember_call(const EndedCall& call) noexcept {
  if (call.ring == nullptr || call.paused) return;
  call.ring->polled_ns = 0;
  auto& [latest_site, latest_ns] = call.ring->latest_call;
  auto& longest = call.ring->longest_calls;
  if (call.mpi_ns == 0) {  // the first call of the thread; another one may have had the ring before
    latest_ns = 0;
    longest = {};
  }
  if (latest_site == longest.site) {
    longest.time_ns += latest_ns;
  } else if (latest_ns > longest.time_ns) {
    longest = {latest_site, latest_ns};
  }
  latest_site = call.site;
  latest_ns = call.exit_ns - call.enter_ns;
}

// Shorter times are not worth a row.
inline constexpr std::uint64_t kShortestBetween_ns = 10'000;

inline void write_event(const EndedCall& call, wire::MpiEventKind kind, const Operation& operation) noexcept {
  if (call.paused || call.segment->mpi_events_off.load(std::memory_order_relaxed) != 0) {
    if (kind == wire::MpiEventKind::kReceive) lose_track(wire::kReceivesUnseen);
    return;
  }
  const std::uint32_t level = call.segment->mpi_event_level.load(std::memory_order_acquire);
  if (level != 0) {
    const bool in_stretch = is_in_stretch(call);
    if (!is_selected(call.segment, kind, operation, level)) {
      if (!in_stretch) return;
      if (call.ring == nullptr || wire::reserve_event(*call.ring) == nullptr) return lose_event_of_stretch();
    }
  }
  wire::MpiEvent* const place = call.ring != nullptr ? wire::reserve_event(*call.ring) : nullptr;
  if (place == nullptr) return lose_event(call, level);
  wire::MpiEvent& event = *place;
  event.enter_ns = call.enter_ns;
  event.exit_ns = call.exit_ns;
  event.start_ns = operation.start_ns;
  event.mpi_ns = call.mpi_ns + call.paused_ns;
  event.channel = operation.channel;
  event.bytes = operation.bytes;
  event.site = call.site;
  event.sequence = operation.sequence;
  event.peer = operation.peer;
  event.tag = operation.tag;
  event.op = operation.op;
  event.kind = kind;
  event.flags = operation.flags;
  event.communicator_size = operation.members;
  wire::MpiEventRing::Calls& between = call.ring->longest_calls;
  const bool is_long = between.time_ns >= kShortestBetween_ns;
  event.between_site = is_long ? between.site : 0;
  event.between_ns = is_long ? between.time_ns : 0;
  event.reserved = 0;
  event.paused_ns = call.paused_ns;
  event.resumed_ns = call.resumed_ns;
  between = {};
  call.ring->latest_call = {};
  wire::publish_event(*call.ring);
}

// An operation has taken its number.
inline void count_operation(const EndedCall& call, bool shared) noexcept {
  wire::SegmentHeader* const segment = call.segment;
  if (call.paused) return;
  if (shared) {
    segment->mpi_operations.fetch_add(1, std::memory_order_relaxed);
  } else {
    segment->mpi_operations.store(segment->mpi_operations.load(std::memory_order_relaxed) + 1,
                                  std::memory_order_relaxed);
  }
}

}  // namespace clusterprof::mpi_wrap
