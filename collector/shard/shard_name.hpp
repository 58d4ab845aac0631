// SPDX-License-Identifier: BSD-3-Clause
// Where the shard of a node goes: a name that no other collector of the run has, be it an earlier one of the
// node or one on another machine that goes by the same name. A hidden file beside it claims it until the
// shard is there. One thread at a time. Where nothing can be written there is no claim; writing the shard
// tells why.
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
  // Removes the claim: a shard of that name is there, or never will be.
  void give_up();

 private:
  std::filesystem::path path_, claim_;
};

}  // namespace clusterprof::collector
