// SPDX-License-Identifier: BSD-3-Clause
#include "report/history/seen_findings.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <system_error>

#include "report/analysis/activities.hpp"

namespace clusterprof::report {
namespace {

using Kind = FindingKind;

// Where a run has a finding of the first kind, one of the second may be left out: that is another view of the
// same time, or only the larger one is told.
struct Hiding {
  Kind shown, hidden;
};
constexpr Hiding kHiding[] = {{Kind::kDelay, Kind::kLoadImbalance},
                              {Kind::kSerialization, Kind::kTransfer},
                              {Kind::kTransfer, Kind::kSerialization},
                              {Kind::kTransfer, Kind::kMpiBesidesWaiting},
                              {Kind::kFileIo, Kind::kRankIo},
                              {Kind::kLateBySamples, Kind::kBlocked},
                              {Kind::kLateBySamples, Kind::kWaitsForData},
                              {Kind::kEventLoopBlocked, Kind::kBlocked}};

// A run has so many findings of a kind at most, of the places with most.
struct MostOfKind {
  Kind kind;
  std::size_t most;
};
constexpr MostOfKind kMostOfKinds[] = {{Kind::kDelay, thresholds::kMaxDelays},
                                       {Kind::kDelayPassedOn, thresholds::kMaxPassedOn},
                                       {Kind::kRankIo, 1},
                                       {Kind::kSmallIo, 1}};

void leave_out_hidden(const std::vector<Finding>& findings, FindingKinds& seen) {
  const auto leave_out = [&](Kind kind) { seen[static_cast<std::size_t>(kind)] = false; };
  const auto count = [&](Kind kind) {
    return static_cast<std::size_t>(
        std::ranges::count_if(findings, [&](const Finding& finding) { return finding.kind == kind; }));
  };
  for (const Hiding& hiding : kHiding)
    if (count(hiding.shown) != 0) leave_out(hiding.hidden);
  for (const MostOfKind& limit : kMostOfKinds)
    if (count(limit.kind) >= limit.most) leave_out(limit.kind);
  for (const Finding& finding : findings)
    for (const auto& joined : finding.joined) leave_out(joined.kind);
}

}  // namespace

FindingKinds seen_findings(const Analysis& a) {
  using shard::Category;
  FindingKinds seen;
  // The most severe are kept, and what is about the measurement itself comes last.
  const bool is_cut =
      a.findings.size() >= thresholds::kMaxFindings && a.findings.back().severity != Severity::kInfo;
  if (is_cut || a.run.was_never_recorded()) return seen;
  const auto add = [&](bool is_seen, std::initializer_list<Kind> kinds) {
    for (const Kind kind : kinds) seen[static_cast<std::size_t>(kind)] = is_seen;
  };
  const auto has = [&](Category category) {
    return a.category_s[static_cast<std::size_t>(category)].has_value();
  };
  const bool is_wall = a.run.clock != "cpu", is_sampled_run = a.run.samples != 0;

  // Of calls of MPI. Where waiting was analysed, time in MPI is told by its causes, and else as a whole.
  const bool has_waits = a.wait_quality && a.mpi_wait_s;
  add(has_waits, {Kind::kDelay, Kind::kDelayPassedOn, Kind::kMutualWaiting, Kind::kMpiBesidesWaiting});
  add(a.efficiency.serialization && a.efficiency.transfer, {Kind::kSerialization, Kind::kTransfer});
  add(a.efficiency.load_balance.has_value(), {Kind::kLoadImbalance});
  add(a.mpi_watched && has(Category::kMpi), {Kind::kMpiFileIo});
  add(a.mpi_watched && has(Category::kMpi) && !has_waits, {Kind::kMpiTime});
  add(is_sampled(a.torch.source) && is_wall, {Kind::kLateBySamples});

  // Of samples.
  add(is_sampled_run && a.active_activity_s[index(Activity::kGilWait)].has_value(), {Kind::kGilWait});
  add(is_sampled_run && a.activity_s[index(Activity::kInterpreter)].has_value(), {Kind::kPythonBytecode});
  add(is_sampled_run && a.activity_s[index(Activity::kGarbageCollection)].has_value(),
      {Kind::kPythonGarbage});
  add(is_sampled_run, {Kind::kImports});
  add(is_sampled_run && has(Category::kSystem), {Kind::kMemoryPages, Kind::kSystemCalls});
  add(is_sampled_run && has(Category::kIo), {Kind::kFileIo, Kind::kWaitsForData});
  add(is_sampled_run && is_wall && has(Category::kIdle), {Kind::kBlocked, Kind::kInputBound});
  add(!a.event_loops.empty(), {Kind::kEventLoopBlocked});

  // Of what has to be asked for, or what not every machine tells. Where a table is empty, it is not known
  // why.
  add(!a.memory_functions.empty(), {Kind::kMemoryBound});
  add(a.memory.has_value(), {Kind::kMemoryImbalance});
  add(a.io.has_value(), {Kind::kRankIo, Kind::kSmallIo});
  add(a.openmp.has_value(), {Kind::kOpenMpImbalance, Kind::kOpenMpSerial, Kind::kOpenMpSmallRegions,
                             Kind::kOpenMpOneAtATime, Kind::kOpenMpThreads, Kind::kOpenMpOneProcessor});
  const bool knows_runnable = has(Category::kRunnable);
  const bool knows_load = !a.ranks.empty() && std::ranges::all_of(a.ranks, [](const RankInfo& rank) {
    return rank.cpu_s && rank.involuntary_switches;
  });
  add(knows_runnable, {Kind::kWaitingForProcessor});
  add(!knows_runnable && knows_load, {Kind::kSharedProcessors});
  leave_out_hidden(a.findings, seen);
  return seen;
}

std::vector<std::uint64_t> version_numbers(std::string_view version) {
  std::vector<std::uint64_t> numbers;
  const char* at = version.data();
  const char* const end = at + version.size();
  while (at != end) {
    std::uint64_t number = 0;
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc()) break;
    numbers.push_back(number);
    at = read.ptr;
    if (at == end || *at != '.') break;
    ++at;
  }
  return numbers;
}

}  // namespace clusterprof::report
