// SPDX-License-Identifier: BSD-3-Clause
// Amounts of memory by call path, with --memory. Plain data.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "formats/shard/shard_data.hpp"
#include "formats/wire/memory.h"

namespace clusterprof::collector {

// Memory of one domain that one call path allocated.
struct RawMemoryKey {
  std::uint32_t path = 0;  // node of the RawStore
  wire::MemoryDomain domain = wire::MemoryDomain::kNative;
  friend auto operator<=>(const RawMemoryKey&, const RawMemoryKey&) = default;
};
struct RawMemoryKeyHash {
  std::size_t operator()(const RawMemoryKey& key) const noexcept {
    return (std::size_t{key.path} << 3 | static_cast<std::size_t>(key.domain)) * 0x9e37'79b9'7f4a'7c15u;
  }
};

// Bytes that live, by when in the process's life they were allocated: parts of equal length, the first one
// first.
using MemoryAges = std::array<std::uint64_t, shard::MemorySite::kAges>;

inline void add_ages(MemoryAges& sum, const MemoryAges& ages) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += ages[i];
}

// What processes have counted themselves; see wire::MemorySite.
struct RawMemory {
  std::uint64_t alloc_bytes = 0, alloc_count = 0, soon_bytes = 0, soon_count = 0, copy_bytes = 0,
                copy_count = 0;
  std::uint64_t variance = 0;  // of alloc_bytes, in wire::kVarianceUnit
  MemoryAges live_by_age{};    // only of processes that run

  void add(const RawMemory& other) {
    alloc_bytes += other.alloc_bytes;
    alloc_count += other.alloc_count;
    soon_bytes += other.soon_bytes;
    soon_count += other.soon_count;
    copy_bytes += other.copy_bytes;
    copy_count += other.copy_count;
    variance += other.variance;
    add_ages(live_by_age, other.live_by_age);
  }
};

// The live bytes of a call path have changed. CLOCK_MONOTONIC.
struct MemoryChange {
  std::uint64_t time_ns = 0;
  std::int64_t bytes = 0;
  RawMemoryKey of;
};

// What a process still had when it ended.
struct MemoryLeft {
  RawMemoryKey of;
  std::uint64_t bytes = 0;
  MemoryAges by_age{};
};

// A file mapping is not held: the kernel can drop its pages.
constexpr bool is_held(wire::MemoryDomain domain) noexcept { return domain != wire::MemoryDomain::kFile; }

}  // namespace clusterprof::collector
