// SPDX-License-Identifier: BSD-3-Clause
// The names of a process's regions (wire::Region), and the call paths that have them as their outermost
// frames. Indices are those of the process's table of regions. The thread that polls the process calls this.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

#include "collector/rings/segment_view.hpp"
#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

class RegionPaths {
 public:
  // Where a forward operator of PyTorch was called, from its call path in the process's arena.
  struct Forward {
    bool settled = true;                 // false: the path has frames that are not described yet
    std::optional<std::uint32_t> frame;  // of the RawStore
  };
  using FindForward = std::function<Forward(std::uint64_t offset, std::uint32_t words)>;

  // Both must outlive it.
  RegionPaths(const SegmentView& segment, RawStore& store, FindForward find_forward)
      : segment_(segment), store_(store), find_forward_(std::move(find_forward)) {}

  // From now on regions are described without what is not described yet: the process has ended.
  void expect_no_more() noexcept { expects_more_ = false; }

  // What names a region, index < layout().regions. No value: it is not described (yet).
  std::optional<RawFrame> frame(std::uint32_t index);
  // The node whose innermost frame is the region. No value: the regions around it are damaged, nested too
  // deeply or not described, or there is no room.
  std::optional<std::uint32_t> path(std::uint32_t index);

 private:
  const SegmentView& segment_;
  RawStore& store_;
  const FindForward find_forward_;
  bool expects_more_ = true;
  std::unordered_map<std::uint32_t, RawFrame> frames_;      // by region
  std::unordered_map<std::uint32_t, std::uint32_t> paths_;  // likewise
};

}  // namespace clusterprof::collector
