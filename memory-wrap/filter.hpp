// SPDX-License-Identifier: BSD-3-Clause
// Tells whether a block may have been recorded: a counter for each hashed address. With bits that only ever
// become set, an allocator that hands the same addresses out again would soon make all answers "maybe".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace clusterprof::memory_wrap {

inline constexpr unsigned kFilterBits = 20;
inline constexpr std::size_t kFilterBytes = std::size_t{1} << kFilterBits;
inline constexpr std::uint8_t kFilterFull = 0xff;  // such a counter has lost count, and stays

using Filter = std::atomic<std::uint8_t>[kFilterBytes];

// Blocks follow each other in steps of small multiples of powers of two. This factor, which was searched for,
// spreads all of these; the usual one, the golden ratio, does not do so with those of a mebibyte.
inline constexpr std::uint64_t kFilterFactor = 0xe409'3df8'432a'8be5;

inline std::size_t filter_place(const void* address) noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(address) >> 4;
  return (number * kFilterFactor) >> (64 - kFilterBits);
}

[[gnu::always_inline]] inline bool filter_may_have(const Filter& filter, const void* address) noexcept {
  return filter[filter_place(address)].load(std::memory_order_relaxed) != 0;
}

inline void filter_add(Filter& filter, const void* address) noexcept {
  std::atomic<std::uint8_t>& counter = filter[filter_place(address)];
  std::uint8_t count = counter.load(std::memory_order_relaxed);
  while (count != kFilterFull && !counter.compare_exchange_weak(count, static_cast<std::uint8_t>(count + 1),
                                                                std::memory_order_relaxed)) {
  }
}

inline void filter_remove(Filter& filter, const void* address) noexcept {
  std::atomic<std::uint8_t>& counter = filter[filter_place(address)];
  std::uint8_t count = counter.load(std::memory_order_relaxed);
  while (count != kFilterFull && count != 0 &&
         !counter.compare_exchange_weak(count, static_cast<std::uint8_t>(count - 1),
                                        std::memory_order_relaxed)) {
  }
}

}  // namespace clusterprof::memory_wrap
