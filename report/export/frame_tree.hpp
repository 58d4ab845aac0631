// SPDX-License-Identifier: BSD-3-Clause
// The tree of call paths by function: paths that differ only in lines are one node.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

inline constexpr std::string_view kOutside = "(outside all calls)";

// Names for formats that tell functions apart only by name. Two functions have the same name only if their
// names, files and modules are the same.
std::vector<std::string> unique_names(const CallPaths& paths);  // by CallPaths::function

class FrameTree {
 public:
  struct Node {
    std::uint32_t parent = 0;
    std::uint32_t label = shard::kNone;  // index into labels; kNone: the root
  };
  struct Label {
    const shard::Frame* frame = nullptr;    // null: outside all calls
    std::uint32_t function = shard::kNone;  // kNone: no function but a region
  };

  FrameTree(const CallPaths& paths, bool regions);

  // [0] is the root, parents come before their children.
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<Label>& labels() const { return labels_; }
  // Never the root.
  [[nodiscard]] std::uint32_t node(std::uint32_t path) const { return node_[path]; }
  // Labels from the outermost one on.
  void stack(std::uint32_t node, std::vector<std::uint32_t>& labels) const;

 private:
  std::vector<Node> nodes_;
  std::vector<Label> labels_;
  std::vector<std::uint32_t> node_;
};

}  // namespace clusterprof::report
