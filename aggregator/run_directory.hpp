// SPDX-License-Identifier: BSD-3-Clause
// A run directory: merging its shards to a profile, and opening the profile that is up to date.
#pragma once

#include <filesystem>
#include <functional>

#include "aggregator/merge_options.hpp"
#include "aggregator/shard_files.hpp"
#include "base/result.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Merges all shards of a run, a node at a time: memory is that of the head, of the distinct call paths and of
// one node's rows. The profile is the same to the last byte whatever the order of shards, the size of the
// team and what was merged before. run.complete is true when every shard is complete, no rank is lost and
// none below run.world_size is missing; notes say what is missing. Error (of all members): no shard at all,
// or one is damaged (ErrorKind::kDamaged, unless options.partial), or all are.
Result<MergeReport> merge_run(const std::filesystem::path& run_dir, const MergeOptions& options = {});

// The profile of a run, which like a merge tidies up where ranks or collectors were killed
// (remove_leftovers): profile.h5 when it is up to date, or when there is nothing else; merged and stored
// otherwise. Where the directory cannot be written the profile lies in a temporary place until the reader is
// gone.
Result<profile::ProfileReader> open_run(const std::filesystem::path& run_dir,
                                        RankObserver* observer = nullptr,
                                        const std::function<void(const MergeProgress&)>& progress = {});

// Everything of it in memory, for small runs and tests.
Result<shard::ShardData> load_run(const std::filesystem::path& run_dir);

// Whether profile.h5 was made from the shards that are there now.
bool is_up_to_date(const std::filesystem::path& run_dir);

}  // namespace clusterprof::aggregator
