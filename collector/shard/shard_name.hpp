// SPDX-License-Identifier: BSD-3-Clause
// Finds a file name for the node's shard that no other collector of the run has: neither an earlier one on
// this node nor one on another machine with the same name. A hidden file claims the name; the first shard is
// written into it, and then it is renamed to the shard's name. If nothing can be written there is no claim,
// and writing the shard will report why. One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"

namespace clusterprof::collector {

struct ShardPlace {
  std::filesystem::path run_directory;
  std::string node;         // its name
  std::uint32_t nodes = 1;  // of the job: where there are many, their shards are in subdirectories
  bool local = false;       // checkpoints stay on the node
};

class ShardName {
 public:
  // Claims a name. Makes the subdirectory.
  explicit ShardName(const ShardPlace& place);
  ShardName(const ShardName&) = delete;
  ShardName& operator=(const ShardName&) = delete;
  ~ShardName() { give_up(); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::filesystem::path& claim() const { return claim_; }
  // The claim, open for reading and writing; none if it could not be made. Once.
  [[nodiscard]] UniqueFd take_file() { return std::move(file_); }
  // Call it when the claim has become the shard.
  void became_shard() { is_claimed_ = false; }
  // Removes the claim, if it has not become the shard.
  void give_up();
  // The claim stays, unless it became the shard.
  void keep() { is_claimed_ = false; }
  // Writes to the claim, and nothing else in it, where the shard is until it comes.
  void describe(const std::string& where) const;

 private:
  std::filesystem::path path_, claim_;
  UniqueFd file_;
  bool is_claimed_ = false;
};

}  // namespace clusterprof::collector
