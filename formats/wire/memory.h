// SPDX-License-Identifier: BSD-3-Clause
// What a process tells about the memory that it allocates, with --memory: tables in its segment, and a ring
// of changes. Design: docs/design/0026-memory.md.
//
// Not every allocation is recorded. Those that are, each stand for a number of bytes and calls: their weight.
#pragma once

#include <atomic>
#include <cstdint>

namespace clusterprof::wire {

// Who manages the memory. The names are those of reports.
enum class MemoryDomain : std::uint8_t {
  kNative = 0,  // malloc and the like
  kPython,      // the interpreter's allocator of objects
  kMapping,     // mmap of anonymous or shared memory, sbrk, shmat
  kMpi,         // any of these inside an MPI call: MPI_Alloc_mem, windows, the library's own
  kFile,        // mmap of a file: not a part of peaks, since the kernel can drop its pages
  kCount
};
inline constexpr std::uint32_t kMemoryDomains = static_cast<std::uint32_t>(MemoryDomain::kCount);
inline constexpr const char* kMemoryDomainNames[kMemoryDomains] = {"native", "python", "mmap", "mpi", "file"};

// A block that is freed within this time after its allocation counts as freed soon.
inline constexpr std::uint64_t kFreedSoonNs = 100'000'000;

// MemorySite::variance counts in this unit: bytes squared.
inline constexpr std::uint64_t kVarianceUnit = 256;

// Memory of one domain that one call path has allocated, and copied. Sums of weights; atomic adds. The first
// kMemoryDomains rows are for all call paths that found no room, by domain.
struct MemorySite {
  std::atomic<std::uint64_t> key;    // 0 = free; hash of (path, domain, MPI function)
  std::atomic<std::uint32_t> ready;  // 1 when the identity below is complete
  std::uint32_t path_words;          // frame words (see SampleRecord) in the path arena,
  std::uint64_t path_offset;         //   at this byte offset; leaf = caller of the function.
                                     //   path_words 0: the path was dropped
  MemoryDomain domain;
  std::uint8_t reserved;
  std::uint16_t mpi_op;  // MPI function number + 1 that the thread was in, or 0
  std::uint32_t reserved_too;
  std::atomic<std::uint64_t> alloc_bytes, alloc_count;
  std::atomic<std::uint64_t> variance;     // of alloc_bytes
  std::atomic<std::uint64_t> freed_bytes;  // of alloc_bytes; the rest lives
  std::atomic<std::uint64_t> soon_bytes;   // of freed_bytes: freed soon
  std::atomic<std::uint64_t> copy_bytes, copy_count;
  std::atomic<std::uint64_t> soon_count;  // of alloc_count: freed soon
};
static_assert(sizeof(MemorySite) == 96);

// A recorded block that lives. Its address is in a table of its own, at the same index.
struct MemoryBlock {
  std::uint64_t bytes;    // of the block
  std::uint64_t weight;   // bytes that it stands for
  std::uint64_t time_ns;  // of its allocation, CLOCK_MONOTONIC
  std::uint32_t site;
  std::uint32_t reserved;
};
static_assert(sizeof(MemoryBlock) == 32);

// In the table of addresses: no block, and one that is being written or taken out.
inline constexpr std::uint64_t kNoBlock = 0, kBusyBlock = 1;
// How many places of wire::table_place a block may be at.
inline constexpr std::uint32_t kBlockProbes = 48;

// The live bytes of a site have changed.
struct MemoryEvent {
  std::atomic<std::uint64_t> number;  // of the event, from 1 on; stored last
  std::uint64_t time_ns;              // CLOCK_MONOTONIC
  std::int64_t bytes;                 // a weight; negative: freed
  std::uint32_t site;
  std::uint32_t reserved;
};
static_assert(sizeof(MemoryEvent) == 32);

inline constexpr std::uint32_t kMemoryEvents = 16384;

// Any thread of the process writes, the collector reads.
struct MemoryRing {
  alignas(64) std::atomic<std::uint64_t> claimed;  // events that have a place
  alignas(64) std::atomic<std::uint64_t> read;     // stored by the reader
  alignas(64) MemoryEvent events[kMemoryEvents];
};

// False: there is no room. Async-signal-safe.
inline bool push_memory_event(MemoryRing& ring, std::uint64_t time_ns, std::int64_t bytes,
                              std::uint32_t site) noexcept {
  std::uint64_t number = ring.claimed.load(std::memory_order_relaxed);
  do {
    if (number - ring.read.load(std::memory_order_acquire) >= kMemoryEvents) return false;
  } while (!ring.claimed.compare_exchange_weak(number, number + 1, std::memory_order_acq_rel));
  MemoryEvent& event = ring.events[number % kMemoryEvents];
  event.time_ns = time_ns;
  event.bytes = bytes;
  event.site = site;
  event.number.store(number + 1, std::memory_order_release);
  return true;
}

// Calls visit(time_ns, bytes, site) for the events that are complete, up to the first one that is not.
// Returns whether there is one that is not complete: its writer is about to write it, or will never do so.
// `skip`: the first such one is given up. `known`: so many events, from the first one ever, are not visited,
// since the sums have said what they say. The writers are not trusted: with positions that make no sense, the
// ring is emptied.
template <typename Visit>
bool drain_memory_events(MemoryRing& ring, bool skip, Visit&& visit, std::uint64_t known = 0) {
  std::uint64_t read = ring.read.load(std::memory_order_relaxed);
  const std::uint64_t claimed = ring.claimed.load(std::memory_order_acquire);
  if (claimed - read > kMemoryEvents) {
    ring.read.store(claimed, std::memory_order_release);
    return false;
  }
  bool waits = false;
  for (; read != claimed; ++read) {
    const MemoryEvent& event = ring.events[read % kMemoryEvents];
    if (event.number.load(std::memory_order_acquire) != read + 1) {
      waits = !skip;
      if (waits) break;
      skip = false;
      continue;
    }
    if (read >= known) visit(event.time_ns, event.bytes, event.site);
  }
  ring.read.store(read, std::memory_order_release);
  return waits;
}

// What of the process's memory is not seen.
enum MemoryNotes : std::uint32_t {
  kProgramsOwnMalloc = 1u << 0,  // the program has malloc in itself: what it allocates is not seen
  kOtherMalloc = 1u << 1,        // objects in it call another malloc, as with RTLD_DEEPBIND
  kPythonNotSeen = 1u << 2,      // small objects of an interpreter that is not known, or free-threaded
  kPythonReplaced = 1u << 3,     // the interpreter's allocators were replaced, as by PYTHONMALLOC
  kNoMemoryWrap = 1u << 4,       // what is in front of malloc is not loaded
};
inline constexpr std::uint32_t kAllMemoryNotes = (1u << 5) - 1;

struct MemoryState {
  std::uint64_t asked_interval_bytes;         // --memory; 0: nothing of the following
  std::atomic<std::uint64_t> interval_bytes;  // the sampling interval now: it rises with the number of events
  std::atomic<std::uint32_t> notes;           // MemoryNotes
  std::atomic<std::uint32_t> ended;           // 1: the process has begun to end, and nothing changes any more
  std::atomic<std::uint64_t> events_lost;     // the ring was full
  std::atomic<std::uint64_t> untracked_bytes;  // that counted as freed at once: the table of blocks was full
  std::atomic<std::uint64_t> static_bytes;     // data of its object files that they may write, zeros too
};

}  // namespace clusterprof::wire
