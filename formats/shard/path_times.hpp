// SPDX-License-Identifier: BSD-3-Clause
// Bounds for table path_series: which call paths are told apart, and where the time of the others goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// Rows that a node of so many ranks has at most. A row is 3.5 to 4 bytes in the file (measured): 1 kB per
// rank, or 30 kB on a node of few ranks.
[[nodiscard]] std::size_t most_path_series_rows(std::size_t ranks);

struct PathWeight {
  std::uint32_t path = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t bins = 0;  // a bit for each that has a part of it
};

// For each of `weights` (no two of one path) the path that its time is given to: its own, or the nearest one
// above that is kept. A path is kept when it and what it is given by those below have at least a certain
// time: as little as makes the bins of all together no more than most_bins. The root is kept always.
// parents: by path; 0 is the root, a parent comes before its children.
[[nodiscard]] std::vector<std::uint32_t> keep_largest_paths(std::span<const std::uint32_t> parents,
                                                            std::span<const PathWeight> weights,
                                                            std::size_t most_bins);

// Adds up times and makes the table of them.
class PathTimeTable {
 public:
  explicit PathTimeTable(std::size_t paths) : row_of_(paths, kNone) {}

  void add(std::uint32_t path, std::uint32_t bin, std::uint64_t wall_ns);  // bin < kMostPathBins
  // Sums are exact, whatever the number of rows; there may be kMostPathBins for the root.
  [[nodiscard]] std::vector<PathSeries> rows(const std::vector<Path>& paths, std::size_t most_rows) const;

 private:
  using Bins = std::array<std::uint64_t, kMostPathBins>;
  std::vector<std::uint32_t> row_of_;  // by path
  std::vector<std::uint32_t> paths_;   // by row
  std::vector<Bins> times_;            // by row
};

}  // namespace clusterprof::shard
