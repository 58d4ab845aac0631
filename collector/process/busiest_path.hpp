// SPDX-License-Identifier: BSD-3-Clause
// Finds the path on which a thread spent the most time, in little memory: a fixed number of paths is counted,
// and a new one takes the place and the count of the one with the least (the algorithm SpaceSaving). A path
// with more than 1/kPaths of the time is always among them. Paths that differ in their last frame only can be
// counted as one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace clusterprof::collector {

class BusiestPath {
 public:
  void add(std::uint32_t path, std::uint64_t ns) { add(path, path, ns); }
  // `counted_as`: the path, or the one above it.
  void add(std::uint32_t counted_as, std::uint32_t path, std::uint64_t ns) {
    const auto found = std::find_if(counted_.begin(), counted_.end(),
                                    [counted_as](const Counted& at) { return at.counted_as == counted_as; });
    Counted& at =
        found != counted_.end() ? *found : *std::min_element(counted_.begin(), counted_.end(), has_less);
    at.counted_as = counted_as;
    at.path = path;
    at.ns += ns;
  }
  // The latest of those that were counted as the busiest one. 0: no path was added.
  [[nodiscard]] std::uint32_t path() const {
    return std::max_element(counted_.begin(), counted_.end(), has_less)->path;
  }

 private:
  static constexpr std::size_t kPaths = 16;
  struct Counted {
    std::uint32_t counted_as = 0, path = 0;
    std::uint64_t ns = 0;
  };
  static bool has_less(const Counted& a, const Counted& b) { return a.ns < b.ns; }

  std::array<Counted, kPaths> counted_{};
};

}  // namespace clusterprof::collector
