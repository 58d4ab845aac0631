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

// Several threads may do this at a time: what each stores is right. False: it is too early.
bool measure_tick(const Reading& now, std::atomic<std::uint64_t>& scale,
                  std::atomic<std::uint64_t>& again) noexcept {
  const std::uint64_t measured = scale_until(now);
  if (measured == 0) return false;
  again.store(again_after(now, measured), std::memory_order_relaxed);
  scale.store(measured, std::memory_order_relaxed);
  return true;
}

bool measure_tick_of_main(const Reading& now) noexcept {
  if (!measure_tick(now, g_fast_clock.scale, g_fast_clock.others_again)) return false;
  g_fast_clock.again = g_fast_clock.others_again.load(std::memory_order_relaxed);
  g_last = now;
  return true;
}

// Whether the kernel keeps its own time by the counter. Looks once.
bool kernel_uses_counter() noexcept {
  CounterUse use = g_counter_use.load(std::memory_order_relaxed);
  if (use == CounterUse::kNotAsked) {
    char name[32] = {};
    const std::uint64_t mask = block_all_signals();  // a handler might jump out and leave the file open
    const std::uint32_t bytes = read_small_file(
        "/sys/devices/system/clocksource/clocksource0/current_clocksource", name, sizeof name - 1);
    restore_signals(mask);
    const bool uses = bytes >= 3 && memcmp(name, "tsc", 3) == 0 && (bytes == 3 || name[3] == '\n');
    use = uses ? CounterUse::kByKernel : CounterUse::kNone;
    g_counter_use.store(use, std::memory_order_relaxed);
  }
  return use == CounterUse::kByKernel;
}

}  // namespace

void start_fast_clock() noexcept { g_start = {__builtin_ia32_rdtsc(), monotonic_ns()}; }

// In the program's handlers, too. Looks at no file before there is anything to measure.
[[gnu::cold, gnu::noinline]] void measure_short_clock() noexcept {
  if (g_start.ns == 0 || monotonic_ns() < g_start.ns + kShortestNs || !kernel_uses_counter()) return;
  measure_tick(read_both(), g_short_clock.scale, g_short_clock.again);
}

[[gnu::cold, gnu::noinline]] std::uint64_t measured_ns(std::uint64_t begin_tick,
                                                       std::uint64_t end_tick) noexcept {
  measure_short_clock();
  return ns_of(fast_between(begin_tick, end_tick), g_short_clock.scale);
}

void choose_fast_clock() noexcept {
  g_fast_clock.counts_ticks = kernel_uses_counter() && measure_tick_of_main(read_both());
  if (g_fast_clock.counts_ticks) return;
  g_fast_clock.again = ~std::uint64_t{0};
  g_fast_clock.others_again.store(~std::uint64_t{0}, std::memory_order_relaxed);
}

[[gnu::cold, gnu::noinline]] void measure_fast_clock() noexcept { measure_tick_of_main(read_both()); }

[[gnu::cold, gnu::noinline]] void measure_fast_clock_elsewhere() noexcept {
  measure_tick(read_both(), g_fast_clock.scale, g_fast_clock.others_again);
}

[[gnu::cold, gnu::noinline]] std::uint64_t fast_now_without_counter() noexcept { return monotonic_ns(); }

std::uint64_t monotonic_at(std::uint64_t tick) noexcept {
  if (!g_fast_clock.counts_ticks) return tick;
  return tick >= g_last.tick ? g_last.ns + fast_ns(tick - g_last.tick)
                             : g_last.ns - fast_ns(g_last.tick - tick);
}

}  // namespace clusterprof::agent
