// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <string>

#include "report/text/format.hpp"

namespace clusterprof::report {
namespace {

using text::percent;

constexpr std::uint32_t kMostProcessors = 65536;
constexpr std::uint64_t kManyMajorFaults = 100;

std::string ranks_of(std::vector<std::int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return fmt::format("{} {}", ranks.size() == 1 ? "Rank" : "Ranks", text::rank_list(ranks));
}

// Ranks of a node whose processors overlap, directly or through others.
struct Group {
  std::vector<const RankInfo*> ranks;
  std::vector<std::uint32_t> processors;  // ascending
};

std::vector<Group> groups_of(const Analysis& a, std::uint32_t node,
                             const std::vector<const RankInfo*>& on_node) {
  std::vector<const RankInfo*> ranks;
  std::vector<std::vector<std::uint32_t>> sets;
  for (const RankInfo* const rank : on_node) {
    auto set = parse_list(rank->affinity);
    if (!set && a.nodes[node].cpus != 0) {
      set.emplace(std::min(a.nodes[node].cpus, kMostProcessors));
      std::iota(set->begin(), set->end(), 0u);
    }
    if (!set || set->empty()) continue;
    ranks.push_back(rank);
    sets.push_back(std::move(*set));
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

// What the ranks of a group used and lost; nothing where a rank does not know it.
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
    for (std::uint32_t n = 0; n < a_.nodes.size(); ++n) {
      const std::vector<Group> groups = groups_of(a_, n, on_node_[n]);
      bool named = false;
      for (const Group& group : groups) named = shared(n, group) || named;
      if (!named) busy(n, groups);
      across_memory_nodes(n);
      full_memory(n);
    }
    pages_from_disk();
    return std::move(findings_);
  }

 private:
  Finding& add(std::string severity, std::optional<double> share, std::string sentence) {
    Finding& finding = findings_.emplace_back();
    finding.severity = std::move(severity);
    finding.share = share;
    finding.text = std::move(sentence);
    return finding;
  }
  std::string node_name(std::uint32_t node) const {
    return text::shorten_middle(text::printable(a_.nodes[node].name), 32);
  }

  bool shared(std::uint32_t node, const Group& group) {
    const std::optional<Load> load = load_of(group);
    const std::size_t processors = group.processors.size(), ranks = group.ranks.size();
    if (!load) return false;
    const bool lost = load->switched_out_per_s >= thresholds::kSwitchedOut_per_s;
    const bool full = load->busy >= thresholds::kBusy;
    std::vector<std::int32_t> numbers, list(group.processors.begin(), group.processors.end());
    for (const RankInfo* rank : group.ranks) numbers.push_back(rank->rank);
    if (ranks > processors && (lost || full)) {
      const double share = 1 - static_cast<double>(processors) / static_cast<double>(ranks);
      // Of all ranks' time, as other shares are.
      const double of_all = share * static_cast<double>(ranks) / static_cast<double>(a_.ranks.size());
      const char* const severity = of_all >= thresholds::kHigh     ? "high"
                                   : of_all >= thresholds::kMedium ? "medium"
                                                                   : "low";
      add(severity, of_all,
          fmt::format("{} share {} {} of node {}: each can run for at most {} of its time. They use {} of "
                      "the processors' time, and each is switched out {}/s. Start fewer ranks per node, or "
                      "bind each to "
                      "processors of its own.",
                      ranks_of(numbers), processors == 1 ? "processor" : "processors", text::rank_list(list),
                      node_name(node), percent(static_cast<double>(processors) / static_cast<double>(ranks)),
                      percent(std::min(1.0, load->busy)), text::count(load->switched_out_per_s)))
          .rank = *std::min_element(numbers.begin(), numbers.end());
      return true;
    }
    if (ranks > processors || load->threads <= processors || !lost || !full) return false;
    add("medium", std::nullopt,
        fmt::format("{} of node {} {} {} on {} that are busy {}, and each rank is switched out {}/s. Start "
                    "fewer threads (OMP_NUM_THREADS), or give each rank more processors.",
                    ranks_of(numbers), node_name(node), ranks == 1 ? "has" : "have",
                    text::plural(load->threads, "thread"), text::plural(processors, "processor"),
                    percent(std::min(1.0, load->busy)), text::count(load->switched_out_per_s)))
        .rank = *std::min_element(numbers.begin(), numbers.end());
    return true;
  }

  // More runs on the node than the ranks.
  void busy(std::uint32_t node, const std::vector<Group>& groups) {
    const NodeInfo& info = a_.nodes[node];
    if (!info.busy || *info.busy < thresholds::kBusy) return;
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
    add("medium", std::nullopt,
        fmt::format(
            "The processors of node {} are busy {}, with this job {}, and each of its ranks is switched "
            "out {}/s. Leave the node to one job, or processors to its other work.",
            node_name(node), percent(*info.busy), percent(std::min(own, *info.busy)),
            text::count(switches_per_s / ranks)));
  }

  void across_memory_nodes(std::uint32_t node) {
    const NodeInfo& info = a_.nodes[node];
    if (info.numa_nodes < 2 || info.cpus == 0) return;
    std::vector<std::int32_t> across;
    for (const RankInfo* const rank : on_node_[node]) {
      const auto processors = parse_list(rank->affinity), memory = parse_list(rank->numa);
      if (processors && memory && memory->size() > 1 && processors->size() <= info.cpus / info.numa_nodes)
        across.push_back(rank->rank);
    }
    if (across.empty()) return;
    const std::int32_t first = *std::min_element(across.begin(), across.end());
    add("low", std::nullopt,
        fmt::format(
            "{} of node {} {} bound to processors of several memory nodes although one has enough. Bind "
            "each rank within one memory node (--bind-to numa).",
            ranks_of(across), node_name(node), across.size() == 1 ? "is" : "are"))
        .rank = first;
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
    std::string sentence =
        fmt::format("The memory of node {} was {} full ({} of {})", node_name(node),
                    percent(std::min(1.0, used)), text::bytes(static_cast<double>(*info.memory_used_bytes)),
                    text::bytes(static_cast<double>(info.memory_bytes)));
    if (most != nullptr)
      sentence +=
          fmt::format("; its ranks had {} at their peaks, rank {} most with {}", text::bytes(ranks_bytes),
                      most->rank, text::bytes(static_cast<double>(*most->max_rss_bytes)));
    Finding& finding = add("medium", std::nullopt,
                           sentence + ". Start fewer ranks per node, or spread the data over more nodes.");
    if (most != nullptr) finding.rank = most->rank;
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
    add("medium", std::nullopt,
        fmt::format(
            "{} waited for pages from disk, of swapped out memory or mapped files: rank {} {} times, {}/s. "
            "Use less memory per node, or read files instead of mapping them.",
            ranks_of(ranks), most->rank, text::count(static_cast<double>(*most->major_faults)),
            text::count(static_cast<double>(*most->major_faults) / most->elapsed_s)))
        .rank = most->rank;
  }

  const Analysis& a_;
  std::vector<std::vector<const RankInfo*>> on_node_;
  std::vector<Finding> findings_;
};

}  // namespace

std::optional<std::vector<std::uint32_t>> parse_list(std::string_view text) {
  std::vector<std::uint32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](std::uint32_t& to) {
    const auto [next, error] = std::from_chars(at, end, to);
    if (error != std::errc() || to >= kMostProcessors) return false;
    at = next;
    return true;
  };
  while (at != end) {
    std::uint32_t first = 0;
    if (!number(first)) return {};
    std::uint32_t last = first;
    if (at != end && *at == '-') {
      ++at;
      if (!number(last) || last < first) return {};
    }
    for (std::uint32_t i = first; i <= last; ++i) numbers.push_back(i);
    if (at == end) break;
    if (*at != ',' || ++at == end || numbers.size() > kMostProcessors) return {};
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.empty()) return {};
  return numbers;
}

std::vector<Finding> placement_findings(const Analysis& analysis) { return Placement(analysis).run(); }

}  // namespace clusterprof::report
