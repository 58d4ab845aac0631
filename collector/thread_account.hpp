// SPDX-License-Identifier: BSD-3-Clause
// How the samples of one thread become time on call paths. A sample accounts for the time since the
// thread's previous one (W by the wall clock, C of it by the thread's CPU clock). Call a sample
// "blocked" when the agent's watcher took it because the thread did not run (Trigger::kBlocked) and
// found it in a system call. Such a sample tells where the thread waits, not where it ran before, so
// with one the CPU time is carried to the next sample that shows the thread running:
//
//   previous      this          charged
//   running       running       W (C of it CPU) to this
//   running       blocked       W - C to this; C is carried
//   blocked       running       W - C to the previous; C and what was carried to this
//   blocked       blocked       W - C to the previous; C is carried
//   -             thread end    the remainder to the previous, the carried part to the last running one
//
// With the CPU clock as the base, W := C. Counters follow C.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "formats/shard/shard_data.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

// Where time goes: a node of the RawStore and what the thread did there.
struct ChargeTarget {
  std::uint32_t path = 0;
  shard::Category category = shard::Category::kNative;
  friend bool operator==(const ChargeTarget&, const ChargeTarget&) = default;
};

class ThreadAccount {
 public:
  ThreadAccount() = default;
  ThreadAccount(std::uint64_t start_time_ns, std::uint64_t start_cpu_ns, bool cpu_clock)
      : cpu_clock_(cpu_clock), time_ns_(start_time_ns), cpu_ns_(start_cpu_ns) {}

  // Sink: void operator()(const ChargeTarget&, std::uint64_t wall_ns, std::uint64_t cpu_ns) and
  // void counter(const ChargeTarget&, std::uint32_t index, std::uint64_t value).
  template <typename Sink>
  void sample(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, const ChargeTarget& target,
              std::span<const std::uint64_t> counters, Sink&& sink) {
    const auto [wall, cpu] = advance(time_ns, cpu_ns);
    if (blocked_) sink(previous_, wall - cpu, std::uint64_t{0});
    if (blocked) {
      if (!blocked_) sink(target, wall - cpu, std::uint64_t{0});
      carried_ns_ += cpu;
    } else {
      const std::uint64_t ran = cpu + carried_ns_;
      sink(target, (blocked_ ? cpu : wall) + carried_ns_, ran);
      carried_ns_ = 0;
      last_running_ = target;
      has_run_ = true;
    }
    take_counters(counters);
    if (!blocked) give_counters(target, sink);
    blocked_ = blocked;
    previous_ = target;
    has_previous_ = true;
  }

  // The thread ended. Without a CPU time (it was killed, or lives and this is a provisional account)
  // a thread last seen running is taken to have run for at most `assumed_cpu_ns` of the remainder.
  // A thread that ended before its first sample charges path 0.
  template <typename Sink>
  void end(std::uint64_t time_ns, std::optional<std::uint64_t> cpu_ns, std::uint64_t assumed_cpu_ns,
           std::span<const std::uint64_t> counters, Sink&& sink) {
    if (!cpu_ns) {
      const std::uint64_t remainder = time_ns > time_ns_ ? time_ns - time_ns_ : 0;
      cpu_ns = cpu_ns_ + (blocked_ ? 0 : std::min(remainder, assumed_cpu_ns));
    }
    const auto [wall, cpu] = advance(time_ns, *cpu_ns);
    const ChargeTarget root{};
    const ChargeTarget ran_at = has_run_ ? last_running_ : has_previous_ ? previous_ : root;
    if (!has_previous_) {
      if (cpu > 0) sink(root, cpu, cpu);
      if (wall > cpu) sink(ChargeTarget{0, shard::Category::kIdle}, wall - cpu, std::uint64_t{0});
    } else if (blocked_) {
      if (wall > cpu) sink(previous_, wall - cpu, std::uint64_t{0});
      if (cpu + carried_ns_ > 0) sink(ran_at, cpu + carried_ns_, cpu + carried_ns_);
    } else if (wall > 0) {
      sink(previous_, wall, cpu);
    }
    carried_ns_ = 0;
    take_counters(counters);
    give_counters(ran_at, sink);
  }

 private:
  struct Step {
    std::uint64_t wall_ns, cpu_ns;
  };
  // The time since the last call; clocks that go backwards count as standing still.
  Step advance(std::uint64_t time_ns, std::uint64_t cpu_ns) {
    std::uint64_t wall = time_ns > time_ns_ ? time_ns - time_ns_ : 0;
    const std::uint64_t cpu = std::min(cpu_ns > cpu_ns_ ? cpu_ns - cpu_ns_ : 0, wall);
    if (cpu_clock_) wall = cpu;
    time_ns_ = std::max(time_ns_, time_ns);
    cpu_ns_ = std::max(cpu_ns_, cpu_ns);
    return {wall, cpu};
  }
  void take_counters(std::span<const std::uint64_t> values) {
    const std::size_t count = std::min<std::size_t>(values.size(), wire::kMaxCounters);
    for (std::size_t i = 0; i < count; ++i) {
      if (values[i] > counters_[i]) {
        carried_counters_[i] += values[i] - counters_[i];
        counters_[i] = values[i];
      }
    }
    counter_count_ = std::max(counter_count_, static_cast<std::uint32_t>(count));
  }
  template <typename Sink>
  void give_counters(const ChargeTarget& target, Sink&& sink) {
    for (std::uint32_t i = 0; i < counter_count_; ++i) {
      if (carried_counters_[i] == 0) continue;
      sink.counter(target, i, carried_counters_[i]);
      carried_counters_[i] = 0;
    }
  }

  bool cpu_clock_ = false;
  bool blocked_ = false;
  bool has_previous_ = false, has_run_ = false;
  std::uint64_t time_ns_ = 0, cpu_ns_ = 0;
  std::uint64_t carried_ns_ = 0;
  ChargeTarget previous_, last_running_;
  std::uint32_t counter_count_ = 0;
  std::array<std::uint64_t, wire::kMaxCounters> counters_{}, carried_counters_{};
};

}  // namespace clusterprof::collector
