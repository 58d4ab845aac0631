// SPDX-License-Identifier: BSD-3-Clause
// The columns of table path_statistics, for reader and writer. Internal to formats/.
#pragma once

#include "formats/profile/path_statistics.hpp"

namespace clusterprof::profile {

// Calls column(name, field) for each; field(PathStatistics) is a reference to it. The sums of squares are not
// among them: visit_squares().
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

// Each is a column of float64, and two of uint64 with _low and _high behind the name.
template <typename Column>
void visit_squares(Column column) {
  column(
      "inclusive_sum_squares_ns2", [](auto& row) -> auto& { return row.inclusive.sum_squares_ns2; });
  column(
      "exclusive_sum_squares_ns2", [](auto& row) -> auto& { return row.exclusive.sum_squares_ns2; });
}

}  // namespace clusterprof::profile
