// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/waits/wait_search.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace clusterprof::aggregator::waits {
namespace {

using shard::WaitKind;

class Search {
 public:
  Search(const Trace& trace, const Matches& matches, const ClockModel& clocks)
      : trace_(trace), matches_(matches), clocks_(clocks) {}

  Waits run() {
    find_late_members();
    out_.of_call.assign(trace_.events.size(), kNone);
    for (const Lane& lane : trace_.lanes) {
      for (std::uint32_t e = lane.first; e < lane.end;) {
        const std::uint32_t end = trace_.call_end(e);
        std::optional<Wait> longest;
        for (std::uint32_t i = e; i < end; ++i) {
          const std::optional<Wait> wait = wait_of(i);
          if (wait && (!longest || ends_later(*wait, *longest))) longest = wait;
        }
        if (longest) {
          out_.of_call[e] = static_cast<std::uint32_t>(out_.waits.size());
          out_.waits.push_back(*longest);
        }
        e = end;
      }
    }
    return std::move(out_);
  }

 private:
  // Finds for each member of a collective operation the member that it had to wait for.
  void find_late_members() {
    waits_for_.assign(matches_.members.size(), kNone);
    out_.last_member.assign(matches_.instances.size(), kNone);
    for (std::size_t i = 0; i < matches_.instances.size(); ++i) {
      const Instance& instance = matches_.instances[i];
      if (!instance.whole) continue;
      std::uint32_t last = kNone, last_but_root = kNone, root = kNone;
      const auto later = [&](std::uint32_t a, std::uint32_t b) {  // of equal ones, the lower rank
        return b == kNone || Matches::arrival_ns(trace_, matches_.members[a]) >
                                 Matches::arrival_ns(trace_, matches_.members[b])
                   ? a
                   : b;
      };
      const Sync sync = trace_.ops[instance.op].sync;
      for (std::uint32_t m = instance.first; m < instance.first + instance.count; ++m) {
        last = later(m, last);
        if (matches_.members[m].rank == instance.root)
          root = m;
        else
          last_but_root = later(m, last_but_root);
      }
      out_.last_member[i] = last;
      if (sync == Sync::kScan) {
        by_place_.resize(instance.count);
        std::iota(by_place_.begin(), by_place_.end(), instance.first);
        std::sort(by_place_.begin(), by_place_.end(), [&](std::uint32_t a, std::uint32_t b) {
          return matches_.members[a].is_before(matches_.members[b]);
        });
        std::uint32_t last_before = kNone;
        for (const std::uint32_t m : by_place_) {
          waits_for_[m] = last_before;
          last_before = later(m, last_before);
        }
        continue;
      }
      for (std::uint32_t m = instance.first; m < instance.first + instance.count; ++m) {
        if (sync == Sync::kBarrier || sync == Sync::kNxN)
          waits_for_[m] = last;
        else if (sync == Sync::kOneToAll)
          waits_for_[m] = root;
        else if (sync == Sync::kAllToOne && m == root)
          waits_for_[m] = last_but_root;
      }
    }
  }

  static WaitKind kind_of(Sync sync) {
    switch (sync) {
      case Sync::kBarrier:
        return WaitKind::kWaitAtBarrier;
      case Sync::kNxN:
        return WaitKind::kWaitAtNxN;
      case Sync::kOneToAll:
        return WaitKind::kLateBroadcast;
      case Sync::kAllToOne:
        return WaitKind::kEarlyReduce;
      case Sync::kScan:
        break;
    }
    return WaitKind::kEarlyScan;
  }

  // If both end at the same time (MPI_Sendrecv), the receive counts, since the call surely waited for it: a
  // send may be buffered.
  static bool ends_later(const Wait& a, const Wait& b) {
    return a.end_ns != b.end_ns ? a.end_ns > b.end_ns
                                : a.kind == WaitKind::kLateSender && b.kind == WaitKind::kLateReceiver;
  }

  // The call that a thread entered next after it had started an operation at that time.
  std::uint32_t call_after(std::uint32_t e, std::int64_t started_ns) const {
    return trace_.first_entered_until(e, started_ns);
  }

  std::optional<Wait> wait_of(std::uint32_t e) const {
    const Event& event = trace_.events[e];
    if (event.match == kNone) return {};
    switch (event.kind) {
      case MpiEventKind::kReceive:
      case MpiEventKind::kProbe:
        return wait(e, event.match, trace_.events[event.match].enter_ns, WaitKind::kLateSender);
      case MpiEventKind::kSend:
        if ((event.flags & wire::kEventNonblocking) != 0) return {};
        return late_receiver(e, event.match);
      case MpiEventKind::kSendDone:
        return late_receiver(e, trace_.events[event.match].match);
      case MpiEventKind::kCollectiveStart:
        return {};
      case MpiEventKind::kCollective:
      case MpiEventKind::kCollectiveDone:
        break;
    }
    const Instance& instance = matches_.instances[event.match];
    if (!instance.whole) return {};
    const std::uint32_t own = matches_.member_of(instance, trace_.lanes[event.lane].rank);
    const std::uint32_t late = own == kNone ? kNone : waits_for_[own];
    if (late == kNone || late == own) return {};
    const Member& member = matches_.members[late];
    const std::int64_t late_ns = Matches::arrival_ns(trace_, member);
    return wait(e, call_after(member.arrival, late_ns), late_ns, kind_of(trace_.ops[instance.op].sync));
  }

  std::optional<Wait> late_receiver(std::uint32_t e, std::uint32_t receive) const {
    if (receive == kNone) return {};
    // A send that ended before its receive was posted did not wait for it.
    const std::int64_t posted_ns = trace_.events[receive].start_ns;
    if (trace_.events[e].exit_ns < posted_ns) return {};
    return wait(e, call_after(receive, posted_ns), posted_ns, WaitKind::kLateReceiver);
  }

  std::optional<Wait> wait(std::uint32_t e, std::uint32_t cause, std::int64_t late_ns, WaitKind kind) const {
    const Event& event = trace_.events[e];
    Wait wait;
    wait.event = e;
    wait.cause = cause;
    wait.begin_ns = event.enter_ns;
    wait.end_ns = std::min(late_ns, event.exit_ns);
    wait.late_ns = late_ns;
    wait.kind = kind;
    if (wait.end_ns <= wait.begin_ns) return {};
    const std::uint32_t here = trace_.lanes[event.lane].node;
    const std::uint32_t there = trace_.lanes[trace_.events[cause].lane].node;
    if (here != there && wait.end_ns - wait.begin_ns <= clocks_.error_ns(here, there)) return {};
    return wait;
  }

  const Trace& trace_;
  const Matches& matches_;
  const ClockModel& clocks_;
  std::vector<std::uint32_t> waits_for_;
  std::vector<std::uint32_t> by_place_;  // members of a scan
  Waits out_;
};

}  // namespace

Waits find_waits(const Trace& trace, const Matches& matches, const ClockModel& clocks) {
  return Search(trace, matches, clocks).run();
}

}  // namespace clusterprof::aggregator::waits
