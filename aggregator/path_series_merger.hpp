// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Adds up the series by call path (path_series and memory_series) of several inputs on one axis. Its bins are
// as wide as the widest bins of the inputs, and are doubled until all fit into kMaxPathBins. So neither the
// order of inputs matters, nor which of them were united before. Memory: kMaxPathBins bins for each path that
// has rows, in each of the tables.
//
// Inputs must be valid (as read_shard leaves them). Not thread-safe.
class PathSeriesMerger {
 public:
  // The caller numbers the paths.
  void add(const shard::TimeAxis& axis, const std::vector<shard::PathSeries>& times,
           const std::vector<shard::MemorySeries>& memory = {});
  // Fills the tables of `out`; new_path: by path. Leaves the object empty.
  void finish(const std::vector<std::uint32_t>& new_path, shard::ShardData& out);

 private:
  using Bins = std::array<std::uint64_t, shard::kMaxPathBins>;
  struct Table {
    std::vector<std::uint32_t> row_of;  // by path
    std::vector<std::uint32_t> paths;   // by row
    std::vector<Bins> amounts;          // by row

    Bins& of(std::uint32_t path);
    // Calls visit(path, bin, amount) for those that are not 0, by path and bin.
    template <typename Visit>
    void for_each(const std::vector<std::uint32_t>& new_path, Visit&& visit);
  };

  // Sets the width of bins and makes room for them, from the one with begin_ns_ on.
  void set_width(std::uint64_t bin_ns);
  [[nodiscard]] std::uint64_t bins(std::uint64_t bin_ns) const;

  std::uint64_t bin_ns_ = 0;
  std::uint64_t begin_ns_ = 0, end_ns_ = 0;  // of all bins, since 1970
  std::uint64_t first_bin_ = 0;              // of the tables, since 1970, in bins of bin_ns_
  Table times_, memory_;
};

}  // namespace clusterprof::aggregator
