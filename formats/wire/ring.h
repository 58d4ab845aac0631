// SPDX-License-Identifier: BSD-3-Clause
// A byte ring with one producer and one consumer in shared memory. The producer is a sampled thread, possibly
// in its signal handler; the consumer is the node's collector.
//
// The ring never blocks: the caller drops and counts a record that does not fit. Records are contiguous: if
// one would cross the end, a kPadding record fills the rest.
#pragma once

#include <atomic>
#include <cstdint>

namespace clusterprof::wire {

inline constexpr std::uint32_t kRingBytes = 256 * 1024;  // power of two

// First word of every record. `bytes` covers the whole record, this header included,
// and is a multiple of 8.
struct RecordHeader {
  std::uint32_t bytes;
  std::uint16_t type;    // RecordType
  std::uint16_t detail;  // by type: the ticks of a kSample, else 0
};
static_assert(sizeof(RecordHeader) == 8);

enum RecordType : std::uint16_t {
  kPadding = 0,
  kSample = 1,
  kThreadTie = 2,  // thread_tie.h
};

// Positions count bytes since the ring was made; they never wrap in practice (2^64).
// They live on cache lines of their own.
struct Ring {
  alignas(64) std::atomic<std::uint64_t> write_position;  // stored by the producer (release)
  alignas(64) std::atomic<std::uint64_t> read_position;   // stored by the consumer (release)
  alignas(64) std::uint8_t data[kRingBytes];
};
static_assert(sizeof(Ring) == 128 + kRingBytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Producer side. Returns where to write a record of `bytes` (a multiple of 8), or null when
// the ring is full. Nothing is visible to the consumer before ring_commit.
// Async-signal-safe; one producer at a time.
inline std::uint8_t* ring_reserve(Ring& ring, std::uint32_t bytes, std::uint64_t& position) noexcept {
  if (bytes > kRingBytes / 2) return nullptr;
  const std::uint64_t write = ring.write_position.load(std::memory_order_relaxed);
  const std::uint64_t read = ring.read_position.load(std::memory_order_acquire);
  const std::uint32_t offset = static_cast<std::uint32_t>(write & (kRingBytes - 1));
  const std::uint32_t until_end = kRingBytes - offset;
  const std::uint32_t padding = bytes <= until_end ? 0 : until_end;
  if (write + padding + bytes - read > kRingBytes) return nullptr;
  if (padding != 0) {
    auto* header = reinterpret_cast<RecordHeader*>(ring.data + offset);
    header->bytes = padding;
    header->type = kPadding;
    header->detail = 0;
  }
  position = write + padding;
  return ring.data + (position & (kRingBytes - 1));
}

// Publishes the record reserved at `position`; it may be shorter than what was reserved.
inline void ring_commit(Ring& ring, std::uint64_t position, std::uint32_t bytes) noexcept {
  ring.write_position.store(position + bytes, std::memory_order_release);
}

// Consumer side. Calls visit(const RecordHeader&) for every complete record and frees the
// space, up to the first record that is_wanted(const RecordHeader&) refuses. The producer is not trusted, and
// can write both positions: returns false, with the ring emptied, when a position or a header makes no sense.
template <typename Visit, typename Wanted>
bool ring_drain(Ring& ring, Visit&& visit, Wanted&& is_wanted) {
  std::uint64_t read = ring.read_position.load(std::memory_order_relaxed);
  const std::uint64_t write = ring.write_position.load(std::memory_order_acquire);
  // Behind a position between two words, a header could reach beyond the end.
  if (write - read > kRingBytes || read % 8 != 0) {
    ring.read_position.store(write, std::memory_order_release);
    return false;
  }
  while (read != write) {
    const std::uint32_t offset = static_cast<std::uint32_t>(read & (kRingBytes - 1));
    const auto& shared = *reinterpret_cast<const RecordHeader*>(ring.data + offset);
    const RecordHeader header = shared;
    const bool sane = header.bytes >= sizeof(RecordHeader) && header.bytes % 8 == 0 &&
                      header.bytes <= kRingBytes - offset && header.bytes <= write - read;
    if (!sane) {
      ring.read_position.store(write, std::memory_order_release);
      return false;
    }
    if (header.type != kPadding) {
      if (!is_wanted(shared)) return true;
      visit(shared);
    }
    read += header.bytes;
    ring.read_position.store(read, std::memory_order_release);
  }
  return true;
}

template <typename Visit>
bool ring_drain(Ring& ring, Visit&& visit) {
  return ring_drain(ring, visit, [](const RecordHeader&) { return true; });
}

}  // namespace clusterprof::wire
