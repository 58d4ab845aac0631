// SPDX-License-Identifier: BSD-3-Clause
// Builds the node's shard from a snapshot and writes it, replacing the previous one. One thread at a time,
// not necessarily the one that feeds the NodeState.
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

  // Tries up to `tries` times. The Error tells why the last try failed; the previous shard is still there
  // then. Throws std::bad_alloc if there is no memory even for the Error.
  Result<void> write(const NodeSnapshot& snapshot, int tries,
                     const ShardBuilder::MayReadLines& may_read_lines);

 private:
  Result<void> try_to_write(const NodeSnapshot& snapshot, const ShardBuilder::MayReadLines& may_read_lines);

  ShardName name_;
  ShardBuilder builder_;
};

}  // namespace clusterprof::collector
