// SPDX-License-Identifier: BSD-3-Clause
// Findings on what threads compute: in the Python interpreter, on memory, and in the kernel.
#include <algorithm>

#include "report/analysis/evidence.hpp"
#include "report/analysis/finding_groups.hpp"
#include "report/analysis/limits.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using Key = EvidenceKey;
using Kind = FindingKind;

bool is_of_pages(const CallPaths& paths, std::uint32_t path) {
  return activity_of(paths, path, Category::kSystem) == Activity::kPageFault ||
         maps_memory(system_call_of(paths, path));
}

void memory_bound(FindingBuilder& builder) {
  const Analysis& analysis = builder.analysis();
  if (analysis.memory_functions.empty()) return;
  double time_s = 0;
  for (const MemoryRow& row : analysis.memory_functions) time_s += row.time_s;
  const double share = builder.share_of_ranks(time_s);
  if (share < thresholds::kMemory) return;
  const MemoryRow& most = analysis.memory_functions.front();
  Finding& finding = builder.add_by_share(Kind::kMemoryBound, share);
  finding.evidence.set(Key::kTime, time_s);
  if (analysis.memory_functions.size() > 1)
    finding.evidence.set(Key::kPlaceShare, builder.share_of_ranks(most.time_s));
  add_memory_evidence(most, finding.evidence);
  finding.action = FindingAction::kBlockForCache;
  finding.is_estimate = std::any_of(analysis.memory_functions.begin(), analysis.memory_functions.end(),
                                    [](const MemoryRow& row) { return !row.by_counters; });
  double longest_s = 0;
  for (const MemoryRow& row : analysis.memory_functions) longest_s += row.rank_time_s;
  finding.gain_s = longest_s;
  set_ranks(finding, {most.rank});
  if (most.path != 0) finding.place = place_of(builder.paths(), most.path);
}

void memory_pages(FindingBuilder& builder) {
  const Analysis& analysis = builder.analysis();
  Finding* const finding = builder.add_rank_time(
      Kind::kMemoryPages, Category::kSystem,
      [&](std::uint32_t path) { return is_of_pages(builder.paths(), path); }, thresholds::kPageFaults,
      FindingAction::kReuseMemory);
  if (finding == nullptr) return;
  const auto part = [&](Key key, double time_s) {
    if (builder.share_of_ranks(time_s) >= thresholds::kPageFaults / 10)
      finding->evidence.set(key, builder.share_of_ranks(time_s));
  };
  part(Key::kPageFaultShare, analysis.limits.page_fault_s);
  part(Key::kMappingShare, analysis.limits.mapping_s);
  std::uint64_t faults = 0;
  bool known = !analysis.ranks.empty();
  for (const RankInfo& rank : analysis.ranks) {
    faults += rank.minor_faults.value_or(0) + rank.major_faults.value_or(0);
    known = known && rank.minor_faults;
  }
  if (known)
    finding->evidence.set(Key::kFaultsPerSecond, builder.share_of_ranks(static_cast<double>(faults)));
}

}  // namespace

void find_python_time(FindingBuilder& builder) {
  // Python is what the user chose to write, so its time is never rated as badly as lost time.
  if (Finding* const finding =
          builder.add_rank_time(Kind::kPythonBytecode, Category::kPython,
                                builder.with_activity(Category::kPython, Activity::kInterpreter),
                                thresholds::kPython, FindingAction::kCompileLoop))
    finding->severity = *finding->share >= thresholds::kMostlyPython ? Severity::kMedium : Severity::kLow;
  builder.add_rank_time(Kind::kPythonGarbage, Category::kPython,
                        builder.with_activity(Category::kPython, Activity::kGarbageCollection),
                        thresholds::kGarbage, FindingAction::kFewerObjects);
}

void find_imports(FindingBuilder& builder) {
  const Analysis& analysis = builder.analysis();
  const ImportSum& all = analysis.import_sum;
  const double share = builder.share_of_ranks(all.main_thread_s), mean_s = all.main_spread.mean_s;
  const bool is_long = share >= thresholds::kImports && mean_s >= thresholds::kImports_s;
  const bool is_most = share >= thresholds::kMostlyImports && mean_s >= thresholds::kMostlyImports_s;
  if (!is_long && !is_most) return;
  Finding& finding = builder.add_by_share(Kind::kImports, share);
  builder.imports_found = true;
  if (!is_long) finding.severity = Severity::kLow;
  const double reading = all.main_thread_io_s / all.main_thread_s;
  finding.evidence.set(Key::kTime, all.main_thread_s);
  finding.evidence.set(Key::kRankMean, mean_s);
  finding.evidence.set(Key::kReadingShare, reading);
  finding.action = reading >= thresholds::kBlame ? FindingAction::kPackLibraries : FindingAction::kImportLess;
  finding.gain_s = all.main_spread.max_s;
  const ImportRow* most = nullptr;
  for (const ImportRow& row : analysis.imports)
    if (row.is_direct && !row.own && !row.package.empty() &&
        (most == nullptr || row.main_thread_s > most->main_thread_s))
      most = &row;
  if (most == nullptr || most->main_thread_s < thresholds::kBlame * all.main_thread_s) return;
  finding.evidence.set(Key::kPackage, most->package);
  finding.evidence.set(Key::kPlaceShare, std::min(most->main_thread_s / all.main_thread_s, 1.0));
  finding.place.file = most->file;
  finding.place.line = most->line;
  finding.place.function = most->function;
  finding.place.kind = shard::FrameKind::kPython;
}

void find_memory_costs(FindingBuilder& builder) {
  memory_bound(builder);
  memory_pages(builder);
}

void find_system_calls(FindingBuilder& builder) {
  const Analysis& analysis = builder.analysis();
  const bool apart = analysis.activity_s[index(Activity::kPageFault)].has_value();
  Finding* const finding = builder.add_rank_time(
      Kind::kSystemCalls, Category::kSystem,
      [&](std::uint32_t path) { return !is_of_pages(builder.paths(), path); }, thresholds::kSystem,
      FindingAction::kFewerSystemCalls);
  if (finding != nullptr && !apart) finding->action = FindingAction::kNone;  // page faults may be most of it
}

}  // namespace clusterprof::report
