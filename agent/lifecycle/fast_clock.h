// SPDX-License-Identifier: BSD-3-Clause
// A clock for intervals of tens of nanoseconds. Reading CLOCK_MONOTONIC takes 22 ns, the processor's time
// stamp counter 10 ns: of the latter a region's beginning and end take little more than 20. The counter is
// used where the kernel itself keeps its time by it, because then all processors count alike.
#pragma once

#include <atomic>
#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

__extension__ using WideNumber = unsigned __int128;

struct FastClock {
  std::atomic<std::uint64_t> scale;  // ns per tick, times 2^32
  bool counts_ticks;                 // false: a tick is a nanosecond of CLOCK_MONOTONIC
};
extern FastClock g_fast_clock;

inline std::uint64_t fast_now() noexcept {
  return g_fast_clock.counts_ticks ? __builtin_ia32_rdtsc() : monotonic_ns();
}
inline std::uint64_t fast_ns(std::uint64_t ticks) noexcept {
  const std::uint64_t scale = g_fast_clock.scale.load(std::memory_order_relaxed);
  return static_cast<std::uint64_t>(static_cast<WideNumber>(ticks) * scale >> 32);
}
// Processors' counters may differ by some ticks.
inline std::uint64_t fast_between(std::uint64_t begin, std::uint64_t end) noexcept {
  return end > begin ? end - begin : 0;
}

// When the agent starts: the first reading of the counter.
void start_fast_clock() noexcept;
// Before the first use. One thread, once.
void choose_fast_clock() noexcept;
// Measures the length of a tick again, if that was a second ago. The main thread only, which may then ask for
// the time of CLOCK_MONOTONIC at a tick not far from now.
void adjust_fast_clock(std::uint64_t now) noexcept;
std::uint64_t monotonic_at(std::uint64_t tick) noexcept;

}  // namespace clusterprof::agent
