// SPDX-License-Identifier: BSD-3-Clause
// Where the forward operators of autograd's nodes were called. A node has the number of the thread that made
// it and a sequence number of that thread; its backward operator, on whatever thread it runs, tells both.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "agent/lifecycle/regions.h"

namespace clusterprof::agent::torch {

// Of zeroed memory. The latest nodes have a row: a newer one takes the place of one kNodes before it, and
// threads share them. Any thread may call these; none waits.
class ForwardPlaces {
 public:
  static constexpr std::uint32_t kNodes = 1u << 16;

  // `generation`: of the process's segment, in which the places are.
  void put(std::uint32_t generation, std::uint64_t thread, std::uint64_t sequence,
           ForwardPlace place) noexcept {
    Row& row = rows_[row_of(thread, sequence)];
    row.tag.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    row.place.store(place.packed, std::memory_order_relaxed);
    row.tag.store(tag_of(generation, thread, sequence), std::memory_order_release);
  }
  // No value: it is not known any more.
  [[nodiscard]] std::optional<ForwardPlace> find(std::uint32_t generation, std::uint64_t thread,
                                                 std::uint64_t sequence) const noexcept {
    const Row& row = rows_[row_of(thread, sequence)];
    const std::uint64_t tag = tag_of(generation, thread, sequence);
    if (row.tag.load(std::memory_order_acquire) != tag) return std::nullopt;
    const ForwardPlace place{row.place.load(std::memory_order_relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (row.tag.load(std::memory_order_relaxed) != tag) return std::nullopt;
    return place;
  }

 private:
  struct Row {
    std::atomic<std::uint64_t> tag;  // 0: free, or being written
    std::atomic<std::uint64_t> place;
  };

  static std::uint32_t row_of(std::uint64_t thread, std::uint64_t sequence) noexcept {
    return static_cast<std::uint32_t>(sequence + (thread * 0x9e37'79b9'7f4a'7c15ull >> 48)) % kNodes;
  }
  // Never 0. Nodes whose rows are the same have different tags: their sequence numbers differ, or their
  // threads.
  static std::uint64_t tag_of(std::uint32_t generation, std::uint64_t thread,
                              std::uint64_t sequence) noexcept {
    return (sequence * 0x9fb2'1c65'1e98'df25ull ^ thread * 0xff51'afd7'ed55'8ccdull ^
            generation * 0xc4ce'b9fe'1a85'ec53ull) |
           1;
  }

  Row rows_[kNodes];
};

}  // namespace clusterprof::agent::torch
