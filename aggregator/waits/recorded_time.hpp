// SPDX-License-Identifier: BSD-3-Clause
// When ranks were recorded, on the clock of the events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "aggregator/waits/trace.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::waits {

// A rank without windows was recorded all the time.
class RecordedTime {
  using Windows = std::vector<std::pair<std::int64_t, std::int64_t>>;

 public:
  class OfRank {
   public:
    OfRank(const Windows* windows, bool standby) : windows_(windows), standby_(standby) {}
    // Calls with the recorded parts of the time between the two, in their order.
    template <typename Function>
    void each(std::int64_t begin_ns, std::int64_t end_ns, Function function) const {
      if (windows_ == nullptr) {
        if (begin_ns < end_ns) function(begin_ns, end_ns);
        return;
      }
      auto window = std::partition_point(windows_->begin(), windows_->end(),
                                         [&](const auto& of) { return of.second <= begin_ns; });
      for (; window != windows_->end() && window->first < end_ns; ++window)
        function(std::max(window->first, begin_ns), std::min(window->second, end_ns));
    }
    [[nodiscard]] std::int64_t between(std::int64_t begin_ns, std::int64_t end_ns) const {
      std::int64_t ns = 0;
      each(begin_ns, end_ns, [&](std::int64_t from, std::int64_t to) { ns += to - from; });
      return ns;
    }
    // The part of the time between the two that Interval::useful_ns is a part of: with --standby what was
    // recorded; otherwise all of it, as a light run knows at any time how long its ranks were in MPI.
    [[nodiscard]] std::int64_t told_between(std::int64_t begin_ns, std::int64_t end_ns) const {
      return standby_ ? between(begin_ns, end_ns) : std::max<std::int64_t>(end_ns - begin_ns, 0);
    }

   private:
    const Windows* windows_;
    bool standby_;
  };

  // The trace's times must be final.
  RecordedTime(const Trace& trace, const shard::ShardData& merged) : standby_(merged.run.standby) {
    if (merged.recording_windows.empty()) return;
    std::map<std::uint32_t, std::int64_t> starts;
    for (const Lane& lane : trace.lanes)
      if (lane.thread == 0) starts[lane.rank] = lane.begin_ns;
    for (const shard::RecordingWindow& window : merged.recording_windows)
      if (const auto start = starts.find(window.rank); start != starts.end())
        of_rank_[window.rank].push_back({start->second + static_cast<std::int64_t>(window.begin_ns),
                                         start->second + static_cast<std::int64_t>(window.end_ns)});
  }
  [[nodiscard]] OfRank of(std::uint32_t rank) const {
    const auto windows = of_rank_.find(rank);
    return {windows == of_rank_.end() ? nullptr : &windows->second, standby_};
  }

 private:
  std::map<std::uint32_t, Windows> of_rank_;
  bool standby_;
};

}  // namespace clusterprof::aggregator::waits
