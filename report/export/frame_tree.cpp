// SPDX-License-Identifier: BSD-3-Clause
#include "report/export/frame_tree.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/base_name.hpp"

namespace clusterprof::report {

using shard::Frame;
using shard::FrameKind;
using shard::kNone;

namespace {

// FlameGraph's palettes know these endings.
std::string ending(const CallPaths& paths, const Frame& frame) {
  if (frame.kind == FrameKind::kKernel) return "_[k]";
  return frame.kind == FrameKind::kNative && paths.text(frame.module) == "[jit]" ? "_[j]" : "";
}

std::string short_name(const CallPaths& paths, const Frame& frame) {
  std::string_view where = paths.text(frame.file);
  if (where.empty() && paths.text(frame.module) != "[jit]") where = paths.text(frame.module);
  std::string name = paths.text(frame.name);
  if (!where.empty() && frame.kind != FrameKind::kMpi) name.append(" (").append(base_name(where)).append(")");
  return name + ending(paths, frame);
}

std::string long_name(const CallPaths& paths, const Frame& frame) {
  std::string where = paths.text(frame.file);
  if (frame.kind == FrameKind::kPython && frame.function_line != 0)
    where += ":" + std::to_string(frame.function_line);
  const std::string& module = paths.text(frame.module);
  if (!module.empty()) where += (where.empty() ? "" : ", ") + module;
  std::string name = paths.text(frame.name);
  if (!where.empty()) name += " (" + where + ")";
  return name + ending(paths, frame);
}

}  // namespace

std::vector<std::string> unique_names(const CallPaths& paths) {
  std::vector<std::string> names;
  std::unordered_map<std::string, std::size_t> functions;
  for (const Frame* frame : paths.functions()) ++functions[names.emplace_back(short_name(paths, *frame))];
  for (std::size_t i = 0; i < names.size(); ++i)
    if (functions[names[i]] > 1) names[i] = long_name(paths, *paths.functions()[i]);
  return names;
}

FrameTree::FrameTree(const CallPaths& paths, bool regions) : nodes_(1), node_(paths.size(), 0) {
  for (const Frame* frame : paths.functions())
    labels_.push_back({frame, static_cast<std::uint32_t>(labels_.size())});
  std::unordered_map<std::string_view, std::uint32_t> region_labels;
  std::unordered_map<std::uint64_t, std::uint32_t> children;
  const auto child = [&](std::uint32_t parent, std::uint32_t label) {
    const auto [known, is_new] =
        children.try_emplace(std::uint64_t{parent} << 32 | label, static_cast<std::uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back({parent, label});
    return known->second;
  };
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    const std::uint32_t parent = node_[paths.parent(path)];
    std::uint32_t label = paths.function(path);
    const Frame* const frame = paths.frame(path);
    if (frame != nullptr && frame->kind == FrameKind::kKernel && is_descriptor_name(paths.text(frame->name)))
      label = kNone;
    if (frame != nullptr && frame->kind == FrameKind::kRegion && regions) {
      const auto [known, is_new] =
          region_labels.try_emplace(paths.text(frame->name), static_cast<std::uint32_t>(labels_.size()));
      if (is_new) labels_.push_back({frame, kNone});
      label = known->second;
    }
    node_[path] = label == kNone ? parent : child(parent, label);
  }
  labels_.push_back({});
  const std::uint32_t outside = child(0, static_cast<std::uint32_t>(labels_.size() - 1));
  for (std::uint32_t& node : node_)
    if (node == 0) node = outside;
}

void FrameTree::stack(std::uint32_t node, std::vector<std::uint32_t>& labels) const {
  labels.clear();
  for (; node != 0; node = nodes_[node].parent) labels.push_back(nodes_[node].label);
  std::reverse(labels.begin(), labels.end());
}

}  // namespace clusterprof::report
