// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/gains.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "report/analysis/findings.hpp"
#include "report/analysis/line_rows.hpp"

namespace clusterprof::report {
namespace {

using Kind = FindingKind;

// Candidates are made of what takes at least this share of the ranks' time, and of so many of each kind.
constexpr double kLeastShare = 0.02;
constexpr std::size_t kOfEachKind = 5;
// What nearly everything is below (main(), <module>) is no candidate, nor what mostly calls others: a change
// takes what is called with it.
constexpr double kNearlyAll = 0.9, kLeastOwn = 0.5;
// A rank is a candidate if it works so much longer than the mean.
constexpr double kLongerThanMean = 1.05;

std::string rank_is_mean(std::int32_t rank) { return "rank " + std::to_string(rank) + " = mean"; }
// Where what the rank does late costs the others most; null: not known.
const SourceLocation* late_place(const Analysis& analysis, std::int32_t rank) {
  for (const RootCauseRow& cause : analysis.root_functions) {  // largest first
    const SourceLocation& place = analysis.places[cause.place];
    if (cause.rank == rank && place.op.empty() && !place.function.empty() &&
        place.function != shard::kRunnableName)
      return &place;
  }
  for (const Finding& finding : analysis.findings)
    if (finding.kind == Kind::kLoadImbalance && finding.rank == rank && finding.place.op.empty() &&
        !finding.place.function.empty())
      return &finding.place;
  return nullptr;
}
// A place, a call site or a line.
template <typename Row>
GainCandidate about(const Row& row) {
  GainCandidate candidate;
  candidate.file = row.file, candidate.function = row.function, candidate.line = row.line;
  return candidate;
}
std::string barrier_removed(std::string_view file, std::uint32_t line) {
  return "call MPI_Barrier " + std::string(file) + ":" + std::to_string(line) + " removed";
}

bool works_longer(const Analysis& analysis, const RankInfo& rank) {
  return rank.useful_s && analysis.mean_useful_s &&
         *rank.useful_s > kLongerThanMean * *analysis.mean_useful_s;
}

// The change that makes a finding's cause go away. No text: there is none.
struct FindingChange {
  enum class Of : std::uint8_t { kRank, kFunction, kCall, kIo };
  Of of{};
  std::string text;
};
FindingChange change_of(const Finding& finding, const Analysis& analysis) {
  const SourceLocation& place = finding.place;
  switch (finding.kind) {
    case Kind::kDelay:
    case Kind::kLateBySamples:
    case Kind::kLoadImbalance: {
      if (!finding.rank || !place.op.empty()) return {};  // what is late in MPI is so for others
      const auto longer = std::count_if(analysis.ranks.begin(), analysis.ranks.end(),
                                        [&](const RankInfo& rank) { return works_longer(analysis, rank); });
      const bool of_one = finding.kind == Kind::kLoadImbalance ? longer <= 1 : finding.ranks.size() == 1;
      if (of_one) return {FindingChange::Of::kRank, rank_is_mean(*finding.rank)};
      [[fallthrough]];
    }
    case Kind::kOpenMpImbalance:  // of which it is the function that the region is in
      if (place.function.empty()) return {};
      return {FindingChange::Of::kFunction, "balance function " + place.function};
    case Kind::kMutualWaiting:
    case Kind::kMpiBesidesWaiting:
    case Kind::kMpiTime:
      if (place.op != "MPI_Barrier" || place.line == 0) return {};
      return {FindingChange::Of::kCall, barrier_removed(place.file, place.line)};
    case Kind::kFileIo:
    case Kind::kRankIo:
    case Kind::kSmallIo:
      return {FindingChange::Of::kIo, "io x0"};
    default:
      return {};
  }
}

template <typename Lines>
class Candidates {
 public:
  Candidates(const Analysis& analysis, const FunctionNames& names, const Lines& lines)
      : a_(analysis), names_(names), lines_(lines) {
    for (const Seconds& s : a_.category_s) all_s_ += s.value_or(0);
  }

  std::vector<GainCandidate> make() {
    findings();
    functions();
    lines();
    regions();
    ranks();
    barriers();
    if (takes_time(shard::Category::kMpi)) {
      add("latency x0.5", {});
      add("bandwidth x2", {});
    }
    if (takes_time(shard::Category::kIo)) add("io x0", {});
    return std::move(candidates_);
  }

 private:
  [[nodiscard]] bool takes_time(shard::Category category) const {
    return a_.category_s[static_cast<std::size_t>(category)].value_or(0) > kLeastShare * all_s_;
  }

  template <typename Row>
  [[nodiscard]] bool is_a_part(const Row& row) const {
    return row.active_self_s >= kLeastShare * all_s_ && row.active_total_s < kNearlyAll * all_s_ &&
           row.active_self_s >= kLeastOwn * row.active_total_s;
  }

  void add(std::string change, GainCandidate candidate) {
    if (!added_.insert(change).second) return;
    candidate.change = std::move(change);
    candidates_.push_back(std::move(candidate));
  }

  void findings() {
    for (const Finding& finding : a_.findings) {
      using Of = FindingChange::Of;
      FindingChange change = change_of(finding, a_);
      const SourceLocation& place = finding.place;
      if (change.text.empty() || (change.of == Of::kFunction && !names_.is_one(place.function))) continue;
      GainCandidate candidate;
      if (change.of == Of::kRank) candidate = of_rank(*finding.rank);
      if (change.of == Of::kFunction || change.of == Of::kCall) candidate = about(place);
      add(std::move(change.text), std::move(candidate));
    }
  }

  void functions() {
    std::size_t taken = 0;
    for (const FunctionRow& row : a_.functions) {
      const bool is_code = row.kind == shard::FrameKind::kPython || row.kind == shard::FrameKind::kNative;
      if (!is_code || row.file.empty() || !is_a_part(row) || !names_.is_one(row.name)) continue;
      if (++taken > kOfEachKind) return;
      GainCandidate candidate;
      candidate.file = row.file, candidate.function = row.name, candidate.line = row.line;
      add("function " + row.name + " x0.5", candidate);
      if (a_.ranks.size() > 1 || a_.openmp) add("balance function " + row.name, candidate);
    }
  }

  // Making a row of LineRows takes time.
  void lines() {
    std::size_t taken = 0;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const LineRow& row = lines_[i];
      if (row.self_s < kLeastShare * all_s_) return;
      if (row.line == 0 || row.file.empty() || !is_a_part(row)) continue;
      if (++taken > kOfEachKind) return;
      add("line " + row.file + ":" + std::to_string(row.line) + " x0.5", about(row));
    }
  }

  void ranks() {
    std::vector<const RankInfo*> longest;
    for (const RankInfo& rank : a_.ranks)
      if (works_longer(a_, rank)) longest.push_back(&rank);
    std::sort(longest.begin(), longest.end(), [](const auto* a, const auto* b) {
      return *a->useful_s != *b->useful_s ? *a->useful_s > *b->useful_s : a->rank < b->rank;
    });
    if (longest.size() > kOfEachKind) longest.resize(kOfEachKind);
    for (const RankInfo* rank : longest) add(rank_is_mean(rank->rank), of_rank(rank->rank));
  }

  [[nodiscard]] GainCandidate of_rank(std::int32_t rank) const {
    const SourceLocation* const place = late_place(a_, rank);
    GainCandidate candidate = place == nullptr ? GainCandidate() : about(*place);
    candidate.rank = rank;
    return candidate;
  }

  // Of the program's own: a change names a region without who names it.
  void regions() {
    std::vector<const RegionRow*> longest;
    for (const RegionRow& row : a_.regions)
      if (row.domain.empty() && !row.names.empty() && row.share >= kLeastShare && row.share < kNearlyAll)
        longest.push_back(&row);
    std::stable_sort(longest.begin(), longest.end(),
                     [](const auto* a, const auto* b) { return a->share > b->share; });
    if (longest.size() > kOfEachKind) longest.resize(kOfEachKind);
    for (const RegionRow* row : longest) add("region " + row->names.back() + " x0.5", {});
  }

  void barriers() {
    std::size_t taken = 0;
    for (const MpiCallRow& call : a_.mpi_calls) {
      if (call.op != "MPI_Barrier" || call.line == 0 || call.time_s < kLeastShare * all_s_) continue;
      if (++taken > kOfEachKind) return;
      add(barrier_removed(call.file, call.line), about(call));
    }
  }

  const Analysis& a_;
  const FunctionNames& names_;
  const Lines& lines_;
  double all_s_ = 0;
  std::set<std::string> added_;
  std::vector<GainCandidate> candidates_;
};

}  // namespace

FunctionNames::FunctionNames(const shard::ShardData& head) {
  std::map<std::string_view, std::pair<std::string_view, std::string_view>> places;  // file, module
  std::set<std::string_view> of_several;
  for (const shard::Frame& frame : head.frames) {
    if (frame.kind != shard::FrameKind::kPython && frame.kind != shard::FrameKind::kNative) continue;
    const std::string_view file = head.strings[frame.file];
    // A function without a file is told by its object file; one with a file may be in several.
    const std::pair place(file, file.empty() ? std::string_view(head.strings[frame.module]) : "");
    const auto [found, is_new] = places.try_emplace(head.strings[frame.name], place);
    if (!is_new && found->second != place) of_several.insert(found->first);
  }
  for (const auto& [name, place] : places)
    if (!of_several.contains(name)) of_one_.emplace(name);
}

std::vector<GainCandidate> gain_candidates(const Analysis& analysis, const FunctionNames& names) {
  return Candidates(analysis, names, analysis.lines).make();
}

std::vector<GainCandidate> gain_candidates(const Analysis& analysis, const FunctionNames& names,
                                           const LineRows& lines) {
  return Candidates(analysis, names, lines).make();
}

std::vector<profile::PredictedGain> gaining(const profile::Gains& gains) {
  std::vector<profile::PredictedGain> rows;
  for (const profile::PredictedGain& row : gains.rows)
    if (row.gain_s > 0) rows.push_back(row);
  return rows;
}

void apply_gains(Analysis& analysis, profile::Gains gains) {
  if (!gains.from_sums) {
    std::map<std::string_view, const profile::PredictedGain*> predicted;
    for (const profile::PredictedGain& row : gains.rows) predicted.emplace(row.change, &row);
    for (Finding& finding : analysis.findings) {
      const auto found = predicted.find(change_of(finding, analysis).text);
      if (found == predicted.end()) continue;
      // What sums say is at most what this cause costs. A change that gains more takes other causes away,
      // too. Both come from samples, and differ by some per cent where they mean the same.
      constexpr double kSame = 1.05;
      if (finding.gain_s && found->second->gain_s > kSame * *finding.gain_s) continue;
      finding.gain_s = std::max(found->second->gain_s, 0.0);
      finding.gain_error_s = found->second->error_s;
      finding.change = found->second->change;
    }
    sort_findings(analysis.findings);
  }
  analysis.gains = std::move(gains);
}

}  // namespace clusterprof::report
