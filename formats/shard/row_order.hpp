// SPDX-License-Identifier: BSD-3-Clause
// Orders of the matrix tables. Internal to formats/.
#pragma once

namespace clusterprof::shard {

struct MatrixRows;  // formats/shard/rank_rows.hpp

enum class RowOrder {
  kByRank,  // rank, path; as RankRows has them
  kByPath,  // path, rank
};

// Rows of equal rank and path: values by category, the main thread's first; path_counters by counter. Takes
// time in proportion to the rows, and next to none when they are sorted already. Rows that agree in all of
// that stay in the order in which they were.
void sort_rows(MatrixRows& rows, RowOrder order);

[[nodiscard]] bool is_sorted(const MatrixRows& rows, RowOrder order);

}  // namespace clusterprof::shard
