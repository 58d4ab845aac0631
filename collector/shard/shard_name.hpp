// SPDX-License-Identifier: BSD-3-Clause
// Finds a file name for the node's shard that no other collector of the run has: neither an earlier one on
// this node nor one on another machine with the same name. A hidden file claims the name until the shard
// exists. If nothing can be written there is no claim, and writing the shard will report why. One thread at a
// time.
#pragma once

#include <filesystem>
#include <string>

namespace clusterprof::collector {

class ShardName {
 public:
  // Claims a name. Removes half-written shards of earlier collectors of the node that were killed.
  ShardName(const std::filesystem::path& directory, const std::string& node);
  ShardName(const ShardName&) = delete;
  ShardName& operator=(const ShardName&) = delete;
  ~ShardName() { give_up(); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Removes the claim. Call it when a shard with that name exists, or never will.
  void give_up();

 private:
  std::filesystem::path path_, claim_;
};

}  // namespace clusterprof::collector
