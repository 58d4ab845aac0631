// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints that stay on a disk of their node until the end (--checkpoint local):
//
//   PLACE/clusterprof-UID/     mode 0700, ours
//     KEY.h5                   a shard, locked (flock) by its collector as long as that lives; KEY.new until
//                              there is a whole copy in it
//     KEY.claim, KEY.to        links to its place in the run directory: RUN/.node-NAME.claim becomes
//                              RUN/node-NAME.h5
//
// PLACE is $TMPDIR, /tmp or /dev/shm, the first that is ours to use and is no network file system.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace clusterprof {

// A new file for the checkpoints of one collector.
class LocalCheckpoints {
 public:
  // `claim`: the file in the run directory that is to become `shard`. nullopt: there is no such place.
  static std::optional<LocalCheckpoints> create(const std::filesystem::path& claim,
                                                const std::filesystem::path& shard,
                                                const std::vector<std::filesystem::path>& places);
  LocalCheckpoints(LocalCheckpoints&& other) noexcept = default;
  LocalCheckpoints& operator=(LocalCheckpoints&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Its name until there is a whole copy in it.
  [[nodiscard]] std::filesystem::path unnamed() const;
  // Locked. Once.
  [[nodiscard]] UniqueFd take_file() { return std::move(file_); }
  // Removes the file: the shard is in the run directory.
  void remove() const;

 private:
  LocalCheckpoints(std::filesystem::path path, UniqueFd file)
      : path_(std::move(path)), file_(std::move(file)) {}
  std::filesystem::path path_;
  UniqueFd file_;
};

// $TMPDIR, /tmp, /dev/shm.
std::vector<std::filesystem::path> places_for_checkpoints();
// Whether a file system is known to be on the node itself. `type`: as statfs gives it.
bool is_node_local(long type);

// Takes what collectors of ours on this node left behind when they were killed, or could not write their last
// shard, to the run directories that it is for, where these still lack it or have an older shard, and removes
// it here. What is locked is in use. The newest file comes first. May wait for the file servers of other runs
// without end, so only in a process that nobody waits for.
void bring_home_checkpoints(const std::vector<std::filesystem::path>& places);

}  // namespace clusterprof
