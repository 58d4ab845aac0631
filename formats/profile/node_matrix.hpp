// SPDX-License-Identifier: BSD-3-Clause
// The matrix tables of a profile are stored in blocks, one per node: FORMATS.md, "Matrix blocks".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/rank_rows.hpp"

namespace clusterprof::profile {

// A node's block as it is stored: the compressed chunks of all columns, and where they belong. It depends
// only on the node's rows and on the profile's numbers of paths, ranks and counters, not on other nodes or on
// the process that made it. Plain bytes, which can be sent and stored.
struct EncodedBlock {
  std::vector<std::byte> bytes;
};

// Sorts `rows`, which are those of one node, numbered as in the profile, by (path, rank, ...). Fastest if
// they come sorted by rank and path. Adds up rows that differ only in their amounts. Does not use HDF5, so
// any thread may call it. Throws std::length_error for 2^32 rows or more.
EncodedBlock encode_block(std::uint32_t node, shard::MatrixRows rows);

}  // namespace clusterprof::profile
