// SPDX-License-Identifier: BSD-3-Clause
// Findings on failures: a deadlock, what failed first, then what that took with it.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/analysis/finding_groups.hpp"
#include "report/analysis/hang_search.hpp"

namespace clusterprof::report {
namespace {

using Key = EvidenceKey;
using Kind = FindingKind;

constexpr int kSigKill = 9, kSigTerm = 15;

class FailureFindings {
 public:
  explicit FailureFindings(FindingBuilder& builder) : builder_(builder), analysis_(builder.analysis()) {}

  void find() {
    std::optional<Hang> hang = find_hang(builder_.data(), builder_.paths());
    if (hang && !hang->is_deadlock) hang.reset();
    const bool comes_first = hang && !hang->follows_failure;
    if (comes_first) add_deadlock(*std::move(hang));
    find_ends();
    if (hang && !comes_first) add_deadlock(*std::move(hang));
  }

 private:
  void find_ends() {
    if (launcher_went_away()) {
      missing_ranks();
      return;
    }
    const RankInfo* const first = first_failure();
    std::vector<const RankInfo*> alike, after, lost, unfinished, silent;
    for (const RankInfo& rank : analysis_.ranks) {
      if (failed(rank))
        (first != nullptr && ended_alike(rank, *first) ? alike : after).push_back(&rank);
      else if (rank.still_ran && analysis_.nodes[rank.node].as_of_utc_ns != 0)
        silent.push_back(&rank);
      else if (rank.lost)
        (rank.exit_status ? unfinished : lost).push_back(&rank);
    }
    if (first != nullptr) add_failure(Kind::kRankFailed, alike, *first);
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
      Finding& finding = add_failure(Kind::kRanksEndedAfter, after, *after.front());
      add_ends(finding, after);
      if (first != nullptr) finding.evidence.set(Key::kCauseRank, first->rank);
    }
    if (first != nullptr) vanished();
    missing_ranks();
  }

  void add_deadlock(Hang hang) {
    Finding& finding = builder_.add(Kind::kDeadlock, Severity::kHigh);
    const HangWait& wait = hang.waiting.front();
    finding.ranks = wait.ranks;
    if (hang.rank >= 0) finding.rank = hang.rank;
    finding.place = hang.place;
    finding.site = wait.place;
    finding.evidence.set(Key::kTime, wait.for_s);
    finding.evidence.set(Key::kWaitingRanks, wait.ranks.size());
    finding.hang = std::move(hang);
  }

  static bool failed(const RankInfo& rank) { return rank.exit_signal || rank.exit_status.value_or(0) != 0; }

  // Failed by itself, and was not ended by a launcher.
  static bool failed_by_itself(const RankInfo& rank) {
    if (rank.exit_signal) return *rank.exit_signal != kSigTerm && *rank.exit_signal != kSigKill;
    const int status = rank.exit_status.value_or(0);
    return status != 0 && status != 128 + kSigTerm && status != 128 + kSigKill;
  }

  static bool ended_alike(const RankInfo& x, const RankInfo& y) {
    return x.exit_signal == y.exit_signal && x.exit_status == y.exit_status;
  }

  // The rank that failed before the others; null: it is not known which.
  const RankInfo* first_failure() const {
    const auto before = [](const RankInfo* x, const RankInfo* y) {
      return y == nullptr || x->end_s < y->end_s;
    };
    const RankInfo *first = nullptr, *killed = nullptr, *terminated = nullptr;
    for (const RankInfo& rank : analysis_.ranks) {
      if (failed_by_itself(rank) && before(&rank, first)) first = &rank;
      if (rank.exit_signal == kSigKill && before(&rank, killed)) killed = &rank;
      if (rank.exit_signal == kSigTerm && before(&rank, terminated)) terminated = &rank;
    }
    if (first != nullptr) return first;
    // A rank that was killed before a launcher ended the others by SIGTERM, for example because memory was
    // full.
    return killed != nullptr && terminated != nullptr && killed->end_s < terminated->end_s ? killed : nullptr;
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

  // Adds a finding if the launcher ended before the ranks that failed: it is the reason then. False: it did
  // not.
  bool launcher_went_away() {
    const auto& notes = analysis_.run.notes;
    const auto note = std::find_if(notes.begin(), notes.end(), [](const NoteRecord& row) {
      return row.code == shard::NoteCode::kLauncherGone;
    });
    if (note == notes.end()) return false;
    std::vector<const RankInfo*> victims;
    for (const RankInfo& rank : analysis_.ranks) {
      const bool was_running = std::any_of(
          note->ranks.begin(), note->ranks.end(),
          [&](const shard::RankRange& range) { return range.first <= rank.rank && rank.rank <= range.last; });
      if (!was_running && failed_by_itself(rank)) return false;
      if (failed(rank) || rank.lost) victims.push_back(&rank);
    }
    if (victims.empty()) return false;
    const RankInfo& first = **std::ranges::min_element(victims, {}, &RankInfo::end_s);
    Finding& finding = add_failure(Kind::kLauncherGone, victims, first);
    finding.evidence.entries.clear();
    finding.evidence.set(Key::kLauncher, note->text);
    finding.evidence.set(Key::kElapsed, first.end_s);
    add_ends(finding, victims);
    return true;
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
