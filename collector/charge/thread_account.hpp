// SPDX-License-Identifier: BSD-3-Clause
// Turns the samples of one thread into time on call paths. A sample accounts for the time since the thread's
// previous one: W by the wall clock, of which C by the thread's CPU clock. A sample is called "blocked" if
// the agent took it because the thread did not run (Trigger::kBlocked) and found it in a system call. A
// blocked sample tells where the thread waits, but not where it ran before, so its CPU time is carried to the
// next running sample:
//
//   previous      this          charged
//   running       running       W (C of it CPU) to this
//   running       blocked       W - C to this; C is carried
//   blocked       running       W - C to the previous; C and what was carried to this
//   blocked       blocked       W - C to the previous; C is carried
//   running       running,      C to this. If the thread was seen idle or in I/O in the last half second,
//                   gave way    W - C to that place: waits shorter than the interval between the watcher's
//                               looks, for the GIL for example, are seen only now and then
//   -             thread end    the remainder to the previous, the carried part to the last running one
//
// With the CPU clock as the base, W := C. Counters follow C.
//
// A record taken while recording was paused is like a sample at a place to which nothing is charged. What the
// table would charge to it is dropped, and so are C and the counters since the record before. CPU time that
// was carried goes to the last running sample.
//
// Waiting for a processor. During W - C the thread was either blocked, or ready to run but without a
// processor (R). If it was running at both samples and did not give way in between, it was preempted, and R
// is all of W - C. Otherwise R comes from the kernel's account of the thread (run delay): what the kernel has
// counted and no earlier stretch has been charged. That account is read only now and then, so a preempted
// stretch may run into debt with it. R is subtracted from what the table charges as W, and charged as
// category runnable to the path where the thread waited or ran. A thread that was blocked and runs now waited
// for a processor once when it was woken, and then once for each time it was preempted: R is divided by the
// number of these between the previous path and this one. Inside MPI, R remains time in MPI
// (Sink::runnable_in_mpi). If a stretch was partly in MPI, R is divided by how much of its time on either
// side the thread was ready lately (one that yields in MPI is so for much of that time), and each part goes
// to where the thread ran last on that side.
//
// The sink is also told when the time was spent: a thread that was running ran first and waited afterwards;
// one that was blocked did the opposite.
//
// Page faults. The kernel says how much of C it used itself (counted by ticks, so in lumps of some
// milliseconds) and how many pages faulted. A pool per thread keeps kernel time that has not been explained
// yet. A running sample in a system call takes its charge out of the pool; what remains was not spent in
// system calls. A running sample elsewhere, if pages have faulted since the pool was last empty, charges as
// much of its time to its path's page faults (Sink::page_fault) as the pool holds. The pool may run into
// debt, because a sample in a system call often comes before the tick that shows its time. Without faults,
// the time stays where it was charged: it went to interrupts and the delivery of our own signals.
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
  std::uint32_t row = kNoRow;   // where the sink keeps the amounts of both, if it has told
  std::uint32_t task = kNoRow;  // TaskTimes::row of the asyncio task that runs there
  friend bool operator==(const ChargeTarget&, const ChargeTarget&) = default;
};

// What a sample tells about the kernel's share of the CPU time.
struct KernelUse {
  std::uint64_t system_ns = 0, page_faults = 0;  // since the thread's start; 0 and 0: not known
  bool in_syscall = false;
  bool may_fault = true;          // false: page faults are not separated there
  bool gave_way = false;          // the thread stopped running of its own accord since the last sample
  std::uint32_t preemptions = 0;  // how often its processor was taken away since the last sample
  // Since the thread's start: how long it waited for a processor, as far as that was read; no value: the
  // kernel does not say. And its time inside MPI.
  std::optional<std::uint64_t> run_delay_ns = {};
  std::uint64_t mpi_ns = 0;
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
  // void paused(std::uint64_t wall_ns), void runnable_in_mpi(const Stretch&, std::uint64_t wall_ns),
  // ChargeTarget runnable(const ChargeTarget& of): its path, category runnable; and the same once more by
  // time: void spent(const ChargeTarget&, const Stretch&, std::uint64_t wall_ns), maybe less than the stretch
  // is long, void page_fault_spent(const ChargeTarget& of, ...) likewise, and void counted(std::uint32_t
  // index, const Stretch&, std::uint64_t value). Returns what was charged to the target of a running sample,
  // and how much of it to its page faults.
  struct Charged {
    std::uint64_t wall_ns = 0, cpu_ns = 0, page_fault_ns = 0;
    // Of the time outside MPI since the last sample, if the thread ran at both: without a processor.
    double runnable_share = 0;
    // Before a sample of a blocked thread: how long it had been there. And how long it has waited since the
    // last sample without being seen, where it was seen waiting last.
    std::uint64_t waited_ns = 0, unseen_wait_ns = 0;
    // Between two samples of a blocked thread: how long it waited, where it was seen first or then.
    std::uint64_t between_ns = 0;
  };
  template <typename Sink>
  Charged sample(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, const KernelUse& kernel,
                 const ChargeTarget& target, std::span<const std::uint64_t> counters, Sink&& sink) {
    const std::uint64_t from = time_ns_;
    const auto [wall, cpu] = advance(time_ns, cpu_ns);
    const auto [waited, ran_in] = split(from, cpu, blocked);
    Charged charged;
    take_kernel_time(kernel);
    if (std::exchange(forgets_delay_, false)) forget_run_delay(kernel);
    const bool was_preempted = !blocked_ && !blocked && !kernel.gave_way && !gave_way_;
    const std::uint64_t runnable = take_run_delay(kernel, wall - cpu, was_preempted);
    const std::uint64_t off = wall - cpu - runnable;
    remember_side(target);
    const ChargeTarget& ready_at = blocked_ && blocked ? previous_ : target;
    const std::uint64_t mpi = take_mpi_time(kernel, wall);
    const std::uint64_t runnable_in_mpi = in_mpi(runnable, mpi, {wall, cpu}, ready_at);
    if (!blocked_ && !blocked && !paused_ && has_previous_) readiness_.add(runnable, mpi, wall - mpi);
    if (const std::uint64_t woken = since_woken(runnable, runnable_in_mpi, blocked, kernel, target);
        woken != 0) {
      const std::uint64_t in_mpi_woken = runnable_in_mpi != 0 ? woken : 0;
      charge_runnable(waited, woken, in_mpi_woken, previous_, sink);
      charge_runnable(waited, runnable - woken, runnable_in_mpi - in_mpi_woken, ready_at, sink);
    } else {
      charge_runnable(waited, runnable, runnable_in_mpi, ready_at, sink);
    }
    if (!blocked && !blocked_ && mpi < wall)
      charged.runnable_share =
          std::min(1.0, static_cast<double>(runnable - runnable_in_mpi) / static_cast<double>(wall - mpi));
    if (blocked_) charge_previous(waited, off, 0, sink);
    if (blocked) {
      if (!blocked_) {
        charge(target, waited, off, 0, sink);
        charged.waited_ns = off;
      } else {
        charged.between_ns = off;
      }
      carry(ran_in, cpu);
    } else {
      const bool waited_unseen = !blocked_ && has_waited(kernel, off);
      if (waited_unseen) charge(waited_at_, ran_in, off, 0, sink);
      const std::uint64_t own = blocked_ || waited_unseen ? cpu : wall - runnable;
      const std::uint64_t ran = cpu + carried_ns_;
      const std::uint64_t lasted = own + carried_ns_;
      const std::uint64_t faulted = give_kernel_time(kernel, ran);
      // What is not CPU time was spent in page faults as much as elsewhere.
      const std::uint64_t faulted_wall =
          faulted == 0 ? 0
                       : std::min(lasted, static_cast<std::uint64_t>(static_cast<double>(lasted) /
                                                                     static_cast<double>(ran) *
                                                                     static_cast<double>(faulted)));
      sink(target, lasted - faulted_wall, ran - faulted);
      if (faulted != 0) sink.page_fault(target, faulted_wall, faulted);
      tell_when(target, ran_in, own, faulted_wall, sink);
      charged = {lasted, ran, faulted, charged.runnable_share, 0, waited_unseen ? off : 0};
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
    preemptions_ = 0;
    return charged;
  }

  // A record taken while recording was paused.
  template <typename Sink>
  void pause(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, const KernelUse& kernel,
             std::span<const std::uint64_t> counters, Sink&& sink) {
    const std::uint64_t from = time_ns_;
    const auto [wall, cpu] = advance(time_ns, cpu_ns);
    settle_carried(sink);
    if (blocked_) charge_previous(split(from, cpu, blocked).waited, wall - cpu, 0, sink);
    sink.paused(blocked_ ? cpu : wall);
    forget(kernel);
    forget_run_delay(kernel);
    forget(counters);
    blocked_ = blocked;
    gave_way_ = false;
    preemptions_ = 0;
    paused_ = has_previous_ = true;
  }

  struct End {
    std::uint32_t start_path = 0;
    const KernelUse* kernel = nullptr;
  };

  // A window of recording has ended for the thread, or begun: there is no record, but its CPU time is known.
  // Until it ends, the time goes to where the thread was seen last.
  template <typename Sink>
  void end_window(std::uint64_t time_ns, std::uint64_t cpu_ns, const End& how, Sink&& sink) {
    (void)end(time_ns, cpu_ns, 0, how, {}, sink);
    blocked_ = gave_way_ = false;
    preemptions_ = 0;
    paused_ = has_previous_ = true;
  }
  template <typename Sink>
  void begin_window(std::uint64_t time_ns, std::uint64_t cpu_ns, Sink&& sink) {
    pause(time_ns, cpu_ns, false, {}, {}, sink);
    // It begins like a thread.
    paused_ = has_previous_ = has_run_ = false;
    waited_seen_ns_ = 0;
    forgets_delay_ = true;
  }

  [[nodiscard]] bool has_samples() const noexcept { return has_previous_; }
  // Of the thread's clock, at the last sample or at its end.
  [[nodiscard]] std::uint64_t cpu_ns() const noexcept { return cpu_ns_; }

  // A sample taken because the event of --sample-on occurred. Charges counters; the time is left to the next
  // sample.
  template <typename Sink>
  void event(std::uint64_t time_ns, const KernelUse& kernel, const ChargeTarget& target,
             std::span<const std::uint64_t> counters, Sink&& sink) {
    // The agent tells these once.
    gave_way_ = gave_way_ || kernel.gave_way;
    preemptions_ += kernel.preemptions;
    take_counters(counters, time_ns, sink);
    if (!counters.empty()) give_counters(target, sink);
  }

  // The thread ended. Without a CPU time (it was killed, or lives and this is a provisional account)
  // a thread last seen running is taken to have run for at most `assumed_cpu_ns` of the remainder.
  // A thread that ended before its first sample charges `start_path`. `kernel`: of a thread that told itself
  // that it ended. Returns the CPU time of a thread that was never sampled.
  template <typename Sink>
  std::optional<std::uint64_t> end(std::uint64_t time_ns, std::optional<std::uint64_t> cpu_ns,
                                   std::uint64_t assumed_cpu_ns, const End& how,
                                   std::span<const std::uint64_t> counters, Sink&& sink) {
    if (!cpu_ns) {
      const std::uint64_t remainder = time_ns > time_ns_ ? time_ns - time_ns_ : 0;
      cpu_ns = cpu_ns_ + (blocked_ ? 0 : std::min(remainder, assumed_cpu_ns));
    }
    const std::uint64_t from = time_ns_;
    const auto [wall, cpu] = advance(time_ns, *cpu_ns);
    if (paused_) {
      sink.paused(wall);
      return std::nullopt;
    }
    const auto [waited, ran_in] = split(from, cpu, true);
    const ChargeTarget start{how.start_path, shard::Category::kNative};
    const ChargeTarget ran_at = has_previous_ ? ran_last_at() : start;
    std::uint64_t runnable = 0;
    if (how.kernel != nullptr) {
      const bool was_preempted = !blocked_ && !how.kernel->gave_way && !gave_way_;
      runnable = take_run_delay(*how.kernel, wall - cpu, was_preempted);
      charge_runnable(
          waited, runnable,
          in_mpi(runnable, take_mpi_time(*how.kernel, wall), {wall, cpu}, has_previous_ ? previous_ : start),
          has_previous_ ? previous_ : start, sink);
    }
    const std::uint64_t off = wall - cpu - runnable;
    if (!has_previous_) {
      if (cpu > 0) charge(start, ran_in, cpu, cpu, sink);
      if (off > 0) charge({how.start_path, shard::Category::kIdle}, waited, off, std::uint64_t{0}, sink);
    } else if (blocked_) {
      if (off > 0) charge_previous(waited, off, 0, sink);
      carry(ran_in, cpu);
      settle_carried(sink);
    } else if (wall > 0) {
      charge(previous_, {from, time_ns_}, wall - runnable, cpu, sink);
    }
    take_counters(counters, time_ns_, sink);
    give_counters(ran_at, sink);
    return has_previous_ ? std::nullopt : std::optional(cpu);
  }

 private:
  struct Step {
    std::uint64_t wall_ns, cpu_ns;
  };
  static constexpr std::int64_t kMaxPool_ns = 40'000'000;  // some ticks: what lumps can amount to
  static constexpr std::int64_t kMaxDebt_ns = 200'000'000;
  static constexpr std::uint64_t kFaultWindow_ns = 20'000'000;  // of CPU time: a fault shows up that late
  static constexpr std::uint64_t kMaxPerFault_ns = 500'000;     // clearing a huge page, and to spare
  static constexpr std::uint64_t kMaxFaults = 1u << 20;         // counted at a time

  // Which part of its time inside MPI, and outside, the thread was ready without a processor lately: least
  // squares over stretches of both, which count by their length.
  class Readiness {
   public:
    void add(std::uint64_t ready_ns, std::uint64_t inside_ns, std::uint64_t outside_ns) {
      const auto ready = static_cast<double>(ready_ns), inside = static_cast<double>(inside_ns),
                 outside = static_cast<double>(outside_ns);
      const double all = inside + outside;
      if (all <= 0) return;
      const double weight = std::min(1.0, kLongest_ns / all) / all;
      inside_squares_ += weight * inside * inside, outside_squares_ += weight * outside * outside;
      products_ += weight * inside * outside;
      ready_inside_ += weight * ready * inside, ready_outside_ += weight * ready * outside;
      if (inside_squares_ + outside_squares_ + 2 * products_ < kLately_ns) return;
      for (double* sum : {&inside_squares_, &outside_squares_, &products_, &ready_inside_, &ready_outside_})
        *sum /= 2;
    }
    // The part of what it was ready for that was inside, in a stretch with so much time on either side. Until
    // enough is known, it was ready as much on both sides.
    [[nodiscard]] double part_inside(std::uint64_t inside_ns, std::uint64_t outside_ns) const {
      auto inside = static_cast<double>(inside_ns), outside = static_cast<double>(outside_ns);
      const double even = inside / (inside + outside);
      const double both = inside_squares_ * outside_squares_;
      const double difference = both - products_ * products_;
      if (std::min(inside_squares_, outside_squares_) < kEnough_ns || difference < kDifferent * both)
        return even;
      inside *=
          std::clamp((ready_inside_ * outside_squares_ - ready_outside_ * products_) / difference, 0.0, 1.0);
      outside *=
          std::clamp((ready_outside_ * inside_squares_ - ready_inside_ * products_) / difference, 0.0, 1.0);
      return inside + outside > 0 ? inside / (inside + outside) : even;
    }

   private:
    static constexpr double kLongest_ns = 50e6, kEnough_ns = 50e6, kLately_ns = 1e9;
    static constexpr double kDifferent = 0.1;  // of the stretches among each other
    double inside_squares_ = 0, outside_squares_ = 0, products_ = 0, ready_inside_ = 0, ready_outside_ = 0;
  };

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
      credit_ns_ += std::min(kernel.page_faults - page_faults_, kMaxFaults) * kMaxPerFault_ns;
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
      credit_ns_ = std::min(credit_ns_ - faulted, static_cast<std::uint64_t>(kMaxPool_ns));
      if (!kernel.may_fault) faulted = 0;
    }
    pool_ns_ = std::clamp(pool_ns_, -kMaxDebt_ns, kMaxPool_ns);
    return faulted;
  }

  // How much of `off_ns`, in which the thread did not run, it waited for a processor.
  std::uint64_t take_run_delay(const KernelUse& kernel, std::uint64_t off_ns, bool was_preempted) {
    if (cpu_clock_ || !kernel.run_delay_ns) return 0;
    if (*kernel.run_delay_ns > run_delay_ns_) {
      delay_pool_ns_ += static_cast<std::int64_t>(
          std::min<std::uint64_t>(*kernel.run_delay_ns - run_delay_ns_, kMaxStep_ns));
      run_delay_ns_ = *kernel.run_delay_ns;
    }
    const auto pool_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(delay_pool_ns_, 0));
    const std::uint64_t runnable = was_preempted ? off_ns : std::min(off_ns, pool_ns);
    delay_pool_ns_ -= static_cast<std::int64_t>(std::min(runnable, kMaxStep_ns));
    delay_pool_ns_ = std::clamp(delay_pool_ns_, -kMaxDelayDebt_ns, static_cast<std::int64_t>(kMaxStep_ns));
    return runnable;
  }
  void forget_run_delay(const KernelUse& kernel) {
    run_delay_ns_ = std::max(run_delay_ns_, kernel.run_delay_ns.value_or(0));
    delay_pool_ns_ = 0;
    mpi_ns_ = kernel.mpi_ns;
  }
  // Inside MPI, of the latest stretch.
  std::uint64_t take_mpi_time(const KernelUse& kernel, std::uint64_t wall_ns) {
    const std::uint64_t mpi_ns = kernel.mpi_ns > mpi_ns_ ? kernel.mpi_ns - mpi_ns_ : 0;
    mpi_ns_ = kernel.mpi_ns;
    return std::min(mpi_ns, wall_ns);
  }
  // The part of `runnable_ns`, in a stretch with so much time in MPI, that was inside MPI. Where the thread
  // was blocked at the beginning and is on the other side now, all that it did not run there it was ready;
  // else as Readiness says.
  std::uint64_t in_mpi(std::uint64_t runnable_ns, std::uint64_t mpi_ns, const Step& step,
                       const ChargeTarget& at) const {
    const bool at_mpi = at.category == shard::Category::kMpi;
    if (runnable_ns == 0 || mpi_ns == 0 || !(at_mpi ? outside_at_ : in_mpi_at_))
      return at_mpi ? runnable_ns : 0;
    if (mpi_ns == step.wall_ns) return runnable_ns;
    if (blocked_ && has_previous_) {
      const bool was_in_mpi = previous_.category == shard::Category::kMpi;
      if (was_in_mpi == at_mpi) return at_mpi ? runnable_ns : 0;
      const std::uint64_t here_ns = at_mpi ? mpi_ns : step.wall_ns - mpi_ns;
      const std::uint64_t runnable_here_ns = std::min(runnable_ns, here_ns - std::min(here_ns, step.cpu_ns));
      return at_mpi ? runnable_here_ns : runnable_ns - runnable_here_ns;
    }
    const std::uint64_t outside_ns = step.wall_ns - mpi_ns;
    const double part = static_cast<double>(runnable_ns) * readiness_.part_inside(mpi_ns, outside_ns);
    const std::uint64_t least = runnable_ns - std::min(runnable_ns, outside_ns);
    return std::clamp(static_cast<std::uint64_t>(part), least,
                      std::max(least, std::min(runnable_ns, mpi_ns)));
  }
  // Of `runnable_ns`, what a thread that was blocked and runs at `target` now waited for a processor before
  // it left the place where it was blocked. Where MPI is on one of the sides only, in_mpi() has told that
  // already.
  std::uint64_t since_woken(std::uint64_t runnable_ns, std::uint64_t in_mpi_ns, bool blocked,
                            const KernelUse& kernel, const ChargeTarget& target) const {
    const bool was_in_mpi = previous_.category == shard::Category::kMpi;
    const bool same_side = was_in_mpi == (target.category == shard::Category::kMpi) &&
                           in_mpi_ns == (was_in_mpi ? runnable_ns : 0);
    return blocked_ && !blocked && !paused_ && same_side
               ? runnable_ns / (1 + kernel.preemptions + preemptions_)
               : 0;
  }
  void remember_side(const ChargeTarget& target) {
    std::optional<ChargeTarget>& last = target.category == shard::Category::kMpi ? in_mpi_at_ : outside_at_;
    last = target;
  }
  // Of `runnable_ns`, `in_mpi_ns` inside MPI. `at`: where the thread was when it was ready.
  template <typename Sink>
  void charge_runnable(const Stretch& when, std::uint64_t runnable_ns, std::uint64_t in_mpi_ns,
                       const ChargeTarget& at, Sink&& sink) {
    if (runnable_ns == 0) return;
    if (paused_) {
      sink.paused(runnable_ns);
      return;
    }
    const bool at_mpi = at.category == shard::Category::kMpi;
    if (in_mpi_ns != 0) {
      charge(at_mpi ? at : *in_mpi_at_, when, in_mpi_ns, 0, sink);
      sink.runnable_in_mpi(when, in_mpi_ns);
    }
    if (const std::uint64_t outside_ns = runnable_ns - in_mpi_ns; outside_ns != 0)
      charge(sink.runnable(at_mpi ? *outside_at_ : at), when, outside_ns, 0, sink);
  }

  static constexpr std::int64_t kMaxDelayDebt_ns = 200'000'000;  // between two looks at the kernel's account
  static constexpr std::uint64_t kMaxStep_ns = 1'000'000'000'000;
  static constexpr std::uint64_t kWaitedLately_ns = 500'000'000;
  static constexpr std::uint64_t kShortestWait_ns = 500'000;  // less may be the time of signals

  // Of a running thread that did not run for `off_ns`.
  [[nodiscard]] bool has_waited(const KernelUse& kernel, std::uint64_t off_ns) const {
    return (kernel.gave_way || gave_way_) && kernel.may_fault && off_ns >= kShortestWait_ns &&
           waited_seen_ns_ != 0 && time_ns_ - waited_seen_ns_ <= kWaitedLately_ns;
  }

  // What [from_ns, time_ns_] was made of, to end with a sample of that kind.
  struct Split {
    Stretch waited, ran_in;
  };
  [[nodiscard]] Split split(std::uint64_t from_ns, std::uint64_t cpu_ns, bool blocked) const {
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
    if (carried_count_ < carried_.size()) {
      carried_[carried_count_++] = {when, cpu_ns};
    } else {
      carried_.back().when.end_ns = when.end_ns;
      carried_.back().cpu_ns += cpu_ns;
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
    for (std::size_t i = 0; i < carried_count_; ++i) tell(carried_[i].when, carried_[i].cpu_ns);
    carried_count_ = 0;
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
  // What happened up to now is charged to nothing.
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
  bool gave_way_ = false;          // since the last sample, say events,
  std::uint64_t preemptions_ = 0;  // likewise
  bool paused_ = false;            // at the record before
  // What comes next begins in a pause.
  bool forgets_kernel_ = false, forgets_counters_ = false, forgets_delay_ = false;
  std::uint64_t time_ns_ = 0, cpu_ns_ = 0;
  std::uint64_t carried_ns_ = 0;
  struct CarriedTime {
    Stretch when;
    std::uint64_t cpu_ns = 0;
  };
  // Of what is carried, in order; when there are too many, the last ones in one.
  std::array<CarriedTime, 32> carried_{};
  std::size_t carried_count_ = 0;
  bool knows_kernel_ = false;
  std::uint64_t system_ns_ = 0, page_faults_ = 0;  // as last told
  std::uint64_t fault_seen_ns_ = 0;                // CPU clock
  std::uint64_t credit_ns_ = 0;                    // what the faults seen can explain
  std::int64_t pool_ns_ = 0;
  ChargeTarget previous_, last_running_;
  ChargeTarget waited_at_;            // where it was seen waiting last,
  std::uint64_t waited_seen_ns_ = 0;  // and when; 0: never
  std::uint64_t run_delay_ns_ = 0;    // as last told,
  std::int64_t delay_pool_ns_ = 0;    // and what of it no stretch has had
  std::uint64_t mpi_ns_ = 0;          // inside MPI, at the last record
  Readiness readiness_;
  std::optional<ChargeTarget> in_mpi_at_, outside_at_;  // where it was last on either side
  std::uint64_t counted_ns_ = 0;                        // when counters were read last
  std::uint32_t counter_count_ = 0;
  std::array<std::uint64_t, wire::kMaxCounters> counters_{}, carried_counters_{};
};

}  // namespace clusterprof::collector
