// SPDX-License-Identifier: BSD-3-Clause
// What is kept of a run to compare it with runs of other sizes.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/base_name.hpp"
#include "report/analysis/counters.hpp"
#include "report/analysis/regions.hpp"
#include "report/scale/scale.hpp"

namespace clusterprof::report {
namespace {

constexpr std::string_view kSizePrefix = "size=";
// Larger numbers of a command line are no sizes; "inf" is a number for std::from_chars.
constexpr double kLargestSize = 1e12;
// A thread that runs for less of the time that its rank's main one runs computes nothing.
constexpr double kComputes = 0.1;

// A rank's threads that compute, the main one included.
double computing_threads(const Analysis& analysis) {
  struct Count {
    double main_cpu_s = 0, openmp = 0;
    std::vector<double> others_cpu_s;
  };
  std::map<std::int32_t, Count> ranks;
  for (const ThreadRow& row : analysis.threads) {
    Count& count = ranks[row.rank];
    if (row.kind == shard::ThreadKind::kMain)
      count.main_cpu_s = std::max(count.main_cpu_s, row.cpu_s);
    else if (row.kind == shard::ThreadKind::kOpenMp)
      count.openmp += row.count;
    else if (row.kind != shard::ThreadKind::kHelper)
      count.others_cpu_s.push_back(row.cpu_s);
  }
  double most = 1;
  for (const auto& [rank, count] : ranks) {
    double threads = 1 + count.openmp;
    if (count.openmp == 0)
      for (const double cpu_s : count.others_cpu_s)
        if (cpu_s > 0 && cpu_s >= kComputes * count.main_cpu_s) ++threads;
    most = std::max(most, threads);
  }
  return most;
}

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return {};
  if (!std::isfinite(number) || number <= 0 || number > kLargestSize) return {};
  return number;
}

// Of "--steps 100", "--steps=100", "-steps 100" or "steps=100".
std::optional<double> number_in_command(const std::vector<std::string>& words, const std::string& name) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
    const bool is_option = word.size() < words[i].size();
    if (!word.starts_with(name)) continue;
    word.remove_prefix(name.size());
    if (word.starts_with('=')) return number_of(word.substr(1));
    if (word.empty() && is_option && i + 1 < words.size()) return number_of(words[i + 1]);
  }
  return {};
}

std::optional<double> amount_in(const Analysis& analysis, const CounterAmounts& amounts,
                                std::span<const std::string_view> names) {
  const std::uint32_t counter = find_counter(analysis.counters, names);
  for (const auto& [index, amount] : amounts)
    if (index == counter && amount != 0) return static_cast<double>(amount);
  return {};
}

// Outside MPI.
std::optional<double> amount_of(const Analysis& analysis, std::span<const std::string_view> names) {
  const std::uint32_t counter = find_counter(analysis.counters, names);
  if (counter == shard::kNone) return {};
  double sum = 0;
  for (const FunctionRow& function : analysis.functions) {
    if (function.kind == shard::FrameKind::kMpi) continue;
    for (const auto& [index, amount] : function.counters)
      if (index == counter) sum += static_cast<double>(amount);
  }
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

ScaleMeasures measures_of(const Analysis& analysis) {
  ScaleMeasures measures;
  measures.efficiency = analysis.efficiency;
  measures.mean_useful_s = analysis.mean_useful_s;
  measures.instructions = amount_of(analysis, kInstructions);
  measures.cycles = amount_of(analysis, kCycles);
  // One rank that does not use MPI communicates with nobody.
  const bool alone = analysis.ranks.size() == 1 && analysis.mpi_calls.empty();
  if (alone && !analysis.efficiency.parallel) {
    measures.efficiency = {1, 1, 1, 1, 1};
    const std::size_t runnable = static_cast<std::size_t>(shard::Category::kRunnable);
    measures.mean_useful_s = analysis.rank_seconds - analysis.ranks.front().category_s[runnable].value_or(0);
  }
  return measures;
}

}  // namespace

std::optional<SizeOf> parse_size_of(std::string_view text) {
  if (text == "ranks") return SizeOf{ScaleBy::kRanks, ""};
  if (text == "nodes") return SizeOf{ScaleBy::kNodes, ""};
  if (text == "threads") return SizeOf{ScaleBy::kThreads, ""};
  if (!text.starts_with(kSizePrefix) || text.size() == kSizePrefix.size()) return {};
  return SizeOf{ScaleBy::kSize, std::string(text.substr(kSizePrefix.size()))};
}

std::string noun_of(const SizeOf& of) {
  switch (of.by) {
    case ScaleBy::kRanks:
      return "ranks";
    case ScaleBy::kNodes:
      return "nodes";
    case ScaleBy::kThreads:
      return "threads";
    case ScaleBy::kSize:
      break;
  }
  return of.name;
}

std::optional<double> size_of(const Analysis& analysis, const SizeOf& of) {
  switch (of.by) {
    case ScaleBy::kRanks:
      return static_cast<double>(analysis.run.ranks);
    case ScaleBy::kNodes:
      return static_cast<double>(analysis.run.nodes);
    case ScaleBy::kThreads:
      return computing_threads(analysis);
    case ScaleBy::kSize:
      break;
  }
  return number_in_command(analysis.run.command, of.name);
}

ScaledRun scaled_run(const Analysis& analysis, std::string name, const SizeOf& of, double size) {
  ScaledRun run;
  run.facts = facts_of(analysis, std::move(name), TimeOf::kMainThreads);
  run.size = size;
  run.processors = static_cast<double>(analysis.run.ranks) * (of.by == ScaleBy::kThreads ? size : 1);
  run.elapsed_s = analysis.run.elapsed_s;
  run.rank_seconds = analysis.rank_seconds;
  run.mpi_s = analysis.category_s[static_cast<std::size_t>(shard::Category::kMpi)];
  run.measures = measures_of(analysis);
  for (const RegionRow& region : analysis.regions) {
    ScaledRegion& kept = run.regions.emplace_back();
    kept.name = region_name(region);
    if (!region.domain.empty()) kept.name += " [" + region.domain + "]";
    if (!region.forward_file.empty())
      kept.name +=
          " of " + std::string(base_name(region.forward_file)) + ":" + std::to_string(region.forward_line);
    kept.time_s = region.time_s.value_or(region.sampled_s);
    kept.measures.efficiency = region.efficiency;
    kept.measures.mean_useful_s = region.mean_useful_s;
    kept.measures.instructions = amount_in(analysis, region.counters_outside_mpi, kInstructions);
    kept.measures.cycles = amount_in(analysis, region.counters_outside_mpi, kCycles);
  }
  run.call_tree = analysis.call_tree;
  return run;
}

}  // namespace clusterprof::report
