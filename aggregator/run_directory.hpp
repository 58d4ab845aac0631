// SPDX-License-Identifier: BSD-3-Clause
// A run directory: its shards, its profile, and getting from the ones to the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

inline constexpr const char* kProfileName = "profile.h5";

// node-*.h5 of the directory, by name. Error when it cannot be listed.
Result<std::vector<std::filesystem::path>> list_shards(const std::filesystem::path& run_dir);

struct MergeOptions {
  bool partial = false;  // leave damaged shards out, with a warning and a note, instead of failing
  bool write = true;     // profile.h5 into the run directory
};

struct MergeReport {
  shard::ShardData profile;
  std::size_t shards = 0;             // merged
  std::vector<std::string> warnings;  // one line each, for people
  std::optional<Error> write_error;   // profile.h5 could not be written; the rest is good
};

// Merges all shards of a run. run.complete is true when every shard is complete and no rank
// below run.world_size is missing; notes say what is missing.
// Error: no shard at all, or one is damaged (unless options.partial), or all are.
Result<MergeReport> merge_run(const std::filesystem::path& run_dir, const MergeOptions& options = {});

// The profile of a run: profile.h5 when it is up to date, or when there is nothing else; merged
// and, where the directory is writable, stored otherwise.
Result<shard::ShardData> load_run(const std::filesystem::path& run_dir);

// Whether profile.h5 was made from the shards that are there now.
bool is_up_to_date(const std::filesystem::path& run_dir);

// What load_run adds to the united data, for data merged by other means: completes
// run.complete and the notes by looking for missing ranks.
void note_missing_ranks(shard::ShardData& data);

}  // namespace clusterprof::aggregator
