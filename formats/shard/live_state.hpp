// SPDX-License-Identifier: BSD-3-Clause
// What a node's collector tells whoever watches its run: what ranks and threads do now, and what they have
// done so far. Written about once a second while somebody watches, in place, so it has a sequence number and
// a checksum; the file is in formats/run/run_control.hpp. Only programs of the same build read it, and nobody
// keeps it (docs/design/0022).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// Exclusive time of all ranks of the node on a call path, since the row was begun: wall time of main threads,
// running time of the others. Rows that get no time for a while end, and begin at 0 if they get some again.
struct LiveTime {
  std::uint32_t path = 0;  // index into paths
  Category category = Category::kNative;
  std::uint64_t wall_ns = 0;
  friend bool operator==(const LiveTime&, const LiveTime&) = default;
};

struct LiveState {
  std::uint64_t sequence = 0;  // one more each time it is written
  std::uint64_t watch = 0;     // times of states with the same number can be compared
  std::uint64_t memory_used_bytes = 0, memory_limit_bytes = 0;  // of the job on this node; 0: no limit
  // Of one node. Only run (without notes), strings, frames, paths, nodes, ranks, calls_under_way,
  // pending_requests, collective_counts, communicators and threads. A rank's amounts are those since its
  // start.
  ShardData data;
  std::vector<std::uint64_t> rss_bytes;  // by row of ranks: now; 0: not known
  std::vector<LiveTime> times;           // by path, then category
};

std::vector<std::byte> encode_live(const LiveState& state);
// The result needs no further checks, as that of read_shard(). kOtherVersion: of another build. kDamaged:
// nothing was written yet, it is being written at this moment, or it is damaged.
Result<LiveState> decode_live(std::span<const std::byte> bytes);

}  // namespace clusterprof::shard
