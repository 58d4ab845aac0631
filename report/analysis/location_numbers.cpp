// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/location_numbers.hpp"

namespace clusterprof::report {

LocationNumbers::LocationNumbers(const shard::ShardData& head, const CallPaths& paths)
    : of_path_(paths.size(), 0) {
  std::vector<std::uint32_t> of_frame(head.frames.size(), 0);
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    const std::uint32_t place = paths.place(path);
    if (place == 0) continue;
    std::uint32_t& number = of_frame[head.paths[place].frame];
    if (number == 0) {
      number = static_cast<std::uint32_t>(first_path_.size());
      first_path_.push_back(place);
    }
    of_path_[path] = number;
  }
}

}  // namespace clusterprof::report
