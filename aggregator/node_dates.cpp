// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/node_dates.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace clusterprof::aggregator {

using namespace shard;

namespace {

// Nodes that ran at the same time.
struct NodesTogether {
  std::int64_t begin_utc_ns = 0, end_utc_ns = 0;
  std::vector<std::string> names;
};

// So that it is still valid, as the begin of what lasts so long. 0: not known.
void move_time(std::int64_t& utc_ns, std::int64_t by_ns, std::uint64_t lasts_ns = 0) {
  if (utc_ns == 0) return;
  if (__builtin_add_overflow(utc_ns, by_ns, &utc_ns)) utc_ns = by_ns < 0 ? kEarliest_utc_ns : kLatest_utc_ns;
  utc_ns = std::clamp(utc_ns, kEarliest_utc_ns, kLatest_utc_ns - static_cast<std::int64_t>(lasts_ns));
}

void move_bins(TimeAxis& axis, std::int64_t by_ns, std::uint32_t max_bins) {
  if (axis.bin_ns == 0) return;
  const auto bin_ns = static_cast<std::int64_t>(axis.bin_ns);
  const std::int64_t nearest = (by_ns < 0 ? by_ns - bin_ns / 2 : by_ns + bin_ns / 2) / bin_ns;
  const std::int64_t first = axis.origin_utc_ns / bin_ns;
  const std::int64_t last = static_cast<std::int64_t>(TimeAxis::kEnd_utc_ns) / bin_ns - max_bins;
  axis.origin_utc_ns = std::clamp<std::int64_t>(first + nearest, 0, std::max(first, last)) * bin_ns;
}

}  // namespace

void NodeDates::add(const std::string& node, const Rank& rank) {
  if ((rank.flags & kUsedMpi) == 0) return;
  restarts_.insert(rank.restart);
  const Span ran{rank.start_utc_ns, rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns)};
  const auto [entry, added] = spans_.try_emplace(node, ran);
  if (added) return;
  Span& span = entry->second;
  span.begin_utc_ns = std::min(span.begin_utc_ns, ran.begin_utc_ns);
  span.end_utc_ns = std::max(span.end_utc_ns, ran.end_utc_ns);
}

std::map<std::string, std::int64_t> NodeDates::corrections() const {
  if (spans_.size() < 2 || restarts_.size() > 1) return {};
  std::vector<std::pair<Span, std::string>> nodes;
  for (const auto& [name, span] : spans_) nodes.emplace_back(span, name);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const auto& a, const auto& b) { return a.first.begin_utc_ns < b.first.begin_utc_ns; });
  std::vector<NodesTogether> groups;
  for (const auto& [span, name] : nodes) {
    if (groups.empty() || span.begin_utc_ns > groups.back().end_utc_ns)
      groups.push_back({span.begin_utc_ns, span.end_utc_ns, {}});
    groups.back().end_utc_ns = std::max(groups.back().end_utc_ns, span.end_utc_ns);
    groups.back().names.push_back(name);
  }
  const NodesTogether& right = *std::max_element(
      groups.rbegin(), groups.rend(),
      [](const NodesTogether& a, const NodesTogether& b) { return a.names.size() < b.names.size(); });
  const std::int64_t least_ns = std::max(right.end_utc_ns - right.begin_utc_ns, kLeastApart_ns);
  std::map<std::string, std::int64_t> corrections;
  for (const NodesTogether& group : groups) {
    const std::int64_t apart_ns =
        std::max(group.begin_utc_ns - right.end_utc_ns, right.begin_utc_ns - group.end_utc_ns);
    if (&group == &right || apart_ns <= least_ns) continue;
    for (const std::string& name : group.names)
      corrections.emplace(name, right.begin_utc_ns - group.begin_utc_ns);
  }
  return corrections;
}

void move_dates(ShardData& data, std::int64_t by_ns) {
  move_time(data.run.start_utc_ns, by_ns);
  for (Node& node : data.nodes) {
    move_time(node.start_utc_ns, by_ns, node.elapsed_ns);
    move_time(node.as_of_utc_ns, by_ns);
    move_time(node.held_peak_utc_ns, by_ns);
  }
  for (Rank& rank : data.ranks) move_time(rank.start_utc_ns, by_ns, rank.elapsed_ns);
  for (MemorySpace& space : data.memory_spaces) move_time(space.peak_utc_ns, by_ns);
  for (Process& process : data.processes) move_time(process.start_utc_ns, by_ns, process.elapsed_ns);
  for (Thread& thread : data.threads) move_time(thread.start_utc_ns, by_ns, thread.elapsed_ns);
  for (EventLoop& loop : data.event_loops) {
    move_time(loop.start_utc_ns, by_ns);
    move_time(loop.longest_utc_ns, by_ns, loop.longest_ns);
  }
  for (LoopBlock& block : data.loop_blocks) {
    move_time(block.start_utc_ns, by_ns);
    move_time(block.begin_utc_ns, by_ns, block.turn_ns);
  }
  move_bins(data.time_axis, by_ns, TimeAxis::kMaxBins);
  move_bins(data.path_axis, by_ns, kMaxPathBins);
}

}  // namespace clusterprof::aggregator
