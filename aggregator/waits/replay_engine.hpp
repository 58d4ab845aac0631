// SPDX-License-Identifier: BSD-3-Clause
// Plays matched events again with other costs: each call begins when its thread gets there, and ends when
// those that it depends on have got where they have to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/trace.hpp"

namespace clusterprof::aggregator::waits {

// The sum of times in a damaged file may overflow.
inline std::int64_t later_by(std::int64_t time_ns, std::int64_t ns) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(time_ns, ns, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

// What an operation waits for: when that happens, and the event before which its thread does what makes it
// late. kNone: nothing.
struct Dependence {
  std::int64_t ns = 0;
  std::uint32_t event = kNone;
};

// How far a member of a collective operation waits.
enum class Reach : std::uint8_t {
  kNeeded = 0,  // until those have come that it needs (Sync)
  kAll,         // until all have come
  kCompleting,  // until those that it needs are in the call that completes it; not of scans
};

// Helper threads that main threads have made and joined, as far as that is known.
struct LaneTies {
  struct Made {
    std::uint32_t lane = 0;
    std::int64_t own_ns = 0;    // what its maker had spent in the gap by then
    std::int64_t later_ns = 0;  // how much later it began
  };
  struct Joined {
    std::uint32_t lane = 0;
    std::int64_t own_ns = 0;     // what the other one had spent since the gap, or the join before, began
    std::int64_t waited_ns = 0;  // in the join
    std::int64_t behind_ns = 0;  // of that, when the joined one had ended
  };
  // By lane and the first event of the call behind the gap (lane.end: behind the last call).
  std::unordered_map<std::uint64_t, std::vector<Made>> made;
  std::unordered_map<std::uint64_t, std::vector<Joined>> joined;
  std::vector<bool> is_made;  // per lane

  static std::uint64_t key(std::uint32_t lane, std::uint32_t call) {
    return std::uint64_t{lane} << 32 | call;
  }
};

// Runs each thread until it needs something that another thread has not done yet, then runs that thread. A
// helper thread begins when its main thread makes it, where LaneTies tell; otherwise with its first event,
// when its rank's main thread is as far as it was then.
//
// Costs says what takes how long:
//   std::int64_t before(const Lane&, std::uint32_t call): what the lane does before the call (its first
//     event; lane.end: before its end)
//   std::int64_t recorded_enter(std::uint32_t e): on the clock of the trace
//   bool waits_for_receive(std::uint32_t e): whether this kSend or kSendDone is not over before its receive
//     has begun
//   bool is_left_out(std::uint32_t call): whether the call depends on nothing
//   void begin(std::uint32_t call, std::int64_t ns)
//   void completes(std::uint32_t call, std::uint32_t e, Dependence): for every event of the call
//   std::int64_t end(std::uint32_t call): when the call that has begun ends
// and, if it wants to be asked:
//   Reach reach(std::uint32_t member): row of Matches::members; otherwise kNeeded
//   bool is_completed_late(std::uint32_t instance): whether a member of it has Reach::kCompleting
//   double own_factor(const Lane&, std::uint32_t call): what the lane's own time in the gap before the call
//     is multiplied by
//   std::int64_t after_joins(const Lane&, std::uint32_t call, std::int64_t ns, const std::vector<Joined>&,
//     const std::vector<std::int64_t>& ends): when the lane gets to the call, if it begins the gap at `ns`
//     and the others end at `ends`
template <typename Costs>
class ReplayEngine {
 public:
  ReplayEngine(const Trace& trace, const Matches& matches, Costs& costs)
      : trace_(trace),
        matches_(matches),
        costs_(costs),
        entered_(trace.events.size(), kNotYet),
        arrived_(matches.instances.size()),
        completing_(matches.instances.size()),
        states_(trace.lanes.size()) {}

  // Must outlive this. Lanes that are made begin with their thread, and not with their first event.
  void tie(const LaneTies& ties) { ties_ = &ties; }

  // Returns when the last lane ends, since the first one began; -1: the events contradict each other.
  std::int64_t run() {
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
    for (const Lane& lane : trace_.lanes) first_ns = std::min(first_ns, lane.begin_ns);
    std::int64_t end_ns = 0;
    for (std::uint32_t l = 0, main = kNone; l < trace_.lanes.size(); ++l) {
      states_[l].next = trace_.lanes[l].first;
      // A rank's later start is caused by none of the events.
      states_[l].clock_ns = trace_.lanes[l].begin_ns - first_ns;
      if (trace_.lanes[l].thread == 0)
        main = l;
      else if (main != kNone && trace_.lanes[main].rank == trace_.lanes[l].rank)
        states_[l].main = main;
      ready_.push_back(l);
    }
    for (std::uint32_t l = 0; l < trace_.lanes.size(); ++l) make_threads(l);
    while (!ready_.empty()) {
      const std::uint32_t lane = ready_.back();
      ready_.pop_back();
      while (step(lane)) {
      }
    }
    for (std::uint32_t l = 0; l < trace_.lanes.size(); ++l)
      if (states_[l].next != trace_.lanes[l].end) return -1;
    // Those that may be joined first.
    for (const bool joins : {false, true})
      for (std::uint32_t l = 0; l < trace_.lanes.size(); ++l) {
        const Lane& lane = trace_.lanes[l];
        if ((joins_before(l, lane.end) != nullptr) != joins) continue;
        states_[l].clock_ns = after_gap(l, lane.end, true);
        end_ns = std::max(end_ns, states_[l].clock_ns);
      }
    return end_ns;
  }

  // After run().
  [[nodiscard]] std::int64_t end_of(std::uint32_t lane) const { return states_[lane].clock_ns; }
  [[nodiscard]] std::int64_t entered(std::uint32_t e) const { return entered_[e]; }

 private:
  static constexpr std::int64_t kNotYet = std::numeric_limits<std::int64_t>::min();

  struct State {
    std::uint32_t next = 0;      // first event of the next call
    std::uint32_t main = kNone;  // lane of the rank's main thread, if this is another one
    bool inside = false;         // it was entered
    bool is_made = false;        // its thread has begun, at clock_ns
    std::uint32_t waiting = 0;   // event of it whose operation is looked at; those before are over
    std::int64_t clock_ns = 0;
  };
  struct Arrived {
    std::uint32_t members = 0;
    Dependence last{0, kNone};
  };
  // A scan: the ranks that arrived, in order, up to the first one that has not.
  struct Scan {
    std::vector<std::uint32_t> members, position;  // rows of Instance; the inverse of it
    std::vector<Dependence> last;                  // per position: who came last of those up to there
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
      const bool is_made = state.next == lane.first && ties_ != nullptr && ties_->is_made[l];
      if (is_made && !state.is_made) return false;
      if (lane.thread == 0 || state.next != lane.first || is_made) {
        if (!may_pass_joins(l, state.next)) return false;
        state.clock_ns = after_gap(l, state.next, false);
      } else if (state.main != kNone && !begins(l, state)) {
        return false;
      }
      state.inside = true;
      state.waiting = state.next;
      costs_.begin(state.next, state.clock_ns);
      for (std::uint32_t e = state.next; e < end; ++e) enter(e, state.clock_ns);
    }
    const bool left_out = costs_.is_left_out(state.next);
    for (; state.waiting < end; ++state.waiting) {
      Dependence dependence;
      if (!left_out && !depends(l, state.waiting, dependence)) return false;
      costs_.completes(state.next, state.waiting, dependence);
    }
    state.clock_ns = costs_.end(state.next);
    state.next = end;
    state.inside = false;
    make_threads(l);
    if (end == lane.end) wake(waiting_for_event_, end_of_calls(l));
    return true;
  }

  // The lane has come to the gap before its next call: those that it makes there begin.
  void make_threads(std::uint32_t l) {
    if (ties_ == nullptr) return;
    const State& state = states_[l];
    const auto found = ties_->made.find(LaneTies::key(l, state.next));
    if (found == ties_->made.end()) return;
    double factor = 1;
    if constexpr (requires { costs_.own_factor(trace_.lanes[l], state.next); })
      factor = costs_.own_factor(trace_.lanes[l], state.next);
    for (const LaneTies::Made& made : found->second) {
      State& other = states_[made.lane];
      const double own_ns = std::min(static_cast<double>(made.own_ns) * factor, 4e18);
      other.clock_ns = later_by(later_by(state.clock_ns, std::llround(own_ns)), made.later_ns);
      other.is_made = true;
      ready_.push_back(made.lane);
    }
  }

  [[nodiscard]] const std::vector<LaneTies::Joined>* joins_before(std::uint32_t l, std::uint32_t call) const {
    if (ties_ == nullptr) return nullptr;
    const auto found = ties_->joined.find(LaneTies::key(l, call));
    return found == ties_->joined.end() ? nullptr : &found->second;
  }
  // False: one that is joined before the call has not ended; l is woken when it has made its last call.
  bool may_pass_joins(std::uint32_t l, std::uint32_t call) {
    const std::vector<LaneTies::Joined>* const joins = joins_before(l, call);
    if (joins == nullptr) return true;
    for (const LaneTies::Joined& joined : *joins)
      if (states_[joined.lane].next != trace_.lanes[joined.lane].end) {
        waiting_for_event_.emplace(end_of_calls(joined.lane), l);
        return false;
      }
    return true;
  }
  // When a lane that is in the gap before the call gets to its end. `ended`: so have those that are joined
  // there.
  [[nodiscard]] std::int64_t after_gap(std::uint32_t l, std::uint32_t call, bool ended) {
    const Lane& lane = trace_.lanes[l];
    const std::int64_t clock_ns = states_[l].clock_ns;
    if constexpr (requires(const std::vector<LaneTies::Joined>& joins,
                           const std::vector<std::int64_t>& ends) {
                    costs_.after_joins(lane, call, clock_ns, joins, ends);
                  }) {
      if (const std::vector<LaneTies::Joined>* const joins = joins_before(l, call); joins != nullptr) {
        std::vector<std::int64_t> ends;
        for (const LaneTies::Joined& joined : *joins) {
          const Lane& other = trace_.lanes[joined.lane];
          const std::int64_t last_ns = states_[joined.lane].clock_ns;
          ends.push_back(ended ? last_ns : later_by(last_ns, costs_.before(other, other.end)));
        }
        return costs_.after_joins(lane, call, clock_ns, *joins, ends);
      }
    }
    return later_by(clock_ns, costs_.before(lane, call));
  }

  // Stands for an event: that the lane's last call is over. There are fewer than 2^31 events.
  [[nodiscard]] std::uint32_t end_of_calls(std::uint32_t l) const {
    return static_cast<std::uint32_t>(trace_.events.size()) + l;
  }

  // Sets the clock of a helper thread that begins. False: the main thread is not as far; l is woken when it
  // is.
  bool begins(std::uint32_t l, State& state) {
    const Lane& main = trace_.lanes[state.main];
    const std::int64_t run_ns = trace_.lanes[l].begin_ns;
    const std::uint32_t next = trace_.first_entered(main, run_ns);
    Dependence at;
    if (next != main.first && trace_.events[next - 1].exit_ns > run_ns) {  // in a call
      const std::uint32_t call = trace_.call_begin(next - 1);
      if (!entered(l, call, at)) return false;
      state.clock_ns = later_by(at.ns, std::max<std::int64_t>(run_ns - costs_.recorded_enter(call), 0));
      return true;
    }
    const std::int64_t from_ns = next == main.first ? main.begin_ns : trace_.events[next - 1].exit_ns;
    std::int64_t until_ns = main.end_ns;
    if (next == main.end) {
      if (states_[state.main].next != main.end) {
        waiting_for_event_.emplace(end_of_calls(state.main), l);
        return false;
      }
      at.ns = later_by(states_[state.main].clock_ns, costs_.before(main, next));
    } else {
      if (!entered(l, next, at)) return false;
      until_ns = costs_.recorded_enter(next);
    }
    const std::int64_t length_ns = until_ns - from_ns, left_ns = until_ns - run_ns;
    state.clock_ns =
        left_ns <= 0 || length_ns <= 0
            ? later_by(at.ns, std::max<std::int64_t>(-left_ns, 0))
            : at.ns -
                  std::llround(static_cast<double>(costs_.before(main, next)) *
                               std::min(static_cast<double>(left_ns) / static_cast<double>(length_ns), 1.0));
    return true;
  }

  void enter(std::uint32_t e, std::int64_t clock_ns) {
    entered_[e] = clock_ns;
    wake(waiting_for_event_, e);
    const Event& event = trace_.events[e];
    if (event.kind < MpiEventKind::kCollective || event.match == kNone) return;
    const Instance& instance = matches_.instances[event.match];
    const std::uint32_t row = matches_.member_of(instance, trace_.lanes[event.lane].rank);
    if (row == kNone) return;
    const auto come = [&](Arrived& arrived, auto& waiting) {
      if (arrived.last.event == kNone || clock_ns > arrived.last.ns) arrived.last = {clock_ns, e};
      if (++arrived.members == instance.count) wake(waiting, event.match);
    };
    if constexpr (kAsksForReach)
      if (matches_.members[row].completion == e && costs_.is_completed_late(event.match))
        come(completing_[event.match], waiting_for_completing_);
    if (matches_.members[row].arrival != e) return;
    come(arrived_[event.match], waiting_for_instance_);
    if (trace_.ops[instance.op].sync != Sync::kScan || !instance.whole) return;
    Scan& scan = scan_of(event.match);
    for (; scan.there < instance.count; ++scan.there) {
      const std::uint32_t member = instance.first + scan.members[scan.there];
      const std::uint32_t arrival = matches_.members[member].arrival;
      const std::int64_t ns = entered_[arrival];
      if (ns == kNotYet) return;
      const bool is_last = scan.there == 0 || ns > scan.last[scan.there - 1].ns;
      scan.last[scan.there] = is_last ? Dependence{ns, arrival} : scan.last[scan.there - 1];
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
    scan.last.resize(instance.count);
    return scan;
  }

  bool entered(std::uint32_t l, std::uint32_t e, Dependence& dependence) {
    if (entered_[e] == kNotYet) {
      waiting_for_event_.emplace(e, l);
      return false;
    }
    dependence = {entered_[e], e};
    return true;
  }

  // When a moment of the run (run_ns) before event e of another lane is. False: that lane has not got there;
  // l is woken when it has.
  bool time_of(std::uint32_t l, std::uint32_t e, std::int64_t run_ns, Dependence& dependence) {
    const std::uint32_t next = trace_.first_entered_until(e, run_ns);
    if (!entered(l, next, dependence)) return false;
    const Lane& lane = trace_.lanes[trace_.events[next].lane];
    const std::int64_t before_ns = costs_.before(lane, trace_.call_begin(next));
    dependence.ns -= std::clamp<std::int64_t>(costs_.recorded_enter(next) - run_ns, 0, before_ns);
    return true;
  }

  // What the operation of this event needs; false: the lane has to wait for that.
  bool depends(std::uint32_t l, std::uint32_t e, Dependence& dependence) {
    const Event& event = trace_.events[e];
    if (event.match == kNone) return true;
    switch (event.kind) {
      case MpiEventKind::kReceive:
      case MpiEventKind::kProbe:
        return entered(l, event.match, dependence);
      case MpiEventKind::kSend:
      case MpiEventKind::kSendDone: {
        if (!costs_.waits_for_receive(e)) return true;
        const std::uint32_t receive =
            event.kind == MpiEventKind::kSend ? event.match : trace_.events[event.match].match;
        return receive == kNone || time_of(l, receive, trace_.events[receive].start_ns, dependence);
      }
      case MpiEventKind::kCollectiveStart:
        return true;
      case MpiEventKind::kCollective:
      case MpiEventKind::kCollectiveDone:
        break;
    }
    const Instance& instance = matches_.instances[event.match];
    if (!instance.whole) return true;
    const std::uint32_t rank = trace_.lanes[event.lane].rank;
    Reach reach = Reach::kNeeded;
    if constexpr (kAsksForReach)
      if (const std::uint32_t own = matches_.member_of(instance, rank); own != kNone)
        reach = costs_.reach(own);
    const bool completing = reach == Reach::kCompleting;
    switch (reach == Reach::kAll ? Sync::kNxN : trace_.ops[instance.op].sync) {
      case Sync::kOneToAll: {
        const std::uint32_t root =
            instance.root == kNone ? kNone : matches_.member_of(instance, instance.root);
        if (root == kNone) return true;
        const Member& member = matches_.members[root];
        return entered(l, completing ? member.completion : member.arrival, dependence);
      }
      case Sync::kScan: {
        const std::uint32_t own = matches_.member_of(instance, rank);
        if (own == kNone) return true;
        const Scan& scan = scan_of(event.match);
        const std::uint32_t position = scan.position[own - instance.first];
        if (position < scan.there) {
          dependence = scan.last[position];
          return true;
        }
        waiting_for_scan_.emplace(own, l);
        return false;
      }
      case Sync::kAllToOne:
        if (instance.root != rank) return true;
        break;
      case Sync::kBarrier:
      case Sync::kNxN:
        break;
    }
    const Arrived& arrived = (completing ? completing_ : arrived_)[event.match];
    if (arrived.members == instance.count) {
      dependence = arrived.last;
      return true;
    }
    (completing ? waiting_for_completing_ : waiting_for_instance_).emplace(event.match, l);
    return false;
  }

  static constexpr bool kAsksForReach = requires(const Costs& costs) { costs.reach(0u); };

  const Trace& trace_;
  const Matches& matches_;
  Costs& costs_;
  const LaneTies* ties_ = nullptr;
  std::vector<std::int64_t> entered_;              // in the replay, per event
  std::vector<Arrived> arrived_, completing_;      // per instance
  std::vector<State> states_;                      // per lane
  std::vector<std::uint32_t> ready_;               // lanes
  std::unordered_map<std::uint32_t, Scan> scans_;  // per instance
  // What is waited for -> lane: an event, an instance, or that all have come to a scan until this member.
  std::unordered_multimap<std::uint32_t, std::uint32_t> waiting_for_event_, waiting_for_instance_,
      waiting_for_scan_, waiting_for_completing_;
};

}  // namespace clusterprof::aggregator::waits
