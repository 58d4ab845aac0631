// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/waits/activity.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace clusterprof::aggregator::waits {

void Activity::add(std::uint32_t path, double ns) {
  if (path >= row_of_.size()) row_of_.resize(std::size_t{path} + 1);
  std::uint32_t& row = row_of_[path];
  if (row < paths.size() && paths[row].path == path) {
    paths[row].ns += ns;
    return;
  }
  row = static_cast<std::uint32_t>(paths.size());
  paths.push_back({path, ns});
}

double Activity::ns_of(std::uint32_t path) const {
  if (path >= row_of_.size()) return 0;
  const std::uint32_t row = row_of_[path];
  return row < paths.size() && paths[row].path == path ? paths[row].ns : 0;
}

Interval interval_before(const Trace& trace, const Lane& lane, std::uint32_t call) {
  Interval interval;
  if (call == lane.first) {
    interval = {lane.begin_ns, trace.events[call].enter_ns, lane.head_ns};
    interval.paused_ns = lane.head_paused_ns;
  } else if (call == lane.end) {
    interval = {trace.events[call - 1].exit_ns, lane.end_ns, lane.tail_ns};
    interval.paused_ns = lane.tail_paused_ns;
  } else {
    const Event &before = trace.events[call - 1], &event = trace.events[call];
    interval = {before.exit_ns, event.enter_ns, event.useful_ns - before.useful_ns};
  }
  const std::int64_t length_ns = std::max<std::int64_t>(interval.end_ns - interval.begin_ns, 0);
  interval.useful_ns = std::clamp<std::int64_t>(interval.useful_ns, 0, length_ns);
  interval.ran_ns = interval.useful_ns;
  if (call != lane.end)
    if (const Pause* const pause = trace.pause_before(call)) interval.paused_ns += pause->ns;
  interval.paused_ns = std::min(interval.paused_ns, length_ns - interval.useful_ns);
  if (trace.lacks_processor.empty() || call == lane.end) return interval;
  double lacked_ns = 0;
  for (auto gap = std::lower_bound(trace.gaps.begin(), trace.gaps.end(), call,
                                   [](const Gap&row, std::uint32_t e) { return row.event < e; });
       gap != trace.gaps.end() && gap->event < lane.end && trace.same_call(gap->event, call); ++gap)
    if (trace.lacks_processor[gap->path]) lacked_ns += static_cast<double>(gap->wall_ns);
  interval.ran_ns -= static_cast<std::int64_t>(std::min(lacked_ns, static_cast<double>(interval.useful_ns)));
  return interval;
}

ActivityReader::ActivityReader(const Trace& trace, const Waits& waits, const RecordedTime& recorded_time)
    : trace_(trace), waits_(waits), recorded_time_(recorded_time) {
  struct Row {
    std::uint32_t site, path;
    float ns;
  };
  std::vector<Row> rows;
  for (auto gap = trace.gaps.begin(); gap != trace.gaps.end();) {
    const std::uint32_t rank = trace.lanes[trace.events[gap->event].lane].rank;
    rows.clear();
    for (; gap != trace.gaps.end() && trace.lanes[trace.events[gap->event].lane].rank == rank; ++gap)
      if (!is_call(gap->path)) rows.push_back({trace.events[gap->event].path, gap->path, gap->wall_ns});
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return std::tie(a.site, a.path, a.ns) < std::tie(b.site, b.path, b.ns);
    });
    for (auto row = rows.begin(); row != rows.end();) {
      const std::uint32_t site = row->site;
      std::vector<PathTime> profile;
      for (; row != rows.end() && row->site == site; ++row) {
        if (profile.empty() || profile.back().path != row->path) profile.push_back({row->path, 0});
        profile.back().ns += static_cast<double>(row->ns);
      }
      // The paths with the most time say enough.
      std::sort(profile.begin(), profile.end(), [](const PathTime& a, const PathTime& b) {
        return a.ns != b.ns ? a.ns > b.ns : a.path < b.path;
      });
      if (profile.size() > 16) profile.resize(16);
      profile.shrink_to_fit();
      before_site_.emplace(std::uint64_t{rank} << 32 | site, std::move(profile));
    }
  }
}

void ActivityReader::add_gap(const Lane& lane, std::uint32_t call, double ns, Activity& activity) const {
  if (call == lane.end) return activity.add(0, ns);
  const auto first = std::lower_bound(trace_.gaps.begin(), trace_.gaps.end(), call,
                                      [](const Gap& gap, std::uint32_t e) { return gap.event < e; });
  double total = 0;
  auto end = first;
  for (; end != trace_.gaps.end() && end->event < lane.end && trace_.same_call(end->event, call); ++end)
    if (!is_call(end->path)) total += static_cast<double>(end->wall_ns);
  if (total > 0) {
    for (auto row = first; row != end; ++row)
      if (!is_call(row->path)) activity.add(row->path, ns * static_cast<double>(row->wall_ns) / total);
    return;
  }
  const std::uint32_t site = trace_.events[call].path, caller = trace_.outside[site];
  const auto profile = before_site_.find(std::uint64_t{lane.rank} << 32 | site);
  if (profile == before_site_.end()) return activity.add(caller, ns);
  for (const PathTime& row : profile->second) total += row.ns;
  if (total <= 0) return activity.add(caller, ns);
  for (const PathTime& row : profile->second) activity.add(row.path, ns * row.ns / total);
}

void ActivityReader::add_calls(const Lane& lane, std::uint32_t call, double ns, double gap_ns,
                               Activity& activity) const {
  const bool is_before_all = call == lane.first && lane.thread == 0;
  double known = 0;
  if (call != lane.end) {
    auto row = std::lower_bound(trace_.gaps.begin(), trace_.gaps.end(), call,
                                [](const Gap& gap, std::uint32_t e) { return gap.event < e; });
    double total = 0;
    const auto first = row;
    for (; row != trace_.gaps.end() && row->event < lane.end && trace_.same_call(row->event, call); ++row)
      if (is_call(row->path)) total += static_cast<double>(row->wall_ns);
    // The longest of these calls stands for those that have no row, as an unlock after a long lock. Only
    // MPI_Init, which comes before the first event, is known by its path.
    const double share = is_before_all ? std::min(total / gap_ns, 1.0) : 1.0;
    known = total > 0 ? share * ns : 0.0;
    for (auto one = first; known > 0 && one != row; ++one)
      if (is_call(one->path)) activity.add(one->path, known * static_cast<double>(one->wall_ns) / total);
  }
  if (known < ns) activity.add(trace_.path_before(lane, call), ns - known);
}

std::int64_t ActivityReader::read(const Lane& lane, std::uint32_t next, std::int64_t from_ns,
                                  std::int64_t to_ns, std::uint32_t max_calls, Activity& activity) const {
  const RecordedTime::OfLane recorded = recorded_time_.of(lane);
  std::int64_t until = to_ns;  // what is left to look at ends here
  for (std::uint32_t calls = 0;; ++calls) {
    if (calls == max_calls) return std::max(until, from_ns);
    const Interval gap = interval_before(trace_, lane, next);
    const std::int64_t gap_ns =
        recorded.told_between(std::max(from_ns, gap.begin_ns), std::min(until, gap.end_ns));
    if (gap_ns > 0) {
      const auto told_ns = static_cast<double>(recorded.told_between(gap.begin_ns, gap.end_ns));
      const double useful = std::min(static_cast<double>(gap.useful_ns) / told_ns, 1.0);
      const double ns = static_cast<double>(gap_ns);
      add_gap(lane, next, ns * useful, activity);
      // Calls without events: one-sided calls, polling calls, or calls that the sample of events left out.
      if (useful < 1) add_calls(lane, next, ns * (1 - useful), told_ns * (1 - useful), activity);
    }
    if (const std::int64_t paused_ns =
            recorded.paused_between(std::max(from_ns, gap.begin_ns), std::min(until, gap.end_ns));
        paused_ns > 0)
      activity.add(0, static_cast<double>(paused_ns));
    until = std::min(until, gap.begin_ns);
    if (until <= from_ns || next == lane.first) return from_ns;

    const std::uint32_t call = trace_.call_begin(next - 1);
    const Event& event = trace_.events[call];
    std::int64_t in_call = std::min(until, event.exit_ns) - std::max(from_ns, event.enter_ns);
    if (in_call > 0) {
      if (const std::uint32_t row = waits_.of_call[call]; row != kNone) {
        const Wait& wait = waits_.waits[row];
        const std::int64_t waited = std::min(until, wait.end_ns) - std::max(from_ns, wait.begin_ns);
        if (waited > 0) {
          activity.waits.emplace_back(row, static_cast<double>(waited));
          in_call -= waited;
        }
      }
      if (in_call > 0) activity.add(event.path, static_cast<double>(in_call));
    }
    until = std::min(until, event.enter_ns);
    if (until <= from_ns) return from_ns;
    next = call;
  }
}

}  // namespace clusterprof::aggregator::waits
