// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/waits/recorded_time.hpp"

#include <limits>

namespace clusterprof::aggregator::waits {
namespace {

template <typename Times>
Times parts_without(const Times& times, const Times& left_out) {
  Times rest;
  auto next = left_out.begin();
  for (const auto& [begin, end] : times) {
    std::int64_t from = begin;
    for (; next != left_out.end() && next->second <= begin; ++next) {
    }
    for (auto part = next; part != left_out.end() && part->first < end; ++part) {
      if (from < part->first) rest.emplace_back(from, part->first);
      from = part->second;
    }
    if (from < end) rest.emplace_back(from, end);
  }
  return rest;
}

}  // namespace

RecordedTime::RecordedTime(const Trace& trace, const shard::ShardData& merged)
    : standby_(merged.run.standby) {
  std::map<std::uint32_t, std::int64_t> starts;
  if (!merged.recording_windows.empty())
    for (const Lane& lane : trace.lanes)
      if (lane.thread == 0) starts[lane.rank] = lane.begin_ns;
  for (const shard::RecordingWindow& window : merged.recording_windows)
    if (const auto start = starts.find(window.rank); start != starts.end())
      of_rank_[window.rank].push_back({start->second + static_cast<std::int64_t>(window.begin_ns),
                                       start->second + static_cast<std::int64_t>(window.end_ns)});
  const Times always = {{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}};
  for (const Lane& lane : trace.lanes) {
    Times paused = pauses_of(trace, lane);
    if (paused.empty()) continue;
    const auto windows = of_rank_.find(lane.rank);
    Pauses& pauses = of_lane_[{lane.rank, lane.thread}];
    pauses.recorded = parts_without(windows == of_rank_.end() ? always : windows->second, paused);
    if (!standby_) pauses.told = parts_without(always, paused);
    pauses.paused = std::move(paused);
  }
}

RecordedTime::Times RecordedTime::pauses_of(const Trace& trace, const Lane& lane) {
  Times times;
  const auto add = [&](std::int64_t from, std::int64_t to) {
    if (!times.empty()) from = std::max(from, times.back().second);
    if (from < to) times.emplace_back(from, to);
  };
  add(lane.begin_ns, lane.begin_ns + lane.head_paused_ns);
  for (const Pause& pause : trace.pauses_of(lane)) {
    const auto [from, to] = trace.times_of(lane, pause);
    add(from, to);
  }
  add(lane.end_ns - lane.tail_paused_ns, lane.end_ns);
  return times;
}

}  // namespace clusterprof::aggregator::waits
