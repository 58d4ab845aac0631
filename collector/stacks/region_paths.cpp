// SPDX-License-Identifier: BSD-3-Clause
#include "collector/stacks/region_paths.hpp"

#include <cstddef>
#include <vector>

namespace clusterprof::collector {

std::optional<RawFrame> RegionPaths::frame(std::uint32_t index) {
  if (const auto found = frames_.find(index); found != frames_.end()) return found->second;
  const wire::Region& region = segment_.table<wire::Region>(segment_.layout().regions_offset)[index];
  if (region.ready.load(std::memory_order_acquire) != 1) return std::nullopt;
  RawFrame frame{RawKind::kRegion, store_.name(bounded_text(region.name, sizeof region.name)), 0};
  const std::string domain = bounded_text(region.domain, sizeof region.domain);
  RegionOf of;
  if (!domain.empty()) of.domain = store_.name(domain) + 1;
  if (region.forward_words != 0) {
    const Forward forward = find_forward_(region.forward_offset, region.forward_words);
    if (!forward.settled && expects_more_) return std::nullopt;
    if (forward.frame) of.forward = *forward.frame + 1;
  }
  frame.b = of.packed();
  return frames_[index] = frame;
}

std::optional<std::uint32_t> RegionPaths::path(std::uint32_t index) {
  const auto* const regions = segment_.table<wire::Region>(segment_.layout().regions_offset);
  // Go up to a region whose path is known, and down again.
  std::vector<std::uint32_t> chain;
  std::uint32_t path = 0;
  for (std::uint32_t at = index; at != wire::kNoRegion; at = regions[at].parent) {
    if (at >= segment_.layout().regions || chain.size() >= shard::kMaxRegionDepth || !frame(at))
      return std::nullopt;
    if (const auto known = paths_.find(at); known != paths_.end()) {
      path = known->second;
      break;
    }
    chain.push_back(at);
  }
  std::size_t depth = chain.size();
  for (std::uint32_t at = path; at != 0; at = store_.tables().nodes[at].parent) ++depth;
  if (depth > shard::kMaxRegionDepth) return std::nullopt;
  for (std::size_t i = chain.size(); i-- > 0;) {
    const std::uint32_t inner = store_.region(path, store_.frame(*frame(chain[i])));
    if (inner == path) return std::nullopt;  // no room
    paths_[chain[i]] = path = inner;
  }
  return path;
}

}  // namespace clusterprof::collector
