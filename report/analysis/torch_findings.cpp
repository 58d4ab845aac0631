// SPDX-License-Identifier: BSD-3-Clause
// The finding on ranks that come late to operations of torch.distributed whose calls were not recorded.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "report/analysis/finding_groups.hpp"

namespace clusterprof::report {
namespace {

using Key = EvidenceKey;
using Kind = FindingKind;

bool is_among(const std::vector<std::int32_t>& ranks, std::int32_t rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

// What the same ranks come late to.
struct Lateness {
  const TorchRow* most = nullptr;
  double wait_s = 0;  // of the others
};

// How much longer each late rank waits for a processor than the others.
double runnable_excess_s(const Analysis& analysis, const std::vector<std::int32_t>& late) {
  double late_s = 0, others_s = 0;
  for (const RankInfo& rank : analysis.ranks)
    (is_among(late, rank.rank) ? late_s : others_s) += of(rank.category_s, shard::Category::kRunnable);
  const auto number = static_cast<double>(late.size());
  return std::max(0.0, late_s / number - others_s / (static_cast<double>(analysis.ranks.size()) - number));
}

// The innermost function of the user's in which a late rank spends most of `more_s` beyond the mean; null:
// there is none.
const FunctionRow* cause_of(const FindingBuilder& builder, const std::vector<std::int32_t>& late,
                            double more_s) {
  const CallPaths& paths = builder.paths();
  std::vector<bool> is_own(paths.functions().size(), false);
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    const shard::Frame* const frame = paths.frame(path);
    if (frame == nullptr || paths.function(path) >= is_own.size()) continue;
    const bool is_code = frame->kind == shard::FrameKind::kPython || frame->kind == shard::FrameKind::kNative;
    if (is_code && paths.owner(path) == Owner::kOwn) is_own[paths.function(path)] = true;
  }
  const FunctionRow* cause = nullptr;
  for (const FunctionRow& row : builder.analysis().functions) {
    if (row.id >= is_own.size() || !is_own[row.id] || !is_among(late, row.active_spread.max_rank)) continue;
    if (row.active_spread.max_s - row.active_spread.mean_s < thresholds::kBlame * more_s) continue;
    if (cause == nullptr || row.active_total_s < cause->active_total_s) cause = &row;
  }
  return cause;
}

}  // namespace

void find_late_ranks_by_samples(FindingBuilder& builder) {
  Analysis& analysis = builder.analysis();
  std::map<std::vector<std::int32_t>, Lateness> by_ranks;
  for (const TorchRow& row : analysis.torch.rows) {
    if (row.late_ranks.empty()) continue;
    Lateness& lateness = by_ranks[row.late_ranks];
    if (lateness.most == nullptr || row.late_s > lateness.most->late_s) lateness.most = &row;
    lateness.wait_s += row.late_s;
  }
  // Ranks without a processor are late as well, but that is another finding.
  for (auto& [ranks, lateness] : by_ranks) {
    const auto others = static_cast<double>(analysis.ranks.size() - ranks.size());
    lateness.wait_s -= others * runnable_excess_s(analysis, ranks);
  }
  std::erase_if(by_ranks, [&](const auto& one) {
    return builder.share_of_ranks(one.second.wait_s) < thresholds::kDelay;
  });
  std::vector<std::pair<const std::vector<std::int32_t>*, const Lateness*>> order;
  for (const auto& [ranks, lateness] : by_ranks) order.emplace_back(&ranks, &lateness);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& x, const auto& y) { return x.second->wait_s > y.second->wait_s; });
  if (order.size() > thresholds::kMaxDelays) order.resize(thresholds::kMaxDelays);

  for (const auto& [ranks, lateness] : order) {
    const std::size_t others = analysis.ranks.size() - ranks->size();
    const double more_s = lateness->wait_s / static_cast<double>(others);
    Finding& finding = builder.add_by_share(Kind::kLateBySamples, builder.share_of_ranks(lateness->wait_s));
    finding.ranks = *ranks;
    finding.rank = lateness->most->latest_rank;
    finding.is_estimate = true;
    finding.gain_s = more_s;
    finding.action = FindingAction::kBalanceWork;
    SourceLocation& site = finding.site.emplace();
    site.op = lateness->most->op;
    site.function = lateness->most->function, site.file = lateness->most->file;
    site.line = lateness->most->line, site.kind = shard::FrameKind::kPython;
    finding.evidence.set(Key::kWait, lateness->wait_s);
    finding.evidence.set(Key::kWaitingRanks, others);
    // A late rank's excess over the mean of all is that part of its excess over the others.
    const double over_mean_s =
        more_s * static_cast<double>(others) / static_cast<double>(analysis.ranks.size());
    if (const FunctionRow* const cause = cause_of(builder, *ranks, over_mean_s)) {
      finding.rank = cause->active_spread.max_rank;
      finding.place.function = cause->name, finding.place.file = cause->file;
      finding.place.module = cause->module, finding.place.line = cause->line;
      finding.place.kind = cause->kind;
      finding.evidence.set(Key::kPlaceTime, cause->active_spread.max_s - cause->active_spread.mean_s);
    }
  }
}

}  // namespace clusterprof::report
