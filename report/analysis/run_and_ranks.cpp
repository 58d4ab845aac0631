// SPDX-License-Identifier: BSD-3-Clause
// Describes the run, its nodes and ranks, and computes the efficiencies (docs/metrics.md, "Efficiencies")
// and the quality of the recording.
#include "report/analysis/run_and_ranks.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/command_text.hpp"
#include "base/split.hpp"
#include "report/analysis/notes.hpp"
#include "report/analysis/recording_windows.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {

using shard::Category;
using shard::kCategories;
using shard::Rank;
using shard::ShardData;

namespace {

constexpr std::size_t kMpi = static_cast<std::size_t>(Category::kMpi);
constexpr std::size_t kPython = static_cast<std::size_t>(Category::kPython);
constexpr std::size_t kRunnable = static_cast<std::size_t>(Category::kRunnable);

struct Elapsed {
  std::uint64_t ns = 0;
  bool clocks_disagree = false;
};

// The time from the first start to the last end. If one node seems to have ended before another began, their
// clocks must disagree, because they ran one MPI program. Then the longest node counts.
Elapsed elapsed_of(const ShardData& data) {
  if (data.ranks.empty()) return {};
  std::int64_t first = INT64_MAX, last = INT64_MIN, earliest_end = INT64_MAX, latest_start = INT64_MIN;
  bool any_mpi = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> nodes(data.nodes.size(), {INT64_MAX, INT64_MIN});
  std::uint64_t longest = 0;
  for (const Rank& rank : data.ranks) {
    const std::int64_t end = rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns);
    first = std::min(first, rank.start_utc_ns);
    last = std::max(last, end);
    any_mpi = any_mpi || (rank.flags & shard::kUsedMpi) != 0;
    longest = std::max(longest, rank.elapsed_ns);
    if (rank.node >= nodes.size()) continue;
    auto& [start, stop] = nodes[rank.node];
    start = std::min(start, rank.start_utc_ns);
    stop = std::max(stop, end);
  }
  for (const auto& [start, stop] : nodes) {
    if (start == INT64_MAX) continue;
    latest_start = std::max(latest_start, start);
    earliest_end = std::min(earliest_end, stop);
    longest = std::max(longest, static_cast<std::uint64_t>(stop - start));
  }
  if (any_mpi && latest_start != INT64_MIN && latest_start > earliest_end) return {longest, true};
  return {static_cast<std::uint64_t>(last - first), false};
}

std::uint64_t recorded_of(const Rank& rank) {
  return rank.elapsed_ns - std::min(rank.paused_ns, rank.elapsed_ns);
}

// The time outside MPI, running or blocked.
std::uint64_t useful_ns(const Rank& rank, bool cpu_clock) {
  const std::uint64_t outside_ns = recorded_of(rank) - std::min(rank.mpi_ns, recorded_of(rank));
  return outside_ns - std::min(runnable_ns(rank, cpu_clock), outside_ns);
}

bool any_used_mpi(const ShardData& data) {
  return std::any_of(data.ranks.begin(), data.ranks.end(),
                     [](const Rank& rank) { return (rank.flags & shard::kUsedMpi) != 0; });
}

// Reads lines as in shard::Rank::last_call_path.
std::vector<SourceLocation> frames_of(const std::string& lines) {
  std::vector<SourceLocation> frames;
  for (const std::string& line : split(lines, '\n')) {
    const std::vector<std::string> fields = split(line, '\t');
    if (fields.size() != 5) continue;
    SourceLocation& frame = frames.emplace_back();
    frame.function = fields[0];
    frame.file = fields[1];
    frame.module = fields[3];
    std::from_chars(fields[2].data(), fields[2].data() + fields[2].size(), frame.line);
    std::uint8_t kind = 0;
    std::from_chars(fields[4].data(), fields[4].data() + fields[4].size(), kind);
    if (kind < shard::kFrameKinds) frame.kind = static_cast<shard::FrameKind>(kind);
  }
  return frames;
}

RankInfo describe_rank(const ShardData& data, const Rank& rank, bool cpu_clock) {
  RankInfo info;
  info.rank = rank.rank;
  info.node = rank.node;
  info.pid = rank.pid;
  const std::uint64_t standby_ns = std::min({rank.standby_ns, rank.paused_ns, rank.elapsed_ns});
  info.elapsed_s = to_seconds(rank.elapsed_ns - standby_ns);
  info.paused_s = to_seconds(rank.elapsed_ns - recorded_of(rank) - standby_ns);
  info.recorded_s = to_seconds(recorded_of(rank));
  // What the kernel counts is of the whole process, so with --standby it says nothing of the windows.
  const bool whole = !data.run.standby;
  const bool usage = whole && (rank.flags & shard::kUsageKnown) != 0;
  if ((rank.flags & shard::kUsageKnown) != 0) info.max_rss_bytes = rank.max_rss_bytes;
  if (usage || (whole && rank.cpu_ns != 0)) info.cpu_s = to_seconds(rank.cpu_ns);
  info.samples = rank.samples;
  info.threads = rank.threads;
  info.processes = rank.processes;
  info.category_s = main_thread_categories(rank, cpu_clock);
  if (measures_mpi(rank)) {
    const std::uint64_t mpi_ns = std::min(rank.mpi_ns, recorded_of(rank));
    info.useful_s = to_seconds(useful_ns(rank, cpu_clock));
    if ((rank.flags & shard::kRunDelayKnown) != 0)
      info.mpi_runnable_s = to_seconds(std::min(rank.mpi_runnable_ns, mpi_ns));
    if ((rank.flags & shard::kWaitKnown) != 0) {
      const std::uint64_t wait_ns = std::min(rank.mpi_wait_ns, mpi_ns);
      info.mpi_wait_s = to_seconds(wait_ns);
      info.mpi_transfer_s = to_seconds(mpi_ns - wait_ns);
    }
  }
  if (usage) {
    info.minor_faults = rank.minor_faults;
    info.major_faults = rank.major_faults;
    info.voluntary_switches = rank.voluntary_switches;
    info.involuntary_switches = rank.involuntary_switches;
    if (rank.user_ns + rank.system_ns != 0 || rank.cpu_ns == 0) {  // otherwise the file has only their sum
      info.user_s = to_seconds(rank.user_ns);
      info.kernel_s = to_seconds(rank.system_ns);
    }
  }
  const auto text = [&data](shard::StringIndex i) {
    return i < data.strings.size() ? data.strings[i] : std::string();
  };
  info.affinity = text(rank.affinity);
  info.numa = text(rank.numa_nodes);
  if (whole && (rank.flags & shard::kIoKnown) != 0) {
    info.read_bytes = rank.read_bytes;
    info.write_bytes = rank.write_bytes;
  }
  if ((rank.flags & shard::kExitStatusKnown) != 0) info.exit_status = rank.exit_status;
  if ((rank.flags & shard::kExitSignalKnown) != 0) info.exit_signal = rank.exit_signal;
  info.lost = (rank.flags & shard::kLost) != 0;
  info.still_ran = (rank.flags & shard::kStillRan) != 0;
  info.last_call_path = frames_of(text(rank.last_call_path));
  info.spawned = (rank.flags & shard::kSpawned) != 0;
  info.restart = rank.restart;
  info.handler_s = to_seconds(rank.handler_ns);
  info.unsampled_threads = rank.unsampled_threads;
  info.unsampled_cpu_s = to_seconds(rank.unsampled_cpu_ns);
  return info;
}

// The value below which `share` of the counts lie, interpolated linearly within a bin.
Seconds quantile(const std::map<std::uint64_t, std::uint64_t>& bins, double share) {
  std::uint64_t total = 0;
  for (const auto& [le_ns, count] : bins) total += count;
  if (total == 0) return {};
  const double wanted = share * static_cast<double>(total);
  double before = 0;
  for (const auto& [le_ns, count] : bins) {
    const auto here = static_cast<double>(count);
    if (before + here >= wanted) {
      // Bins are a quarter of an octave wide; the measured value lies somewhere inside.
      const double upper = static_cast<double>(le_ns), lower = upper / std::exp2(0.25);
      return (lower + (upper - lower) * (wanted - before) / here) / 1e9;
    }
    before += here;
  }
  return to_seconds(bins.rbegin()->first);
}

}  // namespace

RankOrder::RankOrder(const ShardData& head) : ascending(head.ranks.size()), position(head.ranks.size()) {
  std::iota(ascending.begin(), ascending.end(), 0);
  std::stable_sort(ascending.begin(), ascending.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return head.ranks[a].rank < head.ranks[b].rank; });
  for (const std::uint32_t index : ascending) {
    position[index] = static_cast<std::uint32_t>(numbers.size());
    numbers.push_back(head.ranks[index].rank);
  }
}

RankSpread RankOrder::spread(std::uint64_t total, const Extremes& of) const {
  RankSpread result;
  if (numbers.empty()) return result;
  result.min_s = of.ranks == numbers.size() ? to_seconds(of.min) : 0;
  result.mean_s = to_seconds(total) / static_cast<double>(numbers.size());
  result.max_s = to_seconds(of.max);
  result.max_rank = of.max == 0 ? numbers.front() : number(of.max_position);
  return result;
}

std::int64_t snapshot_utc_ns(const ShardData& data) {
  constexpr std::uint64_t kSecond_ns = 1'000'000'000;
  for (const shard::Note& note : data.run.notes)
    if (note.code == shard::NoteCode::kSnapshot && note.number <= shard::kLatest_utc_ns / kSecond_ns)
      return static_cast<std::int64_t>(note.number * kSecond_ns);
  return 0;
}

RunInfo describe_run(const ShardData& data) {
  RunInfo run;
  run.id = data.run.id;
  run.command = data.run.command;
  run.start_utc_ns = data.run.start_utc_ns;
  run.nodes = data.nodes.size();
  run.ranks = data.ranks.size();
  run.world_size = data.run.world_size;
  run.rate_hz = data.run.rate_hz;
  run.clock = data.run.clock;
  run.sample_on = data.run.sample_on;
  run.launcher = data.run.launcher;
  run.only_regions = data.run.only_regions;
  run.version = data.run.version;
  run.mpi_library = data.run.mpi_library;
  run.settings = data.settings;
  run.complete = data.run.complete;
  const Elapsed elapsed = elapsed_of(data);
  run.elapsed_s = run.lasted_s = to_seconds(elapsed.ns);
  run.snapshot_utc_ns = snapshot_utc_ns(data);
  run.standby = data.run.standby;
  run.windows = united_windows(data);
  std::vector<shard::Note> notes = data.run.notes;
  if (run.standby) run.elapsed_s = run.windows_s();
  if (run.was_never_recorded())
    notes.push_back(note_of_run(shard::NoteCode::kNeverStarted));
  else if (!run.windows.empty())
    notes.push_back(note_of_run(run.standby ? shard::NoteCode::kOnlyWindows : shard::NoteCode::kFullInWindows,
                                run.windows.size()));
  if (elapsed.clocks_disagree) notes.push_back(note_of_run(shard::NoteCode::kClocksDisagree));
  run.notes = united_notes(std::move(notes));
  for (const Rank& rank : data.ranks) {
    run.samples += rank.samples;
    if ((rank.flags & shard::kSpawned) != 0) ++run.spawned_ranks;
    run.restarts = std::max(run.restarts, rank.restart);
  }
  for (const shard::Drop& drop : data.drops)
    if (drop.count != 0) run.dropped[drop.reason] += drop.count;
  std::vector<bool> present(run.world_size <= shard::kMaxWorldSize ? run.world_size : 0, false);
  for (const Rank& rank : data.ranks)
    if (rank.rank >= 0 && static_cast<std::size_t>(rank.rank) < present.size()) present[rank.rank] = true;
  for (std::size_t rank = 0; rank < present.size(); ++rank) {
    if (present[rank]) continue;
    if (++run.missing <= kMaxMissingListed) run.missing_ranks.push_back(static_cast<std::int32_t>(rank));
  }
  return run;
}

std::uint64_t runnable_ns(const Rank& rank, bool cpu_clock) {
  if (cpu_clock) return 0;
  return rank.main_thread_ns[kRunnable];
}

bool measures_mpi(const Rank& rank) {
  return (rank.flags & shard::kUsedMpi) != 0 ||
         ((rank.flags & shard::kMpiUnwatched) == 0 && rank.raw_main_thread_ns[kMpi] == 0);
}

OptionalCategorySeconds main_thread_categories(const Rank& rank, bool cpu_clock) {
  OptionalCategorySeconds result;
  if (measures_mpi(rank) || rank.raw_main_thread_ns[kMpi] > 0)
    result[kMpi] = to_seconds(rank.main_thread_ns[kMpi]);
  bool sampled = false;
  for (std::size_t c = 0; c < kCategories; ++c)
    sampled = sampled || (c != kMpi && rank.raw_main_thread_ns[c] != 0);
  if (rank.samples == 0 || !sampled) return result;
  // Without Python frames it is unknown what the interpreter ran.
  const bool no_python = (rank.flags & shard::kPythonUnread) != 0 && rank.raw_main_thread_ns[kPython] == 0;
  for (std::size_t c = 0; c < kCategories; ++c) {
    if (c == kMpi || (cpu_clock && c == static_cast<std::size_t>(Category::kIdle))) continue;
    if (c == kPython && no_python) continue;
    if (c == kRunnable && (rank.flags & shard::kRunDelayKnown) == 0) continue;
    result[c] = to_seconds(rank.main_thread_ns[c]);
  }
  return result;
}

std::optional<std::int32_t> slowest_rank(const ShardData& data, const RankOrder& order) {
  if (!any_used_mpi(data)) return {};
  std::optional<std::int32_t> slowest;
  std::uint64_t most_ns = 0;
  for (const std::uint32_t index : order.ascending) {
    const Rank& rank = data.ranks[index];
    if (!measures_mpi(rank)) continue;
    const std::uint64_t ns = useful_ns(rank, data.run.clock == "cpu");
    if (slowest && ns <= most_ns) continue;
    slowest = rank.rank;
    most_ns = ns;
  }
  return slowest;
}

void describe_nodes(const ShardData& data, Analysis& analysis) {
  for (const shard::Node& node : data.nodes) {
    NodeInfo& info = analysis.nodes.emplace_back();
    info.name = node.name;
    info.elapsed_s = to_seconds(node.elapsed_ns);
    info.cpu_s = to_seconds(node.cpu_ns);
    info.collector_cpu_s = to_seconds(node.collector_cpu_ns);
    info.collector_max_rss_bytes = node.collector_max_rss_bytes;
    info.cpus = node.cpus;
    info.numa_nodes = node.numa_nodes;
    info.memory_bytes = node.memory_bytes;
    info.cache_bytes = node.cache_bytes;
    info.cpu_model = node.cpu_model;
    info.as_of_utc_ns = node.as_of_utc_ns;
    info.next_within_ns = node.next_within_ns;
    info.collector = node.collector;
    info.group = node.group;
    info.requested_memory_bytes = node.requested_memory_bytes;
  }
}

void describe_ranks(const ShardData& data, const RankOrder& order, Analysis& analysis) {
  describe_nodes(data, analysis);
  std::int64_t first_utc_ns = INT64_MAX;
  for (const Rank& rank : data.ranks) first_utc_ns = std::min(first_utc_ns, rank.start_utc_ns);
  std::unordered_map<shard::StringIndex, std::uint32_t> row_of_command;
  std::vector<CommandRow>& commands = analysis.run.commands;
  for (const std::uint32_t index : order.ascending) {
    analysis.ranks.push_back(describe_rank(data, data.ranks[index], data.run.clock == "cpu"));
    RankInfo& rank = analysis.ranks.back();
    rank.end_s = static_cast<double>(data.ranks[index].start_utc_ns - first_utc_ns) / 1e9 +
                 static_cast<double>(data.ranks[index].elapsed_ns) / 1e9;
    if (rank.node < analysis.nodes.size()) analysis.nodes[rank.node].ranks.push_back(rank.rank);
    if (const shard::StringIndex command = data.ranks[index].command;
        command != 0 && command < data.strings.size()) {
      const auto [row, added] =
          row_of_command.try_emplace(command, static_cast<std::uint32_t>(commands.size()));
      if (added) commands.push_back({command_words(data.strings[command]), {}});
      rank.command = row->second;
      commands[rank.command].ranks.push_back(rank.rank);
    }
    analysis.rank_seconds += rank.recorded_s;
    for (std::size_t c = 0; c < kCategories; ++c)
      if (rank.category_s[c])
        analysis.category_s[c] = analysis.category_s[c].value_or(0) + *rank.category_s[c];
  }
}

// POP: docs/metrics.md, "Efficiencies".
void find_efficiency(const ShardData& data, const RankOrder& order, Analysis& analysis) {
  analysis.recorded_s = analysis.focus_s = analysis.run.elapsed_s;
  if (!any_used_mpi(data)) return;
  double sum = 0, largest = 0, least_paused_s = 0, least_startup_s = 0;
  double sum_of_threads = 0, largest_of_threads = 0;
  bool any_threads = false;
  std::int32_t slowest_of_threads = 0;
  std::size_t count = 0;
  for (const RankInfo& rank : analysis.ranks) {
    if (!rank.useful_s) continue;
    least_paused_s = count == 0 ? rank.paused_s : std::min(least_paused_s, rank.paused_s);
    const double startup_s = rank.startup_s.value_or(0),
                 of_threads_s = rank.threads_useful_s.value_or(*rank.useful_s);
    least_startup_s = count == 0 ? startup_s : std::min(least_startup_s, startup_s);
    any_threads = any_threads || rank.threads_useful_s.has_value();
    sum_of_threads += of_threads_s;
    if (count == 0 || of_threads_s > largest_of_threads) slowest_of_threads = rank.rank;
    largest_of_threads = std::max(largest_of_threads, of_threads_s);
    largest = count == 0 ? *rank.useful_s : std::max(largest, *rank.useful_s);
    sum += *rank.useful_s;
    ++count;
  }
  if (count == 0) return;
  const double mean = sum / static_cast<double>(count);
  analysis.slowest_rank = slowest_rank(data, order);
  analysis.mean_useful_s = mean;
  analysis.max_useful_s = largest;
  analysis.recorded_s = std::max(0.0, analysis.run.elapsed_s - least_paused_s);
  // Useful time never contains it. If a rank waited there longer than others, that is a loss.
  analysis.startup_s = std::min(least_startup_s, analysis.recorded_s);
  analysis.focus_s = analysis.recorded_s - analysis.startup_s;
  if (largest <= 0 || analysis.focus_s <= 0) return;
  analysis.efficiency.load_balance = mean / largest;
  analysis.efficiency.communication = largest / analysis.focus_s;
  analysis.efficiency.parallel = *analysis.efficiency.load_balance * *analysis.efficiency.communication;
  if (any_threads && largest_of_threads > 0) {
    Efficiency& threads = analysis.threads_efficiency;
    analysis.threads_mean_useful_s = sum_of_threads / static_cast<double>(count);
    analysis.threads_max_useful_s = largest_of_threads;
    analysis.threads_slowest_rank = slowest_of_threads;
    threads.load_balance = *analysis.threads_mean_useful_s / largest_of_threads;
    threads.communication = largest_of_threads / analysis.focus_s;
    threads.parallel = *threads.load_balance * *threads.communication;
  }
  // The replay has no pauses, and T may have waits for a rank in one; nor does it know what is between
  // windows of recording.
  if (!data.wait_analysis.done || data.wait_analysis.ideal_ns == 0 || least_paused_s > 0 ||
      analysis.run.standby || !analysis.run.windows.empty())
    return;
  const double ideal_s = to_seconds(data.wait_analysis.ideal_ns);
  analysis.efficiency.serialization = largest / ideal_s;
  analysis.efficiency.transfer = ideal_s / analysis.focus_s;
}

void find_quality(const ShardData& data, Analysis& analysis) {
  Quality& quality = analysis.quality;
  std::uint64_t running = 0, running_ns = 0, unsampled_cpu_ns = 0;
  for (const Rank& rank : data.ranks) {
    quality.truncated += rank.truncated;
    quality.merges_tried += rank.merges_tried;
    quality.merges_failed += rank.merges_failed;
    running += rank.running_samples;
    running_ns += rank.running_ns;
    quality.unsampled_threads += rank.unsampled_threads;
    unsampled_cpu_ns += rank.unsampled_cpu_ns;
  }
  if (quality.merges_tried != 0)
    quality.merge_success = 1 - static_cast<double>(std::min(quality.merges_failed, quality.merges_tried)) /
                                    static_cast<double>(quality.merges_tried);
  if (running_ns != 0) quality.rate_reached_hz = static_cast<double>(running) / to_seconds(running_ns);
  quality.unsampled_cpu_s = to_seconds(unsampled_cpu_ns);
  std::map<std::uint64_t, std::uint64_t> bins;
  for (const shard::HandlerCost& cost : data.handler_costs) bins[cost.le_ns] += cost.count;
  quality.handler_median_s = quantile(bins, 0.5);
  quality.handler_p99_s = quantile(bins, 0.99);
  double cpu_s = 0;
  for (const RankInfo& rank : analysis.ranks) {
    quality.recording_s += rank.handler_s;
    cpu_s += rank.cpu_s.value_or(0);
  }
  if (cpu_s > 0) quality.recording_share = quality.recording_s / cpu_s;
}

}  // namespace clusterprof::report
