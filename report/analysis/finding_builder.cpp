// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/finding_builder.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "report/analysis/evidence.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using Key = EvidenceKey;
using Kind = FindingKind;

constexpr double kWholeProgram = 0.98;  // a path with this share of all time below it is the program itself

}  // namespace

void set_ranks(Finding& finding, std::vector<std::int32_t> ranks) {
  finding.rank = ranks.front();
  finding.ranks = std::move(ranks);
}

void set_call_site(Finding& finding, const MpiCallRow& row, double time_s) {
  finding.place.op = row.op;
  finding.place.function = row.function;
  finding.place.file = row.file;
  finding.place.line = row.line;
  finding.evidence.set(Key::kPlaceTime, time_s);
}

FindingBuilder::FindingBuilder(const shard::ShardData& data, const PathTime& time, const CallPaths& paths,
                               Analysis& analysis)
    : data_(data), time_(time), paths_(paths), analysis_(analysis), above_all_time_(paths_above_all_time()) {}

Finding& FindingBuilder::add(Kind kind, Severity severity, std::optional<double> share) {
  Finding& finding = analysis_.findings.emplace_back();
  finding.kind = kind;
  finding.severity = severity;
  finding.share = share;
  return finding;
}

Finding& FindingBuilder::add_by_share(Kind kind, double share) {
  return add(kind, severity_of(share), share);
}

FindingBuilder::PathFilter FindingBuilder::with_activity(Category category, Activity activity) const {
  return [this, category, activity](std::uint32_t path) {
    return activity_of(paths_, path, category) == activity;
  };
}

Finding* FindingBuilder::add_rank_time(Kind kind, Category which, const PathFilter& chosen, double threshold,
                                       FindingAction action) {
  if (analysis_.rank_seconds <= 0) return nullptr;
  const double category_s = of(analysis_.category_s, which);
  if (category_s / analysis_.rank_seconds < threshold) return nullptr;
  const auto whole = weigh([&](std::uint32_t path, Category category) {
    return category == which ? main_ns(path, category) : 0.0;
  });
  const auto part = weigh([&](std::uint32_t path, Category category) {
    const double ns = category == which ? main_ns(path, category) : 0.0;
    return ns != 0 && chosen(path) ? ns : 0.0;
  });
  const double all = std::accumulate(whole.begin(), whole.end(), 0.0);
  const double part_s = std::accumulate(part.begin(), part.end(), 0.0);
  const double share = all > 0 ? category_s * part_s / all / analysis_.rank_seconds : 0;
  if (share < threshold) return nullptr;
  Finding& finding = add_by_share(kind, share);
  finding.action = action;
  finding.gain_s = part_s / all * longest_s(which);
  const std::uint32_t path = blame_most(finding, part);
  finding.evidence.set(Key::kTime, share * analysis_.rank_seconds);
  if (path == 0 || which == Category::kPython) return &finding;
  const shard::Frame& frame = *paths_.frame(path);
  blocked_functions.push_back(
      {analysis_.findings.size() - 1, paths_.text(frame.name), paths_.text(frame.file)});
  return &finding;
}

// The time of the rank that has most of the category: without that category, the run would save no more.
double FindingBuilder::longest_s(Category which) const {
  double longest = 0;
  for (const RankInfo& rank : analysis_.ranks) longest = std::max(longest, of(rank.category_s, which));
  return longest;
}

double FindingBuilder::main_ns(std::uint32_t path, Category category) const {
  return static_cast<double>(time_.main_ns(time_.cell(path, category)));
}

std::vector<bool> FindingBuilder::paths_above_all_time() const {
  std::vector<double> time(paths_.size(), 0.0);
  for (std::uint32_t path = static_cast<std::uint32_t>(paths_.size()); path-- > 1;) {
    for (std::size_t c = 0; c < shard::kCategories; ++c)
      time[path] += main_ns(path, static_cast<Category>(c));
    time[paths_.parent(path)] += time[path];
  }
  std::vector<bool> above(paths_.size());
  for (std::uint32_t path = 1; path < paths_.size(); ++path)
    above[path] = time[0] > 0 && time[path] >= kWholeProgram * time[0];
  return above;
}

Blame FindingBuilder::blame(std::vector<double> weight, double total_s) const {
  if (total_s <= 0) return {};
  for (std::uint32_t path = static_cast<std::uint32_t>(paths_.size()); path-- > 1;)
    weight[paths_.parent(path)] += weight[path];
  const double enough = total_s * thresholds::kBlame;
  std::vector<std::uint32_t> heaviest(paths_.size(), 0);  // child, if any is heavy
  for (std::uint32_t path = 1; path < paths_.size(); ++path) {
    std::uint32_t& child = heaviest[paths_.parent(path)];
    if (weight[path] > 0 && weight[path] >= enough && (child == 0 || weight[path] > weight[child]))
      child = path;
  }

  Blame result;
  for (std::uint32_t at = paths_.size() == 0 ? 0 : heaviest[0]; at != 0; at = heaviest[at])
    if (paths_.source(at) == at) result = {at, weight[at]};
  return result;
}

std::uint32_t FindingBuilder::blame_most(Finding& finding, const std::vector<double>& weight) const {
  const double all_s = std::accumulate(weight.begin(), weight.end(), 0.0);
  finding.evidence.set(Key::kTime, all_s);
  const Blame culprit = blame(weight, all_s);
  if (culprit.path == 0) return 0;
  if (above_all_time_[culprit.path]) {
    // Callees without source lines count for the line, too.
    double own_s = 0;
    for (std::uint32_t path = 1; path < paths_.size(); ++path)
      if (paths_.source(path) == culprit.path) own_s += weight[path];
    if (own_s < all_s * thresholds::kBlame) return 0;
  }
  finding.evidence.set(Key::kPlaceShare, culprit.time_s / all_s);
  finding.place = place_of(paths_, culprit.path);
  return culprit.path;
}

double FindingBuilder::share_of_ranks(double time_s) const {
  return analysis_.rank_seconds > 0 ? time_s / analysis_.rank_seconds : 0;
}

double FindingBuilder::sum_over_ranks(Seconds RankInfo::*part) const {
  double sum_s = 0;
  for (const RankInfo& rank : analysis_.ranks) sum_s += (rank.*part).value_or(0);
  return sum_s;
}

}  // namespace clusterprof::report
