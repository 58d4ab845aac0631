// SPDX-License-Identifier: BSD-3-Clause
// Replays the matched events on a network where transfers take no time (ideal_ns), walks the critical path
// back from the end of the run, and sums up useful and waiting time in windows. Formulas: docs/metrics.md,
// "Critical path, ideal network, windows".
#include "aggregator/waits/replay.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace clusterprof::aggregator::waits {
namespace {

constexpr std::int64_t kNotYet = std::numeric_limits<std::int64_t>::min();

// The sum of times in a damaged file may overflow.
std::int64_t later_by(std::int64_t time_ns, std::int64_t ns) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(time_ns, ns, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

// Runs each thread until it needs something that another thread has not done yet, then runs that thread.
class Replay {
 public:
  Replay(const Trace& trace, const Matches& matches)
      : trace_(trace),
        matches_(matches),
        entered_(trace.events.size(), kNotYet),
        arrived_(matches.instances.size()),
        states_(trace.lanes.size()) {}

  std::uint64_t run() {
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
    for (const Lane& lane : trace_.lanes) first_ns = std::min(first_ns, lane.begin_ns);
    std::int64_t end_ns = 0;
    for (std::uint32_t l = 0; l < trace_.lanes.size(); ++l) {
      states_[l].next = trace_.lanes[l].first;
      // A rank's or thread's later start is not caused by the network.
      states_[l].clock_ns = trace_.lanes[l].begin_ns - first_ns;
      ready_.push_back(l);
    }
    while (!ready_.empty()) {
      const std::uint32_t lane = ready_.back();
      ready_.pop_back();
      while (step(lane)) {
      }
    }
    for (std::uint32_t l = 0; l < trace_.lanes.size(); ++l) {
      if (states_[l].next != trace_.lanes[l].end) return 0;
      end_ns =
          std::max(end_ns, later_by(states_[l].clock_ns,
                                    interval_before(trace_, trace_.lanes[l], trace_.lanes[l].end).ran_ns));
    }
    return static_cast<std::uint64_t>(end_ns);
  }

 private:
  struct State {
    std::uint32_t next = 0;     // first event of the next call
    bool inside = false;        // it was entered
    std::uint32_t waiting = 0;  // event of it whose operation is looked at; those before are over
    std::int64_t clock_ns = 0, done_ns = 0;
  };
  struct Arrived {
    std::uint32_t members = 0;
    std::int64_t last_ns = 0;
  };
  // A scan: the ranks that arrived, in order, up to the first one that has not.
  struct Scan {
    std::vector<std::uint32_t> members, position;  // rows of Instance; the inverse of it
    std::vector<std::int64_t> last_ns;             // per position: when the last came of those up to there
    std::uint32_t there = 0;                       // positions before have come
  };

  void wake(std::unordered_multimap<std::uint32_t, std::uint32_t>& waiting, std::uint32_t what) {
    const auto [begin, end] = waiting.equal_range(what);
    for (auto row = begin; row != end; ++row) ready_.push_back(row->second);
    waiting.erase(begin, end);
  }

  // Returns false when the lane is at its end or has to wait.
  bool step(std::uint32_t l) {
    const Lane& lane = trace_.lanes[l];
    State& state = states_[l];
    if (state.next == lane.end) return false;
    const std::uint32_t end = trace_.call_end(state.next);
    if (!state.inside) {
      // The clock of a thread without a known start begins with its first event.
      if (lane.thread == 0 || state.next != lane.first)
        state.clock_ns = later_by(state.clock_ns, interval_before(trace_, lane, state.next).ran_ns);
      state.inside = true;
      state.waiting = state.next;
      state.done_ns = state.clock_ns;
      for (std::uint32_t e = state.next; e < end; ++e) enter(e, state.clock_ns);
    }
    for (; state.waiting < end; ++state.waiting) {
      const std::int64_t ns = completes(l, state.waiting);
      if (ns == kNotYet) return false;
      state.done_ns = std::max(state.done_ns, ns);
    }
    state.clock_ns = state.done_ns;
    state.next = end;
    state.inside = false;
    return true;
  }

  void enter(std::uint32_t e, std::int64_t clock_ns) {
    entered_[e] = clock_ns;
    wake(waiting_for_event_, e);
    const Event& event = trace_.events[e];
    if (event.kind < MpiEventKind::kCollective || event.match == kNone) return;
    const Instance& instance = matches_.instances[event.match];
    const std::uint32_t row = matches_.member_of(instance, trace_.lanes[event.lane].rank);
    if (row == kNone || matches_.members[row].arrival != e) return;
    Arrived& arrived = arrived_[event.match];
    arrived.last_ns = std::max(arrived.last_ns, clock_ns);
    if (++arrived.members == instance.count) wake(waiting_for_instance_, event.match);
    if (trace_.ops[instance.op].sync != Sync::kScan || !instance.whole) return;
    Scan& scan = scan_of(event.match);
    for (; scan.there < instance.count; ++scan.there) {
      const std::uint32_t member = instance.first + scan.members[scan.there];
      const std::int64_t ns = entered_[matches_.members[member].arrival];
      if (ns == kNotYet) return;
      scan.last_ns[scan.there] = scan.there == 0 ? ns : std::max(ns, scan.last_ns[scan.there - 1]);
      wake(waiting_for_scan_, member);
    }
  }

  Scan& scan_of(std::uint32_t row) {
    const auto [entry, added] = scans_.try_emplace(row);
    Scan& scan = entry->second;
    if (!added) return scan;
    const Instance& instance = matches_.instances[row];
    scan.members.resize(instance.count);
    std::iota(scan.members.begin(), scan.members.end(), 0u);
    std::sort(scan.members.begin(), scan.members.end(), [&](std::uint32_t a, std::uint32_t b) {
      return matches_.members[instance.first + a].is_before(matches_.members[instance.first + b]);
    });
    scan.position.resize(instance.count);
    for (std::uint32_t i = 0; i < instance.count; ++i) scan.position[scan.members[i]] = i;
    scan.last_ns.resize(instance.count);
    return scan;
  }

  // Returns the replay's time of a moment of the run (run_ns) before event e of the lane. kNotYet: the lane
  // has not got there; l is woken when it has.
  std::int64_t time_of(std::uint32_t l, std::uint32_t e, std::int64_t run_ns) {
    const std::uint32_t next = std::min(e, trace_.first_entered(trace_.lanes[trace_.events[e].lane], run_ns));
    if (entered_[next] == kNotYet) {
      waiting_for_event_.emplace(next, l);
      return kNotYet;
    }
    const Lane& lane = trace_.lanes[trace_.events[next].lane];
    const std::uint32_t call = trace_.call_begin(next);
    const std::int64_t ran_ns = interval_before(trace_, lane, call).ran_ns;
    return entered_[next] - std::clamp<std::int64_t>(trace_.events[next].enter_ns - run_ns, 0, ran_ns);
  }

  // Returns when the operation of this event completes; kNotYet: the lane has to wait for that.
  std::int64_t completes(std::uint32_t l, std::uint32_t e) {
    const Event& event = trace_.events[e];
    const std::int64_t own_ns = entered_[e];
    if (event.match == kNone) return own_ns;
    switch (event.kind) {
      case MpiEventKind::kReceive:
      case MpiEventKind::kProbe:
        if (entered_[event.match] != kNotYet) return entered_[event.match];
        waiting_for_event_.emplace(event.match, l);
        return kNotYet;
      case MpiEventKind::kSend:
      case MpiEventKind::kSendDone: {
        const bool send = event.kind == MpiEventKind::kSend;
        if ((event.flags & wire::kEventSynchronous) == 0 ||
            (send && (event.flags & wire::kEventNonblocking) != 0))
          return own_ns;
        const std::uint32_t receive = send ? event.match : trace_.events[event.match].match;
        return receive == kNone ? own_ns : time_of(l, receive, trace_.events[receive].start_ns);
      }
      case MpiEventKind::kCollectiveStart:
        return own_ns;
      case MpiEventKind::kCollective:
      case MpiEventKind::kCollectiveDone:
        break;
    }
    const Instance& instance = matches_.instances[event.match];
    if (!instance.whole) return own_ns;
    const std::uint32_t rank = trace_.lanes[event.lane].rank;
    switch (trace_.ops[instance.op].sync) {
      case Sync::kOneToAll: {
        const std::uint32_t root =
            instance.root == kNone ? kNone : matches_.member_of(instance, instance.root);
        return root == kNone ? own_ns : arrival(l, root);
      }
      case Sync::kScan: {
        const std::uint32_t own = matches_.member_of(instance, rank);
        if (own == kNone) return own_ns;
        const Scan& scan = scan_of(event.match);
        const std::uint32_t position = scan.position[own - instance.first];
        if (position < scan.there) return scan.last_ns[position];
        waiting_for_scan_.emplace(own, l);
        return kNotYet;
      }
      case Sync::kAllToOne:
        if (instance.root != rank) return own_ns;
        break;
      case Sync::kBarrier:
      case Sync::kNxN:
        break;
    }
    const Arrived& arrived = arrived_[event.match];
    if (arrived.members == instance.count) return arrived.last_ns;
    waiting_for_instance_.emplace(event.match, l);
    return kNotYet;
  }

  std::int64_t arrival(std::uint32_t l, std::uint32_t member) {
    const std::uint32_t e = matches_.members[member].arrival;
    if (entered_[e] != kNotYet) return entered_[e];
    waiting_for_event_.emplace(e, l);
    return kNotYet;
  }

  const Trace& trace_;
  const Matches& matches_;
  std::vector<std::int64_t> entered_;              // in the replay, per event
  std::vector<Arrived> arrived_;                   // per instance
  std::vector<State> states_;                      // per lane
  std::vector<std::uint32_t> ready_;               // lanes
  std::unordered_map<std::uint32_t, Scan> scans_;  // per instance
  // What is waited for -> lane: an event, an instance, or that all have come to a scan until this member.
  std::unordered_multimap<std::uint32_t, std::uint32_t> waiting_for_event_, waiting_for_instance_,
      waiting_for_scan_;
};

}  // namespace

std::uint64_t ideal_ns(const Trace& trace, const Matches& matches) { return Replay(trace, matches).run(); }

std::vector<shard::CriticalTime> critical_path(const Trace& trace, const Waits& waits,
                                               const ActivityReader& activity) {
  if (trace.lanes.empty()) return {};
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> sums;
  const Lane* lane = nullptr;
  for (const Lane& other : trace.lanes)
    if (other.thread == 0 && (lane == nullptr || other.end_ns > lane->end_ns)) lane = &other;
  if (lane == nullptr) return {};
  Activity here;
  const auto charge = [&] {
    for (const PathTime& row : here.paths) sums[{lane->rank, row.path}] += row.ns;
    here.clear();
  };
  std::uint32_t next = lane->end;
  std::int64_t until = lane->end_ns;
  // Every step goes back in time or to an earlier call. The limit is there because inexact clocks could make
  // it go on for ever.
  for (std::size_t steps = 2 * trace.events.size() + trace.lanes.size(); steps != 0; --steps) {
    const Interval gap = interval_before(trace, *lane, next);
    const std::int64_t gap_ns = std::min(until, gap.end_ns) - gap.begin_ns;
    if (gap_ns > 0) {
      const double useful =
          static_cast<double>(gap.useful_ns) / static_cast<double>(gap.end_ns - gap.begin_ns);
      const double ns = static_cast<double>(gap_ns);
      activity.add_gap(*lane, next, ns * useful, here);
      if (useful < 1)
        activity.add_calls(*lane, next, ns * (1 - useful),
                           static_cast<double>(gap.end_ns - gap.begin_ns) * (1 - useful), here);
      charge();
    }
    until = std::min(until, gap.begin_ns);
    if (next == lane->first) break;
    const std::uint32_t call = trace.call_begin(next - 1);
    const Event& event = trace.events[call];
    const std::uint32_t row = waits.of_call[call];
    if (row != kNone && waits.waits[row].end_ns <= until) {
      const Wait& wait = waits.waits[row];
      here.add(event.path, static_cast<double>(until - wait.end_ns));
      charge();
      until = wait.end_ns;
      lane = &trace.lanes[trace.events[wait.cause].lane];
      next = trace.call_begin(wait.cause);
      continue;
    }
    here.add(event.path, static_cast<double>(std::max<std::int64_t>(until - event.enter_ns, 0)));
    charge();
    until = std::min(until, event.enter_ns);
    next = call;
  }
  std::vector<shard::CriticalTime> rows;
  for (const auto& [key, ns] : sums)
    if (ns >= 0.5)
      rows.push_back({key.first, key.second, static_cast<std::uint64_t>(std::llround(std::min(ns, 9e18)))});
  return rows;
}

std::vector<shard::TimeWindow> time_windows(const Trace& trace, const Waits& waits, const Scale& scale) {
  constexpr std::int64_t kMaxWindows = 64, kShortest = 1'000'000;
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
  std::size_t ranks = 0;
  for (const Lane& lane : trace.lanes) {
    begin_ns = std::min(begin_ns, lane.begin_ns);
    end_ns = std::max(end_ns, lane.end_ns);
    ranks += lane.thread == 0 ? 1u : 0u;
  }
  if (ranks == 0 || end_ns <= begin_ns) return {};
  const auto count =
      static_cast<std::size_t>(std::clamp<std::int64_t>((end_ns - begin_ns) / kShortest, 1, kMaxWindows));
  const double width = static_cast<double>(end_ns - begin_ns) / static_cast<double>(count);
  // Divides an `amount` that is spread evenly between two times.
  const auto spread = [&](std::vector<double>& windows, std::int64_t from, std::int64_t to, double amount) {
    if (to <= from || amount <= 0) return;
    const double a = static_cast<double>(from - begin_ns) / width,
                 b = static_cast<double>(to - begin_ns) / width;
    for (auto i = static_cast<std::size_t>(std::max(a, 0.0)); i < count; ++i) {
      const double low = std::max(a, static_cast<double>(i)), high = std::min(b, static_cast<double>(i + 1));
      if (high <= low) break;
      windows[i] += amount * (high - low) / (b - a);
    }
  };
  std::vector<double> sum(count), largest(count), one(count), waited(count);
  std::vector<double> startup(count, width), own_startup(count);
  for (const Lane& lane : trace.lanes) {
    if (lane.thread != 0) continue;
    one.assign(count, 0);
    for (std::uint32_t e = lane.first;; e = trace.call_end(e)) {
      const Interval gap = interval_before(trace, lane, e);
      spread(one, gap.begin_ns, gap.end_ns, static_cast<double>(gap.ran_ns));
      if (e == lane.end) break;
    }
    own_startup.assign(count, 0);
    for (const Lane::Stretch& stretch : {lane.init, lane.finalize}) {
      const std::int64_t from = lane.begin_ns + stretch.begin_ns;
      const std::int64_t to = std::min(from + stretch.length_ns, lane.end_ns);
      spread(own_startup, from, to, static_cast<double>(to - from));
    }
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] += one[i];
      largest[i] = std::max(largest[i], one[i]);
      startup[i] = std::min(startup[i], own_startup[i]);
    }
  }
  for (const Wait& wait : waits.waits) {
    const Event& event = trace.events[wait.event];
    const double ns = static_cast<double>(wait.end_ns - wait.begin_ns);
    spread(waited, wait.begin_ns, wait.end_ns, ns * scale(trace.lanes[event.lane].rank, event.path));
  }
  std::vector<shard::TimeWindow> windows(count);
  for (std::size_t i = 0; i < count; ++i) {
    windows[i].begin_ns = static_cast<std::uint64_t>(std::llround(width * static_cast<double>(i)));
    windows[i].end_ns = static_cast<std::uint64_t>(std::llround(width * static_cast<double>(i + 1)));
    windows[i].useful_mean_ns = sum[i] / static_cast<double>(ranks);
    windows[i].useful_max_ns = largest[i];
    windows[i].wait_ns = static_cast<std::uint64_t>(std::llround(std::min(waited[i], 9e18)));
    windows[i].startup_ns = static_cast<std::uint64_t>(std::llround(startup[i]));
  }
  return windows;
}

}  // namespace clusterprof::aggregator::waits
