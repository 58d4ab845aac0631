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
//   running       running,      if it waited of its own accord, and was seen idle or in I/O in the last half
//                   gave way    second, W - C to where that was; C to this. Waits that are shorter than the
//                               watcher's looks are far apart (for the GIL, say) are seen now and then only
//   -             thread end    the remainder to the previous, the carried part to the last running one
//
// With the CPU clock as the base, W := C. Counters follow C.
//
// A record taken while recording was paused is like a sample of a place that is nobody's: what the table
// above would charge to it, and C and the counters since the record before it, are nobody's. What was carried
// goes to the last running sample.
//
// When it was is told as well: of W, a thread that was running ran first and waited then, one that was
// blocked the other way round.
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
#include <utility>

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
  bool gave_way = false;  // the thread stopped running of its own accord since the last sample
};

// Times of the monotonic clock.
struct Stretch {
  std::uint64_t begin_ns = 0, end_ns = 0;
};

class ThreadAccount {
 public:
  ThreadAccount() = default;
  ThreadAccount(std::uint64_t start_time_ns, std::uint64_t start_cpu_ns, bool cpu_clock)
      : cpu_clock_(cpu_clock),
        time_ns_(start_time_ns),
        cpu_ns_(start_cpu_ns),
        system_ns_(start_cpu_ns),
        counted_ns_(start_time_ns) {}

  // Sink: void operator()(const ChargeTarget&, std::uint64_t wall_ns, std::uint64_t cpu_ns),
  // void page_fault(const ChargeTarget& of, std::uint64_t wall_ns, std::uint64_t cpu_ns),
  // void counter(const ChargeTarget&, std::uint32_t index, std::uint64_t value),
  // void paused(std::uint64_t wall_ns), and the same once more by time:
  // void spent(const ChargeTarget&, const Stretch&, std::uint64_t wall_ns), maybe less than the stretch is
  // long, void page_fault_spent(const ChargeTarget& of, ...) likewise, and void counted(std::uint32_t index,
  // const Stretch&, std::uint64_t value). Returns what was charged to the target of a running sample, and how
  // much of it to its page faults.
  struct Charged {
    std::uint64_t wall_ns = 0, cpu_ns = 0, page_fault_ns = 0;
  };
  template <typename Sink>
  Charged sample(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, const KernelUse& kernel,
                 const ChargeTarget& target, std::span<const std::uint64_t> counters, Sink&& sink) {
    const std::uint64_t from = time_ns_;
    const auto [wall, cpu] = advance(time_ns, cpu_ns);
    const auto [waited, ran_in] = parts(from, cpu, blocked);
    Charged charged;
    take_kernel_time(kernel);
    if (blocked_) charge_previous(waited, wall - cpu, 0, sink);
    if (blocked) {
      if (!blocked_) charge(target, waited, wall - cpu, 0, sink);
      carry(ran_in, cpu);
    } else {
      const bool waited_unseen = !blocked_ && has_waited(kernel, wall - cpu);
      if (waited_unseen) charge(waited_at_, ran_in, wall - cpu, 0, sink);
      const std::uint64_t own = blocked_ || waited_unseen ? cpu : wall;
      const std::uint64_t ran = cpu + carried_ns_;
      const std::uint64_t lasted = own + carried_ns_;
      const std::uint64_t faulted = give_kernel_time(kernel, ran);
      // A thread that waited for a processor did so in its page faults as much as elsewhere.
      const std::uint64_t faulted_wall =
          faulted == 0 ? 0
                       : std::min(lasted, static_cast<std::uint64_t>(static_cast<double>(lasted) /
                                                                     static_cast<double>(ran) *
                                                                     static_cast<double>(faulted)));
      sink(target, lasted - faulted_wall, ran - faulted);
      if (faulted != 0) sink.page_fault(target, faulted_wall, faulted);
      tell_when(target, ran_in, own, faulted_wall, sink);
      charged = {lasted, ran, faulted};
      last_running_ = target;
      has_run_ = true;
    }
    if (blocked && (target.category == shard::Category::kIdle || target.category == shard::Category::kIo)) {
      waited_at_ = target;
      waited_seen_ns_ = time_ns_;
    }
    take_counters(counters, time_ns_, sink);
    // A sample inside MPI that tells nothing: it was counted before the call.
    if (!blocked && !counters.empty()) give_counters(target, sink);
    blocked_ = blocked;
    previous_ = target;
    has_previous_ = true;
    paused_ = gave_way_ = false;
    return charged;
  }

  // A record of a time in which recording was paused.
  template <typename Sink>
  void pause(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, const KernelUse& kernel,
             std::span<const std::uint64_t> counters, Sink&& sink) {
    const std::uint64_t from = time_ns_;
    const auto [wall, cpu] = advance(time_ns, cpu_ns);
    settle_carried(sink);
    if (blocked_) charge_previous(parts(from, cpu, blocked).waited, wall - cpu, 0, sink);
    sink.paused(blocked_ ? cpu : wall);
    forget(kernel);
    forget(counters);
    blocked_ = blocked;
    gave_way_ = false;
    paused_ = has_previous_ = true;
  }

  // The event that is sampled on occurred: counters grew there, the time is left to the next sample.
  template <typename Sink>
  void event(std::uint64_t time_ns, bool gave_way, const ChargeTarget& target,
             std::span<const std::uint64_t> counters, Sink&& sink) {
    gave_way_ = gave_way_ || gave_way;  // the agent tells it once
    take_counters(counters, time_ns, sink);
    if (!counters.empty()) give_counters(target, sink);
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
    const std::uint64_t from = time_ns_;
    const auto [wall, cpu] = advance(time_ns, *cpu_ns);
    if (paused_) {
      sink.paused(wall);
      return;
    }
    const auto [waited, ran_in] = parts(from, cpu, true);
    const ChargeTarget ran_at = ran_last_at();
    if (!has_previous_) {
      if (cpu > 0) charge(ChargeTarget{}, ran_in, cpu, cpu, sink);
      if (wall > cpu)
        charge(ChargeTarget{0, shard::Category::kIdle}, waited, wall - cpu, std::uint64_t{0}, sink);
    } else if (blocked_) {
      if (wall > cpu) charge_previous(waited, wall - cpu, 0, sink);
      carry(ran_in, cpu);
      settle_carried(sink);
    } else if (wall > 0) {
      charge(previous_, {from, time_ns_}, wall, cpu, sink);
    }
    take_counters(counters, time_ns_, sink);
    give_counters(ran_at, sink);
  }

 private:
  static constexpr std::int64_t kMostPool_ns = 40'000'000;  // some ticks: what lumps can amount to
  static constexpr std::int64_t kMostDebt_ns = 200'000'000;
  static constexpr std::uint64_t kFaultWindow_ns = 20'000'000;  // of CPU time: a fault shows up that late
  static constexpr std::uint64_t kMostPerFault_ns = 500'000;    // clearing a huge page, and to spare
  static constexpr std::uint64_t kMostFaults = 1u << 20;        // counted at a time

  void take_kernel_time(const KernelUse& kernel) {
    if (forgets_kernel_) {
      forget(kernel);
      return;
    }
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
  static constexpr std::uint64_t kWaitedLately_ns = 500'000'000;
  static constexpr std::uint64_t kShortestWait_ns = 500'000;  // less may be the time of signals

  // Of a running thread that did not run for `off_ns`.
  [[nodiscard]] bool has_waited(const KernelUse& kernel, std::uint64_t off_ns) const {
    return (kernel.gave_way || gave_way_) && kernel.may_fault && off_ns >= kShortestWait_ns &&
           waited_seen_ns_ != 0 && time_ns_ - waited_seen_ns_ <= kWaitedLately_ns;
  }

  // What [from_ns, time_ns_] was made of, to end with a sample of that kind.
  struct Parts {
    Stretch waited, ran_in;
  };
  [[nodiscard]] Parts parts(std::uint64_t from_ns, std::uint64_t cpu_ns, bool blocked) const {
    const Stretch all{from_ns, time_ns_};
    if (cpu_clock_) return {all, all};
    if (blocked_) return {{from_ns, time_ns_ - cpu_ns}, {time_ns_ - cpu_ns, time_ns_}};
    if (blocked) return {{from_ns + cpu_ns, time_ns_}, {from_ns, from_ns + cpu_ns}};
    return {all, all};
  }
  template <typename Sink>
  static void charge(const ChargeTarget& target, const Stretch& when, std::uint64_t wall_ns,
                     std::uint64_t cpu_ns, Sink&& sink) {
    sink(target, wall_ns, cpu_ns);
    sink.spent(target, when, wall_ns);
  }
  template <typename Sink>
  void charge_previous(const Stretch& when, std::uint64_t wall_ns, std::uint64_t cpu_ns, Sink&& sink) const {
    if (paused_) {
      sink.paused(wall_ns);
    } else {
      charge(previous_, when, wall_ns, cpu_ns, sink);
    }
  }
  [[nodiscard]] ChargeTarget ran_last_at() const {
    return has_run_ ? last_running_ : has_previous_ && !paused_ ? previous_ : ChargeTarget{};
  }

  // CPU time that waits for the next sample that shows the thread running.
  void carry(const Stretch& when, std::uint64_t cpu_ns) {
    if (cpu_ns == 0) return;
    carried_ns_ += cpu_ns;
    if (pieces_count_ < pieces_.size()) {
      pieces_[pieces_count_++] = {when, cpu_ns};
    } else {
      pieces_.back().when.end_ns = when.end_ns;
      pieces_.back().cpu_ns += cpu_ns;
    }
  }
  // When the thread ran: own_ns in the latest stretch, and what was carried. Of it all, faulted_ns were page
  // faults.
  template <typename Sink>
  void tell_when(const ChargeTarget& target, const Stretch& ran_in, std::uint64_t own_ns,
                 std::uint64_t faulted_ns, Sink&& sink) {
    const auto tell = [&](const Stretch& when, std::uint64_t ns) {
      const std::uint64_t faulted = std::min(ns, faulted_ns);
      faulted_ns -= faulted;
      if (faulted != 0) sink.page_fault_spent(target, when, faulted);
      if (ns != faulted) sink.spent(target, when, ns - faulted);
    };
    tell(ran_in, own_ns);
    for (std::size_t i = 0; i < pieces_count_; ++i) tell(pieces_[i].when, pieces_[i].cpu_ns);
    pieces_count_ = 0;
    carried_ns_ = 0;
  }
  // What was carried goes to where the thread ran last.
  template <typename Sink>
  void settle_carried(Sink&& sink) {
    const ChargeTarget ran_at = ran_last_at();
    if (carried_ns_ != 0) {
      sink(ran_at, carried_ns_, carried_ns_);
      tell_when(ran_at, {}, 0, 0, sink);
    }
    give_counters(ran_at, sink);
  }
  // What happened up to now is nobody's.
  void forget(const KernelUse& kernel) {
    forgets_kernel_ = kernel.system_ns == 0 && kernel.page_faults == 0;
    if (forgets_kernel_) return;
    knows_kernel_ = true;
    system_ns_ = std::max(system_ns_, kernel.system_ns);
    page_faults_ = std::max(page_faults_, kernel.page_faults);
  }
  void forget(std::span<const std::uint64_t> counters) {
    for (std::size_t i = 0; i < std::min(counters.size(), counters_.size()); ++i)
      counters_[i] = std::max(counters_[i], counters[i]);
    forgets_counters_ = counters.empty();
    counted_ns_ = time_ns_;
  }

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
  template <typename Sink>
  void take_counters(std::span<const std::uint64_t> values, std::uint64_t time_ns, Sink&& sink) {
    if (values.empty()) return;
    const Stretch when{counted_ns_, std::max(counted_ns_, time_ns)};
    counted_ns_ = when.end_ns;
    const std::size_t count = std::min<std::size_t>(values.size(), wire::kMaxCounters);
    const bool forgets = std::exchange(forgets_counters_, false);
    for (std::size_t i = 0; i < count; ++i) {
      if (values[i] <= counters_[i]) continue;
      const std::uint64_t counted = values[i] - counters_[i];
      counters_[i] = values[i];
      if (forgets) continue;
      carried_counters_[i] += counted;
      sink.counted(static_cast<std::uint32_t>(i), when, counted);
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
  bool gave_way_ = false;                                   // since the last sample, says an event
  bool paused_ = false;                                     // at the record before
  bool forgets_kernel_ = false, forgets_counters_ = false;  // what comes next begins in a pause
  std::uint64_t time_ns_ = 0, cpu_ns_ = 0;
  std::uint64_t carried_ns_ = 0;
  struct Piece {
    Stretch when;
    std::uint64_t cpu_ns = 0;
  };
  // Of what is carried, in order; when there are too many, the last ones in one.
  std::array<Piece, 32> pieces_{};
  std::size_t pieces_count_ = 0;
  bool knows_kernel_ = false;
  std::uint64_t system_ns_ = 0, page_faults_ = 0;  // as last told
  std::uint64_t fault_seen_ns_ = 0;                // CPU clock
  std::uint64_t credit_ns_ = 0;                    // what the faults seen can explain
  std::int64_t pool_ns_ = 0;
  ChargeTarget previous_, last_running_;
  ChargeTarget waited_at_;            // where it was seen waiting last,
  std::uint64_t waited_seen_ns_ = 0;  // and when; 0: never
  std::uint64_t counted_ns_ = 0;      // when counters were read last
  std::uint32_t counter_count_ = 0;
  std::array<std::uint64_t, wire::kMaxCounters> counters_{}, carried_counters_{};
};

}  // namespace clusterprof::collector
