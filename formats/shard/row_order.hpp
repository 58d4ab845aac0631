// SPDX-License-Identifier: BSD-3-Clause
// Orders of the matrix tables. Internal to formats/.
#pragma once

namespace clusterprof::shard {

struct MatrixRows;  // formats/shard/rank_rows.hpp

enum class RowOrder {
  kByRank,  // rank, path; as RankRows has them
  kByPath,  // path, rank
};

// Sorts rows. Within a rank and path, values are sorted by category, the main thread's first, and
// path_counters by counter. Stable. The time is proportional to the number of rows, and negligible if they
// are sorted already.
void sort_rows(MatrixRows& rows, RowOrder order);

[[nodiscard]] bool is_sorted(const MatrixRows& rows, RowOrder order);

}  // namespace clusterprof::shard
