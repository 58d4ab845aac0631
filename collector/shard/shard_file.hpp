// SPDX-License-Identifier: BSD-3-Clause
// Builds the node's shard from a snapshot and writes it, replacing the previous one. One thread at a time,
// not necessarily the one that feeds the NodeState.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/local_checkpoints.hpp"
#include "base/process_mark.hpp"
#include "base/result.hpp"
#include "collector/node/node_snapshot.hpp"
#include "collector/os/settings_reader.hpp"
#include "collector/shard/shard_builder.hpp"
#include "collector/shard/shard_name.hpp"
#include "formats/shard/two_copies.hpp"

namespace clusterprof::collector {

class ShardFile {
 public:
  // `builder`: also used by others.
  explicit ShardFile(const ShardPlace& place,
                     std::shared_ptr<SharedShardBuilder> builder = std::make_shared<SharedShardBuilder>());
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;
  ~ShardFile();

  // kUrgent: a checkpoint that goes to the run directory even if the others do not, because the node may be
  // gone soon. kLast: is tried twice.
  enum class Which { kCheckpoint, kUrgent, kLast };
  // The Error tells why it failed; the previous shard is still there then. Throws std::bad_alloc if there is
  // no memory even for the Error.
  Result<void> write(const NodeSnapshot& snapshot, Which which,
                     const ShardBuilder::MayReadLines& may_read_lines);

 private:
  Result<void> try_to_write(const NodeSnapshot& snapshot, Which which,
                            const ShardBuilder::MayReadLines& may_read_lines);
  Result<void> write_image(std::span<const std::byte> image, Which which);
  Result<void> write_last(const shard::ShardData& data);

  ShardName name_;
  shard::TwoCopies copies_;
  // With ShardPlace::local, if there is a place for it, until the last shard is in the run directory.
  struct Local {
    LocalCheckpoints file;
    shard::TwoCopies copies;
    std::string where;  // for the claim
  };
  std::optional<Local> local_;
  bool lacks_local_place_ = false;
  SettingsReader settings_;
  const std::string own_mark_ = to_string(mark_of_this_process());
  const std::shared_ptr<SharedShardBuilder> builder_;
};

}  // namespace clusterprof::collector
