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

// A node's block as it is stored: chunks of all columns, compressed, and what says where they belong. Depends
// on the node's rows alone (not on other nodes, nor on the process that made it), but for the numbers of
// paths, ranks and counters, which are the profile's. Can be sent and stored: it is plain bytes.
struct EncodedBlock {
  std::vector<std::byte> bytes;
};

// `rows`: of one node, numbered as in the profile; is sorted by (path, rank, ...), fastest when it comes by
// rank and path. Rows that are the same but for their amounts become one. No HDF5 in it: may run on any
// thread. Throws std::length_error for 2^32 rows or more.
EncodedBlock encode_block(std::uint32_t node, shard::MatrixRows rows);

}  // namespace clusterprof::profile
