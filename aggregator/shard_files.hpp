// SPDX-License-Identifier: BSD-3-Clause
// The files of a run directory that a merge reads and writes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/note.hpp"

namespace clusterprof::aggregator {

inline constexpr const char* kProfileName = "profile.h5";

// Lists node-*.h5 in the directory and in its subdirectories of shards (formats/shard/run_files.hpp), by
// name. Error when the directory cannot be listed.
Result<std::vector<std::filesystem::path>> list_shards(const std::filesystem::path& run_dir);
// Lists the shards once there is one, or once none is to be expected soon. When the launchers of a job are
// killed, as by MPICH's MPI_Abort, the job ends before its collectors, which go on writing. So this waits up
// to 10 s for their first shards.
Result<std::vector<std::filesystem::path>> await_shards(const std::filesystem::path& run_dir);

// What a listed shard is called within its run: "node-a.h5", "shards-3f/node-a.h5".
std::string name_of_shard(const std::filesystem::path& run_dir, const std::filesystem::path& shard);

// What a claim says about its shard where checkpoints stay on the node (--checkpoint local): "NODE:FILE",
// written by collector/shard/shard_file.cpp.
struct ShardOnNode {
  std::string node, file;
};
std::optional<ShardOnNode> shard_on_node(int directory, const std::string& claim);
// Notes on nodes whose shard is not in the run directory but on a disk of the node, because their collector
// was killed or is still at work (--checkpoint local).
std::vector<shard::Note> notes_on_shards_left(const std::filesystem::path& run_dir);
// What to tell the user of a run directory that has no shard, without its name.
std::string nothing_found(const std::filesystem::path& run_dir);

}  // namespace clusterprof::aggregator
