// SPDX-License-Identifier: BSD-3-Clause
// What a process's time, MPI calls and file operations amount to by call path, and the keys under which they
// are added up. Paths are nodes of the RawStore; times are in nanoseconds. Plain data: any thread may use its
// own copy.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "collector/stacks/flat_index.hpp"
#include "formats/shard/shard_data.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

struct RawAmount {
  std::uint64_t wall_ns = 0, cpu_ns = 0, samples = 0;
  void add(const RawAmount& other) {
    wall_ns += other.wall_ns;
    cpu_ns += other.cpu_ns;
    samples += other.samples;
  }
};

// Node of the RawStore, category and "main thread" in one key.
struct RawValueKey {
  std::uint32_t path = 0;
  shard::Category category = shard::Category::kNative;
  bool main_thread = false;
  friend bool operator==(const RawValueKey&, const RawValueKey&) = default;
};
struct RawCounterKey {
  std::uint32_t path = 0, counter = 0;  // counter: RawTables::counters
  friend bool operator==(const RawCounterKey&, const RawCounterKey&) = default;
};
struct RawCallKey {
  std::uint32_t path = 0;
  std::uint64_t communicator = 0;  // identity, 0 none
  bool main_thread = true;         // the main thread made the calls
  friend bool operator==(const RawCallKey&, const RawCallKey&) = default;
};
struct RawIoKey {
  std::uint32_t path = 0;
  std::uint32_t file = 0;  // RawTables::files
  wire::IoOperation operation = wire::IoOperation::kOpen;
  friend bool operator==(const RawIoKey&, const RawIoKey&) = default;
};
struct RawKeyHash {
  std::size_t operator()(const RawIoKey& k) const noexcept {
    return mix((std::uint64_t{k.path} << 32) ^ (std::uint64_t{k.file} << 4) ^
               static_cast<std::uint64_t>(k.operation));
  }
  std::size_t operator()(const RawValueKey& k) const noexcept {
    return mix((std::uint64_t{k.path} << 8) | (static_cast<std::uint64_t>(k.category) << 1) | k.main_thread);
  }
  std::size_t operator()(const RawCounterKey& k) const noexcept {
    return mix((std::uint64_t{k.path} << 32) | k.counter);
  }
  std::size_t operator()(const RawCallKey& k) const noexcept {
    return mix(k.communicator ^ mix((std::uint64_t{k.path} << 1) | k.main_thread));
  }
};

struct RawCall {
  std::uint64_t count = 0, time_ns = 0, min_ns = 0, max_ns = 0, sent_bytes = 0, recv_bytes = 0;
  std::uint64_t unfinished =
      0;  // calls that have not returned: counted in time_ns, but not in count, min_ns and max_ns
  void add(const RawCall& other);
};
// wire::Region
struct RawRegion {
  std::uint64_t count = 0, time_ns = 0, min_ns = 0, max_ns = 0;
  std::int64_t max_n = -1;
  void add(const RawRegion& other);
};
// Waiting for one mutex: where, and where its holder was then (0: not known).
struct RawMutexKey {
  std::uint32_t path = 0, holder_path = 0;
  std::uint64_t address = 0;  // 0: of all that found no room
  // In an object file (of RawTables), if it is in one: it has a name there if it is a variable.
  std::uint32_t module = 0xffff'ffffu;
  std::uint64_t elf_address = 0;
  friend auto operator<=>(const RawMutexKey&, const RawMutexKey&) = default;
};
struct RawMutexWait {
  std::uint64_t wait_ns = 0, samples = 0;
  std::uint64_t longest_ns = 0;  // of one wait that was seen
  void add(const RawMutexWait& other) {
    wait_ns += other.wait_ns;
    samples += other.samples;
    longest_ns = std::max(longest_ns, other.longest_ns);
  }
};
struct RawIo {
  std::uint64_t count = 0, failed = 0, bytes = 0, time_ns = 0, max_ns = 0;
  void add(const RawIo& other);
};
// shard::DataAccess
struct RawAccess {
  std::uint64_t samples = 0, accesses = 0;
  std::array<std::uint64_t, 4> blocks{};
  void add(const RawAccess& other);
};

// Columns of a main thread's series: its wall time by category, by samples; its time in MPI, as the calls
// measured it; and the part of that in which it waited for a processor.
inline constexpr std::uint32_t kMeasuredMpiColumn = shard::kCategories;
inline constexpr std::uint32_t kMpiRunnableColumn = shard::kCategories + 1;
inline constexpr std::uint32_t kMainColumns = shard::kCategories + 2;

// Histogram of the time that samples spend in the handler: four bins for each factor of two.
struct HandlerCosts {
  static constexpr std::size_t kBins = 97;
  std::array<std::uint64_t, kBins> counts{};
  // The upper limit of bin b. The last bin also takes everything above its limit.
  [[nodiscard]] static std::uint64_t le_ns(std::size_t bin) noexcept;
  void add(std::uint32_t cost_ns) noexcept;
};

}  // namespace clusterprof::collector
