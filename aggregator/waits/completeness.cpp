// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/waits/completeness.hpp"

#include <algorithm>
#include <vector>

namespace clusterprof::aggregator::waits {
namespace {

// If a larger share of messages or collective operations lacks the other side, the replay is worthless.
constexpr double kMaxUnmatched = 0.01;

bool too_many(std::uint64_t unmatched, std::uint64_t all) {
  return static_cast<double>(unmatched) > kMaxUnmatched * static_cast<double>(all);
}

// `of`: of a rank that this is true of.
template <typename Of>
bool lost_events(const shard::ShardData& merged, const Of& of) {
  return std::any_of(merged.drops.begin(), merged.drops.end(), [&](const shard::Drop& drop) {
    return drop.count != 0 && of(merged.ranks[drop.rank]) &&
           (drop.reason == "mpi_event_ring_full" || drop.reason == "damaged_mpi_event" ||
            drop.reason == "damaged_mpi_event_ring");
  });
}

Incomplete why_incomplete_of_any(const Trace& trace, const shard::ShardData& merged) {
  if (count_missing(trace, merged) != 0) return Incomplete::kMissingRanks;
  if (was_recorded_in_windows(merged)) return Incomplete::kWindows;
  // A call that never returned is no transfer, and the replay does not see it.
  return merged.calls_under_way.empty() ? Incomplete::kNo : Incomplete::kUnderWay;
}

}  // namespace

std::uint32_t count_missing(const Trace& trace, const shard::ShardData& merged) {
  std::vector<bool> present(merged.ranks.size());
  for (const Lane& lane : trace.lanes) present[lane.rank] = true;
  std::uint32_t there = 0, silent = 0;
  for (std::size_t i = 0; i < present.size(); ++i) (present[i] ? there : silent) += 1;
  return merged.run.world_size > there + silent ? merged.run.world_size - there : silent;
}

bool was_recorded_in_windows(const shard::ShardData& merged) {
  return merged.run.standby || !merged.recording_windows.empty();
}

Incomplete why_incomplete(const Trace& trace, const Matches& matches, const shard::ShardData& merged) {
  if (trace.level != 0) return Incomplete::kSampled;
  if (const Incomplete why = why_incomplete_of_any(trace, merged); why != Incomplete::kNo) return why;
  if (lost_events(merged, [](const shard::Rank&) { return true; })) return Incomplete::kLost;
  if (too_many(matches.unmatched_messages, matches.messages) ||
      too_many(matches.unmatched_collectives, matches.instances.size()))
    return Incomplete::kUnmatched;
  return Incomplete::kNo;
}

Incomplete why_without_stretches(const Trace& trace, const shard::ShardData& merged) {
  if (const Incomplete why = why_incomplete_of_any(trace, merged); why != Incomplete::kNo) return why;
  // When ranks without stretches lost them is not known.
  return lost_events(merged, [](const shard::Rank& rank) { return rank.event_level == 0; })
             ? Incomplete::kLost
             : Incomplete::kNo;
}

}  // namespace clusterprof::aggregator::waits
