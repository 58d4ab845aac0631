// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "formats/wire/mpi_functions.h"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/charged_time.hpp"
#include "report/analysis/counters.hpp"
#include "report/analysis/file_io.hpp"
#include "report/analysis/findings.hpp"
#include "report/analysis/limits.hpp"
#include "report/analysis/memory.hpp"
#include "report/analysis/off_cpu.hpp"
#include "report/analysis/regions.hpp"
#include "report/analysis/tables.hpp"
#include "report/analysis/timeline.hpp"
#include "report/analysis/verdict.hpp"
#include "report/analysis/waiting.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::kCategories;
using shard::kNone;
using shard::Rank;
using shard::ShardData;

constexpr std::size_t kMpi = static_cast<std::size_t>(Category::kMpi);
constexpr std::size_t kPython = static_cast<std::size_t>(Category::kPython);

// First start to last end. Nodes whose clocks disagree so much that one seems to have ended
// before another began cannot have run one MPI program: then the longest node counts.
std::uint64_t run_elapsed_ns(const ShardData& data, std::vector<std::string>& notes) {
  if (data.ranks.empty()) return 0;
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
  if (any_mpi && latest_start != INT64_MIN && latest_start > earliest_end) {
    notes.emplace_back("the nodes' clocks disagree; the run's elapsed time is that of its longest node");
    return longest;
  }
  return static_cast<std::uint64_t>(last - first);
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
  run.only_regions = data.run.only_regions;
  run.version = data.run.version;
  run.mpi_library = data.run.mpi_library;
  run.complete = data.run.complete;
  run.notes = data.run.notes;
  run.elapsed_s = to_seconds(run_elapsed_ns(data, run.notes));
  for (const Rank& rank : data.ranks) {
    run.samples += rank.samples;
    if ((rank.flags & shard::kSpawned) != 0) ++run.spawned_ranks;
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

// No MPI call seen although it would have been: the time in MPI is a measured zero.
bool measures_mpi(const Rank& rank) {
  return (rank.flags & shard::kUsedMpi) != 0 ||
         ((rank.flags & shard::kMpiUnwatched) == 0 && rank.main_thread_ns[kMpi] == 0);
}

std::uint64_t recorded_of(const Rank& rank) {
  return rank.elapsed_ns - std::min(rank.paused_ns, rank.elapsed_ns);
}

// MPI is measured; samples say how the rest divides. Under the CPU clock samples do not add up
// to elapsed time, so there they stand as they are and blocked time is unknown.
OptionalCategorySeconds main_thread_categories(const Rank& rank, bool cpu_clock) {
  OptionalCategorySeconds result;
  const std::uint64_t recorded_ns = recorded_of(rank);
  if (measures_mpi(rank))
    result[kMpi] = to_seconds(std::min(rank.mpi_ns, recorded_ns));
  else if (rank.main_thread_ns[kMpi] > 0)
    result[kMpi] = to_seconds(std::min(rank.main_thread_ns[kMpi], recorded_ns));

  const std::uint64_t sampled = sampled_outside_mpi_ns(rank);
  if (rank.samples == 0 || sampled == 0) return result;
  const double rest = to_seconds(recorded_ns) - result[kMpi].value_or(0);
  const double scale = cpu_clock ? 1e-9 : std::max(0.0, rest) / static_cast<double>(sampled);
  // Without Python frames there is no telling what the interpreter ran.
  const bool no_python = (rank.flags & shard::kPythonUnread) != 0 && rank.main_thread_ns[kPython] == 0;
  for (std::size_t c = 0; c < kCategories; ++c) {
    if (c == kMpi || (cpu_clock && c == static_cast<std::size_t>(Category::kIdle))) continue;
    if (c == kPython && no_python) continue;
    result[c] = static_cast<double>(rank.main_thread_ns[c]) * scale;
  }
  return result;
}

RankInfo describe_rank(const ShardData& data, const Rank& rank, bool cpu_clock) {
  RankInfo info;
  info.rank = rank.rank;
  info.node = rank.node;
  info.pid = rank.pid;
  info.elapsed_s = to_seconds(rank.elapsed_ns);
  info.paused_s = to_seconds(rank.elapsed_ns - recorded_of(rank));
  info.recorded_s = to_seconds(recorded_of(rank));
  const bool usage = (rank.flags & shard::kUsageKnown) != 0;
  if (usage || rank.cpu_ns != 0) info.cpu_s = to_seconds(rank.cpu_ns);
  info.samples = rank.samples;
  info.threads = rank.threads;
  info.processes = rank.processes;
  info.category_s = main_thread_categories(rank, cpu_clock);
  if (measures_mpi(rank)) {
    const std::uint64_t mpi_ns = std::min(rank.mpi_ns, recorded_of(rank));
    info.useful_s = to_seconds(recorded_of(rank) - mpi_ns);
    if ((rank.flags & shard::kWaitKnown) != 0) {
      const std::uint64_t wait_ns = std::min(rank.mpi_wait_ns, mpi_ns);
      info.mpi_wait_s = to_seconds(wait_ns);
      info.mpi_transfer_s = to_seconds(mpi_ns - wait_ns);
    }
  }
  if (usage) {
    info.max_rss_bytes = rank.max_rss_bytes;
    info.minor_faults = rank.minor_faults;
    info.major_faults = rank.major_faults;
    info.voluntary_switches = rank.voluntary_switches;
    info.involuntary_switches = rank.involuntary_switches;
    if (rank.user_ns + rank.system_ns != 0 || rank.cpu_ns == 0) {  // else a file that has only their sum
      info.user_s = to_seconds(rank.user_ns);
      info.kernel_s = to_seconds(rank.system_ns);
    }
  }
  const auto text = [&data](shard::StringIndex i) {
    return i < data.strings.size() ? data.strings[i] : std::string();
  };
  info.affinity = text(rank.affinity);
  info.numa = text(rank.numa_nodes);
  if ((rank.flags & shard::kIoKnown) != 0) {
    info.read_bytes = rank.read_bytes;
    info.write_bytes = rank.write_bytes;
  }
  if ((rank.flags & shard::kExitStatusKnown) != 0) info.exit_status = rank.exit_status;
  if ((rank.flags & shard::kExitSignalKnown) != 0) info.exit_signal = rank.exit_signal;
  info.lost = (rank.flags & shard::kLost) != 0;
  info.spawned = (rank.flags & shard::kSpawned) != 0;
  info.handler_s = to_seconds(rank.handler_ns);
  return info;
}

void describe_ranks(const ShardData& data, const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
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
  }
  for (const std::uint32_t index : ascending) {
    analysis.ranks.push_back(describe_rank(data, data.ranks[index], data.run.clock == "cpu"));
    const RankInfo& rank = analysis.ranks.back();
    if (rank.node < analysis.nodes.size()) analysis.nodes[rank.node].ranks.push_back(rank.rank);
    analysis.rank_seconds += rank.recorded_s;
    for (std::size_t c = 0; c < kCategories; ++c)
      if (rank.category_s[c])
        analysis.category_s[c] = analysis.category_s[c].value_or(0) + *rank.category_s[c];
  }
}

// POP: docs/metrics.md, "Efficiencies".
void find_efficiency(const ShardData& data, Analysis& analysis) {
  analysis.recorded_s = analysis.run.elapsed_s;
  const bool any_mpi = std::any_of(data.ranks.begin(), data.ranks.end(),
                                   [](const Rank& rank) { return (rank.flags & shard::kUsedMpi) != 0; });
  if (!any_mpi) return;
  double sum = 0, largest = 0, least_paused_s = 0;
  std::size_t count = 0;
  for (const RankInfo& rank : analysis.ranks) {
    if (!rank.useful_s) continue;
    least_paused_s = count == 0 ? rank.paused_s : std::min(least_paused_s, rank.paused_s);
    if (count == 0 || *rank.useful_s > largest) {
      largest = *rank.useful_s;
      analysis.slowest_rank = rank.rank;
    }
    sum += *rank.useful_s;
    ++count;
  }
  if (count == 0) return;
  const double mean = sum / static_cast<double>(count);
  analysis.mean_useful_s = mean;
  analysis.max_useful_s = largest;
  analysis.recorded_s = std::max(0.0, analysis.run.elapsed_s - least_paused_s);
  if (largest <= 0 || analysis.recorded_s <= 0) return;
  analysis.efficiency.load_balance = mean / largest;
  analysis.efficiency.communication = largest / analysis.recorded_s;
  analysis.efficiency.parallel = *analysis.efficiency.load_balance * *analysis.efficiency.communication;
  // The replay knows nothing of pauses.
  if (!data.wait_analysis.done || data.wait_analysis.ideal_ns == 0 || least_paused_s > 0) return;
  const double ideal_s = to_seconds(data.wait_analysis.ideal_ns);
  analysis.efficiency.serialization = largest / ideal_s;
  analysis.efficiency.transfer = ideal_s / analysis.run.elapsed_s;
}

struct Inclusive {
  std::uint64_t all_ns = 0, active_ns = 0;
  std::uint32_t seen_by = 0;  // rank index + 1
};

// A helper thread without work. One that waits for the GIL has work to do.
bool is_idle_helper(const shard::Value& value, Activity activity) {
  return !value.main_thread && value.category == Category::kIdle && activity != Activity::kGilWait;
}

// Of a path outside MPI, GC and the interpreter's own work: the object file of its innermost native frame.
std::string_view module_of(const CallPaths& paths, std::uint32_t path) {
  const shard::Frame* const frame = paths.frame(path);
  const bool native = frame != nullptr && frame->kind == shard::FrameKind::kNative;
  const std::string_view module = native ? std::string_view(paths.text(frame->module)) : "";
  return module.empty() ? "[unknown]" : module;
}

void known_activities(const Rank& rank, const std::array<std::uint64_t, kActivities>& times, bool cpu_clock,
                      RankInfo& info) {
  const bool sampled = rank.samples != 0;
  for (std::size_t a = 0; a < kActivities; ++a) {
    const auto activity = static_cast<Activity>(a);
    bool known = sampled;
    if (activity == Activity::kMpi) known = measures_mpi(rank) || times[a] != 0;
    if (activity == Activity::kPageFault) known = sampled && (rank.flags & shard::kFaultsApart) != 0;
    if (activity == Activity::kGarbageCollection) known = sampled && (rank.flags & shard::kGarbageApart) != 0;
    const bool of_python = activity == Activity::kInterpreter || activity == Activity::kImport ||
                           activity == Activity::kGarbageCollection || activity == Activity::kGilWait;
    if (of_python && (rank.flags & shard::kPythonUnread) != 0) known = false;
    const bool waits = activity == Activity::kGilWait || activity == Activity::kSleep ||
                       activity == Activity::kLock || activity == Activity::kOtherWait;
    if (waits && cpu_clock) known = false;
    if (known) info.activity_s[a] = to_seconds(times[a]);
  }
}

// Over the ranks that had samples. What one of them does not know is not known of the run: a sum that
// leaves ranks out would look complete.
void sum_activities(Analysis& analysis) {
  for (std::size_t a = 0; a < kActivities; ++a) {
    Seconds sum;
    bool known = true;
    for (const RankInfo& rank : analysis.ranks) {
      if (rank.activity_s[a]) sum = sum.value_or(0) + *rank.activity_s[a];
      known = known && (rank.activity_s[a] || rank.samples == 0);
    }
    if (known) analysis.activity_s[a] = sum;
  }
}

void count_functions_and_lines(const ShardData& data, const std::vector<shard::Value>& charged,
                               const CallPaths& paths, const std::vector<std::uint32_t>& ascending,
                               Analysis& analysis) {
  const std::size_t functions = paths.functions().size(), lines = paths.lines().size();
  std::vector<std::uint64_t> function_self(functions), function_active(functions);
  std::vector<std::uint64_t> line_self(lines), line_total(lines), line_active_total(lines);
  std::vector<std::array<std::uint64_t, kCategories>> function_category(functions), line_category(lines);
  using ActivityTimes = std::array<std::uint64_t, kActivities>;
  std::vector<ActivityTimes> function_activity(functions), line_activity(lines), line_active_activity(lines);
  ActivityTimes active_activity{};
  std::map<std::string_view, std::uint64_t> native_modules, system_calls, active_calls;
  SpreadTable function_total(functions), function_active_total(functions), line_active(lines);
  std::uint64_t sampled = 0, helper_idle = 0;

  std::vector<Inclusive> inclusive(paths.size());
  std::vector<std::uint32_t> touched;
  const ByRank values = by_rank(charged, data.ranks.size());
  for (std::size_t position = 0; position < ascending.size(); ++position) {
    const std::uint32_t rank = ascending[position];
    ActivityTimes rank_activity{};
    touched.clear();
    for (std::uint32_t i = values.starts[rank]; i < values.starts[rank + 1]; ++i) {
      const shard::Value& value = charged[values.order[i]];
      const auto category = static_cast<std::size_t>(value.category);
      if (value.path >= paths.size() || category >= kCategories) continue;
      // A thread's time from start to end is known without samples; what it did then is not.
      if (data.ranks[rank].samples == 0 && value.category != Category::kMpi) continue;
      const Activity activity = activity_of(paths, value.path, value.category);
      const bool active = !is_idle_helper(value, activity);
      rank_activity[index(activity)] += value.wall_ns;
      if (active) active_activity[index(activity)] += value.wall_ns;
      if (activity == Activity::kNative) native_modules[module_of(paths, value.path)] += value.wall_ns;
      if (const std::string_view call = system_call_of(paths, value.path); !call.empty()) {
        system_calls[call] += value.wall_ns;
        if (active) active_calls[call] += value.wall_ns;
      }
      sampled += value.wall_ns;
      if (!active) helper_idle += value.wall_ns;
      const std::uint32_t path = paths.counted(value.path, value.category);
      for (std::uint32_t up = path; up != 0 && inclusive[up].seen_by != rank + 1; up = paths.parent(up)) {
        inclusive[up] = {0, 0, rank + 1};
        touched.push_back(up);
      }
      inclusive[path].all_ns += value.wall_ns;
      if (active) inclusive[path].active_ns += value.wall_ns;
      if (const std::uint32_t function = paths.function(path); function != kNone) {
        function_self[function] += value.wall_ns;
        function_category[function][category] += value.wall_ns;
        function_activity[function][index(activity)] += value.wall_ns;
        if (active) function_active[function] += value.wall_ns;
      }
      if (const std::uint32_t line = paths.line(paths.source(path)); line != kNone) {
        line_self[line] += value.wall_ns;
        line_category[line][category] += value.wall_ns;
        line_activity[line][index(activity)] += value.wall_ns;
        if (active) line_active_activity[line][index(activity)] += value.wall_ns;
        if (active) line_active.add(line, value.wall_ns);
      }
    }
    // Parents stand before their children, so backwards every path is complete when it is read.
    std::sort(touched.begin(), touched.end(), std::greater<>());
    for (const std::uint32_t path : touched) {
      const Inclusive& here = inclusive[path];
      if (const std::uint32_t up = paths.parent(path); up != 0) {
        inclusive[up].all_ns += here.all_ns;
        inclusive[up].active_ns += here.active_ns;
      }
      if (paths.outermost_function(path)) {
        function_total.add(paths.function(path), here.all_ns);
        function_active_total.add(paths.function(path), here.active_ns);
      }
      if (paths.outermost_line(path)) {
        line_total[paths.line(path)] += here.all_ns;
        line_active_total[paths.line(path)] += here.active_ns;
      }
    }
    function_total.end_rank(data.ranks[rank].rank);
    function_active_total.end_rank(data.ranks[rank].rank);
    line_active.end_rank(data.ranks[rank].rank);
    known_activities(data.ranks[rank], rank_activity, data.run.clock == "cpu", analysis.ranks[position]);
  }
  sum_activities(analysis);
  for (std::size_t a = 0; a < kActivities; ++a)
    if (analysis.activity_s[a]) analysis.active_activity_s[a] = to_seconds(active_activity[a]);
  for (const auto& [name, ns] : native_modules) analysis.native_modules.emplace(name, to_seconds(ns));
  for (const auto& [name, ns] : active_calls) analysis.active_system_calls.emplace(name, to_seconds(ns));
  for (const auto& [name, ns] : system_calls) analysis.system_calls.emplace(name, to_seconds(ns));
  analysis.sampled_s = to_seconds(sampled);
  analysis.helper_idle_s = to_seconds(helper_idle);

  for (std::size_t i = 0; i < functions; ++i) {
    if (function_total.total(i) == 0) continue;
    const shard::Frame& f = *paths.functions()[i];
    FunctionRow row;
    row.id = static_cast<std::uint32_t>(i);
    row.name = paths.text(f.name);
    row.file = paths.text(f.file);
    row.module = paths.text(f.module);
    row.line = f.function_line;
    row.kind = f.kind;
    row.self_s = to_seconds(function_self[i]);
    row.total_s = to_seconds(function_total.total(i));
    row.spread = function_total.spread(i);
    row.active_self_s = to_seconds(function_active[i]);
    row.active_total_s = to_seconds(function_active_total.total(i));
    row.active_spread = function_active_total.spread(i);
    for (std::size_t c = 0; c < kCategories; ++c) row.category_s[c] = to_seconds(function_category[i][c]);
    for (std::size_t a = 0; a < kActivities; ++a) row.activity_s[a] = to_seconds(function_activity[i][a]);
    analysis.functions.push_back(std::move(row));
  }
  for (std::size_t i = 0; i < lines; ++i) {
    if (line_total[i] == 0) continue;
    const shard::Frame& f = *paths.lines()[i];
    LineRow row;
    row.id = static_cast<std::uint32_t>(i);
    row.file = paths.text(f.file);
    row.function = paths.text(f.name);
    row.line = f.line;
    row.self_s = to_seconds(line_self[i]);
    row.total_s = to_seconds(line_total[i]);
    for (std::size_t c = 0; c < kCategories; ++c) row.category_s[c] = to_seconds(line_category[i][c]);
    for (std::size_t a = 0; a < kActivities; ++a) {
      row.activity_s[a] = to_seconds(line_activity[i][a]);
      row.active_activity_s[a] = to_seconds(line_active_activity[i][a]);
    }
    row.active_self_s = to_seconds(line_active.total(i));
    row.active_total_s = to_seconds(line_active_total[i]);
    row.active_spread = line_active.spread(i);
    analysis.lines.push_back(std::move(row));
  }
  const auto rank_by_time = [](const auto& row) { return std::tuple(-row.self_s, -row.total_s); };
  std::sort(analysis.functions.begin(), analysis.functions.end(),
            [&](const FunctionRow& a, const FunctionRow& b) {
              if (rank_by_time(a) != rank_by_time(b)) return rank_by_time(a) < rank_by_time(b);
              return std::tie(a.name, a.file, a.module, a.line, a.kind) <
                     std::tie(b.name, b.file, b.module, b.line, b.kind);
            });
  std::sort(analysis.lines.begin(), analysis.lines.end(), [&](const LineRow& a, const LineRow& b) {
    if (rank_by_time(a) != rank_by_time(b)) return rank_by_time(a) < rank_by_time(b);
    return std::tie(a.file, a.line, a.function) < std::tie(b.file, b.line, b.function);
  });
}

// The value below which `share` of the counts lie, linear within a bin.
Seconds quantile(const std::map<std::uint64_t, std::uint64_t>& bins, double share) {
  std::uint64_t total = 0;
  for (const auto& [le_ns, count] : bins) total += count;
  if (total == 0) return {};
  const double wanted = share * static_cast<double>(total);
  double before = 0;
  for (const auto& [le_ns, count] : bins) {
    const auto here = static_cast<double>(count);
    if (before + here >= wanted) {
      // Bins of a quarter of an octave; what was measured is anywhere between.
      const double upper = static_cast<double>(le_ns), lower = upper / std::exp2(0.25);
      return (lower + (upper - lower) * (wanted - before) / here) / 1e9;
    }
    before += here;
  }
  return to_seconds(bins.rbegin()->first);
}

void find_quality(const ShardData& data, Analysis& analysis) {
  Quality& quality = analysis.quality;
  std::uint64_t running = 0, running_ns = 0;
  for (const Rank& rank : data.ranks) {
    quality.truncated += rank.truncated;
    quality.merges_tried += rank.merges_tried;
    quality.merges_failed += rank.merges_failed;
    running += rank.running_samples;
    running_ns += rank.running_ns;
  }
  if (quality.merges_tried != 0)
    quality.merge_success = 1 - static_cast<double>(std::min(quality.merges_failed, quality.merges_tried)) /
                                    static_cast<double>(quality.merges_tried);
  if (running_ns != 0) quality.rate_reached_hz = static_cast<double>(running) / to_seconds(running_ns);
  std::map<std::uint64_t, std::uint64_t> bins;
  for (const shard::HandlerCost& cost : data.handler_costs) bins[cost.le_ns] += cost.count;
  quality.handler_median_s = quantile(bins, 0.5);
  quality.handler_p99_s = quantile(bins, 0.99);
}

// MPI call paths by what is shown of them: operation, and file, line and function of the caller.
class CallSites {
 public:
  using Site = std::tuple<std::string_view, std::string_view, std::uint32_t, std::string_view>;

  explicit CallSites(const CallPaths& paths) : paths_(paths) {}

  // Dense; kNone for what is no path.
  std::uint32_t of(std::uint32_t path) {
    if (path >= paths_.size()) return kNone;
    const auto [known, is_new] = of_path_.try_emplace(path, 0);
    if (is_new)
      known->second = ids_.try_emplace(site(path), static_cast<std::uint32_t>(ids_.size())).first->second;
    return known->second;
  }
  [[nodiscard]] const std::map<Site, std::uint32_t>& all() const { return ids_; }

 private:
  [[nodiscard]] Site site(std::uint32_t path) const {
    const shard::Frame* op = paths_.frame(path);
    const shard::Frame* caller = paths_.frame(paths_.mpi_caller(path));
    Site site{op != nullptr ? std::string_view(paths_.text(op->name)) : std::string_view("MPI"), {}, 0, {}};
    if (caller != nullptr) {
      std::get<1>(site) = paths_.text(caller->file);
      std::get<2>(site) = caller->line;
      std::get<3>(site) = paths_.text(caller->name);
    }
    return site;
  }

  const CallPaths& paths_;
  std::map<Site, std::uint32_t> ids_;
  std::unordered_map<std::uint32_t, std::uint32_t> of_path_;
};

// False: the operation may wait for other ranks, but has no events. On an intercommunicator others have none
// either, which is not known here.
bool waiting_is_looked_for(std::string_view op) {
  static const std::map<std::string_view, bool> kLookedFor = [] {
    std::map<std::string_view, bool> looked_for;
    for (std::uint32_t f = 0; f < wire::kMpiFunctionCount; ++f) {
      const bool any = wire::kMpiSync[f] != wire::MpiSync::kNone;
      const wire::MpiClass kind = wire::kMpiFunctionClasses[f];
      looked_for[wire::kMpiFunctionNames[f]] = any || kind == wire::MpiClass::kP2p ||
                                               kind == wire::MpiClass::kCompletion ||
                                               kind == wire::MpiClass::kManagement;
    }
    for (const char* epoch :
         {"MPI_Win_post", "MPI_Win_start", "MPI_Win_complete", "MPI_Win_wait", "MPI_Win_test"})
      looked_for[epoch] = true;
    for (const char* group : {"MPI_Init", "MPI_Init_thread", "MPI_Comm_create_group", "MPI_Comm_join",
                              "MPI_Comm_create_from_group", "MPI_Intercomm_create_from_groups",
                              "MPI_Intercomm_merge", "MPI_Session_finalize"})
      looked_for[group] = false;
    return looked_for;
  }();
  const auto known = kLookedFor.find(op);
  return known != kLookedFor.end() && known->second;
}

void count_mpi_calls(const ShardData& data, const CallPaths& paths,
                     const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  CallSites sites(paths);
  std::vector<std::uint32_t> site_of_call(data.mpi_calls.size(), kNone);
  for (std::size_t i = 0; i < data.mpi_calls.size(); ++i) site_of_call[i] = sites.of(data.mpi_calls[i].path);

  SpreadTable time(sites.all().size());
  std::vector<MpiCallRow> rows(sites.all().size());
  std::vector<bool> waits_known(rows.size(), false), waits_missing(rows.size(), false);
  const ByRank calls = by_rank(data.mpi_calls, data.ranks.size());
  for (const std::uint32_t rank : ascending) {
    const bool knows_waits = data.wait_analysis.done && (data.ranks[rank].flags & shard::kWaitKnown) != 0;
    for (std::uint32_t i = calls.starts[rank]; i < calls.starts[rank + 1]; ++i) {
      const shard::MpiCall& call = data.mpi_calls[calls.order[i]];
      const std::uint32_t site = site_of_call[calls.order[i]];
      if (site == kNone) continue;
      time.add(site, call.time_ns);
      rows[site].count += call.count;
      rows[site].sent_bytes += call.sent_bytes;
      rows[site].recv_bytes += call.recv_bytes;
      (knows_waits ? waits_known : waits_missing)[site] = true;
    }
    time.end_rank(data.ranks[rank].rank);
  }
  std::vector<std::uint64_t> wait_ns(rows.size(), 0);
  for (const shard::WaitState& state : data.wait_states)
    if (const std::uint32_t site = sites.of(state.path); site < wait_ns.size())
      wait_ns[site] += state.wait_ns;
  for (const auto& [site, id] : sites.all()) {
    if (id >= rows.size() || rows[id].count == 0) continue;
    MpiCallRow& row = rows[id];
    std::tie(row.op, row.file, row.line, row.function) = site;
    row.time_s = to_seconds(time.total(id));
    // What a sample of the events was scaled to may be a little more than there can be.
    // Of a site without any waiting in a sample it is not known whether it was looked at.
    const bool looked_for = data.wait_analysis.event_level == 0 && waiting_is_looked_for(row.op);
    if (waits_known[id] && (looked_for || wait_ns[id] != 0)) {
      row.wait_s = std::min(to_seconds(wait_ns[id]), row.time_s);
      if (!waits_missing[id]) row.transfer_s = row.time_s - *row.wait_s;
    }
    row.spread = time.spread(id);
    analysis.mpi_calls.push_back(std::move(row));
  }
  // From the order of sites, so equal times stay in a fixed order.
  std::stable_sort(analysis.mpi_calls.begin(), analysis.mpi_calls.end(),
                   [](const MpiCallRow& a, const MpiCallRow& b) { return a.time_s > b.time_s; });
}

void copy_mpi_tables(const ShardData& data, const CallPaths& paths, Analysis& analysis) {
  const auto pair_of = [](const shard::MatrixCell& cell) { return std::pair(cell.source, cell.destination); };
  analysis.matrix = data.matrix;
  std::sort(analysis.matrix.begin(), analysis.matrix.end(),
            [&](const auto& a, const auto& b) { return pair_of(a) < pair_of(b); });
  std::size_t kept = 0;
  for (const shard::MatrixCell& cell : analysis.matrix) {
    if (kept > 0 && pair_of(analysis.matrix[kept - 1]) == pair_of(cell)) {
      analysis.matrix[kept - 1].messages += cell.messages;
      analysis.matrix[kept - 1].bytes += cell.bytes;
    } else {
      analysis.matrix[kept++] = cell;
    }
  }
  analysis.matrix.resize(kept);

  std::unordered_map<std::int32_t, std::uint32_t> nodes;
  for (const Rank& rank : data.ranks)
    if (rank.node < data.nodes.size()) nodes.emplace(rank.rank, rank.node);
  const auto node_of = [&](std::int32_t rank) {
    const auto known = nodes.find(rank);
    return known == nodes.end() ? kNone : known->second;
  };
  const auto optional_node = [](std::uint32_t node) {
    return node == kNone ? std::optional<std::uint32_t>() : node;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, NodeCell> between;
  for (const shard::MatrixCell& cell : analysis.matrix) {
    NodeCell& sum = between[{node_of(cell.source), node_of(cell.destination)}];
    sum.messages += cell.messages;
    sum.bytes += cell.bytes;
  }
  for (auto& [pair, cell] : between) {
    cell.source = optional_node(pair.first), cell.destination = optional_node(pair.second);
    analysis.node_matrix.push_back(cell);
  }

  std::map<std::pair<std::string_view, std::uint64_t>, std::uint64_t> sizes;
  for (const shard::MpiSize& size : data.mpi_sizes)
    if (size.count != 0) sizes[{paths.text(size.op), size.le_bytes}] += size.count;
  for (const auto& [key, count] : sizes)
    analysis.mpi_sizes.push_back({std::string(key.first), key.second, count});
}

}  // namespace

Analysis analyse(const ShardData& data) {
  Analysis analysis;
  analysis.run = describe_run(data);

  std::vector<std::uint32_t> ascending(data.ranks.size());
  std::iota(ascending.begin(), ascending.end(), 0);
  std::stable_sort(ascending.begin(), ascending.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return data.ranks[a].rank < data.ranks[b].rank; });
  describe_ranks(data, ascending, analysis);
  find_efficiency(data, analysis);
  find_quality(data, analysis);

  const CallPaths paths(data);
  const std::vector<shard::Value> charged = charged_values(data);
  count_functions_and_lines(data, charged, paths, ascending, analysis);
  count_mpi_calls(data, paths, ascending, analysis);
  copy_mpi_tables(data, paths, analysis);
  analysis.mpi_watched =
      !analysis.mpi_calls.empty() || std::any_of(data.ranks.begin(), data.ranks.end(), [](const Rank& rank) {
        return (rank.flags & shard::kMpiUnwatched) == 0;
      });
  explain_waiting(data, charged, paths, analysis);
  count_counters(data, paths, ascending, analysis);
  const MemoryUse memory(data, charged, paths);
  memory.describe(analysis.functions);
  find_limits(data, charged, paths, memory, ascending, analysis);
  find_file_io(data, paths, ascending, analysis);
  find_off_cpu(data, charged, paths, ascending, analysis);
  find_timeline(data, ascending, analysis);
  find_regions(data, charged, paths, memory, ascending, analysis);
  find_bottlenecks(paths, analysis);
  find_findings(data, charged, paths, analysis);
  return analysis;
}

}  // namespace clusterprof::report
