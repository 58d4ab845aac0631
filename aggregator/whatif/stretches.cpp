// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/stretches.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace clusterprof::aggregator::whatif {
namespace {

using waits::Event;
using waits::kNone;
using waits::Lane;
using waits::MpiEventKind;
using waits::Trace;

// Stretches of two ranks by a clock that is wrong by more have nothing in common.
constexpr std::int64_t kMostClockError_ns = 1'000'000'000;

// How far any of two nodes' clocks may be apart in the adjusted trace.
std::int64_t clock_error_ns(const Trace& trace, const waits::ClockModel& clocks) {
  std::int64_t most_ns = 0;
  for (const Lane& lane : trace.lanes) {
    const std::int64_t ns = clocks.error_ns(trace.lanes.front().node, lane.node);
    // Nodes that cannot be compared have nothing to do with each other.
    if (ns != waits::ClockModel::kUnknown) most_ns = std::max(most_ns, ns);
  }
  return std::min(most_ns, kMostClockError_ns);
}

// On the clock of the adjusted trace.
TimeSpan span_of(const shard::EventStretch& row, const waits::ClockModel& clocks,
                 const shard::ShardData& merged) {
  const auto global_ns = [&](std::uint64_t local_ns) {
    constexpr std::uint64_t kMost_ns = std::uint64_t{1} << 60;  // a damaged file may say anything
    return clocks.global_ns(merged.ranks[row.rank].node,
                            static_cast<std::int64_t>(std::min(local_ns, kMost_ns)));
  };
  return {global_ns(row.begin_ns), global_ns(row.end_ns)};
}

// The first event of the lane that ended at that time or later.
std::uint32_t first_ended(const Trace& trace, const Lane& lane, std::int64_t time_ns) {
  const auto first = trace.events.begin() + lane.first, end = trace.events.begin() + lane.end;
  return static_cast<std::uint32_t>(
      std::lower_bound(first, end, time_ns,
                       [](const Event& event, std::int64_t ns) { return event.exit_ns < ns; }) -
      trace.events.begin());
}

// From when all ranks have had an event until when one has had its last.
TimeSpan span_of_events(const Trace& adjusted) {
  TimeSpan span{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  for (const Lane& lane : adjusted.lanes) {
    if (lane.thread != 0) continue;
    span.begin_ns = std::max(span.begin_ns, adjusted.events[lane.first].enter_ns);
    span.end_ns = std::min(span.end_ns, adjusted.events[lane.end - 1].exit_ns);
  }
  return span.begin_ns < span.end_ns ? span : TimeSpan{};
}

}  // namespace

std::vector<TimeSpan> complete_stretches(const Trace& adjusted,
                                         const std::vector<shard::EventStretch>& recorded,
                                         const waits::ClockModel& clocks, const shard::ShardData& merged) {
  std::vector<bool> needed(merged.ranks.size());
  for (const Lane& lane : adjusted.lanes) needed[lane.rank] = merged.ranks[lane.rank].event_level != 0;
  const auto ranks = static_cast<std::size_t>(std::count(needed.begin(), needed.end(), true));
  const TimeSpan events = span_of_events(adjusted);
  const std::int64_t error_ns = clock_error_ns(adjusted, clocks);
  std::vector<TimeSpan> complete;
  for (auto row = recorded.begin(); row != recorded.end();) {
    const std::uint64_t shared_ns = row->shared_begin_ns;
    TimeSpan common = events;
    std::size_t having = 0;
    std::uint32_t last_rank = kNone;
    for (; row != recorded.end() && row->shared_begin_ns == shared_ns; ++row) {
      if (!row->complete || !needed[row->rank] || row->rank == last_rank) continue;
      last_rank = row->rank;
      ++having;
      const TimeSpan span = span_of(*row, clocks, merged);
      common.begin_ns = std::max(common.begin_ns, span.begin_ns + error_ns);
      common.end_ns = std::min(common.end_ns, span.end_ns - error_ns);
    }
    if (having == ranks && ranks != 0 && common.begin_ns < common.end_ns &&
        (complete.empty() || complete.back().end_ns <= common.begin_ns))
      complete.push_back(common);
  }
  return complete;
}

Represented represented_by(const Trace& adjusted, const std::vector<shard::EventStretch>& recorded,
                           const waits::ClockModel& clocks, const shard::ShardData& merged,
                           const std::vector<TimeSpan>& stretches) {
  const TimeSpan events = span_of_events(adjusted);
  const std::int64_t period_ns = (stretches.back().begin_ns - stretches.front().begin_ns) /
                                 static_cast<std::int64_t>(stretches.size() - 1);
  std::int64_t before_ns = period_ns, behind_ns = period_ns;
  for (const shard::EventStretch& row : recorded) {
    if (!row.complete) continue;
    const TimeSpan span = span_of(row, clocks, merged);
    if (span.end_ns <= events.begin_ns) before_ns = std::min(before_ns, events.begin_ns - span.end_ns);
    if (span.begin_ns >= events.end_ns) behind_ns = std::min(behind_ns, span.begin_ns - events.end_ns);
  }
  std::int64_t least_elapsed_ns = std::numeric_limits<std::int64_t>::max();
  for (const Lane& lane : adjusted.lanes)
    if (lane.thread == 0) least_elapsed_ns = std::min(least_elapsed_ns, lane.end_ns - lane.begin_ns);
  const std::int64_t added_ns = (before_ns + behind_ns) / 2;
  const std::int64_t length_ns = std::min(events.length_ns() + added_ns, least_elapsed_ns);
  return {std::max(length_ns, events.length_ns()), added_ns};
}

StretchTrace trace_of_stretches(Trace adjusted, const std::vector<TimeSpan>& stretches) {
  StretchTrace part;
  Trace& trace = part.trace;
  for (std::uint32_t s = 0; s < stretches.size(); ++s) {
    const TimeSpan& stretch = stretches[s];
    for (const Lane& whole : adjusted.lanes) {
      // A call that returned just then has nothing of the stretch.
      const std::uint32_t first = first_ended(adjusted, whole, stretch.begin_ns + 1);
      if (first == whole.end || (whole.thread != 0 && adjusted.events[first].enter_ns >= stretch.end_ns))
        continue;
      const std::uint32_t after = first_ended(adjusted, whole, stretch.end_ns);
      const std::uint32_t end = after == whole.end ? after : adjusted.call_end(after);
      Lane lane;
      lane.rank = whole.rank;
      lane.node = whole.node;
      lane.thread = whole.thread;
      lane.first = static_cast<std::uint32_t>(trace.events.size());
      lane.end = lane.first + (end - first);
      const std::int64_t enter_ns = adjusted.events[first].enter_ns;
      lane.begin_ns = std::min(stretch.begin_ns, enter_ns);
      if (whole.thread == 0 && enter_ns > stretch.begin_ns)
        lane.head_ns = enter_ns - stretch.begin_ns;
      else
        lane.begin_ns = enter_ns;
      lane.end_ns = adjusted.events[end - 1].exit_ns;
      auto gap = std::lower_bound(adjusted.gaps.begin(), adjusted.gaps.end(), first,
                                  [](const waits::Gap& row, std::uint32_t e) { return row.event < e; });
      for (const waits::Pause& pause : adjusted.pauses_of(whole)) {
        if (pause.event > first && pause.event < end)
          trace.pauses.push_back({lane.first + (pause.event - first), pause.ns, pause.before_enter_ns});
        if (pause.event != first) continue;
        const auto [from_ns, to_ns] = adjusted.times_of(whole, pause);
        lane.head_paused_ns =
            std::clamp<std::int64_t>(to_ns - std::max(from_ns, lane.begin_ns), 0, lane.head_ns);
        lane.head_ns -= lane.head_paused_ns;
      }
      for (std::uint32_t e = first; e < end; ++e) {
        for (; gap != adjusted.gaps.end() && gap->event == e; ++gap)
          // What samples say of the time before the first call may be of long before.
          if (!adjusted.same_call(first, e))
            trace.gaps.push_back(
                {static_cast<std::uint32_t>(trace.events.size()), gap->path, gap->wall_ns, gap->cpu_ns});
        Event event = adjusted.events[e];
        part.is_counted.push_back(event.enter_ns >= stretch.begin_ns && event.enter_ns < stretch.end_ns);
        event.lane = static_cast<std::uint32_t>(trace.lanes.size());
        event.match = kNone;
        trace.events.push_back(event);
        trace.bytes.push_back(adjusted.bytes[e]);
      }
      trace.lanes.push_back(lane);
      part.stretch_of.push_back(s);
    }
  }
  trace.channels = std::move(adjusted.channels);
  trace.ops = std::move(adjusted.ops);
  trace.outside = std::move(adjusted.outside);
  trace.lacks_processor = std::move(adjusted.lacks_processor);
  return part;
}

waits::Matches match_within_stretches(StretchTrace& stretches) {
  Trace& trace = stretches.trace;
  waits::Matches matches = waits::match_events(trace, 0);
  const auto stretch_of = [&](std::uint32_t e) { return stretches.stretch_of[trace.events[e].lane]; };
  for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
    Event& event = trace.events[e];
    if (event.kind < MpiEventKind::kCollective && event.match != kNone &&
        stretch_of(event.match) != stretch_of(e))
      event.match = kNone;
  }
  for (waits::Instance& instance : matches.instances) {
    const auto crosses = [&](const waits::Member& member) {
      const std::uint32_t first = stretch_of(matches.members[instance.first].arrival);
      // Who came before the stretch is seen to leave only.
      return trace.events[member.arrival].kind == MpiEventKind::kCollectiveDone ||
             stretch_of(member.arrival) != first ||
             (member.completion != kNone && stretch_of(member.completion) != first);
    };
    const auto begin = matches.members.begin() + instance.first;
    if (std::any_of(begin, begin + instance.count, crosses)) instance.whole = false;
  }
  return matches;
}

double error_of_mean(const std::vector<double>& of_stretches, double share) {
  // 97.5 % of Student's t, from two degrees of freedom on.
  constexpr std::array<double, 29> kStudent = {
      4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
      2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  const auto n = static_cast<double>(of_stretches.size());
  double mean = 0, squares = 0;
  for (const double value : of_stretches) mean += value / n;
  for (const double value : of_stretches) squares += (value - mean) * (value - mean);
  const double student = of_stretches.size() - 3 < kStudent.size() ? kStudent[of_stretches.size() - 3] : 1.96;
  return student * std::sqrt(squares / (n - 1) / n * std::max(1 - share, 0.0));
}

}  // namespace clusterprof::aggregator::whatif
