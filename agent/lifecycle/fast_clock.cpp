// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/fast_clock.h"

#include <cstring>

#include "agent/lifecycle/proc_files.h"
#include "agent/lifecycle/signal_mask.h"

namespace clusterprof::agent {

constinit FastClock g_fast_clock = {std::uint64_t{1} << 32, false, ~std::uint64_t{0}, ~std::uint64_t{0}};
constinit ShortClock g_short_clock = {};

namespace {

struct Reading {
  std::uint64_t tick, ns;
};

constinit Reading g_start = {}, g_last = {};  // g_start.ns 0: there is none

enum class CounterUse : std::uint32_t { kNotAsked = 0, kByKernel, kNone };
constinit std::atomic<CounterUse> g_counter_use = CounterUse::kNotAsked;

// Two readings of the counter around that of the other clock: their mean is when that was read, unless the
// thread lost its processor in between. The closest pair of some counts.
Reading read_both() noexcept {
  Reading best = {};
  std::uint64_t closest = ~std::uint64_t{0};
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t before = __builtin_ia32_rdtsc();
    const std::uint64_t ns = monotonic_ns();
    const std::uint64_t apart = __builtin_ia32_rdtsc() - before;
    if (apart >= closest) continue;
    closest = apart;
    best = {before + apart / 2, ns};
  }
  return best;
}

// The readings are wrong by some 20 ns. A program may begin a region in its first millisecond. So the length
// is measured early, and again when the time since the start has doubled, until that is seconds: an interval
// is never wrong by more than two readings, however long it was.
constexpr std::uint64_t kShortestNs = 100'000;
constexpr std::uint64_t kAgainAfterNs = 1'000'000'000;

std::uint64_t ticks_in(std::uint64_t ns, std::uint64_t scale) noexcept {
  return static_cast<std::uint64_t>((WideNumber{ns} << 32) / scale);
}

// Nanoseconds per tick, times 2^32. 0: it is too early to tell.
std::uint64_t scale_until(const Reading& now) noexcept {
  if (g_start.ns == 0 || now.ns < g_start.ns + kShortestNs || now.tick <= g_start.tick) return 0;
  const WideNumber scaled = static_cast<WideNumber>(now.ns - g_start.ns) << 32;
  return static_cast<std::uint64_t>(scaled / (now.tick - g_start.tick));
}

std::uint64_t again_after(const Reading& now, std::uint64_t scale) noexcept {
  const std::uint64_t measured = now.tick - g_start.tick, longest = ticks_in(kAgainAfterNs, scale);
  return now.tick + (measured < longest ? measured : longest);
}

bool measure_tick(const Reading& now) noexcept {
  const std::uint64_t scale = scale_until(now);
  if (scale == 0) return false;
  g_fast_clock.scale.store(scale, std::memory_order_relaxed);
  g_fast_clock.again = again_after(now, scale);
  g_fast_clock.others_again.store(g_fast_clock.again, std::memory_order_relaxed);
  g_last = now;
  return true;
}

bool kernel_uses_counter() noexcept {
  char name[32] = {};
  const std::uint32_t bytes = read_small_file(
      "/sys/devices/system/clocksource/clocksource0/current_clocksource", name, sizeof name - 1);
  return bytes >= 3 && memcmp(name, "tsc", 3) == 0 && (bytes == 3 || name[3] == '\n');
}

}  // namespace

void start_fast_clock() noexcept { g_start = {__builtin_ia32_rdtsc(), monotonic_ns()}; }

// In the program's handlers, too. Two threads may come here together: what each stores is right.
[[gnu::cold, gnu::noinline]] void measure_short_clock() noexcept {
  const CounterUse use = g_counter_use.load(std::memory_order_relaxed);
  if (use == CounterUse::kNone || g_start.ns == 0 || monotonic_ns() < g_start.ns + kShortestNs) return;
  if (use == CounterUse::kNotAsked) {
    const std::uint64_t mask = block_all_signals();  // a handler might jump out and leave the file open
    const bool uses = kernel_uses_counter();
    restore_signals(mask);
    g_counter_use.store(uses ? CounterUse::kByKernel : CounterUse::kNone, std::memory_order_relaxed);
    if (!uses) return;
  }
  const Reading now = read_both();
  const std::uint64_t scale = scale_until(now);
  if (scale == 0) return;
  g_short_clock.again.store(again_after(now, scale), std::memory_order_relaxed);
  g_short_clock.scale.store(scale, std::memory_order_relaxed);
}

[[gnu::cold, gnu::noinline]] std::uint64_t measured_ns(std::uint64_t begin_tick,
                                                       std::uint64_t end_tick) noexcept {
  measure_short_clock();
  const std::uint64_t scale = g_short_clock.scale.load(std::memory_order_relaxed);
  return static_cast<std::uint64_t>(static_cast<WideNumber>(fast_between(begin_tick, end_tick)) * scale >>
                                    32);
}

void choose_fast_clock() noexcept {
  g_fast_clock.counts_ticks = kernel_uses_counter() && measure_tick(read_both());
  if (g_fast_clock.counts_ticks) return;
  g_fast_clock.again = ~std::uint64_t{0};
  g_fast_clock.others_again.store(~std::uint64_t{0}, std::memory_order_relaxed);
}

[[gnu::cold, gnu::noinline]] void measure_fast_clock() noexcept { measure_tick(read_both()); }

// What several threads store at a time is right each time. g_last is the main thread's.
[[gnu::cold, gnu::noinline]] void measure_fast_clock_elsewhere() noexcept {
  const Reading now = read_both();
  const std::uint64_t scale = scale_until(now);
  if (scale == 0) return;
  g_fast_clock.scale.store(scale, std::memory_order_relaxed);
  g_fast_clock.others_again.store(again_after(now, scale), std::memory_order_relaxed);
}

[[gnu::cold, gnu::noinline]] std::uint64_t fast_now_without_counter() noexcept { return monotonic_ns(); }

std::uint64_t monotonic_at(std::uint64_t tick) noexcept {
  if (!g_fast_clock.counts_ticks) return tick;
  return tick >= g_last.tick ? g_last.ns + fast_ns(tick - g_last.tick)
                             : g_last.ns - fast_ns(g_last.tick - tick);
}

}  // namespace clusterprof::agent
