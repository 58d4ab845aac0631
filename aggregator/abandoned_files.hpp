// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Removes temporary files of `file` (.FILE.<base/process_mark.hpp>.<random>.tmp beside it) whose writers were
// killed. Only files that are ours and that nobody has locked, as writers do (shard::NewFile). If the writer
// ran on this machine, and has ended, its file goes at once. The directory may be shared with other machines,
// whose processes cannot be seen. Their files go when no process of this machine has the writer's number and
// nobody has written to the file for ten minutes (for a day where files cannot be locked).
void remove_abandoned(const std::filesystem::path& file);

// How far a run is, judging by its shards.
struct RunProgress {
  bool all_came = false;                        // every rank of the job has a record
  bool all_ended = false;                       // and every shard is its collector's last
  std::chrono::seconds checkpoint_interval{0};  // if it is longer than usual
};
RunProgress progress_of(const shard::ShardData& head);

// Removes what killed launchers and collectors of the run left behind (shard::run_files.hpp, half-written
// shards) as soon as nobody can need it. That is so when the run is far enough, or when no shard was written
// to for a minute, which living collectors do every few seconds (plus the interval of checkpoints if that is
// longer), and none is still on its node (--checkpoint local). `progress` is called only when there is
// something to decide. Nothing is removed from a run directory that is not ours: its owner could make a name
// mean something else between two looks.
void remove_leftovers(const std::filesystem::path& run_dir, const std::function<RunProgress()>& progress);

}  // namespace clusterprof::aggregator
