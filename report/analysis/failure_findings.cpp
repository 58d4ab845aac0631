// SPDX-License-Identifier: BSD-3-Clause
// Findings on failures: a deadlock, what failed first, then what that took with it.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/choose_failure.hpp"
#include "report/analysis/finding_groups.hpp"

namespace clusterprof::report {
namespace {

using Key = EvidenceKey;
using Kind = FindingKind;

class FailureFindings {
 public:
  explicit FailureFindings(FindingBuilder& builder) : builder_(builder), analysis_(builder.analysis()) {}

  void find() {
    const bool is_deadlock = analysis_.hang && analysis_.hang->is_deadlock;
    const bool comes_first = analysis_.failure && analysis_.failure->kind == FailureKind::kDeadlock;
    if (comes_first) add_deadlock(*analysis_.hang);
    if (!is_deadlock) find_standstill();
    find_ends();
    if (is_deadlock && !comes_first) add_deadlock(*analysis_.hang);
  }

 private:
  void find_ends() {
    const bool was_past_limit = analysis_.failure && analysis_.failure->kind == FailureKind::kTimeLimit;
    if (was_past_limit) add_ended(Kind::kTimeLimit);
    if (was_past_limit || launcher_went_away()) {
      missing_ranks();
      return;
    }
    const RankInfo* const first = first_failure();
    std::vector<const RankInfo*> alike, after, lost, unfinished, silent;
    for (const RankInfo& rank : analysis_.ranks) {
      if (first != nullptr && fails_with(rank, *first))
        alike.push_back(&rank);
      else if (failed(rank))
        after.push_back(&rank);
      else if (is_silent(rank, analysis_))
        silent.push_back(&rank);
      else if (rank.lost)
        (rank.exit_status ? unfinished : lost).push_back(&rank);
    }
    if (first != nullptr) add_first_failure(alike, *first);
    // Where no rank failed by itself, those that vanished may be why the others were ended.
    const auto vanished = [&] {
      if (!unfinished.empty()) add_failure(Kind::kRanksUnfinished, unfinished, *unfinished.front());
      if (!lost.empty()) add_failure(Kind::kRanksLost, lost, *lost.front());
      if (silent.empty()) return;
      const RankInfo& earliest = **std::ranges::min_element(silent, {}, &RankInfo::end_s);
      add_failure(Kind::kRanksSilent, silent, earliest).evidence.set(Key::kElapsed, earliest.end_s);
    };
    if (first == nullptr) vanished();
    if (!after.empty()) {
      Finding& finding = add_failure(Kind::kRanksEndedAfter, after,
                                     first == nullptr ? *first_killed(after) : *after.front());
      add_ends(finding, after);
      if (first != nullptr) finding.evidence.set(Key::kCauseRank, first->rank);
    }
    if (first != nullptr) vanished();
    missing_ranks();
  }

  void add_deadlock(const Hang& hang) {
    Finding& finding = builder_.add(Kind::kDeadlock, Severity::kHigh);
    const HangWait& wait = hang.waiting.front();
    finding.ranks = wait.ranks;
    if (hang.rank >= 0) finding.rank = hang.rank;
    finding.place = hang.place;
    finding.site = wait.place;
    finding.evidence.set(Key::kTime, wait.for_s);
    finding.evidence.set(Key::kWaitingRanks, wait.ranks.size());
    finding.hang = hang;
  }

  // As --hang-after found it.
  void find_standstill() {
    const auto found = std::ranges::find_if(analysis_.run.notes, [](const NoteRecord& note) {
      return note.code == shard::NoteCode::kNoProgress || note.code == shard::NoteCode::kEndedForHang;
    });
    if (found == analysis_.run.notes.end()) return;
    Finding& finding = builder_.add(Kind::kNoProgress, Severity::kHigh);
    finding.evidence.set(Key::kTime, static_cast<double>(found->number));
    const std::optional<Hang>& hang = analysis_.hang;
    if (!hang || hang->waiting.empty()) return;
    finding.ranks = hang->waiting.front().ranks;
    if (hang->rank >= 0) finding.rank = hang->rank;
    finding.place = hang->place;
    finding.site = hang->waiting.front().place;
    finding.hang = hang;
  }

  static bool ended_alike(const RankInfo& x, const RankInfo& y) {
    return x.exit_signal == y.exit_signal && x.exit_status == y.exit_status;
  }

  // The rank that ended first by a failure. Of one whose node is gone nothing but that is known; one that a
  // deadlock waits for was ended afterwards.
  const RankInfo* first_failure() const {
    if (!analysis_.failure || analysis_.failure->kind == FailureKind::kNode ||
        analysis_.failure->kind == FailureKind::kDeadlock || analysis_.failure->kind == FailureKind::kHang)
      return nullptr;
    const auto rank = std::ranges::find(analysis_.ranks, analysis_.failure->rank, &RankInfo::rank);
    return rank == analysis_.ranks.end() ? nullptr : &*rank;
  }

  // After MPI_Abort and the like the launcher ends the others, which may look the same.
  bool fails_with(const RankInfo& rank, const RankInfo& first) const {
    if (&rank == &first) return true;
    const FailureKind kind = analysis_.failure->kind;
    if (kind == FailureKind::kAbort || kind == FailureKind::kOutOfMemory || analysis_.failure->ended_by_mpi)
      return false;
    return failed(rank) && ended_alike(rank, first);
  }

  void add_first_failure(const std::vector<const RankInfo*>& alike, const RankInfo& first) {
    const Failure& failure = *analysis_.failure;
    Finding& finding = add_failure(Kind::kRankFailed, alike, first);
    finding.place = failure.place;
    Evidence& evidence = finding.evidence;
    evidence.set(Key::kFailure, std::string(name_of(failure.kind)));
    if (!failure.exception.empty()) evidence.set(Key::kException, failure.exception);
    if (!failure.message.empty()) evidence.set(Key::kMessage, failure.message);
    if (failure.abort_code) evidence.set(Key::kAbortCode, *failure.abort_code);
    if (failure.address) evidence.set(Key::kAddress, address_text(*failure.address));
    if (failure.stack_overflow) evidence.set(Key::kStackOverflow, 1);
    if (failure.ended_by_mpi) evidence.set(Key::kEndedByMpi, 1);
    finding.mismatch = failure.mismatch;
  }

  // Adds a finding on all ranks that failed or vanished, where the reason is not one of them. `launcher`: the
  // note that it ended, if that is the reason. False: there is no such rank.
  bool add_ended(Kind kind, const NoteRecord* launcher = nullptr) {
    std::vector<const RankInfo*> ended;
    for (const RankInfo& rank : analysis_.ranks)
      if (failed(rank) || rank.lost) ended.push_back(&rank);
    if (ended.empty()) return false;
    const RankInfo& first = **std::ranges::min_element(ended, {}, &RankInfo::end_s);
    Finding& finding = add_failure(kind, ended, first);
    finding.evidence.entries.clear();
    if (launcher != nullptr) finding.evidence.set(Key::kLauncher, launcher->text);
    finding.evidence.set(Key::kElapsed, first.end_s);
    add_ends(finding, ended);
    return true;
  }

  Finding& add_failure(Kind kind, const std::vector<const RankInfo*>& ranks, const RankInfo& first) {
    Finding& finding = builder_.add(kind, Severity::kHigh);
    for (const RankInfo* rank : ranks) finding.ranks.push_back(rank->rank);
    finding.rank = first.rank;
    if (first.exit_signal)
      finding.evidence.set(Key::kSignal, *first.exit_signal);
    else if (first.exit_status.value_or(0) != 0)
      finding.evidence.set(Key::kStatus, *first.exit_status);
    finding.place = first.last_seen;
    return finding;
  }

  // Adds the signals and exit statuses that the ranks ended with.
  static void add_ends(Finding& finding, const std::vector<const RankInfo*>& ranks) {
    std::set<std::int32_t> signals, statuses;
    for (const RankInfo* rank : ranks) {
      if (rank->exit_signal)
        signals.insert(*rank->exit_signal);
      else if (rank->exit_status)
        statuses.insert(*rank->exit_status);
    }
    finding.evidence.set(Key::kSignals, std::vector<std::int32_t>(signals.begin(), signals.end()));
    finding.evidence.set(Key::kStatuses, std::vector<std::int32_t>(statuses.begin(), statuses.end()));
  }

  // MPICH's launcher ends the others by SIGKILL, too. So where all were killed and nothing tells why, the
  // first one is the one to look at; of other ends, the first in the list. Ends that follow at once may be
  // seen in another order: then it is one that did not wait in MPI, as the others did.
  const RankInfo* first_killed(const std::vector<const RankInfo*>& ranks) const {
    constexpr double kAtOnceS = 0.05;
    const bool all_killed =
        std::ranges::all_of(ranks, [](const RankInfo* rank) { return rank->exit_signal == SIGKILL; });
    if (!all_killed) return ranks.front();
    const RankInfo* const first = *std::ranges::min_element(ranks, {}, &RankInfo::end_s);
    const auto waited = [&](const RankInfo& rank) {
      return mpi_call_at_end(analysis_, rank.rank) != nullptr;
    };
    if (!waited(*first)) return first;
    const auto other = std::ranges::find_if(
        ranks, [&](const RankInfo* rank) { return rank->end_s - first->end_s < kAtOnceS && !waited(*rank); });
    return other == ranks.end() ? first : *other;
  }

  // Adds a finding if the launcher ended before the ranks that failed: it is the reason then, unless MPI had
  // told it to. False: it is not.
  bool launcher_went_away() {
    if (analysis_.failure &&
        (analysis_.failure->kind == FailureKind::kAbort || analysis_.failure->ended_by_mpi))
      return false;
    const NoteRecord* const note = launcher_that_ended_first(analysis_);
    return note != nullptr && add_ended(Kind::kLauncherGone, note);
  }

  void missing_ranks() {
    if (const auto& missing = analysis_.run.missing_ranks; !missing.empty()) {
      Finding& finding = builder_.add(Kind::kRanksMissing, Severity::kHigh);
      set_ranks(finding, missing);
      finding.evidence.set(Key::kMissingRanks, analysis_.run.missing);
      finding.evidence.set(Key::kWorldSize, analysis_.run.world_size);
    }
  }

  FindingBuilder& builder_;
  Analysis& analysis_;
};

}  // namespace

void find_failures(FindingBuilder& builder) { FailureFindings(builder).find(); }

}  // namespace clusterprof::report
