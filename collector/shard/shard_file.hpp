// SPDX-License-Identifier: BSD-3-Clause
// The node's shard: builds it from a snapshot and writes it under the node's name, in the place of the one
// before. One thread at a time, not necessarily the one that feeds the NodeState.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.hpp"
#include "collector/node/node_snapshot.hpp"
#include "collector/shard/shard_builder.hpp"
#include "collector/shard/shard_name.hpp"

namespace clusterprof::collector {

class ShardFile {
 public:
  ShardFile(const std::filesystem::path& directory, const std::string& node) : name_(directory, node) {}

  // Tries `tries` times at most. An error tells why the last one failed; then the shard before it is still
  // there. Throws std::bad_alloc when there is no memory even for that.
  Result<void> write(const NodeSnapshot& snapshot, int tries,
                     const ShardBuilder::MayReadLines& may_read_lines);

 private:
  Result<void> try_to_write(const NodeSnapshot& snapshot, const ShardBuilder::MayReadLines& may_read_lines);

  ShardName name_;
  ShardBuilder builder_;
};

}  // namespace clusterprof::collector
