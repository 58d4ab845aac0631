// SPDX-License-Identifier: BSD-3-Clause
// Findings on threads that are blocked outside MPI: for the GIL, and for anything else.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "report/analysis/event_loops.hpp"
#include "report/analysis/evidence.hpp"
#include "report/analysis/finding_groups.hpp"
#include "report/analysis/limits.hpp"
#include "report/analysis/placement.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using Key = EvidenceKey;
using Kind = FindingKind;

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
    case OffCpu::kOpenMp:
    case OffCpu::kOther:
      break;
  }
  return FindingAction::kFindWhatIsAwaited;
}

// Whether most of the waiting for locks is for locks that another thread holds. Threads wait for a condition
// or for the result of another thread in the same way, but no thread could end that sooner by holding a lock
// for less time.
bool is_for_held_locks(const FindingBuilder& builder) {
  const CallPaths& paths = builder.paths();
  double held_ns = 0, all_ns = 0;
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    const double ns = builder.main_ns(path, Category::kIdle);
    if (ns == 0 || off_cpu_of(paths, path) != OffCpu::kLock || builder.is_input_wait(path)) continue;
    all_ns += ns;
    if (waits_for_holder(paths, path)) held_ns += ns;
  }
  return held_ns >= thresholds::kExplained * all_ns;
}

// Where the locks are held for which threads wait at the finding's line, else anywhere.
void name_holder(const Analysis& analysis, Finding& finding) {
  const MutexRow* most = nullptr;
  for (const MutexRow& row : analysis.mutexes) {
    const bool is_there = row.place.file == finding.place.file && row.place.line == finding.place.line &&
                          row.place.function == finding.place.function;
    if (most == nullptr || is_there) most = &row;
    if (is_there) break;
  }
  if (most == nullptr || most->holders.empty()) return;
  const MutexHolderRow& holder = most->holders.front();
  if (holder.wait_s < thresholds::kBlame * most->wait_s || holder.place.function.empty()) return;
  finding.site = holder.place;
  finding.evidence.set(Key::kSiteWait, holder.wait_s);
}

// Waits that another thread or process of the rank may end.
bool may_be_for_own_threads(OffCpu kind) {
  return kind != OffCpu::kSleep && kind != OffCpu::kFile && kind != OffCpu::kNetwork;
}

// How many processors all ranks have together.
double count_processors(const Analysis& analysis) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> known;  // by node
  for (const RankInfo& rank : analysis.ranks)
    if (rank.node < analysis.nodes.size())
      for (const std::uint32_t processor : processors_of(analysis, rank)) known.emplace(rank.node, processor);
  return static_cast<double>(known.size());
}

// The ranks run more than there are processors.
FindingAction advice_on_crowd(const Analysis& analysis, double processors) {
  std::vector<const RankInfo*> ranks;
  for (const RankInfo& rank : analysis.ranks) ranks.push_back(&rank);
  switch (crowd_of(analysis, ranks, static_cast<std::size_t>(processors))) {
    case Crowd::kThreads:
      return FindingAction::kFewerThreads;
    case Crowd::kProcesses:
      return FindingAction::kFewerProcesses;
    case Crowd::kUnknown:
      break;
  }
  return FindingAction::kNone;
}

// A main thread that is blocked while the rank's other threads use all its processors, or wait for one, would
// not end sooner by working, too, nor by other data: processors are what lacks.
void name_busy_threads(const FindingBuilder& builder, Finding& finding) {
  const Analysis& analysis = builder.analysis();
  double ran_s = 0, ready_s = 0;
  for (std::uint32_t path = 0; path < builder.paths().size(); ++path) {
    const auto helpers_s = [&](Category category) {
      return static_cast<double>(builder.time().helper_ns(builder.time().cell(path, category))) / 1e9;
    };
    ran_s += helpers_s(Category::kPython) + helpers_s(Category::kNative) + helpers_s(Category::kSystem);
    ready_s += helpers_s(Category::kRunnable);
  }
  const double processors = count_processors(analysis);
  if (processors == 0 || analysis.rank_seconds <= 0) return;
  // What they do while the main threads are blocked is taken to be what they do on the mean.
  const double rank_s = analysis.rank_seconds, ranks = static_cast<double>(analysis.ranks.size());
  const bool lacking = ready_s >= thresholds::kExplained * rank_s;
  const bool full = ran_s / rank_s * ranks >= thresholds::kBusy * processors;
  if (!lacking && !full) return;
  finding.evidence.set(Key::kThreadsRan, ran_s);
  finding.evidence.set(Key::kThreadsReady, ready_s);
  finding.gain_s.reset();
  if (!lacking) {
    finding.action = FindingAction::kNone;
    finding.severity = Severity::kInfo;
  } else {
    // Where they have less than half of the processors' time, others have it.
    const bool alone_too_many =
        (ran_s + ready_s) / rank_s * ranks > processors && ran_s / rank_s * ranks >= processors / 2;
    finding.action = alone_too_many ? advice_on_crowd(analysis, processors) : FindingAction::kFreeNode;
  }
}

// A shell, make or another program whose work is its child processes': there is nothing that it could do
// while they run, and they are what would have to be faster.
bool only_starts_children(const Analysis& analysis, const Limits& waits) {
  const double own_s = of(analysis.category_s, Category::kPython) +
                       of(analysis.category_s, Category::kNative) +
                       of(analysis.category_s, Category::kSystem);
  return own_s < thresholds::kOnlyStarts * waits.idle_s[static_cast<std::size_t>(OffCpu::kChild)];
}

}  // namespace

void name_awaited_children(const FindingBuilder& builder, Category category, Finding& finding) {
  const CallPaths& paths = builder.paths();
  double child_ns = 0;
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    const double ns = builder.is_input_wait(path) ? 0 : builder.main_ns(path, category);
    if (ns != 0 && off_cpu_of(paths, path) == OffCpu::kChild) child_ns += ns;
  }
  if (child_ns / 1e9 < thresholds::kExplained * finding.evidence.number(Key::kTime)) return;
  const Analysis& analysis = builder.analysis();
  std::vector<double> elapsed_s(analysis.process_groups.size());
  for (const ProcessRow& row : analysis.processes) elapsed_s[row.group] += row.elapsed_s;
  // Those of all ranks that were made at one line and run one program.
  struct Children {
    double count = 0, cpu_s = 0;
    double elapsed_s = 0;  // in which at least one of them ran, of each rank
    const ProcessGroup* most = nullptr;
  };
  std::map<std::tuple<std::string_view, std::uint32_t, std::string_view>, Children> by_line;
  for (std::size_t i = 0; i < analysis.process_groups.size(); ++i) {
    const ProcessGroup& group = analysis.process_groups[i];
    const bool is_placed = !group.created_by.file.empty() || !group.created_by.function.empty();
    if (group.how == ProcessHow::kRank || !is_placed) continue;
    Children& children = by_line[{group.created_by.file, group.created_by.line, group.program}];
    children.count += group.count;
    children.cpu_s += group.cpu_s;
    children.elapsed_s += std::min(elapsed_s[i], group.end_s - group.start_s);
    if (children.most == nullptr || group.top_s > children.most->top_s) children.most = &group;
  }
  // Others, which were not recorded, may be what is waited for.
  std::erase_if(by_line, [&](const auto& row) {
    return row.second.elapsed_s < thresholds::kExplained * child_ns / 1e9;
  });
  const auto largest = std::max_element(by_line.begin(), by_line.end(), [](const auto& x, const auto& y) {
    return x.second.cpu_s < y.second.cpu_s;
  });
  if (largest == by_line.end()) return;
  const Children& children = largest->second;
  finding.evidence.set(Key::kChildren, children.count);
  if (!children.most->program.empty()) finding.evidence.set(Key::kProgram, children.most->program);
  if (children.most->top_s > 0) finding.site = children.most->top;
}

void find_gil_waits(FindingBuilder& builder) {
  const Analysis& analysis = builder.analysis();
  const CallPaths& paths = builder.paths();
  const double threads_s = analysis.sampled_s - analysis.helper_idle_s;
  const Seconds& gil = analysis.active_activity_s[index(Activity::kGilWait)];
  if (!gil || threads_s <= 0 || *gil / threads_s < thresholds::kGil) return;
  const double share = *gil / threads_s;
  Finding& finding = builder.add_by_share(Kind::kGilWait, share);
  finding.gain_s = share * analysis.recorded_s;
  builder.blame_most(finding, builder.weigh([&](std::uint32_t path, Category category) {
    if (activity_of(paths, path, category) != Activity::kGilWait) return 0.0;
    return builder.main_ns(path, category) +
           static_cast<double>(builder.time().helper_ns(builder.time().cell(path, category)));
  }));
  finding.evidence.set(Key::kTime, *gil);
  finding.action = FindingAction::kUseProcesses;
}

void find_blocked_time(FindingBuilder& builder) {
  const Analysis& analysis = builder.analysis();
  const CallPaths& paths = builder.paths();
  Finding* const finding = builder.add_rank_time(
      Kind::kBlocked, Category::kIdle,
      [&](std::uint32_t path) {
        // A loop that has nothing to do waits for others, as it should.
        return activity_of(paths, path, Category::kIdle) != Activity::kGilWait &&
               !is_loop_wait(paths, path) && !builder.is_input_wait(path) && !is_openmp_wait(paths, path);
      },
      thresholds::kIdle, FindingAction::kFindWhatIsAwaited);
  if (finding == nullptr) return;
  // Waiting for the GIL is another finding; here its time is only told apart.
  Limits others = analysis.limits;
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    const double ns = builder.main_ns(path, Category::kIdle);
    if (ns == 0 || !(builder.is_input_wait(path) || is_loop_wait(paths, path))) continue;
    double& kind_s = others.idle_s[static_cast<std::size_t>(off_cpu_of(paths, path))];
    kind_s = std::max(0.0, kind_s - ns / 1e9);
  }
  double& gil_s = others.idle_s[static_cast<std::size_t>(OffCpu::kGil)];
  const double apart_s = std::max(gil_s, analysis.activity_s[index(Activity::kGilWait)].value_or(0));
  gil_s = 0;
  others.idle_s[static_cast<std::size_t>(OffCpu::kOpenMp)] = 0;  // other findings
  add_idle_kinds(others.idle_s, finding->evidence);
  if (apart_s > 0) finding->evidence.set(Key::kGil, apart_s);
  const auto most = std::max_element(others.idle_s.begin(), others.idle_s.end()) - others.idle_s.begin();
  finding->action = action_for_wait(static_cast<OffCpu>(most));
  if (static_cast<OffCpu>(most) == OffCpu::kChild) name_awaited_children(builder, Category::kIdle, *finding);
  if (finding->action == FindingAction::kHoldLockLess) {
    if (is_for_held_locks(builder)) return name_holder(analysis, *finding);
    finding->action = FindingAction::kFindWhatIsAwaited;
  }
  if (may_be_for_own_threads(static_cast<OffCpu>(most))) name_busy_threads(builder, *finding);
  if (finding->action == FindingAction::kStartChildrenEarlier && only_starts_children(analysis, others)) {
    finding->action = FindingAction::kNone;
    finding->severity = Severity::kInfo;
    finding->gain_s.reset();
  }
}

void find_blocked_loops(FindingBuilder& builder) {
  const EventLoopRow* worst = nullptr;
  std::vector<std::int32_t> ranks;
  for (const EventLoopRow& loop : builder.analysis().event_loops) {
    const double loop_s = loop.idle_s + loop.busy_s;
    if (loop.awaited_s < thresholds::kLoopBlocked_s || loop.awaited_s < thresholds::kLoopBlocked * loop_s)
      continue;
    if (ranks.empty() || ranks.back() != loop.rank) ranks.push_back(loop.rank);
    if (worst == nullptr || loop.awaited_s > worst->awaited_s) worst = &loop;
  }
  if (worst == nullptr) return;
  const double loop_s = worst->idle_s + worst->busy_s;
  Finding& finding = builder.add_by_share(Kind::kEventLoopBlocked, worst->awaited_s / loop_s);
  set_ranks(finding, std::move(ranks));
  finding.rank = worst->rank;
  finding.evidence.set(Key::kTime, worst->awaited_s);
  finding.evidence.set(Key::kWhole, loop_s);
  finding.evidence.set(Key::kLongest, worst->longest_s);
  finding.evidence.set(Key::kTurns, worst->blocked);
  // The share is of one loop's time, which may be little of all ranks'.
  if (builder.share_of_ranks(worst->awaited_s) < thresholds::kMedium) finding.severity = Severity::kLow;
  finding.action = FindingAction::kLeaveTheLoop;
  const auto most = std::max_element(
      worst->blocks.begin(), worst->blocks.end(),
      [](const LoopBlockRow& a, const LoopBlockRow& b) { return a.awaited_s < b.awaited_s; });
  if (most == worst->blocks.end()) return;
  finding.place = most->place;
  finding.evidence.set(Key::kPlaceTime, most->awaited_s);
}

}  // namespace clusterprof::report
