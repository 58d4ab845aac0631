// SPDX-License-Identifier: BSD-3-Clause
// Runs the stages of the wait analysis (waits/) over the events of all shards, and writes the resulting
// tables into the merged data. Formulas: docs/metrics.md, "Waiting".
#include "aggregator/wait_analyser.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "aggregator/notes.hpp"
#include "aggregator/waits/activity.hpp"
#include "aggregator/waits/clock_model.hpp"
#include "aggregator/waits/completeness.hpp"
#include "aggregator/waits/delays.hpp"
#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/recorded_time.hpp"
#include "aggregator/waits/replay.hpp"
#include "aggregator/waits/trace.hpp"
#include "aggregator/waits/unfinished.hpp"
#include "aggregator/waits/unmatched.hpp"
#include "aggregator/waits/wait_search.hpp"

namespace clusterprof::aggregator {
namespace {

using namespace waits;

bool called_mpi(const shard::Rank& rank) {
  return (rank.flags & shard::kUsedMpi) != 0 || rank.mpi_operations != 0;
}

// How many waits an analysed wait stands for: it represents all calls of its call site by the ranks that have
// events. A call that has fewer events than nearly all have (CallSizes) may lack just the operation that it
// waited for, so it is left out if there are others.
class SampleScale {
 public:
  SampleScale(const Trace& trace, const shard::ShardData& merged) : trace_(trace) {
    if (trace.level == 0) return;
    std::vector<std::uint64_t> operations(merged.ranks.size());
    for (const Lane& lane : trace.lanes) {
      for (std::uint32_t e = lane.first; e < lane.end; ++e) {
        if (e == lane.first || !trace.same_call(e - 1, e)) {
          Site& site = sites_[key(lane.rank, trace.events[e].path)];
          if (site.analysed++ == 0) site.whole = trace.call_sizes.of_most(lane.rank, trace.events[e].path);
          if (site.whole > 1 && trace.call_end(e) - e < site.whole) ++site.partial;
        }
        switch (trace.events[e].kind) {
          case MpiEventKind::kSend:
          case MpiEventKind::kReceive:
          case MpiEventKind::kCollective:
          case MpiEventKind::kCollectiveStart:
            ++operations[lane.rank];
            break;
          case MpiEventKind::kSendDone:
          case MpiEventKind::kCollectiveDone:
          case MpiEventKind::kProbe:
            break;
        }
      }
    }
    for (const shard::MpiCall& call : merged.mpi_calls) {
      const auto site = sites_.find(key(call.rank, call.path));
      if (site != sites_.end()) site->second.calls += call.count;
    }
    for (auto& [place, site] : sites_) {
      const auto rank = static_cast<std::uint32_t>(place >> 32), path = static_cast<std::uint32_t>(place);
      constexpr std::uint64_t kLeastWhole = 10;
      if (site.analysed - site.partial < kLeastWhole) site.partial = 0;
      site.scale = static_cast<double>(site.calls) / static_cast<double>(site.analysed - site.partial);
      // Most polling calls complete nothing and have no events.
      const shard::Path& row = merged.paths[path];
      const std::string_view op =
          row.frame == kNone ? std::string_view() : merged.strings[merged.frames[row.frame].name];
      const bool polls = row.frame == kNone || op.starts_with("MPI_Test") || op == "MPI_Parrived";
      if (polls || site.calls == 0) {
        site.partial = 0;
        site.scale = operations[rank] == 0 ? 1
                                           : static_cast<double>(merged.ranks[rank].mpi_operations) /
                                                 static_cast<double>(operations[rank]);
      }
      site.scale = std::max(site.scale, 1.0);
    }
  }
  double operator()(const Wait& wait) const {
    const Event& event = trace_.events[wait.event];
    const auto found = sites_.find(key(trace_.lanes[event.lane].rank, event.path));
    if (found == sites_.end()) return 1;
    const Site& site = found->second;
    const bool is_left_out =
        site.partial != 0 && trace_.call_end(wait.event) - trace_.call_begin(wait.event) < site.whole;
    return is_left_out ? 0 : site.scale;
  }

 private:
  struct Site {
    std::uint64_t calls = 0, analysed = 0, partial = 0;
    std::uint32_t whole = 0;  // the least number of events of a call that is not partial; 0: not known
    double scale = 1;
  };
  static std::uint64_t key(std::uint32_t rank, std::uint32_t path) {
    return std::uint64_t{rank} << 32 | path;
  }
  const Trace& trace_;
  std::unordered_map<std::uint64_t, Site> sites_;
};

void set_rank_waits(const Trace& trace, const Waits& waits, const Scale& scale, shard::ShardData& merged) {
  std::vector<double> wait_ns(merged.ranks.size());
  std::vector<bool> known(merged.ranks.size());
  for (const Lane& lane : trace.lanes) known[lane.rank] = true;
  for (const Wait& wait : waits.waits) {
    const Event& event = trace.events[wait.event];
    const Lane& lane = trace.lanes[event.lane];
    if (lane.thread == 0)
      wait_ns[lane.rank] += static_cast<double>(wait.end_ns - wait.begin_ns) * scale(wait);
  }
  // Of a light recording all time in MPI is known, but only the waiting in windows.
  std::vector<bool> only_in_windows(merged.ranks.size());
  if (!merged.run.standby)
    for (const shard::RecordingWindow& window : merged.recording_windows) only_in_windows[window.rank] = true;
  for (std::size_t i = 0; i < merged.ranks.size(); ++i) {
    shard::Rank& rank = merged.ranks[i];
    if (!known[i] && (!called_mpi(rank) || rank.mpi_operations != 0)) continue;
    if (only_in_windows[i]) continue;
    rank.flags |= shard::kWaitKnown;
    rank.mpi_wait_ns = std::min(static_cast<std::uint64_t>(std::min(wait_ns[i] + 0.5, 9e18)), rank.mpi_ns);
  }
}

bool has_paused(const shard::ShardData& merged) {
  return std::any_of(merged.ranks.begin(), merged.ranks.end(),
                     [](const shard::Rank& rank) { return rank.paused_ns > rank.standby_ns; });
}

// Handles a run that hangs in its first calls: it has no events, but who waits for whom is known.
void explain_without_events(shard::ShardData& merged) {
  if (merged.calls_under_way.empty()) return;
  shard::WaitAnalysis& analysis = merged.wait_analysis;
  analysis = {};
  analysis.done = true;
  for (shard::Rank& rank : merged.ranks) {
    if (!called_mpi(rank) || rank.mpi_operations != 0)
      continue;  // its events are lost: what it waited before is not known
    rank.flags |= shard::kWaitKnown;
    rank.mpi_wait_ns = 0;
  }
  add_unfinished_waits(merged);
}

}  // namespace

struct WaitAnalyser::State {
  TraceBuilder builder;
};

WaitAnalyser::WaitAnalyser() : state_(std::make_unique<State>()) {}
WaitAnalyser::~WaitAnalyser() = default;

void WaitAnalyser::add(const shard::ShardData& shard) { state_->builder.add(shard); }

void WaitAnalyser::finish(shard::ShardData& merged) {
  const std::unique_ptr<State> taken = std::exchange(state_, std::make_unique<State>());
  Trace trace = taken->builder.finish(merged);
  if (trace.lanes.empty()) {
    explain_without_events(merged);
    return;
  }

  const std::uint32_t missing = count_missing(trace, merged);
  const bool has_windows = was_recorded_in_windows(merged);
  const Matches matches = match_events(trace, missing, has_windows);
  const ClockModel clocks(trace, matches, taken->builder.clock_offsets(), merged);
  clocks.adjust(trace);
  const ClockCheck check = clocks.check(trace);
  const Waits waits = find_waits(trace, matches, clocks);
  const RecordedTime recorded_time(trace, merged);
  const ActivityReader activity(trace, waits, recorded_time);
  const SampleScale sample_scale(trace, merged);
  const Scale scale = std::cref(sample_scale);

  shard::WaitAnalysis& analysis = merged.wait_analysis;
  analysis = {};
  analysis.done = true;
  analysis.event_level = trace.level;
  constexpr std::uint64_t kMost =
      std::numeric_limits<std::int64_t>::max();  // a damaged file may say anything
  for (const shard::Rank& rank : merged.ranks)
    analysis.operations += std::min(rank.mpi_operations, kMost - analysis.operations);
  analysis.events = trace.events.size();
  analysis.messages = matches.messages;
  analysis.unmatched_messages = matches.unmatched_messages;
  analysis.collectives = matches.instances.size() - matches.cut_collectives;
  analysis.unmatched_collectives = matches.unmatched_collectives;
  analysis.clock_error_ns =
      check.nodes_apart != 0 ? shard::kClocksApart : static_cast<std::uint64_t>(check.error_ns);
  analysis.clock_violations = check.violations;
  analysis.worst_violation_ns = static_cast<std::uint64_t>(check.worst_violation_ns);

  find_unmatched(trace, merged);
  merged.wait_states = direct_causes(trace, waits, activity, scale);
  merged.root_causes = root_causes(trace, matches, waits, activity, scale);
  merged.time_windows = time_windows(trace, waits, scale, recorded_time);
  merged.critical_times.clear();
  if (trace.level == 0) merged.critical_times = critical_path(trace, waits, activity, recorded_time);
  // Nothing could be compared with it: what others waited for a rank in a pause is in the elapsed time alone.
  if (!has_paused(merged) && why_incomplete(trace, matches, merged) == Incomplete::kNo)
    analysis.ideal_ns = ideal_ns(trace, matches);
  set_rank_waits(trace, waits, scale, merged);
  add_unfinished_waits(merged);
  std::vector<shard::Note>& notes = merged.run.notes;
  if (missing != 0) notes.push_back(note_of_run(shard::NoteCode::kRanksWithoutEvents, missing));
  if (check.nodes_apart != 0) notes.push_back(note_of_run(shard::NoteCode::kClocksApart, check.nodes_apart));
  unite(notes);
}

}  // namespace clusterprof::aggregator
