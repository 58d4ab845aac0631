// SPDX-License-Identifier: BSD-3-Clause
// Chooses the call paths that a page shows, and where the time of the others goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Slots in which the times of call paths are summed up while ranks are added. There is one slot for each path
// that may be shown, and behind them one per such path for the paths below it that cannot be shown. This
// bounds memory before the times are known.
class PathSlots {
 public:
  // `about_ns`: the approximate exclusive time of each path. The `most` paths with the largest inclusive time
  // can be shown.
  PathSlots(const CallPaths& paths, std::span<const std::uint64_t> about_ns, std::size_t most);

  [[nodiscard]] std::uint32_t slot(std::uint32_t path) const { return slot_[path]; }
  [[nodiscard]] std::size_t size() const { return paths_.size() * 2; }
  // Paths that may be shown, parents before children; the root comes first.
  [[nodiscard]] const std::vector<std::uint32_t>& paths() const { return paths_; }
  [[nodiscard]] std::uint32_t rest(std::uint32_t slot) const {
    return static_cast<std::uint32_t>(paths_.size()) + slot;
  }

 private:
  std::vector<std::uint32_t> paths_, slot_;
};

// The tree that is shown, once the times of the slots are known.
class ShownTree {
 public:
  struct Node {
    std::uint32_t parent = 0;
    std::uint32_t path = 0;  // of `others` the path that they are below
    bool others = false;
  };

  // Shows the paths with most time in at most `most` nodes, at least the root and one more. A path without
  // time is not shown, except the root.
  ShownTree(const CallPaths& paths, const PathSlots& slots, std::span<const std::uint64_t> self_ns,
            std::size_t most);

  // In preorder; children in the order of their paths, "others" last.
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  // The node that a slot's time belongs to.
  [[nodiscard]] std::uint32_t node(std::uint32_t slot) const { return node_of_slot_[slot]; }

 private:
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> node_of_slot_;
};

}  // namespace clusterprof::report
