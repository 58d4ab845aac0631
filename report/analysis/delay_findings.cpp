// SPDX-License-Identifier: BSD-3-Clause
// Findings on ranks that made others wait, themselves or by passing waiting on, and on load imbalance.
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "report/analysis/evidence.hpp"
#include "report/analysis/finding_groups.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using Key = EvidenceKey;
using Kind = FindingKind;

class DelayFindings {
 public:
  explicit DelayFindings(FindingBuilder& builder)
      : builder_(builder), analysis_(builder.analysis()), paths_(builder.paths()) {}

  void find() {
    delays();
    passed_on();
    imbalance();
  }

 private:
  // Ranks and functions that caused waiting, however far it was passed on. Ranks that were in the same
  // function are one finding.
  void delays() {
    double of_slowest = 0;
    std::map<std::tuple<std::string, std::string, std::string>, std::size_t> by_function;
    for (const RootCauseRow& cause : analysis_.root_functions) {  // largest first
      if (cause.share < thresholds::kDelay) break;
      const SourceLocation& place = analysis_.places[cause.place];
      const auto [known, is_new] =
          by_function.try_emplace({place.op, place.function, place.file}, analysis_.findings.size());
      if (is_new && by_function.size() > thresholds::kMaxDelays) {
        by_function.erase(known);
        continue;
      }
      if (is_new)
        add_delay(cause);
      else
        add_to_delay(cause, analysis_.findings[known->second]);
      delayed_by_.push_back(cause.rank);
      if (cause.rank != analysis_.slowest_rank) continue;
      if (of_slowest == 0) of_slowest_ = known->second;
      of_slowest += cause.share;
    }
    if (of_slowest_ && of_slowest < thresholds::kExplained * imbalance_share()) of_slowest_.reset();
    for (Finding& finding : analysis_.findings)
      if (finding.kind == Kind::kDelay) finding.gain_s = gain_of_delay(finding.evidence);
  }

  void add_delay(const RootCauseRow& cause) {
    Finding& finding = builder_.add_by_share(Kind::kDelay, cause.share);
    set_ranks(finding, {cause.rank});
    finding.place = analysis_.places[cause.place];
    Evidence& evidence = finding.evidence;
    evidence.set(Key::kWait, cause.wait_s);
    evidence.set(cause.at_least ? Key::kWaitingRanksAtLeast : Key::kWaitingRanks, cause.waiting_ranks);
    if (const DelayRow* const where = where_waited_for(cause)) {
      if (where->waiting_ranks == 1 && cause.waiting_ranks == 1 && !cause.at_least)
        evidence.set(Key::kWaitingRank, where->waiting_rank);
      evidence.set(Key::kSiteWait, std::min(where->wait_s, cause.wait_s));
      finding.site = analysis_.places[where->site];
    }
    if (finding.place.op.empty())
      builder_.delay_functions.push_back(
          {analysis_.findings.size() - 1, finding.place.function, finding.place.file});
  }

  // Adds one more rank that was in the function of the finding.
  static void add_to_delay(const RootCauseRow& cause, Finding& finding) {
    Evidence& evidence = finding.evidence;
    if (finding.ranks.size() == 1) evidence.set(Key::kRankWait, evidence.number(Key::kWait));
    finding.ranks.insert(std::lower_bound(finding.ranks.begin(), finding.ranks.end(), cause.rank),
                         cause.rank);
    finding.share = *finding.share + cause.share;
    finding.severity = severity_of(*finding.share);
    evidence.set(Key::kWait, evidence.number(Key::kWait) + cause.wait_s);
    const double ranks = std::max<double>(
        cause.waiting_ranks,
        evidence.number(evidence.has(Key::kWaitingRanks) ? Key::kWaitingRanks : Key::kWaitingRanksAtLeast));
    evidence.erase(Key::kWaitingRanks);
    evidence.erase(Key::kWaitingRank);
    evidence.set(Key::kWaitingRanksAtLeast, ranks);
    // Where others waited is known only of the first rank.
    evidence.erase(Key::kSiteWait);
    finding.site.reset();
  }

  // Where ranks waited longest for a rank that was in that function; null: nowhere directly.
  const DelayRow* where_waited_for(const RootCauseRow& cause) const {
    const SourceLocation& code = analysis_.places[cause.place];
    for (const DelayRow& delay : analysis_.delays) {  // largest first
      if (delay.rank != cause.rank) continue;
      const SourceLocation& other = analysis_.places[delay.place];
      if (std::tie(other.op, other.function, other.file) == std::tie(code.op, code.function, code.file))
        return &delay;
    }
    return nullptr;
  }

  // The mean waiting of the ranks that waited.
  static double gain_of_delay(const Evidence& evidence) {
    const double ranks =
        std::max(evidence.number(Key::kWaitingRanks), evidence.number(Key::kWaitingRanksAtLeast));
    return evidence.number(Key::kWait) / std::max(1.0, ranks);
  }

  // Whether the rank may have caused most of the delay itself, in whatever function.
  bool is_root_cause(const DelayRow& delay) const {
    double caused_s = 0;
    for (const RootCauseRow& cause : analysis_.root_functions)
      if (cause.rank == delay.rank) caused_s += cause.wait_s;
    return caused_s >= thresholds::kExplained * delay.wait_s;
  }

  // Ranks that made others wait only because they had waited themselves.
  void passed_on() {
    std::size_t number = 0;
    for (const DelayRow& delay : analysis_.delays) {  // largest first
      if (analysis_.rank_seconds <= 0 || delay.wait_s / analysis_.rank_seconds < thresholds::kDelay) break;
      if (number == thresholds::kMaxPassedOn) break;
      if (!delay.rank || delay.place == 0 || analysis_.places[delay.place].op.empty()) continue;
      if (std::find(delayed_by_.begin(), delayed_by_.end(), *delay.rank) != delayed_by_.end()) continue;
      if (is_root_cause(delay)) continue;
      Finding& finding =
          builder_.add(Kind::kDelayPassedOn, Severity::kLow, delay.wait_s / analysis_.rank_seconds);
      set_ranks(finding, {*delay.rank});
      finding.place = analysis_.places[delay.place];
      finding.site = analysis_.places[delay.site];
      finding.evidence.set(Key::kWait, delay.wait_s);
      finding.evidence.set(Key::kWaitingRanks, delay.waiting_ranks);
      if (delay.waiting_ranks == 1) finding.evidence.set(Key::kWaitingRank, delay.waiting_rank);
      ++number;
    }
  }

  double imbalance_share() const {
    if (!analysis_.efficiency.load_balance) return 0;
    return (*analysis_.max_useful_s - *analysis_.mean_useful_s) / analysis_.focus_s;
  }

  void imbalance() {
    if (!analysis_.efficiency.load_balance) return;
    const double mean = *analysis_.mean_useful_s, max = *analysis_.max_useful_s;
    const double excess = max - mean, share = imbalance_share();
    if (share < thresholds::kImbalance) return;
    const auto add_useful = [&](Evidence& evidence) {
      evidence.set(Key::kMaxUseful, max);
      evidence.set(Key::kMeanUseful, mean);
    };
    if (of_slowest_) {
      add_useful(analysis_.findings[*of_slowest_].evidence);
      return;
    }
    Finding& finding = builder_.add_by_share(Kind::kLoadImbalance, share);
    set_ranks(finding, {*analysis_.slowest_rank});
    finding.action = FindingAction::kBalanceWork;
    finding.gain_s = excess;
    add_useful(finding.evidence);
    if (const auto excess_s = cpu_excess(*analysis_.slowest_rank, excess)) {
      finding.evidence.set(Key::kCpuExcess, *excess_s);
      finding.action = FindingAction::kGiveProcessors;
    }

    std::size_t mpi_ranks = 0;
    for (const RankInfo& rank : analysis_.ranks) mpi_ranks += rank.useful_s.has_value();
    const Blame culprit = builder_.blame(builder_.weigh([&](std::uint32_t path, Category category) {
      if (category == Category::kMpi) return 0.0;
      const std::uint32_t cell = builder_.time().cell(path, category);
      return static_cast<double>(builder_.time().separate_rank_ns(cell)) -
             static_cast<double>(builder_.time().mpi_ranks_ns(cell)) / static_cast<double>(mpi_ranks);
    }),
                                         excess);
    if (culprit.path == 0) return;
    finding.evidence.set(Key::kPlaceTime, culprit.time_s);
    finding.place = place_of(paths_, culprit.path);
  }

  // The CPU time of the slowest rank beyond the mean rank's. Empty, unless that is little of the time that
  // the rank takes longer and the rank is switched out often: then it waits for a processor rather than works
  // more.
  std::optional<double> cpu_excess(std::int32_t slowest, double useful_excess_s) const {
    double sum_s = 0;
    const RankInfo* of_slowest = nullptr;
    for (const RankInfo& rank : analysis_.ranks) {
      if (!rank.cpu_s || !rank.involuntary_switches) return {};
      sum_s += *rank.cpu_s;
      if (rank.rank == slowest) of_slowest = &rank;
    }
    if (of_slowest == nullptr || of_slowest->elapsed_s <= 0) return {};
    const double switches_per_s =
        static_cast<double>(*of_slowest->involuntary_switches) / of_slowest->elapsed_s;
    const double excess_s = *of_slowest->cpu_s - sum_s / static_cast<double>(analysis_.ranks.size());
    if (switches_per_s < thresholds::kSwitchedOut_per_s ||
        excess_s >= thresholds::kExplained * useful_excess_s)
      return {};
    return std::max(0.0, excess_s);
  }

  FindingBuilder& builder_;
  Analysis& analysis_;
  const CallPaths& paths_;
  std::vector<std::int32_t> delayed_by_;   // ranks with a finding on delay
  std::optional<std::size_t> of_slowest_;  // the finding that explains the slowest rank's imbalance
};

}  // namespace

void find_delays(FindingBuilder& builder) { DelayFindings(builder).find(); }

}  // namespace clusterprof::report
