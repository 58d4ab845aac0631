// SPDX-License-Identifier: BSD-3-Clause
// How the samples of one thread become time on call paths. A sample accounts for the time since the
// thread's previous one (W by the wall clock, C of it by the thread's CPU clock). Call a sample
// "blocked" when the agent took it because the thread did not run (Trigger::kBlocked) and
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
//
// Page faults. The kernel says how much of C was its own (by the tick, so in lumps of some milliseconds) and
// how many pages faulted. Per thread a pool keeps the kernel's time that has no place yet: a running sample
// in a system call takes what it is charged out of the pool, and what is left is what was done without being
// called. A running sample elsewhere, with faults since the pool was last empty, gives its path's page faults
// (Sink::page_fault) as much of its charge as the pool has. The pool may run into debt, since the sample in a
// system call often comes before the tick that shows its time. Without faults, time in the pool stays where
// it was charged: interrupts, and the delivery of our own signals.
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
  static constexpr std::uint32_t kNoRow = 0xffff'ffffu;
  std::uint32_t path = 0;
  shard::Category category = shard::Category::kNative;
  std::uint32_t row = kNoRow;  // where the sink keeps the amounts of the two, if it says so
  friend bool operator==(const ChargeTarget&, const ChargeTarget&) = default;
};

// What a sample tells about the kernel's part in the CPU time.
struct KernelUse {
  std::uint64_t system_ns = 0, page_faults = 0;  // since the thread's start; 0 and 0: not known
  bool in_syscall = false;
  bool may_fault = true;  // false: page faults are not told apart there
};

class ThreadAccount {
 public:
  ThreadAccount() = default;
  ThreadAccount(std::uint64_t start_time_ns, std::uint64_t start_cpu_ns, bool cpu_clock)
      : cpu_clock_(cpu_clock), time_ns_(start_time_ns), cpu_ns_(start_cpu_ns), system_ns_(start_cpu_ns) {}

  // Sink: void operator()(const ChargeTarget&, std::uint64_t wall_ns, std::uint64_t cpu_ns),
  // void page_fault(const ChargeTarget& of, std::uint64_t ns), of wall and CPU time, and
  // void counter(const ChargeTarget&, std::uint32_t index, std::uint64_t value).
  // Returns what was charged to the target of a running sample, and how much of it to its page faults.
  struct Charged {
    std::uint64_t wall_ns = 0, cpu_ns = 0, page_fault_ns = 0;
  };
  template <typename Sink>
  Charged sample(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, const KernelUse& kernel,
                 const ChargeTarget& target, std::span<const std::uint64_t> counters, Sink&& sink) {
    const auto [wall, cpu] = advance(time_ns, cpu_ns);
    Charged charged;
    take_kernel_time(kernel);
    if (blocked_) sink(previous_, wall - cpu, std::uint64_t{0});
    if (blocked) {
      if (!blocked_) sink(target, wall - cpu, std::uint64_t{0});
      carried_ns_ += cpu;
    } else {
      const std::uint64_t ran = cpu + carried_ns_;
      const std::uint64_t lasted = (blocked_ ? cpu : wall) + carried_ns_;
      const std::uint64_t faulted = give_kernel_time(kernel, ran);
      sink(target, lasted - faulted, ran - faulted);
      if (faulted != 0) sink.page_fault(target, faulted);
      charged = {lasted, ran, faulted};
      carried_ns_ = 0;
      last_running_ = target;
      has_run_ = true;
    }
    take_counters(counters);
    if (!blocked) give_counters(target, sink);
    blocked_ = blocked;
    previous_ = target;
    has_previous_ = true;
    return charged;
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
  static constexpr std::int64_t kMostPool_ns = 40'000'000;  // some ticks: what lumps can amount to
  static constexpr std::int64_t kMostDebt_ns = 200'000'000;
  static constexpr std::uint64_t kFaultWindow_ns = 20'000'000;  // of CPU time: a fault shows up that late
  static constexpr std::uint64_t kMostPerFault_ns = 500'000;    // clearing a huge page, and to spare
  static constexpr std::uint64_t kMostFaults = 1u << 20;        // counted at a time

  void take_kernel_time(const KernelUse& kernel) {
    if (kernel.system_ns > system_ns_) {
      pool_ns_ +=
          static_cast<std::int64_t>(std::min<std::uint64_t>(kernel.system_ns - system_ns_, kMaxStep_ns));
      system_ns_ = kernel.system_ns;
    }
    if (!knows_kernel_ && (kernel.system_ns != 0 || kernel.page_faults != 0)) {
      // What was before the account began; its CPU time bounds it.
      knows_kernel_ = true;
      system_ns_ = kernel.system_ns;
    }
    if (kernel.page_faults > page_faults_) {
      credit_ns_ += std::min(kernel.page_faults - page_faults_, kMostFaults) * kMostPerFault_ns;
      credit_ns_ = std::min(credit_ns_, kMaxStep_ns);
      page_faults_ = kernel.page_faults;
      fault_seen_ns_ = cpu_ns_;
    }
  }
  // How much of `ran_ns` were page faults.
  std::uint64_t give_kernel_time(const KernelUse& kernel, std::uint64_t ran_ns) {
    std::uint64_t faulted = 0;
    if (kernel.in_syscall) {
      pool_ns_ -= static_cast<std::int64_t>(std::min(ran_ns, kMaxStep_ns));
    } else if (credit_ns_ == 0 || cpu_ns_ - fault_seen_ns_ > kFaultWindow_ns) {
      pool_ns_ = std::min<std::int64_t>(pool_ns_, 0);
      credit_ns_ = 0;
    } else if (pool_ns_ > 0) {
      faulted = std::min({static_cast<std::uint64_t>(pool_ns_), ran_ns, credit_ns_});
      pool_ns_ -= static_cast<std::int64_t>(faulted);
      credit_ns_ = std::min(credit_ns_ - faulted, static_cast<std::uint64_t>(kMostPool_ns));
      if (!kernel.may_fault) faulted = 0;
    }
    pool_ns_ = std::clamp(pool_ns_, -kMostDebt_ns, kMostPool_ns);
    return faulted;
  }

  static constexpr std::uint64_t kMaxStep_ns = 1'000'000'000'000;

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
  bool knows_kernel_ = false;
  std::uint64_t system_ns_ = 0, page_faults_ = 0;  // as last told
  std::uint64_t fault_seen_ns_ = 0;                // CPU clock
  std::uint64_t credit_ns_ = 0;                    // what the faults seen can explain
  std::int64_t pool_ns_ = 0;
  ChargeTarget previous_, last_running_;
  std::uint32_t counter_count_ = 0;
  std::array<std::uint64_t, wire::kMaxCounters> counters_{}, carried_counters_{};
};

}  // namespace clusterprof::collector
