// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// The most rows of ranks, over all ranks together: 200 MB in memory, 335 MB while they are united. A merge
// has to hold all of them, whatever the number of ranks.
inline constexpr std::size_t kMaxSeriesRows = std::size_t{1} << 23;

// Brings the time series of several inputs onto one axis. Its bins are at least as wide as the widest bins of
// the inputs. They are widened until all fit into TimeAxis::kMaxBins and until there are fewer than most_rows
// rows of ranks, or only two bins. All rows of the inputs count for that, even those that are left out in the
// end; so the order of inputs does not matter. Memory is that of the rows of the result.
//
// Inputs must be valid (as read_shard leaves them). Not thread-safe.
class SeriesMerger {
 public:
  explicit SeriesMerger(std::size_t most_rows) : most_rows_(most_rows) {}

  // new_string: the new number of each of the input's strings. left_out: for each rank of the input, whether
  // its rows are skipped; empty: none is.
  void add(const shard::ShardData& input, std::size_t nodes, const std::vector<std::uint32_t>& new_string,
           const std::vector<bool>& left_out = {});

  [[nodiscard]] const std::vector<shard::Series>& series() const { return series_; }
  [[nodiscard]] std::size_t most_rows() const { return most_rows_; }

  // Fills the tables of `out`. For every rank and node of the inputs, in the order of add(), its row in
  // `out`, or kNone: left out. Several may be one node. Leaves the object empty.
  void finish(const std::vector<std::uint32_t>& new_rank, const std::vector<std::uint32_t>& new_node,
              const std::vector<std::uint32_t>& new_string, shard::ShardData& out);

 private:
  struct Cell {
    std::uint32_t series = 0, bin = 0;  // bin: after the track's first_bin
    std::uint64_t value = 0;
  };
  // The series of one rank or node of one input. The cells of a series stand together, in order of time.
  struct Track {
    std::uint64_t first_bin = 0;  // since 1970, in bins of bin_ns_
    std::vector<Cell> cells;
  };

  template <typename Row>
  void append(const shard::TimeAxis& axis, const std::vector<Row>& rows, std::uint32_t Row::*owner,
              const std::vector<std::uint32_t>& new_series, const std::vector<bool>& left_out,
              std::size_t first_track, std::vector<Track>& tracks);
  void put(std::vector<Cell>& cells, const Cell& cell) const;
  void widen(std::uint64_t bin_ns);
  [[nodiscard]] std::uint64_t bins(std::uint64_t bin_ns) const;
  void arrange(const std::vector<std::uint32_t>& new_series, const Track& track,
               std::vector<Cell>& cells) const;

  std::size_t most_rows_;
  std::size_t rows_ = 0;  // of ranks
  std::uint64_t bin_ns_ = 0;
  std::uint64_t begin_ns_ = 0, end_ns_ = 0;  // of all bins, since 1970
  std::vector<shard::Series> series_;
  std::map<std::pair<shard::StringIndex, shard::SeriesKind>, std::uint32_t> series_index_;
  std::vector<Track> rank_tracks_, node_tracks_;
};

}  // namespace clusterprof::aggregator
