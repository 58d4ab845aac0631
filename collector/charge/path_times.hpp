// SPDX-License-Identifier: BSD-3-Clause
// Wall time of the node's call paths over the time of the run, all processes and threads together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collector/charge/thread_account.hpp"
#include "collector/charge/time_series.hpp"
#include "collector/stacks/raw_store.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

struct PathTime {
  std::uint32_t path = 0;  // node of the RawStore
  Stretch when;
  std::uint64_t wall_ns = 0;  // may be less than the length of the stretch
};

// Memory is bounded: 4 bytes per node of the RawStore, and about 100 bytes and 8 per bin for each path that
// samples found, kMaxRows paths at most. If there are more, the time of small ones is added to paths above
// them, as keep_largest_paths() does, so sums stay exact.
class PathTimes {
 public:
  static constexpr std::size_t kMaxRows = 1u << 14;

  explicit PathTimes(const RawStore& store) : store_(store) {}

  TimeGrid& grid() noexcept { return grid_; }

  // Spreads the time over the bins of the stretch.
  void spend(std::uint32_t path, const Stretch& when, std::uint64_t wall_ns) {
    if (wall_ns == 0 || !grid_.begun()) return;
    if (path >= row_of_.size() || row_of_[path] == shard::kNone) add_row(path);
    Row& row = rows_[row_of_[path]];
    row.wall_ns += wall_ns;
    row.times.spread(grid_, 0, when.begin_ns, when.end_ns, wall_ns);
  }

  struct Cell {
    std::uint32_t path = 0, bin = 0;
    std::uint64_t wall_ns = 0;
  };
  struct Cells {
    shard::TimeAxis axis;     // bin_ns 0: there are no bins
    std::vector<Cell> cells;  // a path and bin may occur several times
  };
  // All times, including `open` ones that have not been added yet.
  [[nodiscard]] Cells cells(std::span<const PathTime> open);

  [[nodiscard]] std::size_t rows() const noexcept { return rows_.size(); }

 private:
  struct Row {
    std::uint32_t path = 0;
    std::uint64_t wall_ns = 0;
    SeriesBlock times{1};
  };
  void add_row(std::uint32_t path);
  void give_up_small_rows();

  const RawStore& store_;
  TimeGrid grid_{shard::kMaxPathBins};
  std::vector<std::uint32_t> row_of_;  // by node of the store
  std::vector<Row> rows_;
};

}  // namespace clusterprof::collector
