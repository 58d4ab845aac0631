// SPDX-License-Identifier: BSD-3-Clause
// The tables path_statistics and path_quantiles: their columns, for reader and writer, and reading them.
// Internal to formats/.
#pragma once

#include "formats/h5/h5.hpp"
#include "formats/profile/path_statistics.hpp"

namespace clusterprof::profile {

// Calls column(name, field) for every column except the sums of squares; field(row) is a reference to the
// value in a PathStatistics.
template <typename Column>
void visit_statistics(Column column) {
  column(
      "ranks", [](auto& row) -> auto& { return row.ranks; });
  column(
      "inclusive_sum_ns", [](auto& row) -> auto& { return row.inclusive.sum_ns; });
  column(
      "inclusive_min_ns", [](auto& row) -> auto& { return row.inclusive.min_ns; });
  column(
      "inclusive_max_ns", [](auto& row) -> auto& { return row.inclusive.max_ns; });
  column(
      "inclusive_min_rank", [](auto& row) -> auto& { return row.inclusive.min_rank; });
  column(
      "inclusive_max_rank", [](auto& row) -> auto& { return row.inclusive.max_rank; });
  column(
      "exclusive_sum_ns", [](auto& row) -> auto& { return row.exclusive.sum_ns; });
  column(
      "exclusive_min_ns", [](auto& row) -> auto& { return row.exclusive.min_ns; });
  column(
      "exclusive_max_ns", [](auto& row) -> auto& { return row.exclusive.max_ns; });
  column(
      "exclusive_min_rank", [](auto& row) -> auto& { return row.exclusive.min_rank; });
  column(
      "exclusive_max_rank", [](auto& row) -> auto& { return row.exclusive.max_rank; });
}

// Does the same for the sums of squares. Each is stored as a column of float64, and exactly as two columns of
// uint64 whose names end in _low and _high.
template <typename Column>
void visit_squares(Column column) {
  column(
      "inclusive_sum_squares_ns2", [](auto& row) -> auto& { return row.inclusive.sum_squares_ns2; });
  column(
      "exclusive_sum_squares_ns2", [](auto& row) -> auto& { return row.exclusive.sum_squares_ns2; });
}

// Throws h5::H5Error if the tables are damaged.
[[nodiscard]] PathStatisticsTable read_statistics(const h5::Group& root);

}  // namespace clusterprof::profile
