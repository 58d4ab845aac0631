// SPDX-License-Identifier: BSD-3-Clause
// Merges the shards of a run directory into a profile, and opens a profile that is up to date.
#pragma once

#include <filesystem>
#include <functional>

#include "aggregator/merge_options.hpp"
#include "aggregator/shard_files.hpp"
#include "base/result.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Merges all shards of a run, one node at a time. Memory: the head, the distinct call paths and the rows of
// one node. The profile is the same to the last byte whatever the order of shards, the size of the team and
// what was merged before. run.complete is true when every shard is complete, no rank is lost and none below
// run.world_size is missing; notes say what is missing. Error (on all members): there is no shard at all, a
// shard is damaged (ErrorKind::kDamaged, unless options.partial), or all shards are damaged.
Result<MergeReport> merge_run(const std::filesystem::path& run_dir, const MergeOptions& options = {});

// Merges all shards of a run, which may be running, into a profile elsewhere, and leaves the run's directory
// as it is.
Result<MergeReport> merge_snapshot(const std::filesystem::path& run_dir, const std::filesystem::path& profile,
                                   MergeOptions options);

// Opens the profile of a run. Takes profile.h5 when it is up to date or when there is nothing else; otherwise
// merges and stores it. If the directory cannot be written, the profile lies in a temporary place until the
// reader is gone. Like a merge, this removes what killed ranks or collectors left (remove_leftovers).
Result<profile::ProfileReader> open_run(const std::filesystem::path& run_dir,
                                        RankObserver* observer = nullptr,
                                        const std::function<void(const MergeProgress&)>& progress = {});

// Loads the whole run into memory: for small runs and tests.
Result<shard::ShardData> load_run(const std::filesystem::path& run_dir);

// Whether profile.h5 was made from the shards that are there now.
bool is_up_to_date(const std::filesystem::path& run_dir);

}  // namespace clusterprof::aggregator
