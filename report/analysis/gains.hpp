// SPDX-License-Identifier: BSD-3-Clause
// Which changes of the program are worth a try, and what is said once it is known what they gain. Who can
// replay the run predicts that: cli/analyze/gains.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "formats/profile/gains.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

class LineRows;

struct GainCandidate {
  std::string change;          // docs/whatif.md, "Changes"
  std::string file, function;  // that it is about, or where `rank` is late; empty: none
  std::uint32_t line = 0;      // 0: none
  std::optional<std::int32_t> rank;
};

// A change names a function without its file: which names are those of one function only. All frames of the
// run count, whether a view shows them or not, so that a name means the same in each view.
class FunctionNames {
 public:
  FunctionNames() = default;
  explicit FunctionNames(const shard::ShardData& head);

  [[nodiscard]] bool is_one(const std::string& name) const { return of_one_.contains(name); }

 private:
  std::set<std::string> of_one_;
};

// The changes that make the causes of findings go away, in the order of findings; then functions, lines and
// regions with most time, ranks that work longest, barriers, the network, and input and output. The second
// takes the lines from `lines`.
std::vector<GainCandidate> gain_candidates(const Analysis& analysis, const FunctionNames& names);
std::vector<GainCandidate> gain_candidates(const Analysis& analysis, const FunctionNames& names,
                                           const LineRows& lines);

// Keeps the predictions, and lets findings whose change was replayed take their gain from them. Their other
// gains stay estimates from sums.
void apply_gains(Analysis& analysis, profile::Gains gains);

// The ranking: those that gain anything, the largest gain first.
std::vector<profile::PredictedGain> gaining(const profile::Gains& gains);

}  // namespace clusterprof::report
