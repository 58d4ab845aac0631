// SPDX-License-Identifier: BSD-3-Clause
// Each thread is sampled at its own phase within the period. If all ranks and threads of a node were sampled
// at the same instants, they would all wait for the same locks of the kernel at the same time.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

// In [0, period_ns). pid: 0 for the process that is the rank. Multiples of an irrational number are spread
// evenly over a circle, however many there are.
constexpr std::uint64_t phase_ns(std::uint64_t period_ns, std::int32_t rank, std::int32_t pid,
                                 std::uint32_t thread) noexcept {
  constexpr std::uint64_t kGoldenRatio = 0x9e37'79b9'7f4a'7c15ull;  // fractions of 2^64
  constexpr std::uint64_t kSqrt2 = 0x6a09'e667'f3bc'c909ull, kSqrt3 = 0xbb67'ae85'84ca'a73bull;
  const std::uint64_t turn = static_cast<std::uint64_t>(rank) * kGoldenRatio +
                             static_cast<std::uint64_t>(pid) * kSqrt3 + thread * kSqrt2;
  return (turn >> 32) * period_ns >> 32;  // a period is little more than a second, below 2^32 ns
}

}  // namespace clusterprof::agent
