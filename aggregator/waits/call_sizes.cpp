// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/waits/call_sizes.hpp"

#include <algorithm>

namespace clusterprof::aggregator::waits {

void CallSizes::add(std::uint32_t rank, std::uint32_t path, std::uint32_t events) {
  std::vector<Counted>& sizes = sites_[key(rank, path)];
  const auto known = std::find_if(sizes.begin(), sizes.end(),
                                  [events](const Counted& size) { return size.events == events; });
  if (known != sizes.end())
    ++known->calls;
  else if (sizes.size() < kMostSizes)
    sizes.push_back({events, 1});
}

std::uint32_t CallSizes::of_most(std::uint32_t rank, std::uint32_t path) const {
  const auto site = sites_.find(key(rank, path));
  if (site == sites_.end()) return 0;
  std::vector<Counted> sizes = site->second;
  std::sort(sizes.begin(), sizes.end(),
            [](const Counted& a, const Counted& b) { return a.events < b.events; });
  std::uint64_t calls = 0, smaller = 0;
  for (const Counted& size : sizes) calls += size.calls;
  for (const Counted& size : sizes) {
    smaller += size.calls;
    if (smaller * 10 > calls) return size.events;
  }
  return 0;
}

}  // namespace clusterprof::aggregator::waits
