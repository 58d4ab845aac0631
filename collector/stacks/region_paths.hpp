// SPDX-License-Identifier: BSD-3-Clause
// The names of a process's regions (wire::Region), and the call paths that have them as their outermost
// frames. Indices are those of the process's table of regions. The thread that polls the process calls this.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "collector/rings/segment_view.hpp"
#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

class RegionPaths {
 public:
  // Both must outlive it.
  RegionPaths(const SegmentView& segment, RawStore& store) : segment_(segment), store_(store) {}

  // What names a region, index < layout().regions. No value: it is not described (yet).
  std::optional<RawFrame> frame(std::uint32_t index);
  // The node whose innermost frame is the region. No value: the regions around it are damaged, nested too
  // deeply or not described, or there is no room.
  std::optional<std::uint32_t> path(std::uint32_t index);

 private:
  const SegmentView& segment_;
  RawStore& store_;
  std::unordered_map<std::uint32_t, RawFrame> frames_;      // by region
  std::unordered_map<std::uint32_t, std::uint32_t> paths_;  // likewise
};

}  // namespace clusterprof::collector
