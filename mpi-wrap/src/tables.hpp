// SPDX-License-Identifier: BSD-3-Clause
// Writing the MPI tables of the segment (formats/wire/segment.h). Any thread.
// `shared`: several threads may call MPI at a time; then statistics are added atomically.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "agent/agent_api.h"
#include "agent/sigsafe/spin_wait.h"
#include "formats/wire/segment.h"
#include "mpi-wrap/src/hash.hpp"

namespace clusterprof::mpi_wrap {

inline constexpr std::uint32_t kNoSite = 0xffff'ffffu;

// A table counts as full for a key that is not within this many slots of its home slot. A table that fills up
// must not make calls slow.
inline constexpr std::uint32_t kProbeLimit = 128;

template <typename Entry>
inline Entry* table_at(wire::SegmentHeader* segment, std::uint64_t offset) noexcept {
  return reinterpret_cast<Entry*>(reinterpret_cast<std::uint8_t*>(segment) + offset);
}

inline void add(std::uint64_t& sum, std::uint64_t value, bool shared) noexcept {
  if (shared) {
    __atomic_fetch_add(&sum, value, __ATOMIC_RELAXED);
  } else {
    sum += value;
  }
}

// bins[0]: size 0; bins[1]: size 1; bins[b]: (2^(b-2), 2^(b-1)]. The last bin also holds all larger sizes.
constexpr std::uint32_t size_bin(std::uint64_t bytes) noexcept {
  if (bytes == 0) return 0;
  const std::uint32_t bin = static_cast<std::uint32_t>(std::bit_width(bytes - 1)) + 1;
  return bin < wire::kSizeBins ? bin : wire::kSizeBins - 1;
}

inline void count_size(wire::SegmentHeader* segment, std::uint32_t op, std::uint64_t bytes,
                       bool shared) noexcept {
  if (op >= segment->mpi_ops) return;
  add(table_at<wire::MpiSizeBins>(segment, segment->mpi_sizes_offset)[op].bins[size_bin(bytes)], 1, shared);
}

// One message from world rank src to dst (-1: unknown). False when the table is full.
inline bool count_traffic(wire::SegmentHeader* segment, std::uint64_t key, std::uint64_t bytes,
                          bool shared) noexcept {
  auto* peers = table_at<wire::MpiPeer>(segment, segment->mpi_peers_offset);
  const std::uint32_t count = segment->mpi_peers;
  std::uint32_t i = slot_of(mix(key), count);
  for (std::uint32_t probe = 0; probe < count && probe < kProbeLimit; ++probe) {
    std::uint64_t there = peers[i].key.load(std::memory_order_relaxed);
    if (there == 0 && peers[i].key.compare_exchange_strong(there, key, std::memory_order_relaxed))
      there = key;
    if (there == key) {
      add(peers[i].messages, 1, shared);
      add(peers[i].bytes, bytes, shared);
      return true;
    }
    if (++i == count) i = 0;
  }
  return false;
}
inline bool count_message(wire::SegmentHeader* segment, std::int32_t src, std::int32_t dst,
                          std::uint64_t bytes, bool shared) noexcept {
  const std::uint64_t key = static_cast<std::uint64_t>(src + 2) << 32 | static_cast<std::uint32_t>(dst + 2);
  return count_traffic(segment, key, bytes, shared);
}
// To the member with that number of a communicator, which has this row.
inline bool count_message_to_member(wire::SegmentHeader* segment, std::uint32_t row, std::int32_t number,
                                    std::uint64_t bytes, bool shared) noexcept {
  const std::uint64_t key =
      std::uint64_t{wire::kToMember | row} << 32 | static_cast<std::uint32_t>(number + 2);
  return count_traffic(segment, key, bytes, shared);
}

// Finds the site in this slot of the table, or creates it there. False: another site has the slot.
inline bool take_site(wire::MpiSite& site, std::uint64_t key, const clusterprof_call_path& path,
                      std::uint32_t op, std::uint32_t communicator, bool helper_thread,
                      bool other_sites) noexcept {
  std::uint64_t there = site.key.load(std::memory_order_relaxed);
  if (there == 0 && site.key.compare_exchange_strong(there, key, std::memory_order_relaxed)) {
    site.path_words = path.words;
    site.path_offset = path.offset;
    site.op = static_cast<std::uint16_t>(op);
    site.helper_thread = helper_thread ? 1 : 0;
    site.other_sites = other_sites ? 1 : 0;
    site.communicator = communicator;
    site.min_ns = ~std::uint64_t{0};
    site.ready.store(1, std::memory_order_release);
    return true;
  }
  if (there != key) return false;
  agent::wait_until([&site] { return site.ready.load(std::memory_order_acquire) != 0; });
  return true;
}

// Index of the site, which is created if it is new. If there is no room, the index of the entry for the
// function's other sites.
inline std::uint32_t find_site(wire::SegmentHeader* segment, const clusterprof_call_path& path,
                               std::uint32_t op, std::uint32_t communicator, bool helper_thread) noexcept {
  // The hash of the path is mixed well, and so is the product.
  std::uint64_t key = path.hash ^
                      (static_cast<std::uint64_t>(op) << 32 | communicator) * 0x9e37'79b9'7f4a'7c15ull ^
                      (helper_thread ? 0xd6e8'feb8'6659'fd93ull : 0);
  if (key == 0) key = 1;
  auto* sites = table_at<wire::MpiSite>(segment, segment->mpi_sites_offset);
  const std::uint32_t count = segment->mpi_sites;
  std::uint32_t i = slot_of(key, count);
  for (std::uint32_t probe = 0; probe < count && probe < kProbeLimit; ++probe) {
    if (take_site(sites[i], key, path, op, communicator, helper_thread, false)) return i;
    if (++i == count) i = 0;
  }
  i = wire::other_mpi_site(count, op, helper_thread);
  take_site(sites[i], 1, {}, op, wire::kNoPath, helper_thread, true);
  return i;
}

inline void count_call(wire::MpiSite& site, std::uint64_t duration_ns, bool shared) noexcept {
  add(site.count, 1, shared);
  add(site.time_ns, duration_ns, shared);
  if (!shared) {
    if (duration_ns < site.min_ns) site.min_ns = duration_ns;
    if (duration_ns > site.max_ns) site.max_ns = duration_ns;
    return;
  }
  std::uint64_t seen = __atomic_load_n(&site.min_ns, __ATOMIC_RELAXED);
  while (duration_ns < seen && !__atomic_compare_exchange_n(&site.min_ns, &seen, duration_ns, true,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  seen = __atomic_load_n(&site.max_ns, __ATOMIC_RELAXED);
  while (duration_ns > seen && !__atomic_compare_exchange_n(&site.max_ns, &seen, duration_ns, true,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

}  // namespace clusterprof::mpi_wrap
