// SPDX-License-Identifier: BSD-3-Clause
// Keeps table path_series small: decides which call paths have rows of their own, and which path above them
// gets the time of the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// How many rows a node with so many ranks may have. A row takes 3.5 to 4 bytes in the file (measured): 1 kB
// per rank, or 30 kB on a node with few ranks.
[[nodiscard]] std::size_t max_path_series_rows(std::size_t ranks);

struct PathWeight {
  std::uint32_t path = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t bins = 0;  // a bit for each bin in which it has time
};

// Returns, for each of `weights`, the path that gets its time: itself if it is kept, otherwise the nearest
// path above that is kept. A path is kept if its time, with what it gets from paths below, reaches a
// threshold. The threshold is the lowest one at which all kept paths together have at most max_bins bins. The
// root is always kept. weights: no path twice. parents: by path; 0 is the root, and parents come before their
// children.
[[nodiscard]] std::vector<std::uint32_t> keep_largest_paths(std::span<const std::uint32_t> parents,
                                                            std::span<const PathWeight> weights,
                                                            std::size_t max_bins);

// Adds up times and makes the rows of table path_series.
class PathTimeTable {
 public:
  explicit PathTimeTable(std::size_t paths) : row_of_(paths, kNone) {}

  void add(std::uint32_t path, std::uint32_t bin, std::uint64_t wall_ns);  // bin < kMaxPathBins
  // The sums are exact for any max_rows. The root may add kMaxPathBins rows to them.
  [[nodiscard]] std::vector<PathSeries> rows(const std::vector<Path>& paths, std::size_t max_rows) const;

 private:
  using Bins = std::array<std::uint64_t, kMaxPathBins>;
  std::vector<std::uint32_t> row_of_;  // by path
  std::vector<std::uint32_t> paths_;   // by row
  std::vector<Bins> times_;            // by row
};

}  // namespace clusterprof::shard
