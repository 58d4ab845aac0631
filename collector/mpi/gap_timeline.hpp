// SPDX-License-Identifier: BSD-3-Clause
// Combines the MPI events and the samples of one thread, which come from two rings. The time between two
// calls with events is called a gap; samples tell on which call paths outside MPI the gap was spent.
//
// A sample accounts for the time before it, so an event waits until a sample from after the beginning of its
// call has been read. If too many events wait, the oldest goes on with what is known. So memory is bounded
// even if one ring is far behind the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "collector/mpi/event_log.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::collector {

// The call paths on which a thread spent an interval of time. Each may be kNoPath.
struct IntervalPaths {
  std::uint32_t without_call;  // if no MPI call began in the interval
  std::uint32_t before_call;   // else until the first call began
  std::uint32_t after_call;    // and after that
  double ran = 0;              // the share of the interval that it was on a processor
};
inline constexpr std::uint32_t kNoPath = 0xffff'ffffu;

class GapTimeline {
 public:
  static constexpr std::size_t kMaxPathsOfGap = 8;  // those with the longest times, unless told otherwise
  static constexpr std::size_t kMaxWaiting = 4096;  // events

  explicit GapTimeline(std::uint64_t start_ns = 0, std::size_t most_paths = kMaxPathsOfGap)
      : most_paths_(most_paths), sampled_until_ns_(start_ns), call_{start_ns, start_ns, 0} {}

  // `sink`, here and below: void(const wire::MpiEvent&, std::span<const GapPathTime>), events in order; the
  // gap comes with the first event of its call. The next event, in order of exit_ns.
  template <typename Sink>
  void event(const wire::MpiEvent& event, Sink&& sink) {
    const bool same_call = any_call_ && event.enter_ns == call_.enter_ns && event.exit_ns == call_.exit_ns;
    if (same_call && waiting_.empty()) {  // its call has gone on already
      sink(event, std::span<const GapPathTime>());
      return;
    }
    events_.push_back(event);
    if (same_call) {
      ++waiting_.back().events;
    } else {
      begin_call(event);
    }
    while (!waiting_.empty() &&
           (waiting_.front().enter_ns <= sampled_until_ns_ || events_.size() > kMaxWaiting)) {
      pass_on(sink);
    }
  }

  // Samples say that the thread spent `share` of the interval on these paths, as far as it was outside MPI.
  // Intervals come in order of time. What it ran in an interval with calls, it ran outside of these first: a
  // thread that computes between two calls may sleep in them.
  void spent(std::uint64_t begin_ns, std::uint64_t end_ns, const IntervalPaths& paths, double share = 1) {
    bool one_gap = true;
    for (const Call& call : waiting_)
      one_gap = one_gap && (call.enter_ns <= begin_ns || call.enter_ns >= end_ns);
    std::uint32_t path = one_gap ? paths.without_call : paths.before_call;
    const double ran = ran_outside(begin_ns, end_ns, paths.ran);
    for (Call& call : waiting_) {
      if (call.gap_begin_ns >= end_ns) return;
      if (path != kNoPath)
        charge(call.path_times, share_of(overlap(begin_ns, end_ns, call.gap_begin_ns, call.enter_ns), share),
               path, ran);
      if (!one_gap && call.enter_ns > begin_ns) path = paths.after_call;
    }
    if (path == kNoPath) return;
    begin_ns = std::max(begin_ns, call_.exit_ns);
    if (begin_ns >= end_ns) return;
    if (!open_.empty() && open_.back().path == path && open_.back().end_ns == begin_ns &&
        open_.back().share == share) {
      Interval& last = open_.back();
      const auto before = static_cast<double>(last.end_ns - last.begin_ns);
      const auto added = static_cast<double>(end_ns - begin_ns);
      last.ran = (last.ran * before + ran * added) / (before + added);
      last.end_ns = end_ns;
      return;
    }
    if (open_.size() == kMaxOpen) {
      // Long before any call that the latest samples may lie in.
      const auto old = open_.begin() + kMaxOpen / 2;
      for (auto it = open_.begin(); it != old; ++it)
        charge(settled_, share_of(it->end_ns - it->begin_ns, it->share), it->path, it->ran);
      open_.erase(open_.begin(), old);
    }
    open_.push_back({begin_ns, end_ns, path, share, ran});
  }

  // All samples up to this time have been read.
  template <typename Sink>
  void sampled_until(std::uint64_t time_ns, Sink&& sink) {
    sampled_until_ns_ = std::max(sampled_until_ns_, time_ns);
    while (!waiting_.empty() && waiting_.front().enter_ns <= sampled_until_ns_) pass_on(sink);
  }

  // There will be no more samples.
  template <typename Sink>
  void flush(Sink&& sink) {
    while (!waiting_.empty()) pass_on(sink);
  }

  // Of the latest event; the next one must not be before it.
  [[nodiscard]] std::uint64_t last_exit_ns() const noexcept { return call_.exit_ns; }

 private:
  static constexpr std::size_t kMaxOpen = 64;
  static constexpr std::size_t kMaxPathsOfOpenGap = 256;

  struct Interval {
    std::uint64_t begin_ns, end_ns;
    std::uint32_t path;
    double share, ran;
  };
  struct Call {  // one that waits for samples
    std::uint64_t gap_begin_ns, enter_ns;
    std::uint64_t outside_ns;  // of the gap, by the thread's clock of MPI time
    std::uint32_t events;
    std::vector<GapPathTime> path_times;
  };
  struct LatestCall {
    std::uint64_t enter_ns, exit_ns, mpi_ns;
  };

  static std::uint64_t overlap(std::uint64_t begin_a, std::uint64_t end_a, std::uint64_t begin_b,
                               std::uint64_t end_b) {
    const std::uint64_t begin = std::max(begin_a, begin_b), end = std::min(end_a, end_b);
    return begin < end ? end - begin : 0;
  }
  static std::uint64_t share_of(std::uint64_t ns, double share) {
    return share == 1 ? ns : static_cast<std::uint64_t>(static_cast<double>(ns) * share);
  }
  // ran: the share of `ns` that the thread was on a processor.
  static void charge(std::vector<GapPathTime>& path_times, std::uint64_t ns, std::uint32_t path, double ran);
  // Of the time of an interval outside MPI, as far as its calls are known, if it ran for `ran` of it all.
  [[nodiscard]] double ran_outside(std::uint64_t begin_ns, std::uint64_t end_ns, double ran) const;
  void begin_call(const wire::MpiEvent& event);
  // Of the oldest call that waits: keeps the paths with the longest times, longest first. They must not sum
  // up to more than the thread's clock says.
  void finish_gap();

  template <typename Sink>
  void pass_on(Sink&& sink) {
    finish_gap();
    const Call& call = waiting_.front();
    for (std::uint32_t i = 0; i < call.events; ++i) {
      sink(events_.front(),
           i == 0 ? std::span<const GapPathTime>(call.path_times) : std::span<const GapPathTime>());
      events_.pop_front();
    }
    waiting_.pop_front();
  }

  std::size_t most_paths_;
  std::deque<wire::MpiEvent> events_;  // of the calls in waiting_, in order
  std::deque<Call> waiting_;
  std::uint64_t sampled_until_ns_;
  bool any_call_ = false;
  LatestCall call_;  // after which the open gap begins
  std::vector<Interval> open_;
  std::vector<GapPathTime> settled_;  // older time of the open gap
};

// Decides which stretches of time the samples of a thread account for. Without an MPI call between two
// samples, the rules of ThreadAccount hold. With one, the thread was at the first sample's place until the
// call, and at the second one's after it. A sample inside MPI tells only where the thread was before: until
// the call it ran or waited as it was last seen.
class SampledTime {
 public:
  struct SampledPath {
    std::uint32_t path = kNoPath;
    bool outside_mpi = false;
  };

  explicit SampledTime(std::uint64_t start_ns = 0, std::uint64_t start_cpu_ns = 0)
      : time_ns_(start_ns), cpu_ns_(start_cpu_ns) {}

  // visit(begin_ns, end_ns, IntervalPaths), in order of time.
  template <typename Visit>
  void sample(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, SampledPath sampled, Visit&& visit) {
    const std::uint64_t begin = time_ns_, end = std::max(time_ns_, time_ns);
    const std::uint64_t ran = std::min(cpu_ns > cpu_ns_ ? cpu_ns - cpu_ns_ : 0, end - begin);
    const std::uint32_t previous = path_of(previous_), here = path_of(sampled), running = path_of(running_);
    const auto tell = [&](std::uint64_t from, std::uint64_t to, const IntervalPaths& paths) {
      if (from < to) visit(from, to, paths);
    };
    if (here == kNoPath) {
      tell(begin, end, {previous, previous, kNoPath, ran_as_last_seen()});
    } else if (blocked_) {
      tell(begin, end - ran, {previous, previous, here, 0});
      const std::uint32_t ran_at = blocked ? running : here;
      tell(end - ran, end, {ran_at, ran_at, here, 1});
    } else if (blocked) {
      tell(begin, begin + ran, {running, running, here, 1});
      tell(begin + ran, end, {here, running, here, 0});
    } else {
      const double all = static_cast<double>(std::max<std::uint64_t>(end - begin, 1));
      tell(begin, end, {here, here, here, static_cast<double>(ran) / all});
    }
    time_ns_ = end;
    cpu_ns_ = std::max(cpu_ns_, cpu_ns);
    blocked_ = blocked;
    previous_ = sampled;
    if (!blocked) running_ = sampled;
  }
  template <typename Visit>
  void end(std::uint64_t time_ns, Visit&& visit) {
    const std::uint32_t previous = path_of(previous_);
    if (time_ns_ < time_ns)
      visit(time_ns_, time_ns, IntervalPaths{previous, previous, kNoPath, ran_as_last_seen()});
    time_ns_ = std::max(time_ns_, time_ns);
  }

 private:
  static std::uint32_t path_of(const SampledPath& sampled) {
    return sampled.outside_mpi ? sampled.path : kNoPath;
  }
  [[nodiscard]] double ran_as_last_seen() const { return blocked_ ? 0 : 1; }

  std::uint64_t time_ns_, cpu_ns_;
  bool blocked_ = false;
  SampledPath previous_, running_;
};

}  // namespace clusterprof::collector
