// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/end_of_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "report/analysis/tables.hpp"
#include "report/analysis/timeline.hpp"

namespace clusterprof::report {
namespace {

constexpr auto kMpiCategory = static_cast<std::size_t>(shard::Category::kMpi),
               kRunnableCategory = static_cast<std::size_t>(shard::Category::kRunnable);

// The bin in which a time lies.
std::size_t bin_at(double time_s, double begin_s, double bin_s) {
  return static_cast<std::size_t>(std::max(0.0, std::floor((time_s - begin_s) / bin_s)));
}

// Findings that say how the run ended, or why it does not go on.
bool is_of_the_end(FindingKind kind) {
  return kind <= FindingKind::kTimeLimit || kind == FindingKind::kOutOfMemory;
}

void cut_row(std::size_t first, TimelineRow& row) {
  for (auto& [series, values] : row.values)
    values.erase(values.begin(),
                 values.begin() + static_cast<std::ptrdiff_t>(std::min(first, values.size())));
  std::erase_if(row.values, [](const auto& series) { return series.second.empty(); });
}

class End {
 public:
  End(const shard::ShardData& head, const Analysis& whole, FrameMode frames)
      : head_(head), whole_(whole), frames_(frames) {}

  Analysis find(double last_s) {
    const Timeline& timeline = *whole_.timeline;
    end_s_ = whole_.run.lasted_s;
    wanted_s_ = std::max(0.0, end_s_ - last_s);
    const std::size_t first = std::min(bin_at(wanted_s_, timeline.begin_s, timeline.bin_s),
                                       timeline.bins == 0 ? 0 : timeline.bins - 1);
    EndOfRun& last = end_.last.emplace();
    last.begin_s = std::max(0.0, timeline.begin_s + static_cast<double>(first) * timeline.bin_s);
    last.end_s = end_s_;
    cut_timeline(first);
    copy_run();
    sum_up_ranks();
    find_functions();
    for (const WindowRow& window : whole_.windows)
      if (window.begin_s >= last.begin_s) end_.windows.push_back(window);
    end_.calls_under_way = whole_.calls_under_way;
    end_.call_paths_under_way = whole_.call_paths_under_way;
    end_.hang = whole_.hang;
    end_.failure = whole_.failure;
    end_.places = whole_.places;
    for (const Finding& finding : whole_.findings)
      if (is_of_the_end(finding.kind)) end_.findings.push_back(finding);
    return std::move(end_);
  }

 private:
  void cut_timeline(std::size_t first) {
    Timeline& timeline = end_.timeline.emplace(*whole_.timeline);
    timeline.begin_s += static_cast<double>(first) * timeline.bin_s;
    timeline.bins -= std::min(first, timeline.bins);
    for (auto* const rows : {&timeline.ranks, &timeline.nodes})
      for (TimelineRow& row : *rows) cut_row(first, row);
  }

  void copy_run() {
    const RunInfo& of = whole_.run;
    RunInfo& run = end_.run;
    run = of;
    run.elapsed_s = run.lasted_s = end_.last->end_s - end_.last->begin_s;
    run.samples = 0;
    run.dropped.clear();
    for (const NodeInfo& node : whole_.nodes) {
      NodeInfo& row = end_.nodes.emplace_back();
      row.name = node.name;
      row.ranks = node.ranks;
      row.cpus = node.cpus, row.numa_nodes = node.numa_nodes;
      row.memory_bytes = node.memory_bytes, row.cache_bytes = node.cache_bytes;
      row.cpu_model = node.cpu_model;
      row.as_of_utc_ns = node.as_of_utc_ns, row.next_within_ns = node.next_within_ns;
      row.collector = node.collector, row.state = node.state, row.as_of_s = node.as_of_s;
    }
  }

  void sum_up_ranks() {
    const Timeline& timeline = *end_.timeline;
    std::vector<std::optional<std::size_t>> category_of(timeline.series.size());
    for (std::size_t series = 0; series < timeline.series.size(); ++series)
      for (std::size_t c = 0; c < shard::kCategories; ++c)
        if (timeline.series[series] == category_series(c)) category_of[series] = c;
    std::map<std::int32_t, const TimelineRow*> rows;
    for (const TimelineRow& row : timeline.ranks) rows.emplace(row.rank, &row);
    for (const RankInfo& of : whole_.ranks) {
      RankInfo& rank = end_.ranks.emplace_back();
      rank.rank = of.rank, rank.node = of.node, rank.pid = of.pid, rank.command = of.command;
      rank.exit_status = of.exit_status, rank.exit_signal = of.exit_signal;
      rank.lost = of.lost, rank.still_ran = of.still_ran, rank.end_s = of.end_s;
      rank.spawned = of.spawned, rank.restart = of.restart;
      rank.last_seen = of.last_seen, rank.last_call_path = of.last_call_path;
      for (std::size_t c = 0; c < shard::kCategories; ++c)
        if (of.category_s[c]) rank.category_s[c] = 0;
      if (const auto found = rows.find(of.rank); found != rows.end())
        for (const auto& [series, values] : found->second->values)
          if (const auto c = category_of[series]; c && rank.category_s[*c])
            for (const std::uint64_t ns : values) *rank.category_s[*c] += to_seconds(ns);
      for (std::size_t c = 0; c < shard::kCategories; ++c) {
        if (!rank.category_s[c]) continue;
        rank.elapsed_s += *rank.category_s[c];
        end_.category_s[c] = end_.category_s[c].value_or(0) + *rank.category_s[c];
      }
      rank.recorded_s = rank.elapsed_s;
      if (of.useful_s && rank.category_s[kMpiCategory])
        rank.useful_s =
            rank.elapsed_s - *rank.category_s[kMpiCategory] - rank.category_s[kRunnableCategory].value_or(0);
      end_.rank_seconds += rank.elapsed_s;
    }
  }

  // Bins of call paths are wider than those of ranks, so they may begin earlier.
  void find_functions() {
    if (head_.path_axis.bin_ns == 0) return;
    const double bin_s = to_seconds(head_.path_axis.bin_ns), begin_s = axis_begin_s(head_, head_.path_axis);
    const std::size_t first = bin_at(wanted_s_, begin_s, bin_s);
    end_.last->functions_begin_s = std::max(0.0, begin_s + static_cast<double>(first) * bin_s);
    const CallPaths paths(head_, frames_);
    std::vector<std::uint64_t> self(paths.functions().size()), total(self.size()), inclusive(paths.size());
    std::uint64_t all_ns = 0, without_function_ns = 0;
    for (const shard::PathSeries& row : head_.path_series) {
      if (row.bin < first || row.path >= paths.size()) continue;
      all_ns += row.wall_ns;
      const shard::Frame* const frame = paths.frame(row.path);
      const bool is_python = frame != nullptr && frame->kind == shard::FrameKind::kPython;
      const std::uint32_t path =
          paths.counted(row.path, is_python ? shard::Category::kPython : shard::Category::kNative);
      if (const std::uint32_t function = paths.function(path); function != shard::kNone)
        self[function] += row.wall_ns;
      else
        without_function_ns += row.wall_ns;
      inclusive[path] += row.wall_ns;
    }
    end_.sampled_s = to_seconds(all_ns);
    end_.without_function_s = to_seconds(without_function_ns);
    // Parents have lower numbers than their children.
    for (std::uint32_t path = static_cast<std::uint32_t>(paths.size()); path-- > 1;) {
      inclusive[paths.parent(path)] += inclusive[path];
      if (paths.outermost_function(path)) total[paths.function(path)] += inclusive[path];
    }
    for (std::uint32_t id = 0; id < total.size(); ++id) {
      if (total[id] == 0) continue;
      const shard::Frame& frame = *paths.functions()[id];
      FunctionRow& row = end_.functions.emplace_back();
      row.id = id;
      row.name = paths.function_name(id);
      row.module = paths.text(frame.module);
      row.kind = frame.kind;
      if (row.name == paths.text(frame.name)) {
        row.file = paths.text(frame.file);
        row.line = frame.function_line;
      }
      row.self_s = to_seconds(self[id]);
      row.total_s = to_seconds(total[id]);
    }
    std::stable_sort(end_.functions.begin(), end_.functions.end(),
                     [](const FunctionRow& x, const FunctionRow& y) {
                       return std::pair(x.self_s, x.total_s) > std::pair(y.self_s, y.total_s);
                     });
  }

  const shard::ShardData& head_;
  const Analysis& whole_;
  const FrameMode frames_;
  double end_s_ = 0, wanted_s_ = 0;
  Analysis end_;
};

}  // namespace

std::optional<Analysis> analyse_end(const shard::ShardData& head, const Analysis& whole, double last_s,
                                    FrameMode frames) {
  if (!whole.timeline || whole.timeline->bins == 0 || !(whole.timeline->bin_s > 0)) return std::nullopt;
  return End(head, whole, frames).find(last_s);
}

}  // namespace clusterprof::report
