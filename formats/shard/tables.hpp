// SPDX-License-Identifier: BSD-3-Clause
// The tables of ShardData, which shards and profiles have in common. Internal to formats/.
#pragma once

#include <cstddef>

#include "base/result.hpp"
#include "formats/h5/h5.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// Which tables to read or write.
enum class Tables {
  kAll,
  kSummary,   // those of read_shard_summary()
  kPaths,     // kSummary, and strings, frames, paths, counters, matrix
  kHead,      // those of read_shard_head()
  kNoMatrix,  // all but values, path_counters, data_accesses
};

// Both throw h5::H5Error. read_tables() leaves a table that it does not read empty.
void write_tables(h5::Group& root, const ShardData& data, Tables which = Tables::kAll);
[[nodiscard]] ShardData read_tables(const h5::Group& root, Tables which);

// Reads the matrix tables of a shard (values, path_counters, data_accesses). ranks: number of rows of table
// ranks.
[[nodiscard]] MatrixRows read_matrix(const h5::Group& root, std::size_t ranks);

// Checks that `data` is consistent: indices are in range, parents come before children, no rank is listed
// twice, an id is the hash of its path, no region lies inside a function, events and series are in order, and
// the time axes fit together. The Error says what is wrong. Tables that were not read are empty and pass,
// unless other tables refer to their rows.
Result<void> validate(const ShardData& data);

// Does the same for rows of the matrix tables alone. `bounds`: number of rows of the tables that they refer
// to.
struct MatrixBounds {
  std::size_t ranks = 0, paths = 0, counters = 0;
};
Result<void> validate(const MatrixRows& rows, const MatrixBounds& bounds);

}  // namespace clusterprof::shard
