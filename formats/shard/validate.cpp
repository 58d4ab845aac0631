// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <unordered_set>

#include "formats/shard/tables.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::shard {
namespace {

Error at(const char* table, std::size_t row, const char* what) {
  return Error{std::string("row ") + std::to_string(row) + " of table " + table + ": " + what};
}

Result<void> validate_events(const ShardData& data) {
  const std::size_t ranks = data.ranks.size(), paths = data.paths.size(), events = data.mpi_events.size();
  if (events >= kNone) return Error{"a table has more rows than an index can name"};
  for (std::size_t i = 0; i < events; ++i) {
    const MpiEvent& event = data.mpi_events[i];
    if (event.rank >= ranks) return at("mpi_events", i, "rank out of range");
    if (event.path >= paths) return at("mpi_events", i, "path out of range");
    if (event.communicator != kNone && event.communicator >= data.communicators.size())
      return at("mpi_events", i, "communicator out of range");
    if (event.op >= data.strings.size()) return at("mpi_events", i, "string out of range");
    if (event.kind >= wire::kMpiEventKinds) return at("mpi_events", i, "unknown kind");
    if (event.enter_ns > event.exit_ns) return at("mpi_events", i, "exit before enter");
    const auto place = [](const MpiEvent& row) { return std::tie(row.rank, row.thread, row.exit_ns); };
    if (i != 0 && place(event) < place(data.mpi_events[i - 1]))
      return at("mpi_events", i, "not sorted by rank, thread and time");
  }
  for (std::size_t i = 0; i < data.event_gaps.size(); ++i) {
    const EventGap& gap = data.event_gaps[i];
    if (gap.event >= events) return at("event_gaps", i, "event out of range");
    if (gap.path >= paths) return at("event_gaps", i, "path out of range");
    if (i != 0 && gap.event < data.event_gaps[i - 1].event) return at("event_gaps", i, "not sorted by event");
  }
  for (std::size_t i = 0; i < data.clock_offsets.size(); ++i)
    if (data.clock_offsets[i].rank >= ranks) return at("clock_offsets", i, "rank out of range");
  return {};
}

Result<void> validate_waiting(const ShardData& data) {
  const std::size_t ranks = data.ranks.size(), paths = data.paths.size();
  const WaitAnalysis& analysis = data.wait_analysis;
  for (const std::uint64_t amount :
       {analysis.ideal_ns, analysis.operations, analysis.events, analysis.messages,
        analysis.unmatched_messages, analysis.collectives, analysis.unmatched_collectives,
        analysis.clock_error_ns, analysis.clock_violations, analysis.worst_violation_ns})
    if (amount > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return Error{"wait_analysis: a number is out of range"};
  for (std::size_t i = 0; i < data.wait_states.size(); ++i) {
    const WaitState& state = data.wait_states[i];
    if (state.rank >= ranks) return at("wait_states", i, "rank out of range");
    if (state.path >= paths || state.cause_path >= paths) return at("wait_states", i, "path out of range");
    if (static_cast<std::size_t>(state.kind) >= kWaitKinds) return at("wait_states", i, "unknown kind");
    if (state.cause_rank != kNone && state.cause_rank >= ranks)
      return at("wait_states", i, "cause_rank out of range");
  }
  for (std::size_t i = 0; i < data.root_causes.size(); ++i) {
    if (data.root_causes[i].rank >= ranks) return at("root_causes", i, "rank out of range");
    if (data.root_causes[i].path >= paths) return at("root_causes", i, "path out of range");
  }
  for (std::size_t i = 0; i < data.critical_times.size(); ++i) {
    if (data.critical_times[i].rank >= ranks) return at("critical_times", i, "rank out of range");
    if (data.critical_times[i].path >= paths) return at("critical_times", i, "path out of range");
  }
  for (std::size_t i = 0; i < data.time_windows.size(); ++i) {
    const TimeWindow& window = data.time_windows[i];
    if (window.begin_ns > window.end_ns) return at("time_windows", i, "end before begin");
    if (i != 0 && window.begin_ns < data.time_windows[i - 1].end_ns)
      return at("time_windows", i, "not sorted by time");
    if (!std::isfinite(window.useful_mean_ns) || !std::isfinite(window.useful_max_ns))
      return at("time_windows", i, "not a number");
  }
  return {};
}

}  // namespace

Result<void> validate(const ShardData& data) {
  const std::size_t strings = data.strings.size(), frames = data.frames.size(), paths = data.paths.size(),
                    nodes = data.nodes.size(), ranks = data.ranks.size(), counters = data.counters.size();
  if (strings == 0 || !data.strings[0].empty())
    return Error{"row 0 of table strings is not the empty string"};
  if (paths == 0 || data.paths[0].parent != 0 || data.paths[0].frame != kNone || data.paths[0].id != PathId{})
    return Error{"row 0 of table paths is not the root"};
  for (const std::size_t rows : {strings, frames, paths, nodes, ranks, counters, data.communicators.size()})
    if (rows >= kNone) return Error{"a table has more rows than an index can name"};

  for (std::size_t i = 0; i < frames; ++i) {
    const Frame& frame = data.frames[i];
    if (frame.kind > FrameKind::kKernel) return at("frames", i, "unknown kind");
    if (frame.name >= strings || frame.file >= strings || frame.module >= strings)
      return at("frames", i, "string out of range");
  }
  for (std::size_t i = 1; i < paths; ++i) {
    const Path& path = data.paths[i];
    if (path.parent >= i) return at("paths", i, "parent does not come before its child");
    if (path.frame >= frames) return at("paths", i, "frame out of range");
    if (path.id != path_id(data.paths[path.parent].id, data.frames[path.frame], data.strings))
      return at("paths", i, "id is not the hash of the call path");
  }
  std::unordered_set<std::int32_t> seen;
  for (std::size_t i = 0; i < ranks; ++i) {
    if (data.ranks[i].node >= nodes) return at("ranks", i, "node out of range");
    if (!seen.insert(data.ranks[i].rank).second) return at("ranks", i, "rank listed twice");
  }
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    const Value& value = data.values[i];
    if (value.rank >= ranks) return at("values", i, "rank out of range");
    if (value.path >= paths) return at("values", i, "path out of range");
    if (static_cast<std::size_t>(value.category) >= kCategories) return at("values", i, "unknown category");
  }
  for (std::size_t i = 0; i < data.mpi_calls.size(); ++i) {
    const MpiCall& call = data.mpi_calls[i];
    if (call.rank >= ranks) return at("mpi_calls", i, "rank out of range");
    if (call.path >= paths) return at("mpi_calls", i, "path out of range");
    if (call.communicator != kNone && call.communicator >= data.communicators.size())
      return at("mpi_calls", i, "communicator out of range");
  }
  for (std::size_t i = 0; i < data.mpi_sizes.size(); ++i)
    if (data.mpi_sizes[i].op >= strings) return at("mpi_sizes", i, "string out of range");
  for (std::size_t i = 0; i < data.counter_values.size(); ++i) {
    const CounterValue& value = data.counter_values[i];
    if (value.rank >= ranks) return at("counter_values", i, "rank out of range");
    if (value.counter >= counters) return at("counter_values", i, "counter out of range");
  }
  for (std::size_t i = 0; i < data.path_counters.size(); ++i) {
    const PathCounter& value = data.path_counters[i];
    if (value.rank >= ranks) return at("path_counters", i, "rank out of range");
    if (value.path >= paths) return at("path_counters", i, "path out of range");
    if (value.counter >= counters) return at("path_counters", i, "counter out of range");
  }
  for (std::size_t i = 0; i < data.drops.size(); ++i)
    if (data.drops[i].rank >= ranks) return at("drops", i, "rank out of range");
  for (std::size_t i = 0; i < data.handler_costs.size(); ++i)
    if (data.handler_costs[i].rank >= ranks) return at("handler_costs", i, "rank out of range");
  if (const Result<void> events = validate_events(data); !events) return events;
  return validate_waiting(data);
}

}  // namespace clusterprof::shard
