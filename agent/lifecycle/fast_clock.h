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
  // When to measure the length of a tick again: for the main thread, and for all others.
  std::uint64_t again;
  std::atomic<std::uint64_t> others_again;
};
extern FastClock g_fast_clock;
std::uint64_t fast_now_without_counter() noexcept;

inline std::uint64_t fast_now() noexcept {
  if (g_fast_clock.counts_ticks) [[likely]]
    return __builtin_ia32_rdtsc();
  return fast_now_without_counter();
}
inline std::uint64_t ns_of(std::uint64_t ticks, const std::atomic<std::uint64_t>& scale) noexcept {
  return static_cast<std::uint64_t>(WideNumber{ticks} * scale.load(std::memory_order_relaxed) >> 32);
}
inline std::uint64_t fast_ns(std::uint64_t ticks) noexcept { return ns_of(ticks, g_fast_clock.scale); }
// Processors' counters may differ by some ticks.
inline std::uint64_t fast_between(std::uint64_t begin, std::uint64_t end) noexcept {
  return end > begin ? end - begin : 0;
}

// For intervals of which most are shorter than this. They begin by the counter, if the length of a tick is
// known by then. Others should begin by CLOCK_MONOTONIC, and end by it: 22 ns more are little to them, and no
// length of a tick is as exact. That is measured over all the time since the agent has started, and again at
// the end of an interval that was not short after all: so the error stays below that of one reading of both,
// some 20 ns.
inline constexpr std::uint64_t kShortIntervalNs = 20'000;

struct ShortClock {
  std::atomic<std::uint64_t> scale;  // ns per tick, times 2^32; 0: not known
  std::atomic<std::uint64_t> again;  // when to measure it again, by the counter
};
extern ShortClock g_short_clock;
void measure_short_clock() noexcept;  // now
std::uint64_t measured_ns(std::uint64_t begin_tick, std::uint64_t end_tick) noexcept;

inline Moment begin_interval(bool is_short) noexcept {
  if (is_short) {
    if (g_short_clock.scale.load(std::memory_order_relaxed) != 0) return {__builtin_ia32_rdtsc(), true};
    measure_short_clock();
  }
  return {monotonic_ns(), false};
}

// The present, as the end of intervals.
class IntervalEnd {
 public:
  IntervalEnd() noexcept {
    if (g_short_clock.scale.load(std::memory_order_relaxed) == 0) return;
    tick_ = __builtin_ia32_rdtsc();
    if (tick_ >= g_short_clock.again.load(std::memory_order_relaxed)) [[unlikely]]
      measure_short_clock();
  }
  [[nodiscard]] std::uint64_t ns_since(const Moment& begin) noexcept {
    if (!begin.in_ticks) return fast_between(begin.at, ns());
    const std::uint64_t lasted_ns = ns_of(fast_between(begin.at, tick_), g_short_clock.scale);
    return lasted_ns < kShortIntervalNs ? lasted_ns : measured_ns(begin.at, tick_);
  }
  // CLOCK_MONOTONIC.
  [[nodiscard]] std::uint64_t ns() noexcept { return ns_ != 0 ? ns_ : ns_ = monotonic_ns(); }

 private:
  std::uint64_t tick_ = 0, ns_ = 0;
};

// When the agent starts: the first reading of the counter.
void start_fast_clock() noexcept;
// Before the first use. One thread, once.
void choose_fast_clock() noexcept;
// Measures the length of a tick again, if it is time for that. The main thread only, which may then ask for
// the time of CLOCK_MONOTONIC at a tick not far from now.
void measure_fast_clock() noexcept;
void measure_fast_clock_elsewhere() noexcept;
inline void adjust_fast_clock(std::uint64_t now) noexcept {
  if (now >= g_fast_clock.again) [[unlikely]]
    measure_fast_clock();
}
// Any thread, while the main thread may be long in a region.
inline void adjust_fast_clock_elsewhere(std::uint64_t now) noexcept {
  if (now >= g_fast_clock.others_again.load(std::memory_order_relaxed)) [[unlikely]]
    measure_fast_clock_elsewhere();
}
std::uint64_t monotonic_at(std::uint64_t tick) noexcept;

}  // namespace clusterprof::agent
