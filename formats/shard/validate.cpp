// SPDX-License-Identifier: BSD-3-Clause
// Checks that the tables of a shard or profile are consistent (indices, order, tree shape, times). Readers
// call it on every file, so the rest of the program can rely on valid data.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "formats/shard/tables.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::shard {
namespace {

// Limit for the names, files and modules of all frames, and for the names of regions together with those
// around them. Reports hold the texts of every frame, while a file stores each text only once.
constexpr std::uint64_t kMaxFrameText = std::uint64_t{4} << 30;

Error at(const char* table, std::size_t row, const char* what) {
  return Error{std::string("row ") + std::to_string(row) + " of table " + table + ": " + what};
}

bool are_times(std::int64_t start_utc_ns, std::uint64_t elapsed_ns) {
  return start_utc_ns >= kEarliest_utc_ns && start_utc_ns <= kLatest_utc_ns &&
         elapsed_ns <= static_cast<std::uint64_t>(kLatest_utc_ns - start_utc_ns);
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
  for (std::size_t i = 0; i < data.event_stretches.size(); ++i) {
    const EventStretch& stretch = data.event_stretches[i];
    if (stretch.rank >= ranks) return at("event_stretches", i, "rank out of range");
    if (stretch.begin_ns > stretch.end_ns) return at("event_stretches", i, "end before begin");
    if (i == 0 || data.event_stretches[i - 1].rank < stretch.rank) continue;
    const EventStretch& before = data.event_stretches[i - 1];
    if (before.rank > stretch.rank || before.shared_begin_ns >= stretch.shared_begin_ns ||
        before.end_ns > stretch.begin_ns)
      return at("event_stretches", i, "not sorted by rank and time");
  }
  for (std::size_t i = 0; i < data.clock_offsets.size(); ++i)
    if (data.clock_offsets[i].rank >= ranks) return at("clock_offsets", i, "rank out of range");
  return {};
}

// How many bins there can be until the end of time.
std::uint64_t bins_until_end(const TimeAxis& axis) {
  return TimeAxis::kEnd_utc_ns / axis.bin_ns - static_cast<std::uint64_t>(axis.origin_utc_ns) / axis.bin_ns;
}

// Its bins reach the end of time when they are as wide as can be.
Result<void> validate_axis(const char* name, const TimeAxis& axis, std::uint32_t max_bins) {
  if (axis.bin_ns == 0) return {};
  const auto wrong = [&](const char* what) { return Error{std::string(name) + ": " + what}; };
  const std::uint64_t width = axis.bin_ns / TimeAxis::kFirstBin_ns;
  if (axis.bin_ns % TimeAxis::kFirstBin_ns != 0 || !std::has_single_bit(width) ||
      axis.bin_ns > TimeAxis::kEnd_utc_ns / max_bins)
    return wrong("bin_ns is not 1 ms times a power of two");
  if (axis.origin_utc_ns < 0 || static_cast<std::uint64_t>(axis.origin_utc_ns) >= TimeAxis::kEnd_utc_ns)
    return wrong("origin_utc_ns is out of range");
  if (static_cast<std::uint64_t>(axis.origin_utc_ns) % axis.bin_ns != 0)
    return wrong("origin_utc_ns is no multiple of bin_ns");
  return {};
}

// owner: the row's rank or node; owners: how many there are.
template <typename Row>
Result<void> validate_bins(const ShardData& data, const char* table, const std::vector<Row>& rows,
                           std::uint32_t Row::*owner, std::size_t owners) {
  if (rows.empty()) return {};
  const TimeAxis& axis = data.time_axis;
  if (axis.bin_ns == 0) return at(table, 0, "without a time axis");
  const std::uint64_t bins = bins_until_end(axis);
  const auto place = [&](const Row& row) { return std::tuple(row.*owner, row.series, row.bin); };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (row.*owner >= owners) return at(table, i, "rank or node out of range");
    if (row.series >= data.series.size()) return at(table, i, "series out of range");
    if (row.bin >= TimeAxis::kMaxBins || row.bin >= bins) return at(table, i, "bin out of range");
    if (i != 0 && place(row) <= place(rows[i - 1]))
      return at(table, i, "not sorted by series and bin, or listed twice");
  }
  return {};
}

Result<void> validate_series(const ShardData& data) {
  if (const Result<void> axis = validate_axis("time_axis", data.time_axis, TimeAxis::kMaxBins); !axis)
    return axis;
  if (data.series.size() >= kNone) return Error{"a table has more rows than an index can name"};
  std::set<std::pair<std::string_view, SeriesKind>> seen;
  for (std::size_t i = 0; i < data.series.size(); ++i) {
    const Series& series = data.series[i];
    if (series.name >= data.strings.size()) return at("series", i, "string out of range");
    if (series.kind > SeriesKind::kMaximum) return at("series", i, "unknown kind");
    if (!seen.emplace(data.strings[series.name], series.kind).second) return at("series", i, "listed twice");
  }
  const Result<void> ranks =
      validate_bins(data, "rank_series", data.rank_series, &RankSeries::rank, data.ranks.size());
  if (!ranks) return ranks;
  return validate_bins(data, "node_series", data.node_series, &NodeSeries::node, data.nodes.size());
}

template <typename Row>
Result<void> validate_path_bins(const ShardData& data, const char* table, const std::vector<Row>& rows) {
  if (rows.empty()) return {};
  const TimeAxis& axis = data.path_axis;
  if (axis.bin_ns == 0) return at(table, 0, "without a time axis");
  const std::uint64_t bins = std::min<std::uint64_t>(kMaxPathBins, bins_until_end(axis));
  const auto place = [](const Row& row) { return std::pair(row.path, row.bin); };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].path >= data.paths.size()) return at(table, i, "path out of range");
    if (rows[i].bin >= bins) return at(table, i, "bin out of range");
    if (i != 0 && place(rows[i]) <= place(rows[i - 1]))
      return at(table, i, "not sorted by path and bin, or listed twice");
  }
  return {};
}

Result<void> validate_path_series(const ShardData& data) {
  const Result<void> valid = validate_axis("path_axis", data.path_axis, kMaxPathBins);
  if (!valid) return valid;
  if (const Result<void> times = validate_path_bins(data, "path_series", data.path_series); !times)
    return times;
  return validate_path_bins(data, "memory_series", data.memory_series);
}

Result<void> validate_memory(const ShardData& data) {
  const std::size_t ranks = data.ranks.size(), paths = data.paths.size();
  for (std::size_t i = 0; i < data.memory_ranks.size(); ++i) {
    if (data.memory_ranks[i].rank >= ranks) return at("memory_ranks", i, "rank out of range");
    if (i != 0 && data.memory_ranks[i - 1].rank >= data.memory_ranks[i].rank)
      return at("memory_ranks", i, "ranks are out of order");
  }
  for (std::size_t i = 0; i < data.memory_spaces.size(); ++i) {
    if (data.memory_spaces[i].rank >= ranks) return at("memory_spaces", i, "rank out of range");
    if (!are_times(data.memory_spaces[i].peak_utc_ns, 0))
      return at("memory_spaces", i, "the time is out of range");
  }
  for (std::size_t i = 0; i < data.memory_labels.size(); ++i)
    if (data.memory_labels[i].rank >= ranks) return at("memory_labels", i, "rank out of range");
  for (std::size_t i = 0; i < data.memory_copies.size(); ++i)
    if (data.memory_copies[i].rank >= ranks) return at("memory_copies", i, "rank out of range");
  for (std::size_t i = 0; i < data.memory_sites.size(); ++i) {
    const MemorySite& site = data.memory_sites[i];
    if (site.rank >= ranks) return at("memory_sites", i, "rank out of range");
    if (site.path >= paths) return at("memory_sites", i, "path out of range");
    if (static_cast<std::size_t>(site.domain) >= kMemoryDomains)
      return at("memory_sites", i, "unknown domain");
  }
  for (std::size_t i = 0; i < data.nodes.size(); ++i)
    if (data.nodes[i].held_peak_utc_ns != 0 && !are_times(data.nodes[i].held_peak_utc_ns, 0))
      return at("nodes", i, "held_peak_utc_ns is out of range");
  return {};
}

Result<void> validate_files_and_regions(const ShardData& data) {
  const std::size_t ranks = data.ranks.size(), paths = data.paths.size(), files = data.io_files.size();
  if (files >= kNone) return Error{"a table has more rows than an index can name"};
  for (std::size_t i = 0; i < data.io_calls.size(); ++i) {
    const IoCall& call = data.io_calls[i];
    if (call.rank >= ranks) return at("io_calls", i, "rank out of range");
    if (call.path >= paths) return at("io_calls", i, "path out of range");
    if (call.file >= files) return at("io_calls", i, "file out of range");
    if (static_cast<std::size_t>(call.operation) >= kIoOperations)
      return at("io_calls", i, "unknown operation");
  }
  for (std::size_t i = 0; i < data.region_times.size(); ++i) {
    const RegionTime& region = data.region_times[i];
    if (region.rank >= ranks) return at("region_times", i, "rank out of range");
    if (region.path >= paths) return at("region_times", i, "path out of range");
    if (region.path == 0 || data.frames[data.paths[region.path].frame].kind != FrameKind::kRegion)
      return at("region_times", i, "path is no region");
  }
  return {};
}

// `data`: ShardData or MatrixRows.
template <typename Data>
Result<void> validate_matrix(const Data& data, const MatrixBounds& bounds) {
  const auto& [ranks, paths, counters] = bounds;
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    const Value& value = data.values[i];
    if (value.rank >= ranks) return at("values", i, "rank out of range");
    if (value.path >= paths) return at("values", i, "path out of range");
    if (static_cast<std::size_t>(value.category) >= kCategories) return at("values", i, "unknown category");
  }
  for (std::size_t i = 0; i < data.path_counters.size(); ++i) {
    const PathCounter& value = data.path_counters[i];
    if (value.rank >= ranks) return at("path_counters", i, "rank out of range");
    if (value.path >= paths) return at("path_counters", i, "path out of range");
    if (value.counter >= counters) return at("path_counters", i, "counter out of range");
  }
  for (std::size_t i = 0; i < data.data_accesses.size(); ++i) {
    if (data.data_accesses[i].rank >= ranks) return at("data_accesses", i, "rank out of range");
    if (data.data_accesses[i].path >= paths) return at("data_accesses", i, "path out of range");
  }
  return {};
}

Result<void> validate_waiting(const ShardData& data) {
  const std::size_t ranks = data.ranks.size(), paths = data.paths.size();
  const WaitAnalysis& analysis = data.wait_analysis;
  for (const std::uint64_t amount :
       {analysis.ideal_ns, analysis.operations, analysis.events, analysis.messages,
        analysis.unmatched_messages, analysis.collectives, analysis.unmatched_collectives,
        analysis.clock_error_ns, analysis.clock_violations, analysis.worst_violation_ns,
        analysis.unreceived_messages})
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
  for (std::size_t i = 0; i < data.unmatched_messages.size(); ++i) {
    const UnmatchedMessages& row = data.unmatched_messages[i];
    if (row.rank >= ranks || row.receiver >= ranks) return at("unmatched_messages", i, "rank out of range");
    if (row.path >= paths) return at("unmatched_messages", i, "path out of range");
    if (row.communicator != kNone && row.communicator >= data.communicators.size())
      return at("unmatched_messages", i, "communicator out of range");
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

Result<void> validate_call_paths(const ShardData& data) {
  const std::size_t strings = data.strings.size(), frames = data.frames.size(), paths = data.paths.size();
  std::uint64_t text_bytes = 0;
  for (std::size_t i = 0; i < frames; ++i) {
    const Frame& frame = data.frames[i];
    if (static_cast<std::uint8_t>(frame.kind) >= kFrameKinds) return at("frames", i, "unknown kind");
    if (frame.name >= strings || frame.file >= strings || frame.module >= strings)
      return at("frames", i, "string out of range");
    text_bytes +=
        data.strings[frame.name].size() + data.strings[frame.file].size() + data.strings[frame.module].size();
    if (text_bytes > kMaxFrameText) return at("frames", i, "too much text");
  }
  std::vector<std::uint32_t> depth(paths, 0);
  std::vector<std::uint64_t> region_text(paths, 0);
  for (std::size_t i = 1; i < paths; ++i) {
    const Path& path = data.paths[i];
    if (path.parent >= i) return at("paths", i, "parent does not come before its child");
    if (path.frame >= frames) return at("paths", i, "frame out of range");
    const bool region = data.frames[path.frame].kind == FrameKind::kRegion;
    if (region && path.parent != 0 && data.frames[data.paths[path.parent].frame].kind != FrameKind::kRegion)
      return at("paths", i, "region inside a function");
    depth[i] = depth[path.parent] + 1;
    if (depth[i] > (region ? kMaxRegionDepth : kMaxPathDepth))
      return at("paths", i, "too many callers or regions around it");
    if (region) {
      region_text[i] = region_text[path.parent] + data.strings[data.frames[path.frame].name].size();
      text_bytes += region_text[i];
      if (text_bytes > kMaxFrameText) return at("paths", i, "too much text");
    }
    if (path.id != path_id(data.paths[path.parent].id, data.frames[path.frame], data.strings))
      return at("paths", i, "id is not the hash of the call path");
  }
  return {};
}

Result<void> validate_run(const ShardData& data) {
  const std::size_t strings = data.strings.size(), nodes = data.nodes.size(), ranks = data.ranks.size();
  if (!are_times(data.run.start_utc_ns, 0)) return Error{"the run's start is out of range"};
  for (std::size_t i = 0; i < data.run.notes.size(); ++i)
    if (const char* const problem = problem_of(data.run.notes[i])) return at("notes", i, problem);
  for (std::size_t i = 0; i < nodes; ++i)
    if (!are_times(data.nodes[i].start_utc_ns, data.nodes[i].elapsed_ns))
      return at("nodes", i, "time out of range");
  for (std::size_t i = 0; i < nodes; ++i)
    if (data.nodes[i].as_of_utc_ns != 0 && !are_times(data.nodes[i].as_of_utc_ns, 0))
      return at("nodes", i, "as_of_utc_ns is out of range");
  std::unordered_set<std::int32_t> seen;
  for (std::size_t i = 0; i < ranks; ++i) {
    if (data.ranks[i].node >= nodes) return at("ranks", i, "node out of range");
    if (!are_times(data.ranks[i].start_utc_ns, data.ranks[i].elapsed_ns))
      return at("ranks", i, "time out of range");
    for (const auto text : kRankTexts)
      if (data.ranks[i].*text >= strings) return at("ranks", i, "string out of range");
    if (!seen.insert(data.ranks[i].rank).second) return at("ranks", i, "rank listed twice");
  }
  return {};
}

Result<void> validate_mpi_calls(const ShardData& data) {
  const std::size_t strings = data.strings.size(), paths = data.paths.size(), ranks = data.ranks.size();
  for (std::size_t i = 0; i < data.mpi_calls.size(); ++i) {
    const MpiCall& call = data.mpi_calls[i];
    if (call.rank >= ranks) return at("mpi_calls", i, "rank out of range");
    if (call.path >= paths) return at("mpi_calls", i, "path out of range");
    if (call.communicator != kNone && call.communicator >= data.communicators.size())
      return at("mpi_calls", i, "communicator out of range");
  }
  for (std::size_t i = 0; i < data.calls_under_way.size(); ++i) {
    const CallUnderWay& call = data.calls_under_way[i];
    if (call.rank >= ranks) return at("calls_under_way", i, "rank out of range");
    if (call.path >= paths) return at("calls_under_way", i, "path out of range");
    if (call.communicator != kNone && call.communicator >= data.communicators.size())
      return at("calls_under_way", i, "communicator out of range");
  }
  for (std::size_t i = 0; i < data.pending_requests.size(); ++i) {
    const PendingRequest& request = data.pending_requests[i];
    if (request.rank >= ranks) return at("pending_requests", i, "rank out of range");
    if (request.kind < PendingKind::kSend || request.kind > PendingKind::kCollective)
      return at("pending_requests", i, "unknown kind");
  }
  for (std::size_t i = 0; i < data.collective_counts.size(); ++i) {
    const CollectiveCount& row = data.collective_counts[i];
    if (row.rank >= ranks) return at("collective_counts", i, "rank out of range");
    if (row.path >= paths) return at("collective_counts", i, "path out of range");
    if (row.communicator >= data.communicators.size())
      return at("collective_counts", i, "communicator out of range");
  }
  for (std::size_t i = 0; i < data.group_numbers.size(); ++i) {
    const GroupNumber& row = data.group_numbers[i];
    if (row.rank >= ranks) return at("group_numbers", i, "rank out of range");
    if (row.communicator >= data.communicators.size())
      return at("group_numbers", i, "communicator out of range");
    if (row.number < 0) return at("group_numbers", i, "number out of range");
  }
  for (std::size_t i = 0; i < data.group_messages.size(); ++i) {
    const GroupMessages& row = data.group_messages[i];
    if (row.rank >= ranks) return at("group_messages", i, "rank out of range");
    if (row.communicator >= data.communicators.size())
      return at("group_messages", i, "communicator out of range");
    if (row.destination < 0) return at("group_messages", i, "number out of range");
  }
  for (std::size_t i = 0; i < data.mpi_errors.size(); ++i) {
    const MpiError& row = data.mpi_errors[i];
    if (row.rank >= ranks) return at("mpi_errors", i, "rank out of range");
    if (row.path >= paths) return at("mpi_errors", i, "path out of range");
    if (row.communicator != kNone && row.communicator >= data.communicators.size())
      return at("mpi_errors", i, "communicator out of range");
  }
  for (std::size_t i = 0; i < data.open_requests.size(); ++i) {
    const OpenRequests& row = data.open_requests[i];
    if (row.rank >= ranks) return at("open_requests", i, "rank out of range");
    if (row.path >= paths) return at("open_requests", i, "path out of range");
    if (row.communicator != kNone && row.communicator >= data.communicators.size())
      return at("open_requests", i, "communicator out of range");
    if (row.kind > static_cast<std::uint8_t>(PendingKind::kCollective))
      return at("open_requests", i, "unknown kind");
  }
  for (std::size_t i = 0; i < data.mpi_sizes.size(); ++i)
    if (data.mpi_sizes[i].op >= strings) return at("mpi_sizes", i, "string out of range");
  return {};
}

Result<void> validate_counts(const ShardData& data) {
  const std::size_t ranks = data.ranks.size(), counters = data.counters.size();
  for (std::size_t i = 0; i < data.counter_values.size(); ++i) {
    const CounterValue& value = data.counter_values[i];
    if (value.rank >= ranks) return at("counter_values", i, "rank out of range");
    if (value.counter >= counters) return at("counter_values", i, "counter out of range");
  }
  for (std::size_t i = 0; i < data.settings.size(); ++i) {
    if (static_cast<std::size_t>(data.settings[i].kind) >= kSettingKinds)
      return at("settings", i, "unknown kind");
    if (i != 0 && !(data.settings[i - 1] < data.settings[i])) return at("settings", i, "not in order");
  }
  for (std::size_t i = 0; i < data.processes.size(); ++i) {
    const Process& process = data.processes[i];
    if (process.rank >= ranks) return at("processes", i, "rank out of range");
    if (process.path >= data.paths.size() || process.top_path >= data.paths.size())
      return at("processes", i, "path out of range");
    if (static_cast<std::size_t>(process.origin) >= kProcessOrigins)
      return at("processes", i, "unknown origin");
    if (static_cast<std::size_t>(process.unrecorded) >= kUnrecordedKinds)
      return at("processes", i, "unknown reason why it is unrecorded");
    if (process.count == 0) return at("processes", i, "count is 0");
    if (!are_times(process.start_utc_ns, process.elapsed_ns))
      return at("processes", i, "times are out of range");
  }
  for (std::size_t i = 0; i < data.event_loops.size(); ++i) {
    const EventLoop& loop = data.event_loops[i];
    if (loop.rank >= ranks) return at("event_loops", i, "rank out of range");
    if (loop.path >= data.paths.size()) return at("event_loops", i, "path out of range");
    if (!are_times(loop.start_utc_ns, 0) ||
        (loop.longest_utc_ns != 0 && !are_times(loop.longest_utc_ns, loop.longest_ns)))
      return at("event_loops", i, "times are out of range");
  }
  for (std::size_t i = 0; i < data.loop_blocks.size(); ++i) {
    const LoopBlock& block = data.loop_blocks[i];
    if (block.rank >= ranks) return at("loop_blocks", i, "rank out of range");
    if (block.path >= data.paths.size()) return at("loop_blocks", i, "path out of range");
    if (block.wall_ns > block.turn_ns) return at("loop_blocks", i, "the part is longer than the turn");
    if (!are_times(block.begin_utc_ns, block.turn_ns) || !are_times(block.start_utc_ns, 0))
      return at("loop_blocks", i, "times are out of range");
  }
  for (std::size_t i = 0; i < data.mutex_waits.size(); ++i) {
    const MutexWait& row = data.mutex_waits[i];
    if (row.rank >= ranks) return at("mutex_waits", i, "rank out of range");
    if (row.path >= data.paths.size() || row.holder_path >= data.paths.size())
      return at("mutex_waits", i, "path out of range");
  }
  for (std::size_t i = 0; i < data.omp_ranks.size(); ++i) {
    const OmpRank& row = data.omp_ranks[i];
    if (row.rank >= ranks) return at("omp_ranks", i, "rank out of range");
    if (static_cast<std::size_t>(row.method) >= kOmpMethods) return at("omp_ranks", i, "unknown method");
  }
  for (std::size_t i = 0; i < data.omp_regions.size(); ++i) {
    const OmpRegion& row = data.omp_regions[i];
    if (row.rank >= ranks) return at("omp_regions", i, "rank out of range");
    if (row.path >= data.paths.size()) return at("omp_regions", i, "path out of range");
    if (static_cast<std::size_t>(row.kind) >= kOmpKinds) return at("omp_regions", i, "unknown kind");
    if (row.threads == 0 || row.threads > kMaxOmpThreads) return at("omp_regions", i, "threads out of range");
    if (row.wait_ns > row.threads_ns || row.inner_wait_ns > row.threads_ns - row.wait_ns)
      return at("omp_regions", i, "it waits for longer than there is time");
  }
  for (std::size_t i = 0; i < data.omp_threads.size(); ++i) {
    const OmpThread& row = data.omp_threads[i];
    if (row.rank >= ranks) return at("omp_threads", i, "rank out of range");
    if (row.path >= data.paths.size()) return at("omp_threads", i, "path out of range");
    if (row.number >= row.threads || row.threads > kMaxOmpThreads)
      return at("omp_threads", i, "number out of range");
    if (row.wait_ns > row.time_ns || row.inner_wait_ns > row.time_ns - row.wait_ns)
      return at("omp_threads", i, "it waits for longer than there is time");
  }
  for (std::size_t i = 0; i < data.omp_constructs.size(); ++i) {
    const OmpConstruct& row = data.omp_constructs[i];
    if (row.rank >= ranks) return at("omp_constructs", i, "rank out of range");
    if (row.path >= data.paths.size() || row.region_path >= data.paths.size())
      return at("omp_constructs", i, "path out of range");
    if (static_cast<std::size_t>(row.kind) >= kOmpKinds) return at("omp_constructs", i, "unknown kind");
    if (row.schedules >> kOmpSchedules != 0) return at("omp_constructs", i, "unknown schedule");
    if (row.threads == 0 || row.threads > kMaxOmpThreads)
      return at("omp_constructs", i, "threads out of range");
    if (row.wait_ns > row.time_ns) return at("omp_constructs", i, "it waits for longer than there is time");
  }
  for (std::size_t i = 0; i < data.task_times.size(); ++i) {
    const TaskTime& task = data.task_times[i];
    if (task.rank >= ranks) return at("task_times", i, "rank out of range");
    if (task.path >= data.paths.size() || task.task_path >= data.paths.size())
      return at("task_times", i, "path out of range");
  }
  for (std::size_t i = 0; i < data.threads.size(); ++i) {
    const Thread& thread = data.threads[i];
    if (thread.rank >= ranks) return at("threads", i, "rank out of range");
    for (const std::uint32_t path : {thread.path, thread.top_path, thread.last_path})
      if (path >= data.paths.size()) return at("threads", i, "path out of range");
    if (static_cast<std::size_t>(thread.kind) >= kThreadKinds) return at("threads", i, "unknown kind");
    if (static_cast<std::size_t>(thread.last_category) >= kCategories)
      return at("threads", i, "unknown category");
    if (thread.count == 0) return at("threads", i, "count is 0");
    if (!are_times(thread.start_utc_ns, thread.elapsed_ns)) return at("threads", i, "times are out of range");
  }
  for (std::size_t i = 0; i < data.thread_spans.size(); ++i) {
    const ThreadSpan& span = data.thread_spans[i];
    if (span.rank >= ranks) return at("thread_spans", i, "rank out of range");
    if (static_cast<std::size_t>(span.how) >= kSpanEnds) return at("thread_spans", i, "unknown end");
    if (span.begin_ns > span.call_ns || span.call_ns > span.end_ns ||
        span.end_ns > static_cast<std::uint64_t>(kLatest_utc_ns))
      return at("thread_spans", i, "times are out of order");
    const auto place = [](const ThreadSpan& of) { return std::tuple(of.rank, of.thread, of.number); };
    if (i != 0 && place(data.thread_spans[i - 1]) >= place(span))
      return at("thread_spans", i, "rows are out of order");
  }
  for (std::size_t i = 0; i < data.span_times.size(); ++i) {
    const SpanTime& row = data.span_times[i];
    if (row.rank >= ranks) return at("span_times", i, "rank out of range");
    if (row.path >= data.paths.size()) return at("span_times", i, "path out of range");
    const auto place = [](const SpanTime& of) { return std::tuple(of.rank, of.thread, of.number); };
    if (i != 0 && place(data.span_times[i - 1]) > place(row))
      return at("span_times", i, "rows are out of order");
  }
  for (std::size_t i = 0; i < data.recording_windows.size(); ++i) {
    const RecordingWindow& window = data.recording_windows[i];
    if (window.rank >= ranks) return at("recording_windows", i, "rank out of range");
    const bool follows = i != 0 && data.recording_windows[i - 1].rank == window.rank;
    if (window.begin_ns > window.end_ns || window.end_ns > static_cast<std::uint64_t>(kLatest_utc_ns) ||
        (follows && data.recording_windows[i - 1].end_ns > window.begin_ns))
      return at("recording_windows", i, "times are out of order");
  }
  for (std::size_t i = 0; i < data.failures.size(); ++i) {
    if (data.failures[i].rank >= ranks) return at("failures", i, "rank out of range");
    if (i != 0 && data.failures[i - 1].rank >= data.failures[i].rank)
      return at("failures", i, "ranks are out of order");
  }
  for (std::size_t i = 0; i < data.drops.size(); ++i)
    if (data.drops[i].rank >= ranks) return at("drops", i, "rank out of range");
  for (std::size_t i = 0; i < data.handler_costs.size(); ++i)
    if (data.handler_costs[i].rank >= ranks) return at("handler_costs", i, "rank out of range");
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

  if (const Result<void> call_paths = validate_call_paths(data); !call_paths) return call_paths;
  if (const Result<void> run = validate_run(data); !run) return run;
  if (const Result<void> calls = validate_mpi_calls(data); !calls) return calls;
  if (const Result<void> counts = validate_counts(data); !counts) return counts;
  if (const Result<void> series = validate_series(data); !series) return series;
  if (const Result<void> series = validate_path_series(data); !series) return series;
  if (const Result<void> memory = validate_memory(data); !memory) return memory;
  if (const Result<void> rest = validate_files_and_regions(data); !rest) return rest;
  if (const Result<void> events = validate_events(data); !events) return events;
  if (const Result<void> waiting = validate_waiting(data); !waiting) return waiting;
  return validate_matrix(data, {ranks, paths, counters});
}

Result<void> validate(const MatrixRows& rows, const MatrixBounds& bounds) {
  return validate_matrix(rows, bounds);
}

}  // namespace clusterprof::shard
