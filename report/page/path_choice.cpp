// SPDX-License-Identifier: BSD-3-Clause
#include "report/page/path_choice.hpp"

#include <algorithm>
#include <numeric>

namespace clusterprof::report {
namespace {

// Sorted by time, largest first; at equal times a path comes before its descendants.
std::vector<std::uint32_t> by_time(std::span<const std::uint64_t> inclusive_ns) {
  std::vector<std::uint32_t> order(inclusive_ns.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return inclusive_ns[a] != inclusive_ns[b] ? inclusive_ns[a] > inclusive_ns[b] : a < b;
  });
  return order;
}

}  // namespace

PathSlots::PathSlots(const CallPaths& paths, std::span<const std::uint64_t> about_ns, std::size_t most) {
  std::vector<std::uint64_t> inclusive_ns(about_ns.begin(), about_ns.end());
  inclusive_ns.resize(paths.size());
  for (auto path = static_cast<std::uint32_t>(paths.size()); path-- > 1;)
    inclusive_ns[paths.parent(path)] += inclusive_ns[path];
  if (paths.size() <= most) {
    paths_.resize(paths.size());
    std::iota(paths_.begin(), paths_.end(), 0);
  } else {
    paths_.push_back(0);
    for (const std::uint32_t path : by_time(inclusive_ns)) {
      if (paths_.size() >= most || inclusive_ns[path] == 0) break;
      if (path != 0) paths_.push_back(path);
    }
    std::sort(paths_.begin(), paths_.end());
  }
  slot_.assign(paths.size(), shard::kNone);
  for (std::uint32_t i = 0; i < paths_.size(); ++i) slot_[paths_[i]] = i;
  // The slot of a parent, or the one for the rest below it, is known before those of its children.
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    if (slot_[path] != shard::kNone) continue;
    const std::uint32_t above = slot_[paths.parent(path)];
    slot_[path] = above < paths_.size() ? rest(above) : above;
  }
}

ShownTree::ShownTree(const CallPaths& paths, const PathSlots& slots, std::span<const std::uint64_t> self_ns,
                     std::size_t most) {
  const auto count = static_cast<std::uint32_t>(slots.paths().size());
  std::vector<std::uint32_t> parent(count, 0), parts(count, 0);  // parts: below it, with time
  std::vector<std::uint64_t> inclusive_ns(count);
  for (std::uint32_t s = count; s-- > 0;) {
    const std::uint64_t rest_ns = self_ns[slots.rest(s)];
    inclusive_ns[s] += self_ns[s] + rest_ns;
    if (rest_ns != 0) ++parts[s];
    if (s == 0 || inclusive_ns[s] == 0) continue;
    parent[s] = slots.slot(paths.parent(slots.paths()[s]));
    inclusive_ns[parent[s]] += inclusive_ns[s];
    ++parts[parent[s]];
  }

  // Shows paths one by one, as long as they and their "others" nodes fit.
  std::vector<bool> shown(count, false);
  std::size_t size = 0;
  const auto show = [&](std::uint32_t s) {
    shown[s] = true;
    ++size;
    if (parts[s] != 0) ++size;
    if (s != 0 && --parts[parent[s]] == 0) --size;
  };
  show(0);
  for (const std::uint32_t s : by_time(inclusive_ns)) {
    if (s == 0) continue;
    if (inclusive_ns[s] == 0 || size + (parts[s] != 0 ? 2 : 1) - (parts[parent[s]] == 1 ? 1 : 0) > most)
      break;
    show(s);
  }

  std::vector<std::vector<std::uint32_t>> children(count);
  for (std::uint32_t s = 1; s < count; ++s)
    if (shown[s]) children[parent[s]].push_back(s);
  node_of_slot_.assign(slots.size(), 0);
  std::vector<std::uint32_t> others(count, 0);  // node; of shown ones alone
  struct Step {
    std::uint32_t slot, parent_node;
    bool others;
  };
  std::vector<Step> todo{{0, 0, false}};
  while (!todo.empty()) {
    const Step step = todo.back();
    todo.pop_back();
    const auto node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({step.parent_node, slots.paths()[step.slot], step.others});
    if (step.others) {
      others[step.slot] = node;
      continue;
    }
    node_of_slot_[step.slot] = node;
    if (parts[step.slot] != 0) todo.push_back({step.slot, node, true});
    const std::vector<std::uint32_t>& below = children[step.slot];
    for (std::size_t i = below.size(); i-- > 0;) todo.push_back({below[i], node, false});
  }

  // A path that is not shown belongs to its nearest ancestor that is. A path without time needs no "others"
  // node.
  std::vector<std::uint32_t> nearest(count, 0);
  for (std::uint32_t s = 0; s < count; ++s) {
    nearest[s] = shown[s] || s == 0 ? s : nearest[slots.slot(paths.parent(slots.paths()[s]))];
    const std::uint32_t above = nearest[s];
    if (!shown[s]) node_of_slot_[s] = inclusive_ns[s] != 0 ? others[above] : node_of_slot_[above];
    const bool rest = self_ns[slots.rest(s)] != 0;
    node_of_slot_[slots.rest(s)] = rest ? others[above] : node_of_slot_[above];
  }
}

}  // namespace clusterprof::report
