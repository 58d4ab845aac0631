// SPDX-License-Identifier: BSD-3-Clause
// Counters by what they count, under whichever of its names an event was requested, and values derived from
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

// Names of one event, the usual one first.
inline constexpr std::string_view kCycles[] = {"PAPI_TOT_CYC",     "perf::CYCLES",
                                               "perf::CPU-CYCLES", "perf::PERF_COUNT_HW_CPU_CYCLES",
                                               "cycles",           "cpu-cycles"};
inline constexpr std::string_view kInstructions[] = {"PAPI_TOT_INS", "perf::INSTRUCTIONS",
                                                     "perf::PERF_COUNT_HW_INSTRUCTIONS", "instructions"};
inline constexpr std::string_view kCacheMisses[] = {"PAPI_L3_TCM", "perf::CACHE-MISSES",
                                                    "perf::PERF_COUNT_HW_CACHE_MISSES",
                                                    "perf::LLC-LOAD-MISSES", "cache-misses"};
inline constexpr std::string_view kBranchMisses[] = {"PAPI_BR_MSP", "perf::BRANCH-MISSES",
                                                     "perf::PERF_COUNT_HW_BRANCH_MISSES", "branch-misses"};
inline constexpr double kCacheLine_bytes = 64;  // what a miss brings

// The counter of the first of these names that was counted; shard::kNone: none was.
std::uint32_t find_counter(const std::vector<std::string>& counters, std::span<const std::string_view> names);

struct DerivedInput {
  std::function<std::optional<double>(std::span<const std::string_view>)> amount;  // of a counter
  double elapsed_s = 0;
  Seconds cpu_s, cpu_of_s;  // CPU time, and the elapsed time it is of
  std::optional<std::uint64_t> faults, switches;
};
std::vector<Derived> derive(const DerivedInput& input);

// Fills in totals, spreads and derived values of the run and of its ranks. Needs Analysis::ranks.
void count_counters(const shard::ShardData& data, const std::vector<std::uint32_t>& ascending,
                    Analysis& analysis);

// Amounts of all ranks by call path.
class PathCounts {
 public:
  PathCounts(const shard::ShardData& head, const CallPaths& paths);

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    for (auto& counter : self.counters_) {
      table(counter.amounts, self.paths_.size());
      table(counter.counted, words_of(self.paths_.size()));
    }
    table(self.bytecode_, words_of(self.paths_.size()));
  }

  // Fills in the amounts of functions, which must be in the analysis.
  void finish(Analysis& analysis) const;
  // The line that a path's counts are of (CallPaths::line). kNone: of none, or nothing was counted there.
  [[nodiscard]] std::uint32_t line(std::uint32_t path) const;
  // Adds the amounts of these paths.
  void add_up(std::span<const std::uint32_t> paths, CounterAmounts& amounts) const;

  [[nodiscard]] std::size_t counters() const { return counters_.size(); }
  // Empty where there was nothing.
  [[nodiscard]] std::optional<std::uint64_t> amount(std::uint32_t counter, std::uint32_t path) const {
    const Counter& of = counters_[counter];
    const bool known = path < of.amounts.size() && has(of.counted, path);
    return known ? std::optional(of.amounts[path]) : std::optional<std::uint64_t>();
  }

 private:
  struct Counter {  // tables by path
    std::vector<std::uint64_t> amounts;
    std::vector<Bits64> counted;
  };

  // Counts have no category: a path on which bytecode ran counts for its Python function, as its time does.
  [[nodiscard]] std::uint32_t counted(std::uint32_t path) const;

  const CallPaths& paths_;
  std::vector<Counter> counters_;
  std::vector<Bits64> bytecode_;  // paths on which bytecode ran
};

// For these counters; keeps references to both.
DerivedInput derived_input(const Analysis& analysis, const CounterAmounts& amounts, double elapsed_s);

}  // namespace clusterprof::report
