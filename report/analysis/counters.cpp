// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/counters.hpp"

#include <algorithm>
#include <map>

#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::kNone;
using Names = std::span<const std::string_view>;

constexpr std::string_view kDoubleOps[] = {"PAPI_DP_OPS"}, kSingleOps[] = {"PAPI_SP_OPS"};
constexpr std::string_view kFloatOps[] = {"PAPI_FP_OPS"};
constexpr std::string_view kDoubleVector[] = {"PAPI_VEC_DP"}, kSingleVector[] = {"PAPI_VEC_SP"};
constexpr std::string_view kMigrations[] = {"cpu-migrations", "perf::CPU-MIGRATIONS",
                                            "perf::PERF_COUNT_SW_CPU_MIGRATIONS", "migrations"};

void add_up(CounterAmounts& to, std::uint32_t counter, std::uint64_t value) {
  const auto known =
      std::find_if(to.begin(), to.end(), [counter](const auto& amount) { return amount.first == counter; });
  if (known == to.end())
    to.emplace_back(counter, value);
  else
    known->second += value;
}

}  // namespace

std::uint32_t find_counter(const std::vector<std::string>& counters, Names names) {
  for (const std::string_view name : names) {
    const auto found = std::find(counters.begin(), counters.end(), name);
    if (found != counters.end()) return static_cast<std::uint32_t>(found - counters.begin());
  }
  return kNone;
}

std::vector<Derived> derive(const DerivedInput& in) {
  std::vector<Derived> out;
  const auto amount = [&](Names names) { return in.amount ? in.amount(names) : std::optional<double>(); };
  const std::optional<double> cycles = amount(kCycles), instructions = amount(kInstructions);
  const std::optional<double> misses = amount(kCacheMisses), branches = amount(kBranchMisses);
  if (instructions && cycles.value_or(0) > 0)
    out.push_back({"ipc", *instructions / *cycles, "instructions per cycle", "PAPI_TOT_INS / PAPI_TOT_CYC"});
  if (in.elapsed_s > 0) {
    const std::optional<double> doubles = amount(kDoubleOps), singles = amount(kSingleOps);
    if (doubles || singles)
      out.push_back({"gflops", (doubles.value_or(0) + singles.value_or(0)) / in.elapsed_s / 1e9, "GFLOP/s",
                     "(PAPI_DP_OPS + PAPI_SP_OPS) / elapsed / 1e9"});
    else if (const std::optional<double> any = amount(kFloatOps))
      out.push_back({"gflops", *any / in.elapsed_s / 1e9, "GFLOP/s", "PAPI_FP_OPS / elapsed / 1e9"});
  }
  double vectors = 0, operations = 0;
  for (const auto& [vector, all] : {std::pair(Names(kDoubleVector), Names(kDoubleOps)),
                                    std::pair(Names(kSingleVector), Names(kSingleOps))})
    if (const std::optional<double> part = amount(vector), whole = amount(all); part && whole)
      vectors += *part, operations += *whole;
  if (operations > 0)
    out.push_back({"vectorisation", vectors / operations, "share",
                   "(PAPI_VEC_DP + PAPI_VEC_SP) / (PAPI_DP_OPS + PAPI_SP_OPS)"});
  if (misses && instructions.value_or(0) > 0)
    out.push_back({"llc_mpki", *misses * 1000 / *instructions, "misses per 1000 instructions",
                   "PAPI_L3_TCM x 1000 / PAPI_TOT_INS"});
  if (branches && instructions.value_or(0) > 0)
    out.push_back({"branch_mpki", *branches * 1000 / *instructions, "misses per 1000 instructions",
                   "PAPI_BR_MSP x 1000 / PAPI_TOT_INS"});
  if (misses && in.elapsed_s > 0)
    out.push_back({"memory_bandwidth", *misses * kCacheLine_bytes / in.elapsed_s, "B/s",
                   "PAPI_L3_TCM x 64 B / elapsed"});
  if (in.cpu_s && in.cpu_of_s.value_or(0) > 0)
    out.push_back({"cpu_utilisation", *in.cpu_s / *in.cpu_of_s, "processors", "CPU time / elapsed"});
  if (in.elapsed_s > 0) {
    if (in.faults)
      out.push_back({"faults_per_s", static_cast<double>(*in.faults) / in.elapsed_s, "1/s",
                     "(minor + major page faults) / elapsed"});
    if (in.switches)
      out.push_back({"context_switches_per_s", static_cast<double>(*in.switches) / in.elapsed_s, "1/s",
                     "(voluntary + involuntary) / elapsed"});
    if (const std::optional<double> moves = amount(kMigrations))
      out.push_back({"migrations_per_s", *moves / in.elapsed_s, "1/s", "cpu-migrations / elapsed"});
  }
  return out;
}

DerivedInput derived_input(const Analysis& analysis, const CounterAmounts& amounts, double elapsed_s) {
  DerivedInput input;
  input.elapsed_s = elapsed_s;
  input.amount = [&analysis, &amounts](Names names) -> std::optional<double> {
    for (const std::string_view name : names)
      for (const auto& [counter, value] : amounts)
        if (analysis.counters[counter] == name) return static_cast<double>(value);
    return {};
  };
  return input;
}

void count_counters(const shard::ShardData& data, const std::vector<std::uint32_t>& ascending,
                    Analysis& analysis) {
  analysis.counters = data.counters;
  analysis.counters_multiplexed = data.run.counters_multiplexed;
  for (const auto& counter : data.unavailable_counters)
    analysis.unavailable_counters.try_emplace(counter.name, counter.reason);
  analysis.counter_spreads.resize(data.counters.size());
  std::vector<std::size_t> counted(data.counters.size(), 0);
  CounterAmounts of_run;
  const auto usage = [](const std::optional<std::uint64_t>& some,
                        const std::optional<std::uint64_t>& others) {
    return some && others ? std::optional(*some + *others) : std::optional<std::uint64_t>();
  };
  DerivedInput run;
  bool all_usage = !analysis.ranks.empty();
  const ByRank values = by_rank(data.counter_values, data.ranks.size());
  for (std::size_t position = 0; position < ascending.size(); ++position) {
    const std::uint32_t rank = ascending[position];
    std::map<std::uint32_t, std::uint64_t> here;
    for (std::uint32_t i = values.starts[rank]; i < values.starts[rank + 1]; ++i) {
      const shard::CounterValue& value = data.counter_values[values.order[i]];
      if (value.counter < data.counters.size()) here[value.counter] += value.value;
    }
    RankInfo& info = analysis.ranks[position];
    const CounterAmounts amounts(here.begin(), here.end());
    DerivedInput input = derived_input(analysis, amounts, info.elapsed_s);
    input.cpu_s = info.cpu_s, input.cpu_of_s = info.elapsed_s;
    input.faults = usage(info.minor_faults, info.major_faults);
    input.switches = usage(info.voluntary_switches, info.involuntary_switches);
    info.derived = derive(input);
    all_usage = all_usage && input.faults && input.switches && input.cpu_s;
    run.faults = run.faults.value_or(0) + input.faults.value_or(0);
    run.switches = run.switches.value_or(0) + input.switches.value_or(0);
    run.cpu_s = run.cpu_s.value_or(0) + input.cpu_s.value_or(0);
    run.cpu_of_s = run.cpu_of_s.value_or(0) + info.elapsed_s;
    if (here.empty()) continue;
    RankCounters row{data.ranks[rank].rank, {}};
    for (const auto& [counter, value] : here) {
      row.values.emplace_back(data.counters[counter], value);
      add_up(of_run, counter, value);
      CounterSpread& spread = analysis.counter_spreads[counter];
      const auto number = static_cast<double>(value);
      if (counted[counter] == 0 || number > spread.max) spread.max = number, spread.max_rank = row.rank;
      spread.min = counted[counter] == 0 ? number : std::min(spread.min, number);
      spread.total += number;
      ++counted[counter];
    }
    analysis.rank_counters.push_back(std::move(row));
  }
  for (std::size_t i = 0; i < data.counters.size(); ++i) {
    analysis.counter_spreads[i].name = data.counters[i];
    if (counted[i] > 0)
      analysis.counter_spreads[i].mean = analysis.counter_spreads[i].total / static_cast<double>(counted[i]);
  }
  DerivedInput input = derived_input(analysis, of_run, analysis.run.elapsed_s);
  if (all_usage)
    input.faults = run.faults, input.switches = run.switches, input.cpu_s = run.cpu_s,
    input.cpu_of_s = run.cpu_of_s;
  analysis.derived = derive(input);
}

PathCounts::PathCounts(const shard::ShardData& head, const CallPaths& paths)
    : paths_(paths), counters_(head.counters.size()) {}

void PathCounts::add(const RankInput& rank) {
  if (counters_.empty()) return;
  if (!rank.values.empty()) bytecode_.resize(words_of(paths_.size()));
  for (const shard::Value& value : rank.values)
    insert(bytecode_, value.path, value.category == shard::Category::kPython);
  for (const shard::PathCounter& row : rank.path_counters) {
    if (row.path >= paths_.size() || row.counter >= counters_.size()) continue;
    Counter& counter = counters_[row.counter];
    if (counter.amounts.empty()) {
      counter.amounts.resize(paths_.size());
      counter.counted.resize(words_of(paths_.size()));
    }
    counter.amounts[row.path] += row.value;
    insert(counter.counted, row.path);
  }
}

std::uint32_t PathCounts::counted(std::uint32_t path) const {
  return paths_.counted(path, has(bytecode_, path) ? shard::Category::kPython : shard::Category::kNative);
}

std::uint32_t PathCounts::line(std::uint32_t path) const {
  const auto has_some = [&](const Counter& counter) { return has(counter.counted, path); };
  if (std::none_of(counters_.begin(), counters_.end(), has_some)) return kNone;
  return paths_.line(paths_.source(counted(path)));
}

void PathCounts::add_up(std::span<const std::uint32_t> paths, CounterAmounts& amounts) const {
  for (std::uint32_t c = 0; c < counters_.size(); ++c)
    for (const std::uint32_t path : paths)
      if (const std::optional<std::uint64_t> value = amount(c, path)) report::add_up(amounts, c, *value);
}

void PathCounts::finish(Analysis& analysis) const {
  std::vector<CounterAmounts> functions(paths_.functions().size());
  for (std::uint32_t c = 0; c < counters_.size(); ++c)
    for (std::uint32_t path = 0; path < counters_[c].amounts.size(); ++path) {
      const std::optional<std::uint64_t> value = amount(c, path);
      if (!value) continue;
      if (const std::uint32_t function = paths_.function(counted(path)); function != kNone)
        report::add_up(functions[function], c, *value);
    }
  for (FunctionRow& row : analysis.functions) row.counters = std::move(functions[row.id]);
}

}  // namespace clusterprof::report
