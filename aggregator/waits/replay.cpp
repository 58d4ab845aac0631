// SPDX-License-Identifier: BSD-3-Clause
// Replays the matched events on a network where transfers take no time (ideal_ns), walks the critical path
// back from the end of the run, and sums up useful and waiting time in windows. Formulas: docs/metrics.md,
// "Critical path, ideal network, windows".
#include "aggregator/waits/replay.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "aggregator/waits/replay_engine.hpp"

namespace clusterprof::aggregator::waits {
namespace {

// Transfers take no time: a call lasts until what it depends on has happened.
class IdealCosts {
 public:
  explicit IdealCosts(const Trace& trace) : trace_(trace), done_ns_(trace.lanes.size()) {}

  [[nodiscard]] std::int64_t before(const Lane& lane, std::uint32_t call) const {
    return interval_before(trace_, lane, call).ran_ns;
  }
  [[nodiscard]] std::int64_t recorded_enter(std::uint32_t e) const { return trace_.events[e].enter_ns; }
  [[nodiscard]] bool waits_for_receive(std::uint32_t e) const {
    const Event& event = trace_.events[e];
    return (event.flags & wire::kEventSynchronous) != 0 &&
           (event.kind != MpiEventKind::kSend || (event.flags & wire::kEventNonblocking) == 0);
  }
  [[nodiscard]] static bool is_left_out(std::uint32_t) { return false; }
  void begin(std::uint32_t call, std::int64_t ns) { done_ns_[trace_.events[call].lane] = ns; }
  void completes(std::uint32_t call, std::uint32_t, Dependence dependence) {
    if (dependence.event == kNone) return;
    std::int64_t& done_ns = done_ns_[trace_.events[call].lane];
    done_ns = std::max(done_ns, dependence.ns);
  }
  [[nodiscard]] std::int64_t end(std::uint32_t call) const { return done_ns_[trace_.events[call].lane]; }

 private:
  const Trace& trace_;
  std::vector<std::int64_t> done_ns_;  // of the lane's call
};

}  // namespace

std::uint64_t ideal_ns(const Trace& trace, const Matches& matches) {
  IdealCosts costs(trace);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(ReplayEngine(trace, matches, costs).run(), 0));
}

std::vector<shard::CriticalTime> critical_path(const Trace& trace, const Waits& waits,
                                               const ActivityReader& activity,
                                               const RecordedTime& recorded_time) {
  if (trace.lanes.empty()) return {};
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> sums;
  const Lane* lane = nullptr;
  for (const Lane& other : trace.lanes)
    if (other.thread == 0 && (lane == nullptr || other.end_ns > lane->end_ns)) lane = &other;
  if (lane == nullptr) return {};
  RecordedTime::OfLane recorded = recorded_time.of(*lane);
  Activity here;
  const auto charge = [&] {
    for (const PathTime& row : here.paths) sums[{lane->rank, row.path}] += row.ns;
    here.clear();
  };
  std::uint32_t next = lane->end;
  std::int64_t until = lane->end_ns;
  // Every step goes back in time, to an earlier call or to a main thread. The limit is there because inexact
  // clocks could make it go on for ever.
  for (std::size_t steps = 3 * trace.events.size() + trace.lanes.size(); steps != 0; --steps) {
    const Interval gap = interval_before(trace, *lane, next);
    const std::int64_t gap_ns = recorded.between(gap.begin_ns, std::min(until, gap.end_ns));
    if (gap_ns > 0) {
      const auto told_ns = static_cast<double>(recorded.told_between(gap.begin_ns, gap.end_ns));
      const double useful = std::min(static_cast<double>(gap.useful_ns) / told_ns, 1.0);
      const auto ns = static_cast<double>(gap_ns);
      activity.add_gap(*lane, next, ns * useful, here);
      if (useful < 1) activity.add_calls(*lane, next, ns * (1 - useful), told_ns * (1 - useful), here);
      charge();
    }
    until = std::min(until, gap.begin_ns);
    if (next == lane->first) {
      const Lane* const helper = lane;
      lane = trace.main_lane(*helper);
      if (lane == nullptr || lane == helper) break;
      recorded = recorded_time.of(*lane);
      next = trace.first_entered(*lane, until);
      if (next == lane->first || trace.events[next - 1].exit_ns <= until) continue;
      // The main thread was in a call, which had no part in it: the helper thread is older than that.
      next = trace.call_begin(next - 1);
      const std::int64_t enter_ns = trace.events[next].enter_ns;
      activity.add_gap(*helper, helper->first, static_cast<double>(recorded.between(enter_ns, until)), here);
      charge();
      until = enter_ns;
      continue;
    }
    const std::uint32_t call = trace.call_begin(next - 1);
    const Event& event = trace.events[call];
    const std::uint32_t row = waits.of_call[call];
    if (row != kNone && waits.waits[row].end_ns <= until) {
      const Wait& wait = waits.waits[row];
      here.add(event.path, static_cast<double>(until - wait.end_ns));
      charge();
      until = wait.end_ns;
      lane = &trace.lanes[trace.events[wait.cause].lane];
      recorded = recorded_time.of(*lane);
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

std::vector<shard::TimeWindow> time_windows(const Trace& trace, const Waits& waits, const Scale& scale,
                                            const RecordedTime& recorded_time) {
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
    const RecordedTime::OfLane recorded = recorded_time.of(lane);
    one.assign(count, 0);
    for (std::uint32_t e = lane.first;; e = trace.call_end(e)) {
      const Interval gap = interval_before(trace, lane, e);
      const auto told_ns = static_cast<double>(recorded.told_between(gap.begin_ns, gap.end_ns));
      const double ran_ns = std::min(static_cast<double>(gap.ran_ns), told_ns);
      recorded.each(gap.begin_ns, gap.end_ns, [&](std::int64_t from, std::int64_t to) {
        spread(one, from, to, ran_ns * static_cast<double>(to - from) / told_ns);
      });
      if (e == lane.end) break;
    }
    own_startup.assign(count, 0);
    for (const Lane::Stretch& stretch : {lane.init, lane.finalize}) {
      const std::int64_t from = lane.begin_ns + stretch.begin_ns;
      const std::int64_t to = std::min(from + stretch.length_ns, lane.end_ns);
      recorded.each(from, to, [&](std::int64_t from_ns, std::int64_t to_ns) {
        spread(own_startup, from_ns, to_ns, static_cast<double>(to_ns - from_ns));
      });
    }
    // What was not recorded is left out in the same way.
    std::int64_t until_ns = begin_ns;
    recorded.each(begin_ns, end_ns, [&](std::int64_t from, std::int64_t to) {
      spread(own_startup, until_ns, from, static_cast<double>(from - until_ns));
      until_ns = to;
    });
    if (until_ns != begin_ns) spread(own_startup, until_ns, end_ns, static_cast<double>(end_ns - until_ns));
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] += one[i];
      largest[i] = std::max(largest[i], one[i]);
      startup[i] = std::min(startup[i], own_startup[i]);
    }
  }
  for (const Wait& wait : waits.waits) {
    const double ns = static_cast<double>(wait.end_ns - wait.begin_ns);
    spread(waited, wait.begin_ns, wait.end_ns, ns * scale(wait));
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
