// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// Numbers the places of call paths (CallPaths::place). A place is named by its last frame, so all paths to
// one line have the same number. 0: not known.
class LocationNumbers {
 public:
  LocationNumbers(const shard::ShardData& head, const CallPaths& paths);

  [[nodiscard]] std::uint32_t of(std::uint32_t path) const { return of_path_[path]; }
  // How many numbers there are, with 0.
  [[nodiscard]] std::size_t size() const { return first_path_.size(); }
  // The first path that ends in this place; 0 for place 0.
  [[nodiscard]] std::uint32_t path(std::uint32_t place) const { return first_path_[place]; }

 private:
  std::vector<std::uint32_t> of_path_, first_path_{0};
};

}  // namespace clusterprof::report
