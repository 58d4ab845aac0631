// SPDX-License-Identifier: BSD-3-Clause
// Findings on time in MPI: the network, waiting that has no single cause, transfer, and files through MPI.
#include <algorithm>
#include <utility>

#include "report/analysis/finding_groups.hpp"
#include "report/analysis/mpi_calls.hpp"
#include "report/analysis/placement.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using Key = EvidenceKey;
using Kind = FindingKind;

class MpiFindings {
 public:
  explicit MpiFindings(FindingBuilder& builder) : builder_(builder), analysis_(builder.analysis()) {}

  void find() {
    network();
    files();
    calls();
  }

 private:
  // The larger part of the loss by communication, serialization or transfer, if the replay on an ideal
  // network tells them apart.
  void network() {
    const Efficiency& e = analysis_.efficiency;
    if (!e.serialization || !e.transfer || analysis_.ranks.size() < 2) return;
    const double elapsed_s = analysis_.focus_s, ideal_s = *analysis_.wait_quality->ideal_s;
    const double serialization = (ideal_s - *analysis_.max_useful_s) / elapsed_s;
    // Neither waiting for a processor nor files are the network's.
    const double files = builder_.sum_over_ranks(&RankInfo::mpi_io_s) / analysis_.rank_seconds;
    const double transfer =
        std::max(0.0, (elapsed_s - ideal_s) / elapsed_s - files - lost_to_processors(analysis_));
    if (std::max(serialization, transfer) < thresholds::kNetwork) return;
    if (serialization >= transfer) {
      Finding& finding = builder_.add_by_share(Kind::kSerialization, serialization);
      finding.gain_s = ideal_s - *analysis_.max_useful_s;
      finding.evidence.set(Key::kIdeal, ideal_s);
      finding.evidence.set(Key::kMaxUseful, *analysis_.max_useful_s);
      finding.action = FindingAction::kFillWaiting;
      return;
    }
    Finding& finding = builder_.add_by_share(Kind::kTransfer, transfer);
    finding.gain_s = transfer * elapsed_s;
    finding.evidence.set(Key::kIdeal, ideal_s);
    finding.evidence.set(Key::kElapsed, elapsed_s);
    if (const double lost = lost_to_processors(analysis_); lost >= thresholds::kWaitingForProcessor)
      finding.evidence.set(Key::kRunnable, lost * elapsed_s);
    finding.action = FindingAction::kFewerMessages;
    point_to_most_transfer(finding);
    transfer_named_ = true;
  }

  void files() {
    const double time_s = file_time_s();
    if (analysis_.rank_seconds <= 0 || time_s / analysis_.rank_seconds < thresholds::kIo) return;
    Finding& finding = builder_.add_by_share(Kind::kMpiFileIo, time_s / analysis_.rank_seconds);
    finding.evidence.set(Key::kTime, time_s);
    finding.action = FindingAction::kCollectiveIo;
    const MpiCallRow* most = nullptr;
    double largest_s = 0;
    for (const MpiCallRow& row : analysis_.mpi_calls) {
      if (!is_mpi_io(row.op)) continue;
      largest_s += row.spread.max_s;
      const auto of_row = [](const MpiCallRow& call) { return call.transfer_s.value_or(call.time_s); };
      if (most == nullptr || of_row(row) > of_row(*most)) most = &row;
    }
    finding.gain_s = largest_s;
    set_call_site(finding, *most, most->transfer_s.value_or(most->time_s));
    set_ranks(finding, {most->spread.max_rank});
  }

  void calls() {
    const double time_s = of(analysis_.category_s, Category::kMpi) -
                          builder_.sum_over_ranks(&RankInfo::startup_s) -
                          builder_.sum_over_ranks(&RankInfo::mpi_io_s);
    if (analysis_.rank_seconds <= 0 || time_s / analysis_.rank_seconds < thresholds::kMpi) return;
    if (analysis_.mpi_wait_s) return calls_with_waits();
    const double share = time_s / analysis_.rank_seconds;
    double waiting = 0;  // for the slowest rank: another finding's share
    if (analysis_.efficiency.load_balance)
      waiting = (*analysis_.max_useful_s - *analysis_.mean_useful_s) / analysis_.focus_s;
    if (waiting < thresholds::kImbalance) waiting = 0;
    waiting = std::min(waiting, share);
    if (share - waiting < thresholds::kImbalance) return;  // imbalance is all there is to say

    Finding& finding = builder_.add_by_share(Kind::kMpiTime, share - waiting);
    finding.gain_s = (share - waiting) * analysis_.focus_s;
    finding.evidence.set(Key::kMpi, share * analysis_.rank_seconds);
    finding.evidence.set(Key::kMpiShare, share);
    if (waiting > 0) finding.evidence.set(Key::kImbalanceShare, waiting);
    finding.action = FindingAction::kFewerMessages;
    const auto top = std::find_if_not(analysis_.mpi_calls.begin(), analysis_.mpi_calls.end(), is_no_message);
    if (top == analysis_.mpi_calls.end()) return;
    set_call_site(finding, *top, top->time_s);
    set_ranks(finding, {top->spread.max_rank});
  }

  // Where waiting was analysed: waiting that is not explained by delays, and time in MPI that is not waiting.
  void calls_with_waits() {
    const double wait_s = *analysis_.mpi_wait_s;
    double explained = 0;
    for (const RootCauseRow& cause : analysis_.root_functions)
      if (cause.share >= thresholds::kDelay) explained += cause.share;
    const double waiting = wait_s / analysis_.rank_seconds;
    if (waiting >= thresholds::kMpi && explained < thresholds::kExplained * waiting) {
      Finding& finding = builder_.add_by_share(Kind::kMutualWaiting, waiting);
      finding.gain_s = wait_s / static_cast<double>(analysis_.ranks.size());
      finding.evidence.set(Key::kWait, wait_s);
      const MpiCallRow* most = nullptr;
      for (const MpiCallRow& row : analysis_.mpi_calls)
        if (row.wait_s && *row.wait_s > (most == nullptr ? 0 : *most->wait_s)) most = &row;
      if (most != nullptr) set_call_site(finding, *most, *most->wait_s);
    }
    double rest_s = *analysis_.mpi_transfer_s;
    for (const MpiCallRow& row : analysis_.mpi_calls)
      if (is_no_message(row)) rest_s -= row.transfer_s.value_or(row.time_s);
    for (const RankInfo& rank : analysis_.ranks) rest_s -= lacked_time(analysis_, rank).mpi_runnable_s;
    const double rest = rest_s / analysis_.rank_seconds;
    if (rest < thresholds::kMpi || transfer_named_) return;
    Finding& finding = builder_.add_by_share(Kind::kMpiBesidesWaiting, rest);
    finding.gain_s = rest_s / static_cast<double>(analysis_.ranks.size());
    finding.evidence.set(Key::kTime, rest_s);
    finding.action = FindingAction::kFewerMessages;
    point_to_most_transfer(finding);
  }

  // Fewer or larger messages would not make it faster.
  static bool is_no_message(const MpiCallRow& row) { return is_mpi_startup(row.op) || is_mpi_io(row.op); }

  // The call site with the most time that is not waiting, and that time. None, if another one whose waiting
  // is not known may have more.
  std::pair<const MpiCallRow*, double> most_transfer() const {
    std::pair<const MpiCallRow*, double> most{nullptr, 0};
    double not_known_s = 0;
    for (const MpiCallRow& row : analysis_.mpi_calls) {
      if (is_no_message(row)) continue;
      if (!row.transfer_s)
        not_known_s = std::max(not_known_s, row.time_s);
      else if (*row.transfer_s > most.second)
        most = {&row, *row.transfer_s};
    }
    return most.second >= not_known_s ? most : std::pair<const MpiCallRow*, double>{nullptr, 0};
  }

  void point_to_most_transfer(Finding& finding) const {
    const auto [row, time_s] = most_transfer();
    if (row == nullptr) return;
    set_call_site(finding, *row, time_s);
    set_ranks(finding, {row->spread.max_rank});
  }

  // The time of all ranks in MPI calls on files, without waiting for each other where that is known.
  double file_time_s() const {
    double time_s = 0;
    for (const MpiCallRow& row : analysis_.mpi_calls)
      if (is_mpi_io(row.op)) time_s += row.transfer_s.value_or(row.time_s);
    return time_s;
  }

  FindingBuilder& builder_;
  Analysis& analysis_;
  bool transfer_named_ = false;
};

}  // namespace

void find_mpi_costs(FindingBuilder& builder) { MpiFindings(builder).find(); }

}  // namespace clusterprof::report
