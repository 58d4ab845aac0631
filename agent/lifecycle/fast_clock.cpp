// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/fast_clock.h"

#include <cstring>

#include "agent/lifecycle/proc_files.h"

namespace clusterprof::agent {

constinit FastClock g_fast_clock = {std::uint64_t{1} << 32, false};

namespace {

struct Reading {
  std::uint64_t tick, ns;
};

constinit Reading g_start = {}, g_last = {};

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

// The readings are wrong by some 20 ns: after this time that is less than a part in 10,000.
constexpr std::uint64_t kShortestNs = 1'000'000;
constexpr std::uint64_t kAgainAfterNs = 1'000'000'000;

bool measure_tick(const Reading& now) noexcept {
  if (now.ns < g_start.ns + kShortestNs || now.tick <= g_start.tick) return false;
  const WideNumber scaled = static_cast<WideNumber>(now.ns - g_start.ns) << 32;
  g_fast_clock.scale.store(static_cast<std::uint64_t>(scaled / (now.tick - g_start.tick)),
                           std::memory_order_relaxed);
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

void choose_fast_clock() noexcept {
  g_fast_clock.counts_ticks = kernel_uses_counter() && measure_tick(read_both());
}

void adjust_fast_clock(std::uint64_t now) noexcept {
  if (!g_fast_clock.counts_ticks || fast_ns(fast_between(g_last.tick, now)) < kAgainAfterNs) return;
  measure_tick(read_both());
}

std::uint64_t monotonic_at(std::uint64_t tick) noexcept {
  if (!g_fast_clock.counts_ticks) return tick;
  return tick >= g_last.tick ? g_last.ns + fast_ns(tick - g_last.tick)
                             : g_last.ns - fast_ns(g_last.tick - tick);
}

}  // namespace clusterprof::agent
