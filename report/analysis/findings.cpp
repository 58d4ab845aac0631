// SPDX-License-Identifier: BSD-3-Clause
// Finds the problems of a run from the finished analysis, with severity, possible gain, place and evidence
// as data. Sentences are made in report/words. Thresholds and formulas: docs/metrics.md, "Findings".
#include "report/analysis/findings.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "report/analysis/evidence.hpp"
#include "report/analysis/limits.hpp"
#include "report/analysis/mpi_calls.hpp"
#include "report/analysis/placement.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using Key = EvidenceKey;
using Kind = FindingKind;

double of(const OptionalCategorySeconds& categories, Category category) {
  return categories[static_cast<std::size_t>(category)].value_or(0);
}

constexpr double kMissed = 0.05;        // of a rank's time, between calls that were timed and samples
constexpr double kWholeProgram = 0.98;  // of all time: what holds so much is the program itself
constexpr int kSigKill = 9, kSigTerm = 15;

FindingAction action_for_wait(OffCpu kind) {
  switch (kind) {
    case OffCpu::kSleep:
      return FindingAction::kReplaceSleep;
    case OffCpu::kLock:
      return FindingAction::kHoldLockLess;
    case OffCpu::kPoll:
      return FindingAction::kWorkWhilePolling;
    case OffCpu::kJoin:
      return FindingAction::kWorkWhileThreadsDo;
    case OffCpu::kChild:
      return FindingAction::kStartChildrenEarlier;
    case OffCpu::kGil:
    case OffCpu::kFile:
    case OffCpu::kNetwork:
    case OffCpu::kPipe:
    case OffCpu::kOther:
      break;
  }
  return FindingAction::kFindWhatIsAwaited;
}

struct Blame {
  std::uint32_t path = 0;  // 0: nobody
  double time_s = 0;
};

// Follows the call tree from the root into the child that holds most of `weight` (by path,
// exclusive, seconds; may be negative) as long as it holds kBlame of `total`; the last place on
// the way with a source line of the program is to blame. A place of which `is_all` says that all of the
// program's time is below it explains nothing, unless the time is its own.
Blame blame(const CallPaths& paths, std::vector<double> weight, double total,
            const std::vector<bool>& is_all) {
  if (total <= 0) return {};
  const std::vector<double> own = weight;
  for (std::uint32_t path = static_cast<std::uint32_t>(paths.size()); path-- > 1;)
    weight[paths.parent(path)] += weight[path];
  const double enough = total * thresholds::kBlame;
  std::vector<std::uint32_t> heaviest(paths.size(), 0);  // child, if any is heavy
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    std::uint32_t& child = heaviest[paths.parent(path)];
    if (weight[path] > 0 && weight[path] >= enough && (child == 0 || weight[path] > weight[child]))
      child = path;
  }

  Blame result;
  for (std::uint32_t at = paths.size() == 0 ? 0 : heaviest[0]; at != 0; at = heaviest[at])
    if (paths.source(at) == at) result = {at, weight[at]};
  if (result.path == 0 || result.path >= is_all.size() || !is_all[result.path]) return result;
  // Of what it calls without source lines it is the line, too.
  double own_s = 0;
  for (std::uint32_t path = 1; path < paths.size(); ++path)
    if (paths.source(path) == result.path) own_s += own[path];
  return own_s >= enough ? result : Blame{};
}

class Finder {
 public:
  Finder(const PathTime& time, const CallPaths& paths, Analysis& analysis)
      : time_(time), paths_(paths), analysis_(analysis), is_all_(whole_program()) {}

  void run() {
    failures();
    delays();
    passed_on();
    imbalance();
    network();
    mpi();
    waits_for_the_gil();
    python();
    memory();
    pages();
    io();
    waits_for_data();
    small_io();
    idle();
    kernel();
    for (Finding& finding : placement_findings(analysis_)) analysis_.findings.push_back(std::move(finding));
    join_with_delays();
    explain_by_processors();
    measurement();

    auto& findings = analysis_.findings;
    for (Finding& finding : findings) {
      if (finding.gain_s) {
        finding.gain_s = std::min(*finding.gain_s, analysis_.run.elapsed_s);
        if (*finding.gain_s < thresholds::kGain * analysis_.run.elapsed_s) finding.gain_s.reset();
      }
      if (finding.is_estimate && finding.severity == Severity::kHigh) finding.severity = Severity::kMedium;
    }
    // Failures in the order in which they were found, then what can be gained.
    const auto order = [](const Finding& finding) {
      const bool fails = is_failure(finding.kind);
      return std::tuple(!fails, fails ? Severity::kHigh : finding.severity,
                        fails ? 0 : !is_of_processors(finding.kind), fails ? 0 : -finding.gain_s.value_or(0),
                        fails ? 0 : -finding.share.value_or(0));
    };
    std::stable_sort(findings.begin(), findings.end(),
                     [&](const Finding& a, const Finding& b) { return order(a) < order(b); });
    if (findings.size() > thresholds::kMaxFindings) findings.resize(thresholds::kMaxFindings);
  }

 private:
  Finding& add(Kind kind, Severity severity, std::optional<double> share = {}) {
    Finding& finding = analysis_.findings.emplace_back();
    finding.kind = kind;
    finding.severity = severity;
    finding.share = share;
    return finding;
  }

  Finding& add_by_share(Kind kind, double share) { return add(kind, severity_of(share), share); }

  static bool is_failure(Kind kind) { return kind <= Kind::kRanksMissing; }
  // Ranks cannot run when they could: whatever else they lose may be that.
  static bool is_of_processors(Kind kind) {
    return kind == Kind::kWaitingForProcessor || kind == Kind::kSharedProcessors ||
           kind == Kind::kTooManyThreads || kind == Kind::kBusyNode;
  }

  // By path, whether nearly all of the main threads' time is below it.
  std::vector<bool> whole_program() const {
    std::vector<double> time(paths_.size(), 0.0);
    for (std::uint32_t path = static_cast<std::uint32_t>(paths_.size()); path-- > 1;) {
      for (std::size_t c = 0; c < shard::kCategories; ++c)
        time[path] += static_cast<double>(time_.main_ns(cell_of(path, static_cast<Category>(c))));
      time[paths_.parent(path)] += time[path];
    }
    std::vector<bool> is_all(paths_.size());
    for (std::uint32_t path = 1; path < paths_.size(); ++path)
      is_all[path] = time[0] > 0 && time[path] >= kWholeProgram * time[0];
    return is_all;
  }

  static void about(Finding& finding, std::vector<std::int32_t> ranks) {
    finding.rank = ranks.front();
    finding.ranks = std::move(ranks);
  }

  // Seconds by path. `ns_of`: of a path and category.
  template <typename NsOf>
  std::vector<double> weigh(const NsOf& ns_of) const {
    std::vector<double> weight(paths_.size(), 0.0);
    for (std::uint32_t path = 0; path < paths_.size(); ++path)
      for (std::size_t c = 0; c < shard::kCategories; ++c) {
        const auto category = static_cast<Category>(c);
        const double ns = ns_of(path, category);
        if (ns != 0) weight[paths_.counted(path, category)] += ns / 1e9;
      }
    return weight;
  }
  double main_ns(std::uint32_t path, Category category) const {
    return static_cast<double>(time_.main_ns(cell_of(path, category)));
  }

  // --- failures: what failed first, then what that took with it -------------------------------------

  static bool failed(const RankInfo& rank) { return rank.exit_signal || rank.exit_status.value_or(0) != 0; }
  // By itself, not because a launcher ended it.
  static bool failed_by_itself(const RankInfo& rank) {
    if (rank.exit_signal) return *rank.exit_signal != kSigTerm && *rank.exit_signal != kSigKill;
    const int status = rank.exit_status.value_or(0);
    return status != 0 && status != 128 + kSigTerm && status != 128 + kSigKill;
  }
  static bool ended_alike(const RankInfo& x, const RankInfo& y) {
    return x.exit_signal == y.exit_signal && x.exit_status == y.exit_status;
  }

  // The rank that failed before the others; null: none is known to have.
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
    // One that was killed before launchers ended others, which they do by SIGTERM: out of memory, say.
    return killed != nullptr && terminated != nullptr && killed->end_s < terminated->end_s ? killed : nullptr;
  }

  Finding& add_failure(Kind kind, const std::vector<const RankInfo*>& ranks, const RankInfo& first) {
    Finding& finding = add(kind, Severity::kHigh);
    for (const RankInfo* rank : ranks) finding.ranks.push_back(rank->rank);
    finding.rank = first.rank;
    if (first.exit_signal)
      finding.evidence.set(Key::kSignal, *first.exit_signal);
    else if (first.exit_status.value_or(0) != 0)
      finding.evidence.set(Key::kStatus, *first.exit_status);
    finding.place = first.last_seen;
    return finding;
  }

  // What they ended with.
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

  // The launcher ended before the ranks that failed did, and so is the reason. False: it did not.
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

  void failures() {
    if (launcher_went_away()) {
      missing_ranks();
      return;
    }
    const RankInfo* const first = first_failure();
    std::vector<const RankInfo*> alike, after, lost, unfinished;
    for (const RankInfo& rank : analysis_.ranks) {
      if (failed(rank))
        (first != nullptr && ended_alike(rank, *first) ? alike : after).push_back(&rank);
      else if (rank.lost)
        (rank.exit_status ? unfinished : lost).push_back(&rank);
    }
    if (first != nullptr) add_failure(Kind::kRankFailed, alike, *first);
    // Where no rank failed by itself, those that vanished may be why the others were ended.
    const auto vanished = [&] {
      if (!unfinished.empty()) add_failure(Kind::kRanksUnfinished, unfinished, *unfinished.front());
      if (!lost.empty()) add_failure(Kind::kRanksLost, lost, *lost.front());
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
  void missing_ranks() {
    if (const auto& missing = analysis_.run.missing_ranks; !missing.empty()) {
      Finding& finding = add(Kind::kRanksMissing, Severity::kHigh);
      about(finding, missing);
      finding.evidence.set(Key::kMissingRanks, analysis_.run.missing);
      finding.evidence.set(Key::kWorldSize, analysis_.run.world_size);
    }
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

  // Who is to blame for waiting, however far it was passed on. Ranks that were in one function are one
  // matter.
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
    Finding& finding = add_by_share(Kind::kDelay, cause.share);
    about(finding, {cause.rank});
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
      delay_places_.push_back({analysis_.findings.size() - 1, finding.place.function, finding.place.file});
  }

  // Of one more rank in the function of the finding.
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
    // Where others waited is known of the first alone.
    evidence.erase(Key::kSiteWait);
    finding.site.reset();
  }

  // The mean rank's waiting of those that waited.
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
      Finding& finding = add(Kind::kDelayPassedOn, Severity::kLow, delay.wait_s / analysis_.rank_seconds);
      about(finding, {*delay.rank});
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
    Finding& finding = add_by_share(Kind::kLoadImbalance, share);
    about(finding, {*analysis_.slowest_rank});
    finding.action = FindingAction::kBalanceWork;
    finding.gain_s = excess;
    add_useful(finding.evidence);
    if (const auto excess_s = cpu_excess(*analysis_.slowest_rank, excess)) {
      finding.evidence.set(Key::kCpuExcess, *excess_s);
      finding.action = FindingAction::kGiveProcessors;
    }

    std::size_t mpi_ranks = 0;
    for (const RankInfo& rank : analysis_.ranks) mpi_ranks += rank.useful_s.has_value();
    const Blame culprit =
        blame(paths_, weigh([&](std::uint32_t path, Category category) {
                if (category == Category::kMpi) return 0.0;
                const std::size_t cell = cell_of(path, category);
                return static_cast<double>(time_.separate_rank_ns(cell)) -
                       static_cast<double>(time_.mpi_ranks_ns(cell)) / static_cast<double>(mpi_ranks);
              }),
              excess, {});
    if (culprit.path == 0) return;
    finding.evidence.set(Key::kPlaceTime, culprit.time_s);
    finding.place = place_of(paths_, culprit.path);
  }

  // Fewer or larger messages would change nothing of it.
  static bool is_no_message(const MpiCallRow& row) { return is_mpi_startup(row.op) || is_mpi_io(row.op); }

  // What the slowest rank has of CPU time beyond the mean rank, where that is so little of what it takes
  // longer, and it is switched out so often, that it rather waits for a processor than works more.
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

  // The call site with the most time that is not waiting, and that time; none where one of which it is not
  // known may have more.
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

  static void point_to(Finding& finding, const MpiCallRow& row, double time_s) {
    finding.place.op = row.op;
    finding.place.function = row.function;
    finding.place.file = row.file;
    finding.place.line = row.line;
    finding.evidence.set(Key::kPlaceTime, time_s);
  }

  void point_to_most_transfer(Finding& finding) const {
    const auto [row, time_s] = most_transfer();
    if (row == nullptr) return;
    point_to(finding, *row, time_s);
    about(finding, {row->spread.max_rank});
  }

  double of_ranks(Seconds RankInfo::*part) const {
    double sum_s = 0;
    for (const RankInfo& rank : analysis_.ranks) sum_s += (rank.*part).value_or(0);
    return sum_s;
  }

  // What of the communication loss the replay on an ideal network tells apart, if one part dominates.
  void network() {
    const Efficiency& e = analysis_.efficiency;
    if (!e.serialization || !e.transfer) return;
    const double elapsed_s = analysis_.focus_s, ideal_s = *analysis_.wait_quality->ideal_s;
    const double serialization = (ideal_s - *analysis_.max_useful_s) / elapsed_s;
    // Neither waiting for a processor nor files are the network's.
    const double files = of_ranks(&RankInfo::mpi_io_s) / analysis_.rank_seconds;
    const double transfer =
        std::max(0.0, (elapsed_s - ideal_s) / elapsed_s - files - lacked_share(analysis_));
    if (std::max(serialization, transfer) < thresholds::kNetwork) return;
    if (serialization >= transfer) {
      Finding& finding = add_by_share(Kind::kSerialization, serialization);
      finding.gain_s = ideal_s - *analysis_.max_useful_s;
      finding.evidence.set(Key::kIdeal, ideal_s);
      finding.evidence.set(Key::kMaxUseful, *analysis_.max_useful_s);
      finding.action = FindingAction::kFillWaiting;
      return;
    }
    Finding& finding = add_by_share(Kind::kTransfer, transfer);
    finding.gain_s = transfer * elapsed_s;
    finding.evidence.set(Key::kIdeal, ideal_s);
    finding.evidence.set(Key::kElapsed, elapsed_s);
    finding.action = FindingAction::kFewerMessages;
    point_to_most_transfer(finding);
    transfer_named_ = true;
  }

  // Waiting that no rank in no function causes most of, and what is not waiting.
  void mpi_with_waits() {
    const double wait_s = *analysis_.mpi_wait_s;
    double explained = 0;
    for (const RootCauseRow& cause : analysis_.root_functions)
      if (cause.share >= thresholds::kDelay) explained += cause.share;
    const double waiting = wait_s / analysis_.rank_seconds;
    if (waiting >= thresholds::kMpi && explained < thresholds::kExplained * waiting) {
      Finding& finding = add_by_share(Kind::kMutualWaiting, waiting);
      finding.gain_s = wait_s / static_cast<double>(analysis_.ranks.size());
      finding.evidence.set(Key::kWait, wait_s);
      const MpiCallRow* most = nullptr;
      for (const MpiCallRow& row : analysis_.mpi_calls)
        if (row.wait_s && *row.wait_s > (most == nullptr ? 0 : *most->wait_s)) most = &row;
      if (most != nullptr) point_to(finding, *most, *most->wait_s);
    }
    double rest_s = *analysis_.mpi_transfer_s;
    for (const MpiCallRow& row : analysis_.mpi_calls)
      if (is_no_message(row)) rest_s -= row.transfer_s.value_or(row.time_s);
    for (const RankInfo& rank : analysis_.ranks) rest_s -= lacked_time(analysis_, rank).mpi_runnable_s;
    const double rest = rest_s / analysis_.rank_seconds;
    if (rest < thresholds::kMpi || transfer_named_) return;
    Finding& finding = add_by_share(Kind::kMpiBesidesWaiting, rest);
    finding.gain_s = rest_s / static_cast<double>(analysis_.ranks.size());
    finding.evidence.set(Key::kTime, rest_s);
    finding.action = FindingAction::kFewerMessages;
    point_to_most_transfer(finding);
  }

  // In calls on files, of all ranks, without waiting for each other where that is known.
  double file_time_s() const {
    double time_s = 0;
    for (const MpiCallRow& row : analysis_.mpi_calls)
      if (is_mpi_io(row.op)) time_s += row.transfer_s.value_or(row.time_s);
    return time_s;
  }

  void mpi_files() {
    const double time_s = file_time_s();
    if (analysis_.rank_seconds <= 0 || time_s / analysis_.rank_seconds < thresholds::kIo) return;
    Finding& finding = add_by_share(Kind::kMpiFileIo, time_s / analysis_.rank_seconds);
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
    point_to(finding, *most, most->transfer_s.value_or(most->time_s));
    about(finding, {most->spread.max_rank});
  }

  void mpi() {
    mpi_files();
    const double time_s = of(analysis_.category_s, Category::kMpi) - of_ranks(&RankInfo::startup_s) -
                          of_ranks(&RankInfo::mpi_io_s);
    if (analysis_.rank_seconds <= 0 || time_s / analysis_.rank_seconds < thresholds::kMpi) return;
    if (analysis_.mpi_wait_s) return mpi_with_waits();
    const double share = time_s / analysis_.rank_seconds;
    double waiting = 0;  // for the slowest rank: another finding's share
    if (analysis_.efficiency.load_balance)
      waiting = (*analysis_.max_useful_s - *analysis_.mean_useful_s) / analysis_.focus_s;
    if (waiting < thresholds::kImbalance) waiting = 0;
    waiting = std::min(waiting, share);
    if (share - waiting < thresholds::kImbalance) return;  // imbalance is all there is to say

    Finding& finding = add_by_share(Kind::kMpiTime, share - waiting);
    finding.gain_s = (share - waiting) * analysis_.focus_s;
    finding.evidence.set(Key::kMpi, share * analysis_.rank_seconds);
    finding.evidence.set(Key::kMpiShare, share);
    if (waiting > 0) finding.evidence.set(Key::kImbalanceShare, waiting);
    finding.action = FindingAction::kFewerMessages;
    const auto top = std::find_if_not(analysis_.mpi_calls.begin(), analysis_.mpi_calls.end(), is_no_message);
    if (top == analysis_.mpi_calls.end()) return;
    point_to(finding, *top, top->time_s);
    about(finding, {top->spread.max_rank});
  }

  static double total(const std::vector<double>& weight) {
    return std::accumulate(weight.begin(), weight.end(), 0.0);
  }

  // The path of the line that holds most; 0: none does.
  std::uint32_t blame_most(Finding& finding, const std::vector<double>& weight) const {
    const double all = total(weight);
    finding.evidence.set(Key::kTime, all);
    const Blame culprit = blame(paths_, weight, all, is_all_);
    if (culprit.path == 0) return 0;
    finding.evidence.set(Key::kPlaceShare, culprit.time_s / all);
    finding.place = place_of(paths_, culprit.path);
    return culprit.path;
  }

  // A rank that made others wait by being blocked is one matter, not two.
  void join_with_delays() {
    auto& findings = analysis_.findings;
    for (auto blocked = blocked_places_.rbegin(); blocked != blocked_places_.rend(); ++blocked) {
      const auto delay = std::find_if(delay_places_.begin(), delay_places_.end(), [&](const Named& named) {
        return named.function == blocked->function && named.file == blocked->file;
      });
      if (delay == delay_places_.end()) continue;
      if (findings[blocked->finding].severity < findings[delay->finding].severity) continue;
      Finding joined = std::move(findings[blocked->finding]);
      findings[delay->finding].action = joined.action;
      findings[delay->finding].joined.push_back({joined.kind, joined.share, joined.rank,
                                                 std::move(joined.place), std::move(joined.evidence),
                                                 joined.action});
      findings.erase(findings.begin() + static_cast<std::ptrdiff_t>(blocked->finding));
    }
  }

  using Chosen = std::function<bool(std::uint32_t path)>;  // of those with the category in question
  Chosen any() const {
    return [](std::uint32_t) { return true; };
  }
  Chosen doing(Category category, Activity activity) const {
    return [this, category, activity](std::uint32_t path) {
      return activity_of(paths_, path, category) == activity;
    };
  }

  // The category of the main threads, of it what is chosen. Null: too little.
  Finding* of_rank_time(Kind kind, Category which, const Chosen& chosen, double threshold,
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
    const double all = total(whole);
    const double share = all > 0 ? category_s * total(part) / all / analysis_.rank_seconds : 0;
    if (share < threshold) return nullptr;
    Finding& finding = add_by_share(kind, share);
    finding.action = action;
    finding.gain_s = total(part) / all * longest_s(which);
    const std::uint32_t path = blame_most(finding, part);
    finding.evidence.set(Key::kTime, share * analysis_.rank_seconds);
    if (path == 0 || which == Category::kPython) return &finding;
    const shard::Frame& frame = *paths_.frame(path);
    blocked_places_.push_back(
        {analysis_.findings.size() - 1, paths_.text(frame.name), paths_.text(frame.file)});
    return &finding;
  }

  // Of the rank that has most of the category: the run cannot save more by doing without it.
  double longest_s(Category which) const {
    double longest = 0;
    for (const RankInfo& rank : analysis_.ranks) longest = std::max(longest, of(rank.category_s, which));
    return longest;
  }

  void python() {
    // What was asked for, so never worse than time that is lost.
    if (Finding* const finding = of_rank_time(Kind::kPythonBytecode, Category::kPython,
                                              doing(Category::kPython, Activity::kInterpreter),
                                              thresholds::kPython, FindingAction::kCompileLoop))
      finding->severity = *finding->share >= thresholds::kMostlyPython ? Severity::kMedium : Severity::kLow;
    of_rank_time(Kind::kPythonGarbage, Category::kPython,
                 doing(Category::kPython, Activity::kGarbageCollection), thresholds::kGarbage,
                 FindingAction::kFewerObjects);
  }

  double of_all(double time_s) const {
    return analysis_.rank_seconds > 0 ? time_s / analysis_.rank_seconds : 0;
  }

  // Computing on data that no cache holds.
  void memory() {
    if (analysis_.memory_functions.empty()) return;
    double time_s = 0;
    for (const MemoryRow& row : analysis_.memory_functions) time_s += row.time_s;
    const double share = of_all(time_s);
    if (share < thresholds::kMemory) return;
    const MemoryRow& most = analysis_.memory_functions.front();
    Finding& finding = add_by_share(Kind::kMemoryBound, share);
    finding.evidence.set(Key::kTime, time_s);
    if (analysis_.memory_functions.size() > 1) finding.evidence.set(Key::kPlaceShare, of_all(most.time_s));
    add_memory_evidence(most, finding.evidence);
    finding.action = FindingAction::kBlockForCache;
    finding.is_estimate = std::any_of(analysis_.memory_functions.begin(), analysis_.memory_functions.end(),
                                      [](const MemoryRow& row) { return !row.by_counters; });
    double longest_s = 0;
    for (const MemoryRow& row : analysis_.memory_functions) longest_s += row.rank_time_s;
    finding.gain_s = longest_s;
    about(finding, {most.rank});
    if (most.path != 0) finding.place = place_of(paths_, most.path);
  }

  bool is_of_pages(std::uint32_t path) const {
    return activity_of(paths_, path, Category::kSystem) == Activity::kPageFault ||
           maps_memory(system_call_of(paths_, path));
  }

  // Page faults, and calls that map and unmap memory.
  void pages() {
    Finding* const finding = of_rank_time(
        Kind::kMemoryPages, Category::kSystem, [this](std::uint32_t path) { return is_of_pages(path); },
        thresholds::kPageFaults, FindingAction::kReuseMemory);
    if (finding == nullptr) return;
    const auto part = [&](Key key, double time_s) {
      if (of_all(time_s) >= thresholds::kPageFaults / 10) finding->evidence.set(key, of_all(time_s));
    };
    part(Key::kPageFaultShare, analysis_.limits.page_fault_s);
    part(Key::kMappingShare, analysis_.limits.mapping_s);
    std::uint64_t faults = 0;
    bool known = !analysis_.ranks.empty();
    for (const RankInfo& rank : analysis_.ranks) {
      faults += rank.minor_faults.value_or(0) + rank.major_faults.value_or(0);
      known = known && rank.minor_faults;
    }
    if (known) finding->evidence.set(Key::kFaultsPerSecond, of_all(static_cast<double>(faults)));
  }

  void kernel() {
    const bool apart = analysis_.activity_s[index(Activity::kPageFault)].has_value();
    Finding* const finding = of_rank_time(
        Kind::kSystemCalls, Category::kSystem, [this](std::uint32_t path) { return !is_of_pages(path); },
        thresholds::kSystem, FindingAction::kFewerSystemCalls);
    if (finding != nullptr && !apart)
      finding->action = FindingAction::kNone;  // page faults may be most of it
  }

  // The rank that has most of it; end() where nothing is recorded of it.
  std::vector<RankInfo>::const_iterator rank_of(const IoCallRow& row) const {
    const std::vector<RankInfo>& ranks = analysis_.ranks;
    const auto rank =
        std::lower_bound(ranks.begin(), ranks.end(), row.max_rank,
                         [](const RankInfo& r, std::int32_t number) { return r.rank < number; });
    return rank == ranks.end() || rank->rank != row.max_rank || rank->recorded_s <= 0 ? ranks.end() : rank;
  }

  // Of its own time, what the rank that has most of it spends in one kind of calls.
  double rank_share(const IoCallRow& row) const {
    const auto rank = rank_of(row);
    if (rank == analysis_.ranks.end()) return 0;
    return row.rank_time_s / rank->recorded_s;
  }

  static FindingAction action_for(const IoCallRow& row) {
    switch (row.operation) {
      case shard::IoOperation::kSync:
        return FindingAction::kFewerSyncs;
      case shard::IoOperation::kOpen:
      case shard::IoOperation::kClose:
      case shard::IoOperation::kMetadata:
        return FindingAction::kFewerFiles;
      default:
        return FindingAction::kFewerIo;
    }
  }

  static void point_to(Finding& finding, const IoCallRow& row) {
    finding.place.function = row.function;
    finding.place.file = row.file;
    finding.place.line = row.line;
    finding.place.kind = row.kind;
  }

  // What the rank with most of it spends in the calls.
  void add_who_calls(const IoCallRow& row, double share, Finding& finding) const {
    about(finding, {row.max_rank});
    finding.evidence.set(Key::kRankShare, share);
    add_io_evidence(analysis_, row, row.rank_count, finding.evidence);
    finding.evidence.set(Key::kCallTime, row.rank_time_s);
    const auto rank = rank_of(row);
    if (rank == analysis_.ranks.end() || rank->threads != 1) return;
    // The calls are timed exactly, unlike the time by category.
    const double sampled = of(rank->category_s, Category::kIo) / rank->recorded_s;
    if (share - sampled >= kMissed) finding.evidence.set(Key::kSampledShare, sampled);
  }

  // What another process or thread has not sent yet: larger pieces would not come sooner.
  [[nodiscard]] bool is_wait_for_data(std::uint32_t path) const {
    switch (off_cpu_of(paths_, path)) {
      case OffCpu::kPipe:
      case OffCpu::kNetwork:
      case OffCpu::kChild:
      case OffCpu::kJoin:
        return true;
      default:
        return false;
    }
  }

  // Not the kernel's own files, nor what an MPI function does with files: that is another finding's.
  static bool is_programs(const IoCallRow& row) { return !row.in_background && row.mpi.empty(); }

  void waits_for_data() {
    of_rank_time(
        Kind::kWaitsForData, Category::kIo, [this](std::uint32_t path) { return is_wait_for_data(path); },
        thresholds::kIo, FindingAction::kFindWhatIsAwaited);
  }

  void io() {
    const IoCallRow* most = nullptr;
    if (analysis_.io)
      for (const IoCallRow& row : analysis_.io->calls)  // largest first
        if (is_programs(row)) {
          most = &row;
          break;
        }
    if (Finding* const finding = of_rank_time(
            Kind::kFileIo, Category::kIo, [this](std::uint32_t path) { return !is_wait_for_data(path); },
            thresholds::kIo, FindingAction::kFewerIo)) {
      if (most == nullptr || most->time_s < thresholds::kBlame * of(analysis_.category_s, Category::kIo))
        return;
      add_who_calls(*most, rank_share(*most), *finding);
      finding->action = action_for(*most);
      if (finding->place.file.empty() && !most->file.empty()) point_to(*finding, *most);
      return;
    }
    // Too little of all ranks' time, but a rank's.
    if (most == nullptr) return;
    for (const IoCallRow& row : analysis_.io->calls)
      if (is_programs(row) && row.rank_time_s > most->rank_time_s) most = &row;
    const double share = rank_share(*most);
    if (share < thresholds::kIo) return;
    Finding& finding = add_by_share(Kind::kRankIo, of_all(most->time_s));
    finding.gain_s = most->rank_time_s;
    finding.evidence.set(Key::kTime, most->time_s);
    add_who_calls(*most, share, finding);
    finding.action = action_for(*most);
    point_to(finding, *most);
  }

  // Many reads or writes of little.
  void small_io() {
    if (!analysis_.io) return;
    for (const IoCallRow& row : analysis_.io->calls) {  // largest first
      if (!is_programs(row)) continue;
      const double share = of_all(row.time_s);
      if (share < thresholds::kSmallIo) return;
      const bool read = row.operation == shard::IoOperation::kRead;
      if ((!read && row.operation != shard::IoOperation::kWrite) || row.count < thresholds::kManyCalls)
        continue;
      const double size = static_cast<double>(row.bytes) / static_cast<double>(row.count);
      if (size >= thresholds::kSmallIoBytes) continue;
      Finding& finding = add_by_share(Kind::kSmallIo, share);
      finding.gain_s = row.rank_time_s;
      finding.evidence.set(Key::kTime, row.time_s);
      add_io_evidence(analysis_, row, row.count, finding.evidence);
      finding.evidence.set(Key::kMeanBytes, size);
      finding.action = FindingAction::kBufferIo;
      about(finding, {row.max_rank});
      point_to(finding, row);
      return;
    }
  }

  void idle() {
    Finding* const finding = of_rank_time(
        Kind::kBlocked, Category::kIdle,
        [this](std::uint32_t path) {
          return activity_of(paths_, path, Category::kIdle) != Activity::kGilWait;
        },
        thresholds::kIdle, FindingAction::kFindWhatIsAwaited);
    if (finding == nullptr) return;
    // For the GIL they wait in another finding; its time is told apart here.
    Limits others = analysis_.limits;
    double& gil_s = others.idle_s[static_cast<std::size_t>(OffCpu::kGil)];
    const double apart_s = std::max(gil_s, analysis_.activity_s[index(Activity::kGilWait)].value_or(0));
    gil_s = 0;
    add_idle_kinds(others, finding->evidence);
    if (apart_s > 0) finding->evidence.set(Key::kGil, apart_s);
    const auto most = std::max_element(others.idle_s.begin(), others.idle_s.end()) - others.idle_s.begin();
    finding->action = action_for_wait(static_cast<OffCpu>(most));
    if (finding->action == FindingAction::kHoldLockLess && !is_for_held_locks())
      finding->action = FindingAction::kFindWhatIsAwaited;
  }

  // Whether most of the waiting of kind lock is for one that somebody holds. A condition or the result of
  // another thread is waited for in the same way, but nobody could give it sooner by holding anything for
  // less.
  bool is_for_held_locks() const {
    double held_ns = 0, all_ns = 0;
    for (std::uint32_t path = 1; path < paths_.size(); ++path) {
      const double ns = main_ns(path, Category::kIdle);
      if (ns == 0 || off_cpu_of(paths_, path) != OffCpu::kLock) continue;
      all_ns += ns;
      if (waits_for_holder(path)) held_ns += ns;
    }
    return held_ns >= thresholds::kExplained * all_ns;
  }

  bool waits_for_holder(std::uint32_t path) const {
    constexpr int kFrames = 8;  // from the system call up to what locks
    bool python_lock = false;
    for (int i = 0; i < kFrames && path != 0; ++i, path = paths_.parent(path)) {
      const shard::Frame* const frame = paths_.frame(path);
      if (frame == nullptr) return false;
      const std::string_view name = paths_.text(frame->name);
      const auto says = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
      if (frame->kind == shard::FrameKind::kPython) {
        // Conditions, queues and pools wait for locks of their own that nobody holds.
        const std::string_view file = paths_.text(frame->file);
        const auto is_in = [&](std::string_view module) { return file.ends_with(module); };
        return python_lock && !is_in("threading.py") && !is_in("queue.py") && !is_in("_base.py") &&
               !is_in("thread.py") && !is_in("locks.py");
      }
      if (says("mutex_lock") || says("mutex_timedlock") || says("mutex_clocklock") || says("lll_lock_wait") ||
          says("rwlock") || says("set_lock") || says("spin_lock") || name == "flock")
        return true;
      python_lock = python_lock || says("PyThread_acquire_lock");
    }
    return false;
  }

  void waits_for_the_gil() {
    const double threads_s = analysis_.sampled_s - analysis_.helper_idle_s;
    const Seconds& gil = analysis_.active_activity_s[index(Activity::kGilWait)];
    if (!gil || threads_s <= 0 || *gil / threads_s < thresholds::kGil) return;
    const double share = *gil / threads_s;
    Finding& finding = add_by_share(Kind::kGilWait, share);
    finding.gain_s = share * analysis_.recorded_s;
    blame_most(finding, weigh([&](std::uint32_t path, Category category) {
                 if (activity_of(paths_, path, category) != Activity::kGilWait) return 0.0;
                 return main_ns(path, category) +
                        static_cast<double>(time_.helper_ns(cell_of(path, category)));
               }));
    finding.evidence.set(Key::kTime, *gil);
    finding.action = FindingAction::kUseProcesses;
  }

  // Where ranks share processors, or some ranks are not there, communication and imbalance are of that, too.
  void explain_by_processors() {
    auto& findings = analysis_.findings;
    std::optional<Severity> cause;
    bool missing = false;
    for (const Finding& finding : findings) {
      if (is_of_processors(finding.kind))
        cause = std::min(cause.value_or(finding.severity), finding.severity);
      missing = missing || finding.kind == Kind::kRanksMissing;
    }
    if (!cause && !missing) return;
    // Where that time is known, it has been taken out of these.
    const bool known = lacked_share(analysis_) > 0;
    for (Finding& finding : findings) {
      const bool without =
          known && (finding.kind == Kind::kLoadImbalance || finding.kind == Kind::kTransfer ||
                    finding.kind == Kind::kMpiBesidesWaiting);
      if (without && !missing) continue;
      switch (finding.kind) {
        case Kind::kLoadImbalance:
        case Kind::kSerialization:
        case Kind::kTransfer:
        case Kind::kMutualWaiting:
        case Kind::kMpiBesidesWaiting:
        case Kind::kMpiTime:
          break;
        default:
          continue;
      }
      finding.action = FindingAction::kNone;
      if (cause && !without) {
        finding.severity = std::max(finding.severity, *cause);
        finding.evidence.set(Key::kWaitsForProcessor, 1);
      }
      if (missing) finding.evidence.set(Key::kRanksMissing, analysis_.run.missing);
    }
  }

  // --- about the measurement -----------------------------------------------------------------------

  static double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

  // What was lost is told against what there was of the same. `counted`: what lacks a part is among `kept`.
  void lost(Kind kind, std::initializer_list<std::string_view> reasons, double kept, bool counted = false) {
    double lost = 0;
    for (const std::string_view reason : reasons)
      if (const auto found = analysis_.run.dropped.find(std::string(reason));
          found != analysis_.run.dropped.end())
        lost += static_cast<double>(found->second);
    if (counted) {
      lost = std::min(lost, kept);
      kept -= lost;
    }
    const double share = share_of(lost, kept + lost);
    if (share < thresholds::kDropped || lost < thresholds::kFewestLost) return;
    Finding& finding = add(kind, Severity::kInfo, share);
    finding.evidence.set(Key::kLost, lost);
    finding.evidence.set(Key::kOf, kept + lost);
    if (kind == Kind::kThrottled) finding.action = FindingAction::kLowerRate;
  }

  void measurement() {
    const auto samples = static_cast<double>(analysis_.run.samples);
    double threads = 0, messages = 0, io_calls = 0, mpi_calls = 0, regions = 0;
    for (const RankInfo& rank : analysis_.ranks) threads += rank.threads;
    for (const MpiCallRow& call : analysis_.mpi_calls) mpi_calls += static_cast<double>(call.count);
    for (const shard::MatrixCell& cell : analysis_.matrix) messages += static_cast<double>(cell.messages);
    for (const RegionRow& region : analysis_.regions) regions += static_cast<double>(region.count);
    if (analysis_.io)
      for (const IoCallRow& call : analysis_.io->calls) io_calls += static_cast<double>(call.count);
    lost(Kind::kSamplesLost, {"ring_full", "reentrant", "fault_in_walk"}, samples);
    lost(Kind::kThreadsNotSampled, {"no_thread_slot", "timer_failed", "signal_blocked"}, threads);
    lost(Kind::kIoNotCounted, {"io_site_table_full", "io_file_table_full", "io_path_room_full"}, io_calls,
         true);
    lost(Kind::kMpiPathsLost, {"path_arena_full", "mpi_site_table_full"}, mpi_calls, true);
    lost(Kind::kMpiPeersLost, {"mpi_peer_table_full"}, messages);
    lost(Kind::kRegionsLost, {"region_table_full", "region_mismatch"}, regions);
    if (analysis_.wait_quality)
      lost(Kind::kMpiEventsLost, {"mpi_event_ring_full"},
           static_cast<double>(analysis_.wait_quality->events));
    // The time between is told by the samples that were taken.
    lost(Kind::kThrottled, {kThrottled}, samples);
    const Quality& quality = analysis_.quality;
    if (const double s = share_of(static_cast<double>(quality.truncated), samples);
        s >= thresholds::kTruncated)
      add(Kind::kCallPathsCut, Severity::kInfo, s);
    if (const double s =
            share_of(static_cast<double>(quality.merges_failed), static_cast<double>(quality.merges_tried));
        s >= thresholds::kMergeFailed)
      add(Kind::kFramesNotJoined, Severity::kInfo, s);
    if (analysis_.wait_quality) waiting_quality(*analysis_.wait_quality);
    if (samples == 0 && !analysis_.ranks.empty())
      add(Kind::kNoSamples, Severity::kInfo).evidence.set(Key::kCalls, mpi_calls);
  }

  void waiting_quality(const WaitQuality& quality) {
    if (quality.event_level > 0)
      add(Kind::kWaitsSampled, Severity::kInfo)
          .evidence.set(Key::kOneIn, std::uint64_t{1} << std::min(quality.event_level, 63u));
    const auto share = [](std::uint64_t part, std::uint64_t whole) {
      return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    const double messages = share(quality.unmatched_messages, quality.messages);
    const double collectives = share(quality.unmatched_collectives, quality.collectives);
    if (const double s = std::max(messages, collectives); s >= thresholds::kUnmatched) {
      Finding& finding = add(Kind::kUnmatched, Severity::kInfo, s);
      finding.evidence.set(Key::kMessages, messages);
      finding.evidence.set(Key::kCollectives, collectives);
    }
    Evidence clocks;
    const bool early =
        quality.clock_violations != 0 && quality.worst_violation_s >= thresholds::kClockError_s;
    if (early) {
      clocks.set(Key::kViolations, static_cast<double>(quality.clock_violations));
      clocks.set(Key::kWorstViolation, quality.worst_violation_s);
    }
    if (analysis_.nodes.size() > 1) {
      if (!quality.clock_error_s)
        clocks.set(Key::kClocksApart, 1.0);
      else if (early || *quality.clock_error_s >= thresholds::kClockError_s)
        clocks.set(Key::kClockError, *quality.clock_error_s);
    }
    if (!clocks.entries.empty()) add(Kind::kClocks, Severity::kInfo).evidence = std::move(clocks);
  }

  const PathTime& time_;
  const CallPaths& paths_;
  Analysis& analysis_;
  const std::vector<bool> is_all_;         // by path: the whole program is below it
  std::vector<std::int32_t> delayed_by_;   // ranks with a finding on delay
  std::optional<std::size_t> of_slowest_;  // the finding that explains the slowest rank's imbalance
  bool transfer_named_ = false;
  struct Named {
    std::size_t finding;
    std::string function, file;
  };
  std::vector<Named> delay_places_, blocked_places_;  // functions in findings on delay; on blocked time
};

}  // namespace

void find_findings(const PathTime& time, const CallPaths& paths, Analysis& analysis) {
  Finder(time, paths, analysis).run();
}

}  // namespace clusterprof::report
