// SPDX-License-Identifier: BSD-3-Clause
// Clocks that advance while the program has paused recording. All times are those of the clock of recorded
// time (wire::RecordedClock), so what is between windows of recording is no pause.
#pragma once

#include <atomic>
#include <cstdint>

namespace clusterprof::agent {

// Of a process. One word, so that a reader sees all of a change: what the clock says or, while it runs, how
// far the recorded time is ahead of it. Any thread reads; changes exclude each other.
class PauseClock {
 public:
  [[nodiscard]] std::uint64_t at(std::uint64_t recorded_ns) const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    if ((word & kRuns) == 0) return word;
    const std::uint64_t ahead_ns = word & ~kRuns;
    return recorded_ns > ahead_ns ? recorded_ns - ahead_ns : 0;
  }
  void restart(std::uint64_t recorded_ns, bool paused) noexcept {
    word_.store(paused ? kRuns | recorded_ns : 0, std::memory_order_relaxed);
  }
  void pause(std::uint64_t recorded_ns) noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    if ((word & kRuns) != 0) return;
    word_.store(kRuns | (recorded_ns > word ? recorded_ns - word : 0), std::memory_order_relaxed);
  }
  void resume(std::uint64_t recorded_ns) noexcept { word_.store(at(recorded_ns), std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kRuns = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> word_;
};

// With --only-regions, of a thread: the time outside of all regions that is not in pauses of the process. On
// the thread itself. `paused_ns`: what the process's clock says then.
struct OutsideClock {
  std::uint64_t sum_ns, since_ns, paused_then_ns;  // since_ns 0: it is inside, or was never seen inside
  std::uint64_t entered_ns;                        // when it last went inside (CLOCK_MONOTONIC)

  [[nodiscard]] std::uint64_t at(std::uint64_t recorded_ns, std::uint64_t paused_ns) const noexcept {
    if (since_ns == 0 || recorded_ns <= since_ns) return sum_ns;
    const std::uint64_t outside_ns = recorded_ns - since_ns, in_pauses_ns = paused_ns - paused_then_ns;
    return sum_ns + (outside_ns > in_pauses_ns ? outside_ns - in_pauses_ns : 0);
  }
  void leave(std::uint64_t recorded_ns, std::uint64_t paused_ns) noexcept {
    since_ns = recorded_ns;
    paused_then_ns = paused_ns;
  }
  void enter(std::uint64_t recorded_ns, std::uint64_t paused_ns, std::uint64_t now_ns) noexcept {
    sum_ns = at(recorded_ns, paused_ns);
    since_ns = 0;
    entered_ns = now_ns;
  }
};

// What calls tell of these clocks, of one thread. Another thread may pause or resume while a call is under
// way; still all of a call counts as paused, or nothing does.
struct PausesOfCalls {
  std::uint64_t before_ns, resumed_ns;  // as the call began
  std::uint64_t in_calls_ns;            // what the clocks have too much, modulo 2^64

  void begin(std::uint64_t clock_ns, std::uint64_t last_resumed_ns) noexcept {
    before_ns = clock_ns;
    resumed_ns = last_resumed_ns;
  }
  // How long the thread had been paused as the call began. A clock that is read while it changes may be some
  // nanoseconds behind.
  [[nodiscard]] std::uint64_t paused_ns() const noexcept {
    const auto paused_ns = static_cast<std::int64_t>(before_ns - in_calls_ns);
    return paused_ns > 0 ? static_cast<std::uint64_t>(paused_ns) : 0;
  }
  void end(std::uint64_t clock_ns, std::uint64_t call_ns, bool paused) noexcept {
    in_calls_ns += clock_ns - before_ns - (paused ? call_ns : 0);
  }
};

}  // namespace clusterprof::agent
