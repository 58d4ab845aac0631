// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace clusterprof::profile {

// The times that one node's ranks spent on their call paths, column by column, as a profile stores them. Rows
// are sorted by call path, then rank, then category, with the main thread before the other threads.
struct NodeTimes {
  std::vector<std::uint32_t> ranks;  // rows of the head's ranks
  std::vector<std::uint32_t> paths;  // call paths, ascending
  std::vector<std::uint32_t>
      first_rows;  // one more than paths: paths[i] has first_rows[i] to first_rows[i + 1]

  std::vector<std::uint32_t> rank;  // by row: index into ranks
  std::vector<std::uint8_t> category, main_thread;
  std::vector<std::uint64_t> wall_ns, cpu_ns;
  friend bool operator==(const NodeTimes&, const NodeTimes&) = default;
};

}  // namespace clusterprof::profile
