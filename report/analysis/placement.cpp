// SPDX-License-Identifier: BSD-3-Clause
// Findings about processors and memory: shared or busy processors, ranks bound across memory nodes, full
// memory.
#include "report/analysis/placement.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/evidence.hpp"

namespace clusterprof::report {
namespace {

using Key = EvidenceKey;
using Kind = FindingKind;

constexpr std::uint64_t kManyMajorFaults = 100;

// Ranks of a node whose processors overlap, directly or through others.
struct Group {
  std::vector<const RankInfo*> ranks;
  std::vector<std::uint32_t> processors;  // ascending
};

std::vector<Group> groups_of(const Analysis& a, const std::vector<const RankInfo*>& on_node) {
  std::vector<const RankInfo*> ranks;
  std::vector<std::vector<std::uint32_t>> sets;
  for (const RankInfo* const rank : on_node) {
    std::vector<std::uint32_t> set = processors_of(a, *rank);
    if (set.empty()) continue;
    ranks.push_back(rank);
    sets.push_back(std::move(set));
  }
  std::vector<std::size_t> group(ranks.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  const auto find = [&](std::size_t i) {
    while (group[i] != i) i = group[i] = group[group[i]];
    return i;
  };
  std::map<std::uint32_t, std::size_t> owner;
  for (std::size_t i = 0; i < sets.size(); ++i)
    for (const std::uint32_t processor : sets[i]) {
      const auto [known, is_new] = owner.try_emplace(processor, i);
      if (!is_new) group[find(i)] = find(known->second);
    }
  std::map<std::size_t, Group> result;
  for (std::size_t i = 0; i < ranks.size(); ++i) result[find(i)].ranks.push_back(ranks[i]);
  for (const auto& [processor, i] : owner) result[find(i)].processors.push_back(processor);
  std::vector<Group> groups;
  for (auto& [root, one] : result) groups.push_back(std::move(one));
  return groups;
}

// What the ranks of a group used and lost. It is unknown if one rank does not know it.
struct Load {
  double busy = 0;                // share of the processors' time
  double switched_out_per_s = 0;  // of the mean rank
  std::size_t threads = 0;
};
std::optional<Load> load_of(const Group& group) {
  double cpu_s = 0, elapsed_s = 0, switches_per_s = 0;
  Load load;
  for (const RankInfo* rank : group.ranks) {
    if (!rank->cpu_s || !rank->involuntary_switches || rank->elapsed_s <= 0) return {};
    cpu_s += *rank->cpu_s;
    elapsed_s = std::max(elapsed_s, rank->elapsed_s);
    switches_per_s += static_cast<double>(*rank->involuntary_switches) / rank->elapsed_s;
    load.threads += rank->threads;
  }
  load.busy = cpu_s / (elapsed_s * static_cast<double>(group.processors.size()));
  load.switched_out_per_s = switches_per_s / static_cast<double>(group.ranks.size());
  return load;
}

class Placement {
 public:
  explicit Placement(const Analysis& analysis) : a_(analysis), on_node_(analysis.nodes.size()) {
    for (const RankInfo& rank : a_.ranks)
      if (rank.node < on_node_.size()) on_node_[rank.node].push_back(&rank);
  }

  std::vector<Finding> run() {
    // If the kernel tells how long ranks waited for a processor, that decides: ranks that share processors
    // and yield to each other lose nothing. What one of them knows holds for those that share with it.
    const bool is_waiting = waiting();
    for (std::uint32_t n = 0; n < a_.nodes.size(); ++n) {
      const std::vector<Group> groups = groups_of(a_, on_node_[n]);
      bool named = is_waiting;
      if (!is_waiting)
        for (const Group& group : groups) named = (!knows_waiting(group.ranks) && shared(n, group)) || named;
      if (!named && !knows_waiting(on_node_[n])) busy(n, groups);
      across_memory_nodes(n);
      full_memory(n);
    }
    pages_from_disk();
    return united();
  }

 private:
  Finding& add(Kind kind, Severity severity, FindingAction action) {
    Finding& finding = findings_.emplace_back();
    finding.kind = kind;
    finding.severity = severity;
    finding.action = action;
    return finding;
  }
  Finding& add_of_node(Kind kind, Severity severity, FindingAction action, std::uint32_t node) {
    Finding& finding = add(kind, severity, action);
    finding.evidence.set(Key::kNode, a_.nodes[node].name);
    return finding;
  }
  static void about(Finding& finding, std::vector<std::int32_t> ranks) {
    std::sort(ranks.begin(), ranks.end());
    finding.rank = ranks.front();
    finding.ranks = std::move(ranks);
  }

  [[nodiscard]] static bool knows_waiting(const std::vector<const RankInfo*>& ranks) {
    return std::any_of(ranks.begin(), ranks.end(), [](const RankInfo* rank) {
      return rank->category_s[static_cast<std::size_t>(shard::Category::kRunnable)].has_value();
    });
  }

  // Adds one finding for all affected nodes; it names the worst of them. False: there is none.
  bool waiting() {
    const double share = lacked_share(a_);
    if (share < thresholds::kWaitingForProcessor) return false;
    std::vector<double> of_node(a_.nodes.size());
    std::vector<std::int32_t> ranks;
    LackedTime sum;
    double most_of_rank_s = 0;
    std::int32_t first = -1;
    for (const RankInfo& rank : a_.ranks) {
      const LackedTime lacked = lacked_time(a_, rank);
      sum.runnable_s += lacked.runnable_s;
      sum.mpi_runnable_s += lacked.mpi_runnable_s;
      if (rank.node < of_node.size()) of_node[rank.node] += lacked.all_s();
      if (lacked.all_s() >= thresholds::kWaitingForProcessor * rank.recorded_s) ranks.push_back(rank.rank);
      if (lacked.all_s() > most_of_rank_s) most_of_rank_s = lacked.all_s(), first = rank.rank;
    }
    Finding& finding = add(Kind::kWaitingForProcessor, severity_of(share), FindingAction::kNone);
    finding.share = share;
    finding.gain_s = std::min(most_of_rank_s, a_.run.elapsed_s);
    finding.ranks = std::move(ranks);
    finding.rank = first;
    finding.evidence.set(Key::kRunnable, sum.runnable_s);
    finding.evidence.set(Key::kMpiRunnable, sum.mpi_runnable_s);
    const auto most = std::max_element(of_node.begin(), of_node.end());
    if (most != of_node.end() && *most > 0)
      crowd(static_cast<std::uint32_t>(most - of_node.begin()), finding);
    return true;
  }

  // The mean number of threads that run or are ready on the node, and its processors, if these are fewer; and
  // what to do. Without the ranks' CPU time, as in a region or on standby, nobody knows who has the
  // processors.
  void crowd(std::uint32_t node, Finding& finding) {
    const NodeInfo& info = a_.nodes[node];
    finding.evidence.set(Key::kNode, info.name);
    std::set<std::int32_t> processors;
    double ready_s = 0, own_cpu_s = 0;
    bool knows_cpu = true;
    for (const RankInfo* rank : on_node_[node]) {
      ready_s += rank->category_s[static_cast<std::size_t>(shard::Category::kRunnable)].value_or(0) +
                 rank->mpi_runnable_s.value_or(0);
      own_cpu_s += rank->cpu_s.value_or(0);
      knows_cpu = knows_cpu && rank->cpu_s;
      if (const auto list = parse_number_list(rank->affinity)) processors.insert(list->begin(), list->end());
    }
    if (processors.empty())
      for (std::uint32_t i = 0; i < std::min(info.cpus, kMaxProcessors); ++i)
        processors.insert(static_cast<std::int32_t>(i));
    if (processors.empty()) return;
    if (on_node_[node].size() > processors.size()) finding.action = FindingAction::kFewerRanks;
    if (!knows_cpu || info.elapsed_s <= 0) return;
    const bool all_processors = processors.size() >= info.cpus;
    const double others_s =
        all_processors && info.busy ? std::max(0.0, *info.busy * info.cpus * info.elapsed_s - own_cpu_s) : 0;
    const double own = (ready_s + own_cpu_s) / info.elapsed_s;
    // Fewer than there are processors do not explain it: a limit (cgroup) does, or other threads at some
    // times only.
    const double ready_threads = own + others_s / info.elapsed_s;
    if (ready_threads > static_cast<double>(processors.size())) {
      finding.evidence.set(Key::kReadyThreads, ready_threads);
      finding.evidence.set(Key::kProcessors, std::vector<std::int32_t>(processors.begin(), processors.end()));
    }
    if (finding.action == FindingAction::kNone)
      finding.action = own > static_cast<double>(processors.size()) ? FindingAction::kFewerThreads
                                                                    : FindingAction::kFreeNode;
  }

  // A problem of one node usually affects others, too. So there is one finding of each kind. It has all
  // ranks, and the evidence of the group of ranks, or the node, that loses most.
  std::vector<Finding> united() {
    std::vector<Finding> result;
    for (Finding& finding : findings_) {
      const auto same = std::find_if(result.begin(), result.end(),
                                     [&](const Finding& other) { return other.kind == finding.kind; });
      if (same == result.end()) {
        if (finding.evidence.has(Key::kNode) && finding.kind != Kind::kWaitingForProcessor)
          finding.evidence.set(Key::kNodes, 1);
        result.push_back(std::move(finding));
        continue;
      }
      const auto loss = [](const Finding& one) {
        return std::tuple(one.gain_s.value_or(0), one.share.value_or(0), one.evidence.number(Key::kBusy),
                          one.evidence.number(Key::kMemoryUsed));
      };
      Finding other = std::move(finding);
      const bool same_node = same->evidence.name(Key::kNode) == other.evidence.name(Key::kNode);
      const double nodes = same->evidence.number(Key::kNodes) + (same_node ? 0 : 1);
      if (loss(other) > loss(*same)) std::swap(*same, other);
      same->evidence.set(Key::kNodes, static_cast<std::int64_t>(nodes));
      same->ranks.insert(same->ranks.end(), other.ranks.begin(), other.ranks.end());
      std::sort(same->ranks.begin(), same->ranks.end());
      if (other.share) {
        same->share = same->share.value_or(0) + *other.share;
        same->severity = std::min(same->severity, severity_of(*same->share));
      }
    }
    for (Finding& finding : result)
      if (finding.kind == Kind::kSharedProcessors) finding.severity = severity_of(*finding.share);
    return result;
  }

  bool shared(std::uint32_t node, const Group& group) {
    const std::optional<Load> load = load_of(group);
    const std::size_t processors = group.processors.size(), ranks = group.ranks.size();
    if (!load) return false;
    const bool lost = load->switched_out_per_s >= thresholds::kSwitchedOut_per_s;
    const bool full = load->busy >= thresholds::kBusy;
    std::vector<std::int32_t> numbers;
    for (const RankInfo* rank : group.ranks) numbers.push_back(rank->rank);
    if (ranks > processors && (lost || full)) {
      const double run_share = static_cast<double>(processors) / static_cast<double>(ranks);
      // A share of all ranks' time, like other shares.
      const double of_all =
          (1 - run_share) * static_cast<double>(ranks) / static_cast<double>(a_.ranks.size());
      Finding& finding =
          add_of_node(Kind::kSharedProcessors, severity_of(of_all), FindingAction::kFewerRanks, node);
      finding.share = of_all;
      finding.gain_s = (1 - run_share) * a_.run.elapsed_s;
      about(finding, std::move(numbers));
      finding.evidence.set(Key::kProcessors,
                           std::vector<std::int32_t>(group.processors.begin(), group.processors.end()));
      finding.evidence.set(Key::kRunShare, run_share);
      finding.evidence.set(Key::kBusy, std::min(1.0, load->busy));
      finding.evidence.set(Key::kSwitchedOut, load->switched_out_per_s);
      return true;
    }
    if (ranks > processors || load->threads <= processors || !lost || !full) return false;
    Finding& finding =
        add_of_node(Kind::kTooManyThreads, Severity::kMedium, FindingAction::kFewerThreads, node);
    about(finding, std::move(numbers));
    finding.gain_s =
        (1 - static_cast<double>(processors) / static_cast<double>(load->threads)) * a_.run.elapsed_s;
    finding.evidence.set(Key::kThreads, load->threads);
    finding.evidence.set(Key::kProcessors,
                         std::vector<std::int32_t>(group.processors.begin(), group.processors.end()));
    finding.evidence.set(Key::kBusy, std::min(1.0, load->busy));
    finding.evidence.set(Key::kSwitchedOut, load->switched_out_per_s);
    return true;
  }

  // Other work runs on the node, too.
  void busy(std::uint32_t node, const std::vector<Group>& groups) {
    const NodeInfo& info = a_.nodes[node];
    if (!info.busy || *info.busy < thresholds::kBusy || info.elapsed_s <= 0 || info.cpus == 0) return;
    double own_s = 0, switches_per_s = 0, ranks = 0;
    for (const Group& group : groups)
      for (const RankInfo* rank : group.ranks) {
        if (!rank->cpu_s || !rank->involuntary_switches || rank->elapsed_s <= 0) return;
        own_s += *rank->cpu_s;
        switches_per_s += static_cast<double>(*rank->involuntary_switches) / rank->elapsed_s;
        ++ranks;
      }
    const double own = own_s / (info.elapsed_s * info.cpus);
    if (ranks == 0 || switches_per_s / ranks < thresholds::kSwitchedOut_per_s) return;
    if (*info.busy - own < 1 - thresholds::kBusy) return;  // hardly any other work
    Finding& finding = add_of_node(Kind::kBusyNode, Severity::kMedium, FindingAction::kFreeNode, node);
    finding.gain_s = (*info.busy - own) * a_.run.elapsed_s;
    finding.evidence.set(Key::kBusy, *info.busy);
    finding.evidence.set(Key::kOwnBusy, std::min(own, *info.busy));
    finding.evidence.set(Key::kSwitchedOut, switches_per_s / ranks);
  }

  void across_memory_nodes(std::uint32_t node) {
    const NodeInfo& info = a_.nodes[node];
    if (info.numa_nodes < 2 || info.cpus == 0) return;
    std::vector<std::int32_t> across;
    for (const RankInfo* const rank : on_node_[node]) {
      const auto processors = parse_number_list(rank->affinity), memory = parse_number_list(rank->numa);
      if (processors && memory && memory->size() > 1 && processors->size() <= info.cpus / info.numa_nodes)
        across.push_back(rank->rank);
    }
    if (across.empty()) return;
    about(add_of_node(Kind::kAcrossMemoryNodes, Severity::kLow, FindingAction::kBindToMemoryNode, node),
          std::move(across));
  }

  void full_memory(std::uint32_t node) {
    const NodeInfo& info = a_.nodes[node];
    if (!info.memory_used_bytes || info.memory_bytes == 0) return;
    const double used = static_cast<double>(*info.memory_used_bytes) / static_cast<double>(info.memory_bytes);
    if (used < thresholds::kMemoryFull) return;
    double ranks_bytes = 0;
    const RankInfo* most = nullptr;
    for (const RankInfo* const rank : on_node_[node]) {
      if (!rank->max_rss_bytes) continue;
      ranks_bytes += static_cast<double>(*rank->max_rss_bytes);
      if (most == nullptr || *rank->max_rss_bytes > *most->max_rss_bytes) most = rank;
    }
    Finding& finding = add_of_node(Kind::kFullMemory, Severity::kMedium, FindingAction::kSpreadData, node);
    finding.evidence.set(Key::kMemoryUsed, *info.memory_used_bytes);
    finding.evidence.set(Key::kMemory, info.memory_bytes);
    if (most == nullptr) return;
    finding.rank = most->rank;
    finding.evidence.set(Key::kRanksRss, ranks_bytes);
    finding.evidence.set(Key::kRankRss, *most->max_rss_bytes);
  }

  void pages_from_disk() {
    const RankInfo* most = nullptr;
    std::vector<std::int32_t> ranks;
    for (const RankInfo& rank : a_.ranks) {
      if (rank.major_faults.value_or(0) < kManyMajorFaults || rank.elapsed_s <= 0) continue;
      if (static_cast<double>(*rank.major_faults) < thresholds::kMajorFaults_per_s * rank.elapsed_s) continue;
      ranks.push_back(rank.rank);
      if (most == nullptr || *rank.major_faults > *most->major_faults) most = &rank;
    }
    if (most == nullptr) return;
    Finding& finding = add(Kind::kPagesFromDisk, Severity::kMedium, FindingAction::kUseLessMemory);
    about(finding, std::move(ranks));
    finding.rank = most->rank;
    finding.evidence.set(Key::kMajorFaults, *most->major_faults);
    finding.evidence.set(Key::kMajorFaultsPerSecond,
                         static_cast<double>(*most->major_faults) / most->elapsed_s);
  }

  const Analysis& a_;
  std::vector<std::vector<const RankInfo*>> on_node_;
  std::vector<Finding> findings_;
};

}  // namespace

LackedTime lacked_time(const Analysis& analysis, const RankInfo& rank) {
  const auto of_category = [&rank](shard::Category category) {
    return rank.category_s[static_cast<std::size_t>(category)].value_or(0);
  };
  double waiting_s = rank.mpi_wait_s.value_or(0);
  if (!rank.mpi_wait_s && analysis.max_useful_s && rank.useful_s)
    waiting_s = *analysis.max_useful_s - *rank.useful_s;
  // A call that never returned waited for something that never came.
  for (const CallUnderWayRow& call : calls_under_way_of(analysis, rank.rank))
    if (call.main_thread) waiting_s = std::max(waiting_s, call.age_s);
  const double busy_s =
      std::max(0.0, of_category(shard::Category::kMpi) - rank.startup_s.value_or(0) - waiting_s);
  return {of_category(shard::Category::kRunnable), std::min(rank.mpi_runnable_s.value_or(0), busy_s)};
}

double lacked_share(const Analysis& analysis) {
  double lacked_s = 0;
  for (const RankInfo& rank : analysis.ranks) lacked_s += lacked_time(analysis, rank).all_s();
  return analysis.rank_seconds > 0 ? lacked_s / analysis.rank_seconds : 0;
}

std::vector<std::uint32_t> processors_of(const Analysis& analysis, const RankInfo& rank) {
  if (auto bound = parse_number_list(rank.affinity)) return std::move(*bound);
  if (rank.node >= analysis.nodes.size()) return {};
  std::vector<std::uint32_t> all(std::min(analysis.nodes[rank.node].cpus, kMaxProcessors));
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

double lost_to_processors(const Analysis& analysis) {
  double most_s = 0;
  for (const RankInfo& rank : analysis.ranks) most_s = std::max(most_s, lacked_time(analysis, rank).all_s());
  return analysis.focus_s > 0 ? std::min(1.0, most_s / analysis.focus_s) : 0;
}

Crowd crowd_of(const Analysis& analysis, const std::vector<const RankInfo*>& ranks, std::size_t processors) {
  std::set<std::int32_t> numbers;
  double all_cpu_s = 0;
  bool knows_cpu = true, has_children = false;
  for (const RankInfo* const rank : ranks) {
    numbers.insert(rank->rank);
    all_cpu_s += rank->cpu_s.value_or(0);
    knows_cpu = knows_cpu && rank->cpu_s;
    has_children = has_children || rank->processes > 1;
  }
  if (!has_children) return Crowd::kThreads;
  if (!knows_cpu) return Crowd::kUnknown;
  struct Children {
    double alive_s = 0, start_s = 0, end_s = 0;
  };
  double cpu_s = 0, sums_cpu_s = 0, most_s = 0;
  bool any = false;
  const auto is_child = [&](const ProcessRow& row) {
    return row.how != ProcessHow::kRank && row.cpu_s && numbers.contains(row.rank);
  };
  for (const ProcessRow& row : analysis.processes) {
    if (!is_child(row)) continue;
    any = true;
    cpu_s += *row.cpu_s;
    if (row.count > 1) sums_cpu_s += *row.cpu_s;
    if (row.count == 1) most_s = std::max(most_s, *row.cpu_s);
  }
  if (!any) return Crowd::kUnknown;
  if (cpu_s < thresholds::kExplained * all_cpu_s) return Crowd::kThreads;
  if (sums_cpu_s > thresholds::kExplained * cpu_s) return Crowd::kUnknown;
  constexpr double kWorks = 0.1;  // of what the one with most runs: others, as trackers of resources, do not
  std::map<std::int32_t, Children> by_rank;
  for (const ProcessRow& row : analysis.processes) {
    if (!is_child(row) || row.count > 1 || *row.cpu_s < kWorks * most_s) continue;
    const auto [found, is_new] = by_rank.try_emplace(row.rank);
    Children& children = found->second;
    children.alive_s += row.elapsed_s;
    children.start_s = is_new ? row.start_s : std::min(children.start_s, row.start_s);
    children.end_s = std::max(children.end_s, row.start_s + row.elapsed_s);
  }
  double at_a_time = 0;
  for (const auto& [rank, children] : by_rank)
    if (children.end_s > children.start_s)
      at_a_time += children.alive_s / (children.end_s - children.start_s);
  return at_a_time > static_cast<double>(processors) ? Crowd::kProcesses : Crowd::kThreads;
}

void advise_fewer_processes(Analysis& analysis) {
  for (Finding& finding : analysis.findings) {
    if (finding.kind != Kind::kWaitingForProcessor || finding.action != FindingAction::kFewerThreads)
      continue;
    const std::string node = finding.evidence.name(Key::kNode);
    std::vector<const RankInfo*> ranks;
    for (const RankInfo& rank : analysis.ranks)
      if (rank.node < analysis.nodes.size() && analysis.nodes[rank.node].name == node) ranks.push_back(&rank);
    const Crowd crowd = crowd_of(analysis, ranks, finding.evidence.list(Key::kProcessors).size());
    if (crowd == Crowd::kProcesses) finding.action = FindingAction::kFewerProcesses;
    if (crowd == Crowd::kUnknown) finding.action = FindingAction::kNone;
  }
}

std::vector<Finding> placement_findings(const Analysis& analysis) { return Placement(analysis).run(); }

}  // namespace clusterprof::report
