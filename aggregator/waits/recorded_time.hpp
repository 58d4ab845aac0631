// SPDX-License-Identifier: BSD-3-Clause
// When threads were recorded, on the clock of the events: in windows of recording, and not in pauses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "aggregator/waits/trace.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::waits {

// A rank without windows was recorded all the time but for its pauses.
class RecordedTime {
  using Times = std::vector<std::pair<std::int64_t, std::int64_t>>;  // in order, apart

  template <typename Function>
  static void each_of(const Times& times, std::int64_t begin_ns, std::int64_t end_ns, Function function) {
    auto part = std::partition_point(times.begin(), times.end(),
                                     [&](const auto& of) { return of.second <= begin_ns; });
    for (; part != times.end() && part->first < end_ns; ++part)
      function(std::max(part->first, begin_ns), std::min(part->second, end_ns));
  }

  struct Pauses {
    Times recorded, told, paused;
  };

 public:
  class OfLane {
   public:
    OfLane(const Times* windows, const Pauses* pauses, bool standby)
        : recorded_(pauses != nullptr ? &pauses->recorded : windows), pauses_(pauses), standby_(standby) {}
    // Calls with the recorded parts of the time between the two, in their order.
    template <typename Function>
    void each(std::int64_t begin_ns, std::int64_t end_ns, Function function) const {
      if (recorded_ != nullptr) return each_of(*recorded_, begin_ns, end_ns, function);
      if (begin_ns < end_ns) function(begin_ns, end_ns);
    }
    [[nodiscard]] std::int64_t between(std::int64_t begin_ns, std::int64_t end_ns) const {
      std::int64_t ns = 0;
      each(begin_ns, end_ns, [&](std::int64_t from, std::int64_t to) { ns += to - from; });
      return ns;
    }
    // The part of the time between the two that Interval::useful_ns is a part of: with --standby what was
    // recorded; otherwise all of it but the pauses, as a light run knows at any time how long its ranks were
    // in MPI.
    [[nodiscard]] std::int64_t told_between(std::int64_t begin_ns, std::int64_t end_ns) const {
      if (standby_) return between(begin_ns, end_ns);
      return pauses_ != nullptr ? sum(pauses_->told, begin_ns, end_ns)
                                : std::max<std::int64_t>(end_ns - begin_ns, 0);
    }
    [[nodiscard]] std::int64_t paused_between(std::int64_t begin_ns, std::int64_t end_ns) const {
      return pauses_ != nullptr ? sum(pauses_->paused, begin_ns, end_ns) : 0;
    }

   private:
    static std::int64_t sum(const Times& times, std::int64_t begin_ns, std::int64_t end_ns) {
      std::int64_t ns = 0;
      each_of(times, begin_ns, end_ns, [&](std::int64_t from, std::int64_t to) { ns += to - from; });
      return ns;
    }
    const Times* recorded_;  // null: all the time
    const Pauses* pauses_;   // null: there were none
    bool standby_;
  };

  // The trace's times must be final.
  RecordedTime(const Trace& trace, const shard::ShardData& merged);
  [[nodiscard]] OfLane of(const Lane& lane) const {
    const auto windows = of_rank_.find(lane.rank);
    const auto pauses = of_lane_.find({lane.rank, lane.thread});
    return {windows == of_rank_.end() ? nullptr : &windows->second,
            pauses == of_lane_.end() ? nullptr : &pauses->second, standby_};
  }

 private:
  static Times pauses_of(const Trace& trace, const Lane& lane);

  std::map<std::uint32_t, Times> of_rank_;                             // its windows
  std::map<std::pair<std::uint32_t, std::uint32_t>, Pauses> of_lane_;  // by rank and thread
  bool standby_;
};

}  // namespace clusterprof::aggregator::waits
